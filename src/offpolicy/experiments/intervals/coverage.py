"""Do intervals cover? Many logs from worlds whose value is known, every kind of interval.

``default`` intervals are of the policy's value. Those valid at every n are given the estimator
for which they are meant, and a clipped one is widened by the largest bias it could have, so all
figures are about the same thing: how often the policy's value is inside.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy import intervals
from offpolicy._core.files import write_whole
from offpolicy._core.types import Floats
from offpolicy.evaluation import evaluate
from offpolicy.experiments.cells import each_cell
from offpolicy.experiments.intervals.worlds import World, worlds
from offpolicy.intervals import Interval, betting, bootstrap
from offpolicy.results import Result

SIZES = (200, 2000, 20_000)
LEVEL = 0.95
_CLIP = 5.0


@dataclass(frozen=True)
class Coverage:
    """How one kind of interval did in one world at one n."""

    world: str
    n: int
    kind: str
    repeats: int
    covered: int
    refused: int
    """Logs of which the headline said that they cannot tell; these are not counted above."""
    width: float
    """Median."""

    @property
    def share(self) -> float:
        return self.covered / self.repeats if self.repeats else math.nan


def run(
    folder: Path, *, sizes: Sequence[int] = SIZES, repeats: int = 2000, jobs: int = 1
) -> Iterator[list[Coverage]]:
    """World by world and size by size, in order, as they are done; what ``folder`` holds of an
    earlier run is taken from there."""
    cells = [(world.name, n, repeats) for world in worlds() for n in sizes]
    for part in each_cell(_cell, cells, folder=folder, jobs=jobs):
        yield [Coverage(**row) for row in part]


def _cell(name: str, n: int, repeats: int) -> list[dict[str, Any]]:
    return [asdict(row) for row in run_one(name, n, repeats)]


def run_one(name: str, n: int, repeats: int) -> list[Coverage]:
    """Draw the logs of one world and take all intervals of each."""
    world = next(one for one in worlds() if one.name == name)
    rng = np.random.default_rng([n, *map(ord, name)])
    inside: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}
    refused = 0
    for repeat in range(repeats):
        log, policy, prediction = world.draw(n, rng)
        wanted = ["IPS", "SNIPS", f"CIPS(M={_CLIP:g})"]
        if prediction is not None:
            wanted += ["DM", "DR", f"CAB-DR(M={_CLIP:g})"]
            if log.logging is not None:
                wanted += [f"CAB(M={_CLIP:g})"]
        result = evaluate(
            log,
            policy,
            prediction=prediction,
            estimators=wanted,
            reward_range=world.reward_range,
        )
        found = {f"default: {row.estimator}": row.interval for row in result}
        if result.can_tell:
            found["default: headline"] = result.headline.interval
        else:
            refused += 1
        if world.cluster_size == 1:
            found |= _others(world, log.reward, _weights(log, policy), result, n, repeat)
        for kind, interval in found.items():
            inside.setdefault(kind, []).append(world.value in interval)
            widths.setdefault(kind, []).append(interval.width)
    return [
        Coverage(
            name,
            n,
            kind,
            len(hits),
            sum(hits),
            refused if kind == "default: headline" else 0,
            float(np.median(widths[kind])),
        )
        for kind, hits in inside.items()
    ]


def _weights(log: object, policy: Floats) -> Floats:
    from offpolicy.evidence import whole_block
    from offpolicy.logs import BanditLog
    from offpolicy.policies import resolve

    assert isinstance(log, BanditLog)
    return whole_block(log, resolve(log, policy), None).c


def _others(
    world: World, reward: Floats, c: Floats, result: Result, n: int, repeat: int
) -> dict[str, Interval]:
    """The other kinds, on c·r and on min(c, M)·r."""
    low, high = world.reward_range
    x, clipped = c * reward, np.minimum(c, _CLIP) * reward
    top = _CLIP * high
    mean, spread = float(clipped.mean()), float(clipped.var(ddof=1))
    # What clipping may have cut off: the policy's unanswered mass at the highest reward.
    missing = result[f"CIPS(M={_CLIP:g})"].imputed_mass * high

    def widened(interval: Interval) -> Interval:
        return Interval(interval.low, interval.high + missing)

    found = {
        "normal: IPS": intervals.normal(
            float(x.mean()), float(x.std(ddof=1)) / math.sqrt(n), LEVEL
        ),
        "betting: IPS": betting.betting(c, reward, LEVEL, reward_range=(low, high)),
        "hoeffding: CIPS + bias bound": widened(intervals.hoeffding(mean, n, 0.0, top, LEVEL)),
        "empirical Bernstein: CIPS + bias bound": widened(
            intervals.empirical_bernstein(mean, n, spread, 0.0, top, LEVEL)
        ),
        "betting: CIPS + bias bound": widened(betting.betting_bounded(clipped, 0.0, top, LEVEL)),
    }
    if n <= 2000 and repeat < 500:
        found["bootstrap: IPS"] = bootstrap.bootstrap(x, LEVEL, resamples=500, seed=repeat)
        found["bootstrap (BCa): IPS"] = bootstrap.bootstrap(
            x, LEVEL, kind="bca", resamples=500, seed=repeat
        )
        found["empirical likelihood: IPS"] = bootstrap.empirical_likelihood(x, LEVEL)
    if repeat < 500:
        # Looked at after every row: it must have been right every time.
        limits = betting.weighted_sequence(
            c, reward, LEVEL, reward_range=(low, high), times=_peeks(n)
        )
        always = bool(((limits.low <= world.value) & (world.value <= limits.high)).all())
        last = Interval(float(limits.low[-1]), float(limits.high[-1]))
        found["sequence, peeking: IPS"] = (
            last if always else Interval(world.value + 1.0, world.value + 1.0 + last.width)
        )
    return found


def _peeks(n: int) -> Floats:
    """Every row up to 100, then ever more seldom."""
    return np.unique(np.concatenate([np.arange(1, 101), np.geomspace(100, n, 200)]).astype(int))


def to_markdown(rows: Sequence[Coverage]) -> str:
    """A table per world: coverage and median width at each n."""
    sizes = list(dict.fromkeys(row.n for row in rows))
    about = {world.name: world for world in worlds()}
    lines = []
    for name in dict.fromkeys(row.world for row in rows):
        own = [row for row in rows if row.world == name]
        world = about[name]
        lines += [f"### {name}", "", f"{world.about[0].upper()}{world.about[1:]}."]
        if world.unsupported > 0.0:
            span = world.reward_range[1] - world.reward_range[0]
            lines[-1] += (
                f" {world.unsupported:.1%} of the policy's probability is there, so no interval "
                f"that holds in the worst case is narrower than {world.unsupported * span:.3f}."
            )
        refused = [row for row in own if row.kind == "default: headline" and row.refused]
        for row in refused:
            total = row.repeats + row.refused
            lines[-1] += f" At n = {row.n:,} {row.refused / total:.0%} of the logs were refused."
        for n in sizes:
            if all(row.n != n or row.kind != "default: headline" for row in own):
                lines[-1] += f" At n = {n:,} every log was refused."
        heads = " | ".join(f"n = {n:,}: covered | width" for n in sizes)
        lines += ["", f"| interval | {heads} |", f"|---|{'---|' * (2 * len(sizes))}"]
        for kind in sorted({row.kind for row in own}, key=_rank):
            cells = []
            for n in sizes:
                hit = [row for row in own if row.n == n and row.kind == kind]
                cells += [f"{hit[0].share:.1%}", f"{hit[0].width:.3g}"] if hit else ["–", "–"]
            lines.append(f"| {kind} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _rank(kind: str) -> tuple[int, str]:
    order = ("default: headline", "default", "normal", "bootstrap", "empirical likelihood")
    return next((k for k, start in enumerate(order) if kind.startswith(start)), len(order)), kind


def save(rows: Sequence[Coverage], folder: Path) -> Path:
    """Write the tables and the numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    body = {"level": LEVEL, "rows": [asdict(row) for row in rows]}
    write_whole(folder / "results.json", json.dumps(body, indent=1) + "\n")
    table = folder / "table.md"
    write_whole(table, to_markdown(rows))
    return table
