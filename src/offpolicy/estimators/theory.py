r"""Bias and variance of the family on a finite, fully known problem: Theorems 1 to 6.

The paper writes its theorems in ratios, under common support (Condition 1). Here they are
written in masses, so that they hold where :math:`\pi_0 = 0` too. With the deviations

.. math:: \zeta = 1 - \pi_0/\hat\pi_0, \qquad \Delta = \hat\delta - \delta, \qquad
          \hat c = \pi/\hat\pi_0,

two identities do all the work: :math:`\hat\pi_0 (1 - \zeta) = \pi_0`, which is 0 where nothing is
logged, and :math:`\mathbb E_\pi[c(1-\zeta)^2\sigma^2] = \sum \pi_0 \hat c^2 \sigma^2`.

`bias` and `variance` (Theorems 1 and 2) take any member of the family; the closed forms of CAB
(3 and 4) and CAB-DR (5 and 6) and the special cases of section 3.1 stand beside them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core.types import Floats
from offpolicy.errors import EstimatorError, ParameterError
from offpolicy.estimators.weights import Masses, ratio


class Member(Protocol):
    """What the theorems need of an estimator (`offpolicy.estimators.Estimator` has it)."""

    @property
    def self_normalised(self) -> bool: ...

    def masses(self, pi: Floats, pi0: Floats) -> Masses: ...


@dataclass(frozen=True, eq=False)
class Problem:
    """A finite problem of which everything is known: S contexts, K actions.

    Parameters
    ----------
    p : (S,)
        P(x).
    pi, pi0 : (S, K)
        The target and the logging policy.
    delta : (S, K)
        Expected rewards.
    delta_hat : (S, K), optional
        The reward model; 0 if left out.
    sigma2 : (S, K), optional
        Variances of the rewards; 0 if left out.
    pi0_hat : (S, K), optional
        What the estimators believe of the logger; ``pi0`` itself if left out.
    """

    p: Floats
    pi: Floats
    pi0: Floats
    delta: Floats
    delta_hat: Floats
    sigma2: Floats
    pi0_hat: Floats

    def __init__(
        self,
        p: ArrayLike,
        pi: ArrayLike,
        pi0: ArrayLike,
        delta: ArrayLike,
        delta_hat: ArrayLike | None = None,
        sigma2: ArrayLike | None = None,
        pi0_hat: ArrayLike | None = None,
    ) -> None:
        shape = np.asarray(pi).shape
        values_by_name: dict[str, Any] = {
            "p": p,
            "pi": pi,
            "pi0": pi0,
            "delta": delta,
            "delta_hat": np.zeros(shape) if delta_hat is None else delta_hat,
            "sigma2": np.zeros(shape) if sigma2 is None else sigma2,
            "pi0_hat": pi0 if pi0_hat is None else pi0_hat,
        }
        for name, values in values_by_name.items():
            array = np.array(values, dtype=np.float64)
            expected = shape[:1] if name == "p" else shape
            if array.shape != expected or len(shape) != 2:
                sentence = f"{name} has shape {array.shape}; pi has shape {shape}."
                raise ParameterError(sentence, column=name)
            if not np.isfinite(array).all():
                sentence = f"{name} holds a value that is missing or not finite."
                raise ParameterError(sentence, column=name)
            object.__setattr__(self, name, array)
        for name in ("p", "pi", "pi0"):
            array = getattr(self, name)
            if (array < 0.0).any() or (np.abs(array.sum(axis=-1) - 1.0) > 1e-9).any():
                raise ParameterError(f"{name} must hold probabilities that sum to 1.", column=name)
        if (self.sigma2 < 0.0).any() or (self.pi0_hat < 0.0).any():
            raise ParameterError("sigma2 and pi0_hat must be 0 or more.", column="sigma2")
        if ((self.pi0 > 0.0) & (self.pi0_hat == 0.0)).any():
            raise ParameterError(
                "pi0_hat is 0 where pi0 is not: what was logged there would have weight ∞.",
                column="pi0_hat",
            )

    @property
    def value(self) -> float:
        """R(π) = E_x E_π[δ]."""
        return float(self.p @ (self.pi * self.delta).sum(axis=1))

    @property
    def zeta(self) -> Floats:
        """ζ = 1 − π₀/π̂₀, 0 where nothing is logged and nothing is believed to be."""
        return 1.0 - np.where(self.pi0_hat > 0.0, self.pi0 / _positive(self.pi0_hat), 1.0)

    @property
    def error(self) -> Floats:
        """Δ = δ̂ − δ."""
        return self.delta_hat - self.delta

    @property
    def c_hat(self) -> Floats:
        """ĉ = π/π̂₀."""
        return ratio(self.pi, self.pi0_hat)


def bias(member: Member, problem: Problem) -> float:
    r"""Theorem 1, the bias of any member of the family.

    .. math:: \mathbb E_x \mathbb E_\pi\big[ w^\alpha\Delta - w^\beta\zeta\delta
              + w^\gamma(\Delta - \zeta(\delta+\Delta))
              + (w^\alpha + w^\beta + w^\gamma)\delta - \delta \big]
    """
    return float(problem.p @ (_mean_given_x(member, problem) - _value_given_x(problem)))


def variance(member: Member, problem: Problem, n: int = 1) -> float:
    r"""Theorem 2, the variance of any member of the family over n decisions.

    .. math:: \frac1n \Big\{ \mathbb V_x(\text{conditional mean})
              + \mathbb E_x\mathbb E_\pi[(w^\beta)^2 c (1-\zeta)^2\sigma^2]
              + \mathbb E_x \mathbb V_{\pi_0}(w^\beta c(1-\zeta)\delta
                + w^\gamma c (1-\zeta)(\delta+\Delta)) \Big\}
    """
    _, observed, control = _masses(member, problem)
    rewards = problem.pi0 * observed**2 * problem.sigma2
    spread = _variance_over(problem.pi0, observed * problem.delta + control * problem.delta_hat)
    return _total(problem, _mean_given_x(member, problem), rewards, spread, n)


def mse(member: Member, problem: Problem, n: int) -> float:
    """bias² + variance of any member of the family over n decisions, by Theorems 1 and 2."""
    return bias(member, problem) ** 2 + variance(member, problem, n)


def bias_cab(problem: Problem, M: float) -> float:
    r"""Theorem 3, the bias of CAB.

    .. math:: \mathbb E_x\mathbb E_\pi\big[-\delta\zeta 1\{\hat c \le M\}
              + \{\Delta(1 - M/\hat c) - (M/\hat c)\delta\zeta\} 1\{\hat c > M\}\big]
    """
    return float(problem.p @ _cab_bias_given_x(problem, M))


def variance_cab(problem: Problem, M: float, n: int = 1) -> float:
    r"""Theorem 4, the variance of CAB.

    .. math:: \frac1n\Big\{\mathbb V_x(\mathbb E_\pi[\delta + \text{bias terms}])
              + \mathbb E_x\mathbb E_\pi\big[c(1-\zeta)^2\sigma^2 1\{\hat c \le M\}
                + \tfrac{M^2}{c}\sigma^2 1\{\hat c > M\}\big]
              + \mathbb E_x\mathbb V_{\pi_0}\big(c(1-\zeta)\delta 1\{\hat c \le M\}
                + M\delta 1\{\hat c > M\}\big)\Big\}
    """
    mean = _value_given_x(problem) + _cab_bias_given_x(problem, M)
    return _clipped_variance(problem, M, mean, problem.delta, n)


def bias_cab_dr(problem: Problem, M: float) -> float:
    r"""Theorem 5, the bias of CAB-DR.

    .. math:: \mathbb E_x\mathbb E_\pi\big[\zeta\Delta 1\{\hat c \le M\}
              + \Delta(1 - M/c) 1\{\hat c > M\}\big]
    """
    return float(problem.p @ _cab_dr_bias_given_x(problem, M))


def variance_cab_dr(problem: Problem, M: float, n: int = 1) -> float:
    r"""Theorem 6, the variance of CAB-DR.

    .. math:: \frac1n\Big\{\mathbb V_x(\mathbb E_\pi[\delta + \text{bias terms}])
              + \mathbb E_x\mathbb E_\pi\big[c(1-\zeta)^2\sigma^2 1\{\hat c \le M\}
                + \tfrac{M^2}{c}\sigma^2 1\{\hat c > M\}\big]
              + \mathbb E_x\mathbb V_{\pi_0}\big(-c(1-\zeta)\Delta 1\{\hat c \le M\}
                - M\Delta 1\{\hat c > M\}\big)\Big\}

    The paper's remark after the theorem prints :math:`\mathbb V_\pi` for the last term; it is
    :math:`\mathbb V_{\pi_0}`.
    """
    mean = _value_given_x(problem) + _cab_dr_bias_given_x(problem, M)
    return _clipped_variance(problem, M, mean, -problem.error, n)


# -- section 3.1, with logged propensities (ζ = 0) ----------------------------------------------


def bias_dm(problem: Problem) -> float:
    r"""Section 3.1: :math:`\mathbb E_x\mathbb E_\pi[\Delta]`."""
    return float(problem.p @ (problem.pi * problem.error).sum(axis=1))


def bias_cips(problem: Problem, M: float) -> float:
    r"""Section 3.1: :math:`\mathbb E_x\mathbb E_\pi[-\delta(1 - M/c)1\{c > M\}]`."""
    _need_logged(problem)
    return float(problem.p @ (-problem.delta * _cut(problem, M)).sum(axis=1))


def bias_cab_logged(problem: Problem, M: float) -> float:
    r"""Section 3.1, CAB and CAB-DR alike: :math:`\mathbb E_x\mathbb E_\pi[\Delta(1-M/c)1\{c>M\}]`,
    which is :math:`\mathbb E_x\sum_y \max(\pi - M\pi_0, 0)\,\Delta`.
    """
    _need_logged(problem)
    return float(problem.p @ (problem.error * _cut(problem, M)).sum(axis=1))


def variance_ips(problem: Problem, n: int = 1) -> float:
    r"""Section 3.1: :math:`\{\mathbb V_x(\mathbb E_\pi[\delta]) + \mathbb E_\pi[c\sigma^2]
    + \mathbb E_x\mathbb V_{\pi_0}(c\delta)\}/n`, where π₀ = 0 counting as reward 0."""
    _need_logged(problem)
    return _full_weight_variance(problem, problem.delta, n, supported_mean=problem.delta)


def variance_dr(problem: Problem, n: int = 1) -> float:
    r"""Section 3.1: :math:`\{\mathbb V_x(\mathbb E_\pi[\delta]) + \mathbb E_\pi[c\sigma^2]
    + \mathbb E_x\mathbb V_{\pi_0}(c\Delta)\}/n`, where π₀ = 0 answered by the model."""
    _need_logged(problem)
    return _full_weight_variance(problem, problem.error, n, supported_mean=None)


def variance_bound_cab(problem: Problem, M: float) -> float:
    r"""A bound on the second and third term of CAB's variance (section 3.1, corrected).

    .. math:: M\,\mathbb E_x\mathbb E_\pi[\sigma^2] + M^2\,\mathbb E_x\mathbb E_{\pi_0}[\delta^2]

    The paper prints :math:`M^2\,\mathbb E_x\mathbb V_{\pi_0}(\delta)` for the second part. That is
    no bound: with δ = 1, π₀ = (.9, .1), π = (.1, .9) and M = 5 it is 0 and the term is 2.15.
    """
    _need_logged(problem)
    rewards = (problem.pi * problem.sigma2).sum(axis=1)
    squares = (problem.pi0 * problem.delta**2).sum(axis=1)
    return float(problem.p @ (M * rewards + M * M * squares))


# -- pieces -------------------------------------------------------------------------------------


def _positive(values: Floats) -> Floats:
    return np.where(values > 0.0, values, 1.0)


def _masses(member: Member, problem: Problem) -> Masses:
    """The member's masses, if the theorems cover it."""
    if member.self_normalised:
        raise EstimatorError(
            f"{member} divides by a random sum: its bias and variance have no closed form, and "
            f"Theorems 1 and 2 do not cover it.",
            column="member",
        )
    return member.masses(problem.pi, problem.pi0_hat)


def _mean_given_x(member: Member, problem: Problem) -> Floats:
    """E[contribution | x], in the terms of Theorem 1 (π·w^β = π̂₀·observed, π̂₀ζ = π̂₀ − π₀)."""
    imputed, observed, control = _masses(member, problem)
    delta, error, pi0_hat = problem.delta, problem.error, problem.pi0_hat
    off = pi0_hat - problem.pi0
    terms = (
        imputed * error
        - observed * off * delta
        + control * (pi0_hat * error - off * (delta + error))
        + (imputed + pi0_hat * (observed + control)) * delta
    )
    return np.asarray(terms.sum(axis=1))


def _value_given_x(problem: Problem) -> Floats:
    return np.asarray((problem.pi * problem.delta).sum(axis=1))


def _variance_over(pi0: Floats, values: Floats) -> Floats:
    """V_{π₀}(values | x), a term of the theorems' variances."""
    mean = (pi0 * values).sum(axis=1, keepdims=True)
    return np.asarray((pi0 * (values - mean) ** 2).sum(axis=1))


def _total(problem: Problem, mean: Floats, rewards: Floats, spread: Floats, n: int) -> float:
    """The theorems' variance: (V_x(mean) + E_x[Σ rewards] + E_x[spread])/n."""
    p = problem.p
    over_x = p @ (mean - p @ mean) ** 2
    return float((over_x + p @ rewards.sum(axis=1) + p @ spread) / n)


def _cut(problem: Problem, M: float) -> Floats:
    """What CAB imputes: π(1 − M/ĉ)1{ĉ > M} = max(π − Mπ̂₀, 0); at M = ∞, π on {π̂₀ = 0}."""
    if math.isinf(M):
        return np.where(problem.pi0_hat == 0.0, problem.pi, 0.0)
    return np.maximum(problem.pi - M * problem.pi0_hat, 0.0)


def _cab_bias_given_x(problem: Problem, M: float) -> Floats:
    """Theorem 3: −δζ·π below M; Δ·max(π − Mπ̂₀, 0) − δζ·Mπ̂₀ above; min(π, Mπ̂₀) covers both."""
    cut = _cut(problem, M)
    kept = problem.pi - cut
    terms = problem.error * cut - problem.delta * problem.zeta * kept
    return np.asarray(terms.sum(axis=1))


def _cab_dr_bias_given_x(problem: Problem, M: float) -> Floats:
    """Theorem 5 given x: ζΔ·π below M; Δ(π − Mπ₀) above."""
    above = problem.c_hat > M
    error = problem.error
    clipped = np.where(above, problem.pi - (M if math.isfinite(M) else 0.0) * problem.pi0, 0.0)
    below = np.where(above, 0.0, problem.pi * problem.zeta)
    unseen = (problem.pi0_hat == 0.0) & (problem.pi > 0.0)
    return np.asarray(np.where(unseen, problem.pi * error, error * (clipped + below)).sum(axis=1))


def _clipped_variance(problem: Problem, M: float, mean: Floats, values: Floats, n: int) -> float:
    """Theorems 4 and 6 differ only in what the clipped weight multiplies."""
    seen = problem.pi0 > 0.0
    c_hat = np.where(seen, problem.c_hat, 0.0)
    above = c_hat > M
    low = np.where(above, 0.0, problem.pi0 * c_hat**2)
    high = np.where(above, problem.pi0 * (M if math.isfinite(M) else 0.0) ** 2, 0.0)
    weight = np.where(above, M, c_hat)
    spread = _variance_over(problem.pi0, weight * values)
    return _total(problem, mean, (low + high) * problem.sigma2, spread, n)


def _full_weight_variance(
    problem: Problem, values: Floats, n: int, *, supported_mean: Floats | None
) -> float:
    seen = problem.pi0 > 0.0
    c = np.where(seen, problem.c_hat, 0.0)
    if supported_mean is None:
        mean = (problem.pi * np.where(seen, problem.delta, problem.delta_hat)).sum(axis=1)
    else:
        mean = (problem.pi * np.where(seen, supported_mean, 0.0)).sum(axis=1)
    rewards = problem.pi0 * c**2 * problem.sigma2
    return _total(problem, mean, rewards, _variance_over(problem.pi0, c * values), n)


def _need_logged(problem: Problem) -> None:
    if not np.array_equal(problem.pi0, problem.pi0_hat):
        raise ParameterError(
            "Section 3.1's special cases are for logged propensities: pi0_hat must equal pi0.",
            column="pi0_hat",
        )
