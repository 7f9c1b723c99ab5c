"""The ranking column of Table 2: average ranks of rankers learned with each estimator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.claims import Verdict
from offpolicy.experiments.ranking.learning import ESTIMATORS, OURS, TABLE, Ranked, by_set
from offpolicy.experiments.tables import markdown, mean_text, shown

PAPER = {"DM": 11.25, "IPS": 11.17, "CIPS": 11.39, "SB": 10.98, "SWITCH": 10.95, "CAB": 10.83}
"""Its Table 2, on Yahoo! LTR."""


def to_markdown(found: Sequence[Ranked]) -> str:
    """Every set, with the paper's figures beside it."""
    table = [one for one in found if one.condition.sweeps == TABLE]
    groups = by_set(table)
    titles = {name: shown(name) for name in ESTIMATORS}
    titles |= {n: f"*ours: {n}*" for n in OURS if all(n in one.ours for one in table)}
    titles |= {"logger": "the logger", "full": "all judgements"}
    rows = []
    for name, title in titles.items():
        cells = [mean_text([one.rank(name) for one in own], 2) for own in groups.values()]
        rows.append([title, *cells, f"{PAPER[name]:.2f}" if name in PAPER else ""])
    return markdown(["learned with", *groups, "the paper, Yahoo! LTR"], rows)


def selection(found: Sequence[Ranked]) -> str:
    """Ranks lost by choosing on validation clicks against the best in hindsight, over all runs."""
    rows = []
    for place, own in by_set(found).items():
        lost = [regret(own, name) for name in ESTIMATORS]
        rows.append([place, *(f"{values.mean():.2f} ({values.std():.2f})" for values in lost)])
    return markdown(["set", *map(shown, ESTIMATORS)], rows)


def regret(found: Sequence[Ranked], estimator: str) -> Floats:
    """How many ranks the choice by validation clicks costs against the best in hindsight."""
    return np.array([one.chosen(estimator).test - one.best(estimator).test for one in found])


def mean_rank(found: Sequence[Ranked], name: str) -> float:
    return float(np.mean([one.rank(name) for one in found]))


def behind(found: Sequence[Ranked], one: str, other: str) -> tuple[float, float]:
    """By how many ranks, run by run, and its standard error."""
    gap = np.array([run.rank(one) - run.rank(other) for run in found])
    spread = float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else float("inf")
    return float(gap.mean()), spread


def claims(own: Sequence[Ranked], place: str) -> list[Verdict]:
    """What the paper says of its table, from the runs on one data set."""
    table = [one for one in own if one.condition.sweeps == TABLE]
    if not table:
        return []
    best = min(ESTIMATORS, key=lambda name: mean_rank(table, name))
    gap, spread = behind(table, "CAB", best)
    gaps = {name: behind(table, "CAB", name) for name in ESTIMATORS if name != "CAB"}
    return [
        Verdict(
            "learned with CAB the rank is the best of the table, or within a standard error of it",
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


def stability(own: Sequence[Ranked], place: str) -> Verdict:
    """Of the choice by validation clicks."""
    (cab, cab_spread), (switch, switch_spread) = lost = [
        (float(values.mean()), float(values.std()))
        for values in (regret(own, "CAB"), regret(own, "SWITCH"))
    ]
    return Verdict(
        "model selection is more stable for CAB than for SWITCH (ranks lost against the best in "
        "hindsight: mean, and spread over runs)",
        cab < switch and cab_spread < switch_spread,
        ", ".join(
            f"{name} {mean:.2f}, {spread:.2f}"
            for name, (mean, spread) in zip(("CAB", "SWITCH"), lost, strict=True)
        ),
        place,
    )
