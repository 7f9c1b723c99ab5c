"""The one answer about a policy: a value and an interval that covers the policy's, or a refusal."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from offpolicy import intervals
from offpolicy.estimators import GRID
from offpolicy.evidence._clip_path import ClipPath
from offpolicy.evidence._gather import Evidence
from offpolicy.evidence._limits import FEW_EFFECTIVE, TOO_FEW_EFFECTIVE
from offpolicy.evidence._noise import satterthwaite
from offpolicy.evidence._risk_curve import RiskCurve
from offpolicy.evidence._tuning import least_error
from offpolicy.intervals import Interval
from offpolicy.results import Headline

_SAME = 1e-12
"""E Σ π₀(c − 1)² up to which a policy is the logger."""


class Known(NamedTuple):
    """What the log says about a policy's value, whichever estimator is asked."""

    e: Evidence
    path: ClipPath
    curve: RiskCurve
    value: float
    interval: Interval
    unsupported: float
    identical: bool
    """Whether the policy is the one that wrote the log."""
    impossible: bool = False
    """Whether the interval had nothing in common with the range of rewards."""
    doubt: tuple[float, float] = (0.0, 0.0)
    """How far down and up from the value estimates lie that disagree with it (`guarded`)."""

    @property
    def M(self) -> float:
        """Around which its interval stands."""
        return float(GRID[self.curve.at_interval])


def what_is_known(e: Evidence) -> Known:
    """The headline's value and interval, from the sums of CAB-DR around its model."""
    path, rewards, logged = e.scanned.path, e.plan.reward_range, e.logged
    bins, curve = path.bins, RiskCurve.of(path, exact=e.plan.exact)
    unsupported = float(bins.unsupported[0]) / bins.weight
    if abs(bins.distance) <= _SAME:
        return Known(e, path, curve, logged.value, logged.interval, unsupported, identical=True)
    made = _interval(e, curve)
    interval = rewards.cut(made)
    impossible, interval = interval is None, interval or rewards.interval
    value = curve.best_value
    if logged.stderr == 0.0 and unsupported == 0.0:
        # All rewards are equal; what the models add is rounding.
        value = logged.value
    value = min(max(value, interval.low), interval.high)
    return Known(e, path, curve, value, interval, unsupported, False, impossible)


def _interval(e: Evidence, curve: RiskCurve) -> Interval:
    """The headline's interval, around CAB-DR at the M of least cautious error."""
    k, path, rewards = curve.at_interval, e.scanned.path, e.plan.reward_range
    centre = float(curve.value[k])
    degrees = satterthwaite(path.moments, e.plan.kurtosis[k] / path.moments.count, k)
    row = _typical_weight(path, k) * path.moments.weight2 / path.moments.weight**2
    worst = row * (centre - rewards.low), row * (rewards.high - centre)
    low, high = around(curve, worst, e.level, degrees, e.by_draws[-1])
    lost, guess = map(float, path.bins.unsupported / path.bins.weight)
    if lost > 0.0:
        low, high = low - guess + lost * rewards.low, high - guess + lost * rewards.high
    return Interval(low, high)


def around(
    curve: RiskCurve, worst: tuple[float, float], level: float, degrees: float, draws: float = 0.0
) -> Interval:
    """The interval at the M of least cautious error. Each end allows for one more row, which could
    move the value so far there; ``draws`` is what a policy known by draws adds to the noise."""
    k = curve.at_interval
    centre, bias = float(curve.value[k]), float(curve.plausible_bias[k])
    stderr = math.hypot(math.sqrt(float(curve.variance[k])), draws)
    down, up = (
        intervals.bias_aware(math.hypot(stderr, far), bias, level, degrees) for far in worst
    )
    return Interval(centre - down, centre + up)


def _typical_weight(path: ClipPath, k: int) -> float:
    """The mean weight of the decisions that the policy would take, clipped at the k-th M."""
    bins = path.bins
    kept, seen = float(bins.kept[k]), float(bins.drawn.second[k])
    return max(float(bins.second[k]), seen) / kept if kept > 0.0 else 0.0


def make_headline(known: Known, versus_logged: Interval) -> Headline:
    """The headline as it is returned."""
    e, curve, j = known.e, known.curve, known.curve.at_interval
    mass, interval_mass = (
        float(left) + known.unsupported
        for left in (curve.mass[curve.at_value], curve.cautious_mass[j])
    )
    said = of_curve(curve) | {
        "imputed_mass": mass,
        "interval_imputed_mass": interval_mass,
        "bias_bound": interval_mass * e.plan.reward_range.span,
    }
    if known.identical:
        reason = "the policy is the one that wrote the log"
        said |= {"stderr": e.logged.stderr, "correction": 0.0, "plausible_bias": 0.0}
        said |= {"reason": reason}
    rewarded = known.path.bins.effective(said["M"], "rewarded")
    return Headline(
        policy=e.policy,
        model="logger" if known.identical else e.plan.recalibration.kind,
        value=known.value,
        interval=known.interval,
        level=e.level,
        covers=_covers(known),
        rewarded=rewarded,
        policy_stderr=e.by_draws[-1],
        versus_logged=versus_logged,
        refusal=_refusal(known, rewarded),
        **said,
    )


def of_curve(curve: RiskCurve, worth: float = 1.0) -> dict[str, Any]:
    """What a headline says of its curve over M; ``worth`` is that of the whole mass."""
    k, j = curve.at_value, curve.at_interval
    stderrs = np.sqrt(curve.variance)
    return {
        "M": float(GRID[k]),
        "stderr": float(stderrs[k]),
        "imputed_mass": float(curve.mass[k]),
        "correction": float(curve.correction[k]),
        "kappa": curve.kappa,
        "interval_M": float(GRID[j]),
        "interval_imputed_mass": float(curve.cautious_mass[j]),
        "plausible_bias": float(curve.plausible_bias[j]),
        "bias_bound": worth * float(curve.cautious_mass[j]),
        "reason": least_error(float(stderrs[k]), float(curve.bias[k])),
        "grid": tuple(map(float, GRID)),
        "values": tuple(map(float, np.where(np.isnan(curve.value), np.inf, curve.value))),
        "stderrs": tuple(map(float, stderrs)),
        "errors": tuple(map(float, np.sqrt(curve.mse))),
    }


def _refusal(known: Known, rewarded: float) -> str | None:
    """Why the headline says that this log cannot tell, and what would; None if it can.

    Few rewards are an answer, too, if their range is known and enough rows stand behind it.
    """
    rewards, logged = known.e.plan.reward_range, known.e.logged
    if not math.isfinite(float(known.curve.variance[known.curve.at_value])):
        return (
            "nothing says how far luck goes: there is only one row or one cluster, or the numbers "
            "are too large. More clusters would tell."
        )
    if known.impossible:
        return (
            f"by its weights the value would be outside the range of rewards, from {rewards.low:g} "
            f"to {rewards.high:g}, which cannot be. The propensities, or the range, are wrong."
        )
    effective = known.path.bins.effective(float(GRID[known.curve.at_value]), "1")
    enough = rewards.known != "observed" and effective >= FEW_EFFECTIVE
    if rewarded < TOO_FEW_EFFECTIVE and not enough:
        return (
            f"only about {rewarded:.0f} rewarded rows stand behind this number, and under "
            f"{TOO_FEW_EFFECTIVE} it could be anything. More rows would tell, or a policy closer "
            f"to the one that wrote the log."
        )
    gap, unknown = abs(known.value - logged.value), known.unsupported * rewards.span
    if known.unsupported > 0.0 and unknown > gap and logged.value in known.interval:
        return (
            f"{known.unsupported:.1%} of the policy's probability is on candidates that the logger "
            f"never chooses; their rewards could move the value by {unknown:.3g}, more than the "
            f"{gap:.3g} between this policy and the one that ran. More rows of this log would not "
            f"help: log some decisions that explore these candidates, or ask about a policy that "
            f"avoids them."
        )
    return None


def error_covered(curve: RiskCurve) -> str:
    """Of what the model's error adds to an interval, in words; nothing if hardly any is left to
    the model."""
    j = curve.at_interval
    left = float(curve.cautious_mass[j])
    said = f", the model's plausible error on the {left:.1%} left to it at M = {GRID[j]:.4g}"
    return said if left > 5e-4 else ""


def _covers(known: Known) -> str:
    """What the headline's interval covers, in words."""
    text = "the policy's value, and allows for sampling error"
    if known.identical:
        return text
    text += f", a row not yet seen{error_covered(known.curve)}"
    if known.unsupported > 0.0:
        within = {
            "declared": "within the declared range of rewards",
            "binary": "between 0 and 1",
            "observed": "within the observed range of rewards",
        }[known.e.plan.reward_range.known]
        text += (
            f", the worst case {within} on the {known.unsupported:.1%} that the logger never "
            f"chooses"
        )
    return text
