"""Checks of rewards and probabilities at the door, in sentences that name the row."""

from __future__ import annotations

from typing import Any

import numpy as np

from offpolicy._core.ragged import row_sums
from offpolicy._core.types import Floats, Ints
from offpolicy._core.validation import check_finite, refuse
from offpolicy.errors import OffpolicyError

BLOCK_ROWS = 65_536
LARGEST_REWARD = 1e150
SMALLEST_PROPENSITY = 1e-300


def without_traces(probabilities: Floats) -> Floats:
    """Logged probabilities, 0 if under 1e-300: inverses overflow, and nobody draws so rarely."""
    for start in range(0, len(probabilities), BLOCK_ROWS):
        block = probabilities[start : start + BLOCK_ROWS]
        if block.min() >= SMALLEST_PROPENSITY:
            continue
        if ((block > 0.0) & (block < SMALLEST_PROPENSITY)).any():
            return np.where(probabilities < SMALLEST_PROPENSITY, 0.0, probabilities)
    return probabilities


def tolerance_of(values: Any) -> float:
    """How far a log's probabilities may be from summing to 1: float32 columns are rounded more."""
    dtype = getattr(values, "dtype", None)
    narrow = dtype is not None and dtype in (np.dtype(np.float32), np.dtype(np.float16))
    return 1e-3 if narrow else 1e-6


def without_rounding(probabilities: Floats, tolerance: float) -> Floats:
    """(n, K) probabilities from a log's columns of narrow floats, with their rounding taken out."""
    total = probabilities.sum(axis=1, keepdims=True)
    if tolerance > 1e-6 and (np.abs(total - 1.0) <= tolerance).all():
        return np.asarray(probabilities / total)
    return probabilities


def check_reward(reward: Floats, source: str) -> None:
    check_finite(reward, "reward", source)
    refuse(
        np.abs(reward) > LARGEST_REWARD,
        "{value} ({count} are beyond ±"
        f"{LARGEST_REWARD:g}). Rewards this large overflow when squared; rescale them.",
        "reward", source, value=reward,
    )  # fmt: skip


def check_positive(values: Floats, column: str, source: str) -> None:
    check_finite(values, column, source)
    refuse(
        values <= 0.0,
        "{value} ({count} are 0 or below). A row weight says how many decisions the row stands "
        "for; leave rows of weight 0 out.",
        column, source, value=values,
    )  # fmt: skip
    refuse(
        (values < 1e-100) | (values > 1e100),
        f"{{value}} goes beyond 1e-100 … 1e100; rescale {column}: only ratios matter.",
        column, source, value=values,
    )  # fmt: skip


def check_chosen_probabilities(
    values: Floats,
    column: str,
    source: str,
    error: type[OffpolicyError],
    *,
    positive: bool,
    tolerance: float = 1e-6,
) -> None:
    """A log's probabilities of what was chosen: finite, at most 1, above 0 if ``positive``."""
    check_finite(values, column, source, error)
    low = (
        f"0 or below, or under {SMALLEST_PROPENSITY:g}). The log must hold the probability with "
        f"which the chosen action was drawn. If these rows were not randomised, leave them out."
        if positive
        else "below 0). Probabilities are from 0 to 1."
    )
    high = (
        "above 1). Probabilities are from 0 to 1; if these are inverse propensities, or "
        "percentages, convert them first."
    )
    least = SMALLEST_PROPENSITY if positive else 0.0
    for bad, what in ((values < least, low), (values > 1.0 + tolerance, high)):
        refuse(bad, "{value} ({count} are " + what, column, source, error, value=values)


def check_probabilities(
    values: Floats,
    offsets: Ints,
    column: str,
    source: str,
    error: type[OffpolicyError],
    tolerance: float,
) -> None:
    """A log's probabilities of every candidate: finite, not negative, each decision's sum 1."""
    for start in range(0, len(offsets) - 1, BLOCK_ROWS):
        bounds = offsets[start : start + BLOCK_ROWS + 1]
        block = values[bounds[0] : bounds[-1]]
        if not block.min() >= 0.0 or not block.max() <= 1.0 + tolerance:
            refuse(
                ~((values >= 0.0) & (values <= 1.0 + tolerance)),
                "{value} ({count} are missing, negative or above 1). Probabilities are from 0 to "
                "1, one for every candidate.",
                column, source, error, offsets, value=values,
            )  # fmt: skip
        if (np.abs(row_sums(block, bounds - bounds[0]) - 1.0) > tolerance).any():
            sums = row_sums(values, offsets)
            refuse(
                np.abs(sums - 1.0) > tolerance,
                "the probabilities sum to {value:.9g}, not 1 ({count} are off by more than "
                f"{tolerance:g}). Every candidate that could have been chosen must be listed with "
                "its probability; if they are only rounded, divide each decision's probabilities "
                "by their sum.",
                column, source, error, value=sums,
            )  # fmt: skip
