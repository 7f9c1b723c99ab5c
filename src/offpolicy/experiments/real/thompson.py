"""A contextual Thompson sampler: Bayesian linear regression of the reward, one for each action."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.types import Floats, Ints

_HOPELESS = 7.0
"""In standard deviations: an action so far behind would be drawn once in 10¹² times."""


@dataclass(frozen=True, eq=False)
class Posterior:
    r"""What the sampler believes: for action a, :math:`\theta_a \sim N(m_a, \Sigma_a)`.

    .. math:: \Sigma_a^{-1} = \frac{I}{v} + \frac{1}{s^2} \sum_i x_i x_i^\top, \qquad
              m_a = \Sigma_a \frac{1}{s^2} \sum_i x_i r_i

    over the steps i that chose a; v is the variance of the prior, s² that of the noise. The
    sampler draws θ and takes the action with the largest :math:`x^\top\theta_a`. The actions' θ
    are independent, hence these scores are independent normals, and are drawn as such. ``scale``
    multiplies their standard deviations, and with them the exploration.
    """

    precision: Floats
    """(K, d, d)."""
    shift: Floats
    """(K, d): precision times mean."""
    noise: float
    scale: float

    @classmethod
    def prior(
        cls, actions: int, width: int, *, variance: float, noise: float, scale: float
    ) -> Self:
        """Before the first step."""
        precision = np.tile(np.eye(width) / variance, (actions, 1, 1))
        return cls(precision, np.zeros((actions, width)), noise, scale)

    def updated(self, X: Floats, action: Ints, reward: Floats) -> Posterior:
        """After these steps."""
        precision, shift = self.precision.copy(), self.shift.copy()
        for a in np.unique(action):
            rows = X[action == a]
            precision[a] += rows.T @ rows / self.noise
            shift[a] += reward[action == a] @ rows / self.noise
        return replace(self, precision=precision, shift=shift)

    @cached_property
    def covariance(self) -> Floats:
        """(K, d, d)."""
        return np.asarray(np.linalg.inv(self.precision))

    @cached_property
    def mean(self) -> Floats:
        """(K, d)."""
        return np.asarray(np.einsum("kij,kj->ki", self.covariance, self.shift))

    def predict(self, X: Floats) -> Floats:
        """The expected reward of every action: (n, K)."""
        return np.asarray(X @ self.mean.T)

    def deviation(self, X: Floats) -> Floats:
        """The standard deviation of every action's score: (n, K)."""
        K, d = self.shift.shape
        side_by_side = self.covariance.transpose(1, 0, 2).reshape(d, K * d)  # one product, not K
        spread = np.einsum("nkd,nd->nk", (X @ side_by_side).reshape(-1, K, d), X)
        return np.asarray(self.scale * np.sqrt(np.maximum(spread, 0.0)))

    def draw(self, X: Floats, draws: int, rng: np.random.Generator) -> NDArray[np.int16]:
        """The actions that ``draws`` draws take for every context: (n, draws).

        Every context has draws of its own. An action that another one beats by `_HOPELESS`
        standard deviations of their difference is not drawn.
        """
        mean, deviation = self.predict(X), self.deviation(X)
        best, rows = mean.argmax(axis=1), np.arange(len(X))
        ahead = mean[rows, best][:, None] - mean
        hopeless = ahead > _HOPELESS * np.hypot(deviation[rows, best][:, None], deviation)
        top = np.full((len(X), draws), -np.inf, dtype=np.float32)
        taken = np.zeros((len(X), draws), dtype=np.int16)
        for a in range(mean.shape[1]):
            some = np.flatnonzero(~hopeless[:, a])
            score = rng.standard_normal((len(some), draws), dtype=np.float32)
            score *= deviation[some, a, None].astype(np.float32)
            score += mean[some, a, None].astype(np.float32)
            highest, winner = top[some], taken[some]
            winner[score > highest] = a
            top[some], taken[some] = np.maximum(score, highest), winner
        return taken

    def probabilities(self, X: Floats, draws: int, rng: np.random.Generator) -> Floats:
        """Monte-Carlo estimate of the probability of every action: frequencies, (n, K)."""
        K = len(self.shift)
        taken = self.draw(X, draws, rng) + K * np.arange(len(X))[:, None]
        return np.bincount(taken.ravel(), minlength=K * len(X)).reshape(-1, K) / draws
