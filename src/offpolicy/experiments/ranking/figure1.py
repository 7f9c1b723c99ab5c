"""Figure 1 (c, d): bias, variance and error of CAB over M, for rankings."""

from __future__ import annotations

from pathlib import Path

from offpolicy.experiments.pictures import OverM
from offpolicy.experiments.ranking.accuracy import METRICS, Measured, averaged
from offpolicy.experiments.ranking.rank_sums import GRID

AXES = OverM(GRID.M, (0.3, 1.0, 3.0, 10.0, 30.0, 100.0), "relative to the truth, squared")


def draw(by_sweeps: dict[float, list[Measured]], path: Path) -> None:
    """Figure 1 for rankings: one data set, with one logger."""
    sizes = sorted(by_sweeps)
    curves = {text_of(size): averaged(by_sweeps[size], METRICS[0]) for size in sizes}
    AXES.figure_1(path, by_sweeps[sizes[0]][0].case.data, curves)


def text_of(sweeps: float) -> str:
    return f"{sweeps:g} sweep{'' if sweeps == 1.0 else 's'}"
