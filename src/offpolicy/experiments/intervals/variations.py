"""What else must cover: clusters, row weights, policies known by draws, estimated propensities,
other levels.

Two of each, made from the finite worlds; the truth is the world's value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import sample_actions
from offpolicy.evaluation import evaluate
from offpolicy.experiments.intervals.outcomes import Cell, Outcome, grouped_logs
from offpolicy.experiments.worlds import World, finite_worlds
from offpolicy.logs import BanditLog
from offpolicy.policies import MonteCarlo

VARIATIONS = (
    "clusters", "clusters and heavy weights",
    "row weights by reward", "row weights by context",
    "Monte-Carlo policy, own draws", "Monte-Carlo policy, common draws",
    "estimated propensities", "estimated propensities, sharper policy",
    "level 90 %", "level 90 %, heavy weights", "level 99 %", "level 99 %, heavy weights",
)  # fmt: skip
_DRAWS = 100
_KEPT = 0.2


def run_variation(name: str, n: int, logs: int) -> list[Cell]:
    """One variation: logs of ``n`` decisions, before any are left out."""
    world = _world(name)
    words = name.split(", ", maxsplit=1)[0]
    level = float(words.split()[1]) / 100.0 if words.startswith("level") else 0.95
    rng = np.random.default_rng([n, *map(ord, name)])
    outcomes = []
    for _ in range(logs):
        log, policy, prediction = _varied(name, *world.draw(n, rng), rng)
        outcomes.append(
            Outcome.of(
                world.value,
                evaluate(
                    log, policy, prediction=prediction, estimators=["SNIPS", "DR"], level=level
                ),
            )
        )
    known = "estimated" if world.reveals == "none" else "candidates"
    policy = words if words.startswith("level") else ""
    return [Cell.of(name, policy, "given", known, n, grouped_logs(outcomes))]


def _world(name: str) -> World:
    worlds = {world.name: world for world in finite_worlds()}
    if name == "clusters and heavy weights":
        return replace(worlds["heavy weights"], cluster_size=10)
    if name == "estimated propensities, sharper policy":
        world = worlds["estimated propensities"]
        sharper = world.policy**2
        return replace(world, policy=sharper / sharper.sum(axis=1, keepdims=True))
    if name.startswith("level") and name.endswith("weights"):
        return worlds["heavy weights"]
    return worlds.get(name, worlds["plain"])


def _varied(
    name: str, log: BanditLog, policy: Any, prediction: Any, rng: np.random.Generator
) -> tuple[BanditLog, Any, Any]:
    """What is evaluated instead of a log as it was drawn."""
    if name.startswith("row weights"):
        # As logs of clicks are thinned; or some kinds of decisions more than others.
        often = log.reward > 0.0 if name.endswith("reward") else policy.max(axis=1) > 0.5
        kept = np.where(often, 1.0, _KEPT)
        rows = np.flatnonzero(rng.random(len(log)) < kept)
        log = log.take(rows).replace(row_weight=1.0 / kept[rows])
        return log, policy[rows], prediction[rows]
    if name.startswith("Monte-Carlo"):
        return log, _by_draws(policy, "common" in name, int(rng.integers(2**32))), prediction
    return log, policy, prediction


def _by_draws(policy: Floats, common: bool, seed: int) -> MonteCarlo:
    """A policy known by draws: each decides upon all rows by one chance, as a sample from a
    posterior does, or upon every row by a chance of its own."""
    cumulative = policy.cumsum(axis=1)

    def draw(log: BanditLog, rng: np.random.Generator) -> Ints:
        if not common:
            return sample_actions(policy, rng)
        return np.asarray((rng.random() * cumulative[:, -1:] >= cumulative).sum(axis=1))

    return MonteCarlo(draw, _DRAWS, seed)
