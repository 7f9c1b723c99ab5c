"""A log made ready to be learned from: features, and a reward model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core import validation as check
from offpolicy._core.contexts import (
    ContextEncoder,
    all_finite_numbers,
    as_context,
    cell_bits,
)
from offpolicy._core.door import Door
from offpolicy._core.parallel import each_block
from offpolicy._core.ragged import decision_of_candidate
from offpolicy._core.types import Floats, Ints, Singles
from offpolicy.errors import LogError, ParameterError
from offpolicy.learning import _reward_model as rewards
from offpolicy.learning._reward_model import Evidence, Known
from offpolicy.logs import BanditLog
from offpolicy.policies.learned import FeatureMap, numeric

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

    @classmethod
    def of(cls, low: float, high: float) -> Scale:
        """From the least to the largest reward."""
        if low == high:
            raise LogError(
                f"Every reward is {low:g}: all policies are as good, and nothing can be learned.",
                column="reward",
            )
        return cls(low, high - low)

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
    candidate_map: FeatureMap | None
    actions: int
    encoder: ContextEncoder | None = None
    """Makes contexts numbers."""
    phi: Singles | None = None
    features: Singles | None = None
    known: Singles | None = None
    """As ``phi``, of contexts with known rewards."""

    @classmethod
    def of(cls, log: BanditLog, known: NDArray[Any] | None, **kind: Any) -> Views:
        """Standardised over the log, and over the contexts with known rewards."""
        context_map = candidate_map = encoder = None
        if log.actions is not None and log.context is not None:
            encoder = ContextEncoder.fit(log.context, log.context_names)
            seen = [encoder(part) for part in (log.context, known) if part is not None]
            context_map = FeatureMap.fit(np.vstack(seen, dtype=np.float64), **kind)
        if log.candidate_features is not None:
            candidate_map = FeatureMap.fit(flat_features(log), **kind)
        if context_map is None and candidate_map is None:
            raise LogError(
                f"There is nothing to learn from: name the columns of the context with "
                f"{Door.spelled('context')}, and the candidates of every decision"
                f"{Door.in_python(', or give the log candidate_features')}.",
                column="context",
            )
        views = cls(context_map, candidate_map, len(log.actions or ()), encoder).on(log)
        if known is None or context_map is None or encoder is None:
            return views
        return replace(views, known=context_map(encoder(known)))

    @property
    def is_even(self) -> bool:
        """Whether all features move about as much as each other."""
        return all(seen.is_even for seen in (self.map, self.candidate_map) if seen is not None)

    @property
    def table_size(self) -> int:
        """How many weights are for each action and ``phi``: the first ones."""
        return 0 if self.map is None else self.actions * self.map.width

    @cached_property
    def squares(self) -> Floats:
        """For each weight, the mean square of what it is for: the scale of its penalty."""
        parts = []
        if self.phi is not None:
            parts.append(np.full(self.table_size, mean_square(self.phi[:, :-1])))
        if self.features is not None:
            parts.append(np.full(self.features.shape[1], mean_square(self.features)))
        return np.concatenate(parts)

    def on(self, log: BanditLog) -> Views:
        """The same maps of another log, or of another part of it."""
        phi = features = None
        if self.map is not None:
            assert self.encoder is not None
            assert log.context is not None
            phi = self.map(self.encoder(log.context))
        if self.candidate_map is not None:
            # A feature that is 1 for every candidate changes no choice.
            features = self.candidate_map(flat_features(log))[:, :-1]
        return replace(self, phi=phi, features=features)

    def take(self, rows: Ints, candidates: Ints) -> Views:
        """Of some decisions alone."""
        phi = None if self.phi is None else self.phi[rows]
        features = None if self.features is None else self.features[candidates]
        return replace(self, phi=phi, features=features)


def flat_features(log: BanditLog) -> Floats:
    """Features of the candidates that a policy learns from, one row each."""
    assert log.candidate_features is not None
    return numeric(log.candidate_features.reshape(int(log.offsets[-1]), -1), "candidate_features")


def known_rewards(
    log: BanditLog, known: tuple[ArrayLike, ArrayLike] | None
) -> tuple[NDArray[Any], Floats] | tuple[None, None]:
    """Contexts and the rewards of all actions that a learner knows, checked: (m, d) and (m, K)."""
    if known is None:
        return None, None
    if log.actions is None or log.context is None:
        raise ParameterError(
            "known rewards need a log with context and names of its actions.", column="known"
        )
    X, R = as_context(known[0]), check.as_floats(known[1], "known rewards")
    shape = (len(X), len(log.actions))
    rule = f"{shape}: one reward for each action of each context"
    check.need_shape(R.shape == shape and len(X) > 0, "known", R, rule, ParameterError)
    check.check_finite(R.reshape(-1), "known rewards", "", ParameterError)
    width = log.context.reshape(len(log), -1).shape[1]
    rule = f"contexts of {width} columns, as the log's are"
    check.need_shape(X.shape[1] == width, "known", X, rule, ParameterError)
    return X, R


def folds_of(log: BanditLog, folds: int, rng: np.random.Generator) -> Ints:
    """For a learner's own reward model, every decision's fold; those of one group share it."""
    group = groups_of(log)
    return np.asarray(rng.permutation(int(group.max()) + 1) % folds)[group]


def groups_of(log: BanditLog) -> Ints:
    """Which decisions a learner keeps in one fold: those of one cluster, or of the same context."""
    if log.cluster is not None:
        _, group = np.unique(log.cluster, return_inverse=True)
    elif log.context is not None:
        _, group = np.unique(_rows(log.context), axis=0, return_inverse=True)
    else:
        group = np.arange(len(log))
    return group.reshape(-1)


def _rows(context: NDArray[Any]) -> NDArray[Any]:
    """Contexts that can be compared: as numbers, or as hashes of what they are."""
    if all_finite_numbers(context):
        return context.astype(np.float64)
    return np.stack([cell_bits(column) for column in context.T], axis=1)


# -- the reward model ------------------------------------------------------------------------


class Modelled(NamedTuple):
    """δ̂ of every candidate, flat, in the log's units, and the weights of the model of all rows."""

    delta_hat: Floats
    weights: Floats
    """Of phi for each action, (K, d), or of the features of a candidate, (1, d)."""
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
    known: Floats | None,
    scale: Scale,
    *,
    l2: float | None,
    folds: int,
    rng: np.random.Generator,
    fold: Ints | None = None,
) -> Modelled:
    """The learner's own reward model, cross-fitted; by context and action, if there are names.

    Without ``l2``, the penalty is the one with which the models best explain the rewards of the
    folds that they have not seen.
    """
    reward = scale.down(log.reward)
    weight = log.weights / log.weights.mean()
    extra = None
    if views.known is not None:
        extra = Known(views.known, scale.down(known).T.astype(np.float32))
    base = _random_logit(log, reward, None if known is None else scale.down(known))
    fold = folds_of(log, folds, rng) if fold is None else fold
    if views.phi is not None:
        phi, code, K = views.phi, log.chosen_codes(), views.actions
    else:
        phi, code, K = _with_one(views.features, log.chosen_index), np.zeros(len(log), np.int64), 1
    square = mean_square(phi[:, :-1])

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
        seen, unseen = [part(~mine) for mine in inside], [part(mine) for mine in inside]
        near: list[Any] = [None] * folds

        def crossed(l2: float) -> list[Floats]:
            pairs = zip(seen, near, strict=True)
            fits = [functools.partial(fitted, rows, l2, w) for rows, w in pairs]
            near[:] = each_block(lambda end: end, fits)
            return list(near)

        def error(l2: float) -> float:
            return sum(rows.loss(w, base) for rows, w in zip(unseen, crossed(l2), strict=True))

        l2 = _best_penalty(error) if l2 is None else l2
        without = crossed(l2)
        whole = fitted(part(slice(None)), l2, np.mean(without, axis=0))
    delta_hat = _cross_fitted(log, views, without, base, scale, fold)
    return Modelled(delta_hat, whole if views.phi is not None else whole[:, :-1], without, base, l2)


def _best_penalty(error: Callable[[float], float]) -> float:
    """The penalty of the learner's own reward model: the best of a few far apart, then down, or
    else up, from there in factors of √10 while the error falls."""
    far = [(error(l2), l2) for l2 in _FAR_APART]
    least, first = min(far, key=lambda tried: (np.isnan(tried[0]), tried[0]))
    best = first
    for factor in (10.0**-0.5, 10.0**0.5):
        l2 = best * factor
        while _RANGE[0] <= l2 <= _RANGE[1] and (loss := error(l2)) < least:
            best, least = l2, loss
            l2 *= factor
        if best != first:
            break
    return best


def _cross_fitted(
    log: BanditLog, views: Views, without: list[Floats], base: float, scale: Scale, fold: Ints
) -> Floats:
    decision = decision_of_candidate(log.offsets)
    flat = np.empty(int(log.offsets[-1]))
    codes = None if views.phi is None else log.candidate_codes()
    for k, W in enumerate(without):
        mine = fold == k
        candidates = np.flatnonzero(mine[decision])
        if views.phi is not None and codes is not None:
            table = rewards.predicted(W, views.phi[mine], base)
            column = np.cumsum(mine) - 1
            flat[candidates] = table[codes[candidates], column[decision[candidates]]]
        else:
            flat[candidates] = rewards.predicted(W, _with_one(views.features, candidates), base)[0]
    return np.asarray(scale.up(flat), dtype=np.float64)


def _with_one(features: Singles | None, rows: Ints) -> Singles:
    assert features is not None
    return np.hstack([features[rows], np.ones((len(rows), 1), dtype=np.float32)])


def _random_logit(log: BanditLog, reward: Floats, known: Floats | None) -> float:
    """Base of a learner's reward model: logit of what a random action earns, weights clipped."""
    propensity = np.ones(len(log)) if log.propensity is None else log.propensity
    weight = np.minimum(1.0 / (np.diff(log.offsets) * propensity), _LARGEST_WEIGHT)
    mean = float((weight * reward).sum() / weight.sum() if known is None else known.mean())
    mean = min(max(mean, _MARGIN), 1.0 - _MARGIN)
    return float(np.log(mean / (1.0 - mean)))


def mean_square(features: Singles) -> float:
    """Of the features a policy learns from, the mean square of a row, summed over them."""
    return max(float((features.astype(np.float64) ** 2).sum(axis=1).mean()), 1e-12)
