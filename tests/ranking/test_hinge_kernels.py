"""The kernels of the ranking hinge against double loops over all pairs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from offpolicy.ranking.learning._hinge_kernels import pair_losses
from offpolicy.ranking.learning._objective import Objective
from tests.support.limits import limit

# Numbers whose sums and products are exact: ties and kinks (u = 0, u = ε) are met, not missed.
QUARTERS = st.integers(-6, 6).map(lambda k: k / 4)
EPS = st.sampled_from([0.0, 0.125, 0.5, 1.0])


class Reference:
    """Every sum over pairs, pair by pair."""

    def __init__(self, X, offsets, c, w, eps):
        s = X @ w
        N = len(s)
        self.hinge = self.huber = self.alphas = self.products = 0.0
        self.g = np.zeros(N)
        self.L = np.zeros((N, N))
        for start, stop in pairwise(offsets):
            for j in range(start, stop):
                for k in range(start, stop):
                    if j == k:
                        continue
                    u = 1.0 - s[j] + s[k]
                    self.hinge += c[j] * max(u, 0.0)
                    if u <= 0.0:
                        loss, slope = 0.0, 0.0
                    elif u < eps:
                        loss, slope = u * u / (2.0 * eps), u / eps
                        apart = np.zeros(N)
                        apart[j], apart[k] = 1.0, -1.0
                        self.L += c[j] / eps * np.outer(apart, apart)
                    else:
                        loss, slope = u - eps / 2.0, 1.0
                    self.huber += c[j] * loss
                    self.alphas += c[j] * slope
                    self.products += c[j] * slope * u
                    self.g[j] -= c[j] * slope
                    self.g[k] += c[j] * slope


@st.composite
def problems(draw):
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    N = sum(sizes)
    rows = st.tuples(QUARTERS, QUARTERS)
    X = np.array(draw(st.lists(rows, min_size=N, max_size=N)))
    c = draw(st.lists(st.sampled_from([0.0, 0.0, 0.25, 1.0, 3.0]), min_size=N, max_size=N))
    w = np.array(draw(rows))
    return X, np.r_[0, np.cumsum(sizes)], np.array(c), w


@settings(max_examples=150, deadline=None)
@given(problems(), EPS, st.randoms(use_true_random=False))
def test_values_slopes_and_curvature_are_those_of_all_pairs(problem, eps, random):
    X, offsets, c, w = problem
    expected = Reference(X, offsets, c, w, eps)
    objective = Objective(X, offsets, c, 0.5)
    for start, stop in pairwise(offsets):
        order = list(range(stop - start))
        random.shuffle(order)  # wherever an earlier sort has left it
        objective._order[start:stop] = order
    found = objective.at(w, eps)
    half_square = 0.5 * w @ w
    assert found.value == pytest.approx(half_square + 0.5 * expected.hinge)
    assert found.smooth == pytest.approx(half_square + 0.5 * expected.huber)
    assert found.slack == pytest.approx(0.5 * (expected.hinge - expected.products), abs=1e-12)
    assert_allclose(objective._slopes, expected.g, atol=1e-12)
    assert_allclose(found.gradient, w + 0.5 * X.T @ expected.g, atol=1e-12)
    assert_allclose(objective.scores, X @ w)
    if eps > 0.0:
        hessian = np.eye(2) + 0.5 * X.T @ expected.L @ X
        assert_allclose(objective.hessian(eps), hessian, atol=1e-10)
        v = np.array([0.3, -1.7])
        assert_allclose(objective.hessian_product(v, eps), hessian @ v, atol=1e-10)


@settings(max_examples=100, deadline=None)
@given(problems(), EPS)
def test_the_bound_is_the_dual_objective_of_the_slopes(problem, eps):
    """Scaled by the best θ ≤ 1; at θ = 1 the gap is slack + ½‖gradient‖²."""
    X, offsets, c, w = problem
    expected = Reference(X, offsets, c, w, eps)
    found = Objective(X, offsets, c, 0.5).at(w, eps)
    v = -0.5 * X.T @ expected.g
    thetas = np.linspace(0.0, 1.0, 101)
    duals = 0.5 * thetas * expected.alphas - 0.5 * thetas**2 * (v @ v)
    assert found.bound >= duals.max() - 1e-9
    assert found.bound <= duals.max() + 0.5 * 0.01**2 * (v @ v) + 1e-9
    gap = found.slack + 0.5 * found.gradient @ found.gradient
    assert found.value - duals[-1] == pytest.approx(gap, abs=1e-9)


def test_long_lists_in_any_order_are_sorted():
    rng = np.random.default_rng(0)
    sizes = [1, 24, 25, 49, 400, 777]
    offsets = np.r_[0, np.cumsum(sizes)]
    X = rng.normal(size=(offsets[-1], 3)).round(1)
    c = rng.exponential(size=len(X)) * (rng.random(len(X)) < 0.7)
    objective = Objective(X, offsets, c, 1.0)
    for _ in range(4):  # each starts from the order of another w
        w = rng.normal(size=3)
        found = objective.at(w, 0.3)
        s = X @ w
        value = 0.5 * w @ w
        smooth = value
        gradient = w.copy()
        for start, stop in pairwise(offsets):
            u = 1.0 - s[start:stop, None] + s[None, start:stop]
            np.fill_diagonal(u, 0.0)
            own = c[start:stop, None]
            value += (own * np.maximum(u, 0.0)).sum()
            slope = own * np.clip(u / 0.3, 0.0, 1.0)
            huber = np.where(u < 0.3, np.maximum(u, 0.0) ** 2 / 0.6, u - 0.15)
            smooth += (own * huber).sum()
            gradient += (slope.sum(axis=0) - slope.sum(axis=1)) @ X[start:stop]
        assert found.value == pytest.approx(value, rel=1e-12)
        assert found.smooth == pytest.approx(smooth, rel=1e-12)
        assert_allclose(found.gradient, gradient, rtol=1e-9)


def test_known_scores_give_the_same_as_a_pass():
    rng = np.random.default_rng(1)
    X, offsets = rng.normal(size=(40, 3)), np.array([0, 15, 16, 40])
    objective = Objective(X, offsets, rng.random(40), 2.0)
    w, way, eps = rng.normal(size=3), rng.normal(size=3), 0.4
    at = objective.at(w, eps)
    again = objective.again(w, X @ w, eps)
    assert_allclose(again.gradient, at.gradient)
    assert again[:4] == pytest.approx(at[:4])
    slack, pairs = objective.band(X @ w, eps)
    assert slack == pytest.approx(at.slack)
    s = X @ w
    u = [1.0 - s[j] + s[k] for a, b in pairwise(offsets) for j in range(a, b) for k in range(a, b)]
    assert pairs == sum(0.0 < one < eps for one in u)
    ends = [objective.at(w + (0.7 + h) * way, eps).smooth for h in (-1e-6, 1e-6)]
    slope = objective.slope(w, X @ w, way, X @ way, 0.7, eps)
    assert slope == pytest.approx((ends[1] - ends[0]) / 2e-6, rel=1e-6)


def test_the_hessian_does_not_depend_on_how_many_rows_are_taken_at_once(monkeypatch):
    rng = np.random.default_rng(2)
    offsets = np.arange(0, 401, 40)
    X, c, w = rng.normal(size=(400, 5)), rng.random(400), rng.normal(size=5)
    found = []
    for rows in (40, 4096):
        limit(monkeypatch, "offpolicy.ranking.learning._objective.ROWS", rows)
        objective = Objective(X, offsets, c, 1.0)
        objective.at(w, 0.2)
        found.append(objective.hessian(0.2))
    assert_allclose(found[0], found[1], rtol=1e-12)


def test_ten_billion_pairs_are_no_matter():
    m = 100_000
    rng = np.random.default_rng(3)
    objective = Objective(rng.normal(size=(m, 2)), np.array([0, m]), np.ones(m), 1.0 / m**2)
    found = objective.at(np.zeros(2))
    assert found.value == pytest.approx((m - 1) / m)
    assert objective.at(np.ones(2), 0.1).value > 0.0


def test_scores_beyond_what_1_can_be_added_to_stay_in_bounds():
    s = np.array([1e17, -1e17, 1e17, 0.0])
    g = np.empty(4)
    found = pair_losses(
        np.empty((4, 0)), np.empty(0), np.array([0, 4]), np.ones(4), 0.5, s,
        np.arange(4), g, np.empty(0),
    )  # fmt: skip
    assert np.isfinite(found).all()
    assert g.sum() == 0.0
