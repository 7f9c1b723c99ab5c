"""Rankers, and the ranks they give.

A *ranker* is anything that gives a score per document, higher being better: an array (N,), a
callable X → scores, or an object with ``decision_function(X)`` or ``predict(X)``. Documents of
equal score stand in the order in which the impression lists them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from offpolicy._core import validation as check
from offpolicy._core.ragged import decision_of_candidate, position_in_decision
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import PolicyError
from offpolicy.logs.formats.letor import Queries
from offpolicy.ranking.data._log import RankingLog


def scores_of(ranker: Any, log: RankingLog | Queries) -> Floats:
    """A ranker's score of every document of a log, or of a set of queries."""
    act = getattr(ranker, "decision_function", None) or getattr(ranker, "predict", None)
    if act is None and callable(ranker):
        act = ranker
    if act is not None and log.X is None:
        raise PolicyError(
            "The ranker scores features, but the log has none. Give X, or an array of scores.",
            column="X",
        )
    scores = check.as_floats(ranker if act is None else act(log.X), "score", PolicyError)
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    scores = check.as_vector(scores, "score", PolicyError)
    check.check_length(scores, int(log.offsets[-1]), "score", "documents", PolicyError)
    check.check_finite(scores, "score", error=PolicyError)
    return scores


def ranks(scores: Floats, offsets: Ints) -> Ints:
    """Each document's rank within its impression, 1 for the highest score; ties keep the order.

    >>> ranks(np.array([0.1, 0.7, 0.7, 5.0]), np.array([0, 3, 4])).tolist()
    [3, 1, 2, 1]
    """
    impression = decision_of_candidate(offsets)
    order = np.lexsort((-scores, impression))
    rank = np.empty(len(scores), dtype=np.int64)
    rank[order] = position_in_decision(offsets) + 1
    return rank


def ranks_of(ranker: Any, log: RankingLog | Queries) -> Ints:
    """The ranks that a ranker gives the documents of a log, or of a set of queries."""
    return ranks(scores_of(ranker, log), log.offsets)


def reached(stop: Floats, rank: Ints, offsets: Ints) -> Floats:
    """How likely a reader comes as far as each document, who stops at those above with these
    probabilities; documents that were not shown stand last."""
    last = np.where(rank > 0, rank, np.iinfo(np.int64).max)
    order = np.lexsort((last, decision_of_candidate(offsets)))
    place, product = position_in_decision(offsets), np.ones(len(rank))
    by_place = np.argsort(place, kind="stable")
    for start, end in pairwise(np.cumsum(np.bincount(place)).tolist()):
        now = by_place[start:end]
        product[now] = product[now - 1] * (1.0 - stop[order[now - 1]])
    return product[np.argsort(order)]
