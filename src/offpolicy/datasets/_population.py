"""A finite population of contexts of which everything is known, and logs drawn from it.

A log is drawn block by block, each block from a stream of its own: the rows are the same however
they are cut into pieces, and a longer log begins with the shorter one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np

from offpolicy._core.pickling import Portable
from offpolicy._core.types import Bools, Floats, Ints
from offpolicy._core.validation import need
from offpolicy.datasets._from_labels import sample_actions
from offpolicy.estimators.theory import Problem
from offpolicy.logs import BanditLog

BLOCK = 8192
"""Decisions drawn from one stream; another number would draw other logs."""


@dataclass(frozen=True)
class TwoValued:
    """One of two values, with the chance that gives the mean."""

    low: float = 0.0
    high: float = 1.0

    def draw(self, mean: Floats, rng: np.random.Generator) -> Floats:
        chance = (mean - self.low) / (self.high - self.low)
        return np.where(rng.random(len(mean)) < chance, self.high, self.low)

    def variance(self, mean: Floats) -> Floats:
        return np.maximum((mean - self.low) * (self.high - mean), 0.0)


@dataclass(frozen=True)
class Gaussian:
    """The mean and normal noise; without a deviation, the mean itself."""

    deviation: float

    def draw(self, mean: Floats, rng: np.random.Generator) -> Floats:
        return mean + self.deviation * rng.standard_normal(len(mean))

    def variance(self, mean: Floats) -> Floats:
        return np.full_like(mean, self.deviation**2)


Rewards = TwoValued | Gaussian
"""How rewards scatter around their mean."""


class Synthetic(NamedTuple):
    """A log, the policy and the reward model on it, and the truth; per candidate, arrays are flat.

    ``value`` is the policy's exact value over the population of contexts, ``expected`` the mean
    reward of every candidate, ``rows`` the context of every decision, and ``population`` all that
    there is to know.
    """

    log: BanditLog
    policy: Floats
    prediction: Floats
    value: float
    expected: Floats
    rows: Ints
    population: Population


@dataclass(frozen=True, eq=False)
class Population(Portable):
    """Equally likely contexts. Tables are (contexts, actions), and 0 where an action is absent.

    Parameters
    ----------
    context : (S, d)
    policy, logging : (S, K)
        The policy in question, and the one that draws.
    expected : (S, K)
        The mean reward.
    prediction : (S, K)
        What the reward model says of it.
    rewards : Rewards
    believed : (S, K), optional
        What the log says of the logger; ``logging`` if left out.
    present : (S, K), optional
        Which actions are candidates; all of them if left out.
    """

    context: Floats
    policy: Floats
    logging: Floats
    expected: Floats
    prediction: Floats
    rewards: Rewards
    believed: Floats | None = None
    present: Bools | None = None

    @property
    def value(self) -> float:
        """What the policy earns: the mean over all contexts, exactly."""
        return float((self.policy * self.expected).sum(axis=1).mean())

    @property
    def logger_value(self) -> float:
        """What the logger earns, likewise."""
        return float((self.logging * self.expected).sum(axis=1).mean())

    @property
    def shared(self) -> float:
        """The probability that policy and logger have in common, Σ min(π, π₀): 1 if identical."""
        return float(np.minimum(self.policy, self.logging).sum(axis=1).mean())

    @property
    def unsupported(self) -> float:
        """The policy's probability where the logger never goes, Σ π·1{π₀ = 0}."""
        return float(np.where(self.logging > 0.0, 0.0, self.policy).sum(axis=1).mean())

    @cached_property
    def problem(self) -> Problem:
        """The same as the theorems want it: `theory.bias` and `theory.variance` are exact here."""
        variance = self.rewards.variance(self.expected)
        return Problem(
            p=np.full(len(self.policy), 1.0 / len(self.policy)),
            pi=self.policy,
            pi0=self.logging,
            delta=self.expected,
            delta_hat=self.prediction,
            sigma2=variance if self.present is None else variance * self.present,
            pi0_hat=self.believed,
        )

    def draw(self, n: int, seed: int) -> Synthetic:
        """``n`` decisions in memory."""
        return next(self.draws(n, seed, rows=n))

    def draws(self, n: int, seed: int, *, rows: int = BLOCK) -> Iterator[Synthetic]:
        """The same decisions, in pieces of ``rows`` at a time (the last may be shorter)."""
        need(n >= 1, "n", n, "at least 1")
        block = lru_cache(maxsize=1)(partial(self._block, seed))
        for start in range(0, n, rows):
            stop = min(start + rows, n)
            blocks = [block(k) for k in range(start // BLOCK, -(-stop // BLOCK))]
            drawn = (np.concatenate(column) for column in zip(*blocks, strict=True))
            first = start % BLOCK
            yield self._revealed(*(column[first : first + stop - start] for column in drawn))

    def _block(self, seed: int, number: int) -> tuple[Ints, Ints, Floats]:
        """Contexts, actions and rewards of one block."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, number)))
        rows = rng.integers(0, len(self.policy), BLOCK)
        action = sample_actions(self.logging[rows], rng)
        return rows, action, self.rewards.draw(self.expected[rows, action], rng)

    def _revealed(self, rows: Ints, action: Ints, reward: Floats) -> Synthetic:
        """What the log tells of what was drawn."""
        believed = self.logging if self.believed is None else self.believed
        if self.present is None:
            log = BanditLog.from_arrays(
                action=action, reward=reward, logging=believed[rows], context=self.context[rows]
            )
        else:
            _, names = np.nonzero(self.present[rows])
            log = BanditLog.from_ragged(
                offsets=np.concatenate([[0], np.cumsum(self.present.sum(axis=1)[rows])]),
                reward=reward,
                chosen=np.cumsum(self.present, axis=1)[rows, action] - 1,
                candidate=names,
                logging=self._flat(believed, rows),
                context=self.context[rows],
            )
        tables = (self.policy, self.prediction, self.expected)
        policy, prediction, expected = (self._flat(table, rows) for table in tables)
        return Synthetic(log, policy, prediction, self.value, expected, rows, self)

    def _flat(self, table: Floats, rows: Ints) -> Floats:
        return table[rows].reshape(-1) if self.present is None else table[rows][self.present[rows]]


def without_support(logging: Floats, gone: Bools) -> Floats:
    """The simulated logger never takes what is ``gone``, but for its favourite in each context."""
    kept = ~gone
    kept[np.arange(len(logging)), logging.argmax(axis=1)] = True
    rest = np.where(kept, logging, 0.0)
    return np.asarray(rest / rest.sum(axis=1, keepdims=True))
