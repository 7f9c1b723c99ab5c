"""Minimising the ranking hinge to a certified gap: L-BFGS on the hinge, then Newton on Huber's.

L-BFGS comes near the optimum in few passes but seldom knows it. Newton's steps on Huber's hinge
lead to a point whose slopes prove it: the gap there is `Evaluation.slack` + ½‖gradient‖². The
first decides on ε, the second ends the steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.ranking.learning._objective import Evaluation, Objective

DENSE = 100
"""Up to so many features, Newton's equations are solved by a factor of the dense Hessian."""
LARGE = 3000
"""With more features, only by conjugate gradients, which need no matrix."""
_SHARE = 0.5
"""Of the gap that is allowed, what the band may take; the rest is for the gradient."""
_WIDEST, _NARROWEST = 0.5, 1e-12
_PAIRS = 10
"""Pairs for each feature that the first band holds at least."""
_LINE = 20
"""Most slopes that are looked at along a line: none needs the features."""


@dataclass(eq=False)
class Best:
    """The best w so far, and how far from the optimum it can be: the least objective and the
    greatest bound may come from different points."""

    tolerance: float
    w: Floats = field(default_factory=lambda: np.empty(0))
    objective: float = math.inf
    bound: float = 0.0
    """No w has a smaller objective."""
    passes: float = 0.0
    steps: int = 0

    @property
    def gap(self) -> float:
        """(objective − bound)/objective: the optimum is at most this share below."""
        return max(0.0, 1.0 - self.bound / self.objective) if self.objective > 0.0 else 0.0

    def see(self, w: Floats, here: Evaluation) -> bool:
        """Whether the gap is small enough."""
        self.bound = max(self.bound, here.bound)
        if here.value < self.objective:
            self.w, self.objective = w.copy(), here.value
        return self.objective - self.bound <= self.tolerance * self.objective


Direction = Callable[[Objective, Floats, float, float], Floats]
"""Newton's, from objective, gradient, ε, and the length of residual that is small enough."""


def solve(
    objective: Objective,
    *,
    tolerance: float = 1e-3,
    start: Floats | None = None,
    most_steps: int = 500,
    direction: Direction | None = None,
) -> Best:
    """The ranking SVM, from ``start`` (0 without one) to a relative gap of at most ``tolerance``.

    After ``most_steps`` steps of Newton's it ends with the gap it has.
    """
    from threadpoolctl import threadpool_limits

    d = objective.X.shape[1]
    direction = direction or (dense if d <= DENSE else conjugate if d > LARGE else Either())
    before = objective.passes
    best = Best(tolerance)
    # One thread adds in one order, so that the result does not depend on how many there are; and
    # matrices this small are multiplied no faster by more.
    with threadpool_limits(1, user_api="blas"):
        best.steps, certain = _descend(objective, best, np.zeros(d) if start is None else start)
        if not certain:
            best.steps += _certify(objective, best, most_steps, direction)
    best.passes = objective.passes - before
    return best


def _descend(objective: Objective, best: Best, start: Floats) -> tuple[int, bool]:
    """L-BFGS on the ranking hinge, until it gains little: how many steps, and if that was all."""
    from scipy.optimize import minimize

    first = objective.at(start)
    if best.see(start, first):
        return 0, True
    unit = first.value
    certain = False
    known: list[tuple[Floats, Evaluation]] = [(start, first)]

    def loss(w: Floats) -> tuple[float, Floats]:
        nonlocal certain
        here = known.pop()[1] if known and (known[0][0] == w).all() else objective.at(w)
        certain = best.see(w, here)
        return here.value / unit, here.gradient / unit

    def told(_: Floats) -> None:
        if certain:
            raise StopIteration

    options = {"maxiter": 40, "maxfun": 80, "maxcor": 10, "ftol": 1e-3, "gtol": 0.0}
    end: Any = minimize(loss, start, jac=True, method="L-BFGS-B", callback=told, options=options)
    return int(end.nit), certain


def _certify(objective: Objective, best: Best, most_steps: int, direction: Direction) -> int:
    """Newton's steps on the ranking SVM's Huber hinge from the best point, ε never growing."""
    w = best.w
    scores = objective.forward(w)
    allowed = _SHARE * best.tolerance * best.objective
    eps = _first_eps(objective, scores, allowed)
    for step in range(most_steps):
        here = objective.again(w, scores, eps)
        if best.see(w, here):
            return step
        allowed = _SHARE * best.tolerance * best.objective
        if here.slack > allowed and 0.5 * here.gradient @ here.gradient <= here.slack:
            eps = _narrower(eps, here.slack, allowed)
            here = objective.again(w, scores, eps)
        way = direction(objective, here.gradient, eps, math.sqrt(0.2 * allowed))
        along = objective.forward(way)
        t = _search(objective, w, scores, way, along, float(here.gradient @ way), eps)
        w, scores = w + t * way, scores + t * along
        if step % 20 == 19:
            scores = objective.forward(w)
    best.see(w, objective.again(w, scores, eps))
    return most_steps


def _first_eps(objective: Objective, scores: Floats, allowed: float) -> float:
    """The ranking hinge's first ε: its band costs no more than is allowed, and is not nearly empty.

    Without enough pairs in the band, Newton's steps would be those of steepest descent.
    """
    eps = _WIDEST
    slack, _ = objective.band(scores, eps)
    while slack > 1.1 * allowed:
        smaller = _narrower(eps, slack, allowed)
        slack, pairs = objective.band(scores, smaller)
        if pairs < _PAIRS * objective.X.shape[1]:
            break
        eps = smaller
    return eps


def _narrower(eps: float, slack: float, allowed: float) -> float:
    """A smaller ε of the ranking hinge: the cost of its band of pairs is nearly quadratic in it."""
    return max(_NARROWEST, eps * min(max(math.sqrt(allowed / slack), 0.1), 0.9))


def _search(
    objective: Objective, w: Floats, scores: Floats, way: Floats, along: Floats, slope: float,
    eps: float,
) -> float:  # fmt: skip
    """How far a step of the ranking SVM goes: to a third of the first slope, by regula falsi."""
    low, at_low = 0.0, slope
    high, at_high = np.inf, np.inf
    t = 1.0
    for _ in range(_LINE):
        here = objective.slope(w, scores, way, along, t, eps)
        if abs(here) <= 0.3 * abs(slope):
            break
        if here > 0.0:
            high, at_high = t, here
        else:
            low, at_low = t, here
        if np.isinf(high):
            t *= 2.0
        else:
            t = low + (high - low) * min(max(at_low / (at_low - at_high), 0.1), 0.9)
    return t


def dense(objective: Objective, gradient: Floats, eps: float, _: float) -> Floats:
    """Newton's direction for the ranking SVM, by a Cholesky factor."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    hessian = objective.hessian(eps)
    extra = 0.0
    while True:
        try:
            factor = cho_factor(hessian, lower=True, check_finite=False)
        except LinAlgError:  # by rounding: it has no eigenvalue below 1
            more = max(10.0 * extra, 1e-14 * float(np.trace(hessian)))
            hessian[np.diag_indices_from(hessian)] += more - extra
            extra = more
            continue
        return np.asarray(-cho_solve(factor, gradient, check_finite=False))


def conjugate(objective: Objective, gradient: Floats, eps: float, enough: float) -> Floats:
    """Newton's direction for the ranking SVM by conjugate gradients, as exactly as it helps."""
    return _conjugate(objective, gradient, eps, enough, 2 * len(gradient))[0]


class Either:
    """Conjugate gradients until, once, they have cost as much as the dense Hessian would have.

    So it is never much worse than the better of the two, whichever that is: small C favours the
    first, large C the second.
    """

    def __init__(self) -> None:
        self.dense = False

    def __call__(self, objective: Objective, gradient: Floats, eps: float, enough: float) -> Floats:
        if not self.dense:
            most = 1 + len(gradient) // 16
            way, done = _conjugate(objective, gradient, eps, enough, most)
            if done:
                return way
            self.dense = True
        return dense(objective, gradient, eps, enough)


def _conjugate(
    objective: Objective, gradient: Floats, eps: float, enough: float, most: int
) -> tuple[Floats, bool]:
    from scipy.sparse.linalg import LinearOperator, cg

    def product(way: Floats) -> Floats:
        return objective.hessian_product(way, eps)

    hessian: Any = LinearOperator((len(gradient), len(gradient)), product, dtype=gradient.dtype)
    way, missing = cg(hessian, -gradient, rtol=0.1, atol=enough, maxiter=most)
    return way, missing == 0
