"""Intervals of other kinds than the default: they look at the rows, or at bounds on them.

All but ``betting`` and ``sequence`` of IPS cover the estimator's own mean, which for a clipped or
blended estimator is not the policy's value: its `bias_bound` says how far off that can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy import intervals
from offpolicy._core.door import Door
from offpolicy._core.parallel import each_block
from offpolicy._core.types import Floats
from offpolicy.errors import ParameterError, did_you_mean
from offpolicy.estimators import IPS, Estimator
from offpolicy.evidence import (
    Block,
    Evidence,
    InMemory,
    Plan,
    RewardRange,
    blocks,
    contributions,
    degrees_of,
    whole_block,
)
from offpolicy.intervals import Interval
from offpolicy.logs import BanditLog, LogScan
from offpolicy.results import Estimate

if TYPE_CHECKING:
    from offpolicy.intervals.betting import Limits

_ROW_BY_ROW = ("bootstrap", "bca", "empirical-likelihood", "hoeffding", "empirical-bernstein",
               "betting", "sequence")  # fmt: skip
KINDS = ("default", "normal", "t", *_ROW_BY_ROW)
"""What ``interval=`` of `evaluate` can be."""

_BOOTSTRAPS = ("bootstrap", "bca")
_OWN_MEAN = "the estimator's own mean"
_SAMPLING = f"{_OWN_MEAN}: sampling error, for large n"


def check_kind(kind: str, log: BanditLog | LogScan) -> None:
    """Raise unless `evaluate` can make intervals of this kind for this log."""
    problem = ""
    if kind not in KINDS:
        problem = f'interval is "{kind}".{did_you_mean(kind, KINDS)} It can be {", ".join(KINDS)}.'
    elif kind in _ROW_BY_ROW and isinstance(log, LogScan):
        problem = (
            f"{Door.given('interval', kind)} needs all rows at once, and this log is read piece by "
            "piece. Use default, normal or "
            f"t{Door.in_python(', or a dataframe, which is in memory')}."
        )
    elif kind in _ROW_BY_ROW and kind not in _BOOTSTRAPS and isinstance(log, BanditLog):
        given = {"clusters": log.cluster, "row weights": log.row_weight}
        for what in [what for what, column in given.items() if column is not None][:1]:
            problem = (
                f'interval="{kind}" takes rows to be independent and of equal weight, and this log '
                f'has {what}. Use "default", "normal", "t", "bootstrap" or "bca", which allow for '
                f"them."
            )
    if problem:
        raise ParameterError(problem, column="interval")


def with_intervals(kind: str, rows: Sequence[Estimate], e: Evidence) -> list[Estimate]:
    """The rows of the estimators with the intervals that `evaluate` was asked for."""
    if kind in _BOOTSTRAPS:
        found = [(interval, _SAMPLING) for interval in _drawn(kind, e)]
    else:
        found = [
            _interval_of(kind, j, e, row.value, math.hypot(row.stderr, row.policy_stderr))
            for j, row in enumerate(rows)
        ]
    return [
        replace(row, interval=interval, covers=covers)
        for row, (interval, covers) in zip(rows, found, strict=True)
    ]


def _drawn(kind: str, e: Evidence) -> list[Interval]:
    """Bootstrap intervals for `evaluate`, all from one set of draws, which all policies share."""
    from offpolicy.intervals.bootstrap import bootstrap_together

    assert isinstance(e.source, InMemory), "check_kind"
    log = e.source.log
    return bootstrap_together(
        _contributions(e.plan.members[: e.plan.shown], e),
        e.level,
        kind="bca" if kind == "bca" else "percentile",
        row_weight=log.row_weight,
        cluster=log.cluster,
    )


def _interval_of(
    kind: str, j: int, e: Evidence, value: float, stderr: float
) -> tuple[Interval, str]:
    """The interval that `evaluate` was asked for by ``interval=``, and what it covers in words."""
    if kind == "normal":
        return intervals.normal(value, stderr, e.level), _SAMPLING
    if kind == "t":
        degrees = degrees_of(e.scanned.reward)
        return intervals.student_t(value, stderr, e.level, degrees), _SAMPLING
    member = e.plan.members[j]
    (x,) = _contributions([member], e)
    if kind == "empirical-likelihood":
        from offpolicy.intervals.bootstrap import empirical_likelihood

        return empirical_likelihood(x, e.level), _SAMPLING
    return _guaranteed(kind, member, x, _whole(e), e.plan.reward_range, e.level)


def _whole(e: Evidence) -> Block:
    assert isinstance(e.source, InMemory), "check_kind"
    return whole_block(e.source.log, e.source.targets[e.place], e.source.delta_hat)


def _contributions(members: Sequence[Estimator], e: Evidence) -> list[Floats]:
    """What `evaluate` makes intervals of: every decision's contribution, or a ratio's influence."""
    whole = _whole(e)
    made = blocks(whole.log, whole.target, whole.delta_hat)
    parts = list(each_block(lambda block: contributions(block, members), made))
    return [
        _of_ratio(member, whole, e.plan, np.concatenate([part.modelled for part in mine]))
        if member.self_normalised
        else np.concatenate([part.value for part in mine])
        for member, *mine in zip(members, *parts, strict=True)
    ]


def _of_ratio(member: Estimator, whole: Block, plan: Plan, modelled: Floats) -> Floats:
    """Of a self-normalised estimator, every decision's influence: `evaluate`'s are of means."""
    centre = plan.centres[plan.members.index(member)]
    residual = whole.log.reward - centre.ratio
    if member.uses_model:
        residual = residual - whole.delta_hat_chosen
    return np.asarray(modelled + centre.ratio + whole.c * residual / centre.weight)


def _guaranteed(
    kind: str, member: Estimator, x: Floats, whole: Block, rewards: RewardRange, level: float
) -> tuple[Interval, str]:
    """The interval of `evaluate` that holds at every n, if the range of rewards is right."""
    from offpolicy.intervals import betting

    when = "at every n at once: look as often as you like" if kind == "sequence" else "at every n"
    if rewards.known == "observed":
        when += ", if no reward can be outside what was observed"
    ends, n, mean = (rewards.low, rewards.high), len(x), float(x.mean())
    if isinstance(member, IPS) and kind in ("betting", "sequence"):
        drawn, text = (whole.c, whole.log.reward, level), f"the policy's value, {when}"
        if kind == "betting":
            return betting.betting(*drawn, reward_range=ends), text
        return _last(betting.weighted_sequence(*drawn, reward_range=ends, times=[n])), text
    low, high = contribution_range(member, rewards, whole.delta_hat)
    if not math.isfinite(low) or not math.isfinite(high):
        raise ParameterError(
            f'interval="{kind}" needs contributions within bounds, and those of {member} have '
            f"none. Use IPS (for betting and sequence), or an estimator that bounds the weights, "
            f"CAB-DR(M=10) for example.",
            column="interval",
        )
    makers: dict[str, Callable[[], Interval]] = {
        "hoeffding": lambda: intervals.hoeffding(mean, n, low, high, level),
        "empirical-bernstein": lambda: intervals.empirical_bernstein(
            mean, n, float(x.var(ddof=1)) if n > 1 else 0.0, low, high, level
        ),
        "betting": lambda: betting.betting_bounded(x, low, high, level),
        "sequence": lambda: _last(betting.confidence_sequence(x, low, high, level, times=[n])),
    }
    return makers[kind](), f"{_OWN_MEAN}, {when}"


def _last(limits: Limits) -> Interval:
    return Interval(float(limits.low[-1]), float(limits.high[-1]))


def contribution_range(
    member: Estimator, rewards: RewardRange, delta_hat: Floats | None
) -> tuple[float, float]:
    """For the intervals of `evaluate`: between which a decision's contribution always lies."""
    if member.imputes == "own" or math.isinf(most := member.largest(member.parameter or 0.0)):
        return -math.inf, math.inf
    low = high = 0.0
    if member.uses_model and delta_hat is not None:
        low, high = float(delta_hat.min()), float(delta_hat.max())
        if member.imputes != "all":
            low, high = min(low, 0.0), max(high, 0.0)
    if member.imputes != "all" or delta_hat is None:
        return low + most * min(rewards.low, 0.0), high + most * max(rewards.high, 0.0)
    return low + most * min(rewards.low - high, 0.0), high + most * max(rewards.high - low, 0.0)
