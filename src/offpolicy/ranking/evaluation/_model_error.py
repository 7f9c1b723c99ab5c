r"""How far a relevance model may be off, as a function of the weight 1/p: measured in bands.

An estimator that gives a click the weight b leaves the share :math:`1 - bp` of a document to the
model (for CAB, :math:`(1 - Mp)_+`), so by the paper's theory its bias is

.. math:: \mathbb E \sum_j \lambda_j\,(1 - b_j p_j)\,(\tilde\delta_j - \delta_j)

when the model is :math:`\tilde\delta`. In a band of documents of about the same weight, the sum of
:math:`\lambda\,(\mathrm{click}/p - \tilde\delta)` is an unbiased, if noisy, measurement of the
error that counts. Between these measurements and the bias stands a normal prior: errors are of the
size of `SIZE` times :math:`\sum |\lambda|\,\tilde\delta(1-\tilde\delta)`, that is, of that size in
log odds, and alike at near weights. Documents that were not shown have a band of their own, about
which only its neighbours tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.evaluation._sums import Value

SIZE = 0.6
"""How far off the model is thought to be before looking, in log odds."""
_STEP = 0.35
_REACH = 2.0
"""Errors at weights a factor e² apart are correlated by e⁻¹."""


@dataclass(frozen=True, eq=False)
class ModelError:
    """The model's error in every band, after looking at the clicks."""

    base: Value
    """What the model itself says, and its linearisation: λ of every document."""
    band: Ints
    """Of every document."""
    prior: Floats
    """Covariance of the bands' errors before looking; (bands, bands)."""
    gain: Floats
    """Errors are thought to be this times the measurements."""
    measured: Floats
    """Σ λ(click/p − δ̃)/n of every band."""
    scale: Floats
    """Σ |λ|δ̃(1 − δ̃)/n of every band."""
    unit: Floats
    """|λ|δ̃(1 − δ̃)/n of every document."""

    @classmethod
    def of(cls, log: RankingLog, base: Value, delta: Floats, size: float = SIZE) -> ModelError:
        """``base`` is the value that δ̃ (``delta``) gives."""
        assert log.propensity is not None
        weight = base.weight
        p, n = log.propensity, len(log)
        seen = p > 0.0
        c = np.where(seen, p, 1.0) ** -1.0
        raw = np.floor(np.log(c) / _STEP).astype(np.int64)
        raw[~seen] = int(raw.max()) + 2
        bands, band = np.unique(raw, return_inverse=True)
        unit = np.abs(weight) * delta * (1.0 - delta) / n

        def summed(values: Floats) -> Floats:
            return np.bincount(band, values, len(bands)).astype(np.float64)

        scale = summed(unit)
        residual = np.where(seen, weight * (log.click * c - delta), 0.0)
        noise = np.where(seen, weight**2 * delta * (1.0 - p * delta) * c, 0.0)
        variance = summed(noise) / n**2
        log_weight = bands * _STEP
        near = np.exp(-np.abs(log_weight[:, None] - log_weight) / _REACH)
        prior = size**2 * near * scale[:, None] * scale
        known = summed(seen.astype(np.float64)) > 0.0
        # In units of each band's scale, which may be 0.
        whole = prior + np.diag(variance + 1e-12 * scale**2)
        inner = whole[np.ix_(known, known)]
        gain = np.zeros_like(prior)
        gain[:, known] = prior[:, known] @ np.linalg.pinv(inner, hermitian=True)
        return cls(base, band, prior, gain, summed(residual) / n, scale, unit)

    def left(self, share: Floats) -> Floats:
        """The share of each band that is left to the model, from that of every document."""
        total = np.bincount(self.band, self.unit * share, len(self.scale))
        return np.where(self.scale > 0.0, total / np.where(self.scale > 0.0, self.scale, 1.0), 0.0)

    def bias(self, left: Floats) -> tuple[float, float]:
        """Mean and variance of the bias that comes of δ̃'s error, given the clicks."""
        mean = -float((left * (self.gain * self.measured).sum(axis=1)).sum())
        return mean, max(float(left @ self.after @ left), 0.0)

    @cached_property
    def after(self) -> Floats:
        """Covariance of the bands' errors after looking."""
        return self.prior - self.gain @ self.prior

    def corrected(self, left: Floats) -> tuple[Floats, float]:
        """The further weight on click/p − δ̃ of every document that takes the mean bias out, and
        the variance of what error remains, before looking."""
        moved = self.gain.T @ left
        rest = left - moved
        return moved[self.band], max(float(rest @ self.prior @ rest), 0.0)
