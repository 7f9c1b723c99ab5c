"""Theorems 1 to 6 against simulation, as a table: what the formulas say, what sampling shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from offpolicy.estimators import parse, theory
from offpolicy.estimators.theory import Problem
from offpolicy.evaluation import evaluate
from offpolicy.experiments.saving import save
from offpolicy.testing import random_problem, sample_log

MEMBERS = (
    "DM", "IPS", "CIPS(M=2)", "DR", "SB(tau=0.5)", "SWITCH(M=2)", "SWITCH-DR(M=2)", "DRos(lam=4)",
    "SGIPS(lam=0.2)", "SGDR(lam=0.2)", "CAB(M=2)", "CAB-DR(M=2)",
)  # fmt: skip


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
    """Logged propensities, wrong propensities, and a logger without full support."""
    streams = np.random.SeedSequence(seed).spawn(3)
    rngs = [np.random.default_rng(stream) for stream in streams]
    wrong = random_problem(rngs[1], propensity_error=0.3)
    total = wrong.pi0_hat.sum(axis=1, keepdims=True)
    return {
        "logged": random_problem(rngs[0]),
        "estimated": Problem(
            wrong.p, wrong.pi, wrong.pi0, wrong.delta, wrong.delta_hat, wrong.sigma2,
            wrong.pi0_hat / total,
        ),
        "unsupported": random_problem(rngs[2], unsupported=0.3),
    }  # fmt: skip


def compare_with_simulation(*, n: int = 400_000, seed: int = 0) -> list[Row]:
    """Theorems 1 and 2 beside the mean and the spread of n simulated decisions."""
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
    """The table."""
    lines = [
        f"{'problem':<12} {'member':<15} {'bias':>9} {'simulated':>10} {'z':>6} "
        f"{'deviation':>10} {'simulated':>10}"
    ]
    lines += [
        f"{row.problem:<12} {row.member:<15} {row.bias:>9.5f} {row.simulated_bias:>10.5f} "
        f"{row.bias_z:>6.2f} {row.deviation:>10.4f} {row.simulated_deviation:>10.4f}"
        for row in rows
    ]
    worst = max(abs(row.bias_z) for row in rows)
    lines.append(f"Largest |z| of the bias over {len(rows)} rows: {worst:.2f}.")
    return "\n".join(lines)


def save_rows(rows: list[Row], folder: Path) -> Path:
    return save(folder, {"results.json": rows})[0]
