"""The headline against a slow one; what its interval covers, when the log cannot tell, and what
must not change the answer."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.errors import LogError, ParameterError, SupportError
from offpolicy.estimators import GRID
from offpolicy.evaluation._evaluate import answer
from offpolicy.evidence import (
    InMemory,
    Question,
    RewardRange,
    gather,
    whole_block,
)
from offpolicy.evidence._clip_path import apply_model, kurtosis
from offpolicy.evidence._differences import _SUMS, gap_of, pair
from offpolicy.evidence._plan import make_plan, range_of_rewards
from offpolicy.evidence._recalibration import constant
from offpolicy.intervals import Interval, normal
from offpolicy.results._result import Headline
from tests.support.cases import bandit_log, cases, make_case
from tests.support.limits import small_blocks
from tests.support.refusals import refuses
from tests.support.slow_headline import slow_headline

# -- the whole rule --------------------------------------------------------------------------

KNOWN = ["all", "chosen propensities", "chosen policy", "both chosen"]


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([2, 3, 10, 60]),
    st.sampled_from(KNOWN),
    st.booleans(),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([None, 1, 12]),
    st.sampled_from(["few", "binary", "equal", "skewed"]),
    st.sampled_from([(0.95, None), (0.8, (-3.0, 40.0)), (0.99, None)]),
)
@settings(max_examples=80, deadline=None)
def test_the_headline_is_what_a_slow_one_says(
    seed, n, known, with_model, unsupported, clusters, rewards, asked
):
    rng, (level, declared) = np.random.default_rng(seed), asked
    case = make_case(rng, n, unsupported=unsupported, weighted=seed % 2 == 0, drawn=n > 3)
    case = replace(case, reward={
        "few": case.reward, "binary": (case.reward > 0).astype(float), "equal": np.full(n, 0.7),
        "skewed": np.minimum(rng.exponential(size=n) ** 3, 30.0),
    }[rewards])  # fmt: skip
    columns = {"cluster": None if clusters is None else rng.integers(0, clusters, n)}
    if known in ("chosen propensities", "both chosen"):
        columns |= {"logging": None, "propensity": case.log.propensity}
    log, pi = case.log_with(**columns), case.pi
    if known in ("chosen policy", "both chosen"):
        pi = case.pi[log.chosen_index]
    model = case.delta_hat if with_model and len(pi) == len(case.pi) > n else None
    assume(case.pi[log.chosen_index].any())
    assume(len(case.pi) > n)  # else the policy is the logger
    result = op.evaluate(log, pi, prediction=model, level=level, reward_range=declared)
    row = result.headline
    if np.ptp(log.reward) == 0.0:
        return  # no error anywhere: every model and every M are as good
    slow = slow_headline(log, pi, model, level=level, reward_range=declared)
    unit = max(1.0, np.abs(log.reward).max()) * max(1.0, np.max(case.pi[log.chosen_index]
                                                               / log.propensity))  # fmt: skip
    near = {"rel": 1e-9, "abs": 1e-9 * unit}
    assert row.value == pytest.approx(slow.value, **near)
    assert row.model == slow.model
    assert row.kappa == pytest.approx(slow.kappa, rel=1e-9)
    assert row.stderr == pytest.approx(slow.stderr, **near)
    assert row.plausible_bias == pytest.approx(slow.bias, **near)
    if not any(one.code == "disagreement" for one in result.findings):
        assert row.interval == pytest.approx((slow.low, slow.high), **near)
    assert row.value in row.interval


@pytest.mark.parametrize("kind", ["plain", "weighted", "clustered"])
def test_many_compiled_blocks_say_what_a_slow_one_says(monkeypatch, kind):
    small_blocks(monkeypatch, 32)
    case = make_case(
        np.random.default_rng(5), 150, drawn=True, unsupported=0.1, weighted=kind == "weighted"
    )
    log = case.log_with(cluster=np.arange(150) // 3 if kind == "clustered" else None)
    row = op.evaluate(log, case.pi, prediction=case.delta_hat).headline
    slow = slow_headline(log, case.pi, case.delta_hat)
    assert (row.M, row.interval_M, row.model) == (slow.M, slow.interval_M, slow.model)
    assert (row.value, *row.interval) == pytest.approx((slow.value, slow.low, slow.high), rel=1e-8)


@pytest.mark.parametrize("declared", [None, (0.0, 1.0)])
def test_rewards_that_are_all_equal_are_the_answer(declared):
    case = make_case(np.random.default_rng(3), 200, drawn=True)
    for model in (None, case.delta_hat):
        result = op.evaluate(
            case.log_with(reward=np.full(200, 0.7)), case.pi, prediction=model,
            reward_range=declared,
        )  # fmt: skip
        row = result.headline
        assert row.value == result.logged.value
        assert result["SNIPS"].from_headline == 0.0
        assert 0.7 in Interval(row.interval.low - 1e-9, row.interval.high + 1e-9)


def test_one_cluster_leaves_nothing_to_a_model_that_nothing_was_learnt_for():
    """Neither noise nor a model is known: the rewards as they are weighted, and no interval."""
    case = make_case(np.random.default_rng(3), 200, drawn=True)
    log = case.log_with(cluster=np.zeros(200, int), reward=np.full(200, 5.0))
    result = op.evaluate(log, case.pi, estimators=["IPS"], reward_range=(0.0, 10.0))
    row = result.headline
    assert (row.M, row.interval, row.stderr) == (math.inf, (0.0, 10.0), math.inf)
    assert row.value == pytest.approx(min(result["IPS"].value, 10.0), abs=2.0)
    assert not (result.findings and result.findings[0].code == "disagreement")
    assert row.versus_logged == (-10.0, 10.0)
    assert "only one row or one cluster" in row.refusal


def test_a_policy_that_takes_no_decision_seen_is_not_known_exactly():
    """Only DM can be asked then; the headline is as wide as its model may be off."""
    rng = np.random.default_rng(0)
    action, reward = np.zeros(500, int), (rng.random(500) < 0.3).astype(float)
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=[[0.9999, 1e-4]] * 500)
    never = np.tile([0.0, 1.0], (500, 1))
    row = op.evaluate(log, never, prediction=np.full((500, 2), 0.2), estimators=["DM"]).headline
    spread = math.sqrt(((reward - 0.2) ** 2).mean())
    assert row.refusal is not None
    assert row.interval.width > spread
    assert row.plausible_bias == pytest.approx(min(5.0 * row.kappa, 1.0) * spread, rel=0.1)


def test_the_whole_curve_is_told():
    case = make_case(np.random.default_rng(0), 200, drawn=True, unsupported=0.1)
    row = case.evaluate(["IPS"]).headline
    assert row.grid == tuple(GRID)
    at = row.grid.index(row.M)
    assert row.errors[at] == min(row.errors)
    assert row.value == pytest.approx(row.values[at] + row.correction)
    assert row.stderr == row.stderrs[at]
    assert row.errors[at] >= row.stderr
    assert row.reason.startswith("least estimated error: ")


# -- a policy that is the logger -------------------------------------------------------------


@pytest.mark.parametrize("known", ["all", "chosen"])
@pytest.mark.parametrize("extra", ["plain", "weighted", "clustered", "model"])
def test_the_logger_s_own_value_is_the_logged_mean_exactly(known, extra):
    case = make_case(np.random.default_rng(14), 200, drawn=True, weighted=extra == "weighted")
    cluster = np.arange(200) // 7 if extra == "clustered" else None
    log, pi, model = case.log_with(cluster=cluster), case.pi0, None
    if known == "chosen":
        log = case.log_with(cluster=cluster, logging=None, propensity=case.log.propensity)
        pi = log.propensity
    elif extra == "model":
        model = case.delta_hat
    members = ["IPS", "SNIPS", "CIPS(M=1)", "CIPS(M=7)", "CIPS(M=inf)"]
    result = op.evaluate(log, pi, prediction=model, estimators=members)
    mean = result.logged.value
    assert mean == pytest.approx(np.average(case.reward, weights=case.row_weight), rel=1e-14)
    for row in [*result, result.headline]:
        assert (row.value, row.stderr) == (mean, result.logged.stderr)
    row = result.headline
    assert (row.model, row.correction, row.plausible_bias) == ("logger", 0.0, 0.0)
    assert row.interval == result.logged.interval == normal(mean, row.stderr, 0.95)
    assert row.versus_logged == (0.0, 0.0)
    assert row.verdict == "identical"
    assert "does what ran" in result.sentence()
    found = op.compare(log, {"a": pi}, prediction=model)["a", "logged"]
    assert (found.verdict, found.value, found.interval) == ("identical", 0.0, (0.0, 0.0))
    assert not [one for one in result.findings if one.code == "disagreement"]


def test_hardly_different_from_the_logger_is_hardly_different():
    """1e-3 of every probability moved: the answer moves by about that, and its interval is that of
    the logged mean, but that with what ran is a hundred times narrower."""
    rng = np.random.default_rng(1)
    pi0 = rng.dirichlet(np.ones(4), 1000)
    action = (rng.random((1000, 1)) > pi0.cumsum(axis=1)).sum(axis=1).clip(0, 3)
    log = bandit_log(action, rng.integers(0, 2, 1000), pi0)
    result = op.evaluate(log, 0.999 * pi0 + 0.001 / 4)
    row, logged = result.headline, result.logged
    assert row.verdict == "not decided"
    assert row.value == pytest.approx(logged.value, abs=1e-2)
    assert row.interval.width == pytest.approx(logged.interval.width, rel=0.2)
    assert row.versus_logged.width < 0.1 * logged.interval.width


# -- mass that the logger never touches ------------------------------------------------------


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
        assert "the worst case" in row.covers
        assert "on the 40.0% that the logger never chooses" in row.covers
        assert row.bias_bound >= 0.4 - 1e-9


# -- refusing --------------------------------------------------------------------------------


def clicks(
    n: int, rate: float, seed: int = 0, *, unsupported: bool = False, worth: float = 1.0
) -> op.Result:  # fmt: skip
    """Two actions, and a third that the logger may never take; clicks are alike on all."""
    rng = np.random.default_rng(seed)
    pi0 = np.tile([0.5, 0.5, 0.0] if unsupported else [0.4, 0.4, 0.2], (n, 1))
    action = rng.choice(3, n, p=pi0[0])
    log = bandit_log(action, worth * (rng.random(n) < rate), pi0)
    return op.evaluate(log, {"new": np.tile([0.5, 0.3, 0.2], (n, 1))}, estimators=["IPS"])


def test_a_log_with_enough_rewards_can_tell():
    result = clicks(2000, 0.3)
    assert result.headline.refusal is None
    assert result.can_tell
    assert result.headline.rewarded > 300


def test_few_rewarded_rows_cannot_tell():
    """2,000 rows, but four sales or so, of any size: it is the sales that count."""
    result = clicks(2000, 0.002, worth=7.0)
    row = result.headline
    assert 0.0 < row.rewarded < 20.0
    assert row.refusal == (
        f"only about {row.rewarded:.0f} rewarded rows stand behind this number, and under 20 it "
        f"could be anything. More rows would tell, or a policy closer to the one that wrote the "
        f"log."
    )
    assert not result.can_tell


@pytest.mark.parametrize(("n", "tells"), [(2000, True), (60, False)])
def test_few_clicks_are_an_answer_if_many_rows_stand_behind_them(n, tells):
    """That nearly nobody clicks is known of 2,000 rows: a click is worth 1 at most."""
    result = clicks(n, 0.002, seed=3)
    assert result.headline.rewarded < 20.0
    assert result.can_tell is tells
    assert result.headline.interval.high < (0.01 if tells else 0.3)


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

RANGES = {
    "declared": "within the declared range of rewards",
    "binary": "between 0 and 1",
    "observed": "within the observed range of rewards",
}


@pytest.mark.parametrize("how", RANGES)
@pytest.mark.parametrize("unsupported", [0.0, 0.3])
def test_covers_says_what_is_allowed_for(how, unsupported):
    case = make_case(np.random.default_rng(6), 60, unsupported=unsupported, drawn=True)
    reward = (case.reward > 0.5).astype(float) * (3.0 if how == "observed" else 1.0)
    declared = (-1.0, 2.0) if how == "declared" else None
    row = op.evaluate(case.log_with(reward=reward), case.pi, reward_range=declared).headline
    text = "the policy's value, and allows for sampling error, a row not yet seen"
    if row.plausible_bias > 0.0:
        left = row.interval_imputed_mass - case.pi[case.pi0 == 0.0].sum() / 60
        text += f", the model's plausible error on the {left:.1%} left to it at M = "
        text += f"{row.interval_M:.4g}"
    if unsupported:
        mass = case.pi[case.pi0 == 0.0].sum() / 60
        text += f", the worst case {RANGES[how]} on the {mass:.1%} that the logger never chooses"
    assert row.covers == text


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


# -- what must not change the answer ---------------------------------------------------------


def assert_mapped(a: Headline, b: Headline, shift: float, scale: float, tolerance: float) -> None:
    def near(x: object) -> object:
        return pytest.approx(x, abs=tolerance, rel=1e-9)

    assert (b.M, b.interval_M, b.model) == (a.M, a.interval_M, a.model)
    assert b.value == near(shift + scale * a.value)
    assert tuple(b.interval) == near(tuple(shift + scale * end for end in a.interval))
    assert tuple(b.versus_logged) == near(tuple(scale * end for end in a.versus_logged))
    for name in ("stderr", "plausible_bias", "bias_bound", "correction"):
        assert getattr(b, name) == near(scale * getattr(a, name))
    assert b.kappa == pytest.approx(a.kappa, rel=1e-6)
    assert b.imputed_mass == near(a.imputed_mass)
    assert b.rewarded == pytest.approx(a.rewarded)
    assert (b.refusal is None) == (a.refusal is None)


@pytest.mark.parametrize(("shift", "scale"), [(1.0, 1.0), (-7.5, 8.0), (1e6, 1.0), (0.0, 1e-6)])
@pytest.mark.parametrize("unsupported", [0.0, 0.3])
@pytest.mark.parametrize("declared", [False, True])
def test_other_units_of_reward_are_other_units_of_the_headline(
    shift, scale, unsupported, declared
):  # fmt: skip
    case = make_case(np.random.default_rng(10), 300, unsupported=unsupported, drawn=True)
    rows = []
    for a, b in ((0.0, 1.0), (shift, scale)):
        log = case.log_with(reward=a + b * case.reward)
        limits = (a - 2.0 * b, a + 3.0 * b) if declared else None
        model = a + b * case.delta_hat
        rows.append(op.evaluate(log, case.pi, prediction=model, reward_range=limits).headline)
    assert_mapped(*rows, shift, scale, 1e-9 * max(abs(shift), scale))


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


def heavy(rng: np.random.Generator, n: int) -> tuple[op.BanditLog, np.ndarray, None]:
    """A logger that seldom does what the policy does; rewards follow the policy's scores."""
    score = rng.normal(size=(n, 6))
    pi = np.exp(2.0 * score)
    pi /= pi.sum(axis=1, keepdims=True)
    pi0 = np.exp(-0.7 * score + 0.5 * rng.normal(size=(n, 6)))
    pi0 /= pi0.sum(axis=1, keepdims=True)
    return drawn(rng, pi, pi0, 1.0 / (1.0 + np.exp(1.0 - score)), None)


def plain(rng: np.random.Generator, n: int) -> tuple[op.BanditLog, np.ndarray, np.ndarray]:
    """Contexts, and a good model."""
    rate = rng.beta(1.0, 2.0, (n, 4))
    pi, pi0 = rate**2 / (rate**2).sum(axis=1, keepdims=True), rng.dirichlet(np.full(4, 3.0), n)
    return drawn(rng, pi, pi0, rate, np.clip(rate + 0.1 * rng.normal(size=(n, 4)), 0.0, 1.0))


def misled(rng: np.random.Generator, n: int) -> tuple[op.BanditLog, np.ndarray, np.ndarray]:
    """A model that says the opposite, and a policy that believes it."""
    rate = rng.beta(1.0, 2.0, (n, 4))
    pi, pi0 = (1.0 - rate) ** 4, rng.dirichlet(np.full(4, 2.0), n)
    return drawn(rng, pi / pi.sum(axis=1, keepdims=True), pi0, rate, 1.0 - rate)


def drawn(rng, pi, pi0, rate, model):
    n, K = pi.shape
    action = (rng.random((n, 1)) > pi0.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
    log = bandit_log(action, (rng.random(n) < rate[np.arange(n), action]).astype(float), pi0)
    return log, pi, (pi * rate).sum(axis=1).mean(), model


@pytest.mark.parametrize("world", [heavy, plain, misled])
def test_the_headline_covers_the_value(world):
    """200 logs of 400 decisions at 95 %: 0.9 is asked, which a true 95 % misses once in a thousand
    runs. And no honest log is an alarm: at most one in a thousand may be."""
    covered, apart, alarms = 0, 0, 0
    for seed in range(200):
        log, pi, value, model = world(np.random.default_rng(seed), 400)
        result = op.evaluate(log, pi, prediction=model, estimators=["SNIPS"])
        row = result.headline
        covered += value in row.interval
        apart += abs(row.value - value) < abs(result["SNIPS"].value - value)
        alarms += any(one.code == "disagreement" for one in result.findings)
    assert covered >= 180
    assert apart >= 80, "the value itself is no worse than SNIPS, by far"
    assert alarms == 0


@pytest.mark.parametrize("n", [1000, 3000])
def test_what_cannot_be_is_no_answer(n):
    """Propensities that are wrong put the value above the highest reward there is."""
    heavy = np.arange(n) % 10 == 0
    c = np.where(heavy, 60.0, 0.5)
    log = op.BanditLog.from_arrays(
        action=np.zeros(n, int), reward=heavy.astype(float), propensity=0.04 / c
    )
    result = op.evaluate(log, np.full(n, 0.04), estimators=["IPS"])
    low, high = result.headline.interval
    assert 0.0 <= low <= high <= 1.0
    assert high - low > 0.5
    assert not result.can_tell
    assert "cannot be" in result.headline.refusal
    low, high = result.headline.versus_logged
    assert -1.0 <= low <= high <= 1.0
    assert high - low > 0.5


def test_where_the_logger_never_goes_the_model_is_as_given_whichever_wins():
    """Also if a constant is the better model of what was logged."""
    rng = np.random.default_rng(2)
    n = 40
    action = rng.integers(0, 2, n)
    log = bandit_log(action, rng.integers(0, 2, n), [0.5, 0.5, 0.0])
    pi, models = np.tile([0.25, 0.25, 0.5], (n, 1)), {}
    for said in (0.01, 0.9):
        delta_hat = np.column_stack([rng.random((n, 2)), np.full(n, said)])
        found = make_plan(
            whole_block(log, op.policies.resolve(log, pi), delta_hat.ravel()), n,
            RewardRange(0.0, 1.0, "binary"), (),
        ).recalibration  # fmt: skip
        plain = constant(whole_block(log, op.policies.resolve(log, pi), delta_hat.ravel()), (0, 1))
        for model in (found, plain):
            d = model.predict(log, pi.ravel(), delta_hat.ravel())
            np.testing.assert_allclose(d.flat.reshape(n, 3)[:, 2], said)
            np.testing.assert_allclose(d.modelled, (pi * d.flat.reshape(n, 3)).sum(axis=1))
        models[said] = found.kind
    assert set(models.values()) <= {"model", "constant"}


def test_a_difference_is_uncertain_if_no_weight_that_differs_was_drawn():
    """Two policies that agree upon all that was chosen, and on nothing else."""
    n = 400
    log = bandit_log(np.zeros(n, int), np.arange(n) % 2, [0.9, 0.05, 0.05])
    e = gather(Question(log, {"a": [[0.8, 0.2, 0.0]] * n, "b": [[0.8, 0.0, 0.2]] * n}))
    arms = [answer(one).known for one in e]
    paired = pair(e[0].source, arms, [(0, 1)])
    assert paired.sums[0, _SUMS.index("drawn")] == 0.0
    gap = gap_of(paired, 0, *arms)
    # Σ_y π₀(w_a − w_b)² = 2·0.05·4², and half of the rewards are 1.
    undrawn = math.sqrt(2 * 0.05 * min(arms[0].M, 4.0) ** 2 * 0.25 / n)
    assert gap.spread > 0.9 * undrawn > 0.0


def test_equal_contributions_leave_no_doubt_of_their_spread():
    log = bandit_log([0, 1] * 50, [1.0] * 100, [0.5, 0.5])
    block = whole_block(log, op.policies.resolve(log, [[0.5, 0.5]] * 100), None)
    rows = apply_model(block, constant(block, (0.0, 2.0)), 1.0)
    assert np.isfinite(kurtosis(rows)).all()


def test_the_row_not_seen_of_a_difference_counts_only_what_differs():
    """A policy that leaves 99 of 100 decisions as they were."""
    rng = np.random.default_rng(5)
    n = 20_000
    other = np.arange(n) % 100 == 0
    pi = np.where(other[:, None], [0.9, 0.1], [0.3, 0.7])
    action = (rng.random(n) < 0.7).astype(int)
    log = bandit_log(action, rng.integers(0, 2, n), [0.3, 0.7])
    e = gather(Question(log, {"new": pi}))[0]
    policy, logging, _ = e.scanned.path.bins.of_candidates.T
    exact = np.abs(pi - [0.3, 0.7]).sum()
    assert np.abs(policy - logging).sum() == pytest.approx(exact, rel=1e-9)
