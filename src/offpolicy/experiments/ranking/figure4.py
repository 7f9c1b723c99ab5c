"""Figure 4 (2): the average rank of rankers that are learned, over the amount of clicks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from offpolicy.experiments.claims import Verdict
from offpolicy.experiments.pictures import finish, line, over_amounts, panels, plain
from offpolicy.experiments.ranking.learning import ESTIMATORS, Ranked, by_set, by_sweeps
from offpolicy.experiments.ranking.table2 import behind, mean_rank
from offpolicy.experiments.tables import best_marked, markdown, shown


def to_markdown(found: Sequence[Ranked]) -> str:
    """As numbers."""
    groups: dict[str, list[Ranked]] = {}
    for one in found:
        key = f"{one.condition.where}, {one.condition.sweeps:g}"
        groups.setdefault(key, []).append(one)
    rows = [
        [place, *best_marked([mean_rank(own, name) for name in ESTIMATORS], ".2f")]
        for place, own in groups.items()
    ]
    return markdown(["set, sweeps", *map(shown, ESTIMATORS)], rows)


def claims(own: Sequence[Ranked], place: str) -> list[Verdict]:
    """What the paper says of it, from the runs on one data set."""
    sizes = by_sweeps(own)
    if len(sizes) < 2:
        return []
    fewest, most = min(sizes), max(sizes)
    falls = {n: mean_rank(sizes[most], n) - mean_rank(sizes[fewest], n) for n in ESTIMATORS}
    first = {name: behind(sizes[fewest], "CAB", name)[0] for name in ("IPS", "CIPS")}
    switch = {f"{size:g}": behind(runs, "CAB", "SWITCH")[0] for size, runs in sizes.items()}
    judged = {
        f"the rank falls with data for all estimators (at {most:g} less at {fewest:g} sweeps)":
            falls,
        f"at {fewest:g} sweeps CAB is ahead of IPS and cIPS (ranks, its less theirs)": first,
        "CAB is ahead of SWITCH at all sizes (ranks, its less SWITCH's, by sweeps)": switch,
    }  # fmt: skip
    return [
        Verdict(
            text,
            all(value < 0.0 for value in values.values()),
            ", ".join(f"{name} {value:+.2f}" for name, value in values.items()),
            place,
        )
        for text, values in judged.items()
    ]


def draw(found: Sequence[Ranked], path: Path) -> None:
    """A panel for each set and reading."""
    groups = by_set(found)
    figure, axes = panels(len(groups))
    for ax, (place, own) in zip(axes, groups.items(), strict=False):
        sizes = by_sweeps(own)
        amounts = list(sizes)
        for name in ESTIMATORS:
            means = [mean_rank(runs, name) for runs in sizes.values()]
            line(ax, name, means, amounts, marker="o", markersize=4)
        skyline = [mean_rank(runs, "full") for runs in sizes.values()]
        ax.plot(amounts, skyline, ":", color="#000000", lw=1.4, label="all judgements")
        over_amounts(ax, amounts, (f"{size:g}" for size in amounts), "sweeps")
        ax.set_ylabel("average rank of relevant results")
        logger = float(np.mean([one.logger for one in own]))
        plain(ax, f"{place} (the logger: {logger:.1f})")
    finish(figure, axes[0], path, "outside lower center", ncols=4)
