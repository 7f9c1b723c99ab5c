"""From a classifier's scores to probabilities: maps learned from what was chosen, sums, a floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpolicy._core import logistic
from offpolicy._core.ragged import row_sums
from offpolicy._core.types import Floats, Ints
from offpolicy.logs import SMALLEST_PROPENSITY
from offpolicy.models._inputs import by_action

SMALLEST_SCORE = 1e-6
"""Sigmoid calibration looks at log-odds; probabilities nearer to 0 or 1 count as this near."""

SLOPE_PENALTY = 1e-3
"""On the slope of a sigmoid calibration, squared and halved."""


def monotone(x: Floats, y: Floats, weight: Floats | None) -> Any:
    """Isotonic calibration of a model: the increasing step function of x that is nearest to y."""
    from sklearn.isotonic import IsotonicRegression

    return IsotonicRegression(out_of_bounds="clip").fit(x, y, sample_weight=weight)


@dataclass(frozen=True, slots=True)
class _Sigmoid:
    """1/(1 + exp(−(slope · log-odds + intercept)))."""

    slope: float
    intercept: float

    def predict(self, p: Floats) -> Floats:
        return logistic.sigmoid(self.slope * _log_odds(p) + self.intercept)


def sigmoid(p: Floats, y: Floats, weight: Floats | None) -> _Sigmoid:
    """Sigmoid calibration of a propensity model: the logistic curve of greatest likelihood.

    A very small penalty on the slope keeps it finite where one score parts the choices cleanly.
    """
    z = _log_odds(p)
    centre = float(z.mean())
    slope, intercept = logistic.fit(
        np.stack([z - centre, np.ones(len(z))]),
        y,
        np.array([SLOPE_PENALTY, 1e-12]),
        weight=1.0 if weight is None else weight / weight.mean(),
    ).tolist()
    return _Sigmoid(slope, intercept - slope * centre)


def _log_odds(p: Floats) -> Floats:
    inside = np.clip(p, SMALLEST_SCORE, 1.0 - SMALLEST_SCORE)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def mapped(p: Floats, code: Ints, maps: dict[int, Any]) -> Floats:
    """A propensity model's probabilities, each through its action's calibration, if it has one."""
    out = p.copy()
    for action, mine in by_action(code, max(maps) + 1):
        if action in maps:
            out[mine] = maps[action].predict(p[mine])
    return out


def normalised(p: Floats, offsets: Ints, open_: NDArray[np.bool_]) -> Floats:
    """A propensity model's probabilities made to sum to 1; if all are 0, equal among the open."""
    total = row_sums(p, offsets)
    lengths = np.diff(offsets)
    nothing = np.repeat(~(total > SMALLEST_PROPENSITY), lengths)
    if nothing.any():
        p = np.where(nothing, open_.astype(np.float64), p)
        total = row_sums(p, offsets)
    return np.asarray(p / np.repeat(total, lengths))


def floored(p: Floats, offsets: Ints, open_: NDArray[np.bool_], floor: float) -> Floats:
    """A propensity model's probabilities, none of an open candidate under the floor."""
    lengths = np.diff(offsets)
    count = np.repeat(row_sums(open_.astype(np.float64), offsets), lengths)
    least = np.where(open_, np.minimum(floor, 1.0 / np.maximum(count, 1.0)), 0.0)
    low = np.zeros(len(p), dtype=bool)
    while True:
        left = 1.0 - row_sums(np.where(low, least, 0.0), offsets)
        rest = row_sums(np.where(low, 0.0, p), offsets)
        scale = np.divide(left, rest, out=np.zeros_like(left), where=rest > 0.0)
        out = np.where(low, least, p * np.repeat(scale, lengths))
        lower = ~low & (out < least)
        if not lower.any():
            return out
        low |= lower
