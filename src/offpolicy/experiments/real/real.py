"""Figure 3 of the paper, the errors over M, in worlds whose truth is known; its claims, checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.datasets import load, stamps
from offpolicy.errors import ParameterError
from offpolicy.experiments.cells import each_cell
from offpolicy.experiments.real.converged import CLIPS, READINGS, SYNTHETIC, TAUS, Setup, run_cell
from offpolicy.experiments.verdicts import Verdict

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
        errors = {
            method: np.array([one["curves"][method] for one in found]) - truth[:, None]
            for method in METHODS
        }
        for name, shown in CHOSEN.items():
            errors[shown] = (np.array([one["chosen"][name] for one in found]) - truth)[:, None]
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
    problems: Sequence[str], folder: Path, *, repeats: int, seed: int, steps: int, jobs: int
) -> Iterator[tuple[Setup, dict[str, Any]]]:
    """Each pair of runs with what was found; what ``folder`` holds already is not run again."""
    setups = [
        Setup(problem, seed * 1_000_000 + repeat, steps)
        for problem in problems
        for repeat in range(repeats)
    ]
    cells = [(setup,) for setup in setups]
    made_from = stamps(name for name in problems if name != SYNTHETIC)
    done = each_cell(run_cell, cells, folder=folder, jobs=jobs, made_from=made_from)
    yield from zip(setups, done, strict=True)


# -- claims ------------------------------------------------------------------------------------


def claims(panel: Panel) -> list[Verdict]:
    """What the paper says of Figure 3."""
    made = [
        _beats(panel, method, ("DM", "IPS", "SB"), "the majority of the values of M", MAJORITY)
        for method in ("CAB", "SWITCH")
    ]
    made += [_poor(panel, "IPS"), _poor(panel, "SB")]
    made += [
        _beats(panel, method, ("DR", "CAB-DR"), "a large range of M", LARGE)
        for method in ("CAB", "SWITCH")
    ]
    return made


def _beats(panel: Panel, method: str, others: Sequence[str], range_: str, share: float) -> Verdict:
    """More accurate than the best of the others at as many values of M; at each, SB has the τ
    beside it."""
    best_other = np.min(np.stack([np.broadcast_to(panel.rmse(o), CLIPS.shape) for o in others]), 0)
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


def parameters(method: str) -> tuple[str, Floats]:
    """The parameter's name and its values; none for those without one."""
    if method == "SB":
        return "tau", TAUS
    if method in ("CIPS", "SWITCH", "CAB", "CAB-DR"):
        return "M", CLIPS
    return "", np.array([np.nan])


def summary(panel: Panel) -> list[dict[str, Any]]:
    """One row for each method, at its best M in hindsight and in the median over M."""
    rows = []
    for method, errors in panel.errors.items():
        name, values = parameters(method)
        at = panel.best(method)
        rows.append(
            {
                "method": method,
                "at": f"{name} = {values[at]:.3g}" if name else "",
                "rmse": float(panel.rmse(method)[at]),
                "rmse_stderr": float(panel.rmse_stderr(method)[at]),
                "mae": float(panel.mae(method)[at]),
                "bias": float(errors[:, at].mean()),
                "one_run": float(abs(errors[0, at])),
                "rmse_median": float(np.median(panel.rmse(method))),
                "to_best_cab": float(panel.rmse(method)[at] / panel.rmse("CAB").min()),
            }
        )
    return rows
