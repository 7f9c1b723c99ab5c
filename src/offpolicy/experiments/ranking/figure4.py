"""Figure 4 (2): the average rank of rankers that are learned, over the amount of clicks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from offpolicy.experiments.claims import Verdict
from offpolicy.experiments.pictures import finish, line, over_amounts, panels, plain
from offpolicy.experiments.ranking.learning import ESTIMATORS, Ranked, by_set, by_sweeps
from offpolicy.experiments.ranking.table2 import behind, mean_rank
from offpolicy.experiments.tables import best_marked, grouped, markdown, named, paper_name


def to_markdown(runs: Sequence[Ranked]) -> str:
    groups = grouped(runs, lambda run: f"{run.condition.where}, {run.condition.sweeps:g}")
    rows = [
        [place, *best_marked([mean_rank(group, name) for name in ESTIMATORS], ".2f")]
        for place, group in groups.items()
    ]
    return markdown(["set, sweeps", *map(paper_name, ESTIMATORS)], rows)


def claims(runs: Sequence[Ranked], place: str) -> list[Verdict]:
    """What the paper says of its Figure 4, from the runs on one data set."""
    sizes = by_sweeps(runs)
    if len(sizes) < 2:
        return []
    fewest, most = min(sizes), max(sizes)
    falls = {n: mean_rank(sizes[most], n) - mean_rank(sizes[fewest], n) for n in ESTIMATORS}
    first = {name: behind(sizes[fewest], "CAB", name)[0] for name in ("IPS", "CIPS")}
    switch = {f"{size:g}": behind(at_size, "CAB", "SWITCH")[0] for size, at_size in sizes.items()}
    judged = {
        f"the rank falls with data for all estimators (at {most:g} less at {fewest:g} sweeps)":
            falls,
        f"at {fewest:g} sweeps CAB is ahead of IPS and cIPS (ranks, its less theirs)": first,
        "CAB is ahead of SWITCH at all sizes (ranks, its less SWITCH's, by sweeps)": switch,
    }  # fmt: skip
    return [
        Verdict(text, max(values.values()) < 0.0, named(values, "+.2f"), place)
        for text, values in judged.items()
    ]


def draw(runs: Sequence[Ranked], path: Path) -> None:
    """Figure 4 for rankings: a panel for each set and reading."""
    groups = by_set(runs)
    figure, axes = panels(len(groups))
    for ax, (place, group) in zip(axes, groups.items(), strict=False):
        sizes = by_sweeps(group)
        amounts = list(sizes)
        for name in ESTIMATORS:
            means = [mean_rank(size, name) for size in sizes.values()]
            line(ax, name, means, amounts, marker="o", markersize=4)
        skyline = [mean_rank(size, "full") for size in sizes.values()]
        ax.plot(amounts, skyline, ":", color="#000000", lw=1.4, label="all judgements")
        over_amounts(ax, amounts, (f"{size:g}" for size in amounts), "sweeps")
        ax.set_ylabel("average rank of relevant results")
        logger = float(np.mean([run.logger for run in group]))
        plain(ax, f"{place} (the logger: {logger:.1f})")
    finish(figure, axes[0], path, "outside lower center", ncols=4)
