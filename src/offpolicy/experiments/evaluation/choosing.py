"""How good is a parameter chosen from the log? Against the best one in hindsight.

For every setting (data set, split, reading of the set-up, size, kind of reward model) many logs
are drawn; the mean squared error of each estimator is divided by that of CAB with the one M that
turned out best over all of them, which nobody could have known.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy import datasets
from offpolicy._core.files import write_whole
from offpolicy.datasets import sample_actions, stamps
from offpolicy.evaluation import evaluate
from offpolicy.evidence import chosen_by
from offpolicy.experiments.cells import each_cell
from offpolicy.experiments.labelled import MODELS, READINGS, Problem, make_problem
from offpolicy.logs import BanditLog

SETS = ("letter", "optdigits", "satimage", "pendigits")
METHODS = (
    "headline", "CAB", "CAB by SLOPE", "CAB by SLOPE++", "CAB by SWITCH's rule",
    "CAB-DR", "DM", "IPS", "SNIPS", "DR",
)  # fmt: skip


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
    return [
        Setting(data, reading, split, n, model)
        for data, split, reading, model, n in itertools.product(
            sets, range(splits), readings, MODELS, sizes
        )
    ]


def run(
    wanted: Sequence[Setting], folder: Path, *, repeats: int = 100, jobs: int = 1
) -> Iterator[Outcome]:
    """The outcomes, in order, as they are done; what ``folder`` holds of an earlier run is taken
    from there."""
    cells = [(setting, repeats) for setting in wanted]
    for setting, found in zip(
        wanted,
        each_cell(
            _cell,
            cells,
            folder=folder,
            jobs=jobs,
            made_from=stamps(dict.fromkeys(one.data for one in wanted)),
        ),
        strict=True,
    ):
        yield Outcome(setting, found["best"], found["mse"])


def _cell(setting: Setting, repeats: int) -> dict[str, Any]:
    outcome = run_one(setting, repeats)
    return {"best": outcome.best, "mse": outcome.mse}


def run_one(setting: Setting, repeats: int) -> Outcome:
    """Draw the logs of one setting and evaluate each by every method."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # solvers that stop at their limit of iterations
        examples = datasets.load(setting.data)
        problem = make_problem(examples, setting.reading, setting.model, setting.split)
    truth = problem.value
    seed = [setting.split, setting.n, *map(ord, str(setting))]
    rng = np.random.default_rng(seed)
    curves, errors = [], []
    for _ in range(repeats):
        log, policy, prediction = draw(problem, setting.n, rng)
        found, curve = estimates(log, policy, prediction)
        curves.append((curve - truth) ** 2)
        errors.append([(found[method] - truth) ** 2 for method in METHODS])
    mse = np.mean(errors, axis=0)
    best = float(np.mean(curves, axis=0).min())
    return Outcome(setting, best, dict(zip(METHODS, map(float, mse), strict=True)))


def draw(
    problem: Problem, n: int, rng: np.random.Generator
) -> tuple[BanditLog, np.ndarray, np.ndarray]:
    """A log of ``n`` decisions drawn with replacement, and the policy and the model on it."""
    rows = rng.integers(0, len(problem.label), n)
    action = sample_actions(problem.logging[rows], rng)
    log = BanditLog.from_arrays(
        action=action,
        reward=(action == problem.label[rows]).astype(np.float64),
        logging=problem.logging[rows],
    )
    return log, problem.policy[rows], problem.prediction[rows]


def estimates(
    log: BanditLog, policy: np.ndarray, prediction: np.ndarray
) -> tuple[dict[str, float], np.ndarray]:
    """The estimate of every method, and CAB at every M of the grid."""
    result = evaluate(
        log,
        policy,
        prediction=prediction,
        estimators=["CAB", "CAB-DR", "DM", "IPS", "SNIPS", "DR"],
        reward_range=(0.0, 1.0),
    )
    found = {row.estimator.split("(")[0]: row.value for row in result}
    found["headline"] = result.headline.value
    tuned = result.tuned[0]
    for method, rule in (("SLOPE", "slope"), ("SLOPE++", "slope++"), ("SWITCH's rule", "switch")):
        chosen = chosen_by(rule, tuned, 1.0)
        found[f"CAB by {method}"] = float(tuned.value[tuned.grid == chosen][0])
    return found, tuned.value


def geometric_mean(outcomes: Sequence[Outcome], method: str) -> float:
    """Of the ratios to CAB with the best M in hindsight."""
    return float(np.exp(np.mean([np.log(outcome.ratio(method)) for outcome in outcomes])))


def to_markdown(outcomes: Sequence[Outcome], repeats: int) -> str:
    """The geometric means by reading, the worst settings, and every setting."""
    readings = list(dict.fromkeys(outcome.setting.reading for outcome in outcomes))
    lines = [
        f"MSE relative to CAB with the best M in hindsight; {repeats} logs a setting, "
        f"{len(outcomes)} settings; geometric means.",
        "",
        f"| method | {' | '.join(readings)} | all | worst |",
        f"|---|{'---|' * (len(readings) + 2)}",
    ]
    worst_of = []
    for method in METHODS:
        cells = [
            f"{geometric_mean([o for o in outcomes if o.setting.reading == reading], method):.2f}"
            for reading in readings
        ]
        worst = max(outcomes, key=lambda outcome: outcome.ratio(method))
        lines.append(
            f"| {method} | {' | '.join(cells)} | {geometric_mean(outcomes, method):.2f} | "
            f"{worst.ratio(method):.1f} |"
        )
        worst_of.append(f"- {method}: {worst.setting}")
    lines += [
        "",
        "Where each was worst:",
        "",
        *worst_of,
        "",
        f"| setting | best CAB, MSE × 1e5 | {' | '.join(METHODS)} |",
        f"|---|---|{'---|' * len(METHODS)}",
    ]
    for outcome in outcomes:
        cells = [f"{outcome.ratio(method):.2f}" for method in METHODS]
        lines.append(f"| {outcome.setting} | {outcome.best * 1e5:.1f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def save(outcomes: Sequence[Outcome], repeats: int, folder: Path) -> Path:
    """Write the table and the numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    body = {"repeats": repeats, "outcomes": [asdict(outcome) for outcome in outcomes]}
    write_whole(folder / "results.json", json.dumps(body, indent=1) + "\n")
    table = folder / "table.md"
    write_whole(table, to_markdown(outcomes, repeats))
    return table
