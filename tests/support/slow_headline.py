"""The headline's rule once more, literally from its formulas: loops over rows and candidates.

Shared with the library are the grid of M, the folds, the groups of clusters, and the solver of the
logistic regression (which has references of its own): nothing that is decided by the rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm
from scipy.stats import t as student

import offpolicy as op
from offpolicy._core.logistic import fit
from offpolicy.estimators import GRID
from offpolicy.evidence import Block, whole_block
from offpolicy.evidence._clip_path import ClipPath, _clusters
from offpolicy.evidence._recalibration import Prediction
from offpolicy.evidence._weight_bins import WeightBins, sums_of_candidates, sums_of_rows
from offpolicy.policies import Target
from tests.support.cases import Case

EDGES = GRID[1:-1]


class Candidate(NamedTuple):
    pi: float
    pi0: float
    d: float

    @property
    def c(self) -> float:
        return self.pi / self.pi0 if self.pi > 0.0 else 0.0


class Row(NamedTuple):
    """A decision; ``candidates`` are None where π or π₀ are known of the chosen ones only."""

    omega: float
    c: float
    reward: float
    d: float
    base: float
    unit: int
    candidates: list[Candidate] | None

    @property
    def e(self) -> float:
        return self.reward - self.d

    @property
    def supported(self) -> list[Candidate]:
        """All that the logger takes; or the chosen one, standing in for them."""
        if self.candidates is None:
            return [Candidate(self.c, 1.0, self.d)]
        return [one for one in self.candidates if one.pi0 > 0.0 or one.pi == 0.0]


def rows_of(
    log: op.BanditLog, chosen: np.ndarray, pi: np.ndarray | None, d: np.ndarray | None,
    of_chosen: np.ndarray,
) -> list[Row]:  # fmt: skip
    """π of the chosen candidates, and of all; d of all and of the chosen."""
    rows = []
    for i in range(len(log)):
        own = range(log.offsets[i], log.offsets[i + 1])
        base, candidates = of_chosen[i], None
        if pi is not None and d is not None:
            base = math.fsum(pi[k] * d[k] for k in own)
            if log.logging is not None:
                candidates = [Candidate(pi[k], log.logging[k], d[k]) for k in own]
        omega = 1.0 if log.row_weight is None else log.row_weight[i]
        unit = i if log.group is None else log.group[i]
        c = chosen[i] / log.propensity[i]
        rows.append(Row(omega, c, log.reward[i], of_chosen[i], base, unit, candidates))
    return rows


@dataclass(frozen=True)
class SlowCurve:
    """Everything about CAB-DR around a model, for one M at a time."""

    rows: list[Row]

    @property
    def exact(self) -> bool:
        return self.rows[0].candidates is not None

    @property
    def weight(self) -> float:
        return math.fsum(row.omega for row in self.rows)

    def sum(self, f: Callable[[Row], float], power: int = 1) -> float:
        """Σω^power·f."""
        return math.fsum(row.omega**power * f(row) for row in self.rows)

    def mean_over_candidates(self, f: Callable[[Candidate], float]) -> float:
        return self.sum(lambda row: math.fsum(map(f, row.supported))) / self.weight

    def x(self, M: float) -> list[float]:
        return [row.base + min(row.c, M) * row.e for row in self.rows]

    def value(self, M: float) -> float:
        return self.sum(lambda row: row.base + min(row.c, M) * row.e) / self.weight

    def totals(self, M: float) -> list[float]:
        """Σω(x − mean) of every row, or cluster."""
        mean, totals = self.value(M), {}
        for row, x in zip(self.rows, self.x(M), strict=True):
            totals[row.unit] = totals.get(row.unit, 0.0) + row.omega * (x - mean)
        return list(totals.values())

    def observed(self, M: float, *, alone: bool = False) -> float:
        """The variance of θ(M) that is seen."""
        if alone:
            return SlowCurve([row._replace(unit=i) for i, row in enumerate(self.rows)]).observed(M)
        totals = self.totals(M)
        if len(totals) == 1:
            return math.inf
        n = len(totals)
        return n / (n - 1) * math.fsum(t * t for t in totals) / self.weight**2

    def second(self, M: float) -> float:
        return self.mean_over_candidates(lambda one: one.pi0 * min(one.c, M) ** 2)

    def kept(self, M: float) -> float:
        return self.mean_over_candidates(lambda one: one.pi0 * min(one.c, M))

    def variance(self, M: float) -> float:
        observed, alone = self.observed(M), self.observed(M, alone=True)
        seen = self.sum(lambda row: min(row.c, M) ** 2) / self.weight
        if math.isinf(observed) or not self.second(M) > seen:
            return observed
        if seen == 0.0:
            squares = self.sum(lambda row: row.e**2, 2) / self.weight**2
            return observed + self.second(M) * squares
        design = max(observed / alone, 1.0) if alone > 0.0 else 1.0
        squares = self.sum(lambda row: (min(row.c, M) * row.e) ** 2, 2) / self.weight**2
        return observed + (self.second(M) / seen - 1.0) * squares * design

    def mass(self, M: float) -> float:
        if math.isinf(M):
            return 0.0
        mass = self.mean_over_candidates(lambda one: max(one.pi - M * one.pi0, 0.0))
        return min(mass, 1.0)

    def cautious_mass(self, M: float) -> float:
        return self.mass(M) if self.exact else max(self.mass(M), min(1.0 - self.kept(M), 1.0))

    def beyond(self, f: Callable[[Row], float], M: float, power: int = 1) -> float:
        """Σ (ω(c − M)₊)^power·f."""
        if math.isinf(M):
            return 0.0
        return self.sum(lambda row: max(row.c - M, 0.0) ** power * f(row), power)

    def seen(self, M: float) -> float:
        """N: effective rows beyond M."""
        total = self.beyond(lambda row: 1.0, M)
        if total <= 1e-9 * self.weight:
            return 0.0
        return max(total**2 / self.beyond(lambda row: 1.0, M, 2), 1.0)

    def size(self, M: float) -> float:
        """s: of the residuals beyond M, and of ten more rows like all."""
        M_all = M if M > 0.0 else GRID[1]
        total = self.sum(lambda row: min(row.c, M_all))
        everywhere = self.sum(lambda row: min(row.c, M_all) * row.e**2) / total
        N, there = self.seen(M), 0.0
        if N > 0.0:
            there = self.beyond(lambda row: row.e**2, M) / self.beyond(lambda row: 1.0, M)
        return math.sqrt((N * there + 10.0 * everywhere) / (N + 10.0))

    def mean_residual(self, M: float) -> float:
        if self.seen(M) == 0.0:
            return 0.0
        return self.beyond(lambda row: row.e, M) / self.beyond(lambda row: 1.0, M)

    @property
    def kappa(self) -> float:
        """From eight bins that hold as much of the weight each, made of those between the M."""
        total, below = self.sum(lambda row: row.c), 0.0
        bins: list[list[Row]] = [[] for _ in range(8)]
        for low, high in zip([0.0, *EDGES], [*EDGES, math.inf], strict=True):
            own = [row for row in self.rows if low <= row.c < high]
            share = math.fsum(row.omega * row.c for row in own)
            bins[min(int(8.0 * (below + 0.5 * share) / total), 7)] += own
            below += share
        overall = self.sum(lambda row: row.e**2) / self.weight
        above, q_sum = 2.0 * 0.2**2, 2.0
        for own in map(SlowCurve, bins):
            count = own.weight**2 / own.sum(lambda row: 1.0, 2) if own.rows else 0.0
            if count > 2.0:
                mean = own.sum(lambda row: row.e) / own.weight
                square = own.sum(lambda row: row.e**2) / own.weight
                square = (count * square + 10.0 * overall) / (count + 10.0)
                if square > 0.0:
                    q = count / (count + 25.0)
                    above += q * (mean**2 / square - 1.0 / count)
                    q_sum += q
        return math.sqrt(min(max(above / q_sum, 0.01), 1.0))

    def correction(self, M: float, kappa: float) -> float:
        N = self.seen(M)
        return self.mass(M) * self.mean_residual(M) * N / (N + 2.0 / kappa**2)

    def error(self, M: float, k: float, *, cautious: bool) -> float:
        mass = self.cautious_mass(M) if cautious else self.mass(M)
        return self.variance(M) + (k * self.size(M) * mass) ** 2

    def best(self, k: float, *, cautious: bool) -> tuple[float, float]:
        """The least error, and its M; ∞ if nothing is known of noise."""
        best = min((self.error(float(M), k, cautious=cautious), float(M)) for M in GRID)
        return best if math.isfinite(best[0]) else (math.inf, math.inf)

    def degrees(self, M: float) -> float:
        totals = [t * t for t in self.totals(M)]
        n, squares = len(totals), math.fsum(totals)
        shares = math.fsum(t * t for t in totals) / squares**2 if squares > 0.0 else 1.0
        return min(max(2.0 / max(shares - 1.0 / n, 1e-300), 3.0), max(n - 1.0, 1.0))

    def unsupported(self, f: Callable[[Candidate], float]) -> float:
        lost = lambda one: one.pi0 == 0.0 < one.pi  # noqa: E731
        return self.sum(lambda row: sum(f(one) for one in row.candidates or [] if lost(one)))


def path_around(block: Block, prediction: Prediction, centre: float) -> ClipPath:
    """The library's sums of CAB-DR, around a model that is given."""
    log, m, e = block.log, prediction.modelled - centre, block.log.reward - prediction.chosen
    bins = WeightBins(
        sums_of_rows(log, block.c, e, m),
        *sums_of_candidates(log, block.target.flat, block.c, prediction.flat),
    )
    return ClipPath(bins, centre, _clusters(block, m, e))


def around(
    case: Case, log: op.BanditLog, d: np.ndarray, *, known: bool = True
) -> tuple[ClipPath, SlowCurve]:
    """The same, and the rows for the loops; of the chosen only, if no more is ``known``."""
    chosen, of_chosen = case.pi[log.chosen_index], d[log.chosen_index]
    pi, flat = (case.pi, d) if known else (None, None)
    base = np.add.reduceat(case.pi * d, log.offsets[:-1]) if known else of_chosen
    block = whole_block(log, Target("new", pi, None if known else chosen), None)
    path = path_around(block, Prediction(base, of_chosen, flat), float(log.reward.mean()))
    return path, SlowCurve(rows_of(log, chosen, pi, flat, of_chosen))


def size_of(log: op.BanditLog, model: np.ndarray | None) -> float:
    """Root mean square of r − δ̂; or of r, from its mean and its variance."""
    omega = log.weights
    if model is not None:
        return math.sqrt(np.average((log.reward - model[log.chosen_index]) ** 2, weights=omega))
    mean = np.average(log.reward, weights=omega)
    return math.sqrt(mean**2 + np.average((log.reward - mean) ** 2, weights=omega**2))


def half_width(stderr: float, bias: float, level: float, degrees: float) -> float:
    """z(b/se)·se, times Student's t over the normal quantile."""
    if math.isinf(stderr):
        return math.inf
    if stderr == 0.0:
        return bias
    t = bias / stderr
    miss = lambda z: norm.cdf(z - t) - norm.cdf(-z - t) - level  # noqa: E731
    z = brentq(miss, 0.0, t + 40.0, xtol=1e-14, rtol=1e-14)
    return z * stderr * student.ppf(0.5 + level / 2, degrees) / norm.ppf(0.5 + level / 2)


class SlowHeadline(NamedTuple):
    value: float
    low: float
    high: float
    M: float
    interval_M: float
    kappa: float
    stderr: float
    bias: float
    model: str


def answer(
    curve: SlowCurve, model: str, rewards: tuple[float, float], *, bounded: bool, level: float
) -> SlowHeadline:
    """Value and interval around a model."""
    kappa = curve.kappa
    k, (low, high) = min(5.0 * kappa, 1.0), rewards
    _, M1 = curve.best(kappa, cautious=False)
    _, M2 = curve.best(k, cautious=True)
    centre, bias = curve.value(M2), k * curve.size(M2) * curve.cautious_mass(M2)
    seen = curve.sum(lambda row: min(row.c, M2) ** 2) / curve.weight
    kept = curve.kept(M2)
    typical = max(curve.second(M2), seen) / kept if kept > 0.0 else 0.0
    share = curve.sum(lambda row: 1.0, 2) / curve.weight**2
    degrees, stderr = curve.degrees(M2), math.sqrt(curve.variance(M2))

    def end(sign: float, worst: float) -> float:
        one_row = typical * share * abs(worst - centre)
        return centre + sign * half_width(math.hypot(stderr, one_row), bias, level, degrees)

    ends = [end(-1.0, low), end(1.0, high)]
    lost = curve.unsupported(lambda one: one.pi) / curve.weight
    guess = curve.unsupported(lambda one: one.pi * one.d) / curve.weight
    if lost > 0.0:
        ends = [ends[0] - guess + lost * low, ends[1] - guess + lost * high]
    if bounded:
        ends = [max(ends[0], low), min(ends[1], high)]
        if ends[0] > ends[1]:
            ends = [low, high]
    value = curve.value(M1) + curve.correction(M1, kappa)
    if lost == 0.0 and len({row.reward for row in curve.rows}) == 1:
        value = curve.rows[0].reward
    value = min(max(value, ends[0]), ends[1])
    return SlowHeadline(
        value, *ends, M1, M2, kappa, math.sqrt(curve.variance(M1)), bias, model
    )  # fmt: skip


# -- the models that compete -----------------------------------------------------------------


def columns(
    log: op.BanditLog, pi: np.ndarray, delta_hat: np.ndarray | None, rewards: tuple[float, float]
) -> np.ndarray:
    """What the regression sees of every candidate."""
    trace, low, high = 0.01 * len(log) / len(pi), *rewards
    if delta_hat is not None and (delta_hat.min() < low or delta_hat.max() > high):
        low, high = delta_hat.min(), delta_hat.max()
    table = []
    for start, stop in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        for k in range(start, stop):
            row = [pi[k], math.log(pi[k] + trace), float(pi[k] == max(pi[start:stop]))]
            if delta_hat is not None:
                share = min(max((delta_hat[k] - low) / (high - low), 0.0), 1.0)
                best = float(delta_hat[k] == max(delta_hat[start:stop]))
                row = [share, math.log((share + 0.01) / (1.01 - share)), best, *row]
            table.append(row)
    return np.array(table)


def regression(
    log: op.BanditLog, pi: np.ndarray, delta_hat: np.ndarray | None, count: np.ndarray,
    rewards: tuple[float, float],
) -> np.ndarray:  # fmt: skip
    """d of every candidate, cross-fitted."""
    low, high = rewards
    chosen, fold = log.chosen_index, log.fold(5)
    omega = log.weights / log.weights.mean()
    table = columns(log, pi, delta_hat, rewards)
    mean = np.array([math.fsum(omega * x) / len(log) for x in table[chosen].T])
    spread = [math.fsum(omega * (x - m) ** 2) / len(log)
              for x, m in zip(table[chosen].T, mean, strict=True)]  # fmt: skip
    spread = np.array([math.sqrt(v) if math.sqrt(v) > 1e-9 else 1.0 for v in spread])
    X = np.column_stack([np.ones(len(table)), (table - mean) / spread])
    y = (log.reward - low) / (high - low) if high > low else np.full(len(log), 0.5)
    weight = omega + count
    weight = weight * weight.sum() / (weight**2).sum()
    ridge = np.array([1e-6, *np.ones(X.shape[1] - 1)])
    share = np.empty(len(table))
    of_fold = np.repeat(fold, np.diff(log.offsets))

    def without(*folds: int) -> np.ndarray:
        """The chance of a reward of every candidate, learnt from the other folds."""
        rest = ~np.isin(fold, folds)
        beta = np.zeros(X.shape[1])
        if rest.any():
            w = weight[rest]
            first = ((w * y[rest]).sum() + 0.5) / (w.sum() + 1.0)
            start = np.array([math.log(first / (1.0 - first)), *beta[1:]])
            beta = fit(X[chosen][rest].T, y[rest], ridge, weight=w, start=start)
        return 1.0 / (1.0 + np.exp(-(X @ beta)))

    for k in range(5):
        p = without(k)
        if delta_hat is not None:
            given = np.clip((delta_hat - low) / (high - low), 0.0, 1.0)
            rest = np.flatnonzero(fold != k)
            w, kept = count[rest], 0.5
            if w.sum() > 0.0:
                w = w * w.sum() / (w**2).sum()
                by_fold = {j: without(k, j) for j in range(5) if j != k}
                tried = np.array([by_fold[fold[i]][chosen[i]] for i in rest])
                apart, residual = given[chosen[rest]] - tried, y[rest] - tried
                noise = (w * residual**2).sum() / w.sum()
                top = (w * apart * residual).sum() + 6.0 * noise
                kept = top / ((w * apart**2).sum() + 12.0 * noise)
            p = p + min(max(kept, 0.0), 1.0) * (given - p)
            if log.logging is not None:
                p = np.where(log.logging == 0.0, given, p)
        share[of_fold == k] = p[of_fold == k]
    return low + (high - low) * share


def slow_headline(
    log: op.BanditLog, policy: np.ndarray, prediction: np.ndarray | None = None, *,
    level: float = 0.95, reward_range: tuple[float, float] | None = None,
) -> SlowHeadline:  # fmt: skip
    """The whole rule: ``policy`` of every candidate (flat), or of the chosen ones."""
    binary = set(log.reward) <= {0.0, 1.0}
    bounded = binary or reward_range is not None
    observed = (0.0, 1.0) if binary else (float(log.reward.min()), float(log.reward.max()))
    rewards = low, high = observed if reward_range is None else reward_range
    whole = len(policy) == log.offsets[-1] > len(log)
    chosen = policy[log.chosen_index] if whole else policy
    omega = log.weights / log.weights.mean()
    count, fold = omega * np.minimum(chosen / log.propensity, 5.0), log.fold(5)
    constant = np.empty(len(log))
    for k in range(5):
        rest = fold != k
        total = math.fsum(count[rest])
        mean = math.fsum(count[rest] * log.reward[rest]) / total if total else log.reward.mean()
        share = (mean - low) / (high - low) if high > low else 0.5
        constant[fold == k] = low + (high - low) * min(max(share, 1e-12), 1.0 - 1e-12)
    of_all = np.repeat(constant, np.diff(log.offsets)) if whole else None
    if whole and prediction is not None and log.logging is not None:
        of_all = np.where(log.logging == 0.0, np.clip(prediction, low, high), of_all)
    pi = policy if whole else None
    plain = SlowCurve(rows_of(log, chosen, pi, of_all, constant))
    best, name = plain, "constant"
    if whole:
        d, name = regression(log, policy, None, count, rewards), "policy"
        if prediction is not None:
            d, name = regression(log, policy, prediction, count, rewards), "model"
        fitted = SlowCurve(rows_of(log, chosen, policy, d, d[log.chosen_index]))
        errors = [one.best(min(5.0 * one.kappa, 1.0), cautious=True)[0] for one in (plain, fitted)]
        if errors[0] < 0.7 * errors[1]:
            name = "constant"
        else:
            best = fitted
    return answer(best, name, rewards, bounded=bounded, level=level)
