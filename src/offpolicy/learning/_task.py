"""What a learner has to solve: a loss in the weights, and where to begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core.lbfgs import minimise
from offpolicy._core.types import Floats, Ints
from offpolicy.estimators import Estimator, choose_estimators
from offpolicy.learning import _task_data as preparing
from offpolicy.learning._risk import DenseRisk, Observed, RaggedRisk, Risk
from offpolicy.learning._task_data import Scale, Views
from offpolicy.logs import BanditLog
from offpolicy.models import resolve_prediction
from offpolicy.policies.learned import Dense, LinearSoftmax, Ragged, Scores

if TYPE_CHECKING:
    from offpolicy.learning._risk_kernels import Fused
    from offpolicy.learning._softmax_learner import SoftmaxLearner

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
    scale: Scale
    member: Estimator
    baseline: float
    penalty: float
    l2: Floats
    """For each weight."""
    model_start: Floats | None
    """Where the search begins, and what the penalty draws to, if that is the model's."""
    model: preparing.Modelled | None
    """What was trained, if it was."""
    delta_hat: Floats | None
    """Of every candidate, in the log's units; None if no member has needed it."""
    known: Floats | None
    """The rewards of all actions where they are known: (m, K)."""

    @classmethod
    def of(
        cls,
        learner: SoftmaxLearner,
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
        contexts, rewards = preparing.known_rewards(log, known)
        if scale is None:
            every = np.append(log.reward, () if rewards is None else rewards)
            scale = Scale.of(float(every.min()), float(every.max()))
        views = Views.of(
            log, contexts, kind=learner.features, centres=learner.centres, gamma=learner.gamma,
            rng=np.random.default_rng([learner.seed, 0]),
        )  # fmt: skip
        delta_hat = resolve_prediction(log, prediction, checked=True)
        logged = {name for name in ("propensity", "logging") if getattr(log, name) is not None}
        choose_estimators([member], frozenset({"policy", "prediction", *logged}))
        model = start = None
        if learner.start == "model" or ("prediction" in member.needs and delta_hat is None):
            model = preparing.fit_model(
                log, views, rewards, scale, l2=learner.model_l2, folds=learner.folds,
                rng=np.random.default_rng([learner.seed, 1]), fold=fold,
            )  # fmt: skip
            delta_hat = model.delta_hat if delta_hat is None else delta_hat
            if learner.start == "model":
                start = np.zeros(len(views.squares))
                start[: model.weights.size] = _SHARPER * model.weights.reshape(-1)
        task = cls(
            log, views, scale, member, 0.0, 0.0, views.squares, start, model, delta_hat, rewards
        )
        return task.changed(learner, member)

    def changed(self, learner: SoftmaxLearner, member: Estimator) -> Task:
        """The same data with another objective or other penalties; features and model stay."""
        l2 = _PLAIN_L2 if learner.l2 is None else learner.l2
        if learner.l2 is None and self.model_start is not None and self.model is not None:
            l2 = _OF_THE_MODELS * self.model.l2
        penalties = l2 * self.views.squares
        if self.views.map is not None:
            # Not on the weights of the feature that is 1.
            penalties[self.views.map.width - 1 : self.views.table_size : self.views.map.width] = 0.0
        return replace(
            self, member=member, baseline=learner.baseline, penalty=learner.penalty, l2=penalties
        )

    def batch(self, rows: Ints, total: int) -> Task:
        """The objective on some of the decisions. Its penalty is that of all ``total``: so many
        standard errors of the whole log are fewer of a batch."""
        candidates = self.log.candidates_of(rows)
        return replace(
            self,
            log=self.log.take(rows),
            views=self.views.take(rows, candidates),
            delta_hat=None if self.delta_hat is None else self.delta_hat[candidates],
            penalty=self.penalty * float(np.sqrt(len(rows) / total)),
        )

    def loss(self, w: Floats) -> tuple[float, Floats]:
        return self.loss_from(w, *self._gain(w))

    def loss_from(self, w: Floats, value: float, slope: Floats) -> tuple[float, Floats]:
        """The loss, if the objective and its gradient are known."""
        away = w if self.model_start is None else w - self.model_start
        gradient = self.l2 * away
        penalty = 0.5 * float(gradient @ away)
        gradient -= slope
        return penalty - value, gradient

    @cached_property
    def _gain(self) -> Callable[[Floats], tuple[float, Floats]]:
        """The objective and its gradient in the weights: fused, if it is large enough to pay."""
        scores = self.scores
        large = isinstance(scores, Dense) and scores.actions * len(scores.phi) >= _LARGE
        return (self.fused() if large else None) or self._gain_in_steps

    def fused(self) -> Fused | None:
        """The objective in one compiled walk; None where that cannot be."""
        scores, risk = self.scores, self.risk
        if not (isinstance(scores, Dense) and isinstance(risk, DenseRisk) and risk.is_plain):
            return None
        from offpolicy.learning._risk_kernels import Fused

        return Fused(scores, risk)

    def _gain_in_steps(self, w: Floats) -> tuple[float, Floats]:
        pi = self.scores.probabilities(w)
        value, per_pi = self.risk(pi)
        return value, self.scores.back(pi, per_pi)

    @property
    def _is_dense(self) -> bool:
        """Whether every decision has all actions, and weights are for each action only."""
        log = self.log
        return self.views.features is None and log.candidate is None and log.has_equal_lengths

    @cached_property
    def scores(self) -> Scores:
        """The policy's on the log, and on contexts with known rewards."""
        log, views = self.log, self.views
        if self._is_dense and views.phi is not None:
            phi = views.phi if views.known is None else np.vstack([views.phi, views.known])
            return Dense(phi, views.actions)
        code = None if views.phi is None else log.candidate_codes()
        return Ragged(
            log.offsets, phi=views.phi, code=code, actions=views.actions, features=views.features
        )

    @cached_property
    def risk(self) -> Risk:
        """The objective, rewards being taken less the baseline and in units of their span."""
        log = self.log
        delta_hat = self._scaled(self.delta_hat) if "prediction" in self.member.needs else None
        observed = Observed.of(log, delta_hat)._replace(reward=self._scaled(log.reward))
        if not self._is_dense:
            return RaggedRisk(self.member, observed, log, delta_hat, self.penalty)
        shape = len(log), self.views.actions
        table = logging = None
        if delta_hat is not None or self.known is not None:
            parts = [np.zeros(shape) if delta_hat is None else delta_hat.reshape(shape)]
            parts += [] if self.known is None else [self._scaled(self.known)]
            table = np.ascontiguousarray(np.vstack(parts).T, dtype=np.float32)
        if log.logging is not None:
            logging = np.ascontiguousarray(log.logging.reshape(shape).T, dtype=np.float32)
        return DenseRisk(self.member, observed, log.chosen, table, logging, self.penalty)

    def _scaled(self, values: Any) -> Any:
        return (values - self.baseline) / self.scale.span

    def random_start(self, rng: np.random.Generator) -> Floats:
        """Weights whose scores scatter by about ½, whatever the scale of the features."""
        squares = self.views.squares
        return np.asarray(0.5 * (rng.standard_normal(len(squares)) / np.sqrt(squares)))

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
        views, size = self.views, self.views.table_size
        has_context = views.map is not None
        return LinearSoftmax(
            self.log.actions, views.map,
            w[:size].reshape(views.actions, -1) if has_context else None,
            views.candidate_map, None if views.candidate_map is None else w[size:].copy(),
            views.encoder if has_context else None,
        )  # fmt: skip

    @staticmethod
    def weights_of(policy: LinearSoftmax) -> Floats:
        """The inverse of `policy`."""
        parts = [policy.weights, policy.candidate_weights]
        return np.concatenate([part.reshape(-1) for part in parts if part is not None])
