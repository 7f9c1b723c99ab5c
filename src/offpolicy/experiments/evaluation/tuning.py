"""How good is a parameter chosen from the log? Against the best one in hindsight.

Many logs are drawn from a labelled data set; the mean squared error of every method is divided by
that with the one value of the parameter that turned out best over all of them, which nobody could
have known. Once on many settings (data set, split, reading of the set-up, size, kind of reward
model), for CAB; and once for every estimator that has a parameter, on those of Figure 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy.datasets import stamps
from offpolicy.evaluation import evaluate
from offpolicy.evidence import RULES, chosen_by
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.saving import save
from offpolicy.experiments.tables import geometric_mean, markdown
from offpolicy.experiments.worlds import MODELS, READINGS, SETS, World, labelled_world

TUNED = ("CIPS", "SB", "SWITCH", "CAB", "CAB-DR")
FIXED = ("headline", "DM", "IPS", "SNIPS", "DR")
NAMES = {"theory": "ours", "slope": "SLOPE", "slope++": "SLOPE++", "switch": "SWITCH's rule"}


def errors(
    world: World, n: int, repeats: int, rng: np.random.Generator, tuned: Sequence[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Over the logs, mean squared errors of the tuned estimators with the best value in hindsight;
    and of every method, those with the value chosen by a rule being called "CAB by slope"."""
    curves: dict[str, list[Any]] = {name: [] for name in tuned}
    found = []
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
        found.append(values)

    def mse(values: list[Any]) -> list[float]:
        return [float(x) for x in ((np.array(values) - world.value) ** 2).mean(axis=0)]

    best = {name: min(mse(curves[name])) for name in tuned}
    return best, dict(zip(found[0], mse([list(one.values()) for one in found]), strict=True))


# -- CAB, on many settings -----------------------------------------------------------------------

METHODS = {
    "headline": "headline", "CAB": "CAB", "CAB by SLOPE": "CAB by slope",
    "CAB by SLOPE++": "CAB by slope++", "CAB by SWITCH's rule": "CAB by switch",
    "CAB-DR": "CAB-DR", "DM": "DM", "IPS": "IPS", "SNIPS": "SNIPS", "DR": "DR",
}  # fmt: skip
"""As they are shown, and in `errors`."""


@dataclass(frozen=True)
class Setting:
    """One experiment: logs of ``n`` decisions from one split of one data set."""

    data: str
    reading: str
    split: int
    n: int
    model: str

    def __str__(self) -> str:
        return f"{self.data}, {self.n:,}, {self.model}, split {self.split}, {self.reading}"


@dataclass(frozen=True)
class Outcome:
    """Mean squared errors: of CAB with the best M in hindsight, and of every method."""

    setting: Setting
    best: float
    mse: dict[str, float]

    def ratio(self, method: str) -> float:
        return self.mse[method] / self.best


def settings(
    sets: Sequence[str] = SETS,
    *,
    sizes: Sequence[int] = (500, 2000),
    splits: int = 2,
    readings: Sequence[str] = READINGS,
) -> list[Setting]:
    """All combinations."""
    every = itertools.product(sets, range(splits), readings, MODELS, sizes)
    return [Setting(data, reading, split, n, model) for data, split, reading, model, n in every]


def run(wanted: Sequence[Setting], cells: Cells, *, repeats: int = 100) -> Iterator[Outcome]:
    """The outcomes, in order, as they are done."""
    made_from = stamps(dict.fromkeys(one.data for one in wanted))
    return cells.each(run_one, [(setting, repeats) for setting in wanted], made_from)


def run_one(setting: Setting, repeats: int) -> Outcome:
    """Draw the logs of one setting and evaluate each by every method."""
    world = labelled_world(setting.data, setting.reading, setting.split, setting.model)
    rng = np.random.default_rng([setting.split, setting.n, *map(ord, str(setting))])
    best, mse = errors(world, setting.n, repeats, rng, ("CAB", "CAB-DR"))
    return Outcome(setting, best["CAB"], {name: mse[key] for name, key in METHODS.items()})


def to_markdown(outcomes: Sequence[Outcome], repeats: int) -> str:
    """The geometric means by reading, the worst settings, and every setting."""
    readings = list(dict.fromkeys(outcome.setting.reading for outcome in outcomes))
    by_reading = [[o for o in outcomes if o.setting.reading == reading] for reading in readings]
    worst = {name: max(outcomes, key=lambda one: one.ratio(name)) for name in METHODS}
    means = [
        [name]
        + [f"{geometric_mean([o.ratio(name) for o in own]):.2f}" for own in [*by_reading, outcomes]]
        + [f"{worst[name].ratio(name):.1f}"]
        for name in METHODS
    ]
    each = [
        [str(o.setting), f"{o.best * 1e5:.1f}", *(f"{o.ratio(name):.2f}" for name in METHODS)]
        for o in outcomes
    ]
    parts = [
        f"MSE relative to CAB with the best M in hindsight; {repeats} logs a setting, "
        f"{len(outcomes)} settings; geometric means.",
        markdown(["method", *readings, "all", "worst"], means),
        "Where each was worst:",
        "\n".join(f"- {name}: {one.setting}" for name, one in worst.items()),
        markdown(["setting", "best CAB, MSE × 1e5", *METHODS], each),
    ]
    return "\n\n".join(parts) + "\n"


def save_outcomes(outcomes: Sequence[Outcome], repeats: int, folder: Path) -> Path:
    """Write the table and the numbers."""
    body = {"repeats": repeats, "outcomes": outcomes}
    return save(folder, {"results.json": body, "table.md": to_markdown(outcomes, repeats)})[1]


# -- every estimator, on the data sets of Figure 2 -----------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """Mean squared errors on one data set at one n."""

    data: str
    n: int
    hindsight: dict[str, float]
    """With the best value of the parameter."""
    chosen: dict[str, dict[str, float]]
    """By estimator and rule."""
    fixed: dict[str, float]
    """What has no parameter to choose, and the headline."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """For a table of all."""
        listed = [
            (name, rule, mse)
            for name in self.hindsight
            for rule, mse in [("hindsight", self.hindsight[name]), *self.chosen[name].items()]
        ]
        for name, rule, mse in [*listed, *((name, "", mse) for name, mse in self.fixed.items())]:
            yield {"data": self.data, "n": self.n, "estimator": name, "rule": rule, "mse": mse}


def choose_all(data: str, n: int, repeats: int, reading: str, seed: int) -> Chosen:
    """Draw the logs of one data set, and choose every parameter by every rule."""
    world = labelled_world(data, reading, seed)
    rng = np.random.default_rng([seed, n, 1, *map(ord, data)])
    best, mse = errors(world, n, repeats, rng, TUNED)
    chosen = {name: {rule: mse[f"{name} by {rule}"] for rule in RULES} for name in TUNED}
    return Chosen(data, n, best, chosen, {name: mse[name] for name in FIXED})


def chosen_table(rows: Sequence[Chosen]) -> str:
    """Geometric means over data sets and sizes, and the worst of each."""
    tuned, fixed = [], []
    for name in TUNED:
        relative = geometric_mean([row.hindsight[name] / row.hindsight["CAB"] for row in rows])
        by_rule = [[row.chosen[name][rule] / row.hindsight[name] for row in rows] for rule in NAMES]
        tuned.append([name, f"{relative:.2f}", *map(_mean_and_worst, by_rule)])
    for name in FIXED:
        ratios = [row.fixed[name] / row.hindsight["CAB"] for row in rows]
        fixed.append([name, _mean_and_worst(ratios)])
    first = markdown(["estimator", "in hindsight, relative to CAB", *NAMES.values()], tuned)
    head = ["no parameter to choose", "relative to CAB in hindsight (worst)"]
    return f"{first}\n\n{markdown(head, fixed)}\n"


def _mean_and_worst(ratios: Sequence[float]) -> str:
    return f"{geometric_mean(ratios):.2f} ({max(ratios):.2g})"
