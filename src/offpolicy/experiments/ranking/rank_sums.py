"""Estimates of a ranker at every value of a parameter, from sums over the ranks of the logger.

Examination depends on the rank alone, p = 1/rank, and so do the weights of every estimator. A log
is therefore a few sums for each rank, and an estimate is a product of these with a table of
weights: nothing that is the same for all M is done twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.experiments.accuracy import Grid
from offpolicy.ranking.data import FamilyWeights, RankingLog, weights_at

GRID = Grid.up_to(1000.0, 81)


def weight_table(estimator: str, top: int) -> FamilyWeights:
    """For the experiment's curves: an estimator's weights at each value, at the ranks 1 … top."""
    p = 1.0 / np.arange(1.0, top + 1.0)
    each = [weights_at(member, p) for member in GRID.members(estimator)]
    return FamilyWeights(np.stack([w.imputed for w in each]), np.stack([w.observed for w in each]))


class RankSums(NamedTuple):
    """Sums over the documents that the logger put at each rank: (2, top), once weighed by the
    rank that the ranker gives them, once not."""

    model: Floats
    """Of δ̂."""
    clicks: Floats
    impressions: int

    def values(self, table: FamilyWeights) -> dict[str, Floats]:
        """By metric, at each value of the parameter.

        At M = 0 nothing counts as relevant by CIPS; the ratio is what it is for all M up to 1, at
        which all weights are equal.
        """
        top, bottom = self.model @ table.imputed.T + self.clicks @ table.observed.T
        ratio = np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0.0)
        if np.isnan(ratio[0]) and len(ratio) > 1:
            ratio[0] = ratio[1]
        return {"sum of ranks": top / self.impressions, "average rank": ratio}


def rank_sums(log: RankingLog, target: Ints, prediction: Floats, top: int) -> RankSums:
    """A log of the experiment as sums by rank, for a ranker that gives the ranks ``target``."""

    def summed(x: Floats) -> Floats:
        return np.stack(
            [np.bincount(log.rank - 1, weight, top) for weight in (x * target, x)]
        ).astype(np.float64)

    return RankSums(summed(prediction), summed(log.click), len(log))
