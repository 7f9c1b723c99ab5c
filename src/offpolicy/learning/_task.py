"""What a learner has to solve: a loss in the weights, and where to begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core.lbfgs import minimise
from offpolicy._core.types import Floats, Ints
from offpolicy._core.validation import check_finite
from offpolicy.errors import PredictionError
from offpolicy.estimators import Estimator
from offpolicy.evaluation import choose_estimators
from offpolicy.learning import _task_data as preparing
from offpolicy.learning._risk import DenseRisk, Risk
from offpolicy.learning._task_data import Scale, Views
from offpolicy.logs import BanditLog, context_columns
from offpolicy.policies import resolve_prediction
from offpolicy.policies.learned import Dense, LinearSoftmax, Scores


class Settings(Protocol):
    """What a task asks of a learner."""

    features: str
    centres: int
    gamma: float
    l2: float | None
    model_l2: float | None
    penalty: float
    baseline: float
    start: str
    folds: int
    seed: int


_SHARPER = 3.0
"""The search begins at the model's scores, so many times as sharp: a policy need not be as unsure
as a model of rewards is."""
_OF_THE_MODELS = 0.02
"""The policy's penalty for leaving the model, by the model's own penalty."""
_PLAIN_L2 = 5e-8
"""The policy's penalty where it does not begin at the model."""
_LARGE = 16_384
"""So many probabilities are worth a compiled loop."""


@dataclass(frozen=True, eq=False)
class Task:
    """The loss is −(objective − penalties), in units of the span of the rewards."""

    log: BanditLog
    views: Views
    scores: Scores
    risk: Risk
    scale: Scale
    l2: Floats
    """For each weight."""
    model_start: Floats | None
    """Where the search begins, and what the penalty draws to, if that is the model's."""
    model: preparing.Modelled | None = None
    """What was trained, if it was."""
    delta_hat: Floats | None = None
    """Of every candidate, in the log's units; None if no member has needed it."""
    given: tuple[Floats, Floats] | None = None
    """Contexts and rewards that are known."""

    @classmethod
    def of(
        cls,
        learner: Settings,
        member: Estimator,
        log: BanditLog,
        prediction: Any,
        known: tuple[ArrayLike, ArrayLike] | None,
        *,
        scale: Scale | None = None,
        fold: Ints | None = None,
    ) -> Task:
        """Checks the log, trains a reward model if one is needed, and sets up the objective.

        Of a part of a log, ``scale`` is that of all its rewards, and ``fold`` says which model is
        for which decision.
        """
        given = preparing.known_rewards(log, known)
        if scale is None:
            scale = preparing.scale_of(log, None if given is None else given[1])
        views = Views.of(
            log, None if given is None else given[0],
            kind=learner.features, centres=learner.centres, gamma=learner.gamma,
            rng=np.random.default_rng([learner.seed, 0]),
        )  # fmt: skip
        delta_hat = resolve_prediction(log, prediction)
        if delta_hat is not None:
            check_finite(delta_hat, "prediction", log.source, PredictionError, log.offsets)
        have = {"policy", "prediction"}
        have |= {"propensity"} if log.propensity is not None else set()
        have |= {"logging"} if log.logging is not None else set()
        choose_estimators([member], frozenset(have))
        start = model = None
        needs = "prediction" in member.needs and delta_hat is None
        if needs or learner.start == "model":
            model = preparing.fit_model(
                log, views, given, scale, l2=learner.model_l2, folds=learner.folds,
                rng=np.random.default_rng([learner.seed, 1]), fold=fold,
            )  # fmt: skip
            delta_hat = model.delta_hat if delta_hat is None else delta_hat
            start = _start(views, model) if learner.start == "model" else None
        risk = _risk(learner, member, log, views, scale, delta_hat, given)
        extra = None
        if given is not None:
            assert views.map is not None
            extra = views.map(given[0])
        scores = preparing.scores_of(log, views, extra)
        l2 = _penalties(views, log, _policy_l2(learner, model))
        return cls(log, views, scores, risk, scale, l2, start, model, delta_hat, given)

    def changed(self, learner: Settings, member: Estimator) -> Task:
        """The same data with another objective or other penalties; features and model stay."""
        risk = _risk(learner, member, self.log, self.views, self.scale, self.delta_hat, self.given)
        l2 = _policy_l2(learner, self.model)
        return replace(self, risk=risk, l2=_penalties(self.views, self.log, l2))

    def loss(self, w: Floats) -> tuple[float, Floats]:
        value, slope = self._gain(w)
        away = w if self.model_start is None else w - self.model_start
        gradient = self.l2 * away
        penalty = 0.5 * float(gradient @ away)
        gradient -= slope
        return penalty - value, gradient

    @cached_property
    def _gain(self) -> Callable[[Floats], tuple[float, Floats]]:
        """The objective and its gradient in the weights: fused, if it is large enough to pay."""
        scores, risk = self.scores, self.risk
        if (
            isinstance(scores, Dense)
            and isinstance(risk, DenseRisk)
            and scores.actions * len(scores.phi) >= _LARGE
            and risk.is_plain
        ):
            from offpolicy.learning._risk_kernels import Fused

            return Fused(scores, risk)
        return self._gain_in_steps

    def _gain_in_steps(self, w: Floats) -> tuple[float, Floats]:
        pi = self.scores.probabilities(w)
        value, per_pi = self.risk(pi)
        return value, self.scores.back(pi, per_pi)

    def random_start(self, rng: np.random.Generator) -> Floats:
        """Weights whose scores scatter by about ½, whatever the scale of the features."""
        views, parts = self.views, []
        if views.phi is not None:
            size = len(self.log.actions or ()) * views.phi.shape[1]
            parts.append(rng.standard_normal(size) / np.sqrt(preparing.mean_square(views.phi)))
        if views.features is not None:
            square = float((views.features.astype(np.float64) ** 2).sum(axis=1).mean())
            own = rng.standard_normal(views.features.shape[1])
            parts.append(own / np.sqrt(max(square, 1e-12)))
        return 0.5 * np.concatenate(parts)

    def like_the_logger(self) -> Floats:
        """Weights of a policy as close to the logger (or to what it chose) as can be."""
        log = self.log
        target = log.logging
        if target is None:
            target = np.zeros(int(log.offsets[-1]))
            target[log.chosen_index] = 1.0
        n = len(log)
        scores = self.scores
        if isinstance(scores, Dense):
            scores = Dense(scores.phi[:n], scores.actions)
            target = np.ascontiguousarray(target.reshape(n, -1).T)

        def loss(w: Floats) -> tuple[float, Floats]:
            pi = scores.probabilities(w)
            floor = np.maximum(pi, 1e-30)
            value = -float((target * np.log(floor)).sum(dtype=np.float64)) / n
            back = scores.back(pi, (target / (n * floor)).astype(pi.dtype))
            gradient = 1e-6 * w
            return value + 0.5 * float(gradient @ w), gradient - back

        return minimise(loss, np.zeros(scores.size), most_steps=100).w

    def policy(self, w: Floats) -> LinearSoftmax:
        """The policy with these weights."""
        views, actions = self.views, self.log.actions
        table, rest = None, w
        if views.phi is not None:
            size = len(actions or ()) * views.phi.shape[1]
            table, rest = w[:size].reshape(len(actions or ()), -1), w[size:]
        return LinearSoftmax(
            actions, views.map, table, views.candidate_map,
            rest.copy() if views.features is not None else None,
            None if views.map is None else context_columns(self.log),
        )  # fmt: skip

    @staticmethod
    def weights_of(policy: LinearSoftmax) -> Floats:
        """The inverse of `policy`."""
        parts = [policy.weights, policy.candidate_weights]
        return np.concatenate([part.reshape(-1) for part in parts if part is not None])


def _risk(
    learner: Settings,
    member: Estimator,
    log: BanditLog,
    views: Views,
    scale: Scale,
    delta_hat: Floats | None,
    given: tuple[Floats, Floats] | None,
) -> Risk:
    """The objective, rewards being taken less the baseline and in units of their span."""
    off, span = learner.baseline, scale.span
    wanted = "prediction" in member.needs
    assert delta_hat is not None or not wanted
    return preparing.risk_of(
        member,
        log.replace(reward=(log.reward - off) / span, trusted=True),
        views,
        (delta_hat - off) / span if wanted and delta_hat is not None else None,
        None if given is None else (given[1] - off) / span,
        penalty=learner.penalty,
    )


def _start(views: Views, model: preparing.Modelled) -> Floats:
    parts = []
    if views.phi is not None:
        assert model.per_action is not None
        parts.append(model.per_action.reshape(-1))
    if views.features is not None:
        own = model.shared
        parts.append(np.zeros(views.features.shape[1]) if own is None else own)
    return _SHARPER * np.concatenate(parts)


def _policy_l2(learner: Settings, model: preparing.Modelled | None) -> float:
    if learner.l2 is not None:
        return learner.l2
    if learner.start == "model" and model is not None:
        return _OF_THE_MODELS * model.l2
    return _PLAIN_L2


def _penalties(views: Views, log: BanditLog, l2: float) -> Floats:
    """On all weights but those of the feature that is 1."""
    parts = []
    if views.phi is not None:
        own = np.full(views.phi.shape[1], l2 * preparing.mean_square(views.phi))
        own[-1] = 0.0
        parts.append(np.tile(own, len(log.actions or ())))
    if views.features is not None:
        square = float((views.features.astype(np.float64) ** 2).sum(axis=1).mean())
        parts.append(np.full(views.features.shape[1], l2 * max(square, 1e-12)))
    return np.concatenate(parts)
