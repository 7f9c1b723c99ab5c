"""Figure 3: errors over M in worlds whose truth is known, and the Open Bandit logs; its claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import files_of, load
from offpolicy.errors import DatasetError
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import Judged, counted, judge_one
from offpolicy.experiments.pictures import DEFAULT_STYLE, STYLES, finish, grid_of_axes, plain
from offpolicy.experiments.real import open_bandit
from offpolicy.experiments.real.converged import GRID, READINGS, SYNTHETIC, Setup, run_cell
from offpolicy.experiments.saving import Report
from offpolicy.experiments.tables import grouped, markdown, paper_name, to_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHODS = ("DM", "IPS", "CIPS", "SB", "SWITCH", "DR", "CAB", "CAB-DR")
CHOSEN = {"headline": "default (headline)", "CAB": "CAB, M chosen", "CAB-DR": "CAB-DR, M chosen"}
"""Those whose M is chosen from the log, and what they are called here."""
MAJORITY, LARGE, POOR = 0.5, 1 / 3, 2.0
"""What the paper's words are taken for: more than half of the values of M for "the majority", a
third for "a large range", and twice the error of CAB for "poorly"."""
GROUPS = 10
"""Of runs, by which claims are judged."""
PLACE = "Section 4.2, paragraph 3"


@dataclass(frozen=True, eq=False)
class Panel:
    """The errors of all repeats on one problem, by one reading.

    ``errors`` holds an array (repeats, values of the parameter) for every method.
    """

    problem: str
    reading: str
    errors: dict[str, Floats]
    covered: float
    refused: int

    @property
    def where(self) -> str:
        return f"{self.problem}, {self.reading}"

    def rmse(self, method: str) -> Floats:
        """At every value of the parameter."""
        return np.asarray(np.sqrt(np.mean(self.errors[method] ** 2, axis=0)))

    def rows(self) -> Iterator[dict[str, Any]]:
        """The errors of every method at every value of its parameter."""
        for method, errors in self.errors.items():
            name = "" if errors.shape[1] == 1 else "tau" if method == "SB" else "M"
            values = {"": np.array([""]), "tau": GRID.tau, "M": GRID.M}[name]
            rmse = self.rmse(method)
            spread = (errors**2).std(axis=0, ddof=1) / np.sqrt(len(errors))
            with np.errstate(invalid="ignore"):
                stderr = spread / (2.0 * rmse)
            columns = {
                "value": values,
                "rmse": rmse,
                "rmse_stderr": stderr,
                "mae": np.abs(errors).mean(axis=0),
                "bias": errors.mean(axis=0),
                "one_run": errors[0],
            }
            head = {"problem": self.problem, "reading": self.reading, "method": method,
                    "parameter": name}  # fmt: skip
            for cells in zip(*(column.tolist() for column in columns.values()), strict=True):
                yield head | dict(zip(columns, cells, strict=True))

    def of(self, runs: Ints) -> Panel:
        """Of some of the repeats."""
        return replace(self, errors={name: values[runs] for name, values in self.errors.items()})


def panels(problem: str, runs: Sequence[dict[str, Any]]) -> list[Panel]:
    """Figure 3's errors by every reading, from what `run_cell` found in every repeat."""
    truth = np.array([run["truth"] for run in runs])
    made = []
    for reading in READINGS:
        estimates = [run["estimates"][reading] for run in runs]
        values = {name: [part["curves"][name] for part in estimates] for name in METHODS}
        for name, title in CHOSEN.items():
            values[title] = [[part["chosen"][name]] for part in estimates]
        errors = {name: np.array(listed) - truth[:, None] for name, listed in values.items()}
        low, high = np.array([part["interval"] for part in estimates]).T
        refused = sum(part["refused"] for part in estimates)
        covered = float(((low <= truth) & (truth <= high)).mean())
        made.append(Panel(problem, reading, errors, covered, refused))
    return made


def run(
    cells: Cells, sets: Sequence[str], repeats: int, steps: int, seed: int, obd: str | None
) -> Report:
    """Figure 3: every pair of runs, and the Open Bandit logs, of the full release in the folder
    ``obd`` or of its small sample, if that is at hand."""
    files = files_of(name for name in sets if name != SYNTHETIC)
    for name in files:
        load(name)  # better to fail now than after an hour
    logs, missing = [], ""
    try:
        logs = open_bandit.run(None if obd is None else Path(obd), cells.within("campaigns"))
    except DatasetError as problem:
        if obd is not None:
            raise
        missing = f"## Open Bandit logs\n\nNo Open Bandit logs: {problem}\n"
    seeds = range(seed * 1_000_000, seed * 1_000_000 + repeats)
    setups = [(Setup(problem, k, steps),) for problem in sets for k in seeds]
    found = cells.within("samplers").all("pairs of runs", run_cell, setups, files)
    starts = range(0, len(found), repeats)
    runs = {name: found[k : k + repeats] for name, k in zip(sets, starts, strict=True)}
    return report_of(steps, runs, missing or open_bandit.to_markdown(logs), logs)


# -- claims ------------------------------------------------------------------------------------


def claims_of(panel: Panel) -> list[Row]:
    """What the paper says of Figure 3."""
    most = f"the majority of the values of M (more than {MAJORITY:.0%} of the grid)"
    many = f"a large range of M ({LARGE:.0%} of the grid or more)"
    rivals, robust = ("DM", "IPS", "SB"), ("DR", "CAB-DR")
    return [
        *(_row(panel, f"for {most} {method} is more accurate than DM, IPS and SB",
               "share of the values of M at which it is not",
               partial(_worse, method=method, others=rivals), 1.0 - MAJORITY)
          for method in ("CAB", "SWITCH")),
        *(_row(panel, f"{method} performs poorly (at least {POOR:g} times the error of CAB, each "
               "at its best)", "error of CAB at its best M / its own at its best",
               partial(_behind, method=method), 1.0 / POOR, of_ratio=True)
          for method in ("IPS", "SB")),
        *(_row(panel, f"for {many} {method} outperforms DR and CAB-DR",
               "share of the values of M at which it does not",
               partial(_worse, method=method, others=robust), 1.0 - LARGE)
          for method in ("CAB", "SWITCH")),
    ]  # fmt: skip


class Row(NamedTuple):
    """A claim on Figure 3, on one problem in one reading."""

    claim: str
    number: str
    margin: float
    problem: str
    reading: str
    judged: Judged


def _row(
    panel: Panel,
    claim: str,
    number: str,
    measure: Callable[[Panel], float],
    margin: float,
    of_ratio: bool = False,
) -> Row:
    """Judged by the jackknife: the number is that of all runs, its interval from leaving out each
    group of them in turn."""
    runs = np.arange(len(panel.errors["CAB"]))
    groups = np.array_split(runs, max(min(GROUPS, len(runs) // 2), 1))
    whole, f = measure(panel), np.log if of_ratio else np.asarray
    values = np.full(len(groups), whole)
    if len(groups) > 1:
        rest = np.array([measure(panel.of(np.setdiff1d(runs, group))) for group in groups])
        values = f(whole) + (len(groups) - 1) * (f(rest).mean() - f(rest))
        values = np.exp(values) if of_ratio else values
    judged = judge_one(number, values, margin, of_ratio=of_ratio)
    return Row(claim, number, margin, panel.problem, panel.reading, judged)


def _worse(panel: Panel, *, method: str, others: Sequence[str]) -> float:
    """Of Figure 3: the share of the values of M at which one of the others is as accurate; at each,
    SB has the τ beside it."""
    best = np.min(np.stack([np.broadcast_to(panel.rmse(o), GRID.M.shape) for o in others]), 0)
    return float((panel.rmse(method) >= best).mean())


def _behind(panel: Panel, *, method: str) -> float:
    return float(panel.rmse("CAB").min() / panel.rmse(method).min())


# -- tables ------------------------------------------------------------------------------------


def errors_markdown(panel: Panel) -> str:
    """Figure 3 as a table: errors of every method at its best M, and in the median over M."""
    rows = []
    for method, at_values in grouped(panel.rows(), lambda row: row["method"]).items():
        best = min(at_values, key=lambda row: row["rmse"])
        rows.append(
            [
                method,
                f"{best['parameter']} = {best['value']:.3g}" if best["parameter"] else "",
                *(f"{best[key]:.4f}" for key in ("rmse", "rmse_stderr", "mae")),
                f"{best['bias']:+.4f}",
                f"{abs(best['one_run']):.4f}",
                f"{np.median([row['rmse'] for row in at_values]):.4f}",
                f"{best['rmse'] / panel.rmse('CAB').min():.2f}",
            ]
        )
    head = ["method", "best at", "RMSE", "±", "mean abs. error", "mean error", "one run",
            "RMSE, median over M", "RMSE / best CAB"]  # fmt: skip
    return (
        f"{panel.where} (the default's 95% interval covered the truth in {panel.covered:.0%} of "
        f"the runs; it refused to answer in {panel.refused}):\n\n{markdown(head, rows)}\n"
    )


def means(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Over the pairs of runs on a problem of Figure 3."""
    names = [name for name in runs[0] if name != "estimates"]
    return {name: float(np.mean([run[name] for run in runs])) for name in names}


def about(problem: str, steps: int, runs: Sequence[dict[str, Any]]) -> str:
    """The runs on a problem of Figure 3, in words."""
    facts = means(runs)
    return (
        f"{problem}: {len(runs)} pairs of runs of {steps:,} steps. On average the logger gave "
        f"{facts['supported']:.1%} of the actions a probability above 0 "
        f"({facts['supported_last']:.1%} at the end), and {facts['unsupported_policy']:.1%} of the "
        f"target's probability lay on the others. The logger earned {facts['logged']:.4f}, the "
        f"target {facts['truth']:.4f} (± {facts['truth_stderr']:.4f} in each pair).\n"
    )


def claims_markdown(claims: Sequence[Row], problems: Iterable[str]) -> str:
    """Every claim by problem, in the reading nearest to the text and in all."""
    rows = []
    for (claim, number, margin), some in grouped(
        claims, lambda row: (row.claim, row.number, row.margin)
    ).items():
        cells = []
        for by_reading in grouped(some, lambda row: row.problem).values():
            first = by_reading[0].judged
            counts = counted(row.judged for row in by_reading)
            cells.append(f"{first.verdict} {first.numbers}; {counts}")
        rows.append([f"{claim}. {PLACE}: {number}, at most {margin:.2g}", *cells])
    return markdown(["claim", *problems], rows) + "\n"


def report_of(
    steps: int, runs: Mapping[str, list[dict[str, Any]]], told: str, logs: list[dict[str, Any]]
) -> Report:
    """What was found on every problem, and, as it is ``told``, on the Open Bandit logs."""
    found = {problem: panels(problem, some) for problem, some in runs.items()}
    every = [panel for some in found.values() for panel in some]
    claims = [row for panel in every for row in claims_of(panel)]
    errors = ["## Errors\n"]
    for problem, some in found.items():
        errors += [about(problem, steps, runs[problem]), *map(errors_markdown, some)]
    body = {
        "schema": "offpolicy.figure/1",
        "steps": steps,
        "problems": {name: {"runs": some, "mean": means(some)} for name, some in runs.items()},
        "M": GRID.M,
        "claims": claims,
        "open_bandit": [log | {"verdict": open_bandit.verdict(log)} for log in logs],
    }
    parts = ["## Claims", claims_markdown(claims, runs), "\n".join([*errors, told])]
    accuracy = to_csv(row for panel in every for row in panel.rows())
    pictures = {"figure3.png": partial(draw, every)}
    return Report.of(parts, body, "figure3", pictures, accuracy=accuracy)


# -- picture -----------------------------------------------------------------------------------


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Figure 3: error over M, a panel for each problem and reading of the model."""
    by_problem = grouped(panels, lambda panel: panel.problem)
    columns = len(by_problem)
    figure, axes = grid_of_axes(2, columns, (3.2 * columns + 1.5, 5.0), sharex=True)
    for column, (problem, by_reading) in enumerate(by_problem.items()):
        for row, panel in enumerate(by_reading[:2]):
            _draw(axes[row][column], panel)
        axes[0][column].set_title(problem, loc="left")
    for ax in axes[-1]:
        ax.set_xlabel("M   (SB: τ from 0 to 1)")
    for (first, *_), reading in zip(axes, READINGS[:2], strict=True):
        first.set_ylabel(f"RMSE of the estimate\n({reading})")
    finish(figure, axes[0][:1], path, "outside right center")


def _draw(ax: Axes, panel: Panel) -> None:
    default = CHOSEN["headline"]
    styles = STYLES | {default: DEFAULT_STYLE}
    for method, (colour, style, width) in styles.items():
        rmse = np.broadcast_to(panel.rmse(method), GRID.M.shape)
        name = "our default" if method == default else paper_name(method)
        ax.plot(GRID.M, rmse, style, color=colour, linewidth=width, label=name)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(GRID.M[0], GRID.M[-1])
    highest = max(float(panel.rmse(name).max()) for name in styles if name != "CIPS")
    lowest = min(float(panel.rmse(name).min()) for name in styles)
    ax.set_ylim(lowest / 1.25, highest * 1.6)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter(_some)
    plain(ax, lines="both")


def _some(value: float, _: object) -> str:
    """Labels of Figure 3's axes between the powers of ten: at 2 and 5."""
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""
