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

from offpolicy._core.moments import Moments
from offpolicy.errors import ParameterError
from offpolicy.intervals import bootstrap as module
from offpolicy.intervals._closed_form import EVERYTHING, normal
from offpolicy.intervals.bootstrap import (
    PoissonBootstrap,
    bootstrap,
    bootstrap_groups,
    empirical_likelihood,
    poisson_bootstrap,
)
from tests.support.limits import limit

values = st.lists(
    st.sampled_from([0.0, 0.0, 1.0, -1.0, 1e-9, 1e6, 1e12]) | st.floats(-10, 10),
    min_size=1,
    max_size=30,
)
METHODS = {
    "percentile": lambda x, level: bootstrap(x, level, resamples=200),
    "bca": lambda x, level: bootstrap(x, level, kind="bca", resamples=200),
    "groups": lambda x, level: of_groups(x, level, resamples=200),
    "poisson": lambda x, level: poisson_bootstrap([x], level, resamples=200),
    "likelihood": empirical_likelihood,
}


def of_groups(x, level, **options):
    """Every row a group of its own."""
    x = np.asarray(x, dtype=float)
    moments = Moments.of(x[None, :], group=np.arange(len(x)), groups=len(x))
    return bootstrap_groups(
        moments.group_weight, moments.group_total[:, 0], float(moments.mean[0]), level, **options
    )


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
    found = {
        "groups": lambda: of_groups(x, 0.9, resamples=4000),
        "likelihood": lambda: empirical_likelihood(x, 0.9),
        "poisson": lambda: poisson_bootstrap([x], 0.9, resamples=4000),
    }.get(name, lambda: bootstrap(x, 0.9, kind=name, resamples=4000))()
    # The quantiles of 4,000 replicates are off by 0.03 standard errors, one of which is 0.022.
    assert found == pytest.approx(expected, abs=0.0035)


@pytest.mark.parametrize("name", ["percentile", "bca", "groups", "poisson"])
def test_seeds_decide(name):
    def run(seed):
        return {
            "groups": lambda: of_groups(skewed(), 0.9, seed=seed),
            "poisson": lambda: poisson_bootstrap([skewed()], 0.9, seed=seed),
        }.get(name, lambda: bootstrap(skewed(), 0.9, kind=name, seed=seed))()

    assert run(3) == run(3)
    assert run(3) != run(4)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, math.nan])
@pytest.mark.parametrize("name", METHODS)
def test_levels_out_of_range_are_refused(name, level):
    with pytest.raises(ParameterError, match="it is the coverage asked for, between 0 and 1"):
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


def test_distinct_values_are_drawn_by_their_counts(monkeypatch):
    x = np.random.default_rng(0).integers(0, 3, 1000).astype(float)
    short = bootstrap(x, 0.9, resamples=20_000)
    assert module._distinct(x, None)[1].sum() == 1000
    limit(monkeypatch, "offpolicy.intervals.bootstrap._TIES", 10**9)
    assert module._distinct(x, None)[1] is None
    long = bootstrap(x, 0.9, resamples=20_000)
    # Means of 1,000 whole numbers: steps of 0.001.
    assert short == pytest.approx(long, abs=0.0021)


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


# -- groups -------------------------------------------------------------------------------------


def test_groups_equal_a_loop():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 20, 300)
    x = rng.normal(size=300) + rng.normal(size=20)[group]
    weight = rng.uniform(0.5, 2.0, 300)
    moments = Moments.of(x[None, :], weight, group, groups=25)
    found = bootstrap_groups(
        moments.group_weight, moments.group_total[:, 0], float(moments.mean[0]), 0.9,
        resamples=20_000,
    )  # fmt: skip
    means = []
    for _ in range(5000):
        rows = np.concatenate([np.flatnonzero(group == g) for g in rng.integers(0, 20, 20)])
        means.append(np.average(x[rows], weights=weight[rows]))
    spread = math.sqrt(moments.variance_of(np.ones(1)))
    assert found == pytest.approx(np.quantile(means, [0.05, 0.95]), abs=0.08 * spread)


def test_one_group_says_nothing():
    assert bootstrap_groups([0.0, 5.0], [0.0, 0.0], 1.0, 0.9) == EVERYTHING


# -- streams ------------------------------------------------------------------------------------


def test_poisson_counts_are_poisson():
    """Of a row beside a great many others, each replicate's count shows in the mean."""
    one = PoissonBootstrap.of([1.0], block=0, resamples=20_000)
    share = [(one.weight == k).mean() for k in range(4)]
    expected = [math.exp(-1) / math.factorial(k) for k in range(4)]
    assert share == pytest.approx(expected, abs=0.012)
    many = PoissonBootstrap.of(skewed(), block=0, resamples=20_000)
    assert many.weight.mean() == pytest.approx(40, abs=0.15)
    assert many.weight.var() == pytest.approx(40, rel=0.05)
    total = many.weight * many.mean
    assert total.mean() == pytest.approx(skewed().sum(), rel=0.01)
    assert total.var() == pytest.approx((skewed() ** 2).sum(), rel=0.05)


def test_poisson_counts_of_distinct_values_are_the_same(monkeypatch):
    x = np.random.default_rng(0).integers(0, 2, 400).astype(float)
    short = PoissonBootstrap.of(x, block=0, resamples=5000)
    limit(monkeypatch, "offpolicy.intervals.bootstrap._TIES", 10**9)
    long = PoissonBootstrap.of(x, block=0, resamples=5000)
    for a, b in [(short.weight, long.weight), (short.mean, long.mean)]:
        assert a.mean() == pytest.approx(b.mean(), rel=0.01)
        assert a.std() == pytest.approx(b.std(), rel=0.06)


def test_weighted_rows_of_a_stream():
    x, weight = skewed(), np.random.default_rng(1).uniform(0.1, 5.0, 40)
    found = poisson_bootstrap([(x[:15], weight[:15]), (x[15:], weight[15:])], 0.9, resamples=10_000)
    rows = bootstrap(x, 0.9, resamples=10_000, row_weight=weight)
    assert found == pytest.approx(rows, abs=0.15 * x.std() / math.sqrt(40))


def test_blocks_join_in_any_grouping():
    parts = [
        PoissonBootstrap.of(block, block=number, resamples=50, seed=3)
        for number, block in enumerate(np.array_split(skewed(), 4))
    ]
    left = ((parts[0] + parts[1]) + parts[2]) + parts[3]
    right = parts[0] + (parts[1] + (parts[2] + parts[3]))
    assert left.rows == right.rows == 40
    np.testing.assert_allclose(left.mean, right.mean, rtol=1e-13)
    np.testing.assert_array_equal(left.weight, right.weight)
    streamed = poisson_bootstrap(np.array_split(skewed(), 4), 0.9, resamples=50, seed=3)
    assert streamed == pytest.approx(left.interval(0.9), rel=1e-12)
    total = sum(part.weight * part.mean for part in parts)
    np.testing.assert_allclose(left.mean, total / left.weight, rtol=1e-12)


def test_empty_blocks_are_passed_over():
    found = poisson_bootstrap([[], skewed(), []], 0.9, resamples=50)
    expected = PoissonBootstrap.of(skewed(), block=1, resamples=50).interval(0.9)
    assert found == expected


def test_blocks_differ_in_their_counts():
    a, b = (PoissonBootstrap.of(skewed(), block=k, resamples=50) for k in (0, 1))
    assert not np.array_equal(a.weight, b.weight)


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
        (lambda: poisson_bootstrap([], 0.9), EMPTY),
        (lambda: poisson_bootstrap([[], []], 0.9), EMPTY),
        (
            lambda: bootstrap_groups([], [], 0.0, 0.9),
            "group_weight is empty: without any row there is no interval.",
        ),
        (
            lambda: bootstrap([1.0, 2.0], 0.9, kind="bcs"),
            'kind is \'bcs\'; it must be "percentile" or "bca". Did you mean "bca"?',
        ),
        (
            lambda: bootstrap([1.0, 2.0], 0.9, resamples=1),
            "resamples is 1; it must be a whole number, 2 or more.",
        ),
        (
            lambda: poisson_bootstrap([[1.0]], 0.9, seed=-1),
            "seed is -1; it must be a whole number, 0 or more.",
        ),
        (
            lambda: PoissonBootstrap.of([1.0], block=-1),
            "block is -1; it must be a whole number, 0 or more.",
        ),
        (
            lambda: bootstrap([1.0, math.inf], 0.9),
            "x, row 1: inf (1 of 2 rows are missing or not finite). Fill these values in or leave "
            "these rows out.",
        ),
        (
            lambda: bootstrap([1.0, 2.0], 0.9, row_weight=[1.0]),
            "row_weight has 1 values and x 2: there must be one of each for every row.",
        ),
        (
            lambda: bootstrap([1.0, 2.0], 0.9, row_weight=[1.0, 0.0]),
            "row_weight, row 1: 0.0. It says how many decisions the row stands for: leave rows of "
            "weight 0 out.",
        ),
        (
            lambda: bootstrap_groups([1.0, 2.0], [0.0], 0.0, 0.9),
            "group_weight has 2 values and group_total 1: there must be one of each for every "
            "group.",
        ),
        (
            lambda: bootstrap_groups([0.0, 0.0], [0.0, 0.0], 0.0, 0.9),
            "group_weight must be 0 or more, and above 0 for some group.",
        ),
        (
            lambda: (
                PoissonBootstrap.of([1.0], block=0, resamples=5)
                + PoissonBootstrap.of([1.0], block=1, resamples=6)
            ),
            "5 replicates cannot be joined with 6: use the same number of resamples for all "
            "blocks.",
        ),
    ],
)
def test_refusals_say_what_is_wrong(call, text):
    with pytest.raises(ParameterError) as caught:
        call()
    assert str(caught.value) == text
