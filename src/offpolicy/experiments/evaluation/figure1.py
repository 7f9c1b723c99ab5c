"""Figure 1: bias, variance and mean squared error of CAB over M, and what the paper says of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.claims import Claim
from offpolicy.experiments.evaluation.accuracy import GRID, Outcome
from offpolicy.experiments.pictures import OverM

AXES = OverM(GRID.M, (1.0, 10.0, 100.0, 1000.0))


def rise(values: Floats) -> float:
    """For a claim of the paper: the largest rise from an earlier value to a later one."""
    return float((values - np.minimum.accumulate(values)).max())


def quotient(value: float, other: float) -> float:
    """For a claim of the paper: the ratio of two errors; equal zeros are equal."""
    return float(value / other) if other > 0.0 else 1.0 if value == 0.0 else float("inf")


def _bias_falls(accuracy: Accuracy) -> float:
    size = np.abs(accuracy.bias["CAB"])
    rises = rise(size)
    return quotient(rises, float(size[0])) if rises > 0.0 else 0.0


def _variance_rises(accuracy: Accuracy) -> float:
    variance = accuracy.variance["CAB"]
    fall = rise(-variance)
    return fall / float(variance.max()) if fall > 0.0 else 0.0


def _in_the_middle(accuracy: Accuracy) -> float:
    mse = accuracy.mse("CAB")
    return quotient(mse.min(), min(mse[0], mse[-1]))


def _narrowness(accuracy: Accuracy) -> float:
    """A claim on Figure 1: one over the decades of M with CAB's error at most twice its least."""
    mse = accuracy.mse("CAB")
    drawn = np.isfinite(accuracy.M) & (accuracy.M > 0.0)
    good = int((drawn & (mse <= 2.0 * mse.min())).sum())
    decades = np.ptp(np.log10(accuracy.M[drawn])) / (drawn.sum() - 1)
    return float(1.0 / (good * decades)) if good else float("inf")


PLACE = "Section 4.2, paragraph 1"
CLAIMS = (
    Claim("The bias of CAB falls as M grows", "largest rise of its size, relative to the start",
          _bias_falls, 0.05, every_size=True,
          place=PLACE),
    Claim("The variance of CAB rises with M", "largest fall of the variance, relative to its "
          "largest", _variance_rises, 0.05, every_size=True,
          place=PLACE),
    Claim("The best M of CAB is in the middle at every n", "MSE at the best M / at the better end",
          _in_the_middle, 0.95, every_size=True,
          place=PLACE),
    Claim("CAB is robust to the choice of M", "1 / decades of M within twice the least MSE",
          _narrowness, 1.0, every_size=True,
          place=PLACE),
)  # fmt: skip


def draw(outcomes: Sequence[Outcome], path: Path) -> None:
    """Figure 1 on one data set, by size: lines are exact, dots are of the repeats."""
    repeated = {f"n = {outcome.n:,}": outcome.repeated for outcome in outcomes}
    exact = {f"n = {outcome.n:,}": outcome.exact for outcome in outcomes}
    AXES.figure_1(path, outcomes[0].data, repeated, exact, depth=1e-4)
