"""Noise: the variance seen, what was not drawn, and how well the variance itself is known."""

from __future__ import annotations

import numpy as np
import pytest

from offpolicy._core.moments import Moments
from offpolicy.estimators import GRID
from offpolicy.evidence import degrees_of
from offpolicy.evidence._noise import design_effect, satterthwaite, variance
from tests.support.cases import Case
from tests.support.slow_headline import around


def test_weights_that_were_not_drawn_count():
    """A policy on an action of chance 1/1000 that a log of 100 never shows: V grows by what the
    square of the weights would be, whatever is seen."""
    n = 100
    model, pi0, pi = np.full(2 * n, 0.5), np.tile([0.999, 0.001], n), np.full(2 * n, 0.5)
    case = Case(np.arange(n + 1) * 2, np.zeros(n, int), np.arange(n) % 2.0, pi0, pi, model)
    path, _ = around(case, case.log, model)
    seen = (0.5 / 0.999) ** 2
    at = int(np.searchsorted(GRID, 600.0))
    drawable = 0.999 * seen + 0.001 * 500.0**2
    alone = path.moments.covariance()[at]
    assert variance(path)[at] == pytest.approx(alone + (drawable / seen - 1.0) * seen * 0.25 / n)
    assert variance(path)[at] > 900.0 * alone


@pytest.mark.parametrize("clustered", [False, True])
def test_degrees_of_freedom_are_satterthwaite_s(clustered):
    rng = np.random.default_rng(0)
    x, omega = rng.exponential(size=(3, 200)) ** 2, rng.uniform(0.5, 2.0, 200)
    group = rng.integers(0, 40, 200) if clustered else None
    moments = Moments.of(x, omega, group, groups=256, diagonal=True)
    for column in range(3):
        mean = np.average(x[column], weights=omega)
        off = omega * (x[column] - mean)
        if clustered:
            off = np.array([off[group == g].sum() for g in range(40)])
        n, kurtosis = len(off), len(off) * (off**4).sum() / (off**2).sum() ** 2
        squares = (omega * (x[column] - mean)) ** 2
        found = satterthwaite(moments, (squares**2).sum() / squares.sum() ** 2, column)
        assert found == pytest.approx(min(2.0 * n / (kurtosis - 1.0), n - 1.0), rel=1e-9)
        assert degrees_of(moments) == n - 1
        together = n / (n - 1) * (off**2).sum()
        alone = 200 / 199 * ((omega * (x[column] - mean)) ** 2).sum()
        expected = max(together / alone, 1.0) if clustered else 1.0
        assert design_effect(moments, column) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "most"), [(1, 1.0), (2, 1.0), (3, 2.0), (50, 3.0)])
def test_degrees_of_freedom_have_limits(n, most):
    """One row that is all of the variance leaves three, but no more than rows less one."""
    x = np.zeros((1, n))
    x[0, 0] = 1e9
    moments = Moments.of(x, diagonal=True)
    squares = (x - x.mean()) ** 2
    share = (squares**2).sum() / squares.sum() ** 2 if n > 1 else np.nan
    assert satterthwaite(moments, share, 0) == pytest.approx(most, rel=0.01)
    same = Moments.of(np.ones((1, n)), diagonal=True)
    assert satterthwaite(same, np.nan, 0) == pytest.approx(min(max(n - 1.0, 1.0), most))


def test_halves_of_plus_and_minus_one_have_all_degrees_of_freedom():
    x = np.tile([1.0, -1.0], 50)[None]
    assert satterthwaite(Moments.of(x, diagonal=True), 0.01, 0) == 99.0
