"""Worlds in which a policy's value is known exactly, and logs of any size drawn from them.

A world is a table of contexts × actions: the logger's and the policy's probabilities, the mean
reward, the model's guess. The finite worlds are each hard in its own way.

Labelled data sets become worlds as in the paper's appendix: half of the examples train, half are
decided upon; a small part of the training half (10%) trains the logger and the reward model, all
of it the target policy. What the text leaves open is a *reading*, written in words: features (raw
or standardised), classifier (one-vs-rest or softmax), target policy (stochastic or argmax), and
whether logger and model learn from the same 10% or from different ones.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.logistic import sigmoid
from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import Examples, TwoValued, load, sample_actions, without_support
from offpolicy.errors import ParameterError
from offpolicy.logs import BanditLog

CONTEXTS = 1000


binary = TwoValued().draw


def certain(mean: Floats, rng: np.random.Generator) -> Floats:
    return mean


@dataclass(frozen=True, eq=False)
class World:
    """Tables of shape (contexts, actions), and what of them a log reveals."""

    logging: Floats
    policy: Floats
    reward: Floats
    prediction: Floats | None
    draw_reward: Callable[[Floats, np.random.Generator], Floats] = binary
    reward_range: tuple[float, float] = (0.0, 1.0)
    reveals: str = "logging"
    """"logging": π₀ of every candidate; "propensity": of the chosen one; "chosen": likewise, and π
    of the chosen one only; "none": π₀ must be estimated."""
    cluster_size: int = 1
    context: Floats | None = None
    """What a log reveals of the contexts: (contexts, features)."""
    name: str = ""
    about: str = ""

    @property
    def value(self) -> float:
        """What the policy earns."""
        return float((self.policy * self.reward).sum(axis=1).mean())

    @property
    def unsupported(self) -> float:
        """The policy's probability on actions that the logger never takes."""
        return float(np.where(self.logging == 0.0, self.policy, 0.0).sum(axis=1).mean())

    def draw(self, n: int, rng: np.random.Generator) -> tuple[BanditLog, Floats, Floats | None]:
        """A log of ``n`` decisions, the policy's probabilities on it, and the predictions."""
        # A cluster meets one context again and again.
        cluster = np.arange(n) // self.cluster_size
        rows = rng.integers(0, len(self.reward), int(cluster[-1]) + 1)[cluster]
        action = sample_actions(self.logging[rows], rng)
        reward = self.draw_reward(self.reward[rows, action], rng)
        policy = self.policy[rows]
        whole = self.reveals == "logging"
        log = BanditLog.from_arrays(
            action=action,
            reward=reward,
            logging=self.logging[rows] if whole else None,
            propensity=None if whole else self.logging[rows, action],
            actions=None if self.reveals == "chosen" else self.logging.shape[1],
            cluster=cluster if self.cluster_size > 1 else None,
            context=None if self.context is None else self.context[rows],
        )
        if self.reveals == "none":
            log = _with_estimated_propensities(log, rows, action, self.logging)
        prediction = None if self.prediction is None else self.prediction[rows]
        chosen = self.reveals == "chosen"
        return log, policy[np.arange(n), action] if chosen else policy, prediction


# -- finite worlds ---------------------------------------------------------------------------------


def finite_worlds() -> list[World]:
    """All worlds of the experiment on coverage, the same every time."""
    plain = _world("plain", "moderate weights, a fair model", seed=1)
    partial = _world("deficient support", "a part of the policy's actions is never taken", seed=14)
    return [
        plain,
        _world("poor model", "the model is noise", seed=2, model_error=3.0),
        _world("good model", "the model is nearly right", seed=3, model_error=0.05),
        replace(plain, name="no model", about="nothing but the policy", prediction=None),
        _world("many actions", "40 actions, a confident policy", seed=4, K=40, sharp=2.5),
        _world("heavy weights", "a confident logger that disagrees with the policy: weights in "
               "the hundreds", seed=5, logger_sharp=3.0, sharp=2.0),
        _world("very heavy weights", "weights in the tens of thousands", seed=6,
               logger_sharp=6.0, sharp=2.0),
        _world("rare rewards", "one decision in a hundred is rewarded", seed=7, shift=-5.3),
        replace(_world("revenue", "rewards from 0 to 10, most of them 0", seed=8, shift=-1.5),
                draw_reward=_revenue, reward_range=(0.0, 10.0)),
        replace(_world("propensity only", "π₀ of the chosen action only", seed=9),
                reveals="propensity"),
        replace(_world("chosen only", "π and π₀ of the chosen action only", seed=10),
                reveals="chosen", prediction=None),
        replace(_world("estimated propensities", "π₀ estimated from frequencies", seed=11,
                types=10), reveals="none"),
        replace(_world("clusters", "ten decisions a user, who is always the same", seed=12),
                cluster_size=10),
        _world("right or wrong", "rewards without noise, as in classification", seed=13, sure=True),
        replace(partial, logging=without_support(partial.logging, partial.logging < 0.04)),
    ]  # fmt: skip


def _world(
    name: str,
    about: str,
    *,
    seed: int,
    K: int = 8,
    sharp: float = 1.5,
    logger_sharp: float = 1.0,
    model_error: float = 0.7,
    shift: float = -0.5,
    types: int | None = None,
    sure: bool = False,
) -> World:
    """An experiment's world: rewards are logistic in a score, which the rest see through noise."""
    from scipy.special import softmax

    rng = np.random.default_rng(seed)
    score = rng.standard_normal((CONTEXTS if types is None else types, K))
    seen = [score + noise * rng.standard_normal(score.shape) for noise in (1.0, 0.7, model_error)]
    reward = sigmoid(shift + 1.2 * score)
    if sure:
        reward = np.eye(K)[score.argmax(axis=1)]
    return World(
        softmax(logger_sharp * seen[0], axis=1),
        softmax(sharp * seen[1], axis=1),
        reward,
        sigmoid(shift + 1.2 * seen[2]),
        name=name,
        about=about,
    )


def _revenue(mean: Floats, rng: np.random.Generator) -> Floats:
    """Rewards of the world "revenue": 0, or a skewed amount up to 10, with the world's mean."""
    return binary(mean, rng) * np.where(rng.random(len(mean)) < 0.9, 5.0 / 9.0, 5.0)


def _with_estimated_propensities(
    log: BanditLog, types: Ints, action: Ints, logging: Floats
) -> BanditLog:
    """An experiment's log with π̂₀ by smoothed frequencies in a type of context, of other folds."""
    T, K = logging.shape
    fold = log.fold()
    estimate = np.empty((len(log), K))
    for k in range(5):
        others = fold != k
        counts = np.bincount(types[others] * K + action[others], minlength=T * K).reshape(T, K)
        share = (counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True)
        estimate[~others] = share[types[~others]]
    return BanditLog.from_arrays(action=action, reward=log.reward, logging=estimate)


# -- labelled data sets ----------------------------------------------------------------------------

READINGS = ("standardised, same 10%", "standardised, different 10%", "raw, same 10%",
            "raw, different 10%")  # fmt: skip
MODELS = ("indicator", "probability")
OWN = "own"
PAPER = "raw, one-vs-rest, stochastic, same 10%"
"""The reading closest to the text."""
_WORDS = (("raw", "standardised"), ("one-vs-rest", "softmax"), ("stochastic", "argmax"),
          ("same 10%", "different 10%"))  # fmt: skip
ALL_READINGS = tuple(", ".join(words) for words in itertools.product(*_WORDS))


def labelled_world(
    data: str | Examples, reading: str, seed: int, model: str = "indicator"
) -> World:
    """A data set as a world of the experiments: split, trained, and its test half predicted. The
    paper's reward model is the indicator of the predicted label; instead of the library's "own"
    there are the examples' features, from which it trains one."""
    examples = load(data) if isinstance(data, str) else data
    trained = train(examples, reading, seed)
    if model == OWN:
        features = examples.X[halves(len(examples.y), seed)[1]]
        return replace(world_of(trained, reading, model), prediction=None, context=features)
    return world_of(trained, reading, model)


def halves(m: int, seed: int) -> tuple[Ints, Ints]:
    """The paper's split: the examples that train, and those that are decided upon."""
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
    """All that experiments may need of a split; only a reading's features and classifier matter."""
    words, y = _parse(reading), examples.y
    half, test = halves(len(y), seed)
    size = len(half) // 10

    def probabilities(rows: Ints) -> Floats:
        if len(np.unique(y[rows])) < 2:
            raise ParameterError(
                f"{len(rows)} examples train the logger or the reward model, and all have one "
                f"label: the data set is too small."
            )
        return classifier(examples, rows, reading)(test)

    first, second = half[:size], half[size : 2 * size]
    other = None if "same 10%" in words else probabilities(second)
    return Trained(probabilities(first), other, probabilities(half), y[test])


def world_of(trained: Trained, reading: str, model: str) -> World:
    """The world that a reading of the paper's set-up makes of a split: the right label earns 1."""
    words = _parse(reading)
    prediction = trained.first
    if "different 10%" in words:
        assert trained.second is not None
        prediction = trained.second
    if model == "indicator":
        prediction = _sure(prediction)
    policy = _sure(trained.whole) if "argmax" in words else trained.whole
    right = np.eye(policy.shape[1])[trained.label]
    return World(trained.first, policy, right, prediction, certain)


def _sure(probabilities: Floats) -> Floats:
    return np.asarray(np.eye(probabilities.shape[1])[probabilities.argmax(axis=1)])


def _parse(reading: str) -> frozenset[str]:
    """The words of a reading of the paper; the classifier may be left out (the default of its day
    on raw features, softmax on standardised ones), and so may the target (stochastic)."""
    words = frozenset(reading.split(", "))
    known = {word for choice in _WORDS for word in choice}
    if words - known or any(len(words & set(choice)) > 1 for choice in _WORDS):
        raise ParameterError(
            f'"{reading}" is not a reading of the set-up: write one of each of '
            f"{'; '.join(' or '.join(choice) for choice in _WORDS)}, with commas between.",
            column="reading",
        )
    if not words & {"one-vs-rest", "softmax"}:
        words |= {"softmax" if "standardised" in words else "one-vs-rest"}
    return words


def classifier(
    examples: Examples, rows: Ints, reading: str, C: float = 1.0
) -> Callable[[Ints], Floats]:
    """The paper's classifier: trained on some examples, a function of others (probabilities)."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    words = _parse(reading)
    if "softmax" in words:
        kind: Any = LogisticRegression(C=C, max_iter=300)
    else:
        kind = OneVsRestClassifier(LogisticRegression(C=C, max_iter=300, solver="liblinear"))
    kind = make_pipeline(StandardScaler(), kind) if "standardised" in words else kind
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # solvers that stop at their limit of iterations
        fitted = kind.fit(examples.X[rows], examples.y[rows])

    def probabilities(others: Ints) -> Floats:
        table = np.zeros((len(others), int(examples.y.max()) + 1))
        table[:, fitted.classes_] = fitted.predict_proba(examples.X[others])
        return table

    return probabilities
