"""Rankings with clicks: logs, rankers, metrics, weights of documents, simulated clicks."""

from __future__ import annotations

from offpolicy.ranking.data._clicks import ClickModel, simulate_clicks
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import Metric, as_metric
from offpolicy.ranking.data._ranks import ranks
from offpolicy.ranking.data._read import RankingColumns, read_with, source_of
from offpolicy.ranking.data._relevance import RelevanceModel
from offpolicy.ranking.data._weights import FamilyWeights, for_rankings, weights_at

__all__ = [
    "ClickModel", "FamilyWeights", "Metric", "RankingColumns", "RankingLog", "RelevanceModel",
    "as_metric", "for_rankings", "ranks", "read_with", "simulate_clicks",
    "source_of", "weights_at",
]  # fmt: skip
