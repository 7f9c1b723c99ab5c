"""How far clipping may have moved the value: the mass left to the model, times its mean error.

The mass is known exactly (Theorem 5). A mean error is at most the root-mean-square error s, which
the residuals show: it is κs with some κ ≤ 1, and how large κ is, bins of the weight say.
"""

from __future__ import annotations

import math

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.evidence._weight_bins import WeightBins

TYPICAL, LEAST = 0.2, 0.1
"""What κ is thought to be before looking, and what it is at least."""
CAUTION = 5.0
"""The interval allows for so many times κ, at most 1."""
_BINS, _PRIOR_BINS = 8, 2.0
_PRIOR_ROWS = 10.0
"""A mean square starts from that of all rows, with the weight of this many."""


def typical_error(bins: WeightBins) -> float:
    """κ: the model's mean error over its root-mean-square error, as bins of the weight show it."""
    c, *fine = bins.several("c", "1", "ω", "e", "ee")
    with np.errstate(all="ignore"):
        total = np.cumsum(c)
        share = (total - 0.5 * c) / total[-1] * _BINS
        place = np.nan_to_num(np.clip(share, 0, _BINS - 1)).astype(np.int64)
        rows, squares, e, ee = (np.bincount(place, sums, _BINS) for sums in fine)
        overall = ee.sum() / rows.sum()
        count = rows * rows / squares
        size = (count * ee / rows + _PRIOR_ROWS * overall) / (count + _PRIOR_ROWS)
        square = (e / rows) ** 2 / size - 1.0 / count
        q = count / (count + 1.0 / TYPICAL**2)
    seen = (count > 2.0) & np.isfinite(square)
    square, q = square[seen], q[seen]
    kappa2 = (_PRIOR_BINS * TYPICAL**2 + float((q * square).sum())) / (_PRIOR_BINS + float(q.sum()))
    return math.sqrt(min(max(kappa2, LEAST**2), 1.0))


def residual_size(bins: WeightBins) -> Floats:
    """s(M), at every M: the root mean square of e = r − d where the mass left to the model is.

    Rows weighted by (c − M)₊, and as if ten more had the mean square of all, weighted by min(c, M).
    """
    seen = bins.residuals
    with np.errstate(all="ignore"):
        everywhere = seen.kept_square / seen.kept
        everywhere[0] = everywhere[1]
        if not seen.kept[1] > 0.0:
            # The policy takes none of the decisions seen: all rows are as near to it.
            everywhere[:] = bins.total("ee") / bins.weight
        rows = bins.excess_rows
        there = np.where(rows > 0.0, seen.left_square / seen.left, 0.0)
        everywhere = np.where(np.isnan(everywhere), there, everywhere)
        return np.sqrt((rows * there + _PRIOR_ROWS * everywhere) / (rows + _PRIOR_ROWS))


def mean_residual(bins: WeightBins) -> Floats:
    """ē(M), at every M: the mean of e there, rows weighted by (c − M)₊; 0 where there are none."""
    with np.errstate(all="ignore"):
        weighted = bins.residuals.left_sum / bins.residuals.left
        return np.where((bins.excess_rows > 0.0) & np.isfinite(weighted), weighted, 0.0)
