"""What an interval covers, when the log cannot tell, and what must not change the answer."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.errors import LogError, ParameterError, SupportError
from offpolicy.evidence import _headline as trust
from offpolicy.evidence._plan import Plan, RewardRange, make_plan, range_of_rewards, sample_of
from offpolicy.evidence._sources import InMemory
from offpolicy.evidence._walk import Rows, scan
from offpolicy.intervals._closed_form import Interval, hull, t_quantile
from offpolicy.policies._policies import resolve
from offpolicy.results._result import Headline, Logged
from offpolicy.testing import random_problem, sample_log
from tests.support.cases import Case, bandit_log, cases, make_case
from tests.support.refusals import refuses

# -- the interval of a value that lies between two -------------------------------------------


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("apart", [0.01, 0.3, 1.0, 2.5, 8.0])
@pytest.mark.parametrize("degrees", [3.0, 50.0, math.inf])
def test_a_hull_covers_the_worst_point_with_the_probability_asked_for(level, apart, degrees):
    """Solved by bisection on the coverage at either end, which is least; then stretched as far
    as Student's t stretches the normal."""
    phi = NormalDist().cdf
    low, high = 0.0, 20.0
    for _ in range(200):
        k = 0.5 * (low + high)
        low, high = (k, high) if phi(k + apart) - phi(-k) < level else (low, k)
    z = NormalDist().inv_cdf(0.5 + level / 2.0)
    k = low * t_quantile(level, degrees) / z
    got = hull(1.0, 1.0 + 2.0 * apart, 2.0, level, degrees)
    assert got == pytest.approx((1.0 - 2.0 * k, 1.0 + 2.0 * apart + 2.0 * k), rel=1e-9)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_limits_of_a_hull(level):
    one, two = NormalDist().inv_cdf(level), NormalDist().inv_cdf(0.5 + level / 2.0)
    t = t_quantile(level, 7.0)
    assert hull(3.0, 3.0, 2.0, level, 7.0) == pytest.approx((3.0 - 2.0 * t, 3.0 + 2.0 * t))
    near = hull(3.0, 3.0 + 1e-9, 2.0, level, 7.0)
    assert near == pytest.approx((3.0 - 2.0 * t, 3.0 + 2.0 * t))
    assert hull(0.0, 1e6, 2.0, level) == pytest.approx((-2.0 * one, 1e6 + 2.0 * one))
    wide = hull(0.0, 1e6, 2.0, level, 7.0)
    assert wide.low == pytest.approx(-2.0 * one * t / two)
    assert hull(1.0, 2.0, 0.0, level) == (1.0, 2.0)
    for bad in ((0.0, 1.0, math.inf), (-math.inf, 1.0, 1.0), (0.0, math.nan, 1.0)):
        assert hull(*bad, level) == (-math.inf, math.inf)


def test_a_hull_covers_in_simulation():
    """20,000 draws around either end and the middle: 0.9 within 4 standard errors, 0.0085."""
    rng = np.random.default_rng(0)
    for truth in (0.0, 0.7, 1.4):
        noise = rng.standard_normal(20_000)
        covered = np.mean([truth in hull(x, x + 1.4, 1.0, 0.9) for x in noise])
        assert covered > 0.9 - 0.0085
        if truth != 0.7:
            assert covered < 0.9 + 0.0085


# -- mass that the logger never touches ------------------------------------------------------


def known_with(case: Case, reward_range: tuple[float, float]) -> tuple[trust.Known, Plan]:
    log = case.log
    target = resolve(log, case.pi)
    source = InMemory(log, [target], case.delta_hat)
    (block,) = sample_of(source)
    plan = make_plan(block, len(log), RewardRange(-1.0, 2.0, "declared"), [op.IPS()])
    (scanned,) = scan(source, [plan])
    plan = replace(plan, reward_range=RewardRange(*reward_range, "declared"))
    return trust.what_is_known(scanned, Rows(plan.members), plan), plan


def test_unsupported_mass_widens_by_mass_times_range():
    case = make_case(np.random.default_rng(1), 400, unsupported=0.5, drawn=True)
    mass = case.pi[case.pi0 == 0.0].sum() / 400
    assert mass > 0.1
    base, _ = known_with(case, (-1.0, 2.0))
    assert base.unsupported == pytest.approx(mass)
    assert base.high - base.low == pytest.approx(mass * 3.0)
    for low, high in ((-1.0, 5.0), (-4.0, 2.0), (-4.0, 9.0)):
        other, plan = known_with(case, (low, high))
        assert other.low - base.low == pytest.approx(mass * (low + 1.0))
        assert other.high - base.high == pytest.approx(mass * (high - 2.0))
        assert other.noise == base.noise
    interval = trust.interval_for(base.low, base, 0.0, plan, 0.95, math.inf)
    expected = hull(base.low, base.high, base.noise, 0.95)
    assert interval == pytest.approx((max(expected.low, -4.0), min(expected.high, 9.0)))


def test_with_full_support_nothing_is_added():
    known, _ = known_with(make_case(np.random.default_rng(2), 200, drawn=True), (-9.0, 9.0))
    assert known.unsupported == 0.0
    assert known.low == known.high


def test_what_is_unknown_is_within_the_interval_of_every_estimate():
    """All the unsupported rewards the lowest, or all the highest: both values are covered."""
    rng = np.random.default_rng(3)
    n = 3000
    pi0, pi = np.tile([0.7, 0.3, 0.0], (n, 1)), np.tile([0.2, 0.4, 0.4], (n, 1))
    action = (rng.random(n) < 0.3).astype(int)
    reward = (rng.random(n) < np.array([0.3, 0.6])[action]).astype(float)
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=pi0)
    result = op.evaluate(log, pi, prediction=np.full((n, 3), 0.5))
    seen = 0.2 * 0.3 + 0.4 * 0.6
    for row in [*result, *result.headlines]:
        assert row.interval.low < seen < seen + 0.4 < row.interval.high
        assert row.interval.width < 0.4 + 0.2
        assert "the worst case between 0 and 1 on the 40.0% that the logger never" in row.covers
        assert row.bias_bound >= 0.4 - 1e-9


# -- refusing --------------------------------------------------------------------------------


def clicks(n: int, rate: float, seed: int = 0, unsupported: bool = False) -> op.Result:
    """Two actions, and a third that the logger may never take; clicks are alike on all."""
    rng = np.random.default_rng(seed)
    pi0 = np.tile([0.5, 0.5, 0.0] if unsupported else [0.4, 0.4, 0.2], (n, 1))
    action = rng.choice(3, n, p=pi0[0])
    log = bandit_log(action, (rng.random(n) < rate).astype(float), pi0)
    return op.evaluate(log, {"new": np.tile([0.5, 0.3, 0.2], (n, 1))}, estimators=["IPS"])


def test_a_log_with_enough_rewards_can_tell():
    result = clicks(2000, 0.3)
    assert result.headline.refusal is None
    assert result.can_tell
    assert result.headline.rewarded > 300


def test_few_rewarded_rows_cannot_tell():
    """2,000 rows, but four clicks or so: it is the clicks that count."""
    result = clicks(2000, 0.002)
    row = result.headline
    assert 0.0 < row.rewarded < 20.0
    assert row.refusal == (
        f"only about {row.rewarded:.0f} rewarded rows stand behind this number, and under 20 it "
        f"could be anything. More rows would tell, or a policy closer to the one that wrote the "
        f"log."
    )
    assert not result.can_tell


def test_any_reward_counts_where_none_is_usual():
    rng = np.random.default_rng(4)
    log = bandit_log(rng.integers(0, 2, 100), rng.normal(size=100), np.full((100, 2), 0.5))
    row = op.evaluate(log, np.full((100, 2), 0.5), estimators=["IPS"]).headline
    assert row.rewarded == pytest.approx(100.0)
    assert row.refusal is None


def test_a_policy_that_goes_where_the_logger_never_goes():
    result = clicks(2000, 0.3, unsupported=True)
    row, logged = result.headline, result.logged.value
    assert row.refusal == (
        f"20.0% of the policy's probability is on candidates that the logger never chooses; their "
        f"rewards could move the value by 0.2, more than the {abs(row.value - logged):.3g} between "
        f"this policy and the one that ran. More rows of this log would not help: log some "
        f"decisions that explore these candidates, or ask about a policy that avoids them."
    )


def test_unsupported_mass_that_does_not_matter_is_no_refusal():
    """The policy is far better even if all that is unknown pays nothing."""
    rng = np.random.default_rng(5)
    n = 2000
    action = rng.integers(0, 2, n)
    log = bandit_log(action, (action == 1).astype(float), [0.5, 0.5, 0])
    result = op.evaluate(log, np.tile([0.0, 0.9, 0.1], (n, 1)), estimators=["IPS"])
    assert result.headline.refusal is None
    assert result.logged.value not in result.headline.interval


# -- words -----------------------------------------------------------------------------------

KNOWN = {
    "declared": "within the declared range of rewards",
    "binary": "between 0 and 1",
    "observed": "within the observed range of rewards",
}


@pytest.mark.parametrize("how", KNOWN)
def test_covers_says_what_is_allowed_for(how):
    _, plan = known_with(make_case(np.random.default_rng(6), 30), (0.0, 1.0))
    plan = replace(plan, reward_range=RewardRange(0.0, 1.0, how))
    sampling = "the policy's value: sampling error"
    model = ", the model's error on the 12.3% it answers for (as seen on the log)"
    worst = f", the worst case {KNOWN[how]} on the 45.6% that the logger never chooses"
    assert trust._covers(0.0, 0.0, plan) == sampling
    assert trust._covers(4e-4, 0.0, plan) == sampling
    assert trust._covers(0.123, 0.0, plan) == sampling + model
    assert trust._covers(0.0, 0.456, plan) == sampling + worst
    assert trust._covers(0.123, 0.456, plan) == sampling + model + worst


def test_all_estimators_share_what_is_known_stretched_to_their_own_value():
    case = make_case(np.random.default_rng(7), 60, drawn=True, ties=True)
    result = op.evaluate(case.log, case.pi, prediction=case.delta_hat, estimators=None)
    low = max(row.interval.low for row in result)
    high = min(row.interval.high for row in result)
    assert low < high
    for row in result:
        assert row.covers == result.headline.covers
        assert row.interval == (min(low, row.value), max(high, row.value))
        assert (row.bias == 0.0) == (row.estimator in ("IPS", "SNIPS", "DR"))


def test_few_clusters_widen_the_interval():
    """All rows alike within 4 clusters: t with 3 degrees of freedom."""
    rng = np.random.default_rng(8)
    cluster = np.repeat(np.arange(4), 50)
    reward = rng.normal(size=4)[cluster]
    log = bandit_log(np.zeros(200, int), reward, np.ones((200, 1)), cluster=cluster)
    row = op.evaluate(log, np.ones((200, 1)), estimators=["IPS"])["IPS"]
    assert row.interval.high >= row.value + t_quantile(0.95, 3) * row.stderr * (1 - 1e-9)


# -- the range of rewards --------------------------------------------------------------------


def with_rewards(reward: list[float]) -> op.BanditLog:
    n = len(reward)
    return op.BanditLog.from_arrays(action=[0] * n, reward=reward, logging=[[1.0]] * n)


@pytest.mark.parametrize(
    ("reward", "declared", "expected"),
    [
        ([0, 1, 1], None, (0.0, 1.0, "binary")),
        ([0, 0], None, (0.0, 1.0, "binary")),
        ([1], None, (0.0, 1.0, "binary")),
        ([0, 0.5, 1], None, (0.0, 1.0, "observed")),
        ([-1, 0], None, (-1.0, 0.0, "observed")),
        ([3, 3], None, (3.0, 3.0, "observed")),
        ([0, 1], (-1, 2), (-1.0, 2.0, "declared")),
        ([0, 1], (0, 1), (0.0, 1.0, "declared")),
    ],
)
def test_where_rewards_lie(reward, declared, expected):
    got = range_of_rewards(InMemory(with_rewards(reward), [], None), declared)
    assert got == expected
    assert got.span == expected[1] - expected[0]


@pytest.mark.parametrize(
    "bad", [(1.0, 0.0), (1.0, 1.0), (0.0, math.inf), (math.nan, 1.0), (-math.inf, 1.0)]
)
def test_a_range_must_be_one(bad):
    with refuses(ParameterError, "reward_range"):
        op.evaluate(with_rewards([0, 1]), [[1.0]] * 2, reward_range=bad)


def test_a_reward_outside_the_declared_range():
    with pytest.raises(LogError) as caught:
        op.evaluate(with_rewards([0, 1, 7, 8]), [[1.0]] * 4, reward_range=(0, 2.5))
    assert (caught.value.column, caught.value.row) == ("reward", 2)


def test_intervals_stay_where_rewards_can_be_if_that_is_certain():
    rng = np.random.default_rng(9)
    reward = (rng.random(30) < 0.97).astype(float)
    for declared, inside in (((0, 1), True), (None, True)):
        row = op.evaluate(with_rewards(list(reward)), [[1.0]] * 30, reward_range=declared).headline
        assert (row.interval.high <= 1.0) == inside
    wide = op.evaluate(with_rewards(list(3.0 * reward)), [[1.0]] * 30).headline
    assert wide.interval.high > 3.0


# -- what must not change the answer ---------------------------------------------------------


def assert_shifted(a: Headline, b: Headline, shift: float, tolerance: float) -> None:
    def near(x: float) -> object:
        return pytest.approx(x, abs=tolerance)

    assert b.estimator == a.estimator
    assert b.value == near(a.value + shift)
    assert tuple(b.interval) == near(tuple(end + shift for end in a.interval))
    for name in ("stderr", "imputed_mass", "bias", "bias_stderr", "bias_bound"):
        assert getattr(b, name) == near(getattr(a, name))
    assert b.rewarded == pytest.approx(a.rewarded)
    assert (b.refusal is None) == (a.refusal is None)


@pytest.mark.parametrize("shift", [1.0, -7.5, 1e6])
@pytest.mark.parametrize("unsupported", [0.0, 0.3])
def test_a_constant_added_to_rewards_and_predictions_is_added_to_the_headline(shift, unsupported):
    case = make_case(np.random.default_rng(10), 300, unsupported=unsupported, drawn=True)
    moved = replace(case, reward=case.reward + shift, delta_hat=case.delta_hat + shift)
    a, b = (one.evaluate(["IPS"]).headline for one in (case, moved))
    assert_shifted(a, b, shift, 1e-6)


def test_other_units_of_reward_are_other_units_of_the_headline():
    case = make_case(np.random.default_rng(11), 300, drawn=True)
    scaled = replace(case, reward=8.0 * case.reward, delta_hat=8.0 * case.delta_hat)
    a, b = (one.evaluate(["IPS"]).headline for one in (case, scaled))
    assert b.estimator == a.estimator
    assert (b.value, b.stderr, *b.interval) == pytest.approx(
        (8.0 * a.value, 8.0 * a.stderr, *(8.0 * end for end in a.interval)), rel=1e-6
    )


@given(cases(smallest=2, largest=40), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_the_order_of_candidates_does_not_matter(case, seed):
    rng = np.random.default_rng(seed)
    order, chosen = [], []
    for i, (start, stop) in enumerate(zip(case.offsets[:-1], case.offsets[1:], strict=True)):
        part = rng.permutation(stop - start)
        order.append(start + part)
        chosen.append(int(np.argmax(part == case.chosen[i])))
    flat = np.concatenate(order)
    other = replace(
        case, chosen=np.array(chosen), pi=case.pi[flat], pi0=case.pi0[flat],
        delta_hat=case.delta_hat[flat],
    )  # fmt: skip
    try:
        a = case.evaluate(["IPS"]).headline
    except SupportError:
        return
    unit = 1e-6 * max(1.0, np.abs(case.reward).max()) * max(1.0, a.stderr)
    if not math.isfinite(unit):
        unit = 1e-3 * max(1.0, np.abs(case.reward).max())
    b = other.evaluate(["IPS"]).headline
    assert b.value == pytest.approx(a.value, abs=unit)
    assert b.stderr == pytest.approx(a.stderr, abs=unit)


def test_names_and_sources_do_not_matter():
    case = make_case(np.random.default_rng(12), 100, drawn=True)
    named = case.log_with(source="clicks.parquet")
    a = case.evaluate(["IPS"]).headline
    b = op.evaluate(named, case.pi, prediction=case.delta_hat, estimators=["IPS"]).headline
    assert a == b


# -- coverage --------------------------------------------------------------------------------


@pytest.mark.parametrize("model_error", [0.1, 0.8])
def test_the_headline_and_every_clipped_estimator_cover_the_value(model_error):
    """40 problems of 300 rows, twice each, at 90%. 66 of 80 is asked: one in a hundred runs of a
    true 90% has fewer. The interval of CIPS that knows of noise alone covers 8%."""
    rng = np.random.default_rng(13)
    names = ["DM", "CIPS(M=2)", "CAB(M=2)", "SWITCH(M=2)", "SB(tau=0.5)", "CAB", "CAB-DR"]
    covered = dict.fromkeys([*names, "headline", "noise only"], 0)
    for _ in range(40):
        problem = random_problem(rng, model_error=model_error)
        for _ in range(2):
            log, pi, delta_hat = sample_log(problem, 300, rng)
            result = op.evaluate(log, pi, prediction=delta_hat, estimators=names, level=0.9)
            for name, row in zip(names, result, strict=True):
                covered[name] += problem.value in row.interval
            covered["headline"] += problem.value in result.headline.interval
            cips = result["CIPS"]
            covered["noise only"] += abs(cips.value - problem.value) < 1.645 * cips.stderr
    for name in [*names, "headline"]:
        assert covered[name] >= 66, covered
    assert covered["noise only"] < 20


def test_an_interval_for_the_logged_policy_itself():
    """The log's own mean: 'what ran'."""
    case = make_case(np.random.default_rng(14), 200, drawn=True)
    result = op.evaluate(case.log, case.pi0, estimators=["IPS"])
    assert isinstance(result.logged, Logged)
    assert result["IPS"].value == pytest.approx(result.logged.value)
    assert isinstance(result.logged.interval, Interval)
    assert result.logged.value == pytest.approx(case.reward.mean())
