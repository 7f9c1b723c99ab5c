r"""The logistic curve, and the one regression with it: ridge-penalised, by Fisher scoring."""

from __future__ import annotations

import numpy as np

from offpolicy._core.types import Floats

_STEPS = 100
_TOLERANCE = 1e-9


def sigmoid(score: Floats) -> Floats:
    """1/(1 + exp(−score)), never quite 0."""
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
    r"""The most probable β where y, from 0 to 1, has mean ``seen`` · σ(``offset`` + βᵀx).

    Columns x are rows of ``X``; ``ridge`` is the precision of each coefficient's normal prior
    around 0. At most so many ``steps`` are taken from ``start``, or from 0.
    """

    def chance(beta: Floats) -> tuple[Floats, Floats]:
        delta = sigmoid(offset + (beta[:, None] * X).sum(axis=0))
        return delta, seen * delta

    def loss(beta: Floats) -> float:
        _, mean = chance(beta)
        likely = y * np.log(np.maximum(mean, 1e-300))
        likely += (1.0 - y) * np.log(np.maximum(1.0 - mean, 1e-300))
        return float(0.5 * (ridge * beta**2).sum() - (weight * likely).sum())

    beta = np.zeros(len(X)) if start is None else start
    now = loss(beta)
    for _ in range(steps):
        delta, mean = chance(beta)
        # Where all is seen the slope is 1; with δ = 1 besides, there is nothing to learn.
        slope = (1.0 - delta) / np.maximum(1.0 - mean, 1e-12)
        gradient = (X * (weight * (y - mean) * slope)).sum(axis=1) - ridge * beta
        curvature = weight * mean * (1.0 - delta) * slope
        hessian = np.einsum("ir,jr->ij", X * curvature, X, optimize=False) + np.diag(ridge)
        step = np.linalg.solve(hessian, gradient)
        before = now
        while (now := loss(beta + step)) > before and np.abs(step).max() > 1e-12:
            step = 0.5 * step
        if now > before:
            break
        beta = beta + step
        if before - now < _TOLERANCE * (1.0 + abs(now)):
            break
    return beta
