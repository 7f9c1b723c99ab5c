"""The noise of CAB-DR(M): the variance seen, scaled up to the weights that could have been drawn.

A log that happened to draw none of its rare huge weights has a small variance and a small mean of
w²; but what w² is on average is known without any reward, from all candidates (Theorem 6). The
noise of the model's own fit needs no term of its own: it moves the value through what is left to
the model only, where the plausible bias allows for more.
"""

from __future__ import annotations

import numpy as np

from offpolicy._core.moments import Moments
from offpolicy._core.types import Floats
from offpolicy.evidence._clip_path import ClipPath

_FEWEST_DEGREES = 3.0


def variance(path: ClipPath) -> Floats:
    """V(M), at every M; infinite where the numbers are too large."""
    moments, bins = path.moments, path.bins
    with np.errstate(all="ignore"):
        observed, design = moments.covariance(), np.ones(1)
        if moments.group_weight is not None:
            # Rows of a cluster are alike: what was not drawn would be, too.
            alone = moments.covariance(grouped=False)
            design = np.where(alone > 0.0, np.maximum(observed / alone, 1.0), 1.0)
        squares, size = bins.drawn
        undrawn = (bins.second - squares) * size / bins.weight**2 * design
        total = observed + np.where(undrawn > 0.0, undrawn, 0.0)
    return np.where(np.isnan(total), np.inf, total)


def satterthwaite(moments: Moments, share: float, column: int) -> float:
    """Degrees of freedom of a column's variance: 2n/(kurtosis − 1), or by clusters.

    ``share`` is Σ of the rows' squared shares in the variance: kurtosis/n, which is 1/n if all are
    alike, and 1 if it is one's alone.
    """
    units = degrees_of(moments) + 1.0
    if moments.group_total is not None:
        with np.errstate(all="ignore"):
            squares = moments.group_total[:, column] ** 2
            share = float((squares * squares).sum() / squares.sum() ** 2)
    if not 0.0 < share <= 1.0:
        share = 1.0
    most = max(units - 1.0, 1.0)
    return min(max(2.0 / max(share - 1.0 / units, 1e-300), _FEWEST_DEGREES), most)


def design_effect(moments: Moments, column: int) -> float:
    """How much larger a column's variance is as rows of a cluster are alike; at least 1."""
    if moments.group_weight is None:
        return 1.0
    together, alone = (np.atleast_2d(moments.covariance(grouped=g)) for g in (True, False))
    if len(together) > 1:
        together, alone = (np.diag(x)[None] for x in (together, alone))
    if not (alone[0, column] > 0.0 and np.isfinite(together[0, column])):
        return 1.0
    return max(float(together[0, column] / alone[0, column]), 1.0)


def degrees_of(moments: Moments) -> float:
    """Clusters less one, or rows less one."""
    if moments.group_weight is None:
        return max(moments.count - 1, 1)
    return max(int((moments.group_weight > 0.0).sum()) - 1, 1)
