"""Theorems 1 to 6 against simulation, as a table: what the formulas say, what sampling shows."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from offpolicy._core.tables import aligned
from offpolicy.estimators import NAMED, parse, theory
from offpolicy.estimators.theory import Problem
from offpolicy.evaluation import evaluate
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.pictures import PARTS, grid_of_axes, plain
from offpolicy.experiments.saving import Report
from offpolicy.experiments.tables import grouped, markdown
from offpolicy.report.matplotlib import save_figure
from offpolicy.testing import random_problem, sample_log

MEMBERS = tuple(str(kind(*kind.typical[:1])) for kind in NAMED.values() if not kind.self_normalised)


@dataclass(frozen=True)
class Row:
    """One member on one problem: mean and spread of a decision's contribution."""

    problem: str
    member: str
    bias: float
    simulated_bias: float
    bias_z: float
    deviation: float
    simulated_deviation: float


_HEAD = ("problem", "member", "bias", "simulated", "z", "deviation", "simulated")
_FORMS = ("s", "s", ".5f", ".5f", ".2f", ".4f", ".4f")


def problems(seed: int) -> dict[str, Problem]:
    """For the experiment on theorems: propensities logged, wrong, and without full support."""
    streams = np.random.SeedSequence(seed).spawn(3)
    rngs = [np.random.default_rng(stream) for stream in streams]
    wrong = random_problem(rngs[1], propensity_error=0.3)
    total = wrong.pi0_hat.sum(axis=1, keepdims=True)
    return {
        "logged": random_problem(rngs[0]),
        "estimated": replace(wrong, pi0_hat=wrong.pi0_hat / total),
        "unsupported": random_problem(rngs[2], unsupported=0.3),
    }


def run(cells: Cells, n: int, seed: int) -> Report:
    """The experiment on theorems, at once: there is nothing to keep on the way."""
    rows = compare_with_simulation(n, seed)
    texts = [list(map(format, astuple(row), _FORMS)) for row in rows]
    largest = max(abs(row.bias_z) for row in rows)
    worst = f"Largest |z| of the bias over {len(rows)} rows: {largest:.2f}."
    table = f"## Theorems\n\n{worst}\n\n{markdown(_HEAD, texts)}\n"
    text = f"{aligned([list(_HEAD), *texts], left=(0, 1), ruled=False)}\n{worst}"
    files = {"results.json": rows, "table.md": table}
    return Report(text, files, {"theorems.png": partial(draw, rows)}, "theorems")


def compare_with_simulation(n: int, seed: int) -> list[Row]:
    """The paper's Theorems 1 and 2 beside mean and spread of n simulated decisions."""
    rows = []
    stream = np.random.SeedSequence((seed, 1))
    for name, problem in problems(seed).items():
        rng = np.random.default_rng(stream.spawn(1)[0])
        log, pi, delta_hat = sample_log(problem, n, rng)
        for row in evaluate(log, pi, prediction=delta_hat, estimators=MEMBERS):
            member = parse(row.estimator)
            bias = theory.bias(member, problem)
            simulated = row.value - problem.value
            deviation = theory.variance(member, problem) ** 0.5
            rows.append(
                Row(name, row.estimator, bias, simulated, (simulated - bias) / row.stderr,
                    deviation, row.stderr * n**0.5)
            )  # fmt: skip
    return rows


def draw(rows: list[Row], path: Path) -> None:
    """What sampling shows over what the formulas say: on the diagonal, if they are right."""
    figure, [axes] = grid_of_axes(1, 2, (10.0, 4.2))
    pairs = (("bias", "simulated_bias"), ("deviation", "simulated_deviation"))
    for ax, (said, shown) in zip(axes, pairs, strict=True):
        by_problem = grouped(rows, lambda row: row.problem).items()
        for (problem, some), colour in zip(by_problem, PARTS, strict=True):
            x, y = ([getattr(row, name) for row in some] for name in (said, shown))
            ax.plot(x, y, "o", markersize=5, alpha=0.7, color=colour, label=problem)
        ends = ax.get_xlim()
        ax.plot(ends, ends, "-", color="#999999", lw=0.8, zorder=0)
        ax.set_xlabel(f"{said} by the theorems")
        ax.set_ylabel("in simulated logs")
        plain(ax, said, lines="both")
    axes[0].legend(frameon=False, fontsize=9)
    save_figure(figure, path)
