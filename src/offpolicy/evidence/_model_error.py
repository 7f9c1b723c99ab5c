r"""How far the recalibrated model is off, as a function of the weight: measured in bands of c.

Clipping at M leaves the model to answer for :math:`\max(\pi - M\pi_0, 0)` of every candidate, so
(Theorem 5) the bias of CAB-DR is

.. math:: \mathbb E \sum_y \max(\pi - M\pi_0, 0)\,(\tilde\delta - \delta)
          = -\int \text{mass}_M(c)\; e(c),

where :math:`e(c)` is the model's mean error on candidates of weight c. That function is measured:
among logged rows of about weight c the mean residual is an unbiased estimate of it, precise where
rows are many, and absent in the tail. Between the two stands a Gaussian-process prior over
:math:`\log c`: errors at near weights are alike, and of a size that is fixed beforehand (a log
without rows in the tail cannot say how wrong the model is there). What
comes out is a mean and a covariance of e, hence of the bias at every M, and by the same sums
(Theorem 6) the variance at every M, both of which count the rare huge weights that the log did
not happen to draw. Where the recalibrated model and the one it was made from are far apart, one of
them is far off: by how much they are apart on what is left to the model is a second error that is
thinkable, independent of the first.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from offpolicy._core.checkpoint import storable
from offpolicy._core.ragged import decision_of_candidate
from offpolicy._core.types import Floats, Ints
from offpolicy.estimators import Estimator, weights
from offpolicy.logs import BanditLog

GRID: Floats = np.concatenate([[0.0], np.geomspace(0.1, 1e6, 62), [np.inf]])
"""The 64 values of M on which grids are taken unless asked otherwise; never fitted to data."""
GRID.setflags(write=False)

EDGES: Floats = GRID[1:-1]
BANDS = len(EDGES) + 1
"""Band 0 holds c < 0.1, band j those from ``EDGES[j − 1]`` on."""

_STEP = float(np.log(EDGES[1] / EDGES[0]))
_LOG_C: Floats = np.append(np.log(EDGES[0]) - 0.5 * _STEP, np.log(EDGES) + 0.5 * _STEP)
_REACH = 2.0
"""Errors at weights a factor e² apart are correlated by e⁻¹."""
SIZE = 0.3
"""How large the model's mean error at a weight is thought to be before looking, in standard
deviations of the residual; and in the distance of the two models."""
CAUTIOUS = 0.4
"""The same for intervals, where an error that was thought too small costs more than one that was
thought too large."""
_PRIOR_ROWS = 5.0
"""A band's mean square starts from that of all rows, with the weight of this many."""


@storable
@dataclass(frozen=True, eq=False)
class Bands:
    """Sums over the log, per band of the weight; ``a + b`` is the union of the rows."""

    rows: Floats
    """Σω over logged rows whose chosen candidate is in the band."""
    rows2: Floats
    """Σω² likewise."""
    residual: Floats
    """Σω(r − δ̃)."""
    square: Floats
    """Σω(r − δ̃)²."""
    rewarded: Floats
    """Number of rows whose reward is not the usual one."""
    policy: Floats
    """Σωπ over all candidates in the band."""
    logging: Floats
    """Σωπ₀."""
    excess: Floats
    """Σωπ²/π₀."""
    policy_gap: Floats
    """Σωπ·(regression − model as given) over all candidates in the band."""
    logging_gap: Floats
    """Σωπ₀ likewise."""
    unsupported: Floats
    """Σωπ and Σωπδ̃ over candidates with π₀ = 0: two numbers."""

    @classmethod
    def of(
        cls,
        log: BanditLog,
        pi: Floats | None,
        c: Floats,
        residual: Floats,
        tilde: Floats | None,
        usual: float | None = None,
        gap: Floats | None = None,
    ) -> Bands:
        """Sums over the rows of a log. Where π or π₀ are known for the chosen candidates only,
        these stand in for all: the sums have the same means."""
        omega = log.weights
        sums, unsupported = np.zeros((BANDS, 5)), np.zeros(2)
        if pi is None or log.logging is None:
            at = band_of(c)
            with np.errstate(over="ignore"):
                sums[:, 0] = _binned(at, omega * c)
                sums[:, 1] = _binned(at, omega)
                sums[:, 2] = _binned(at, omega * c * c)
        else:
            pi0 = log.logging
            share = omega[decision_of_candidate(log.offsets)]
            c_all = weights.ratio(pi, pi0)
            missing = np.isinf(c_all)
            if missing.any():
                lost = share[missing] * pi[missing]
                model = 0.0 if tilde is None else float((lost * tilde[missing]).sum())
                unsupported = np.array([float(lost.sum()), model])
                pi, c_all = np.where(missing, 0.0, pi), np.where(missing, 0.0, c_all)
            place = band_of(c_all)
            sums[:, 0] = _binned(place, share * pi)
            sums[:, 1] = _binned(place, share * pi0)
            with np.errstate(over="ignore"):
                sums[:, 2] = _binned(place, share * pi * c_all)
            if gap is not None:
                sums[:, 3] = _binned(place, share * pi * gap)
                sums[:, 4] = _binned(place, share * pi0 * gap)
        return cls.from_sums(log, c, residual, usual, sums, unsupported)

    @classmethod
    def from_sums(
        cls,
        log: BanditLog,
        c: Floats,
        residual: Floats,
        usual: float | None,
        sums: Floats,
        unsupported: Floats,
    ) -> Bands:
        """From the sums over candidates, those over the logged rows being added."""
        omega = log.weights
        at = band_of(c)

        def per_row(values: Floats) -> Floats:
            return _binned(at, values)

        with np.errstate(over="ignore"):
            square = per_row(omega * residual * residual)
        policy, logging, excess, policy_gap, logging_gap = sums.T.copy()
        return cls(
            rows=per_row(omega),
            rows2=per_row(omega * omega),
            residual=per_row(omega * residual),
            square=square,
            rewarded=per_row((log.reward != usual).astype(np.float64)),
            policy=policy,
            logging=logging,
            excess=excess,
            policy_gap=policy_gap,
            logging_gap=logging_gap,
            unsupported=unsupported,
        )

    @classmethod
    def compiled(
        cls,
        log: BanditLog,
        c: Floats,
        residual: Floats,
        usual: float | None,
        sums: Floats,
        unsupported: Floats,
    ) -> Bands:
        """`from_sums` in one compiled loop over the rows."""
        from offpolicy.evidence import _moment_kernels as accumulate

        by_row = np.zeros((BANDS, 5))
        accumulate.row_bands(
            c,
            residual,
            log.reward,
            np.nan if usual is None else usual,
            np.empty(0) if log.row_weight is None else log.row_weight,
            np.append(EDGES, np.inf),
            band_table(),
            by_row,
        )
        return cls(*[*by_row.T.copy(), *sums.T.copy(), unsupported])

    def __add__(self, other: Bands) -> Bands:
        with np.errstate(over="ignore"):
            return Bands(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @cached_property
    def weight(self) -> float:
        return float(self.rows.sum())

    @cached_property
    def error(self) -> Error:
        """What the residuals say about e."""
        return _posterior(self, SIZE)

    @cached_property
    def cautious_error(self) -> Error:
        """The same, from a prior that thinks of larger errors."""
        return _posterior(self, CAUTIOUS)

    # -- what an estimator makes of it: ``observed`` is (BANDS,), or (…, BANDS) for many ------

    def left(self, observed: Floats) -> Floats:
        """Mass that the model answers for, per band, if a reward of the band's mean weight is
        given the weight ``observed``."""
        with np.errstate(invalid="ignore", over="ignore"):
            kept = np.where(self.logging > 0.0, self.logging * observed, 0.0)
            left = np.where(kept < self.policy, self.policy - kept, 0.0)
        return left / self.weight

    def apart(self, observed: Floats) -> Floats:
        """How far the regression and the model as given are apart on what is left to them."""
        # Not by what is left: rounding would leave a trace of every band.
        clipped = observed < (1.0 - 1e-12) * self.mean_weight
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.where(clipped, self.policy_gap - self.logging_gap * observed, 0.0)
            apart = gap.sum(axis=-1) / self.weight
        return np.where(np.isfinite(apart), apart, np.inf)

    @cached_property
    def mean_weight(self) -> Floats:
        """The policy's over the logger's probability of each band; 0 where it is empty."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return np.where(self.logging > 0.0, self.policy / self.logging, 0.0)

    def kept(self, M: float) -> Floats:
        """The weight that CAB-DR gives to each band's mean residual."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(
                self.rows > 0.0, self.rows * np.minimum(self.mean_weight, M) / self.weight, 0.0
            )

    def observed_by(self, member: Estimator) -> Floats:
        """The weight that an estimator gives to a reward of each band's mean weight."""
        c = self.mean_weight
        return member.masses(c, np.ones_like(c), c).observed

    def effective_rewarded(self, M: float) -> float:
        """(Σw)²/Σw² over the rewarded rows, w = min(c, M) with M at least 1."""
        with np.errstate(invalid="ignore", divide="ignore"):
            seen = np.where(self.rows > 0.0, np.exp(_LOG_C), 0.0)
        w = np.minimum(seen, max(M, 1.0))
        total, squares = float((self.rewarded * w).sum()), float((self.rewarded * w * w).sum())
        return total * total / squares if squares > 0.0 else 0.0

    def noise(self, observed: Floats) -> Floats:
        """E Σ π₀·observed²·E[(r − δ̃)²]: the variance that weighted residuals bring, n times."""
        c = self.mean_weight
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            # π²/π₀ where the weight is c itself, which varies within a band.
            exact = np.where(observed >= c, self.excess, self.logging * observed**2)
            square = self.error.square
            counts = (exact > 0.0) & (square > 0.0)
            noise = np.where(counts, exact * square, 0.0).sum(axis=-1) / self.weight
        return np.asarray(noise, np.float64)


@dataclass(frozen=True, slots=True)
class Error:
    """The model's mean error e in every band, after looking at the residuals."""

    size: float
    """How large it was thought to be: `SIZE` or `CAUTIOUS`."""
    mean: Floats
    covariance: Floats
    square: Floats
    """Mean square of the residual."""
    prior: Floats
    """Covariance of e before looking."""
    gain: Floats
    """``mean`` is this times the bands' mean residuals."""
    noise: Floats
    """Variance of a band's mean residual; 0 where there is none."""

    def bias(self, left: Floats, apart: Floats | float) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the bias of an estimator that leaves ``left``, on which
        the two models are ``apart``; of many, if these have more dimensions."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean = -(left * self.mean).sum(axis=-1)
            variance = _quadratic(left, self.covariance) + (self.size * np.asarray(apart)) ** 2
            stderr = np.sqrt(np.maximum(variance, 0.0))
        # Nothing is left, or more than a number can say.
        lost = ~(np.isfinite(mean) & np.isfinite(variance))
        beyond = np.where(left.any(axis=-1), np.inf, 0.0)
        return np.where(lost, 0.0, mean), np.where(lost, beyond, stderr)

    def thinkable(self, left: Floats, apart: Floats) -> Floats:
        """Mean square of the bias before looking at the residuals."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(_quadratic(left, self.prior) + (self.size * apart) ** 2)

    def variance(self, left: Floats, kept: Floats, apart: float) -> float:
        """Variance that the correction of the bias adds to an estimate whose own part of band
        j's mean residual is ``kept[j]``: both rest on the same rows."""
        if not left.any():
            return 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            both = 2.0 * float((kept * self.noise) @ (self.gain.T @ left))
            variance = float(_quadratic(left, self.covariance)) + both + (self.size * apart) ** 2
        return max(variance, 0.0) if math.isfinite(variance) else math.inf


def _quadratic(left: Floats, matrix: Floats) -> Floats:
    """leftᵀ·matrix·left of masses ``left`` by band: by plain sums, not BLAS."""
    inner = np.einsum("...i,ij->...j", left, matrix, optimize=False)
    return np.asarray((inner * left).sum(axis=-1), np.float64)


def band_of(c: Floats) -> Ints:
    """The band that each weight c falls into."""
    return np.searchsorted(EDGES, c, side="right")


@functools.cache
def band_table() -> Ints:
    """`bucket_table` of the edges of the bands of the weight."""

    from offpolicy.evidence._candidate_kernels import bucket_table

    return bucket_table(EDGES)


def _binned(place: Ints, values: Floats) -> Floats:
    return np.bincount(place, values, BANDS).astype(np.float64)


def _posterior(bands: Bands, size: float) -> Error:
    """The model's error by band: Gaussian-process regression of mean residuals on log c."""
    rows, rows2 = bands.rows, bands.rows2
    seen = rows > 0.0
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        overall = float(bands.square.sum() / bands.weight)
        count = np.where(seen, rows * rows / rows2, 0.0)
        mean = np.where(seen, bands.residual / rows, 0.0)
        own = np.where(seen, bands.square / rows, 0.0)
        square = (count * own + _PRIOR_ROWS * overall) / (count + _PRIOR_ROWS)
        noise = np.where(seen, square / count, 0.0)
    near = np.exp(-np.abs(_LOG_C[:, None] - _LOG_C) / _REACH)
    # In units of the residual, so that no reward is too large or too small to be squared.
    unit = overall if 0.0 < overall < np.inf else 1.0
    prior = size**2 * near
    relative = np.where(np.isfinite(noise[seen]), noise[seen] / unit, 1.0)
    root = np.linalg.cholesky(prior[np.ix_(seen, seen)] + np.diag(relative + 1e-12))
    half = np.linalg.solve(root, prior[seen])
    gain = np.zeros((BANDS, BANDS))
    gain[:, seen] = np.linalg.solve(root.T, half).T
    with np.errstate(over="ignore", invalid="ignore"):
        covariance, before = (prior - half.T @ half) * overall, prior * overall
    return Error(size, gain @ mean, covariance, square, before, gain, noise)
