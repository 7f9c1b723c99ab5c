r"""Recalibration: what the log's own rewards say about the reward model.

A reward model is seldom right on average, least of all on the actions that the logger avoids. So
its prediction is corrected by a regression of the logged rewards on two things known of every
candidate, the prediction :math:`\hat\delta` and the policy's own probability :math:`\pi` (a good
policy prefers what pays):

.. math:: \tilde\delta = a + (b - a)\,\sigma\big(\beta_f^\top \phi(\hat\delta, \pi)\big),

for rewards within :math:`[a, b]`. The coefficients :math:`\beta_f` of fold f come from the other
folds, so no decision's reward has a part in its own :math:`\tilde\delta`. Where neither is known
of every candidate, what remains is a constant. The logger's probabilities are left out on
purpose: with them the regression follows the logger where it should follow the rewards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from offpolicy.log import BanditLog
from offpolicy.softmax import Ints, row_sums
from offpolicy.weights import Floats

FOLDS = 5
_RIDGE = 1.0
_INTERCEPT_RIDGE = 1e-6
_STEPS = 30


@dataclass(frozen=True, slots=True)
class Features:
    """How δ̂ and π of a candidate become the columns of the regression."""

    has_prediction: bool
    has_policy: bool
    low: float = 0.0
    high: float = 1.0
    """Where predictions lie."""
    trace: float = 1e-3
    """Added to π before its logarithm is taken."""

    @classmethod
    def fitted(
        cls, log: BanditLog, pi: Floats | None, delta_hat: Floats | None, low: float, high: float
    ) -> Features:
        """For predictions within the rewards' range [low, high], or else within their own."""
        if delta_hat is not None and (delta_hat.min() < low or delta_hat.max() > high):
            low, high = float(delta_hat.min()), float(delta_hat.max())
        trace = 0.01 * len(log) / int(log.offsets[-1])
        usable = delta_hat is not None and 0.0 < high - low < np.inf
        return cls(usable, pi is not None, low, high, trace)

    def columns(
        self,
        offsets: Ints,
        pi: Floats | None,
        delta_hat: Floats | None,
        chosen: Ints | None = None,
    ) -> list[Floats]:
        """One flat array per column: a value per candidate, or per ``chosen`` one only."""
        columns: list[Floats] = []
        for used, values in ((self.has_prediction, delta_hat), (self.has_policy, pi)):
            if not used:
                continue
            assert values is not None
            best = np.maximum.reduceat(values, offsets[:-1])
            if chosen is None:
                top = values == np.repeat(best, np.diff(offsets))
            else:
                values = values[chosen]
                top = values == best
            if self.has_prediction and not columns:
                share = np.clip((values - self.low) / (self.high - self.low), 0.0, 1.0)
                bent = np.log((share + 0.01) / (1.01 - share))
            else:
                share = values
                bent = np.log(share + self.trace)
            columns += [share, bent, top.astype(np.float64)]
        return columns


@dataclass(frozen=True, slots=True)
class Recalibration:
    """A fitted recalibration: everything needed to predict any part of the log."""

    low: float
    high: float
    features: Features
    centre: Floats
    spread: Floats
    coefficients: Floats
    """(folds, 1 + columns): the intercept first."""

    @classmethod
    def fitted(
        cls,
        log: BanditLog,
        pi: Floats | None,
        delta_hat: Floats | None,
        reward_range: tuple[float, float],
    ) -> Recalibration:
        """Fit to a log; ``pi`` and ``delta_hat`` are of every candidate, or None.

        Without the policy on every candidate nothing but a constant could be averaged over it.
        """
        low, high = reward_range
        if pi is None:
            delta_hat = None
        features = Features.fitted(log, pi, delta_hat, low, high)
        columns = features.columns(log.offsets, pi, delta_hat, log.chosen_index)
        X = np.stack([np.ones(len(log)), *columns])
        omega = np.ones(len(log)) if log.row_weight is None else log.row_weight
        omega = omega / omega.mean()
        centre = (X[1:] * omega).mean(axis=1)
        spread = np.sqrt((omega * (X[1:] - centre[:, None]) ** 2).mean(axis=1))
        spread = np.where(spread > 1e-9, spread, 1.0)
        X[1:] = (X[1:] - centre[:, None]) / spread[:, None]
        share = (log.reward - low) / (high - low) if high > low else np.full(len(log), 0.5)
        fold = log.fold(FOLDS)
        coefficients = np.stack(
            [_logistic(X[:, fold != k], share[fold != k], omega[fold != k]) for k in range(FOLDS)]
        )
        return cls(low, high, features, centre, spread, coefficients)

    def predict(self, log: BanditLog, pi: Floats | None, delta_hat: Floats | None) -> Prediction:
        """δ̃ for the rows of a log, or of any part of the log it was fitted on."""
        beta = self.coefficients[log.fold(FOLDS)]
        columns = self.features.columns(log.offsets, pi, delta_hat)
        if not columns:
            constant = self._reward(beta[:, 0])
            return Prediction(constant, constant, None)
        lengths = np.diff(log.offsets)
        score = np.repeat(beta[:, 0] - beta[:, 1:] @ (self.centre / self.spread), lengths)
        for k, column in enumerate(columns):
            score += column * np.repeat(beta[:, k + 1] / self.spread[k], lengths)
        flat = self._reward(score)
        assert pi is not None
        return Prediction(row_sums(pi * flat, log.offsets), flat[log.chosen_index], flat)

    def _reward(self, score: Floats) -> Floats:
        return self.low + (self.high - self.low) / (1.0 + np.exp(-np.clip(score, -40.0, 40.0)))


@dataclass(frozen=True, slots=True)
class Prediction:
    """δ̃ on some rows: Σ πδ̃ and that of the chosen candidate, per decision."""

    modelled: Floats
    chosen: Floats
    flat: Floats | None
    """Of every candidate; None where it is the same for all."""


def ridge(size: int) -> Floats:
    """The penalty on every coefficient of the regression, the intercept first."""
    penalty = np.full(size, _RIDGE)
    penalty[0] = _INTERCEPT_RIDGE
    return penalty


def _logistic(X: Floats, y: Floats, omega: Floats) -> Floats:
    """Ridge-penalised logistic regression of shares ``y`` in [0, 1] on the rows of ``X``."""
    size = len(X)
    beta = np.zeros(size)
    if X.shape[1] == 0:
        return beta
    total = float(omega.sum())
    mean = (float((omega * y).sum()) + 0.5) / (total + 1.0)
    beta[0] = np.log(mean / (1.0 - mean))
    penalty = ridge(size)
    for _ in range(_STEPS):
        p = 1.0 / (1.0 + np.exp(-np.clip(beta @ X, -40.0, 40.0)))
        # Plain sums, not BLAS: the same bits whatever the threads.
        gradient = np.array([(row * (omega * (p - y))).sum() for row in X]) + penalty * beta
        curvature = omega * p * (1.0 - p)
        hessian = np.einsum("ir,jr->ij", X * curvature, X, optimize=False) + np.diag(
            penalty + 1e-9 * total
        )
        step = np.linalg.solve(hessian, gradient)
        largest = float(np.abs(step).max())
        beta = beta - step * min(1.0, 5.0 / largest if largest > 0.0 else 1.0)
        if largest < 1e-9:
            break
    return beta
