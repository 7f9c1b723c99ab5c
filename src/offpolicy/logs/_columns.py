"""Which column of a frame plays which role, and reading frames through the Arrow interface."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.door import Door
from offpolicy._core.late import pa, pc
from offpolicy._core.ragged import offsets_of
from offpolicy._core.types import Ints
from offpolicy._core.validation import MISSING, count_of, glimpse, malformed, need, refuse
from offpolicy.errors import (
    LogError,
    OffpolicyError,
    ParameterError,
    Place,
    PropensityError,
    did_you_mean,
)
from offpolicy.logs._arms import FoundArms, check_constant_propensity, is_number
from offpolicy.logs._arrow_types import (
    holds_lists,
    holds_numbers,
    plain_type,
    refuse_no_number,
    refuse_unreadable,
    settled,
)
from offpolicy.logs._encoded import Encoded
from offpolicy.logs.labels import as_action_names


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns. One left out is looked for under the name of its role; one that is
    "" is not used even if it is there.

    What no column holds is said here too: ``actions``, the arms, if every decision could choose
    among the same; a number as ``propensity``, if it is the same for all of them (together they
    are the logger's probabilities of every arm); ``fill_reward``, what a missing reward counts as.

    ``logging`` and ``candidates`` hold lists (one entry per candidate); ``context`` names any
    number of columns, ``user_*`` all that begin so and play no other role, ``-user_name`` leaves
    one out of these. Without ``candidates``, ``action`` is a position in ``logging``; without
    both, it is a name and the log knows only what was chosen.
    """

    action: str | None = None
    reward: str | None = None
    propensity: str | float | None = None
    logging: str | None = None
    candidates: str | None = None
    cluster: str | None = None
    time: str | None = None
    row_weight: str | None = None
    context: Sequence[str] = ()
    decision: str | None = None
    """In the long format, one row per decision and candidate: which decision the row is of."""
    chosen: str | None = None
    """There: 1 in the row of the chosen candidate, else 0; without it, ``action`` names the
    chosen candidate and ``candidates`` the one of every row."""
    actions: Sequence[Hashable] | None = None
    fill_reward: float | None = None

    def __post_init__(self) -> None:
        for role in (*ROLES, "decision", "chosen"):
            name = getattr(self, role)
            if not (name is None or isinstance(name, str) or role in self.constants):
                raise ParameterError(
                    f"{role} is {glimpse(name)}; it must be the name of a column. Values of their "
                    f"own go to BanditLog.from_arrays.",
                    column=role,
                )
        if self.actions is not None:
            several = not isinstance(self.actions, (str, bytes)) and hasattr(
                self.actions, "__len__"
            )
            rule = "a list with the names of all arms"
            need(several, "actions", glimpse(self.actions), rule)
            if not isinstance(self.actions, FoundArms):
                object.__setattr__(self, "actions", as_action_names(self.actions))
        if self.constant_propensity is not None:
            check_constant_propensity(self.constant_propensity, self.actions)
        fill = self.fill_reward
        if fill is not None and not (is_number(fill) and np.isfinite(fill)):
            raise ParameterError(
                f"{Door.named('fill_reward')} is {glimpse(fill)}; it must be a number.",
                column="fill_reward",
            )
        for name in self.context:
            if not isinstance(name, str):
                sentence = f"context holds {glimpse(name)}; it must hold names of columns."
                raise ParameterError(sentence, column="context")

    @property
    def constants(self) -> frozenset[str]:
        """The roles that a number plays."""
        return frozenset({"propensity"} if is_number(self.propensity) else ())

    @property
    def constant_propensity(self) -> float | None:
        """The probability with which every action was chosen, if that is said by a number."""
        return float(self.propensity) if is_number(self.propensity) else None  # type: ignore[arg-type]

    @property
    def names(self) -> frozenset[str]:
        """The columns that hold names, which are compared and never added up, if they are there."""
        roles = ("action", "candidates", "cluster", "decision")
        return frozenset(getattr(self, role) or role for role in roles)

    def by_role(self, counts: Mapping[str, int]) -> Counter[str]:
        """Counts by column as counts by the role that a column was given, if it was."""
        role = {"candidate": "candidates", "chosen": "action"} | {
            getattr(self, role): role for role in ROLES
        }
        by_role: Counter[str] = Counter()
        for name, count in counts.items():
            by_role[role.get(name, name)] += count
        return by_role

    @classmethod
    def from_toml(cls, path: str | Path) -> Columns:
        """From a file with lines such as ``action = "item"`` and ``context = ["age", "city"]``."""
        import tomllib

        try:
            with open(path, "rb") as stream:
                names_by_role = tomllib.load(stream)
        except (OSError, ValueError, RecursionError) as problem:  # UTF-8, TOML, deep nesting
            raise LogError(f"not a readable TOML file ({problem}).", path) from None
        roles = [field.name for field in fields(cls)]
        for role, name in names_by_role.items():
            if role not in roles:
                raise LogError(
                    f'there is no role "{role}".{did_you_mean(role, roles)} The roles are '
                    f"{', '.join(roles)}.",
                    path,
                )
            if role in ("actions", "fill_reward") or (role == "propensity" and is_number(name)):
                continue
            names = name if role == "context" else [name]
            if not (isinstance(names, list) and all(isinstance(item, str) for item in names)):
                kind = "a list of names" if role == "context" else "the name of a column"
                raise LogError(f"{name!r} is not {kind}.", Place(str(path), role))
        return cls(**names_by_role)

    def context_in(self, names: Sequence[str], source: str = "") -> list[str]:
        """The columns of the context among these; a pattern stands for those it matches."""
        taken = {getattr(self, role) or role for role in ROLES}
        for role in ("action", "reward"):
            name = getattr(self, role) or role
            if name in self.context and name in names:
                raise LogError(
                    f'column "{name}" is the {role}, and a context is what was known before the '
                    f"action was chosen.",
                    source,
                    column=name,
                )
        return matching_columns(self.context, "context", names, taken, source)

    def of(self, role: str, names: Sequence[str], source: str) -> str | None:
        """Which of these columns plays a role, if there is one."""
        if role in self.constants:
            return None
        needed = role in ("action", "reward")
        return column_of(role, getattr(self, role), names, source, needed=needed)


class ColumnNames(TypedDict, total=False):
    """The fields of `Columns` as keywords of a verb: ``evaluate(frame, "new", action="item")``."""

    action: str | None
    reward: str | None
    propensity: str | float | None
    logging: str | None
    candidates: str | None
    cluster: str | None
    time: str | None
    row_weight: str | None
    context: Sequence[str]
    decision: str | None
    chosen: str | None
    actions: Sequence[Hashable] | None
    fill_reward: float | None


ROLES = (
    "action", "reward", "propensity", "logging", "candidates", "cluster", "time", "row_weight",
)  # fmt: skip
_NUMBERS: dict[str, type[OffpolicyError]] = {
    "reward": LogError, "propensity": PropensityError, "logging": PropensityError,
    "row_weight": LogError,
}  # fmt: skip
"""The roles that hold numbers, and the error if they do not."""


def column_of(
    role: str,
    column: str | None,
    names: Sequence[str],
    source: str,
    *,
    needed: bool = False,
    also: str | None = None,
) -> str | None:
    """Which of a log's columns plays a role: ``column``, or, if it is None, one of the role's name
    (or ``also``); None if it is "", or if there is none and none is needed."""
    if column == "" and not needed:
        return None
    for name in (role, also) if column is None else (column,):
        if name in names:
            return name
    if column is None and not needed:
        return None
    raise missing_column(names, role if column is None else column, role, source)


def matching_columns(
    wanted: Sequence[str],
    role: str,
    names: Sequence[str],
    taken: Container[str],
    source: str,
    order: Callable[[str], Any] | None = None,
) -> list[str]:
    """A log's columns with these names, or that these patterns match among those not taken, but
    for those of a name or pattern after a minus: ``"-spend"``."""
    if isinstance(wanted, str):
        raise LogError(f"{role} must be a list of column names, even if there is only one.")
    columns: list[str] = []
    without = [name[1:] for name in wanted if name[:1] == "-" and name not in names]
    for name in wanted:
        if name[:1] == "-" and name not in names:
            continue
        free = [column for column in names if column not in taken and fnmatchcase(column, name)]
        if name not in names and not free:
            raise missing_column(names, name, role, source)
        columns += [name] if name in names else sorted(free, key=order)
    for name in without:
        if not any(fnmatchcase(column, name) for column in names):
            raise missing_column(names, name, f"{role}, to be left out", source)
        columns = [column for column in columns if not fnmatchcase(column, name)]
    if without and not columns:
        sentence = f'no column is left for the {role}: a minus takes off what others name, as "*".'
        raise LogError(sentence, source, column=role)
    return list(dict.fromkeys(columns))


def read_columns(frame: Any, columns: Columns, source: str) -> tuple[pa.Table, dict[str, Any]]:
    """A log's frame as an Arrow table, and the arrays by role (``offsets`` if it has lists)."""
    table = with_rewards_filled(as_table(frame), columns, source)
    roles: dict[str, Any] = {}
    for role in ROLES:
        name = columns.of(role, table.column_names, source)
        if name is None:
            continue
        if role in ("logging", "candidates"):
            offsets, values = _lists(
                table, name, source, _NUMBERS.get(role), names=role == "candidates"
            )
            sentence = "the list is empty ({count}); it must hold at least the chosen candidate."
            refuse(np.diff(offsets) < 1, sentence, name, source)
            known = roles.setdefault("offsets", offsets)
            _same_lengths(known, offsets, name, source)
            roles["candidate" if role == "candidates" else role] = values
        else:
            roles[role] = read_plain(table, name, role, source, _NUMBERS.get(role))
    if columns.context:
        names = columns.context_in(table.column_names, source)
        roles["context"] = _read_context(table, names, source)
        roles["context_names"] = tuple(names)
    for one, other in (("candidate", "action"), ("action", "candidate")):
        if isinstance(roles.get(one), Encoded) and _is_whole(roles.get(other)):
            roles[other] = roles[other].astype(str)
    return table, roles


def with_rewards_filled(table: pa.Table, columns: Columns, source: str) -> pa.Table:
    """A log's table with a number for the rewards that are missing, if one was said."""
    if columns.fill_reward is None:
        return table
    name = columns.of("reward", table.column_names, source)
    assert name is not None
    column = table.column(name)
    if not column.null_count and not pa.types.is_floating(column.type):
        return table
    t = pa.types
    if t.is_null(column.type) or t.is_integer(column.type) or t.is_floating(column.type):
        missing = pc.is_null(column, nan_is_null=True)
        filled = pc.if_else(missing, float(columns.fill_reward), column.cast(pa.float64()))
    else:
        filled = pc.fill_null(column, pa.scalar(columns.fill_reward).cast(column.type))
    return table.set_column(table.column_names.index(name), name, filled)


def _is_whole(values: Any) -> bool:
    return isinstance(values, np.ndarray) and np.issubdtype(values.dtype, np.integer)


def is_frame(source: Any) -> bool:
    """Whether a log's source is a dataframe, one that is yet to be computed (polars), or a mapping
    of names to columns."""
    streams = ("__arrow_c_stream__", "__arrow_c_array__", "collect")
    return isinstance(source, Mapping) or any(hasattr(source, name) for name in streams)


def as_table(frame: Any) -> pa.Table:
    """The frame of a log as an Arrow table; what is lazy is computed."""
    table = frame
    if not isinstance(frame, pa.Table):
        if not is_frame(frame):
            raise LogError(
                f"A log is not read from a {type(frame).__name__}: give a dataframe (pandas, "
                f"polars, pyarrow, DuckDB), a mapping of names to columns, or paths of files; for "
                f"arrays there is BanditLog.from_arrays.",
                column="frame",
            )
        try:
            if isinstance(frame, Mapping):
                table = pa.table({str(name): _as_array(cells) for name, cells in frame.items()})
            else:
                table = pa.table(frame.collect() if hasattr(frame, "collect") else frame)
        except (pa.ArrowException, TypeError, ValueError) as problem:
            raise LogError(
                f"This {type(frame).__name__} is not a dataframe that Arrow can read: {problem}.",
                column="frame",
            ) from None
    twice = sorted(name for name in table.column_names if table.column_names.count(name) > 1)
    if twice:
        sentence = f'There are two columns named "{twice[0]}"; every name must be different.'
        raise LogError(sentence, column=twice[0])
    return settled(table)


def _as_array(values: Any) -> Any:
    """A column of a log's frame, which may be an (n, K) array."""
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(values.reshape(-1), values.shape[1])
    return pa.array(values)


def read_named(
    table: pa.Table,
    name: str,
    offsets: Ints,
    source: str,
    *,
    numbers: type[OffpolicyError] | None = None,
) -> NDArray[Any]:
    """One column of a log: flat if it holds lists (as long as its candidates), else one a row;
    ``numbers`` is the error for a value that is none, where all must be."""
    if name not in table.column_names:
        raise missing_column(table.column_names, name, "", source)
    if holds_lists(table.schema.field(name).type):
        lists, values = _lists(table, name, source, numbers)
        _same_lengths(offsets, lists, name, source)
        return np.asarray(values)
    return np.asarray(read_plain(table, name, name, source, numbers))


def numbers_of(
    values: Any,
    name: str,
    source: str,
    error: type[OffpolicyError] = LogError,
    offsets: Ints | None = None,
) -> NDArray[Any]:
    """A log's column of numbers, which may have been written as text; other text is an error."""
    values = np.asarray(values)
    if values.dtype.kind in "biuf":
        return np.asarray(values)
    numbers, bad = np.full(len(values), np.nan), np.zeros(len(values), dtype=bool)
    for k, value in enumerate(values):
        try:
            # Of what Python reads as numbers, other engines read less.
            bad[k] = isinstance(value, str) and ("_" in value or not value.isascii())
            numbers[k] = np.nan if bad[k] else float(value)
        except (TypeError, ValueError, OverflowError):
            bad[k] = True
    if bad.any():
        shown, count = glimpse(values[int(np.argmax(bad))]), count_of(bad, offsets)
        sentence = f"{shown} is not a number ({count}). Correct it or leave these rows out."
        raise malformed(bad, name, source, sentence, error, offsets)
    return numbers


def _lists(
    table: pa.Table,
    name: str,
    source: str,
    numbers: type[OffpolicyError] | None,
    *,
    names: bool = False,
) -> tuple[Ints, NDArray[Any] | Encoded]:
    """Where each list in a log's column starts, and all entries; ``numbers`` is the error if these
    must be numbers, ``names`` may be encoded."""
    column = table.column(name)
    kind = column.type
    if not holds_lists(kind):
        raise LogError(
            f"it holds {kind}, but must hold lists: one entry for every candidate.",
            Place(source, name),
        )
    refuse_unreadable(kind, name, source)
    if column.null_count:
        refuse(column.is_null().to_numpy(), MISSING.replace("value", "list", 1), name, source)
    offsets, values = _entries(column)
    if values.null_count:
        refuse(values.is_null().to_numpy(), MISSING, name, source, offsets=offsets)
    if numbers is not None:
        refuse_no_number(values, name, source, numbers, offsets)
        flat = _as_numpy(values, name, source, offsets)
        return offsets, numbers_of(flat, name, source, numbers, offsets)
    coded = Encoded.of(values) if names else None
    return offsets, _as_numpy(values, name, source, offsets) if coded is None else coded


def _entries(column: pa.ChunkedArray) -> tuple[Ints, pa.ChunkedArray]:
    """Where each list in a log's column starts, and all entries; no list is missing."""
    kind, chunks = column.type, [chunk for chunk in column.chunks if len(chunk)]
    if pa.types.is_fixed_size_list(kind):
        offsets = np.arange(len(column) + 1, dtype=np.int64) * kind.list_size
    else:
        lengths = [np.diff(np.from_dlpack(chunk.offsets)) for chunk in chunks]
        offsets = offsets_of(np.concatenate([np.empty(0, np.int64), *lengths]))
    return offsets, pa.chunked_array([chunk.flatten() for chunk in chunks], kind.value_type)


def _same_lengths(known: Ints, offsets: Ints, name: str, source: str) -> None:
    if np.array_equal(known, offsets):
        return
    lengths, expected = np.diff(offsets), np.diff(known)
    refuse(
        lengths != expected,
        "the list has {length} entries, but the decision has {expected} candidates ({count} are "
        "like this). Lists of one row must be equally long.",
        name, source, length=lengths, expected=expected,
    )  # fmt: skip


def read_plain(
    table: pa.Table,
    name: str,
    role: str,
    source: str,
    numbers: type[OffpolicyError] | None = None,
    *,
    missing: bool = False,
) -> NDArray[Any] | Encoded:
    """A column of a log with one plain value in every row; ``numbers`` is the error if that must be
    a number; ``missing`` says that some may be missing."""
    kind = table.schema.field(name).type
    if pa.types.is_nested(kind):
        raise LogError(
            f"it holds {kind}, but {role} must be a single value in every row.",
            Place(source, name),
        )
    refuse_unreadable(kind, name, source)
    column = table.column(name)
    if column.null_count and not missing:
        refuse(column.is_null().to_numpy(), MISSING, name, source)
    if numbers is not None:
        refuse_no_number(column, name, source, numbers)
        return numbers_of(_as_numpy(column, name, source), name, source, numbers)
    coded = Encoded.of(column) if role == "action" else None
    return _as_numpy(column, name, source) if coded is None else coded


def _read_context(table: pa.Table, names: Sequence[str], source: str) -> NDArray[Any]:
    """The context of each row of a log, (n, d): numbers, or else objects; missing values stay."""
    columns = [_context_cells(table, name, source) for name in names]
    if all(cells.dtype.kind in "biuf" for cells in columns):
        return np.stack(columns, axis=1)
    context = np.empty((len(table), len(names)), dtype=object)
    for j, cells in enumerate(columns):
        context[:, j] = cells.astype("M8[s]").astype(object) if cells.dtype.kind == "M" else cells
    return context


def _context_cells(table: pa.Table, name: str, source: str) -> NDArray[Any]:
    column = table.column(name)
    kind = plain_type(column.type)
    if pa.types.is_null(kind):
        return np.full(len(table), np.nan)
    if not (holds_numbers(kind) and (column.null_count or pa.types.is_decimal(kind))):
        return np.asarray(read_plain(table, name, "context", source, missing=True))
    return np.asarray(column.cast(kind).cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy())


def _as_numpy(
    values: pa.ChunkedArray, name: str, source: str, offsets: Ints | None = None
) -> NDArray[Any]:
    """A log's column as NumPy; text that is not UTF-8, as damaged files hold it, is an error."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and len(values):
        # Not by Arrow's own `to_numpy`, which loads pandas, where it is installed.
        parts = [np.from_dlpack(chunk) for chunk in values.chunks if len(chunk)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    try:
        return np.asarray(values.to_numpy())
    except (pa.ArrowException, UnicodeDecodeError):
        if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            raise
        raw = values.cast(pa.large_binary()).to_pylist()
        bad = np.array([text.decode(errors="ignore").encode() != text for text in raw])
        sentence = (
            f"{raw[np.argmax(bad)]!r} is not UTF-8 ({count_of(bad, offsets)}). The file may be "
            f"damaged: fetch it again, or leave these rows out."
        )
        raise malformed(bad, name, source, sentence, offsets=offsets) from None


def missing_column(there: Sequence[str], name: str, role: str, source: str) -> LogError:
    """The error for a column that a log lacks; those that it has are ``there``."""
    if len(there) == 1 and ";" in there[0]:
        hint = " Are the fields separated by something other than commas?"
    elif role == name and role in _ALIKE:
        likely = [f'"{column}"' for column in likely_columns(role, there)]
        hint = f" Say which column it is with {Door.spelled(role)}"
        hint += f"; perhaps {' or '.join(likely)}." if likely else "."
    elif role == "context" and "," in name:
        each = [part.strip() for part in name.split(",")]
        several = " ".join(f"--context {part}" for part in each)
        hint = f" Name one at a time: {several}." if Door.options else f" Give a list: {each}."
    elif role == "reward" and "," in name:
        hint = " One reward is asked about at a time."
    elif role == "propensity" and re.fullmatch(r"[\d.,]+\s*%?", name):
        how = "--propensity 1/3" if Door.options else "propensity=1/3"
        hint = f" Give a number in its place as a decimal or a fraction: {how}."
    else:
        hint = did_you_mean(name, there)
    what = f" (for {role})" if role and role != name else ""
    return LogError(
        f'{"there" if source else "There"} is no column "{name}"{what}.{hint} '
        f"The columns are {', '.join(there)}.",
        source,
        column=name,
    )


_ALIKE = {
    "action": "item arm variant treatment segment choice product article ad creative campaign "
    "group offer banner recommended shown a",
    "reward": "click clicked clicks conversion converted visit purchase purchased bought revenue "
    "spend sales sale rating outcome target label response y r",
    "propensity": "p prob probability pscore ps pi0 propensities",
    "rank": "position pos place slot",
    "click": "clicked clicks",
    "impression": "request session serp search",
}  # fmt: skip
"""What people call a log's columns, by role."""


def likely_columns(role: str, there: Sequence[str]) -> list[str]:
    """The columns of a log, at most three, that by their names might play a role."""
    alike = {role, *_ALIKE.get(role, "").split()}

    def words(name: str) -> set[str]:
        return {word.casefold() for word in re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", name)}

    called = [name for name in there if name.casefold() in alike]
    partly = [name for name in there if words(name) & alike]
    return (called or partly or difflib.get_close_matches(role, there, cutoff=0.8))[:3]
