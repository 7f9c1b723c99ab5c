r"""Regression-EM (Wang et al. 2018): examination and a model of relevance, fitted together.

.. math:: P(\text{click}) = p_k\,\sigma(\beta^\top x), \qquad p_1 = 1.

A document may have kept its rank throughout: what is not seen at other ranks is answered by the
regression, which must therefore be right. EM treats examination and relevance as hidden: of a
document without a click, the expected share that was examined is :math:`p(1 - r)/(1 - pr)`, and
that is relevant :math:`r(1 - p)/(1 - pr)`. The regression is fitted to these expectations, not to
labels drawn from them, so that equal logs give equal numbers. EM climbs surely but slowly; its last
steps are left to Fisher scoring on the same likelihood.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpolicy._core import logistic
from offpolicy._core.door import Door
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import MissingColumnError
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.propensities import _strata as strata
from offpolicy.ranking.propensities._curve import Convergence
from offpolicy.ranking.propensities._newton import Derivatives, Maximum, climb, effective_degrees

_BLOCK = 2**12
"""Rows at a time: few enough to stay in the cache."""
_SAMPLE = 20_000
"""EM runs on this many rows at most; scoring on all."""
_START = 200_000
"""Scoring on many more rows than these begins with these."""
_LEAST = -12.0
"""Of log p, during EM: where the sample has no click, p would go to 0."""
_EM_STEPS = 300
_SCORING_STEPS = 100
_NEAR = 1e-3
"""Standard errors from the maximum at which scoring ends."""
GROUPS = 2**14
"""Clusters are put together into this many at most; sums of independent scores stay so."""


class Rows(NamedTuple):
    """Documents that were shown; features are standardised block by block."""

    X: NDArray[Any]
    kept: Ints | None
    """Which rows of X; None for all."""
    place: Ints
    """Rank − 1."""
    click: Floats
    group: Ints
    top: int
    centre: Floats
    spread: Floats

    def blocks(self, size: int = _BLOCK) -> Any:
        """(design, place, click, group), block by block."""
        for start in range(0, len(self.place), size):
            part = slice(start, start + size)
            X = self.X[part] if self.kept is None else self.X[self.kept[part]]
            Z = np.insert((X - self.centre) / self.spread, 0, 1.0, axis=1)
            yield Z, self.place[part], self.click[part], self.group[part]

    def take(self, which: Ints) -> Rows:
        """These rows."""
        return self._replace(
            kept=which if self.kept is None else self.kept[which],
            place=self.place[which],
            click=self.click[which],
            group=self.group[which],
        )


class EMFit(NamedTuple):
    log_p: Floats
    covariance: Floats
    degrees: Floats
    clusters: int
    convergence: Convergence


def rows_of(log: RankingLog, top: int) -> Rows:
    """The shown documents from which regression-EM learns how ranks are examined."""
    if log.X is None:
        raise MissingColumnError(
            "The log has no features, and the method em needs them to tell relevance from "
            f"examination. Name them with {Door.spelled('features')}, or use another method.",
            column="X",
        )
    inside = strata.within_top(log, top)
    kept = None if inside.all() else np.flatnonzero(inside)
    every = slice(None) if kept is None else kept
    impression = log.impression[every]
    clusters = np.unique(log.cluster[impression])
    size = min(len(clusters), GROUPS)
    group = (np.searchsorted(clusters, log.cluster) % size)[impression]
    width = log.X.shape[1]
    rows = Rows(
        log.X, kept, log.rank[every] - 1, log.click[every], group, top, np.zeros(width),
        np.ones(width),
    )  # fmt: skip
    centre = sum(Z[:, 1:].sum(axis=0) for Z, *_ in rows.blocks()) / len(rows.place)
    rows = rows._replace(centre=centre)
    square = sum((Z[:, 1:] ** 2).sum(axis=0) for Z, *_ in rows.blocks())
    spread = np.sqrt(square / len(rows.place))
    floor = 1e-9 * np.maximum(np.abs(centre), 1.0)
    return rows._replace(spread=np.where(spread > floor, spread, np.inf))


def derivatives(theta: Floats, rows: Rows, ridge: float, *, expected: bool = True) -> Derivatives:
    """Of the likelihood of clicks by log p and β, with ridge; curvature as expected or observed."""
    top, size = rows.top, len(theta)
    beta = theta[top:]
    value, slope = 0.0, np.zeros(size)
    curvature = np.zeros((size, size))
    for Z, place, click, _ in rows.blocks():
        sigma, mean, G = _block(theta, Z, place, top)
        odds = mean / (1.0 - mean)
        value += float((click * np.log(mean) + (1.0 - click) * np.log1p(-mean)).sum())
        left = click - (1.0 - click) * odds
        slope[:top] += np.bincount(place, left, minlength=top)
        slope[top:] += G.T @ left
        if expected:
            _add_outer(curvature, odds, G, place, top)
        else:
            _add_outer(curvature, (1.0 - click) * odds * (1.0 + odds), G, place, top)
            curvature[top:, top:] += (Z * (sigma * (1.0 - sigma) * left)[:, None]).T @ Z
    penalty = _penalty(size - top, ridge)
    value -= 0.5 * float((penalty * beta**2).sum())
    slope[top:] -= penalty * beta
    curvature[range(top, size), range(top, size)] += penalty
    return Derivatives(value, slope, curvature)


def _penalty(width: int, ridge: float) -> Floats:
    penalty = np.full(width, ridge)
    penalty[0] = 0.0
    return penalty


def _block(theta: Floats, Z: Floats, place: Ints, top: int) -> tuple[Floats, Floats, Floats]:
    """Of shown documents: σ, μ = pσ cut to where its logarithm exists, d log μ/dβ = (1 − σ) z."""
    sigma = logistic.sigmoid(Z @ theta[top:])
    mean = np.clip(np.exp(theta)[place] * sigma, 1e-300, 1.0 - 1e-12)
    return sigma, mean, Z * (1.0 - sigma)[:, None]


def _add_outer(total: Floats, weight: Floats, G: Floats, place: Ints, top: int) -> None:
    """Add Σ weight g gᵀ over shown documents, with g = (indicator of the rank, G)."""
    weighted = G * weight[:, None]
    indicator = (place == np.arange(top)[:, None]).astype(np.float64)
    total[range(top), range(top)] += indicator @ weight
    cross = indicator @ weighted
    total[:top, top:] += cross
    total[top:, :top] += cross.T
    total[top:, top:] += weighted.T @ G


def em_step(
    theta: Floats, Z: Floats, place: Ints, click: Floats, top: int, ridge: float
) -> tuple[float, Floats]:
    """The likelihood of clicks here, and where one step of EM leads: p of ranks in closed form, β
    by one step of the regression on expected relevance."""
    sigma, mean, _ = _block(theta, Z, place, top)
    log_p, beta = theta[:top].copy(), theta[top:]
    p, penalty = np.exp(log_p)[place], _penalty(len(beta), ridge)
    value = float((click * np.log(mean) + (1.0 - click) * np.log1p(-mean)).sum())
    value -= 0.5 * float((penalty * beta**2).sum())
    examined = click + (1.0 - click) * p * (1.0 - sigma) / (1.0 - mean)
    relevant = click + (1.0 - click) * sigma * (1.0 - p) / (1.0 - mean)
    shown = np.bincount(place, minlength=top)
    seen = (shown > 0) & (np.arange(top) > 0)
    log_p[seen] = np.maximum(np.log(np.bincount(place, examined, top)[seen] / shown[seen]), _LEAST)
    beta = logistic.fit(Z.T, relevant, penalty + 1e-9, start=beta, steps=1)
    return value, np.concatenate([log_p, beta])


def maximised(rows: Rows, known: NDArray[np.bool_], ridge: float) -> EMFit:
    """EM on some shown documents, then scoring on all; ranks not ``known`` have no clicks."""
    if not known.all():
        rows = rows.take(np.flatnonzero(known[rows.place]))
    start, em_steps = _expectations(rows, known, ridge)
    if len(rows.place) > 4 * _START:
        # Nearly there already, from some of the same rows.
        start = _scored(start, _drawn(rows, _START), known, ridge).theta
    end = _scored(start, rows, known, ridge)
    bread = derivatives(end.theta, rows, ridge, expected=False).curvature[1:, 1:]
    covariance, degrees, clusters = _sandwich(end.theta, rows, bread)
    ended = Convergence(em_steps, end.steps, end.value, end.distance, end.distance < 10.0 * _NEAR)
    log_p = np.where(known, end.theta[: rows.top], np.nan)
    covariance[~known] = covariance[:, ~known] = np.nan
    return EMFit(log_p, covariance, np.where(known, degrees, 1.0), clusters, ended)


def _expectations(rows: Rows, known: NDArray[np.bool_], ridge: float) -> tuple[Floats, int]:
    """EM from the click-through rates of the ranks, until it hardly climbs."""
    Z, place, click, _ = next(iter(_drawn(rows, _SAMPLE).blocks(_SAMPLE)))
    shown = np.where(known, np.bincount(rows.place, minlength=rows.top), 1)
    rate = np.bincount(rows.place, rows.click, minlength=rows.top) / shown
    theta = np.zeros(rows.top + Z.shape[1])
    theta[1 : rows.top] = np.log(np.clip(rate[1:] / rate[0], 1e-3, 0.95))
    theta[rows.top] = np.log(rate[0] / max(1.0 - rate[0], 1e-3))
    before = -np.inf
    for steps in range(1, _EM_STEPS + 1):
        value, after = em_step(theta, Z, place, click, rows.top, ridge)
        if value - before < 1e-5 * abs(value):
            return theta, steps
        theta, before = after, value
    return theta, _EM_STEPS


def _drawn(rows: Rows, count: int) -> Rows:
    """At most so many of the shown documents, the same ones whenever it is asked."""
    if len(rows.place) <= count:
        return rows
    return rows.take(np.sort(np.random.default_rng(0).choice(len(rows.place), count, False)))


def _scored(start: Floats, rows: Rows, known: NDArray[np.bool_], ridge: float) -> Maximum:
    """Fisher scoring of examination and relevance, until the maximum is near."""

    def damped(theta: Floats) -> Derivatives:
        fisher = derivatives(theta, rows, ridge)
        least = 1e-12 * np.trace(fisher.curvature[1:, 1:]) * np.eye(len(theta))
        return fisher._replace(curvature=fisher.curvature + least)

    free = np.append(known, np.ones(len(start) - rows.top, bool))
    free[0] = False
    return climb(start, free, damped, steps=_SCORING_STEPS, longest=2.0, near=_NEAR)


def _sandwich(theta: Floats, rows: Rows, bread: Floats) -> tuple[Floats, Floats, int]:
    """Covariance of log p of the ranks with clusters allowed for, (top, top), its degrees of
    freedom, and how many clusters there were."""
    top = rows.top
    size = int(rows.group.max()) + 1
    scores = np.zeros((size, len(theta)))
    for Z, place, click, group in rows.blocks():
        _, mean, G = _block(theta, Z, place, top)
        left = click - (1.0 - click) * mean / (1.0 - mean)
        order = np.argsort(group, kind="stable")
        starts = np.flatnonzero(np.diff(group[order], prepend=-1))
        indicator = (place[:, None] == np.arange(top)).astype(np.float64)
        every = np.concatenate([indicator, G], axis=1) * left[:, None]
        scores[group[order][starts]] += np.add.reduceat(every[order], starts, axis=0)
    moved = np.zeros((size, top))
    moved[:, 1:] = (scores[:, 1:] @ np.linalg.pinv(bread, hermitian=True))[:, : top - 1]
    covariance = moved.T @ moved * (size / max(size - 1, 1))
    degrees = effective_degrees((moved**2).sum(axis=0), (moved**4).sum(axis=0))
    return covariance, degrees, size
