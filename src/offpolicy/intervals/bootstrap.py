"""Intervals that give the rows other weights: the bootstrap, and empirical likelihood.

All cover the mean of x (with row weights ω, the ratio Σωx/Σω) and need large n: with few rows, or
a few that dominate, they are too narrow. `offpolicy.betting` is valid at every n.

One row, or one group, says nothing about the spread: the interval is then infinite.
"""

from __future__ import annotations

import math
from numbers import Integral
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core import validation as check
from offpolicy._core.types import Floats
from offpolicy.errors import ParameterError, Place, did_you_mean
from offpolicy.intervals._closed_form import EVERYTHING, Interval, check_level, normal_quantile

_STRETCH = 2**14
"""So many neighbouring rows are drawn from at a time: they stay in the processor's cache."""

_TIES = 16
"""With this many rows to a distinct value, counts of the values are drawn instead of rows."""


def bootstrap(
    x: ArrayLike,
    level: float,
    *,
    kind: Literal["percentile", "bca"] = "percentile",
    resamples: int = 2000,
    seed: int = 0,
    row_weight: ArrayLike | None = None,
) -> Interval:
    """The bootstrap interval: draw rows anew, with replacement; take quantiles of the means.

    Covers the mean of x. Assumes independent rows. Needs large n; ``"bca"`` (Efron 1987)
    corrects for skewness and bias, and needs less. Beyond the rows memory holds a number per
    resample and 16,384 rows; the work is n·resamples, or less where few values are distinct.

    Parameters
    ----------
    x : (n,)
    level : float
    kind : "percentile" or "bca"
    resamples : int
    seed : int
    row_weight : (n,), optional
        How many decisions each row stands for.

    Examples
    --------
    >>> interval = bootstrap([0.0, 1.0] * 500, 0.95)
    >>> [round(end, 2) for end in interval]
    [0.47, 0.53]
    """
    check_level(level)
    _check_draws(resamples, seed)
    if kind not in ("percentile", "bca"):
        raise ParameterError(
            f'kind is {kind!r}; it must be "percentile" or "bca".'
            f"{did_you_mean(str(kind), ['percentile', 'bca'])}"
        )
    values, omega = _rows(x, row_weight)
    if len(values) == 1:
        return EVERYTHING
    if values.min() == values.max():
        return Interval(float(values[0]), float(values[0]))
    centre, unit, y = _centred(values, omega)
    means = _resampled(y, omega, resamples, np.random.default_rng(seed))
    tail = (1.0 - level) / 2.0
    shares = (tail, 1.0 - tail)
    if kind == "bca":
        shares = _corrected(means, y, omega, level)
    low, high = np.quantile(means, shares)
    return Interval(centre + unit * float(low), centre + unit * float(high))


def empirical_likelihood(x: ArrayLike, level: float) -> Interval:
    r"""Owen's interval: all means that the rows can have without becoming too unlikely.

    .. math:: -2 \max_w \sum_i \ln(n w_i) \le z^2, \qquad
              \textstyle\sum_i w_i = 1, \ \sum_i w_i x_i = m

    Covers the mean of x. Assumes independent rows. Needs large n, though its shape follows the
    skewness of the rows; never leaves their range.

    Examples
    --------
    >>> interval = empirical_likelihood([0.0, 1.0] * 500, 0.95)
    >>> [round(end, 3) for end in interval]
    [0.469, 0.531]
    """
    goal = normal_quantile(level) ** 2
    values, _ = _rows(x, None)
    if len(values) == 1:
        return EVERYTHING
    if values.min() == values.max():
        return Interval(float(values[0]), float(values[0]))
    centre, unit, y = _centred(values, None)
    return Interval(centre - unit * _unlikely(-y, goal), centre + unit * _unlikely(y, goal))


# -- at the door --------------------------------------------------------------------------------


def _rows(x: ArrayLike, row_weight: ArrayLike | None) -> tuple[Floats, Floats | None]:
    values = check.as_sample(x, "x")
    if row_weight is None:
        return values, None
    omega = check.as_sample(row_weight, "row_weight")
    if len(omega) != len(values):
        raise ParameterError(
            f"row_weight has {len(omega):,} values and x {len(values):,}: there must be one of "
            f"each for every row."
        )
    if not (omega > 0.0).all():
        row = int(np.argmax(~(omega > 0.0)))
        raise ParameterError(
            f"{omega[row]}. It says how many decisions the row stands for: leave rows of weight 0 "
            f"out.",
            Place(column="row_weight", row=row),
        )
    return values, omega


def _check_draws(resamples: int, seed: int) -> None:
    if not isinstance(resamples, Integral) or resamples < 2:
        raise ParameterError(f"resamples is {resamples}; it must be a whole number, 2 or more.")
    if not isinstance(seed, Integral) or seed < 0:
        raise ParameterError(f"seed is {seed}; it must be a whole number, 0 or more.")


# -- pieces -------------------------------------------------------------------------------------


def _centred(x: Floats, omega: Floats | None) -> tuple[float, float, Floats]:
    """For a bootstrap: the mean, the largest distance from it, and the rows in these terms."""
    half = 0.5 * x.min() + 0.5 * x.max()
    reach = float(np.abs(x - half).max()) or 1.0
    share = (x - half) / reach
    middle = float(np.average(share, weights=omega))
    return float(half + reach * middle), reach, share - middle


def _resampled(y: Floats, omega: Floats | None, resamples: int, rng: np.random.Generator) -> Floats:
    """The (weighted) means of the bootstrap's resamples.

    How many of a resample's n draws fall into each stretch of rows is multinomial; in it they are
    uniform. Of values that recur often, counts are drawn in the place of rows.
    """
    n = len(y)
    if omega is None:
        values, times = np.unique(y, return_counts=True)
        if len(values) * _TIES <= n:
            return np.array([rng.multinomial(n, times / n) @ values / n for _ in range(resamples)])
    columns = [y] if omega is None else [omega * y, omega]
    totals = np.zeros((len(columns), resamples))
    starts = np.arange(0, n, _STRETCH)
    sizes = np.minimum(n - starts, _STRETCH)
    counts = rng.multinomial(n, sizes / n, size=resamples)
    for start, size, times in zip(starts, sizes, counts.T, strict=True):
        parts = [column[start : start + size] for column in columns]
        for k, count in enumerate(times):
            drawn = rng.integers(0, size, count)
            for total, part in zip(totals, parts, strict=True):
                total[k] += part.take(drawn, mode="clip").sum()
    return np.asarray(totals[0] / (n if omega is None else totals[1]))


def _corrected(means: Floats, y: Floats, omega: Floats | None, level: float) -> tuple[float, float]:
    """BCa bootstrap: which quantiles to take, by bias and skewness. The estimate itself is 0."""
    standard = NormalDist()
    below = float(((means < 0.0).sum() + (means <= 0.0).sum()) / (2.0 * len(means)))
    least = 0.5 / len(means)
    bias = standard.inv_cdf(min(max(below, least), 1.0 - least))
    # Without row i the ratio changes by −ω(y − ratio)/(Σω − ω): the jackknife in closed form.
    push = y if omega is None else omega * y / (omega.sum() - omega)
    push = push - push.mean()
    push = push / np.abs(push).max()
    acceleration = float((push**3).sum() / (6.0 * (push**2).sum() ** 1.5))

    def share(z: float) -> float:
        slack = 1.0 - acceleration * (bias + z)
        if slack <= 0.0:
            return 1.0 if z > 0.0 else 0.0
        return standard.cdf(bias + (bias + z) / slack)

    z = normal_quantile(level)
    return share(-z), share(z)


def _unlikely(y: Floats, goal: float) -> float:
    """Owen's limit: m in (0, max y) where −2 log likelihood ratio is ``goal``; y has mean 0."""
    bottom, top = 0.0, float(y.max())
    m = min(math.sqrt(goal * float((y * y).mean()) / len(y)), 0.5 * top)
    tilt = 0.0
    for _ in range(100):
        tilt, ratio = _likelihood_ratio(y - m, tilt)
        if ratio < goal:
            bottom = m
        else:
            top = m
        # By the envelope theorem the slope of the ratio in m is 2·n·tilt.
        step = (goal - ratio) / (2.0 * len(y) * tilt)
        if abs(step) <= 1e-13 * m or top - bottom <= 1e-15 * top:
            break
        m = m + step if bottom < m + step < top else 0.5 * (bottom + top)
    return m


def _likelihood_ratio(d: Floats, guess: float) -> tuple[float, float]:
    """For Owen's interval: κ with Σ d/(1 − κd) = 0, and 2 Σ log(1 − κd); Σ d is negative."""
    # No weight 1/(n(1 − κd)) exceeds 1, which bounds κ; the sum grows with κ.
    bottom, top = 0.0, (1.0 - 1.0 / len(d)) / float(d.max())
    tilt = guess if bottom < guess < top else 0.0
    for _ in range(200):
        part = d / (1.0 - tilt * d)
        excess, slope = float(part.sum()), float((part * part).sum())
        if excess < 0.0:
            bottom = tilt
        else:
            top = tilt
        step = -excess / slope
        if abs(step) <= 1e-14 * tilt or top - bottom <= 1e-15 * top:
            break
        tilt = tilt + step if bottom < tilt + step < top else 0.5 * (bottom + top)
    return tilt, 2.0 * float(np.log1p(-tilt * d).sum())
