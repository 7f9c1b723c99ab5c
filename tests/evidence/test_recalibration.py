"""Recalibration: the regression itself, that no row has a part in its own prediction, and laws."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from offpolicy.evidence._model_error import Bands

import offpolicy as op
from offpolicy.evidence import _recalibration as calibration
from offpolicy.evidence._blocks import whole_block
from offpolicy.evidence._plan import look_at, range_of_rewards
from offpolicy.evidence._recalibration import FOLDS, Prediction, Recalibration
from offpolicy.evidence._sources import InMemory
from offpolicy.policies._policies import Target
from offpolicy.testing import random_problem, sample_log
from tests.support.cases import cases, make_case
from tests.support.limits import limit

# -- the regression --------------------------------------------------------------------------


def rows_for(seed: int, n: int = 300, columns: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """X with the intercept first, one row per column, and row weights."""
    rng = np.random.default_rng(seed)
    X = np.vstack([np.ones(n), rng.normal(size=(columns, n))])
    return X, rng.uniform(0.2, 3.0, n)


def loss(beta: np.ndarray, X: np.ndarray, y: np.ndarray, omega: np.ndarray) -> float:
    """Weighted cross-entropy of shares, and half the squared coefficients but the first."""
    score = beta @ X
    return float((omega * (np.logaddexp(0.0, score) - y * score)).sum() + 0.5 * beta[1:] @ beta[1:])


@pytest.mark.parametrize("seed", range(3))
def test_of_binary_rewards_equals_scikit_learn(seed):
    from sklearn.linear_model import LogisticRegression

    X, omega = rows_for(seed)
    rng = np.random.default_rng(seed + 10)
    truth = 1.0 / (1.0 + np.exp(-(0.5 + X[1] - 2.0 * X[2])))
    y = (rng.random(X.shape[1]) < truth).astype(float)
    model = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000)
    model.fit(X[1:].T, y, sample_weight=omega)
    beta = calibration._logistic(X, y, omega)
    np.testing.assert_allclose(beta, [*model.intercept_, *model.coef_[0]], atol=1e-5)


@pytest.mark.parametrize("kind", ["fractions", "separable", "all one", "all zero", "one row"])
def test_of_shares_equals_a_plain_optimiser(kind):
    from scipy.optimize import minimize

    X, omega = rows_for(7, n=1 if kind == "one row" else 60)
    rng = np.random.default_rng(3)
    y = {
        "fractions": rng.random(X.shape[1]),
        "separable": (X[1] > 0.3).astype(float),
        "all one": np.ones(X.shape[1]),
        "all zero": np.zeros(X.shape[1]),
        "one row": np.full(X.shape[1], 0.3),
    }[kind]
    beta = calibration._logistic(X, y, omega)
    if kind in ("all one", "all zero"):
        # The intercept is without a penalty worth the name: the best one is far away.
        p = 1.0 / (1.0 + np.exp(-(beta @ X)))
        assert np.abs(p - y).max() < 1e-3
        return
    best = minimize(loss, np.zeros(len(X)), (X, y, omega), method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(beta, best.x, atol=1e-4)
    assert loss(beta, X, y, omega) <= best.fun + 1e-6


def test_many_rows_are_fitted_like_few(monkeypatch):
    X, omega = rows_for(2, n=50_000)
    rng = np.random.default_rng(3)
    y = rng.random(50_000) < 1.0 / (1.0 + np.exp(-(0.5 + X[1] - 2.0 * X[2])))
    fast = calibration._logistic(X, y.astype(float), omega)
    compiled = calibration._derivatives(fast + 0.1, X, y.astype(float), omega)
    limit(monkeypatch, "offpolicy.evidence._recalibration._MANY", 10**9)
    np.testing.assert_allclose(fast, calibration._logistic(X, y.astype(float), omega), atol=1e-9)
    plain = calibration._derivatives(fast + 0.1, X, y.astype(float), omega)
    for one, other in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-9)


def test_without_rows_the_share_is_one_half():
    assert calibration._logistic(np.ones((3, 0)), np.empty(0), np.empty(0)).tolist() == [0, 0, 0]


# -- cross-fitting ---------------------------------------------------------------------------


def fitted(
    log: op.BanditLog,
    pi: np.ndarray | None,
    delta_hat: np.ndarray | None,
    reward_range: tuple[float, float] | None = None,
) -> Prediction:
    rewards = range_of_rewards(InMemory(log, [], None), reward_range)
    model = Recalibration.fitted(log, pi, delta_hat, (rewards.low, rewards.high))
    return model.predict(log, pi, delta_hat)


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
    model = Recalibration.fitted(log, pi, delta_hat, (-1.0, 2.0))
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


def test_where_only_the_chosen_are_known_it_is_the_mean_of_the_other_folds():
    case = make_case(np.random.default_rng(3), 500, weighted=True)
    log = case.log
    got = fitted(log, None, case.delta_hat)
    assert got.flat is None
    np.testing.assert_array_equal(got.modelled, got.chosen)
    fold = log.fold(FOLDS)
    for k in range(FOLDS):
        other = fold != k
        mean = np.average(case.reward[other], weights=case.row_weight[other])
        np.testing.assert_allclose(got.chosen[fold == k], mean, rtol=1e-6)


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
    loss = (count * off**2).sum(axis=1) + 12.0 * noise * (tried - 0.5) ** 2
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
    fit = Recalibration.fitted(log, pi.ravel(), delta_hat.ravel(), (0.0, 1.0))
    off = fit.predict(log, pi.ravel(), delta_hat.ravel()).flat - truth.ravel()
    if right == "model":
        assert np.sqrt((off**2).mean()) < 0.03
    else:
        assert (fit.kept < 0.05).all()
        assert np.sqrt((off**2).mean()) < 0.2


def test_a_model_beyond_the_rewards_is_cut_to_their_range():
    case = make_case(np.random.default_rng(4), 300, drawn=True)
    model = Recalibration.fitted(case.log, case.pi, 1e9 * case.delta_hat, (-5.0, 5.0))
    predicted = model.predict(case.log, case.pi, 1e9 * case.delta_hat)
    assert np.abs(predicted.given).max() == 5.0
    np.testing.assert_allclose(predicted.gap, predicted.refitted - predicted.given)


def test_without_a_model_nothing_is_kept():
    case = make_case(np.random.default_rng(4), 100)
    model = Recalibration.fitted(case.log, case.pi, None, (-5.0, 5.0))
    assert not model.kept.any()
    assert model.predict(case.log, case.pi, None).gap is None


# -- the compiled pass -----------------------------------------------------------------------


@given(
    cases(smallest=1, largest=40),
    st.sampled_from(["both", "policy"]),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_compiled_pass_equals_the_plain_one(case, columns, known):
    log = case.log if known else case.narrow
    delta_hat = case.delta_hat if columns == "both" else None
    rewards = range_of_rewards(InMemory(log, [], None))
    fit = Recalibration.fitted(log, case.pi, delta_hat, (rewards.low, rewards.high))
    block = whole_block(log, Target("new", case.pi), delta_hat)
    plain = look_at(block, fit, 0.0)
    block.compiled = True
    fast = look_at(block, fit, 0.0)
    unit = max(abs(rewards.low), abs(rewards.high), 1.0)
    for name in ("modelled", "chosen"):
        a, b = getattr(plain.tilde, name), getattr(fast.tilde, name)
        np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-11 * unit)
    for item in fields(Bands):
        a, b = getattr(plain.bands, item.name), getattr(fast.bands, item.name)
        size = np.abs(a[np.isfinite(a)]).max(initial=unit)
        np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-10 * size)


def test_the_compiled_pass_over_many_candidates():
    """More than fit into one tile."""
    case = make_case(np.random.default_rng(0), 20, most=700, unsupported=0.2, weighted=True)
    fit = Recalibration.fitted(case.log, case.pi, case.delta_hat, (-5.0, 5.0))
    block = whole_block(case.log, Target("new", case.pi), case.delta_hat)
    plain = look_at(block, fit)
    block.compiled = True
    fast = look_at(block, fit)
    np.testing.assert_allclose(fast.tilde.modelled, plain.tilde.modelled, rtol=1e-12)
    np.testing.assert_allclose(fast.tilde.chosen, plain.tilde.chosen, rtol=1e-12)
    np.testing.assert_allclose(fast.bands.excess, plain.bands.excess, rtol=1e-12)
    np.testing.assert_allclose(fast.bands.unsupported, plain.bands.unsupported, rtol=1e-12)
    assert plain.bands.unsupported[0] > 0.0


def test_logarithm_and_exponential():
    from offpolicy._core import fastmath as elementary

    rng = np.random.default_rng(0)
    x = np.concatenate([np.exp(rng.uniform(-700, 700, 2000)), [1.0, 0.5, 2.0, 1e-300, 1e300]])
    for value in [*x, *np.nextafter([1.0, 0.7071067811865476, 1.4142135623730951], 2.0)]:
        assert elementary.log(float(value)) == pytest.approx(np.log(value), rel=4e-16, abs=2e-16)
    for value in np.concatenate([rng.uniform(-700, 700, 2000), rng.normal(size=200), [0.0]]):
        assert elementary.exp(float(value)) == pytest.approx(np.exp(value), rel=4e-15)
