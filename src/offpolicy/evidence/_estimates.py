"""One estimator's row: its value, its standard error, and an interval by the headline's rule.

The interval is from what the estimator itself does, and is not stretched to hold anything, so that
rows which disagree are seen to.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from offpolicy import intervals
from offpolicy._core.types import Floats
from offpolicy.errors import EstimatorError
from offpolicy.estimators import Estimator
from offpolicy.evidence._agreement import Apart
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


class _Common(NamedTuple):
    """What the rows of one policy have in common; arrays have a number for every estimator."""

    from_headline: Floats | None
    noise: Floats
    """Standard errors, with those of a policy known by draws."""
    residuals: Floats
    """Root mean square of the rewards less what is imputed."""
    effective: Floats
    """Rewards that stand behind it; 0 if none has weight."""
    exact: bool
    unsupported: float
    degrees: float
    span: float


def estimates(e: Evidence, apart: Apart | None) -> list[Estimate]:
    """The rows of the estimators that were asked for; ``apart`` is how far each is from the
    headline, None without one."""
    scanned, bins = e.scanned, e.scanned.path.bins
    common = _Common(
        None if apart is None else apart.ratio,
        np.hypot(e.rows.stderr[:-1], e.by_draws[:-1]),
        scanned.residual_size(e.plan.members),
        scanned.observed.effective(),
        e.plan.exact,
        float(bins.unsupported[0]) / bins.weight,
        degrees_of(scanned.reward),
        e.plan.reward_range.span,
    )
    return [_estimate(j, e, common) for j in range(e.plan.shown)]


def _estimate(j: int, e: Evidence, common: _Common) -> Estimate:
    member, choice, observed = e.plan.members[j], e.plan.tuned[j], e.scanned.observed
    value, name = float(e.rows.value[j]), str(member)
    if not math.isfinite(value):
        raise EstimatorError(
            f"{name} overflows: the largest weight is {observed.high[j]:.3g}. Use an estimator "
            f"that bounds the weights, CAB-DR(M=10) for example, or rescale rewards and "
            f"predictions.",
            column=name,
        )
    mass, effective = float(e.scanned.imputed_mass.mean[j]), float(common.effective[j])
    return Estimate(
        policy=e.policy,
        estimator=name,
        value=value,
        stderr=float(e.rows.stderr[j]),
        level=e.level,
        imputed_mass=mass if common.exact else min(max(mass, 0.0), 1.0),
        ess=effective if effective > 0.0 else None,
        largest_weight=float(observed.high[j]),
        policy_stderr=e.by_draws[j],
        reason=None if choice is None else choice.reason,
        from_headline=None if common.from_headline is None else float(common.from_headline[j]),
        **_interval(j, e, common)._asdict(),
    )


def _interval(j: int, e: Evidence, common: _Common) -> _Trust:
    """The j-th estimator's interval, for the policy's value if there are propensities."""
    member, rewards, unsupported = e.plan.members[j], e.plan.reward_range, common.unsupported
    value, noise, mass = float(e.rows.value[j]), float(common.noise[j]), 0.0
    if "propensity" not in e.plan.columns:
        return _Trust(intervals.normal(value, noise, e.level), OWN_MEAN)
    if not member.unclipped:
        mass = min(max(float(e.scanned.imputed_mass.mean[j]) - unsupported, 0.0), 1.0)
    bias = mass * float(common.residuals[j]) if mass > 0.0 else 0.0
    half = intervals.bias_aware(noise, bias, e.level, common.degrees)
    low, high = value - half, value + half
    if unsupported > 0.0:
        down, up = _worst_case(member, value, rewards)
        low, high = low + unsupported * down, high + unsupported * up
    if rewards.known != "observed":
        low = min(max(low, rewards.low), rewards.high)
        high = max(min(high, rewards.high), rewards.low)
    size = max(abs(rewards.low), abs(rewards.high))
    largest = common.span if member.uses_model or member.self_normalised else size
    covers = "the policy's value, and allows for sampling error"
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
