"""Confidence intervals from a few numbers: a value and its standard error, or moments and bounds.

Everything here needs sums only, so it serves logs of any size, merged from any parts. Intervals
that look at the rows themselves are in `offpolicy.betting` and `offpolicy.bootstrap`.

All cover the mean of x, the contributions of independent decisions; none is cut to [low, high].
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from statistics import NormalDist
from typing import NamedTuple

from offpolicy._core.validation import need
from offpolicy.errors import ParameterError


class Interval(NamedTuple):
    """A confidence interval; both ends may be infinite."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """high − low."""
        return self.high - self.low

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Real) and self.low <= float(value) <= self.high


EVERYTHING = Interval(-math.inf, math.inf)
"""What one row, or one group, says about the mean."""


def normal_quantile(level: float) -> float:
    """z such that a standard normal lies in [−z, z] with probability ``level``."""
    check_level(level)
    return NormalDist().inv_cdf(0.5 + level / 2.0)


def normal(value: float, stderr: float, level: float) -> Interval:
    """The interval value ± z·stderr. Covers the estimator's own mean, for large n."""
    if math.isinf(stderr):
        return EVERYTHING
    return _around(value, normal_quantile(level) * stderr)


def student_t(value: float, stderr: float, level: float, degrees: float) -> Interval:
    """The interval value ± t·stderr, with Student's t of the given degrees of freedom.

    Covers the estimator's own mean. Assumes that it is nearly normal and that the standard error
    was estimated from ``degrees`` + 1 rows or groups; wider than `normal` when those are few.
    """
    check_level(level)
    if math.isinf(stderr):
        return EVERYTHING
    half = t_quantile(level, degrees) * stderr if stderr > 0.0 else 0.0
    return _around(value, half)


def bias_aware(stderr: float, bias: float, level: float, degrees: float = math.inf) -> float:
    """Half the width of an interval around an estimate that may be off by up to ``bias`` besides
    its standard error.

    Armstrong and Kolesár 2018: the ``level`` quantile of abs(N(bias/stderr, 1)), times the standard
    error, and times Student's t over the normal quantile for a standard error with so many degrees
    of freedom. Without bias it is the Student t interval's; if the bias is large, only one end can
    miss, and it is the bias and a one-sided quantile.
    """
    check_level(level)
    if not (math.isfinite(stderr) and math.isfinite(bias)):
        return math.inf
    if not stderr > 0.0:
        return bias
    ratio, z = bias / stderr, normal_quantile(level)
    more, root = z, math.sqrt(2.0)
    # Newton's method for what goes beyond the bias; the chance to be within is concave in it.
    for _ in range(30 if ratio > 0.0 else 0):
        beyond = 0.5 * (math.erfc(more / root) + math.erfc((more + 2.0 * ratio) / root))
        slope = math.exp(-0.5 * more * more) + math.exp(-0.5 * min(more + 2.0 * ratio, 1e9) ** 2)
        step = math.sqrt(2.0 * math.pi) * (1.0 - level - beyond) / slope
        more = max(more - step, 0.0)
        if abs(step) <= 1e-13 * (more + ratio):
            break
    return max((ratio + more) * stderr * t_quantile(level, degrees) / z, bias)


def hoeffding(mean: float, n: int, low: float, high: float, level: float) -> Interval:
    r"""Hoeffding's interval for contributions within [low, high].

    .. math:: \hat m \pm (\text{high} - \text{low}) \sqrt{\ln(2/\alpha) / 2n}

    Covers the mean of x at every n, whatever the distribution within the bounds: conservative,
    the more so the smaller the variance.
    """
    check_level(level)
    reach = _check_bounded(mean, n, low, high)
    return _around(mean, reach * math.sqrt(-math.log((1.0 - level) / 2.0) / (2.0 * n)))


def bernstein(
    mean: float, n: int, variance: float, low: float, high: float, level: float
) -> Interval:
    r"""Bernstein's interval for contributions within [low, high] of known variance.

    .. math:: \hat m \pm \Big(\sqrt{2\sigma^2 L/n} + (\text{high} - \text{low}) L/3n\Big),
              \qquad L = \ln(2/\alpha)

    Covers the mean of x at every n, if ``variance`` (of one row) is at least the true one, known
    beforehand; with a variance estimated from the rows use `empirical_bernstein`.
    """
    check_level(level)
    reach = _check_bounded(mean, n, low, high)
    need(variance >= 0.0, "variance", variance, "0 or more")
    log_term = -math.log((1.0 - level) / 2.0)
    return _around(mean, math.sqrt(2.0 * variance * log_term / n) + reach * log_term / (3.0 * n))


def empirical_bernstein(
    mean: float, n: int, sample_variance: float, low: float, high: float, level: float
) -> Interval:
    r"""Maurer and Pontil's interval for contributions within [low, high] (2009, Theorem 4).

    .. math:: \hat m \pm \Big(\sqrt{2 s^2 L/n} + 7(\text{high} - \text{low}) L/3(n-1)\Big),
              \qquad L = \ln(4/\alpha)

    Covers the mean of x at every n, whatever the distribution within the bounds. The variance
    to give is the unbiased one, Σ(x − mean)²/(n − 1). Conservative:
    `offpolicy.betting` is far tighter, but needs the rows.
    """
    check_level(level)
    reach = _check_bounded(mean, n, low, high)
    need(sample_variance >= 0.0, "sample_variance", sample_variance, "0 or more")
    if n == 1:
        return EVERYTHING
    log_term = -math.log((1.0 - level) / 4.0)
    half = math.sqrt(2.0 * sample_variance * log_term / n)
    return _around(mean, half + 7.0 * reach * log_term / (3.0 * (n - 1)))


def t_quantile(level: float, degrees: float) -> float:
    """t such that Student's t lies in [−t, t] with probability ``level``; ∞ beyond 1e150.

    Accurate to about 1e-11, relatively.
    """
    check_level(level)
    if not isinstance(degrees, Real) or not degrees > 0.0:
        raise ParameterError(f"degrees is {degrees}; degrees of freedom must be above 0.")
    if degrees >= 1000.0:
        tail = (1.0 - level) / 2.0
        return _t_near_normal(-NormalDist().inv_cdf(tail), float(degrees))
    # Newton's method on log t, kept inside a bracket: at a small number of degrees t is huge.
    bottom, top = -700.0, math.log(1e150)
    if _t_excess(top, level, degrees)[0] < 0.0:
        return math.inf
    guess = math.log(normal_quantile(level))
    for _ in range(200):
        excess, slope = _t_excess(guess, level, degrees)
        if excess < 0.0:
            bottom = guess
        else:
            top = guess
        step = -excess / slope if slope > 0.0 else math.inf
        if abs(step) <= 4e-15 * max(1.0, abs(guess)) or top - bottom <= 4e-15:
            break
        guess = guess + step if bottom < guess + step < top else 0.5 * (bottom + top)
    return math.exp(guess)


def check_level(level: float) -> None:
    """Raise unless this is a coverage that one can ask of an interval."""
    if not isinstance(level, Real) or not 0.0 < level < 1.0 - 1e-12:
        raise ParameterError(
            f"level is {level}; it is the coverage asked for, between 0 and 1 (0.95, say).",
            column="level",
        )


def check_range(low: float, high: float, low_name: str = "low", high_name: str = "high") -> None:
    """Raise unless an interval's range has low < high, both finite."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ParameterError(
            f"{low_name} is {low} and {high_name} is {high}; they must be finite, the first below "
            f"the second: no value may lie outside."
        )


# -- pieces -------------------------------------------------------------------------------------


def _around(value: float, half: float) -> Interval:
    return Interval(value - half, value + half)


def _check_bounded(mean: float, n: int, low: float, high: float) -> float:
    """high − low, if all is well for an interval of bounded contributions."""
    if not isinstance(n, Integral) or n < 1:
        raise ParameterError(
            f"n is {n}; it is the number of rows, 1 or more: without any there is no interval."
        )
    check_range(low, high)
    reach = high - low
    if not low - 1e-9 * reach <= mean <= high + 1e-9 * reach:
        raise ParameterError(
            f"mean is {mean}, outside [{low}, {high}]: the bounds must hold for every row."
        )
    return reach


def _t_near_normal(z: float, degrees: float) -> float:
    """The t quantile as a series in 1/degrees (Abramowitz and Stegun 26.7.5)."""
    y = z * z
    terms = (
        z * (y + 1.0) / 4.0,
        z * ((5.0 * y + 16.0) * y + 3.0) / 96.0,
        z * (((3.0 * y + 19.0) * y + 17.0) * y - 15.0) / 384.0,
        z * ((((79.0 * y + 776.0) * y + 1482.0) * y - 1920.0) * y - 945.0) / 92160.0,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, start=1))


def _t_excess(log_t: float, level: float, degrees: float) -> tuple[float, float]:
    """P(|T| ≤ t) − level and its derivative in log t, whichever tail keeps the digits."""
    ratio = math.exp(2.0 * log_t - math.log(degrees))
    a, b = 0.5, 0.5 * degrees
    log_x, log_y = -math.log1p(1.0 / ratio), -math.log1p(ratio)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * log_x + b * log_y
    front = math.exp(log_front)
    x = ratio / (1.0 + ratio)
    if x < (a + 1.0) / (a + b + 2.0):
        excess = front * _beta_fraction(a, b, x) / a - level
    else:
        excess = (1.0 - level) - front * _beta_fraction(b, a, 1.0 / (1.0 + ratio)) / b
    return excess, 2.0 * front


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method (DLMF 8.17.22)."""
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    fraction = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d = 1.0 / (1.0 + even * d)
        c = 1.0 + even / c
        fraction *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 / (1.0 + odd * d)
        c = 1.0 + odd / c
        fraction *= d * c
        if abs(d * c - 1.0) < 1e-16:
            break
    return fraction
