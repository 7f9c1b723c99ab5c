"""Labelled data sets turned into evaluation problems: a logger, a target policy, a model, a truth.

Follows the paper's appendix: half of the examples train, half are decided upon; a small part of
the training half (10%) trains the logger and the reward model, all of it the target policy. What
the text leaves open is a *reading*: raw or standardised features, and whether logger and model
learn from the same 10% or from different ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from offpolicy.datasets import Examples
from offpolicy.softmax import Ints
from offpolicy.weights import Floats

READINGS = ("standardised, same 10%", "standardised, different 10%", "raw, same 10%",
            "raw, different 10%")  # fmt: skip
MODELS = ("indicator", "probability")


class Problem(NamedTuple):
    """A test half with everything known: probabilities and predictions are (m, K)."""

    logging: Floats
    policy: Floats
    prediction: Floats
    label: Ints

    @property
    def value(self) -> float:
        """What the policy earns: its mean probability of the right label."""
        return float(self.policy[np.arange(len(self.label)), self.label].mean())


def make_problem(examples: Examples, reading: str, model: str, seed: int) -> Problem:
    """Split, train, and predict the test half."""
    X, y = examples.X, examples.y
    K = int(y.max()) + 1
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :]
    size = len(train) // 10
    first, second = train[:size], train[size : 2 * size]
    scaled = reading.startswith("standardised")

    def probabilities(rows: Ints) -> Floats:
        classifier = _classifier(scaled).fit(X[rows], y[rows])
        out = np.zeros((len(test), K))
        out[:, classifier.classes_] = classifier.predict_proba(X[test])
        return out

    logging = probabilities(first)
    prediction = probabilities(second) if "different" in reading else logging
    if model == "indicator":
        prediction = np.eye(K)[prediction.argmax(axis=1)]
    return Problem(logging, probabilities(train), prediction, y[test])


def _classifier(scaled: bool) -> Any:
    """The one-vs-rest default of the paper's day on raw features, softmax on scaled ones."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if scaled:
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    return OneVsRestClassifier(LogisticRegression(max_iter=300, solver="liblinear"))
