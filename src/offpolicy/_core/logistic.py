r"""The logistic curve, and the one regression with it: ridge-penalised, by Fisher scoring."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from offpolicy._core.types import Floats, Ints

FOLDS = 5
"""Into so many parts rows are cut, to be judged by regressions that have not seen them."""
_STEPS = 100
_TOLERANCE = 1e-9
_MANY = 10_000
"""Rows from which a regression starts from one on some of them."""
_STEPS_APART, _SETTLED = 6, 1e-17
"""Steps that each of several regressions may take by itself, and what the last gains, a row."""


def sigmoid(score: Floats) -> Floats:
    """The logistic curve of an array: 1/(1 + exp(−score)), never quite 0."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(score, -40.0, 40.0))))


def fit(
    X: Floats,
    y: Floats,
    ridge: Floats,
    *,
    weight: Floats | float = 1.0,
    offset: Floats | float = 0.0,
    seen: Floats | float = 1.0,
    start: Floats | None = None,
    steps: int = _STEPS,
) -> Floats:
    r"""Solve for the most probable β where y, from 0 to 1, has mean ``seen`` · σ(``offset`` + βᵀx).

    Columns x are rows of ``X``; ``ridge`` is the precision of each coefficient's normal prior
    around 0. At most so many ``steps`` are taken from ``start``, or from 0.
    """

    # Plain sums, not BLAS: the same bits whatever the threads.
    def at(beta: Floats) -> tuple[float, Floats, Floats]:
        """The loss, and δ and the mean of y of every row."""
        delta = sigmoid(offset + np.einsum("c,cr->r", beta, X, optimize=False))
        mean = delta if all_seen else seen * delta
        likely = y * np.log(np.maximum(mean, 1e-300))
        likely += (1.0 - y) * np.log(np.maximum(1.0 - mean, 1e-300))
        likely *= weight
        return float(0.5 * (ridge * beta**2).sum() - likely.sum()), delta, mean

    X, all_seen = np.ascontiguousarray(X), np.ndim(seen) == 0 and seen == 1.0
    beta = np.zeros(len(X)) if start is None else start
    now, *chances = at(beta)
    for _ in range(steps):
        gradient, hessian = _derivatives(X, y, weight, *chances, all_seen=all_seen)
        step = np.linalg.solve(hessian + np.diag(ridge), gradient - ridge * beta)
        before, (now, *chances) = now, at(beta + step)
        while now > before and np.abs(step).max() > 1e-12:
            step = 0.5 * step
            now, *chances = at(beta + step)
        if now > before:
            break
        beta = beta + step
        if before - now < _TOLERANCE * (1.0 + abs(now)):
            break
    return beta


def _derivatives(
    X: Floats, y: Floats, weight: Floats | float, delta: Floats, mean: Floats, *, all_seen: bool
) -> tuple[Floats, Floats]:
    """Minus the gradient, and the Hessian, of a fit's loss without its prior."""
    # Where all is seen the slope is 1; with δ = 1 besides, there is nothing to learn.
    left = 1.0 - delta
    bounded = not all_seen or left.min(initial=1.0) < 1e-12
    slope = weight * (left / np.maximum(1.0 - mean, 1e-12)) if bounded else weight
    bent = X * (mean * left * slope)
    hessian = np.zeros((len(X), len(X)))
    for i in range(len(X)):
        hessian[i, : i + 1] = np.einsum("r,jr->j", bent[i], X[: i + 1], optimize=False)
    hessian += np.tril(hessian, -1).T
    return np.einsum("r,cr->c", (y - mean) * slope, X, optimize=False), hessian


def fit_without(
    X: Floats,
    y: Floats,
    ridge: Floats,
    fold: Ints,
    left_out: Ints | None = None,
    *,
    weight: Floats | float = 1.0,
    offset: Floats | None = None,
    seen: Floats | float = 1.0,
) -> Floats:
    """`fit` on the rows of all folds but some, once for every row of ``left_out``, or else for
    each fold.

    Each starts from its offset, or else from the mean, or from one on some of the rows; 0 where no
    rows are left.
    """
    if left_out is None:
        left_out = np.arange(FOLDS, dtype=np.int64)[:, None]
        if len(y) > _MANY and offset is None and np.ndim(seen) == 0 and seen == 1.0:
            found = _fit_together(X, y, ridge, fold, np.broadcast_to(weight, y.shape))
            if found is not None:
                return found
    of_rows: list[Any] = [np.broadcast_to(weight, y.shape), 0.0 if offset is None else offset, seen]
    found = np.zeros((len(left_out), len(X)))
    for beta, folds in zip(found, left_out, strict=True):
        rest = np.flatnonzero((fold != folds[:, None]).all(axis=0))
        if len(rest):
            columns, share = X.take(rest, axis=1), y[rest]
            count, known, chance = (x if np.ndim(x) == 0 else x[rest] for x in of_rows)
            start = beta
            if offset is None:
                mean = (float((count * share).sum()) + 0.5) / (float(count.sum()) + 1.0)
                beta[0] = np.log(mean / (1.0 - mean))
                if len(share) > _MANY:
                    some = slice(None, None, len(share) // (_MANY // 2))
                    start = fit(
                        columns[:, some], share[some], ridge, weight=count[some], start=beta
                    )
            beta[:] = fit(
                columns, share, ridge, weight=count, offset=known, seen=chance, start=start
            )
    return found


def _fit_together(X: Floats, y: Floats, ridge: Floats, fold: Ints, weight: Floats) -> Floats | None:
    """`fit` on the rows of all folds but each, where they are many; None if steps do not settle.

    Two steps are from a common place, where all derivatives follow from those of each fold; then
    each has its own gradient, but keeps its curvature.
    """
    order, some = np.argsort(fold, kind="stable"), slice(None, None, len(y) // (_MANY // 2))
    common = fit(X[:, some], y[some], ridge, weight=weight[some])
    X, y, weight = X.take(order, axis=1), y[order], weight[order]
    ends = np.searchsorted(fold[order], np.arange(FOLDS + 1))
    parts, own = [slice(a, b) for a, b in itertools.pairwise(ends)], np.zeros((FOLDS, len(X)))
    others = ~np.eye(FOLDS, dtype=np.bool_)
    for _ in range(2):
        delta, sums = sigmoid(np.einsum("c,cr->r", common, X, optimize=False)), []
        for part in parts:
            given = X[:, part], y[part], weight[part], delta[part], delta[part]
            sums.append(_derivatives(*given, all_seen=True))
        gradients, hessians = map(np.array, zip(*sums, strict=True))
        curvature = np.array([hessians[rest].sum(axis=0) for rest in others]) + np.diag(ridge)
        gradient = np.array([gradients[rest].sum(axis=0) for rest in others]) - ridge * common
        own = common + np.linalg.solve(curvature, gradient[..., None])[..., 0]
        common = own.mean(axis=0)
    for k, part in enumerate(parts):
        for _ in range(_STEPS_APART):
            off = y - sigmoid(np.einsum("c,cr->r", own[k], X, optimize=False))
            off *= weight
            off[part] = 0.0
            gradient = np.einsum("r,cr->c", off, X, optimize=False) - ridge * own[k]
            step = np.linalg.solve(curvature[k], gradient)
            own[k] += step
            gain = float(step @ gradient)
            if gain < _SETTLED * len(y):
                break
        else:
            return None
    return own


def score_unseen(columns: Iterable[Floats], coefficients: Floats, fold: Ints) -> Floats:
    """βᵀx of every row by the regression on the other folds: an intercept, and the columns."""
    score = np.asarray(coefficients[fold, 0])
    for column, slope in zip(columns, coefficients.T[1:], strict=True):
        score += column * slope[fold]
    return score
