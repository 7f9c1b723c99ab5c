r"""Value, noise and plausible bias of CAB-DR over M: the only place where M is chosen.

The value is taken where noise and typical bias are together least,
:math:`V + (\kappa s\,\mathrm{mass})^2`; the interval where they are with
:math:`k = \min(5\kappa, 1)` in the place of κ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.evidence._clip_path import ClipPath
from offpolicy.evidence._noise import variance
from offpolicy.evidence._plausible_bias import CAUTION, mean_residual, residual_size, typical_error


class RiskCurve(NamedTuple):
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
        kappa, mass = typical_error(bins), bins.mass
        cautious = mass
        if not exact:
            # Weights that were not drawn are invisible, but what is kept must be 1 in the mean.
            cautious = np.maximum(mass, np.clip(1.0 - bins.kept, 0.0, 1.0))
        with np.errstate(over="ignore", invalid="ignore"):
            # As if 2/κ² further rows had shown no error.
            shown = bins.excess_rows / (bins.excess_rows + 2.0 / kappa**2)
            correction = mass * mean_residual(bins) * shown
            noise = variance(path) / grown
        return cls(path.moments.mean, noise, mass, cautious, residual_size(bins), correction, kappa)

    @property
    def caution(self) -> float:
        """k: what the interval takes for κ."""
        return min(CAUTION * self.kappa, 1.0)

    @property
    def bias(self) -> Floats:
        """The typical one, κ·s·mass."""
        return _times(self.kappa * self.size, self.mass)

    @property
    def plausible_bias(self) -> Floats:
        """The largest that the interval allows for, k·s·mass."""
        return _times(self.caution * self.size, self.cautious_mass)

    @property
    def mse(self) -> Floats:
        """What the value's M makes least."""
        with np.errstate(over="ignore"):
            return np.asarray(self.variance + self.bias**2)

    @property
    def cautious_mse(self) -> Floats:
        """What the interval's M makes least."""
        with np.errstate(over="ignore"):
            return np.asarray(self.variance + self.plausible_bias**2)

    @property
    def at_value(self) -> int:
        """Where on the grid the value is taken."""
        return int(np.argmin(self.mse))

    @property
    def at_interval(self) -> int:
        """Where on the grid the interval is taken."""
        return int(np.argmin(self.cautious_mse))


def _times(error: Floats, mass: Floats) -> Floats:
    """A bias, infinite where it cannot be computed."""
    with np.errstate(over="ignore", invalid="ignore"):
        bias = error * mass
    return np.where(np.isnan(bias), np.inf, bias)
