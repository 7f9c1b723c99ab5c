"""Turning a labelled data set into a bandit log whose truth is known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy.errors import ParameterError, PolicyError
from offpolicy.log import BanditLog
from offpolicy.softmax import Ints
from offpolicy.validation import as_floats


class Simulated(NamedTuple):
    """A simulated log, and the row of the data set behind each decision."""

    log: BanditLog
    rows: Ints


def simulate_bandit(
    X: ArrayLike,
    y: ArrayLike,
    policy: Any,
    *,
    n: int | None = None,
    rng: np.random.Generator | int = 0,
) -> Simulated:
    """Supervised → bandit: draw an action for each example, reveal only whether it was right.

    Parameters
    ----------
    X : (m, d), y : (m,)
        Examples and labels 0 … K − 1.
    policy : (m, K) array or fitted classifier
        The logging policy.
    n : int, optional
        Draw this many examples with replacement; without it, each example once, in order.
    rng : Generator or seed

    Examples
    --------
    >>> log, rows = simulate_bandit([[0.0], [1.0]], [0, 1], [[0.5, 0.5], [0.5, 0.5]], n=100)
    >>> len(log)
    100
    """
    contexts, labels = np.asarray(X), np.asarray(y)
    m = len(labels)
    if len(contexts) != m or m == 0:
        raise ParameterError(f"X has {len(contexts)} examples and y has {m}; they must be equal.")
    generator = np.random.default_rng(rng)
    raw = policy.predict_proba(contexts) if hasattr(policy, "predict_proba") else policy
    probabilities = as_floats(raw, "policy", PolicyError)
    if probabilities.ndim != 2 or len(probabilities) != m:
        raise PolicyError(
            f"policy has shape {probabilities.shape}; it must be ({m}, number of actions)."
        )
    rows = np.arange(m) if n is None else generator.integers(0, m, n)
    action = sample_actions(probabilities[rows], generator)
    log = BanditLog.from_arrays(
        action=action,
        reward=(action == labels[rows]).astype(np.float64),
        logging=probabilities[rows],
        context=contexts[rows],
    )
    return Simulated(log, rows)


def sample_actions(probabilities: NDArray[np.float64], rng: np.random.Generator) -> Ints:
    """One action per row of an (n, K) array, drawn with its probabilities; never one of 0."""
    cumulative = np.cumsum(probabilities, axis=1)
    draw = rng.random(len(cumulative)) * cumulative[:, -1]
    return np.asarray((draw[:, None] >= cumulative).sum(axis=1), dtype=np.int64)
