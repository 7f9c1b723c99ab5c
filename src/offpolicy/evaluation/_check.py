"""`check`: is this log fit to answer, and about this policy?

What can be counted is counted. What is left to chance (do the logged probabilities fit what was
chosen? did anything drift?) is judged by two inequalities that hold whatever the distribution
(`evidence.findings._chance`), so that an honest log stays silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from offpolicy.evaluation._evaluate import named_policies
from offpolicy.evidence import (
    Block,
    Evidence,
    Question,
    Source,
    declared_range,
    find_prediction,
    gather,
    notice,
    prepare,
    without_repeats,
)
from offpolicy.evidence.findings import (
    Rows,
    about_arms,
    about_calibration,
    about_clusters,
    about_contexts,
    about_drift,
    about_dropped,
    about_duplicates,
    about_filter,
    about_found_prediction,
    about_frequencies,
    about_prediction,
    about_propensities,
    about_rare_rewards,
    about_rewards,
    about_rounding,
    about_sample,
    about_size,
    about_thin_support,
    about_weight_drift,
    kish,
)
from offpolicy.logs.files import Reading, as_log
from offpolicy.results import ORDER, Finding, Report

__all__ = ["Finding", "Report", "check"]


def check(
    log: Any,
    policy: Any = None,
    *,
    prediction: Any = None,
    reward_range: tuple[float, float] | None = None,
    **reading: Unpack[Reading],
) -> Report:
    """Is this log fit to answer, and about this policy?

    Parameters
    ----------
    log : anything that `evaluate` takes
        What every row has to say of a policy is added up, as by `evaluate`. For the rest, of more
        than 200,000 decisions a sample is looked at.
    policy : optional
        As in `evaluate`: a policy, an array, a column name, or a mapping of names to these.
        Without one, only the log itself is looked at.
    prediction : optional
        The reward model δ̂, as in `evaluate`.
    reward_range : (low, high), optional
        The least and the greatest reward there can be.
    reading : options of `read_log`, optional
        As in `evaluate`.

    Examples
    --------
    >>> from offpolicy import BanditLog
    >>> log = BanditLog.from_arrays(
    ...     action=[0, 1] * 500, reward=[1, 0, 0, 1] * 250, logging=[[0.5, 0.5, 0.0]] * 1000
    ... )
    >>> report = check(log, [[0.2, 0.2, 0.6]] * 1000)
    >>> report.worst
    'problem'
    >>> print(report["support"].sentence)
    policy puts 60% of its probability where the logger has none: on action 2 (60%).
    """
    log = as_log(log, reading, check)
    if reward_range is not None:
        declared_range(reward_range)
    given = prediction
    if prediction is None and not find_prediction(log):
        given = False
    policies = {} if policy is None else named_policies(policy, "check")
    question = Question(log, policies, given, verb="check", keep_sample=True)
    if policies:
        return checked(gather(question), reward_range)
    prepared = prepare(question)
    return _report(prepared.source, prepared.sample[0], [], reward_range)


def checked(evidence: Sequence[Evidence], reward_range: tuple[float, float] | None) -> Report:
    """What `check` says, from evidence that has kept its sample."""
    first = evidence[0]
    assert first.sample is not None
    return _report(first.source, first.sample, evidence, reward_range)


def _report(
    source: Source,
    sample: Block,
    evidence: Sequence[Evidence],
    reward_range: tuple[float, float] | None,
) -> Report:
    limits = None if reward_range is None else declared_range(reward_range)
    log, rows = sample.log, Rows.of(sample.log)
    of_log = [
        *about_dropped(source.dropped),
        *about_filter(source.log),
        *about_arms(source.log),
        *about_found_prediction(source.found_prediction),
        *about_sample(source.n, len(log)),
        *about_clusters(rows),
        *about_rewards(source, log.reward, limits),
        *about_propensities(log),
        *about_frequencies(log, rows),
        *about_duplicates(log),
    ]
    if sample.delta_hat is not None and source.trained is None:  # what was trained was not given
        of_log += about_prediction(log, sample.delta_hat, limits)
    if not evidence:
        of_log += [
            *about_rounding(log), *about_contexts(log, rows), *about_drift(log, rows),
            *about_calibration(sample, rows),
        ]  # fmt: skip
    if not any(each.weighed for each in evidence):
        of_log += about_size(None, kish(rows.omega) * source.n / len(log), source.n)
        of_log += about_rare_rewards(None, log.reward, rows.omega, source.n)
    found = without_repeats(of_log, *(_about_policy(each, rows) for each in evidence))
    return Report(tuple(sorted(found, key=lambda finding: ORDER.index(finding.severity))))


def _about_policy(e: Evidence, rows: Rows) -> list[Finding]:
    """What `check` finds about one policy."""
    block, found = e.sample, notice(e)
    assert block is not None
    if not e.weighed:
        return found
    found += about_rare_rewards(e.policy, block.log.reward, rows.omega * block.c, e.source.n)
    if e.scanned.c.high[0] > 0.0:
        found += about_thin_support(e.policy, e.scanned, exact=e.plan.exact)
        found += about_weight_drift(block, rows)
    return found
