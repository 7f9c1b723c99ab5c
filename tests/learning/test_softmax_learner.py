"""Learners: gradients, layouts against each other, limits, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.errors import EstimatorError, LogError, ParameterError, PolicyError
from offpolicy.estimators._named import parse
from offpolicy.learning._objective import objective
from offpolicy.learning._reward_model import Evidence, Known, fit, predicted
from offpolicy.learning._risk import Observed
from offpolicy.learning._softmax_learner import SoftmaxLearner
from offpolicy.learning._task import Task
from offpolicy.policies.learned._features import FeatureMap
from offpolicy.policies.learned._scores import Dense, Ragged
from tests.support.cases import bandit_log
from tests.support.learning import MEMBERS, classes, ragged
from tests.support.refusals import refuses


def slope(loss, w, k, h):
    up, down = w.copy(), w.copy()
    up[k] += h
    down[k] -= h
    return (loss(up)[0] - loss(down)[0]) / (2.0 * h)


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("penalty", [0.0, 2.0])
def test_gradients_in_the_weights(name, penalty):
    """In double precision, through the ragged layout."""
    if name == "SNDR":
        penalty = 0.0
    log = ragged(3)
    learner = SoftmaxLearner(name, penalty=penalty, baseline=0.3, l2=1e-2)
    task = Task.of(learner, parse(name), log, None, None)
    w = np.random.default_rng(0).normal(size=task.scores.size) * 0.3
    _, gradient = task.loss(w)
    for k in range(len(w)):
        numeric = slope(task.loss, w, k, 1e-6)
        assert gradient[k] == pytest.approx(numeric, rel=1e-4, abs=1e-6), k


@pytest.mark.parametrize("name", MEMBERS)
def test_the_fast_layout_is_the_slow_one(name):
    """Dense, single and class-major against ragged and flat."""
    log, _, _ = classes(1, n=80)
    member = parse(name)
    penalty = 0.0 if name == "SNDR" else 0.5
    learner = SoftmaxLearner(name, penalty=penalty)
    dense = Task.of(learner, member, log, None, None)
    assert isinstance(dense.scores, Dense)
    slow = Ragged(log.offsets, phi=dense.views.phi, code=log.candidate_codes(), actions=3)
    from offpolicy.learning._risk import RaggedRisk

    w = np.random.default_rng(0).normal(size=dense.scores.size) * 0.4
    pi = slow.probabilities(w)
    assert dense.scores.probabilities(w).T.reshape(-1) == pytest.approx(pi, abs=1e-6)
    delta_hat = None
    if "prediction" in member.needs:
        delta_hat = dense.risk.delta_hat.T.reshape(-1).astype(float)
    risk = RaggedRisk(member, Observed.of(log, delta_hat), log, delta_hat, penalty)
    value, per_pi = risk(pi)
    assert dense.model_start is not None
    away = w - dense.model_start
    gradient = dense.l2 * away - slow.back(pi, per_pi)
    loss, fast = dense.loss(w)
    assert loss == pytest.approx(0.5 * float(dense.l2 @ away**2) - value, abs=1e-5)
    assert fast == pytest.approx(gradient, abs=1e-5 + 1e-3 * np.abs(gradient).max())


@pytest.mark.parametrize(
    "name", ["IPS", "CAB(M=2)", "CAB-DR(M=2)", "SNIPS", "SB(tau=0.4)", "DRos(lam=3)"]
)
def test_the_objective_is_the_estimate(name):
    """What is maximised is what `evaluate` says of the policy."""
    log, _, _ = classes(2)
    learner = SoftmaxLearner(name, l2=0.0, max_iter=30).fit(log)
    prediction = None
    if "prediction" in parse(name).needs:
        task = Task.of(learner, parse(name), log, None, None)
        prediction = task.risk.delta_hat.T.reshape(-1).astype(float)
    row = op.evaluate(log, learner, prediction=prediction, estimators=[name])[name]
    assert learner.report_.value == pytest.approx(row.value, rel=1e-4)


def test_the_penalty_is_the_standard_error():
    """Of SNIPS too: what `evaluate` says of the same policy, without its n/(n − 1)."""
    log, _, _ = classes(2, n=300)
    for name in ("IPS", "SNIPS"):
        learner = SoftmaxLearner(name, penalty=2.0, l2=0.0, max_iter=5).fit(log)
        row = op.evaluate(log, learner, estimators=[name], interval="normal")[name]
        stderr = row.stderr * np.sqrt(299 / 300)
        assert learner.report_.value == pytest.approx(row.value - 2.0 * stderr, rel=1e-4)


def test_known_rewards_count_as_decisions():
    log, X, y = classes(4)
    member = parse("CAB(M=2)")
    known = (X[:50], np.eye(3)[y[:50]])
    learner = SoftmaxLearner("CAB(M=2)", l2=0.0)
    task = Task.of(learner, member, log, np.zeros((400, 3)), known)
    w = np.random.default_rng(0).normal(size=task.scores.size)
    pi = task.scores.probabilities(w).T.astype(float)
    part = objective(log, pi[:400] / pi[:400].sum(axis=1, keepdims=True),
                     prediction=np.zeros((400, 3)), estimator=member)  # fmt: skip
    expected = part.value + pi[400:][np.arange(50), y[:50]].sum() / 400
    assert -task.loss(w)[0] == pytest.approx(expected, abs=1e-5)
    gradient = task.loss(w)[1]
    for k in range(len(w)):
        assert gradient[k] == pytest.approx(slope(task.loss, w, k, 1e-2), abs=2e-3)


# -- does it learn? --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["IPS", "CIPS(M=5)", "DR", "SB(tau=0.5)", "CAB(M=5)", "CAB-DR(M=30)"]
)
def test_it_learns_the_labels(name):
    log, _, _ = classes(5, n=2000)
    _, X, y = classes(5, n=4000)
    learner = SoftmaxLearner(name, l2=1e-6).fit(log)
    right = learner.predict_proba(X)[np.arange(4000), y].mean()
    best = op.evaluate(log, learner, estimators=["SNIPS"])["SNIPS"].value
    assert right > 0.78
    assert best == pytest.approx(right, abs=0.06)
    assert (learner.predict(X) == y).mean() > 0.8


def test_an_ice_learns_what_the_member_of_its_weights_does():
    """CAB(M=5) from its weights and their derivatives."""
    log, X, _ = classes(5, n=500)

    def beta(c):
        return np.minimum(5.0 / np.maximum(c, 1e-100), 1.0)

    def slope(c):
        return np.where(c > 5.0, 5.0 / np.maximum(c, 1e-100) ** 2, 0.0)

    ice = op.ICE(
        lambda c: 1.0 - beta(c), beta, np.zeros_like,
        slopes=(slope, lambda c: -slope(c), np.zeros_like),
    )  # fmt: skip
    mine, cab = (SoftmaxLearner(member, l2=1e-3).fit(log) for member in (ice, "CAB(M=5)"))
    np.testing.assert_allclose(mine.predict_proba(X), cab.predict_proba(X), atol=2e-3)


def test_the_kernel_learns_what_lines_cannot():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (3000, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    action = rng.integers(0, 2, 3000)
    log = bandit_log(action, (action == y).astype(float), np.full((3000, 2), 0.5), context=X)
    linear = SoftmaxLearner().fit(log).predict(X)
    kernel = SoftmaxLearner(features="kernel", centres=100).fit(log)
    assert (linear == y).mean() < 0.77  # no line is right in more than three quarters
    assert (kernel.predict(X) == y).mean() > 0.95


def test_it_learns_from_features_of_candidates():
    rng = np.random.default_rng(1)
    n = 3000
    lengths = rng.integers(2, 6, n)
    offsets = np.r_[0, np.cumsum(lengths)]
    f = rng.normal(size=(offsets[-1], 3))
    good = f @ [1.0, -2.0, 0.0]
    chosen = (rng.random(n) * lengths).astype(int)
    chosen_index = offsets[:-1] + chosen
    reward = (rng.random(n) < 1.0 / (1.0 + np.exp(-good[chosen_index]))).astype(float)
    log = op.BanditLog.from_ragged(
        offsets=offsets, chosen=chosen, reward=reward,
        logging=np.repeat(1.0 / lengths, lengths), candidate_features=f,
    )  # fmt: skip
    learner = SoftmaxLearner("CAB-DR(M=10)").fit(log)
    pi = learner.probabilities(log)
    assert np.add.reduceat(pi, offsets[:-1]) == pytest.approx(np.ones(n))
    picked = np.array([offsets[i] + pi[offsets[i] : offsets[i + 1]].argmax() for i in range(n)])
    best = np.array([offsets[i] + good[offsets[i] : offsets[i + 1]].argmax() for i in range(n)])
    assert (picked == best).mean() > 0.85
    with refuses(PolicyError, "candidate_features"):
        learner.predict_proba(f)


def test_rewards_on_another_scale_change_nothing():
    log, X, _ = classes(6)
    a = SoftmaxLearner(tol=1e-12).fit(log).predict_proba(X)
    other = bandit_log(log.chosen, 100.0 * log.reward - 30.0, log.logging.reshape(-1, 3), context=X)
    b = SoftmaxLearner(tol=1e-12).fit(other)
    assert b.predict_proba(X) == pytest.approx(a, abs=0.02)


def test_it_is_reproducible_and_clonable():
    from sklearn.base import clone

    log, X, _ = classes(7)
    learner = SoftmaxLearner("CAB(M=4)", features="kernel", centres=20, seed=3)
    again = clone(learner)
    assert again.get_params() == learner.get_params()
    assert (learner.fit(log).predict_proba(X) == again.fit(log).predict_proba(X)).all()
    again.set_params(seed=4)
    assert (learner.predict_proba(X) != again.fit(log).predict_proba(X)).any()


@pytest.mark.parametrize("start", ["zero", "logger", "random", "model"])
def test_every_start_leads_somewhere(start):
    log, X, y = classes(8, n=1000)
    told = []
    learner = SoftmaxLearner("CAB-DR(M=30)", start=start, starts=2).fit(
        log, progress=lambda step, value: told.append((step, value))
    )
    assert learner.report_.start.startswith(start)
    assert learner.report_.converged
    assert told[0][0] == 1
    assert (learner.predict(X) == y).mean() > 0.75


def test_the_start_is_like_the_logger():
    log, _, _ = classes(9, n=3000)
    learner = SoftmaxLearner("IPS", start="logger")
    task = Task.of(learner, parse("IPS"), log, None, None)
    pi = task.scores.probabilities(task.like_the_logger()).T
    pi0 = log.logging.reshape(-1, 3)
    uniform = -(pi0 * np.log(1 / 3)).sum(axis=1).mean()
    assert -(pi0 * np.log(pi)).sum(axis=1).mean() < 0.95 * uniform


# -- the reward model ------------------------------------------------------------------------


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000))
def test_the_reward_model_s_loss_is_least(seed):
    """Against scikit-learn's logistic regression, action by action."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(seed)
    n, K, d = 300, 2, 3
    phi = np.hstack([rng.normal(size=(n, d)), np.ones((n, 1))]).astype(np.float32)
    action = rng.integers(0, K, n)
    reward = (rng.random(n) < 1 / (1 + np.exp(-phi[:, 0] - 0.3))).astype(float)
    part = Evidence.of(phi, action, reward, np.ones(n), K)
    l2 = 0.01
    W = fit(part, None, l2=l2, most_steps=1000)
    for k in range(K):
        rows = action == k
        theirs = LogisticRegression(C=1.0 / (l2 * n), tol=1e-8).fit(phi[rows, :-1], reward[rows])
        assert W[k, :-1] == pytest.approx(theirs.coef_[0], abs=0.02)
        assert W[k, -1] == pytest.approx(theirs.intercept_[0], abs=0.02)


def test_an_action_of_which_nothing_is_known_is_as_good_as_a_random_one():
    rng = np.random.default_rng(0)
    n = 2000
    X = rng.normal(size=(n, 2))
    pi0 = np.tile([0.8, 0.2, 0.0], (n, 1))
    action = (rng.random(n) < 0.2).astype(int)
    reward = (rng.random(n) < np.where(action == 0, 0.9, 0.1)).astype(float)
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=pi0, context=X)
    learner = SoftmaxLearner().fit(log)
    assert learner.predict_proba(X).mean(axis=0)[0] > 0.9
    assert learner.predict_proba(X).mean(axis=0)[2] < 0.1


def test_known_rewards_reach_the_model():
    rng = np.random.default_rng(0)
    phi = np.hstack([rng.normal(size=(200, 2)), np.ones((200, 1))]).astype(np.float32)
    label = (phi[:, 0] > 0).astype(int)
    empty = Evidence.of(phi[:0], np.zeros(0, int), np.zeros(0), np.zeros(0), 2)
    W = fit(empty, Known(phi, np.eye(2, dtype=np.float32)[label].T), l2=1e-3)
    assert (predicted(W, phi).argmax(axis=0) == label).mean() > 0.98


# -- features --------------------------------------------------------------------------------


def test_the_kernel_s_features_are_the_kernel_at_the_centres():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)) * [1.0, 10.0, 0.1]
    features = FeatureMap.fit(X, kind="kernel", centres=30, gamma=0.5, rng=rng)
    z = (X - features.shift) / features.scale
    square = ((z[:, None] - z) ** 2).sum(axis=2)
    phi = features(X)[:, :-1].astype(float)
    assert phi @ phi.T == pytest.approx(np.exp(-0.5 * square / 3), abs=1e-3)
    assert (features(X)[:, -1] == 1.0).all()


def test_columns_that_hardly_move_are_not_blown_up():
    X = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 1.0, 1e-9]
    X[:, 2] += 5.0
    features = FeatureMap.fit(X, rng=np.random.default_rng(0))
    assert np.abs(features(X)[:, 2]).max() < 1e-6
    same = FeatureMap.fit(np.full((5, 2), 7.0), rng=np.random.default_rng(0))
    assert (same(np.full((2, 2), 7.0)) == [[0.0, 0.0, 1.0]] * 2).all()


# -- what is refused, and odd logs -------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "column"),
    [
        ({"estimator": "SWITCH(M=2)"}, EstimatorError, "estimator"),
        ({"start": "best"}, ParameterError, "start"),
        ({"l2": -1.0}, ParameterError, "l2"),
        ({"estimator": "SNDR", "penalty": 1.0}, ParameterError, "penalty"),
        ({"folds": 1}, ParameterError, "folds"),
        ({"features": "deep"}, ParameterError, "features"),
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused(settings, error, column):
    with refuses(error, column):
        SoftmaxLearner(**settings).fit(classes(0)[0])


def test_mistakes_are_told():
    log, X, _ = classes(0)
    with refuses(ParameterError, "l1", match='Did you mean "l2"'):
        SoftmaxLearner().set_params(l1=3)
    with refuses(ParameterError, "policy_"):
        SoftmaxLearner().predict_proba(X)
    with refuses(ParameterError, "known"):
        SoftmaxLearner().fit(log, known=(X[:3], np.zeros((3, 2))))
    fitted = SoftmaxLearner().fit(log)
    with refuses(PolicyError, "context"):
        fitted.predict_proba(X[:, :1])


def test_nothing_to_learn_from_is_told():
    log, X, _ = classes(0)
    bare = op.BanditLog.from_arrays(action=[0, 1], reward=[0, 1], logging=[[0.5, 0.5]] * 2)
    with refuses(LogError, "context"):
        SoftmaxLearner().fit(bare)
    constant = bandit_log(log.chosen, np.ones(400), log.logging.reshape(-1, 3), context=X)
    with refuses(LogError, "reward"):
        SoftmaxLearner().fit(constant)
    X = X.copy()
    fitted = SoftmaxLearner().fit(log)
    X[7, 2] = np.nan
    missing = fitted.predict_proba(X)
    X[7, 2] = fitted.policy_.encoder.columns[2].mean
    np.testing.assert_array_equal(missing, fitted.predict_proba(X))
    X[7, 2] = 1e300
    huge = bandit_log(log.chosen, log.reward, log.logging.reshape(-1, 3), context=X)
    with refuses(LogError, "context", match="column 2"):
        SoftmaxLearner().fit(huge)


def test_odd_logs_give_sane_policies():
    rng = np.random.default_rng(0)
    few = bandit_log([0, 1, 2], [1, 0, 1], np.full((3, 8), 0.125), context=rng.normal(size=(3, 2)))
    log, X, _ = classes(1)
    pi0 = log.logging.reshape(-1, 3)
    double = np.hstack([X, X, 1e6 * X, np.ones((400, 1))])  # collinear, constant, large
    collinear = bandit_log(log.chosen, log.reward, pi0, context=double)
    for odd in (few, collinear):
        for name in ("CAB-DR(M=30)", "IPS", "SNIPS"):
            learner = SoftmaxLearner(name).fit(odd)
            pi = learner.probabilities(odd).reshape(len(odd), -1)
            assert np.isfinite(pi).all()
            assert pi.sum(axis=1) == pytest.approx(np.ones(len(odd)))
            assert learner.report_.converged or learner.report_.message
