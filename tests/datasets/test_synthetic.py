"""Synthetic logs: every control does what it says, and the truth is the truth."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import offpolicy as op
from offpolicy.datasets._population import BLOCK, Gaussian, Population, Synthetic, TwoValued
from offpolicy.datasets._synthetic import make_population, simulate_synthetic
from offpolicy.errors import ParameterError
from offpolicy.estimators import theory
from tests.support.refusals import refuses

DEFAULTS: dict[str, Any] = {
    "actions": 5, "fewest": None, "contexts": 40, "features": 3, "overlap": 0.5,
    "unsupported": 0.0, "model_error": 0.5, "propensity_error": 0.0, "reward": "binary",
    "noise": 0.0,
}  # fmt: skip


def population(seed: int = 0, **changes: Any) -> Population:
    return make_population(seed, **{**DEFAULTS, **changes})


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    """The statistic, as a number of its own standard deviations above its mean."""
    seen = expected > 0
    assert not counts[~seen].any()
    statistic = ((counts - expected)[seen] ** 2 / expected[seen]).sum()
    freedom = seen.sum() - len(expected)  # each row's total is given
    return float((statistic - freedom) / np.sqrt(2 * freedom))


# -- the truth ---------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 30),
    actions=st.integers(1, 6),
    ragged=st.booleans(),
    contexts=st.integers(1, 9),
    overlap=st.sampled_from([0.0, 0.3, 1.0]),
    unsupported=st.sampled_from([0.0, 0.5, 1.0]),
    error=st.sampled_from([0.0, 2.0, 1e6]),
    reward=st.sampled_from(["binary", "continuous"]),
    noise=st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=60, deadline=None)
def test_the_value_is_that_of_enumeration(
    seed, n, actions, ragged, contexts, overlap, unsupported, error, reward, noise
):
    drawn = simulate_synthetic(
        n, actions=actions, fewest=1 if ragged else None, contexts=contexts, overlap=overlap,
        unsupported=unsupported, model_error=error, propensity_error=error, reward=reward,
        noise=noise, rng=seed,
    )  # fmt: skip
    everything = drawn.population
    total = 0.0
    for s in range(contexts):
        for k in range(actions):
            total += everything.policy[s, k] * everything.expected[s, k] / contexts
    assert drawn.value == pytest.approx(total, rel=1e-12, abs=1e-12)
    assert len(drawn.log) == n
    assert (
        len(drawn.policy) == len(drawn.prediction) == len(drawn.expected) == drawn.log.offsets[-1]
    )
    assert_allclose(np.add.reduceat(drawn.policy, drawn.log.offsets[:-1]), 1.0)
    assert (drawn.log.propensity > 0).all()
    op.evaluate(drawn.log, drawn.policy, prediction=drawn.prediction)


def test_flat_arrays_are_the_rows_of_the_tables():
    drawn = simulate_synthetic(200, actions=6, fewest=1, contexts=20, propensity_error=1.0)
    everything, log = drawn.population, drawn.log
    for i, s in enumerate(drawn.rows):
        here = slice(log.offsets[i], log.offsets[i + 1])
        names = np.asarray(log.actions)[log.candidate[here]]
        assert_array_equal(names, np.flatnonzero(everything.present[s]))
        assert_array_equal(drawn.policy[here], everything.policy[s, names])
        assert_array_equal(drawn.prediction[here], everything.prediction[s, names])
        assert_array_equal(drawn.expected[here], everything.expected[s, names])
        assert_array_equal(log.logging[here], everything.believed[s, names])
        assert_array_equal(log.context[i], everything.context[s])


@pytest.mark.parametrize("fewest", [None, 1])
@pytest.mark.parametrize("unsupported", [0.0, 0.4])
def test_ips_is_unbiased(fewest, unsupported):
    world = population(fewest=fewest, unsupported=unsupported)
    values = []
    for seed in range(300):
        log, pi, *_ = world.draw(200, seed)
        values.append((pi[log.chosen_index] / log.propensity * log.reward).mean())
    shown = np.where(world.logging > 0, world.policy * world.expected, 0.0).sum(axis=1).mean()
    assert abs(np.mean(values) - shown) < 4 * np.std(values) / np.sqrt(len(values))


@pytest.mark.parametrize("reward", ["binary", "continuous"])
def test_the_theorems_hold_on_the_population(reward):
    world = population(reward=reward, noise=0.3, propensity_error=0.5, unsupported=0.2, fewest=2)
    assert world.problem.value == pytest.approx(world.value, rel=1e-12)
    member = op.CABDR(M=3)
    log, pi, prediction, *_ = world.draw(100_000, 1)
    row = op.evaluate(log, pi, prediction=prediction, estimators=[member]).estimates[0]
    assert abs(row.value - world.value - theory.bias(member, world.problem)) < 4 * row.stderr
    exact = np.sqrt(theory.variance(member, world.problem) / len(log))
    assert row.stderr == pytest.approx(exact, rel=0.05)


def test_the_headline_holds_the_truth():
    drawn = simulate_synthetic(20_000, overlap=0.6)
    result = op.evaluate(drawn.log, drawn.policy, prediction=drawn.prediction)
    assert drawn.value in result.headline.interval
    assert result.headline.interval.high - result.headline.interval.low < 0.05


# -- what is drawn -----------------------------------------------------------------------------


@pytest.mark.parametrize("fewest", [None, 2])
def test_actions_are_drawn_with_the_logger_s_probabilities(fewest):
    world = population(fewest=fewest, unsupported=0.2, contexts=30)
    log, *_, rows, _ = world.draw(60_000, 3)
    action = (
        log.chosen if fewest is None else np.asarray(log.actions)[log.candidate[log.chosen_index]]
    )
    counts = np.zeros(world.logging.shape)
    np.add.at(counts, (rows, action), 1)
    assert abs(chi_square(counts, world.logging * counts.sum(axis=1, keepdims=True))) < 4
    uniform = np.full((1, 30), 60_000 / 30)
    assert abs(chi_square(np.bincount(rows, minlength=30)[None], uniform)) < 4


@pytest.mark.parametrize(
    "rewards", [TwoValued(), TwoValued(-2.0, 3.0), Gaussian(0.7), Gaussian(0.0)]
)
def test_rewards_have_their_mean_and_variance(rewards):
    n, mean = 200_000, np.full(200_000, 0.3)
    drawn = rewards.draw(mean, np.random.default_rng(0))
    variance = rewards.variance(mean)[0]
    assert abs(drawn.mean() - 0.3) <= 4 * np.sqrt(variance / n) + 1e-12
    assert drawn.var() == pytest.approx(variance, rel=0.02)


def test_a_certain_reward_is_certain():
    rng = np.random.default_rng(0)
    assert_array_equal(TwoValued(-1.0, 0.0).draw(np.repeat([-1.0, 0.0], 999), rng),
                       np.repeat([-1.0, 0.0], 999))  # fmt: skip


def same(first: Synthetic, second: Synthetic) -> None:
    assert first.log.fingerprint() == second.log.fingerprint()
    for name in ("policy", "prediction", "expected", "rows"):
        assert_array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("n", [1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
@pytest.mark.parametrize("rows", [1000, BLOCK, 20_000])
def test_the_same_rows_however_they_are_cut(n, rows):
    world = population()
    pieces = list(world.draws(n, 5, rows=rows))
    assert [len(piece.log) for piece in pieces[:-1]] == [rows] * (len(pieces) - 1)
    whole = world.draw(n, 5)
    assert_array_equal(np.concatenate([piece.log.reward for piece in pieces]), whole.log.reward)
    assert_array_equal(np.concatenate([piece.log.chosen for piece in pieces]), whole.log.chosen)
    for name in ("policy", "prediction", "expected", "rows"):
        joined = np.concatenate([getattr(piece, name) for piece in pieces])
        assert_array_equal(joined, getattr(whole, name))


def test_a_longer_log_begins_with_the_shorter_one():
    world = population()
    long = world.draw(BLOCK + 500, 5).log
    for n in (1, 100, BLOCK + 2):
        assert_array_equal(world.draw(n, 5).log.reward, long.reward[:n])


def test_seeds_and_generators():
    first, again, other = (simulate_synthetic(100, rng=seed) for seed in (5, 5, 6))
    same(first.population.draw(100, 5), again.population.draw(100, 5))
    assert first.log.fingerprint() == again.log.fingerprint() != other.log.fingerprint()
    rng = np.random.default_rng(0)
    drawn, next_drawn = (simulate_synthetic(100, rng=rng) for _ in range(2))
    assert drawn.log.fingerprint() != next_drawn.log.fingerprint()
    assert drawn.log.fingerprint() == simulate_synthetic(
        100, rng=np.random.default_rng(0)
    ).log.fingerprint()  # fmt: skip


# -- the controls ------------------------------------------------------------------------------


def second_moments(world: Population) -> np.ndarray:
    """Every context's Σ π²/π₀."""
    return np.asarray((world.policy**2 / world.logging).sum(axis=1))


def test_overlap_goes_from_apart_to_identical():
    chain = [population(overlap=overlap) for overlap in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)]
    for less, more in pairwise(chain):
        assert (second_moments(less) > second_moments(more)).all()
        assert less.shared < more.shared
        assert_array_equal(less.policy, more.policy)
        assert less.value == more.value
    assert_array_equal(chain[-1].logging, chain[-1].policy)
    assert chain[-1].shared == pytest.approx(1.0, rel=1e-12)
    assert population(actions=50, overlap=0.0).shared < 0.1


def test_identical_policies_have_weights_of_one():
    drawn = simulate_synthetic(500, overlap=1.0, fewest=1)
    assert_array_equal(drawn.log.logging, drawn.policy)


def test_support_shrinks_to_the_favourite():
    chain = [population(unsupported=share, contexts=400) for share in (0.0, 0.1, 0.4, 0.7, 1.0)]
    assert chain[0].unsupported == 0.0
    for more, less in pairwise(chain):
        assert not ((more.logging == 0) & (less.logging > 0)).any()
        assert more.unsupported < less.unsupported
        assert more.value == less.value
    favourite = np.eye(5)[chain[0].logging.argmax(axis=1)]
    assert_array_equal(chain[-1].logging, favourite)
    gone = (chain[1].logging == 0)[favourite == 0].mean()
    assert gone == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / 1600))
    assert chain[1].unsupported == pytest.approx(
        np.where(chain[1].logging == 0, chain[1].policy, 0).sum() / 400
    )


@pytest.mark.parametrize("reward", ["binary", "continuous"])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_model_error_grows_everywhere(reward, noise):
    sizes = (0.0, 0.1, 0.5, 1.0, 3.0)
    chain = [population(model_error=size, reward=reward, noise=noise) for size in sizes]
    assert_array_equal(chain[0].prediction, chain[0].expected)
    for less, more in pairwise(chain):
        apart = [np.abs(world.prediction - world.expected) for world in (less, more)]
        assert (apart[0] < apart[1]).all()
        assert_array_equal(less.logging, more.logging)
        assert_array_equal(less.expected, more.expected)


def test_the_error_of_continuous_predictions_is_of_its_size():
    world = population(model_error=0.5, reward="continuous", actions=200, contexts=500)
    assert (world.prediction - world.expected).std() == pytest.approx(0.5, rel=0.1)


def test_propensity_error_grows_everywhere_but_draws_the_same():
    chain = [population(propensity_error=size) for size in (0.0, 0.1, 0.5, 2.0)]
    assert chain[0].believed is None
    far = []
    for world in chain[1:]:
        assert_array_equal(world.logging, chain[0].logging)
        assert_array_equal(world.draw(300, 1).log.chosen, chain[0].draw(300, 1).log.chosen)
        assert_allclose(world.believed.sum(axis=1), 1.0)
        far.append((world.logging * np.log(world.logging / world.believed)).sum(axis=1))
    for less, more in pairwise(far):
        assert (less < more).all()


def test_the_error_of_propensities_is_of_its_size():
    world = population(propensity_error=0.3, actions=100)
    ratio = np.log(world.believed / world.logging)
    ratio -= ratio.mean(axis=1, keepdims=True)  # what normalising took away
    assert ratio.std() == pytest.approx(0.3, rel=0.05)
    assert abs((ratio**3).mean()) < 4 * 0.3**3 * np.sqrt(15 / ratio.size)  # not skewed


def test_noise_pulls_binary_rewards_to_a_coin():
    chain = [population(noise=noise) for noise in (0.0, 0.1, 0.3, 0.5)]
    plain = chain[0].expected
    for world, noise in zip(chain, (0.0, 0.1, 0.3, 0.5), strict=True):
        assert_allclose(world.expected, plain * (1 - noise) + (1 - plain) * noise)
    assert_allclose(chain[-1].expected, 0.5)
    assert set(chain[1].draw(500, 0).log.reward) == {0.0, 1.0}


def test_continuous_rewards_without_noise_are_their_mean():
    drawn = simulate_synthetic(100, reward="continuous", noise=0.0)
    assert_array_equal(drawn.log.reward, drawn.expected[drawn.log.chosen_index])
    noisy = simulate_synthetic(50_000, reward="continuous", noise=0.3)
    rest = noisy.log.reward - noisy.expected[noisy.log.chosen_index]
    assert rest.std() == pytest.approx(0.3, rel=0.03)


def test_candidates_are_from_fewest_to_all():
    drawn = simulate_synthetic(3000, actions=5, fewest=2)
    assert set(np.diff(drawn.log.offsets)) == {2, 3, 4, 5}
    assert (simulate_synthetic(20, actions=4, fewest=4).log.offsets[1:] % 4 == 0).all()
    assert simulate_synthetic(1, actions=1).log.propensity.tolist() == [1.0]


def test_every_action_is_a_candidate_equally_often():
    world = population(actions=6, fewest=1, contexts=3000)
    share = world.present.mean(axis=0)
    assert np.abs(share - 3.5 / 6).max() < 4 * np.sqrt(0.25 / 3000)


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"n": 0}, {"actions": 0}, {"contexts": 0}, {"features": 0}, {"fewest": 0}, {"fewest": 11},
        {"contexts": 10**7}, {"contexts": 10**8}, {"overlap": 1.1}, {"overlap": float("nan")},
        {"unsupported": -0.1}, {"model_error": -1.0}, {"propensity_error": float("inf")},
        {"noise": 0.6}, {"noise": -0.6, "reward": "continuous"}, {"reward": "binry"}, {"rng": -1},
        {"rng": 0.5}, {"rng": None},
    ],
    ids=str,
)  # fmt: skip
def test_what_makes_no_sense_is_refused(changes):
    hint = 'Did you mean "binary"' if changes == {"reward": "binry"} else None
    with refuses(ParameterError, next(iter(changes)), match=hint):
        simulate_synthetic(**{"n": 10, **changes})
