"""Clicks on ranks that were swapped or shuffled on purpose (Joachims et al. 2017).

Within a shuffled impression each rank holds the same documents on average, so that
click-through rates differ by examination alone: p_k/p_1 is their ratio. The same is true of the
two ranks of a swap that was made or not by the toss of a fair coin.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from offpolicy._core.types import Ints
from offpolicy.errors import ParameterError, SupportError
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.propensities import _strata as strata
from offpolicy.ranking.propensities._pairs import Strata


def shuffled(log: RankingLog, top: int) -> Strata:
    """The first ``top`` ranks of every impression were put in random order."""
    kept = strata.within_top(log, top)
    return Strata.of(strata.packed(log, log.cluster, log.impression, kept, top), True)


def swapped(log: RankingLog, which: Any, top: int) -> Strata:
    """Of every impression, the two ranks that were in the draw, (n, 2), or the one that was in
    it with rank 1, (n,). 0 is for impressions that were not randomised."""
    ranks = _two_ranks(log, which)
    own = ranks[log.impression]
    kept = strata.within_top(log, top) & (log.rank[:, None] == own).any(axis=1)
    # Where only one of the two was shown there was nothing to swap.
    both = np.bincount(log.impression[kept], minlength=len(log)) == 2
    kept &= both[log.impression]
    if not kept.any():
        raise SupportError(
            f"No impression shows both of its swapped ranks within the first {top}: there is "
            f"nothing to compare. Check swapped=, which names ranks from 1, or raise top."
        )
    return Strata.of(strata.packed(log, log.cluster, log.impression, kept, top), True)


def _two_ranks(log: RankingLog, which: Any) -> Ints:
    given = np.asarray(which)
    if given.shape not in ((len(log),), (len(log), 2)) or given.dtype.kind not in "iu":
        raise ParameterError(
            f"swapped has shape {given.shape} and type {given.dtype}; it must hold whole numbers, "
            f"one rank (swapped with rank 1) or two for each of the {len(log):,} impressions."
        )
    if given.ndim == 1:
        given = np.stack([np.where(given > 0, 1, 0), given], axis=1)
    ranks = given.astype(np.int64)
    first, second = ranks.T
    drawn = (first > 0) & (second > 0)
    bad = np.where(drawn, first == second, (first != 0) | (second != 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ParameterError(
            f"swapped, impression {row}: {ranks[row].tolist()} are not two different ranks from 1, "
            f"nor 0 and 0 for an impression that was not randomised."
        )
    return np.where(drawn[:, None], ranks, -1)
