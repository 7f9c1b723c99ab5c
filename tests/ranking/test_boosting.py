"""The objective for boosted rankers: its derivatives, and LightGBM itself where it is installed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from offpolicy.errors import LogError, ParameterError, SupportError
from offpolicy.ranking.learning._boosting import pairwise_loss, tree_objective
from offpolicy.ranking.learning._svmrank import PropensitySVMRank
from tests.support.refusals import refuses

OFFSETS = np.array([0, 5, 6, 9])
WEIGHTS = np.array([1.0, 0.0, 0.3, 2.0, 0.0, 5.0, 0.0, 0.7, 0.7])
SCORES = np.array([0.3, -1.0, 2.0, 2.0, 0.1, 4.0, 0.0, -3.0, 0.5])


def reference(s):
    total = 0.0
    for start, stop in pairwise(OFFSETS):
        for j in range(start, stop):
            for k in range(start, stop):
                if j != k:
                    total += WEIGHTS[j] * np.log1p(np.exp(s[k] - s[j]))
    return total


def test_value_and_derivatives():
    found = pairwise_loss(SCORES, OFFSETS, WEIGHTS)
    assert found.value == pytest.approx(reference(SCORES), rel=1e-12)
    for j in range(len(SCORES)):
        h = np.zeros(len(SCORES))
        h[j] = 1e-4
        down, up = reference(SCORES - h), reference(SCORES + h)
        assert found.gradient[j] == pytest.approx((up - down) / 2e-4, abs=1e-6)
        bend = (up - 2.0 * found.value + down) / 1e-8
        assert found.curvature[j] == pytest.approx(bend, abs=1e-4)


def test_scores_far_apart_do_not_overflow():
    found = pairwise_loss([1e4, -1e4], [0, 2], [1.0, 1.0])
    assert found.value == pytest.approx(2e4)
    assert_allclose(found.gradient, [1.0, -1.0])
    assert_allclose(found.curvature, 0.0)


def test_it_bounds_the_weighted_rank():
    """Less 1, and divided by ln 2; for scores without ties."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        s = rng.normal(size=9)
        rank = np.array(
            [1 + (s[a:b] > s[j]).sum() for a, b in pairwise(OFFSETS) for j in range(a, b)]
        )
        assert WEIGHTS @ (rank - 1) <= pairwise_loss(s, OFFSETS, WEIGHTS).value / np.log(2.0)


def test_the_trees_objective_forgets_the_size_of_weights():
    once, large = (tree_objective(OFFSETS, size * WEIGHTS)(SCORES, None) for size in (1.0, 1e6))
    assert_allclose(once[0], large[0])
    assert_allclose(once[1], large[1])
    found = pairwise_loss(SCORES, OFFSETS, WEIGHTS)
    unit = (4 * 3.3 + 0 * 5.0 + 2 * 1.4) / 9  # pairs' weights of a document, on average
    assert_allclose(once[0], found.gradient / unit)
    assert_allclose(once[1], found.curvature / unit)


def test_bad_input_is_a_sentence():
    with refuses(ParameterError, "scores"):
        pairwise_loss([1.0, 2.0], OFFSETS, WEIGHTS)
    with refuses(LogError, column="weights", row=1):
        tree_objective([0, 2], [1.0, -1.0])
    with refuses(SupportError, "weights"):
        tree_objective([0, 1, 3], [1.0, 0.0, 0.0])


@pytest.mark.boost
def test_lightgbm_learns_what_no_line_can():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    offsets = np.arange(0, 3001, 20)
    weights = np.where(np.abs(X[:, 0]) > 1.2, rng.exponential(size=3000), 0.0)
    trees = lightgbm.train(
        {"objective": tree_objective(offsets, weights), "verbosity": -1, "num_threads": 1},
        lightgbm.Dataset(X, label=weights),
        num_boost_round=30,
    )
    linear = PropensitySVMRank().fit_weights(X, offsets, weights)
    values = [
        pairwise_loss(s, offsets, weights).value
        for s in (np.zeros(3000), linear.decision_function(X), trees.predict(X))
    ]
    assert values[2] < 0.3 * min(values[:2])
