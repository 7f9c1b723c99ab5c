"""Bias, variance and mean squared error of every estimator over its parameter (Figures 1 and 2).

On a fixed test half an estimator's contribution depends on nothing but the example and the action
drawn for it. So each estimator at each value of its parameter is one table of examples × actions:
a repeat looks its decisions up there, and the exact bias and variance are the table's moments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import load, sample_actions
from offpolicy.errors import ParameterError
from offpolicy.estimators import Estimator
from offpolicy.experiments.accuracy import Accuracy, Grid
from offpolicy.experiments.worlds import ALL_READINGS, World, labelled_world, train, world_of

ESTIMATORS = ("DM", "IPS", "CIPS", "DR", "SB", "SWITCH", "CAB", "CAB-DR")
GRID = Grid.up_to(1e4, 101)
"""Fine enough for SWITCH, whose curve has narrow valleys."""
_AT_ONCE = 2**18


def contributions(world: World, member: Estimator) -> Floats:
    """What each context of an experiment's world adds to the estimate: (contexts, actions)."""
    assert world.prediction is not None
    imputed, observed, control = member.masses(world.policy, world.logging)
    table = control * world.prediction
    table += (imputed * world.prediction).sum(axis=1, keepdims=True)
    table += observed * world.reward
    return table


def exact(world: World) -> Accuracy:
    """Figures 1 and 2 without chance: bias, and variance of one decision, summed over a world."""
    bias, variance = {}, {}
    for estimator in ESTIMATORS:
        moments = [_moments(world, member) for member in GRID.members(estimator)]
        bias[estimator] = np.array([mean - world.value for mean, _ in moments])
        variance[estimator] = np.array([spread for _, spread in moments])
    return Accuracy(bias, variance, GRID.M)


def _moments(world: World, member: Estimator) -> tuple[float, float]:
    table = contributions(world, member)
    given_x = (world.logging * table).sum(axis=1)
    mean = given_x.mean()
    table -= given_x[:, None]
    within = (world.logging * table**2).sum(axis=1).mean()
    return float(mean), float(within + ((given_x - mean) ** 2).mean())


def repeated(world: World, n: int, repeats: int, rng: np.random.Generator) -> Accuracy:
    """Figures 1 and 2 by simulation: ``repeats`` logs of ``n``, the same for every estimator."""
    pairs = draw_pairs(world, n, repeats, rng)
    bias, variance = {}, {}
    for estimator in ESTIMATORS:
        values = estimates(world, estimator, pairs)
        bias[estimator] = values.mean(axis=1) - world.value
        variance[estimator] = values.var(axis=1)
    return Accuracy(bias, variance, GRID.M)


def draw_pairs(world: World, n: int, repeats: int, rng: np.random.Generator) -> Ints:
    """For each repeat, n examples of a world with replacement and an action: places in a table."""
    m, K = world.logging.shape
    pairs = np.empty((repeats, n), dtype=np.int64)
    step = max(1, _AT_ONCE // n)
    for start in range(0, repeats, step):
        part = pairs[start : start + step]
        rows = rng.integers(0, m, part.size)
        part[:] = (rows * K + sample_actions(world.logging[rows], rng)).reshape(part.shape)
    return pairs


def estimates(world: World, estimator: str, pairs: Ints) -> Floats:
    """The estimate of each repeat of the experiment, at each value of the parameter."""
    tables = (contributions(world, member).ravel() for member in GRID.members(estimator))
    return np.stack([table[pairs].mean(axis=1) for table in tables])


# -- cells ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """One data set at one n: what the repeats found, and what is exactly so."""

    data: str
    n: int
    repeated: Accuracy
    exact: Accuracy


def run_one(data: str, n: int, repeats: int, reading: str, seed: int) -> Outcome:
    world = labelled_world(data, reading, seed)
    rng = np.random.default_rng([seed, n, *map(ord, data)])
    return Outcome(data, n, repeated(world, n, repeats, rng), exact(world).at(n))


def training(reading: str) -> str:
    """What of a reading of the paper's set-up must be trained anew: features and classifier."""
    return ", ".join(reading.split(", ")[:2])


TRAININGS = tuple(dict.fromkeys(map(training, ALL_READINGS)))


def survey(data: str, trained_as: str, split: int) -> dict[str, Accuracy]:
    """One split, by every reading of the paper trained so: exactly, of logs of one decision."""
    try:
        trained = train(load(data), trained_as, split)
    except ParameterError as problem:
        raise ParameterError(f"{data}, split {split}: {problem}") from None
    return {
        reading: exact(world_of(trained, reading, "indicator"))
        for reading in ALL_READINGS
        if training(reading) == trained_as
    }
