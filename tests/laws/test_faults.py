"""Faults found in other implementations of these estimators, each shown to be absent here."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.errors import EstimatorError, LogError, MissingColumnError, SupportError
from offpolicy.intervals.bootstrap import bootstrap
from offpolicy.models._cross_fitted import RewardModel
from offpolicy.testing import random_problem, sample_log
from tests.support.cases import bandit_log, make_case
from tests.support.refusals import refuses

K = 4


def logged(rng: np.random.Generator, n: int, mean: np.ndarray, logger: np.ndarray) -> op.BanditLog:
    """n decisions by one logger; rewards of 0 and 1 with the given means."""
    action = rng.choice(len(mean), n, p=logger)
    reward = (rng.random(n) < mean[action]).astype(float)
    return op.BanditLog.from_arrays(action=action, reward=reward, logging=np.tile(logger, (n, 1)))


MEAN = np.array([0.2, 0.4, 0.6, 0.8])
LOGGER = np.array([0.4, 0.3, 0.2, 0.1])
NEW = np.array([0.1, 0.2, 0.3, 0.4])


def always(row: np.ndarray, n: int) -> np.ndarray:
    return np.tile(row, (n, 1))


# -- formulas --------------------------------------------------------------------------------


def test_cab_keeps_the_smaller_weight():
    """A CAB with the maximum of c and M where the paper has the minimum: huge weights stay, and
    small ones are raised to M."""
    log = bandit_log([1, 0], [1.0, 1.0], [[0.9, 0.1], [0.9, 0.1]])
    pi, delta_hat = [[0.1, 0.9]] * 2, [[0.3, 0.5]] * 2
    row = op.evaluate(log, pi, prediction=delta_hat, estimators=["CAB(M=2)"])["CAB"]
    modelled = (0.9 - 2 * 0.1) * 0.5
    by_hand = [modelled + 2.0 * 1.0, modelled + (0.1 / 0.9) * 1.0]
    assert row.value == pytest.approx(np.mean(by_hand))
    assert row.largest_weight == 2.0
    ends = op.evaluate(
        log, pi, prediction=delta_hat, estimators=["CAB(M=0)", "DM", "CAB(M=inf)", "IPS"]
    )
    assert ends["CAB(M=0)"].value == pytest.approx(ends["DM"].value)
    assert ends["CAB(M=inf)"].value == pytest.approx(ends["IPS"].value)


def test_switch_dr_corrects_where_the_weight_is_small():
    """A SWITCH-DR turned round: the correction applied where c exceeds M, and left out below."""
    log = bandit_log([1, 0], [1.0, 1.0], [[0.9, 0.1], [0.9, 0.1]])
    row = op.evaluate(
        log, [[0.1, 0.9]] * 2, prediction=[[0.3, 0.5]] * 2, estimators=["SWITCH-DR(M=2)"]
    )["SWITCH-DR"]
    modelled = 0.1 * 0.3 + 0.9 * 0.5
    assert row.value == pytest.approx(np.mean([modelled, modelled + (0.1 / 0.9) * (1.0 - 0.3)]))


def test_dr_asks_the_model_about_the_policys_own_actions():
    """A DR that takes the model's prediction for the logged action as the value of every policy:
    it then gives all policies nearly one value (3.51 where the truth was 1.03)."""
    rng = np.random.default_rng(0)
    n = 4000
    log = logged(rng, n, MEAN, LOGGER)
    model = always(MEAN, n)
    policies = {f"always {k}": always(np.eye(K)[k], n) for k in range(K)}
    result = op.evaluate(log, policies, prediction=model, estimators=["DM", "DR"])
    for k in range(K):
        assert result[f"always {k}", "DM"].value == pytest.approx(MEAN[k])
        row = result[f"always {k}", "DR"]
        assert abs(row.value - MEAN[k]) < 4.0 * row.stderr < 0.2


@pytest.mark.parametrize("right", ["propensities", "model"])
def test_dr_is_doubly_robust(right):
    """A DR that is only as good as its model, or only as good as its propensities. 200 logs of
    500 rows; the mean must be within 4 of its standard errors. What is wrong is far off: the
    model's bias is 0.3, that of the propensities 0.1 and more."""
    rng = np.random.default_rng(1)
    n, repeats, truth = 500, 200, float(NEW @ MEAN)
    believed = np.array([0.25, 0.25, 0.25, 0.25]) if right == "model" else LOGGER
    model = always(MEAN if right == "model" else MEAN + np.array([0.3, 0.0, 0.5, 0.3]), n)
    values = {"DR": [], "IPS": [], "DM": []}
    for _ in range(repeats):
        action = rng.choice(K, n, p=LOGGER)
        reward = (rng.random(n) < MEAN[action]).astype(float)
        log = op.BanditLog.from_arrays(action=action, reward=reward, logging=always(believed, n))
        result = op.evaluate(log, always(NEW, n), prediction=model, estimators=list(values))
        for name, found in values.items():
            found.append(result[name].value)
    off = {
        name: (np.mean(found) - truth) / (np.std(found) / math.sqrt(repeats) + 1e-12)
        for name, found in values.items()
    }
    assert abs(off["DR"]) < 4.0
    assert abs(off["IPS" if right == "model" else "DM"]) > 20.0


@given(st.integers(0, 1000), st.sampled_from([1.0, 7.0, 1e-3]))
@settings(max_examples=20, deadline=None)
def test_weighted_ips_is_a_mean(seed, weight):
    """A weighted IPS off by a factor n: a sum in one place, a mean in the other."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 200))
    given = {
        "action": rng.integers(0, 2, n),
        "reward": rng.random(n),
        "logging": np.full((n, 2), 0.5),
    }
    log = op.BanditLog.from_arrays(**given)
    heavy = op.BanditLog.from_arrays(**given, row_weight=np.full(n, weight))
    for one in (log, heavy):
        result = op.evaluate(one, np.full((n, 2), 0.5), estimators=["IPS", "SNIPS"])
        for row in result:
            assert row.value == pytest.approx(given["reward"].mean())


# -- intervals -------------------------------------------------------------------------------


def test_the_error_of_snips_knows_that_its_denominator_moves():
    """A SNIPS interval that treats Σc as a constant: 2 to 8 times too wide where rewards have a
    large mean. 200 logs of 300 rows; the true spread is known to 5%, 20% is asked."""
    rng = np.random.default_rng(2)
    n = 300
    pi, values, errors, widths, frozen = always(NEW, n), [], [], [], []
    for _ in range(200):
        action = rng.choice(K, n, p=LOGGER)
        reward = 3.0 + (rng.random(n) < MEAN[action])
        log = op.BanditLog.from_arrays(action=action, reward=reward, logging=always(LOGGER, n))
        row = op.evaluate(log, pi, estimators=["SNIPS"])["SNIPS"]
        c = (NEW / LOGGER)[action]
        values.append(row.value)
        errors.append(row.stderr)
        widths.append(row.interval.width)
        frozen.append(np.std(c * reward) / math.sqrt(n))
    spread = np.std(values)
    assert np.mean(errors) == pytest.approx(spread, rel=0.2)
    assert np.mean(widths) == pytest.approx(2.0 * 1.96 * spread, rel=0.25)
    assert np.mean(frozen) > 3.0 * spread


def test_the_interval_of_dm_covers_the_policys_value():
    """A DM interval that knows only of the spread of predictions: it covered 12%. 60 problems,
    95% asked for; ours must cover at least 50 times, and the plain one is seen to fail."""
    rng = np.random.default_rng(3)
    ours = plain = 0
    for _ in range(60):
        problem = random_problem(rng, model_error=0.3)
        log, pi, delta_hat = sample_log(problem, 300, rng)
        row = op.evaluate(log, pi, prediction=delta_hat, estimators=["DM"])["DM"]
        ours += problem.value in row.interval
        plain += abs(row.value - problem.value) < 1.96 * row.stderr
    assert ours >= 50
    assert plain < 30


@given(st.integers(0, 2**32 - 1), st.integers(2, 60))
@settings(max_examples=40, deadline=None)
def test_intervals_are_the_right_way_round(seed, n):
    """Lower above upper, when the weights' mean is not 1."""
    case = make_case(np.random.default_rng(seed), n, most=4)
    c = case.pi[case.log.chosen_index] / case.log.propensity
    if not c.any():
        return
    result = case.evaluate(["IPS", "SNIPS", "CIPS(M=3)", "DR", "CAB(M=3)", "CAB-DR"])
    # Where rewards are 0 and 1, no interval goes beyond; an estimate may.
    low, high = (0.0, 1.0) if set(case.reward) <= {0.0, 1.0} else (-math.inf, math.inf)
    for row in [*result, *result.headlines]:
        assert row.interval.low <= min(max(row.value, low), high) <= row.interval.high


def test_resampling_never_holds_all_resamples_at_once():
    """A bootstrap that draws an n × resamples matrix and runs out of memory: here 400 MB."""
    x = np.random.default_rng(4).normal(size=100_000)
    tracemalloc.start()
    try:
        interval = bootstrap(x, 0.95, resamples=500)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert abs(interval.low + interval.high) < 0.04
    assert peak < 20e6


def test_no_data_is_no_number():
    """A value of 0 with the interval (0, 0) when something went wrong."""
    with refuses(LogError):
        op.BanditLog.from_arrays(action=[], reward=[], logging=np.empty((0, 2)))
    log = op.BanditLog.from_arrays(action=[0], reward=[1.0], logging=[[0.5, 0.5]])
    with refuses(SupportError):
        op.evaluate(log, [[0.0, 1.0]], estimators=["IPS"])
    for reward, everything in ((2.5, (-math.inf, math.inf)), (1.0, (0.0, 1.0))):
        log = op.BanditLog.from_arrays(action=[0], reward=[reward], logging=[[0.5, 0.5]])
        row = op.evaluate(log, [[0.5, 0.5]], estimators=["IPS"])["IPS"]
        assert (row.stderr, row.interval) == (math.inf, everything)


# -- bookkeeping -----------------------------------------------------------------------------


def test_a_parameter_is_chosen_anew_for_every_policy():
    """A tuned parameter kept in the estimator and used again for the next policy."""
    rng = np.random.default_rng(5)
    n = 2000
    log = logged(rng, n, MEAN, LOGGER)
    wrong = always(MEAN[::-1].copy(), n)
    policies = {"near": always(LOGGER, n), "far": always(np.array([0, 0, 0.05, 0.95]), n)}
    member = op.SWITCHDR()
    together = op.evaluate(log, policies, prediction=wrong, estimators=[member])
    assert member.M is None
    chosen = {row.policy: row.chosen for row in together.tuned}
    assert chosen["near"] != chosen["far"]
    for name, policy in reversed(policies.items()):
        alone = op.evaluate(log, {name: policy}, prediction=wrong, estimators=[member])
        assert alone.tuned[0].chosen == chosen[name]
        assert alone[member] == together[name, member]


def test_estimators_of_one_name_stand_side_by_side():
    """Results kept by the estimator's bare name, so that the second overwrites the first."""
    log = logged(np.random.default_rng(6), 200, MEAN, LOGGER)
    model, pi = always(MEAN, 200), always(NEW, 200)
    names = ["CAB(M=1)", "CAB(M=3)", "CAB-DR(M=1)", "CAB(M=0.1)"]
    result = op.evaluate(log, pi, prediction=model, estimators=names)
    assert [row.estimator for row in result] == names
    assert len({row.value for row in result}) == 4
    twins = [op.ICE(np.zeros_like, np.ones_like, np.zeros_like, label="mine") for _ in range(2)]
    with refuses(EstimatorError, column="mine"):
        op.evaluate(log, pi, prediction=model, estimators=twins)


def test_every_estimate_says_how_many_rows_stand_behind_it():
    """No effective sample size anywhere."""
    log = logged(np.random.default_rng(7), 200, MEAN, LOGGER)
    result = op.evaluate(log, always(NEW, 200), estimators=["IPS", "CIPS(M=1)"])
    c = (NEW / LOGGER)[log.chosen]
    assert result["IPS"].ess == pytest.approx(c.sum() ** 2 / (c**2).sum())
    assert result["CIPS"].ess > result["IPS"].ess
    assert result.headline.rewarded > 0.0
    assert "ess" in result.to_arrow().column_names


# -- inputs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e3, 1e5, 1e300])
@pytest.mark.parametrize("temperature", [1e-3, 1.0])
def test_extreme_scores_are_still_a_policy(scale, temperature):
    """NaN policies from the logarithm of a softmax that underflowed."""
    scores = scale * np.array([[0.0, 1.0, -1.0, 1.0], [-1.0, -1.0, -1.0, -1.0]])
    log = op.BanditLog.from_arrays(action=[1, 0], reward=[1, 0], logging=np.full((2, 4), 0.25))
    pi = op.Softmax(scores, temperature).probabilities(log).reshape(2, 4)
    np.testing.assert_allclose(pi, [[0, 0.5, 0, 0.5], [0.25] * 4], atol=1e-15)
    assert op.evaluate(log, op.Softmax(scores, temperature))["IPS"].value == pytest.approx(1.0)


def test_propensities_of_all_actions_are_an_input():
    """Only the chosen action's propensity can be given, so that CAB and SWITCH, which need those
    of all, cannot be written down."""
    rng = np.random.default_rng(8)
    full = logged(rng, 50, MEAN, LOGGER)
    chosen = bandit_log(full.chosen, full.reward, propensity=full.propensity, actions=K)
    ask = {"prediction": always(MEAN, 50), "estimators": ["CAB(M=2)", "SWITCH(M=2)"]}
    assert len(op.evaluate(full, always(NEW, 50), **ask)) == 2
    with refuses(MissingColumnError, column="logging"):
        op.evaluate(chosen, always(NEW, 50), **ask)


def test_memory_follows_the_candidates_there_are():
    """Dense arrays of decisions × actions: with one list of 100,000 candidates among 20,000 of
    two, these would take 16 GB each."""
    rng = np.random.default_rng(9)
    lengths = np.full(20_000, 2)
    lengths[777] = 100_000
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    N = int(offsets[-1])
    logging = np.repeat(1.0 / lengths, lengths)
    log = op.BanditLog.from_ragged(
        offsets=offsets, chosen=np.zeros(20_000, int), reward=rng.random(20_000), logging=logging
    )
    delta_hat = rng.random(N)
    tracemalloc.start()
    try:
        op.evaluate(log, op.Uniform(), prediction=delta_hat, estimators=["DR", "CAB(M=2)"])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * 8 * N


def test_a_reward_model_is_asked_once_about_each_candidate():
    """Predictions quadratic in the number of actions: 70 s for 400 actions and 20,000 rows."""
    from sklearn.base import BaseEstimator, RegressorMixin

    class Counting(RegressorMixin, BaseEstimator):
        asked = 0

        def fit(self, X, y, sample_weight=None):
            self.fitted_ = True
            return self

        def predict(self, X):
            Counting.asked += X.shape[0]
            return np.zeros(X.shape[0])

    rng = np.random.default_rng(10)
    for actions in (3, 30):
        log = bandit_log(
            rng.integers(0, actions, 200),
            rng.random(200),
            np.full((200, actions), 1.0 / actions),
            context=rng.random((200, 2)),
        )
        for mode in ("shared", "per-action"):
            model = RewardModel(Counting(), mode=mode).fit(log)
            Counting.asked = 0
            assert len(model.predict(log)) == 200 * actions
            assert Counting.asked <= 200 * actions
