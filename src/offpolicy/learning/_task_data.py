"""A log made ready to be learned from: features, reward model, objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core import validation as check
from offpolicy._core.ragged import decision_of_candidate
from offpolicy._core.types import Floats, Ints, Singles
from offpolicy._core.validation import check_finite
from offpolicy.errors import LogError, ParameterError
from offpolicy.estimators import Estimator
from offpolicy.learning import _reward_model as rewards
from offpolicy.learning._reward_model import Evidence, Known
from offpolicy.learning._risk import DenseRisk, Observed, RaggedRisk, Risk
from offpolicy.logs import BanditLog
from offpolicy.policies.learned import Dense, FeatureMap, Ragged, Scores, numeric

_LARGEST_WEIGHT = 30.0
_MARGIN = 1e-3
_FAR_APART = (3e-2, 3e-4, 3e-6)
"""Penalties of the model that are tried first; the last is the usual one."""
_RANGE = (5e-8, 2e-1)
_TOLERANCE = 1e-5
"""How exactly models are fitted. Closer fits gave no better policies."""


class Scale(NamedTuple):
    """Rewards, scaled to 0 … 1."""

    low: float
    span: float

    def down(self, reward: Any) -> Any:
        return (reward - self.low) / self.span

    def up(self, scaled: Any) -> Any:
        return self.low + self.span * scaled


@dataclass(frozen=True, eq=False)
class Views:
    """What policy and reward model see of the candidates.

    Either ``phi`` (of the context, with weights for each action) or ``features`` (of the
    candidate, with weights for all), or both.
    """

    map: FeatureMap | None
    phi: Singles | None
    candidate_map: FeatureMap | None
    features: Singles | None

    @classmethod
    def of(cls, log: BanditLog, known: Floats | None, **kind: Any) -> Views:
        """Standardised over the log, and over the contexts with known rewards."""
        context, own = None, log.candidate_features
        if log.actions is not None and log.context is not None:
            context = numeric(log.context, "context")
        if context is None and own is None:
            raise LogError(
                "There is nothing to learn from: give the log context= (on the command line, "
                "--context) and the names of its actions, or candidate_features=."
            )
        mapped = phi = candidate_map = features = None
        if context is not None:
            everything = context if known is None else np.vstack([context, known])
            mapped = FeatureMap.fit(everything, **kind)
            phi = mapped(context)
        if own is not None:
            flat = numeric(own.reshape(int(log.offsets[-1]), -1), "candidate_features")
            candidate_map = FeatureMap.fit(flat, **kind)
            # A feature that is 1 for every candidate changes no choice.
            features = candidate_map(flat)[:, :-1]
        return cls(mapped, phi, candidate_map, features)

    @property
    def is_even(self) -> bool:
        """Whether all features move about as much as each other."""
        return all(one.is_even for one in (self.map, self.candidate_map) if one is not None)

    def on(self, log: BanditLog) -> Views:
        """The same maps of another log, or of another part of it."""
        phi = features = None
        if self.map is not None:
            phi = self.map(numeric(log.context, "context"))
        if self.candidate_map is not None:
            assert log.candidate_features is not None
            flat = log.candidate_features.reshape(int(log.offsets[-1]), -1)
            features = self.candidate_map(numeric(flat, "candidate_features"))[:, :-1]
        return Views(self.map, phi, self.candidate_map, features)

    def take(self, rows: Ints, candidates: Ints) -> Views:
        """Of some decisions alone."""
        return Views(
            self.map,
            None if self.phi is None else self.phi[rows],
            self.candidate_map,
            None if self.features is None else self.features[candidates],
        )


def scale_of(log: BanditLog, known: Floats | None) -> Scale:
    """From the least to the largest reward."""
    least, largest = float(log.reward.min()), float(log.reward.max())
    if known is not None:
        least, largest = min(least, float(known.min())), max(largest, float(known.max()))
    if least == largest:
        raise nothing_to_learn(least)
    return Scale(least, largest - least)


def nothing_to_learn(reward: float) -> LogError:
    """The error for a log with one reward alone."""
    return LogError(
        f"Every reward is {reward:g}: all policies are as good, and nothing can be learned."
    )


def known_rewards(
    log: BanditLog, given: tuple[ArrayLike, ArrayLike] | None
) -> tuple[Floats, Floats] | None:
    """Contexts and the rewards of all actions, checked: (m, d) and (m, K)."""
    if given is None:
        return None
    if log.actions is None or log.context is None:
        raise ParameterError("known rewards need a log with context and names of its actions.")
    X, R = numeric(given[0], "known contexts"), check.as_floats(given[1], "known rewards")
    shape = (len(X), len(log.actions))
    if R.shape != shape or not len(X):
        raise ParameterError(
            f"known rewards have shape {R.shape}; they must be {shape}: one for each action of "
            f"each context."
        )
    check_finite(R.reshape(-1), "known rewards", "", ParameterError)
    if X.shape[1] != log.context.reshape(len(log), -1).shape[1]:
        raise ParameterError(
            f"known contexts have {X.shape[1]} columns, and the log's {log.context.shape[1]}."
        )
    return X, R


def folds_of(log: BanditLog, folds: int, rng: np.random.Generator) -> Ints:
    """A fold for every decision; those of one group share it."""
    group = groups_of(log)
    return np.asarray(rng.permutation(int(group.max()) + 1) % folds)[group]


def groups_of(log: BanditLog) -> Ints:
    """Numbers of groups: decisions of one cluster, or else with the same context."""
    if log.cluster is not None:
        _, group = np.unique(log.cluster, return_inverse=True)
    elif log.context is not None:
        rows = np.ascontiguousarray(numeric(log.context, "context"))
        view = rows.view([("", rows.dtype)] * rows.shape[1]).reshape(-1)
        _, group = np.unique(view, return_inverse=True)
    else:
        group = np.arange(len(log))
    return np.asarray(group)


# -- the reward model ------------------------------------------------------------------------


class Modelled(NamedTuple):
    """δ̂ of every candidate, flat, in the log's units, and the weights of the model of all rows."""

    delta_hat: Floats
    per_action: Floats | None
    shared: Floats | None
    without: list[Floats]
    """The weights of the model without each fold."""
    base: float
    l2: float
    """The penalty it was fitted with."""

    def on(self, log: BanditLog, views: Views, scale: Scale, fold: Ints) -> Floats:
        """δ̂ of another log, or of another part of it, each by the model without its fold."""
        return _cross_fitted(log, views, self.without, self.base, scale, fold)


def fit_model(
    log: BanditLog,
    views: Views,
    known: tuple[Floats, Floats] | None,
    scale: Scale,
    *,
    l2: float | None,
    folds: int,
    rng: np.random.Generator,
    fold: Ints | None = None,
) -> Modelled:
    """Cross-fitted; on the context, with weights for each action, if there are names.

    Without ``l2``, the penalty is the one with which the models best explain the rewards of the
    folds that they have not seen.
    """
    reward = scale.down(log.reward)
    weight = log.weights / log.weights.mean()
    base = _base(log, reward, known, scale)
    fold = folds_of(log, folds, rng) if fold is None else fold
    if views.phi is not None:
        assert log.actions is not None
        phi, code, K = views.phi, log.chosen_codes(), len(log.actions)
        extra = None
        if known is not None:
            assert views.map is not None
            extra = Known(views.map(known[0]), scale.down(known[1]).T.astype(np.float32))
    else:
        phi = _with_one(views.features)[log.chosen_index]
        code, K, extra = np.zeros(len(log), np.int64), 1, None
    square = mean_square(phi)

    def part(rows: Any) -> Evidence:
        return Evidence.of(phi[rows], code[rows], reward[rows], weight[rows], K)

    def fitted(seen: Evidence, l2: float, start: Floats | None) -> Floats:
        known = rewards.as_at_random(seen, base) if extra is None and K > 1 else extra
        return rewards.fit(
            seen, known, l2=l2 * square, base=base, start=start, tolerance=_TOLERANCE,
            even=views.is_even,
        )  # fmt: skip

    inside = [fold == k for k in range(folds)]
    if any(mine.all() for mine in inside):
        l2 = _FAR_APART[-1] if l2 is None else l2
        whole = fitted(part(slice(None)), l2, None)
        without = [whole] * folds
    else:
        others = [part(~mine) for mine in inside]
        own = [part(mine) for mine in inside]
        near: list[Floats | None] = [None] * folds

        def crossed(l2: float) -> list[Floats]:
            near[:] = [fitted(seen, l2, w) for seen, w in zip(others, near, strict=True)]
            return [w for w in near if w is not None]

        def unseen(l2: float) -> float:
            found = crossed(l2)
            return sum(held.loss(w, base) for held, w in zip(own, found, strict=True))

        l2 = _least(unseen) if l2 is None else l2
        without = crossed(l2)
        whole = fitted(part(slice(None)), l2, np.mean(without, axis=0))
    found = _cross_fitted(log, views, without, base, scale, fold)
    if views.phi is not None:
        return Modelled(found, whole, None, without, base, l2)
    return Modelled(found, None, whole[0, :-1], without, base, l2)


def _least(error: Callable[[float], float]) -> float:
    """The best of a few penalties far apart, then down, or else up, from there in factors of √10
    while the error falls."""
    far = [(error(l2), l2) for l2 in _FAR_APART]
    least, first = min(far, key=lambda one: (np.isnan(one[0]), one[0]))
    best = first
    for factor in (10.0**-0.5, 10.0**0.5):
        l2 = best * factor
        while _RANGE[0] <= l2 <= _RANGE[1] and (found := error(l2)) < least:
            best, least = l2, found
            l2 *= factor
        if best != first:
            break
    return best


def _cross_fitted(
    log: BanditLog, views: Views, without: list[Floats], base: float, scale: Scale, fold: Ints
) -> Floats:
    decision = decision_of_candidate(log.offsets)
    flat = np.empty(int(log.offsets[-1]))
    every_phi = views.phi if views.phi is not None else _with_one(views.features)
    every_code = None if views.phi is None else log.candidate_codes()
    for k, W in enumerate(without):
        mine = fold == k
        if not mine.any():
            continue
        at = np.flatnonzero(mine[decision])
        if every_code is not None:
            rows = np.flatnonzero(mine)
            table = rewards.predicted(W, every_phi[rows], base)
            place = np.empty(len(log), dtype=np.int64)
            place[rows] = np.arange(len(rows))
            flat[at] = table[every_code[at], place[decision[at]]]
        else:
            flat[at] = rewards.predicted(W, every_phi[at], base)[0]
    return np.asarray(scale.up(flat), dtype=np.float64)


def _with_one(features: Singles | None) -> Singles:
    assert features is not None
    return np.hstack([features, np.ones((len(features), 1), dtype=np.float32)])


def _base(
    log: BanditLog, reward: Floats, known: tuple[Floats, Floats] | None, scale: Scale
) -> float:
    """The logit of what a random action earns: self-normalised, weights clipped."""
    propensity = np.ones(len(log)) if log.propensity is None else log.propensity
    weight = np.minimum(1.0 / (np.diff(log.offsets) * propensity), _LARGEST_WEIGHT)
    mean = float((weight * reward).sum() / weight.sum())
    if known is not None:
        mean = float(scale.down(known[1]).mean())
    mean = min(max(mean, _MARGIN), 1.0 - _MARGIN)
    return float(np.log(mean / (1.0 - mean)))


def mean_square(phi: Singles) -> float:
    """Of all features but the last, summed over features: the scale of the penalties."""
    return max(float((phi[:, :-1].astype(np.float64) ** 2).sum(axis=1).mean()), 1e-12)


# -- the objective -----------------------------------------------------------------------------


def is_dense(log: BanditLog, views: Views) -> bool:
    """Whether every decision has all actions, and weights are for each action only."""
    return views.features is None and log.candidate is None and log.has_equal_lengths


def scores_of(log: BanditLog, views: Views, known: Singles | None) -> Scores:
    """The policy's scores on the log, and on contexts with known rewards."""
    if is_dense(log, views):
        assert views.phi is not None
        assert log.actions is not None
        phi = views.phi if known is None else np.vstack([views.phi, known])
        return Dense(phi, len(log.actions))
    return Ragged(
        log.offsets,
        phi=views.phi,
        code=None if views.phi is None else log.candidate_codes(),
        actions=0 if views.phi is None else len(log.actions or ()),
        features=views.features,
    )


def risk_of(
    member: Estimator,
    log: BanditLog,
    views: Views,
    delta_hat: Floats | None,
    known: Floats | None,
    *,
    penalty: float,
) -> Risk:
    """The objective, in whatever units rewards and predictions are; ``known`` is (m, K)."""
    observed = Observed.of(log, delta_hat)
    if not is_dense(log, views):
        return RaggedRisk(member, observed, log, delta_hat, penalty)
    n, K = len(log), len(log.actions or ())
    table: Singles | None = None
    if delta_hat is not None or known is not None:
        table = np.zeros((K, n + (0 if known is None else len(known))), dtype=np.float32)
        if delta_hat is not None:
            table[:, :n] = delta_hat.reshape(n, K).T
        if known is not None:
            table[:, n:] = known.T
    logging = None
    if log.logging is not None:
        logging = np.ascontiguousarray(log.logging.reshape(n, K).T, dtype=np.float32)
    return DenseRisk(member, observed, log.chosen, table, logging, penalty)
