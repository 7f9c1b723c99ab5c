"""Do intervals cover? Many logs from worlds whose value is known, every kind of interval.

``default`` intervals are of the policy's value. Those valid at every n are given the estimator
for which they are meant, and a clipped one is widened by the largest bias it could have, so all
figures are about the same thing: how often the policy's value is inside.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from offpolicy import intervals
from offpolicy._core.types import Floats
from offpolicy.evaluation import evaluate
from offpolicy.evidence import whole_block
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.saving import Report
from offpolicy.experiments.tables import grouped, markdown
from offpolicy.experiments.worlds import World, finite_worlds
from offpolicy.intervals import Interval, betting, bootstrap
from offpolicy.policies import resolve
from offpolicy.results import Result

LEVEL = 0.95
HEADLINE = "default: headline"
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


def run(cells: Cells, repeats: int, sizes: Sequence[int]) -> Report:
    """The experiment on coverage, world by world and size by size."""
    worlds = [world.name for world in finite_worlds()]
    work = list(itertools.product(worlds, sizes, [repeats]))
    rows = [row for part in cells.all("worlds and sizes", run_one, work) for row in part]
    text = to_markdown(rows)
    return Report(text, {"results.json": {"level": LEVEL, "rows": rows}, "table.md": text})


def run_one(name: str, n: int, repeats: int) -> list[Coverage]:
    """Draw the logs of one world of the experiment and take all intervals of each."""
    world = next(world for world in finite_worlds() if world.name == name)
    rng = np.random.default_rng([n, *map(ord, name)])
    by_kind: dict[str, list[Interval]] = defaultdict(list)
    refused = 0
    for repeat in range(repeats):
        log, policy, prediction = world.draw(n, rng)
        wanted = ["IPS", "SNIPS", f"CIPS(M={_CLIP:g})"]
        if prediction is not None:
            wanted += ["DM", "DR", f"CAB-DR(M={_CLIP:g})"]
            if log.logging is not None:
                wanted += [f"CAB(M={_CLIP:g})"]
        result = evaluate(
            log, policy, prediction=prediction, estimators=wanted, reward_range=world.reward_range
        )
        taken = {f"default: {row.estimator}": row.interval for row in result}
        if result.can_tell:
            taken[HEADLINE] = result.headline.interval
        else:
            refused += 1
        if world.cluster_size == 1:
            c = whole_block(log, resolve(log, policy), None).c
            taken |= _others(world, log.reward, c, result, n, repeat)
        for kind, interval in taken.items():
            by_kind[kind].append(interval)
    return [
        Coverage(name, n, kind, len(all_), sum(world.value in interval for interval in all_),
                 refused if kind == HEADLINE else 0,
                 float(np.median([interval.width for interval in all_])))
        for kind, all_ in by_kind.items()
    ]  # fmt: skip


def _others(
    world: World, reward: Floats, c: Floats, result: Result, n: int, repeat: int
) -> dict[str, Interval]:
    """The experiment's other kinds of interval, on c·r and on min(c, M)·r."""
    low, high = world.reward_range
    x, clipped = c * reward, np.minimum(c, _CLIP) * reward
    top = _CLIP * high
    mean, spread = float(clipped.mean()), float(clipped.var(ddof=1))
    # What clipping may have cut off: the policy's unanswered mass at the highest reward.
    missing = result[f"CIPS(M={_CLIP:g})"].imputed_mass * high

    def widened(interval: Interval) -> Interval:
        return Interval(interval.low, interval.high + missing)

    taken = {
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
        taken["bootstrap: IPS"] = bootstrap.bootstrap(x, LEVEL, resamples=500, seed=repeat)
        taken["bootstrap (BCa): IPS"] = bootstrap.bootstrap(
            x, LEVEL, kind="bca", resamples=500, seed=repeat
        )
        taken["empirical likelihood: IPS"] = bootstrap.empirical_likelihood(x, LEVEL)
    if repeat < 500:
        # Looked at after every row up to 100, then ever more seldom: it must always be right.
        looks = np.unique(np.r_[1:101, np.geomspace(100, n, 200)].astype(int))
        limits = betting.weighted_sequence(c, reward, LEVEL, reward_range=(low, high), times=looks)
        always = bool(((limits.low <= world.value) & (world.value <= limits.high)).all())
        last = Interval(float(limits.low[-1]), float(limits.high[-1]))
        taken["sequence, peeking: IPS"] = (
            last if always else Interval(world.value + 1.0, world.value + 1.0 + last.width)
        )
    return taken


def to_markdown(rows: Sequence[Coverage]) -> str:
    """The experiment's table for each world: coverage and median width at each n."""
    about = {world.name: world for world in finite_worlds()}
    by_world = grouped(rows, lambda row: row.world)
    return "\n".join(_of_world(about[name], part) for name, part in by_world.items())


def _of_world(world: World, rows: Sequence[Coverage]) -> str:
    sizes = list(dict.fromkeys(row.n for row in rows))
    text = f"{world.about[0].upper()}{world.about[1:]}."
    if world.unsupported > 0.0:
        span = world.reward_range[1] - world.reward_range[0]
        text += (
            f" {world.unsupported:.1%} of the policy's probability is there, so no interval "
            f"that holds in the worst case is narrower than {world.unsupported * span:.3f}."
        )
    headlines = {row.n: row for row in rows if row.kind == HEADLINE}
    for row in headlines.values():
        if row.refused:
            share = row.refused / (row.repeats + row.refused)
            text += f" At n = {row.n:,} {share:.0%} of the logs were refused."
    for n in sizes:
        if n not in headlines:
            text += f" At n = {n:,} every log was refused."
    lines = []
    for kind in sorted({row.kind for row in rows}, key=_rank):
        by_n = {row.n: row for row in rows if row.kind == kind}
        cells = [(f"{by_n[n].share:.1%}", f"{by_n[n].width:.3g}") if n in by_n else ("–", "–")
                 for n in sizes]  # fmt: skip
        lines.append([kind, *itertools.chain(*cells)])
    heads = [title for n in sizes for title in (f"n = {n:,}: covered", "width")]
    return f"### {world.name}\n\n{text}\n\n{markdown(['interval', *heads], lines)}\n"


def _rank(kind: str) -> tuple[int, str]:
    order = (HEADLINE, "default", "normal", "bootstrap", "empirical likelihood")
    return next((k for k, start in enumerate(order) if kind.startswith(start)), len(order)), kind
