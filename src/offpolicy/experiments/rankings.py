"""The paper's evaluation experiment for rankings: Appendix "LTR".

A tenth of the training queries is judged: on it a model of relevance is trained. The ranker to be
evaluated is a linear model of the other nine tenths. Clicks are simulated on the test queries,
ranked by a logger, and the truth is known from their judgements. What trained the logger the paper
does not say: here it is a linear model of a given share of the training queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpolicy.formats.letor import Queries
from offpolicy.ranking.clicks import ClickModel, simulate_clicks
from offpolicy.ranking.log import RankingLog, rows_of_impressions
from offpolicy.ranking.metrics import Metric, as_metric
from offpolicy.ranking.ranks import ranks
from offpolicy.ranking.relevance import RelevanceModel
from offpolicy.softmax import Ints, decision_of_candidate
from offpolicy.weights import Floats

TRAIN = 0.6
JUDGED = 0.1
_PENALTY = 0.01


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

    def truth(self, metric: str | Metric) -> float:
        """The ranker's value on the test queries."""
        asked = as_metric(metric)
        relevant = self.test.relevance >= 1.0
        total = float(asked.weight(ranks(self.ranker, self.test.offsets))[relevant].sum())
        return total / (float(relevant.sum()) if asked.is_ratio else len(self.test.qid))

    def draw(
        self, sweeps: float, rng: np.random.Generator | int, model: ClickModel | None = None
    ) -> tuple[RankingLog, Floats]:
        """A log of clicks, with predictions, and the ranker's scores of its documents."""
        log = simulate_clicks(self.test, self.logger, model, sweeps=sweeps, features=False, rng=rng)
        place = {int(qid): k for k, qid in enumerate(self.test.qid)}
        assert log.query is not None
        which = np.array([place[int(qid)] for qid in log.query])
        rows = rows_of_impressions(self.test.offsets, which)
        return log.replace(prediction=self.prediction[rows]), self.ranker[rows]


def prepare(queries: Queries, logger_share: float, seed: int) -> Prepared:
    """Split the queries, and train the logger, the ranker and the model of relevance."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    order = rng.permutation(len(queries.qid))
    count = round(TRAIN * len(order))
    train, test = order[:count], np.sort(order[count:])
    judged = max(round(JUDGED * count), 2)
    logged = max(round(logger_share * count), 2)
    small = subset(queries, train[:judged])
    rest = subset(queries, train[judged:])
    model = RelevanceModel(seed=seed).fit(
        small.X, small.relevance >= 1.0, decision_of_candidate(small.offsets)
    )
    tested = subset(queries, test)
    return Prepared(
        tested,
        linear_ranker(subset(queries, train[:logged]))(tested.X),
        linear_ranker(rest)(tested.X),
        model.predict(tested.X),
    )


def subset(queries: Queries, which: Ints) -> Queries:
    """Some of the queries, in this order."""
    rows = rows_of_impressions(queries.offsets, which)
    lengths = np.diff(queries.offsets)[which]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Queries(queries.X[rows], queries.relevance[rows], offsets, queries.qid[which], 0)


def linear_ranker(queries: Queries) -> Callable[[NDArray[Any]], Floats]:
    """Ridge regression of relevance on standardised features."""
    X = np.asarray(queries.X, dtype=np.float64)
    y = (queries.relevance >= 1.0).astype(np.float64)
    centre, spread = X.mean(axis=0), X.std(axis=0) + 1e-3
    Z = (X - centre) / spread
    gram = Z.T @ Z + _PENALTY * len(Z) * np.eye(Z.shape[1])
    w = np.linalg.solve(gram, Z.T @ (y - y.mean()))

    def scores(X: NDArray[Any]) -> Floats:
        return np.asarray((X - centre) / spread @ w, dtype=np.float64)

    return scores
