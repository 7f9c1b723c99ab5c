"""Turning a labelled data set into a bandit log whose truth is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core import validation as check
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import ParameterError, Place, PolicyError
from offpolicy.logs import BanditLog, check_probabilities, tolerance_of, without_rounding


@dataclass(frozen=True, eq=False)
class Simulated:
    """A simulated log, the row of the data set behind each decision, and the truth.

    Unpacks as ``log, rows``. ``expected`` is the mean reward of every action on every example,
    (m, K).
    """

    log: BanditLog
    rows: Ints
    examples: NDArray[Any]
    expected: Floats

    def __iter__(self) -> Iterator[Any]:
        return iter((self.log, self.rows))

    def value(self, policy: Any) -> float:
        """What a policy earns on the data set, exactly: (m, K) probabilities, or a classifier.

        The examples that happen to be in the log, and noise in its rewards, do not matter.
        """
        probabilities = _probabilities(policy, self.examples, len(self.expected))
        shape = self.expected.shape
        check.need_shape(
            probabilities.shape == shape, "policy", probabilities, f"{shape}", PolicyError
        )
        return float((probabilities * self.expected).sum(axis=1).mean())


def simulate_bandit(
    X: ArrayLike,
    y: ArrayLike,
    policy: Any,
    *,
    n: int | None = None,
    noise: float = 0.0,
    right: float = 1.0,
    wrong: float = 0.0,
    rng: np.random.Generator | int = 0,
) -> Simulated:
    """Supervised → bandit: draw an action for each example, reveal only whether it was right.

    Parameters
    ----------
    X : (m, d), y : (m,)
        Examples and labels: 0 … K − 1, or, if the policy is a classifier, its classes.
    policy : (m, K) array or fitted classifier
        The logging policy.
    n : int, optional
        Draw this many examples with replacement; without it, each example once, in order.
    noise : 0 to ½
        The probability that what is revealed is the opposite.
    right, wrong : float
        The rewards.
    rng : Generator or seed

    Examples
    --------
    >>> log, rows = simulate_bandit([[0.0], [1.0]], [0, 1], [[0.5, 0.5], [0.5, 0.5]], n=100)
    >>> len(log)
    100
    >>> simulate_bandit([[0.0]], [1], [[0.5, 0.5]], noise=0.1).value([[0.0, 1.0]])
    0.9
    """
    contexts, labels = np.asarray(X), np.asarray(y)
    fine = labels.ndim == 1 and len(labels) > 0
    check.need_shape(fine, "y", labels, "one label per example", ParameterError)
    m = len(labels)
    if contexts.ndim == 0 or len(contexts) != m:
        raise ParameterError(
            f"X has {len(np.atleast_1d(contexts))} examples and y has {m}; they must be equal.",
            column="X",
        )
    check.need(n is None or n >= 1, "n", n, "at least 1")
    generator = np.random.default_rng(rng)
    probabilities = _probabilities(policy, contexts, m)
    labels = _as_actions(labels, probabilities.shape[1], getattr(policy, "classes_", None))
    expected = expected_rewards(labels, probabilities.shape[1], noise, right, wrong)
    rows = np.arange(m) if n is None else generator.integers(0, m, n)
    action = sample_actions(probabilities[rows], generator)
    correct = action == labels[rows]
    if noise:
        correct ^= generator.random(len(rows)) < noise
    log = BanditLog.from_arrays(
        action=action,
        reward=np.where(correct, float(right), float(wrong)),
        logging=probabilities[rows],
        context=contexts[rows],
    )
    return Simulated(log, rows, contexts, expected)


def check_rewards(noise: float, right: float, wrong: float) -> None:
    """Raise unless, in a simulated log, a right action earns more, at least on average."""
    rule = "from 0 to 0.5, where rewards tell nothing any more"
    check.need(0.0 <= noise <= 0.5, "noise", noise, rule)
    if not (np.isfinite([right, wrong]).all() and right > wrong):
        raise ParameterError(
            f"right is {right:g} and wrong is {wrong:g}; a right action must earn more.",
            column="right" if np.isfinite(wrong) else "wrong",
        )


def expected_rewards(
    labels: Ints, actions: int, noise: float, right: float, wrong: float
) -> Floats:
    """The true mean reward of every action in a log simulated from labels: (m, K)."""
    check_rewards(noise, right, wrong)
    hit = np.eye(actions)[labels]
    chance = np.where(hit > 0.0, 1.0 - noise, noise)
    return wrong + (right - wrong) * chance


def _probabilities(policy: Any, contexts: NDArray[Any], m: int) -> Floats:
    raw = policy.predict_proba(contexts) if hasattr(policy, "predict_proba") else policy
    probabilities = check.as_floats(raw, "policy", PolicyError)
    fine = probabilities.ndim == 2 and len(probabilities) == m and probabilities.size > 0
    check.need_shape(fine, "policy", probabilities, f"({m}, number of actions)", PolicyError)
    tolerance = tolerance_of(raw)
    probabilities = without_rounding(probabilities, tolerance)
    offsets = np.arange(m + 1) * probabilities.shape[1]
    check_probabilities(probabilities.reshape(-1), offsets, "policy", "", PolicyError, tolerance)
    return probabilities


def _as_actions(labels: NDArray[Any], K: int, classes: Any) -> Ints:
    """A data set's labels as action numbers, in the order of the classifier's classes, if any."""
    names = list(range(K)) if classes is None else np.asarray(classes).tolist()
    place = {name: k for k, name in enumerate(names)}
    codes = np.array([place.get(label, -1) for label in labels.tolist()])
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise ParameterError(
            f"{labels[row]!r} is not one of the policy's {K} actions "
            f"({', '.join(map(repr, names[:5]))}{', …' if K > 5 else ''}).",
            Place(column="y", row=row),
        )
    return codes


def sample_actions(probabilities: NDArray[np.float64], rng: np.random.Generator) -> Ints:
    """Simulate one action per row of (n, K) probabilities; never one of probability 0."""
    cumulative = np.cumsum(probabilities, axis=1)
    draw = rng.random(len(cumulative)) * cumulative[:, -1]
    return np.asarray((draw[:, None] >= cumulative).sum(axis=1), dtype=np.int64)
