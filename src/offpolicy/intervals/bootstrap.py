"""Intervals that give the rows other weights: the bootstrap, and empirical likelihood.

All cover the mean of x (with row weights ω, the ratio Σωx/Σω) and need large n: with few rows, or
a few that dominate, they are too narrow. `offpolicy.betting` is valid at every n.

One row, or one group, says nothing about the spread: the interval is then infinite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from numbers import Integral
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core import validation as check
from offpolicy._core.parallel import each_block
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import ParameterError, did_you_mean
from offpolicy.intervals._closed_form import EVERYTHING, Interval, check_level, normal_quantile

_TOGETHER = 128
"""Resamples that are drawn by one thread at a time."""
_FEW = 50_000_000
"""Draws that NumPy makes sooner than a loop is compiled."""


def bootstrap(
    x: ArrayLike,
    level: float,
    *,
    kind: Literal["percentile", "bca"] = "percentile",
    resamples: int = 2000,
    seed: int = 0,
    row_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
) -> Interval:
    """The bootstrap interval: draw rows anew, with replacement; take quantiles of the means.

    Covers the mean of x. Assumes independent rows, or clusters of them. Needs large n; ``"bca"``
    (Efron 1987) corrects for skewness and bias, and needs less. Beyond the rows memory holds a
    number per resample, and for each thread 2 kB per 8,192 rows; the work is n·resamples.

    Parameters
    ----------
    x : (n,)
    level : float
    kind : "percentile" or "bca"
    resamples : int
    seed : int
    row_weight : (n,), optional
        How many decisions each row stands for.
    cluster : (n,), optional
        Rows of one cluster are drawn together.

    Examples
    --------
    >>> interval = bootstrap([0.0, 1.0] * 500, 0.95)
    >>> [round(end, 2) for end in interval]
    [0.47, 0.53]
    """
    how: dict[str, Any] = {"kind": kind, "resamples": resamples, "seed": seed}
    return bootstrap_together([x], level, row_weight=row_weight, cluster=cluster, **how)[0]


def bootstrap_together(
    columns: Sequence[ArrayLike],
    level: float,
    *,
    kind: Literal["percentile", "bca"] = "percentile",
    resamples: int = 2000,
    seed: int = 0,
    row_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
) -> list[Interval]:
    """The bootstrap intervals of several columns over the same rows, from one set of draws."""
    check_level(level)
    for name, number, least in (("resamples", resamples, 2), ("seed", seed, 0)):
        fine = isinstance(number, Integral) and number >= least
        check.need(fine, name, number, f"a whole number, {least} or more")
    if kind not in ("percentile", "bca"):
        raise ParameterError(
            f'kind is {kind!r}; it must be "percentile" or "bca".'
            f"{did_you_mean(str(kind), ['percentile', 'bca'])}"
        )
    made = [_rows(x, row_weight) for x in columns]
    omega = made[0][1]
    code = None if cluster is None else _codes(cluster, len(made[0][0]))
    centred = [_centred(values, omega) for values, _ in made]
    pulls = [y if omega is None else omega * y for _, _, y in centred]
    mass = omega
    if code is not None:
        pulls = [np.asarray(np.bincount(code, pull), dtype=np.float64) for pull in pulls]
        mass = np.bincount(code, omega).astype(np.float64)
    if len(pulls[0]) == 1:
        return [EVERYTHING] * len(columns)
    sums = _resampled([*pulls, *(() if mass is None else (mass,))], resamples, seed)
    means = sums[: len(pulls)] / (len(pulls[0]) if mass is None else sums[-1])
    return [
        _interval(values, level, kind, mean, centre, pull, mass)
        for (values, _), mean, centre, pull in zip(made, means, centred, pulls, strict=True)
    ]


def _interval(
    values: Floats,
    level: float,
    kind: str,
    means: Floats,
    centred: tuple[float, float, Floats],
    pull: Floats,
    mass: Floats | None,
) -> Interval:
    """Of one of the columns of a bootstrap."""
    if values.min() == values.max():
        return Interval(float(values[0]), float(values[0]))
    centre, unit, _ = centred
    tail = (1.0 - level) / 2.0
    shares = (tail, 1.0 - tail)
    if kind == "bca":
        shares = _corrected(means, pull, mass, level)
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
    sentence = "{value}. It says how many decisions the row stands for: leave rows of weight 0 out."
    check.refuse(omega <= 0.0, sentence, "row_weight", "", ParameterError, value=omega)
    return values, omega


# -- pieces -------------------------------------------------------------------------------------


def _centred(x: Floats, omega: Floats | None) -> tuple[float, float, Floats]:
    """For a bootstrap: the mean, the largest distance from it, and the rows in these terms."""
    half = 0.5 * x.min() + 0.5 * x.max()
    reach = float(np.abs(x - half).max()) or 1.0
    share = (x - half) / reach
    middle = float(np.average(share, weights=omega))
    return float(half + reach * middle), reach, share - middle


def _codes(cluster: ArrayLike, n: int) -> Ints:
    """For a bootstrap, which cluster each row is of: 0, 1, 2, …"""
    labels = np.asarray(cluster)
    if labels.shape != (n,):
        raise ParameterError(
            f"cluster has shape {labels.shape}; it must hold one for each of the {n:,} rows.",
            column="cluster",
        )
    return np.asarray(np.unique(labels, return_inverse=True)[1].reshape(-1))


def _resampled(columns: Sequence[Floats], resamples: int, seed: int) -> Floats:
    """For every column, its sums over the bootstrap's resamples.

    How many of a resample's n draws fall into each stretch of rows is multinomial; in it they are
    uniform.
    """
    from offpolicy.intervals import _bootstrap_kernels as kernels

    n, width = len(columns[0]), kernels.COLUMNS
    add = kernels.add_draws_by_numpy if n * resamples < _FEW else kernels.add_draws
    groups = np.zeros((-(-len(columns) // width), n, width))
    for k, column in enumerate(columns):
        groups[k // width, :, k % width] = column
    starts = np.arange(0, n, kernels.STRETCH)
    sizes = np.minimum(n - starts, kernels.STRETCH)

    def drawn(first: int) -> Floats:
        rng = np.random.default_rng([seed, first])
        shape = len(starts), min(_TOGETHER, resamples - first)
        counts = np.ascontiguousarray(rng.multinomial(n, sizes / n, size=shape[1]).T)
        states = rng.integers(0, 2**64, shape, dtype=np.uint64)
        sums = np.zeros((len(groups), shape[1], width))
        for k, start in enumerate(starts):
            for rows, total in zip(groups, sums, strict=True):
                add(rows[start : start + sizes[k]], counts[k], states[k], total)
        return sums

    parts = each_block(drawn, [partial(int, first) for first in range(0, resamples, _TOGETHER)])
    sums = np.concatenate(list(parts), axis=1)
    return np.asarray(sums.transpose(0, 2, 1).reshape(-1, resamples)[: len(columns)])


def _corrected(
    means: Floats, pull: Floats, mass: Floats | None, level: float
) -> tuple[float, float]:
    """BCa bootstrap: which quantiles to take, by bias and skewness. The estimate itself is 0."""
    standard = NormalDist()
    below = float(((means < 0.0).sum() + (means <= 0.0).sum()) / (2.0 * len(means)))
    least = 0.5 / len(means)
    bias = standard.inv_cdf(min(max(below, least), 1.0 - least))
    # Without row i the ratio changes by −ω(y − ratio)/(Σω − ω): the jackknife in closed form.
    push = pull if mass is None else pull / (mass.sum() - mass)
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
