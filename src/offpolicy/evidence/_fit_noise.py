r"""How much each row's reward moved the estimate through the model that was fitted to it.

CAB-DR around a recalibrated model is an average of contributions, but not of independent ones: the
model's coefficients :math:`\beta` come from the same rewards, and where the model answers for much
of the policy, the noise of that fit is most of the noise there is. To first order, row j adds

.. math:: g^\top H^{-1} \phi_j (y_j - p_j), \qquad
          g = \frac1n \sum_i \frac{\partial}{\partial\beta}
              \Big[\sum_y \pi\tilde\delta + \min(c, M)(r - \tilde\delta)\Big],

to its own contribution: :math:`\phi_j (y_j - p_j)` is its score in the logistic regression of
`evidence._recalibration`, H the mean curvature of that. The share w of the model that is kept as it
was given is one more coefficient, fitted after the others: it has a score and a curvature of its
own, and moves with :math:`\beta`. (Each row is in all folds' fits but its own, each fit serves its
own fold: over all folds this sums up to the same.) The terms sum to about 0: they are for
variances, not for values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from offpolicy._core.checkpoint import storable
from offpolicy._core.ragged import decision_of_candidate
from offpolicy._core.types import Floats
from offpolicy.evidence._blocks import Block
from offpolicy.evidence._recalibration import (
    FOLDS,
    KEPT_PRECISION,
    Prediction,
    Recalibration,
    counted,
    ridge,
)


@storable
@dataclass(frozen=True, slots=True)
class Pull:
    """Sums over rows from which the influence of every row follows; ``a + b`` is their union."""

    rows: int
    weight: float
    gradient: Floats
    """(values of M, coefficients)."""
    curvature: Floats
    kept_gradient: Floats
    """For the share that is kept, per value of M."""
    kept_curvature: Floats
    """Likewise, and what stands behind its penalty: two numbers."""
    cross: Floats
    """How the equation for the share that is kept moves with the other coefficients."""

    @classmethod
    def of(cls, block: Block, recalibration: Recalibration, M: Floats) -> Pull:
        """Sums over one block, for CAB-DR at every ``M``."""
        return cls._of(block, recalibration, M, _Chosen.of(block, recalibration))

    @classmethod
    def _of(cls, block: Block, recalibration: Recalibration, M: Floats, at: _Chosen) -> Pull:
        log = block.log
        omega = log.weights
        with np.errstate(over="ignore", invalid="ignore"):
            w = omega * np.minimum(block.c, M[:, None])
            gradient = -_products(w * ((1.0 - at.kept) * at.slope), at.X)
            kept_gradient = -(w * at.apart).sum(axis=1)
        if at.all.refitted is None:
            gradient[:, 0] += float((omega * at.slope).sum())
        else:
            assert block.target.flat is not None
            decision = decision_of_candidate(log.offsets)
            share = block.target.flat * omega[decision]
            if at.all.gap is not None:
                kept_gradient -= float((share * at.all.gap).sum()) / at.unit
                share *= 1.0 - at.kept[decision]
            share *= _slope(at.all.refitted, recalibration)
            gradient[:, 0] += float(share.sum())
            gradient[:, 1:] += [float((share * column).sum()) for column in at.columns]
        counts = omega * at.counts
        off = counts * (at.residual + (1.0 - at.kept) * at.apart)
        return cls(
            len(log),
            float(omega.sum()),
            gradient,
            np.einsum("ir,jr,r->ij", at.X, at.X, omega * at.slope, optimize=False),
            kept_gradient,
            np.array([(counts * at.apart**2).sum(), (counts * at.residual**2).sum()]),
            -(at.X * (off * at.slope)).sum(axis=1),
        )

    def __add__(self, other: Pull) -> Pull:
        return Pull(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def leverage(self, fitted_on: int) -> Floats:
        """(values of M, coefficients + 1): what a score of 1 in each coefficient, and last in the
        share that is kept, does to a row's contribution.

        A model fitted on fewer rows than the log has is noisier, by the root of their ratio.
        """
        penalty = ridge(len(self.curvature))
        penalty[0] += 1e-9 * self.rows
        curvature = self.curvature / self.weight + np.diag(penalty) / self.rows
        scale = math.sqrt(max(self.rows / fitted_on, 1.0))
        squares, noise = self.kept_curvature / self.weight
        squares += KEPT_PRECISION * noise / self.rows
        of_kept = self.kept_gradient / self.weight / squares if squares > 0.0 else 0.0
        of_kept = np.broadcast_to(of_kept, len(self.gradient))
        gradient = (self.gradient + of_kept[:, None] * self.cross) / self.weight
        of_others = np.linalg.solve(curvature, gradient.T).T
        return np.asarray(scale * np.column_stack([of_others, of_kept]), np.float64)


def influence(block: Block, recalibration: Recalibration, leverage: Floats) -> Floats:
    """(values of M, rows): what every row of a block adds to its own contribution by its part in
    the recalibration."""
    return _influence(_Chosen.of(block, recalibration), recalibration, leverage)


def _influence(at: _Chosen, recalibration: Recalibration, leverage: Floats) -> Floats:
    # The gradient is in shares of the range, and so would be the scores: the range cancels.
    scores = np.stack([*(at.X * at.refit_residual), at.counts * at.apart * at.residual])
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.einsum("mj,ji->mi", leverage, scores, optimize=False)
        return np.asarray(recalibration.span * moved, np.float64)


def fit_variance(block: Block, recalibration: Recalibration, M: Floats) -> Floats:
    """What the recalibration's noise adds to the variance of CAB-DR's mean, at every ``M``, when
    it was fitted on the rows of ``block``: about that for any number of rows evaluated."""
    log, n = block.log, len(block.log)
    at = _Chosen.of(block, recalibration)
    omega = log.weights
    moved = _influence(at, recalibration, Pull._of(block, recalibration, M, at).leverage(n))
    with np.errstate(over="ignore", invalid="ignore"):
        own = at.all.modelled + np.minimum(block.c, M[:, None]) * (log.reward - at.all.chosen)
        own -= (omega * own).sum(axis=1, keepdims=True) / omega.sum()
        more = (omega**2 * moved * (moved + 2.0 * own)).sum(axis=1) / omega.sum() ** 2
    return np.asarray(np.where(np.isfinite(more), np.maximum(more, 0.0), 0.0), np.float64)


def _products(a: Floats, b: Floats) -> Floats:
    """a·bᵀ, over a block's rows, for the noise of the recalibration: plain sums, not BLAS."""
    return np.asarray(np.einsum("mi,ji->mj", a, b, optimize=False), np.float64)


class _Chosen(NamedTuple):
    """What the fit saw of the chosen candidates, in shares of the range of rewards."""

    all: Prediction
    unit: float
    """The range, or 1 if it is a point."""
    columns: list[Floats]
    """The regression's columns for all candidates, without the intercept."""
    X: Floats
    """Those of the chosen ones, intercept first."""
    slope: Floats
    """Derivative of the regression by its score."""
    apart: Floats
    """Model as given, less regression; 0 where the share that is kept cannot move."""
    kept: Floats
    refit_residual: Floats
    residual: Floats
    counts: Floats
    """How much the row counts when the share that is kept is found; 0 where it cannot move."""

    @classmethod
    def of(cls, block: Block, fit: Recalibration) -> _Chosen:
        log, at = block.log, block.log.chosen_index
        predicted = fit.predict(log, block.target.flat, block.delta_hat)
        raw = fit.features.columns(log.offsets, block.target.flat, block.delta_hat)
        columns = [(x - fit.centre[k]) / fit.spread[k] for k, x in enumerate(raw)]
        kept = fit.kept[log.fold(FOLDS)]
        refitted = predicted.chosen if predicted.refitted is None else predicted.refitted[at]
        free, apart = (kept > 0.0) & (kept < 1.0), np.zeros(len(log))
        if predicted.gap is not None:
            apart = np.where(free, -predicted.gap[at], 0.0)
        unit = fit.span if fit.span > 0.0 else 1.0
        return cls(
            predicted,
            unit,
            columns,
            np.stack([np.ones(len(log)), *(x[at] for x in columns)]),
            _slope(refitted, fit),
            apart / unit,
            kept,
            (log.reward - refitted) / unit,
            (log.reward - predicted.chosen) / unit,
            counted(block.c) * free,
        )


def _slope(refitted: Floats | None, fit: Recalibration) -> Floats:
    """p(1 − p), with p the recalibration's prediction as a share of the range of rewards."""
    assert refitted is not None
    if not fit.span > 0.0:
        return np.zeros_like(refitted)
    share = (refitted - fit.low) / fit.span
    return np.asarray(share * (1.0 - share))
