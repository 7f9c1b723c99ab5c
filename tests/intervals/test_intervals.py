"""Intervals from a few numbers: against the textbook, at their limits, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from offpolicy.errors import ParameterError
from offpolicy.intervals._closed_form import (
    EVERYTHING,
    bernstein,
    bias_aware,
    empirical_bernstein,
    hoeffding,
    normal,
    normal_quantile,
    student_t,
    t_quantile,
)
from tests.support.refusals import refuses

LEVELS = [0.01, 0.5, 0.9, 0.95, 0.99, 1 - 1e-6, 1 - 1e-11]
FROM_MOMENTS = {
    "hoeffding": lambda level, n=50: hoeffding(0.3, n, 0.0, 1.0, level),
    "bernstein": lambda level, n=50: bernstein(0.3, n, 0.1, 0.0, 1.0, level),
    "empirical": lambda level, n=50: empirical_bernstein(0.3, n, 0.1, 0.0, 1.0, level),
}


def most_misses(repeats: int, rate: float) -> int:
    """More misses than this happen with probability 1% or less, if the rate is as stated."""
    return int(scipy.stats.binom.isf(0.01, repeats, rate))


# -- an estimate that may be biased -------------------------------------------------------------


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("ratio", [0.0, 1e-9, 0.01, 0.3, 1.0, 2.5, 8.0, 1e6])
@pytest.mark.parametrize("degrees", [1.0, 3.0, 50.0, math.inf])
def test_bias_aware_is_the_quantile_of_a_folded_normal(level, ratio, degrees):
    """Of |N(b/se, 1)|, times Student's t over the normal quantile."""
    found = bias_aware(2.0, 2.0 * ratio, level, degrees)
    z = found / 2.0 * normal_quantile(level) / t_quantile(level, degrees)
    for nudged, side in ((z * (1 - 1e-9) - 1e-9, -1), (z * (1 + 1e-9) + 1e-9, 1)):
        covered = scipy.stats.norm.cdf(nudged - ratio) - scipy.stats.norm.cdf(-nudged - ratio)
        assert side * (covered - level) > 0.0


def test_limits_of_bias_aware():
    t, one_sided = t_quantile(0.95, 7.0), normal_quantile(0.9)
    assert bias_aware(2.0, 0.0, 0.95, 7.0) == pytest.approx(2.0 * t)
    assert bias_aware(2.0, 1e-12, 0.95, 7.0) == pytest.approx(2.0 * t)
    # Far off only one end can miss.
    assert bias_aware(1.0, 50.0, 0.95) == pytest.approx(50.0 + one_sided, rel=1e-10)
    assert bias_aware(0.0, 0.3, 0.95, 5.0) == 0.3
    assert bias_aware(0.0, 0.0, 0.95, 5.0) == 0.0
    assert bias_aware(1e-300, 1.0, 0.95) == pytest.approx(1.0)
    for bad in ((math.inf, 0.0), (1.0, math.inf), (math.nan, 1.0), (1.0, math.nan)):
        assert bias_aware(*bad, 0.95) == math.inf
    with refuses(ParameterError, "level"):
        bias_aware(1.0, 1.0, 1.5)


@given(st.floats(0.0, 1e6), st.floats(1e-6, 1e6), st.floats(0.5, 0.999))
@settings(max_examples=100, deadline=None)
def test_more_bias_or_noise_is_never_narrower(bias, stderr, level):
    half = bias_aware(stderr, bias, level)
    assert bias_aware(stderr, 1.1 * bias + 1e-6, level) > half * (1.0 - 1e-12)
    assert bias_aware(1.1 * stderr, bias, level) > half * (1.0 - 1e-12)
    assert max(bias, stderr * normal_quantile(level) * (1 - 1e-9)) <= half
    assert half <= (bias + stderr * normal_quantile(level)) * (1 + 1e-9)
    assert bias_aware(3.0 * stderr, 3.0 * bias, level) == pytest.approx(3.0 * half)


def test_bias_aware_covers_whatever_the_bias_up_to_the_largest():
    """20,000 draws: 0.9 within 4 standard errors, 0.0085, at the largest bias, and above within."""
    noise, half = np.random.default_rng(0).standard_normal(20_000), bias_aware(1.0, 0.7, 0.9)
    for bias in (-0.7, -0.3, 0.0, 0.7):
        covered = np.mean(np.abs(noise + bias) <= half)
        assert covered > 0.9 - 0.0085
        if abs(bias) == 0.7:
            assert covered < 0.9 + 0.0085


# -- Student's t --------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "degrees", [0.2, 0.5, 1, 1.5, 2, 3, 7, 30, 99, 255, 500.5, 999.9, 1000, 4321, 1e6, 1e12]
)
def test_t_quantile_equals_scipy(level, degrees):
    found = t_quantile(level, degrees)
    assert found == pytest.approx(scipy.stats.t.isf((1 - level) / 2, degrees), rel=1e-10)


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [
        (1, lambda p: math.tan(math.pi * (p - 0.5))),
        (2, lambda p: (2 * p - 1) / math.sqrt(2 * p * (1 - p))),
    ],
)
@given(level=st.floats(1e-3, 0.999999))
@settings(max_examples=50, deadline=None)
def test_t_quantile_has_closed_forms(degrees, quantile, level):
    assert t_quantile(level, degrees) == pytest.approx(quantile(0.5 + level / 2), rel=1e-8)


def test_t_interval():
    low, high = student_t(2.0, 0.5, 0.95, 9)
    assert (low, high) == pytest.approx(
        (2 - 0.5 * 2.2621571627409915, 2 + 0.5 * 2.2621571627409915)
    )
    assert student_t(2.0, 0.0, 0.95, 9) == (2.0, 2.0)
    assert student_t(2.0, math.inf, 0.95, 0) == EVERYTHING
    assert student_t(2.0, 1.0, 0.95, math.inf) == pytest.approx(normal(2.0, 1.0, 0.95), rel=1e-12)


def test_t_beyond_all_numbers_is_infinite():
    assert t_quantile(0.95, 1e-3) == math.inf
    assert student_t(0.0, 1.0, 0.95, 1e-3) == EVERYTHING
    assert student_t(0.0, 0.0, 0.95, 1e-3) == (0.0, 0.0)


@given(st.floats(0.1, 2000), st.floats(0.01, 0.99), st.floats(1.001, 3))
@settings(max_examples=100, deadline=None)
def test_t_falls_with_the_degrees_to_the_normal(degrees, level, factor):
    wide, narrow = t_quantile(level, degrees), t_quantile(level, degrees * factor)
    assert wide > narrow > normal_quantile(level) * (1 - 1e-9)


# -- bounded contributions ----------------------------------------------------------------------


def test_bounded_intervals_equal_their_formulas():
    assert hoeffding(0.3, 50, -1.0, 2.0, 0.9) == pytest.approx(
        (0.3 - 3 * math.sqrt(math.log(20) / 100), 0.3 + 3 * math.sqrt(math.log(20) / 100))
    )
    half = math.sqrt(2 * 0.2 * math.log(20) / 50) + 3 * math.log(20) / 150
    assert bernstein(0.3, 50, 0.2, -1.0, 2.0, 0.9) == pytest.approx((0.3 - half, 0.3 + half))
    half = math.sqrt(2 * 0.2 * math.log(40) / 50) + 7 * 3 * math.log(40) / (3 * 49)
    found = empirical_bernstein(0.3, 50, 0.2, -1.0, 2.0, 0.9)
    assert found == pytest.approx((0.3 - half, 0.3 + half))


def test_one_row():
    assert hoeffding(0.3, 1, 0.0, 1.0, 0.95).width > 2.0
    assert bernstein(0.3, 1, 0.1, 0.0, 1.0, 0.95).width > 2.0
    assert empirical_bernstein(0.3, 1, 0.0, 0.0, 1.0, 0.95) == EVERYTHING


@pytest.mark.parametrize("name", FROM_MOMENTS)
def test_wider_at_higher_levels_and_narrower_with_more_rows(name):
    interval = FROM_MOMENTS[name]
    widths = [interval(level).width for level in LEVELS]
    assert widths == sorted(widths)
    assert len(set(widths)) == len(widths)
    assert interval(0.95, 51).width < interval(0.95, 50).width
    assert 0.3 in interval(0.01)


@given(
    st.floats(0.0, 1.0),
    st.integers(1, 10**9),
    st.floats(0.0, 0.25),
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e6),
)
@settings(max_examples=100, deadline=None)
def test_shift_and_scale(mean, n, variance, shift, scale):
    low, high = shift, shift + scale
    tolerance = 1e-9 * (abs(shift) + scale)
    for make, spread in [
        (hoeffding, []),
        (bernstein, [variance]),
        (empirical_bernstein, [variance]),
    ]:
        plain = make(mean, n, *spread, 0.0, 1.0, 0.95)
        moved = make(shift + scale * mean, n, *(scale * scale * v for v in spread), low, high, 0.95)
        assert moved.low <= moved.high
        if plain != EVERYTHING:
            assert moved.width == pytest.approx(scale * plain.width, rel=1e-9, abs=tolerance)


@pytest.mark.parametrize("method", ["hoeffding", "bernstein", "empirical_bernstein"])
def test_bounded_intervals_are_valid_for_rare_rewards(method):
    """x is 1 with probability 1%: at n = 60, the normal interval misses half of the time."""
    rng = np.random.default_rng(0)
    repeats, n, p = 4000, 60, 0.01
    successes = rng.binomial(n, p, repeats)
    missed = 0
    for k in successes.tolist():
        mean, s2 = k / n, k * (n - k) / n / (n - 1)
        spread = {"hoeffding": [], "bernstein": [p * (1 - p)], "empirical_bernstein": [s2]}[method]
        make = {"hoeffding": hoeffding, "bernstein": bernstein}.get(method, empirical_bernstein)
        missed += p not in make(mean, n, *spread, 0.0, 1.0, 0.9)
    assert missed <= most_misses(repeats, 0.1)


# -- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -1, math.nan, "0.95"])
@pytest.mark.parametrize("name", [*FROM_MOMENTS, "student_t", "t_quantile"])
def test_levels_out_of_range_are_refused(name, level):
    make = FROM_MOMENTS.get(name) or {
        "student_t": lambda level: student_t(0.0, 1.0, level, 5),
        "t_quantile": lambda level: t_quantile(level, 5),
    }.get(name)
    with refuses(ParameterError, "level"):
        make(level)


@pytest.mark.parametrize("n", [0, -3, 2.5])
@pytest.mark.parametrize("name", FROM_MOMENTS)
def test_without_rows_there_is_no_interval(name, n):
    expected = f"n is {n}; it is the number of rows, 1 or more: without any there is no interval."
    with pytest.raises(ParameterError) as caught:
        FROM_MOMENTS[name](0.95, n)
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: t_quantile(0.95, 0), "degrees is 0; degrees of freedom must be above 0."),
        (lambda: t_quantile(0.95, math.nan), "degrees is nan; degrees of freedom must be above 0."),
        (
            lambda: hoeffding(0.5, 10, 1.0, 1.0, 0.95),
            "low is 1.0 and high is 1.0; they must be finite, the first below the second: no value "
            "may lie outside.",
        ),
        (
            lambda: hoeffding(0.5, 10, 0.0, math.inf, 0.95),
            "low is 0.0 and high is inf; they must be finite, the first below the second: no value "
            "may lie outside.",
        ),
        (
            lambda: hoeffding(1.5, 10, 0.0, 1.0, 0.95),
            "mean is 1.5, outside [0.0, 1.0]: the bounds must hold for every row.",
        ),
        (
            lambda: hoeffding(math.nan, 10, 0.0, 1.0, 0.95),
            "mean is nan, outside [0.0, 1.0]: the bounds must hold for every row.",
        ),
        (
            lambda: bernstein(0.5, 10, -1.0, 0.0, 1.0, 0.95),
            "variance is -1.0; it must be 0 or more.",
        ),
        (
            lambda: empirical_bernstein(0.5, 10, math.nan, 0.0, 1.0, 0.95),
            "sample_variance is nan; it must be 0 or more.",
        ),
    ],
)
def test_refusals_say_what_is_wrong(call, text):
    with pytest.raises(ParameterError) as caught:
        call()
    assert str(caught.value) == text
