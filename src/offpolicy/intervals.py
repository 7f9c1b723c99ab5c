"""Confidence intervals from a value and its standard error."""

from __future__ import annotations

import math
from numbers import Real
from statistics import NormalDist
from typing import NamedTuple

from offpolicy.errors import ParameterError


class Interval(NamedTuple):
    """A confidence interval; both ends may be infinite."""

    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Real) and self.low <= float(value) <= self.high


def normal_quantile(level: float) -> float:
    """z such that a standard normal lies in [−z, z] with probability ``level``."""
    if not isinstance(level, Real) or not 0.0 < level < 1.0 - 1e-12:
        raise ParameterError(
            f"level is {level}; it is the coverage asked for, between 0 and 1 (0.95, say)."
        )
    return NormalDist().inv_cdf(0.5 + level / 2.0)


def normal(value: float, stderr: float, level: float) -> Interval:
    """value ± z·stderr. Covers the estimator's own mean, for large n."""
    if math.isinf(stderr):
        return Interval(-math.inf, math.inf)
    half = normal_quantile(level) * stderr
    return Interval(value - half, value + half)
