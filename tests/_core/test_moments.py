"""Moments merge exactly, keep their digits, and equal the textbook."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpolicy._core.moments import Moments, merged
from offpolicy.errors import ParameterError
from offpolicy.intervals._closed_form import Interval, normal, normal_quantile
from tests.support.refusals import refuses


def test_equals_the_textbook():
    x = np.random.default_rng(0).normal(size=(3, 50))
    m = Moments.of(x)
    np.testing.assert_allclose(m.mean, x.mean(axis=1), rtol=1e-14)
    np.testing.assert_allclose(m.covariance(), np.cov(x) / 50, rtol=1e-12)
    np.testing.assert_allclose(m.sum_of_squares(), (x * x).sum(axis=1), rtol=1e-12)
    assert (m.low == x.min(axis=1)).all()
    assert (m.high == x.max(axis=1)).all()


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 30), min_size=1, max_size=6),
    st.sampled_from([0.0, 1e8, -1e9]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_parts_merge_to_the_whole(seed, sizes, offset, weighted, grouped, diagonal):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    x = offset + rng.normal(size=(2, n))
    weight = rng.uniform(0.1, 5.0, n) if weighted else None
    group = rng.integers(0, 7, n) if grouped else None
    bounds = np.concatenate([[0], np.cumsum(sizes)])

    def of(start: int, stop: int) -> Moments:
        return Moments.of(
            x[:, start:stop],
            None if weight is None else weight[start:stop],
            None if group is None else group[start:stop],
            groups=7,
            diagonal=diagonal,
        )

    parts = [of(a, b) for a, b in itertools.pairwise(bounds)]
    whole = of(0, n)
    both = merged(parts)
    assert both.count == n
    scale = max(abs(offset), 1.0)
    np.testing.assert_allclose(both.mean, whole.mean, rtol=0, atol=1e-14 * scale)
    if n > 1 and not (grouped and len(np.unique(group)) == 1):
        np.testing.assert_allclose(
            both.covariance(), whole.covariance(), rtol=1e-6, atol=1e-14 * scale
        )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_compiled_moments_agree(weighted, offset):
    from offpolicy.evidence._candidate_kernels import grid_moments

    rng = np.random.default_rng(3)
    x = offset + rng.normal(size=(5, 400))
    weight = rng.uniform(0.5, 2.0, 400) if weighted else None
    plain = Moments.of(x, weight, diagonal=True)
    mean, cross, second, low, high = sums = np.zeros((5, 5))
    low[:], high[:] = np.inf, -np.inf
    grid_moments(np.ascontiguousarray(x.T), np.empty(0) if weight is None else weight, *sums)
    for name, found in (("mean", mean), ("low", low), ("high", high)):
        np.testing.assert_allclose(found, getattr(plain, name), rtol=1e-13)
    np.testing.assert_allclose(second, plain.second, rtol=1e-10)
    np.testing.assert_allclose(cross, plain.cross, atol=1e-9 * max(offset, 1.0))


@pytest.mark.parametrize("mu", [1e8, 1e9])
def test_variance_of_a_large_mean(mu):
    """Σx² − (Σx)²/n gives 0 or 268 here; the truth is 1."""
    x = mu + np.random.default_rng(0).normal(size=(1, 100_000))
    parts = [Moments.of(x[:, k : k + 1000]) for k in range(0, 100_000, 1000)]
    assert merged(parts).covariance()[0, 0] * 100_000 == pytest.approx(1.0, rel=0.02)


def test_one_row_and_one_group_have_an_unknown_spread():
    assert np.isinf(Moments.of(np.array([[3.0]])).covariance()).all()
    grouped = Moments.of(np.array([[3.0, 4.0]]), group=np.array([2, 2]), groups=4)
    assert np.isinf(grouped.covariance()).all()


def test_delta_method_is_a_quadratic_form():
    x = np.random.default_rng(0).normal(size=(3, 50))
    m = Moments.of(x)
    slope = np.array([1.0, -2.0, 0.0])
    assert m.variance_of(slope) == pytest.approx(slope @ np.cov(x) @ slope / 50, rel=1e-12)


def test_normal_interval():
    assert normal_quantile(0.95) == pytest.approx(1.959963984540054, rel=1e-12)
    interval = normal(2.0, 0.5, 0.95)
    assert interval == pytest.approx((2 - 0.9799819923, 2 + 0.9799819923))
    assert interval.width == pytest.approx(2 * 0.9799819923)
    assert 2.5 in interval
    assert 5 not in interval
    assert "x" not in interval
    assert normal(2.0, math.inf, 0.95) == Interval(-math.inf, math.inf)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -1, math.nan])
def test_levels_out_of_range_are_refused(level):
    with refuses(ParameterError, "level"):
        normal_quantile(level)
