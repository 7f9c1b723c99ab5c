r"""The learner's own reward model: for each action a sigmoid of a linear score, on its features.

.. math:: \hat\delta(x, y) = low + (high - low)\,\sigma(b + w_y \cdot \phi(x))

Fitted by (quasi-)likelihood on what was logged, and on contexts for which the rewards of all
actions are known, if there are any. b is where an action of which nothing is known stays: what a
random action earns.

A log shows an action mostly where the logger had reason to choose it. If that is all there is,
every logged context counts as one decision more, a K-th of it for each action, that earned what a
random one does: otherwise an action would seem as good everywhere as where it was chosen.

The scores w are where the policy's start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from offpolicy._core.lbfgs import minimise
from offpolicy._core.types import Floats, Ints, Singles


@dataclass(frozen=True, eq=False)
class Known:
    """Contexts for which the rewards of all actions are known, or taken to be."""

    phi: Singles
    """(m, d)."""
    reward: Singles
    """(K, m), scaled to 0 … 1; or one number for all."""
    weight: float = 1.0
    """Of each of them."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was logged, ordered by action."""

    phi: Singles
    reward: Singles
    weight: Singles
    bounds: Ints
    """Action k has the rows ``bounds[k] : bounds[k + 1]``."""

    @classmethod
    def of(
        cls, phi: Singles, action: Ints, reward: Floats, weight: Floats, actions: int
    ) -> Evidence:
        order = np.argsort(action, kind="stable")
        bounds = np.searchsorted(action[order], np.arange(actions + 1))
        return cls(
            np.ascontiguousarray(phi[order]),
            reward[order].astype(np.float32),
            weight[order].astype(np.float32),
            bounds,
        )

    def scores(self, W: Singles, base: float) -> Singles:
        """b + w_y·φ(x) of what was chosen."""
        out = np.zeros(len(self.reward), dtype=np.float32)
        for k in range(len(W)):
            rows = slice(self.bounds[k], self.bounds[k + 1])
            np.dot(self.phi[rows], W[k], out=out[rows])
        out += np.float32(base)
        return out

    def loss(self, W: Floats, base: float) -> float:
        """How badly the model with these weights explains the rewards, summed."""
        value, _ = _likelihood(self.scores(W.astype(np.float32), base), self.reward)
        return float((value * self.weight).sum(dtype=np.float64))


def fit(
    evidence: Evidence,
    known: Known | None,
    *,
    l2: float,
    base: float = 0.0,
    start: Floats | None = None,
    most_steps: int = 200,
    tolerance: float = 1e-8,
    even: bool = True,
) -> Floats:
    """The learner's own reward model, weights (K, d); ``l2`` is per row, on all but the last, a 1.

    Unless the features are ``even``, the search allows for how much each of them moves.
    """
    K, d = len(evidence.bounds) - 1, evidence.phi.shape[1]
    total = float(evidence.weight.sum()) + (0.0 if known is None else known.weight * len(known.phi))

    def loss(w: Floats) -> tuple[float, Floats]:
        W = w.reshape(K, d)
        single = W.astype(np.float32)
        value, off = _likelihood(evidence.scores(single, base), evidence.reward)
        off *= evidence.weight
        sum_ = float((value * evidence.weight).sum(dtype=np.float64))
        gradient = np.empty((K, d))
        for k in range(K):
            rows = slice(evidence.bounds[k], evidence.bounds[k + 1])
            gradient[k] = off[rows] @ evidence.phi[rows]
        if known is not None:
            value, off = _likelihood(single @ known.phi.T + np.float32(base), known.reward)
            sum_ += known.weight * float(value.sum(dtype=np.float64))
            gradient += known.weight * (off @ known.phi)
        gradient /= total
        gradient[:, :-1] += l2 * W[:, :-1]
        return sum_ / total + 0.5 * l2 * float((W[:, :-1] ** 2).sum()), gradient.reshape(-1)

    first = np.zeros(K * d) if start is None else start.reshape(-1)
    units = None
    if not even:
        mean = _random_reward(base)
        units = np.tile(_even_units(evidence.phi, mean * (1.0 - mean) / K, l2), K)
    end = minimise(loss, first, most_steps=most_steps, tolerance=tolerance, units=units)
    return end.w.reshape(K, d)


def _even_units(phi: Singles, curvature: float, l2: float | Floats) -> Floats:
    """Units of the learner's weights in which its loss is about as curved along every feature, if
    it is ``curvature`` along one of mean square 1, and has the penalty ``l2``."""
    square = np.einsum("nd,nd->d", phi, phi, dtype=np.float64) / len(phi)
    return np.asarray(1.0 / np.sqrt(curvature * square + l2))


def as_at_random(evidence: Evidence, base: float) -> Known:
    """What a learner takes for known where nothing is: each context once, actions a K-th each."""
    K = len(evidence.bounds) - 1
    return Known(evidence.phi, np.full((1, 1), _random_reward(base), dtype=np.float32), 1.0 / K)


def _random_reward(base: float) -> float:
    """What a random action earns, in the learner's own reward model."""
    return float(1.0 / (1.0 + np.exp(-base)))


def _likelihood(score: Singles, reward: Singles) -> tuple[Singles, Singles]:
    """Loss of the learner's own reward model, log(1 + eˢ) − r·s, and its slope σ(s) − r."""
    size = np.exp(-np.abs(score))
    value = np.maximum(score, np.float32(0.0)) + np.log1p(size) - reward * score
    return value, _logistic(score, size) - reward


def _logistic(score: Singles, size: Singles) -> Singles:
    """σ(score) of the learner's own reward model, in single precision; ``size`` is e^{−|score|}."""
    top = np.where(score >= 0.0, np.float32(1.0), size)
    return np.asarray(top / (np.float32(1.0) + size), dtype=np.float32)


def predicted(W: Floats, phi: Singles, base: float = 0.0) -> Singles:
    """What the learner's own reward model says, σ(b + W φ), class-major: (K, n)."""
    score = W.astype(np.float32) @ phi.T + np.float32(base)
    return _logistic(score, np.exp(-np.abs(score)))
