r"""CAB-DR around a model, at every M of the grid: the sums that the headline is made of.

Row i contributes :math:`x_M = \sum_y \pi d + \min(c, M)\,(r - d)`. Kept are its moments at every M,
and sums by bins of the weight, which say what depends on c alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpolicy._core.checkpoint import storable
from offpolicy._core.moments import Moments
from offpolicy._core.types import Floats
from offpolicy.evidence._blocks import Block
from offpolicy.evidence._recalibration import FOLDS, Prediction, Recalibration
from offpolicy.evidence._weight_bins import (
    BINS,
    EDGES,
    GRID,
    WeightBins,
    bin_table,
    sums_of_candidates,
    sums_of_rows,
)
from offpolicy.logs.labels import GROUPS


@storable
@dataclass(frozen=True, slots=True)
class ClipPath:
    """Sums over rows; ``a + b`` is the union of the rows."""

    moments: Moments
    """Of x_M, for every M of the grid."""
    fourth: Floats
    """Σω⁴(x_M − centre)⁴, about what the sample said of its mean."""
    bins: WeightBins

    def __add__(self, other: ClipPath) -> ClipPath:
        with np.errstate(over="ignore"):
            fourth = self.fourth + other.fourth
        return ClipPath(self.moments + other.moments, fourth, self.bins + other.bins)


class Modelled(NamedTuple):
    """Rows with the predictions of the headline's model, and what follows for the headline."""

    block: Block
    prediction: Prediction
    path: ClipPath


def apply_model(
    block: Block, model: Recalibration, usual: float | None, centres: Floats | None
) -> Modelled:
    """Predict a block's rewards with the headline's model, and take the sums of CAB-DR around it.

    ``usual`` is the reward of most rows, if there is one; ``centres`` are about the means of x_M,
    None if they shall be those of the block itself.
    """
    log = block.log
    compiled = block.compiled and block.target.flat is not None
    if compiled:
        prediction, of_candidates, unsupported = _predict_compiled(block, model)
    else:
        prediction = model.predict(log, block.target.flat, block.delta_hat)
    if not compiled or log.logging is None:
        of_candidates, unsupported = sums_of_candidates(
            log, block.target.flat, block.c, prediction.flat
        )
    residual = log.reward - prediction.chosen
    of_rows = sums_of_rows(log, block.c, residual, usual, compiled=block.compiled)
    bins = WeightBins(of_rows, of_candidates, unsupported)
    return Modelled(block, prediction, ClipPath(*_moments(block, prediction, centres), bins))


def _moments(
    block: Block, prediction: Prediction, centres: Floats | None
) -> tuple[Moments, Floats]:
    """Moments of x_M, and fourth powers."""
    log = block.log
    base, residual = prediction.modelled, log.reward - prediction.chosen
    if block.compiled and log.group is None and centres is not None:
        return Moments.clipped(base, block.c, residual, GRID, log.row_weight, centres)
    # Beyond the largest weight all M are alike.
    last = int(np.searchsorted(GRID, block.c.max())) + 1
    if centres is not None and (centres[last:] != centres[last - 1]).any():
        last = len(GRID)
    each = np.minimum(np.arange(len(GRID)), last - 1)
    with np.errstate(over="ignore", invalid="ignore"):
        x = base + np.minimum(block.c, GRID[:last, None]) * residual
        moments = Moments.of(x, log.row_weight, log.group, groups=GROUPS, diagonal=True)
        x -= (moments.mean if centres is None else centres[:last])[:, None]
        x *= log.weights
        x *= x
        x *= x
        return moments.columns(each), x.sum(axis=1)[each]


def _predict_compiled(block: Block, model: Recalibration) -> tuple[Prediction, Floats, Floats]:
    """Predictions and sums over candidates, in one compiled pass that holds no prediction but
    those it returns."""
    from offpolicy.evidence._candidate_kernels import recalibrated_sums

    log, features = block.log, model.features
    nothing: Floats = np.empty(0)
    assert block.target.flat is not None
    modelled, at_chosen = np.empty((2, len(log)))
    sums, unsupported = np.zeros((BINS, 3)), np.zeros(2)
    recalibrated_sums(
        log.offsets,
        log.chosen,
        block.target.flat,
        nothing if log.logging is None else log.logging,
        block.delta_hat if features.has_prediction else nothing,
        nothing if log.row_weight is None else log.row_weight,
        log.fold(FOLDS),
        model.raw_coefficients(),
        model.kept,
        np.array([model.low, model.high, features.low, features.high, features.trace]),
        np.append(EDGES, np.inf),
        bin_table(),
        modelled,
        at_chosen,
        sums,
        unsupported,
    )
    return Prediction(modelled, at_chosen, None), sums, unsupported
