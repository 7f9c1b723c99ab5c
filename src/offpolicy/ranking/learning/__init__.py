"""Rankers learned from clicks."""

from __future__ import annotations

from offpolicy.ranking.learning._learned import LearnedRanker, learn_ranker, needs_model
from offpolicy.ranking.learning._search import RankerCV
from offpolicy.ranking.learning._svmrank import PropensitySVMRank

__all__ = ["LearnedRanker", "PropensitySVMRank", "RankerCV", "learn_ranker", "needs_model"]
