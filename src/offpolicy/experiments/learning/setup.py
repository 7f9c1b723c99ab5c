"""The data of the paper's learning experiments: Table 2 and Figure 4.

Follows the appendix: 48% of the examples train, 32% validate, 20% test. A share of the training
part (20%) trains the logger, 10% the reward model; n decisions are logged on the training part,
with replacement, and as many on the validation part. Both are one-vs-rest logistic regressions on
raw features, as in the evaluation experiments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import Examples, load, simulate_bandit
from offpolicy.experiments.worlds import PAPER as READING
from offpolicy.experiments.worlds import classifier
from offpolicy.logs import BanditLog

ESTIMATORS = ("DM", "DR", "IPS", "CIPS", "SB", "CAB", "CAB-DR")
_REGULARISATION = (0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Condition:
    """One run of the experiment."""

    data: str
    run: int
    n: int = 5000
    logger_share: float = 0.2
    model_share: float = 0.1


class Setup(NamedTuple):
    """Logs to learn from, what else is known, and the examples that test."""

    train: BanditLog
    validation: BanditLog
    prediction: Floats
    """The reward model on the training log: (n, K)."""
    known: tuple[Floats, Floats]
    """The contexts it was trained on, and the rewards of all actions there."""
    X: Floats
    y: Ints
    logger: Floats
    """The logger's probabilities on the test examples."""
    rows: Ints
    """The example of every logged decision."""

    def error(self, learner: Any) -> float:
        """How often the policy is expected to be wrong on the test examples."""
        return self.error_of(learner.predict_proba(self.X))

    def error_of(self, pi: Floats) -> float:
        return float(1.0 - pi[np.arange(len(self.y)), self.y].mean())

    def without_repeats(self) -> tuple[BanditLog, Ints]:
        """The training log with what was drawn repeatedly once, weighted by how often: the same
        objective from fewer rows. And where each stood."""
        pair = self.rows * self.prediction.shape[1] + self.train.chosen
        _, first, count = np.unique(pair, return_index=True, return_counts=True)
        return self.train.take(first).replace(row_weight=count.astype(np.float64)), first


@lru_cache(maxsize=2)
def set_up(condition: Condition, parts: str = "disjoint") -> Setup:
    """A run of the paper's learning experiment: split, train logger and reward model, and log.

    The reward model learns from the "same" part of the examples as the logger, or from a
    "disjoint" one.
    """
    X, y = load(condition.data)[:2]
    K = int(y.max()) + 1
    seed = [condition.run, *map(ord, condition.data)]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    train, validation, test = np.split(order, [int(0.48 * len(y)), int(0.8 * len(y))])
    first = max(int(condition.logger_share * len(train)), 2)
    second = max(int(condition.model_share * len(train)), 2)
    known = train[:second] if parts == "same" else train[first : first + second]

    def trained(rows: Ints, C: float = 1.0) -> Callable[[Ints], Floats]:
        predict = classifier(Examples(X, y), rows, READING, C)

        def probabilities(others: Ints) -> Floats:
            table = predict(others)
            return np.asarray(table / table.sum(axis=1, keepdims=True))

        return probabilities

    logger = trained(train[:first])

    def logged(rows: Ints) -> tuple[BanditLog, Ints]:
        log, drawn = simulate_bandit(X[rows], y[rows], logger(rows), n=condition.n, rng=rng)
        return log, rows[drawn]

    log, rows = logged(train)
    validating, _ = logged(validation)
    fits = [trained(known, C) for C in _REGULARISATION]
    right = (np.arange(len(validation)), y[validation])
    scores = [np.log(np.maximum(fit(validation)[right], 1e-12)).mean() for fit in fits]
    model = fits[int(np.argmax(scores))]
    return Setup(
        log,
        validating,
        model(rows),
        (X[known], np.eye(K)[y[known]]),
        X[test],
        y[test],
        logger(test),
        rows,
    )
