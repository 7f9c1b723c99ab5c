"""How far an estimate is from the headline, in standard errors of their difference; the guard.

Both are means over the same rows, so their noise is common to a large part. What they do not share
is mostly the weight beyond M. Few rows carry it, and a log may have drawn none of the heaviest:
what Σ_y π₀(c − M)₊² is on average more than the mean of (c − M)₊² seen, times the residuals' mean
square, is added to the variance. An estimate without weights beyond M needs none of this.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from offpolicy.estimators import GRID
from offpolicy.evidence._estimates import contribution, from_moments, residual_size_of
from offpolicy.evidence._headline import Known
from offpolicy.evidence._noise import degrees_of
from offpolicy.evidence._plan import GUARDS, Plan
from offpolicy.evidence._walk import Scanned
from offpolicy.intervals import Interval, t_quantile
from offpolicy.results import Finding, Logged, finding

FALSE_ALARM = 1e-3
"""The guard calls two estimates that agree different at most this often."""


class Apart(NamedTuple):
    """An estimate less the headline."""

    value: float
    stderr: float
    degrees: float

    @property
    def ratio(self) -> float:
        """In standard errors."""
        if abs(self.value) <= 1e-9 * self.stderr:
            return 0.0
        if not self.stderr > 0.0:
            return math.copysign(math.inf, self.value)
        return self.value / self.stderr

    @property
    def disagrees(self) -> bool:
        """Whether that is more than chance explains."""
        return abs(self.ratio) > t_quantile(1.0 - FALSE_ALARM, self.degrees)


def from_headline(
    j: int, value: float, stderr: float, scanned: Scanned, known: Known, plan: Plan
) -> Apart:
    """How far the j-th estimator's ``value``, with its standard error, is from the headline."""
    moments, bins, k = known.path.moments, known.path.bins, known.curve.at_value
    gap = value - known.value
    if abs(gap) <= 1e-12 * (abs(value) + abs(known.value) + plan.reward_range.span):
        gap = 0.0
    if known.identical:
        # The headline is the logged mean then, not CAB-DR at some M.
        logged = scanned.reward.stderr(0)
        return Apart(gap, math.hypot(stderr, logged), degrees_of(moments))
    variance = scanned.variance_apart(j, k, contribution(j, stderr, scanned, plan))
    degrees = degrees_of(moments)
    member = plan.members[j]
    largest = scanned.observed.high[j]
    if bins.mass[k] > 0.0 and (member.unclipped or largest > GRID[k]):
        undrawn = float(bins.excess_second[k] - bins.excess_squares[k] / bins.weight)
        size = float(known.curve.size[k])
        if not member.self_normalised:
            # What it multiplies with the weights may be larger than the headline's residuals.
            size = max(size, residual_size_of(member, scanned, plan))
        noise = undrawn * size**2 * moments.weight2 / moments.weight**2
        variance += noise if noise > 0.0 else 0.0
        degrees = min(degrees, max(float(bins.excess_rows[k]) - 1.0, 1.0))
    spread = math.sqrt(variance) if math.isfinite(variance) else math.inf
    return Apart(gap, spread, degrees)


def guarded(
    policy: str, scanned: Scanned, known: Known, plan: Plan, logged: Logged
) -> tuple[Known, list[Finding]]:
    """What is known, its interval (and with it those of differences) widened to hold the estimates
    that disagree with it; and the findings that say so."""
    found: list[Finding] = []
    if scanned.c.high[0] == 0.0:
        return known, found
    value = known.value
    for j, member in enumerate(plan.members):
        if member.name in GUARDS:
            other, stderr = from_moments(member, j, scanned, plan, logged)
            apart = from_headline(j, other, stderr, scanned, known, plan)
            if math.isfinite(other) and apart.disagrees:
                (low, high), (down, up) = known.interval, known.doubt
                known = known._replace(
                    interval=Interval(min(low, other), max(high, other)),
                    doubt=(min(down, other - value), max(up, other - value)),
                )
                sentence = (
                    f"The headline says {value:.5g} of {policy} and {member.name} says "
                    f"{other:.5g}, {abs(apart.ratio):.3g} standard errors of the difference apart: "
                    f"more than chance explains. The headline's interval was widened to hold both."
                )
                found += finding(
                    "disagreement", "warning", sentence, policy, headline=value, value=other
                )
    return known, found
