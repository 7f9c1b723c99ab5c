"""Two Thompson samplers that run side by side: from the log of one, what does the other earn?

The counterpart of the paper's Amazon Music experiment, in worlds whose truth is known. Both
samplers learn, each from the rewards of its own choices, so that the policies change with every
batch of steps. The logger acts by its Monte-Carlo probabilities themselves: it draws its action
from the frequencies of 1,000 draws. That is Thompson sampling all the same, and the logged
propensities are exactly those of what ran; an action that was chosen cannot have propensity 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import load, sample_actions
from offpolicy.evaluation import evaluate, sweep
from offpolicy.experiments.accuracy import Grid
from offpolicy.experiments.real.thompson import Posterior
from offpolicy.experiments.worlds import binary
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


class World(NamedTuple):
    """Where contexts come from, and both samplers before the first step. A sampler sees the first
    features only, as many as it is wide."""

    logger: Posterior
    target: Posterior
    draw: Callable[[int, np.random.Generator], Contexts]
    everyone: Contexts | None = None
    """All contexts, if they can be listed."""


def labelled(name: str) -> World:
    """A world of Figure 3: examples of a data set, with replacement; the right label earns 1.

    Features are whitened principal components, at most 40; the logger sees the first half.
    """
    X, y = load(name)[:2]
    components = whitened(X)[:, :40]
    width, K = components.shape[1], int(y.max()) + 1
    everyone = Contexts(np.column_stack([np.ones(len(y)), components]), np.eye(K)[y])

    def draw(n: int, rng: np.random.Generator) -> Contexts:
        rows = rng.integers(0, len(y), n)
        return Contexts(everyone.X[rows], everyone.reward[rows])

    logger, target = (
        Posterior.prior(K, 1 + seen, variance=1.0, noise=0.1, scale=1.0)
        for seen in (max(width // 2, 1), width)
    )
    return World(logger, target, draw, everyone)


def clicks(rng: np.random.Generator, actions: int = 20, width: int = 8) -> World:
    """A world of Figure 3: normal contexts, clicks by sigmoid(wₐᵀx + bₐ), as no sampler's model.

    The logger sees six of eight features.
    """
    w = 1.5 * rng.standard_normal((actions, width)) / np.sqrt(width)
    b = rng.normal(-1.0, 0.5, actions)

    def draw(n: int, rng: np.random.Generator) -> Contexts:
        x = rng.standard_normal((n, width))
        reward = 1.0 / (1.0 + np.exp(-(x @ w.T + b)))
        return Contexts(np.column_stack([np.ones(n), x]), reward)

    logger, target = (
        Posterior.prior(actions, seen, variance=1.0, noise=0.15, scale=0.7)
        for seen in (width - 1, width + 1)
    )
    return World(logger, target, draw)


def whitened(X: Floats) -> Floats:
    """Contexts of Figure 3: principal components, the largest first, each of variance 1."""
    centred = X - X.mean(axis=0)
    size, axes = np.linalg.eigh(centred.T @ centred / len(X))
    kept = size > 1e-9 * size[-1]
    components = centred @ (axes[:, kept] / np.sqrt(size[kept]))
    return np.asarray(components[:, ::-1])


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
    """One repeat of Figure 3: let both Thompson samplers run."""
    streams = np.random.SeedSequence((setup.seed, *map(ord, setup.problem))).spawn(4)
    in_world, in_log, in_target, in_truth = map(np.random.default_rng, streams)
    world = clicks(in_world) if setup.problem == SYNTHETIC else labelled(setup.problem)
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
        all_ = seen_by(target, x)
        action = target.draw(all_, 1, in_target)[:, 0].astype(np.int64)
        target = target.updated(all_, action, _rewards(x, action, in_target))
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
    """The features that one of the experiment's Thompson samplers uses."""
    return contexts.X[:, : sampler.shift.shape[1]]


def value_of(sampler: Posterior, world: World, rng: np.random.Generator) -> tuple[float, float]:
    """What a Thompson sampler of Figure 3 would earn in one step, and that number's variance.

    Rewards are taken in expectation; four draws for every context there is, or for 2,000 new ones.
    """
    x = world.everyone or world.draw(2000, rng)
    taken = sampler.draw(seen_by(sampler, x), 4, rng)
    earned = np.take_along_axis(x.reward, taken.astype(np.int64), axis=1)
    of_each = earned.mean(axis=1)
    m = len(of_each)
    if world.everyone is None:
        return float(of_each.mean()), float(of_each.var(ddof=1) / m)
    return float(of_each.mean()), float((earned.var(axis=1, ddof=1) / 4).sum() / m**2)


def _rewards(x: Contexts, action: Ints, rng: np.random.Generator) -> Floats:
    return binary(x.reward[np.arange(len(action)), action], rng)


# -- estimates ---------------------------------------------------------------------------------


def estimates(
    log: BanditLog, policy: Floats, prediction: Floats, raised: float = 0.0
) -> dict[str, Any]:
    """For Figure 3: every estimator at every M (or τ), and those whose M is chosen from the log;
    ``raised`` by what the rewards are less than gains."""
    grid = np.concatenate([[0.0], GRID.M, [np.inf]])
    ends = {
        name: sweep(log, policy, prediction=prediction, estimator=name, grid=grid).values
        for name in CURVES
    }
    dm, dr, ips = ends["CAB-DR"][0], ends["CAB-DR"][-1], ends["CIPS"][-1]
    curves = {name: curve[1:-1] for name, curve in ends.items()}
    curves |= {name: np.array([value]) for name, value in (("DM", dm), ("IPS", ips), ("DR", dr))}
    curves["SB"] = (1.0 - GRID.tau) * dm + GRID.tau * ips
    low = float(log.reward.min() // 1)
    result = evaluate(
        log, policy, prediction=prediction, estimators=["CAB", "CAB-DR"],
        reward_range=(low, low + 1.0),
    )  # fmt: skip
    (headline,) = result.headlines
    chosen = {"headline": headline.value} | {n: result[n].value for n in ("CAB", "CAB-DR")}
    return {
        "curves": {name: (curve + raised).tolist() for name, curve in curves.items()},
        "chosen": {name: value + raised for name, value in chosen.items()},
        "interval": [end + raised for end in headline.interval],
        "refused": headline.refusal is not None,
    }


def run_cell(setup: Setup) -> dict[str, Any]:
    """A cell of Figure 3: a pair of runs and all estimates from its log, as JSON can hold them."""
    pair = run_pair(setup)
    log, K = pair.log, pair.policy.shape[1]
    assert log.logging is not None
    logging = log.logging.reshape(-1, K)
    supported = logging > 0.0
    losses = BanditLog.from_arrays(action=log.chosen, reward=log.reward - 1.0, logging=logging)
    by_reading = (
        estimates(log, pair.policy, pair.prediction),
        estimates(log, pair.policy, pair.final),
        estimates(losses, pair.policy, pair.prediction - 1.0, raised=1.0),
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
