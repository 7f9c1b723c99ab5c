r"""Sums by bins of the weight c, from which all that depends on clipping follows at every M.

The edges of the bins are the grid of M. So the sum of :math:`\min(c, M)^p\,f` over the rows is that
of :math:`c^p f` over the bins below M, and :math:`M^p` times that of f over the bins from M on; and
likewise over the candidates, where :math:`\pi_0 \min(c, M)^2` becomes :math:`\pi^2/\pi_0` below.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from offpolicy._core.buckets import bucket_table
from offpolicy._core.checkpoint import storable
from offpolicy._core.moments import Moments, Sums
from offpolicy._core.ragged import decision_of_candidate
from offpolicy._core.types import Floats, Ints
from offpolicy.estimators import GRID, weights
from offpolicy.evidence._stretches import Stretches
from offpolicy.logs import BanditLog

EDGES: Floats = GRID[1:-1]
BIN_TABLE: Ints = bucket_table(EDGES)
BINS = len(EDGES) + 1
"""Bin 0 holds c < 0.1, bin j those from ``EDGES[j − 1]`` on."""

OF_ROWS = (
    "1", "c", "cc", "e", "ee", "ce", "cee", "m", "r",
    "ω", "ωc", "ωcc", "ωe", "ωee", "ωce", "ωcee", "ωccee", "ωm", "ωmm", "ωme", "ωmce",
)  # fmt: skip
"""What is summed over logged rows, times the row weight ω: products of the weight c, the model's
residual e = r − d, what the model says of the policy, m = Σ πd less a centre, and the reward r."""
COUNTED = ("rows", "rewarded")
"""And what is counted: all rows, and those whose reward is not the usual one."""


class Residuals(NamedTuple):
    """At every M, with w = min(c, M) and t = c − w: sums over rows, times the row weight."""

    kept: Floats
    """Σw, and"""
    kept_square: Floats
    """Σwe²; and beyond M"""
    left: Floats
    """Σt,"""
    left_sum: Floats
    """Σte"""
    left_square: Floats
    """and Σte²."""


class Drawn(NamedTuple):
    """At every M, of the rows seen, with w = min(c, M)."""

    second: Floats
    """The mean of w², and"""
    size: Floats
    """Σω²w²e² over it; Σω²e² if the policy takes none of the decisions seen, as all residuals are
    as near to its own then."""


@storable
@dataclass(frozen=True, eq=False)
class WeightBins(Sums):
    """Sums over a log, by bin of the weight."""

    of_rows: Floats
    """(stretches, bins, `OF_ROWS` and `COUNTED`): by the log's order, and by the weight of the
    chosen candidate."""
    of_candidates: Floats
    """(bins, 3): Σωπ, Σωπ₀ and Σωπ²/π₀ over all candidates. Where π or π₀ are known for the chosen
    ones only, these stand in for all: the sums have the same means."""
    unsupported: Floats
    """Σωπ and Σωπd over candidates with π₀ = 0: two numbers."""

    @cached_property
    def weight(self) -> float:
        """Σω."""
        return self.total("1")

    def rows(self, name: str) -> Floats:
        """One of the sums over rows, by bin."""
        return np.asarray(self.of_rows[:, :, _PLACE[name]].sum(axis=0))

    def several(self, *names: str) -> Floats:
        """Some of the sums over rows: (names, bins)."""
        return np.array([self.rows(name) for name in names])

    @property
    def each(self) -> ByStretch:
        """The same sums over every stretch of the log, but for the candidates,"""
        return ByStretch(self.of_rows, self.of_candidates, self.unsupported)

    @property
    def so_far(self) -> ByStretch:
        """and over all up to its end."""
        return ByStretch(np.cumsum(self.of_rows, axis=0), self.of_candidates, self.unsupported)

    def total(self, name: str) -> float:
        """One of the sums over rows."""
        return float(self.rows(name).sum())

    def about_mean(self) -> tuple[Floats, Floats, Floats]:
        """At every M, of the contributions x_M = m + min(c, M)·e: their mean, and about it Σω²x and
        Σω²x²."""
        with np.errstate(over="ignore", invalid="ignore"):
            squares = self.total("ω")
            mean = (self.total("m") + self.clipped_rows("ce", "e", 1)) / self.total("1")
            cross = self.total("ωm") + self.clipped_rows("ωce", "ωe", 1)
            second = self.total("ωmm") + 2.0 * self.clipped_rows("ωmce", "ωme", 1)
            second += self.clipped_rows("ωccee", "ωee", 2)
            second -= mean * (2.0 * cross - mean * squares)
            return mean, cross - mean * squares, np.maximum(second, 0.0)

    def moments(self) -> Moments:
        """Of these contributions, at every M; their least and largest values are not known."""
        nothing = np.full(len(GRID), np.nan)
        count, squares = int(self.total("rows")), self.total("ω")
        return Moments(count, self.weight, squares, *self.about_mean(), nothing, nothing)

    def clipped_rows(self, free: str, held: str, power: int) -> Floats:
        """`clipped`, of sums over rows."""
        return clipped(self.rows(free), self.rows(held), power)

    @cached_property
    def residuals(self) -> Residuals:
        """What the rows show of the model, where rewards answer and where it does."""
        kept, kept_square = self.clipped_rows("c", "1", 1), self.clipped_rows("cee", "ee", 1)
        left = (_beyond(self.rows(f"c{f}"), self.rows(f or "1")) for f in ("", "e", "ee"))
        return Residuals(kept, kept_square, *left)

    @cached_property
    def drawn(self) -> Drawn:
        """What the rows show of the noise."""
        second = self.clipped_rows("cc", "1", 2) / self.weight
        if not second.any():
            return Drawn(second, np.full(len(second), self.total("ωee")))
        with np.errstate(all="ignore"):
            return Drawn(second, self.clipped_rows("ωccee", "ωee", 2) / second)

    @cached_property
    def kept(self) -> Floats:
        """At every M: E Σ π₀ min(c, M), the mass for which rewards answer."""
        policy, logging, _ = self.of_candidates.T
        return clipped(policy, logging, 1) / self.weight

    @cached_property
    def mass(self) -> Floats:
        """At every M: E Σ (π − Mπ₀)₊, the mass that is left to the model (Theorem 5)."""
        policy, logging, _ = self.of_candidates.T
        return np.clip(_beyond(policy, logging) / self.weight, 0.0, 1.0)

    @cached_property
    def second(self) -> Floats:
        """At every M: E Σ π₀ min(c, M)², over weights that could have been drawn (Theorem 6)."""
        _, logging, square = self.of_candidates.T
        return clipped(square, logging, 2) / self.weight

    @cached_property
    def excess_second(self) -> Floats:
        """At every M: E Σ π₀ (c − M)₊², likewise."""
        policy, logging, square = map(_from, self.of_candidates.T)
        with np.errstate(over="ignore", invalid="ignore"):
            total = square - 2.0 * _FINITE * policy + _FINITE**2 * logging
        return np.asarray(np.where(total > 0.0, total, 0.0) / self.weight)

    @cached_property
    def excess_squares(self) -> Floats:
        """At every M: Σω(c − M)₊² over the rows."""
        cc, c, one = (_from(self.rows(name)) for name in ("cc", "c", "1"))
        with np.errstate(all="ignore"):
            total = cc - 2.0 * _FINITE * c + _FINITE**2 * one
        return np.where(total > 1e-13 * cc, total, 0.0)

    @cached_property
    def excess_rows(self) -> Floats:
        """At every M: (Σωt)²/Σω²t² with t = (c − M)₊, the rows seen where the model answers."""
        total = self.residuals.left
        cc, c, one = (_from(self.rows(name)) for name in ("ωcc", "ωc", "ω"))
        with np.errstate(all="ignore"):
            squares = cc - 2.0 * _FINITE * c + _FINITE**2 * one
            rows = total * total / squares
        seen = (total > 1e-9 * self.weight) & (squares > 0.0) & np.isfinite(rows)
        return np.where(seen, np.maximum(rows, 1.0), 0.0)

    def effective(self, M: float, rows: str) -> float:
        """(Σw)²/Σw² over "rewarded" rows, or over all ("1"), w = min(c, M) with M at least 1."""
        every, counted = self.rows("1"), self.rows(rows)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            c = np.where(every > 0.0, self.rows("c") / every, 0.0)
        w = np.minimum(c, max(M, 1.0))
        w = w / max(float(w.max()), 1.0)
        total, squares = float((counted * w).sum()), float((counted * w * w).sum())
        return total * total / squares if squares > 0.0 else 0.0

    @property
    def distance(self) -> float:
        """E Σ π₀(c − 1)², plus what has no support: 0 only if the policy is the logger."""
        policy, logging, square = self.of_candidates.sum(axis=0)
        return float(square - 2.0 * policy + logging + self.unsupported[0]) / self.weight


class ByStretch(WeightBins):
    """Sums by stretch of a log: all that follows has one more axis, the stretches."""

    @cached_property
    def weight(self) -> float:
        return float(self.rows("1")[-1].sum())

    def rows(self, name: str) -> Floats:
        return self.of_rows[:, :, _PLACE[name]]

    def total(self, name: str) -> Floats:  # type: ignore[override]
        return np.asarray(self.rows(name).sum(axis=-1, keepdims=True))


_PLACE = {name: j for j, name in enumerate((*OF_ROWS, *COUNTED))}
_FINITE: Floats = np.where(np.isfinite(GRID), GRID, 0.0)
"""M; 0 for ∞, from which on there is nothing."""


def clipped(free: Floats, held: Floats, power: int) -> Floats:
    """At every M: Σ min(c, M)^power·f, from sums of c^power·f and of f by bin (the last axis)."""
    with np.errstate(over="ignore", invalid="ignore"):
        below = np.zeros((*free.shape[:-1], len(GRID)))
        np.cumsum(free, axis=-1, out=below[..., 1:])
        return below + _FINITE**power * _from(held)


def _from(sums: Floats) -> Floats:
    """At every M: the sum over the bins (the last axis) from M on."""
    above = np.zeros((*sums.shape[:-1], len(GRID)))
    above[..., :-1] = np.cumsum(sums[..., ::-1], axis=-1)[..., ::-1]
    return above


def _beyond(free: Floats, held: Floats) -> Floats:
    """At every M: Σ (c − M)₊·f, from the sums of c·f and of f by bin; what is rounding is 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        free, held = _from(free), _from(held)
        left = free - _FINITE * held
        return np.where(np.abs(left) > 1e-13 * np.abs(free), left, 0.0)


def bin_of(c: Floats) -> Ints:
    """The bin that each weight c falls into: the table's, or, as edges are more than a sixteenth
    apart, one more."""
    place = BIN_TABLE.take((c.view(np.int64) >> 48) & 0x7FFF)
    place += np.append(EDGES, np.nan).take(place) <= c
    return place


def sums_by_bucket(place: Ints, columns: Floats, count: int, *, compiled: bool = False) -> Floats:
    """Of every column, the sums over the rows that are in each bucket: (buckets, columns)."""
    sums = np.zeros((count, len(columns)))
    if compiled:
        from offpolicy._core.bucket_kernels import add_by_bucket

        add_by_bucket(place, columns, sums)
        return sums
    for j, column in enumerate(columns):
        sums[:, j] = np.bincount(place, column, count)
    return sums


@functools.cache
def _products(weighted: bool) -> tuple[tuple[str, ...], Ints]:
    """The products that are summed over rows, each after what it is one factor more than; and which
    of them each of `OF_ROWS` is, and "rows"."""
    omega = "ω" if weighted else ""
    words = [f"{omega}{name}".replace("1", "").replace("ω", omega) for name in OF_ROWS]
    every = {word[:length] for word in words for length in range(len(word) + 1)}
    ordered = tuple(sorted(every, key=lambda word: (len(word), word)))
    return ordered, np.array([ordered.index(word) for word in (*words, "")])


def sums_of_rows(
    log: BanditLog,
    c: Floats,
    residual: Floats,
    modelled: Floats,
    usual: float | None = None,
    stretches: Stretches | None = None,
    *,
    compiled: bool = False,
) -> Floats:
    """`WeightBins.of_rows` of a log's rows; ``modelled`` is m, ``usual`` the reward of most."""
    parts, place = 1, bin_of(c)
    if stretches is not None:
        parts, place = stretches.count, place + BINS * stretches.of_rows(log)
    factors = {"c": c, "e": residual, "m": modelled, "r": log.reward}
    if log.row_weight is not None:
        factors["ω"] = log.row_weight
    words, which = _products(log.row_weight is not None)
    columns = np.empty((len(words) + 1, len(c)))
    made = dict(zip(words, columns[:-1], strict=True))
    made[""][:] = 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        for word in words[1:]:
            np.multiply(made[word[:-1]], factors[word[-1]], out=made[word])
        columns[-1] = log.reward != (np.nan if usual is None else usual)
        sums = sums_by_bucket(place, columns, parts * BINS, compiled=compiled)
    return sums[:, [*which, -1]].reshape(parts, BINS, -1)


def table_of_rows(place: Ints, columns: Mapping[str, Floats]) -> Floats:
    """`WeightBins.of_rows` from the products themselves, of rows in these bins; 0 for others."""
    sums = np.zeros((1, BINS, len(_PLACE)))
    for name, values in columns.items():
        sums[0, :, _PLACE[name]] = np.bincount(place, values, BINS)
    return sums


def sums_of_candidates(
    log: BanditLog, pi: Floats | None, c: Floats, prediction: Floats | None
) -> tuple[Floats, Floats]:
    """`WeightBins.of_candidates` and `unsupported` of the rows of a log, where π or π₀ may be
    known for the chosen candidates only."""
    omega, unsupported = log.weights, np.zeros(2)
    if pi is None or log.logging is None:
        with np.errstate(over="ignore"):
            place, columns = bin_of(c), (omega * c, omega, omega * c * c)
    else:
        pi0, share = log.logging, omega[decision_of_candidate(log.offsets)]
        ratio = weights.ratio(pi, pi0)
        missing = np.isinf(ratio)
        if missing.any():
            lost = share[missing] * pi[missing]
            model = 0.0 if prediction is None else float((lost * prediction[missing]).sum())
            unsupported = np.array([float(lost.sum()), model])
            pi, ratio = np.where(missing, 0.0, pi), np.where(missing, 0.0, ratio)
        with np.errstate(over="ignore"):
            place, columns = bin_of(ratio), (share * pi, share * pi0, share * pi * ratio)
    sums = [np.bincount(place, column, BINS) for column in columns]
    return np.stack(sums, axis=1).astype(np.float64), unsupported
