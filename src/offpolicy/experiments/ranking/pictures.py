"""The ranking panels of Figures 1, 2 and 4."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.evaluation.accuracy import Accuracy
from offpolicy.experiments.evaluation.pictures import STYLES
from offpolicy.experiments.ranking.accuracy import ESTIMATORS, METRICS, Measured, averaged
from offpolicy.experiments.ranking.claims import grouped
from offpolicy.experiments.ranking.learning import ESTIMATORS as LEARNED
from offpolicy.experiments.ranking.learning import Ranked
from offpolicy.experiments.ranking.rank_sums import M_GRID
from offpolicy.experiments.ranking.tables import shown
from offpolicy.report.matplotlib import need_matplotlib, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PARTS = {"MSE": "#0072B2", "bias²": "#D55E00", "variance": "#009E73"}
_SKYLINE = ("#000000", ":", 1.4)


def figure_1(by_sweeps: dict[float, list[Measured]], path: Path) -> None:
    """One data set: CAB's bias, variance and MSE over M, and its MSE by the number of sweeps."""
    need_matplotlib()
    from matplotlib import colormaps
    from matplotlib.colors import to_hex
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes = sorted(by_sweeps)
    curves = {size: averaged(by_sweeps[size], METRICS[0]) for size in sizes}
    middle = sizes[len(sizes) // 2]
    case = by_sweeps[middle][0].case
    for name, colour in _PARTS.items():
        left.plot(_part(curves[middle], name), color=colour, lw=2.0, label=name)
    top = float(curves[middle].mse("CAB").max())
    _axes(left, f"{case.data}, {_sweeps(middle)}: what M trades", (top * 1e-3, top * 2.0))
    for shade, size in zip(colormaps["Blues"](np.linspace(0.45, 1.0, len(sizes))), sizes,
                           strict=True):  # fmt: skip
        mse, colour = curves[size].mse("CAB"), to_hex(shade)
        best = int(mse.argmin())
        right.plot(mse, color=colour, lw=2.0, label=_sweeps(size))
        right.plot(best, mse[best], "o", markersize=9, fillstyle="none", color=colour)
    low = min(one.best("CAB") for one in curves.values())
    high = max(float(one.mse("CAB").max()) for one in curves.values())
    _axes(right, f"{case.data}: MSE of CAB (circle: best M)", (low * 0.5, high * 2.0))
    for ax in (left, right):
        ax.legend(frameon=False, fontsize=9, loc="lower right" if ax is left else "lower left")
    save_figure(figure, path)


def _part(accuracy: Accuracy, name: str) -> Floats:
    if name == "MSE":
        return accuracy.mse("CAB")
    return accuracy.bias["CAB"] ** 2 if name == "bias²" else accuracy.variance["CAB"]


def _sweeps(count: float) -> str:
    return f"{count:g} sweep{'' if count == 1.0 else 's'}"


def figure_2(found: Sequence[Measured], path: Path) -> None:
    """MSE of every estimator over M at the fewest sweeps, a panel for each set and logger."""
    groups = grouped(found)
    figure, panels = _panels(len(groups))
    for ax, ((data, logger), by_sweeps) in zip(panels, groups.items(), strict=False):
        fewest = min(by_sweeps)
        mean = averaged(by_sweeps[fewest], METRICS[0])
        for name in ESTIMATORS:
            colour, style, width = STYLES[name]
            mse = np.broadcast_to(mean.mse(name), M_GRID.shape)
            ax.plot(mse, style, color=colour, lw=width, label=shown(name))
        low = min(map(mean.best, ESTIMATORS))
        high = max(float(mean.mse(name).max()) for name in ("DM", "IPS", "CAB"))
        _axes(ax, f"{data}, logger of {logger:.0%}, {_sweeps(fewest)}", (low * 0.7, high * 1.6))
    for ax in panels[len(groups) :]:
        ax.set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    save_figure(figure, path)


def figure_4(found: Sequence[Ranked], path: Path) -> None:
    """The average rank of relevant results over sweeps, a panel for each set and reading."""
    sets = list(dict.fromkeys((one.condition.data, one.condition.relevant) for one in found))
    figure, panels = _panels(len(sets))
    for ax, (data, relevant) in zip(panels, sets, strict=False):
        own = [
            one for one in found if (one.condition.data, one.condition.relevant) == (data, relevant)
        ]
        sweeps = sorted({one.condition.sweeps for one in own})
        names = {name: STYLES[name] for name in LEARNED}
        for name, (colour, style, width) in (names | {"full": _SKYLINE}).items():
            curve = [
                np.mean([one.rank(name) for one in own if one.condition.sweeps == size])
                for size in sweeps
            ]
            label = {"full": "all judgements"}.get(name, shown(name))
            ax.plot(sweeps, curve, style, color=colour, lw=width, label=label,
                    marker="o" if name in names else None, markersize=4)  # fmt: skip
        ax.set_xscale("log")
        ax.set_xticks(sweeps, [f"{size:g}" for size in sweeps])
        ax.minorticks_off()
        ax.set_xlabel("sweeps")
        ax.set_ylabel("average rank of relevant results")
        logger = float(np.mean([one.logger for one in own]))
        _plain(ax, f"{data}, y ≥ {relevant} (the logger: {logger:.1f})")
    for ax in panels[len(sets) :]:
        ax.set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    save_figure(figure, path)


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    need_matplotlib()
    from matplotlib.figure import Figure

    columns = min(count, 2)
    rows = (count + 1) // 2
    figure = Figure(figsize=(1.5 + 4.5 * columns, 3.6 * rows + 0.6), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).ravel())


def _axes(ax: Axes, title: str, limits: tuple[float, float]) -> None:
    """Over places on the grid, which are log M with 0 and ∞ at the ends."""
    from matplotlib.ticker import NullFormatter

    marks = {0: "0", len(M_GRID) - 1: "∞"}
    marks |= {int(np.argmin(np.abs(M_GRID - M))): f"{M:g}" for M in (0.3, 1.0, 3.0, 10.0, 30.0,
                                                                     100.0)}  # fmt: skip
    ax.set_xticks(list(marks), list(marks.values()))
    ax.set_xlabel("M")
    ax.set_yscale("log")
    ax.set_ylim(*limits)
    if limits[1] > 20.0 * limits[0]:
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_ylabel("relative to the truth, squared")
    _plain(ax, title)


def _plain(ax: Axes, title: str) -> None:
    ax.set_title(title, loc="left", fontsize=11)
    ax.grid(axis="y", alpha=0.25, linewidth=0.6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
