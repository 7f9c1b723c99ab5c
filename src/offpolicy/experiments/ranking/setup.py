"""The set-up of the paper's ranking experiments: Appendix "LTR".

A tenth of the training queries is judged: on it a model of relevance is trained. The ranker to be
evaluated is a ranking SVM of the other nine tenths, on which clicks are simulated in the learning
experiments; in the evaluation experiments clicks are on the test queries. The truth is known from
the judgements. What trained the logger the paper does not say: here it is a ranking SVM of a given
share of the training queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.ragged import candidates_of, decision_of_candidate, offsets_of
from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import catalogue, find, ranking, ranking_files
from offpolicy.datasets.catalogue import Ranking
from offpolicy.errors import ParameterError
from offpolicy.logs.formats.letor import Queries
from offpolicy.ranking.data import RankingLog, RelevanceModel, as_metric, ranks, simulate_clicks
from offpolicy.ranking.learning import PropensitySVMRank

TRAIN, VALIDATION = 0.6, 0.2
JUDGED = 0.1
_ALIASES = {"yahoo": "Yahoo-Set1", "mslr": "MSLR-WEB10K", "mslr10k": "MSLR-WEB10K",
            "mslr30k": "MSLR-WEB30K"}  # fmt: skip
_STANDS_FOR = {"MQ2007": "MQ2007_85pct"}
"""What is taken where a set is not at hand: most of its rows."""


# -- data ----------------------------------------------------------------------------------------


def is_ranking(name: str) -> bool:
    """Whether an experiment's --datasets means a set for ranking by this name."""
    names = {known.casefold() for known in catalogue.RANKING}
    return name.casefold() in names | set(_ALIASES)


def known_as(name: str) -> Ranking:
    """The ranking set that an experiment's --datasets means, or what is at hand of it."""
    entry = catalogue.for_ranking(_ALIASES.get(name.casefold(), name))
    if find(entry) is None and entry.name in _STANDS_FOR:
        part = catalogue.RANKING[_STANDS_FOR[entry.name]]
        if find(part) is not None:
            return part
    ranking_files(entry)  # or an error that says where to put it
    return entry


def thresholds(entry: Ranking) -> tuple[int, ...]:
    """Readings of the paper: from which grade on a document is relevant; the first for evaluation.

    With five grades 3 and more, as in Joachims et al. (2017), whose set-up the paper follows.
    """
    return (1, 2) if entry.grades <= 3 else (3,)


@lru_cache(maxsize=3)
def load(name: str, relevant: int, split: str | None = None) -> Queries:
    """An experiment's queries, of a set or its official split, with 1 for grades from ``relevant``
    on and 0 below."""
    queries = ranking(name, split)
    return queries._replace(relevance=(queries.relevance >= relevant).astype(np.float64))


class Parts(NamedTuple):
    """Queries that train, validate and test."""

    train: Queries
    validation: Queries
    test: Queries


def divided(name: str, relevant: int, seed: int) -> Parts:
    """The experiment's parts: official ones of a set with one split; else 60, 20, 20 per cent."""
    if _has_splits(name):
        return Parts(*(load(name, relevant, split) for split in ("train", "vali", "test")))
    return shuffled(load(name, relevant), seed)


def _has_splits(name: str) -> bool:
    return catalogue.RANKING[name].layouts[0] == "splits"


def shuffled(queries: Queries, seed: int) -> Parts:
    """The paper's split: 60, 20 and 20 per cent of the queries, drawn by the seed."""
    order = np.random.default_rng(np.random.SeedSequence(seed)).permutation(len(queries.qid))
    ends = [round(TRAIN * len(order)), round((TRAIN + VALIDATION) * len(order))]
    train, validation, test = np.split(order, ends)
    return Parts(*(subset(queries, some) for some in (train, np.sort(validation), np.sort(test))))


def joined_queries(*parts: Queries) -> Queries:
    """Parts of an experiment's queries as one."""
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    columns = zip(*((part.X, part.relevance, part.qid) for part in parts), strict=True)
    X, relevance, qid = map(np.concatenate, columns)
    return Queries(X, relevance, offsets_of(lengths), qid, 0)


def subset(queries: Queries, which: Ints) -> Queries:
    """Some of an experiment's queries, in this order."""
    rows = candidates_of(queries.offsets, which)
    offsets = offsets_of(np.diff(queries.offsets)[which])
    return Queries(queries.X[rows], queries.relevance[rows], offsets, queries.qid[which], 0)


def rows_of_log(queries: Queries, log: RankingLog) -> Ints:
    """Which rows of an experiment's queries the documents of a simulated log are."""
    place = {int(qid): k for k, qid in enumerate(queries.qid)}
    assert log.query is not None
    return candidates_of(queries.offsets, np.array([place[int(q)] for q in log.query]))


# -- what is trained -----------------------------------------------------------------------------


class Trained(NamedTuple):
    """What is made of the training queries."""

    judged: Queries
    """The tenth whose judgements are known."""
    rest: Queries
    model: RelevanceModel
    linear: RelevanceModel
    """The same by a logistic regression."""
    logger: Callable[[NDArray[Any]], Floats]


def trained(train: Queries, logger_share: float, seed: int) -> Trained:
    """As in the paper: relevance model from a tenth of the queries, logger from its own share."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    logistic = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
    order = np.random.default_rng([seed, 1]).permutation(len(train.qid))
    judged = max(round(JUDGED * len(order)), 2)
    small = subset(train, order[:judged])
    model, linear = (
        RelevanceModel(classifier, seed=seed).fit(
            small.X, small.relevance >= 1.0, decision_of_candidate(small.offsets)
        )
        for classifier in (None, logistic)
    )
    # From the first queries that say anything: a tenth of few may hold nothing relevant at all.
    total = np.add.reduceat(train.relevance, train.offsets[:-1])
    useful = (total > 0.0) & (total < np.diff(train.offsets))
    count = max(round(logger_share * len(order)), 2)
    logger = svm_rank(subset(train, order[useful[order]][:count]))
    return Trained(small, subset(train, order[judged:]), model, linear, logger)


def svm_rank(queries: Queries) -> Callable[[NDArray[Any]], Floats]:
    """The experiment's ranker: a ranking SVM of judged queries, as a function of features."""
    fitted = PropensitySVMRank().fit_weights(queries.X, queries.offsets, queries.relevance)
    return fitted.decision_function


# -- evaluation ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prepared:
    """Test queries, and what is known about their documents."""

    test: Queries
    logger: Floats
    """Scores of the logger."""
    ranker: Floats
    """Scores of the ranker to be evaluated."""
    prediction: Floats
    """δ̂."""
    linear: Floats
    """δ̂ by a logistic regression."""

    def truth(self, metric: str) -> float:
        """The ranker's value on the test queries."""
        parsed = as_metric(metric)
        relevant = self.test.relevance >= 1.0
        total = float(parsed.weight(ranks(self.ranker, self.test.offsets))[relevant].sum())
        return total / (float(relevant.sum()) if parsed.is_ratio else len(self.test.qid))

    def draw(self, sweeps: float, rng: np.random.Generator | int) -> tuple[RankingLog, Floats]:
        """A log of clicks, with predictions, and the ranker's scores of its documents."""
        log = simulate_clicks(self.test, self.logger, sweeps=sweeps, features=False, rng=rng)
        rows = rows_of_log(self.test, log)
        return log.replace(prediction=self.prediction[rows]), self.ranker[rows]


def prepare(train: Queries, test: Queries, logger_share: float, seed: int) -> Prepared:
    """The paper's set-up: train the logger, the ranker and the relevance model."""
    if len(np.unique(test.qid)) < len(test.qid):
        raise ParameterError("The test queries must have labels (qid) of their own.")
    made = trained(train, logger_share, seed)
    return Prepared(
        test,
        made.logger(test.X),
        svm_rank(made.rest)(test.X),
        made.model.predict(test.X),
        made.linear.predict(test.X),
    )


@lru_cache(maxsize=2)
def prepare_set(name: str, relevant: int, logger_share: float, seed: int) -> Prepared:
    """The evaluation experiment on a set: its official test queries, if it has a split; if not,
    those that would validate test too, as evaluation has nothing to validate."""
    train, validation, test = divided(name, relevant, seed)
    if not _has_splits(name):
        test = joined_queries(validation, test)
    return prepare(train, test, logger_share, seed)
