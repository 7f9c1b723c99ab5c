"""Labelled data sets turned into evaluation problems: a logger, a target policy, a model, a truth.

Follows the paper's appendix: half of the examples train, half are decided upon; a small part of
the training half (10%) trains the logger and the reward model, all of it the target policy. What
the text leaves open is a *reading*, written in words: features (raw or standardised), classifier
(one-vs-rest or softmax), target policy (stochastic or argmax), and whether logger and model learn
from the same 10% or from different ones.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import Examples
from offpolicy.errors import ParameterError

READINGS = ("standardised, same 10%", "standardised, different 10%", "raw, same 10%",
            "raw, different 10%")  # fmt: skip
MODELS = ("indicator", "probability")
PAPER = "raw, one-vs-rest, stochastic, same 10%"
"""The reading closest to the text."""
_WORDS = (("raw", "standardised"), ("one-vs-rest", "softmax"), ("stochastic", "argmax"),
          ("same 10%", "different 10%"))  # fmt: skip
ALL_READINGS = tuple(", ".join(words) for words in itertools.product(*_WORDS))


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
    return problem_of(train(examples, reading, seed), reading, model)


def halves(m: int, seed: int) -> tuple[Ints, Ints]:
    """The examples that train, and those that are decided upon."""
    order = np.random.default_rng(seed).permutation(m)
    return order[: m // 2], order[m // 2 :]


class Trained(NamedTuple):
    """Probabilities of the test half by what was trained, and its labels."""

    first: Floats
    second: Floats | None
    """Trained on 10% of the training half, and on 10% others, if a reading may need these."""
    whole: Floats
    label: Ints


def train(examples: Examples, reading: str, seed: int) -> Trained:
    """All that may be needed of one split; only features and classifier of the reading matter."""
    words = _parse(reading)
    X, y = examples.X, examples.y
    K = int(y.max()) + 1
    half, test = halves(len(y), seed)
    size = len(half) // 10

    def probabilities(rows: Ints) -> Floats:
        if len(np.unique(y[rows])) < 2:
            raise ParameterError(
                f"{len(rows)} examples train the logger or the reward model, and all have one "
                f"label: the data set is too small."
            )
        classifier = _classifier(words).fit(X[rows], y[rows])
        out = np.zeros((len(test), K))
        out[:, classifier.classes_] = classifier.predict_proba(X[test])
        return out

    first, second = half[:size], half[size : 2 * size]
    other = None if "same 10%" in words else probabilities(second)
    return Trained(probabilities(first), other, probabilities(half), y[test])


def problem_of(trained: Trained, reading: str, model: str) -> Problem:
    """The problem that a reading makes of it."""
    words = _parse(reading)
    prediction = trained.first
    if "different 10%" in words:
        assert trained.second is not None
        prediction = trained.second
    if model == "indicator":
        prediction = _sure(prediction)
    policy = _sure(trained.whole) if "argmax" in words else trained.whole
    return Problem(trained.first, policy, prediction, trained.label)


def _sure(probabilities: Floats) -> Floats:
    return np.asarray(np.eye(probabilities.shape[1])[probabilities.argmax(axis=1)])


def _parse(reading: str) -> frozenset[str]:
    """Its words; the classifier may be left out (the default of the paper's day on raw features,
    softmax on standardised ones), and so may the target (stochastic)."""
    words = frozenset(reading.split(", "))
    known = {word for choice in _WORDS for word in choice}
    if words - known or any(len(words & set(choice)) > 1 for choice in _WORDS):
        raise ParameterError(
            f'"{reading}" is not a reading of the set-up: write one of each of '
            f"{'; '.join(' or '.join(choice) for choice in _WORDS)}, with commas between."
        )
    if not words & {"one-vs-rest", "softmax"}:
        words |= {"softmax" if "standardised" in words else "one-vs-rest"}
    return words


def _classifier(words: frozenset[str]) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if "softmax" in words:
        classifier: Any = LogisticRegression(max_iter=300)
    else:
        classifier = OneVsRestClassifier(LogisticRegression(max_iter=300, solver="liblinear"))
    return make_pipeline(StandardScaler(), classifier) if "standardised" in words else classifier
