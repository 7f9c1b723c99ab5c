"""`evaluate`: what would these policies have earned?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from offpolicy import intervals
from offpolicy._core.moments import Moments
from offpolicy.errors import EstimatorError, MissingColumnError, ParameterError
from offpolicy.estimators import NAMED, Estimator, as_estimator
from offpolicy.evaluation._interval_kinds import check_kind, interval_of
from offpolicy.evidence import (
    Arm,
    Gap,
    InMemory,
    Plan,
    RiskCurve,
    Rows,
    Scanned,
    Source,
    check_rule,
    degrees_of,
    effective_size,
    from_headline,
    from_moments,
    gap_to_logged,
    guarded,
    make_headline,
    make_plan,
    make_summary,
    notice,
    own_interval,
    own_mean,
    range_of_rewards,
    refuse_no_overlap,
    sample_of,
    scan,
    source_of,
    train_model,
    value_of,
    what_is_known,
    without_repeats,
)
from offpolicy.evidence.findings import about_dropped
from offpolicy.logs import BanditLog, LogScan
from offpolicy.policies import Target
from offpolicy.results import Estimate, Finding, Headline, Logged, Result, Summary

DEFAULT_ESTIMATORS = ("DM", "IPS", "SNIPS", "DR", "CAB", "CAB-DR")
"""What is computed unless asked otherwise, as far as the columns allow."""


def evaluate(
    log: BanditLog | LogScan,
    policy: Any,
    *,
    prediction: Any = None,
    estimators: Sequence[str | Estimator] | None = None,
    level: float = 0.95,
    interval: str = "default",
    reward_range: tuple[float, float] | None = None,
    tuning: str = "theory",
    resume: str | Path | None = None,
) -> Result:
    """Estimate the mean reward that one or several policies would have earned.

    Parameters
    ----------
    log : BanditLog, or files as read by `read_log`
    policy
        A policy (`offpolicy.policies`), an array of probabilities ((n, K), flat, or (n,) for the
        chosen action only), a column name, a fitted classifier, or a mapping of names to these.
    prediction : optional
        The reward model δ̂: an array of predictions for every candidate ((n, K) or flat), a
        column name, or an object with ``predict(log)``. Left out, and if the log has contexts, a
        plain model is trained on a sample of the log, cross-fitted; False
        does without.
    estimators : names or objects, optional
        ``"CAB(M=10)"``, ``CAB(M=10)``, ``ICE(…)``, …; default `DEFAULT_ESTIMATORS`, as far as the
        columns at hand allow.
    level : float
        Coverage of the intervals.
    interval : str
        "default" covers the policy's value. The others are of the estimator's
        own mean: "normal", "t", "bootstrap", "bca", "empirical-likelihood",
        and, valid at every n, "hoeffding", "empirical-bernstein", "betting", "sequence".
        The headline's is always the default.
    reward_range : (low, high), optional
        Between which rewards lie; by default 0 and 1 if they are binary, else as observed.
    tuning : {"theory", "slope", "slope++", "switch"}
        How a parameter that was left out (``"CAB"``) is chosen.
    resume : folder, optional
        Keep the sums there, a million decisions at a time. Killed and called again with the same
        arguments, it goes on from there, to the same bytes. A folder belongs to one log; if that
        has changed it is refused.

    Examples
    --------
    >>> log = BanditLog.from_arrays(
    ...     action=[0, 1, 0, 1], reward=[1, 0, 1, 1], logging=[[0.5, 0.5]] * 4
    ... )
    >>> result = evaluate(log, [[0.9, 0.1]] * 4, estimators=["IPS"])
    >>> round(result["IPS"].value, 6)
    0.95
    """
    intervals.normal_quantile(level)
    check_rule(tuning)
    source = source_of(log, named_policies(policy, "evaluate"), prediction, resume)
    untrained = train_model(source)
    rewards = range_of_rewards(source, reward_range)
    plans = []
    for block in sample_of(source):
        check_kind(interval, block.log, in_memory=isinstance(source, InMemory))
        members = choose_estimators(estimators, block.columns)
        plans.append(
            make_plan(block, source.n, rewards, members, rule=tuning, first_row=source.first_row)
        )
    del block
    scans = scan(source, plans)
    logged = logged_of(scans[0].plain, Rows(plans[0].members).reward, source.n, level)
    estimates: list[Estimate] = []
    known = []
    for k, (plan, scanned) in enumerate(zip(plans, scans, strict=True)):
        known.append(know(source, k, plan, scanned, level, logged))
        estimates += (
            _estimate(j, source, k, plan, scanned, Asked(level, interval), known[k], logged)
            for j in range(plan.shown)
        )
    return Result(
        tuple(estimates),
        logged,
        tuple(each.headline for each in known if each.headline is not None),
        tuple(choice for plan in plans for choice in plan.tuned if choice is not None),
        source.dropped,
        source.trained,
        without_repeats(
            about_dropped(source.dropped), untrained, *(each.findings for each in known)
        ),
        tuple(each.summary for each in known),
    )


def named_policies(policy: Any, verb: str) -> dict[str, Any]:
    """The policies that a verb (evaluate, compare, check) is asked about, by name."""
    if not isinstance(policy, Mapping):
        return {policy if isinstance(policy, str) else "policy": policy}
    if not policy:
        raise ParameterError(f"There is no policy to {verb}.", column="policy")
    policies = {str(name): each for name, each in policy.items()}
    if len(policies) < len(policy):
        raise ParameterError(
            "Two policies have the same name; every name must be different.", column="policy"
        )
    return policies


def choose_estimators(
    wanted: Sequence[str | Estimator] | None, have: frozenset[str]
) -> tuple[Estimator, ...]:
    """The estimators that `evaluate` is asked for, all computable; or the default ones that are."""
    if wanted is None:
        members = [as_estimator(name) for name in DEFAULT_ESTIMATORS]
        usable = tuple(member for member in members if member.needs <= have)
        if not usable:
            _refuse_missing_columns(as_estimator("IPS"), have)
        return usable
    if isinstance(wanted, (str, Estimator)):
        wanted = [wanted]
    members = [as_estimator(item) for item in wanted]
    if not members:
        raise EstimatorError("There is no estimator to compute.", column="estimators")
    names = [str(member) for member in members]
    for member, name in zip(members, names, strict=True):
        if not member.needs <= have:
            _refuse_missing_columns(member, have)
        if names.count(name) > 1:
            raise EstimatorError(
                f'"{name}" is asked for twice. (An ICE takes a label= of its own.)',
                column=name,
            )
    return tuple(members)


_WHAT = {
    "propensity": "the propensity of the chosen action",
    "logging": "logging, the logger's probability of every candidate",
    "policy": "the policy's probability of every candidate",
    "prediction": "prediction, the reward model's estimate for every candidate",
}


def _refuse_missing_columns(member: Estimator, have: frozenset[str]) -> None:
    missing = [name for name in _WHAT if name in member.needs - have]
    needed = " and ".join(_WHAT[name] for name in missing)
    works = [name for name, kind in NAMED.items() if kind.needs <= have]
    rest = f"These still work: {', '.join(works)}." if works else "No estimator works without."
    raise MissingColumnError(f"{member.name} needs {needed}. {rest}", column=missing[0])


class Known(NamedTuple):
    """What `evaluate` and `compare` know of one policy; arm, gap and headline are None without
    propensities."""

    arm: Arm | None
    gap: Gap | None
    """To the policy that wrote the log."""
    headline: Headline | None
    summary: Summary
    findings: list[Finding]
    by_draws: list[float]
    """`policy_stderr`."""


def know(
    source: Source, k: int, plan: Plan, scanned: Scanned, level: float, logged: Logged
) -> Known:
    """What the log says about the k-th policy, whichever estimators are asked."""
    name, rows = source.names[k], Rows(plan.members)
    asked = plan.members[: plan.shown]
    if not asked or any("propensity" in member.needs for member in asked):
        refuse_no_overlap(float(scanned.plain.high[rows.weight]), name)
    by_draws = policy_stderr(source, k, plan)
    known = arm = gap = headline = None
    found: list[Finding] = []
    if "propensity" in plan.columns:
        known = what_is_known(scanned.path, plan, by_draws[-1], level, logged)
        known, found = guarded(name, scanned, known, plan, logged)
        arm = Arm(plan, known, by_draws[-1])
        gap = gap_to_logged(arm, scanned, logged)
        headline = make_headline(name, arm, gap.interval(level), level, logged)
    trained = source.trained is not None
    summary = make_summary(name, scanned, rows, plan, known, level, trained=trained)
    found += notice(summary, scanned, rows, clustered=scanned.plain.group_weight is not None)
    return Known(arm, gap, headline, summary, found, by_draws)


class Asked(NamedTuple):
    """What `evaluate` was asked for besides policies and estimators."""

    level: float
    interval: str


def _estimate(
    j: int, source: Source, k: int, plan: Plan, scanned: Scanned, asked: Asked, known: Known,
    logged: Logged,
) -> Estimate:  # fmt: skip
    """The row of the j-th estimator about the k-th policy."""
    member, plain, rows = plan.members[j], scanned.plain, Rows(plan.members)
    value, stderr = value_of(member, j, scanned, plan, logged)
    noise = math.hypot(stderr, known.by_draws[j])
    apart = None
    if known.arm is None:
        trust = own_mean(value, noise, asked.level)
    else:
        trust = own_interval(j, value, noise, scanned, plan, asked.level)
        apart = from_headline(j, value, stderr, scanned, known.arm.known, plan).ratio
    if asked.interval != "default":
        span, covers = interval_of(
            asked.interval, member, source, k, plan,
            value=value, stderr=noise, level=asked.level, degrees=degrees_of(plain),
        )  # fmt: skip
        trust = trust._replace(interval=span, covers=covers)
    observed, choice = rows.observed(j), plan.tuned[j]
    mass, squares = float(plain.mean[rows.imputed(j)]), plain.sum_of_squares()
    return Estimate(
        policy=source.names[k],
        estimator=str(member),
        value=value,
        stderr=stderr,
        level=asked.level,
        imputed_mass=mass if plan.exact else min(max(mass, 0.0), 1.0),
        ess=effective_size(plain.mean[observed] * plain.weight, float(squares[observed])),
        largest_weight=float(plain.high[observed]),
        policy_stderr=known.by_draws[j],
        reason=None if choice is None else choice.reason,
        from_headline=apart,
        **trust._asdict(),
    )


def policy_stderr(source: Source, k: int, plan: Plan) -> list[float]:
    """For `evaluate` and `compare`: jackknife over the replicates of a policy known through draws
    only, for every estimator and, last, for the headline."""
    nothing = [0.0] * (len(plan.members) + 1)
    if not isinstance(source, InMemory):
        return nothing
    log, target = source.log, source.targets[k]
    if target.leave_one_out is None:
        return nothing
    values = []
    for replicate in target.leave_one_out:
        flat = replicate()
        if not flat[log.chosen_index].any():
            return [math.inf] * (len(plan.members) + 1)
        replaced = InMemory(log, [Target(target.name, flat)], source.delta_hat)
        (scanned,) = scan(replaced, [plan])
        estimates = [from_moments(m, j, scanned, plan, None)[0] for j, m in enumerate(plan.members)]
        curve = RiskCurve.of(scanned.path, exact=plan.exact)
        at = curve.at_value
        values.append([*estimates, float(curve.value[at] + curve.correction[at])])
    replicates = len(values)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.var(np.array(values), axis=0) * (replicates - 1)
    return [math.sqrt(v) if math.isfinite(v) else math.inf for v in spread]


def logged_of(moments: Moments, row: int, n: int, level: float) -> Logged:
    """How the logger did, for `evaluate` and `compare`: ``row`` of the moments holds the reward."""
    value, stderr = float(moments.mean[row]), moments.stderr(row)
    return Logged(n, value, stderr, intervals.normal(value, stderr, level))
