"""From a question to its evidence: all that is read and fitted for an answer, from top to bottom.

`gather` looks at a sample of the log, trains a reward model if there are contexts and none was
given, makes a `Plan` for every policy, and walks over the log once. Everything after it is a
function of the evidence; only differences of two policies take another walk (`pair`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from offpolicy import intervals
from offpolicy._core.door import Door
from offpolicy._core.moments import Moments
from offpolicy.errors import MissingColumnError, ParameterError
from offpolicy.estimators import Estimator, choose_estimators
from offpolicy.evidence._blocks import Block
from offpolicy.evidence._default_model import train_model
from offpolicy.evidence._plan import Plan, RewardRange, make_plan, range_of_rewards, sample_of
from offpolicy.evidence._risk_curve import RiskCurve
from offpolicy.evidence._sources import (
    InMemory,
    Source,
    like_predictions,
    source_of,
    thinned,
    with_arms,
)
from offpolicy.evidence._tuning import check_rule
from offpolicy.evidence._walk import RowValues, Scanned, scan
from offpolicy.evidence.findings import (
    Rows,
    about_calibration,
    about_contexts,
    about_drift,
    about_filter,
    about_rounding,
)
from offpolicy.evidence.findings._policy import (
    about_heavy_weights,
    about_training,
    about_unknown_categories,
    about_weight_mean,
)
from offpolicy.evidence.findings._propensities import about_estimated
from offpolicy.logs import BanditLog, LogScan, likely_columns, sample_ranges
from offpolicy.policies import Target
from offpolicy.results import Finding, Logged

LOOKED_AT = 200_000
"""Decisions of a file that a first look reads."""
ROWS_OF_CHECK = 500
"""Of the sample, so many are enough for the model of the walk that `check` takes."""


@dataclass(frozen=True, eq=False)
class Question:
    """What a verb is asked: about which policies, of which log, and how."""

    log: BanditLog | LogScan
    policies: Mapping[str, Any]
    prediction: Any = None
    reward_range: tuple[float, float] | None = None
    level: float = 0.95
    estimators: Sequence[str | Estimator] | None = None
    """None are the usual ones, as far as columns allow."""
    verb: Literal["evaluate", "compare", "check"] = "evaluate"
    """Only `evaluate` asks for estimators besides the headline, and only `compare` cannot do
    without propensities."""
    tuning: str = "theory"
    resume: str | Path | None = None
    keep_sample: bool = False
    """Whether the sample's rows are wanted after the walk, for `check`."""


class Prepared(NamedTuple):
    """What is read and fitted for a question before the walk."""

    source: Source
    rewards: RewardRange
    untrained: list[Finding]
    """Why no model was trained on contexts, if so."""
    sample: list[Block]
    """One block for every policy; for the logger, if there is none."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that a log says about one policy."""

    policy: str
    place: int
    """Of the policy in the source."""
    plan: Plan
    scanned: Scanned
    logged: Logged
    level: float
    noticed: list[Finding]
    """What the sample's rows show, and why no model was trained on contexts, if so."""
    source: Source
    sample: Block | None

    @cached_property
    def rows(self) -> RowValues:
        """Value and standard error of every estimator."""
        return self.scanned.rows(self.plan)

    @cached_property
    def by_draws(self) -> list[float]:
        """`policy_stderr`, with `propensity_stderr`."""
        asked = self.source, self.place, self.plan
        return list(map(math.hypot, policy_stderr(*asked), propensity_stderr(*asked)))

    @property
    def weighed(self) -> bool:
        """Whether there are propensities, without which only the model can be asked."""
        return "propensity" in self.plan.columns


def prepare(question: Question) -> Prepared:
    """The log of a question with its policies, its model, and the sample."""
    intervals.normal_quantile(question.level)
    check_rule(question.tuning)
    source = source_of(question.log, question.policies, question.prediction, question.resume)
    rewards = range_of_rewards(source, question.reward_range)
    return Prepared(source, rewards, train_model(source), sample_of(source))


def make_plans(question: Question, prepared: Prepared) -> list[Plan]:
    """What the sample fixes before the walk, for every policy."""
    source, sample = prepared.source, prepared.sample
    if question.verb == "check":  # which looks at no sum that depends on the model
        sample = [thinned(block, ROWS_OF_CHECK) for block in sample]
    plans = [
        make_plan(block, source.n, prepared.rewards, _members(question, block.columns),
                  rule=question.tuning, first_row=source.first_row)
        for block in sample
    ]  # fmt: skip
    chosen = any(choice is not None for plan in plans for choice in plan.tuned[: plan.shown])
    if question.tuning != "theory" and not chosen:
        raise ParameterError(
            f"{Door.named('tuning')} is for parameters that are left out, such as "
            f"that of CAB, and no estimator here has one.",
            column="tuning",
        )
    return plans


def gather(question: Question) -> list[Evidence]:
    """The evidence about every policy: one sample, one fit, one walk."""
    prepared = prepare(question)
    plans, noticed = make_plans(question, prepared), _noticed(question, prepared)
    source, sample = prepared.source, prepared.sample if question.keep_sample else None
    del prepared
    source.sampled = None
    scans = scan(source, plans)
    logged = _logged(scans[0].reward, question.level)
    return [
        Evidence(
            source.names[k], k, plan, scanned, logged, question.level, noticed[k], source,
            None if sample is None else sample[k],
        )
        for k, (plan, scanned) in enumerate(zip(plans, scans, strict=True))
    ]  # fmt: skip


def _noticed(question: Question, prepared: Prepared) -> list[list[Finding]]:
    """For every policy, the findings for which the sample's rows are looked at in any case."""
    first = prepared.sample[0]
    rows = Rows.of(first.log)
    of_log = about_estimated(prepared.source.log) + prepared.untrained + about_rounding(first.log)
    of_log += about_contexts(first.log, rows)
    of_log += about_drift(first.log, rows) + about_calibration(first, rows)
    trained_here = prepared.source.trained_here
    told = [
        [
            *of_log,
            *about_training(block.target.name, trained_here),
            *about_heavy_weights(block, rows),
            *about_weight_mean(block, rows),
        ]
        for block in prepared.sample
    ]
    for found, (name, policy) in zip(told, question.policies.items(), strict=False):
        found += about_unknown_categories(first.log, name, policy)
    return told


def first_look(log: BanditLog | LogScan) -> list[Finding]:
    """What a log shows before anything is asked of it: of its contexts, and of how rows were
    picked."""
    seen = with_arms(log)
    if isinstance(seen, LogScan):
        seen = seen.read(sample_ranges(len(seen), LOOKED_AT), ())
    return about_filter(log) + about_contexts(seen, Rows.of(seen))


def _members(question: Question, columns: frozenset[str]) -> Sequence[Estimator]:
    """The estimators that are asked for, or raise if columns are missing."""
    if question.verb == "evaluate":
        try:
            return choose_estimators(question.estimators, columns)
        except MissingColumnError as problem:
            if problem.column == "propensity":
                raise MissingColumnError(
                    f"{problem}{_perhaps(question.log)}", column="propensity"
                ) from None
            like = [] if "prediction" in columns else like_predictions(question.log)
            if not like:
                raise
            shown = ", ".join(like[:5])
            raise MissingColumnError(
                f"{problem} If the predictions are in a column that looks like it ({shown}), name "
                f"it: {Door.given('prediction', like[0])}.",
                column=problem.column,
            ) from None
    if question.verb == "compare" and "propensity" not in columns:
        raise MissingColumnError(
            "compare needs the propensity of the chosen action: without it nothing says how a "
            f"policy other than the logged one would have done. Say which column it is with "
            f"{Door.spelled('propensity')}, or the number, if it is the same in all rows: 1/3."
            f"{_perhaps(question.log)}",
            column="propensity",
        )
    return ()


def _perhaps(log: BanditLog | LogScan) -> str:
    """The columns of a log that look like its propensity, if there are any, in words."""
    likely = likely_columns("propensity", log.column_names)
    return f" Perhaps {' or '.join(likely)}?" if likely else ""


def policy_stderr(source: Source, k: int, plan: Plan) -> list[float]:
    """Jackknife over the replicates of a policy known through draws
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
        values.append(_values(replaced, plan))
    return _jackknife(values)


def propensity_stderr(source: Source, k: int, plan: Plan) -> list[float]:
    """Likewise of estimated propensities: a jackknife over the folds that their models are
    fitted without. That rows and propensities are noisy together is left out; where the model of
    propensities is right, it would make intervals shorter."""
    if not isinstance(source, InMemory) or source.log.estimated_by is None:
        return [0.0] * (len(plan.members) + 1)
    log, targets = source.log, [source.targets[k]]
    return _jackknife(
        [
            _values(
                InMemory(log.replace(logging=flat, propensity=None), targets, source.delta_hat),
                plan,
            )
            for flat in log.estimated_by.replicates(log)
        ]
    )


def _values(source: InMemory, plan: Plan) -> list[float]:
    """Of every estimator and, last, of the headline."""
    (scanned,) = scan(source, [plan])
    best = RiskCurve.of(scanned.path, exact=plan.exact).best_value
    return [*scanned.rows(plan).value[:-1], best]


def _jackknife(values: list[list[float]]) -> list[float]:
    """Standard errors, from values that each leave one part out."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.var(np.array(values), axis=0) * (len(values) - 1)
    return [math.sqrt(v) if math.isfinite(v) else math.inf for v in spread]


def _logged(reward: Moments, level: float) -> Logged:
    """How the logger did."""
    value, stderr = float(reward.mean[0]), reward.stderr(0)
    return Logged(reward.count, value, stderr, intervals.normal(value, stderr, level))
