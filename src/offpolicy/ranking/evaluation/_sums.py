"""A metric from sums over documents, and what their spread over queries says about it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.errors import MissingColumnError
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


def lam_of(log: RankingLog, metric: Metric, rank: Ints) -> Floats:
    """λ of every document at the rank that a ranker gives it. What depends on the relevance of
    others takes that from the log where it is known, else from its model."""
    if not metric.needs_relevance:
        return metric.weight(rank)
    relevance = log.prediction if log.relevance is None else log.relevance
    if relevance is None:
        raise MissingColumnError(
            f"{metric} depends on how many of the documents are relevant, which clicks alone do "
            f"not tell: the log needs prediction, the modelled probability of relevance of every "
            f"document. Train a RelevanceModel, or use dcg or the reciprocal rank.",
            column="prediction",
        )
    return metric.weight(rank, log.offsets, relevance)


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
