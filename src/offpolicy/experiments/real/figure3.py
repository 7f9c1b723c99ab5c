"""Figure 3: errors over M in worlds whose truth is known, and the Open Bandit logs; its claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.datasets import load, stamps
from offpolicy.errors import ParameterError
from offpolicy.experiments import claims, saving
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import Verdict
from offpolicy.experiments.pictures import DEFAULT_STYLE, STYLES, finish, grid_of_axes, plain
from offpolicy.experiments.real import open_bandit
from offpolicy.experiments.real.converged import GRID, READINGS, SYNTHETIC, Setup, run_cell
from offpolicy.experiments.tables import markdown, shown, to_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHODS = ("DM", "IPS", "CIPS", "SB", "SWITCH", "DR", "CAB", "CAB-DR")
CHOSEN = {"headline": "default (headline)", "CAB": "CAB, M chosen", "CAB-DR": "CAB-DR, M chosen"}
"""Those whose M is chosen from the log, and what they are called here."""
MAJORITY, LARGE, POOR = 0.5, 1 / 3, 2.0
"""What the paper's words are taken for: more than half of the values of M for "the majority", a
third for "a large range", and twice the error of CAB at its best M for "poorly"."""


class Ratio(NamedTuple):
    """Of two root mean squared errors, with its standard error (jackknife over the repeats)."""

    value: float
    stderr: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.stderr:.2f}"


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

    def rmse_stderr(self, method: str) -> Floats:
        squares = self.errors[method] ** 2
        with np.errstate(invalid="ignore"):
            return np.asarray(
                squares.std(axis=0, ddof=1) / np.sqrt(len(squares)) / (2.0 * self.rmse(method))
            )

    def mae(self, method: str) -> Floats:
        return np.asarray(np.abs(self.errors[method]).mean(axis=0))

    def best(self, method: str) -> int:
        """The place on the grid of the least error, in hindsight."""
        return int(self.rmse(method).argmin())

    def least(self, methods: Sequence[str]) -> str:
        """Which of these has the least error, each at its best M."""
        return min(methods, key=lambda method: float(self.rmse(method).min()))

    def ratio(self, method: str, other: str) -> Ratio:
        """Of the errors, each at its best M in hindsight."""
        a = self.errors[method][:, self.best(method)] ** 2
        b = self.errors[other][:, self.best(other)] ** 2
        without = 0.5 * np.log((a.sum() - a) / (b.sum() - b))
        n = len(a)
        value = float(np.sqrt(a.mean() / b.mean()))
        return Ratio(value, value * float(np.sqrt((n - 1) * without.var())))


def panels(problem: str, cells: Sequence[dict[str, Any]]) -> list[Panel]:
    """The errors by every reading, from what `run_cell` found in every repeat."""
    truth = np.array([cell["truth"] for cell in cells])
    made = []
    for reading in READINGS:
        found = [cell["estimates"][reading] for cell in cells]
        values = {name: [one["curves"][name] for one in found] for name in METHODS}
        for name, title in CHOSEN.items():
            values[title] = [[one["chosen"][name]] for one in found]
        errors = {name: np.array(listed) - truth[:, None] for name, listed in values.items()}
        low, high = np.array([one["interval"] for one in found]).T
        refused = sum(one["refused"] for one in found)
        covered = float(((low <= truth) & (truth <= high)).mean())
        made.append(Panel(problem, reading, errors, covered, refused))
    return made


def check_problems(names: Sequence[str]) -> list[str]:
    """The problems, each of which can be read: better to fail now than after an hour."""
    problems = [name.strip() for name in names]
    for k, name in enumerate(problems):
        if name in problems[:k]:
            raise ParameterError(f'The data set "{name}" is given twice.')
        if name != SYNTHETIC:
            load(name)
    return problems


def run(
    problems: Sequence[str], cells: Cells, *, repeats: int, seed: int, steps: int
) -> Iterator[tuple[Setup, dict[str, Any]]]:
    """Each pair of runs with what was found."""
    setups = [
        Setup(problem, seed * 1_000_000 + repeat, steps)
        for problem in problems
        for repeat in range(repeats)
    ]
    made_from = stamps(name for name in problems if name != SYNTHETIC)
    done = cells.each(run_cell, [(setup,) for setup in setups], made_from)
    yield from zip(setups, done, strict=True)


# -- claims ------------------------------------------------------------------------------------


def claims_of(panel: Panel) -> list[Verdict]:
    """What the paper says of Figure 3."""
    most, many = ("the majority of the values of M", MAJORITY), ("a large range of M", LARGE)
    return [
        *(_beats(panel, method, ("DM", "IPS", "SB"), *most) for method in ("CAB", "SWITCH")),
        *(_poor(panel, method) for method in ("IPS", "SB")),
        *(_beats(panel, method, ("DR", "CAB-DR"), *many) for method in ("CAB", "SWITCH")),
    ]


def _beats(panel: Panel, method: str, others: Sequence[str], range_: str, share: float) -> Verdict:
    """More accurate than the best of the others at as many values of M; at each, SB has the τ
    beside it."""
    best_other = np.min(np.stack([np.broadcast_to(panel.rmse(o), GRID.M.shape) for o in others]), 0)
    ratio = panel.rmse(method) / best_other
    wins = float((ratio < 1.0).mean())
    rival = panel.least(others)
    at_best = panel.ratio(method, rival)
    return Verdict(
        f"{method} is more accurate than {', '.join(others)} for {range_}",
        wins > share if share == MAJORITY else wins >= share,
        f"at {wins:.0%} of the values of M; error at its best M {at_best} times that of {rival}; "
        f"{np.median(ratio):.2f} times that of the best of them in the median over M",
        panel.where,
    )


def _poor(panel: Panel, method: str) -> Verdict:
    """Judged, for SB, in the median over τ."""
    middle = float(np.median(panel.rmse(method)) / panel.rmse("CAB").min())
    at_best = panel.ratio(method, "CAB")
    if method == "SB":
        measured = f"{middle:.2f} in the median over τ, {at_best} at its best τ"
    else:
        measured = str(at_best)
    return Verdict(
        f"{method} performs poorly",
        middle >= POOR,
        f"error relative to that of CAB at its best M: {measured}",
        panel.where,
    )


# -- tables ------------------------------------------------------------------------------------

FACTS = ("supported", "supported_last", "unsupported_policy", "logged", "truth", "truth_stderr")
"""Of every pair of runs; means over the pairs are reported."""


def parameters(method: str) -> tuple[str, Floats]:
    """The parameter's name and its values; none for those without one."""
    if method == "SB":
        return "tau", GRID.tau
    if method in ("CIPS", "SWITCH", "CAB", "CAB-DR"):
        return "M", GRID.M
    return "", np.array([np.nan])


def row_at(panel: Panel, method: str, at: int) -> dict[str, float]:
    """The errors of a method at one value of its parameter."""
    return {
        "rmse": float(panel.rmse(method)[at]),
        "rmse_stderr": float(panel.rmse_stderr(method)[at]),
        "mae": float(panel.mae(method)[at]),
        "bias": float(panel.errors[method][:, at].mean()),
        "one_run": float(panel.errors[method][0, at]),
    }


def errors_markdown(panel: Panel) -> str:
    """The errors of every method, at its best M in hindsight and in the median over M."""
    rows = []
    for method in panel.errors:
        name, values = parameters(method)
        at = panel.best(method)
        found = row_at(panel, method, at)
        rows.append(
            [
                method,
                f"{name} = {values[at]:.3g}" if name else "",
                *(f"{found[key]:.4f}" for key in ("rmse", "rmse_stderr", "mae")),
                f"{found['bias']:+.4f}",
                f"{abs(found['one_run']):.4f}",
                f"{np.median(panel.rmse(method)):.4f}",
                f"{found['rmse'] / panel.rmse('CAB').min():.2f}",
            ]
        )
    head = ["method", "best at", "RMSE", "±", "mean abs. error", "mean error", "one run",
            "RMSE, median over M", "RMSE / best CAB"]  # fmt: skip
    return (
        f"{panel.where} (the default's 95% interval covered the truth in {panel.covered:.0%} of "
        f"the runs; it refused to answer in {panel.refused}):\n\n{markdown(head, rows)}\n"
    )


@dataclass(frozen=True, eq=False)
class Figure3:
    """What was found on every problem, and on the Open Bandit logs."""

    steps: int
    cells: dict[str, list[dict[str, Any]]]
    logs: list[dict[str, Any]]

    @cached_property
    def panels(self) -> dict[str, list[Panel]]:
        return {problem: panels(problem, cells) for problem, cells in self.cells.items()}

    @cached_property
    def claims(self) -> list[Verdict]:
        return [one for own in self.panels.values() for panel in own for one in claims_of(panel)]

    def facts(self, problem: str) -> dict[str, float]:
        cells = self.cells[problem]
        return {name: float(np.mean([cell[name] for cell in cells])) for name in FACTS}

    def about(self, problem: str) -> str:
        """The runs on a problem, in words."""
        facts = self.facts(problem)
        return (
            f"{problem}: {len(self.cells[problem])} pairs of runs of {self.steps:,} steps. On "
            f"average the logger gave {facts['supported']:.1%} of the actions a probability above "
            f"0 ({facts['supported_last']:.1%} at the end), and {facts['unsupported_policy']:.1%} "
            f"of the target's probability lay on the others. The logger earned "
            f"{facts['logged']:.4f}, the target {facts['truth']:.4f} (± "
            f"{facts['truth_stderr']:.4f} in each pair)."
        )

    def to_markdown(self) -> str:
        """All tables but the claims'."""
        parts = []
        for problem, own in self.panels.items():
            parts += [self.about(problem) + "\n", *map(errors_markdown, own)]
        if self.logs:
            parts.append(open_bandit.to_markdown(self.logs))
        return "\n".join(parts)

    def claims_markdown(self) -> str:
        """Every claim, whether it holds, and what was measured."""
        return (
            f'"The majority" is more than {MAJORITY:.0%} of {len(GRID.M)} values of M from '
            f'{GRID.M[0]:g} to {GRID.M[-1]:g}, evenly spread on a logarithmic axis; "a large '
            f'range" at least {LARGE:.0%} of them; "poorly" at least {POOR:g} times the error of '
            f"CAB at its best M. Errors are root mean squares over the pairs of runs; at each M, "
            f"SB has the τ beside it.\n\n{claims.to_markdown(self.claims)}"
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        """The errors of every method at every value of its parameter."""
        for panel in (panel for own in self.panels.values() for panel in own):
            for method in panel.errors:
                name, values = parameters(method)
                for k, value in enumerate(values.tolist()):
                    yield {
                        "problem": panel.problem,
                        "reading": panel.reading,
                        "method": method,
                        "parameter": name,
                        "value": value if name else "",
                        **row_at(panel, method, k),
                    }

    def save(self, folder: Path) -> list[Path]:
        """Write numbers, tables and, if matplotlib is there, the picture."""
        body = {
            "steps": self.steps,
            "problems": {
                problem: {"runs": cells, "mean": self.facts(problem)}
                for problem, cells in self.cells.items()
            },
            "M": GRID.M,
            "claims": self.claims,
            "open_bandit": [one | {"verdict": open_bandit.verdict(one)} for one in self.logs],
        }
        texts = {
            "results.json": body,
            "table.csv": to_csv(self.rows()),
            "table.md": self.to_markdown(),
            "claims.md": self.claims_markdown(),
        }
        return saving.save(folder, texts, {"figure3.png": partial(draw, self)})


# -- picture -----------------------------------------------------------------------------------

DEFAULT = CHOSEN["headline"]


def draw(found: Figure3, path: Path) -> None:
    """Error over M, a panel for each problem and reading of the model."""
    columns = len(found.panels)
    figure, axes = grid_of_axes(2, columns, (3.2 * columns + 1.5, 5.0), sharex=True)
    for column, (problem, own) in enumerate(found.panels.items()):
        for row, panel in enumerate(own[:2]):
            _draw(axes[row][column], panel)
        axes[0][column].set_title(problem, loc="left")
    for ax in axes[-1]:
        ax.set_xlabel("M   (SB: τ from 0 to 1)")
    for (first, *_), reading in zip(axes, READINGS[:2], strict=True):
        first.set_ylabel(f"RMSE of the estimate\n({reading})")
    finish(figure, axes[0][0], path, "outside right center")


def _draw(ax: Axes, panel: Panel) -> None:
    styles = STYLES | {DEFAULT: DEFAULT_STYLE}
    for method, (colour, style, width) in styles.items():
        rmse = np.broadcast_to(panel.rmse(method), GRID.M.shape)
        name = "our default" if method == DEFAULT else shown(method)
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
    """Labels between the powers of ten: at 2 and 5."""
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""
