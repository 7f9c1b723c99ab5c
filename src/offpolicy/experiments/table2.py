"""Table 2: policies and rankers learned with each estimator, beside the paper's figures.

Of labelled sets it is the expected test error, in the readings of `learning.readings`; of rankings
the average rank of relevant results, in two readings of what is relevant.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import TENTH, Judged, counted, half_width, judge, log_ratios
from offpolicy.experiments.learning import search
from offpolicy.experiments.learning.readings import CLOSEST, READINGS
from offpolicy.experiments.learning.search import PENALTIES, Learned, Searched, candidates, read_as
from offpolicy.experiments.learning.setup import ESTIMATORS, Condition
from offpolicy.experiments.pictures import PARTS, finish, panels, plain
from offpolicy.experiments.ranking import learning as rankers
from offpolicy.experiments.ranking.learning import Ranked
from offpolicy.experiments.ranking.setup import is_ranking
from offpolicy.experiments.saving import Report
from offpolicy.experiments.tables import grouped, markdown, mean_text, paper_name

PAPER = {
    "letter": (0.6372, 0.6852, 0.8969, 0.8504, 0.6091, 0.5740, 0.5877),
    "optdigits": (0.0649, 0.0471, 0.0695, 0.0447, 0.0460, 0.0445, 0.0461),
    "satimage": (0.3083, 0.2762, 0.3266, 0.2415, 0.2481, 0.2442, 0.2762),
    "pendigits": (0.1133, 0.1191, 0.2748, 0.1228, 0.0949, 0.0917, 0.0946),
}
"""Its Table 2, in the order of `ESTIMATORS`."""
YAHOO = {"DM": 11.25, "IPS": 11.17, "CIPS": 11.39, "SB": 10.98, "SWITCH": 10.95, "CAB": 10.83}
"""Its column of rankings."""
SCHEMA = "offpolicy.learning/3"
OF_PAPER = "Yahoo! LTR"
"""The paper's set for rankings."""
Errors = Mapping[str, Floats]
"""The test errors of each objective over runs."""


def figures(data: str) -> dict[str, float]:
    """The paper's, by objective; none of a set that is not in its table."""
    return YAHOO if data == OF_PAPER else dict(zip(ESTIMATORS, PAPER.get(data, ()), strict=False))


# -- claims ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    """A sentence of the paper on its Table 2, and what must be small where it holds."""

    text: str
    place: str
    parts: Callable[[Errors], Mapping[str, Floats]]
    margin: float = 0.0
    strict: bool = False
    sets: Sequence[str] = tuple(PAPER)
    """Those it is about, among the paper's."""
    of_ranks: bool = False

    def of_the_paper(self, data: str) -> bool | None:
        """Whether the paper's own figures are so; they come without errors, and its ranks without
        the logger's, so that only who is ahead can be told."""
        own = figures(OF_PAPER if self.of_ranks else data)
        if not own:
            return None
        parts = self.parts({name: np.array([value]) for name, value in own.items()})
        worst = max(float(values[0]) for values in parts.values())
        return worst < self.margin if self.strict else worst <= self.margin


def ranks_behind(errors: Errors, name: str, others: Iterable[str]) -> dict[str, Floats]:
    """By how many ranks ``name`` is behind each of the others: shares of what all judgements gain
    over the logger, where that is known."""
    gain = float(np.mean(errors["logger"] - errors["full"])) if "full" in errors else 1.0
    return {
        f"{paper_name(name)} − {paper_name(other)}": (errors[name] - errors[other]) / gain
        for other in others
        if other != name
    }


PLACE = "Section 4.2, paragraph 4"
STATEMENTS = (
    Statement("CAB provides one of the best prediction performances on all datasets "
              "(at most a tenth behind any other)", PLACE,
              lambda errors: log_ratios(errors, "CAB", ESTIMATORS), TENTH),
    Statement("no real benefit of CAB-DR over CAB (CAB is at most a tenth behind)", PLACE,
              lambda errors: log_ratios(errors, "CAB", ["CAB-DR"]), TENTH),
    Statement("CAB outperforms the others", "Abstract; bold in Table 2",
              lambda errors: log_ratios(errors, "CAB", ESTIMATORS), strict=True,
              sets=("letter", "optdigits", "pendigits")),
    Statement("cIPS is the best of all", "bold in Table 2",
              lambda errors: log_ratios(errors, "CIPS", ESTIMATORS), strict=True,
              sets=("satimage",)),
    Statement("CAB provides one of the best prediction performances on all datasets "
              "(of rankings: behind any other by at most a tenth of what all judgements gain over "
              "the logger)", PLACE,
              lambda ranks: ranks_behind(ranks, "CAB", rankers.ESTIMATORS), 0.1, of_ranks=True),
    Statement("CAB outperforms the others (of rankings)", "Abstract; bold in Table 2",
              lambda ranks: ranks_behind(ranks, "CAB", rankers.ESTIMATORS), strict=True,
              of_ranks=True),
)  # fmt: skip
"""All that the paper says of its Table 2."""


@dataclass(frozen=True)
class Row:
    """A statement on a data set, in a reading."""

    claim: str
    place: str
    data: str
    reading: str
    judged: Judged
    paper: bool | None
    """Whether the paper's own figures are so."""


def judged(by_reading: Mapping[str, Sequence[Learned]], ranked: Sequence[Ranked] = ()) -> list[Row]:
    """Every statement on every data set, in every reading; of rankings a reading is which grades
    are relevant."""
    errors = [
        (data, reading, values, False) for (reading, data), values in errors_by(by_reading).items()
    ]
    errors += [(where, CLOSEST[0].name, ranks_of(runs), True)
               for where, runs in rankers.by_set(ranked).items()]  # fmt: skip
    return [
        Row(one.text, one.place, data, reading,
            judge(one.parts(values), one.margin, strict=one.strict, logarithms=not of_ranks),
            one.of_the_paper(data))
        for one in STATEMENTS
        for data, reading, values, of_ranks in errors
        if one.of_ranks == of_ranks and (of_ranks or data in one.sets or data not in PAPER)
    ]  # fmt: skip


def claims_table(rows: Sequence[Row], readings: Sequence[str]) -> str:
    """A row for each claim and data set; the closest readings, all readings, the paper itself."""
    lines: list[list[str]] = []
    before = ""
    for (claim, place, data), some in grouped(
        rows, lambda row: (row.claim, row.place, row.data)
    ).items():
        by = {row.reading: str(row.judged) for row in some}
        paper = {True: "so", False: "not so", None: "–"}[some[0].paper]
        paper += f", on {OF_PAPER}" if some[0].paper is not None and data not in PAPER else ""
        each = [by.get(name, "–") for name in readings]
        counts = counted(row.judged for row in some)
        said = "" if claim == before else f"{claim}. {place}"
        lines.append([said, data, *each, counts, paper])
        before = claim
    head = ["claim", "data", *readings, "all readings", "the paper's own figures"]
    return markdown(head, lines) + "\n"


# -- tables ----------------------------------------------------------------------------------------


def errors_of(learned: Iterable[Learned]) -> dict[str, Floats]:
    """The test errors of each method over runs."""
    runs = list(learned)
    return {name: np.array([one.errors[name] for one in runs]) for name in runs[0].errors}


def errors_by(
    by_reading: Mapping[str, Sequence[Learned]],
) -> dict[tuple[str, str], dict[str, Floats]]:
    """The same by reading and data set, with the logger's."""
    return {
        (reading, data): errors_of(runs) | {"logger": np.array([one.logger for one in runs])}
        for reading, learned in by_reading.items()
        for data, runs in grouped(learned, lambda one: one.condition.data).items()
    }


def ranks_of(ranked: Sequence[Ranked]) -> dict[str, Floats]:
    """The average ranks over runs: of each objective, the logger, and all judgements."""
    names = (*rankers.ESTIMATORS, "logger", "full")
    return {name: np.array([one.rank(name) for one in ranked]) for name in names}


NAMES = (*ESTIMATORS[:5], "SWITCH", *ESTIMATORS[5:])
"""In the order of the paper's Table 2."""


def paper_text(name: str, data: str) -> str:
    """The paper's figure."""
    own, digits = figures(data), 2 if data == OF_PAPER else 4
    return f"{own[name]:.{digits}f}" if name in own else "–"


def main_table(by_reading: Mapping[str, Sequence[Learned]], ranked: Sequence[Ranked]) -> str:
    """The paper's table and ours: a row for each objective and reading, a column for each data set.
    Ranks are in the row of the reading that is nearest to the text."""
    errors, places = errors_by(by_reading), rankers.by_set(ranked)
    closest = next(iter(by_reading), CLOSEST[0].name)
    columns = [*dict.fromkeys(data for _, data in errors), *places, *([OF_PAPER] if places else [])]
    errors |= {(closest, where): ranks_of(runs) for where, runs in places.items()}

    def row(title: str, reading: str, name: str) -> list[str]:
        digits = [2 if data in places else 4 for data in columns]
        values = [errors.get((reading, data), {}).get(name, ()) for data in columns]
        return [title, reading * (not title), *map(mean_text, values, digits)]

    rows = []
    for name in NAMES:
        rows.append(
            [f"**{paper_name(name)}**", "the paper", *(paper_text(name, data) for data in columns)]
        )
        rows += [row("", reading, name) for reading in by_reading or [closest]]
    rows += [row("the logger", closest, "logger"), row("all judgements", closest, "full")]
    said = [one for one in rows if one[1] == "the paper" or set(one[2:]) != {"–"}]
    return markdown(["objective", "reading", *columns], said) + "\n"


def error_table(by_reading: Mapping[str, Sequence[Learned]]) -> str:
    """A row for each objective and reading, a column for each labelled set."""
    errors, rows = errors_by(by_reading), []
    sets = list(dict.fromkeys(data for _, data in errors))
    for name, reading in itertools.product(ESTIMATORS, by_reading):
        values = [errors.get((reading, data), {}).get(name, np.array([])) for data in sets]
        rows.append([paper_name(name), reading, *(mean_text(some, 4) for some in values)])
    return markdown(["objective", "reading", *sets], rows) + "\n"


def readings_table(by_reading: Mapping[str, Sequence[Learned]]) -> str:
    """What each reading is, and how many runs of it there are, by data set."""
    rows = []
    for reading in READINGS:
        if reading.name in by_reading:
            runs = grouped(by_reading[reading.name], lambda one: one.condition.data)
            count = ", ".join(f"{data} {len(some)}" for data, some in runs.items())
            rows.append([reading.name, reading.about, count])
    return markdown(["reading", "what it is", "runs"], rows) + "\n"


def orders_table(by_reading: Mapping[str, Sequence[Learned]]) -> str:
    """Which of two objectives is better in every reading, by data set; in brackets, in how many of
    them that can be told."""
    rows = []
    for data, some in grouped(errors_by(by_reading).items(), lambda item: item[0][1]).items():
        orders = []
        for first, second in itertools.permutations(ESTIMATORS, 2):
            found = [judge(log_ratios(errors, first, [second]), strict=True) for _, errors in some]
            if all(one.mean < 0.0 for one in found):
                told = sum(one.verdict == "holds" for one in found)
                orders.append(f"{paper_name(first)} < {paper_name(second)} ({told})")
        rows.append([data, ", ".join(orders) or "none"])
    return markdown(["data", "lower error in every reading (told by the interval in)"], rows)


def penalty_table(found: Sequence[Searched], data: str) -> str:
    """What a set's objectives reach at each λ, by each way: the least test error over M and τ,
    means over runs; and of IPS what the validation log sees."""
    rows = []
    ways = {reading.way: reading.name for reading in reversed(READINGS)}
    by_way = grouped((one for one in found if one.condition.data == data), lambda one: one.way)
    for (way, runs), l2 in itertools.product(by_way.items(), PENALTIES):
        places = {
            name: [k for k, one in enumerate(candidates()) if (one.estimator, one.l2) == (name, l2)]
            for name in ESTIMATORS
        }
        least = [
            np.mean([min(one.error[k] for k in mine) for one in runs]) for mine in places.values()
        ]
        (ips,) = places["IPS"]
        columns = [one.weight for one in runs], [one.cips for one in runs]
        seen = [np.mean([values[ips] for values in column]) for column in columns]
        rows.append([ways[way], f"{l2:g}", *(f"{x:.3f}" for x in least),
                     *(f"{x:.2f}" for x in seen), str(len(runs))])  # fmt: skip
    head = ["way", "λ", *map(paper_name, ESTIMATORS), "IPS: mean weight", "its cIPS", "runs"]
    return markdown(head, rows) + "\n"


# -- the experiment --------------------------------------------------------------------------------


def run(
    cells: Cells, sets: Sequence[str], runs: int, readings: bool = False, quick: bool = False
) -> Report:
    """The paper's Table 2, in the closest readings or in all; ``quick``: one run of the first."""
    labelled, runs = [name for name in sets if not is_ranking(name)], 1 if quick else runs
    wanted = [Condition(data, run) for run, data in itertools.product(range(runs), labelled)]
    asked = READINGS if readings else CLOSEST[: 1 if quick else None]
    found = search.runs_of(cells, wanted, asked)
    return report_of(found, rankers.runs_of(cells, sets, runs))


def report_of(found: Sequence[Searched], ranked: Sequence[Ranked] = ()) -> Report:
    """Tables of what there is, the paper's sets in its order."""
    order = [*PAPER, *dict.fromkeys(one.condition.data for one in found)]
    found = sorted(found, key=lambda one: order.index(one.condition.data))
    by_reading = {r.name: some for r in READINGS if (some := read_as(found, r))}
    near = {r.name: by_reading[r.name] for r in CLOSEST if r.name in by_reading}
    rows = judged(by_reading, ranked)
    parts = [
        "## Table 2", "Expected test error, of rankings the average rank of relevant results: mean "
        "± standard error over the runs.", main_table(near, ranked),
        "## Claims", claims_table(rows, list(near) or [CLOSEST[0].name]),
    ]  # fmt: skip
    if found:
        parts += [
            "## Readings", readings_table(by_reading),
            "## Orders", orders_table(by_reading),
            "## All readings", error_table(by_reading),
        ]  # fmt: skip
    if any(one.condition.data == "letter" for one in found):
        parts += ["## letter", penalty_table(found, "letter")]
    if ranked:
        parts += ["## Ranks lost by choosing", lost_table(ranked)]
    body = {"schema": SCHEMA, "runs": by_reading, "ranked": ranked, "claims": rows}
    pictures = {"table2.png": partial(draw, near, ranked)} if near or ranked else {}
    return Report.of(parts, body, "table2", pictures)


# -- picture ---------------------------------------------------------------------------------------


def draw(by_reading: Mapping[str, Sequence[Learned]], ranked: Sequence[Ranked], path: Path) -> None:
    """A panel for each set: the paper's figures (crosses), and ours in every reading (dots), with
    95% intervals."""
    values: dict[str, dict[str, Errors]] = {}
    for (reading, data), by_name in errors_by(by_reading).items():
        values.setdefault(data, {})[reading] = by_name
    for where, ranked_runs in rankers.by_set(ranked).items():
        values[where] = {CLOSEST[0].name: ranks_of(ranked_runs)}
    figure, axes = panels(len(values), margin=0.6)
    colours = dict(zip((reading.name for reading in CLOSEST), PARTS, strict=True))
    for ax, (data, by) in zip(axes, values.items(), strict=False):
        names = [name for name in NAMES if name in next(iter(by.values()))]
        if own := figures(data):
            ax.plot([own[name] for name in names], range(len(names)), "x", color="#000000",
                    markersize=7, mew=1.8, label="the paper")  # fmt: skip
        for k, (reading, errors) in enumerate(by.items()):
            for at, name in enumerate(names):
                mean, half = float(errors[name].mean()), half_width(errors[name], 1)
                ax.errorbar(mean, at + 0.18 * (k + 1), xerr=half if np.isfinite(half) else None,
                            fmt="o", markersize=4, color=colours[reading], lw=1.2,
                            label=reading if at == 0 else None)  # fmt: skip
        ax.set_yticks(range(len(names)), map(paper_name, names))
        ax.invert_yaxis()
        of_ranks = data in rankers.by_set(ranked)
        ax.set_xlabel("average rank" if of_ranks else "expected test error")
        plain(ax, data, lines="x")
    finish(figure, axes[:1], path, "outside lower center", ncols=4)


def lost_table(ranked: Sequence[Ranked]) -> str:
    """Of the experiment on rankings: ranks lost by choosing on validation clicks, against the
    best in hindsight, mean (spread) over runs; and what our defaults reach without choosing."""
    rows = []
    for where, runs in rankers.by_set(ranked).items():
        lost = [rankers.regret(runs, name) for name in rankers.ESTIMATORS]
        ours = [mean_text([one.rank(name) for one in runs], 2) for name in rankers.OURS]
        texts = (f"{values.mean():.2f} ({values.std():.2f})" for values in lost)
        rows.append([where, *texts, *ours])
    ours_named = [f"rank of ours: {name}" for name in rankers.OURS]
    return markdown(["set", *map(paper_name, rankers.ESTIMATORS), *ours_named], rows)
