"""Figure 4 (1, 3, 4): the error over the amount of data, the model's quality, and the logger's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments import claims
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import Verdict
from offpolicy.experiments.learning.setup import ESTIMATORS, Condition
from offpolicy.experiments.learning.table2 import SCHEMA, Learned, errors_of, learn
from offpolicy.experiments.pictures import finish, grid_of_axes, line, over_amounts, plain
from offpolicy.experiments.saving import Report
from offpolicy.experiments.tables import named

DATA = "pendigits"
PANELS: dict[str, tuple[str, Sequence[float]]] = {
    "decisions": ("n", (500, 1000, 2000, 5000, 10_000)),
    "share that trains the reward model": ("model_share", (0.01, 0.02, 0.05, 0.1, 0.3)),
    "share that trains the logger": ("logger_share", (0.01, 0.05, 0.1, 0.2, 0.5)),
}
"""What is varied, and its values."""


def run(cells: Cells, runs: int) -> Report:
    """Figure 4 by the paper's recipe."""
    learned = learn(conditions(runs), "paper", cells)
    text = claims.to_markdown(judged(learned))
    files = {"results.json": {"schema": SCHEMA, "runs": learned}, "table.md": text}
    return Report(text, files, {"figure4.png": partial(draw, learned)}, "figure4")


def conditions(runs: int) -> list[Condition]:
    """The conditions of all panels of Figure 4, each once."""
    changes: list[dict[str, Any]] = [
        {field: value} for field, values in PANELS.values() for value in values
    ]
    wanted = [Condition(DATA, run, **change) for change in changes for run in range(runs)]
    return list(dict.fromkeys(wanted))


def curves(learned: Sequence[Learned], panel: str) -> dict[str, Floats]:
    """A panel of Figure 4: the mean error of each objective, at each value that it varies."""
    field, values = PANELS[panel]
    default = asdict(Condition(DATA, 0))
    del default["run"]
    return {
        name: np.array(
            [errors_of(learned, name, **default | {field: value}).mean() for value in values]
        )
        for name in ESTIMATORS
    }


def judged(learned: Sequence[Learned]) -> list[Verdict]:
    """What the paper says of its Figure 4, and whether it holds."""
    sizes, models, loggers = (curves(learned, panel) for panel in PANELS)

    def falls(curve: Floats) -> float:
        return float(curve[-1] / curve[0])

    def flat(curve: Floats) -> float:
        return float(curve.max() / curve.min())

    def ahead(name: str) -> dict[str, float]:
        first = float(sizes[name][0])
        return {other: first / float(sizes[other][0]) for other in ("IPS", "CIPS", "DR")}

    ratios: list[tuple[str, dict[str, float], float]] = [
        ("the error falls with n for all objectives (last / first)",
         {name: falls(curve) for name, curve in sizes.items()}, 1.0),
        ("CAB is ahead of IPS, cIPS and DR at the smallest n (ratio)", ahead("CAB"), 1.0),
        ("CAB-DR is ahead of IPS, cIPS and DR at the smallest n (ratio)", ahead("CAB-DR"), 1.0),
        ("IPS and cIPS are flat in the model's quality (largest / least)",
         {name: flat(models[name]) for name in ("IPS", "CIPS")}, 1.2),
        ("the others improve with the model's quality (last / first)",
         {name: falls(models[name]) for name in ("DM", "DR", "SB", "CAB", "CAB-DR")}, 1.0),
        ("DM is flat in the logger's quality (largest / least)", {"DM": flat(loggers["DM"])}, 1.2),
    ]  # fmt: skip
    return [Verdict(text, max(of.values()) < limit, named(of)) for text, of, limit in ratios]


def draw(learned: Sequence[Learned], path: Path) -> None:
    figure, [axes] = grid_of_axes(1, 3, (12.0, 4.0), sharey=True)
    for ax, (panel, (_, values)) in zip(axes, PANELS.items(), strict=True):
        for name, curve in curves(learned, panel).items():
            line(ax, name, curve, values, marker="o", markersize=4)
        over_amounts(ax, values, (f"{value:,}" for value in values), panel)
        plain(ax, lines="both")
    axes[0].set_ylabel("expected test error")
    axes[0].set_title(DATA, loc="left")
    finish(figure, axes[0], path, "outside right center")
