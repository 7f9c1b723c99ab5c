"""`learn`: a policy, and what decisions that it was not learned from say of it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, ClassVar, Unpack, final

import numpy as np

from offpolicy._core.documents import Document
from offpolicy._core.door import Door
from offpolicy._core.types import Floats
from offpolicy.errors import SupportError
from offpolicy.evaluation import evaluate, evaluate_and_compare
from offpolicy.evidence import first_look, with_arms
from offpolicy.intervals import Interval
from offpolicy.learning._softmax_learner import STARTS, FitReport, Progress, SoftmaxLearner
from offpolicy.learning._split import split
from offpolicy.logs import (
    BanditLog,
    LogScan,
    identity,
    sample_ranges,
    with_names,
)
from offpolicy.logs.files import Reading, as_log
from offpolicy.results import IDENTICAL, NOT_DECIDED, Comparison, Difference, Finding, Result

MOST_STEPS = 1000
"""Of a search that are kept: more could not be told apart in a picture."""

_SEEN = 200_000
"""Decisions of a file that say which single action is best."""
_MOST_ARMS = 50
"""With more actions, the best of them is luck."""
_SAME = 0.001
"""A difference that is less than this of the interval's width is none in practice."""
_PRIOR = 50.0
"""An action's mean counts as if so many rows more had earned the mean of all."""

Search = tuple[tuple[int, float], ...]
"""Step and value."""


@final
@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same action, as decisions held out say.

    Attributes
    ----------
    action
        The one that looked best where the policy was learned from.
    value, interval
        Of always taking it.
    difference
        The learned policy's value less that, from paired differences.
    """

    action: str
    value: float
    interval: Interval
    difference: Difference

    @property
    def verdict(self) -> str:
        """In words: whether the learned policy is worth more than always the same action."""
        gap = self.difference
        learned, always = gap.first, gap.second
        span = f"{gap.value:+.3g} [{gap.interval.low:.3g}, {gap.interval.high:.3g}]"
        if gap.verdict == IDENTICAL or max(map(abs, gap.interval)) < _SAME * self.interval.width:
            return f"{learned} is {always}, or nearly so: use that, which is simpler."
        if gap.better == learned:
            return f"{learned} is better than {always}: difference {span}."
        if gap.better == always:
            return f"{learned} is worse than {always}: difference {span}. Use {always} instead."
        if gap.verdict == NOT_DECIDED:
            return (
                f"{learned} is not told apart from {always}: difference {span}. Keep {always}, "
                f"which is simpler, until more decisions tell."
            )
        return f"{learned} and {always}: {gap.verdict} ({gap.reason}) Difference {span}."

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.verdict}\n"
            f"  Always {self.action}, the best single action where the policy was learned from, "
            f"would have earned {self.value:.5g} [{low:.5g}, {high:.5g}]."
        )


@final
@dataclass(frozen=True, slots=True, repr=False)
class LearnedPolicy(Document):
    """How a policy was learned, and what it is worth.

    Attributes
    ----------
    policy
        The file that it is written to.
    actions, context
        How many actions it knows, and columns of context; None if it looks at features of the
        candidates instead.
    decisions
        That it was learned from.
    evaluated
        Decisions that the evaluated policy was learned from: fewer, if the one written was then
        learned again; None if nothing was held out.
    parameters, report
        The learner's, and how its search ended.
    course
        Step and value of every search, one after the other.
    result
        What the decisions held out say of it.
    constant
        What they say of always taking one action: the one that looks best where the policy was
        learned from. None where decisions do not all have the same candidates.
    findings
        What the log shows that it was learned from: of its contexts, and of how rows were picked.
    comparison
        Paired differences of the policy, that one, and what ran; None without the constant.
    """

    schema: ClassVar[str] = "offpolicy.learned/1"

    policy: str
    actions: int | None
    context: int | None
    decisions: int
    evaluated: int | None
    parameters: dict[str, Any]
    report: FitReport
    course: tuple[Search, ...]
    result: Result | None
    constant: Constant | None = None
    findings: tuple[Finding, ...] = ()
    comparison: Comparison | None = None

    @property
    def name(self) -> str:
        """The policy's, by its file."""
        return PurePath(self.policy).stem

    @property
    def ended(self) -> str:
        """How the search ended, in words."""
        message = self.report.message
        if not self.report.converged:
            return f"not converged ({message}): more steps may help, {Door.named('max_iter')}"
        return f"converged; {message}" if message else "converged"

    @property
    def begun(self) -> str:
        """Where the search began, in words."""
        start = self.report.start
        return STARTS.get(start.partition(" ")[0], f"from {start}")

    def __str__(self) -> str:
        actions = "features of the candidates"
        if self.actions is not None:
            actions = f"{self.actions:,} actions"
        numbers = "" if self.context is None else f", {self.context:,} columns of context each"
        lines = [
            f"A policy over {actions}, learned from {self.decisions:,} decisions{numbers}.",
            f"  {self.parameters['estimator']} was maximised: {self.report.value:.5g} on the "
            f"training data, less penalties. That is optimistic: the policy was chosen by it.",
            f"  {self.report.steps:,} steps, {self.begun}; {self.ended}.",
        ]
        told = () if self.result is None else self.result.warnings
        known = {finding.code for finding in told}
        lines += [
            str(one) for one in self.findings if one.severity != "note" and one.code not in known
        ]
        if self.result is None:
            lines.append("Nothing was held out: evaluate the policy on other decisions.")
            return "\n".join(lines)
        lines += [
            "",
            f"On {self.result.logged.n:,} decisions that it was not learned from:",
            self.result.told(),
        ]
        if self.constant is not None:
            lines.append(str(self.constant))
        if self.evaluated != self.decisions:
            lines.append(
                f"This is about the policy learned from {self.evaluated:,} decisions. The one "
                f"written was learned from all {self.decisions:,}."
            )
        return "\n".join(lines)


def learn(
    learner: SoftmaxLearner,
    log: Any,
    *,
    policy: str = "policy.json",
    holdout: float = 0.2,
    refit: bool = False,
    prediction: Any = None,
    level: float = 0.95,
    progress: Progress | None = None,
    **reading: Unpack[Reading],
) -> LearnedPolicy:
    """Fit the learner without a share of the decisions, and evaluate its policy on these.

    Parameters
    ----------
    log : anything that `evaluate` takes
    policy : str
        The file that the learner is to be saved to, `SoftmaxLearner.save`; its name without .json
        is the policy's.
    holdout : float
        The share of the decisions to be learned without, by `split`; 0: none.
    refit : bool
        Whether the learner is then fitted again, on all decisions.
    prediction, level, reading
        As in `evaluate`.
    """
    log = with_arms(as_log(log, reading, learn))
    rest: BanditLog | LogScan = log
    held: BanditLog | LogScan | None = None
    if holdout:
        rest, held = split(log, holdout, seed=learner.seed)
    course = _fit(learner, rest, prediction, progress)
    result = constant = comparison = None
    if held is not None:
        asked = {"prediction": True if prediction is None else prediction, "level": level}
        named = {PurePath(policy).stem: learner.policy_}
        result, constant, comparison = _held_out(held, named, _best_action(rest), asked)
    if refit:
        course = _fit(learner, log, prediction, progress)
    whole = (*learner.policy_.learned_from, identity(log))
    learned = learner.policy_ = replace(learner.policy_, learned_from=tuple(dict.fromkeys(whole)))
    return LearnedPolicy(
        policy,
        None if learned.actions is None else len(learned.actions),
        None if learned.encoder is None else learned.encoder.inputs,
        len(log if refit else rest),
        None if result is None else len(rest),
        learner.get_params() | {"estimator": str(learner.estimator)},
        learner.report_,
        course,
        result,
        constant,
        tuple(first_look(log)),
        comparison,
    )


@dataclass(frozen=True)
class _Always:
    """The policy that always takes one action; without names, the one at a position."""

    action: Hashable

    def probabilities(self, log: BanditLog) -> Floats:
        return np.asarray(with_names(log).codes_among([self.action]) == 0, dtype=np.float64)


def _held_out(
    held: BanditLog | LogScan, learned: dict[str, Any], best: Hashable, asked: dict[str, Any]
) -> tuple[Result, Constant | None, Comparison | None]:
    """What decisions held out say of the learned policy, and of always taking the best action."""
    always = {f"always {best}": _Always(best)}
    if best is None or always.keys() & learned:
        return evaluate(held, learned, **asked), None, None
    try:
        result, comparison = evaluate_and_compare(held, learned, always, **asked)
    except SupportError:  # the action was never taken in what was held out
        return evaluate(held, learned, **asked), None, None
    head, gap = comparison.headlines[1], comparison.differences[0]
    return result, Constant(str(best), head.value, head.interval, gap), comparison


def _best_action(rest: BanditLog | LogScan) -> Hashable:
    """The action whose rewards average most, weighted, in (a sample of) what was learned from;
    None if decisions have different candidates, or they are too many."""
    seen = rest
    if isinstance(rest, LogScan):
        seen = rest.read(sample_ranges(len(rest), _SEEN), ())
    assert isinstance(seen, BanditLog)
    seen = with_names(seen)
    actions = seen.actions
    arms = seen.has_equal_lengths and seen.offsets[1] == len(actions or ())
    if actions is None or not arms or seen.propensity is None or len(actions) > _MOST_ARMS:
        return None
    weight, chosen = seen.weights / seen.propensity, seen.chosen_codes()
    share, earned, squares = (
        np.bincount(chosen, mass, minlength=len(actions))
        for mass in (weight, weight * seen.reward, weight**2)
    )
    rows = np.divide(share**2, squares, out=np.zeros(len(actions)), where=squares > 0.0)
    mean = np.divide(earned, share, out=np.zeros(len(actions)), where=share > 0.0)
    overall = float(rows @ mean / rows.sum())
    return actions[int(np.argmax((rows * mean + _PRIOR * overall) / (rows + _PRIOR)))]


def _fit(
    learner: SoftmaxLearner, log: BanditLog | LogScan, prediction: Any, progress: Progress | None
) -> tuple[Search, ...]:
    """Learn a policy, and say how the learner's objective rose."""
    course: list[list[tuple[int, float]]] = [[]]

    def told(step: int, value: float) -> None:
        if course[-1] and step <= course[-1][-1][0]:  # another start, or all decisions by now
            course.append([])
        course[-1].append((step, value))
        if progress is not None:
            progress(step, value)

    learner.fit(log, prediction=prediction, progress=told)
    steps = [(max(1, -(-len(search) // MOST_STEPS)), search) for search in course if search]
    return tuple((*search[:-1:every], search[-1]) for every, search in steps)
