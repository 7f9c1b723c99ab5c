"""The ranking column of Table 2, and Figure 4 (2): rankers learned with each estimator's weights.

Clicks are simulated on nine tenths of the training queries and, for 5 sweeps, on the validation
queries. A ranking SVM is trained for every estimator, every value of its parameter and every C;
which of them is taken is decided by the validation clicks, by cIPS with the weights clipped at
their 90% quantile. All that were trained are kept, so that hindsight can be asked afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.datasets import ranking_files
from offpolicy.estimators import parse
from offpolicy.experiments.accuracy import members_at
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.ranking.setup import (
    Trained,
    divided,
    is_ranking,
    joined_queries,
    known_as,
    rows_of_log,
    thresholds,
    trained,
)
from offpolicy.experiments.tables import grouped
from offpolicy.logs.formats.letor import Queries
from offpolicy.ranking.data import RankingLog, ranks, simulate_clicks, weights_at
from offpolicy.ranking.learning import PropensitySVMRank

ESTIMATORS = ("DM", "IPS", "CIPS", "SB", "SWITCH", "CAB")
CLIPS = (1.0, 3.0, 10.0, 30.0, 100.0)
BLENDS = (0.1, 0.3, 0.5, 0.7, 0.9)
STRENGTHS = (1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0)
"""C, in units of the default's."""
TABLE = 1.0
"""Sweeps of the table."""
VALIDATED = 5.0
QUANTILE = 0.9
LOGGER = 0.01
OURS = ("default", "default, with the judged documents")


@dataclass(frozen=True)
class Condition:
    """One run of the experiment."""

    data: str
    relevant: int
    run: int
    sweeps: float = TABLE
    logger: float = LOGGER

    @property
    def where(self) -> str:
        """The data, and from which grade on a document is relevant."""
        return f"{self.data}, y ≥ {self.relevant}"


class Counts(NamedTuple):
    """A log of one logger, as counts for every document of the queries: the sum of its weights is
    all that a ranking SVM sees of a document that is shown again and again."""

    queries: Queries
    p: Floats
    shown: Floats
    clicks: Floats

    def weights(self, member: str, prediction: Floats) -> Floats:
        """Σ over impressions of w^α·δ̂ + w^β·click/p."""
        imputed, observed = weights_at(parse(member), self.p)
        return imputed * prediction * self.shown + observed * self.clicks

    def clipped_rank(self, scores: Floats) -> float:
        """The average rank by cIPS, the weights of clicks clipped at their quantile."""
        clicked = self.clicks > 0.0
        inverse = 1.0 / self.p[clicked]
        M = float(np.quantile(np.repeat(inverse, self.clicks[clicked].astype(int)), QUANTILE))
        weight = np.minimum(inverse, M) * self.clicks[clicked]
        return float(weight @ ranks(scores, self.queries.offsets)[clicked] / weight.sum())


def counts_of_log(queries: Queries, log: RankingLog) -> Counts:
    """For the paper's Table 2: the impressions of a log, which is of these queries, added up."""
    assert log.propensity is not None
    rows, count = rows_of_log(queries, log), len(queries.relevance)
    p = np.ones(count)
    p[rows] = log.propensity
    shown = np.bincount(rows, minlength=count).astype(np.float64)
    clicks = np.bincount(rows, log.click, count).astype(np.float64)
    return Counts(queries, p, shown, clicks)


class Setup(NamedTuple):
    """Logs to learn from, what else is known, and the queries that test."""

    train: Counts
    validation: Counts
    prediction: Floats
    """δ̂ of the training documents."""
    judged: Queries
    test: Queries
    logger: float
    """The average rank of relevant results by the logger, on the test queries."""


def average_rank(queries: Queries, scores: Floats) -> float:
    """Of the relevant documents of an experiment's queries, by these scores."""
    return float(ranks(scores, queries.offsets)[queries.relevance >= 1.0].mean())


def set_up(condition: Condition) -> Setup:
    """A run of the paper's ranking experiment: split, train logger and model, simulate clicks."""
    validation, test, made = _made(
        condition.data, condition.relevant, condition.run, condition.logger
    )
    rng = np.random.default_rng([condition.run, condition.relevant, *map(ord, condition.data)])

    def logged(queries: Queries, sweeps: float) -> Counts:
        scores = made.logger(queries.X)
        return counts_of_log(
            queries, simulate_clicks(queries, scores, sweeps=sweeps, features=False, rng=rng)
        )

    validated = logged(validation, VALIDATED)
    return Setup(
        logged(made.rest, condition.sweeps),
        validated,
        made.model.predict(made.rest.X),
        made.judged,
        test,
        average_rank(test, made.logger(test.X)),
    )


@lru_cache(maxsize=1)
def _made(data: str, relevant: int, run: int, logger: float) -> tuple[Queries, Queries, Trained]:
    """The part of an experiment's run that does not depend on the amount of clicks: queries that
    validate and test, and what is made of those that train."""
    train, validation, test = divided(data, relevant, run)
    return validation, test, trained(train, logger, run)


# -- what is learned -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Tried:
    """One ranker: what it was trained with, and its average ranks."""

    member: str
    strength: float
    validation: float
    """By clipped IPS on the validation clicks; of full information, in truth."""
    test: float


@dataclass(frozen=True)
class Ranked:
    """What one run gave."""

    condition: Condition
    logger: float
    tried: dict[str, list[Tried]]
    """By estimator; "full" is with all judgements of the training queries."""
    ours: dict[str, float]

    def chosen(self, estimator: str) -> Tried:
        """The least clipped rank of the validation clicks."""
        return min(self.tried[estimator], key=lambda ranker: ranker.validation)

    def best(self, estimator: str) -> Tried:
        """The best on the test queries, in hindsight."""
        return min(self.tried[estimator], key=lambda ranker: ranker.test)

    def rank(self, name: str) -> float:
        """The test rank of an estimator, as it was chosen, of the logger, or of ours."""
        if name == "logger":
            return self.logger
        return self.ours[name] if name in self.ours else self.chosen(name).test


def learn(setup: Setup) -> tuple[dict[str, list[Tried]], dict[str, float]]:
    """The rankers of one run of the experiment: of every estimator, and ours."""
    train = setup.train
    tried = {
        estimator: [
            ranker
            for member in map(str, members_at(estimator, CLIPS, BLENDS))
            for ranker in _path(
                setup, train.queries, member, train.weights(member, setup.prediction)
            )
        ]
        for estimator in ESTIMATORS
    }
    tried["full"] = _path(setup, train.queries, "full", train.queries.relevance)
    ours = PropensitySVMRank()
    weights = train.weights(str(ours.estimator), setup.prediction)
    both = joined_queries(train.queries, setup.judged)
    # A judged query is worth an impression of a query like those that were shown.
    often = float(train.shown.sum() / len(train.shown))
    rankers = {
        OURS[0]: ours.fit_weights(train.queries.X, train.queries.offsets, weights),
        OURS[1]: PropensitySVMRank().fit_weights(
            both.X, both.offsets, np.concatenate([weights, often * setup.judged.relevance])
        ),
    }
    scores = {name: ranker.decision_function(setup.test.X) for name, ranker in rankers.items()}
    return tried, {name: average_rank(setup.test, of_test) for name, of_test in scores.items()}


def _path(setup: Setup, queries: Queries, member: str, weights: Floats) -> list[Tried]:
    """For the paper's Table 2: a ranker for every C, with its average ranks."""
    sizes = np.diff(queries.offsets)
    pairs = float(np.add.reduceat(weights, queries.offsets[:-1]) @ (sizes - 1.0)) / len(sizes)
    Cs = [strength * PropensitySVMRank.loss / pairs for strength in STRENGTHS]
    path = PropensitySVMRank().path_weights(queries.X, queries.offsets, weights, Cs)
    tried = []
    for strength, ranker in zip(STRENGTHS, path, strict=True):
        scores = ranker.decision_function(setup.validation.queries.X)
        if member == "full":
            validated = average_rank(setup.validation.queries, scores)
        else:
            validated = setup.validation.clipped_rank(scores)
        test = average_rank(setup.test, ranker.decision_function(setup.test.X))
        tried.append(Tried(member, strength, validated, test))
    return tried


# -- runs ------------------------------------------------------------------------------------------


def run_one(condition: Condition) -> Ranked:
    setup = set_up(condition)
    return Ranked(condition, setup.logger, *learn(setup))


def runs_of(
    cells: Cells, sets: Iterable[str], runs: int, sweeps: Sequence[float] = (TABLE,)
) -> list[Ranked]:
    """All runs on the ranking sets among these, by each reading of what is relevant."""
    entries = [known_as(name) for name in sets if is_ranking(name)]
    wanted = [
        (Condition(entry.name, relevant, run, amount),)
        for entry in entries
        for relevant, run, amount in itertools.product(thresholds(entry), range(runs), sweeps)
    ]
    files = {entry.name: ranking_files(entry) for entry in entries}
    return cells.within("ranked").all("rankers", run_one, wanted, files)


def by_set(runs: Sequence[Ranked]) -> dict[str, list[Ranked]]:
    """The experiment's runs on each data set, by each reading of what is relevant."""
    return grouped(runs, lambda run: run.condition.where)


def by_sweeps(runs: Sequence[Ranked]) -> dict[float, list[Ranked]]:
    ordered = sorted(runs, key=lambda run: run.condition.sweeps)
    return grouped(ordered, lambda run: run.condition.sweeps)


def regret(runs: Sequence[Ranked], estimator: str) -> Floats:
    """By run of the experiment, ranks lost by choosing on validation clicks, against hindsight."""
    return np.array([run.chosen(estimator).test - run.best(estimator).test for run in runs])
