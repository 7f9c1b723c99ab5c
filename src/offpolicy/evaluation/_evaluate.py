"""`evaluate`: what would these policies have earned?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Unpack, cast

from offpolicy.errors import ParameterError
from offpolicy.estimators import Estimator
from offpolicy.evaluation._interval_kinds import check_kind, with_intervals
from offpolicy.evidence import (
    Apart,
    Evidence,
    Gap,
    Known,
    Question,
    estimates,
    gap_to_logged,
    gather,
    guarded,
    make_headline,
    make_summary,
    notice,
    refuse_no_overlap,
    what_is_known,
    without_repeats,
)
from offpolicy.evidence.findings import (
    about_arms,
    about_dropped,
    about_filter,
    about_found_prediction,
)
from offpolicy.logs.files import Reading, as_log
from offpolicy.policies import parse_policy, policies_of
from offpolicy.results import Estimate, Finding, Headline, Result, Summary


def evaluate(
    log: Any,
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
    **reading: Unpack[Reading],
) -> Result:
    """Estimate the mean reward that one or several policies would have earned.

    Parameters
    ----------
    log : dataframe, mapping of names to columns, path, glob, folder, or BanditLog
        What `read_log` takes (pandas, polars, pyarrow, DuckDB; Parquet, CSV, JSON lines), or what
        it returned.
    policy
        A policy (`offpolicy.policies`), an array of probabilities ((n, K), flat, or (n,) for the
        chosen action only) or of the (n,) actions that it would choose, text as on the command
        line (a column, ``":always(a)"``, ``"new=:rule(case when … end)"``), a fitted classifier, a
        function of the log that returns an array, or a mapping of names to these.
    prediction : optional
        The reward model δ̂: an array of predictions for every candidate ((n, K) or flat), a
        column name, or an object with ``predict(log)``. Left out, the column ``prediction``, if it
        holds lists; otherwise, if the log has contexts, a plain model is trained on a sample of
        the log, cross-fitted. True trains one in any case, False does without.
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
    reading : options of `read_log`, optional
        Which column of a frame or a file plays which role, as in `Columns`: ``action="item"``,
        ``reward="click"``, ``context=["age", "city"]``. Roles left out are looked for under their
        own names. And what else `read_log` takes: ``where="country = 'de'"``, ``sample=0.1``,
        ``on_bad_row="drop"``, ``memory="4GB"``.

    Examples
    --------
    >>> frame = {"item": [0, 1, 0, 1], "click": [1, 0, 1, 1], "p": [0.5] * 4, "new": [0.9, 0.1] * 2}
    >>> asked = evaluate(frame, "new", action="item", reward="click", propensity="p")
    >>> round(asked["IPS"].value, 6)
    0.95
    >>> from offpolicy import BanditLog
    >>> log = BanditLog.from_arrays(
    ...     action=[0, 1, 0, 1], reward=[1, 0, 1, 1], logging=[[0.5, 0.5]] * 4
    ... )
    >>> result = evaluate(log, [[0.9, 0.1]] * 4, estimators=["IPS"])
    >>> round(result["IPS"].value, 6)
    0.95
    """
    log = as_log(log, reading, evaluate)
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
    rows: list[Estimate] = []
    for e, each in zip(evidence, known, strict=True):
        mine = estimates(e, each.apart)
        rows += mine if interval == "default" else with_intervals(interval, mine, e)
    return Result(
        tuple(rows),
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
    source = evidence[0].source
    of_log = about_dropped(source.dropped) + about_filter(source.log) + about_arms(source.log)
    of_log += about_found_prediction(source.found_prediction)
    return without_repeats(of_log, *(each.findings for each in known))


def named_policies(policy: Any, verb: str) -> dict[str, Any]:
    """The policies that a verb (evaluate, compare, check) is asked about, by name."""
    if are_texts(policy):
        policy = policies_of(policy)
    if not isinstance(policy, Mapping):
        return {"policy": policy}
    if not policy:
        raise ParameterError(f"There is no policy to {verb}.", column="policy")
    policies = {
        str(name): parse_policy(each) if isinstance(each, str) else each
        for name, each in policy.items()
    }
    if len(policies) < len(policy):
        raise ParameterError(
            "Two policies have the same name; every name must be different.", column="policy"
        )
    return policies


def are_texts(policy: Any) -> bool:
    """Whether these are policies said by text, and not the items of one."""
    return isinstance(policy, str) or (
        isinstance(policy, (list, tuple))
        and all(isinstance(each, str) and (each[:1] == ":" or "=" in each) for each in policy)
    )


class Answer(NamedTuple):
    """What `evaluate` and `compare` know of one policy; the first three are None without
    propensities."""

    known: Known | None
    gap: Gap | None
    """To the policy that wrote the log."""
    headline: Headline | None
    apart: Apart | None
    """How far every estimator is from the headline."""
    summary: Summary
    findings: list[Finding]


def answer(e: Evidence) -> Answer:
    """What the log says about a policy, whichever estimators are asked."""
    asked = e.plan.members[: e.plan.shown]
    if not asked or any("propensity" in member.needs for member in asked):
        refuse_no_overlap(float(e.scanned.c.high[0]), e.policy)
    known = gap = headline = apart = None
    found: list[Finding] = []
    if e.weighed:
        known, apart, found = guarded(what_is_known(e))
        gap = gap_to_logged(known)
        headline = make_headline(known, gap.interval(e.level))
    summary = make_summary(e, known)
    return Answer(known, gap, headline, apart, summary, found + notice(e))
