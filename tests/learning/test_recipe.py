"""What the default learner relies on: a penalty that is chosen, a sober model, and its pull."""

from __future__ import annotations

import numpy as np
import pytest

from offpolicy._core.lbfgs import minimise
from offpolicy.datasets._from_labels import simulate_bandit
from offpolicy.learning import _task_data as preparing
from offpolicy.learning._reward_model import Evidence, as_at_random, fit, predicted
from offpolicy.learning._softmax_learner import SoftmaxLearner
from offpolicy.learning._task import Task
from offpolicy.logs._bandit_log import BanditLog
from tests.support.learning import classes


def task_of(log: BanditLog, **how) -> Task:
    learner = SoftmaxLearner(**how)
    return Task.of(learner, learner.check(), log, None, None)


# -- the model's penalty -------------------------------------------------------------------------


@pytest.mark.parametrize("best", [-3, -1, 0, 1, 2, 3, 4, 7, 9])
def test_the_least_error_is_walked_to(best):
    asked = []

    def error(l2):
        step = round(2.0 * np.log10(l2 / 3e-6))
        asked.append(step)
        return abs(step - best)

    assert preparing._best_penalty(error) == pytest.approx(3e-6 * 10.0 ** (best / 2.0))
    assert len(asked) == len(set(asked)) <= 8


def test_the_walk_ends():
    assert preparing._best_penalty(lambda l2: -l2) == pytest.approx(3e-6 * 10.0**4.5)
    assert preparing._best_penalty(lambda l2: l2) == pytest.approx(3e-6 * 10.0**-1.5)
    assert preparing._best_penalty(lambda l2: np.nan) == 3e-2


def test_noise_asks_for_a_larger_penalty_than_labels_do():
    log, X, _ = classes(3, n=600, d=6)
    rng = np.random.default_rng(0)
    noise = BanditLog.from_arrays(
        action=log.chosen, reward=rng.integers(0, 2, 600).astype(float),
        logging=np.asarray(log.logging).reshape(600, 3), context=X,
    )  # fmt: skip
    clear, unclear = task_of(log).model, task_of(noise).model
    assert clear is not None
    assert unclear is not None
    assert unclear.l2 >= 10.0 * clear.l2


def test_the_chosen_penalty_explains_what_was_not_seen_best():
    log, _, _ = classes(5, n=500)
    chosen = task_of(log).model
    assert chosen is not None

    def unseen(l2):
        model = task_of(log, model_l2=l2).model
        assert model is not None
        mean = model.delta_hat.reshape(len(log), -1)[np.arange(len(log)), log.chosen]
        mean = np.clip(mean, 1e-9, 1.0 - 1e-9)
        return -float((log.reward * np.log(mean) + (1.0 - log.reward) * np.log(1.0 - mean)).sum())

    for factor in (10.0**-0.5, 10.0**0.5):
        assert unseen(chosen.l2) <= 1.001 * unseen(factor * chosen.l2)


# -- what nothing speaks of ----------------------------------------------------------------------


def test_one_more_decision_for_every_context():
    """Fitting with what is taken for known is fitting the log with so many rows added."""
    rng = np.random.default_rng(1)
    n, K, d, base = 40, 3, 4, -0.7
    phi = np.hstack([rng.standard_normal((n, d)), np.ones((n, 1))]).astype(np.float32)
    action, reward = rng.integers(0, K, n), rng.integers(0, 2, n).astype(float)
    part = Evidence.of(phi, action, reward, np.ones(n), K)
    W = fit(part, as_at_random(part, base), l2=1e-2, base=base, most_steps=1000)
    usual = 1.0 / (1.0 + np.exp(-base))
    added = Evidence.of(
        np.vstack([phi, np.tile(phi, (K, 1))]),
        np.r_[action, np.repeat(np.arange(K), n)],
        np.r_[reward, np.full(K * n, usual)],
        np.r_[np.ones(n), np.full(K * n, 1.0 / K)],
        K,
    )
    # a penalty is per row, and there are twice as many now
    same = 1e-2 * (n + n / K) / (2.0 * n)
    assert fit(added, None, l2=same, base=base, most_steps=1000) == pytest.approx(W, abs=2e-3)


def test_a_good_logger_does_not_make_every_action_good():
    """It chooses an action where that is right: of elsewhere the log says nothing."""
    rng = np.random.default_rng(2)
    K, n = 4, 3000
    centre = 3.0 * np.eye(K)
    y = rng.integers(0, K, n)
    X = centre[y] + rng.standard_normal((n, K))
    pi0 = np.full((n, K), 0.01)
    pi0[np.arange(n), y] = 0.97
    log, rows = simulate_bandit(X, y, pi0, n=n, rng=rng)
    model = task_of(log).model
    assert model is not None
    wrong = model.delta_hat.reshape(n, K)[np.arange(n), (y[rows] + 1) % K]
    assert float(wrong.mean()) < 0.5
    learner = SoftmaxLearner().fit(log)
    pi = learner.predict_proba(X)
    assert float(pi[np.arange(n), y].mean()) > 0.95


def test_known_rewards_replace_what_is_taken_for_known():
    log, X, y = classes(7, n=300)
    known = (X[:50], np.eye(3)[y[:50]])
    learner = SoftmaxLearner()
    alone = Task.of(learner, learner.check(), log, None, None).model
    with_known = Task.of(learner, learner.check(), log, None, known).model
    assert alone is not None
    assert with_known is not None
    taught = predicted(with_known.weights, task_of(log).views.phi, with_known.base)
    assert float(taught.max()) > float(alone.delta_hat.max())


# -- the pull ------------------------------------------------------------------------------------


def test_an_endless_penalty_leaves_the_model_s_policy():
    log, X, _ = classes(4)
    learner = SoftmaxLearner(l2=1e6).fit(log)
    task = task_of(log)
    assert task.model is not None
    sharp = 3.0 * (task.views.phi @ task.model.weights.T)
    expected = np.exp(sharp - sharp.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    assert learner.predict_proba(X) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("start", ["zero", "random"])
def test_other_starts_are_drawn_to_the_uniform_policy(start):
    log, X, _ = classes(4)
    learner = SoftmaxLearner(l2=1e6, start=start).fit(log)
    pi = learner.predict_proba(X)
    # the last feature, which is 1, is not penalised
    assert float(np.ptp(pi, axis=0).max()) < 1e-3


# -- features of a kernel, some of which hardly move ---------------------------------------------


def test_units_do_not_move_the_minimum_and_save_steps(monkeypatch):
    """A model of features whose deviations fall from 1 to 0.001, as those of a kernel do."""
    from offpolicy.learning import _reward_model as rewards

    rng = np.random.default_rng(0)
    n, d, K = 1500, 20, 3
    phi = np.hstack([rng.normal(size=(n, d)) * np.geomspace(1, 1e-3, d), np.ones((n, 1))])
    chance = 1.0 / (1.0 + np.exp(-phi[:, :d] @ np.geomspace(1, 300, d)))
    reward = (rng.random(n) < chance).astype(float)
    action = rng.integers(0, K, n)
    seen = Evidence.of(phi.astype(np.float32), action, reward, np.ones(n), K)
    steps = []
    plain = minimise
    monkeypatch.setattr(
        rewards, "minimise", lambda *a, **k: (steps.append((m := plain(*a, **k)).steps), m)[1]
    )
    even, uneven = (
        fit(seen, None, l2=1e-7, most_steps=5000, tolerance=1e-12, even=even)
        for even in (True, False)
    )
    assert steps[1] < 0.3 * steps[0]
    assert phi @ uneven.T == pytest.approx(phi @ even.T, abs=0.02)


def test_a_kernel_s_features_are_uneven():
    log, _, _ = classes(1, n=100)
    assert task_of(log).views.is_even
    assert not task_of(log, features="kernel", centres=20).views.is_even
