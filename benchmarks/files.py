"""What a large Parquet log costs, as ratios to merely reading it: `make bench-files`.

Writes a log (by default 20 million decisions with ten candidates, 5.1 GB of numbers before
compression) into a temporary folder, then measures in turn, in fresh processes, best of several
rounds: scanning its columns to Arrow batches by DuckDB, the plan and its sample, and a whole
`evaluate` with the family, the headline and its 64 values of M; time at a twentieth of the rows;
and peak memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ALL = [
    "DM", "IPS", "CIPS(M=5)", "SNIPS", "DR", "SNDR", "SB(tau=0.5)", "SWITCH(M=5)", "SWITCH-DR(M=5)",
    "DRos(lam=5)", "SGIPS(lam=0.1)", "SGDR(lam=0.1)", "CAB(M=5)", "CAB-DR(M=5)",
]  # fmt: skip
COLUMNS = ("action", "reward", "logging", "new", "q")
MEMORY = "512MB"


def write(path: Path, rows: int, K: int) -> None:
    """A log whose logger and policy prefer different candidates."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, rows, 122_880):
        n = min(122_880, rows - start)
        score = rng.standard_normal((n, K))
        pi0 = np.exp(score + rng.standard_normal((n, K)))
        pi = np.exp(1.5 * score + rng.standard_normal((n, K)))
        q = 1.0 / (1.0 + np.exp(2.0 - score))
        pi0 /= pi0.sum(axis=1, keepdims=True)
        pi /= pi.sum(axis=1, keepdims=True)
        action = (rng.random((n, 1)) > pi0.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
        reward = (rng.random(n) < q[np.arange(n), action]).astype(float)
        offsets = pa.array(np.arange(n + 1, dtype=np.int32) * K)

        def lists(values: np.ndarray, offsets: pa.Array = offsets) -> pa.Array:
            return pa.ListArray.from_arrays(offsets, pa.array(values.reshape(-1)))

        table = pa.table(
            {"action": action, "reward": reward, "logging": lists(pi0), "new": lists(pi),
             "q": lists(q + 0.2 * rng.standard_normal((n, K)))}
        )  # fmt: skip
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table, row_group_size=122_880)
    assert writer is not None
    writer.close()


def measure(what: str, path: str) -> dict[str, float]:
    """Seconds and peak megabytes of one job, in this process."""
    from offpolicy.evidence import Question, make_plans, prepare
    from offpolicy.logs.files._parquet import ParquetScan

    scan = ParquetScan([Path(path)], memory=MEMORY)
    if what != "scan":
        _compile(path)
    start = time.perf_counter()
    if what == "scan":
        import duckdb

        reader = duckdb.connect(config={"memory_limit": MEMORY}).sql(
            f"SELECT {', '.join(COLUMNS)} FROM '{path}'"
        )
        for _ in reader.to_arrow_reader(16_384):
            pass
    elif what == "sample":
        question = Question(scan, {"new": "new"}, prediction="q", estimators=ALL)
        make_plans(question, prepare(question))
    else:
        import offpolicy as op

        op.evaluate(scan, "new", prediction="q", estimators=ALL)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0}


def _compile(path: str) -> None:
    """Kernels are compiled once, on the first of the rows."""
    import offpolicy as op
    from offpolicy.logs._scan import BLOCK
    from offpolicy.logs.files._parquet import ParquetScan

    few = ParquetScan([Path(path)], memory=MEMORY).read([(0, 2 * BLOCK)], ("new", "q"))
    op.evaluate(few, "new", prediction="q", estimators=ALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--candidates", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="keep the files here")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks-files.json"))
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(*given.measure)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        sizes = {"large": given.rows, "small": max(given.rows // 20, 1)}
        paths = {name: folder / f"{name}-{rows}.parquet" for name, rows in sizes.items()}
        for name, path in paths.items():
            if not path.exists():
                write(path, sizes[name], given.candidates)
        best: dict[str, dict[str, float]] = {}
        for _ in range(given.rounds):
            for name, path in paths.items():
                for what in ("scan", "sample", "evaluate"):
                    command = [sys.executable, __file__, "--measure", what, str(path)]
                    text = subprocess.run(command, check=True, capture_output=True, text=True)
                    found = json.loads(text.stdout)
                    key = f"{what} {name}"
                    if key not in best or found["seconds"] < best[key]["seconds"]:
                        best[key] = found
    report(best, sizes)
    from offpolicy._core.files import write_whole

    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(given.out, json.dumps({"sizes": sizes, "best": best}, indent=1) + "\n")


def report(best: dict[str, dict[str, float]], sizes: dict[str, int]) -> None:
    scan, sample, whole = (best[f"{what} large"] for what in ("scan", "sample", "evaluate"))
    main_scan = whole["seconds"] - sample["seconds"]
    few = best["evaluate small"]["seconds"] - best["sample small"]["seconds"]
    growth = main_scan / few / sizes["large"] * sizes["small"]

    def line(what: str, value: str, bound: str, kept: bool) -> None:
        print(f"{what:<58} {value:>12}   (at most {bound}: {'ok' if kept else 'OVER'})")

    print(f"{sizes['large']:,} decisions; scanning to Arrow batches {scan['seconds']:.1f} s")
    ratio = main_scan / scan["seconds"]
    line("evaluate without the plan, to the scan", f"{ratio:.2f}", "1.5", ratio <= 1.5)
    share = sample["seconds"] / scan["seconds"]
    line("the plan and its sample, to the scan", f"{share:.1%}", "10%", share <= 0.1)
    line("peak memory", f"{whole['MB']:.0f} MB", "1024 MB", whole["MB"] <= 1024)
    line("growth of the same from a twentieth, to linear", f"{growth:.2f}", "1.15", growth <= 1.15)
    more = whole["MB"] - best["evaluate small"]["MB"]
    line("memory more than at a twentieth", f"{more:.0f} MB", "100 MB", more <= 100)


if __name__ == "__main__":
    main()
