"""Pictures (matplotlib, an optional extra)."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from offpolicy._core.files import write_whole
from offpolicy.errors import MissingPackageError, ParameterError
from offpolicy.intervals import normal_quantile
from offpolicy.results import (
    FEW_EFFECTIVE,
    TOO_HEAVY,
    Comparison,
    Headline,
    Result,
    shown_estimator,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from offpolicy.evaluation import Curve
    from offpolicy.intervals import Interval
    from offpolicy.ranking.evaluation import RankingResult
    from offpolicy.results import Estimate, ResultTable

_BLUE, _GREY = "#0a5a9c", "#5d5a54"


def need_matplotlib() -> None:
    """Raise, saying what to install, unless matplotlib can be imported."""
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError:
        raise MissingPackageError(
            "Pictures need matplotlib: pip install 'offpolicy[plot]'."
        ) from None


def plot_curve(curve: Curve, ax: Axes | None = None, *, label: str | None = None) -> Axes:
    """Chart of the value over the parameter, the interval as a band; M on a logarithmic axis."""
    ax = _axes(ax, 4.2, hidden=("top", "right"))
    x = _abscissa(curve)
    value, stderr = curve.at(x), curve.stderr_at(x)
    half = normal_quantile(curve.level) * stderr
    (line,) = ax.plot(x, value, label=label or curve.estimator, linewidth=1.8)
    ax.fill_between(x, value - half, value + half, color=line.get_color(), alpha=0.18, linewidth=0)
    if curve.parameter == "M":
        ax.set_xscale("log")
    ax.set_xlim(x[0], x[-1])
    ax.set_xlabel(curve.parameter)
    ax.set_ylabel(f"estimated value, {curve.level:.0%} interval")
    return ax


def plot_table(results: ResultTable[Any], ax: Axes | None = None) -> Axes:
    """Chart of values under each other with their intervals: the differences of a comparison,
    decided ones bold; else the answer about every policy, bold, and all estimates."""
    reference: float | None = None
    if isinstance(results, Comparison):
        rows = [
            (f"{row.first} − {row.second}", row.value, row.interval, row.decided) for row in results
        ]
        reference, axis = 0.0, f"difference, {results.level:.0%} intervals"
    elif isinstance(results, Result):
        order, several = results.policies.index, len(results.policies) > 1
        estimates: list[Headline | Estimate] = [*results.headlines, *results.estimates]
        rows = [
            _line(row, f"{row.policy}, " * several, answer=isinstance(row, Headline))
            for row in sorted(estimates, key=lambda row: order(row.policy))
        ]
        axis = f"mean reward, {results.estimates[0].level:.0%} intervals; dotted: what ran"
        if any(row.too_heavy for row in results.estimates):
            axis += f"\n{TOO_HEAVY} {FEW_EFFECTIVE}"
        reference = results.logged.value
    else:
        ranked = cast("RankingResult", results)
        rows = [_line(row, answer=True) for row in ranked.headlines]
        rows += [_line(row) for row in ranked.estimates]
        axis = f"{ranked.metric}, {ranked.headline.level:.0%} intervals"
    ax = _forest(rows, ax)
    if reference is not None:
        ax.axvline(reference, color=_GREY, linestyle=":", linewidth=1.4)
    ax.set_xlabel(axis)
    return ax


def _line(
    row: Headline | Estimate, policy: str = "", *, answer: bool = False
) -> tuple[str, float, Interval, bool]:
    label = "the answer" if answer else shown_estimator(row.estimator)
    heavy = f" {TOO_HEAVY}" if getattr(row, "too_heavy", False) else ""
    return f"{policy}{label}{heavy}", row.value, row.interval, answer


def _forest(rows: list[tuple[str, float, Interval, bool]], ax: Axes | None) -> Axes:
    """A forest plot of label, value, interval, and whether it is drawn strong; the first on top."""
    ax = _axes(ax, 1.0 + 0.34 * len(rows), hidden=("top", "right", "left"))
    for k, (_, value, (low, high), strong) in enumerate(rows):
        thickness, size, filled = (5.0, 7.0, _BLUE) if strong else (2.4, 5.5, "white")
        if np.isfinite([low, high]).all():
            ax.hlines(-k, low, high, color=_BLUE, linewidth=thickness)
        ax.plot([value], [-k], "o", color=_BLUE, markersize=size, markerfacecolor=filled)
    # A dollar sign in a name is no formula.
    labels = [label[:40].replace("$", r"\$") for label, *_ in rows]
    ax.set_yticks([-k for k in range(len(rows))], labels)
    ax.set_ylim(-len(rows) + 0.4, 0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color="#dddddd", linewidth=0.8)
    ax.set_axisbelow(True)
    return ax


def _axes(ax: Axes | None, height: float, *, hidden: tuple[str, ...]) -> Axes:
    """These axes of matplotlib, or new ones, without the lines at some sides."""
    need_matplotlib()
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(7.0, height), layout="constrained")
    for side in hidden:
        ax.spines[side].set_visible(False)
    return ax


def save_curve(curve: Curve, path: str) -> None:
    """Draw a chart of a curve into a file, which is written whole or not at all."""
    need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    plot_curve(curve, figure.subplots())
    save_figure(figure, Path(path))


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture by matplotlib beside its place, then rename it there."""
    kind = path.suffix.lstrip(".").lower() or "png"
    kinds = figure.canvas.get_supported_filetypes()
    if kind not in kinds:
        raise ParameterError(
            f'"{path.name}": pictures can be written as {", ".join(sorted(kinds))}.'
        )
    content = BytesIO()
    figure.savefig(content, dpi=140, format=kind)
    write_whole(path, content.getvalue())


def _abscissa(curve: Curve) -> np.ndarray:
    """Where to draw a chart: 400 points over the part where the curve moves, or its whole grid."""
    if curve.on_grid:
        finite = curve.breakpoints[np.isfinite(curve.breakpoints)]
        return finite[finite > 0.0] if curve.parameter == "M" else finite
    if curve.parameter == "tau":
        return np.linspace(0.0, 1.0, 101)
    positive = curve.breakpoints[curve.breakpoints > 0.0]
    if not len(positive):
        return np.array([0.1, 10.0])
    low, high = max(positive[0], positive[-1] * 1e-6, 1e-3), positive[-1]
    return np.geomspace(min(low, high) / 2.0, 2.0 * high, 400)
