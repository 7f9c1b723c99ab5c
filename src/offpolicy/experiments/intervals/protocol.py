"""Labelled sets as logs, in a way that this library was not made for.

Half of a set trains two softmax regressions on standardised features, each on a bootstrap sample
of that half. With their probabilities p and p′ of the other half, softmax(p) writes the log and
softmax(k·p′) is evaluated, k = 10 (strong), 3 (mild), −2 (neg). Every example of the other half is
one decision, the right label earns 1, and the truth is the policy's value on these very examples.

Actions are the classes of the training half. One that a bootstrap sample misses has p = 0, which
softmax turns into a probability like that of any other unlikely class; an example whose label is
no action earns nothing, whatever is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.datasets import Examples, load, sample_actions
from offpolicy.errors import MissingColumnError
from offpolicy.evaluation import compare, evaluate
from offpolicy.experiments.intervals.outcomes import Cell, Outcome
from offpolicy.experiments.worlds import classifier, halves
from offpolicy.logs import BanditLog
from offpolicy.models import RewardModel
from offpolicy.results import Result

SETS = ("optdigits", "ecoli", "yeast", "glass", "wine")
TARGETS = {"strong": 10.0, "mild": 3.0, "neg": -2.0}
KNOWN = ("candidates", "chosen only")
MODELS = ("no model", "ridge", "contexts")
"""None; a ridge regression for each action, cross-fitted on the log and given as a prediction; and
contexts in the log, so that the library trains its own."""


class Split(NamedTuple):
    """One split of a labelled set; tables are (decisions, actions)."""

    logging: Floats
    policies: dict[str, Floats]
    reward: Floats
    context: Floats

    def value(self, table: Floats) -> float:
        """What these probabilities earn on the log's own contexts."""
        return float((table * self.reward).sum(axis=1).mean())

    def draws(self, rng: np.random.Generator, draws: int) -> Iterator[BanditLog]:
        """Logs with contexts and π₀ of every candidate."""
        for _ in range(draws):
            action = sample_actions(self.logging, rng)
            yield BanditLog.from_arrays(
                action=action,
                reward=self.reward[np.arange(len(action)), action],
                logging=self.logging,
                context=self.context,
            )


def split_of(examples: Examples, rng: np.random.Generator) -> Split:
    """Train both regressions on one half of the set, and predict the other."""
    from scipy.special import softmax

    half, test = halves(len(examples.y), int(rng.integers(2**32)))
    actions = np.unique(examples.y[half])
    p, other = (
        classifier(examples, rng.choice(half, len(half)), "standardised, softmax")(test)
        for _ in range(2)
    )
    mean, spread = examples.X[half].mean(axis=0), examples.X[half].std(axis=0)
    return Split(
        softmax(p[:, actions], axis=1),
        {name: softmax(k * other[:, actions], axis=1) for name, k in TARGETS.items()},
        (examples.y[test, None] == actions).astype(np.float64),
        (examples.X[test] - mean) / np.where(spread > 0.0, spread, 1.0),
    )


def logs_of(name: str, start: int, splits: int, draws: int) -> Iterator[tuple[Split, BanditLog]]:
    """The logs of splits ``start``, ``start + 1``, …; the same whatever else is drawn."""
    examples = load(name)
    for number in range(start, start + splits):
        rng = np.random.default_rng([number, *map(ord, name)])
        split = split_of(examples, rng)
        for log in split.draws(rng, draws):
            yield split, log


def run_block(name: str, model: str, start: int, splits: int, draws: int) -> list[Cell]:
    """Some splits of a set with one model: every policy, and both of what may be known."""
    return cells_of(name, model, draws, logs_of(name, start, splits, draws))


def cells_of(
    name: str, model: str, draws: int, logs: Iterable[tuple[Split, BanditLog]],
    knowns: Sequence[str] = KNOWN,
) -> list[Cell]:  # fmt: skip
    """The protocol's cells from these logs, so many of each split."""
    from sklearn.linear_model import Ridge

    outcomes: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    n = 0
    for split, log in logs:
        n, prediction = len(log), None
        if model == "ridge":
            prediction = RewardModel(Ridge(), mode="per-action").fit(log).predict(log)
        if model != "contexts":
            log = log.replace(context=None)
        for known in knowns:
            shown = log if known == "candidates" else log.replace(logging=None)
            result = _evaluated(shown, split.policies, prediction, model != "no model")
            for target, table in split.policies.items():
                outcomes[target, known].append(Outcome.of(split.value(table), result, target))
    return [
        Cell.of(name, target, model, known, n, _by_split(part, draws))
        for (target, known), part in outcomes.items()
    ]


def _evaluated(log: BanditLog, policies: Any, prediction: Floats | None, modelled: bool) -> Result:
    """With DR beside SNIPS, unless there is no model: given contexts, short logs have none."""
    try:
        wanted = ["SNIPS", "DR"] if modelled else ["SNIPS"]
        return evaluate(log, policies, prediction=prediction, estimators=wanted)
    except MissingColumnError:
        return evaluate(log, policies, estimators=["SNIPS"])


def run_differences(name: str, splits: int, draws: int) -> list[Cell]:
    """`compare` on a set, without a model: the strong policy less the mild one and the logged."""
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    n = 0
    for split, log in logs_of(name, 0, splits, draws):
        n, policies = len(log), {which: split.policies[which] for which in ("strong", "mild")}
        compared = compare(log.replace(context=None), policies, multiplicity="none")
        tables = policies | {"logged": split.logging}
        for other in ("mild", "logged"):
            truth = split.value(tables["strong"]) - split.value(tables[other])
            outcomes[other].append(Outcome.about(truth, compared["strong", other]))
    return [
        Cell.of(f"paired difference, {name}", f"strong − {other}", "no model", "candidates", n,
                _by_split(part, draws))
        for other, part in outcomes.items()
    ]  # fmt: skip


def _by_split(outcomes: list[Outcome], draws: int) -> list[list[Outcome]]:
    return [outcomes[at : at + draws] for at in range(0, len(outcomes), draws)]
