"""Writes measured/coverage/version_01.json: the headline of version 0.1 in the fifteen worlds.

Run it with a Python that has version 0.1 installed; it draws the logs that `make coverage` draws:

    python scripts/version_01.py [FILE]

About 20 minutes on one core. If it is stopped, it goes on with the next world and size.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import offpolicy as op
from offpolicy.experiments import worlds

FILE = Path(__file__).parent.parent / "measured" / "coverage" / "version_01.json"
REPEATS = {200: 2000, 2000: 1000, 20_000: 200}


def digest(log: Any) -> str:
    """What tells that two versions drew the same log."""
    drawn = np.stack([log.chosen.astype(np.float64), log.reward])
    return hashlib.sha256(drawn.tobytes()).hexdigest()[:16]


def measured(world: Any, n: int, repeats: int) -> dict[str, Any]:
    """Mean squared error and coverage of the headline over all logs, refused ones too."""
    rng = np.random.default_rng([n, *map(ord, world.name)])
    first, error, covered, refused = "", 0.0, 0, 0
    for _ in range(repeats):
        log, policy, prediction = world.draw(n, rng)
        first = first or digest(log)
        headline = op.evaluate(
            log,
            policy,
            prediction=prediction,
            estimators=["SNIPS"],
            reward_range=world.reward_range,
        ).headline
        error += (headline.value - world.value) ** 2
        covered += world.value in headline.interval
        refused += headline.refusal is not None
    return {
        "world": world.name, "n": n, "repeats": repeats, "mse": float(f"{error / repeats:.5g}"),
        "covered": covered, "refused": refused, "first_log": first,
    }  # fmt: skip


def main(path: Path) -> None:
    rows = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    done = {(row["world"], row["n"]) for row in rows}
    all_worlds = worlds.worlds() if hasattr(worlds, "worlds") else worlds.finite_worlds()
    for n, repeats in REPEATS.items():
        for world in all_worlds:
            if (world.name, n) not in done:
                rows.append(measured(world, n, repeats))
                path.write_text(
                    "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8"
                )
                print(rows[-1], flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else FILE)
