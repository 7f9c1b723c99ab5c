"""What things cost, as ratios within one run: `make bench`.

Seconds depend on the machine and on what else it does; ratios, with both sides measured in turn
and the best of several rounds taken, hold up better. Every row names the bound it is held to.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import offpolicy as op
from offpolicy._core.files import write_whole
from offpolicy.estimators import GRID

EIGHT = ["DM", "IPS", "CIPS(M=5)", "DR", "SB(tau=0.5)", "SWITCH(M=5)", "CAB(M=5)", "CAB-DR(M=5)"]


@dataclass(frozen=True)
class Row:
    what: str
    against: str
    seconds: float
    baseline: float
    bound: float

    @property
    def ratio(self) -> float:
        return self.seconds / self.baseline

    def __str__(self) -> str:
        verdict = "ok" if self.ratio <= self.bound else "OVER"
        return (
            f"{self.what:<52} {self.seconds:>8.3f} s {self.ratio:>7.2f} × {self.against:<34} "
            f"(at most {self.bound:g}: {verdict})"
        )


def in_turn(rounds: int, *functions: Callable[[], object]) -> list[float]:
    """The best time of each, measured in turn."""
    best = [float("inf")] * len(functions)
    for _ in range(rounds):
        for k, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def problem(n: int, K: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    pi0 = rng.random((n, K))
    pi0 /= pi0.sum(axis=1, keepdims=True)
    pi = rng.random((n, K)) ** 4
    pi /= pi.sum(axis=1, keepdims=True)
    return pi, pi0, rng.random((n, K)), rng.integers(0, K, n), rng.random(n)


def curves(n: int, K: int, rounds: int) -> list[Row]:
    """The curve over M against one value of M in plain NumPy."""
    pi, pi0, delta_hat, action, reward = problem(n, K)
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=pi0)
    rows = np.arange(n)

    def one_value() -> tuple[float, float]:
        c = pi[rows, action] / pi0[rows, action]
        imputed = (np.maximum(pi - 5.0 * pi0, 0.0) * delta_hat).sum(axis=1)
        g = imputed + np.minimum(c, 5.0) * reward
        return g.mean(), g.std(ddof=1) / np.sqrt(n)

    def grid() -> op.Curve:
        return op.sweep(log, pi, prediction=delta_hat, grid=GRID)

    def path() -> op.Curve:
        return op.sweep(log, pi, prediction=delta_hat)

    curve, (value, stderr) = path(), one_value()
    assert abs(float(curve.at(5.0)) / value - 1.0) < 1e-12
    assert abs(float(curve.stderr_at(5.0)) / stderr - 1.0) < 1e-12
    breakpoints = len(curve.breakpoints)
    del curve
    grid()
    one, one_grid = in_turn(2 * rounds, one_value, grid)
    one_again, whole = in_turn(rounds, one_value, path)
    one, size = min(one, one_again), f"{n:,} × {K}"
    return [
        Row(f"grid of 64 M, {size}", "one M in NumPy", one_grid, one, 2.0),
        Row(f"path over {breakpoints:,} breakpoints, {size}", "one M in NumPy", whole, one, 30.0),
    ]


def family(n: int, K: int, rounds: int) -> tuple[list[Row], float]:
    """Eight estimators against reading the three arrays once; and the memory they take (MB)."""
    pi, pi0, delta_hat, action, reward = problem(n, K)
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=pi0)

    def read() -> float:
        return float(pi.sum() + pi0.sum() + delta_hat.sum())

    def eight() -> op.Result:
        return op.evaluate(log, pi, prediction=delta_hat, estimators=EIGHT)

    small = op.BanditLog.from_arrays(
        action=action[:20_000], reward=reward[:20_000], logging=pi0[:20_000]
    )
    op.evaluate(small, pi[:20_000], prediction=delta_hat[:20_000], estimators=EIGHT)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    eight()
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024.0
    reading, all_eight = in_turn(rounds, read, eight)
    what = f"eight estimators and the headline, {n:,} × {K}"
    return [Row(what, "summing the three arrays", all_eight, reading, 3.0)], extra


def startup() -> dict[str, float]:
    """CPU seconds of a fresh process: import and --help."""
    commands = {
        "import offpolicy": [sys.executable, "-c", "import offpolicy"],
        "offpolicy --help": [sys.executable, "-m", "offpolicy", "--help"],
    }
    seconds = {}
    for name, command in commands.items():
        best = float("inf")
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            best = min(best, used)
        seconds[name] = best
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    parser.add_argument("--scale", type=float, default=1.0, help="a fraction of the full size")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    n = int(1_000_000 * options.scale)
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}")
    rows = curves(n, 10, options.rounds)
    more, extra = family(n, 100, options.rounds)
    rows += more
    for row in rows:
        print(row)
    size = 3 * n * 100 * 8 / 2**20
    print(f"memory beyond the input for the eight: {extra:.0f} MB (the input: {size:.0f} MB)")
    cpu = startup()
    for name, seconds in cpu.items():
        print(f"{name}: {seconds:.2f} s of CPU (at most 0.5)")
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        body = {
            "rows": [asdict(row) | {"ratio": row.ratio} for row in rows],
            "extra_megabytes": extra,
            "cpu_seconds": cpu,
        }
        write_whole(options.out, json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
