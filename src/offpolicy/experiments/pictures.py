"""What the pictures of the experiments have in common: colours, axes, legends, and Figure 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.tables import paper_name
from offpolicy.report.matplotlib import need_matplotlib, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES = {
    "DM": ("#999999", "-", 1.4),
    "IPS": ("#999999", "--", 1.4),
    "DR": ("#999999", ":", 2.0),
    "CIPS": ("#E69F00", "-", 1.4),
    "SB": ("#CC79A7", "-", 1.4),
    "SWITCH": ("#009E73", "-", 1.8),
    "CAB": ("#0072B2", "-", 2.6),
    "CAB-DR": ("#56B4E9", "-", 2.0),
}
"""Colours that the colour-blind can tell apart; those without a parameter are grey."""
DEFAULT_STYLE = ("#000000", "-.", 1.8)


def grid_of_axes(
    rows: int, columns: int, size: tuple[float, float], **kwargs: Any
) -> tuple[Figure, list[list[Axes]]]:
    """An empty picture for an experiment, and its axes row by row."""
    need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **kwargs).tolist()


def panels(count: int, margin: float) -> tuple[Figure, list[Axes]]:
    """Axes for a figure of the paper, two in a row."""
    rows = (count + 1) // 2
    figure, axes = grid_of_axes(rows, 2, (10.5, 3.6 * rows + margin))
    flat = [ax for row in axes for ax in row]
    for ax in flat[count:]:
        ax.set_visible(False)
    return figure, flat


def finish(figure: Figure, axes: Sequence[Axes], path: Path, where: Any, **kwargs: Any) -> None:
    """One legend for all axes of an experiment's figure, and its file."""
    pairs = [zip(*ax.get_legend_handles_labels(), strict=True) for ax in axes]
    handles = {label: handle for some in pairs for handle, label in some}
    figure.legend(handles.values(), handles, loc=where, frameon=False, **kwargs)
    save_figure(figure, path)


def plain(ax: Axes, title: str | None = None, lines: str = "y") -> None:
    """The look of the experiments' axes: thin lines behind (along ``lines``), no frame."""
    if title is not None:
        ax.set_title(title, loc="left", fontsize=11)
    ax.grid(axis=lines, alpha=0.25, linewidth=0.6)  # type: ignore[arg-type]
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def line(ax: Axes, name: str, y: Any, x: Any = None, **kwargs: Any) -> None:
    """In a figure of the paper: the curve of an estimator, in its style."""
    colour, style, width = STYLES[name]
    x = np.arange(len(y)) if x is None else x
    ax.plot(x, y, style, color=colour, lw=width, label=paper_name(name), **kwargs)


@dataclass(frozen=True, eq=False)
class OverM:
    """Axes over places on a grid, which are log M with 0 and ∞ at the ends."""

    M: Floats
    marks: Sequence[float]
    ylabel: str = ""

    def frame(self, ax: Axes, title: str, limits: tuple[float, float]) -> None:
        from matplotlib.ticker import NullFormatter

        marks = {0: "0", len(self.M) - 1: "∞"}
        marks |= {int(np.argmin(np.abs(self.M - M))): f"{M:g}" for M in self.marks}
        ax.set_xticks(list(marks), list(marks.values()))
        ax.set_xlabel("M")
        ax.set_yscale("log")
        ax.set_ylim(*limits)
        if limits[1] > 20.0 * limits[0]:
            ax.yaxis.set_minor_formatter(NullFormatter())
        if self.ylabel:
            ax.set_ylabel(self.ylabel)
        plain(ax, title)


PARTS = ("#0072B2", "#D55E00", "#009E73")
"""Colours of MSE, squared bias and variance."""


def curve_of(ax: Axes, measured: Floats, exact: Floats | None, colour: str, label: str) -> None:
    """In Figure 1: a line of what is exact, if that is known, and dots of what was found."""
    if exact is None:
        ax.plot(measured, color=colour, lw=2.0, label=label)
        return
    ax.plot(exact, color=colour, lw=1.6, label=label)
    places = np.arange(0, len(measured), 4)
    ax.plot(places, measured[places], ".", color=colour, markersize=6)
