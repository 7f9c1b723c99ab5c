"""Labelled data as a bandit log: rewards, frequencies, seeds, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.linear_model import LogisticRegression

from offpolicy import simulate_bandit
from offpolicy.datasets._from_labels import sample_actions
from offpolicy.errors import ParameterError, PolicyError
from tests.support.refusals import refuses

NAN = float("nan")
X = np.arange(6.0).reshape(3, 2)
Y = [0, 1, 1]
POLICY = np.array([[0.2, 0.8, 0.0], [0.5, 0.0, 0.5], [0.0, 0.9, 0.1]])


def simulate(**changes: Any) -> Any:
    arguments = {"X": X, "y": Y, "policy": POLICY, **changes}
    return simulate_bandit(**arguments)


# -- what is simulated -------------------------------------------------------------------------


def test_each_example_is_used_once_in_order():
    log, rows = simulate()
    assert_array_equal(rows, [0, 1, 2])
    assert_array_equal(log.context, X)
    assert_array_equal(log.logging.reshape(3, 3), POLICY)


def test_examples_are_drawn_with_replacement():
    log, rows = simulate(n=3000, rng=1)
    assert len(log) == len(rows) == 3000
    counts = np.bincount(rows, minlength=3)
    assert np.abs(counts - 1000).max() < 4 * np.sqrt(3000 * (1 / 3) * (2 / 3))
    assert_array_equal(log.context, X[rows])
    assert_array_equal(log.logging.reshape(-1, 3), POLICY[rows])
    assert_array_equal(log.propensity, POLICY[rows, log.chosen])


def test_only_the_right_action_is_rewarded():
    log, rows = simulate(n=500, rng=2)
    assert_array_equal(log.reward, log.chosen == np.array(Y)[rows])
    assert 0 < log.reward.mean() < 1


def test_whole_labels_of_any_numeric_type_do():
    assert_array_equal(simulate(y=[0.0, 1.0, 1.0]).log.reward, simulate().log.reward)


def test_a_fitted_classifier_is_a_logging_policy():
    labels = [0, 1, 2]
    model = LogisticRegression().fit(X, labels)
    log, rows = simulate(y=labels, policy=model, n=50)
    assert_array_equal(log.logging.reshape(-1, 3), model.predict_proba(X)[rows])


def test_a_context_of_one_dimension_is_one_column():
    assert_array_equal(simulate(X=[0.0, 1.0, 2.0]).log.context, [[0.0], [1.0], [2.0]])


def test_narrow_probabilities_are_given_their_tolerance():
    policy = POLICY.astype(np.float32)
    policy[0, 0] += 5e-4
    simulate(policy=policy)


def test_the_same_seed_gives_the_same_log():
    first, again, other = (simulate(n=100, rng=seed) for seed in (5, 5, 6))
    assert first.log.fingerprint() == again.log.fingerprint()
    assert_array_equal(first.rows, again.rows)
    assert first.log.fingerprint() != other.log.fingerprint()


def test_a_seed_and_its_generator_are_the_same():
    by_generator = simulate(n=100, rng=np.random.default_rng(5))
    assert by_generator.log.fingerprint() == simulate(n=100, rng=5).log.fingerprint()


def test_a_generator_moves_on():
    rng = np.random.default_rng(5)
    assert simulate(n=100, rng=rng).log.fingerprint() != simulate(n=100, rng=rng).log.fingerprint()


# -- noise, and the truth ----------------------------------------------------------------------


def brute_force(policy: Any, noise: float, right: float, wrong: float) -> float:
    total = 0.0
    for i, label in enumerate(Y):
        for k, p in enumerate(np.asarray(policy)[i]):
            paid, other = (right, wrong) if k == label else (wrong, right)
            total += p * ((1 - noise) * paid + noise * other) / len(Y)
    return total


@given(
    noise=st.sampled_from([0.0, 0.1, 0.5]),
    rewards=st.sampled_from([(1.0, 0.0), (0.0, -1.0), (7.0, -3.5)]),
    seed=st.integers(0, 2**32),
)
def test_the_value_is_that_of_enumeration(noise, rewards, seed):
    right, wrong = rewards
    other = np.random.default_rng(seed).dirichlet(np.ones(3), 3)
    simulated = simulate(noise=noise, right=right, wrong=wrong, n=20, rng=seed)
    for policy in (POLICY, other):
        expected = brute_force(policy, noise, right, wrong)
        assert simulated.value(policy) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert set(simulated.log.reward) <= {right, wrong}


def test_without_noise_the_value_is_the_chance_of_being_right():
    assert simulate().value(POLICY) == pytest.approx(POLICY[np.arange(3), Y].mean())


def test_a_classifier_has_a_value():
    labels = [0, 1, 2]
    model = LogisticRegression().fit(X, labels)
    simulated = simulate(y=labels, policy=model, noise=0.2)
    assert simulated.value(model) == simulated.value(model.predict_proba(X))


def test_noise_flips_as_many_rewards_as_it_says():
    n = 40_000
    plain, noisy = (simulate(n=n, noise=noise, rng=3).log for noise in (0.0, 0.2))
    assert_array_equal(plain.chosen, noisy.chosen)
    flipped = (plain.reward != noisy.reward).mean()
    assert abs(flipped - 0.2) < 4 * np.sqrt(0.2 * 0.8 / n)


def test_half_noise_tells_nothing():
    log, rows = simulate(n=40_000, noise=0.5, rng=4)
    right = log.chosen == np.array(Y)[rows]
    for group in (right, ~right):
        assert abs(log.reward[group].mean() - 0.5) < 4 * 0.5 / np.sqrt(group.sum())


def test_ips_finds_the_value_under_noise():
    full = 0.7 * POLICY + 0.1
    values = []
    for seed in range(300):
        log, rows = simulate(policy=full, n=100, noise=0.2, right=0.0, wrong=-1.0, rng=seed)
        values.append((POLICY[rows, log.chosen] / log.propensity * log.reward).mean())
    truth = simulate(noise=0.2, right=0.0, wrong=-1.0).value(POLICY)
    assert abs(np.mean(values) - truth) < 4 * np.std(values) / np.sqrt(len(values))


@pytest.mark.parametrize(
    ("column", "value"),
    [("noise", 0.6), ("noise", -0.1), ("noise", NAN), ("right", 0.0), ("right", float("inf")),
     ("wrong", NAN)],
)  # fmt: skip
def test_rewards_that_make_no_sense_are_refused(column, value):
    with refuses(ParameterError, column):
        simulate(**{column: value})


def test_the_value_of_a_policy_over_other_actions_is_refused():
    with refuses(PolicyError, "policy"):
        simulate().value(np.full((3, 2), 0.5))
    with refuses(PolicyError, "policy"):
        simulate().value(POLICY[:2])


# -- sample_actions ----------------------------------------------------------------------------


def test_actions_are_drawn_with_their_probabilities():
    n, p = 20_000, np.array([0.1, 0.0, 0.25, 0.65, 0.0])
    streams = np.random.SeedSequence(0).spawn(20)
    drawn = [sample_actions(np.tile(p, (n, 1)), np.random.default_rng(s)) for s in streams]
    frequency = np.bincount(np.concatenate(drawn), minlength=5) / (n * len(streams))
    assert np.all(np.abs(frequency - p) <= 4 * np.sqrt(p * (1 - p) / (n * len(streams))))


def test_every_row_is_drawn_from_its_own_probabilities():
    p = np.repeat(np.eye(4), 50, axis=0)
    assert_array_equal(sample_actions(p, np.random.default_rng(0)), np.repeat(np.arange(4), 50))


class Extreme:
    """A generator that only ever gives the end of its range."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self, n: int) -> np.ndarray:
        return np.full(n, self.value)


@pytest.mark.parametrize("draw", [0.0, np.nextafter(1.0, 0.0)], ids=["lowest", "highest"])
def test_an_action_of_probability_zero_is_never_drawn(draw):
    p = np.random.default_rng(0).dirichlet(np.full(7, 0.3), 5000)
    p[:, [0, 3, 6]] = 0.0
    p /= p.sum(axis=1, keepdims=True)
    drawn = sample_actions(p, Extreme(draw))
    assert (p[np.arange(len(p)), drawn] > 0).all()


def test_rounded_sums_never_draw_beyond_the_last_action():
    assert_array_equal(sample_actions(np.full((1, 10), 0.1), Extreme(np.nextafter(1.0, 0.0))), [9])


# -- what is refused ---------------------------------------------------------------------------


def test_examples_and_labels_must_be_equally_many():
    with refuses(ParameterError, "X"):
        simulate(y=[0, 1])


def test_no_examples_are_refused_for_what_they_are():
    with refuses(ParameterError, "y"):
        simulate(X=np.zeros((0, 2)), y=[], policy=np.zeros((0, 3)))


@pytest.mark.parametrize(
    "labels",
    [["a", "b", "b"], [1, 2, 3], [0, -1, 1], [0.0, NAN, 1.0], [0.0, 0.5, 1.0], [[0], [1], [1]]],
    ids=str,
)
def test_labels_that_are_no_actions_are_refused(labels):
    with refuses(ParameterError, "y"):
        simulate(y=labels)


@pytest.mark.parametrize(
    "policy",
    [[0.5, 0.5], POLICY[:2], np.zeros((3, 2, 2)), np.zeros((3, 0)), "uniform", None],
    ids=["one row", "two rows", "three axes", "no actions", "text", "none"],
)
def test_a_policy_of_another_shape_is_refused(policy):
    with refuses(PolicyError, "policy"):
        simulate(policy=policy)


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ([0.5, 0.4, 0.0], ""),
        ([0.0, 0.0, 0.0], ""),
        ([-0.5, 1.0, 0.5], "candidate 0"),
        ([0.5, NAN, 0.5], "candidate 1"),
    ],
)
def test_a_policy_that_is_no_distribution_is_refused(row, part):
    with refuses(PolicyError, "policy", 1, part=part):
        simulate(policy=[POLICY[0], row, POLICY[2]])


@pytest.mark.parametrize("n", [0, -1])
def test_a_number_of_draws_below_one_is_refused(n):
    with refuses(ParameterError, "n"):
        simulate(n=n)


def test_a_missing_context_is_kept():
    log, rows = simulate(X=[[0.0], [NAN], [1.0]])
    assert (np.isnan(log.context[:, 0]) == (rows == 1)).all()
