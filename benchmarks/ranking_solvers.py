"""Other ways to minimise the ranking hinge, for `benchmarks/ranking.py`.

Each gets the objective that our solver gets, stops at the same certificate,
and uses the same O(m log m) evaluations: what differs is the method. Each may raise `TooLong`.
"""

from __future__ import annotations

import time

import numpy as np
from numba import njit

from offpolicy._core.types import Floats
from offpolicy.ranking.learning._objective import Objective
from offpolicy.ranking.learning._solver import Best, _certify, _search, conjugate, dense

LIMIT = 20.0
"""CPU seconds after which a method is stopped."""


class TooLong(Exception):
    """It was not certified in time."""


class Clock:
    def __init__(self) -> None:
        self.start = time.process_time()

    def check(self) -> None:
        if time.process_time() - self.start > LIMIT:
            raise TooLong


def newton_alone(objective: Objective, tolerance: float) -> Best:
    """Dense Newton on Huber's hinge from 0, ε from the gap."""
    best = Best(tolerance)
    w = np.zeros(objective.X.shape[1])
    if not best.see(w, objective.at(w)):
        _certify(objective, best, 1000, dense)
    return best


def newton_cg(objective: Objective, tolerance: float) -> Best:
    """Newton by conjugate gradients from 0, ε from ½ down by 4 whenever it is done with."""
    best, clock = Best(tolerance), Clock()
    w = np.zeros(objective.X.shape[1])
    scores, eps = np.zeros(len(objective.X)), 0.5
    while True:
        clock.check()
        found = objective.again(w, scores, eps)
        if best.see(w, found):
            return best
        if 0.5 * found.gradient @ found.gradient <= found.slack:
            eps /= 4.0
            continue
        allowed = 0.5 * tolerance * best.objective
        way = conjugate(objective, found.gradient, eps, np.sqrt(0.2 * allowed))
        along = objective.forward(way)
        t = _search(objective, w, scores, way, along, float(found.gradient @ way), eps)
        w, scores = w + t * way, scores + t * along


def lbfgs_huber(objective: Objective, tolerance: float) -> Best:
    """L-BFGS on Huber's hinge from 0, ε from ½ down by 4 whenever it is done with."""
    from scipy.optimize import minimize

    best, clock = Best(tolerance), Clock()
    w: Floats = np.zeros(objective.X.shape[1])
    eps, state = 0.5, {"certain": False, "done": False}

    def loss(v: Floats) -> tuple[float, Floats]:
        clock.check()
        found = objective.at(v, eps)
        state["certain"] = best.see(v, found)
        state["done"] = bool(0.5 * found.gradient @ found.gradient <= found.slack)
        return found.smooth, found.gradient

    def told(_: Floats) -> None:
        if state["certain"] or state["done"]:
            raise StopIteration

    options = {"maxiter": 2000, "maxfun": 4000, "maxcor": 20, "ftol": 0.0, "gtol": 0.0}
    while not state["certain"]:
        w = minimize(loss, w, jac=True, method="L-BFGS-B", callback=told, options=options).x
        eps /= 4.0
    return best


def cutting_plane(objective: Objective, tolerance: float) -> Best:
    """One slack: each step adds the plane below the loss at the minimum of those before."""
    return _planes(objective, tolerance, searches=False)


def cutting_plane_search(objective: Objective, tolerance: float) -> Best:
    """As OCAS: a line search from the best point to the planes' minimum, and a plane beyond it."""
    return _planes(objective, tolerance, searches=True)


def _planes(objective: Objective, tolerance: float, searches: bool) -> Best:
    best, clock = Best(tolerance), Clock()
    d = objective.X.shape[1]
    V, a = np.zeros((1, d)), np.zeros(1)  # the loss is at least 0
    gram, theta = np.zeros((1, 1)), np.ones(1)
    at = np.zeros(d)
    while True:
        clock.check()
        found = objective.at(at)
        if best.see(at, found):
            return best
        v = at - found.gradient
        height = found.value - 0.5 * at @ at + v @ at
        V, a = np.vstack([V, v]), np.append(a, height)
        side = V @ v
        gram = np.block([[gram, side[:-1, None]], [side[None, :]]])
        theta = np.append(theta, 0.0)
        bound = _planes_minimum(gram, a, theta, 1e-2 * tolerance * best.objective)
        best.bound = max(best.bound, bound)
        if best.objective - best.bound <= tolerance * best.objective:
            return best
        at = theta @ V
        if searches:
            here = best.w
            scores, way = objective.forward(here), at - here
            along = objective.forward(way)
            slope = objective.slope(here, scores, way, along, 0.0, 0.0)
            t = _search(objective, here, scores, way, along, slope, 0.0) if slope < 0.0 else 0.0
            best.see(here + t * way, objective.again(here + t * way, scores + t * along, 0.0))
            at = best.w + 0.1 * (at - best.w)


@njit(cache=True)
def _planes_minimum(gram, a, theta, enough):
    """max a·θ − ½θ·gram·θ over the simplex, from θ, by moving weight between two planes."""
    product = gram @ theta
    for _ in range(200_000):
        slopes = a - product
        best = np.argmax(slopes)
        worst, least = -1, np.inf
        for k in range(len(theta)):
            if theta[k] > 0.0 and slopes[k] < least:
                worst, least = k, slopes[k]
        # Of all planes that could give weight, the one that gains the most by it.
        gain, giver = 0.0, worst
        for k in range(len(theta)):
            if theta[k] > 0.0 and slopes[k] < slopes[best]:
                bend = max(gram[best, best] + gram[k, k] - 2.0 * gram[best, k], 1e-300)
                step = min((slopes[best] - slopes[k]) / bend, theta[k])
                own = step * (slopes[best] - slopes[k]) - 0.5 * step * step * bend
                if own > gain:
                    gain, giver = own, k
        if slopes[best] - (theta @ slopes) <= enough or giver == best:
            break
        bend = max(gram[best, best] + gram[giver, giver] - 2.0 * gram[best, giver], 1e-300)
        step = min((slopes[best] - slopes[giver]) / bend, theta[giver])
        theta[best] += step
        theta[giver] = max(0.0, theta[giver] - step)
        product += step * (gram[best] - gram[giver])
    return a @ theta - 0.5 * theta @ (gram @ theta)
