r"""CAB-DR around a model, at every M of the grid: the sums that the headline is made of.

Row i contributes :math:`x_M = m + \min(c, M)\,e` with :math:`m = \sum_y \pi d` and
:math:`e = r - d`. It is linear in min(c, M), so its moments at every M follow from sums by bins of
the weight c; only clusters need sums of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from offpolicy._core.checkpoint import storable
from offpolicy._core.logistic import FOLDS
from offpolicy._core.moments import Moments, added
from offpolicy._core.types import Floats
from offpolicy.estimators import GRID
from offpolicy.evidence._blocks import Block
from offpolicy.evidence._recalibration import Prediction, Recalibration
from offpolicy.evidence._stretches import Stretches
from offpolicy.evidence._weight_bins import (
    BIN_TABLE,
    BINS,
    EDGES,
    WeightBins,
    bin_of,
    clipped,
    sums_of_candidates,
    sums_of_rows,
)
from offpolicy.logs.labels import GROUPS


@storable
@dataclass(frozen=True, eq=False)
class ClipPath:
    """Sums over rows; ``a + b`` is the union of the rows."""

    bins: WeightBins
    centre: float
    """What m is less: about the mean reward, so that few digits are lost."""
    clusters: Floats | None
    """Per group of clusters Σω, and at every M Σωx_M less the centre; None without."""

    def __add__(self, other: ClipPath) -> ClipPath:
        clusters = added(self.clusters, other.clusters)
        return ClipPath(self.bins + other.bins, self.centre, clusters)

    @cached_property
    def moments(self) -> Moments:
        """Of x_M, at every M of the grid; its least and largest values are not known."""
        moments = self.bins.moments()
        if self.clusters is not None:
            weight = self.clusters[:, 0]
            with np.errstate(over="ignore", invalid="ignore"):
                total = self.clusters[:, 1:] - np.outer(weight, moments.mean)
            moments = replace(moments, group_weight=weight, group_total=total)
        return replace(moments, mean=self.centre + moments.mean)


class Modelled(NamedTuple):
    """Rows with the predictions of the headline's model, and what follows for the headline."""

    block: Block
    prediction: Prediction
    path: ClipPath


def apply_model(
    block: Block,
    model: Recalibration,
    centre: float,
    usual: float | None = None,
    stretches: Stretches | None = None,
) -> Modelled:
    """Predict a block's rewards with the headline's model, and take the sums of CAB-DR around it.

    ``centre`` is about the mean reward; ``usual`` the reward of most rows, if there is one.
    """
    log, compiled = block.log, _is_compiled(block, model)
    if compiled:
        prediction, of_candidates, unsupported = _predict_compiled(block, model)
    else:
        prediction = model.predict(log, block.target.flat, block.delta_hat)
    if not compiled or log.logging is None:
        of_candidates, unsupported = sums_of_candidates(
            log, block.target.flat, block.c, prediction.flat
        )
    m, e = prediction.modelled - centre, log.reward - prediction.chosen
    of_rows = sums_of_rows(log, block.c, e, m, usual, stretches, compiled=block.compiled)
    bins = WeightBins(of_rows, of_candidates, unsupported)
    return Modelled(block, prediction, ClipPath(bins, centre, _clusters(block, m, e)))


def predict_every(block: Block, model: Recalibration) -> Prediction:
    """The headline's model on a block, d of every candidate kept."""
    if _is_compiled(block, model):
        return _predict_compiled(block, model, every=True)[0]
    return model.predict(block.log, block.target.flat, block.delta_hat)


def _is_compiled(block: Block, model: Recalibration) -> bool:
    """Whether a block's rewards are predicted by the compiled loop."""
    if not block.compiled or block.target.flat is None:
        return False
    if model.kind == "constant" and block.delta_hat is not None and block.log.logging is not None:
        return bool(block.log.logging.all())  # Where the logger never goes it is not constant.
    return True


def _clusters(block: Block, m: Floats, e: Floats) -> Floats | None:
    """`ClipPath.clusters` of a block."""
    group, omega = block.log.group, block.log.weights
    if group is None:
        return None
    place = group * BINS + bin_of(block.c)
    with np.errstate(over="ignore", invalid="ignore"):
        free, held = np.array(
            [np.bincount(place, omega * each, GROUPS * BINS) for each in (block.c * e, e)]
        ).reshape(2, GROUPS, BINS)
        modelled = np.bincount(group, omega * m, GROUPS)[:, None]
        totals = modelled + clipped(free, held, 1)
    return np.column_stack([np.bincount(group, omega, GROUPS), totals])


def kurtosis(rows: Modelled) -> Floats:
    """At every M, nΣω⁴(x_M − mean)⁴ over the square of Σω²(x_M − mean)²; 1 where nothing varies."""
    block, prediction, path = rows
    log, c = block.log, block.c
    residual, omega = log.reward - prediction.chosen, log.weights
    n, shares = len(log), np.ones(len(GRID))
    last = int(np.searchsorted(GRID, c.max())) + 1
    with np.errstate(all="ignore"):
        for k, M in enumerate(GRID[:last].tolist()):
            x = prediction.modelled + np.minimum(c, M) * residual
            x = (omega * (x - path.moments.mean[k])) ** 2
            if x.any():
                shares[k] = n * (x * x).sum() / x.sum() ** 2
    # Beyond the largest weight all M are alike.
    shares[last:] = shares[last - 1]
    return shares


def _predict_compiled(
    block: Block, model: Recalibration, *, every: bool = False
) -> tuple[Prediction, Floats, Floats]:
    """Predictions and sums over candidates, in one compiled pass that holds no prediction but
    those it returns: ``every`` asks for those of all candidates."""
    from offpolicy._core.kernels import read_only
    from offpolicy.evidence._candidate_kernels import recalibrated_sums

    log, features = block.log, model.features
    delta_hat = block.delta_hat if features.has_prediction else None
    modelled, at_chosen = np.empty((2, len(log)))
    flat = np.empty(int(log.offsets[-1]) if every else 0)
    sums, unsupported = np.zeros((BINS, 3)), np.zeros(2)
    recalibrated_sums(
        *read_only(log.offsets, log.chosen, block.target.flat, log.logging, delta_hat),
        *read_only(log.row_weight, log.fold(FOLDS)),
        model.raw_coefficients(),
        model.kept,
        np.array([model.low, model.high, features.low, features.high, features.trace]),
        np.append(EDGES, np.nan),
        BIN_TABLE,
        modelled,
        at_chosen,
        flat,
        sums,
        unsupported,
    )
    return Prediction(modelled, at_chosen, flat if every else None), sums, unsupported
