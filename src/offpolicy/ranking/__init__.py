"""Rankings with clicks: evaluation and learning from position-biased feedback."""

from offpolicy.ranking.boosting import pairwise_loss, tree_objective
from offpolicy.ranking.clicks import (
    ClickModel,
    DependentClicks,
    PositionBased,
    cascade,
    simulate_clicks,
)
from offpolicy.ranking.evaluation import RankingCurve, evaluate, sweep, true_value
from offpolicy.ranking.examination import Propensities
from offpolicy.ranking.family import document_weights
from offpolicy.ranking.log import RankingLog
from offpolicy.ranking.metrics import Metric
from offpolicy.ranking.propensities import estimate_propensities
from offpolicy.ranking.reading import RankingColumns
from offpolicy.ranking.relevance import RelevanceModel
from offpolicy.ranking.results import RankingEstimate, RankingResult
from offpolicy.ranking.selection import RankerCV
from offpolicy.ranking.svmrank import PropensitySVMRank

__all__ = [
    "ClickModel", "DependentClicks", "Metric", "PositionBased", "Propensities",
    "PropensitySVMRank", "RankerCV", "RankingColumns", "RankingCurve", "RankingEstimate",
    "RankingLog", "RankingResult", "RelevanceModel", "cascade", "document_weights",
    "estimate_propensities", "evaluate", "pairwise_loss", "simulate_clicks", "sweep",
    "tree_objective", "true_value",
]  # fmt: skip
