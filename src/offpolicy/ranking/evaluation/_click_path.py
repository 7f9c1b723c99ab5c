r"""A ranker's documents as rows of the table by weight, and CAB at every M: as for bandits.

A metric is :math:`\sum_j g_j\,\mathrm{rel}_j` per impression; of a ratio, g is its linearisation.
Around a model d, CAB(M) is :math:`\sum_j g_j (d_j + \min(c_j, M)\,e_j)` with c = 1/p and
e = click − pd: what CAB-DR is for bandits, with documents in the place of decisions. Their row
weight ω is abs(g). Which documents were examined is not observed, so what bandits sum over the
chosen action is here summed over all that were shown, times the probability p of being examined;
the squared residual of relevance is click(1 − 2d) + pd², whose mean is p E(rel − d)²; and a click
tells of relevance as little as its noise pd(1 − pd) says: a document counts as many examined ones
as have that noise together, at most p.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from offpolicy._core.moments import Moments
from offpolicy._core.types import Floats, Ints
from offpolicy.estimators import GRID
from offpolicy.evidence import BINS, EDGES, RiskCurve, WeightBins, bin_of, clipped, table_of_rows
from offpolicy.intervals import Interval
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import Metric
from offpolicy.ranking.evaluation._sums import NOTHING, value_of

GROUPS = 2**14
"""Queries are clusters; of more, some share one."""


class Question(NamedTuple):
    """Which metric of which ranker, on which log."""

    log: RankingLog
    metric: Metric
    target: Ints
    """The rank that the ranker gives every document,"""
    lam: Floats
    """and its λ there."""
    level: float
    independent: bool
    """Whether clicks of one impression are independent, given its documents."""
    ranker: str = "The ranker"
    """Its name."""

    def observed(self, M: float) -> Floats:
        """The weight of a click on each document, min(1/p, M)."""
        return np.minimum(np.where(self.log.p > 0.0, self.log.p, np.inf) ** -1.0, M)

    def cut(self, low: float, high: float, value: float | None = None) -> Interval:
        """An interval, cut to what the metric can be, but not below or above its own value."""
        least, most = self.metric.limits(self.lam, len(self.log))
        if value is not None:
            least, most = min(least, value), max(most, value)
        return Interval(*(min(max(end, least), most) for end in (low, high)))


@dataclass(frozen=True, eq=False)
class DocumentBins(WeightBins):
    """The sums over documents. Of those never shown (`unsupported`) no click can speak: they are
    left to the model at every M, with the error of those shown with the smallest p."""

    @classmethod
    def of(cls, log: RankingLog, g: Floats, d: Floats) -> DocumentBins:
        seen = log.p > 0.0
        p, click, model, g_seen = log.p[seen], log.click[seen], d[seen], g[seen]
        c, omega, e = 1.0 / p, np.abs(g_seen), click - p * model
        place, squares = bin_of(c), omega * (click * (1.0 - 2.0 * model) + p * model * model)
        # Of few clicks these may be below 0, which no mean of squares is.
        ee = np.maximum(np.bincount(place, squares, BINS), 0.0)
        cee = np.maximum(np.bincount(place, c * squares, BINS), np.append(0.0, EDGES) * ee)
        # That p is not examination itself is noise, too: so many times that of relevance.
        noise = p * model * (1.0 - p * model) * (omega * p).sum() / max(ee.sum(), 1e-300)
        noisy = omega**2 * np.maximum(noise, p)
        columns = {
            "1": omega * p, "c": omega, "cc": omega * c, "e": g_seen * e, "ce": g_seen * e * c,
            "ω": noisy, "ωc": noisy * c, "ωcc": noisy * c * c,
        }  # fmt: skip
        of_rows = table_of_rows(place, columns) + table_of_rows(
            np.arange(BINS), {"ee": ee, "cee": cee}
        )
        of_candidates = [np.bincount(place, columns[name], BINS) for name in ("c", "1", "cc")]
        hidden = np.abs(g[~seen])
        unsupported = np.array([hidden.sum(), (hidden * d[~seen]).sum()])
        return cls(of_rows, np.stack(of_candidates, axis=1), unsupported)

    @cached_property
    def weight(self) -> float:
        """Σω, of all documents."""
        return float(self.of_candidates[:, 0].sum() + self.unsupported[0])

    @cached_property
    def mass(self) -> Floats:
        """At every M: the share of Σω(1 − Mp)₊ in Σω."""
        left = 1.0 - self.kept
        return np.where(left > 1e-13, left, 0.0)

    @property
    def asked(self) -> Ints:
        """For every M, at which M there are rows that speak of what is left: of documents never
        shown, those of the smallest p."""
        every = np.arange(len(GRID))
        if not self.unsupported[0] > 0.0:
            return every
        last = np.flatnonzero(self.rows("1") > 0.0)
        return np.minimum(every, max(int(last[-1]) - 1, 0) if len(last) else 0)


class ClickPath(NamedTuple):
    """CAB around a model d, at every M."""

    asked: Question
    d: Floats
    g: Floats
    """Of every document."""
    bins: DocumentBins
    moments: Moments
    """The queries' totals of g (d + min(c, M) e), less the mean."""
    curve: RiskCurve

    @property
    def worth(self) -> float:
        """What the whole mass is worth: Σω of an impression."""
        return self.bins.weight / len(self.asked.log)


def path_of(asked: Question, d: Floats) -> ClickPath:
    """CAB around d; a ratio is linearised at the model's value, then at its own."""
    sums = _Sums(asked, d)
    path = sums.path(value_of(asked.log, asked.metric, asked.lam, d).weight)
    if not asked.metric.is_ratio:
        return path
    k = path.curve.at_value
    return sums.path((asked.lam - path.curve.value[k]) / sums.bottom[k])


class _Sums:
    """What documents count, d + min(c, M) e: by query, at every M."""

    def __init__(self, asked: Question, d: Floats) -> None:
        log, p = asked.log, asked.log.p
        self.asked, self.d, self.chance = asked, d, p * d
        self.c, self.e = np.where(p > 0.0, p, np.inf) ** -1.0, log.click - self.chance
        group = log.cluster % GROUPS
        self.impressions = np.bincount(group).astype(np.float64)
        self.query = group[log.impression]
        self.place = self.query * BINS + bin_of(self.c)
        self.bottom = np.full(len(GRID), len(log) * 1.0)
        if asked.metric.is_ratio:
            self.bottom = self.totals(np.ones_like(d)).sum(axis=0)
        self.bottom /= len(log)

    def clipped(self, f: Floats, power: int) -> Floats:
        """Σ min(c, M)^power·f of every query (or group of them), at every M."""
        count = len(self.impressions)
        free, held = (
            np.bincount(self.place, x, count * BINS).astype(np.float64).reshape(count, BINS)
            for x in (self.c**power * f, f)
        )
        return clipped(free, held, power)

    def totals(self, f: Floats) -> Floats:
        """Σ f·(d + min(c, M) e), likewise."""
        model = np.bincount(self.query, f * self.d, len(self.impressions))
        return np.asarray(model[:, None] + self.clipped(f * self.e, 1))

    def path(self, g: Floats) -> ClickPath:
        """CAB at every M, with g of every document."""
        asked, n, totals = self.asked, len(self.asked.log), self.totals(g)
        value = (self.totals(asked.lam) if asked.metric.is_ratio else totals).sum(axis=0) / n
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(self.bottom > NOTHING, value / self.bottom, np.inf)
        totals = totals - np.outer(self.impressions, totals.sum(axis=0) / n)
        empty = np.empty(0)
        moments = Moments(n, n, n, value, empty, empty, empty, empty, self.impressions, totals)
        bins = DocumentBins.of(asked.log, g, self.d)
        worth = bins.weight / n
        curve = RiskCurve.around(
            bins, value, self._variance(g, moments), scale=worth, asked=bins.asked
        )
        curve = replace(curve, size=np.minimum(curve.size, worth))
        return ClickPath(asked, self.d, g, bins, moments, curve)

    def _variance(self, g: Floats, moments: Moments) -> Floats:
        """Between queries, and what clicks by the model vary more than they were seen to; of one
        query the latter alone is known."""
        only, n = len(self.impressions) == 1, len(self.asked.log)
        observed = np.zeros(len(GRID)) if only else moments.covariance()
        if not (self.asked.independent or only):
            return observed
        noise = g * g * (self.chance * (1.0 - self.chance) - (0.0 if only else self.e**2))
        undrawn = self.clipped(noise, 2).sum(axis=0) / n**2
        return np.asarray(observed + np.maximum(undrawn, 0.0))
