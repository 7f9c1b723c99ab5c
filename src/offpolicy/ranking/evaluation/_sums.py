"""A metric from sums over documents, and what their spread over queries says about it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import Metric

NOTHING = 1e-100
"""Fewer relevant documents than this are none: a ratio by them is 0/0."""


class Value(NamedTuple):
    """A metric's estimate and its linearisation: value ≈ Σ weight·c/n + constant."""

    value: float
    stderr: float
    weight: Floats
    """What was given of every document; for a ratio (λ − value)/scale, with the scale the mean
    number of relevant documents."""


def effective_clicks(counted: Floats) -> float:
    """(Σw)²/Σw² over what every click counts: how many of equal weight would say as much."""
    squares = float((counted * counted).sum())
    return float(counted.sum()) ** 2 / squares if squares > 0.0 else 0.0


def value_of(log: RankingLog, metric: Metric, lam: Floats, c: Floats) -> Value:
    """A ranker's metric, from λ of every document and how relevant it counts as.

    The standard error is √((Q/(Q−1)) Σ_q (Σ_{i∈q} ψᵢ)²)/n with ψ the impressions' terms about their
    mean (for a ratio by the delta method), since impressions of one query are dependent; ∞ from
    one query.
    """
    n, count, value, weight = len(log), log.queries, float((lam * c).sum()) / len(log), lam
    if metric.is_ratio:
        scale = float(c.sum()) / n
        if not scale > NOTHING:
            return Value(math.nan, math.inf, np.zeros_like(c))
        value /= scale
        weight = (lam - value) / scale
    if count < 2:
        return Value(value, math.inf, weight)
    terms = weight * c
    total = np.bincount(log.cluster[log.impression], terms, count)
    total -= terms.sum() / n * np.bincount(log.cluster)
    return Value(value, math.sqrt(count / (count - 1) * float((total * total).sum())) / n, weight)
