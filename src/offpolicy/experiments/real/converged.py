"""Two Thompson samplers that run side by side: from the log of one, what does the other earn?

The counterpart of the paper's Amazon Music experiment, in worlds whose truth is known. Both
samplers learn, each from the rewards of its own choices, so that the policies change with every
batch of steps. The logger acts by its Monte-Carlo probabilities themselves: it draws its action
from the frequencies of 1,000 draws. That is Thompson sampling all the same, and the logged
propensities are exactly those of what ran; an action that was chosen cannot have propensity 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import load, sample_actions
from offpolicy.evaluation import evaluate, sweep
from offpolicy.experiments.accuracy import Grid
from offpolicy.experiments.real.thompson import Posterior
from offpolicy.logs import BanditLog

SYNTHETIC = "synthetic"
GRID = Grid(np.geomspace(0.1, 1000.0, 41))
"""With propensities of at least 1/1,000 no weight is larger than the last M."""
READINGS = ("model of each step", "final model", "model of each step, rewards less 1")
"""What the paper leaves open: whether δ̂ is what the logger knew at the step or at the end, and
whether a reward is a gain (0 and 1) or a loss (−1 and 0), on which IPS, SB, SWITCH and CAB depend.
"""
CURVES = ("CIPS", "SWITCH", "CAB", "CAB-DR")


@dataclass(frozen=True)
class Setup:
    """One pair of runs."""

    problem: str
    seed: int
    steps: int = 5000
    batch: int = 100
    """The posteriors are updated after so many steps."""
    draws: int = 1000


class Contexts(NamedTuple):
    """Features (the first is 1) and the expected reward of every action."""

    X: Floats
    reward: Floats


@dataclass(frozen=True, eq=False)
class Labelled:
    """The examples of a data set, drawn with replacement; the right label earns 1.

    Features are whitened principal components, at most 40; the logger sees the first half.
    """

    X: Floats
    label: Ints
    logger: Posterior
    target: Posterior

    @classmethod
    def of(cls, name: str) -> Labelled:
        X, y = load(name)[:2]
        components = whitened(X)[:, :40]
        all_ = components.shape[1]
        seen, K = max(all_ // 2, 1), int(y.max()) + 1
        return cls(
            np.column_stack([np.ones(len(y)), components]),
            y,
            Posterior.prior(K, 1 + seen, variance=1.0, noise=0.1, scale=1.0),
            Posterior.prior(K, 1 + all_, variance=1.0, noise=0.1, scale=1.0),
        )

    def draw(self, n: int, rng: np.random.Generator) -> Contexts:
        return self._at(rng.integers(0, len(self.label), n))

    def everyone(self) -> Contexts:
        """All contexts there are."""
        return self._at(np.arange(len(self.label)))

    def _at(self, rows: Ints) -> Contexts:
        return Contexts(self.X[rows], np.eye(len(self.logger.shift))[self.label[rows]])


@dataclass(frozen=True, eq=False)
class Clicks:
    """Normal contexts; a click with probability sigmoid(wₐᵀx + bₐ), unlike either sampler's model.

    The logger sees six of eight features.
    """

    w: Floats
    b: Floats
    logger: Posterior
    target: Posterior

    @classmethod
    def random(cls, rng: np.random.Generator, actions: int = 20, width: int = 8) -> Clicks:
        return cls(
            1.5 * rng.standard_normal((actions, width)) / np.sqrt(width),
            rng.normal(-1.0, 0.5, actions),
            Posterior.prior(actions, width - 1, variance=1.0, noise=0.15, scale=0.7),
            Posterior.prior(actions, width + 1, variance=1.0, noise=0.15, scale=0.7),
        )

    def draw(self, n: int, rng: np.random.Generator) -> Contexts:
        x = rng.standard_normal((n, self.w.shape[1]))
        reward = 1.0 / (1.0 + np.exp(-(x @ self.w.T + self.b)))
        return Contexts(np.column_stack([np.ones(n), x]), reward)

    def everyone(self) -> None:
        """They cannot be listed."""


World = Labelled | Clicks
"""Where contexts come from. A sampler sees the first features only, as many as it is wide."""


def whitened(X: Floats) -> Floats:
    """Principal components, the largest first, each of variance 1."""
    centred = X - X.mean(axis=0)
    size, axes = np.linalg.eigh(centred.T @ centred / len(X))
    kept = size > 1e-9 * size[-1]
    components = centred @ (axes[:, kept] / np.sqrt(size[kept]))
    return np.asarray(components[:, ::-1])


def world_of(problem: str, rng: np.random.Generator) -> World:
    """The world of a problem: a data set of that name, or one drawn at random."""
    return Clicks.random(rng) if problem == SYNTHETIC else Labelled.of(problem)


class Paired(NamedTuple):
    """The logger's log, with the features that it saw, and the target's probabilities at each step.

    ``prediction`` is the logger's model at each step, ``final`` its last one; ``truth`` is what
    the target earned on average over the steps, in expectation.
    """

    log: BanditLog
    policy: Floats
    prediction: Floats
    final: Floats
    truth: float
    truth_stderr: float


def run_pair(setup: Setup) -> Paired:
    """Let both samplers run."""
    streams = np.random.SeedSequence((setup.seed, *map(ord, setup.problem))).spawn(4)
    in_world, in_log, in_target, in_truth = map(np.random.default_rng, streams)
    world = world_of(setup.problem, in_world)
    logger, target = world.logger, world.target
    parts, values = [], []
    for start in range(0, setup.steps, setup.batch):
        n = min(setup.batch, setup.steps - start)
        x = world.draw(n, in_log)
        seen, all_ = seen_by(logger, x), seen_by(target, x)
        logging = logger.probabilities(seen, setup.draws, in_log)
        policy = target.probabilities(all_, setup.draws, in_log)
        action = sample_actions(logging, in_log)
        reward = _rewards(x, action, in_log)
        parts.append((action, reward, logging, policy, logger.predict(seen), seen))
        values.append((n, *value_of(target, world, in_truth)))
        logger = logger.updated(seen, action, reward)

        x = world.draw(n, in_target)
        own = seen_by(target, x)
        action = target.draw(own, 1, in_target)[:, 0].astype(np.int64)
        target = target.updated(own, action, _rewards(x, action, in_target))
    action, reward, logging, policy, prediction, seen = map(
        np.concatenate, zip(*parts, strict=True)
    )
    n, value, variance = np.array(values).T
    return Paired(
        BanditLog.from_arrays(action=action, reward=reward, logging=logging, context=seen),
        policy,
        prediction,
        logger.predict(seen),
        float(n @ value / setup.steps),
        float(np.sqrt(n**2 @ variance) / setup.steps),
    )


def seen_by(sampler: Posterior, contexts: Contexts) -> Floats:
    """The features that a sampler uses."""
    return contexts.X[:, : sampler.shift.shape[1]]


def value_of(sampler: Posterior, world: World, rng: np.random.Generator) -> tuple[float, float]:
    """What a sampler would earn in one step, and the variance of that number.

    Rewards are taken in expectation; four draws for every context there is, or for 2,000 new ones.
    """
    everyone = world.everyone()
    x = world.draw(2000, rng) if everyone is None else everyone
    taken = sampler.draw(seen_by(sampler, x), 4, rng)
    earned = np.take_along_axis(x.reward, taken.astype(np.int64), axis=1)
    of_each = earned.mean(axis=1)
    m = len(of_each)
    if everyone is None:
        return float(of_each.mean()), float(of_each.var(ddof=1) / m)
    return float(of_each.mean()), float((earned.var(axis=1, ddof=1) / 4).sum() / m**2)


def _rewards(x: Contexts, action: Ints, rng: np.random.Generator) -> Floats:
    chance = x.reward[np.arange(len(action)), action]
    return (rng.random(len(action)) < chance).astype(np.float64)


# -- estimates ---------------------------------------------------------------------------------


def estimates(log: BanditLog, policy: Floats, prediction: Floats) -> dict[str, Any]:
    """Every estimator at every M (or τ), and those whose M is chosen from the log."""
    grid = np.concatenate([[0.0], GRID.M, [np.inf]])
    curves = {
        name: sweep(log, policy, prediction=prediction, estimator=name, grid=grid).values
        for name in CURVES
    }
    dm, dr, ips = curves["CAB-DR"][0], curves["CAB-DR"][-1], curves["CIPS"][-1]
    found = {name: curve[1:-1].tolist() for name, curve in curves.items()}
    found |= {name: [float(one)] for name, one in (("DM", dm), ("IPS", ips), ("DR", dr))}
    found["SB"] = ((1.0 - GRID.tau) * dm + GRID.tau * ips).tolist()
    low = float(log.reward.min() // 1)
    result = evaluate(
        log, policy, prediction=prediction, estimators=["CAB", "CAB-DR"],
        reward_range=(low, low + 1.0),
    )  # fmt: skip
    (headline,) = result.headlines
    chosen = {"headline": headline.value} | {n: result[n].value for n in ("CAB", "CAB-DR")}
    return {
        "curves": found,
        "chosen": chosen,
        "interval": list(headline.interval),
        "refused": headline.refusal is not None,
    }


def run_cell(setup: Setup) -> dict[str, Any]:
    """One pair of runs and all estimates from its log, as JSON can hold them."""
    pair = run_pair(setup)
    log, K = pair.log, pair.policy.shape[1]
    assert log.logging is not None
    logging = log.logging.reshape(-1, K)
    supported = logging > 0.0
    losses = BanditLog.from_arrays(action=log.chosen, reward=log.reward - 1.0, logging=logging)
    by_reading = (
        estimates(log, pair.policy, pair.prediction),
        estimates(log, pair.policy, pair.final),
        raised(estimates(losses, pair.policy, pair.prediction - 1.0), 1.0),
    )
    return {
        "truth": pair.truth,
        "truth_stderr": pair.truth_stderr,
        "logged": float(log.reward.mean()),
        "supported": float(supported.mean()),
        "supported_last": float(supported[-setup.batch :].mean()),
        "unsupported_policy": float((pair.policy * ~supported).sum(axis=1).mean()),
        "estimates": dict(zip(READINGS, by_reading, strict=True)),
    }


def raised(found: dict[str, Any], by: float) -> dict[str, Any]:
    """Estimates of losses as estimates of gains."""
    return {
        "curves": {name: [one + by for one in curve] for name, curve in found["curves"].items()},
        "chosen": {name: one + by for name, one in found["chosen"].items()},
        "interval": [one + by for one in found["interval"]],
        "refused": found["refused"],
    }
