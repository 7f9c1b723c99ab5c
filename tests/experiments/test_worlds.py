"""Worlds whose truth is known: simulated, and made of labelled sets in every reading."""

from __future__ import annotations

import numpy as np
import pytest

import offpolicy as op
from offpolicy.datasets._classic import Examples
from offpolicy.errors import DatasetError, ParameterError
from offpolicy.experiments.worlds import (
    ALL_READINGS,
    PAPER,
    READINGS,
    finite_worlds,
    halves,
    labelled_world,
    train,
)
from tests.support.refusals import refuses


def test_every_world_s_log_is_fair_to_its_value():
    """With true propensities, the mean of c·r over a large log is the value, less what the
    logger never shows."""
    rng = np.random.default_rng(0)
    for world in finite_worlds():
        if world.reveals == "none" or "heavy" in world.name:
            continue
        log, policy, _ = world.draw(40_000, rng)
        row = op.evaluate(log, policy, estimators=["IPS"], reward_range=world.reward_range)["IPS"]
        supported = np.where(world.logging > 0.0, world.policy * world.reward, 0.0)
        assert row.value == pytest.approx(supported.sum(axis=1).mean(), abs=5 * row.stderr)


def test_every_reading_is_a_different_problem():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    examples = Examples(rng.standard_normal((300, 4)) * [1, 5, 20, 0.1] + 2 * np.eye(4)[y], y)
    worlds = [labelled_world(examples, reading, 0, "indicator") for reading in ALL_READINGS]
    assert len(ALL_READINGS) == len({p.policy.tobytes() + p.prediction.tobytes() for p in worlds})
    for reading, world in zip(ALL_READINGS, worlds, strict=True):
        assert world.policy.sum(axis=1) == pytest.approx(np.ones(150))
        assert (set(world.policy.ravel()) == {0.0, 1.0}) == ("argmax" in reading)
    short = labelled_world(examples, "raw, same 10%", 0, "indicator")
    paper = worlds[ALL_READINGS.index(PAPER)]
    for name in ("logging", "policy", "reward", "prediction"):
        assert (getattr(short, name) == getattr(paper, name)).all()


@pytest.mark.parametrize("reading", ["rare", "raw, standardised, same 10%", ""])
def test_a_reading_that_there_is_not(reading):
    with refuses(ParameterError, column="reading"):
        train(Examples(np.zeros((40, 1)), np.arange(40) % 2), reading, 0)


def test_labelled_data_become_problems(clouds):
    X, y = clouds
    examples = op.datasets.load("clouds")
    assert pytest.approx(X) == examples.X
    assert examples.y.tolist() == y.tolist()
    for reading in READINGS:
        world = labelled_world(examples, reading, 0, "probability")
        assert len(world.reward) == 400
        assert world.policy.sum(axis=1) == pytest.approx(np.ones(400))
        same = "same" in reading
        assert (world.prediction == world.logging).all() == same
        indicator = labelled_world(examples, reading, 0, "indicator").prediction
        assert set(indicator.ravel()) == {0.0, 1.0}
        assert (indicator.argmax(axis=1) == world.prediction.argmax(axis=1)).all()


def test_the_own_model_has_the_same_logs_with_contexts(clouds):
    """Instead of the paper's model there are the features of the examples that are decided upon."""
    given = labelled_world("clouds", READINGS[1], 3)
    own = labelled_world("clouds", READINGS[1], 3, "own")
    (log, policy, _), (same, pi, prediction) = (
        world.draw(200, np.random.default_rng(0)) for world in (given, own)
    )
    assert log.context is None
    assert prediction is None
    for one, other in ((log.chosen, same.chosen), (log.reward, same.reward), (policy, pi)):
        np.testing.assert_array_equal(one, other)
    examples = op.datasets.load("clouds")
    rows = halves(len(examples.y), 3)[1][np.random.default_rng(0).integers(0, 400, 200)]
    np.testing.assert_array_equal(np.asarray(same.context), examples.X[rows])
    # the right label earns 1: contexts and rewards are of the same examples
    np.testing.assert_array_equal(same.reward, examples.y[rows] == same.chosen)
    assert op.evaluate(same, pi, estimators=["DM"])["DM"].estimator == "DM"


def test_a_missing_data_set_says_what_to_do(data, monkeypatch):
    monkeypatch.delenv("OFFPOLICY_DATA")
    with refuses(DatasetError) as caught:
        labelled_world("letter", READINGS[0], 0)
    assert 'Run "offpolicy datasets fetch letter", or let' in str(caught.value)
