"""Table 2 and Figure 4: errors over runs, beside the paper's, and its claims."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy._core.files import write_whole
from offpolicy._core.types import Floats
from offpolicy.datasets import stamps
from offpolicy.experiments.cells import each_cell
from offpolicy.experiments.evaluation import pictures
from offpolicy.experiments.learning.learned import (
    ESTIMATORS,
    Condition,
    as_in_the_paper,
    ours,
    set_up,
)
from offpolicy.experiments.verdicts import Verdict
from offpolicy.report.matplotlib import need_matplotlib, save_figure

PAPER = {
    "letter": (0.6372, 0.6852, 0.8969, 0.8504, 0.6091, 0.5740, 0.5877),
    "optdigits": (0.0649, 0.0471, 0.0695, 0.0447, 0.0460, 0.0445, 0.0461),
    "satimage": (0.3083, 0.2762, 0.3266, 0.2415, 0.2481, 0.2442, 0.2762),
    "pendigits": (0.1133, 0.1191, 0.2748, 0.1228, 0.0949, 0.0917, 0.0946),
}
"""Its Table 2, in the order of `ESTIMATORS`."""
OURS = ("linear", "kernel", "linear, refitted", "kernel, refitted")
FIGURE = "pendigits"
SIZES = (500, 1000, 2000, 5000, 10_000)
MODEL_SHARES = (0.01, 0.02, 0.05, 0.1, 0.3)
LOGGER_SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
PANELS: dict[str, list[tuple[float, dict[str, Any]]]] = {
    "decisions": [(n, {"n": n}) for n in SIZES],
    "share that trains the reward model": [(s, {"model_share": s}) for s in MODEL_SHARES],
    "share that trains the logger": [(s, {"logger_share": s}) for s in LOGGER_SHARES],
}
RECIPES: dict[str, Callable[..., dict[str, float]]] = {"paper": as_in_the_paper, "ours": ours}


def table(sets: Sequence[str], runs: int) -> list[Condition]:
    """The conditions of Table 2."""
    return [Condition(data, run) for data in sets for run in range(runs)]


def figure(runs: int) -> list[Condition]:
    """The conditions of Figure 4, each once."""
    wanted = [
        Condition(FIGURE, run, **change)
        for points in PANELS.values()
        for _, change in points
        for run in range(runs)
    ]
    return list(dict.fromkeys(wanted))


@dataclass(frozen=True)
class Learned:
    """Expected test errors in one run."""

    condition: Condition
    recipe: str
    logger: float
    errors: dict[str, float]


def run(
    conditions: Sequence[Condition], recipe: str, folder: Path, *, jobs: int = 1
) -> Iterator[Learned]:
    """In order; what ``folder`` holds of an earlier run is taken from there."""
    cells = [(condition, recipe) for condition in conditions]
    made_from = stamps(dict.fromkeys(condition.data for condition in conditions))
    done = each_cell(_cell, cells, folder=folder, jobs=jobs, made_from=made_from)
    for condition, found in zip(conditions, done, strict=True):
        yield Learned(condition, recipe, found["logger"], found["errors"])


def _cell(condition: Condition, recipe: str) -> dict[str, Any]:
    setup = set_up(condition)
    return {"logger": 1.0 - setup.logged, "errors": RECIPES[recipe](setup)}


# -- what was found ------------------------------------------------------------------------------


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


def _mean(errors: Floats, digits: int = 4) -> str:
    if not len(errors):
        return "–"
    spread = errors.std(ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else float("nan")
    return f"{errors.mean():.{digits}f} ± {spread:.{digits}f}"


def to_markdown(found: Sequence[Learned]) -> str:
    """Ours beside the paper's; the logger's error; our own recipe."""
    sets = list(dict.fromkeys(one.condition.data for one in found))
    lines = [
        "Expected test error, mean ± standard error over the runs (the paper's figure).",
        "",
        f"| objective | {' | '.join(sets)} |",
        f"|---|{'---|' * len(sets)}",
    ]
    paper = [one for one in found if one.recipe == "paper"]
    recipes = {one.recipe for one in found}
    for k, name in enumerate(ESTIMATORS if "paper" in recipes else ()):
        cells = []
        for data in sets:
            beside = f" ({PAPER[data][k]:.4f})" if data in PAPER else ""
            cells.append(f"{_mean(errors_of(paper, name, data=data))}{beside}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    for name in OURS if "ours" in recipes else ():
        cells = [_mean(errors_of(found, name, data=data)) for data in sets]
        lines.append(f"| *ours: {name}* | {' | '.join(cells)} |")
    logger = [
        _mean(np.array([one.logger for one in found if one.condition.data == data]))
        for data in sets
    ]
    lines.append(f"| the logger, on the log | {' | '.join(logger)} |")
    return "\n".join(lines) + "\n"


def table_claims(found: Sequence[Learned]) -> list[Verdict]:
    """What the paper says of its Table 2, on the data sets at hand."""
    paper = [one for one in found if one.recipe == "paper"]
    sets = list(dict.fromkeys(one.condition.data for one in paper))
    means = {
        data: {name: float(errors_of(paper, name, data=data).mean()) for name in ESTIMATORS}
        for data in sets
    }

    def ratios(one: str, others: Sequence[str]) -> list[float]:
        return [means[data][one] / min(means[data][other] for other in others) for data in sets]

    judged = []
    for claim, one, others, limit in (
        (
            "CAB is among the best on every data set (within 10% of the best)",
            "CAB",
            ESTIMATORS,
            1.1,
        ),
        ("CAB-DR is no better than CAB", "CAB", ["CAB-DR"], 1.0),
        ("CAB beats DM", "CAB", ["DM"], 1.0),
        ("CAB beats IPS", "CAB", ["IPS"], 1.0),
        ("CAB beats DR", "CAB", ["DR"], 1.0),
        ("CAB beats cIPS", "CAB", ["CIPS"], 1.0),
        ("CAB beats SB", "CAB", ["SB"], 1.0),
    ):
        values = ratios(one, others)
        text = ", ".join(f"{data} {value:.2f}" for data, value in zip(sets, values, strict=True))
        judged.append(Verdict(claim, all(value <= limit for value in values), text))
    return judged


def figure_claims(found: Sequence[Learned]) -> list[Verdict]:
    """What the paper says of its Figure 4 (1, 3, 4)."""
    sizes = _curves(found, "decisions")
    models = _curves(found, "share that trains the reward model")
    loggers = _curves(found, "share that trains the logger")

    def falls(curve: Floats) -> float:
        return float(curve[-1] / curve[0])

    def flat(curve: Floats) -> float:
        return float(curve.max() / curve.min())

    def judged(text: str, values: dict[str, float], limit: float) -> Verdict:
        return Verdict(text, max(values.values()) < limit, _named(values))

    first = {name: float(curve[0]) for name, curve in sizes.items()}
    ahead = [
        judged(
            f"{one} is ahead of IPS, cIPS and DR at the smallest n (ratio)",
            {name: first[one] / first[name] for name in ("IPS", "CIPS", "DR")},
            1.0,
        )
        for one in ("CAB", "CAB-DR")
    ]
    return [
        judged(
            "the error falls with n for all objectives (last / first)",
            {name: falls(curve) for name, curve in sizes.items()},
            1.0,
        ),
        *ahead,
        judged(
            "IPS and cIPS are flat in the model's quality (largest / least)",
            {name: flat(models[name]) for name in ("IPS", "CIPS")},
            1.2,
        ),
        judged(
            "the others improve with the model's quality (last / first)",
            {name: falls(models[name]) for name in ("DM", "DR", "SB", "CAB", "CAB-DR")},
            1.0,
        ),
        judged(
            "DM is flat in the logger's quality (largest / least)",
            {"DM": flat(loggers["DM"])},
            1.2,
        ),
    ]


def _named(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def _curves(found: Sequence[Learned], panel: str) -> dict[str, Floats]:
    default = asdict(Condition(FIGURE, 0))
    curves = {}
    for name in ESTIMATORS:
        points = []
        for _, change in PANELS[panel]:
            where = {
                key: change.get(key, default[key]) for key in ("n", "logger_share", "model_share")
            }
            points.append(float(errors_of(found, name, data=FIGURE, **where).mean()))
        curves[name] = np.array(points)
    return curves


def draw(found: Sequence[Learned], path: Path) -> None:
    """Figure 4: error over the amount of data, the model's quality, and the logger's."""
    need_matplotlib()
    from matplotlib.figure import Figure

    picture = Figure(figsize=(12.0, 4.0), layout="constrained")
    axes = picture.subplots(1, 3, sharey=True)
    for ax, (panel, points) in zip(axes, PANELS.items(), strict=True):
        for name, curve in _curves(found, panel).items():
            colour, style, width = pictures.STYLES[name]
            ax.plot([x for x, _ in points], curve, style, color=colour, lw=width, marker="o",
                    markersize=4, label={"CIPS": "cIPS"}.get(name, name))  # fmt: skip
        ax.set_xscale("log")
        ax.set_xticks([x for x, _ in points], [f"{x:,}" for x, _ in points])
        ax.minorticks_off()
        ax.set_xlabel(panel)
        ax.grid(alpha=0.25, linewidth=0.6)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    axes[0].set_ylabel("expected test error")
    axes[0].set_title(FIGURE, loc="left")
    handles, names = axes[0].get_legend_handles_labels()
    picture.legend(handles, names, loc="outside right center", frameon=False)
    save_figure(picture, path)


def save(found: Sequence[Learned], text: str, folder: Path) -> list[Path]:
    """Write the numbers and the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    body = {"schema": "offpolicy.learning/1", "runs": [asdict(one) for one in found]}
    write_whole(folder / "results.json", json.dumps(body, indent=1) + "\n")
    write_whole(folder / "table.md", text)
    return [folder / "results.json", folder / "table.md"]
