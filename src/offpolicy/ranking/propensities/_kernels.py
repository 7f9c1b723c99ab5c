"""The numba loops over strata: clicks and impressions of every pair of ranks, and their scores.

A *stratum* is a set of rows between which only the rank differs, by chance or by what ranker ran:
the impressions of one document for one query, or one shuffled impression. Rows are packed into
single integers, ((stratum · top) + rank − 1) · 2 + click, and sorted, so that a stratum stands
together, and so do the strata of a cluster. Work is quadratic in the ranks a stratum was seen at,
never in the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from offpolicy._core.kernels import COMMON
from offpolicy._core.types import Floats, Ints


def _gathered(packed: Ints, i: int, top: int, ranks: Ints, n: Floats, c: Floats) -> tuple[int, int]:
    """Impressions ``n`` and clicks ``c`` at each of the ``ranks`` of the stratum that begins at i;
    where it ends, and how many ranks it has."""
    stratum, m = packed[i] // (2 * top), 0
    while i < len(packed) and packed[i] // (2 * top) == stratum:
        k = packed[i] // 2 % top
        if m == 0 or ranks[m - 1] != k:
            ranks[m], n[m], c[m] = k, 0.0, 0.0
            m += 1
        n[m - 1] += 1.0
        c[m - 1] += packed[i] % 2
        i += 1
    return i, m


gathered: Any = njit(**COMMON)(_gathered)


def _spread_by(score: Floats, inverse: Floats, squares: Floats, fourths: Floats) -> None:
    """Add what one cluster moves, and begin anew."""
    moved = inverse @ score
    for a in range(len(moved)):
        fourths[a] += moved[a] ** 4
        for b in range(len(moved)):
            squares[a, b] += moved[a] * moved[b]
    score[:] = 0.0


spread_by: Any = njit(**COMMON)(_spread_by)


def _strata(
    packed: Ints,
    per_cluster: int,
    top: int,
    overlap: bool,
    clicks: Floats,
    shown: Floats,
    factor: Floats,
    mean: Floats,
    inverse: Floats,
    squares: Floats,
    fourths: Floats,
) -> int:
    """Sums over all strata; how many clusters had a share in them.

    Adds to ``clicks`` and ``shown`` (top, top): at [k, k′] what was seen at rank k of strata that
    were also seen at k′. With ``factor`` of that shape, also adds up over clusters, of
    e = ``inverse``·s with s the sums of ±factor·(clicks − shown·mean): ``squares`` e eᵀ and
    ``fourths`` e⁴.
    """
    scored = factor.shape[0] > 0
    ranks = np.empty(top, np.int64)
    n = np.empty(top)
    c = np.empty(top)
    score = np.zeros(top)
    cluster, clusters, used = -1, 0, False
    i = 0
    while i <= len(packed):
        stratum = packed[i] // (2 * top) if i < len(packed) else -1
        owner = stratum // per_cluster if i < len(packed) else -1
        if owner != cluster:
            if used:
                clusters += 1
                if scored:
                    spread_by(score, inverse, squares, fourths)
            cluster, used = owner, False
        if i == len(packed):
            break
        i, m = gathered(packed, i, top, ranks, n, c)
        for a in range(m):
            for b in range(m):
                if a == b:
                    continue
                used = True
                weight = n[b] / (n[a] + n[b]) if overlap else 1.0 / n[a]
                j, k = ranks[a], ranks[b]
                clicks[j, k] += weight * c[a]
                shown[j, k] += weight * n[a]
                if scored:
                    part = factor[j, k] * weight * (c[a] - n[a] * mean[j, k])
                    score[j] += part
                    score[k] -= part
    return clusters


def _rankers(
    cluster: Ints,
    rank: Ints,
    click: Floats,
    ranks: Ints,
    traffic: Floats,
    top: int,
    overlap: bool,
    clicks: Floats,
    shown: Floats,
    factor: Floats,
    mean: Floats,
    inverse: Floats,
    squares: Floats,
    fourths: Floats,
) -> int:
    """As `_strata`, where the ranks that other rankers would have given are known.

    A row is a document as it was shown, and a stratum of its own: ``ranks`` (rows, rankers) says
    where it could have stood, and ``traffic`` how often. Rows of a cluster stand together.
    """
    scored = factor.shape[0] > 0
    score = np.zeros(top)
    share = np.zeros(top)
    clusters, used = 0, False
    for i in range(len(rank) + 1):
        if i == len(rank) or (i > 0 and cluster[i] != cluster[i - 1]):
            if used:
                clusters += 1
                if scored:
                    spread_by(score, inverse, squares, fourths)
            used = False
        if i == len(rank):
            break
        for r in range(ranks.shape[1]):
            if 0 < ranks[i, r] <= top:
                share[ranks[i, r] - 1] += traffic[r]
        j = rank[i] - 1
        own = share[j]
        share[j] = 0.0
        for r in range(ranks.shape[1]):
            if 0 < ranks[i, r] <= top:
                k = ranks[i, r] - 1
                other = share[k]
                if other > 0.0 and own > 0.0:
                    used = True
                    weight = other / (own + other) if overlap else 1.0 / own
                    clicks[j, k] += weight * click[i]
                    shown[j, k] += weight
                    if scored:
                        part = factor[j, k] * weight * (click[i] - mean[j, k])
                        score[j] += part
                        score[k] -= part
                share[k] = 0.0
    return clusters


def _pairs_of_segments(
    packed: Ints,
    per_segment: int,
    top: int,
    overlap: bool,
    segment: Ints,
    pair: Ints,
    above: Floats,
    below: Floats,
    clicks: Floats,
    shown: Floats,
) -> int:
    """How many (segment, pair of ranks j < k) have clicks; with room for them, fills them in.

    ``clicks`` and ``shown`` are added to as in `_strata` when there is room.
    """
    fill = len(segment) > 0
    ranks = np.empty(top, np.int64)
    n = np.empty(top)
    c = np.empty(top)
    own = np.zeros((top, top))
    found, current = 0, -1
    i = 0
    while i <= len(packed):
        stratum = packed[i] // (2 * top) if i < len(packed) else -1
        owner = stratum // per_segment if i < len(packed) else -1
        if owner != current:
            if current >= 0:
                for j in range(top):
                    for k in range(j + 1, top):
                        if own[j, k] + own[k, j] > 0.0:
                            if fill:
                                segment[found] = current
                                pair[found] = j * top + k
                                above[found] = own[j, k]
                                below[found] = own[k, j]
                            found += 1
                own[:] = 0.0
            current = owner
        if i == len(packed):
            break
        i, m = gathered(packed, i, top, ranks, n, c)
        for a in range(m):
            for b in range(m):
                if a == b:
                    continue
                weight = n[b] / (n[a] + n[b]) if overlap else 1.0 / n[a]
                j, k = ranks[a], ranks[b]
                own[j, k] += weight * c[a]
                if fill:
                    clicks[j, k] += weight * c[a]
                    shown[j, k] += weight * n[a]
    return found


strata: Any = njit(**COMMON)(_strata)
rankers: Any = njit(**COMMON)(_rankers)
pairs_of_segments: Any = njit(**COMMON)(_pairs_of_segments)
