"""How good would another ranker have been?"""

from __future__ import annotations

from offpolicy.ranking.evaluation._click_path import Question
from offpolicy.ranking.evaluation._evaluate import evaluate
from offpolicy.ranking.evaluation._headline import what_is_known
from offpolicy.ranking.evaluation._result import RankingResult
from offpolicy.ranking.evaluation._sweep import sweep
from offpolicy.ranking.evaluation._tuning import tuned

__all__ = [
    "Question", "RankingResult", "evaluate", "sweep", "tuned", "what_is_known",
]  # fmt: skip
