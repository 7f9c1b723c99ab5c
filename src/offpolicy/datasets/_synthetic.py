"""A generator of logs whose difficulty is set by hand and whose truth is known."""

from __future__ import annotations

import itertools
import operator

import numpy as np

from offpolicy._core.types import Bools, Floats
from offpolicy._core.validation import need
from offpolicy.datasets._population import (
    Gaussian,
    Population,
    Synthetic,
    TwoValued,
    without_support,
)
from offpolicy.errors import ParameterError, did_you_mean

REWARDS = ("binary", "continuous")
_CELLS = 20_000_000
_LARGEST = 1_000_000


def simulate_synthetic(
    n: int,
    *,
    actions: int = 10,
    fewest: int | None = None,
    contexts: int = 1000,
    features: int = 5,
    overlap: float = 0.5,
    unsupported: float = 0.0,
    model_error: float = 0.5,
    propensity_error: float = 0.0,
    reward: str = "binary",
    noise: float = 0.0,
    rng: np.random.Generator | int = 0,
) -> Synthetic:
    """A simulated log of ``n`` decisions from a random population of contexts.

    The policy and its value do not depend on how hard the log is made: with the same seed,
    `overlap`, `unsupported`, `model_error` and `propensity_error` change what is logged and
    predicted, and nothing else.

    Parameters
    ----------
    n : int
        Decisions.
    actions : int
        The number of actions; with ``fewest``, every context has a random set of candidates, of
        from ``fewest`` to ``actions`` of them.
    contexts, features : int
        The size of the population, each context equally likely, and the length of a context.
    overlap : 0 to 1
        1: the logger is the policy, and all weights are 1. About ½: it is nearly uniform. 0: it
        avoids what the policy likes.
    unsupported : 0 to 1
        The chance that the logger never takes a candidate; its favourite always remains.
    model_error : float
        Deviation of the reward model's error: of the reward's logit if that is binary. 0: exact.
    propensity_error : float
        Deviation of the error of log π₀ in the log. 0: the log tells the truth.
    reward : "binary" or "continuous"
        0 or 1; or about standard normal in the mean, with ``noise`` for a deviation.
    noise : float
        Of binary rewards the probability of being flipped, 0 to ½; of continuous ones the
        deviation of what is added to the mean.
    rng : Generator or seed

    Examples
    --------
    >>> drawn = simulate_synthetic(1000, actions=3, overlap=1.0)
    >>> bool((drawn.policy == drawn.log.logging).all())
    True
    """
    seed = seed_of(rng)
    population = make_population(
        seed, actions=actions, fewest=fewest, contexts=contexts, features=features,
        overlap=overlap, unsupported=unsupported, model_error=model_error,
        propensity_error=propensity_error, reward=reward, noise=noise,
    )  # fmt: skip
    return population.draw(n, seed)


def seed_of(rng: np.random.Generator | int) -> int:
    """The seed of a simulated log: a number as it is; of a generator, the next number."""
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(0, 2**63))
    try:
        seed = operator.index(rng)
    except TypeError:
        seed = -1
    need(seed >= 0, "rng", repr(rng), "a generator or a whole number from 0 on")
    return seed


def make_population(
    seed: int,
    *,
    actions: int,
    fewest: int | None,
    contexts: int,
    features: int,
    overlap: float,
    unsupported: float,
    model_error: float,
    propensity_error: float,
    reward: str,
    noise: float,
) -> Population:
    """The simulated population behind `simulate_synthetic`.

    Every error is a fixed random direction times its size, so that twice the size is twice as far
    the same way. Logger and logged propensities are exponential tilts, along which every context's
    Σ π²/π₀ and Kullback–Leibler divergence grow.
    """
    if reward not in REWARDS:
        raise ParameterError(
            f'reward is "{reward}"; it is one of {", ".join(REWARDS)}.'
            f"{did_you_mean(reward, REWARDS)}",
            column="reward",
        )
    limits = {
        "actions": (actions, 1, _CELLS),
        "contexts": (contexts, 1, _CELLS),
        "features": (features, 1, _CELLS),
        "fewest": (1 if fewest is None else fewest, 1, actions),
        "overlap": (overlap, 0, 1),
        "unsupported": (unsupported, 0, 1),
        "model_error": (model_error, 0, _LARGEST),
        "propensity_error": (propensity_error, 0, _LARGEST),
        "noise": (noise, 0, 0.5 if reward == "binary" else _LARGEST),
    }
    for name, (value, least, most) in limits.items():
        need(least <= value <= most, name, value, f"from {least} to {most:,}")
    if contexts * max(actions, features) > _CELLS:
        raise ParameterError(
            f"{contexts:,} contexts × {max(actions, features):,} is more than {_CELLS:,}, which "
            f"the population's tables may hold. Ask for fewer contexts.",
            column="contexts",
        )

    # A stream for every table: none depends on how much another one draws.
    seeds = (np.random.SeedSequence(seed, spawn_key=(0, number)) for number in itertools.count())
    streams = map(np.random.default_rng, seeds)
    shape = (contexts, actions)
    present = _candidates(next(streams), shape, fewest)
    context = next(streams).standard_normal((contexts, features))
    score = _linear(context, actions, next(streams))
    taste = 1.5 * (score + 0.7 * next(streams).standard_normal(shape))
    other = next(streams).standard_normal(shape)
    logging = _softmax(overlap * taste + (1.0 - overlap) * (other - taste), present)
    gone = next(streams).random(shape) < unsupported
    if unsupported:
        logging = without_support(logging, gone)
    tilt = propensity_error * next(streams).standard_normal(shape)
    guess = score + model_error * _linear(context, actions, next(streams))
    expected, prediction = (_mean_reward(table, reward, noise, present) for table in (score, guess))
    return Population(
        context=context,
        policy=_softmax(taste, present),
        logging=logging,
        expected=expected,
        prediction=prediction,
        rewards=TwoValued() if reward == "binary" else Gaussian(noise),
        believed=_tilted(logging, tilt) if propensity_error else None,
        present=None if fewest is None else present,
    )


def _candidates(rng: np.random.Generator, shape: tuple[int, int], fewest: int | None) -> Bools:
    contexts, actions = shape
    if fewest is None:
        return np.ones(shape, np.bool_)
    count = rng.integers(fewest, actions + 1, contexts)
    return np.asarray(rng.random(shape).argsort(axis=1).argsort(axis=1) < count[:, None])


def _linear(context: Floats, actions: int, rng: np.random.Generator) -> Floats:
    """To simulate: a random linear function of the context for every action, of variance 1."""
    features = context.shape[1]
    slope = rng.standard_normal((features, actions))
    return np.asarray((rng.standard_normal(actions) + context @ slope) / np.sqrt(features + 1.0))


def _mean_reward(score: Floats, reward: str, noise: float, present: Bools) -> Floats:
    if reward == "binary":
        score = noise + (1.0 - 2.0 * noise) * np.exp(-np.logaddexp(0.0, 0.5 - 1.2 * score))
    return np.where(present, score, 0.0)


def _softmax(score: Floats, present: Bools) -> Floats:
    score = np.where(present, score, -np.inf)
    mass = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


def _tilted(pi: Floats, tilt: Floats) -> Floats:
    """A simulated logger: π·exp(tilt), normalised; at most a factor of 1e-100 apart, above 0."""
    gone = pi == 0.0
    log = np.where(gone, -np.inf, np.log(np.where(gone, 1.0, pi)) + tilt)
    mass = np.exp(np.maximum(log - log.max(axis=1, keepdims=True), -230.0))
    mass[gone] = 0.0
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))
