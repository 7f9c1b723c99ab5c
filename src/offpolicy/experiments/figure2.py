"""Figure 2: the mean squared error of every estimator over M, and what the paper says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.datasets import files_of
from offpolicy.experiments import curves
from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import Claim
from offpolicy.experiments.curves import Curves
from offpolicy.experiments.evaluation import tuning
from offpolicy.experiments.evaluation.accuracy import ESTIMATORS
from offpolicy.experiments.figure1 import quotient, rise
from offpolicy.experiments.pictures import DEFAULT_STYLE, STYLES, finish, line, panels
from offpolicy.experiments.saving import Report
from offpolicy.experiments.tables import markdown, paper_name


def _log(mse: Floats) -> Floats:
    return np.log(np.maximum(mse, np.finfo(np.float64).tiny))


AT_AN_END = 2.0
"""What counts as the wrong turn of a curve whose least value is at an end: such is no U."""


def dent(mse: Floats) -> float:
    """For a claim on Figure 2: how far from falling, then rising, by the largest wrong turn."""
    log, turn = _log(mse), int(mse.argmin())
    return float(np.exp(max(rise(log[: turn + 1]), rise(-log[turn:]))))


def _u_shape(estimator: str) -> Callable[[Accuracy], float]:
    def measure(accuracy: Accuracy) -> float:
        mse = accuracy.mse(estimator)
        inside = 0 < int(mse.argmin()) < len(mse) - 1
        return dent(mse) if inside else max(dent(mse), AT_AN_END)

    return measure


def _over_the_range(accuracy: Accuracy) -> float:
    ratio = max(map(quotient, accuracy.mse("CAB"), accuracy.mse("CIPS")))
    return round(ratio, 9)  # at M = ∞ they are the same estimator


def _best(name: str, *others: str) -> Callable[[Accuracy], float]:
    def ratio(accuracy: Accuracy) -> float:
        return quotient(accuracy.best(name), min(map(accuracy.best, others)))

    return ratio


def variation(mse: Floats) -> float:
    """For a claim on Figure 2: total variation of the logarithm."""
    return float(np.abs(np.diff(_log(mse))).sum())


PLACE = "Section 4.2, paragraph 2"
A_TENTH_LESS, A_TENTH_MORE = 1.0 / 1.1, 1.1
CLAIMS = (
    *(Claim(f"{name}'s MSE over its parameter is a U with the optimum in the middle (no wrong turn "
            "of more than a twentieth)", "factor of the largest wrong turn (2 if the best is "
            "at an end)", _u_shape(name), 1.05, place=PLACE, about=(name,))
      for name in ("SB", "CAB", "CAB-DR")),
    *(Claim(f"{name} substantially outperforms SB, on most datasets (MSE at least a tenth less)",
            "MSE at the best M / at the best τ", _best(name, "SB"), A_TENTH_LESS, place=PLACE,
            about=(name,))
      for name in ("CAB", "CAB-DR")),
    Claim("CAB outperforms cIPS in the full range of M (nowhere more than a hundredth above it, "
          "which a figure does not show)", "largest MSE of CAB / cIPS over M", _over_the_range,
          1.01, place=PLACE),
    Claim("SWITCH's curve is somewhat more erratic than CAB's, especially on the UCI datasets",
          "total variation of log MSE, CAB / SWITCH",
          lambda found: quotient(*(variation(found.mse(name)) for name in ("CAB", "SWITCH"))), 1.0,
          place=PLACE),
    Claim("CAB is at least comparable to SWITCH (MSE at most a tenth more)",
          "MSE at the best M / at SWITCH's", _best("CAB", "SWITCH"), A_TENTH_MORE, place=PLACE),
    Claim("CAB can be substantially more accurate than SWITCH, on some datasets (MSE at least a "
          "tenth less)", "MSE at the best M / at SWITCH's", _best("CAB", "SWITCH"), A_TENTH_LESS,
          place=PLACE),
    Claim("DR outperforms IPS and DM", "MSE of DR / of the better one", _best("DR", "IPS", "DM"),
          1.0, place=PLACE, about=("DR",)),
    *(Claim(f"{name} outperforms DR, on most datasets", "MSE at the best M / of DR",
            _best(name, "DR"), 1.0, place=PLACE, about=(name, "DR"))
      for name in ("CAB", "CAB-DR")),
)  # fmt: skip
"""All that the paper says of its Figure 2; words that leave open how much have a number in
brackets."""


def run(cells: Cells, **options: Any) -> Report:
    """Figure 2 of every data set, what the paper says of it, and the parameter chosen from the
    log: of labelled sets by every rule."""
    settings = curves.Settings(**options)
    found = curves.of_every_set(cells, settings)
    rows = curves.judged(found, CLAIMS)
    chosen = _chosen(cells, settings)
    parts = [
        "## Best", "Mean squared error with the parameter that turned out best: of labelled sets "
        "× 10⁴ (in brackets: exactly), of rankings relative to the truth, × 10⁴.",
        best_table(found),
        *curves.claims_parts(found, rows),
    ]  # fmt: skip
    if chosen:
        parts += [
            "## Chosen", f"MSE relative to the best value in hindsight, n = "
            f"{max(settings.sizes):,}; geometric means over {len(chosen)} sets (the worst in "
            f"brackets).", tuning.chosen_table(chosen),
        ]  # fmt: skip
    headline = {one.setting.data: one.mse["headline"] for one in chosen}
    pictures = {"figure2.png": partial(draw, found, headline=headline)}
    return curves.report("figure2", settings, found, rows, parts, pictures, chosen=chosen)


def _chosen(cells: Cells, settings: curves.Settings) -> list[tuning.Outcome]:
    """On logs of the size of the figure, by every rule, in the reading that is drawn."""
    n = max(settings.sizes)
    work = [
        (tuning.Setting(data, settings.reading, settings.seed, n), max(settings.repeats // 5, 2),
         tuning.TUNED, (1, *map(ord, data)))
        for data in settings.labelled
    ]  # fmt: skip
    return cells.within("curves").all(
        "chosen parameters", tuning.run_one, work, files_of(settings.labelled)
    )


def best_table(found: Sequence[Curves]) -> str:
    """The least error of every estimator over its parameter, in hindsight."""

    def text(one: Curves, size: float, name: str) -> str:
        if name not in one.shown[size].bias:
            return "–"
        exact = "" if one.exact is None else f" ({1e4 * one.exact[size].best(name):.3g})"
        return f"{1e4 * one.shown[size].best(name):.3g}{exact}"

    rows = [
        [f"{one.data}, {one.named(size)}", *(text(one, size, name) for name in ESTIMATORS)]
        for one in found
        for size in sorted(one.shown)
    ]
    return markdown(["data", *map(paper_name, ESTIMATORS)], rows)


def draw(found: Sequence[Curves], path: Path, headline: Mapping[str, float]) -> None:
    """A panel for each set (SB: τ from 0 to 1 on the same axis); ``headline`` is the MSE of the
    default, with M chosen from the log, by data set."""
    figure, axes = panels(len(found), margin=0.5)
    for ax, one in zip(axes, found, strict=False):
        shown = one.shown[one.size]
        names = [name for name in STYLES if name in shown.bias]
        for name in names:
            line(ax, name, np.broadcast_to(shown.mse(name), one.axes.M.shape))
        if one.data in headline:
            colour, style, width = DEFAULT_STYLE
            ax.axhline(headline[one.data], color=colour, linestyle=style, lw=width,
                       label="our default, M from the log")  # fmt: skip
        low = min([*map(shown.best, names), headline.get(one.data, np.inf)])
        high = max(shown.best(name) for name in ("CAB", "SB", "SWITCH", "DM"))
        high = max(high, float(shown.mse("CAB").max()))
        one.axes.frame(ax, f"{one.data}, {one.named(one.size)}", (low * 0.6, high * 2.0))
    finish(figure, axes[:1], path, "outside lower center", ncols=5)
