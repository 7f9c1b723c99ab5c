"""The logistic regression, against references."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from offpolicy._core import logistic


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("shares", [False, True])
def test_the_fit_is_where_a_search_ends(weighted, hidden, shares):
    rng = np.random.default_rng(0)
    X = np.stack([np.ones(500), rng.normal(size=500)])
    offset = rng.normal(size=500)
    seen = rng.uniform(0.1, 1.0, 500) if hidden else np.ones(500)
    weight = rng.uniform(0.1, 3.0, 500) if weighted else np.ones(500)
    chance = seen * logistic.sigmoid(offset + 0.7 + 0.3 * X[1])
    y = 0.8 * chance + 0.1 if shares else (rng.random(500) < chance).astype(float)
    ridge = np.array([4.0, 25.0])
    given = {"offset": offset, "seen": seen} if hidden else {"offset": offset}

    def loss(beta):
        mean = seen * logistic.sigmoid(offset + beta @ X)
        likely = weight * (y * np.log(mean) + (1 - y) * np.log1p(-mean))
        return 0.5 * (ridge * beta**2).sum() - likely.sum()

    expected = scipy.optimize.minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-9}).x
    found = logistic.fit(X, y, ridge, weight=weight if weighted else 1.0, **given)
    assert found == pytest.approx(expected, abs=2e-4 if hidden else 1e-6)


@pytest.mark.parametrize("kind", ["separable", "all one", "all zero", "one row", "none"])
def test_odd_rows_are_fitted_as_well(kind):
    n = {"one row": 1, "none": 0}.get(kind, 60)
    rng = np.random.default_rng(7)
    X = np.vstack([np.ones(n), rng.normal(size=(4, n))])
    y = {"separable": (X[1] > 0.3).astype(float), "all one": np.ones(n),
         "one row": np.full(n, 0.3)}.get(kind, np.zeros(n))  # fmt: skip
    ridge = np.array([1e-6, 1.0, 1.0, 1.0, 1.0])
    beta = logistic.fit(X, y, ridge)
    gradient = X @ (logistic.sigmoid(beta @ X) - y) + ridge * beta
    assert np.abs(gradient).max() < 1e-3
    if kind == "none":
        assert not beta.any()


def test_a_clean_cut_ends_where_the_penalty_says():
    """All that is above 0 is 1: only the penalty keeps the slope finite."""
    x = np.linspace(-3.0, 3.0, 200)
    slope, intercept = logistic.fit(
        np.stack([x, np.ones(200)]), (x > 0.0).astype(float), np.array([1e-3, 1e-12])
    )
    assert slope > 20.0
    assert intercept == pytest.approx(0.0, abs=1e-6)
    error = logistic.sigmoid(slope * x + intercept) - (x > 0.0)
    assert (error * x).sum() + 1e-3 * slope == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("kind", ["plain", "alike", "separable", "one fold"])
def test_fits_without_a_fold_of_many_rows_are_those_of_each(kind):
    rng, n, ridge = np.random.default_rng(5), 11_000, np.array([1e-6, 1.0, 1.0, 1.0])
    X = np.vstack([np.ones(n), rng.normal(size=(3, n))])
    if kind == "alike":
        X[2] = X[1] + 0.05 * X[2]
    chance = logistic.sigmoid(X[1] + 0.5 * X[3] - 2.0)
    y = (chance > 0.1 if kind == "separable" else rng.random(n) < chance).astype(float)
    weight, fold = rng.random(n) + 0.1, rng.integers(0, logistic.FOLDS, n)
    if kind == "one fold":
        fold[:] = 1
    found = logistic.fit_without(X, y, ridge, fold, weight=weight)
    for k, beta in enumerate(found):
        rest = fold != k
        off = (y - logistic.sigmoid(beta @ X)) * weight * rest
        curvature = (X * (weight * rest * chance * (1.0 - chance))) @ X.T + np.diag(ridge)
        left = np.linalg.solve(curvature, X @ off - ridge * beta) if rest.any() else beta
        assert np.abs(left).max() < (1e-3 if kind == "separable" else 1e-8)


def test_sigmoid():
    score = np.array([-1e6, -40.0, -1.0, 0.0, 3.0, 1e6])
    found = logistic.sigmoid(score)
    assert found[1:5] == pytest.approx(1.0 / (1.0 + np.exp(-score[1:5])), rel=1e-15)
    assert 0.0 < found[0] == found[1]
    assert found[-1] == 1.0
