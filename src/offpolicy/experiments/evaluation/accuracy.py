"""Bias, variance and mean squared error of every estimator over its parameter (Figures 1 and 2).

On a fixed test half an estimator's contribution depends on nothing but the example and the action
drawn for it. So each estimator at each value of its parameter is one table of examples × actions:
a repeat looks its decisions up there, and the exact bias and variance are the table's moments.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import load, sample_actions, stamps
from offpolicy.errors import ParameterError
from offpolicy.estimators import Estimator, parse
from offpolicy.estimators.weights import ratio
from offpolicy.experiments.cells import each_cell
from offpolicy.experiments.labelled import ALL_READINGS, Problem, make_problem, problem_of, train

SETS = ("letter", "optdigits", "satimage", "pendigits")
SIZES = (200, 500, 2000)
ESTIMATORS = ("DM", "IPS", "CIPS", "DR", "SB", "SWITCH", "CAB", "CAB-DR")
M_GRID: Floats = np.concatenate([[0.0], np.geomspace(0.1, 1e4, 101), [np.inf]])
"""Fine enough for SWITCH, whose curve has narrow valleys."""
TAU_GRID: Floats = np.linspace(0.0, 1.0, len(M_GRID))
"""As many values as of M, so that SB can be drawn on the same axis, as in the paper."""
TRAININGS = 4
"""Combinations of features and classifier."""
_AT_ONCE = 2**18


@dataclass(frozen=True)
class Accuracy:
    """Bias and variance by estimator, at each value of its parameter (or the one there is)."""

    bias: dict[str, Floats]
    variance: dict[str, Floats]
    M: Floats = field(default_factory=lambda: M_GRID)

    def mse(self, estimator: str) -> Floats:
        return self.bias[estimator] ** 2 + self.variance[estimator]

    def best(self, estimator: str) -> float:
        """The least mean squared error over the parameter: what hindsight would choose."""
        return float(self.mse(estimator).min())

    def at(self, n: int) -> Accuracy:
        """Of logs of n decisions, if this is of logs of one."""
        return replace(self, variance={name: v / n for name, v in self.variance.items()})

    def above(self, M: float) -> Accuracy:
        """With values of M from this one on only."""
        kept = self.M >= M

        def cut(curves: dict[str, Floats]) -> dict[str, Floats]:
            return {k: v[kept] if parse(k).parameter_name == "M" else v for k, v in curves.items()}

        return Accuracy(cut(self.bias), cut(self.variance), self.M[kept])

    def to_json(self) -> dict[str, Any]:
        return {
            name: {"bias": self.bias[name].tolist(), "variance": self.variance[name].tolist()}
            for name in self.bias
        }

    @staticmethod
    def from_json(body: dict[str, Any], M: Floats | None = None) -> Accuracy:
        return Accuracy(
            {name: np.array(part["bias"]) for name, part in body.items()},
            {name: np.array(part["variance"]) for name, part in body.items()},
            M_GRID if M is None else M,
        )


def grid_of(estimator: str) -> Floats:
    """The values of the estimator's parameter; one NaN if it has none."""
    name = parse(estimator).parameter_name
    return M_GRID if name == "M" else TAU_GRID if name == "tau" else np.array([np.nan])


def members(estimator: str) -> list[Estimator]:
    """The estimator at each value of its parameter."""
    bare = parse(estimator)
    if bare.parameter_name is None:
        return [bare]
    return [type(bare)(float(value)) for value in grid_of(estimator)]  # type: ignore[call-arg]


def contributions(problem: Problem, member: Estimator, c: Floats | None = None) -> Floats:
    """What each example adds to the estimate if each action is drawn: (m, K)."""
    logging, policy, prediction, label = problem
    c = ratio(policy, logging) if c is None else c
    imputed, observed, control = member.masses(policy, logging, c)
    seen = logging > 0.0
    found = np.where(seen, control, 0.0) * prediction
    found += (imputed * prediction).sum(axis=1, keepdims=True)
    right = np.arange(len(label)), label
    found[right] += np.where(seen[right], observed[right], 0.0)
    return found


def exact(problem: Problem) -> Accuracy:
    """Bias, and variance of a log of one decision, by summing over examples and actions."""
    bias, variance = {}, {}
    c = ratio(problem.policy, problem.logging)
    for estimator in ESTIMATORS:
        moments = [_moments(problem, member, c) for member in members(estimator)]
        bias[estimator] = np.array([mean - problem.value for mean, _ in moments])
        variance[estimator] = np.array([spread for _, spread in moments])
    return Accuracy(bias, variance)


def _moments(problem: Problem, member: Estimator, c: Floats) -> tuple[float, float]:
    table = contributions(problem, member, c)
    given_x = (problem.logging * table).sum(axis=1)
    mean = given_x.mean()
    table -= given_x[:, None]
    within = (problem.logging * table**2).sum(axis=1).mean()
    return float(mean), float(within + ((given_x - mean) ** 2).mean())


def repeated(problem: Problem, n: int, repeats: int, rng: np.random.Generator) -> Accuracy:
    """Bias and variance over ``repeats`` logs of ``n`` decisions, the same for every estimator."""
    pairs = draw_pairs(problem, n, repeats, rng)
    bias, variance = {}, {}
    for estimator in ESTIMATORS:
        found = estimates(problem, estimator, pairs)
        bias[estimator] = found.mean(axis=1) - problem.value
        variance[estimator] = found.var(axis=1)
    return Accuracy(bias, variance)


def draw_pairs(problem: Problem, n: int, repeats: int, rng: np.random.Generator) -> Ints:
    """For each repeat, n examples with replacement and an action each, as places in a table."""
    m, K = problem.logging.shape
    pairs = np.empty((repeats, n), dtype=np.int64)
    step = max(1, _AT_ONCE // n)
    for start in range(0, repeats, step):
        part = pairs[start : start + step]
        rows = rng.integers(0, m, part.size)
        part[:] = (rows * K + sample_actions(problem.logging[rows], rng)).reshape(part.shape)
    return pairs


def estimates(problem: Problem, estimator: str, pairs: Ints) -> Floats:
    """The estimate at each value of the parameter, of each repeat."""
    c = ratio(problem.policy, problem.logging)
    tables = (contributions(problem, member, c).ravel() for member in members(estimator))
    return np.stack([table[pairs].mean(axis=1) for table in tables])


# -- runs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """One data set at one n: what the repeats found, and what is exactly so."""

    data: str
    n: int
    found: Accuracy
    exact: Accuracy


def run(
    folder: Path,
    *,
    sets: Sequence[str] = SETS,
    sizes: Sequence[int] = SIZES,
    repeats: int = 500,
    reading: str,
    seed: int = 0,
    jobs: int = 1,
) -> Iterator[Outcome]:
    """Set by set and size by size; what ``folder`` holds of an earlier run is taken from there."""
    cells = [(data, n, repeats, reading, seed) for data in sets for n in sizes]
    done = each_cell(_cell, cells, folder=folder, jobs=jobs, made_from=stamps(sets))
    for (data, n, *_), (found, truth) in zip(cells, done, strict=True):
        yield Outcome(data, n, Accuracy.from_json(found), Accuracy.from_json(truth))


def _cell(data: str, n: int, repeats: int, reading: str, seed: int) -> list[dict[str, Any]]:
    problem = problem_from(data, reading, seed)
    rng = np.random.default_rng([seed, n, *map(ord, data)])
    found = repeated(problem, n, repeats, rng)
    return [found.to_json(), exact(problem).at(n).to_json()]


def problem_from(data: str, reading: str, seed: int, model: str = "indicator") -> Problem:
    """The problem; the paper's reward model is the indicator of the predicted label."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # solvers that stop at their limit of iterations
        return make_problem(load(data), reading, model, seed)


@dataclass(frozen=True)
class Surveyed:
    """The exact accuracy at each n of one split of one data set under one reading."""

    data: str
    reading: str
    split: int
    accuracy: dict[int, Accuracy]


def survey(
    folder: Path,
    *,
    sets: Sequence[str] = SETS,
    sizes: Sequence[int] = SIZES,
    splits: int = 2,
    seed: int = 0,
    jobs: int = 1,
) -> Iterator[list[Surveyed]]:
    """Every reading of the set-up on several splits from ``seed`` on, exactly, without repeats."""
    trainings = dict.fromkeys(map(_training, ALL_READINGS))
    cells = list(itertools.product(sets, trainings, range(seed, seed + splits)))
    done = each_cell(_survey_cell, cells, folder=folder, jobs=jobs, made_from=stamps(sets))
    for (data, _, split), part in zip(cells, done, strict=True):
        yield [
            Surveyed(data, reading, split, {n: Accuracy.from_json(body).at(n) for n in sizes})
            for reading, body in part.items()
        ]


def _training(reading: str) -> str:
    """Features and classifier: what of a reading must be trained anew."""
    return ", ".join(reading.split(", ")[:2])


def _survey_cell(data: str, training: str, split: int) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # solvers that stop at their limit of iterations
        try:
            trained = train(load(data), training, split)
        except ParameterError as problem:
            raise ParameterError(
                f"{data}, split {split}: {problem} --splits 0 leaves the survey of readings out."
            ) from None
    return {
        reading: exact(problem_of(trained, reading, "indicator")).to_json()
        for reading in ALL_READINGS
        if _training(reading) == training
    }
