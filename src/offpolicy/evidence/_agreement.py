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
from offpolicy.evidence._headline import Known
from offpolicy.evidence._noise import degrees_of
from offpolicy.evidence._plan import GUARDS
from offpolicy.intervals import Interval, t_quantile
from offpolicy.results import Finding, finding

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


def _from_headline(j: int, known: Known) -> Apart:
    """How far the j-th estimator's value is from the headline."""
    e, bins, k = known.e, known.path.bins, known.curve.at_value
    scanned, member = e.scanned, e.plan.members[j]
    value, stderr = e.rows[j]
    gap, degrees = value - known.value, degrees_of(scanned.reward)
    if abs(gap) <= 1e-12 * (abs(value) + abs(known.value) + e.plan.reward_range.span):
        gap = 0.0
    if known.identical:
        # The headline is the logged mean then, not CAB-DR at some M.
        return Apart(gap, math.hypot(stderr, e.logged.stderr), degrees)
    variance = scanned.variance_apart(j, k, scanned.contribution(j, stderr, e.plan))
    if bins.mass[k] > 0.0 and (member.unclipped or scanned.observed.high[j] > GRID[k]):
        undrawn = float(bins.excess_second[k] - bins.excess_squares[k] / bins.weight)
        size = float(known.curve.size[k])
        if not member.self_normalised:
            # What it multiplies with the weights may be larger than the headline's residuals.
            size = max(size, scanned.residual_size(member))
        reward = scanned.reward
        noise = undrawn * size**2 * reward.weight2 / reward.weight**2
        variance += noise if noise > 0.0 else 0.0
        degrees = min(degrees, max(float(bins.excess_rows[k]) - 1.0, 1.0))
    return Apart(gap, math.sqrt(variance) if math.isfinite(variance) else math.inf, degrees)


def guarded(known: Known) -> tuple[Known, list[Apart], list[Finding]]:
    """What is known, its interval (and with it those of differences) widened to hold SNIPS and DR
    where they disagree with it; how far every estimator is from it; and the findings."""
    e, value = known.e, known.value
    if e.scanned.c.high[0] == 0.0:
        # None of the decisions seen are the policy's: weights say nothing.
        return known, [_from_headline(j, known) for j in range(e.plan.shown)], []
    apart = [_from_headline(j, known) for j in range(len(e.plan.members))]
    found: list[Finding] = []
    for j, member in enumerate(e.plan.members):
        other = e.rows[j][0]
        if member.name not in GUARDS or not math.isfinite(other) or not apart[j].disagrees:
            continue
        found += disagreement(value, member.name, other, apart[j], e.policy)
        (low, high), (down, up) = known.interval, known.doubt
        known = known._replace(
            interval=Interval(min(low, other), max(high, other)),
            doubt=(min(down, other - value), max(up, other - value)),
        )
    return known, apart, found


def disagreement(
    value: float, name: str, other: float, apart: Apart, policy: str | None = None
) -> list[Finding]:
    """The finding that the headline's value and that of another estimator are too far apart."""
    about = "" if policy is None else f" of {policy}"
    sentence = (
        f"The headline says {value:.5g}{about} and {name} says {other:.5g}, "
        f"{abs(apart.ratio):.3g} standard errors of the difference apart: more than chance "
        f"explains. The headline's interval was widened to hold both."
    )
    return finding("disagreement", "warning", sentence, policy, headline=value, value=other)
