"""One estimator's row: its value, its standard error, and an interval by the headline's rule.

The interval is from what the estimator itself does, and is not stretched to hold anything, so that
rows which disagree are seen to.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from offpolicy import intervals
from offpolicy._core.moments import Moments
from offpolicy._core.types import Floats
from offpolicy.errors import EstimatorError
from offpolicy.estimators import Estimator
from offpolicy.evidence import _summary_sums as tallies
from offpolicy.evidence._noise import degrees_of
from offpolicy.evidence._plan import Centre, Plan, RewardRange
from offpolicy.evidence._walk import Contribution, Scanned
from offpolicy.intervals import Interval
from offpolicy.results import Logged

OWN_MEAN = "the estimator's own mean: this log has no propensities to say more"


class Trust(NamedTuple):
    """An interval and what stands behind it."""

    interval: Interval
    covers: str
    plausible_bias: float = 0.0
    bias_bound: float = math.inf


def own_mean(value: float, stderr: float, level: float) -> Trust:
    """What is trusted without propensities: the normal interval for the estimator's own mean."""
    return Trust(intervals.normal(value, stderr, level), OWN_MEAN)


def value_of(
    member: Estimator, j: int, scanned: Scanned, plan: Plan, logged: Logged | None
) -> tuple[float, float]:
    """An estimator's value and standard error, as `evaluate` returns them, or raise."""
    value, stderr = from_moments(member, j, scanned, plan, logged)
    if not math.isfinite(value):
        largest = scanned.observed.high[j]
        raise EstimatorError(
            f"{member} overflows: the largest weight is {largest:.3g}. Use an estimator that "
            f"bounds the weights, CAB-DR(M=10) for example, or rescale rewards and predictions.",
            column=str(member),
        )
    return value, stderr


def from_moments(
    member: Estimator, j: int, scanned: Scanned, plan: Plan, logged: Logged | None
) -> tuple[float, float]:
    """An estimator's value, which may not be finite, and standard error."""
    ratio, centre = scanned.ratios[j], plan.centres[j]
    once = scanned.observed.low[j] == scanned.observed.high[j] == 1.0
    if once and member.imputes == "nothing" and logged is not None:
        # Every reward counts once: the logged mean, to the last digit.
        return logged.value, logged.stderr
    if ratio is None:
        return float(scanned.values.mean[j]), scanned.values.stderr(j)
    weight, weighted, influence = map(float, ratio.mean)
    value = centre.ratio + influence + weighted * (1.0 / weight - 1.0 / centre.weight)
    return value, math.sqrt(ratio.variance_of(_gradient(ratio, centre)))


def _gradient(ratio: Moments, centre: Centre) -> Floats:
    """The influence function of a self-normalised estimate, as the gradient with respect to its
    three means."""
    weight, weighted, _ = map(float, ratio.mean)
    return np.array([-weighted / weight / weight, 1.0 / weight - 1.0 / centre.weight, 1.0])


def contribution(j: int, stderr: float, scanned: Scanned, plan: Plan) -> Contribution:
    """What a paired test needs of the j-th estimate, with its standard error."""
    values, ratio = scanned.values, scanned.ratios[j]
    mean = float(values.mean[j] if ratio is None else ratio.mean[2])
    if values.group_total is None:
        return Contribution(mean, stderr**2, None)
    totals = values.group_total[:, j]
    if ratio is not None:
        assert ratio.group_total is not None
        totals = ratio.group_total @ _gradient(ratio, plan.centres[j])
    return Contribution(mean, stderr**2, totals)


def own_interval(
    j: int, value: float, stderr: float, scanned: Scanned, plan: Plan, level: float
) -> Trust:
    """The interval of the j-th estimator for the policy's value."""
    member, rewards, bins = plan.members[j], plan.reward_range, scanned.path.bins
    unsupported = float(bins.unsupported[0]) / bins.weight
    mass = float(scanned.imputed_mass.mean[j])
    mass = min(max(mass - unsupported, 0.0), 1.0)
    if member.unclipped:
        mass = 0.0
    bias = mass * residual_size_of(member, scanned, plan) if mass > 0.0 else 0.0
    half = intervals.bias_aware(stderr, bias, level, degrees_of(scanned.reward))
    low, high = value - half, value + half
    if unsupported > 0.0:
        down, up = _worst_case(member, value, rewards)
        low, high = low + unsupported * down, high + unsupported * up
    if rewards.known != "observed":
        low = min(max(low, rewards.low), rewards.high)
        high = max(min(high, rewards.high), rewards.low)
    size = max(abs(rewards.low), abs(rewards.high))
    largest = rewards.span if member.uses_model or member.self_normalised else size
    return Trust(
        Interval(low, high), _covers(mass, unsupported), bias, (mass + unsupported) * largest
    )


def residual_size_of(member: Estimator, scanned: Scanned, plan: Plan) -> float:
    """Root mean square of the rewards less what an estimator imputes."""
    reward = scanned.reward
    with np.errstate(over="ignore", invalid="ignore"):
        if not member.uses_model or not len(scanned.tally.by_class):
            square = reward.sample_variance(0) + float(reward.mean[0]) ** 2
        else:
            square = float(scanned.tally.by_class[:, tallies.OFF_2].sum()) / reward.weight
    return math.sqrt(square) if math.isfinite(square) else math.inf


def _worst_case(member: Estimator, value: float, rewards: RewardRange) -> tuple[float, float]:
    """How far down and up the value goes for each unit of the policy's mass without support."""
    if member.uses_model:
        return -rewards.span, rewards.span
    if member.self_normalised:
        return rewards.low - value, rewards.high - value
    return rewards.low, rewards.high


def _covers(mass: float, unsupported: float) -> str:
    """What the interval covers, in words."""
    text = "the policy's value: sampling error"
    if mass > 5e-4:
        text += f", a plausible error on the {mass:.1%} that no reward answers for"
    if unsupported > 0.0:
        text += f", the worst case on the {unsupported:.1%} that the logger never chooses"
    return text
