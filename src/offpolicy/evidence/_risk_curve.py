"""Value, noise and plausible bias of CAB-DR over M: the only place where M is chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.evidence._clip_path import ClipPath
from offpolicy.evidence._noise import variance
from offpolicy.evidence._plausible_bias import CAUTION, mean_residual, residual_size, typical_error
from offpolicy.evidence._weight_bins import WeightBins

PRIOR_SHOWN = 2.0
"""Over κ²: rows without error with which the model's mean error is averaged."""


_EACH = slice(None)


@dataclass(frozen=True, eq=False)
class RiskCurve:
    """At every M of the grid."""

    value: Floats
    """θ(M), as it is."""
    variance: Floats
    """V(M)."""
    mass: Floats
    """What is left to the model, as far as rewards can say anything about it."""
    cautious_mass: Floats
    """The same for the interval: more where π₀ is known for the chosen action only."""
    size: Floats
    """s(M), the root-mean-square error of the model there."""
    correction: Floats
    """The model's mean error there, as far as the rows seen show it, times the mass."""
    kappa: float
    """The model's mean error over its root-mean-square error."""

    @classmethod
    def of(cls, path: ClipPath, *, exact: bool, grown: float = 1.0) -> RiskCurve:
        """From the sums over a log, or over a sample of one that has ``grown`` times its rows;
        ``exact``: π and π₀ are known of every candidate."""
        bins = path.bins
        with np.errstate(over="ignore", invalid="ignore"):
            curve = cls.around(bins, path.moments.mean, variance(path) / grown)
        if exact:
            return curve
        # Weights that were not drawn are invisible, but what is kept must be 1 in the mean.
        unseen = np.clip(1.0 - bins.kept, 0.0, 1.0)
        return replace(curve, cautious_mass=np.maximum(curve.mass, unseen))

    @classmethod
    def around(
        cls, bins: WeightBins, value: Floats, noise: Floats, *, scale: float = 1.0,
        asked: Ints | slice = _EACH,
    ) -> RiskCurve:  # fmt: skip
        """From value and noise at every M, and the sums by bin; all of the mass is worth
        ``scale``, and what is left at an M has the residuals of the M ``asked``."""
        kappa, mass = typical_error(bins), bins.mass
        with np.errstate(over="ignore", invalid="ignore"):
            correction = scale * mass * _shown(bins, kappa)[asked]
        return cls(value, noise, mass, mass, scale * residual_size(bins)[asked], correction, kappa)

    def corrections(self, bins: WeightBins, k: int) -> Floats:
        """The correction at the k-th M as it was after every stretch of the log."""
        return np.asarray(self.mass[k] * _shown(bins.so_far, self.kappa)[:, k])

    @cached_property
    def caution(self) -> float:
        """k: what the interval takes for κ."""
        return min(CAUTION * self.kappa, 1.0)

    @cached_property
    def bias(self) -> Floats:
        """The typical one, κ·s·mass."""
        return _product(self.kappa, self.size, self.mass)

    @cached_property
    def plausible_bias(self) -> Floats:
        """The largest that the interval allows for, k·s·mass."""
        return _product(self.caution, self.size, self.cautious_mass)

    @cached_property
    def mse(self) -> Floats:
        """What the value's M makes least."""
        return _sum(self.variance, self.bias)

    @cached_property
    def cautious_mse(self) -> Floats:
        """What the interval's M makes least."""
        return _sum(self.variance, self.plausible_bias)

    @cached_property
    def at_value(self) -> int:
        """Where on the grid the value is taken."""
        return self._least(self.mse)

    @cached_property
    def best_value(self) -> float:
        """θ there, with the correction."""
        return float(self.value[self.at_value] + self.correction[self.at_value])

    @cached_property
    def at_interval(self) -> int:
        """Where on the grid the interval is taken."""
        return self._least(self.cautious_mse)

    def _least(self, error: Floats) -> int:
        if np.isfinite(error).any():
            return int(np.argmin(error))
        # One row, or one cluster, says nothing of noise; nor was a model learnt from others.
        return int(np.flatnonzero(np.isfinite(self.value))[-1])


def _shown(bins: WeightBins, kappa: float) -> Floats:
    """The model's mean error where it answers, as if 2/κ² further rows had shown none."""
    return mean_residual(bins) * bins.excess_rows / (bins.excess_rows + PRIOR_SHOWN / kappa**2)


def _product(k: float, size: Floats, mass: Floats) -> Floats:
    """A bias: none without mass, infinite where the numbers are too large."""
    with np.errstate(over="ignore", invalid="ignore"):
        bias = np.where(mass > 0.0, k * size * mass, 0.0)
    return np.where(np.isnan(bias), np.inf, bias)


def _sum(variance: Floats, bias: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return variance + bias**2
