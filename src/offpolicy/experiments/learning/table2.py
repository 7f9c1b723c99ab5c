"""Table 2: expected test errors of policies learned with each estimator, beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.datasets import files_of
from offpolicy.experiments import claims
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import Verdict
from offpolicy.experiments.learning.setup import ESTIMATORS, RECIPES, Condition, set_up
from offpolicy.experiments.saving import Report
from offpolicy.experiments.tables import grouped, markdown, mean_text, named, paper_name

PAPER = {
    "letter": (0.6372, 0.6852, 0.8969, 0.8504, 0.6091, 0.5740, 0.5877),
    "optdigits": (0.0649, 0.0471, 0.0695, 0.0447, 0.0460, 0.0445, 0.0461),
    "satimage": (0.3083, 0.2762, 0.3266, 0.2415, 0.2481, 0.2442, 0.2762),
    "pendigits": (0.1133, 0.1191, 0.2748, 0.1228, 0.0949, 0.0917, 0.0946),
}
"""Its Table 2, in the order of `ESTIMATORS`."""
SCHEMA = "offpolicy.learning/1"
OURS = ("linear", "kernel", "linear, refitted", "kernel, refitted")


def run(cells: Cells, sets: Sequence[str], runs: int, recipe: str) -> Report:
    """The paper's Table 2 by one of the recipes."""
    conditions = [Condition(data, run) for data in sets for run in range(runs)]
    learned = learn(conditions, recipe, cells)
    text = to_markdown(learned)
    if recipe == "paper":
        text += "\n" + claims.to_markdown(judged(learned))
    files = {"results.json": {"schema": SCHEMA, "runs": learned}, "table.md": text}
    return Report(text, files, folder=f"table2-{recipe}")


@dataclass(frozen=True)
class Learned:
    """Expected test errors in one run."""

    condition: Condition
    recipe: str
    logger: float
    errors: dict[str, float]


def learn(conditions: Sequence[Condition], recipe: str, cells: Cells) -> list[Learned]:
    files = files_of(dict.fromkeys(condition.data for condition in conditions))
    return cells.all("runs", run_one, [(condition, recipe) for condition in conditions], files)


def run_one(condition: Condition, recipe: str) -> Learned:
    setup = set_up(condition)
    return Learned(condition, recipe, 1.0 - setup.logged, RECIPES[recipe](setup))


def errors_of(learned: Sequence[Learned], method: str, **where: Any) -> Floats:
    """The test error in each run of the experiment that matches."""
    return np.array(
        [
            run.errors[method]
            for run in learned
            if method in run.errors
            and all(getattr(run.condition, key) == value for key, value in where.items())
        ]
    )


def to_markdown(learned: Sequence[Learned]) -> str:
    """Our Table 2 beside the paper's; the logger's error; our own recipe."""
    by_set = grouped(learned, lambda run: run.condition.data)
    recipes = {run.recipe for run in learned}

    def means(name: str) -> list[str]:
        return [mean_text(errors_of(runs, name), 4) for runs in by_set.values()]

    rows = []
    for k, name in enumerate(ESTIMATORS if "paper" in recipes else ()):
        beside = [f" ({PAPER[data][k]:.4f})" if data in PAPER else "" for data in by_set]
        rows.append([name, *map(str.__add__, means(name), beside)])
    for name in OURS if "ours" in recipes else ():
        rows.append([f"*ours: {name}*", *means(name)])
    loggers = [mean_text([run.logger for run in runs], 4) for runs in by_set.values()]
    rows.append(["the logger, on the log", *loggers])
    return (
        "Expected test error, mean ± standard error over the runs (the paper's figure).\n\n"
        f"{markdown(['objective', *by_set], rows)}\n"
    )


def judged(learned: Sequence[Learned]) -> list[Verdict]:
    """What the paper says of its Table 2, on the data sets at hand."""
    means = {
        data: {name: float(errors_of(runs, name).mean()) for name in ESTIMATORS}
        for data, runs in grouped(learned, lambda run: run.condition.data).items()
    }
    verdicts = []
    for text, others, limit in (
        ("CAB is among the best on every data set (within 10% of the best)", ESTIMATORS, 1.1),
        ("CAB-DR is no better than CAB", ["CAB-DR"], 1.0),
        *(
            (f"CAB beats {paper_name(name)}", [name], 1.0)
            for name in ("DM", "IPS", "DR", "CIPS", "SB")
        ),
    ):
        ratios = {
            data: of["CAB"] / min(of[other] for other in others) for data, of in means.items()
        }
        verdicts.append(Verdict(text, max(ratios.values()) <= limit, named(ratios)))
    return verdicts
