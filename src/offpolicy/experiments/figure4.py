"""Figure 4: what is learned, over the amount of data (1; of rankings, 2), the quality of the reward
model (3), and the logger's (4)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.datasets import files_of
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import TENTH, Judged, judge, log_ratios
from offpolicy.experiments.learning.readings import READINGS, TEXT
from offpolicy.experiments.learning.search import Learned, read_as, search
from offpolicy.experiments.learning.setup import ESTIMATORS, Condition
from offpolicy.experiments.pictures import line, over_amounts, plain
from offpolicy.experiments.pictures import panels as empty_panels
from offpolicy.experiments.ranking import learning as rankers
from offpolicy.experiments.ranking.learning import Ranked, by_set
from offpolicy.experiments.saving import Report
from offpolicy.experiments.table2 import (
    RANKED_RUNS,
    SCHEMA,
    errors_of,
    ranks_behind,
    ranks_of,
)
from offpolicy.experiments.tables import markdown, mean_text, paper_name
from offpolicy.report.matplotlib import save_figure

DATA = "pendigits"
PANELS: dict[str, tuple[str, Sequence[float]]] = {
    "decisions": ("n", (500, 1000, 2000, 5000, 10_000)),
    "share that trains the reward model": ("model_share", (0.01, 0.02, 0.05, 0.1, 0.3)),
    "share that trains the logger": ("logger_share", (0.01, 0.05, 0.1, 0.2, 0.5)),
}
"""What is varied, and its values: panels 1, 3 and 4."""
SWEEPS = (0.5, 1.0, 5.0)
"""Of panel 2."""
Panel = Mapping[float, Mapping[str, Floats]]
"""At each value, the test errors of each objective over runs; or average ranks."""


def run(
    cells: Cells, sets: Sequence[str], runs: int, quick: bool = False, kept: bool = False
) -> Report:
    """Figure 4 in the reading nearest to the text; ``quick``: three values of each panel."""
    learned: list[Learned] = []
    if DATA in sets:
        wanted = [(condition, TEXT) for condition in conditions(runs, quick)]
        folder = cells.within("learned")
        found = folder.all("runs", search, wanted, files_of([DATA]), kept=kept)
        learned = read_as(found, READINGS[0])
    sweeps = SWEEPS[:: 2 if quick else 1]
    ranked = rankers.runs_of(cells, sets, min(runs, RANKED_RUNS), sweeps, kept=kept)
    panels = panels_of(learned, ranked)
    rows = judged(panels)
    parts = ["## Figure 4", claims_table(rows), *(panel_table(*item) for item in panels.items())]
    text = "\n".join(parts)
    body = {"schema": SCHEMA, "runs": learned, "ranked": ranked, "claims": rows}
    pictures = {"figure4.png": partial(draw, panels)} if panels else {}
    return Report(text, {"results.json": body, "table.md": text}, pictures, "figure4")


def conditions(runs: int, quick: bool = False) -> list[Condition]:
    """The conditions of panels 1, 3 and 4, each once, run by run."""
    changes: list[dict[str, Any]] = [
        {field: value}
        for field, values in PANELS.values()
        for value in (values[::2] if quick else values)
    ]
    wanted = [Condition(DATA, run, **change) for run in range(runs) for change in changes]
    return list(dict.fromkeys(wanted))


def panels_of(learned: Sequence[Learned], ranked: Sequence[Ranked]) -> dict[str, Panel]:
    """All panels of Figure 4 that have runs, in the paper's order, by what is varied."""
    first, *others = ({panel: one} if (one := panel_of(learned, panel)) else {} for panel in PANELS)
    second = {
        f"{SECOND}{where}": panel
        for where, runs in by_set(ranked).items()
        if (panel := _over_sweeps(runs))
    }
    return {name: panel for some in (first, second, *others) for name, panel in some.items()}


SECOND = "sweeps of "
"""How panels of rankings begin."""


def _over_sweeps(runs: Sequence[Ranked]) -> Panel:
    """Average ranks at each amount, and what was lost by choosing: only of runs that are there at
    every amount, so that they are paired."""
    by_amount = rankers.by_sweeps(runs)
    whole = set.intersection(*({one.condition.run for one in some} for some in by_amount.values()))
    return {
        amount: ranks_of(paired)
        | {f"lost, {name}": rankers.regret(paired, name) for name in rankers.ESTIMATORS}
        for amount, some in by_amount.items()
        if (paired := [one for one in some if one.condition.run in whole])
    }


def panel_of(learned: Sequence[Learned], panel: str) -> Panel:
    """A panel of Figure 4: only runs of which all values that any has are there, so that they are
    paired."""
    field, values = PANELS[panel]
    default = asdict(Condition(DATA, 0))
    by_value: dict[float, dict[int, Learned]] = {}
    for value, one in itertools.product(values, learned):
        if asdict(one.condition) == default | {field: value, "run": one.condition.run}:
            by_value.setdefault(value, {})[one.condition.run] = one
    if len(by_value) < 2:
        return {}
    whole = sorted(set.intersection(*map(set, by_value.values())))
    return {value: errors_of(runs[k] for k in whole) for value, runs in by_value.items() if whole}


# -- claims ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A claim on a panel, where the paper has it, and what was found."""

    claim: str
    place: str
    panel: str
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


def _on_sweeps(panel: Panel) -> _Claims:
    """Of average ranks, in shares of what all judgements gain over the logger."""
    fewest = next(iter(panel))
    gain = {at: float(np.mean(ranks["logger"] - ranks["full"])) for at, ranks in panel.items()}
    yield (
        "performance improves for all estimators as the amount of data grows",
        {f"{paper_name(name)} {after:g} − {before:g}":
            (panel[after][name] - panel[before][name]) / gain[after]
         for name in rankers.ESTIMATORS for before, after in itertools.pairwise(panel)},
        0.0,
    )  # fmt: skip
    yield (
        "CAB performs very well for all amounts (behind any other by at most a tenth of what all "
        "judgements gain over the logger)",
        _behind(panel, rankers.ESTIMATORS),
        0.1,
    )
    yield (
        "CAB improves substantially over IPS and cIPS at the fewest sweeps (by a tenth of that)",
        ranks_behind(panel[fewest], "CAB", ("IPS", "CIPS")),
        -0.1,
    )
    yield "CAB performs better than SWITCH in the ranking setting", _behind(panel, ["SWITCH"]), 0.0
    yield (
        "model selection during learning may be more stable for CAB than for SWITCH (ranks lost by "
        "it, paragraph 2)",
        {f"CAB − SWITCH at {at:g}": (ranks["lost, CAB"] - ranks["lost, SWITCH"]) / gain[at]
         for at, ranks in panel.items()},
        0.0,
    )  # fmt: skip


def _behind(panel: Panel, others: Sequence[str]) -> dict[str, Floats]:
    """CAB the others, at every amount."""
    return {
        f"{part} at {value:g}": shares
        for value, ranks in panel.items()
        for part, shares in ranks_behind(ranks, "CAB", others).items()
    }


_CLAIMS = {
    "decisions": ("Section 4.2, paragraph 5; panel 1", _on_sizes),
    SECOND: ("Section 4.2, paragraph 5; panel 2", _on_sweeps),
    "share that trains the reward model": ("Section 4.2, paragraph 6; panel 3", _on_models),
    "share that trains the logger": ("Section 4.2, paragraph 7; panel 4", _on_loggers),
}


def judged(panels: Mapping[str, Panel]) -> list[Row]:
    """What the paper says of its Figure 4, and whether it holds."""
    rows = []
    for name, panel in panels.items():
        of_ranks = name.startswith(SECOND)
        place, claims = _CLAIMS[SECOND if of_ranks else name]
        for claim, parts, margin in claims(panel) if len(panel) > 1 else ():
            found = judge(parts, margin, strict=margin == 0.0, logarithms=not of_ranks)
            rows.append(Row(claim, place, name, found))
    return rows


# -- tables and picture ----------------------------------------------------------------------------


def claims_table(rows: Sequence[Row]) -> str:
    if not rows:
        return "No run has all values of a panel yet.\n"
    lines = [
        [row.claim, row.place, row.panel, str(row.judged), str(row.judged.runs)] for row in rows
    ]
    head = ["claim", "where", "panel", "verdict, its worst part", "runs"]
    return markdown(head, lines) + "\n"


def panel_table(name: str, panel: Panel) -> str:
    """The means of a panel."""
    of_ranks = name.startswith(SECOND)
    objectives = (*rankers.ESTIMATORS, "full") if of_ranks else ESTIMATORS
    digits = 2 if of_ranks else 4
    rows = [
        [f"{value:g}", *(mean_text(errors[each], digits) for each in objectives)]
        for value, errors in panel.items()
    ]
    titles = ["all judgements" if each == "full" else paper_name(each) for each in objectives]
    return markdown([name, *titles], rows) + "\n"


def draw(panels: Mapping[str, Panel], path: Path) -> None:
    """Two panels in a row, of rankings with what all judgements reach, dotted."""
    figure, axes = empty_panels(len(panels), 2, margin=0.8)
    for ax, (name, panel) in zip(axes, panels.items(), strict=False):
        of_ranks, values = name.startswith(SECOND), list(panel)
        for each in rankers.ESTIMATORS if of_ranks else ESTIMATORS:
            means = np.array([errors[each].mean() for errors in panel.values()])
            line(ax, each, means, values, marker="o", markersize=4)
        if of_ranks:
            full = [ranks["full"].mean() for ranks in panel.values()]
            ax.plot(values, full, ":", color="#000000", lw=1.4, label="all judgements")
        over_amounts(ax, values, (f"{value:,g}" for value in values), name.removesuffix(" of"))
        ax.set_ylabel("average rank" if of_ranks else "expected test error")
        plain(ax, name.removeprefix(SECOND) if of_ranks else DATA, lines="both")
    handles = {
        label: handle
        for ax in axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", frameon=False, ncols=5)
    save_figure(figure, path)
