r"""How much each row's reward moved the estimate through the model that was fitted to it.

CAB-DR around a recalibrated model is an average of contributions, but not of independent ones: the
model's coefficients :math:`\beta` come from the same rewards, and where the model answers for much
of the policy, the noise of that fit is most of the noise there is. To first order, row j adds

.. math:: g^\top H^{-1} \phi_j (y_j - p_j), \qquad
          g = \frac1n \sum_i \frac{\partial}{\partial\beta}
              \Big[\sum_y \pi\tilde\delta + \min(c, M)(r - \tilde\delta)\Big],

to its own contribution: :math:`\phi_j (y_j - p_j)` is its score in the logistic regression of
`offpolicy.calibration`, H the mean curvature of that. (Each row is in all folds' fits but its own,
each fit serves its own fold: over all folds this sums up to the same.) The terms sum to about 0:
they are for variances, not for values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from offpolicy.calibration import Prediction, Recalibration, ridge
from offpolicy.scan import Block
from offpolicy.softmax import decision_of_candidate
from offpolicy.weights import Floats


@dataclass(frozen=True, slots=True)
class Pull:
    """Sums over rows from which the influence of every row follows; ``a + b`` is their union."""

    rows: int
    weight: float
    gradient: Floats
    curvature: Floats

    @classmethod
    def of(cls, block: Block, recalibration: Recalibration, M: float) -> Pull:
        """Sums over one block."""
        log = block.log
        omega = np.ones(len(log)) if log.row_weight is None else log.row_weight
        tilde = _predict(block, recalibration)
        X, columns = _design(block, recalibration)
        slope = _slope(tilde.chosen, recalibration)
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = -(X * (omega * np.minimum(block.c, M) * slope)).sum(axis=1)
            if tilde.flat is None:
                gradient[0] += float((omega * slope).sum())
            else:
                assert block.target.flat is not None
                share = block.target.flat * _slope(tilde.flat, recalibration)
                share *= omega[decision_of_candidate(log.offsets)]
                gradient[0] += float(share.sum())
                gradient[1:] += [float((share * column).sum()) for column in columns]
        curvature = np.einsum("ir,jr,r->ij", X, X, omega * slope, optimize=False)
        return cls(len(log), float(omega.sum()), gradient, curvature)

    def __add__(self, other: Pull) -> Pull:
        return Pull(
            self.rows + other.rows,
            self.weight + other.weight,
            self.gradient + other.gradient,
            self.curvature + other.curvature,
        )

    def leverage(self, fitted_on: int) -> Floats:
        """What a score of 1 in each coefficient does to a row's contribution.

        A model fitted on fewer rows than the log has is noisier, by the root of their ratio.
        """
        penalty = ridge(len(self.gradient))
        penalty[0] += 1e-9 * self.rows
        curvature = self.curvature / self.weight + np.diag(penalty) / self.rows
        scale = math.sqrt(max(self.rows / fitted_on, 1.0))
        return np.asarray(
            scale * np.linalg.solve(curvature, self.gradient / self.weight), np.float64
        )


def influence(block: Block, recalibration: Recalibration, leverage: Floats) -> Floats:
    """What every row of a block adds to its own contribution by its part in the fit."""
    X, _ = _design(block, recalibration)
    residual = block.log.reward - _predict(block, recalibration).chosen
    # The gradient is in shares of the range, and so would be the score: the range cancels.
    return np.asarray((X * leverage[:, None]).sum(axis=0) * residual)


def _predict(block: Block, recalibration: Recalibration) -> Prediction:
    return recalibration.predict(block.log, block.target.flat, block.delta_hat)


def _slope(tilde: Floats, recalibration: Recalibration) -> Floats:
    """p(1 − p), with p the prediction as a share of the range of rewards."""
    span = recalibration.high - recalibration.low
    if not span > 0.0:
        return np.zeros_like(tilde)
    share = (tilde - recalibration.low) / span
    return np.asarray(share * (1.0 - share))


def _design(block: Block, recalibration: Recalibration) -> tuple[Floats, list[Floats]]:
    """The regression's rows for the chosen candidates, intercept first; and its other columns
    for all candidates."""
    log, fit = block.log, recalibration
    raw = fit.features.columns(log.offsets, block.target.flat, block.delta_hat)
    columns = [(x - fit.centre[k]) / fit.spread[k] for k, x in enumerate(raw)]
    return np.stack([np.ones(len(log)), *(x[log.chosen_index] for x in columns)]), columns
