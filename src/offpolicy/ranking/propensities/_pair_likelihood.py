r"""The all-pairs likelihood (Agarwal et al. 2019), with the relevance of every pair profiled out.

For ranks k ≠ k′, of what was shown at both: C of N weighted impressions at k were clicked, and
C′ of N′ at k′. With :math:`\mu = p_k r_{kk'}` and :math:`\mu' = p_{k'} r_{kk'}`,

.. math:: \ell(p) = \sum_{k < k'} \max_r \; C \log\mu + (N - C) \log(1 - \mu)
                    + C' \log\mu' + (N' - C') \log(1 - \mu').

The best r is the smaller root of a quadratic. In log p the whole is concave, and minus its Hessian
is the Laplacian of a graph whose nodes are the ranks: what is not linked to rank 1 is not known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.types import Floats
from offpolicy.ranking.propensities._newton import Derivatives, climb

_STEPS = 200
_LEAST_MISSED = 1e-6
"""Share of a pair's impressions that count as not clicked at least, so that μ stays below 1."""


class PairCounts(NamedTuple):
    """Weighted clicks and impressions, (top, top): at [k, k′], seen at k and also shown at k′."""

    clicks: Floats
    shown: Floats

    def only(self, kept: NDArray[np.bool_]) -> PairCounts:
        """Of these pairs alone."""
        return PairCounts(self.clicks * kept, self.shown * kept)


class Pairs(NamedTuple):
    """The likelihood's parts at one p, all (top, top)."""

    mean: Floats
    """μ, of a click at the first rank."""
    score: Floats
    """Of log p at the first rank."""
    curvature: Floats
    """Minus the second derivative by log p at the first rank, r held fixed."""
    value: float


class Fitted(NamedTuple):
    """p by rank; NaN where rank 1 is not linked to."""

    p: Floats
    inverse: Floats
    """Of minus the Hessian in log p, (top, top); 0 for rank 1, NaN where p is."""
    factor: Floats
    """What a click of a pair adds to the score once r is profiled out."""
    mean: Floats


def evaluated(log_p: Floats, counts: PairCounts) -> Pairs:
    """The profiled likelihood of clicks at pairs of ranks; pairs without any contribute nothing."""
    clicks, shown = counts
    missed = np.maximum(shown - clicks, _LEAST_MISSED * shown)
    t = np.exp(log_p)[:, None]
    s = t.T
    both = clicks + clicks.T
    used = (shown > 0.0) & (shown.T > 0.0) & (both > 0.0)
    # In units of the larger p, so that neither end of the range over- or underflows.
    top = np.maximum(t, s)
    t, s = t / top, s / top
    total = clicks + missed
    a = t * s * (total + total.T)
    b = both * (t + s) + missed * t + missed.T * s
    root = np.sqrt(np.maximum(b * b - 4.0 * a * both, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.where(used, 2.0 * both / (b + root), 0.0)
        mean = np.minimum(t * r, 1.0 - 1e-15)
        score = np.where(used, clicks - missed * mean / (1.0 - mean), 0.0)
        curvature = np.where(used, missed * mean / (1.0 - mean) ** 2, 0.0)
        value = np.where(
            used & (clicks > 0.0), clicks * np.log(np.where(used, mean, 1.0)), 0.0
        ) + np.where(used, missed * np.log1p(-mean), 0.0)
    return Pairs(mean, score, curvature, float(value.sum()))


def laplacian(parts: Pairs) -> Floats:
    """Minus the Hessian of the likelihood of clicks at pairs of ranks, in log p."""
    bend = parts.curvature
    with np.errstate(divide="ignore", invalid="ignore"):
        edge = np.where(bend + bend.T > 0.0, bend * bend.T / (bend + bend.T), 0.0)
    return np.diag(edge.sum(axis=1)) - edge


def linked(edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which ranks a chain of ``edges`` (top, top) leads to from rank 1, and another one back."""
    from scipy.sparse.csgraph import connected_components

    part = connected_components(edges, connection="strong")[1]
    return np.asarray(part == part[0])


def estimable(counts: PairCounts) -> NDArray[np.bool_]:
    """Ranks whose p is neither unknown nor 0 nor infinite: clicks link them with rank 1."""
    return linked((counts.clicks > 0.0) & (counts.shown.T > 0.0))


def maximised(counts: PairCounts) -> Fitted:
    """Examination p of the ranks, by Newton's method from p = 1 on the likelihood of clicks."""
    size = len(counts.clicks)
    known = estimable(counts)
    counts = counts.only(known[:, None] & known[None, :])
    free = known & (np.arange(size) > 0)

    def derivatives(log_p: Floats) -> Derivatives:
        parts = evaluated(log_p, counts)
        return Derivatives(parts.value, parts.score.sum(axis=1), laplacian(parts))

    slope = 1e-10 * float(counts.clicks.sum())
    log_p = climb(np.zeros(size), free, derivatives, steps=_STEPS, longest=3.0, slope=slope).theta
    parts = evaluated(log_p, counts)
    inverse = np.zeros((size, size))
    inverse[~known] = inverse[:, ~known] = np.nan
    block = np.ix_(free, free)
    inverse[block] = np.linalg.inv(laplacian(parts)[block])
    bend = parts.curvature
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(bend + bend.T > 0.0, bend.T / (bend + bend.T) / (1.0 - parts.mean), 0.0)
    return Fitted(np.where(known, np.exp(log_p), np.nan), inverse, factor, parts.mean)
