"""Pictures (matplotlib, an optional extra)."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.errors import MissingPackageError, ParameterError
from offpolicy.files import write_whole
from offpolicy.intervals import normal_quantile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from offpolicy.curves import Curve


def need_matplotlib() -> None:
    """Raise, saying what to install, unless matplotlib can be imported."""
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError:
        raise MissingPackageError(
            "Pictures need matplotlib: pip install 'offpolicy[plot]'."
        ) from None


def plot_curve(curve: Curve, ax: Axes | None = None, *, label: str | None = None) -> Axes:
    """Value over the parameter, with the interval as a band; M on a logarithmic axis."""
    need_matplotlib()
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
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
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def save_curve(curve: Curve, path: str) -> None:
    """Draw a curve into a file, which is written whole or not at all."""
    need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    plot_curve(curve, figure.subplots())
    save_figure(figure, Path(path))


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure beside its place, then rename it there."""
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
    """Where to draw: 400 points over the part where the curve moves, or its whole grid."""
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
