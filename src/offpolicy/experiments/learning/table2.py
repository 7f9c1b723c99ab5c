"""Table 2: expected test errors of policies learned with each estimator, beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.datasets import stamps
from offpolicy.experiments import saving
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import Verdict
from offpolicy.experiments.learning.setup import (
    ESTIMATORS,
    Condition,
    as_in_the_paper,
    ours,
    set_up,
)
from offpolicy.experiments.tables import markdown, mean_text, shown

PAPER = {
    "letter": (0.6372, 0.6852, 0.8969, 0.8504, 0.6091, 0.5740, 0.5877),
    "optdigits": (0.0649, 0.0471, 0.0695, 0.0447, 0.0460, 0.0445, 0.0461),
    "satimage": (0.3083, 0.2762, 0.3266, 0.2415, 0.2481, 0.2442, 0.2762),
    "pendigits": (0.1133, 0.1191, 0.2748, 0.1228, 0.0949, 0.0917, 0.0946),
}
"""Its Table 2, in the order of `ESTIMATORS`."""
OURS = ("linear", "kernel", "linear, refitted", "kernel, refitted")
RECIPES: dict[str, Callable[..., dict[str, float]]] = {"paper": as_in_the_paper, "ours": ours}


def conditions(sets: Sequence[str], runs: int) -> list[Condition]:
    """Those of the table."""
    return [Condition(data, run) for data in sets for run in range(runs)]


@dataclass(frozen=True)
class Learned:
    """Expected test errors in one run."""

    condition: Condition
    recipe: str
    logger: float
    errors: dict[str, float]


def run(wanted: Sequence[Condition], recipe: str, cells: Cells) -> list[Learned]:
    """In order."""
    made_from = stamps(dict.fromkeys(condition.data for condition in wanted))
    return cells.all("runs", run_one, [(condition, recipe) for condition in wanted], made_from)


def run_one(condition: Condition, recipe: str) -> Learned:
    setup = set_up(condition)
    return Learned(condition, recipe, 1.0 - setup.logged, RECIPES[recipe](setup))


def errors_of(found: Sequence[Learned], method: str, **where: Any) -> Floats:
    """Of each run that matches."""
    return np.array(
        [
            one.errors[method]
            for one in found
            if method in one.errors
            and all(getattr(one.condition, key) == value for key, value in where.items())
        ]
    )


def to_markdown(found: Sequence[Learned]) -> str:
    """Ours beside the paper's; the logger's error; our own recipe."""
    sets = list(dict.fromkeys(one.condition.data for one in found))
    recipes = {one.recipe for one in found}

    def mean(name: str, data: str) -> str:
        return mean_text(errors_of(found, name, data=data), 4)

    rows = []
    for k, name in enumerate(ESTIMATORS if "paper" in recipes else ()):
        beside = [f" ({PAPER[data][k]:.4f})" if data in PAPER else "" for data in sets]
        rows.append([name, *(mean(name, data) + b for data, b in zip(sets, beside, strict=True))])
    for name in OURS if "ours" in recipes else ():
        rows.append([f"*ours: {name}*", *(mean(name, data) for data in sets)])
    loggers = [[one.logger for one in found if one.condition.data == data] for data in sets]
    rows.append(["the logger, on the log", *(mean_text(one, 4) for one in loggers)])
    return (
        "Expected test error, mean ± standard error over the runs (the paper's figure).\n\n"
        f"{markdown(['objective', *sets], rows)}\n"
    )


def claims(found: Sequence[Learned]) -> list[Verdict]:
    """What the paper says of its Table 2, on the data sets at hand."""
    sets = list(dict.fromkeys(one.condition.data for one in found))
    means = {
        data: {name: float(errors_of(found, name, data=data).mean()) for name in ESTIMATORS}
        for data in sets
    }
    judged = []
    for text, others, limit in (
        ("CAB is among the best on every data set (within 10% of the best)", ESTIMATORS, 1.1),
        ("CAB-DR is no better than CAB", ["CAB-DR"], 1.0),
        *((f"CAB beats {shown(one)}", [one], 1.0) for one in ("DM", "IPS", "DR", "CIPS", "SB")),
    ):
        ratios = {data: means[data]["CAB"] / min(means[data][o] for o in others) for data in sets}
        judged.append(Verdict(text, max(ratios.values()) <= limit, named(ratios)))
    return judged


def named(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def save(
    found: Sequence[Learned], text: str, folder: Path, **pictures: Callable[[Path], None]
) -> list[Path]:
    """Write the numbers, the tables, and pictures."""
    body = {"schema": "offpolicy.learning/1", "runs": found}
    return saving.save(
        folder,
        {"results.json": body, "table.md": text},
        {f"{name}.png": draw for name, draw in pictures.items()},
    )
