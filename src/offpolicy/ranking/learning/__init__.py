"""Rankers learned from clicks."""

from __future__ import annotations

from offpolicy.ranking.learning._learned import LearnedRanker, learn_ranker, needs_model
from offpolicy.ranking.learning._search import RankerCV, default_grid
from offpolicy.ranking.learning._svmrank import PropensitySVMRank

__all__ = [
    "LearnedRanker",
    "PropensitySVMRank",
    "RankerCV",
    "default_grid",
    "learn_ranker",
    "needs_model",
]
