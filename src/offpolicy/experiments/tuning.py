"""M and τ chosen from the log against the best in hindsight: on labelled sets, and on rankings."""

from __future__ import annotations

from collections.abc import Sequence

from offpolicy.experiments import curves
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.evaluation import tuning as labelled
from offpolicy.experiments.ranking import tuning as rankings
from offpolicy.experiments.saving import Report

RANKED_SPLITS = 5
"""Of rankings so many times as many splits, as claims are judged over them."""
CHOSEN = 5
"""Logs of each split of a ranking set from which M and τ are chosen."""


def run(cells: Cells, sets: Sequence[str], repeats: int, splits: int) -> Report:
    """The tables of labelled sets, of rankings, and the claims on the latter."""
    settings = curves.Settings(sets, repeats=repeats, splits=RANKED_SPLITS * splits)
    chosen = min(CHOSEN, repeats)
    outcomes, cases, parts = [], [], []
    if settings.labelled:
        outcomes = labelled.of_sets(cells, settings.labelled, repeats, splits)
        parts.append(labelled.to_markdown(outcomes, repeats))
    for data in settings.rankings:
        cases += curves.of_logs(cells, data, repeats, settings.seeds, chosen)
    if cases:
        parts.append(rankings.to_markdown(cases, repeats, chosen))
    body = {"repeats": repeats, "outcomes": outcomes, "rankings": cases,
            "claims": rankings.judged(cases)}  # fmt: skip
    return Report.of(parts, body)
