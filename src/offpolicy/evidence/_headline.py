"""Whether a number may be acted on: what an interval covers, and when the log cannot tell.

An estimator that clips or blends is biased, and an interval around it that knows only its noise
covers its own mean, not the policy's value. One that does neither rests on a few huge weights, and
its noise is least visible when it is largest. So the intervals of all come from one place,
`what_is_known`: CAB-DR around the recalibrated model, less its bias as measured
(`evidence._model_error`). Their width has three parts.

* *Sampling error*, observed or, if that is more, by the paper's theory, which also counts the
  rare huge weights that the log did not happen to draw; and the noise of the model's own fit.
* *The model's error where rows are few*: what remains unknown of it after looking at the
  residuals. The stated assumption is here: at a weight that the log hardly shows, the model is
  off by about 0.4 standard deviations of its residual, and by about 0.4 of what the recalibration
  moved it there, or less.
* *The worst case where the logger never goes*: no row says anything about candidates with
  π₀ = 0, so the policy's mass there counts with the lowest reward at the low end, and the highest
  at the high end (Imbens and Manski 2004).

An interval is stretched to hold its own estimate, and cut to where rewards can be.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from offpolicy import intervals
from offpolicy._core.moments import Moments
from offpolicy.estimators import CABDR, Estimator
from offpolicy.evidence._limits import TOO_FEW_EFFECTIVE
from offpolicy.evidence._model_error import GRID
from offpolicy.evidence._plan import HeadlineCurve, Plan, curve_from
from offpolicy.evidence._tuning import least_error
from offpolicy.evidence._walk import Rows, Scanned
from offpolicy.intervals import Interval
from offpolicy.results import Headline, Logged

OWN_MEAN = "the estimator's own mean: this log has no propensities to say more"


class Trust(NamedTuple):
    """An interval and what stands behind it."""

    interval: Interval
    covers: str
    bias: float = 0.0
    bias_stderr: float = 0.0
    bias_bound: float = math.inf


def own_mean(value: float, stderr: float, level: float) -> Trust:
    """What is trusted without propensities: the normal interval for the estimator's own mean."""
    return Trust(intervals.normal(value, stderr, level), OWN_MEAN)


class Known(NamedTuple):
    """What the log says about the policy's value, whichever estimator is asked."""

    low: float
    high: float
    """Between these the value would lie if there were no noise: apart by the worst case where
    the logger never goes."""
    noise: float
    """Standard error of both ends: sampling error, and the model's error where rows are few."""
    M: float
    """Where the weights were clipped for this."""
    curve: HeadlineCurve
    """What the headline is chosen from."""
    imputed_mass: float
    unsupported: float


def what_is_known(scanned: Scanned, rows: Rows, plan: Plan) -> Known:
    """What the walk says of a policy's value: CAB-DR around the recalibrated model, less its bias.

    M is the one for which noise and *thinkable* bias are least: unlike for the headline's value,
    the model is not trusted because it did well so far; of the rewards, only the size of the
    residuals has a part in the choice.
    """
    curve, bands = headline_curve(scanned, rows), scanned.bands
    error = bands.cautious_error
    observed = np.minimum(bands.mean_weight, GRID[:, None])
    lefts, aparts = bands.left(observed), bands.apart(observed)
    thinkable = curve.variance + error.thinkable(lefts, aparts)
    k = int(np.argmin(np.where(np.isfinite(thinkable), thinkable, np.inf)))
    left, apart, M = lefts[k], float(aparts[k]), float(GRID[k])
    bias = float(error.bias(left, apart)[0])
    fit = plan.fit_variance[k] * design_effect(scanned.grid, k)
    variance = max(stderr_of(scanned.grid, k) ** 2, float(curve.variance[k])) + fit
    noise = math.sqrt(variance + error.variance(left, bands.kept(M), apart))
    unsupported, guess = (float(x) / bands.weight for x in bands.unsupported)
    centre = float(scanned.grid.mean[k]) - bias - guess
    rewards = plan.reward_range
    return Known(
        centre + unsupported * rewards.low if unsupported > 0.0 else centre,
        centre + unsupported * rewards.high if unsupported > 0.0 else centre,
        noise,
        M,
        curve,
        float(left.sum()),
        unsupported,
    )


def interval_for(
    value: float, known: Known, policy_stderr: float, plan: Plan, level: float, degrees: float
) -> Interval:
    """The headline's interval for the policy's value, stretched to hold an estimate."""
    spread = math.hypot(known.noise, policy_stderr)
    low, high = intervals.hull(known.low, known.high, spread, level, degrees)
    if plan.reward_range.known != "observed":
        low, high = max(low, plan.reward_range.low), min(high, plan.reward_range.high)
    return Interval(min(low, value), max(high, value))


def trusted(
    member: Estimator,
    value: float,
    policy_stderr: float,
    scanned: Scanned,
    rows: Rows,
    j: int,
    plan: Plan,
    known: Known,
    level: float,
) -> Trust:
    """One estimator's interval for the policy's value, from what the headline knows of it."""
    plain, bands = scanned.plain, scanned.bands
    observed = bands.observed_by(member)
    left = bands.left(observed)
    error, error_stderr = map(float, bands.error.bias(left, bands.apart(observed)))
    unbiased = member.leaves is not None and member.leaves.kind == "unsupported"
    if unbiased and known.unsupported == 0.0:
        bias = 0.0
    else:
        bias = value - (float(plain.mean[rows.corrected(j)]) - error)
    rewards = plan.reward_range
    largest = (
        rewards.span
        if member.imputes is not None or member.self_normalised
        else max(abs(rewards.low), abs(rewards.high))
    )
    return Trust(
        interval_for(value, known, policy_stderr, plan, level, degrees_of(plain)),
        _covers(known.imputed_mass, known.unsupported, plan),
        bias,
        error_stderr,
        (float(left.sum()) + known.unsupported) * largest,
    )


def chosen_place(scanned: Scanned, rows: Rows) -> int:
    """Where on the grid of M the headline's is."""
    return headline_curve(scanned, rows).best


def headline_curve(scanned: Scanned, rows: Rows) -> HeadlineCurve:
    """From the walk, the headline's error at every M of the grid, but for the noise of the fit,
    which is too uncertain itself to choose by."""
    modelled = scanned.plain.sample_variance(rows.modelled)
    curve = curve_from(scanned.grid.mean, modelled, scanned.bands, 1)
    effective = scanned.plain.weight**2 / scanned.plain.weight2
    design = np.array([design_effect(scanned.grid, k) for k in range(len(GRID))])
    with np.errstate(over="ignore", invalid="ignore"):
        return curve._replace(variance=curve.variance / effective * design)


def make_headline(
    policy: str,
    scanned: Scanned,
    rows: Rows,
    plan: Plan,
    known: Known,
    policy_stderr: float,
    level: float,
    logged: Logged,
) -> Headline:
    """The headline, the one answer: CAB-DR around the recalibrated model, M of least error."""
    curve = known.curve
    k = curve.best
    bands, grid, rewards = scanned.bands, scanned.grid, plan.reward_range
    value, stderr = float(grid.mean[k]), _headline_stderr(scanned, plan, k)
    bias, bias_stderr = float(curve.bias[k]), float(curve.bias_stderr[k])
    interval = interval_for(value, known, policy_stderr, plan, level, degrees_of(grid))
    mass = float(curve.imputed_mass[k])
    M = float(GRID[k])
    rewarded = bands.effective_rewarded(M)
    return Headline(
        policy=policy,
        estimator=str(CABDR(M=M)),
        value=value,
        stderr=stderr,
        interval=interval,
        level=level,
        covers=_covers(known.imputed_mass, known.unsupported, plan),
        imputed_mass=mass,
        bias=bias,
        bias_stderr=bias_stderr,
        bias_bound=mass * rewards.span,
        rewarded=rewarded,
        policy_stderr=policy_stderr,
        reason=least_error(math.sqrt(float(curve.variance[k])), math.hypot(bias, bias_stderr)),
        refusal=_refusal(value, interval, known, rewarded, logged),
        grid=tuple(map(float, GRID)),
        values=tuple(map(float, np.where(np.isnan(grid.mean), np.inf, grid.mean))),
        stderrs=tuple(_headline_stderr(scanned, plan, place) for place in range(len(GRID))),
        errors=tuple(float(e) for e in np.sqrt(curve.mse)),
    )


def _refusal(
    value: float,
    interval: Interval,
    known: Known,
    rewarded: float,
    logged: Logged,
) -> str | None:
    """Why the headline says that this log cannot tell, and what would; None if it can."""
    if rewarded < TOO_FEW_EFFECTIVE:
        return (
            f"only about {rewarded:.0f} rewarded rows stand behind this number, and under "
            f"{TOO_FEW_EFFECTIVE} it could be anything. More rows would tell, or a policy closer "
            f"to the one that wrote the log."
        )
    gap, unknown = abs(value - logged.value), known.high - known.low
    if known.unsupported > 0.0 and unknown > gap and logged.value in interval:
        return (
            f"{known.unsupported:.1%} of the policy's probability is on candidates that the logger "
            f"never chooses; their rewards could move the value by {unknown:.3g}, more than the "
            f"{gap:.3g} between this policy and the one that ran. More rows of this log would not "
            f"help: log some decisions that explore these candidates, or ask about a policy that "
            f"avoids them."
        )
    return None


def _covers(imputed: float, unsupported: float, plan: Plan) -> str:
    """What the headline's interval covers, in words."""
    text = "the policy's value: sampling error"
    if imputed > 5e-4:
        text += f", the model's error on the {imputed:.1%} it answers for (as seen on the log)"
    if unsupported > 0.0:
        known = {
            "declared": "within the declared range of rewards",
            "binary": "between 0 and 1",
            "observed": "within the observed range of rewards",
        }[plan.reward_range.known]
        text += f", the worst case {known} on the {unsupported:.1%} that the logger never chooses"
    return text


def stderr_of(moments: Moments, row: int) -> float:
    """Standard error of the mean in one row of the walk's moments, clusters allowed for."""
    return math.sqrt(moments.variance_of(np.eye(1, len(moments.mean), row)[0]))


def _headline_stderr(scanned: Scanned, plan: Plan, k: int) -> float:
    """The headline's: the rows' observed noise, and that of the recalibration fitted to them."""
    design = design_effect(scanned.grid, k)
    return math.hypot(stderr_of(scanned.grid, k), math.sqrt(plan.fit_variance[k] * design))


def degrees_of(moments: Moments) -> float:
    """Degrees of freedom of a variance from the walk: clusters less one, or rows less one."""
    if moments.group_weight is None:
        return max(moments.count - 1, 1)
    return max(int((moments.group_weight > 0.0).sum()) - 1, 1)


def design_effect(moments: Moments, row: int) -> float:
    """How much larger a variance from the walk is as rows of a cluster are alike; at least 1."""
    if moments.group_weight is None:
        return 1.0
    alone = float(moments.covariance(grouped=False)[row])
    together = float(moments.covariance()[row])
    if not alone > 0.0 or not math.isfinite(together):
        return 1.0
    return max(together / alone, 1.0)
