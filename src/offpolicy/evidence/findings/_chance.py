r"""How likely a sum is as far off as it is, by two inequalities that hold whatever the
distribution, for rare actions and heavy weights as well.

Bennett: a sum of independent terms, each at most :math:`b` above its mean, with total variance
:math:`V`, is :math:`t` above its mean with a chance of at most

.. math:: \exp\Big(-\frac{V}{b^2}\, h\big(\tfrac{tb}{V}\big)\Big), \qquad
          h(u) = (1+u)\log(1+u) - u .

Betting: if independent :math:`x_i \ge -1` have means of at most 0, then the wealth
:math:`\prod_i (1 + \lambda x_i)` of one who stakes a share :math:`\lambda` each time has a mean of
at most 1, and reaches :math:`1/\alpha` with a chance of at most :math:`\alpha`.

Rows of one cluster make one term, whose variance is taken from the clusters' totals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.evidence._limits import tail
from offpolicy.logs import BanditLog
from offpolicy.logs.labels import encode

STAKES = (0.5, 0.1, 0.02, 0.005, 0.001, 1e-4)
"""Shares λ to stake, in equal parts: large ones for short logs, small ones for heavy weights."""
RECHECKED = 10
"""Of many comparisons that take long, this many of the most suspicious are made."""
LARGEST = 1e100
"""Weights are capped here, so that they can be squared."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows are independent of which, and how much each stands for (1 on average)."""

    omega: Floats
    cluster: Ints | None
    plain: bool
    """Whether all rows are independent, and alike."""

    @classmethod
    def of(cls, log: BanditLog) -> Rows:
        omega = np.ones(len(log))
        if log.row_weight is not None:
            omega = np.asarray(log.row_weight / log.row_weight.mean())
        cluster = None if log.cluster is None else encode(log.cluster, "cluster", log.source)[1]
        return cls(omega, cluster, log.row_weight is None and cluster is None)

    def totals(self, x: Floats) -> Floats:
        """Σ ωx of every independent unit: row or cluster."""
        y = self.omega * x
        if self.cluster is not None:
            y = np.bincount(self.cluster, weights=y).astype(np.float64)
        return y

    def sizes(self) -> Floats:
        """The weight of every independent unit."""
        return self.totals(np.ones(len(self.omega)))

    def spread(self, x: Floats) -> float:
        """Standard deviation of Σ ωx, if its mean is 0."""
        return math.sqrt(float((self.totals(x) ** 2).sum()))

    def chances(self, columns: Floats, variance: Floats, bound: Floats) -> Floats:
        """How likely Σ ωx is this far from 0 either way, for every x of ``columns``; ``variance``
        as if rows were alone."""
        if not self.plain:
            variance = np.maximum(variance, [self.spread(x) ** 2 for x in columns])
        excess = np.abs([(self.omega * x).sum() for x in columns])
        return np.minimum(2.0 * tail(excess, variance, bound * self.sizes().max()), 1.0)

    def chance(self, x: Floats, variance: float, bound: float) -> float:
        """The same of one."""
        return float(self.chances(x[None], np.array([variance]), np.array([bound]))[0])

    def chance_above(self, x: Floats, least: float) -> float:
        """How likely Σ ωx is this far above 0, if no x is below ``least`` and means are at most 0:
        one over the wealth of one who bets on it."""
        y = self.totals(x) / (-least * float(self.sizes().max()))
        gains = [float(np.log1p(stake * y).sum()) for stake in STAKES]
        best = max(gains)
        wealth = best + math.log(sum(math.exp(gain - best) for gain in gains) / len(STAKES))
        return math.exp(-max(wealth, 0.0))


def kish(w: Floats) -> float:
    """Effective rows behind a finding, (Σw)²/Σw²; 0 if all are 0."""
    top = float(w.max(initial=0.0))
    if top == 0.0:
        return 0.0
    scaled = w / top
    return float(scaled.sum()) ** 2 / float((scaled * scaled).sum())
