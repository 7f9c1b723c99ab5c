"""From a classifier's scores to probabilities: maps learned from what was chosen, sums, a floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.ragged import row_sums
from offpolicy._core.types import Floats, Ints
from offpolicy.logs import SMALLEST_PROPENSITY
from offpolicy.models._inputs import by_action

SMALLEST_SCORE = 1e-6
"""Sigmoid calibration looks at log-odds; probabilities nearer to 0 or 1 count as this near."""

SLOPE_PENALTY = 1e-3
"""On the slope of a sigmoid calibration, squared and halved."""


def monotone(x: Floats, y: Floats, weight: Floats | None) -> Any:
    """The increasing step function of x that is nearest to y."""
    from sklearn.isotonic import IsotonicRegression

    return IsotonicRegression(out_of_bounds="clip").fit(x, y, sample_weight=weight)


@dataclass(frozen=True, slots=True)
class _Sigmoid:
    """1/(1 + exp(−(slope · log-odds + intercept)))."""

    slope: float
    intercept: float

    def predict(self, p: Floats) -> Floats:
        return _logistic(self.slope * _log_odds(p) + self.intercept)


def sigmoid(p: Floats, y: Floats, weight: Floats | None) -> _Sigmoid:
    """The logistic curve of greatest likelihood, by Newton's method.

    A very small penalty on the slope keeps it finite where one score parts the choices cleanly.
    """
    w = np.ones(len(y)) if weight is None else weight / weight.mean()
    z = _log_odds(p)
    centre = float(z.mean())
    z -= centre
    rate = float((w * y).sum() / w.sum())

    def loss(theta: Floats) -> float:
        score = theta[0] * z + theta[1]
        unlikely = w * (np.logaddexp(0.0, score) - y * score)
        return float(unlikely.sum() + SLOPE_PENALTY * theta[0] ** 2 / 2.0)

    theta = np.array([0.0, np.log(rate / (1.0 - rate))])
    now = loss(theta)
    for _ in range(100):
        share = _logistic(theta[0] * z + theta[1])
        error, curvature = w * (share - y), w * share * (1.0 - share)
        gradient = np.array([(error * z).sum() + SLOPE_PENALTY * theta[0], error.sum()])
        cross, square = (curvature * z).sum(), (curvature * z * z).sum()
        hessian = [[square + SLOPE_PENALTY, cross], [cross, curvature.sum() + 1e-12]]
        step = np.linalg.solve(hessian, gradient)
        promised = float(gradient @ step)
        if promised <= 1e-12 * (1.0 + now):
            break
        while (then := loss(theta - step)) > now - 1e-4 * promised and promised > 1e-12 * now:
            step, promised = step / 2.0, promised / 2.0
        theta, now = theta - step, then
    return _Sigmoid(float(theta[0]), float(theta[1] - theta[0] * centre))


def _logistic(score: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-score)))


def _log_odds(p: Floats) -> Floats:
    inside = np.clip(p, SMALLEST_SCORE, 1.0 - SMALLEST_SCORE)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def mapped(p: Floats, code: Ints, maps: dict[int, Any]) -> Floats:
    """Each probability through its action's map, if it has one."""
    out = p.copy()
    for action, mine in by_action(code, max(maps) + 1):
        if action in maps:
            out[mine] = maps[action].predict(p[mine])
    return out


def normalised(p: Floats, offsets: Ints, open_: NDArray[np.bool_]) -> Floats:
    """Each decision's probabilities made to sum to 1; where all are 0, equal among the open."""
    total = row_sums(p, offsets)
    lengths = np.diff(offsets)
    nothing = np.repeat(~(total > SMALLEST_PROPENSITY), lengths)
    if nothing.any():
        p = np.where(nothing, open_.astype(np.float64), p)
        total = row_sums(p, offsets)
    return np.asarray(p / np.repeat(total, lengths))


def floored(p: Floats, offsets: Ints, open_: NDArray[np.bool_], floor: float) -> Floats:
    """No open candidate under the floor; the others give way in proportion."""
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
