"""Rankers learned from clicks."""

from __future__ import annotations

from offpolicy.ranking.learning._search import RankerCV, default_grid
from offpolicy.ranking.learning._svmrank import PropensitySVMRank

__all__ = ["PropensitySVMRank", "RankerCV", "default_grid"]
