"""Figure 4 (1, 3, 4): the error over the amount of data, the model's quality, and the logger's."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.datasets import files_of
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import TENTH, Judged, judge, log_ratios
from offpolicy.experiments.learning.readings import READINGS, TEXT
from offpolicy.experiments.learning.search import Learned, read_as, search
from offpolicy.experiments.learning.setup import ESTIMATORS, Condition
from offpolicy.experiments.learning.table2 import SCHEMA, errors_of
from offpolicy.experiments.pictures import finish, grid_of_axes, line, over_amounts, plain
from offpolicy.experiments.saving import Report
from offpolicy.experiments.tables import markdown, mean_text, paper_name

DATA = "pendigits"
PANELS: dict[str, tuple[str, Sequence[float]]] = {
    "decisions": ("n", (500, 1000, 2000, 5000, 10_000)),
    "share that trains the reward model": ("model_share", (0.01, 0.02, 0.05, 0.1, 0.3)),
    "share that trains the logger": ("logger_share", (0.01, 0.05, 0.1, 0.2, 0.5)),
}
"""What is varied, and its values: panels 1, 3 and 4; the second is about rankings."""
Panel = Mapping[float, Mapping[str, Floats]]
"""At each value, the test errors of each objective over runs."""


def run(cells: Cells, runs: int, kept: bool) -> Report:
    """Figure 4 in the reading nearest to the text."""
    wanted = [(condition, TEXT) for condition in conditions(runs)]
    found = cells.all("runs", search, wanted, files_of([DATA]), kept=kept)
    learned = read_as(found, READINGS[0])
    text = f"## Figure 4\n\n{claims_table(judged(learned))}\n{to_markdown(learned)}"
    body = {"schema": SCHEMA, "runs": learned, "claims": judged(learned)}
    files = {"results.json": body, "table.md": text}
    pictures = {"figure4.png": partial(draw, learned)} if judged(learned) else {}
    return Report(text, files, pictures, "figure4")


def conditions(runs: int) -> list[Condition]:
    """The conditions of all panels of Figure 4, each once, run by run."""
    changes: list[dict[str, Any]] = [
        {field: value} for field, values in PANELS.values() for value in values
    ]
    wanted = [Condition(DATA, run, **change) for run in range(runs) for change in changes]
    return list(dict.fromkeys(wanted))


def panel_of(learned: Sequence[Learned], panel: str) -> dict[float, dict[str, Floats]]:
    """A panel of Figure 4: only runs of which all its values are there, so that they are paired."""
    field, values = PANELS[panel]
    default = asdict(Condition(DATA, 0))
    by_value: dict[float, dict[int, Learned]] = {value: {} for value in values}
    for one in learned:
        for value in values:
            if asdict(one.condition) == default | {field: value, "run": one.condition.run}:
                by_value[value][one.condition.run] = one
    whole = sorted(set.intersection(*map(set, by_value.values())))
    return {value: errors_of(runs[k] for k in whole) for value, runs in by_value.items() if whole}


# -- claims ----------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A claim on Figure 4: its text, where the paper has it, and what was found."""

    claim: str
    place: str
    judged: Judged


def _steps(panel: Panel, names: Iterable[str]) -> dict[str, Floats]:
    """From each value to the next."""
    pairs = list(itertools.pairwise(panel))
    return {
        f"{paper_name(name)} {after:g}/{before:g}": np.log(panel[after][name] / panel[before][name])
        for name in names
        for before, after in pairs
    }


def _rise(panel: Panel, name: str) -> Floats:
    """From the last value to the first, as a logarithm."""
    values = list(panel)
    return np.asarray(np.log(panel[values[0]][name] / panel[values[-1]][name]))


def _flat(panel: Panel, names: Iterable[str]) -> dict[str, Floats]:
    """Each value against the middle one, in both directions."""
    middle = panel[list(panel)[len(panel) // 2]]
    return {
        f"{paper_name(name)} {value:g}{mark}": sign * np.log(errors[name] / middle[name])
        for name in names
        for value, errors in panel.items()
        for mark, sign in (("", 1.0), (", inverse", -1.0))
        if errors is not middle
    }


def _ahead(panel: Panel, name: str, others: Iterable[str]) -> dict[str, Floats]:
    """Of the others, at every value."""
    return {
        f"{part} at {value:g}": ratios
        for value, errors in panel.items()
        for part, ratios in log_ratios(errors, name, others).items()
    }


_Claims = Iterator[tuple[str, Mapping[str, Floats], float]]
"""Each claim on a panel, its parts, and its margin."""


def _on_sizes(panel: Panel) -> _Claims:
    first, *_, last = panel
    yield "performance improves for all estimators as n grows", _steps(panel, ESTIMATORS), 0.0
    for name in ("CAB", "CAB-DR"):
        small = log_ratios(panel[first], name, ("IPS", "CIPS", "DR"))
        large = log_ratios(panel[last], name, ("IPS", "CIPS", "DR"))
        lead = {part: small[part] - large[part] for part in small}
        yield (
            f"{name} performs very well for all n (at most a tenth behind any other)",
            _ahead(panel, name, ESTIMATORS),
            TENTH,
        )
        yield (
            f"{name} improves substantially over IPS, cIPS and DR at the smallest n (by a tenth)",
            small,
            -TENTH,
        )
        yield f"{name} leads IPS, cIPS and DR by more at the smallest n than at the last", lead, 0.0


def _on_models(panel: Panel) -> _Claims:
    users = ("DM", "DR", "SB", "CAB", "CAB-DR")
    yield ("IPS and cIPS are flat (within a tenth)", _flat(panel, ("IPS", "CIPS")), TENTH)
    yield ("the others improve with the quality of the model (last against first)",
           {name: -_rise(panel, name) for name in users}, 0.0)  # fmt: skip
    for name in ("CAB", "CAB-DR"):
        yield (
            f"{name} does well over the whole range (at most a tenth behind any other)",
            _ahead(panel, name, ESTIMATORS),
            TENTH,
        )


def _on_loggers(panel: Panel) -> _Claims:
    yield "DM is flat (within a tenth)", _flat(panel, ["DM"]), TENTH
    yield ("IPS and cIPS are hurt by the worst logger more than CAB, CAB-DR and SB are",
           {f"{name}/{paper_name(other)}": _rise(panel, name) - _rise(panel, other)
            for name in ("CAB", "CAB-DR", "SB") for other in ("IPS", "CIPS")}, 0.0)  # fmt: skip
    for name in ("CAB", "CAB-DR"):
        yield (
            f"{name} performs well across the whole range (at most a tenth behind any other)",
            _ahead(panel, name, ESTIMATORS),
            TENTH,
        )


_CLAIMS = {
    "decisions": ("Section 4.2, paragraph 5; panel 1", _on_sizes),
    "share that trains the reward model": ("Section 4.2, paragraph 6; panel 3", _on_models),
    "share that trains the logger": ("Section 4.2, paragraph 7; panel 4", _on_loggers),
}


def judged(learned: Sequence[Learned]) -> list[Row]:
    """What the paper says of its Figure 4, and whether it holds."""
    return [
        Row(claim, place, judge(parts, margin, strict=margin == 0.0))
        for panel, (place, claims) in _CLAIMS.items()
        if (curves := panel_of(learned, panel))
        for claim, parts, margin in claims(curves)
    ]


# -- tables and picture ----------------------------------------------------------------------------


def claims_table(rows: Sequence[Row]) -> str:
    if not rows:
        return "No run has all values of a panel yet.\n"
    lines = [[row.claim, row.place, str(row.judged), str(row.judged.runs)] for row in rows]
    return markdown(["claim", "where", "verdict, its worst part", "runs"], lines) + "\n"


def to_markdown(learned: Sequence[Learned]) -> str:
    """The means of every panel."""
    parts = []
    for panel in PANELS:
        if not (curves := panel_of(learned, panel)):
            continue
        rows = [
            [f"{value:g}", *(mean_text(errors[name], 4) for name in ESTIMATORS)]
            for value, errors in curves.items()
        ]
        parts.append(markdown([panel, *map(paper_name, ESTIMATORS)], rows))
    return "\n\n".join(parts) + "\n"


def draw(learned: Sequence[Learned], path: Path) -> None:
    figure, [axes] = grid_of_axes(1, 3, (12.0, 4.0), sharey=True)
    for ax, (panel, (_, values)) in zip(axes, PANELS.items(), strict=True):
        curves = panel_of(learned, panel)
        for name in ESTIMATORS if curves else ():
            means = np.array([curves[value][name].mean() for value in values])
            line(ax, name, means, values, marker="o", markersize=4)
        over_amounts(ax, values, (f"{value:,}" for value in values), panel)
        plain(ax, lines="both")
    axes[0].set_ylabel("expected test error")
    axes[0].set_title(DATA, loc="left")
    finish(figure, axes[0], path, "outside right center")
