"""Rankers, and the ranks they give.

A *ranker* is anything that gives a score per document, higher being better: an array (N,), a
callable X → scores, or an object with ``decision_function(X)`` or ``predict(X)``. Documents of
equal score stand in the order in which the impression lists them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from offpolicy._core import validation as check
from offpolicy._core.ragged import decision_of_candidate, position_in_decision
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import PolicyError
from offpolicy.ranking.data._log import RankingLog


def scores_of(ranker: Any, log: RankingLog) -> Floats:
    """The score of every document of a log."""
    given = apply(ranker, log.X)
    scores = check.as_floats(given, "the ranker's scores", PolicyError)
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim != 1:
        raise PolicyError(
            f"The ranker's scores have shape {scores.shape}; there must be one per document."
        )
    return log.per_document(scores, "score", PolicyError)


def apply(ranker: Any, X: Any) -> Any:
    """What a ranker says about the rows of X; an array speaks for itself."""
    act = getattr(ranker, "decision_function", None) or getattr(ranker, "predict", None)
    if act is None and callable(ranker):
        act = ranker
    if act is None:
        return ranker
    if X is None:
        raise PolicyError(
            "The ranker scores features, but the log has none. Give X, or an array of scores."
        )
    return act(X)


def ranks(scores: Floats, offsets: Ints) -> Ints:
    """Each document's rank within its impression, 1 for the highest score; ties keep the order.

    >>> ranks(np.array([0.1, 0.7, 0.7, 5.0]), np.array([0, 3, 4])).tolist()
    [3, 1, 2, 1]
    """
    impression = decision_of_candidate(offsets)
    order = np.lexsort((-scores, impression))
    found = np.empty(len(scores), dtype=np.int64)
    found[order] = position_in_decision(offsets) + 1
    return found


def ranks_of(ranker: Any, log: RankingLog) -> Ints:
    """The ranks that a ranker gives the documents of a log."""
    return ranks(scores_of(ranker, log), log.offsets)
