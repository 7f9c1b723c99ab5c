"""`check`: is this log fit to answer, and about this policy?

What can be counted is counted. What is left to chance (do the logged probabilities fit what was
chosen? did anything drift?) is judged by two inequalities that hold whatever the distribution
(`evidence.findings._chance`), so that an honest log stays silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.evaluation._evaluate import named_policies
from offpolicy.evidence import (
    Evidence,
    InMemory,
    declared_range,
    sample_of,
    sample_size,
    whole_block,
    without_bad_rows,
)
from offpolicy.evidence.findings import (
    Rows,
    about_clusters,
    about_drift,
    about_dropped,
    about_duplicates,
    about_frequencies,
    about_policy,
    about_prediction,
    about_propensities,
    about_rewards,
    about_sample,
    about_size,
    the_logger,
)
from offpolicy.logs import BanditLog, LogScan, sample_ranges
from offpolicy.models import resolve_prediction
from offpolicy.policies import Target, resolve
from offpolicy.results import ORDER, Finding, Report

__all__ = ["Finding", "Report", "check"]


def check(
    log: BanditLog | LogScan,
    policy: Any = None,
    *,
    prediction: Any = None,
    reward_range: tuple[float, float] | None = None,
) -> Report:
    """Is this log fit to answer, and about this policy?

    Parameters
    ----------
    log : BanditLog, or files as read by `read_log`, of which a sample is looked at
    policy : optional
        As in `evaluate`: a policy, an array, a column name, or a mapping of names to these.
        Without one, only the log itself is looked at.
    prediction : optional
        The reward model δ̂, as in `evaluate`.
    reward_range : (low, high), optional
        The least and the greatest reward there can be.

    Examples
    --------
    >>> log = BanditLog.from_arrays(
    ...     action=[0, 1] * 500, reward=[1, 0, 0, 1] * 250, logging=[[0.5, 0.5, 0.0]] * 1000
    ... )
    >>> report = check(log, [[0.2, 0.2, 0.6]] * 1000)
    >>> report.worst
    'problem'
    >>> print(report["support"].sentence)
    policy puts 60% of its probability where the logger has none: on action 2 (60%).
    """
    limits = None if reward_range is None else declared_range(reward_range)
    policies = {} if policy is None else named_policies(policy, "check")
    log = without_bad_rows(log, policies, prediction)
    known = about_dropped(log.dropped)
    if isinstance(log, LogScan):
        size = sample_size(log.width)
        known += about_sample(len(log), size)
        columns = [name for name in (*policies.values(), prediction) if isinstance(name, str)]
        log = log.read(sample_ranges(len(log), size), columns)
    targets = [resolve(log, asked, name) for name, asked in policies.items()]
    for target in targets:
        target.check(log)
    delta_hat = resolve_prediction(log, prediction)
    whole_block(log, the_logger(log), delta_hat).check_whole()
    return _report(known, log, targets, delta_hat, limits)


def checked(evidence: Sequence[Evidence], reward_range: tuple[float, float] | None) -> Report:
    """What `check` says, from evidence whose source has kept its sample (or is in memory).

    A model that was trained on the log is not looked at: it was not given.
    """
    source = evidence[0].source
    limits = None if reward_range is None else declared_range(reward_range)
    known = about_dropped(source.dropped)
    if isinstance(source, InMemory):
        log, targets, delta_hat = source.log, list(source.targets), source.delta_hat
    else:
        sample = sample_of(source)
        log, delta_hat = sample[0].log, sample[0].delta_hat
        targets = [block.target for block in sample]
        known += about_sample(source.n, sample_size(source.log.width))
    return _report(known, log, targets, delta_hat if source.trained is None else None, limits)


def _report(
    known: list[Finding],
    log: BanditLog,
    targets: Sequence[Target],
    delta_hat: Floats | None,
    limits: tuple[float, float] | None,
) -> Report:
    rows = Rows.of(log)
    findings = [
        *known,
        *about_clusters(rows),
        *about_rewards(log.reward, limits),
        *about_propensities(log),
        *about_frequencies(log, rows),
        *about_duplicates(log),
        *about_drift(log, rows),
    ]
    if delta_hat is not None:
        findings += about_prediction(log, rows, delta_hat, limits)
    if targets and log.propensity is not None:
        for target in targets:
            findings += about_policy(log, rows, target)
    else:
        findings += about_size(log, rows, np.ones(len(log)), None)
    return Report(tuple(sorted(findings, key=lambda finding: ORDER.index(finding.severity))))
