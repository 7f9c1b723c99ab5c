"""Sums over the documents of each impression, and what their spread says about the mean."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from offpolicy._core.ragged import row_sums
from offpolicy._core.types import Floats, Ints
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import Metric

NOTHING = 1e-100
"""Fewer relevant documents than this are none: a ratio by them is 0/0."""


class Value(NamedTuple):
    """A metric's estimate and its linearisation: value ≈ Σ weight·c/n + constant."""

    value: float
    stderr: float
    weight: Floats
    """λ of every document; for a ratio (λ − value)/scale."""
    scale: float = 1.0
    """For a ratio, the mean number of relevant documents."""


def value_of(log: RankingLog, metric: Metric, lam: Floats, c: Floats) -> Value:
    """From λ of every document and how relevant it counts as.

    The standard error is over queries: (Q/(Q−1)) Σ_q (Σ_{i∈q} ψᵢ)²/n², with ψ the contributions
    about their mean; for a ratio, by the delta method.
    """
    top = row_sums(lam * c, log.offsets)
    if not metric.is_ratio:
        value = float(top.mean())
        return Value(value, clustered(top, log.cluster), lam)
    bottom = row_sums(c, log.offsets)
    total = float(bottom.mean())
    if not total > NOTHING:
        return Value(math.nan, math.inf, np.zeros_like(lam))
    value = float(top.mean()) / total
    weight = (lam - value) / total
    stderr = clustered(row_sums(weight * c, log.offsets), log.cluster)
    return Value(value, stderr, weight, total)


def clustered(x: Floats, cluster: Ints) -> float:
    """Standard error of the mean of x, rows of one cluster being dependent; ∞ from one cluster."""
    total = np.bincount(cluster, x - x.mean())
    count = len(total)
    if count < 2:
        return math.inf
    return math.sqrt(count / (count - 1) * float((total * total).sum())) / len(x)
