"""Logs with clicks."""

from __future__ import annotations

import numpy as np

from offpolicy.logs.formats.letor import Queries
from offpolicy.ranking.data._clicks import PositionBased, simulate_clicks


def clicked(seed=0, n=150, sweeps=1.0, model=True):
    """Queries whose first feature tells relevance; logged by the second."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, n)
    X = rng.normal(size=(sizes.sum(), 3))
    delta = 1.0 / (1.0 + np.exp(1.0 - 2.0 * X[:, 0]))
    relevance = (rng.random(len(X)) < delta).astype(float)
    queries = Queries(X, relevance, np.cumsum([0, *sizes]), np.arange(n), 0)
    log = simulate_clicks(queries, X[:, 1], PositionBased(1.0), sweeps=sweeps, rng=seed)
    return log.replace(prediction=1.0 / (1.0 + np.exp(-log.X[:, 0]))) if model else log
