"""One estimator's row: its value, its standard error, and an interval by the headline's rule.

The interval is from what the estimator itself does, and is not stretched to hold anything, so that
rows which disagree are seen to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from offpolicy import intervals
from offpolicy.errors import EstimatorError
from offpolicy.estimators import Estimator
from offpolicy.evidence._agreement import Apart
from offpolicy.evidence._blocks import effective_size
from offpolicy.evidence._gather import Evidence
from offpolicy.evidence._noise import degrees_of
from offpolicy.evidence._plan import RewardRange
from offpolicy.intervals import Interval
from offpolicy.results import Estimate

OWN_MEAN = "the estimator's own mean: this log has no propensities to say more"


class _Trust(NamedTuple):
    """An interval and what stands behind it."""

    interval: Interval
    covers: str
    plausible_bias: float = 0.0
    bias_bound: float = math.inf


def estimates(e: Evidence, apart: Sequence[Apart]) -> list[Estimate]:
    """The rows of the estimators that were asked for; ``apart`` is how far each is from the
    headline, and empty without one."""
    return [_estimate(j, e, apart[j].ratio if apart else None) for j in range(e.plan.shown)]


def _estimate(j: int, e: Evidence, from_headline: float | None) -> Estimate:
    plan, scanned, observed = e.plan, e.scanned, e.scanned.observed
    member, choice = plan.members[j], plan.tuned[j]
    value, stderr = e.rows[j]
    if not math.isfinite(value):
        raise EstimatorError(
            f"{member} overflows: the largest weight is {observed.high[j]:.3g}. Use an estimator "
            f"that bounds the weights, CAB-DR(M=10) for example, or rescale rewards and "
            f"predictions.",
            column=str(member),
        )
    noise = math.hypot(stderr, e.by_draws[j])
    trust = _Trust(intervals.normal(value, noise, e.level), OWN_MEAN)
    if e.weighed:
        trust = _interval(j, e, noise)
    mass = float(scanned.imputed_mass.mean[j])
    total, squares = observed.mean[j] * observed.weight, float(observed.sum_of_squares()[j])
    return Estimate(
        policy=e.policy,
        estimator=str(member),
        value=value,
        stderr=stderr,
        level=e.level,
        imputed_mass=mass if plan.exact else min(max(mass, 0.0), 1.0),
        ess=effective_size(total, squares),
        largest_weight=float(observed.high[j]),
        policy_stderr=e.by_draws[j],
        reason=None if choice is None else choice.reason,
        from_headline=from_headline,
        **trust._asdict(),
    )


def _interval(j: int, e: Evidence, noise: float) -> _Trust:
    """The j-th estimator's interval for the policy's value."""
    member, rewards, bins = e.plan.members[j], e.plan.reward_range, e.scanned.path.bins
    unsupported = float(bins.unsupported[0]) / bins.weight
    mass = 0.0
    if not member.unclipped:
        mass = min(max(float(e.scanned.imputed_mass.mean[j]) - unsupported, 0.0), 1.0)
    bias = mass * e.scanned.residual_size(member) if mass > 0.0 else 0.0
    value = e.rows[j][0]
    half = intervals.bias_aware(noise, bias, e.level, degrees_of(e.scanned.reward))
    low, high = value - half, value + half
    if unsupported > 0.0:
        down, up = _worst_case(member, value, rewards)
        low, high = low + unsupported * down, high + unsupported * up
    if rewards.known != "observed":
        low = min(max(low, rewards.low), rewards.high)
        high = max(min(high, rewards.high), rewards.low)
    size = max(abs(rewards.low), abs(rewards.high))
    largest = rewards.span if member.uses_model or member.self_normalised else size
    covers = "the policy's value: sampling error"
    if mass > 5e-4:
        covers += f", a plausible error on the {mass:.1%} that no reward answers for"
    if unsupported > 0.0:
        covers += f", the worst case on the {unsupported:.1%} that the logger never chooses"
    return _Trust(Interval(low, high), covers, bias, (mass + unsupported) * largest)


def _worst_case(member: Estimator, value: float, rewards: RewardRange) -> tuple[float, float]:
    """How far down and up the value goes for each unit of the policy's mass without support."""
    if member.uses_model:
        return -rewards.span, rewards.span
    if member.self_normalised:
        return rewards.low - value, rewards.high - value
    return rewards.low, rewards.high
