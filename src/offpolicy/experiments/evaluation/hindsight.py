"""What it costs to choose the parameter from the log, for every estimator that has one.

The mean squared error with the parameter chosen by each rule, divided by that with the one value
that turned out best over all logs, which nobody could have known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy.datasets import stamps
from offpolicy.evaluation import evaluate
from offpolicy.evidence import RULES, chosen_by
from offpolicy.experiments.cells import each_cell
from offpolicy.experiments.evaluation.accuracy import problem_from
from offpolicy.experiments.evaluation.choosing import draw

TUNED = ("CIPS", "SB", "SWITCH", "CAB", "CAB-DR")
FIXED = ("headline", "DM", "IPS", "SNIPS", "DR")
NAMES = {"theory": "ours", "slope": "SLOPE", "slope++": "SLOPE++", "switch": "SWITCH's rule"}


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


def run(
    folder: Path,
    *,
    sets: Sequence[str],
    sizes: Sequence[int],
    repeats: int,
    reading: str,
    seed: int = 0,
    jobs: int = 1,
) -> Iterator[Chosen]:
    """Set by set and size by size; what ``folder`` holds of an earlier run is taken from there."""
    cells = [(data, n, repeats, reading, seed) for data in sets for n in sizes]
    for (data, n, *_), part in zip(
        cells,
        each_cell(_cell, cells, folder=folder, jobs=jobs, made_from=stamps(sets)),
        strict=True,
    ):
        yield Chosen(data, n, **part)


def _cell(data: str, n: int, repeats: int, reading: str, seed: int) -> dict[str, Any]:
    problem = problem_from(data, reading, seed)
    rng = np.random.default_rng([seed, n, 1, *map(ord, data)])
    curves: dict[str, list[Any]] = {name: [] for name in TUNED}
    chosen: dict[str, list[Any]] = {name: [] for name in TUNED}
    fixed = []
    for _ in range(repeats):
        log, policy, prediction = draw(problem, n, rng)
        result = evaluate(
            log,
            policy,
            prediction=prediction,
            estimators=[*TUNED, *FIXED[1:]],
            reward_range=(0.0, 1.0),
        )
        headline = result.headline.value
        for name, tuned in zip(TUNED, result.tuned, strict=True):
            curves[name].append(tuned.value)
            picks = [chosen_by(rule, tuned, 1.0, headline) for rule in RULES]
            chosen[name].append([tuned.value[tuned.grid == pick][0] for pick in picks])
        fixed.append([headline, *(result[name].value for name in FIXED[1:])])

    def mse(values: list[Any]) -> list[float]:
        return [float(x) for x in ((np.array(values) - problem.value) ** 2).mean(axis=0)]

    return {
        "hindsight": {name: min(mse(curves[name])) for name in TUNED},
        "chosen": {name: dict(zip(RULES, mse(chosen[name]), strict=True)) for name in TUNED},
        "fixed": dict(zip(FIXED, mse(fixed), strict=True)),
    }


def to_markdown(rows: Sequence[Chosen]) -> str:
    """Geometric means over data sets and sizes, and the worst of each."""
    lines = [
        f"| estimator | in hindsight, relative to CAB | {' | '.join(NAMES.values())} |",
        f"|---|---|{'---|' * len(NAMES)}",
    ]
    for name in TUNED:
        cells = [_mean([row.hindsight[name] / row.hindsight["CAB"] for row in rows])]
        for rule in NAMES:
            ratios = [row.chosen[name][rule] / row.hindsight[name] for row in rows]
            cells.append(f"{_mean(ratios)} ({max(ratios):.2g})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        "| no parameter to choose | relative to CAB in hindsight (worst) |",
        "|---|---|",
    ]
    for name in FIXED:
        ratios = [row.fixed[name] / row.hindsight["CAB"] for row in rows]
        lines.append(f"| {name} | {_mean(ratios)} ({max(ratios):.2g}) |")
    return "\n".join(lines) + "\n"


def _mean(ratios: Sequence[float]) -> str:
    return f"{np.exp(np.mean(np.log(ratios))):.2f}"
