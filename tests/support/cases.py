"""Random ragged logs with all the odd cases, for the library and for the reference alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import offpolicy as op
from tests.support.reference import Decision


def bandit_log(action, reward, logging=None, **columns: object) -> op.BanditLog:
    """A log with as many candidates in every decision; one row of ``logging`` serves all."""
    if logging is not None and np.ndim(logging) == 1:
        logging = np.tile(logging, (len(action), 1))
    return op.BanditLog.from_arrays(action=action, reward=reward, logging=logging, **columns)


class Shape:
    """So many candidates in each decision, and what is drawn for all of them at once."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = np.asarray(lengths)
        self.offsets = np.concatenate([[0], np.cumsum(lengths)])
        self.decision = np.repeat(np.arange(len(lengths)), lengths)

    def normalised(self, mass: np.ndarray) -> np.ndarray:
        return mass / np.add.reduceat(mass, self.offsets[:-1])[self.decision]

    def least(self, values: np.ndarray) -> np.ndarray:
        """Of every decision the candidate with the smallest value."""
        return np.lexsort((values, self.decision))[self.offsets[:-1]]

    def dirichlet(self, rng: np.random.Generator, alpha: float = 1.0) -> np.ndarray:
        return self.normalised(rng.standard_gamma(alpha, len(self.decision)))

    def draw(self, rng: np.random.Generator, mass: np.ndarray) -> np.ndarray:
        """The place of one candidate of every decision, drawn in proportion to its mass."""
        with np.errstate(divide="ignore"):
            return self.least(rng.exponential(size=len(mass)) / mass) - self.offsets[:-1]

    def names(self, rng: np.random.Generator, among: Sequence[object]) -> np.ndarray:
        """Different names for the candidates of each decision, in any order."""
        order = rng.random((len(self.lengths), len(among))).argsort(axis=1)
        return np.array(list(among))[order[np.arange(len(among)) < self.lengths[:, None]]]


@dataclass(frozen=True)
class Case:
    """Flat arrays of one log, one policy and one reward model."""

    offsets: np.ndarray
    chosen: np.ndarray
    reward: np.ndarray
    pi0: np.ndarray
    pi: np.ndarray
    delta_hat: np.ndarray
    row_weight: np.ndarray | None = None

    @property
    def log(self) -> op.BanditLog:
        return self.log_with()

    def log_with(self, **columns: object) -> op.BanditLog:
        """The log with further columns, or with others in their place."""
        own = {"offsets": self.offsets, "chosen": self.chosen, "reward": self.reward}
        own |= {"logging": self.pi0, "row_weight": self.row_weight}
        return op.BanditLog.from_ragged(**(own | columns))

    @property
    def narrow(self) -> op.BanditLog:
        """The log without the probabilities of what was not chosen."""
        return self.log_with(logging=None, propensity=self.log.propensity)

    @property
    def decisions(self) -> list[Decision]:
        weight = np.ones(len(self.reward)) if self.row_weight is None else self.row_weight
        flat = [np.split(x, self.offsets[1:-1]) for x in (self.pi, self.pi0, self.delta_hat)]
        return [
            Decision(*(x.tolist() for x in parts), int(chosen), float(reward), float(w))
            for *parts, chosen, reward, w in zip(
                *flat, self.chosen, self.reward, weight, strict=True
            )
        ]

    def evaluate(self, members: Sequence[object]) -> op.Result:
        return op.evaluate(self.log, self.pi, prediction=self.delta_hat, estimators=members)


def make_case(
    rng: np.random.Generator,
    n: int,
    *,
    most: int = 5,
    shift: float = 0.0,
    unsupported: float = 0.0,
    deterministic: bool = False,
    ties: bool = False,
    tiny: float = 0.0,
    weighted: bool = False,
    drawn: bool = False,
) -> Case:
    """A random log of n decisions with 1 to ``most`` candidates each.

    What was chosen is drawn with its propensity if ``drawn``, else any supported one alike, which
    brings out large weights.
    """
    shape = Shape(rng.integers(1, most + 1, n))
    starts, total = shape.offsets[:-1], len(shape.decision)
    pi0 = np.ones(total) if ties else shape.dirichlet(rng, 0.5) + 1e-12
    gone = rng.random(total) < unsupported
    gone[shape.least(rng.random(total))] = False
    pi0[gone] = 0.0
    if tiny:
        smallest = shape.least(np.where(pi0 > 0.0, pi0, np.inf))
        pi0[smallest[rng.random(n) < 0.5]] *= tiny
    pi0, pi = shape.normalised(pi0), shape.dirichlet(rng, 0.5)
    if ties:
        pi = rng.integers(0, 3, total).astype(float)
        pi[starts] += 1.0
    if deterministic:
        pi = np.zeros(total)
        pi[shape.least(rng.random(total))] = 1.0
    return Case(
        shape.offsets,
        shape.draw(rng, pi0 if drawn else pi0 > 0.0),
        shift + rng.integers(-1, 3, n).astype(float),
        pi0,
        shape.normalised(pi),
        shift + rng.normal(size=total),
        rng.uniform(0.2, 3.0, n) if weighted else None,
    )


@st.composite
def cases(draw: st.DrawFn, smallest: int = 1, largest: int = 8) -> Case:
    """Small logs of every kind."""
    return make_case(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        draw(st.integers(smallest, largest)),
        most=draw(st.sampled_from([1, 2, 5, 9])),
        shift=draw(st.sampled_from([0.0, 0.0, 1e8, -1e8])),
        unsupported=draw(st.sampled_from([0.0, 0.0, 0.4])),
        deterministic=draw(st.booleans()),
        ties=draw(st.booleans()),
        tiny=draw(st.sampled_from([0.0, 0.0, 1e-12])),
        weighted=draw(st.booleans()),
    )
