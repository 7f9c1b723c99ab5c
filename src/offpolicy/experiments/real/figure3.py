"""Figure 3 as tables, a picture, and files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._core.files import write_whole
from offpolicy.experiments import verdicts
from offpolicy.experiments.evaluation import pictures
from offpolicy.experiments.real import open_bandit
from offpolicy.experiments.real.converged import CLIPS, READINGS
from offpolicy.experiments.real.real import (
    LARGE,
    MAJORITY,
    POOR,
    Panel,
    claims,
    panels,
    parameters,
    summary,
)
from offpolicy.experiments.verdicts import Verdict
from offpolicy.report.matplotlib import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FACTS = ("supported", "supported_last", "unsupported_policy", "logged", "truth", "truth_stderr")
"""Of every pair of runs; means over the pairs are reported."""


@dataclass(frozen=True, eq=False)
class Figure3:
    """What was found on every problem, and on the Open Bandit logs."""

    steps: int
    cells: dict[str, list[dict[str, Any]]]
    logs: list[dict[str, Any]]

    def panels(self) -> list[Panel]:
        return [panel for problem, cells in self.cells.items() for panel in panels(problem, cells)]

    def claims(self) -> list[Verdict]:
        return [claim for panel in self.panels() for claim in claims(panel)]

    def facts(self, problem: str) -> dict[str, float]:
        cells = self.cells[problem]
        return {name: float(np.mean([cell[name] for cell in cells])) for name in FACTS}


def about(found: Figure3, problem: str) -> str:
    """The runs on a problem, in words."""
    facts = found.facts(problem)
    return (
        f"{problem}: {len(found.cells[problem])} pairs of runs of {found.steps:,} steps. On "
        f"average the logger gave {facts['supported']:.1%} of the actions a probability above 0 "
        f"({facts['supported_last']:.1%} at the end), and {facts['unsupported_policy']:.1%} of the "
        f"target's probability lay on the others. The logger earned {facts['logged']:.4f}, the "
        f"target {facts['truth']:.4f} (± {facts['truth_stderr']:.4f} in each pair)."
    )


def errors_markdown(panel: Panel) -> str:
    """The errors of every method at its best M."""
    lines = [
        f"{panel.where} (the default's 95% interval covered the truth in {panel.covered:.0%} of "
        f"the runs; it refused to answer in {panel.refused}):",
        "",
        "| method | best at | RMSE | ± | mean abs. error | mean error | one run | RMSE, median "
        "over M | RMSE / best CAB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['method']} | {row['at']} | {row['rmse']:.4f} | {row['rmse_stderr']:.4f} | "
        f"{row['mae']:.4f} | {row['bias']:+.4f} | {row['one_run']:.4f} | {row['rmse_median']:.4f} "
        f"| {row['to_best_cab']:.2f} |"
        for row in summary(panel)
    ]
    return "\n".join(lines) + "\n"


def claims_markdown(found: Sequence[Verdict]) -> str:
    """Every claim, whether it holds, and what was measured."""
    lines = [
        f'"The majority" is more than {MAJORITY:.0%} of {len(CLIPS)} values of M from '
        f'{CLIPS[0]:g} to {CLIPS[-1]:g}, evenly spread on a logarithmic axis; "a large range" at '
        f'least {LARGE:.0%} of them; "poorly" at least {POOR:g} times the error of CAB at its best '
        f"M. Errors are root mean squares over the pairs of runs; at each M, SB has the τ beside "
        f"it.",
        "",
        verdicts.to_markdown(found),
    ]
    return "\n".join(lines)


def to_markdown(found: Figure3) -> str:
    """All tables but the claims'."""
    parts = []
    for problem, cells in found.cells.items():
        parts.append(about(found, problem) + "\n")
        parts += [errors_markdown(panel) for panel in panels(problem, cells)]
    if found.logs:
        parts.append(open_bandit.to_markdown(found.logs))
    return "\n".join(parts)


def to_csv(found: Figure3) -> str:
    """The errors of every method at every value of its parameter."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(
        ["problem", "reading", "method", "parameter", "value", "rmse", "rmse_stderr", "mae", "bias",
         "one_run"]
    )  # fmt: skip
    for panel in found.panels():
        for method, errors in panel.errors.items():
            name, values = parameters(method)
            rmse, stderr, mae = panel.rmse(method), panel.rmse_stderr(method), panel.mae(method)
            for k, value in enumerate(values.tolist()):
                table.writerow(
                    [panel.problem, panel.reading, method, name, value if name else "",
                     *map(float, (rmse[k], stderr[k], mae[k], errors[:, k].mean(), errors[0, k]))]
                )  # fmt: skip
    return text.getvalue()


def to_json(found: Figure3) -> str:
    """Everything."""
    body = {
        "steps": found.steps,
        "problems": {
            problem: {"runs": cells, "mean": found.facts(problem)}
            for problem, cells in found.cells.items()
        },
        "M": CLIPS.tolist(),
        "claims": [asdict(claim) for claim in found.claims()],
        "open_bandit": [one | {"verdict": open_bandit.verdict(one)} for one in found.logs],
    }
    return json.dumps(body, indent=1) + "\n"


# -- picture -----------------------------------------------------------------------------------

STYLES = pictures.STYLES | {"default (headline)": pictures.DEFAULT_STYLE}


def picture(found: Figure3, path: Path) -> None:
    """Error over M, a panel for each problem and reading of the model."""
    from matplotlib.figure import Figure

    problems = list(found.cells)
    figure = Figure(figsize=(3.2 * len(problems) + 1.5, 5.0), layout="constrained")
    axes = figure.subplots(2, len(problems), squeeze=False, sharex=True)
    for column, problem in enumerate(problems):
        for row, panel in enumerate(panels(problem, found.cells[problem])[:2]):
            _draw(axes[row][column], panel)
        axes[0][column].set_title(problem, loc="left")
    for ax in axes[-1]:
        ax.set_xlabel("M   (SB: τ from 0 to 1)")
    for ax, reading in zip(axes[:, 0], READINGS[:2], strict=True):
        ax.set_ylabel(f"RMSE of the estimate\n({reading})")
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center", frameon=False)
    save_figure(figure, path)


def _draw(ax: Axes, panel: Panel) -> None:
    for method, (colour, style, width) in STYLES.items():
        rmse = np.broadcast_to(panel.rmse(method), CLIPS.shape)
        name = {"CIPS": "cIPS", "default (headline)": "our default"}.get(method, method)
        ax.plot(CLIPS, rmse, style, color=colour, linewidth=width, label=name)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(CLIPS[0], CLIPS[-1])
    highest = max(float(panel.rmse(name).max()) for name in STYLES if name != "CIPS")
    lowest = min(float(panel.rmse(name).min()) for name in STYLES)
    ax.set_ylim(lowest / 1.25, highest * 1.6)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter(_some)
    ax.grid(alpha=0.25, linewidth=0.6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _some(value: float, _: object) -> str:
    """Labels between the powers of ten: at 2 and 5."""
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""


def save(found: Figure3, folder: Path) -> list[Path]:
    """Write numbers, tables and, if matplotlib is there, the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "results.json": to_json(found),
        "table.csv": to_csv(found),
        "table.md": to_markdown(found),
        "claims.md": claims_markdown(found.claims()),
    }
    written = [folder / name for name in texts]
    for path, text in zip(written, texts.values(), strict=True):
        write_whole(path, text)
    try:
        picture(found, folder / "figure3.png")
        written.append(folder / "figure3.png")
    except ImportError:
        pass
    return written
