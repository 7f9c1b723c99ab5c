"""Figure 2 for rankings: the error of every estimator over M, and what the paper says of both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from offpolicy.experiments.claims import Verdict
from offpolicy.experiments.evaluation import experiment as other
from offpolicy.experiments.pictures import finish, panels
from offpolicy.experiments.ranking import accuracy
from offpolicy.experiments.ranking.accuracy import METRICS, Measured, averaged, by_case, where
from offpolicy.experiments.ranking.figure1 import AXES, text_of
from offpolicy.experiments.tables import short

CLAIMS = tuple(
    claim
    for claim in other.CLAIMS
    if "DR" not in claim.text  # its third term needs to know what was examined
)
FROM = 1.0
"""M from here on: below, a click counts for less than itself."""


def claims(cases: Sequence[Measured], metric: str = METRICS[0]) -> list[Verdict]:
    """The paper's claims on Figures 1 and 2, of curves averaged over splits; and in how many. If
    not about every size, they are about the smallest, which the paper's Figure 2 shows."""
    judged = []
    for (data, logger), by_sweeps in by_case(cases).items():
        fewest = min(by_sweeps)
        mean = {sweeps: averaged(parts, metric) for sweeps, parts in by_sweeps.items()}
        splits = [
            {sweeps: case.curves[metric] for sweeps, case in zip(by_sweeps, split, strict=True)}
            for split in zip(*by_sweeps.values(), strict=True)
        ]
        for claim in CLAIMS:
            value = claim.measured(mean, fewest, FROM)
            hits = sum(claim.holds(claim.measured(split, fewest, FROM)) for split in splits)
            measured = f"{short(value)} (up to {claim.limit:g}); in {hits} of {len(splits)}"
            judged.append(Verdict(claim.text, claim.holds(value), measured, where(data, logger)))
    return judged


def draw(cases: Sequence[Measured], path: Path) -> None:
    """Figure 2 for rankings: at the fewest sweeps, a panel for each set and logger."""
    groups = by_case(cases)
    figure, axes = panels(len(groups))
    for ax, ((data, logger), by_sweeps) in zip(axes, groups.items(), strict=False):
        fewest = min(by_sweeps)
        mean = averaged(by_sweeps[fewest], METRICS[0])
        AXES.compare(ax, mean, accuracy.ESTIMATORS)
        low = min(map(mean.best, accuracy.ESTIMATORS))
        high = max(float(mean.mse(name).max()) for name in ("DM", "IPS", "CAB"))
        title = f"{where(data, logger)}, {text_of(fewest)}"
        AXES.frame(ax, title, (low * 0.7, high * 1.6))
    finish(figure, axes[0], path, "outside lower center", ncols=3)
