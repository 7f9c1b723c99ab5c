"""Checks of rewards and probabilities at the door, in sentences that name the row."""

from __future__ import annotations

from typing import Any

import numpy as np

from offpolicy._core.ragged import row_sums
from offpolicy._core.types import Floats, Ints
from offpolicy._core.validation import check_finite, count_of, place_of, rows_of, where
from offpolicy.errors import LogError, OffpolicyError

BLOCK_ROWS = 65_536
LARGEST_REWARD = 1e150
SMALLEST_PROPENSITY = 1e-300
_COMPILED = 100_000
"""From this many numbers on, they are added up by the compiled kernel."""


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
        from offpolicy._core.kernels import sum_to_one

        if sum_to_one(values, offsets, tolerance):
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
