"""`evaluate`: what would these policies have earned?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from offpolicy.errors import ParameterError
from offpolicy.estimators import Estimator
from offpolicy.evaluation._interval_kinds import check_kind, interval_of
from offpolicy.evidence import (
    Arm,
    Evidence,
    Gap,
    Question,
    effective_size,
    from_headline,
    gap_to_logged,
    gather,
    guarded,
    make_headline,
    make_summary,
    notice,
    own_interval,
    own_mean,
    refuse_no_overlap,
    value_of,
    what_is_known,
    without_repeats,
)
from offpolicy.evidence.findings import about_dropped
from offpolicy.logs import BanditLog, LogScan
from offpolicy.results import Estimate, Finding, Headline, Result, Summary


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
    report: str | Path | None = None,
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
    report : path, optional
        Also write a page there, the one of ``offpolicy evaluate --report``: with what `check` says,
        and, for several policies, how they compare.

    Examples
    --------
    >>> log = BanditLog.from_arrays(
    ...     action=[0, 1, 0, 1], reward=[1, 0, 1, 1], logging=[[0.5, 0.5]] * 4
    ... )
    >>> result = evaluate(log, [[0.9, 0.1]] * 4, estimators=["IPS"])
    >>> round(result["IPS"].value, 6)
    0.95
    """
    check_kind(interval, log)
    if report is not None:
        from offpolicy.evaluation._together import evaluate_and_check

        together = evaluate_and_check(
            log, policy, prediction=prediction, estimators=estimators, level=level, page=report,
            interval=interval, reward_range=reward_range, tuning=tuning, resume=resume,
        )  # fmt: skip
        return cast(Result, together.answers[0])
    question = Question(
        log, named_policies(policy, "evaluate"), prediction, reward_range, level, estimators,
        tuning=tuning, resume=resume,
    )  # fmt: skip
    return evaluated(gather(question), interval)


def evaluated(evidence: Sequence[Evidence], interval: str = "default") -> Result:
    """What `evaluate` returns, from the evidence about every policy."""
    known, source = [answer(each) for each in evidence], evidence[0].source
    return Result(
        tuple(
            _estimate(j, each, of_policy, interval)
            for each, of_policy in zip(evidence, known, strict=True)
            for j in range(each.plan.shown)
        ),
        evidence[0].logged,
        tuple(each.headline for each in known if each.headline is not None),
        tuple(choice for each in evidence for choice in each.plan.tuned if choice is not None),
        source.dropped,
        source.trained,
        findings_of(evidence, known),
        tuple(each.summary for each in known),
    )


def findings_of(evidence: Sequence[Evidence], known: Sequence[Answer]) -> tuple[Finding, ...]:
    """What `evaluate` and `compare` came across."""
    about_log = [*about_dropped(evidence[0].source.dropped), *evidence[0].untrained]
    return without_repeats(about_log, *(each.findings for each in known))


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


class Answer(NamedTuple):
    """What `evaluate` and `compare` know of one policy; arm, gap and headline are None without
    propensities."""

    arm: Arm | None
    gap: Gap | None
    """To the policy that wrote the log."""
    headline: Headline | None
    summary: Summary
    findings: list[Finding]


def answer(e: Evidence) -> Answer:
    """What the log says about a policy, whichever estimators are asked."""
    plan, scanned = e.plan, e.scanned
    asked = plan.members[: plan.shown]
    if not asked or any("propensity" in member.needs for member in asked):
        refuse_no_overlap(float(scanned.c.high[0]), e.policy)
    known = arm = gap = headline = None
    found: list[Finding] = []
    if e.weighed:
        known = what_is_known(scanned.path, plan, e.by_draws[-1], e.level, e.logged)
        known, found = guarded(e.policy, scanned, known, plan, e.logged)
        arm = Arm(plan, known, e.by_draws[-1])
        gap = gap_to_logged(arm, scanned, e.logged)
        headline = make_headline(e.policy, arm, gap.interval(e.level), e.level, e.logged)
    summary = make_summary(e, known)
    return Answer(arm, gap, headline, summary, found + notice(summary, scanned))


def _estimate(j: int, e: Evidence, known: Answer, interval: str) -> Estimate:
    """The row of the j-th estimator about a policy."""
    plan, scanned, observed = e.plan, e.scanned, e.scanned.observed
    member, choice = plan.members[j], plan.tuned[j]
    value, stderr = value_of(member, j, scanned, plan, e.logged)
    noise = math.hypot(stderr, e.by_draws[j])
    apart = None
    if known.arm is None:
        trust = own_mean(value, noise, e.level)
    else:
        trust = own_interval(j, value, noise, scanned, plan, e.level)
        apart = from_headline(j, value, stderr, scanned, known.arm.known, plan).ratio
    if interval != "default":
        span, covers = interval_of(interval, member, e, value, noise)
        trust = trust._replace(interval=span, covers=covers)
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
        from_headline=apart,
        **trust._asdict(),
    )
