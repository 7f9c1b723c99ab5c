"""How far an estimate is from the headline, in standard errors of their difference; the guard.

Both are means over the same rows, so their noise is common to a large part. What they do not share
is mostly the weight beyond M. Few rows carry it, and a log may have drawn none of the heaviest:
what Σ_y π₀(c − M)₊² is on average more than the mean of (c − M)₊² seen, times the residuals' mean
square and the design effect of clusters, is added to the variance. An estimate without weights
beyond M needs none of this.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.estimators import GRID
from offpolicy.evidence._headline import Known
from offpolicy.evidence._noise import degrees_of, design_effect
from offpolicy.evidence._plan import GUARDS
from offpolicy.intervals import Interval, t_quantile
from offpolicy.results import Finding, finding

FALSE_ALARM = 1e-3
"""The guard calls two estimates that agree different at most this often."""


class Apart(NamedTuple):
    """Every estimate less the headline."""

    value: Floats
    stderr: Floats
    degrees: Floats

    @property
    def ratio(self) -> Floats:
        """In standard errors."""
        with np.errstate(all="ignore"):
            return np.where(np.abs(self.value) <= 1e-9 * self.stderr, 0.0, self.value / self.stderr)

    def disagrees(self, j: int) -> bool:
        """Whether the j-th is farther away than chance explains."""
        return bool(abs(self.ratio[j]) > t_quantile(1.0 - FALSE_ALARM, float(self.degrees[j])))


def from_headline(known: Known) -> Apart:
    """How far every estimator's value is from the headline."""
    e, bins, k = known.e, known.path.bins, known.curve.at_value
    scanned, members = e.scanned, e.plan.members
    value, stderr = e.rows.value[:-1], e.rows.stderr[:-1]
    gap, degrees = value - known.value, np.full(len(members), degrees_of(scanned.reward))
    near = np.abs(value) + abs(known.value) + e.plan.reward_range.span
    gap[np.abs(gap) <= 1e-12 * near] = 0.0
    if known.identical:
        # The headline is the logged mean then, not CAB-DR at some M.
        return Apart(gap, np.hypot(stderr, e.logged.stderr), degrees)
    variance = scanned.variance_apart(k, e.rows)[:-1]
    unclipped = np.array([member.unclipped for member in members], dtype=bool)
    beyond = unclipped | (scanned.observed.high > GRID[k])
    if bins.mass[k] > 0.0 and beyond.any():
        undrawn = float(bins.excess_second[k] - bins.excess_squares[k] / bins.weight)
        normalised = np.array([member.self_normalised for member in members], dtype=bool)
        # What an estimator multiplies with the weights may be larger than the headline's residuals.
        own = np.where(normalised, 0.0, scanned.residual_size(members))
        with np.errstate(over="ignore"):
            noise = undrawn * np.maximum(own, float(known.curve.size[k])) ** 2
            noise *= scanned.reward.weight2 / scanned.reward.weight**2
            noise *= design_effect(known.path.moments, k)
        variance[beyond] += np.maximum(noise, 0.0)[beyond]
        degrees[beyond] = np.minimum(degrees, max(float(bins.excess_rows[k]) - 1.0, 1.0))[beyond]
    return Apart(gap, np.sqrt(np.where(np.isfinite(variance), variance, np.inf)), degrees)


def guarded(known: Known) -> tuple[Known, Apart, list[Finding]]:
    """What is known, its interval (and with it those of differences) widened to hold SNIPS and DR
    where they disagree with it; how far every estimator is from it; and the findings."""
    e, value, apart = known.e, known.value, from_headline(known)
    found: list[Finding] = []
    if e.scanned.c.high[0] == 0.0:
        # None of the decisions seen are the policy's: weights say nothing.
        return known, apart, found
    for j, member in enumerate(e.plan.members):
        other = float(e.rows.value[j])
        if member.name not in GUARDS or not np.isfinite(other) or not apart.disagrees(j):
            continue
        found += disagreement(value, member.name, other, float(apart.ratio[j]), e.policy)
        (low, high), (down, up) = known.interval, known.doubt
        known = known._replace(
            interval=Interval(min(low, other), max(high, other)),
            doubt=(min(down, other - value), max(up, other - value)),
        )
    return known, apart, found


def disagreement(
    value: float, name: str, other: float, ratio: float, policy: str | None = None
) -> list[Finding]:
    """The finding that the headline's value and that of another estimator are too far apart:
    ``ratio`` standard errors."""
    about = "" if policy is None else f" of {policy}"
    sentence = (
        f"The headline says {value:.5g}{about} and {name} says {other:.5g}, "
        f"{abs(ratio):.3g} standard errors of the difference apart: more than chance "
        f"explains. The headline's interval was widened to hold both."
    )
    return finding("disagreement", "warning", sentence, policy, headline=value, value=other)
