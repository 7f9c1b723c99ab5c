"""Checks at the door. Each raises one sentence: what is wrong, where, what was found, what to do.

Rows are counted from 0. ``source`` names the file or frame, if there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core.types import Floats, Ints
from offpolicy.errors import LogError, OffpolicyError, ParameterError, Place

EMPTY = "The log is empty: there is not one decision to learn from."
MISSING = "the value is missing ({count}). Fill it in or leave these rows out."


class Copy(str):
    """The name of a file whose rows were copied from other files: these are to be named."""

    origin: Callable[[int], Place]
    """The place that a row is from: a row or a line of another file."""

    @classmethod
    def of(cls, name: str, origin: Callable[[int], Place]) -> Copy:
        copy = cls(name)
        copy.origin = origin
        return copy


class RowsOfFiles(str):
    """The source of a log whose rows are of one or several files, and are counted there."""

    parts: tuple[tuple[int, int, str], ...]
    """From which row of the log on, which row, of which file."""

    @classmethod
    def of(cls, parts: Sequence[tuple[int, int, str]]) -> RowsOfFiles:
        source = cls(parts[0][2])
        source.parts = tuple(parts)
        return source

    def locate(self, row: int) -> Place:
        """Of a row of the log."""
        begun, first, file = next(part for part in reversed(self.parts) if part[0] <= row)
        row += first - begun
        return file.origin(row) if isinstance(file, Copy) else Place(file, row=row)


def where(source: str, column: str, row: int | np.int64, offsets: Ints | None = None) -> Place:
    """The place of any array's value: 'clicks.parquet, reward, row 412'; with ``offsets``, ``row``
    counts candidates: 'clicks.parquet, logging, row 412, candidate 3'."""
    row, part = int(row), ""
    if offsets is not None:
        element, row = row, int(np.searchsorted(offsets, row, side="right")) - 1
        part = f"candidate {element - offsets[row]}"
    place = source.locate(row) if isinstance(source, RowsOfFiles) else Place(source, row=row)
    return place._replace(column=column, part=part)


def count_of(bad: NDArray[np.bool_], offsets: Ints | None = None) -> str:
    """How many of an array's rows are bad, '37 of 100,000 rows'; with ``offsets``, its values."""
    unit = "rows" if offsets is None else "values"
    return f"{int(bad.sum()):,} of {len(bad):,} {unit}"


def malformed(
    bad: NDArray[np.bool_],
    column: str,
    source: str,
    sentence: str,
    error: type[OffpolicyError] = LogError,
    offsets: Ints | None = None,
) -> OffpolicyError:
    """The error about any array's values that are ``bad``, at the first of them; with ``offsets``,
    these are per candidate."""
    return error(sentence, where(source, column, np.argmax(bad), offsets), rows_of(bad, offsets))


def refuse(
    bad: NDArray[np.bool_],
    sentence: str,
    column: str,
    source: str = "",
    error: type[OffpolicyError] = LogError,
    offsets: Ints | None = None,
    **values: Any,
) -> None:
    """Raise if anything in an array is bad; in the sentence, {count} says how much is, and the name
    of each of the ``values`` stands for the first of them that is."""
    if bad.any():
        first = {name: array[np.argmax(bad)] for name, array in values.items()}
        text = sentence.format(count=count_of(bad, offsets), **first)
        raise malformed(bad, column, source, text, error, offsets)


def need(
    fine: bool, name: str, value: Any, rule: str, error: type[OffpolicyError] = ParameterError
) -> None:
    """Raise unless any argument is fine: 'epsilon is 2; it must be from 0 to 1.'"""
    if not fine:
        raise error(f"{name} is {value}; it must be {rule}.", column=name)


def need_shape(
    fine: bool, name: str, values: Any, rule: str, error: type[OffpolicyError] = LogError
) -> None:
    """Raise unless an array has the right shape: 'context has shape (); it must be (n, d).'"""
    if not fine:
        raise error(f"{name} has shape {np.shape(values)}; it must be {rule}.", column=name)


def refuse_masked(values: Any, column: str, error: type[OffpolicyError]) -> None:
    """Raise if an array hides values; where nothing has loaded `numpy.ma`, none does."""
    if "numpy.ma" in sys.modules and np.ma.is_masked(values):
        raise error(
            f"{column} has masked values. Fill them in or leave these rows out.", column=column
        )


def without_gradient(values: Any) -> Any:
    """A tensor as an array can be made of it; any other values as they are."""
    return values.detach().cpu() if hasattr(values, "detach") else values


def as_floats(values: Any, column: str, error: type[OffpolicyError] = LogError) -> Floats:
    """A contiguous float64 array; anything that is not a number is an error, digits in text too."""
    refuse_masked(values, column, error)
    values = without_gradient(values)
    try:
        array = np.asarray(values)
        if array.dtype.kind in "cmMSU" or (
            array.dtype == object and any(isinstance(v, (str, bytes)) for v in array.flat)
        ):
            raise TypeError
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise error(
            f"{column} must hold numbers, all rows of one length; found {glimpse(values)}.",
            column=column,
        ) from None


def as_vector(values: ArrayLike, column: str, error: type[OffpolicyError] = LogError) -> Floats:
    array = as_floats(values, column, error)
    need_shape(array.ndim == 1 and np.ndim(values) > 0, column, values, "of one dimension", error)
    return array


def as_sample(values: ArrayLike, name: str) -> Floats:
    """An array of one finite number per row, at least one row; anything else is an error."""
    array = as_vector(values, name, ParameterError)
    if not len(array):
        raise ParameterError(f"{name} is empty: without any row there is no interval.", column=name)
    check_finite(array, name, error=ParameterError)
    return array


def as_integers(values: ArrayLike, column: str, source: str = "") -> Ints:
    array = np.asarray(without_gradient(values))
    what = "n + 1 integers" if column == "offsets" else "of one dimension"
    need_shape(array.ndim == 1, column, array, what)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        as_float = as_floats(array, column)
        check_finite(as_float, column, source)
        odd = (as_float != np.floor(as_float)) | (np.abs(as_float) > 2.0**53)
        refuse(odd, "{value} is not a whole number.", column, source, value=array)
        array = as_float
    return np.ascontiguousarray(array, dtype=np.int64)


def as_offsets(
    values: ArrayLike, source: str = "", unit: str = "decision", parts: str = "candidates"
) -> Ints:
    """A ragged array's offsets: where each decision's candidates (any unit's parts) start, end."""
    offsets = as_integers(values, "offsets")
    if len(offsets) < 2:
        empty = EMPTY.replace("decision", unit)
        sentence = empty if len(offsets) == 1 else "offsets must hold n + 1 integers."
        raise LogError(sentence, column="offsets")
    if offsets[0] != 0:
        raise LogError(f"offsets must start at 0; they start at {offsets[0]}.", column="offsets")
    lengths = np.diff(offsets)
    chosen = ", the chosen one" if unit == "decision" else ""
    sentence = f"the {unit} has {{value}}; there must be at least one{chosen}."
    refuse(lengths < 1, sentence, parts, source, value=lengths)
    return offsets


def check_length(
    values: Any,
    length: int,
    column: str,
    unit: str = "decisions",
    error: type[OffpolicyError] = LogError,
) -> None:
    if len(values) != length:
        raise error(
            f"{column} has {len(values):,} values, but the log has {length:,} {unit}: "
            f"there must be one value for each.",
            column=column,
        )


def check_finite(
    values: Floats,
    column: str,
    source: str = "",
    error: type[OffpolicyError] = LogError,
    offsets: Ints | None = None,
) -> None:
    """No NaN, no infinity in an array. With ``offsets``, ``values`` are per candidate."""
    if np.isfinite(values).all():
        return
    cells = values.reshape(len(values), -1)
    bad = ~np.isfinite(cells)
    first = np.argmax(bad, axis=1)
    refuse(
        np.asarray(bad.any(axis=1)),
        "{value} ({count} are missing or not finite). Fill these values in or leave these rows "
        "out.",
        column, source, error, offsets, value=cells[np.arange(len(cells)), first],
    )  # fmt: skip


def rows_of(bad: NDArray[np.bool_], offsets: Ints | None = None) -> Ints:
    """The rows of an array in which anything is bad; with ``offsets``, ``bad`` is per candidate."""
    rows = np.flatnonzero(bad)
    if offsets is None:
        return rows
    return np.unique(np.searchsorted(offsets, rows, side="right") - 1)


def glimpse(values: Any, most: int = 80) -> str:
    """Any value as Python writes it, cut short for a message."""
    text = " ".join(repr(values).split())
    return text if len(text) <= most else text[: most - 3] + "..."
