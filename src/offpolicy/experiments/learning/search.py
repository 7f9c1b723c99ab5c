"""Every objective with every parameter, and the one that the validation log prefers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.datasets import files_of
from offpolicy.experiments.accuracy import members_at
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.learning.readings import Reading, Way
from offpolicy.experiments.learning.setup import ESTIMATORS, Condition, Setup, set_up
from offpolicy.learning import SoftmaxLearner, fit_together

CLIPS = (1.0, 5.0, 30.0, 200.0)
BLENDS = (0.1, 0.5, 0.9)
PENALTIES = (1e-8, 1e-6, 1e-4)
RANDOM_STARTS = 3
STEPS = 1000
TOLERANCE = 1e-8
"""Of the search: less than the learner's own, so that a table is not about when it ended."""


class Candidate(NamedTuple):
    """An objective with its parameters."""

    estimator: str
    member: str
    l2: float


@dataclass(frozen=True)
class Searched:
    """All policies of one run, by one way: a value each, in the order of `candidates`."""

    condition: Condition
    way: Way
    logger: float
    """The logger's expected test error."""
    steps: list[int]
    ips: list[float]
    """What the validation log says of the policy: by IPS, …"""
    cips: list[float]
    """… with the weights clipped at their 90% quantile, …"""
    weight: list[float]
    """… and the mean weight there."""
    error: list[float]
    """Expected test error."""

    def chosen(self, rule: str) -> dict[str, int]:
        """The place of the candidate that the validation log prefers, for each objective."""
        places: dict[str, dict[str, list[int]]] = {}
        for at, one in enumerate(candidates()):
            places.setdefault(one.estimator, {}).setdefault(one.member, []).append(at)
        by = self.ips if rule == "IPS" else self.cips
        best = {
            name: [max(each, key=by.__getitem__) for each in members.values()]
            for name, members in places.items()
        }
        return {name: max(each, key=self.cips.__getitem__) for name, each in best.items()}

    def errors(self, rule: str) -> dict[str, float]:
        """The test error of each objective's choice."""
        return {name: self.error[at] for name, at in self.chosen(rule).items()}


def candidates() -> list[Candidate]:
    return [
        Candidate(name, str(member), l2)
        for name in ESTIMATORS
        for member in members_at(name, CLIPS, BLENDS)
        for l2 in PENALTIES
    ]


def search(condition: Condition, way: Way) -> Searched:
    """Learn with every objective at every parameter, and score what was learned."""
    setup = set_up(condition, way.parts)
    prediction = setup.prediction
    if way.model == "indicator":
        prediction = np.eye(prediction.shape[1])[prediction.argmax(axis=1)]
    baseline = 1.0 if way.loss == "0, 1" else 0.0
    log, first = setup.without_repeats()
    learners = [
        SoftmaxLearner(
            one.member, l2=one.l2, features="linear" if way.features == "standardised" else "raw",
            start=way.start, starts=RANDOM_STARTS, baseline=baseline, max_iter=STEPS,
            tol=TOLERANCE, seed=condition.run,
        )
        for one in candidates()
    ]  # fmt: skip
    for _, some in itertools.groupby(learners, key=lambda one: str(one.estimator).split("(")[0]):
        fit_together(list(some), log, prediction=prediction[first])
    scores = np.array([_scores(setup, learner, baseline) for learner in learners])
    columns = [[float(f"{value:.6g}") for value in column] for column in scores.T.tolist()]
    steps = [learner.report_.steps for learner in learners]
    return Searched(condition, way, setup.error_of(setup.logger), steps, *columns)


def _scores(setup: Setup, learner: SoftmaxLearner, baseline: float) -> Sequence[float]:
    """IPS, clipped IPS, the mean weight, and the test error, of a learned policy."""
    log = setup.validation
    assert log.propensity is not None
    assert log.context is not None
    pi = learner.predict_proba(log.context)
    c: Floats = pi[np.arange(len(log)), log.chosen] / log.propensity
    reward = log.reward - baseline
    clipped = np.minimum(c, np.quantile(c, 0.9))
    values = (c @ reward, clipped @ reward, c.sum())
    return *(float(value) / len(log) for value in values), setup.error(learner)


def runs_of(
    cells: Cells, wanted: Sequence[Condition], readings: Sequence[Reading]
) -> list[Searched]:
    """These runs, by every way of the readings."""
    pairs = list(itertools.product(wanted, dict.fromkeys(reading.way for reading in readings)))
    files = files_of(dict.fromkeys(one.data for one in wanted))
    return cells.within("learned").all("runs", search, pairs, files)


@dataclass(frozen=True)
class Learned:
    """Expected test errors in one run, by one reading or recipe."""

    condition: Condition
    recipe: str
    logger: float
    errors: dict[str, float]


def read_as(searched: Sequence[Searched], reading: Reading) -> list[Learned]:
    """The runs of a reading: of its way, with its rule."""
    return [
        Learned(one.condition, reading.name, one.logger, one.errors(reading.rule))
        for one in searched
        if one.way == reading.way
    ]
