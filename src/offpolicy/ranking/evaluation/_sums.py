"""A metric from sums over documents, and what their spread over queries says about it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

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
    """What was given of every document; for a ratio (λ − value)/scale."""
    scale: float = 1.0
    """For a ratio, the mean number of relevant documents."""


class Queries(NamedTuple):
    """Which query each term of a sum is of, and how many impressions each query has."""

    query: Ints
    impressions: Floats

    @classmethod
    def of(cls, log: RankingLog) -> Queries:
        """Of every document."""
        return cls(log.cluster[log.impression], np.bincount(log.cluster).astype(np.float64))

    def mean(self, x: Floats) -> float:
        """Over impressions."""
        return float(x.sum() / self.impressions.sum())

    def stderr(self, x: Floats) -> float:
        """Of the mean, (Q/(Q−1)) Σ_q (Σ_{i∈q} ψᵢ)²/n² with ψ the terms about their mean, since
        impressions of one query are dependent; ∞ from one query."""
        count = len(self.impressions)
        if count < 2:
            return math.inf
        total = np.bincount(self.query, x, count) - self.mean(x) * self.impressions
        square = count / (count - 1) * float((total * total).sum())
        return math.sqrt(square) / float(self.impressions.sum())

    def value(self, metric: Metric, top: Floats, bottom: Floats) -> tuple[float, float, float]:
        """Value, standard error (for a ratio by the delta method) and scale, from λc and c."""
        if not metric.is_ratio:
            return self.mean(top), self.stderr(top), 1.0
        scale = self.mean(bottom)
        if not scale > NOTHING:
            return math.nan, math.inf, 1.0
        value = self.mean(top) / scale
        return value, self.stderr((top - value * bottom) / scale), scale


def effective_clicks(counted: Floats) -> float:
    """(Σw)²/Σw² over what every click counts: how many of equal weight would say as much."""
    squares = float((counted * counted).sum())
    return float(counted.sum()) ** 2 / squares if squares > 0.0 else 0.0


def value_of(log: RankingLog, metric: Metric, lam: Floats, c: Floats) -> Value:
    """A ranker's metric, from λ of every document and how relevant it counts as."""
    value, stderr, scale = Queries.of(log).value(metric, lam * c, c)
    weight = np.nan_to_num((lam - value) / scale) if metric.is_ratio else lam
    return Value(value, stderr, weight, scale)
