"""Choosing a learner's parameters by what logs that it has not seen say of its policies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core.parallel import one_thread_each
from offpolicy._core.parameters import Parameters, need_fitted
from offpolicy._core.ragged import decision_of_candidate
from offpolicy._core.types import Floats
from offpolicy._core.validation import need
from offpolicy.errors import ParameterError
from offpolicy.evaluation import evaluate
from offpolicy.evidence import whole_block
from offpolicy.learning import _task_data as preparing
from offpolicy.learning._softmax_learner import Learned, SoftmaxLearner
from offpolicy.learning._task import Task
from offpolicy.logs import BanditLog, need_log, with_names
from offpolicy.models import resolve_prediction
from offpolicy.policies import resolve

_PREPARING = ("features", "centres", "gamma", "model_l2", "folds", "seed", "start")
"""Parameters that features, reward model and start depend on; what differs in others only shares
them."""


@final
@dataclass(frozen=True, slots=True)
class Trial:
    """One combination of parameters, and what the validation log says of its policy."""

    params: dict[str, Any]
    score: float
    steps: int


def ips(log: BanditLog, policy: Any) -> float:
    """A learned policy's score by the paper's rule for λ: inverse propensity scoring."""
    c, share = _weights(log, policy)
    return float(share @ (c * log.reward))


def cips90(log: BanditLog, policy: Any) -> float:
    """A learned policy's score by the paper's rule for M and τ: clipped at the 90% quantile."""
    c, share = _weights(log, policy)
    return float(share @ (np.minimum(c, np.quantile(c, 0.9)) * log.reward))


def snips(log: BanditLog, policy: Any) -> float:
    """A learned policy's score, self-normalised, as BanditNet's search for a baseline needs it."""
    c, share = _weights(log, policy)
    total = float(share @ c)
    return float(share @ (c * log.reward)) / total if total > 0.0 else float(log.reward.min())


def headline(log: BanditLog, policy: Any) -> float:
    """A learned policy's score by what `evaluate` puts first: CAB-DR, its model recalibrated."""
    return evaluate(log, policy, estimators=["SNIPS"]).headline.value


RULES: dict[str, Callable[[BanditLog, Any], float]] = {
    "headline": headline,
    "cips90": cips90,
    "ips": ips,
    "snips": snips,
}


def _weights(log: BanditLog, policy: Any) -> tuple[Floats, Floats]:
    if log.propensity is None:
        raise ParameterError("Choosing by weights needs a log with propensities.", column="rule")
    omega = log.weights
    return whole_block(log, resolve(log, policy), None).c, omega / omega.sum()


@final
@dataclass(eq=False)
class LearnerCV(Learned, Parameters):
    """Fits a learner for every combination of a grid, and keeps the best on held-out decisions.

    Combinations that differ only in the objective, its penalties and the baseline share features,
    reward model and start.

    Parameters
    ----------
    learner : SoftmaxLearner
        Whose parameters hold where the grid is silent.
    grid : mapping of parameter to values
    rule : "headline", "cips90", "ips" or "snips"
        What is compared on the validation log. "cips90" and "ips" are the paper's.
    holdout : float
        The share of the log that validates, if there is no validation log; decisions of one
        cluster, or with the same context, stay together.
    refit : bool
        Whether the best is fitted anew on the whole log, if there is no validation log.

    Examples
    --------
    >>> search = LearnerCV(grid={"estimator": ["IPS", "CAB-DR(M=10)"], "l2": [1e-6, 1e-4]})
    """

    learner: SoftmaxLearner | None = None
    grid: Mapping[str, Sequence[Any]] | None = None
    _: KW_ONLY
    rule: str = "headline"
    holdout: float = 0.3
    refit: bool = True

    def fit(
        self,
        log: BanditLog,
        *,
        validation: BanditLog | None = None,
        prediction: Any = None,
        known: tuple[ArrayLike, ArrayLike] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Search; ``progress`` is told how many combinations of how many are done."""
        need_log(log)
        if log.candidate_features is None:
            log = with_names(log)
        learner = SoftmaxLearner() if self.learner is None else self.learner
        combinations = checked_combinations(learner, self.grid, self.rule, RULES)
        need(0.0 < self.holdout < 1.0, "holdout", self.holdout, "between 0 and 1")
        train, delta_hat = log, resolve_prediction(log, prediction)
        if validation is None:
            held = self._held_out(log, learner.seed)
            train, validation = log.take(np.flatnonzero(~held)), log.take(np.flatnonzero(held))
            if delta_hat is not None:
                delta_hat = delta_hat[~held[decision_of_candidate(log.offsets)]]
        tasks: dict[tuple[Any, ...], Task] = {}
        tried: list[tuple[Trial, SoftmaxLearner]] = []
        for done, params in enumerate(combinations, 1):
            candidate = learner.copy(**params)
            with one_thread_each():
                candidate.fit_task(shared_task(tasks, candidate, train, delta_hat, known))
            score = RULES[self.rule](validation, candidate)
            tried.append((Trial(params, score, candidate.report_.steps), candidate))
            if progress is not None:
                progress(done, len(combinations))
        self.trials_ = [trial for trial, _ in tried]
        best, self.best_ = max(tried, key=lambda pair: pair[0].score)
        self.params_ = best.params
        if self.refit and train is not log:
            self.best_ = self.best_.copy().fit(log, prediction=prediction, known=known)
        self.policy_ = self.best_.policy_
        return self

    def score(self, log: BanditLog) -> float:
        """What ``rule`` says of the best policy on a log, best one that was not learned from."""
        need_log(log)
        need_fitted(self, "policy_")
        need(self.rule in RULES, "rule", f'"{self.rule}"', f"one of {', '.join(RULES)}")
        return RULES[self.rule](log, self)

    def _held_out(self, log: BanditLog, seed: int) -> NDArray[np.bool_]:
        group = preparing.groups_of(log)
        groups = int(group.max()) + 1
        order = np.random.default_rng([seed, 3]).permutation(groups)
        held = np.asarray(order < max(1, round(self.holdout * groups)))[group]
        if held.all():
            raise ParameterError(
                "The log cannot be split: its decisions are too few, or all of one cluster. Give "
                "validation=.",
                column="validation",
            )
        return held


def checked_combinations(
    learner: Parameters,
    grid: Mapping[str, Sequence[Any]] | None,
    rule: str,
    rules: Collection[str],
) -> list[dict[str, Any]]:
    """A learner's parameters, in all combinations of a grid, if the search makes sense."""
    need(rule in rules, "rule", f'"{rule}"', f"one of {', '.join(rules)}")
    values = dict(grid or {})
    if any(isinstance(some, str) or not len(some) for some in values.values()):
        raise ParameterError(
            "grid must give a list of values, at least one, of each parameter.", column="grid"
        )
    learner.copy(**{name: some[0] for name, some in values.items()})
    return [dict(zip(values, some, strict=True)) for some in itertools.product(*values.values())]


def shared_task(
    tasks: dict[tuple[Any, ...], Task],
    learner: SoftmaxLearner,
    log: BanditLog,
    prediction: Any,
    known: tuple[ArrayLike, ArrayLike] | None,
) -> Task:
    """A learner's task, made from one that shares features and model if there is one."""
    member = learner.check()
    key = (*(getattr(learner, name) for name in _PREPARING), "prediction" in member.needs)
    if key in tasks:
        return tasks[key].changed(learner, member)
    tasks[key] = Task.of(learner, member, log, prediction, known)
    return tasks[key]
