"""Theorems 1 to 6 against simulation, as a table: what the formulas say, what sampling shows."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

import numpy as np

from offpolicy._core.tables import aligned
from offpolicy.estimators import NAMED, parse, theory
from offpolicy.estimators.theory import Problem
from offpolicy.evaluation import evaluate
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.saving import Report
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
    return Report(to_text(rows), {"results.json": rows})


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


def to_text(rows: list[Row]) -> str:
    head = ["problem", "member", "bias", "simulated", "z", "deviation", "simulated"]
    forms = ("s", "s", ".5f", ".5f", ".2f", ".4f", ".4f")
    cells = [list(map(format, astuple(row), forms)) for row in rows]
    worst = max(abs(row.bias_z) for row in rows)
    table = aligned([head, *cells], left=(0, 1), ruled=False)
    return f"{table}\nLargest |z| of the bias over {len(rows)} rows: {worst:.2f}."
