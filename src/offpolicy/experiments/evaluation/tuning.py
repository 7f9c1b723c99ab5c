"""How good is a parameter chosen from the log? Against the best one in hindsight.

Many logs are drawn from a labelled data set; the mean squared error of every method is divided by
that with the one value of the parameter that turned out best over all of them, which nobody could
have known. Once on many settings (data set, split, reading of the set-up, size, kind of reward
model), for CAB, and for a model that is trained on each log's own contexts; and once for every
estimator that has a parameter, on those of Figure 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from offpolicy.datasets import files_of
from offpolicy.evaluation import evaluate
from offpolicy.evidence import RULES, chosen_by
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.tables import geometric_mean, grouped, markdown
from offpolicy.experiments.worlds import MODELS, OWN, READINGS, World, labelled_world

TUNED = ("CIPS", "SB", "SWITCH", "CAB", "CAB-DR")
FIXED = ("headline", "DM", "IPS", "SNIPS", "DR")
NAMES = {"theory": "ours", "slope": "SLOPE", "slope++": "SLOPE++", "switch": "SWITCH's rule"}


@dataclass(frozen=True)
class Setting:
    """One experiment: logs of ``n`` decisions from one split of one data set."""

    data: str
    reading: str
    split: int
    n: int
    model: str = "indicator"

    def __str__(self) -> str:
        return f"{self.data}, {self.n:,}, {self.model}, split {self.split}, {self.reading}"


@dataclass(frozen=True)
class Outcome:
    """Mean squared errors on one setting."""

    setting: Setting
    hindsight: dict[str, float]
    """Of the tuned estimators, with the best value of the parameter."""
    mse: dict[str, float]
    """Of every method; "CAB by slope" is with the value that the rule chose."""

    def ratio(self, method: str, to: str = "CAB") -> float:
        """To an estimator with its best value."""
        return self.mse[method] / self.hindsight[to]

    def rows(self) -> Iterator[dict[str, Any]]:
        """For a table of all."""
        methods = {f"{name} by hindsight": mse for name, mse in self.hindsight.items()} | self.mse
        for method, mse in methods.items():
            name, _, rule = method.partition(" by ")
            yield {"data": self.setting.data, "n": self.setting.n, "estimator": name,
                   "rule": rule, "mse": mse}  # fmt: skip


def run_one(
    setting: Setting, repeats: int, tuned: tuple[str, ...], seed: tuple[int, ...]
) -> Outcome:
    """Draw the logs of one setting of the experiment and evaluate each by every method."""
    world = labelled_world(setting.data, setting.reading, setting.split, setting.model)
    rng = np.random.default_rng([setting.split, setting.n, *seed])
    return Outcome(setting, *errors(world, setting.n, repeats, rng, tuned))


def errors(
    world: World, n: int, repeats: int, rng: np.random.Generator, tuned: Sequence[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Over the logs of a world, mean squared errors of the tuned estimators with the best value in
    hindsight; and of every method, with the value that a rule chose as "CAB by slope"."""
    curves: dict[str, list[Any]] = {name: [] for name in tuned}
    by_log = []
    for _ in range(repeats):
        log, policy, prediction = world.draw(n, rng)
        result = evaluate(
            log, policy, prediction=prediction, estimators=[*tuned, *FIXED[1:]],
            reward_range=(0.0, 1.0),
        )  # fmt: skip
        values = {row.estimator.split("(")[0]: row.value for row in result}
        values["headline"] = headline = result.headline.value
        for name, table in zip(tuned, result.tuned, strict=True):
            curves[name].append(table.value)
            for rule in RULES:
                chosen = chosen_by(rule, table, 1.0, headline)
                values[f"{name} by {rule}"] = table.value[table.grid == chosen][0]
        by_log.append(values)

    def mse(values: list[Any]) -> list[float]:
        return [float(x) for x in ((np.array(values) - world.value) ** 2).mean(axis=0)]

    best = {name: min(mse(curves[name])) for name in tuned}
    return best, dict(zip(by_log[0], mse([list(log.values()) for log in by_log]), strict=True))


# -- CAB, on many settings -----------------------------------------------------------------------

_OWN = {name: f"{name}, own model" for name in ("headline", "CAB-DR", "DM")}
METHODS = {
    "headline": "headline", "CAB": "CAB", "CAB by SLOPE": "CAB by slope",
    "CAB by SLOPE++": "CAB by slope++", "CAB by SWITCH's rule": "CAB by switch",
    "CAB-DR": "CAB-DR", "DM": "DM", "IPS": "IPS", "SNIPS": "SNIPS", "DR": "DR",
    **dict(zip(_OWN.values(), _OWN.values(), strict=True)),
}  # fmt: skip
"""As they are shown, and in `errors` or, of the library's own model, in `of_sets`."""
SIZES = (500, 2000)


def of_sets(cells: Cells, sets: Sequence[str], repeats: int, splits: int) -> list[Outcome]:
    """The experiment on tuning, in all combinations; and on the same logs with contexts
    instead of the paper's model, so that the library trains its own."""
    every = itertools.product(sets, range(splits), READINGS, MODELS, SIZES)
    wanted = [Setting(data, reading, split, n, model) for data, split, reading, model, n in every]

    def found(what: str, shown: Sequence[Setting], logs: int) -> list[Outcome]:
        work = [
            (one, logs, ("CAB", "CAB-DR"), tuple(map(ord, str(setting))))
            for one, setting in zip(shown, wanted, strict=True)
        ]
        return cells.all(what, run_one, work, files_of(sets))

    given = found("settings", wanted, repeats)
    contexts = [replace(setting, model=OWN) for setting in wanted]
    own = found("settings, own model", contexts, repeats)
    return [
        replace(one, mse=one.mse | {name: other.mse[bare] for bare, name in _OWN.items()})
        for one, other in zip(given, own, strict=True)
    ]


def to_markdown(outcomes: Sequence[Outcome], repeats: int) -> str:
    """The table on tuning: geometric means by reading, the worst settings, and every setting."""
    by_reading = grouped(outcomes, lambda outcome: outcome.setting.reading)
    means, worst = [], []
    for name, method in METHODS.items():
        ratios = [[o.ratio(method) for o in part] for part in [*by_reading.values(), outcomes]]
        means.append([name, *(f"{geometric_mean(part):.2f}" for part in ratios),
                      f"{max(ratios[-1]):.1f}"])  # fmt: skip
        last = max(outcomes, key=lambda outcome: outcome.ratio(method))
        worst.append(f"- {name}: {last.setting}")
    each = [
        [str(o.setting), f"{o.hindsight['CAB'] * 1e5:.1f}"]
        + [f"{o.ratio(method):.2f}" for method in METHODS.values()]
        for o in outcomes
    ]
    parts = [
        f"MSE relative to CAB with the best M in hindsight; {repeats} logs a setting, "
        f"{len(outcomes)} settings; geometric means.",
        markdown(["method", *by_reading, "all", "worst"], means),
        "Where each was worst:",
        "\n".join(worst),
        markdown(["setting", "best CAB, MSE × 1e5", *METHODS], each),
    ]
    return "\n\n".join(parts) + "\n"


# -- every estimator, on the data sets of Figure 2 -----------------------------------------------


def chosen_table(outcomes: Sequence[Outcome]) -> str:
    """The table on tuning for Figure 2: geometric means over sets and sizes, and the worst."""
    tuned = []
    for name in TUNED:
        relative = geometric_mean([o.hindsight[name] / o.hindsight["CAB"] for o in outcomes])
        by_rule = [[o.ratio(f"{name} by {rule}", name) for o in outcomes] for rule in NAMES]
        tuned.append([name, f"{relative:.2f}", *map(_mean_and_worst, by_rule)])
    fixed = [[name, _mean_and_worst([o.ratio(name) for o in outcomes])] for name in FIXED]
    first = markdown(["estimator", "in hindsight, relative to CAB", *NAMES.values()], tuned)
    head = ["no parameter to choose", "relative to CAB in hindsight (worst)"]
    return f"{first}\n\n{markdown(head, fixed)}\n"


def _mean_and_worst(ratios: Sequence[float]) -> str:
    return f"{geometric_mean(ratios):.2f} ({max(ratios):.2g})"
