"""The model that the headline rests on: fitted to the log's own rewards, cross-fitted.

A reward model is seldom right on average, least of all on the actions that the logger avoids. So
its prediction is corrected by a regression of the logged rewards on two things known of every
candidate: the prediction, and the policy's own probability (a good policy prefers what pays). The
logger's probabilities are left out on purpose: with them the regression follows the logger where it
should follow the rewards. Numbers of a fold come from the other folds, so no decision's reward has
a part in its own d.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from offpolicy._core.logistic import FOLDS, fit_without, score_unseen, sigmoid
from offpolicy._core.ragged import row_sums
from offpolicy._core.types import Floats, Ints
from offpolicy.evidence._blocks import Block
from offpolicy.logs import BanditLog

_RIDGE, _INTERCEPT_RIDGE = 1.0, 1e-6
_KEPT_PRECISION = 12.0
"""Of the share that is kept, before looking: that of a uniform distribution around one half."""
_LARGEST_WEIGHT = 5.0
"""Beyond this, a row counts no more."""
_NESTED = 20_000
"""Up to so many rows, what is kept of the model is judged by rows that no regression has seen."""


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
    def fitted(cls, sample: Block, low: float, high: float) -> Features:
        """For predictions within the rewards' range [low, high], or else within their own."""
        log, delta_hat = sample.log, sample.delta_hat
        if delta_hat is not None and (delta_hat.min() < low or delta_hat.max() > high):
            low, high = float(delta_hat.min()), float(delta_hat.max())
        # Without π of every candidate there is no use for δ̂ either: CAB-DR around a model needs
        # its mean under the policy.
        known = sample.target.flat is not None
        usable = known and delta_hat is not None and 0.0 < high - low < np.inf
        return cls(usable, known, low, high, 0.01 * len(log) / int(log.offsets[-1]))

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
class Prediction:
    """d on some rows: Σ πd and that of the chosen candidate, per decision."""

    modelled: Floats
    chosen: Floats
    flat: Floats | None
    """Of every candidate; None where π is not known of every candidate, or if not asked for."""


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A fitted model: everything needed to predict any part of the log."""

    low: float
    high: float
    features: Features
    coefficients: Floats
    """(folds, 1 + columns): the intercept first, then of the columns as they are."""
    kept: Floats
    """Per fold, the share w of the model as it was given."""

    @cached_property
    def kind(self) -> str:
        """What it rests on, in a word: the "model" given, the "policy" alone, or a "constant"."""
        if self.features.has_prediction:
            return "model"
        return "policy" if self.features.has_policy else "constant"

    def predict(self, log: BanditLog, pi: Floats | None, delta_hat: Floats | None) -> Prediction:
        """d for the rows of a log, or of any part of the log it was fitted on."""
        fold, lengths = log.fold(FOLDS), np.diff(log.offsets)
        columns = self.features.columns(log.offsets, pi, delta_hat)
        if not columns:
            score = self.coefficients[fold, 0]
            return self._constant(log, self._reward(score), pi, delta_hat)
        fold = np.repeat(fold, lengths)
        flat = self._reward(score_unseen(columns, self.coefficients, fold))
        if self.features.has_prediction:
            assert delta_hat is not None
            given = np.clip(delta_hat, self.low, self.high)
            kept = self.kept[fold]
            if log.logging is not None:
                kept[log.logging == 0.0] = 1.0
            flat += kept * (given - flat)
        assert pi is not None
        return Prediction(row_sums(pi * flat, log.offsets), flat[log.chosen_index], flat)

    def _constant(
        self, log: BanditLog, constant: Floats, pi: Floats | None, delta_hat: Floats | None
    ) -> Prediction:
        """The same d for all candidates of a decision, but where the logger never goes."""
        if pi is None:
            return Prediction(constant, constant, None)
        flat = np.repeat(constant, np.diff(log.offsets))
        if delta_hat is None or log.logging is None or log.logging.all():
            return Prediction(constant, constant, flat)
        lost = log.logging == 0.0
        flat[lost] = np.clip(delta_hat[lost], self.low, self.high)
        return Prediction(row_sums(pi * flat, log.offsets), constant, flat)

    def raw_coefficients(self) -> Floats:
        """(folds, 7): intercept, then of share, bent and top of δ̂ and of π; 0 for what is not
        used."""
        raw, features = np.zeros((FOLDS, 7)), self.features
        raw[:, [True] + [features.has_prediction] * 3 + [features.has_policy] * 3] = (
            self.coefficients
        )
        return raw

    def _reward(self, score: Floats) -> Floats:
        return self.low + (self.high - self.low) * sigmoid(score)


def regression(sample: Block, reward_range: tuple[float, float]) -> Recalibration:
    """The regression of the rewards on δ̂ and π, as far as they are known of every candidate."""
    features = Features.fitted(sample, *reward_range)
    if not features.has_policy:
        return constant(sample, reward_range)
    (low, high), log = reward_range, sample.log
    pi, chosen, fold = sample.target.flat, log.chosen_index, log.fold(FOLDS)
    columns = features.columns(log.offsets, pi, sample.delta_hat, chosen)
    X = np.stack([np.ones(len(log)), *columns])
    omega = log.weights / log.weights.mean()
    centre = (X[1:] * omega).mean(axis=1)
    spread = np.sqrt((omega * (X[1:] - centre[:, None]) ** 2).mean(axis=1))
    spread = np.where(spread > 1e-9, spread, 1.0)
    X[1:] = (X[1:] - centre[:, None]) / spread[:, None]
    share, count = _shares(sample, low, high), _counts(sample)
    weight = omega + count
    weight *= weight.sum() / (weight * weight).sum()
    ridge = np.full(len(X), _RIDGE)
    ridge[0] = _INTERCEPT_RIDGE
    coefficients, kept = fit_without(X, share, ridge, fold, weight=weight), np.zeros(FOLDS)
    if features.has_prediction and high > low:
        assert sample.delta_hat is not None
        with np.errstate(over="ignore"):
            given = np.clip((sample.delta_hat[chosen] - low) / (high - low), 0.0, 1.0)
        if len(share) <= _NESTED:
            pairs = np.array(list(itertools.combinations(range(FOLDS), 2)))
            beta = fit_without(X, share, ridge, fold, pairs, weight=weight)
            score = _without_two(X, fold, pairs, beta)
        else:
            score = np.einsum("kc,cr->kr", coefficients, X, optimize=False)
        unseen = sigmoid(score)
        for k in range(FOLDS):
            kept[k] = _kept(unseen[k], given, share, np.where(fold != k, count, 0.0))
    coefficients[:, 1:] /= spread
    coefficients[:, 0] -= coefficients[:, 1:] @ centre
    return Recalibration(low, high, features, coefficients, kept)


def constant(sample: Block, reward_range: tuple[float, float]) -> Recalibration:
    """The model that says of every candidate the mean reward of the other folds, rows counting
    min(c, 5)."""
    low, high = reward_range
    count, share, fold = _counts(sample), _shares(sample, low, high), sample.log.fold(FOLDS)
    counted, total = (np.bincount(fold, x, FOLDS) for x in (count, count * share))
    rest = [np.arange(FOLDS) != k for k in range(FOLDS)]
    mean = np.array([total[k].sum() / counted[k].sum() if counted[k].any() else share.mean()
                     for k in rest])  # fmt: skip
    mean = np.clip(mean, 1e-12, 1.0 - 1e-12)
    nothing, coefficients = Features(False, False), np.log(mean / (1.0 - mean))[:, None]
    return Recalibration(low, high, nothing, coefficients, np.zeros(FOLDS))


def _without_two(X: Floats, fold: Ints, pairs: Ints, coefficients: Floats) -> Floats:
    """(folds, rows): in row k, scores of every fold j by the regression on all but j and k."""
    score = np.zeros((FOLDS, len(fold)))
    for (j, k), beta in zip(pairs, coefficients, strict=True):
        for own, other in ((j, k), (k, j)):
            rows = fold == own
            score[other, rows] = (beta[:, None] * X[:, rows]).sum(axis=0)
    return score


def _shares(sample: Block, low: float, high: float) -> Floats:
    """Rewards as shares of their range."""
    if high > low:
        return np.asarray((sample.log.reward - low) / (high - low))
    return np.full(len(sample.log), 0.5)


def _counts(sample: Block) -> Floats:
    """How much the rows count on the decisions that the policy would take: ω min(c, 5)."""
    omega: Floats = sample.log.weights / sample.log.weights.mean()
    if sample.log.propensity is None:
        return omega
    return np.asarray(omega * np.minimum(sample.c, _LARGEST_WEIGHT))


def _kept(refitted: Floats, given: Floats, share: Floats, count: Floats) -> float:
    """How much of a given model the recalibration keeps: the w in [0, 1] for which
    (1 − w)·refitted + w·given is nearest to ``share``."""
    apart, residual = given - refitted, share - refitted
    squares = float((count * count).sum())
    if squares > 0.0:
        # As many rows as they are worth, if they count differently.
        count = count * (float(count.sum()) / squares)
    total = float(count.sum())
    noise = float((count * residual * residual).sum()) / total if total > 0.0 else 0.0
    if not noise > 0.0:
        return 0.5 if total == 0.0 else 0.0
    w = float((count * apart * residual).sum()) + 0.5 * _KEPT_PRECISION * noise
    return min(max(w / (float((count * apart**2).sum()) + _KEPT_PRECISION * noise), 0.0), 1.0)
