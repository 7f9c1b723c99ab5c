"""Did the log change from one part of its time to another?"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.types import Floats, Ints
from offpolicy.evidence._limits import FALSE_ALARM, tail
from offpolicy.evidence._summary_sums import action_name
from offpolicy.evidence.findings._chance import RECHECKED, Rows
from offpolicy.logs import BanditLog
from offpolicy.results import Finding, Severity, finding

TENTHS, FEWEST_FOR_DRIFT = 10, 200
"""Drift is looked for between tenths, of at least 20 rows, and between halves."""
LEAST_DRIFT = 0.05
"""Less than 5 % of the mean (or of the spread, if that is less) is not worth a word."""


class Move(NamedTuple):
    """The part of the log whose mean stands out most."""

    chance: float
    """To be as far off as it is, with all parts looked at."""
    share: float
    """How far it is from the mean, as a share of the mean or of the spread, whichever is less."""
    text: str
    there: float
    elsewhere: float

    def matters(self, tests: float) -> bool:
        return self.chance * tests < FALSE_ALARM and self.share >= LEAST_DRIFT


def about_drift(log: BanditLog, rows: Rows) -> list[Finding]:
    """Findings of drift: of rewards, of propensities, and of what was chosen."""
    if len(log) < FEWEST_FOR_DRIFT:
        return []
    order, codes = order_in_time(log), log.chosen_codes()
    tests = 3.0 * (int(codes.max()) + 1)
    found = {}
    for name, column in (("reward", log.reward), ("propensity", log.propensity)):
        move = None if column is None else moved(rows, column, order)
        if move is not None and move.matters(3.0):
            found[f"mean {name}"] = move
    for k in _restless(rows, codes, order):
        move = moved(rows, (codes == k).astype(np.float64), order)
        if move is not None and move.matters(tests):
            found[f"share of {action_name(log, k)}"] = move
    if not found:
        return []
    said = [f"the {name} {move.text}" for name, move in found.items()]
    more = "; and more" if len(said) > 3 else ""
    by = "the rows' order" if order is None else "time"
    numbers: dict[str, Any] = {"moved": len(found)}
    for name, move in found.items():
        numbers |= {name: move.there, f"{name} elsewhere": move.elsewhere}
    severity: Severity = "warning" if "mean reward" in found else "note"
    return finding("drift", severity, f"By {by}, {'; '.join(said[:3])}{more}.", **numbers)


def _restless(rows: Rows, codes: Ints, order: Ints | None) -> list[int]:
    """The actions whose shares drift most, as candidates for a finding."""
    n, K, omega = len(codes), int(codes.max()) + 1, rows.omega
    if order is not None:
        codes, omega = codes[order], omega[order]
    edges = _tenths(n)
    tenth = np.repeat(np.arange(TENTHS), np.diff(edges))
    counts = np.bincount(codes * TENTHS + tenth, weights=omega, minlength=K * TENTHS)
    table = _with_half(counts.reshape(K, TENTHS))
    weight = _with_half(np.add.reduceat(omega, edges[:-1]))
    share = table[:, :TENTHS].sum(axis=1, keepdims=True) / n
    off, variance = np.abs(table - share * weight), share * (1.0 - share) * weight
    chance = tail(off, variance, 1.0).min(axis=1)
    worst = [int(k) for k in np.argsort(chance, kind="stable")[:RECHECKED]]
    return [k for k in worst if chance[k] * K < FALSE_ALARM]


def moved(rows: Rows, x: Floats, order: Ints | None) -> Move | None:
    """Drift of x: each tenth of the log, and its first half, against the whole; None if all alike.

    Were rows in random order, a part would be a sample without replacement, whose sum strays less
    than that of independent draws (Hoeffding 1963), whatever the values are.
    """
    n, mean = len(x), float((rows.omega * x).mean())
    scale = float(np.abs(x - mean).max())
    if scale <= 1e-9 * abs(mean):
        return None
    y, omega, cluster = rows.omega * ((x - mean) / scale), rows.omega, rows.cluster
    if order is not None:
        y, omega = y[order], omega[order]
        cluster = None if cluster is None else cluster[order]
    edges = _tenths(n)
    total = _with_half(np.add.reduceat(y, edges[:-1]))
    size = _with_half(np.diff(edges))
    variance = size * (n - size) / (n - 1.0) * float((y * y).mean())
    bound = float(np.abs(y).max())
    if cluster is not None:
        tenth = np.repeat(np.arange(TENTHS), np.diff(edges))
        table = np.bincount(cluster * TENTHS + tenth, weights=y)
        table.resize((int(cluster.max()) + 1, TENTHS), refcheck=False)
        variance = np.maximum(variance, (_with_half(table) ** 2).sum(axis=0))
        bound = float(rows.sizes().max())
    chance = tail(np.abs(total), variance, bound)
    at = int(np.argmin(chance))
    weight = float(_with_half(np.add.reduceat(omega, edges[:-1]))[at])
    there = _rounded_off(mean + scale * float(total[at]) / weight, scale)
    elsewhere = _rounded_off(mean - scale * float(total[at]) / (n - weight), scale)
    spread = scale * math.sqrt(float((y * y).mean()))
    where = "the first half" if at == TENTHS else f"tenth {at + 1} of {TENTHS}"
    return Move(
        2.0 * len(chance) * float(chance[at]),
        abs(there - mean) / min(abs(mean) or spread, spread),
        f"is {there:.4g} in {where} and {elsewhere:.4g} in the rest",
        there,
        elsewhere,
    )


def _rounded_off(value: float, scale: float) -> float:
    """A mean as a finding of drift tells it: 0 for what is 0 but for rounding."""
    return value if abs(value) > 1e-12 * scale else 0.0


def _tenths(n: int) -> Ints:
    return np.arange(TENTHS + 1) * n // TENTHS


def _with_half(parts: NDArray[Any]) -> Floats:
    """For findings of drift: sums over each tenth of a log (the last axis), and its first half."""
    half = parts[..., : TENTHS // 2].sum(axis=-1, keepdims=True)
    return np.concatenate([parts, half], axis=-1).astype(np.float64)


def order_in_time(log: BanditLog) -> Ints | None:
    """In which order findings of drift look at a log; None for the order of its rows."""
    if log.time is None:
        return None
    try:
        return np.argsort(log.time, kind="stable")
    except TypeError:  # times of different kinds: the log's own order has to do
        return None
