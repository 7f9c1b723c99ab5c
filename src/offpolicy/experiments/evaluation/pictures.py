"""The paper's Figures 1 and 2, drawn from what the experiment found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.evaluation.accuracy import M_GRID, Accuracy, Outcome
from offpolicy.report.matplotlib import need_matplotlib, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
_NAMES = {"CIPS": "cIPS"}


def figure_1(outcomes: Sequence[Outcome], path: Path) -> None:
    """One data set: CAB's bias, variance and MSE over M, and its MSE at every n."""
    need_matplotlib()
    from matplotlib.colors import to_hex
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    middle = outcomes[len(outcomes) // 2]
    parts = {
        "MSE": ("#0072B2", Accuracy.mse),
        "bias²": ("#D55E00", lambda accuracy, name: accuracy.bias[name] ** 2),
        "variance": ("#009E73", lambda accuracy, name: accuracy.variance[name]),
    }
    for label, (colour, part) in parts.items():
        _exact_and_found(left, part(middle.exact, "CAB"), part(middle.found, "CAB"), colour, label)
    top = max(float(middle.found.mse("CAB").max()), float(middle.found.best("DM")))
    _axes(left, f"{middle.data}, n = {middle.n:,}: what M trades", (top * 1e-4, top * 2.0))
    from matplotlib import colormaps

    shades = colormaps["Blues"](np.linspace(0.45, 1.0, len(outcomes)))
    for shade, one in zip(shades, outcomes, strict=True):
        colour, mse = to_hex(shade), one.found.mse("CAB")
        _exact_and_found(right, one.exact.mse("CAB"), mse, colour, f"n = {one.n:,}")
        best = int(mse.argmin())
        right.plot(best, mse[best], "o", markersize=9, fillstyle="none", color=colour)
    low = min(one.found.best("CAB") for one in outcomes)
    high = max(float(one.found.mse("CAB").max()) for one in outcomes)
    _axes(right, f"{middle.data}: MSE of CAB (circle: best M)", (low * 0.5, high * 2.0))
    for ax in (left, right):
        ax.legend(frameon=False, fontsize=9, loc="best", title="dots: repeats; lines: exact",
                  title_fontsize=8)  # fmt: skip
    save_figure(figure, path)


def figure_2(outcomes: Sequence[Outcome], path: Path, headline: dict[str, float]) -> None:
    """MSE of every estimator over M (SB: τ from 0 to 1 on the same axis), a panel for each set;
    ``headline`` is the MSE of the default, with M chosen from the log, by data set."""
    need_matplotlib()
    from matplotlib.figure import Figure

    rows = (len(outcomes) + 1) // 2
    figure = Figure(figsize=(10.5, 3.6 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, 2, squeeze=False).ravel()
    for ax, one in zip(panels, outcomes, strict=False):
        for name, (colour, style, width) in STYLES.items():
            mse = np.broadcast_to(one.found.mse(name), M_GRID.shape)
            ax.plot(mse, style, color=colour, lw=width, label=_NAMES.get(name, name))
        if one.data in headline:
            colour, style, width = DEFAULT_STYLE
            ax.axhline(headline[one.data], color=colour, linestyle=style, lw=width,
                       label="our default, M from the log")  # fmt: skip
        low = min([*map(one.found.best, STYLES), headline.get(one.data, np.inf)])
        high = max(one.found.best(name) for name in ("CAB", "SB", "SWITCH", "DM"))
        high = max(high, float(one.found.mse("CAB").max()))
        _axes(ax, f"{one.data}, n = {one.n:,}", (low * 0.6, high * 2.0))
    for ax in panels[len(outcomes) :]:
        ax.set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    save_figure(figure, path)


def _exact_and_found(ax: Axes, exact: Floats, found: Floats, colour: str, label: str) -> None:
    ax.plot(exact, color=colour, lw=1.6, label=label)
    places = np.arange(0, len(found), 4)
    ax.plot(places, found[places], ".", color=colour, markersize=6)


def _axes(ax: Axes, title: str, limits: tuple[float, float]) -> None:
    """Over places on the grid, which are log M with 0 and ∞ at the ends."""
    from matplotlib.ticker import NullFormatter

    shown = {0: "0", len(M_GRID) - 1: "∞"}
    shown |= {int(np.argmin(np.abs(M_GRID - M))): f"{M:g}" for M in (1.0, 10.0, 100.0, 1000.0)}
    ax.set_xticks(list(shown), list(shown.values()))
    ax.set_xlabel("M")
    ax.set_yscale("log")
    ax.set_ylim(*limits)
    if limits[1] > 20.0 * limits[0]:
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_title(title, loc="left", fontsize=11)
    ax.grid(axis="y", alpha=0.25, linewidth=0.6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
