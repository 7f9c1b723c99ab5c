"""Bias and variance of every estimator over M on labelled sets: exactly, and by logs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.estimators import theory
from offpolicy.experiments.evaluation.accuracy import (
    ESTIMATORS,
    GRID,
    TRAININGS,
    draw_pairs,
    estimates,
    exact,
    repeated,
    survey,
)
from offpolicy.experiments.worlds import ALL_READINGS, World, labelled_world
from tests.support import reference
from tests.support.experiments import random_world


def as_theory(world: World) -> theory.Problem:
    m = len(world.logging)
    return theory.Problem(
        p=np.full(m, 1.0 / m),
        pi=world.policy,
        pi0=world.logging,
        delta=world.reward,
        delta_hat=world.prediction,
    )


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_exact_moments_are_those_of_the_formulas(seed):
    world = random_world(seed, m=4)
    known = as_theory(world)
    slow = reference.Problem(
        p=known.p.tolist(),
        pi=known.pi.tolist(),
        pi0=known.pi0.tolist(),
        pi0_hat=known.pi0.tolist(),
        delta=known.delta.tolist(),
        delta_hat=known.delta_hat.tolist(),
        sigma2=known.sigma2.tolist(),
    )
    found = exact(world)
    for name in ESTIMATORS:
        places = range(0, len(GRID.of(name)), 34)
        for j in places:
            parameter = None if math.isnan(GRID.of(name)[j]) else float(GRID.of(name)[j])
            mean, variance = reference.enumerate_moments(name, parameter, slow)
            scale = max(1.0, variance)
            assert found.bias[name][j] == pytest.approx(
                mean - reference.true_value(slow), abs=1e-9 * scale
            )
            assert found.variance[name][j] == pytest.approx(variance, rel=1e-7, abs=1e-12)


def test_exact_moments_are_those_of_the_theorems():
    world = random_world(3, m=50, K=5, unsupported=0.0)
    found, known = exact(world), as_theory(world)
    for name in ESTIMATORS:
        for j, member in enumerate(GRID.members(name)):
            assert found.bias[name][j] == pytest.approx(theory.bias(member, known), abs=1e-9)
            assert found.variance[name][j] == pytest.approx(
                theory.variance(member, known), rel=1e-8, abs=1e-12
            )


def test_repeats_are_evaluations_of_logs():
    """Each repeat, taken apart again into a log, gives what `evaluate` and the formulas give."""
    world = random_world(1, unsupported=0.0)
    K = world.logging.shape[1]
    pairs = draw_pairs(world, 20, 2, np.random.default_rng(0))
    found = repeated(world, 20, 2, np.random.default_rng(0))
    for name in ESTIMATORS:
        values = estimates(world, name, pairs)
        slow = np.zeros_like(values)
        for k, own in enumerate(pairs):
            rows, action = own // K, own % K
            decisions = [
                reference.Decision(
                    world.policy[x].tolist(),
                    world.logging[x].tolist(),
                    world.prediction[x].tolist(),
                    int(y),
                    float(world.reward[x, y]),
                )
                for x, y in zip(rows, action, strict=True)
            ]
            log = op.BanditLog.from_arrays(
                action=action,
                reward=world.reward[rows, action],
                logging=world.logging[rows],
            )
            for j, member in enumerate(GRID.members(name)):
                slow[j, k] = reference.estimate(name, member.parameter, decisions)[0]
            result = op.evaluate(
                log,
                world.policy[rows],
                prediction=world.prediction[rows],
                estimators=[str(member) for member in GRID.members(name)],
            )
            assert values[:, k] == pytest.approx([row.value for row in result], rel=1e-9)
        assert values == pytest.approx(slow, rel=1e-9, abs=1e-12)
        assert found.bias[name] == pytest.approx(slow.mean(axis=1) - world.value, abs=1e-9)
        assert found.variance[name] == pytest.approx(slow.var(axis=1), rel=1e-6, abs=1e-12)


def test_many_repeats_come_to_what_is_exact():
    rng = np.random.default_rng(5)
    K = 4
    world = World(
        rng.dirichlet(np.full(K, 5.0), 40),
        rng.dirichlet(np.full(K, 5.0), 40),
        np.eye(K)[rng.integers(0, K, 40)],
        np.eye(K)[rng.integers(0, K, 40)],
    )
    n, repeats = 50, 4000
    found, known = repeated(world, n, repeats, rng), exact(world).at(n)
    for name in ESTIMATORS:
        z = (found.bias[name] - known.bias[name]) / np.sqrt(known.variance[name] / repeats + 1e-18)
        assert np.abs(z).max() < 4.5
        assert found.variance[name] == pytest.approx(known.variance[name], rel=0.15)


def test_the_ends_of_the_family():
    """M = 0 is the model, M = ∞ the weights; SB likewise."""
    found = exact(random_world(2, m=40, K=4, unsupported=0.0))
    for name in ("CAB", "SWITCH", "SB", "CAB-DR"):
        assert found.mse(name)[0] == pytest.approx(found.best("DM"))
    for name, end in {
        "CAB": "IPS",
        "SWITCH": "IPS",
        "SB": "IPS",
        "CIPS": "IPS",
        "CAB-DR": "DR",
    }.items():
        assert found.mse(name)[-1] == pytest.approx(found.best(end))


def test_from_one_on_means_from_one_on():
    found = exact(random_world(4)).above(1.0)
    assert found.M[0] == pytest.approx(1.0)
    assert len(found.mse("CAB")) == len(found.M) < len(GRID.M)
    assert len(found.mse("SB")) == len(GRID.tau)


def test_the_survey_holds_every_reading(clouds):
    parts = {}
    for training in TRAININGS:
        parts |= survey("clouds", training, 0)
    assert sorted(parts) == sorted(ALL_READINGS)
    world = labelled_world("clouds", ALL_READINGS[5], 0)
    assert parts[ALL_READINGS[5]].mse("CAB") == pytest.approx(exact(world).mse("CAB"))
