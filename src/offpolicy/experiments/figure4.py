"""Figure 4: what is learned, over the amount of data (1; of rankings, 2), the quality of the reward
model (3), and the logger's (4)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import TENTH, Judged, counted, judge, log_ratios
from offpolicy.experiments.curves import SWEEPS
from offpolicy.experiments.learning.readings import CLOSEST
from offpolicy.experiments.learning.search import Learned, read_as, runs_of
from offpolicy.experiments.learning.setup import ESTIMATORS, Condition
from offpolicy.experiments.pictures import finish, line, plain
from offpolicy.experiments.pictures import panels as empty_panels
from offpolicy.experiments.ranking import learning as rankers
from offpolicy.experiments.ranking.learning import Ranked
from offpolicy.experiments.saving import Report
from offpolicy.experiments.table2 import SCHEMA, errors_of, ranks_behind, ranks_of
from offpolicy.experiments.tables import grouped, markdown, mean_text, paper_name

DATA = "pendigits"
PANELS: dict[str, tuple[str, Sequence[float]]] = {
    "decisions": ("n", (500, 1000, 2000, 5000, 10_000)),
    "share that trains the reward model": ("model_share", (0.01, 0.02, 0.05, 0.1, 0.3)),
    "share that trains the logger": ("logger_share", (0.01, 0.05, 0.1, 0.2, 0.5)),
}
"""What is varied, and its values: panels 1, 3 and 4."""
Panel = Mapping[float, Mapping[str, Floats]]
"""At each value, the test errors of each objective over runs; or average ranks."""
Panels = Mapping[str, Mapping[str, Panel]]
"""By what is varied, in the paper's order; then by reading, the nearest to the text first."""
_Run = TypeVar("_Run", Learned, Ranked)
SECOND = "sweeps of "
"""How panels of rankings begin."""


def run(cells: Cells, sets: Sequence[str], runs: int, quick: bool = False) -> Report:
    """Figure 4 in the readings closest to the text; ``quick``: in the first, three values of each
    panel."""
    readings = CLOSEST[: 1 if quick else None]
    found = runs_of(cells, conditions(runs, quick) if DATA in sets else [], readings)
    ranked = rankers.runs_of(cells, sets, runs, SWEEPS[:: 2 if quick else 1])
    learned = [one for reading in readings for one in read_as(found, reading)]
    panels = panels_of(learned, ranked)
    rows = judged(panels)
    nearest, others = (
        {name: list(by_reading.items())[place] for name, by_reading in panels.items()}
        for place in (0, -1)
    )
    others = {name: one for name, one in others.items() if one[0] != nearest[name][0]}
    parts = ["## Claims", claims_table(rows)]
    for title, some in (("Panels", nearest), ("Other readings", others)):
        parts += [f"## {title}", *(panel_table(name, *one) for name, one in some.items())]
    body = {"schema": SCHEMA, "runs": learned, "ranked": ranked, "claims": rows}
    drawn = {"figure4.png": nearest, "figure4_others.png": others}
    pictures = {name: partial(draw, some) for name, some in drawn.items() if some}
    return Report.of(parts, body, "figure4", pictures)


def conditions(runs: int, quick: bool = False) -> list[Condition]:
    """The conditions of panels 1, 3 and 4, each once, run by run."""
    changes: list[dict[str, Any]] = [
        {field: value}
        for field, values in PANELS.values()
        for value in (values[::2] if quick else values)
    ]
    wanted = [Condition(DATA, run, **change) for run in range(runs) for change in changes]
    return list(dict.fromkeys(wanted))


def panels_of(learned: Sequence[Learned], ranked: Sequence[Ranked]) -> Panels:
    """All panels of Figure 4 that have runs."""
    by_reading = grouped(learned, lambda one: one.recipe)
    found = {
        name: {
            reading: panel
            for reading, runs in by_reading.items()
            if (panel := panel_of(runs, name))
        }
        for name in PANELS
    }
    second = {
        f"{SECOND}{data}": {
            f"y ≥ {grade}": panel
            for grade, some in grouped(runs, lambda one: one.condition.relevant).items()
            if (panel := _over_sweeps(some))
        }
        for data, runs in grouped(ranked, lambda one: one.condition.data).items()
    }
    first = next(iter(PANELS))
    ordered = {first: found.pop(first), **second, **found}
    return {name: panels for name, panels in ordered.items() if panels}


def _over_sweeps(runs: Sequence[Ranked]) -> Panel:
    """Average ranks at each amount, and what was lost by choosing: only of runs that are there at
    every amount, so that they are paired."""
    by_amount = rankers.by_sweeps(runs).items()
    paired = _paired({n: {one.condition.run: one for one in some} for n, some in by_amount})
    return {
        amount: ranks_of(some)
        | {f"lost, {name}": rankers.regret(some, name) for name in rankers.ESTIMATORS}
        for amount, some in paired.items()
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
    return {value: errors_of(runs) for value, runs in _paired(by_value).items()}


def _paired(by_value: Mapping[float, Mapping[int, _Run]]) -> dict[float, list[_Run]]:
    """Of each value the runs that all values have."""
    whole = sorted(set.intersection(*map(set, by_value.values())))
    return {value: [runs[k] for k in whole] for value, runs in by_value.items() if whole}


# -- claims ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A claim on a panel, where the paper has it, and what was found in one reading."""

    claim: str
    place: str
    panel: str
    reading: str
    judged: Judged


def _trend(panel: Panel, name: str, scale: Callable[[Floats], Floats] = np.log) -> Floats:
    """By how much an error changes from the first value to the last, as a logarithm: along the
    line of least squares over the logarithm of what is varied."""
    x = np.log(list(panel))
    slope = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    values = np.stack([scale(errors[name]) for errors in panel.values()])
    return np.asarray((x[-1] - x[0]) * (slope @ values))


def _trends(panel: Panel, names: Iterable[str]) -> dict[str, Floats]:
    first, *_, last = panel
    return {f"{paper_name(name)} {last:g}/{first:g}": _trend(panel, name) for name in names}


def _rise(panel: Panel, name: str) -> Floats:
    """From the last value to the first, as a logarithm."""
    first, *_, last = panel
    return np.asarray(np.log(panel[first][name] / panel[last][name]))


def _flat(panel: Panel, names: Sequence[str]) -> dict[str, Floats]:
    """The trend, in both directions."""
    inverse = {f"{part}, inverse": -trend for part, trend in _trends(panel, names).items()}
    return _trends(panel, names) | inverse


def _at_each(
    panel: Panel, parts: Callable[[Mapping[str, Floats]], Mapping[str, Floats]]
) -> dict[str, Floats]:
    """Parts of a claim at every value."""
    return {
        f"{part} at {value:g}": found
        for value, errors in panel.items()
        for part, found in parts(errors).items()
    }


_Claims = Iterator[tuple[str, Mapping[str, Floats], float]]
"""Each claim on a panel, its parts, and its margin."""


def _near_the_best(panel: Panel, words: str) -> _Claims:
    for name in ("CAB", "CAB-DR"):
        claim = f"{name} {words} (at most a tenth behind any other)"
        parts = partial(log_ratios, name=name, others=ESTIMATORS)
        yield claim, _at_each(panel, parts), TENTH


def _on_sizes(panel: Panel) -> _Claims:
    first, *_, last = panel
    claim = "performance improves for all estimators as n grows (trend)"
    yield claim, _trends(panel, ESTIMATORS), 0.0
    for name, near in zip(("CAB", "CAB-DR"), _near_the_best(panel, "performs very well for all n"),
                          strict=True):  # fmt: skip
        small, large = (log_ratios(panel[n], name, ("IPS", "CIPS", "DR")) for n in (first, last))
        yield near
        claim = (
            f"{name} improves substantially over IPS, cIPS and DR at the smallest n (by a tenth)"
        )
        yield claim, small, -TENTH
        lead = {part: small[part] - large[part] for part in small}
        yield f"{name} leads IPS, cIPS and DR by more at the smallest n than at the last", lead, 0.0


def _on_models(panel: Panel) -> _Claims:
    claim = "IPS and cIPS are flat, up to variance (trend within a tenth)"
    yield claim, _flat(panel, ("IPS", "CIPS")), TENTH
    claim = "the others improve with the quality of the model (trend)"
    yield claim, _trends(panel, ("DM", "DR", "SB", "CAB", "CAB-DR")), 0.0
    yield from _near_the_best(panel, "does well over the whole range")


def _on_loggers(panel: Panel) -> _Claims:
    yield "DM is flat, up to variance (trend within a tenth)", _flat(panel, ["DM"]), TENTH
    yield ("IPS and cIPS are hurt by the worst logger more than CAB, CAB-DR and SB are",
           {f"{name}/{paper_name(other)}": _rise(panel, name) - _rise(panel, other)
            for name in ("CAB", "CAB-DR", "SB") for other in ("IPS", "CIPS")}, 0.0)  # fmt: skip
    yield from _near_the_best(panel, "performs well across the whole range")


def _on_sweeps(panel: Panel) -> _Claims:
    """Of average ranks, in shares of what all judgements gain over the logger."""
    fewest, *_ = panel
    gain = {at: float(np.mean(ranks["logger"] - ranks["full"])) for at, ranks in panel.items()}
    yield (
        "performance improves for all estimators as the amount of data grows (trend; of those that "
        "learn from clicks: DM's model is of judged documents)",
        {paper_name(name): _trend(panel, name, np.asarray) / float(np.mean(list(gain.values())))
         for name in rankers.ESTIMATORS if name != "DM"},
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
    return _at_each(panel, lambda ranks: ranks_behind(ranks, "CAB", others))


_CLAIMS = {
    "decisions": ("Section 4.2, paragraph 5; panel 1", _on_sizes),
    SECOND: ("Section 4.2, paragraph 5; panel 2", _on_sweeps),
    "share that trains the reward model": ("Section 4.2, paragraph 6; panel 3", _on_models),
    "share that trains the logger": ("Section 4.2, paragraph 7; panel 4", _on_loggers),
}


def judged(panels: Panels) -> list[Row]:
    """What the paper says of its Figure 4, and whether it holds, in every reading."""
    rows = []
    for name, by_reading in panels.items():
        of_ranks = name.startswith(SECOND)
        place, claims = _CLAIMS[SECOND if of_ranks else name]
        for reading, panel in by_reading.items():
            for claim, parts, margin in claims(panel) if len(panel) > 1 else ():
                found = judge(parts, margin, strict=margin == 0.0, logarithms=not of_ranks)
                rows.append(Row(claim, place, name, reading, found))
    return rows


# -- tables and picture ----------------------------------------------------------------------------


def claims_table(rows: Sequence[Row]) -> str:
    """A row for each claim and panel: its verdict in the nearest reading, and in all of them."""
    if not rows:
        return "No run has all values of a panel yet."
    lines = []
    for (claim, place, panel), some in grouped(
        rows, lambda row: (row.claim, row.place, row.panel)
    ).items():
        first = some[0].judged
        counts = counted(row.judged for row in some)
        lines.append([f"{claim}. {place}", panel, f"{first}; {counts}", str(first.runs)])
    head = ["claim", "over", "verdict, its worst part; in all readings", "runs"]
    return markdown(head, lines)


def panel_table(name: str, reading: str, panel: Panel) -> str:
    """The means of a panel."""
    of_ranks = name.startswith(SECOND)
    objectives = (*rankers.ESTIMATORS, "full") if of_ranks else ESTIMATORS
    digits = 2 if of_ranks else 4
    rows = [
        [f"{value:g}", *(mean_text(errors[each], digits) for each in objectives)]
        for value, errors in panel.items()
    ]
    titles = ["all judgements" if each == "full" else paper_name(each) for each in objectives]
    return markdown([f"{name} ({reading})", *titles], rows)


def draw(panels: Mapping[str, tuple[str, Panel]], path: Path) -> None:
    """Two panels in a row, each with its reading; of rankings with what all judgements reach,
    dotted."""
    figure, axes = empty_panels(len(panels), margin=0.8)
    for ax, (name, (reading, panel)) in zip(axes, panels.items(), strict=False):
        of_ranks, values = name.startswith(SECOND), list(panel)
        for each in rankers.ESTIMATORS if of_ranks else ESTIMATORS:
            means = np.array([errors[each].mean() for errors in panel.values()])
            line(ax, each, means, values, marker="o", markersize=4)
        if of_ranks:
            full = [ranks["full"].mean() for ranks in panel.values()]
            ax.plot(values, full, ":", color="#000000", lw=1.4, label="all judgements")
        data = name.removeprefix(SECOND) if of_ranks else DATA
        ax.set_xscale("log")
        ax.set_xticks(values, [f"{value:,g}" for value in values])
        ax.minorticks_off()
        ax.set_xlabel("sweeps" if of_ranks else name)
        ax.set_ylabel("average rank" if of_ranks else "expected test error")
        plain(ax, f"{data}: {reading}", lines="both")
    finish(figure, axes, path, "outside lower center", ncols=5)
