"""What was known before a decision, as numbers: each column by its own kind.

- Numbers, truth values among them, are taken as they are, or scaled (mean 0, deviation 1) where
  columns of other kinds are beside them. Those missing or not finite are put at the mean.
- Categories have a column of 0 and 1 for each frequent level; levels that are less frequent share
  a few; rare and unknown ones are one level. So the width is bounded, whatever the column holds.
- Times are two categories: the hour and the weekday (of UTC, where a time zone is known).
- A column with missing values has one more, that says where.

Rewards are not looked at, so an encoder learned from all rows tells no fold of another.
"""

from __future__ import annotations

import datetime
import numbers
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType, NoneType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from offpolicy._core import validation as check
from offpolicy._core.types import Floats
from offpolicy.errors import LogError

NO_VALUE = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null",
)  # fmt: skip
"""Texts that stand for a missing value: in files of numbers, and among categories."""
FEWEST = 10
"""A level of a category that occurs less often is rare."""
_OWN, _OWN_OF_ALL = 32, 192
_SHARED, _SHARED_OF_ALL = 16, 64
"""Columns of 0 and 1 for a category's frequent levels, and for those that share; for all
categories together, unless there are very many."""
_MOST_LEVELS = 1024
_FAR = 1e6
"""A scaled number is at most so large."""
_HOURS = np.array([f"{hour:02d}" for hour in range(24)], dtype=object)
_WEEKDAYS = np.array(
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"], dtype=object
)

Kind = Literal["number", "category", "hour", "weekday"]


@dataclass(frozen=True, slots=True)
class ContextColumn:
    """How one column of a context becomes numbers."""

    position: int
    kind: Kind
    mean: float = 0.0
    scale: float = 1.0
    levels: tuple[str, ...] = ()
    """Those known by name, the most frequent first."""
    own: int = 0
    """So many of them have a column each."""
    shared: int = 0
    """So many columns are shared by the others."""
    rest: bool = False
    """Whether there were levels too rare to be known by name."""
    missing: bool = False
    """Whether there were missing values."""

    def __post_init__(self) -> None:
        counts = 0 <= self.own <= len(self.levels) and 0 <= self.shared <= len(self.levels)
        shares = self.own == len(self.levels) or self.shared > 0
        if not (counts and shares and np.isfinite(self.mean) and 0.0 < self.scale < np.inf):
            raise ValueError("a column of the context has no mean, scale or levels that can be")

    @property
    def width(self) -> int:
        """How many numbers it becomes."""
        return (self.own + self.shared or self.kind == "number") + self.rest + self.missing

    def places(self) -> dict[str, int]:
        """Of each known level, the column that is 1; of texts that stand for nothing, of none."""
        own, shared = self.own, self.shared
        place = {
            level: k if k < own else own + (k - own) % shared for k, level in enumerate(self.levels)
        }
        nothing = own + shared + self.rest if self.missing else -1
        return dict.fromkeys(NO_VALUE, nothing) | place

    def write(self, cells: NDArray[Any], out: Floats) -> None:
        """Fill ``out``, of `width` columns of 0, with what these cells become."""
        if self.kind == "number":
            x = as_numbers(cells)
            lost = ~np.isfinite(x)
            with np.errstate(over="ignore"):
                z = (np.where(lost, self.mean, x) - self.mean) / self.scale
            out[:, 0] = np.clip(z, -_FAR, _FAR)
            if self.missing:
                out[:, -1] = lost
            return
        place, texts = self.places(), _texts(cells, self.kind)
        rest = self.own + self.shared if self.rest else -1
        nothing = place[""]
        column = np.array([nothing if t is None else place.get(t, rest) for t in texts], np.int64)
        rows = np.flatnonzero(column >= 0)
        out[rows, column[rows]] = 1.0

    def unknown(self, cells: NDArray[Any]) -> int:
        """In how many cells there is a category that is not known by name."""
        if self.kind == "number":
            return 0
        known = self.places()
        return sum(t is not None and t not in known for t in _texts(cells, self.kind))


@dataclass(frozen=True)
class ContextEncoder:
    """From contexts to numbers, with what was fixed when it was learned; JSON can hold it."""

    inputs: int
    """How many columns a context has."""
    names: tuple[str, ...] | None
    columns: tuple[ContextColumn, ...]
    plain: bool
    """Whether all columns were numbers, none of them missing: they are taken as they are."""

    def __post_init__(self) -> None:
        positions = [column.position for column in self.columns]
        if set(positions) != set(range(self.inputs)):
            raise ValueError("the context's columns are not those that are encoded")
        if self.plain and (len(positions) > self.inputs or self._others):
            raise ValueError("only numbers are taken as they are")
        if self.names is not None and len(self.names) != self.inputs:
            raise ValueError("the context's names are not as many as its columns")

    @property
    def _others(self) -> bool:
        return any(column.kind != "number" for column in self.columns)

    @classmethod
    def fit(cls, context: NDArray[Any], names: Sequence[str] | None = None) -> ContextEncoder:
        """What to make of contexts like these, (n, d)."""
        d = context.shape[1]
        kinds = [kind_of(context[:, j]) for j in range(d)]
        categories = max(sum(kind == "category" for kind in kinds), 1)
        own = min(_OWN, max(_OWN_OF_ALL // categories, 4))
        shared = min(_SHARED, max(_SHARED_OF_ALL // categories, 2))
        columns: list[ContextColumn] = []
        for j, kind in enumerate(kinds):
            cells = context[:, j]
            if kind == "number":
                columns.append(_number(j, as_numbers(cells)))
            elif kind == "category":
                columns.append(_category(j, "category", _texts(cells, "category"), own, shared))
            else:
                columns += _time(j, cells)
        plain = {*kinds} <= {"number"} and not any(column.missing for column in columns)
        return cls(d, None if names is None else tuple(names), tuple(columns), plain)

    @property
    def width(self) -> int:
        """How many numbers a context becomes."""
        return self.inputs if self.plain else sum(column.width for column in self.columns)

    def __call__(self, context: NDArray[Any]) -> NDArray[Any]:
        """The numbers of each context, (n, width); plain ones uncopied, where none is missing."""
        if self.plain:
            return self._plain(context)
        out, start = np.zeros((len(context), self.width)), 0
        for column in self.columns:
            stop = start + column.width
            column.write(context[:, column.position], out[:, start:stop])
            start = stop
        return out

    def _plain(self, context: NDArray[Any]) -> NDArray[Any]:
        if context.dtype.kind in "biuf" and np.isfinite(context).all():
            return context
        out = np.empty(context.shape)
        for column in self.columns:
            x = as_numbers(context[:, column.position])
            out[:, column.position] = np.where(np.isfinite(x), x, column.mean)
        return out

    def unknown(self, context: NDArray[Any]) -> dict[str, int]:
        """By column, in how many contexts its category is not known by name: it was rare, or never
        seen, where the encoder was learned."""
        counts = {
            self.name_of(column.position): column.unknown(context[:, column.position])
            for column in self.columns
            if column.kind == "category"
        }
        return {name: count for name, count in counts.items() if count}

    def name_of(self, position: int) -> str:
        return f"column {position}" if self.names is None else self.names[position]

    def frame(self, context: NDArray[Any]) -> Any:
        """Contexts as a pandas frame, with their names: numbers, times and text as they are."""
        return named_frame(context, self.names or (), self._kinds)

    @property
    def _kinds(self) -> Mapping[int, str]:
        return MappingProxyType({column.position: column.kind for column in self.columns})


def _number(position: int, x: Floats) -> ContextColumn:
    finite = x[np.isfinite(x)]
    most = float(np.abs(finite).max()) if len(finite) else 0.0
    missing = len(finite) < len(x)
    if most == 0.0:
        return ContextColumn(position, "number", missing=missing)
    unit = finite / most  # Sums of the numbers themselves may be too large.
    mean, scale = float(unit.mean()) * most, float(unit.std()) * most
    moves = scale > 1e-12 * most
    return ContextColumn(position, "number", mean, scale if moves else 1.0, missing=missing)


def _category(position: int, kind: Kind, texts: list[Any], own: int, shared: int) -> ContextColumn:
    counts = Counter(texts)
    for nothing in (None, *NO_VALUE):
        counts.pop(nothing, None)
    frequent = [level for level, count in counts.items() if count >= FEWEST and _is_text(level)]
    frequent.sort(key=lambda level: (-counts[level], level))
    levels = tuple(frequent[:_MOST_LEVELS])
    own = min(own, len(levels))
    shared = min(shared, len(levels) - own)
    return ContextColumn(
        position, kind, levels=levels, own=own, shared=shared, rest=len(levels) < len(counts),
        missing=counts.total() < len(texts),
    )  # fmt: skip


def _time(position: int, cells: NDArray[Any]) -> list[ContextColumn]:
    """Hour and weekday; a whole column of dates has no hours, and missing ones are told once."""
    hour = _category(position, "hour", _texts(cells, "hour"), 24, 0)
    day = _category(position, "weekday", _texts(cells, "weekday"), 7, 0)
    if len(hour.levels) == 1 and not hour.rest:
        return [day]
    return [replace(hour, missing=False), day]


# -- cells -----------------------------------------------------------------------------------


def as_context(values: Any) -> NDArray[Any]:
    """Contexts as an array (n, d); what is no array keeps numbers and text apart."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
            array = np.asarray(values, dtype=object)
    except ValueError:
        sentence = "context must have as many numbers in every row."
        raise LogError(sentence, column="context") from None
    check.need_shape(array.ndim in (1, 2), "context", array, "(n, d)")
    return array.reshape(-1, 1) if array.ndim == 1 else array


def names_in(values: Any) -> tuple[str, ...] | None:
    """The names of a context's columns, if it is a frame whose columns have names."""
    names = getattr(values, "columns", None)
    if names is None or callable(names) or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names)


def named_frame(
    context: NDArray[Any], names: Sequence[str], kinds: Mapping[int, str] | None = None
) -> Any:
    """Contexts as a pandas frame."""
    try:
        import pandas as pd
    except ImportError:
        raise LogError(
            "The model asks for columns of the context by name, which takes pandas: pip install "
            "pandas.",
            column="context",
        ) from None
    if context.dtype.kind in "biuf":
        return pd.DataFrame(context, columns=list(names))
    columns: dict[str, Any] = {}
    for j, name in enumerate(names):
        cells = context[:, j]
        kind = kind_of(cells) if kinds is None else kinds[j]
        if kind == "number":
            columns[name] = as_numbers(cells)
        elif kind == "category":
            nothing = frozenset(NO_VALUE)
            texts = _texts(cells, "category")
            columns[name] = pd.Series([None if t in nothing else t for t in texts], dtype=object)
        else:
            columns[name] = _times(cells)
    return pd.DataFrame(columns)


def all_finite_numbers(context: NDArray[Any]) -> bool:
    """Whether a context is of numbers, none of them missing or infinite."""
    return context.dtype.kind in "biuf" and bool(np.isfinite(context).all())


def kind_of(cells: NDArray[Any]) -> Literal["number", "category", "hour"]:
    """What a column of a context holds: numbers, times ("hour") or, of any else, categories."""
    if cells.dtype.kind in "biufm":
        return "number"
    if cells.dtype.kind == "M":
        return "hour"
    if cells.dtype.kind != "O":
        return "category"
    values = cells.tolist()
    kinds = {kind for kind in set(map(type, values)) if kind.__name__ not in _NOTHING}
    if all(issubclass(kind, _NUMBER) for kind in kinds):
        return "number"
    if float in kinds and all(value != value for value in values if type(value) is float):
        kinds.discard(float)  # NaN for what is missing
    if all(issubclass(kind, _TIME) for kind in kinds):
        return "hour"
    return "category"


_NOTHING = (NoneType.__name__, "NAType", "NaTType")
_NUMBER = (numbers.Real, Decimal, np.bool_)
_TIME = (datetime.date, np.datetime64)


def as_numbers(cells: NDArray[Any]) -> Floats:
    """A column of a context as numbers; NaN for what is none."""
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            if cells.dtype.kind == "m":
                return np.where(np.isnat(cells), np.nan, cells.astype(np.int64).astype(np.float64))
            return np.asarray(cells, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return np.array([_as_number(value) for value in cells.tolist()], dtype=np.float64)


def _as_number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _texts(cells: NDArray[Any], kind: Kind) -> list[str | None]:
    """A column of categories as text; None for what is missing."""
    if kind != "category":
        when = _times(cells)
        if kind == "hour":
            names, place = _HOURS, when.astype("M8[h]").astype(np.int64) % 24
        else:
            names, place = _WEEKDAYS, (when.astype("M8[D]").astype(np.int64) + 3) % 7
        texts = names[place]
        texts[np.isnat(when)] = None
        return list(texts)
    return [value if type(value) is str else _as_text(value) for value in cells.tolist()]


def _as_text(value: Any) -> str | None:
    if value is None or type(value).__name__ in _NOTHING:
        return None
    if isinstance(value, float) and value != value:
        return None
    return str(value)


def _is_text(level: str) -> bool:
    """Whether a level can be written in UTF-8, as files of policies are."""
    return level.isascii() or level.encode(errors="ignore").decode() == level


def _times(cells: NDArray[Any]) -> NDArray[np.datetime64]:
    """A column of times, to the second, in UTC where they know their time zone."""
    if cells.dtype.kind == "M":
        return cells.astype("M8[s]")
    values = cells.tolist()
    if all(v is None or (type(v) is datetime.datetime and v.tzinfo is None) for v in values):
        return np.array(values, dtype="M8[s]")
    return np.array([_as_time(value) for value in values], dtype="M8[s]")


def _as_time(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        if value != value:
            return np.datetime64("NaT", "s")
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC)
        return np.datetime64(value.replace(tzinfo=None, microsecond=0), "s")
    if isinstance(value, np.datetime64):
        return value.astype("M8[s]")
    if isinstance(value, datetime.date):
        return np.datetime64(value).astype("M8[s]")
    return np.datetime64("NaT", "s")


def cell_bits(cells: NDArray[Any]) -> NDArray[np.uint64]:
    """64 bits for each cell of a context's column, the same for equal ones, on every machine."""
    if cells.dtype.kind in "biufm":
        return (as_numbers(cells) + 0.0).view(np.uint64)
    if cells.dtype.kind == "M":
        return cells.astype("M8[s]").astype(np.int64).view(np.uint64)
    values = cells.tolist()
    try:
        known = {value: _bits_of(value) for value in set(values)}
    except TypeError:  # what cannot be hashed
        return np.array([_bits_of(value) for value in values], dtype=np.uint64)
    return np.array([known[value] for value in values], dtype=np.uint64)


def _bits_of(value: Any) -> int:
    if isinstance(value, _NUMBER):
        return int(np.float64(_as_number(value) + 0.0).view(np.uint64))
    text = _as_text(value)
    raw = b"" if text is None else text.encode(errors="surrogatepass")
    return zlib.crc32(raw) << 32 | zlib.crc32(raw[::-1], 0xFFFF)
