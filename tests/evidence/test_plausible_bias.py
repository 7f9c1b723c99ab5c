"""How good a model is, by the log: its mean error over its root-mean-square error, and its size."""

from __future__ import annotations

import math

import numpy as np
import pytest

import offpolicy as op
from offpolicy.estimators import GRID
from offpolicy.evidence._plausible_bias import mean_residual, residual_size, typical_error
from offpolicy.evidence._weight_bins import WeightBins, sums_of_candidates, sums_of_rows


def bins_of(residual: np.ndarray, c: np.ndarray) -> WeightBins:
    log = op.BanditLog.from_arrays(
        action=np.zeros(len(c), int), reward=residual, propensity=np.ones(len(c))
    )
    of_rows = sums_of_rows(log, c, residual, 0.0 * c)
    return WeightBins(of_rows, *sums_of_candidates(log, None, c, None))


def kappa_of(residual: np.ndarray, c: np.ndarray) -> float:
    return typical_error(bins_of(residual, c))


def test_kappa_says_how_good_a_model_is():
    rng = np.random.default_rng(1)
    c, noise = rng.lognormal(0.0, 1.0, 20_000), rng.choice([-1.0, 1.0], 20_000)
    assert kappa_of(noise, c) == 0.1, "no mean error: the least"
    for off in (0.2, 0.5, 0.9):
        # In each bin the mean is off and the mean square off² + 1; two bins of ten say 0.2.
        expected = math.sqrt(0.2 * 0.2**2 + 0.8 * off**2 / (off**2 + 1.0))
        assert kappa_of(noise + off, c) == pytest.approx(expected, rel=0.06)
        assert kappa_of(noise + off * np.sign(c - np.median(c)), c) > 0.5 * expected
    assert kappa_of(np.ones(20_000), c) == pytest.approx(math.sqrt(0.8), rel=0.02)
    assert kappa_of(np.zeros(20_000), c) == 0.2, "no residual at all says nothing"
    assert kappa_of(noise[:2], c[:2]) == 0.2, "nor do two rows"


def test_the_size_of_residuals_is_that_beyond_M_and_a_little_of_all():
    """A thousand rows of weight 1 and residual ±1; five of weight 50 and residual ±3."""
    c = np.repeat([1.0, 50.0], [1000, 5])
    residual = np.where(c > 1.0, 3.0, 1.0) * np.resize([1.0, -1.0], 1005)
    bins = bins_of(residual, c)
    j = int(np.searchsorted(GRID, 10.0))
    M = GRID[j]
    everywhere = (1000.0 + 5 * M * 9.0) / (1000.0 + 5 * M)
    assert residual_size(bins)[j] ** 2 == pytest.approx((5 * 9.0 + 10.0 * everywhere) / 15.0)
    assert mean_residual(bins)[j] == pytest.approx(residual[-5:].mean())
    assert residual_size(bins)[-1] ** 2 == pytest.approx((1000.0 + 250 * 9.0) / 1250.0)
