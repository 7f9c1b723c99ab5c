"""Checks at the door. Each raises one sentence: what is wrong, where, what was found, what to do.

Rows are counted from 0. ``source`` names the file or frame, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy.errors import LogError, OffpolicyError, ParameterError
from offpolicy.softmax import Ints, row_sums
from offpolicy.weights import Floats

BLOCK_ROWS = 65_536
LARGEST_REWARD = 1e150
EMPTY = "The log is empty: there is not one decision to learn from."
SMALLEST_PROPENSITY = 1e-300
_COMPILED = 100_000
"""From this many numbers on, they are added up by the compiled kernel."""


def empty(source: str) -> str:
    """`EMPTY`, with the name of the file."""
    return f"{source}: {EMPTY}" if source else EMPTY


class Copy(str):
    """The name of a file whose rows were copied from other files: these are to be named."""

    origin: Callable[[int], tuple[str, str]]
    """The file that a row is from, and its place there: "row 412" or "line 7"."""

    @classmethod
    def of(cls, name: str, origin: Callable[[int], tuple[str, str]]) -> Copy:
        copy = cls(name)
        copy.origin = origin
        return copy


class Stretch(str):
    """The source of a log that is a stretch of one or several files: rows are counted in these."""

    parts: tuple[tuple[int, int, str], ...]
    """From which row of the log on, which row, of which file."""

    @classmethod
    def of(cls, parts: Sequence[tuple[int, int, str]]) -> Stretch:
        stretch = cls(parts[0][2])
        stretch.parts = tuple(parts)
        return stretch

    def locate(self, row: int) -> tuple[str, str]:
        """The file of a row of the log, and its place there: "row 412"."""
        begun, first, file = next(part for part in reversed(self.parts) if part[0] <= row)
        row += first - begun
        return file.origin(row) if isinstance(file, Copy) else (file, f"row {row}")


def where(source: str, column: str, row: int) -> str:
    """'clicks.parquet, reward, row 412'."""
    at = f"row {row}"
    if isinstance(source, Stretch):
        source, at = source.locate(row)
    return f"{source}, {column}, {at}" if source else f"{column}, {at}"


def count_of(bad: int, total: int) -> str:
    """'37 of 100,000 rows'."""
    return f"{bad:,} of {total:,} rows"


def as_floats(values: Any, column: str, error: type[OffpolicyError] = LogError) -> Floats:
    """A contiguous float64 array; anything that is not a number is an error."""
    kind = getattr(getattr(values, "dtype", None), "kind", "f")
    if np.ma.is_masked(values):
        raise error(f"{column} has masked values. Fill them in or leave these rows out.")
    try:
        if isinstance(kind, str) and kind in "cmMSU":
            raise TypeError
        return np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise error(
            f"{column} must hold numbers, all rows of one length; found {_glimpse(values)}."
        ) from None


def as_vector(values: ArrayLike, column: str, error: type[OffpolicyError] = LogError) -> Floats:
    array = as_floats(values, column, error)
    if array.ndim != 1 or np.ndim(values) == 0:
        raise error(f"{column} has shape {np.shape(values)}; it must have one dimension.")
    return array


def as_sample(values: ArrayLike, name: str) -> Floats:
    """One finite number per row, at least one row: what an interval can be made of."""
    array = as_vector(values, name, ParameterError)
    if not len(array):
        raise ParameterError(f"{name} is empty: without any row there is no interval.")
    check_finite(array, name, error=ParameterError)
    return array


def as_integers(values: ArrayLike, column: str, source: str = "") -> Ints:
    array = np.asarray(values)
    if array.ndim != 1:
        what = "hold n + 1 integers" if column == "offsets" else "have one dimension"
        raise LogError(f"{column} has shape {array.shape}; {column} must {what}.")
    if array.size and not np.issubdtype(array.dtype, np.integer):
        as_float = as_floats(array, column)
        check_finite(as_float, column, source)
        odd = (as_float != np.floor(as_float)) | (np.abs(as_float) > 2.0**53)
        if odd.any():
            row = int(np.argmax(odd))
            raise LogError(f"{where(source, column, row)}: {array[row]} is not a whole number.").at(
                np.flatnonzero(odd), column
            )
        array = as_float
    return np.ascontiguousarray(array, dtype=np.int64)


def as_offsets(
    values: ArrayLike, source: str = "", unit: str = "decision", parts: str = "candidates"
) -> Ints:
    """Where each decision's candidates start, and the last end; or of any unit with its parts."""
    offsets = as_integers(values, "offsets")
    if len(offsets) < 2:
        empty = EMPTY.replace("decision", unit)
        raise LogError(empty if len(offsets) == 1 else "offsets must hold n + 1 integers.")
    if offsets[0] != 0:
        raise LogError(f"offsets must start at 0; they start at {offsets[0]}.")
    lengths = np.diff(offsets)
    if (lengths < 1).any():
        row = int(np.argmax(lengths < 1))
        chosen = ", the chosen one" if unit == "decision" else ""
        raise LogError(
            f"{where(source, 'offsets', row)}: the {unit} has {lengths[row]} {parts}; there must "
            f"be at least one{chosen}."
        ).at(np.flatnonzero(lengths < 1), parts)
    return offsets


def without_traces(probabilities: Floats) -> Floats:
    """Probabilities under 1e-300 as 0: their inverses overflow, and nobody draws that rarely."""
    for start in range(0, len(probabilities), BLOCK_ROWS):
        block = probabilities[start : start + BLOCK_ROWS]
        if block.min() >= SMALLEST_PROPENSITY:
            continue
        if ((block > 0.0) & (block < SMALLEST_PROPENSITY)).any():
            return np.where(probabilities < SMALLEST_PROPENSITY, 0.0, probabilities)
    return probabilities


def tolerance_of(values: Any) -> float:
    """How far probabilities may be from summing to 1: float32 columns are rounded more."""
    dtype = getattr(values, "dtype", None)
    narrow = dtype is not None and dtype in (np.dtype(np.float32), np.dtype(np.float16))
    return 1e-3 if narrow else 1e-6


def widened(probabilities: Floats, tolerance: float) -> Floats:
    """(n, K) probabilities that came as narrow floats, with their rounding taken out."""
    total = probabilities.sum(axis=1, keepdims=True)
    if tolerance > 1e-6 and (np.abs(total - 1.0) <= tolerance).all():
        return np.asarray(probabilities / total)
    return probabilities


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
            f"there must be one value for each."
        )


def check_finite(
    values: Floats,
    column: str,
    source: str = "",
    error: type[OffpolicyError] = LogError,
    offsets: Ints | None = None,
) -> None:
    """No NaN, no infinity. With ``offsets``, ``values`` are per candidate."""
    if np.isfinite(values).all():
        return
    bad = np.asarray((~np.isfinite(values)).reshape(len(values), -1).any(axis=1))
    place, unit = place_of(int(np.argmax(bad)), column, source, offsets)
    raise error(
        f"{place}: {_first_value(values[int(np.argmax(bad))])} "
        f"({int(bad.sum()):,} of {len(bad):,} {unit} are missing or not finite). "
        f"Fill these values in or leave these rows out."
    ).at(rows_of(bad, offsets), column)


def place_of(index: int, column: str, source: str, offsets: Ints | None) -> tuple[str, str]:
    """('q, row 412, candidate 3', 'values'), or, for a column per decision, (…, 'rows')."""
    if offsets is None:
        return where(source, column, index), "rows"
    row = int(np.searchsorted(offsets, index, side="right")) - 1
    return f"{where(source, column, row)}, candidate {index - offsets[row]}", "values"


def rows_of(bad: NDArray[np.bool_], offsets: Ints | None = None) -> Ints:
    """The rows in which anything is bad; with ``offsets``, ``bad`` is per candidate."""
    found = np.flatnonzero(bad)
    if offsets is None:
        return found
    return np.unique(np.searchsorted(offsets, found, side="right") - 1)


def check_reward(reward: Floats, source: str) -> None:
    check_finite(reward, "reward", source)
    bad = np.abs(reward) > LARGEST_REWARD
    if bad.any():
        row = int(np.argmax(bad))
        raise LogError(
            f"{where(source, 'reward', row)}: {reward[row]} "
            f"({count_of(int(bad.sum()), len(reward))} are beyond ±{LARGEST_REWARD:g}). "
            f"Rewards this large overflow when squared; rescale them."
        ).at(np.flatnonzero(bad), "reward")


def check_positive(values: Floats, column: str, source: str) -> None:
    check_finite(values, column, source)
    bad = values <= 0.0
    if bad.any():
        row = int(np.argmax(bad))
        raise LogError(
            f"{where(source, column, row)}: {values[row]} "
            f"({count_of(int(bad.sum()), len(values))} are 0 or below). "
            f"A row weight says how many decisions the row stands for; leave rows of weight 0 out."
        ).at(np.flatnonzero(bad), column)
    beyond = (values < 1e-100) | (values > 1e100)
    if beyond.any():
        row = int(np.argmax(beyond))
        raise LogError(
            f"{where(source, column, row)}: {values[row]} goes beyond 1e-100 … 1e100; rescale "
            f"{column}: only ratios matter."
        ).at(np.flatnonzero(beyond), column)


def check_chosen_probabilities(
    values: Floats,
    column: str,
    source: str,
    error: type[OffpolicyError],
    *,
    positive: bool,
    tolerance: float = 1e-6,
) -> None:
    """Probabilities of the chosen candidates: finite, at most 1, and above 0 if ``positive``."""
    check_finite(values, column, source, error)
    low = values < SMALLEST_PROPENSITY if positive else values < 0.0
    if low.any():
        row = int(np.argmax(low))
        if positive:
            raise error(
                f"{where(source, column, row)}: {values[row]} "
                f"({count_of(int(low.sum()), len(low))} are 0 or below, or under "
                f"{SMALLEST_PROPENSITY:g}). The log must hold the probability with which the "
                f"chosen action was drawn. If these rows were not randomised, leave them out."
            ).at(np.flatnonzero(low), column)
        raise error(
            f"{where(source, column, row)}: {values[row]} "
            f"({count_of(int(low.sum()), len(low))} are below 0). Probabilities are from 0 to 1."
        ).at(np.flatnonzero(low), column)
    high = values > 1.0 + tolerance
    if high.any():
        row = int(np.argmax(high))
        raise error(
            f"{where(source, column, row)}: {values[row]} "
            f"({count_of(int(high.sum()), len(high))} are above 1). Probabilities are from 0 to 1; "
            f"if these are inverse propensities, or percentages, convert them first."
        ).at(np.flatnonzero(high), column)


def check_probabilities(
    values: Floats,
    offsets: Ints,
    column: str,
    source: str,
    error: type[OffpolicyError],
    tolerance: float,
) -> None:
    """Probabilities of every candidate: finite, not negative, each decision's sum 1."""
    for start in range(0, len(offsets) - 1, BLOCK_ROWS):
        bounds = offsets[start : start + BLOCK_ROWS + 1]
        block = values[bounds[0] : bounds[-1]]
        if not block.min() >= 0.0 or not block.max() <= 1.0 + tolerance:
            _bad_element(values, offsets, column, source, error, tolerance)
        if not _sum_to_one(block, bounds - bounds[0], tolerance):
            _bad_sum(values, offsets, column, source, error, tolerance)


def _sum_to_one(values: Floats, offsets: Ints, tolerance: float) -> bool:
    """Whether the probabilities of every decision do."""
    if len(values) >= _COMPILED:
        from offpolicy import kernels

        if kernels.sum_to_one(values, offsets, tolerance):
            return True
    return not (np.abs(row_sums(values, offsets) - 1.0) > tolerance).any()


def _bad_element(
    values: Floats,
    offsets: Ints,
    column: str,
    source: str,
    error: type[OffpolicyError],
    tolerance: float,
) -> None:
    bad = ~((values >= 0.0) & (values <= 1.0 + tolerance))
    element = int(np.argmax(bad))
    place, _ = place_of(element, column, source, offsets)
    raise error(
        f"{place}: {values[element]} "
        f"({int(bad.sum()):,} of {len(values):,} values are missing, negative or above 1). "
        f"Probabilities are from 0 to 1, one for every candidate."
    ).at(rows_of(bad, offsets), column)


def _bad_sum(
    values: Floats,
    offsets: Ints,
    column: str,
    source: str,
    error: type[OffpolicyError],
    tolerance: float,
) -> None:
    sums = row_sums(values, offsets)
    bad = np.abs(sums - 1.0) > tolerance
    row = int(np.argmax(bad))
    raise error(
        f"{where(source, column, row)}: the probabilities sum to {sums[row]:.9g}, not 1 "
        f"({count_of(int(bad.sum()), len(sums))} are off by more than {tolerance:g}). "
        f"Every candidate that could have been chosen must be listed with its probability; "
        f"if they are only rounded, divide each decision's probabilities by their sum."
    ).at(np.flatnonzero(bad), column)


def _first_value(row: Any) -> Any:
    flat = np.atleast_1d(row).ravel()
    return flat[~np.isfinite(flat)][0]


def _glimpse(values: Any) -> str:
    text = " ".join(repr(values).split())
    return text if len(text) <= 80 else text[:77] + "..."
