"""How good would another ranker have been?"""

from __future__ import annotations

from offpolicy.ranking.evaluation._evaluate import evaluate, sweep
from offpolicy.ranking.evaluation._model_error import ModelError
from offpolicy.ranking.evaluation._recalibration import recalibrated
from offpolicy.ranking.evaluation._result import RankingEstimate, RankingResult
from offpolicy.ranking.evaluation._sums import value_of
from offpolicy.ranking.evaluation._tuning import choose

__all__ = [
    "ModelError", "RankingEstimate", "RankingResult", "choose", "evaluate", "recalibrated", "sweep",
    "value_of",
]  # fmt: skip
