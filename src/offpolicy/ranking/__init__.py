"""Rankings with clicks: evaluation and learning from position-biased feedback."""

from offpolicy.ranking.data._clicks import (
    ClickModel,
    DependentClicks,
    PositionBased,
    cascade,
    simulate_clicks,
)
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import Metric
from offpolicy.ranking.data._read import RankingColumns
from offpolicy.ranking.data._relevance import RelevanceModel
from offpolicy.ranking.data._weights import document_weights
from offpolicy.ranking.evaluation._evaluate import evaluate, true_value
from offpolicy.ranking.evaluation._result import RankingResult
from offpolicy.ranking.evaluation._sweep import RankingCurve, sweep
from offpolicy.ranking.learning._boosting import pairwise_loss, tree_objective
from offpolicy.ranking.learning._learned import LearnedRanker, learn_ranker
from offpolicy.ranking.learning._search import RankerCV
from offpolicy.ranking.learning._svmrank import PropensitySVMRank
from offpolicy.ranking.propensities._curve import Propensities
from offpolicy.ranking.propensities._estimate import estimate_propensities

__all__ = [
    "ClickModel", "DependentClicks", "LearnedRanker", "Metric", "PositionBased", "Propensities",
    "PropensitySVMRank", "RankerCV", "RankingColumns", "RankingCurve",
    "RankingLog", "RankingResult", "RelevanceModel", "cascade", "document_weights",
    "estimate_propensities", "evaluate", "learn_ranker", "pairwise_loss", "simulate_clicks",
    "sweep", "tree_objective", "true_value",
]  # fmt: skip
