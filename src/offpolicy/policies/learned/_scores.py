"""Softmax policies over linear scores, in the two layouts, and their gradients.

*Dense*: every decision has all K actions. Arrays are class-major, (K, n), and single; sums and
weights are double. *Ragged*: candidates differ; flat double arrays with offsets, and scores that
may also depend on features of the candidate. Both turn ∂value/∂π into ∂value/∂w.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from offpolicy._core.ragged import decision_of_candidate, row_sums, softmax
from offpolicy._core.types import Floats, Ints, Singles

_AT_ONCE = 65_536
LOWEST = np.float32(-50.0)
"""Of scores less the best: below it single numbers are denormal, with which sums are very slow."""


class Dense:
    """Scores W φ(x), W being (K, d)."""

    def __init__(self, phi: Singles, actions: int) -> None:
        self.phi = np.ascontiguousarray(phi)
        self.transposed = np.ascontiguousarray(phi.T)
        self.actions = actions

    @property
    def size(self) -> int:
        """How many weights there are."""
        return self.actions * int(self.phi.shape[1])

    def probabilities(self, w: Floats) -> Singles:
        """(K, n)."""
        scores = w.reshape(self.actions, -1).astype(np.float32) @ self.transposed
        scores -= scores.max(axis=0)
        np.maximum(scores, LOWEST, out=scores)
        np.exp(scores, out=scores)
        scores *= np.float32(1.0) / scores.sum(axis=0)
        return scores

    def back(self, pi: Any, per_pi: Any) -> Floats:
        """∂value/∂w from ∂value/∂π, which is overwritten: through the softmax, ∂/∂s = π(∂/∂π −
        Σπ ∂/∂π), then through the scores."""
        per_pi -= np.einsum("kn,kn->n", pi, per_pi)
        per_pi *= pi
        return np.asarray(per_pi @ self.phi, dtype=np.float64).reshape(-1)


class Ragged:
    """Scores W[action]·φ(x) + v·f(x, candidate); either part may be absent."""

    def __init__(
        self,
        offsets: Ints,
        *,
        phi: Singles | None = None,
        code: Ints | None = None,
        actions: int = 0,
        features: Singles | None = None,
    ) -> None:
        self.offsets, self.decision = offsets, decision_of_candidate(offsets)
        self.phi, self.code, self.actions, self.features = phi, code, actions, features
        self.split = 0 if phi is None else actions * phi.shape[1]

    @property
    def size(self) -> int:
        return self.split + (0 if self.features is None else self.features.shape[1])

    def probabilities(self, w: Floats) -> Floats:
        """Flat, as in the log."""
        scores = np.zeros(len(self.decision))
        if self.phi is not None:
            assert self.code is not None
            table = w[: self.split].reshape(self.actions, -1)
            for start in range(0, len(scores), _AT_ONCE):
                part = slice(start, start + _AT_ONCE)
                scores[part] = np.einsum(
                    "nd,nd->n", table[self.code[part]], self.phi[self.decision[part]]
                )
        if self.features is not None:
            scores += self.features @ w[self.split :]
        return softmax(scores, self.offsets)

    def back(self, pi: Any, per_pi: Any) -> Floats:
        """∂value/∂w from ∂value/∂π, which is overwritten."""
        per_pi -= np.repeat(row_sums(pi * per_pi, self.offsets), np.diff(self.offsets))
        per_pi *= pi
        gradient = np.empty(self.size)
        if self.phi is not None:
            from scipy.sparse import csr_matrix

            shape = (self.actions, len(self.phi))
            spread = csr_matrix((per_pi, (self.code, self.decision)), shape=shape)
            gradient[: self.split] = np.asarray(spread @ self.phi).reshape(-1)
        if self.features is not None:
            gradient[self.split :] = per_pi @ self.features
        return gradient


Scores = Dense | Ragged
