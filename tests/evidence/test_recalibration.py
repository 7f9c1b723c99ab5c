"""Recalibration: the regression itself, that no row has a part in its own prediction, and laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.evidence import _recalibration as calibration
from offpolicy.evidence._blocks import Block, whole_block
from offpolicy.evidence._clip_path import Modelled, apply_model
from offpolicy.evidence._plan import make_plan, range_of_rewards
from offpolicy.evidence._recalibration import (
    FOLDS,
    Prediction,
    Recalibration,
    constant,
    regression,
)
from offpolicy.evidence._sources import InMemory
from offpolicy.policies._policies import Target
from offpolicy.testing import random_problem, sample_log
from tests.support.cases import bandit_log, cases, make_case
from tests.support.limits import limit

# -- cross-fitting ---------------------------------------------------------------------------


def block_of(log: op.BanditLog, pi: np.ndarray | None, delta_hat: np.ndarray | None) -> Block:
    """π of every candidate; or None, then it is even over four of the chosen only."""
    target = Target("new", pi, np.full(len(log), 0.25) if pi is None else None)
    return whole_block(log, target, delta_hat)


def model_for(
    log: op.BanditLog,
    pi: np.ndarray | None,
    delta_hat: np.ndarray | None,
    reward_range: tuple[float, float] | None = None,
) -> Recalibration:
    """On both π and δ̂ where they are known."""
    rewards = range_of_rewards(InMemory(log, [], None), reward_range)[:2]
    return regression(block_of(log, pi, delta_hat), rewards)


def fitted(
    log: op.BanditLog,
    pi: np.ndarray | None,
    delta_hat: np.ndarray | None,
    reward_range: tuple[float, float] | None = None,
) -> Prediction:
    return model_for(log, pi, delta_hat, reward_range).predict(log, pi, delta_hat)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("columns", ["both", "policy", "chosen"])
def test_no_reward_has_a_part_in_its_own_fold(columns, weighted):
    case = make_case(np.random.default_rng(0), 400, weighted=weighted, drawn=True)
    pi = None if columns == "chosen" else case.pi
    delta_hat = case.delta_hat if columns == "both" else None
    log, wide = case.log, (-5.0, 5.0)
    before = fitted(log, pi, delta_hat, wide)
    decision = np.repeat(np.arange(len(log)), np.diff(log.offsets))
    for fold in range(FOLDS):
        own = log.fold(FOLDS) == fold
        other = case.log_with(reward=np.where(own, -case.reward, case.reward))
        after = fitted(other, pi, delta_hat, wide)
        for name in ("modelled", "chosen"):
            a, b = getattr(before, name), getattr(after, name)
            np.testing.assert_array_equal(a[own], b[own])
            assert (a[~own] != b[~own]).all()
        if pi is not None:
            np.testing.assert_array_equal(before.flat[own[decision]], after.flat[own[decision]])


def test_rows_of_one_cluster_share_a_fold():
    """So no reward has a part in the predictions of its cluster either."""
    case = make_case(np.random.default_rng(1), 300, drawn=True)
    cluster = np.arange(300) // 6
    changed = case.reward.copy()
    changed[0] += 1.0
    logs = [case.log_with(reward=reward, cluster=cluster) for reward in (case.reward, changed)]
    before, after = (fitted(log, case.pi, case.delta_hat, (-5.0, 5.0)).chosen for log in logs)
    np.testing.assert_array_equal(before[:6], after[:6])
    assert (before != after).any()


# -- laws ------------------------------------------------------------------------------------


@given(cases(smallest=2, largest=30), st.floats(0.01, 100.0), st.floats(-50.0, 50.0))
@settings(max_examples=40, deadline=None)
def test_an_affine_map_of_rewards_and_predictions_maps_the_answer(case, scale, shift):
    if abs(case.reward).max() > 1e6:
        case = replace(case, reward=np.arange(len(case.reward)) % 3.0, delta_hat=case.pi)
    before = fitted(case.log, case.pi, case.delta_hat)
    log = case.log_with(reward=shift + scale * case.reward)
    after = fitted(log, case.pi, shift + scale * case.delta_hat, None)
    span = np.ptp(log.reward)
    if span == 0.0 or set(case.reward) <= {0.0, 1.0}:
        return  # rewards of 0 and 1 have a range of their own
    np.testing.assert_allclose(after.flat, shift + scale * before.flat, atol=1e-5 * span)
    np.testing.assert_allclose(after.modelled, shift + scale * before.modelled, atol=1e-5 * span)


@pytest.mark.parametrize("most", [1, 4], ids=["one candidate", "ragged"])
@pytest.mark.parametrize("columns", ["both", "policy", "chosen"])
def test_a_part_of_the_log_is_predicted_like_the_whole(columns, most):
    case = make_case(np.random.default_rng(2), 200, most=most, weighted=True)
    log = case.log
    pi = None if columns == "chosen" else case.pi
    delta_hat = case.delta_hat if columns == "both" else None
    model = model_for(log, pi, delta_hat, (-1.0, 2.0))
    whole = model.predict(log, pi, delta_hat)
    parts = [
        (log.rows(37, 120), np.arange(37, 120)),
        (log.take(np.array([5, 199, 0])), [5, 199, 0]),
    ]
    for part, rows in parts:
        at = log.candidates_of(np.asarray(rows))
        got = model.predict(
            part, None if pi is None else pi[at], None if delta_hat is None else delta_hat[at]
        )
        np.testing.assert_allclose(got.chosen, whole.chosen[rows], rtol=1e-13)
        np.testing.assert_allclose(got.modelled, whole.modelled[rows], rtol=1e-13)
        if pi is None:
            assert got.flat is None
        else:
            np.testing.assert_allclose(got.flat, whole.flat[at], rtol=1e-13)


@given(cases(largest=12), st.sampled_from(["both", "policy"]))
@settings(max_examples=80, deadline=None)
def test_predictions_stay_within_the_range_of_rewards_and_sum_up(case, columns):
    rewards = range_of_rewards(InMemory(case.log, [], None))
    got = fitted(case.log, case.pi, case.delta_hat if columns == "both" else None)
    unit = 1e-12 * max(abs(rewards.low), abs(rewards.high), 1.0)
    for values in (got.flat, got.chosen, got.modelled):
        assert values.min() >= rewards.low - unit
        assert values.max() <= rewards.high + unit
    for i, (start, stop) in enumerate(zip(case.offsets[:-1], case.offsets[1:], strict=True)):
        part = got.flat[start:stop]
        assert got.modelled[i] == pytest.approx(case.pi[start:stop] @ part, abs=10 * unit)
        assert got.chosen[i] == part[case.chosen[i]]


def test_rewards_that_are_all_equal_are_predicted_as_that():
    case = make_case(np.random.default_rng(4), 50)
    got = fitted(case.log_with(reward=np.full(50, 7.0)), case.pi, case.delta_hat)
    assert set(got.flat) == {7.0}


def test_predictions_beyond_all_measure_are_left_out():
    case = make_case(np.random.default_rng(5), 60)
    wild = np.where(case.delta_hat > 0.0, 1.7e308, -1.7e308)
    without = fitted(case.log, case.pi, None)
    np.testing.assert_array_equal(fitted(case.log, case.pi, wild).flat, without.flat)


def test_one_array_may_be_the_policy_and_the_prediction():
    case = make_case(np.random.default_rng(6), 80)
    same, copy = (fitted(case.log, case.pi, pi) for pi in (case.pi, case.pi.copy()))
    np.testing.assert_array_equal(same.flat, copy.flat)


# -- what it is for --------------------------------------------------------------------------


def test_a_model_that_is_off_is_set_right():
    """Predictions of half the true reward, and of its opposite: δ̃ must be nearer to the truth
    than either, by far. 20,000 rows; the errors are 0.3 and more before."""
    rng = np.random.default_rng(7)
    problem = random_problem(rng, contexts=50, model_error=0.0, concentration=2.0)
    log, pi, delta = sample_log(problem, 20_000, rng)
    for wrong in (0.5 * delta, 1.0 - delta):
        got = fitted(log, pi.reshape(-1), wrong.reshape(-1), (-0.6, 1.6))
        before = np.sqrt(np.mean((wrong - delta) ** 2))
        after = np.sqrt(np.mean((got.flat.reshape(delta.shape) - delta) ** 2))
        assert after < 0.25 * before


# -- what is kept of the model as it was given -----------------------------------------------


@given(st.integers(0, 1000), st.sampled_from([3, 40, 400]))
@settings(max_examples=40, deadline=None)
def test_the_share_that_is_kept_fits_best(seed, n):
    """Against a fine grid of shares, by weighted squares and a penalty on the distance from ½."""
    rng = np.random.default_rng(seed)
    refitted, given, share = rng.random((3, n))
    share = np.where(rng.random(n) < 0.7, rng.choice([refitted, given])[0] > share, share)
    count = rng.uniform(0.0, 5.0, n)
    found = calibration._kept(refitted, given, share, count)
    noise = np.average((share - refitted) ** 2, weights=count)
    tried = np.linspace(0.0, 1.0, 2001)
    off = share - refitted - tried[:, None] * (given - refitted)
    worth = count * count.sum() / (count**2).sum()
    loss = (worth * off**2).sum(axis=1) + 12.0 * noise * (tried - 0.5) ** 2
    assert found == pytest.approx(tried[loss.argmin()], abs=3e-4)


@pytest.mark.parametrize("right", ["model", "regression"])
def test_a_good_model_is_followed_and_a_bad_one_left(right):
    """The model is right, or noise while π tells the best action from the rest."""
    rng = np.random.default_rng(5)
    n, K = 4000, 4
    truth = rng.choice([0.1, 0.4, 0.8], (n, K))
    pi0 = np.full((n, K), 0.25)
    pi = np.where(truth > 0.5, 3.0, 1.0)
    pi /= pi.sum(axis=1, keepdims=True)
    action = rng.integers(0, K, n)
    reward = (rng.random(n) < truth[np.arange(n), action]).astype(float)
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=pi0)
    delta_hat = truth if right == "model" else rng.random((n, K))
    fit = model_for(log, pi.ravel(), delta_hat.ravel(), (0.0, 1.0))
    off = fit.predict(log, pi.ravel(), delta_hat.ravel()).flat - truth.ravel()
    if right == "model":
        assert np.sqrt((off**2).mean()) < 0.03
    else:
        assert (fit.kept < 0.05).all()
        assert np.sqrt((off**2).mean()) < 0.2


def test_many_rows_are_fitted_like_few(monkeypatch):
    """From a start that some of the rows give."""
    case = make_case(np.random.default_rng(8), 3000, drawn=True)
    slow = model_for(case.log, case.pi, case.delta_hat)
    limit(monkeypatch, "offpolicy._core.logistic._MANY", 100)
    fast = model_for(case.log, case.pi, case.delta_hat)
    np.testing.assert_allclose(fast.coefficients, slow.coefficients, atol=1e-4)
    assert (fast.coefficients != slow.coefficients).any()


# -- which model wins ------------------------------------------------------------------------


def headline_model(log: op.BanditLog, pi: np.ndarray, delta_hat: np.ndarray | None) -> str:
    rewards = range_of_rewards(InMemory(log, [], None))
    return make_plan(block_of(log, pi, delta_hat), len(log), rewards, ()).recalibration.kind


def test_the_best_of_three_models_is_the_headline_s():
    """Rewards that a model knows; that π tells; and of a few rows, where neither may."""
    rng = np.random.default_rng(6)
    n, K = 3000, 4
    truth, spread = rng.choice([0.05, 0.95], (n, K)), rng.dirichlet(np.full(K, 0.3), n)
    pi = np.where(truth > 0.5, 5.0, 1.0)
    pi /= pi.sum(axis=1, keepdims=True)
    action = rng.integers(0, K, n)
    reward = (rng.random(n) < truth[np.arange(n), action]).astype(float)
    log = bandit_log(action, reward, np.full(K, 1.0 / K))
    assert headline_model(log, spread.ravel(), truth.ravel()) == "model"
    assert headline_model(log, pi.ravel(), None) == "policy"
    kinds = {
        headline_model(log.rows(k, k + 30), spread[k : k + 30].ravel(), None)
        for k in range(0, n, 60)
    }
    assert kinds == {"policy", "constant"}


# -- the compiled pass -----------------------------------------------------------------------


@given(
    cases(smallest=1, largest=40),
    st.sampled_from(["both", "policy", "constant"]),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_compiled_pass_equals_the_plain_one(case, columns, known):
    log = case.log if known else case.narrow
    delta_hat = case.delta_hat if columns == "both" else None
    rewards = range_of_rewards(InMemory(log, [], None))[:2]
    block = block_of(log, case.pi, delta_hat)
    fit = constant(block, rewards) if columns == "constant" else regression(block, rewards)
    plain = apply_model(block, fit, 0.3)
    block.size = np.inf
    assert_near(apply_model(block, fit, 0.3), plain, 1e-10)


def assert_near(fast: Modelled, plain: Modelled, tolerance: float) -> None:
    """All sums of the compiled pass, each as far as the size of its terms allows."""
    reward = max(1.0, np.abs(plain.block.log.reward).max())
    unit = reward * max(1.0, plain.block.c.max(initial=0.0)) * max(1.0, plain.path.bins.weight)
    for name in ("modelled", "chosen"):
        a, b = getattr(plain.prediction, name), getattr(fast.prediction, name)
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance * reward)
    a, b = plain.path.bins, fast.path.bins
    np.testing.assert_allclose(b.of_candidates, a.of_candidates, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(b.unsupported, a.unsupported, rtol=tolerance, atol=tolerance * unit)
    size = np.abs(a.of_rows).sum(axis=(0, 1)) + unit**2
    assert (np.abs(a.of_rows - b.of_rows) <= tolerance * size).all()
    one, other = plain.path, fast.path
    for name, power in (("mean", 1), ("second", 2)):
        a, b = getattr(one.moments, name), getattr(other.moments, name)
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance * unit**power)


def test_the_compiled_pass_over_many_candidates():
    case = make_case(np.random.default_rng(0), 20, most=700, unsupported=0.2, weighted=True)
    block = block_of(case.log, case.pi, case.delta_hat)
    fit = model_for(case.log, case.pi, case.delta_hat, (-5.0, 5.0))
    plain = apply_model(block, fit, 0.0)
    block.size = np.inf
    assert_near(apply_model(block, fit, 0.0), plain, 1e-12)
    assert plain.path.bins.unsupported[0] > 0.0


def test_logarithm_and_exponential():
    from offpolicy._core import fastmath as elementary

    rng = np.random.default_rng(0)
    x = np.concatenate([np.exp(rng.uniform(-700, 700, 2000)), [1.0, 0.5, 2.0, 1e-300, 1e300]])
    for value in [*x, *np.nextafter([1.0, 0.7071067811865476, 1.4142135623730951], 2.0)]:
        assert elementary.log(float(value)) == pytest.approx(np.log(value), rel=4e-16, abs=2e-16)
    for value in np.concatenate([rng.uniform(-700, 700, 2000), rng.normal(size=200), [0.0]]):
        assert elementary.exp(float(value)) == pytest.approx(np.exp(value), rel=4e-15)
