r"""Examination that depends on the context: the contextual position-based model (Fang et al. 2019).

.. math:: \log p_k(x) = a_k + b_k^\top z(x), \qquad p_1(x) = 1,

with z the standardised features of a query or its user. As in harvesting, clicks on the same
document at ranks k and k′ are compared, now within one context. Of their (weighted) sum C + C′ the
share at k is on average :math:`p_k(x)/(p_k(x) + p_{k'}(x))`, whatever the relevance, so that

.. math:: \ell = \sum_x \sum_{k<k'} C \log\sigma(\Delta) + C' \log(1 - \sigma(\Delta)),
          \qquad \Delta = \log p_k(x) - \log p_{k'}(x)

is concave and needs no model of relevance, where the paper fits one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.door import Door
from offpolicy._core.logistic import sigmoid
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import LogError, Place
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.propensities import _strata as strata
from offpolicy.ranking.propensities._curve import ContextModel
from offpolicy.ranking.propensities._newton import Derivatives, climb, effective_degrees
from offpolicy.ranking.propensities._pair_likelihood import PairCounts, estimable
from offpolicy.ranking.propensities._pairs import Strata

GROUPS = 2**16
"""Clusters are put together into this many at most; sums of independent scores stay so."""
_STEPS = 100


class ContextPairs(NamedTuple):
    """Clicks above and below, per context and pair of ranks that has any, sorted by pair."""

    design: Floats
    """(segments, 1 + d): of every query, or of each of its contexts."""
    cluster: Ints
    """(segments,)."""
    top: int
    total: PairCounts
    centre: Floats
    spread: Floats
    segment: Ints
    first: Ints
    second: Ints
    above: Floats
    below: Floats


def context_pairs(log: RankingLog, context: Floats, top: int, overlap: bool) -> ContextPairs:
    """Clicks at pairs of ranks in every context: strata are of one query, document and context."""
    centre, spread = context.mean(axis=0), context.std(axis=0)
    if not (spread > 1e-12 * np.maximum(np.abs(centre), 1.0)).all():
        column = int(np.argmin(spread))
        raise LogError(
            f"every impression has the same value in column {column}, so nothing can depend on it. "
            f"Leave it out, or use {Door.given('method', 'pairs')}.",
            Place(column="context"),
        )
    code = log.cluster
    for column in context.T:
        value = np.unique(column, return_inverse=True)[1]
        code = np.unique(code * (value.max() + 1) + value, return_inverse=True)[1]
    first = np.unique(code, return_index=True)[1]
    kept = strata.within_top(log, top)
    packed = strata.packed(log, code, strata.document_codes(log), kept, top)
    j, k = np.triu_indices(top, 1)
    parts, total = [], np.zeros((2, top, top))
    for segment, clicks, shown in Strata.of(packed, overlap).blocks():
        total += clicks.sum(axis=0), shown.sum(axis=0)
        above, below = clicks[:, j, k], clicks[:, k, j]
        clicked = np.nonzero(above + below)
        i, pair = clicked
        parts.append((segment[i], j[pair], k[pair], above[clicked], below[clicked]))
    columns: Any = [np.concatenate(column) for column in zip(*parts, strict=True)]
    by_pair = np.lexsort((columns[2], columns[1]))
    columns = [column[by_pair] for column in columns]
    design = np.insert((context[first] - centre) / spread, 0, 1.0, axis=1)
    counts = PairCounts(*total)
    return ContextPairs(design, log.cluster[first], top, counts, centre, spread, *columns)


def value_and_derivatives(flat: Floats, data: ContextPairs, ridge: float) -> Derivatives:
    """Of the penalised likelihood of clicks, by (a, b) of every rank, (top (1 + d),)."""
    top, width = data.top, data.design.shape[1]
    theta = flat.reshape(top, width)
    value, slope = 0.0, np.zeros((top, width))
    hessian = np.zeros((top, top, width, width))
    scores = data.design @ theta.T
    for j, k, rows in _by_pair(data):
        Z = data.design[data.segment[rows]]
        apart = scores[data.segment[rows], j] - scores[data.segment[rows], k]
        share = sigmoid(apart)
        both = data.above[rows] + data.below[rows]
        value += float((data.above[rows] * apart - both * np.logaddexp(0.0, apart)).sum())
        part = Z.T @ (data.above[rows] - both * share)
        slope[j] += part
        slope[k] -= part
        block = (Z * (both * share * (1.0 - share))[:, None]).T @ Z
        hessian[j, j] += block
        hessian[k, k] += block
        hessian[j, k] -= block
        hessian[k, j] -= block
    penalty = np.full(width, ridge)
    penalty[0] = 0.0
    value -= 0.5 * float((penalty * theta**2).sum())
    slope -= penalty * theta
    curvature = hessian.transpose(0, 2, 1, 3).reshape(top * width, top * width)
    return Derivatives(value, slope.ravel(), curvature + np.diag(np.tile(penalty, top)))


def maximised(data: ContextPairs, ridge: float) -> tuple[ContextModel, Floats, int]:
    """Examination by context, by Newton's method; ranks that are not linked to rank 1 are NaN. With
    its degrees of freedom, and how many clusters there were."""
    top, width = data.top, data.design.shape[1]
    known = estimable(data.total)
    used = known[data.first] & known[data.second]
    data = data._replace(**{name: getattr(data, name)[used] for name in _ROWS})
    free = np.repeat(known & (np.arange(top) > 0), width)
    slope = 1e-10 * float(data.above.sum() + data.below.sum())
    end = climb(
        np.zeros(top * width), free, lambda theta: value_and_derivatives(theta, data, ridge),
        steps=_STEPS, longest=3.0, slope=slope,
    )  # fmt: skip
    theta = end.theta.reshape(top, width)
    hessian = value_and_derivatives(end.theta, data, ridge).curvature
    scores, clusters = _scores(theta, data)
    moved = np.zeros((top * width, scores.shape[1]))
    moved[free] = np.linalg.solve(hessian[np.ix_(free, free)], scores[free])
    covariance = moved @ moved.T * (clusters / max(clusters - 1, 1))
    unknown = np.repeat(~known, width)
    covariance[unknown] = covariance[:, unknown] = np.nan
    theta[~known] = np.nan
    model = ContextModel(theta, covariance, data.centre, data.spread)
    intercepts = moved[::width]
    degrees = effective_degrees((intercepts**2).sum(axis=1), (intercepts**4).sum(axis=1))
    return model, degrees, clusters


_ROWS = ("segment", "first", "second", "above", "below")


def _by_pair(data: ContextPairs) -> list[tuple[int, int, slice]]:
    """The rows of every pair of ranks that has any; these stand together."""
    first, second = data.first, data.second
    starts = np.flatnonzero(np.diff(first * data.top + second, prepend=-1))
    ends = np.append(starts[1:], len(first))
    return [(int(first[a]), int(second[a]), slice(a, b)) for a, b in zip(starts, ends, strict=True)]


def _scores(theta: Floats, data: ContextPairs) -> tuple[Floats, int]:
    """The score of every cluster's clicks, (top (1 + d), clusters), and their number."""
    top, width = theta.shape
    clusters = np.unique(data.cluster[data.segment])
    group = np.searchsorted(clusters, data.cluster) % GROUPS
    size = min(len(clusters), GROUPS)
    scores = np.zeros((top, width, size))
    logs = data.design @ theta.T
    for j, k, rows in _by_pair(data):
        segment = data.segment[rows]
        share = sigmoid(logs[segment, j] - logs[segment, k])
        left = data.above[rows] - (data.above[rows] + data.below[rows]) * share
        for i in range(width):
            part = np.bincount(group[segment], left * data.design[segment, i], minlength=size)
            scores[j, i] += part
            scores[k, i] -= part
    return scores.reshape(top * width, size), len(clusters)
