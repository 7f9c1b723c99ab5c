"""Betting: fair games, capital that falls in m, and limits that hold at every n."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from offpolicy.errors import ParameterError
from offpolicy.intervals import _capital as module
from offpolicy.intervals._capital import (
    AIM,
    CAP,
    HORIZONS,
    final_capital,
    first_crossing,
    lower_limit,
    side_of,
    stakes,
)
from offpolicy.intervals._closed_form import normal
from offpolicy.intervals.betting import (
    betting,
    betting_bounded,
    confidence_sequence,
    weighted_sequence,
)
from tests.support.limits import limit
from tests.support.refusals import refuses

GOAL = 1.0 / AIM


def low_limit(x, level=0.95):
    """What one side of the game rules out."""
    return lower_limit(np.asarray(x, dtype=float), 1.0 - level)


def test_next_to_no_doubt_rules_out_nothing():
    assert lower_limit(np.array([0.0, 1.0]), 1e-100) > 0.0
    assert lower_limit(np.array([0.0, 1.0]), 1e-300) == 0.0


amounts = st.sampled_from([0.0, 0.0, 1e-6, 0.1, 0.5, 1.0, 1.0, 3.0, 100.0, 1e9]) | st.floats(0, 10)


@pytest.fixture
def compiled(monkeypatch):
    """Everything through the compiled loops, so that simulations are quick."""
    limit(monkeypatch, "offpolicy.intervals._capital.COMPILED", 0)


def most_misses(repeats: int, rate: float) -> int:
    """More misses than this happen with probability 1% or less, if the rate is as stated."""
    return int(scipy.stats.binom.isf(0.01, repeats, rate))


def fixed_n_data(x, weight=None):
    side = side_of(np.array(x), weight)
    left = np.arange(len(x), 0, -1)
    return side, [side.x, side.spread * left, side.prior * left, stakes()]


def sequence_data(x, alpha):
    side = side_of(np.array(x))
    bets = np.sqrt(2 * math.log(1 / alpha) / np.array(HORIZONS))
    return side, [side.x, side.spread, side.prior, bets, np.empty(len(bets))]


def heavy(rng, n, support=1.0):
    """Rare rewards and weights up to 100: (c, r), and the policy's value.

    Half of the policy's probability is on an action that was logged in 0.5% of the decisions;
    with a support below 1, part of the policy's other half is where the log never went.
    """
    rare = rng.random(n) < 0.005
    c = np.where(rare, 100.0, (support - 0.5) / 0.995)
    reward = rng.random(n) < np.where(rare, 0.1, 0.02)
    return c, reward.astype(float), 0.5 * 0.1 + (support - 0.5) * 0.02


# -- the game -----------------------------------------------------------------------------------


def slow_capital(x, m, alpha, weight=None):
    """The game as the docstring tells it, step by step, from the exact normal distribution."""
    standard, n = NormalDist(), len(x)
    v, seen = alpha / AIM, []
    for t, value in enumerate(x, start=1):
        variance = np.var(seen) * len(seen) / t if seen else 0.0
        variance += m * m * (t if not any(seen) else t**-2)
        if weight is not None and any(seen) and t - 1 < n / 8:
            before = weight[: t - 1]
            variance += m * m * t * max(1.0 - np.mean(before), 0.0) ** 2
        price = standard.pdf(standard.inv_cdf(v))
        stake = min(price / max(math.sqrt(variance * (n - t + 1)), 1e-300), CAP * v / m)
        v += stake * (value - m)
        if v >= GOAL:
            break
        seen.append(value)
    return v


@pytest.mark.parametrize("kind", ["coin", "weights", "rare", "constant"])
def test_capital_follows_the_rule(kind):
    rng = np.random.default_rng(3)
    x = {
        "coin": rng.integers(0, 2, 60).astype(float),
        "weights": rng.lognormal(0, 1.5, 60),
        "rare": 50.0 * (rng.random(60) < 0.05),
        "constant": np.full(60, 2.0),
    }[kind]
    side, data = fixed_n_data(x)
    for m in (0.2, 0.5, 0.8, 0.95, 1.0, 1.3):
        found = final_capital(*data, m, 0.05 / AIM, GOAL)
        # Straight lines between the table's points: a stake off by at most 0.6%.
        assert found == pytest.approx(slow_capital(x / x.mean(), m, 0.05), rel=0.03, abs=1e-6)
    assert side.unit == pytest.approx(x.mean(), rel=1e-14)


@pytest.mark.parametrize("rare", [0.02, 0.3])
def test_large_weights_are_waited_for(rare):
    rng = np.random.default_rng(4)
    c = np.where(rng.random(400) < rare, 0.9 / rare, 0.1)
    x = c * (rng.random(400) < 0.7)
    side, data = fixed_n_data(x, c)
    assert (side.prior[50:] == side_of(x).prior[50:]).all()  # an eighth of the rows
    for m in (0.2, 0.5, 0.8, 0.95, 1.1):
        found = final_capital(*data, m, 0.05 / AIM, GOAL)
        expected = slow_capital(x / x.mean(), m, 0.05, c)
        assert found == pytest.approx(expected, rel=0.03, abs=1e-6)


def test_what_is_waited_for_does_not_look_ahead():
    rng = np.random.default_rng(5)
    c = rng.lognormal(-1.0, 1.0, 400)
    changed = np.append(c[:20], c[20:] * rng.lognormal(0.0, 1.0, 380))
    assert (side_of(c, c).prior[:21] == side_of(changed, changed).prior[:21]).all()


def test_weights_whose_squares_are_too_large_to_write():
    low, high = betting([0.5, 1e300, 1.0] * 8, [1.0, 0.0, 1.0] * 8, 0.9)
    assert 0.0 <= low <= high <= 1.0


def test_small_rewards_before_the_first_large_weight_do_not_ruin(compiled):
    """As on page-blocks: nearly all of the policy's value is in one row of 150."""
    rng = np.random.default_rng(6)
    ends = []
    for _ in range(20):
        c = np.where(rng.random(5000) < 1 / 150, 143.0, 0.04)
        reward = (rng.random(5000) < np.where(c > 1.0, 0.8, 0.2)).astype(float)
        ends.append([betting(c, reward, 0.9).low, lower_limit(c * reward, 0.05)])
    with_weights, without = np.mean(ends, axis=0)
    assert with_weights > 0.45 > 0.3 > without  # the value is 0.77


def test_the_table_is_nearly_exact():
    points = np.concatenate([2.0**k * (1 + np.arange(8) / 8) for k in range(-65, 0)])
    v = np.exp(np.linspace(math.log(1e-19), math.log(0.8), 1000))
    exact = scipy.stats.norm.pdf(scipy.stats.norm.ppf(v))
    table = np.interp(v, [*points, 1.0], stakes())
    np.testing.assert_allclose(table, exact, rtol=6e-3)
    assert (table <= exact * (1 + 1e-12)).all()  # chords of a concave function


@pytest.mark.parametrize("p", [0.05, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("top", [1.0, 40.0])
def test_the_game_is_fair(p, top):
    """Over all 2¹⁰ outcomes of ten rows, at the true mean, the mean capital is what was put in."""
    n, alpha = 10, 0.1
    mean_fixed = mean_missed = 0.0
    for outcome in itertools.product([0.0, top], repeat=n):
        wins = sum(value > 0 for value in outcome)
        chance = p**wins * (1 - p) ** (n - wins)
        if wins == 0:
            # Nothing ever came: the variance is that of one row to make up for the wait.
            t = np.arange(n)
            data, unit = [np.zeros(n), np.zeros(n), (t + 1.0) * (n - t), stakes()], 1.0
        else:
            side, data = fixed_n_data(outcome)
            unit = side.unit
        v = final_capital(*data, p * top / unit, alpha / AIM, GOAL)
        mean_fixed += chance * v
        mean_missed += chance * (v >= GOAL)
    assert mean_fixed == pytest.approx(alpha / AIM, rel=1e-9)
    assert mean_missed <= alpha


@given(st.lists(amounts, min_size=1, max_size=40).filter(any), st.floats(0.01, 3), st.data())
@settings(max_examples=300, deadline=None)
def test_capital_falls_as_m_grows(x, m, data):
    factor = data.draw(st.floats(1.0001, 3))
    _, fixed = fixed_n_data(x)
    v = [final_capital(*fixed, k, 0.05 / AIM, GOAL) for k in (m, m * factor)]
    assert min(v[0], GOAL) >= min(v[1], GOAL) * (1 - 1e-12) >= 0.0
    _, all_n = sequence_data(x, 0.05)
    crossings = [first_crossing(*all_n, k, 0.01) for k in (m, m * factor)]
    assert crossings[0] <= crossings[1]


@pytest.mark.parametrize("seed", range(5))
def test_compiled_loops_agree_to_the_bit(seed):
    x = np.random.default_rng(seed).lognormal(0, 2, 300)
    _, fixed = fixed_n_data(x)
    _, all_n = sequence_data(x, 0.05)
    for m in (0.3, 0.6, 0.8, 0.9, 1.0):
        slow = final_capital(*[values.tolist() for values in fixed], m, 0.05 / AIM, GOAL)
        assert module._compiled(final_capital)(*fixed, m, 0.05 / AIM, GOAL) == slow
        later = first_crossing(*[values.tolist() for values in all_n], m, 0.01)
        assert module._compiled(first_crossing)(*all_n, m, 0.01) == later


def test_many_rows_take_the_compiled_way(monkeypatch):
    x = np.random.default_rng(0).lognormal(0, 1, 500)
    plain = low_limit(x), confidence_sequence(x / x.max(), 0, 1, 0.95)
    limit(monkeypatch, "offpolicy.intervals._capital.COMPILED", 500)
    assert low_limit(x) == plain[0]
    limits = confidence_sequence(x / x.max(), 0, 1, 0.95)
    assert all(np.array_equal(a, b) for a, b in zip(limits, plain[1], strict=True))


# -- limits -------------------------------------------------------------------------------------


def test_one_row_is_markov():
    """All that one row can say: P(x ≥ μ/α) ≤ α, but for the share kept back."""
    found = low_limit([7.0])
    assert found == pytest.approx(7 * 0.05 * CAP / (1 - 0.05 * (1 - CAP)), rel=1e-6)


def test_equal_rows():
    """Each row multiplies the capital by 1 + CAP(x − m)/m, until it is 20."""
    found = low_limit([7.0] * 50)
    ceiling = 7 / (1 + (20 ** (1 / 50) - 1) / CAP)
    assert ceiling * 0.98 < found <= ceiling * (1 + 1e-9)
    assert low_limit([0.0] * 50) == 0.0


def test_a_coin_is_near_the_exact_interval():
    rng = np.random.default_rng(0)
    n, tail = 2000, 0.025
    found, exact = [], []
    for _ in range(10):
        x = rng.integers(0, 2, n).astype(float)
        found.append(x.mean() - low_limit(x, 1 - tail))
        exact.append(x.mean() - scipy.stats.beta.ppf(tail, x.sum(), n - x.sum() + 1))
    assert 0.95 < np.mean(found) / np.mean(exact) < 1.15


@given(
    st.lists(amounts, min_size=1, max_size=30),
    st.sampled_from([1e-9, 0.3, 7.0, 1e12]),
)
@settings(max_examples=100, deadline=None)
def test_scale(x, scale):
    x = np.array(x)
    x[x < 1e-9] = 0.0
    plain = low_limit(x)
    assert plain >= 0.0
    assert low_limit(scale * x) == pytest.approx(scale * plain, rel=1e-6)


@given(st.lists(amounts, min_size=1, max_size=30), st.floats(0.01, 0.98))
@settings(max_examples=100, deadline=None)
def test_wider_at_higher_levels(x, level):
    x = np.array(x) / 1e9
    for wide, narrow in [
        (betting_bounded(x, 0.0, 2.0, level + 0.01), betting_bounded(x, 0.0, 2.0, level)),
        (betting(x, x / 2, level + 0.01), betting(x, x / 2, level)),
    ]:
        assert wide.low <= narrow.low + 1e-9
        assert wide.high >= narrow.high - 1e-9
        assert wide.low <= wide.high


@given(
    st.lists(st.tuples(amounts, st.floats(-1, 2)), min_size=1, max_size=30),
    st.floats(0.01, 0.99),
)
@settings(max_examples=100, deadline=None)
def test_intervals_stay_within_the_range(rows, level):
    c, reward = map(np.array, zip(*rows, strict=True))
    interval = betting(c, reward, level, reward_range=(-1.0, 2.0))
    assert -1.0 <= interval.low <= interval.high <= 2.0
    limits = weighted_sequence(c, reward, level, reward_range=(-1.0, 2.0))
    assert (limits.low <= limits.high).all()
    assert (limits.low >= -1.0).all()
    assert (limits.high <= 2.0).all()


def test_rewards_in_another_unit():
    rng = np.random.default_rng(0)
    c, reward = rng.lognormal(-0.5, 1, 300), rng.random(300)
    plain = betting(c, reward, 0.95)
    other = betting(c, 10 * reward - 4, 0.95, reward_range=(-4.0, 6.0))
    assert other == pytest.approx([10 * end - 4 for end in plain], rel=1e-6)
    turned = betting(c, 1 - reward, 0.95)
    assert turned == pytest.approx([1 - plain.high, 1 - plain.low], rel=1e-6)


def test_weights_of_one_are_the_bounded_case():
    x = np.random.default_rng(0).random(300)
    assert betting(np.ones(300), x, 0.9) == pytest.approx(betting_bounded(x, 0, 1, 0.9), rel=1e-9)
    ones = weighted_sequence(np.ones(300), x, 0.9)
    plain = confidence_sequence(x, 0, 1, 0.9)
    np.testing.assert_allclose(ones.low, plain.low, rtol=1e-9)
    np.testing.assert_allclose(ones.high, plain.high, rtol=1e-9)


def test_weights_with_too_large_a_mean_still_give_an_interval():
    """The two limits contradict each other: what lies between them, never low > high."""
    interval = betting(np.full(500, 3.0), np.full(500, 0.5), 0.95)
    assert interval.low < interval.high


def test_no_overlap_says_nothing():
    assert betting(np.zeros(50), np.ones(50), 0.95) == (0.0, 1.0)
    limits = weighted_sequence(np.zeros(50), np.ones(50), 0.95)
    assert (limits.low == 0.0).all()
    assert (limits.high == 1.0).all()


def test_rounding_outside_the_bounds_is_forgiven():
    x = np.array([0.0, 1.0 + 1e-12, -1e-12, 0.5])
    assert betting_bounded(x, 0.0, 1.0, 0.9) == betting_bounded(x.clip(0, 1), 0.0, 1.0, 0.9)


@pytest.mark.parametrize("outlier", [1e6, 1e150, 1e300])
def test_one_huge_row_does_not_carry_the_limit(outlier):
    x = np.random.default_rng(0).random(200)
    plain = low_limit(x)
    x[100] = outlier
    assert 0.0 < low_limit(x) < outlier / 200
    assert low_limit(x) > 0.2 * plain


# -- validity -----------------------------------------------------------------------------------


@pytest.mark.parametrize("support", [1.0, 0.7])
@pytest.mark.parametrize("n", [50, 400])
def test_a_policys_value_is_covered_at_every_n(compiled, n, support):
    """90% intervals. With a support of 0.7, what the log never saw has reward 0, or 1."""
    rng = np.random.default_rng(n)
    repeats = 1000
    low = high = widths = 0
    for _ in range(repeats):
        c, reward, value = heavy(rng, n, support)
        interval = betting(c, reward, 0.9)
        low += interval.low > value
        high += interval.high < value + (1.0 - support)
        widths += interval.width
    assert max(low, high) <= most_misses(repeats, 0.05)
    assert widths / repeats < 1.0


@pytest.mark.parametrize("support", [1.0, 0.7])
def test_a_bound_on_the_weights_keeps_the_cover(compiled, support):
    rng = np.random.default_rng(8)
    repeats, low, high = 1000, 0, 0
    for _ in range(repeats):
        c, reward, value = heavy(rng, 400, support)
        options = {"largest_weight": 100.0, "unanswered": 1.0 - support}
        interval = betting(c, reward, 0.9, **options)
        low += interval.low > value
        high += interval.high < value + (1.0 - support)
    assert max(low, high) <= most_misses(repeats, 0.05)


def test_a_bound_on_the_weights_helps_where_rewards_are_rare(compiled):
    rng = np.random.default_rng(0)
    widths = []
    for _ in range(20):
        c, reward, _ = heavy(rng, 20_000)
        widths.append([betting(c, reward, 0.95, largest_weight=M).width for M in (None, 100.0)])
    plain, bounded = np.mean(widths, axis=0)
    assert bounded < 0.8 * plain


@pytest.mark.parametrize("turned", [False, True])
def test_what_is_unanswered_widens_the_end_that_needs_the_bound(compiled, turned):
    """Rare rewards (or rarely none) and weights of 0.1 or 1.9: one end comes from the bound."""
    rng = np.random.default_rng(0)
    c = rng.permutation(np.tile([0.1, 1.9], 1500))
    reward = (rng.random(3000) < 0.02) * 1.0
    reward = 1.0 - reward if turned else reward

    def end(unanswered):
        interval = betting(c, reward, 0.9, largest_weight=1.9, unanswered=unanswered)
        limits = weighted_sequence(
            c, reward, 0.9, largest_weight=1.9, unanswered=unanswered, times=[3000]
        )
        sides = (interval.low, limits.low[0]) if turned else (interval.high, limits.high[0])
        return np.array(sides)

    move = -0.005 if turned else 0.005
    np.testing.assert_allclose(end(0.005), end(0.0) + move, rtol=1e-9)
    # With all unanswered, what is left is the plain way at half of each tail.
    plain = betting(c, reward, 0.95)
    assert end(1.0)[0] == pytest.approx(plain.low if turned else plain.high, rel=1e-9)
    assert abs(end(1.0) - end(0.0)).min() > 0.01


def test_the_normal_interval_is_not_valid_here():
    """Why all this: at n = 400 it misses a policy's value half of the time."""
    rng = np.random.default_rng(400)
    missed = 0
    for _ in range(500):
        c, reward, value = heavy(rng, 400)
        x = c * reward
        missed += value not in normal(x.mean(), x.std(ddof=1) / 20, 0.9)
    assert missed > 150


@pytest.mark.parametrize("kind", ["coin", "beta", "rare"])
def test_bounded_intervals_cover(compiled, kind):
    rng = np.random.default_rng(5)
    repeats, missed = 1000, [0, 0]
    for _ in range(repeats):
        x, mean = {
            "coin": lambda: (rng.integers(0, 2, 150).astype(float), 0.5),
            "beta": lambda: (rng.beta(1, 9, 150), 0.1),
            "rare": lambda: ((rng.random(150) < 0.01).astype(float), 0.01),
        }[kind]()
        interval = betting_bounded(x, 0.0, 1.0, 0.8)
        missed[0] += interval.low > mean
        missed[1] += interval.high < mean
    assert max(missed) <= most_misses(repeats, 0.1)


def test_a_sequence_is_seldom_ever_wrong(compiled):
    """Over n = 1 … 2,000, rare rewards under heavy weights: wrong even once in 5% at most."""
    rng = np.random.default_rng(6)
    repeats, low, high = 400, 0, 0
    for _ in range(repeats):
        c, reward, value = heavy(rng, 2000)
        limits = weighted_sequence(c, reward, 0.9)
        low += bool((limits.low > value).any())
        high += bool((limits.high < value).any())
    assert max(low, high) <= most_misses(repeats, 0.05)


def test_no_sequence_of_eight_rows_is_ever_wrong_too_often():
    """Exactly, over all outcomes: the share in which the true mean is ruled out at any time."""
    n, p, tail = 8, 0.2, 0.05
    wrong = 0.0
    for outcome in itertools.product([0.0, 1.0], repeat=n):
        limits = confidence_sequence(outcome, 0.0, 1.0, 1 - 2 * tail)
        chance = p ** sum(outcome) * (1 - p) ** (n - sum(outcome))
        wrong += chance * bool((limits.low > p).any())
    assert wrong <= tail


# -- sequences ----------------------------------------------------------------------------------


def test_a_sequence_never_widens_and_is_what_the_crossings_say():
    x = np.random.default_rng(0).random(400)
    limits = confidence_sequence(x, 0.0, 1.0, 0.95)
    assert limits.times.tolist() == list(range(1, 401))
    assert (np.diff(limits.low) >= 0).all()
    assert (np.diff(limits.high) <= 0).all()
    side, data = sequence_data(x, 0.025)
    for after in (20, 100, 400):
        low = limits.low[after - 1]
        assert first_crossing(*data, low * (1 - 1e-6) / side.unit, 0.025 / len(HORIZONS)) <= after
        # The limit is rounded down by at most 1% of its distance to the mean (5% with few rows).
        higher = low + 0.05 * (x.mean() - low)
        assert first_crossing(*data, higher / side.unit, 0.025 / len(HORIZONS)) > after


def test_a_sequence_at_given_times():
    x = np.random.default_rng(0).random(400)
    every = confidence_sequence(x, 0.0, 1.0, 0.95)
    some = confidence_sequence(x, 0.0, 1.0, 0.95, times=[400, 3, 50])
    assert some.times.tolist() == [400, 3, 50]
    assert some.low.tolist() == every.low[[399, 2, 49]].tolist()
    assert some.high.tolist() == every.high[[399, 2, 49]].tolist()


def test_a_sequence_is_not_much_wider_than_the_normal_interval(compiled):
    x = np.random.default_rng(0).integers(0, 2, 5000).astype(float)
    limits = confidence_sequence(x, 0.0, 1.0, 0.95, times=[500, 5000])
    for n, low, high in zip(*limits, strict=True):
        assert 1.2 < (high - low) / normal(0.5, 0.5 / math.sqrt(n), 0.95).width < 2.0


# -- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: betting([], [], 0.95), "c is empty: without any row there is no interval."),
        (
            lambda: betting_bounded([], 0, 1, 0.95),
            "x is empty: without any row there is no interval.",
        ),
        (
            lambda: confidence_sequence([], 0, 1, 0.95),
            "x is empty: without any row there is no interval.",
        ),
        (
            lambda: betting_bounded([1.0, math.nan], 0, 1, 0.95),
            "x, row 1: nan (1 of 2 rows are missing or not finite). Fill these values in or leave "
            "these rows out. Rows are counted from 0.",
        ),
        (
            lambda: betting_bounded([0.5, 1.5], 0.0, 1.0, 0.95),
            "x, row 1: 1.5 (1 of 2 rows are outside [0.0, 1.0]). Rows are counted from 0.",
        ),
        (
            lambda: betting_bounded([0.5], 1.0, 0.0, 0.95),
            "low is 1.0 and high is 0.0; they must be finite, the first below the second: no value "
            "may lie outside.",
        ),
        (
            lambda: betting([1.0, -1.0], [0.0, 0.0], 0.95),
            "c, row 1: -1.0 (1 of 2 rows are below 0: a weight is a ratio of probabilities). Rows "
            "are counted from 0.",
        ),
        (
            lambda: betting([1.0, 1.0], [0.0, 2.0], 0.95),
            "reward, row 1: 2.0 (1 of 2 rows are outside reward_range [0.0, 1.0]). Rows are "
            "counted from 0.",
        ),
        (
            lambda: betting([1.0], [0.0], 0.95, reward_range=(1.0, 1.0)),
            "reward_range[0] is 1.0 and reward_range[1] is 1.0; they must be finite, the first "
            "below the second: no value may lie outside.",
        ),
        (
            lambda: betting([1.0, 1.0], [0.0], 0.95),
            "c has 2 values and reward 1: there must be one of each for every row.",
        ),
        (
            lambda: betting([1.0, 3.0], [0.0, 0.0], 0.95, largest_weight=2.0),
            "c, row 1: 3.0 (1 of 2 rows are above largest_weight = 2.0). Rows are counted from 0.",
        ),
        (
            lambda: betting([1.0], [0.0], 0.95, largest_weight=math.inf),
            "largest_weight is inf; it must be finite and above 0. Leave it out if the weights "
            "have no bound.",
        ),
        (
            lambda: betting([1.0], [0.0], 0.95, largest_weight=1.0, unanswered=1.5),
            "unanswered is 1.5; it must be a share, from 0 to 1.",
        ),
        (
            lambda: weighted_sequence([1.0], [0.0], 0.95, times=[2]),
            "times must be whole numbers from 1 to 1, the number of rows.",
        ),
        (
            lambda: confidence_sequence([1.0], 0, 1, 0.95, times=[0.5]),
            "times must be whole numbers from 1 to 1, the number of rows.",
        ),
        (
            lambda: confidence_sequence([1.0], 0, 1, 0.95, times=[]),
            "times must be whole numbers from 1 to 1, the number of rows.",
        ),
    ],
)
def test_refusals_say_what_is_wrong(call, text):
    with pytest.raises(ParameterError) as caught:
        call()
    assert str(caught.value) == text


@pytest.mark.parametrize("level", [0.0, 1.0, 95, math.nan])
@pytest.mark.parametrize(
    "make",
    [
        lambda level: betting([1.0], [1.0], level),
        lambda level: betting_bounded([1.0], 0, 1, level),
        lambda level: confidence_sequence([1.0], 0, 1, level),
        lambda level: weighted_sequence([1.0], [1.0], level),
    ],
)
def test_levels_out_of_range_are_refused(make, level):
    with refuses(ParameterError, "level"):
        make(level)


def test_the_limit_is_ruled_out_and_little_more():
    x = np.random.default_rng(0).lognormal(0, 1, 200)
    side, data = fixed_n_data(x)
    m = lower_limit(x, 0.05) / side.unit
    assert final_capital(*data, m * (1 - 1e-9), 0.05 / AIM, GOAL) >= GOAL
    assert final_capital(*data, m * (1 + 1e-8), 0.05 / AIM, GOAL) < GOAL
