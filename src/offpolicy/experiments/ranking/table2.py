"""The ranking column of Table 2: average ranks of rankers learned with each estimator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.claims import Verdict
from offpolicy.experiments.ranking.learning import ESTIMATORS, OURS, TABLE, Ranked, by_set
from offpolicy.experiments.tables import markdown, mean_text, paper_name

PAPER = {"DM": 11.25, "IPS": 11.17, "CIPS": 11.39, "SB": 10.98, "SWITCH": 10.95, "CAB": 10.83}
"""Its Table 2, on Yahoo! LTR."""


def to_markdown(runs: Sequence[Ranked]) -> str:
    """Table 2 for rankings: every set, with the paper's figures beside it."""
    table = [run for run in runs if run.condition.sweeps == TABLE]
    groups = by_set(table)
    titles = {name: paper_name(name) for name in ESTIMATORS} | {n: f"*ours: {n}*" for n in OURS}
    titles |= {"logger": "the logger", "full": "all judgements"}
    rows = []
    for name, title in titles.items():
        cells = [mean_text([run.rank(name) for run in group], 2) for group in groups.values()]
        rows.append([title, *cells, f"{PAPER[name]:.2f}" if name in PAPER else ""])
    return markdown(["learned with", *groups, "the paper, Yahoo! LTR"], rows)


def selection(runs: Sequence[Ranked]) -> str:
    """The experiment's table of ranks lost by choosing on validation clicks, against hindsight."""
    rows = []
    for place, group in by_set(runs).items():
        lost = [regret(group, name) for name in ESTIMATORS]
        rows.append([place, *(f"{values.mean():.2f} ({values.std():.2f})" for values in lost)])
    return markdown(["set", *map(paper_name, ESTIMATORS)], rows)


def regret(runs: Sequence[Ranked], estimator: str) -> Floats:
    """By run of the experiment, ranks lost by choosing on validation clicks, against hindsight."""
    return np.array([run.chosen(estimator).test - run.best(estimator).test for run in runs])


def mean_rank(runs: Sequence[Ranked], name: str) -> float:
    return float(np.mean([run.rank(name) for run in runs]))


def behind(runs: Sequence[Ranked], name: str, other: str) -> tuple[float, float]:
    """By how many ranks one is behind the other over the experiment's runs, ± standard error."""
    gap = np.array([run.rank(name) - run.rank(other) for run in runs])
    spread = float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else float("inf")
    return float(gap.mean()), spread


def claims(runs: Sequence[Ranked], place: str) -> list[Verdict]:
    """What the paper says of its Table 2, from the runs on one data set; and of the choice by
    validation clicks."""
    verdicts = []
    if table := [run for run in runs if run.condition.sweeps == TABLE]:
        best = min(ESTIMATORS, key=lambda name: mean_rank(table, name))
        gap, spread = behind(table, "CAB", best)
        gaps = {name: behind(table, "CAB", name) for name in ESTIMATORS if name != "CAB"}
        verdicts += [
            Verdict(
                "learned with CAB the rank is the best of the table, or within a standard error "
                "of it",
                gap <= spread,
                f"behind {best} by {gap:.3f} ± {spread:.3f}" if best != "CAB" else "the best",
                place,
            ),
            Verdict(
                "CAB is ahead of every other estimator (ranks, its less theirs)",
                all(gap < 0.0 for gap, _ in gaps.values()),
                ", ".join(f"{name} {gap:+.2f} ± {se:.2f}" for name, (gap, se) in gaps.items()),
                place,
            ),
        ]
    cab, switch = (
        (lost.mean(), lost.std()) for lost in (regret(runs, n) for n in ("CAB", "SWITCH"))
    )
    text = (
        "model selection is more stable for CAB than for SWITCH (ranks lost against the best in "
        "hindsight: mean, and spread over runs)"
    )
    holds = bool(cab[0] < switch[0] and cab[1] < switch[1])
    measured = f"CAB {cab[0]:.2f}, {cab[1]:.2f}, SWITCH {switch[0]:.2f}, {switch[1]:.2f}"
    return [*verdicts, Verdict(text, holds, measured, place)]
