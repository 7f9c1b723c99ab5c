"""Figure 1: bias, variance and mean squared error of CAB over M, and what the paper says of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments import curves
from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import Claim
from offpolicy.experiments.curves import Curves
from offpolicy.experiments.pictures import PARTS, curve_of, grid_of_axes
from offpolicy.experiments.saving import Report
from offpolicy.report.matplotlib import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = "satimage"
"""The labelled set of the paper's Figure 1."""


def rise(values: Floats) -> float:
    """For a claim of the paper: the largest rise from an earlier value to a later one."""
    return float((values - np.minimum.accumulate(values)).max())


def quotient(value: float, other: float) -> float:
    """For a claim of the paper: the ratio of two errors; equal zeros are equal."""
    return float(value / other) if other > 0.0 else 1.0 if value == 0.0 else float("inf")


def _bias_falls(accuracy: Accuracy) -> float:
    size = np.abs(accuracy.bias["CAB"])
    rises = rise(size)
    return quotient(rises, float(size[0])) if rises > 0.0 else 0.0


def _variance_rises(accuracy: Accuracy) -> float:
    variance = accuracy.variance["CAB"]
    fall = rise(-variance)
    return fall / float(variance.max()) if fall > 0.0 else 0.0


def _in_the_middle(accuracy: Accuracy) -> float:
    mse = accuracy.mse("CAB")
    return quotient(mse.min(), min(mse[0], mse[-1]))


def _narrowness(accuracy: Accuracy) -> float:
    """A claim on Figure 1: how much less than one decade of M has CAB's error at most twice its
    least."""
    mse = accuracy.mse("CAB")
    drawn = np.isfinite(accuracy.M) & (accuracy.M > 0.0)
    good = int((drawn & (mse <= 2.0 * mse.min())).sum())
    decades = np.ptp(np.log10(accuracy.M[drawn])) / (drawn.sum() - 1)
    return float(1.0 - good * decades)


PLACE = "Section 4.2, paragraph 1"
CLAIMS = (
    Claim("the bias of CAB decreases as M grows (it never rises by more than a twentieth of where "
          "it starts)", "largest rise of its size, relative to the start", _bias_falls, 0.05,
          every_size=True, place=PLACE, of_ratio=False),
    Claim("the variance of CAB increases (it never falls by more than a twentieth of its largest)",
          "largest fall of the variance, relative to its largest", _variance_rises, 0.05,
          every_size=True, place=PLACE, of_ratio=False),
    Claim("the best MSE of CAB is in the middle of the range of M for every size (a twentieth "
          "below either end)", "MSE at the best M / at the better end", _in_the_middle, 0.95,
          every_size=True, place=PLACE),
    Claim("CAB is pretty robust to the choice of M (at most twice its least MSE over a decade of "
          "M)", "1 − decades of M within twice the least MSE", _narrowness, 0.0, every_size=True,
          place=PLACE, of_ratio=False),
)  # fmt: skip


def run(cells: Cells, **options: Any) -> Report:
    """Figure 1 of every data set, and what the paper says of it."""
    settings = curves.Settings(**options)
    found = curves.of_every_set(cells, settings)
    rows = curves.judged(found, CLAIMS)
    paper_s = [one for one in found if one.data == SHOWN]
    paper_s += [one for one in found if one.is_ranking][:1]
    others = [one for one in found if one not in paper_s]
    pictures = {
        name: partial(draw, some)
        for name, some in (("figure1.png", paper_s), ("figure1_others.png", others))
        if some
    }
    parts = curves.claims_parts(found, rows)
    return curves.report("figure1", settings, found, rows, parts, pictures)


def draw(found: Sequence[Curves], path: Path) -> None:
    """A row for each data set: CAB's bias, variance and MSE at one size, and its MSE at every
    size. Where it is known what is exact, lines show that, and dots what logs gave."""
    figure, rows = grid_of_axes(len(found), 2, (10.0, 3.8 * len(found)))
    for (left, right), one in zip(rows, found, strict=True):
        _trade(left, one)
        _sizes(right, one)
    save_figure(figure, path)


def _trade(ax: Axes, one: Curves) -> None:
    """At half a sweep, as the paper's panel of rankings; of labelled sets at the middle size."""
    size = one.size if one.is_ranking else sorted(one.shown)[len(one.shown) // 2]
    parts = _parts(one.shown[size])
    for (name, curve), colour in zip(parts.items(), PARTS, strict=True):
        truth = None if one.exact is None else _parts(one.exact[size])[name]
        curve_of(ax, curve, truth, colour, name)
    top = max(float(parts["MSE"].max()), one.shown[size].best("DM"))
    depth = 1e-3 if one.exact is None else 1e-4
    one.axes.frame(ax, f"{one.data}, {one.named(size)}: what M trades", (top * depth, top * 2.0))
    _legend(ax, one)


def _sizes(ax: Axes, one: Curves) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    shades = colormaps["Blues"](np.linspace(0.45, 1.0, len(one.shown)))
    for shade, (size, accuracy) in zip(shades, sorted(one.shown.items()), strict=True):
        colour, mse = to_hex(shade), accuracy.mse("CAB")
        truth = None if one.exact is None else one.exact[size].mse("CAB")
        curve_of(ax, mse, truth, colour, one.named(size))
        best = int(mse.argmin())
        ax.plot(best, mse[best], "o", markersize=9, fillstyle="none", color=colour)
    low = min(accuracy.best("CAB") for accuracy in one.shown.values())
    high = max(float(accuracy.mse("CAB").max()) for accuracy in one.shown.values())
    one.axes.frame(ax, f"{one.data}: MSE of CAB (circle: best M)", (low * 0.5, high * 2.0))
    _legend(ax, one)


def _parts(accuracy: Accuracy) -> dict[str, Floats]:
    bias, variance = accuracy.bias["CAB"], accuracy.variance["CAB"]
    return {"MSE": bias**2 + variance, "bias²": bias**2, "variance": variance}


def _legend(ax: Axes, one: Curves) -> None:
    title = None if one.exact is None else "dots: logs; lines: exact"
    ax.legend(frameon=False, fontsize=9, title=title, title_fontsize=8)
