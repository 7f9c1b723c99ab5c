r"""Intervals by betting: valid at every n, without an upper bound on the weights.

Let :math:`x_t \ge 0` have mean :math:`\mu`, given all rows before. Somebody who starts with a
capital of 1 and stakes on :math:`x_t` coming out above :math:`m` holds, after n rows,

.. math:: K_n(m) = \prod_{t \le n} \big(1 + \lambda_t (x_t - m)\big), \qquad
          0 \le \lambda_t < 1/m,

where :math:`\lambda_t` may depend on the rows before t only. If :math:`m = \mu` the game is fair,
and the capital ever reaches :math:`1/\alpha` with probability at most :math:`\alpha` (Ville). So
every m at which it did is ruled out (Waudby-Smith and Ramdas 2024; for off-policy evaluation
Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro 2022). The bets below make the capital fall as
m grows, row by row, hence what is ruled out is everything below one limit, found by bisection.

**At a fixed n** the bets aim at holding :math:`1/\alpha` after row n, not at growth: with V the
capital divided by its goal, the stake is what replicates, were the rest of the rows normal, the
bet "all or nothing" of price V,

.. math:: V \lambda_t = \varphi(\Phi^{-1}(V)) \big/ \hat\sigma_t \sqrt{n - t + 1},

at most :math:`V/m` times `CAP`. Of :math:`\hat\sigma_t^2` the rows before t tell, and the weights
before t: as long as their mean is below 1, large ones are to come, and the stake is small
(in the first eighth of the rows; they may never come). The interval is thereby about as wide as
the normal one, where that one is right. (Bets that look at their goal: Voráček and Orabona 2025.)

**At all n at once** the capital is split evenly over bets tuned for `HORIZONS` rows.

The order of the rows must say nothing about their values: use the log's own order, never a sorted
one. Rows must be independent and of equal mean; rows that hang together are not provided for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core import validation as check
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import ParameterError
from offpolicy.intervals._capital import lower_limit, lower_limits
from offpolicy.intervals._closed_form import Interval, check_level, check_range

T = TypeVar("T")


class Limits(NamedTuple):
    """A confidence sequence: the mean is within low[k] … high[k] after times[k] rows, for all k."""

    times: Ints
    low: Floats
    high: Floats


def betting(
    c: ArrayLike,
    reward: ArrayLike,
    level: float,
    *,
    reward_range: tuple[float, float] = (0.0, 1.0),
    largest_weight: float | None = None,
    unanswered: float = 0.0,
) -> Interval:
    r"""A betting interval for a policy's value, the mean of c·r, from weights c = π/π₀ and rewards.

    With rewards in [a, b], :math:`\mathbb E[c(r - a)] \le V - a` and
    :math:`\mathbb E[c(b - r)] \le b - V`: two lower limits by betting make the interval.

    Covers the policy's value at every n, however heavy the weights' tail. Assumes true
    propensities, n fixed beforehand, and independent rows in an order that says nothing about
    them. The lower end is about as close as the normal interval's, the upper end as its would
    be for b − r: wider, if rewards are rare and the weights vary.

    The weights' mean may be below 1, so both ends stay valid for policies that go where the log
    did not, and for weights clipped at any constant; what is not answered for then counts as a at
    the lower end and as b at the upper.

    Parameters
    ----------
    c, reward : (n,)
    level : float
    reward_range : (a, b)
        No reward may lie outside.
    largest_weight : float, optional
        What no weight can exceed, by the design of the logger, not by what was seen. Each end is
        then the better of two, the second from c·r ≤ largest_weight·b: tighter at the upper end
        if rewards are rare and the weights vary, a seventh wider if it is of no use.
    unanswered : float
        Used with ``largest_weight`` only, and needed there: 1 − E[c], or more, the share of the
        policy's probability that is where the log never goes, or was clipped.

    Returns
    -------
    Interval
        Within [a, b]. Where the two limits contradict each other (seldom, or because the weights'
        mean is above 1), what lies between them.

    Examples
    --------
    >>> interval = betting([1.0] * 1000, [0.0, 1.0] * 500, 0.95)
    >>> [round(end, 3) for end in interval]
    [0.467, 0.533]
    """
    check_level(level)
    game = _Game.of(c, reward, reward_range, largest_weight, unanswered)
    gain, loss = game.limits(lower_limit, (1.0 - level) / 2.0)
    return Interval(*map(float, _ends(gain, loss, reward_range)))


def betting_bounded(x: ArrayLike, low: float, high: float, level: float) -> Interval:
    """An interval for the mean of contributions within [low, high], by betting on both sides.

    Covers the mean of x at every n, at about the width of the normal interval, and at least some
    4(high − low)/n. Assumes n fixed beforehand, and independent rows in an order that says
    nothing about them.
    """
    check_level(level)
    above, below = _bounded_sides(x, low, high)
    tail = (1.0 - level) / 2.0
    ends = lower_limit(above, tail), lower_limit(below, tail)
    return Interval(*map(float, _ends(*ends, (low, high))))


def confidence_sequence(
    x: ArrayLike, low: float, high: float, level: float, times: ArrayLike | None = None
) -> Limits:
    """Intervals for the mean of x within [low, high], all of them valid at once.

    Covers the mean of x after every row, so one may look at any time and stop at will. Assumes
    independent rows in an order that says nothing about them. Some 1.3 to 1.8 times as wide as
    the normal interval, which is valid at one n only. Never widens as rows come in.

    Parameters
    ----------
    x : (n,)
    low, high : float
        No row may lie outside.
    level : float
    times : optional
        After how many rows to give the interval; after each if left out.

    Examples
    --------
    >>> limits = confidence_sequence([0.0, 1.0] * 500, 0.0, 1.0, 0.95, times=[10, 100, 1000])
    >>> limits.low.round(2).tolist(), limits.high.round(2).tolist()
    ([0.03, 0.31, 0.44], [0.99, 0.69, 0.56])
    """
    check_level(level)
    above, below = _bounded_sides(x, low, high)
    after = _check_times(times, len(above))
    tail = (1.0 - level) / 2.0
    ends = lower_limits(above, tail, after), lower_limits(below, tail, after)
    return Limits(after, *_ends(*ends, (low, high)))


def weighted_sequence(
    c: ArrayLike,
    reward: ArrayLike,
    level: float,
    *,
    reward_range: tuple[float, float] = (0.0, 1.0),
    largest_weight: float | None = None,
    unanswered: float = 0.0,
    times: ArrayLike | None = None,
) -> Limits:
    """Intervals for a policy's value from weights without an upper bound, all valid at once.

    Covers and assumes what `betting` does, but n need not be fixed: one may look after every
    row and stop at will. The price in width is that of `confidence_sequence`.
    """
    check_level(level)
    game = _Game.of(c, reward, reward_range, largest_weight, unanswered)
    after = _check_times(times, len(game.gain))

    def limits(x: Floats, alpha: float, weight: Floats | None = None) -> Floats:
        return lower_limits(x, alpha, after)  # n is not known: there are no early rows

    return Limits(after, *_ends(*game.limits(limits, (1.0 - level) / 2.0), reward_range))


# -- at the door --------------------------------------------------------------------------------


def _bounded_sides(x: ArrayLike, low: float, high: float) -> tuple[Floats, Floats]:
    """Both sides of a betting interval: x − low and high − x, divided by high − low."""
    values = check.as_sample(x, "x")
    check_range(low, high)
    _refuse_outside(values, "x", _outside(values, low, high), f"outside [{low}, {high}]")
    share = np.clip((values - low) / (high - low), 0.0, 1.0)
    return share, 1.0 - share


class _Game(NamedTuple):
    """c·(r − a)/(b − a) and c·(b − r)/(b − a), divided by ``scale``, the largest c."""

    gain: Floats
    loss: Floats
    weight: Floats
    scale: float
    largest_weight: float | None
    unanswered: float

    @classmethod
    def of(
        cls,
        c: ArrayLike,
        reward: ArrayLike,
        reward_range: tuple[float, float],
        largest_weight: float | None,
        unanswered: float,
    ) -> _Game:
        weight = check.as_sample(c, "c")
        a, b = reward_range
        check_range(a, b, "reward_range[0]", "reward_range[1]")
        values = check.as_sample(reward, "reward")
        if len(weight) != len(values):
            raise ParameterError(
                f"c has {len(weight):,} values and reward {len(values):,}: there must be one of "
                f"each for every row."
            )
        _refuse_outside(weight, "c", weight < 0.0, "below 0: a weight is a ratio of probabilities")
        outside = _outside(values, a, b)
        _refuse_outside(values, "reward", outside, f"outside reward_range [{a}, {b}]")
        if largest_weight is not None:
            if not 0.0 < largest_weight < math.inf:
                raise ParameterError(
                    f"largest_weight is {largest_weight}; it must be finite and above 0. Leave it "
                    f"out if the weights have no bound."
                )
            above = weight > largest_weight * (1.0 + 1e-9)
            _refuse_outside(weight, "c", above, f"above largest_weight = {largest_weight}")
        check.need(0.0 <= unanswered <= 1.0, "unanswered", unanswered, "a share, from 0 to 1")
        share = np.clip((values - a) / (b - a), 0.0, 1.0)
        scale = float(weight.max()) or 1.0
        part = weight / scale
        return cls(part * share, part * (1.0 - share), weight, scale, largest_weight, unanswered)

    def limits(self, limit: Callable[..., T], alpha: float) -> tuple[T, T]:
        """Lower limits of (V − a)/(b − a) and of (b − V)/(b − a)."""
        low = self._better(limit, self.gain, self.loss, alpha)
        high = self._better(limit, self.loss, self.gain, alpha)
        return low, high

    def _better(self, limit: Callable[..., Any], side: Floats, other: Floats, alpha: float) -> Any:
        """From ``side`` alone, or from how far ``other`` is below the largest it can be."""
        if self.largest_weight is None:
            return self.scale * limit(side, alpha, self.weight)
        room = np.maximum(self.largest_weight / self.scale - other, 0.0)
        missing = self.largest_weight - self.scale * limit(room, alpha / 2.0)
        alone = self.scale * limit(side, alpha / 2.0, self.weight)
        return np.maximum(alone, 1.0 - self.unanswered - missing)


def _refuse_outside(values: Floats, name: str, bad: NDArray[np.bool_], what: str) -> None:
    sentence = f"{{value}} ({{count}} are {what})."
    check.refuse(bad, sentence, name, "", ParameterError, value=values)


def _outside(values: Floats, low: float, high: float) -> NDArray[np.bool_]:
    """Which contributions lie outside the interval's range by more than rounding."""
    slack = 1e-9 * (high - low)
    return np.asarray((values < low - slack) | (values > high + slack))


def _check_times(times: ArrayLike | None, n: int) -> Ints:
    after = np.arange(1, n + 1) if times is None else np.asarray(times)
    whole = after.ndim == 1 and bool(after.size) and np.issubdtype(after.dtype, np.integer)
    if not whole or after.min() < 1 or after.max() > n:
        raise ParameterError(f"times must be whole numbers from 1 to {n:,}, the number of rows.")
    return after.astype(np.int64)


def _ends(gain: Any, loss: Any, bounds: tuple[float, float]) -> tuple[Any, Any]:
    """A betting interval from the lower limits of both sides, in units of the range."""
    a, b = bounds
    low, high = a + (b - a) * np.minimum(gain, 1.0), b - (b - a) * np.minimum(loss, 1.0)
    return np.minimum(low, high), np.maximum(low, high)
