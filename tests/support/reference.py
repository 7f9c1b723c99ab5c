"""Slow, literal reference for the estimators, in exact rational arithmetic.

Written from Su, Wang, Santacatterina and Joachims, "CAB: Continuous Adaptive Blending for
Policy Evaluation and Learning" (ICML 2019), called "the paper" below. Further estimators:
SWITCH-DR (Wang et al. 2017), DRos (Su et al. 2020), SGIPS and SGDR (Metelli et al. 2021).

Floats are taken at face value and turned into fractions; a result is rounded to a float once
per decision (`contribution`) and once at the end (`estimate`, `enumerate_moments`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

Pair = tuple[float, float]
Triplet = tuple[Fraction, Fraction, Fraction]
Weights = Callable[[str, "float | None", float, float], Sequence["float | Fraction"]]


@dataclass(frozen=True)
class Decision:
    """One logged round: per-action pi, (estimated) pi0 and delta_hat, and what was observed."""

    pi: Sequence[float]
    pi0: Sequence[float]
    delta_hat: Sequence[float]
    chosen: int
    reward: float
    row_weight: float = 1.0


@dataclass(frozen=True)
class Problem:
    """A finite known problem: p[x] = P(x), everything else indexed [x][y] (Section 2.3)."""

    p: Sequence[float]
    pi: Sequence[Sequence[float]]
    pi0: Sequence[Sequence[float]]
    pi0_hat: Sequence[Sequence[float]]
    delta: Sequence[Sequence[float]]
    delta_hat: Sequence[Sequence[float]]
    sigma2: Sequence[Sequence[float]]


@functools.cache
def exact(value: float | Fraction) -> Fraction:
    """The rational number that a finite float stands for."""
    return value if isinstance(value, Fraction) else Fraction(float(value))


def importance(pi: float, pi0: float) -> float:
    """c = pi / pi0 as a float; 0 where pi = 0, infinite where only pi0 = 0."""
    if pi == 0:
        return 0.0
    return float(pi) / float(pi0) if pi0 > 0 else math.inf


def _clip(m: float, pi: float, pi0: float) -> Fraction:
    """min{M pi0 / pi, 1}: 0 where only pi0 = 0 (also at M = inf); M = 0 clips everything."""
    if m == 0 or (pi0 == 0 and pi > 0):
        return Fraction(0)
    if pi == 0 or m == math.inf:
        return Fraction(1)
    return min(exact(m) * exact(pi0) / exact(pi), Fraction(1))


def _keep(m: float, pi: float, pi0: float) -> Fraction:
    """1{c <= M} with the float c; 0 where only pi0 = 0 (also at M = inf)."""
    if pi0 == 0 and pi > 0:
        return Fraction(0)
    return Fraction(int(importance(pi, pi0) <= m))


def _optimistic(lam: float, pi: float, pi0: float) -> Fraction:
    """lam / (c^2 + lam), optimistic shrinkage (Su et al. 2020); 1 at lam = inf, 0 at lam = 0."""
    if lam == 0 or lam == math.inf:
        return Fraction(int(lam > 0))
    if pi0 == 0:
        return Fraction(int(pi == 0))
    return exact(lam) / ((exact(pi) / exact(pi0)) ** 2 + exact(lam))


def _subgaussian(lam: float, pi: float, pi0: float) -> Fraction:
    """1 / (1 - lam + lam c) (Metelli et al. 2021); 0 for c = 0, lam = 1, where pi = 0 anyway."""
    if pi0 == 0 and pi > 0:
        return Fraction(int(lam == 0))
    c = exact(pi) / exact(pi0) if pi > 0 else Fraction(0)
    denominator = 1 - exact(lam) + exact(lam) * c
    return 1 / denominator if denominator else Fraction(0)


def _implicit(lam: float, pi0: float) -> Fraction:
    """pi0 / (pi0 + lam), implicit exploration (Gabbianelli et al. 2024); 0 where pi0 = 0."""
    if pi0 == 0 or lam == math.inf:
        return Fraction(0)
    return exact(pi0) / (exact(pi0) + exact(lam))


def _smoothed(alpha: float, pi0: float) -> Fraction:
    """pi0^(1 - alpha) to 50 digits, exponential smoothing (Aouali et al. 2023); 0 where pi0 = 0."""
    if pi0 == 0 or alpha == 1:
        return Fraction(int(pi0 > 0))
    with localcontext(prec=50):
        return Fraction(Decimal(pi0) ** (1 - Decimal(alpha)))


_PARAMETRIC = {
    **dict.fromkeys(("CIPS", "CAB", "CAB-DR"), _clip),
    **dict.fromkeys(("SWITCH", "SWITCH-DR"), _keep),
    **dict.fromkeys(("SGIPS", "SGDR"), _subgaussian),
    "DRos": _optimistic,
    "IX": lambda lam, pi, pi0: _implicit(lam, pi0),
    "ES": lambda alpha, pi, pi0: _smoothed(alpha, pi0),
    "SB": lambda tau, pi, pi0: exact(tau),
}


@functools.cache
def weights(name: str, parameter: float | None, pi: float, pi0: float) -> Triplet:
    """(w_alpha, w_beta, w_gamma) of one (x, y): Table 1, and Section 3 for CAB and CAB-DR.

    `parameter` is M (CIPS, SWITCH, SWITCH-DR, CAB, CAB-DR), tau (SB) or lam (DRos, SGIPS, SGDR).
    w_beta and w_gamma belong to the chosen action: the bar over y in the printed w_gamma of
    CAB-DR (Section 3.2) is a slip, its appendix has y_i. At pi = 0 all weights are irrelevant.
    """
    zero, one = Fraction(0), Fraction(1)
    fixed = {"DM": (one, zero, zero), "IPS": (zero, one, zero), "DR": (one, one, -one)}
    if name in fixed:
        return fixed[name]
    w = _PARAMETRIC[name](parameter, pi, pi0)
    if name in ("CIPS", "SGIPS", "IX", "ES"):
        return zero, w, zero
    if name in ("SB", "SWITCH", "CAB"):
        return 1 - w, w, zero
    return one, w, -w  # CAB-DR, SWITCH-DR, DRos, SGDR


def _terms(
    name: str, parameter: float | None, d: Decision, weights_function: Weights = weights
) -> list[Fraction]:
    """The terms of one decision's bracket in the family's definition, multiplied out."""
    terms = [
        exact(pi) * exact(weights_function(name, parameter, pi, pi0)[0]) * exact(alpha)
        for pi, pi0, alpha in zip(d.pi, d.pi0, d.delta_hat, strict=True)
    ]
    pi, pi0 = d.pi[d.chosen], d.pi0[d.chosen]
    if not pi0 > 0:
        raise ValueError("the chosen action has no positive propensity")
    beta = exact(d.reward) / exact(pi0)
    gamma = exact(d.delta_hat[d.chosen]) / exact(pi0)
    _, w_beta, w_gamma = weights_function(name, parameter, pi, pi0)
    return [*terms, exact(pi) * exact(w_beta) * beta, exact(pi) * exact(w_gamma) * gamma]


def contribution(name: str, parameter: float | None, d: Decision) -> float:
    """What one decision adds to the mean of the family's definition."""
    return float(sum(_terms(name, parameter, d)))


def absolute_terms(name: str, parameter: float | None, d: Decision) -> float:
    """The sum of the absolute terms of `contribution`, the scale of its rounding error."""
    return math.fsum(float(abs(term)) for term in _terms(name, parameter, d))


def _mean(w: Sequence[Fraction], values: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(w, values, strict=True)), Fraction(0)) / sum(w)


def _stderr(w: Sequence[Fraction], influence: Sequence[Fraction]) -> float:
    """sqrt(n/(n-1) sum (w_i psi_i)^2) / sum w_i for influences psi_i of weighted mean 0."""
    n = len(w)
    if n == 1:
        return math.inf
    squares = sum((a * psi) ** 2 for a, psi in zip(w, influence, strict=True))
    return math.sqrt(Fraction(n, n - 1) * squares / sum(w) ** 2)


def estimate(name: str, parameter: float | None, decisions: Sequence[Decision]) -> Pair:
    """Value and standard error, two passes; SNIPS and SNDR are ratios of weighted sums.

    SNIPS and SNDR are undefined (ZeroDivisionError) where every chosen action has c = 0.
    """
    w = [exact(d.row_weight) for d in decisions]
    if name not in ("SNIPS", "SNDR"):
        g = [exact(contribution(name, parameter, d)) for d in decisions]
        v = _mean(w, g)
        return float(v), _stderr(w, [g_i - v for g_i in g])
    c = [exact(importance(d.pi[d.chosen], d.pi0[d.chosen])) for d in decisions]
    dm = [Fraction(0)] * len(w)
    resid = [exact(d.reward) for d in decisions]
    if name == "SNDR":
        dm = [sum(_terms("DM", None, d)) for d in decisions]
        resid = [r - exact(d.delta_hat[d.chosen]) for r, d in zip(resid, decisions, strict=True)]
    c_mean, dm_mean = _mean(w, c), _mean(w, dm)
    rho = _mean(w, [c_i * e_i for c_i, e_i in zip(c, resid, strict=True)]) / c_mean
    rows = zip(dm, c, resid, strict=True)
    influence = [dm_i - dm_mean + c_i * (e_i - rho) / c_mean for dm_i, c_i, e_i in rows]
    return float(dm_mean + rho), _stderr(w, influence)


def imputed_mass(name: str, parameter: float | None, d: Decision) -> float:
    """sum_y max(pi - pi0 c w_beta, 0): the part of pi that observed rewards do not answer for.

    The second term exists only where pi0 > 0. SGIPS and SGDR have w_beta > 1 where c < 1.
    """
    member, mass = {"SNIPS": "IPS", "SNDR": "DR"}.get(name, name), Fraction(0)
    for pi, pi0 in zip(d.pi, d.pi0, strict=True):
        mass += exact(pi)
        if pi0 > 0:
            c = exact(pi) / exact(pi0)
            mass -= exact(pi0) * min(c * weights(member, parameter, pi, pi0)[1], c)
    return float(mass)


def enumerate_moments(
    name: str, parameter: float | None, problem: Problem, weights_function: Weights = weights
) -> Pair:
    """Mean and variance of one decision's contribution over every (x, y, r) (Theorems 1, 2).

    x ~ p, y ~ pi0 (the true one) and r = delta +- sqrt(sigma2) with probability 1/2 each; the
    estimator sees pi0_hat instead of pi0.
    """
    outcomes: list[tuple[Fraction, Fraction]] = []
    for x, p in enumerate(problem.p):
        for y, pi0 in enumerate(problem.pi0[x]):
            for sign in (-1, 1) if p > 0 and pi0 > 0 else ():
                r = problem.delta[x][y] + sign * math.sqrt(problem.sigma2[x][y])
                d = Decision(problem.pi[x], problem.pi0_hat[x], problem.delta_hat[x], y, r)
                g = float(sum(_terms(name, parameter, d, weights_function)))
                outcomes.append((exact(p) * exact(pi0) / 2, exact(g)))
    mean = sum(probability * g for probability, g in outcomes)
    variance = sum(probability * (g - mean) ** 2 for probability, g in outcomes)
    return float(mean), float(variance)


def true_value(problem: Problem) -> float:
    """R(pi) = E_x sum_y pi(y|x) delta(x, y), equation (2) of the paper."""
    total = Fraction(0)
    for p, pi, delta in zip(problem.p, problem.pi, problem.delta, strict=True):
        total += exact(p) * sum(exact(a) * exact(b) for a, b in zip(pi, delta, strict=True))
    return float(total)
