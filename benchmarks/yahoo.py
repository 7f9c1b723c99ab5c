"""Reading a made-up set of the size of Yahoo! LTR Set 1, whose files are not public.

python benchmarks/yahoo.py FOLDER

Writes set1.train.txt, set1.valid.txt and set1.test.txt with as many queries and documents as the
real ones, 700 features of which some 45 % are not 0, and prints how long reading each takes and
what memory it needs at most, in a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

SPLITS = {"train": (19_944, 473_134), "valid": (2_994, 71_083), "test": (6_983, 165_660)}
FEATURES, FILLED, LINES = 700, 0.45, 2_000


def write(folder: Path) -> None:
    """The three files; lines are drawn from a few thousand that differ."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(LINES):
        columns = np.flatnonzero(rng.random(FEATURES) < FILLED) + 1
        values = rng.random(len(columns))
        lines.append(" ".join(f"{k}:{x:.5f}" for k, x in zip(columns, values, strict=True)))
    folder.mkdir(parents=True, exist_ok=True)
    first = 1
    for split, (queries, documents) in SPLITS.items():
        query = first + np.sort(np.r_[:queries, rng.integers(0, queries, documents - queries)])
        grade, line = rng.integers(0, 5, documents), rng.integers(0, LINES, documents)
        with open(folder / f"set1.{split}.txt", "w") as file:
            file.writelines(
                f"{g} qid:{q} {lines[k]}\n"
                for g, q, k in zip(grade.tolist(), query.tolist(), line.tolist(), strict=True)
            )
        first += queries


def read(folder: Path, split: str) -> None:
    """In this process: time, and the most memory that it has ever had."""
    from offpolicy.datasets import ranking

    start = time.perf_counter()
    found = ranking("Yahoo-Set1", split, folder=folder, dtype=np.float32)
    seconds = time.perf_counter() - start
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    size = (folder / f"set1.{split}.txt").stat().st_size / 1e6
    print(
        f"{split}: {len(found.qid):,} queries, {len(found.X):,} documents × {found.X.shape[1]}, "
        f"{size:,.0f} MB of text, {seconds:.1f} s ({size / seconds:.0f} MB/s), at most {most:.2f} "
        f"GiB of memory, of which features {found.X.nbytes / 2**30:.2f}"
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if len(sys.argv) > 2:
        read(folder, sys.argv[2])
    else:
        if not (folder / "set1.test.txt").exists():
            write(folder)
        for split in SPLITS:
            subprocess.run([sys.executable, __file__, str(folder), split], check=True)
