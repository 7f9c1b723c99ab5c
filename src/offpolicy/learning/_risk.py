r"""What a learner maximises: an estimator of the log, as a function of π in either layout.

Every sub-differentiable member is a mean of

.. math:: \sum_{\bar y} \text{imputed}(\pi, \pi_0)\,\hat\delta(\bar y)
          + \text{observed}(c)\, r + \text{control}(c)\, \hat\delta(y), \qquad c = \pi/\pi_0,

so its gradient needs the *slope* of the observed mass (`estimators.weights`), from which that of
the imputed mass follows. At a kink (c = M) it is the one from below, as if the candidate were not
clipped yet; where there is no below (π = 0) it is the one from above.

On a dense log π is (K, n + m), class-major: the last m columns are contexts for which the rewards
of all actions are known. On a ragged log it is flat.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.ragged import row_sums
from offpolicy._core.types import Floats, Ints, Singles
from offpolicy.errors import EstimatorError
from offpolicy.estimators import ICE, Estimator, weights
from offpolicy.estimators.weights import ratio
from offpolicy.logs import BanditLog


class Observed(NamedTuple):
    """The decisions of a log, as far as their chosen candidates go."""

    reward: Floats
    propensity: Floats
    delta_hat: Floats
    """δ̂ of the chosen candidates; 0 without a model."""
    share: Floats
    """What each counts: row weights that sum to 1."""

    @classmethod
    def of(cls, log: BanditLog, delta_hat: Floats | None) -> Observed:
        n = len(log)
        omega = log.weights
        return cls(
            log.reward,
            np.ones(n) if log.propensity is None else log.propensity,
            np.zeros(n) if delta_hat is None else delta_hat[log.chosen_index],
            omega / omega.sum(),
        )


class Risk(ABC):
    """Value and ∂value/∂π; ``penalty`` is POEM's: so many standard errors are taken off."""

    def __init__(self, member: Estimator, observed: Observed, penalty: float = 0.0) -> None:
        self.member, self.observed, self.penalty = member, observed, penalty

    @abstractmethod
    def _chosen(self, pi: Any) -> Floats:
        """π of the chosen candidates."""

    @abstractmethod
    def _imputed(self, pi: Any) -> Floats:
        """Σ imputed·δ̂ of every decision (and of every context with known rewards)."""

    @abstractmethod
    def _gradient(self, pi: Any, per_decision: Floats, per_chosen: Floats) -> Any:
        """∂/∂π: imputed slopes times δ̂ times ``per_decision``, plus ``per_chosen``."""

    def __call__(self, pi: Any) -> tuple[float, Any]:
        propensity, share = self.observed.propensity, self.observed.share
        n = len(share)
        p = self._chosen(pi)
        imputed = self._imputed(pi)
        if self.member.self_normalised:
            value, per_c = self._self_normalised(ratio(p, propensity))
            value, per_u = value + float(share @ imputed[:n]), share
        else:
            counted, per_c = self._counted(p)
            value, per_u = _penalised(imputed[:n] + counted, share, self.penalty)
        # A context with known rewards counts as much as a logged decision.
        value += float(imputed[n:].sum()) / n
        per_decision = np.concatenate([per_u, np.full(len(imputed) - n, 1.0 / n)])
        return value, self._gradient(pi, per_decision, per_u * per_c / propensity)

    def _counted(self, p: Floats) -> tuple[Floats, Floats]:
        """What every decision's reward adds, and π₀ times its slope in π."""
        reward, propensity, delta_hat, _ = self.observed
        if isinstance(self.member, ICE):
            mass = self.member.masses(p, propensity)
            slope = self.member.mass_slopes(p, propensity)
            return (
                mass.observed * reward + mass.control * delta_hat,
                slope.observed * reward + slope.control * delta_hat,
            )
        residual = reward - delta_hat if self.member.imputes == "all" else reward
        observed = self.member.observed(p, propensity)
        return observed * residual, self.member.observed_slope(p, propensity) * residual

    def _self_normalised(self, c: Floats) -> tuple[float, Floats]:
        """Σωc·residual/Σωc, and its slope in every c by ω: the residual's distance from it."""
        reward, _, delta_hat, share = self.observed
        residual = reward - delta_hat if self.member.uses_model else reward
        total = float(share @ c)
        if total == 0.0:
            raise EstimatorError(
                f"{self.member.name} divides by the sum of the weights, and the policy never "
                f"chooses what was logged.",
                column="policy",
            )
        mean = float(share @ (c * residual)) / total
        per_c = (residual - mean) / total
        if self.penalty == 0.0:
            return mean, per_c
        error, per_error = _ratio_error(share * c, residual - mean, total)
        return mean - self.penalty * error, per_c - self.penalty * per_error


def _ratio_error(q: Floats, off: Floats, total: float) -> tuple[float, Floats]:
    """A learner's penalty: standard error of a self-normalised mean, √Σ(q·off)²/Σq, ``off`` being
    the distance from it; and its slope in every q, by which the mean moves too."""
    spread = q * off
    size = math.sqrt(float(spread @ spread))
    if size == 0.0:
        return 0.0, np.zeros_like(q)
    slope = (spread * off - float(q @ spread) * off / total) / size
    return size / total, slope / total - size / total**2


def _penalised(u: Floats, share: Floats, penalty: float) -> tuple[float, Floats]:
    """A learner's objective Σ share·u less ``penalty`` standard errors; its slope in every u."""
    value = float(share @ u)
    if penalty == 0.0:
        return value, share
    off = share * (u - value)
    error = math.sqrt(float(off @ off))
    if error == 0.0:
        return value, share
    squares = share * off
    slope = (squares - share * squares.sum()) / error
    return value - penalty * error, share - penalty * slope


PLAIN: dict[Callable[..., Any], Callable[[float], tuple[float, float]]] = {
    weights.none: lambda _: (0.0, np.inf),
    weights.full: lambda _: (1.0, np.inf),
    weights.scaled: lambda tau: (tau, np.inf),
    weights.clipped: lambda M: (1.0, M),
}
"""Weights that are a multiple of min(c, clip): the factor and the clip, by the parameter."""


class DenseRisk(Risk):
    """Every decision has all K actions."""

    def __init__(
        self,
        member: Estimator,
        observed: Observed,
        action: Ints,
        delta_hat: Singles | None,
        logging: Singles | None,
        penalty: float = 0.0,
    ) -> None:
        """``delta_hat`` is (K, n + m), with known rewards in its last m columns; ``logging`` is
        (K, n)."""
        super().__init__(member, observed, penalty)
        self.delta_hat = delta_hat
        self.place = action, np.arange(len(action))
        self.logging: Floats | None = None
        if member.imputes in ("rest", "own"):
            assert logging is not None
            assert delta_hat is not None
            # Where rewards are known nothing is kept from the model.
            self.logging = np.zeros(delta_hat.shape)
            self.logging[:, : len(action)] = logging

    @property
    def is_plain(self) -> bool:
        """Whether observed rewards count in proportion to min(c, M), or to c, and no more."""
        plain = self.member.weight in PLAIN and not self.member.self_normalised
        return plain and self.penalty == 0.0 and bool((self.observed.propensity > 0.0).all())

    def _chosen(self, pi: Singles) -> Floats:
        return np.asarray(pi[self.place], dtype=np.float64)

    def _imputed(self, pi: Singles) -> Floats:
        if self.delta_hat is None:
            return np.zeros(len(self.observed.reward))
        if self.logging is not None:
            imputed = self.member.masses(pi.astype(np.float64), self.logging).imputed
            imputed[:, len(self.observed.reward) :] = pi[:, len(self.observed.reward) :]
            return _summed(imputed, self.delta_hat)
        sums = _summed(pi, self.delta_hat)
        sums[: len(self.observed.reward)] *= self.member.fixed_share
        return sums

    def _gradient(self, pi: Singles, per_decision: Floats, per_chosen: Floats) -> Singles:
        if self.delta_hat is None:
            gradient = np.zeros_like(pi)
        elif self.logging is not None:
            slope = self.member.imputed_slope(pi.astype(np.float64), self.logging)
            slope[:, len(self.observed.reward) :] = 1.0
            gradient = slope.astype(np.float32) * self.delta_hat
            gradient *= per_decision.astype(np.float32)
        else:
            scale = per_decision.copy()
            scale[: len(self.observed.reward)] *= self.member.fixed_share
            gradient = self.delta_hat * scale.astype(np.float32)
        gradient[self.place] += per_chosen
        return gradient


def _summed(pi: Singles | Floats, values: Singles) -> Floats:
    return np.asarray(np.einsum("kn,kn->n", pi, values), dtype=np.float64)


class RaggedRisk(Risk):
    """Candidates differ between decisions."""

    def __init__(
        self,
        member: Estimator,
        observed: Observed,
        log: BanditLog,
        delta_hat: Floats | None,
        penalty: float = 0.0,
    ) -> None:
        super().__init__(member, observed, penalty)
        self.log, self.delta_hat = log, delta_hat

    def _logging(self, pi: Floats) -> Floats:
        return np.ones_like(pi) if self.log.logging is None else self.log.logging

    def _chosen(self, pi: Floats) -> Floats:
        return pi[self.log.chosen_index]

    def _imputed(self, pi: Floats) -> Floats:
        if self.delta_hat is None or self.member.imputes == "nothing":
            return np.zeros(len(self.log))
        masses = self.member.masses(pi, self._logging(pi))
        return row_sums(masses.imputed * self.delta_hat, self.log.offsets)

    def _gradient(self, pi: Floats, per_decision: Floats, per_chosen: Floats) -> Floats:
        if self.delta_hat is None or self.member.imputes == "nothing":
            gradient = np.zeros_like(pi)
        else:
            slope = self.member.imputed_slope(pi, self._logging(pi))
            gradient = slope * self.delta_hat * np.repeat(per_decision, np.diff(self.log.offsets))
        gradient[self.log.chosen_index] += per_chosen
        return gradient
