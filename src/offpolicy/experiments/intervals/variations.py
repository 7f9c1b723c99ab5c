"""What else must cover: clusters, row weights, Monte-Carlo policies, estimated propensities.

Two of the finite worlds each, changed so that they have it; the truth is the world's value.
"""

from __future__ import annotations

from collections.abc import Callable
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
    ("clusters", "clusters"), ("clusters", "heavy weights"),
    ("row weights", "by reward"), ("row weights", "by context"),
    ("Monte-Carlo policy", "own draws"), ("Monte-Carlo policy", "common draws"),
    ("estimated propensities", "a fair model"), ("estimated propensities", "sharper, no model"),
)  # fmt: skip
_DRAWS = 100
_KEPT = 0.2


def run_variation(kind: str, where: str, n: int, logs: int) -> list[Cell]:
    """One variation: ``logs`` logs of about ``n`` decisions."""
    world, change = _variation(kind, where)
    rng = np.random.default_rng([n, *map(ord, f"{kind}, {where}")])
    model = "no model" if world.prediction is None else "given"
    wanted = ["SNIPS"] if world.prediction is None else ["SNIPS", "DR"]
    outcomes = []
    for _ in range(logs):
        log, policy, prediction = change(*world.draw(n, rng), rng)
        result = evaluate(
            log, policy, prediction=prediction, estimators=wanted, reward_range=world.reward_range
        )
        outcomes.append(Outcome.of(world.value, result))
    known = {"logging": "candidates", "none": "estimated"}[world.reveals]
    return [Cell.of(kind, where, "", model, known, n, grouped_logs(outcomes))]


_Change = Callable[..., tuple[BanditLog, Any, Floats | None]]


def _variation(kind: str, where: str) -> tuple[World, _Change]:
    worlds = {world.name: world for world in finite_worlds()}
    if kind == "clusters":
        return replace(worlds[where], cluster_size=10), _as_drawn
    if kind == "row weights":
        return worlds["plain"], _by_reward if where == "by reward" else _by_context
    if kind == "Monte-Carlo policy":
        return worlds["plain"], _own_draws if where == "own draws" else _common_draws
    world = worlds["estimated propensities"]
    if where == "a fair model":
        return world, _as_drawn
    sharper = world.policy**2 / (world.policy**2).sum(axis=1, keepdims=True)
    return replace(world, policy=sharper, prediction=None), _as_drawn


def _as_drawn(log: BanditLog, policy: Any, prediction: Floats | None, rng: Any) -> Any:
    return log, policy, prediction


def _by_reward(log: BanditLog, *rest: Any) -> Any:
    """Of the rows without a reward only some were kept, as logs of clicks often are."""
    return _thinned(np.where(log.reward > 0.0, 1.0, _KEPT), log, *rest)


def _by_context(log: BanditLog, policy: Floats, *rest: Any) -> Any:
    """Some kinds of decisions were kept more often than others."""
    sure = policy.max(axis=1)
    return _thinned(np.where(sure > 0.5, 1.0, _KEPT), log, policy, *rest)


def _thinned(
    kept: Floats, log: BanditLog, policy: Floats, prediction: Floats, rng: np.random.Generator
) -> Any:
    rows = np.flatnonzero(rng.random(len(log)) < kept)
    part = log.take(rows).replace(row_weight=1.0 / kept[rows])
    return part, policy[rows], prediction[rows]


def _own_draws(log: BanditLog, policy: Floats, prediction: Any, rng: np.random.Generator) -> Any:
    """Each draw of the policy decides upon every row by a chance of its own."""

    def draw(_: BanditLog, chance: np.random.Generator) -> Ints:
        return sample_actions(policy, chance)

    return log, MonteCarlo(draw, _DRAWS, int(rng.integers(2**32))), prediction


def _common_draws(log: BanditLog, policy: Floats, prediction: Any, rng: np.random.Generator) -> Any:
    """Each draw decides upon all rows by one chance, as one sample of a posterior does."""
    cumulative = policy.cumsum(axis=1)

    def draw(_: BanditLog, chance: np.random.Generator) -> Ints:
        return np.asarray((chance.random() * cumulative[:, -1:] >= cumulative).sum(axis=1))

    return log, MonteCarlo(draw, _DRAWS, int(rng.integers(2**32))), prediction
