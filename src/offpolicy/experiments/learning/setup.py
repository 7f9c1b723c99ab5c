"""The paper's learning experiments: Table 2 and Figure 4, and the same with our own recipe.

Follows the appendix: 48% of the examples train, 32% validate, 20% test. A share of the training
part (20%) trains the logger, another (10%) the reward model; n decisions are logged on the rest of
the way, with replacement, and as many on the validation part. What the text leaves open is read as
in the evaluation experiments: raw features, one-vs-rest logistic regressions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import Examples, load, simulate_bandit
from offpolicy.experiments.accuracy import members_at
from offpolicy.experiments.worlds import PAPER as READING
from offpolicy.experiments.worlds import classifier
from offpolicy.learning import LearnerCV, SoftmaxLearner
from offpolicy.logs import BanditLog

ESTIMATORS = ("DM", "DR", "IPS", "CIPS", "SB", "CAB", "CAB-DR")
CLIPS = (1.0, 5.0, 30.0, 200.0)
BLENDS = (0.1, 0.5, 0.9)
PENALTIES = (1e-8, 1e-6, 1e-4)
STARTS = 10
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
    logged: float
    """How often the logger was right."""

    def error(self, learner: Any) -> float:
        """How often the policy is expected to be wrong on the test examples."""
        pi = learner.predict_proba(self.X)
        return float(1.0 - pi[np.arange(len(self.y)), self.y].mean())


def set_up(condition: Condition) -> Setup:
    """A run of the paper's learning experiment: split, train logger and reward model, and log."""
    X, y = load(condition.data)[:2]
    K = int(y.max()) + 1
    seed = [condition.run, *map(ord, condition.data)]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    train, validation, test = np.split(order, [int(0.48 * len(y)), int(0.8 * len(y))])
    first = max(int(condition.logger_share * len(train)), 2)
    second = max(int(condition.model_share * len(train)), 2)
    known = train[first : first + second]

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
    scores = [_likelihood(fit(validation), y[validation]) for fit in fits]
    model = fits[int(np.argmax(scores))]
    return Setup(
        log,
        validating,
        model(rows),
        (X[known], np.eye(K)[y[known]]),
        X[test],
        y[test],
        float(log.reward.mean()),
    )


def _likelihood(probabilities: Floats, y: Ints) -> float:
    of_label = probabilities[np.arange(len(y)), y]
    return float(np.log(np.maximum(of_label, 1e-12)).mean())


# -- recipes -------------------------------------------------------------------------------------


def as_in_the_paper(setup: Setup, estimators: Sequence[str] = ESTIMATORS) -> dict[str, float]:
    """The error of each by the paper's recipe: raw features, parameters chosen by clipped IPS on
    the validation log, then the best of ten random starts."""
    errors = {}
    for estimator in estimators:
        plain = SoftmaxLearner(features="raw", start="zero", max_iter=1000)
        grid = {"estimator": members_at(estimator, CLIPS, BLENDS), "l2": PENALTIES}
        search = LearnerCV(plain, grid, rule="cips90", refit=False)
        search.fit(setup.train, validation=setup.validation, prediction=setup.prediction)
        again = SoftmaxLearner(**search.best_.get_params()).set_params(
            start="random", starts=STARTS
        )
        again.fit(setup.train, prediction=setup.prediction)
        errors[estimator] = setup.error(again)
    return errors


def ours(setup: Setup) -> dict[str, float]:
    """By our recipe beside the paper's: the error of the default learner, which also sees what the
    reward model was trained on; linear, with a kernel, and both with the validation log too."""
    both = _joined(setup.train, setup.validation)
    errors = {}
    for name, log in (("", setup.train), (", refitted", both)):
        for features in ("linear", "kernel"):
            learner = SoftmaxLearner(features=features).fit(log, known=setup.known)
            errors[f"{features}{name}"] = setup.error(learner)
    return errors


RECIPES: dict[str, Callable[..., dict[str, float]]] = {"paper": as_in_the_paper, "ours": ours}


def _joined(*logs: BanditLog) -> BanditLog:
    def column(name: str) -> Any:
        return np.concatenate([getattr(log, name) for log in logs])

    logging = column("logging").reshape(-1, len(logs[0].actions or ()))
    return BanditLog.from_arrays(
        action=column("chosen"),
        reward=column("reward"),
        logging=logging,
        context=column("context"),
    )
