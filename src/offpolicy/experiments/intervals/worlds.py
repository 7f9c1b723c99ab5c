"""Finite worlds in which a policy's value is known exactly, each hard in its own way.

A world is a table of contexts × actions: the logger's and the policy's probabilities, the mean
reward, the model's guess. Logs of any size are drawn from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from offpolicy._core.logistic import sigmoid
from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import sample_actions, without_support
from offpolicy.logs import BanditLog

CONTEXTS = 1000


@dataclass(frozen=True, eq=False)
class World:
    """Tables of shape (contexts, actions), and what of them a log reveals."""

    name: str
    about: str
    logging: Floats
    policy: Floats
    reward: Floats
    prediction: Floats | None
    draw_reward: Callable[[Floats, np.random.Generator], Floats]
    reward_range: tuple[float, float]
    reveals: str = "logging"
    """"logging": π₀ of every candidate; "propensity": of the chosen one; "chosen": likewise, and π
    of the chosen one only; "none": π₀ must be estimated."""
    cluster_size: int = 1

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
        cluster: Ints | None = None
        if self.cluster_size > 1:
            # A cluster meets one context again and again.
            cluster = np.arange(n) // self.cluster_size
            rows = rng.integers(0, len(self.reward), int(cluster[-1]) + 1)[cluster]
        else:
            rows = rng.integers(0, len(self.reward), n)
        each = np.arange(n)
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
            cluster=cluster,
        )
        if self.reveals == "none":
            log = _with_estimated_propensities(log, rows, action, self.logging)
        prediction = None if self.prediction is None else self.prediction[rows]
        return log, policy[each, action] if self.reveals == "chosen" else policy, prediction


def binary(mean: Floats, rng: np.random.Generator) -> Floats:
    return (rng.random(len(mean)) < mean).astype(np.float64)


def worlds() -> list[World]:
    """All of them, the same every time."""
    plain = _world("plain", "moderate weights, a fair model", seed=1)
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
        _without_support(_world("deficient support", "a part of the policy's actions is never "
                                "taken", seed=14)),
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
    """Mean rewards are logistic in a score; logger, policy and model see it through noise."""
    rng = np.random.default_rng(seed)
    score = rng.standard_normal((CONTEXTS if types is None else types, K))
    seen = [score + noise * rng.standard_normal(score.shape) for noise in (1.0, 0.7, model_error)]
    reward = sigmoid(shift + 1.2 * score)
    if sure:
        reward = np.eye(K)[score.argmax(axis=1)]
    return World(
        name,
        about,
        logging=_softmax(logger_sharp * seen[0]),
        policy=_softmax(sharp * seen[1]),
        reward=reward,
        prediction=sigmoid(shift + 1.2 * seen[2]),
        draw_reward=binary,
        reward_range=(0.0, 1.0),
    )


def _without_support(world: World) -> World:
    """The logger never takes an action to which it gave less than 4%."""
    return replace(world, logging=without_support(world.logging, world.logging < 0.04))


def _revenue(mean: Floats, rng: np.random.Generator) -> Floats:
    """0, or a skewed amount up to 10; the mean is that of the table."""
    return binary(mean, rng) * np.where(rng.random(len(mean)) < 0.9, 5.0 / 9.0, 5.0)


def _with_estimated_propensities(
    log: BanditLog, types: Ints, action: Ints, logging: Floats
) -> BanditLog:
    """π̂₀ by the smoothed frequencies of actions in each type of context, without the own fold."""
    T, K = logging.shape
    fold = log.fold()
    estimate = np.empty((len(log), K))
    for k in range(5):
        others = fold != k
        counts = np.bincount(types[others] * K + action[others], minlength=T * K).reshape(T, K)
        share = (counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True)
        estimate[~others] = share[types[~others]]
    return BanditLog.from_arrays(action=action, reward=log.reward, logging=estimate)


def _softmax(score: Floats) -> Floats:
    scaled = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(scaled / scaled.sum(axis=1, keepdims=True))
