r"""The objective of generalized Propensity SVM-Rank, its smooth neighbour, and its lower bounds.

.. math:: P(w) = \tfrac12\|w\|^2 + \tfrac Cn \sum_i\sum_j c_{ij}\sum_{k\ne j}
          \max(0,\, 1 - w\cdot\phi_{ij} + w\cdot\phi_{ik})

Su et al. (2019), appendix "Generalized Propensity SVM-Rank"; :math:`c_{ij}` is a document's weight
in the estimator. Any :math:`0\le\alpha_{ijk}\le c_{ij}` bounds it from below, whatever w is,

.. math:: P \ge \theta\tfrac Cn\sum\alpha - \tfrac{\theta^2}2\|v\|^2,\qquad
          v = \tfrac Cn\sum\alpha_{ijk}(\phi_{ij}-\phi_{ik}),\quad 0\le\theta\le1,

and slopes of the hinge, or of Huber's, are such α: each evaluation gives a bound for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from offpolicy._core.ragged import position_in_decision
from offpolicy._core.types import Floats, Ints

Sums = tuple[float, float, float, float, float]

ROWS = 4096
"""Rows that the Hessian takes at once; more if an impression has more documents."""
SORTING = 60.0
"""Sorting and summing scores takes about as long as so many multiplications a document."""


class Evaluation(NamedTuple):
    """What one evaluation says."""

    value: float
    """P(w): the exact objective, also where ε > 0."""
    smooth: float
    """The objective with Huber's hinge; P(w) if ε = 0."""
    bound: float
    """No w has a smaller P than this."""
    slack: float
    """C/n Σ c·u(1 − u/ε) over the band: what of the gap would remain if the gradient were 0."""
    gradient: Floats
    """Of ``smooth``; a subgradient if ε = 0."""


@dataclass(eq=False)
class Objective:
    """P(w) over the documents of some impressions. Counts what it costs, in passes."""

    X: Floats
    """(N, d), each impression's mean taken off, which changes no difference of scores."""
    offsets: Ints
    c: Floats
    factor: float
    """C/n."""
    passes: float = 0.0
    """Work so far, in evaluations of value and gradient: such a pass is 2d multiplications a
    document and `SORTING`, and other work counts by its share of them. The dense Hessian counts
    1 + d/16 for the share of documents that take part in it: as many multiplications take an
    eighth of the time where matrices are multiplied."""
    scores: Floats = field(init=False)
    """X·w of the last evaluation."""

    def __post_init__(self) -> None:
        N, d = self.X.shape
        self.scores, self._slopes = np.zeros(N), np.empty(N)
        self._order = position_in_decision(self.offsets)
        self._rows = max(ROWS, int(np.diff(self.offsets).max(initial=0)))
        self._room = np.empty((2, min(self._rows, N), d))
        self._product = d / (2.0 * d + SORTING)
        """What X·v or Xᵀv alone is of a pass; the rest of one is sorting."""

    def at(self, w: Floats, eps: float = 0.0) -> Evaluation:
        """Everything at w, in one pass over the features."""
        gradient = np.zeros(len(w))
        self.passes += 1.0
        return self._evaluation(w, self._sums(self.X, w, eps, gradient), gradient)

    def again(self, w: Floats, scores: Floats, eps: float) -> Evaluation:
        """As `at`, where the scores X·w are known."""
        sums = self._of_scores(scores, eps)
        self.passes += self._product
        return self._evaluation(w, sums, self._slopes @ self.X)

    def slope(
        self, w: Floats, scores: Floats, way: Floats, steps: Floats, t: float, eps: float
    ) -> float:
        """d/dt of the smooth objective at w + t·way, where scores = X·w and steps = X·way.

        The features are not looked at.
        """
        self._of_scores(scores + t * steps, eps)
        return float((w + t * way) @ way + self.factor * (self._slopes @ steps))

    def band(self, scores: Floats, eps: float) -> tuple[float, float]:
        """`Evaluation.slack` for another ε, and how many pairs its band holds.

        The features are not looked at.
        """
        hinge, _, _, products, pairs = self._of_scores(scores, eps)
        return self.factor * (hinge - products), pairs

    def forward(self, way: Floats) -> Floats:
        """X·way."""
        self.passes += self._product
        return self.X @ way

    def hessian(self, eps: float) -> Floats:
        """Of the smooth objective, dense, where it was last evaluated."""
        from offpolicy.ranking.learning._hinge_kernels import band_rows

        d = self.X.shape[1]
        half = np.zeros((d, d))
        impression, used = 0, 0
        while impression < len(self.offsets) - 1:
            impression, filled = band_rows(
                impression, self.X, self.offsets, self.c, eps, self.scores, self._order, *self._room
            )
            half += self._room[0, :filled].T @ self._room[1, :filled]
            used += filled
        self.passes += (1.0 + d / 16.0) * used / len(self.X)
        return np.eye(d) + self.factor * (half + half.T)

    def hessian_product(self, way: Floats, eps: float) -> Floats:
        """The Hessian times a vector, where it was last evaluated: one pass."""
        from offpolicy.ranking.learning._hinge_kernels import band_product

        product = np.empty(len(self.X))
        band_product(self.offsets, self.c, eps, self.scores, self._order, self.X @ way, product)
        self.passes += 1.0
        return way + self.factor * (product @ self.X)

    def _of_scores(self, scores: Floats, eps: float) -> Sums:
        self.scores[:] = scores
        self.passes += 1.0 - 2.0 * self._product
        return self._sums(np.empty((len(scores), 0)), np.empty(0), eps, np.empty(0))

    def _sums(self, X: Floats, w: Floats, eps: float, gradient: Floats) -> Sums:
        from offpolicy.ranking.learning._hinge_kernels import pair_losses

        sums: Sums = pair_losses(
            X, w, self.offsets, self.c, eps, self.scores, self._order, self._slopes, gradient
        )
        return sums

    def _evaluation(self, w: Floats, sums: Sums, of_scores: Floats) -> Evaluation:
        hinge, huber, alphas, products = (self.factor * total for total in sums[:4])
        v = -self.factor * of_scores
        length = float(v @ v)
        theta = min(1.0, alphas / length) if length > 0.0 else 1.0
        penalty = 0.5 * float(w @ w)
        return Evaluation(
            value=penalty + hinge,
            smooth=penalty + huber,
            bound=max(0.0, theta * alphas - 0.5 * theta * theta * length),
            slack=hinge - products,
            gradient=w - v,
        )
