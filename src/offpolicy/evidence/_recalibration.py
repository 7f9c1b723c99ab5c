r"""Recalibration: what the log's own rewards say about the reward model.

A reward model is seldom right on average, least of all on the actions that the logger avoids. So
its prediction is corrected by a regression of the logged rewards on two things known of every
candidate, the prediction :math:`\hat\delta` and the policy's own probability :math:`\pi` (a good
policy prefers what pays):

.. math:: \tilde\delta = (1 - w_f)\,\big[a + (b - a)\,
          \sigma\big(\beta_f^\top \phi(\hat\delta, \pi)\big)\big] + w_f\,\hat\delta,

for rewards within :math:`[a, b]`. How much of the model is kept as it was given,
:math:`w_f \in [0, 1]`, is what fits the rewards best when rows count by min(c, 5), that is, on the
decisions the policy would take: the regression is learnt where the logger goes, and what it says
of the rest is an extrapolation. The numbers :math:`\beta_f, w_f` of fold f come from the other
folds, so no decision's reward has a part in its own :math:`\tilde\delta`. Where neither
:math:`\hat\delta` nor :math:`\pi` is known of every candidate, what remains is a constant. The
logger's probabilities are left out on purpose: with them the regression follows the logger where
it should follow the rewards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from offpolicy._core.logistic import sigmoid
from offpolicy._core.ragged import row_sums
from offpolicy._core.types import Floats, Ints
from offpolicy.estimators import weights
from offpolicy.logs import BanditLog

FOLDS = 5
_RIDGE = 1.0
_INTERCEPT_RIDGE = 1e-6
_STEPS = 30
_MANY = 40_000
"""Rows from which the regression is started from some of them, and compiled."""
KEPT_PRECISION = 12.0
"""Of the share that is kept, before looking: that of a uniform distribution around one half."""
_LARGEST_WEIGHT = 5.0
"""Beyond this, a row counts no more when the share that is kept is found."""


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
    kept: Floats
    """Per fold, the share w of the model as it was given."""

    @property
    def span(self) -> float:
        return self.high - self.low

    @classmethod
    def fitted(
        cls,
        log: BanditLog,
        pi: Floats | None,
        delta_hat: Floats | None,
        reward_range: tuple[float, float],
    ) -> Recalibration:
        """Fit on the rows of a log; π and δ̂ for every candidate, if known.

        Without π of every candidate there is no use for δ̂ either: CAB-DR around a model needs its
        mean under the policy.
        """
        low, high = reward_range
        if pi is None:
            delta_hat = None
        features = Features.fitted(log, pi, delta_hat, low, high)
        columns = features.columns(log.offsets, pi, delta_hat, log.chosen_index)
        X = np.stack([np.ones(len(log)), *columns])
        omega = log.weights
        omega = omega / omega.mean()
        centre = (X[1:] * omega).mean(axis=1)
        spread = np.sqrt((omega * (X[1:] - centre[:, None]) ** 2).mean(axis=1))
        spread = np.where(spread > 1e-9, spread, 1.0)
        X[1:] = (X[1:] - centre[:, None]) / spread[:, None]
        share = (log.reward - low) / (high - low) if high > low else np.full(len(log), 0.5)
        fold = log.fold(FOLDS)
        coefficients = np.zeros((FOLDS, len(X)))
        kept = np.zeros(FOLDS)
        for k in range(FOLDS):
            rest = fold != k
            coefficients[k] = _logistic(X[:, rest], share[rest], omega[rest])
            if features.has_prediction and high > low:
                assert pi is not None
                assert delta_hat is not None
                at = log.chosen_index[rest]
                given = np.clip((delta_hat[at] - low) / (high - low), 0.0, 1.0)
                count = omega[rest]
                if log.propensity is not None:
                    c = weights.ratio(pi[at], log.propensity[rest])
                    count = count * counted(c)
                kept[k] = _kept(sigmoid(coefficients[k] @ X[:, rest]), given, share[rest], count)
        return cls(low, high, features, centre, spread, coefficients, kept)

    def predict(self, log: BanditLog, pi: Floats | None, delta_hat: Floats | None) -> Prediction:
        """δ̃ for the rows of a log, or of any part of the log it was fitted on."""
        fold = log.fold(FOLDS)
        beta = self.coefficients[fold]
        columns = self.features.columns(log.offsets, pi, delta_hat)
        if not columns:
            constant = self._reward(beta[:, 0])
            return Prediction(constant, constant, None)
        lengths = np.diff(log.offsets)
        score = np.repeat(beta[:, 0] - beta[:, 1:] @ (self.centre / self.spread), lengths)
        for k, column in enumerate(columns):
            score += column * np.repeat(beta[:, k + 1] / self.spread[k], lengths)
        refitted = flat = self._reward(score)
        given = None
        if self.features.has_prediction:
            assert delta_hat is not None
            given = np.clip(delta_hat, self.low, self.high)
            flat = refitted + np.repeat(self.kept[fold], lengths) * (given - refitted)
        assert pi is not None
        modelled = row_sums(pi * flat, log.offsets)
        return Prediction(modelled, flat[log.chosen_index], flat, refitted, given)

    def raw_coefficients(self) -> Floats:
        """(folds, 7): intercept, then of share, bent and top of δ̂ and of π as they are; 0 for
        what is not used."""
        slopes = self.coefficients[:, 1:] / self.spread
        raw = np.zeros((FOLDS, 7))
        raw[:, 0] = self.coefficients[:, 0] - slopes @ self.centre
        features = self.features
        used = [features.has_prediction] * 3 + [features.has_policy] * 3
        raw[:, 1:][:, used] = slopes
        return raw

    def _reward(self, score: Floats) -> Floats:
        return self.low + self.span * sigmoid(score)


@dataclass(frozen=True, slots=True)
class Prediction:
    """δ̃ on some rows: Σ πδ̃ and that of the chosen candidate, per decision."""

    modelled: Floats
    chosen: Floats
    flat: Floats | None
    """Of every candidate; None where it is the same for all."""
    refitted: Floats | None = None
    """What the regression alone says of every candidate."""
    given: Floats | None = None
    """What the model said before, cut to where rewards can be; None without a model."""

    @property
    def gap(self) -> Floats | None:
        """How far regression and model are apart, of every candidate."""
        if self.refitted is None or self.given is None:
            return None
        return self.refitted - self.given


def ridge(size: int) -> Floats:
    """The penalty on every coefficient of the recalibration, the intercept first."""
    penalty = np.full(size, _RIDGE)
    penalty[0] = _INTERCEPT_RIDGE
    return penalty


def counted(c: Floats) -> Floats:
    """How much a row of weight c counts in how much of its model a recalibration keeps."""
    return np.minimum(c, _LARGEST_WEIGHT)


def _kept(refitted: Floats, given: Floats, share: Floats, count: Floats) -> float:
    """How much of a given model the recalibration keeps: the w in [0, 1] for which
    (1 − w)·refitted + w·given is nearest to ``share``."""
    apart, residual = given - refitted, share - refitted
    total = float(count.sum())
    noise = float((count * residual * residual).sum()) / total if total > 0.0 else 0.0
    if not noise > 0.0:
        return 0.5 if total == 0.0 else 0.0
    w = float((count * apart * residual).sum()) + 0.5 * KEPT_PRECISION * noise
    return min(max(w / (float((count * apart**2).sum()) + KEPT_PRECISION * noise), 0.0), 1.0)


def _logistic(X: Floats, y: Floats, omega: Floats) -> Floats:
    """The recalibration's logistic regression of shares ``y`` in [0, 1] on ``X``, with a ridge."""
    size, rows = X.shape
    if rows == 0:
        return np.zeros(size)
    total = float(omega.sum())
    penalty = ridge(size)
    if rows > _MANY:
        # Nearly there already, from some of the same rows.
        some = slice(None, None, rows // (_MANY // 4))
        beta = _logistic(
            np.ascontiguousarray(X[:, some]),
            np.ascontiguousarray(y[some]),
            np.ascontiguousarray(omega[some]),
        )
    else:
        mean = (float((omega * y).sum()) + 0.5) / (total + 1.0)
        beta = np.zeros(size)
        beta[0] = np.log(mean / (1.0 - mean))
    for _ in range(_STEPS):
        gradient, hessian = _derivatives(beta, X, y, omega)
        gradient = gradient + penalty * beta
        step = np.linalg.solve(hessian + np.diag(penalty + 1e-9 * total), gradient)
        largest = float(np.abs(step).max())
        beta = beta - step * min(1.0, 5.0 / largest if largest > 0.0 else 1.0)
        if largest < 1e-9:
            break
    return beta


def _derivatives(beta: Floats, X: Floats, y: Floats, omega: Floats) -> tuple[Floats, Floats]:
    """Gradient and Hessian of the recalibration's weighted cross-entropy."""
    if X.shape[1] > _MANY:
        gradient, hessian = np.zeros(len(X)), np.zeros((len(X), len(X)))
        from offpolicy._core.logistic_kernels import logistic_derivatives

        logistic_derivatives(beta, X, y, omega, gradient, hessian)
        return gradient, hessian
    p = sigmoid(beta @ X)
    # Plain sums, not BLAS: the same bits whatever the threads.
    gradient = np.array([(row * (omega * (p - y))).sum() for row in X])
    curvature = omega * p * (1.0 - p)
    return gradient, np.einsum("ir,jr->ij", X * curvature, X, optimize=False)
