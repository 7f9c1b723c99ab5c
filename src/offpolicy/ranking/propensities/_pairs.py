"""Pairs of ranks at which the same things were shown: interventions that nobody had to make.

Intervention harvesting (Agarwal et al. 2019): where rankers differ, the same document of the same
query is shown at rank k here and at k′ there, and what differs between its clicks is examination.
The paper gives each click the weight 1/w, with w how often the document was shown at that rank;
``overlap`` weights multiply this with n·n′/(n + n′), as Mantel and Haenszel (1959) do for risk
ratios, so that a document that was seen a thousand times here and once there counts little. Both
are consistent.

What was swapped or shuffled on purpose (Joachims et al. 2017) is a stratum as well: within a
shuffled impression each rank holds the same documents on average, so that click-through rates
differ by examination alone. The same is true of the two ranks of a swap that was made or not by
the toss of a fair coin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core import validation as check
from offpolicy._core.door import Door
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import LogError, ParameterError, Place, SupportError
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.propensities import _strata as strata
from offpolicy.ranking.propensities._pair_likelihood import Fitted, PairCounts

_CELLS = 2**18
"""Pairs of ranks, over all clusters, that are looked at together."""


class Strata(NamedTuple):
    """Rows that are alike but for the rank."""

    top: int
    loop: Literal["strata", "rankers"]
    """Of `_kernels`: whether other ranks were observed, or are known of rankers."""
    rows: tuple[Any, ...]
    """What it runs over."""

    @classmethod
    def of(cls, packed: strata.Packed, overlap: bool) -> Strata:
        """Strata that were observed."""
        return cls(packed.top, "strata", (*packed, overlap))

    def blocks(self) -> Iterator[tuple[Ints, Floats, Floats]]:
        """Owners, and clicks and impressions of each, (owners, top, top)."""
        from offpolicy.ranking.propensities import _kernels

        size = filled = max(1, _CELLS // self.top**2)
        row = 0
        while filled == size:
            owner, (clicks, shown) = np.empty(size, np.int64), np.zeros((2, size, *[self.top] * 2))
            run = getattr(_kernels, self.loop)
            row, filled = run(*self.rows, row, owner, clicks, shown)
            yield owner[:filled], clicks[:filled], shown[:filled]

    def counts(self) -> PairCounts:
        """Of all clusters."""
        parts = [(clicks.sum(axis=0), shown.sum(axis=0)) for _, clicks, shown in self.blocks()]
        return PairCounts(*np.sum(parts, axis=0))

    def scored(self, fitted: Fitted) -> tuple[Floats, Floats, int]:
        """Over clusters, of how far each moves log p: Σ e eᵀ, Σ e⁴, and how many had a share. With
        s the sums of ±factor·(clicks − shown·mean) of a cluster, e is inverse·s."""
        squares, fourths, clusters = np.zeros((self.top, self.top)), np.zeros(self.top), 0
        for owner, clicks, shown in self.blocks():
            where = np.nonzero(shown)
            cluster, j, k = where
            part = fitted.factor[j, k] * (clicks[where] - shown[where] * fitted.mean[j, k])
            flat, size = cluster * self.top, len(owner) * self.top
            score = np.bincount(flat + j, part, size) - np.bincount(flat + k, part, size)
            moved = score.reshape(-1, self.top) @ np.nan_to_num(fitted.inverse)
            squares += moved.T @ moved
            fourths += (moved**4).sum(axis=0)
            clusters += len(np.unique(cluster))
        return squares, fourths, clusters


def observed(log: RankingLog, top: int, overlap: bool) -> Strata:
    """The impressions of one document for one query are a stratum."""
    kept = strata.within_top(log, top)
    codes = strata.document_codes(log)
    return Strata.of(strata.packed(log, log.cluster, codes, kept, top), overlap)


def known_rankers(
    log: RankingLog, ranks: Any, traffic: ArrayLike | None, top: int, overlap: bool
) -> Strata:
    """Impressions were given to rankers by chance; ``ranks`` is where each puts every document."""
    table = np.asarray(ranks)
    if table.ndim != 2 or len(table) != log.documents or table.shape[1] < 2:
        raise ParameterError(
            f"ranks has shape {table.shape}; it must hold one row for each of the "
            f"{log.documents:,} documents and one column for each ranker, of which there are two "
            f"or more.",
            column="ranks",
        )
    if table.dtype.kind not in "iu" or (table < 0).any():
        sentence = "ranks must hold whole numbers: 1 is the top, 0 is not shown."
        raise ParameterError(sentence, column="ranks")
    table = np.ascontiguousarray(table, dtype=np.int64)
    count = table.shape[1]
    share = np.full(count, 1.0 / count) if traffic is None else check.as_sample(traffic, "traffic")
    if len(share) != count or (share <= 0.0).any():
        raise ParameterError(
            f"traffic must hold {count} positive numbers: how many impressions each ranker got.",
            column="traffic",
        )
    kept = strata.within_top(log, top)
    alien = kept & (table != log.rank[:, None]).all(axis=1)
    if alien.any():
        row = int(np.argmax(alien))
        raise LogError(
            f"the document was shown at rank {log.rank[row]}, where none of the {count} rankers "
            f"puts it ({check.count_of(alien[kept])} are like this). Leave out impressions of "
            f"other rankers, or add their ranks.",
            log.place(row, "rank"),
        )
    cluster, rows = log.cluster[log.impression], np.flatnonzero(kept)
    rows = rows[np.argsort(cluster[rows], kind="stable")]
    arrays = (cluster[rows], log.rank[rows], log.click[rows], table[rows], share)
    return Strata(top, "rankers", (*arrays, top, overlap))


def swaps(log: RankingLog, which: Any, top: int) -> Strata:
    """Of every impression, the two ranks that were in the draw, (n, 2), or the one that was in
    it with rank 1, (n,), 0 being for impressions that were not randomised. Without any, the first
    ``top`` ranks of every impression were put in random order."""
    kept = strata.within_top(log, top)
    if which is not None:
        kept &= (log.rank[:, None] == _two_ranks(log, which)[log.impression]).any(axis=1)
        # Where only one of the two was shown there was nothing to swap.
        kept &= (np.bincount(log.impression[kept], minlength=len(log)) == 2)[log.impression]
        if not kept.any():
            raise SupportError(
                f"No impression shows both of its swapped ranks within the first {top}: there is "
                f"nothing to compare. Check {Door.spelled('swapped')}, which names ranks from 1, "
                "or raise top.",
                column="swapped",
            )
    return Strata.of(strata.packed(log, log.cluster, log.impression, kept, top), True)


def _two_ranks(log: RankingLog, which: Any) -> Ints:
    ranks = np.asarray(which)
    if ranks.shape not in ((len(log),), (len(log), 2)) or ranks.dtype.kind not in "iu":
        raise ParameterError(
            f"swapped has shape {ranks.shape} and type {ranks.dtype}; it must hold whole numbers, "
            f"one rank (swapped with rank 1) or two for each of the {len(log):,} impressions.",
            column="swapped",
        )
    if ranks.ndim == 1:
        ranks = np.stack([ranks > 0, ranks], axis=1)
    ranks = ranks.astype(np.int64)
    first, second = ranks.T
    drawn = (first > 0) & (second > 0)
    bad = np.where(drawn, first == second, (first != 0) | (second != 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ParameterError(
            f"{ranks[row].tolist()} are not two different ranks from 1, nor 0 and 0 for an "
            f"impression that was not randomised.",
            Place(column="swapped", part=f"impression {row}"),
        )
    return np.where(drawn[:, None], ranks, -1)


def refuse_no_variation(counts: PairCounts, *, within_context: bool = False) -> None:
    """Nothing can be learnt from documents that keep their rank."""
    if counts.shown.any():
        return
    where, hint = "", ""
    if within_context:
        where = " in the same context"
        hint = "A context of few values, or one that belongs to the query, leaves more to compare. "
    raise SupportError(
        f"No document was shown at two different ranks{where}, so there is nothing to compare: "
        f"whether the top is clicked because it is looked at or because it is good cannot be told. "
        f"{hint}Log impressions of a second ranker, or with some ranks swapped at random; give "
        f"{Door.spelled('ranks')} if other rankers could have been drawn; or, with features and "
        f"the assumptions that come with it, use {Door.given('method', 'em')}.",
        column="context" if within_context else "rank",
    )


def of_interest(pairs: str, top: int) -> Any:
    """Which pairs of ranks are used, (top, top)."""
    k = np.arange(top)
    apart = np.abs(k[:, None] - k[None, :])
    if pairs == "pivot":
        return (apart > 0) & ((k[:, None] == 0) | (k[None, :] == 0))
    return apart == 1 if pairs == "adjacent" else apart > 0
