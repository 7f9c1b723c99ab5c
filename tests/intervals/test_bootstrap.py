"""The bootstrap and empirical likelihood: against references, at odd inputs, and by simulation."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from offpolicy.errors import ParameterError
from offpolicy.intervals._bootstrap_kernels import (
    COLUMNS,
    STRETCH,
    add_draws,
    add_draws_by_numpy,
)
from offpolicy.intervals._closed_form import EVERYTHING, normal
from offpolicy.intervals.bootstrap import bootstrap, bootstrap_together, empirical_likelihood
from tests.support.limits import limit
from tests.support.refusals import refuses

values = st.lists(
    st.sampled_from([0.0, 0.0, 1.0, -1.0, 1e-9, 1e6, 1e12]) | st.floats(-10, 10),
    min_size=1,
    max_size=30,
)
METHODS = {
    "percentile": lambda x, level: bootstrap(x, level, resamples=200),
    "bca": lambda x, level: bootstrap(x, level, kind="bca", resamples=200),
    "likelihood": empirical_likelihood,
}


def skewed(seed=0, n=40):
    return np.random.default_rng(seed).lognormal(0, 1, n)


# -- for all of them ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
@given(x=values, level=st.floats(0.05, 0.97))
@settings(max_examples=60, deadline=None)
def test_odd_rows(name, x, level):
    interval = METHODS[name](x, level)
    reach = 1e-9 * max(map(abs, x))
    if len(x) == 1:
        assert interval == EVERYTHING
        return
    assert min(x) - reach <= interval.low <= interval.high <= max(x) + reach
    wider = METHODS[name](x, level + 0.02)
    assert wider.low <= interval.low + reach
    assert wider.high >= interval.high - reach


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("value", [0.0, 0.1, -1e9])
def test_equal_rows(name, value):
    assert METHODS[name]([value] * 7, 0.95) == pytest.approx((value, value), rel=1e-12)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("shift", "scale"), [(0.0, 3.0), (1e6, 1.0), (-5.0, 1e-9), (0.0, 1e150)])
def test_shift_and_scale(name, shift, scale):
    plain = METHODS[name](skewed(), 0.9)
    moved = METHODS[name](shift + scale * skewed(), 0.9)
    assert moved == pytest.approx([shift + scale * end for end in plain], rel=1e-8)


@pytest.mark.parametrize("name", METHODS)
def test_many_rows_give_the_normal_interval(name):
    x = np.random.default_rng(0).normal(3.0, 1.0, 2000)
    expected = normal(x.mean(), x.std(ddof=1) / math.sqrt(2000), 0.9)
    if name == "likelihood":
        found = empirical_likelihood(x, 0.9)
    else:
        found = bootstrap(x, 0.9, kind=name, resamples=4000)
    # The quantiles of 4,000 replicates are off by 0.03 standard errors, one of which is 0.022.
    assert found == pytest.approx(expected, abs=0.0035)


@pytest.mark.parametrize("kind", ["percentile", "bca"])
def test_seeds_decide(kind):
    first, again, other = (bootstrap(skewed(), 0.9, kind=kind, seed=seed) for seed in (3, 3, 4))
    assert first == again != other


@pytest.mark.parametrize("level", [0.0, 1.0, 95, math.nan])
@pytest.mark.parametrize("name", METHODS)
def test_levels_out_of_range_are_refused(name, level):
    with refuses(ParameterError, "level"):
        METHODS[name]([1.0, 2.0], level)


# -- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["percentile", "BCa"])
def test_rows_equal_scipy(kind):
    x = skewed()
    theirs = scipy.stats.bootstrap(
        (x,), np.mean, n_resamples=40_000, method=kind, confidence_level=0.9, rng=1
    ).confidence_interval
    ours = bootstrap(x, 0.9, kind=kind.lower(), resamples=40_000, seed=2)
    spread = x.std() / math.sqrt(len(x))
    assert ours == pytest.approx(tuple(theirs), abs=0.05 * spread)


@pytest.mark.parametrize("kind", ["percentile", "BCa"])
def test_ratios_equal_scipy(kind):
    x, weight = skewed(), np.random.default_rng(1).uniform(0.1, 5.0, 40)

    def ratio(x, weight, axis):
        return (x * weight).sum(axis=axis) / weight.sum(axis=axis)

    theirs = scipy.stats.bootstrap(
        (x, weight), ratio, n_resamples=40_000, method=kind, confidence_level=0.9, paired=True,
        rng=1,
    ).confidence_interval  # fmt: skip
    ours = bootstrap(x, 0.9, kind=kind.lower(), resamples=40_000, seed=2, row_weight=weight)
    assert ours == pytest.approx(tuple(theirs), abs=0.05 * x.std() / math.sqrt(40))


def test_equal_weights_are_none():
    ours = bootstrap(skewed(), 0.9, kind="bca", row_weight=np.full(40, 3.0))
    assert ours == pytest.approx(bootstrap(skewed(), 0.9, kind="bca"), rel=1e-9)


@pytest.mark.parametrize("kind", ["percentile", "BCa"])
def test_clusters_equal_their_sums(kind):
    """Clusters are drawn as wholes: what they hold together, by their number of rows."""
    x = skewed(n=90)
    cluster = np.random.default_rng(3).integers(0, 30, 90)
    sums, sizes = np.bincount(cluster, x), np.bincount(cluster)
    filled = sizes > 0
    theirs = scipy.stats.bootstrap(
        (sums[filled], sizes[filled]), lambda s, m, axis: s.sum(axis) / m.sum(axis), paired=True,
        n_resamples=40_000, method=kind, confidence_level=0.9, rng=1,
    ).confidence_interval  # fmt: skip
    named = np.array([f"user {k}" for k in cluster])
    ours = bootstrap(x, 0.9, kind=kind.lower(), resamples=40_000, seed=2, cluster=named)
    assert ours == pytest.approx(tuple(theirs), abs=0.05 * x.std() / math.sqrt(30))


def test_one_cluster_says_nothing_and_wrong_lengths_are_refused():
    assert bootstrap(skewed(), 0.9, cluster=np.zeros(40)) == EVERYTHING
    with refuses(ParameterError, "cluster"):
        bootstrap(skewed(), 0.9, cluster=np.zeros(39))


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2.0, 40)])
def test_columns_share_their_draws(weight):
    columns = [skewed(0), skewed(1), skewed(2) * 1e-6, skewed(3) + 1e6, np.ones(40)]
    together = bootstrap_together(columns, 0.9, kind="bca", row_weight=weight)
    for column, interval in zip(columns, together, strict=True):
        alone = bootstrap(column, 0.9, kind="bca", row_weight=weight)
        assert interval == pytest.approx(alone, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([1, 2, 3, 100, STRETCH - 1, STRETCH]), st.integers(0, 2**64 - 1),
       st.lists(st.integers(0, 9), min_size=1, max_size=6))  # fmt: skip
def test_the_loop_draws_what_numpy_draws(size, state, counts):
    rows = np.random.default_rng(0).normal(size=(size, COLUMNS))
    states = np.full(len(counts), state, dtype=np.uint64)
    loop, numpy = np.zeros((2, len(counts), COLUMNS))
    add_draws(rows, np.array(counts), states, loop)
    add_draws_by_numpy(rows, np.array(counts), states, numpy)
    np.testing.assert_allclose(loop, numpy, atol=1e-12)


@pytest.mark.parametrize("size", [5, 3000, STRETCH])
def test_every_row_is_as_likely(size):
    counts, many = np.zeros((1, COLUMNS)), 200 * size
    place = np.zeros((size, COLUMNS))
    times = np.empty(size)
    for k in range(0, size, COLUMNS):
        place[:] = 0.0
        width = min(COLUMNS, size - k)
        place[k + np.arange(width), np.arange(width)] = 1.0
        counts[:] = 0.0
        add_draws(place, np.array([many]), np.array([7], dtype=np.uint64), counts)
        times[k : k + width] = counts[0, :width]
        if k > 400:
            break
    seen = times[: k + width]
    spread = float(((seen - 200.0) ** 2 / 200.0).sum())
    assert scipy.stats.chi2(len(seen)).sf(spread) > 1e-4


def test_threads_and_compiling_change_nothing(monkeypatch):
    x = skewed(n=STRETCH + 1000)
    by_numpy = bootstrap(x, 0.9, resamples=300)
    limit(monkeypatch, "offpolicy.intervals.bootstrap._FEW", 0)
    compiled = bootstrap(x, 0.9, resamples=300)
    assert compiled == pytest.approx(by_numpy, rel=1e-12)
    alone = lambda function, makers: (function(make()) for make in makers)  # noqa: E731
    limit(monkeypatch, "offpolicy._core.parallel.each_block", alone)
    assert bootstrap(x, 0.9, resamples=300) == compiled


def test_memory_is_that_of_one_resample():
    x = skewed(n=2**18)
    tracemalloc.start()
    bootstrap(x, 0.9, resamples=20, row_weight=np.ones(len(x)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * x.nbytes


def test_bca_leans_to_the_skew():
    x = skewed()
    plain, corrected = bootstrap(x, 0.9), bootstrap(x, 0.9, kind="bca")
    assert corrected.low > plain.low
    assert corrected.high > plain.high


def test_bca_takes_all_where_the_skew_is_beyond_its_correction():
    """One row is nearly everything: 1 − a(b + z) is negative, and the largest mean is the end."""
    x = np.append(np.linspace(0.0, 1e-3, 20), 1e3)
    low, high = bootstrap(x, 1.0 - 1e-11, kind="bca", resamples=200)
    assert low >= 0.0
    assert high == pytest.approx(bootstrap(x, 1.0 - 1e-11, resamples=200).high)


# -- empirical likelihood -----------------------------------------------------------------------


def slow_likelihood_ratio(x, m):
    """−2 log of the likelihood ratio of the mean m, by root finding on the multiplier."""
    d = x - m
    low, high = -1 / d.max(), -1 / d.min()
    inner = 1e-10 * (high - low)
    root = scipy.optimize.brentq(
        lambda lam: (d / (1 + lam * d)).sum(), low + inner, high - inner, xtol=1e-14
    )
    return 2 * np.log1p(root * d).sum()


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("n", [3, 10, 300])
def test_likelihood_equals_a_slow_search(level, n):
    x = skewed(n=n)
    goal = scipy.stats.chi2.ppf(level, 1)
    interval = empirical_likelihood(x, level)
    assert slow_likelihood_ratio(x, interval.low) == pytest.approx(goal, rel=1e-6)
    assert slow_likelihood_ratio(x, interval.high) == pytest.approx(goal, rel=1e-6)
    assert x.mean() in interval


def test_likelihood_of_a_coin_is_binomial():
    """With 0 and 1 only it is the likelihood ratio of the binomial distribution."""
    n, k = 50, 3
    interval = empirical_likelihood([1.0] * k + [0.0] * (n - k), 0.95)
    for p in interval:
        ratio = k * math.log(k / n / p) + (n - k) * math.log((n - k) / n / (1 - p))
        assert 2 * ratio == pytest.approx(scipy.stats.chi2.ppf(0.95, 1), rel=1e-9)


@pytest.mark.parametrize("outlier", [1e6, 1e9, 1e150, 1e307])
def test_likelihood_with_a_huge_outlier(outlier):
    """As of a coin that came up once: the others are as good as 0."""
    x = np.array([*[1.0, 2.0] * 50, outlier])
    interval = empirical_likelihood(x, 0.95)
    coin = empirical_likelihood([*[0.0] * 100, 1.0], 0.95)
    assert interval == pytest.approx([outlier * end for end in coin], rel=0.01)


def test_likelihood_covers_for_large_n():
    rng = np.random.default_rng(0)
    repeats = 1500
    missed = sum(
        1.0 not in empirical_likelihood(rng.exponential(size=300), 0.9) for _ in range(repeats)
    )
    # Nominally 150; its standard deviation is 12, and n = 300 is not yet infinite.
    assert 110 < missed < 195


# -- refusals -----------------------------------------------------------------------------------

EMPTY = "x is empty: without any row there is no interval."


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: bootstrap([], 0.9), EMPTY),
        (lambda: empirical_likelihood([], 0.9), EMPTY),
        (
            lambda: bootstrap([1.0, 2.0], 0.9, kind="bcs"),
            'kind is \'bcs\'; it must be "percentile" or "bca". Did you mean "bca"?',
        ),
        (
            lambda: bootstrap([1.0, 2.0], 0.9, resamples=1),
            "resamples is 1; it must be a whole number, 2 or more.",
        ),
        (
            lambda: bootstrap([1.0], 0.9, seed=-1),
            "seed is -1; it must be a whole number, 0 or more.",
        ),
        (
            lambda: bootstrap([1.0, math.inf], 0.9),
            "x, row 1: inf (1 of 2 rows are missing or not finite). Fill these values in or leave "
            "these rows out. Rows are counted from 0.",
        ),
        (
            lambda: bootstrap([1.0, 2.0], 0.9, row_weight=[1.0]),
            "row_weight has 1 values and x 2: there must be one of each for every row.",
        ),
        (
            lambda: bootstrap([1.0, 2.0], 0.9, row_weight=[1.0, 0.0]),
            "row_weight, row 1: 0.0. It says how many decisions the row stands for: leave rows of "
            "weight 0 out. Rows are counted from 0.",
        ),
    ],
)
def test_refusals_say_what_is_wrong(call, text):
    with pytest.raises(ParameterError) as caught:
        call()
    assert str(caught.value) == text
