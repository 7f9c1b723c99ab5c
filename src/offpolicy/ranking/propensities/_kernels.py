"""The numba loops over strata: clicks and impressions of every pair of ranks, by cluster.

A *stratum* is a set of rows between which only the rank differs, by chance or by what ranker ran:
the impressions of one document for one query, or one shuffled impression. Rows are packed into
single integers, ((stratum · top) + rank − 1) · 2 + click, and sorted, so that a stratum stands
together, and so do the strata of an owner: a cluster, or a part of one. Work is quadratic in the
ranks a stratum was seen at, never in the rows.

Both loops begin at row ``i`` and fill ``owner`` (size,), ``clicks`` and ``shown`` (size, top, top),
zeros before: at [o, k, k′] what was seen at rank k of strata that were also seen at k′. They return
the row after the last, and how many owners there are.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import numpy as np

from offpolicy._core.kernels import COMMON, compiled


@compiled(**COMMON)
def strata(packed, per_owner, top, overlap, i, owner, clicks, shown):
    """Clicks at pairs of ranks, from strata in which a document was shown at several."""
    ranks, n, c = np.empty(top, np.int64), np.empty(top), np.empty(top)
    filled = 0
    while i < len(packed):
        stratum = packed[i] // (2 * top)
        if filled == 0 or owner[filled - 1] != stratum // per_owner:
            if filled == len(owner):
                break
            owner[filled] = stratum // per_owner
            filled += 1
        m = 0
        while i < len(packed) and packed[i] // (2 * top) == stratum:
            k = packed[i] // 2 % top
            if m == 0 or ranks[m - 1] != k:
                ranks[m], n[m], c[m] = k, 0.0, 0.0
                m += 1
            n[m - 1] += 1.0
            c[m - 1] += packed[i] % 2
            i += 1
        for a in range(m):
            for b in range(m):
                if a != b:
                    weight = n[b] / (n[a] + n[b]) if overlap else 1.0 / n[a]
                    clicks[filled - 1, ranks[a], ranks[b]] += weight * c[a]
                    shown[filled - 1, ranks[a], ranks[b]] += weight * n[a]
    return i, filled


@compiled(**COMMON)
def rankers(cluster, rank, click, ranks, traffic, top, overlap, i, owner, clicks, shown):
    """Documents as they were shown, each a stratum of its own: ``ranks`` (rows, rankers) says
    where it could have stood, and ``traffic`` how often. Rows of a cluster stand together."""
    share = np.zeros(top)
    filled = 0
    while i < len(rank):
        if filled == 0 or owner[filled - 1] != cluster[i]:
            if filled == len(owner):
                break
            owner[filled] = cluster[i]
            filled += 1
        for r in range(ranks.shape[1]):
            if 0 < ranks[i, r] <= top:
                share[ranks[i, r] - 1] += traffic[r]
        j = rank[i] - 1
        for k in range(top):
            if k != j and share[j] > 0.0 and share[k] > 0.0:
                weight = share[k] / (share[j] + share[k]) if overlap else 1.0 / share[j]
                clicks[filled - 1, j, k] += weight * click[i]
                shown[filled - 1, j, k] += weight
        share[:] = 0.0
        i += 1
    return i, filled
