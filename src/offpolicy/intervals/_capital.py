"""The capital of a bettor: what it rules out, and the loops that follow it row by row.

The game, the bets and why they prove anything are told in `offpolicy.betting`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, MutableSequence, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats, Ints

CAP = 0.95
"""The largest part of the capital that one row can cost."""

AIM = 1.25
"""By how much the fixed-n bets overshoot their goal: it is then mostly met before the last row."""

EARLY = 8
"""Large weights are waited for in the first 1/EARLY of the rows only: they may never come."""

HORIZONS = (16.0, 256.0, 4096.0, 65_536.0, 1_048_576.0)
"""The numbers of rows for which the bets of a sequence are tuned."""

COMPILED = 2000
"""From this many rows on the loops are compiled."""

_HALVINGS = 32
_STEP = 1.01
_SMALLEST = 2.0**-65
_PARTS = 8


class Side(NamedTuple):
    """Rows x ≥ 0 in units of their mean, and what was known of their variance before each."""

    x: Floats
    spread: Floats
    prior: Floats
    """Before row t the variance is taken to be ``spread[t] + prior[t]·m²``."""
    unit: float


def side_of(x: Floats, weight: Floats | None = None) -> Side:
    """The rows on which one bets, for one end of the interval; they must not all be 0."""
    largest = float(x.max())
    x = x / largest
    mean = float(x.mean())
    x = x / mean
    before = np.arange(len(x), dtype=np.float64)
    # About any constant the variance is the same; about a row it keeps its digits.
    total = _before(np.cumsum(x - x[0]))
    squares = _before(np.cumsum((x - x[0]) ** 2))
    deviation = np.maximum(squares - total * total / np.maximum(before, 1.0), 0.0)
    # As long as all was 0, the first positive row is expected to make up for the wait.
    nothing = np.arange(len(x)) <= int(np.argmax(x > 0.0))
    missing = 0.0 if weight is None else _missing(weight)
    prior = np.where(nothing, 1.0, (before + 1.0) ** -3.0 + missing**2) * (before + 1.0)
    return Side(x, deviation / (before + 1.0), prior, largest * mean)


def _missing(weight: Floats) -> Floats:
    """Before each row that is early in a betting interval: by how much the weights' mean is below
    1. Large ones are then to come, and the next row is expected to make up for them as well."""
    before = np.arange(len(weight))
    total = _before(np.cumsum(np.minimum(weight, 1e100)))  # of which the sum is finite
    early = (before > 0) & (before * EARLY < len(weight))
    return np.where(early, np.maximum(1.0 - total / np.maximum(before, 1), 0.0), 0.0)


def _before(running: Floats) -> Floats:
    return np.concatenate([[0.0], running[:-1]])


def lower_limit(x: Floats, alpha: float, weight: Floats | None = None) -> float:
    """The betting interval's lower end: the largest m ruled out at a fixed n; 0 if none is.

    ``weight`` are the rows' importance weights, if they have any; their mean should be 1.
    """
    if not x.any():
        return 0.0
    side = side_of(x, weight)
    left = np.arange(len(x), 0, -1, dtype=np.float64)
    run, data = prepared(final_capital, side.x, side.spread * left, side.prior * left, stakes())

    def ruled_out(m: float) -> bool:
        return float(run(*data, m, alpha / AIM, 1.0 / AIM)) >= 1.0 / AIM

    return side.unit * _bisected(ruled_out)


def _bisected(ruled_out: Callable[[float], bool]) -> float:
    """An interval's end: the largest m ruled out, to ten digits; 0 if none above 1e-280 is."""
    bottom, top, factor = 0.0, 1.0, 0.5
    while ruled_out(top):
        bottom, top = top, 2.0 * top
    while not bottom:
        # One huge row makes the mean a poor guess: fall ever faster.
        lower = top * factor
        if lower < 1e-280:
            return 0.0
        bottom, top = (lower, top) if ruled_out(lower) else (0.0, lower)
        factor *= factor
    while top - bottom > 2.0**-_HALVINGS * top:
        far = top > 4.0 * bottom
        middle = math.sqrt(bottom) * math.sqrt(top) if far else 0.5 * (bottom + top)
        if ruled_out(middle):
            bottom = middle
        else:
            top = middle
    return bottom


def lower_limits(x: Floats, alpha: float, after: Ints) -> Floats:
    """Ends of a confidence sequence: after so many rows, the largest m on a grid yet ruled out.

    An m nearer to the mean is ruled out later. So the grid closes in on the limit after the last
    row, by steps of 1% of the distance to the mean; each m costs only the rows until it is out.
    Rounding down to the grid keeps the limits valid.
    """
    if not x.any():
        return np.zeros(len(after))
    side = side_of(x)
    bets = np.sqrt(-2.0 * math.log(alpha) / np.array(HORIZONS))
    wealth = np.empty(len(bets))
    run, data = prepared(first_crossing, side.x, side.spread, side.prior, bets, wealth)

    def crossing(m: float) -> int:
        return int(run(*data, m, alpha / len(bets)))

    last = _bisected(lambda m: crossing(m) <= len(x))
    grid = [0.0] if last == 0.0 else _grid(last)
    out = np.array([0, *(crossing(m) for m in grid[1:])])
    reached = np.searchsorted(np.maximum.accumulate(out), after, side="right") - 1
    return side.unit * np.array(grid)[reached]


def _grid(last: float) -> list[float]:
    """An interval's possible ends: 0 and points to ``last``, ever denser near 0 and the mean."""
    gap = max(1.0 - last, 1e-3 * last)
    steps = math.ceil(math.log1p(last / gap) / math.log(_STEP))
    near = [last - gap * (_STEP**k - 1.0) for k in range(1, steps)]
    small = [last * 2.0 ** (-k / 8.0) for k in range(1, 80)]
    return [0.0, *sorted(m for m in near + small if m > 0.0), last]


# -- the loops ----------------------------------------------------------------------------------

Numbers = Sequence[float] | Floats


def final_capital(
    x: Numbers,
    spread: Numbers,
    prior: Numbers,
    table: Numbers,
    m: float,
    start: float,
    goal: float,
) -> float:
    """The bettor's capital, as a share of what is aimed at, after the last row or at the goal.

    ``spread`` and ``prior`` are times the rows left; ``table`` is `stakes`, read between its
    points by straight lines. A larger capital v never falls behind a smaller one, whatever x comes:
    stake(v) is concave, so its slope is at most CAP/m, and stake(v)/(goal − v) grows, so that
    nothing is overtaken on the way to the goal. Hence the capital falls as m grows.
    """
    v = start
    for t in range(len(x)):
        if v >= _SMALLEST:
            mantissa, exponent = math.frexp(v)
            place = (2.0 * mantissa - 1.0) * _PARTS
            part = int(place)
            k = (exponent + 64) * _PARTS + part
            stake = table[k] + (table[k + 1] - table[k]) * (place - part)
        else:
            stake = table[0] * (v / _SMALLEST)
        top = CAP * v / m
        sigma = math.sqrt(spread[t] + prior[t] * m * m)
        stake = stake / sigma if stake < top * sigma else top
        v += stake * (x[t] - m)
        if v >= goal:
            return v
    return v


def first_crossing(
    x: Numbers,
    spread: Numbers,
    prior: Numbers,
    bets: Numbers,
    wealth: MutableSequence[float] | Floats,
    m: float,
    start: float,
) -> int:
    """After how many rows the bettor's capitals together reach 1; all rows + 1 if never."""
    top = CAP / m
    for k in range(len(bets)):
        wealth[k] = start
    for t in range(len(x)):
        sigma = math.sqrt(spread[t] + prior[t] * m * m)
        together = 0.0
        for k in range(len(bets)):
            stake = bets[k] / sigma if bets[k] < top * sigma else top
            wealth[k] *= 1.0 + stake * (x[t] - m)
            # Lost capital is let go before it becomes too small a number to multiply quickly.
            wealth[k] = wealth[k] if wealth[k] > 1e-250 else 0.0
            together += wealth[k]
        if together >= 1.0:
            return t + 1
    return len(x) + 1


def prepared(function: Callable[..., Any], x: Floats, *arrays: Floats) -> tuple[Any, list[Any]]:
    """The bettor's loop and its data: as they are for few rows, else compiled."""
    if len(x) < COMPILED:
        return function, [x.tolist(), *(array.tolist() for array in arrays)]
    return _compiled(function), [x, *arrays]


@functools.cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    from offpolicy._core.kernels import COMMON, compiled

    loop: Callable[..., Any] = compiled(**COMMON)(function)
    return loop


@functools.cache
def stakes() -> Floats:
    """The bettor's stakes φ(Φ⁻¹(v)) for v from 2⁻⁶⁵ to 1, `_PARTS` points to every power of 2."""
    standard = NormalDist()
    parts = 1.0 + np.arange(_PARTS) / _PARTS
    v = np.concatenate([2.0**power * parts for power in range(-65, 0)])
    return np.array([*(standard.pdf(standard.inv_cdf(p)) for p in v.tolist()), 0.0])
