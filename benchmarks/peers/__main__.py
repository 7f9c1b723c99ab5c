"""Everything that a user could run instead, beside ours, in one run: `make bench-peers`.

Every cell is a process of its own, and those of one row run in turn, round after round; the best
round counts. Memory is that of the process at its peak: beyond its input where the log is in
memory, in all where it is in files. Values that claim to be the same are compared to 1e-9.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

import data  # noqa: E402

OLD = ROOT / "out" / "version-0.1"
VERSION_01 = "78390fc"
"""The commit of version 0.1."""
PEERS = ROOT / ".venv-peers" / "bin" / "python"
OF_PEERS = ("obp", "vw-estimators")
JOBS = str(HERE / "jobs.py")
LISTS = "action, reward, logging, new, q"


@dataclass
class Cell:
    """What one contestant took."""

    who: str
    seconds: float = float("inf")
    cpu: float = float("inf")
    MB: float = 0.0
    values: dict[str, float] = field(default_factory=dict)
    multiplied: bool = False
    failed: str = ""

    def take(self, other: Cell) -> None:
        """The best of both."""
        if other.failed or not other.seconds < self.seconds:
            self.failed = self.failed or other.failed
            return
        for name, value in asdict(other).items():
            setattr(self, name, value)


@dataclass(frozen=True)
class Goal:
    """Ours, in units of somebody's time; or somebody's, in units of ours."""

    against: str
    bound: float
    faster: bool = False
    unit: str = "seconds"

    def ratio(self, cells: dict[str, Cell]) -> float:
        ours, other = cells["ours"], cells.get(self.against)
        if self.against == "":
            return float(getattr(ours, self.unit))
        if other is None or other.failed or ours.failed:
            return float("nan")
        mine, theirs = getattr(ours, self.unit), getattr(other, self.unit)
        return float(theirs / mine if self.faster else mine / theirs)

    def kept(self, cells: dict[str, Cell]) -> bool | None:
        ratio = self.ratio(cells)
        if ratio != ratio:
            return None
        return ratio >= self.bound if self.faster else ratio <= self.bound

    def __str__(self) -> str:
        if self.against == "":
            return f"≤ {self.bound:g} s" + (" of CPU" if self.unit == "cpu" else "")
        if self.faster:
            return f"≥ {self.bound:g} × faster than {self.against}"
        return f"≤ {self.bound:.3g} × {self.against}"


@dataclass(frozen=True)
class Work:
    """One row of the table: a log, and commands that all answer the same question about it."""

    name: str
    what: str
    log: Path
    commands: dict[str, list[str]]
    goals: tuple[Goal, ...] = ()
    agree: tuple[str, ...] = ()
    rounds: int = 3
    cold: bool = False
    """With nothing compiled."""
    in_memory: bool = True


def works(root: Path, scale: float) -> Iterator[Work]:
    """All that is compared, each with its log made when it is due."""

    def some(n: int) -> int:
        return max(int(n * scale), 1_000)

    million, ours = some(1_000_000), ("ours", "0.1")
    log = data.made(root, "both", data.both, million, 10)
    all_others = ("numpy", "reading", "obp", "duckdb", "polars", "vw-estimators")
    yield Work(
        "family-10", f"nine estimators and the headline, {million:,} × 10, in memory", log,
        jobs("family", log, *ours, *all_others), agree=("0.1", *all_others[2:5], "numpy"),
        goals=(Goal("obp", 8, faster=True), Goal("numpy", 2.5)),
    )  # fmt: skip
    yield Work(
        "bootstrap", f"bootstrap, 2,000 resamples of rows, four estimators, {million:,} × 10", log,
        jobs("bootstrap", log, *ours, "numpy", "obp"), goals=(Goal("", 8),), rounds=1,
    )  # fmt: skip
    wide = data.made(root, "arrays", data.arrays, million, 100)
    yield Work(
        "family-100", f"nine estimators and the headline, {million:,} × 100, in memory", wide,
        jobs("family", wide, *ours, "numpy", "reading", "obp"), agree=("0.1", "numpy", "obp"),
        goals=(Goal("obp", 20, faster=True), Goal("reading", 3)), rounds=2,
    )  # fmt: skip
    rows = some(20_000)
    log = data.made(root, "contexts", data.contexts, rows, 400, 10)
    yield Work(
        "contexts", f"evaluate with contexts and no model, {rows:,} × 400, ten numbers", log,
        jobs("contexts", log, *ours, "numpy"), goals=(Goal("numpy", 4),), rounds=1,
    )  # fmt: skip
    log = data.made(root, "both", data.both, million, 10)
    yield Work(
        "parquet", f"evaluate, Parquet, {million:,} × 10, start-up included", log,
        commands(log, evaluate(log)) | scanned(log, LISTS),
        goals=(Goal("bare scan", 1.8),), agree=("0.1",), in_memory=False,
    )  # fmt: skip
    for n, bound in ((200_000, 6), (1_000_000, 10)):
        log = data.made(root, "parquet", data.parquet, some(n), 10)
        yield Work(
            f"cold-{n}", f"the same with nothing compiled, {some(n):,} × 10", log,
            commands(log, evaluate(log)), goals=(Goal("", bound, unit="cpu"),), rounds=1,
            cold=True, in_memory=False,
        )  # fmt: skip
    large = some(20_000_000)
    log = data.made(root, "parquet", data.parquet, large, 10)
    yield Work(
        "parquet-20M", f"evaluate, Parquet, {large:,} × 10", log,
        commands(log, evaluate(log)) | scanned(log, LISTS),
        goals=(Goal("bare scan", 1.2),), agree=("0.1",), rounds=2, in_memory=False,
    )  # fmt: skip
    log = data.made(root, "policies", data.parquet, some(2_000_000), 10, 20)
    names = ["new", *(f"new{k}" for k in range(1, 20))]
    several = [part for name in names for part in ("--policy", name)]
    yield Work(
        "compare-20", f"compare 20 policies, Parquet, {some(2_000_000):,} × 10", log,
        commands(log, ["compare", str(log / "log.parquet"), *several, "--prediction", "q"])
        | scanned(log, ", ".join(["action, reward, logging, q", *names])),
        goals=(Goal("bare scan", 1.5),), rounds=2, in_memory=False,
    )  # fmt: skip
    log = data.made(root, "csv", data.csv, some(500_000), 10)
    yield Work(
        "csv", f"evaluate, CSV, {some(500_000):,} × 10", log,
        commands(log, evaluate(log, "log.csv"))
        | {"bare scan": [sys.executable, JOBS, "scan_csv", str(log)]},
        goals=(Goal("bare scan", 1 / 0.6),), agree=("0.1",), rounds=2, in_memory=False,
    )  # fmt: skip
    log = data.made(root, "learn", data.contexts_parquet, some(200_000), 20, 30)
    yield Work(
        "learn", f"learn a policy, {some(200_000):,} × 20, 30 numbers", log,
        jobs("learn", log, *ours, "scikit-learn"), goals=(Goal("", 10),), rounds=1,
    )  # fmt: skip
    yield Work(
        "learn-files", "the same, from Parquet", log, jobs("learn-files", log, "ours", "in memory"),
        goals=(Goal("in memory", 2),), rounds=1,
    )  # fmt: skip
    log = data.made(root, "parquet", data.parquet, large, 10)
    yield Work(
        "spark", f"evaluate by Spark, local[2], {large:,} × 10, without its start", log,
        jobs("spark", log, "ours", "local[1]", "a DataFrame", "embedded"),
        goals=(Goal("embedded", 2),), agree=("local[1]", "a DataFrame", "embedded"),
        rounds=1,
    )  # fmt: skip
    if "OFFPOLICY_DATA" not in os.environ:
        print("MQ2007 is not in OFFPOLICY_DATA: nothing is ranked.")
        return
    log = data.made(root, "letor", data.letor)
    yield Work(
        "letor", "read LETOR text, MQ2007", log, jobs("letor", log, *ours, "scikit-learn"),
        agree=("0.1", "scikit-learn"),
    )  # fmt: skip
    yield Work(
        "svm-rank", "learn to rank from clicks, MQ2007", log,
        jobs("svm-rank", log, *ours, "lightgbm"), rounds=1,
    )  # fmt: skip


def jobs(work: str, log: Path, *who: str) -> dict[str, list[str]]:
    return {each: [python_of(each), JOBS, work, each, str(log), "1"] for each in who}


def python_of(who: str) -> str:
    return str(PEERS) if who in OF_PEERS else sys.executable


def evaluate(log: Path, name: str = "log.parquet") -> list[str]:
    return ["evaluate", str(log / name), "--policy", "new", "--prediction", "q"]


def commands(log: Path, verb: list[str]) -> dict[str, list[str]]:
    """A command of ours, and of version 0.1; the answer as JSON."""
    whole = [sys.executable, "-m", "offpolicy", *verb, "--format", "json"]
    return {"ours": whole, "0.1": whole}


def scanned(log: Path, columns: str) -> dict[str, list[str]]:
    return {"bare scan": [sys.executable, JOBS, "scan", str(log), columns]}


def measured(work: Work, who: str) -> Cell:
    """One run of one contestant, in a process of its own."""
    env = {**os.environ, "PYTHONPATH": str((OLD if who == "0.1" else ROOT) / "src")}
    with tempfile.TemporaryDirectory() as nothing:
        if work.cold:
            env["NUMBA_CACHE_DIR"] = nothing
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            start = time.perf_counter()
            process = subprocess.Popen(work.commands[who], env=env, stdout=out, stderr=errors)
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            texts = [_text(stream) for stream in (out, errors)]
    if process.returncode not in (0, 1) or (work.in_memory and process.returncode):
        return Cell(who, failed=(texts[1].strip().splitlines() or ["?"])[-1])
    if work.in_memory:
        return Cell(who, **json.loads(texts[0].splitlines()[-1]))
    values = _answers(texts[0]) if who != "bare scan" else {}
    return Cell(who, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024.0, values)


def _text(stream: Any) -> str:
    stream.seek(0)
    return str(stream.read().decode())


def _answers(text: str) -> dict[str, float]:
    """Values of a result's estimators without open parameters; these are the same by definition."""
    rows = json.loads(text).get("estimates", [])
    return {
        row["estimator"]: row["value"]
        for row in rows
        if isinstance(row.get("value"), float) and "=" not in row["estimator"]
    }


def run(work: Work) -> dict[str, Cell]:
    data.ready(work.log)
    cells = {who: Cell(who) for who in work.commands}
    for _ in range(work.rounds):
        for who, cell in cells.items():
            if not cell.failed:
                cell.take(measured(work, who))
    return cells


def furthest(work: Work, cells: dict[str, Cell]) -> float:
    """The largest relative difference from what we computed, among those who claim the same."""
    ours, worst = cells["ours"].values, 0.0
    for who in work.agree:
        for name, value in cells[who].values.items():
            if name in ours:
                worst = max(worst, abs(value - ours[name]) / max(abs(ours[name]), 1e-300))
    return worst


def table(done: dict[str, tuple[Work, dict[str, Cell]]]) -> str:
    """All of it, as the docs show it."""
    lines = ["| work | who | seconds | of CPU | MB | CPU to ours |", "|---|---|---|---|---|---|"]
    for work, cells in done.values():
        for k, cell in enumerate(cells.values()):
            what = work.what if k == 0 else ""
            if cell.failed:
                lines.append(f"| {what} | {cell.who} | failed: {cell.failed[:80]} | | | |")
                continue
            about = "≈ " if cell.multiplied else ""
            ratio = cell.cpu / cells["ours"].cpu
            worth = "".join(
                f", {name} {cell.values[name]:.3f}"
                for name in ("worth", "average rank")
                if name in cell.values
            )
            lines.append(
                f"| {what} | {cell.who}{worth} | {about}{cell.seconds:.3g} | {about}{cell.cpu:.3g} "
                f"| {cell.MB:,.0f} | {ratio:.2f} |"
            )
    lines += ["", "| work | goal | measured | |", "|---|---|---|---|"]
    for work, cells in done.values():
        for goal in work.goals:
            verdict = {True: "kept", False: "**not kept**", None: "not measured"}[goal.kept(cells)]
            lines.append(f"| {work.what} | {goal} | {goal.ratio(cells):.2f} | {verdict} |")
        if work.agree:
            off = furthest(work, cells)
            verdict = "kept" if off <= 1e-9 else "**not kept**"
            lines.append(f"| | same values, to 1e-9 | {off:.1e} | {verdict} |")
    return "\n".join(lines) + "\n"


def prepare() -> None:
    """A checkout of version 0.1, and what both versions compile, compiled."""
    if not OLD.exists():
        subprocess.run(
            ["git", "-C", str(ROOT), "worktree", "add", "--detach", str(OLD), VERSION_01],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    subprocess.run(
        [sys.executable, "-m", "offpolicy", "warm-up"],
        check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="a fraction of the full sizes")
    parser.add_argument("--only", action="append", help="one of the works; may be repeated")
    parser.add_argument("--cpu", action="store_true", help="judge by CPU: for busy machines")
    parser.add_argument("--data", type=Path, help="keep the logs here")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "peers")
    given = parser.parse_args()
    prepare()
    print(
        f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )
    given.out.mkdir(parents=True, exist_ok=True)
    done: dict[str, tuple[Work, dict[str, Cell]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for work in works(given.data or Path(temporary), given.scale):
            if given.only and work.name not in given.only:
                continue
            if given.cpu:
                work = replace(work, goals=tuple(replace(g, unit="cpu") for g in work.goals))
            done[work.name] = work, run(work)
            print(table({work.name: done[work.name]}), flush=True)
    rows = {
        name: {"what": work.what, "cells": {who: asdict(cell) for who, cell in cells.items()}}
        for name, (work, cells) in done.items()
    }
    (given.out / "peers.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (given.out / "table.md").write_text(table(done), encoding="utf-8")


if __name__ == "__main__":
    main()
