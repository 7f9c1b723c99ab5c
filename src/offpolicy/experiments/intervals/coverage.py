"""Do intervals cover? Many logs whose truth is known: worlds, labelled sets, and variations.

In the worlds every kind of interval is taken. ``default`` intervals are of the policy's value.
Those valid at every n are given the estimator for which they are meant, and a clipped one is
widened by the largest bias it could have, so all figures are about the same thing: how often the
policy's value is inside.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy import intervals
from offpolicy._core.documents import built
from offpolicy._core.types import Floats
from offpolicy.evaluation import evaluate
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.intervals.outcomes import Cell, Outcome, grouped_logs, joined
from offpolicy.experiments.intervals.protocol import MODELS, run_block, run_differences
from offpolicy.experiments.intervals.variations import VARIATIONS, run_variation
from offpolicy.experiments.intervals.verdicts import (
    Before,
    cover,
    error_verdicts,
    limit_of,
    protocol_verdicts,
    to_markdown,
    version_verdicts,
)
from offpolicy.experiments.saving import Report
from offpolicy.experiments.tables import grouped, markdown
from offpolicy.experiments.worlds import World, finite_worlds
from offpolicy.intervals import Interval, betting, bootstrap
from offpolicy.logs import BanditLog
from offpolicy.policies import resolve
from offpolicy.results import Result

LEVEL = 0.95
HEADLINE = "default: headline"
QUICK = (20, 5)
"""Splits, and draws of each."""
_BLOCK = 25
"""Splits that are computed together: a minute or less, and no more is lost when a run is killed."""
_DECISIONS = 2000
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


@dataclass(frozen=True)
class OfWorld:
    """One finite world at one n: every kind of interval, and the headline in full."""

    rows: list[Coverage]
    cell: Cell


def run(
    cells: Cells,
    sets: Sequence[str],
    splits: int,
    draws: int,
    repeats: int,
    sizes: Sequence[int],
) -> Report:
    """The experiment on coverage: the labelled sets, the variations, the finite worlds."""
    asked = work(sets, splits, draws, repeats, sizes)
    parts, pairs, varied, finite = (cells.all(what, *each) for what, each in asked.items())
    by_cell = grouped(itertools.chain(*parts), lambda cell: cell.name)
    protocol = [joined(part) for part in by_cell.values()]
    varied = [*itertools.chain(*pairs, *varied)]
    of_worlds = [part.cell for part in finite]
    text = "no difference or variation covers significantly less than 2 points below its level"
    verdicts = [
        *protocol_verdicts(protocol),
        cover(varied, text, [limit_of(cell) for cell in varied]),
        *error_verdicts(grouped(protocol, lambda cell: cell.model) | {"worlds": of_worlds}),
        *version_verdicts(of_worlds, before(cells.folder.parent / "version_01.json")),
    ]
    rows = [row for part in finite for row in part.rows]
    told = to_markdown(verdicts)
    tables = {"Labelled sets": protocol, "Differences and variations": varied,
              "Simulated worlds": of_worlds}  # fmt: skip
    table = f"{told}\n{cells_markdown(tables)}\n{worlds_markdown(rows)}"
    return Report(told, {"verdicts.json": verdicts, "table.md": table})


def work(
    sets: Sequence[str], splits: int, draws: int, repeats: int, sizes: Sequence[int]
) -> dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]]:
    """The cells of every kind: a function, and what it is asked."""
    blocks = [
        (name, model, start, min(_BLOCK, count - start), each)
        for model, (count, each) in plan(splits, draws).items()
        for name in sets
        for start in range(0, count, _BLOCK)
    ]
    groups = max(splits // 2, 2)
    worlds = itertools.product(finite_worlds(), sizes)
    return {
        "blocks of splits": (run_block, blocks),
        "differences": (run_differences, [(name, groups, draws) for name in sets[:2]]),
        "variations": (run_variation, [(name, _DECISIONS, groups * draws) for name in VARIATIONS]),
        "worlds and sizes": (
            run_one, [(world.name, n, logs_at(n, repeats)) for world, n in worlds]
        ),
    }  # fmt: skip


def plan(splits: int, draws: int) -> dict[str, tuple[int, int]]:
    """Splits and draws with each model: fewer where one is trained for every log."""
    fewer = max(splits // 4, min(splits, QUICK[0]))
    return {model: (splits if model == MODELS[0] else fewer, draws) for model in MODELS}


def logs_at(n: int, repeats: int) -> int:
    """How many logs of a finite world: fewer of long ones."""
    return max(2, repeats // (1 if n < 2000 else 2 if n < 20_000 else 10))


def before(path: Path) -> list[Before]:
    """What `scripts/version_01.py` found, if it is there."""
    return (
        built(list[Before], json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else []
    )


def run_one(name: str, n: int, repeats: int) -> OfWorld:
    """Draw the logs of one world of the experiment and take all intervals of each."""
    world = next(world for world in finite_worlds() if world.name == name)
    rng = np.random.default_rng([n, *map(ord, name)])
    by_kind: dict[str, list[Interval]] = defaultdict(list)
    outcomes = []
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
        outcomes.append(Outcome.of(world.value, result))
        taken = {f"default: {row.estimator}": row.interval for row in result}
        if result.can_tell:
            taken[HEADLINE] = result.headline.interval
        if world.cluster_size == 1:
            taken |= _others(world, log.reward, _weights(log, policy), result, n, repeat)
        for kind, interval in taken.items():
            by_kind[kind].append(interval)
    refused = sum(outcome.refused for outcome in outcomes)
    rows = [
        Coverage(name, n, kind, len(all_), sum(world.value in interval for interval in all_),
                 refused if kind == HEADLINE else 0,
                 float(np.median([interval.width for interval in all_])))
        for kind, all_ in by_kind.items()
    ]  # fmt: skip
    known = {"logging": "candidates", "none": "estimated"}.get(world.reveals, "chosen only")
    model = "no model" if world.prediction is None else "given"
    groups = grouped_logs(outcomes)
    return OfWorld(rows, Cell.of(name, f"n = {n:,}", model, known, n, groups))


def _weights(log: BanditLog, policy: Floats) -> Floats:
    """c of every row of a log of the experiment."""
    target = resolve(log, policy)
    chosen = target.chosen if target.flat is None else target.flat[log.chosen_index]
    assert chosen is not None
    assert log.propensity is not None
    return chosen / log.propensity


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
        often = min(n, 100)
        looks = np.unique(np.r_[1 : often + 1, np.geomspace(often, n, 200)].astype(int))
        limits = betting.weighted_sequence(c, reward, LEVEL, reward_range=(low, high), times=looks)
        always = bool(((limits.low <= world.value) & (world.value <= limits.high)).all())
        last = Interval(float(limits.low[-1]), float(limits.high[-1]))
        taken["sequence, peeking: IPS"] = (
            last if always else Interval(world.value + 1.0, world.value + 1.0 + last.width)
        )
    return taken


def cells_markdown(tables: Mapping[str, Sequence[Cell]]) -> str:
    """Every cell of the experiment, a row each."""
    heads = ["", "policy", "model", "π₀ known of", "logs", "covered", "SNIPS ± 1.96 se", "width",
             "refused", "alarms", "squared error", "lower limit"]  # fmt: skip
    return "\n".join(f"### {title}\n\n{markdown(heads, map(_row, cells))}\n"
                     for title, cells in tables.items())  # fmt: skip


def _row(cell: Cell) -> list[str]:
    beside, ratios = ["–"] * 2, ["–"] * 2
    if cell.snips_error:
        beside = [f"{cell.snips_covered:.1%}", f"{cell.width_ratio:.2f}"]
        ratios = [f"{number:.2f}" for number in cell.error_ratio()]
    names = [cell.where, cell.policy, cell.model, cell.known]
    covered = f"{cell.coverage:.1%}"
    shares = [f"{share / cell.logs:.1%}" for share in (cell.refused, cell.alarms)]
    return [*names, f"{cell.logs:,}", covered, *beside, *shares, *ratios]


def worlds_markdown(rows: Sequence[Coverage]) -> str:
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
