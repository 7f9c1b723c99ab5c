"""Table 2: expected test errors of policies learned with each estimator, beside the paper's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.datasets import files_of
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import TENTH, Judged, counted, judge, log_ratios
from offpolicy.experiments.learning.readings import CLOSEST, READINGS, Reading, Way
from offpolicy.experiments.learning.search import (
    PENALTIES,
    Learned,
    Searched,
    candidates,
    read_as,
    search,
)
from offpolicy.experiments.learning.setup import ESTIMATORS, Condition
from offpolicy.experiments.saving import Report
from offpolicy.experiments.tables import grouped, markdown, mean_text, paper_name

PAPER = {
    "letter": (0.6372, 0.6852, 0.8969, 0.8504, 0.6091, 0.5740, 0.5877),
    "optdigits": (0.0649, 0.0471, 0.0695, 0.0447, 0.0460, 0.0445, 0.0461),
    "satimage": (0.3083, 0.2762, 0.3266, 0.2415, 0.2481, 0.2442, 0.2762),
    "pendigits": (0.1133, 0.1191, 0.2748, 0.1228, 0.0949, 0.0917, 0.0946),
}
"""Its Table 2, in the order of `ESTIMATORS`."""
SCHEMA = "offpolicy.learning/2"
FEWER = 3
"""Runs of the readings that are not among the closest."""
Errors = Mapping[str, Floats]
"""The test errors of each objective over runs."""


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

    def judged(self, errors: Errors) -> Judged:
        return judge(self.parts(errors), self.margin, strict=self.strict)

    def of_the_paper(self, data: str) -> bool | None:
        """Whether the paper's own figures are so; they come without errors."""
        if data not in PAPER:
            return None
        errors = {name: np.array([x]) for name, x in zip(ESTIMATORS, PAPER[data], strict=True)}
        worst = max(float(values[0]) for values in self.parts(errors).values())
        return worst < self.margin if self.strict else worst <= self.margin


STATEMENTS = (
    Statement("CAB provides one of the best prediction performances on all datasets "
              "(at most a tenth behind any other)", "Section 4.2, paragraph 4",
              lambda errors: log_ratios(errors, "CAB", ESTIMATORS), TENTH),
    Statement("no real benefit of CAB-DR over CAB (CAB is at most a tenth behind)",
              "Section 4.2, paragraph 4", lambda errors: log_ratios(errors, "CAB", ["CAB-DR"]),
              TENTH),
    Statement("CAB is the best of all (bold)", "Table 2",
              lambda errors: log_ratios(errors, "CAB", ESTIMATORS), strict=True,
              sets=("letter", "optdigits", "pendigits")),
    Statement("cIPS is the best of all (bold)", "Table 2",
              lambda errors: log_ratios(errors, "CIPS", ESTIMATORS), strict=True,
              sets=("satimage",)),
)  # fmt: skip
"""All that the paper says of its Table 2 on labelled sets."""


def judged(by_reading: Mapping[str, Sequence[Learned]]) -> list[dict[str, object]]:
    """Every statement on every data set, in every reading."""
    rows: list[dict[str, object]] = []
    for statement in STATEMENTS:
        for name, learned in by_reading.items():
            for data, runs in grouped(learned, lambda one: one.condition.data).items():
                if data in statement.sets or data not in PAPER:
                    verdict = statement.judged(errors_of(runs))
                    rows.append({"claim": statement.text, "place": statement.place, "data": data,
                                 "reading": name, "judged": verdict,
                                 "paper": statement.of_the_paper(data)})  # fmt: skip
    return rows


def claims_table(rows: Sequence[Mapping[str, object]], readings: Sequence[str]) -> str:
    """A row for each claim and data set; the closest readings, all readings, the paper itself."""
    lines = []
    for (claim, place, data), some in grouped(
        rows, lambda row: (str(row["claim"]), str(row["place"]), str(row["data"]))
    ).items():
        by = {str(row["reading"]): row["judged"] for row in some}
        paper = {True: "so", False: "not so", None: "–"}[some[0]["paper"]]  # type: ignore[index]
        every = counted(one for one in by.values() if isinstance(one, Judged))
        each = [str(by.get(name, "–")) for name in readings]
        lines.append([claim, place, data, *each, every, paper])
    head = ["claim", "where", "data", *readings, "all readings so far",
            "the paper's own figures"]  # fmt: skip
    return markdown(head, lines) + "\n"


# -- tables ----------------------------------------------------------------------------------------


def errors_of(learned: Iterable[Learned]) -> dict[str, Floats]:
    """The test errors of each method over runs."""
    runs = list(learned)
    return {name: np.array([one.errors[name] for one in runs]) for name in runs[0].errors}


def error_table(by_reading: Mapping[str, Sequence[Learned]], beside: bool) -> str:
    """A row for each objective and reading, a column for each data set; the paper's ``beside``."""
    sets = list(dict.fromkeys(one.condition.data for runs in by_reading.values() for one in runs))
    cells = {
        (reading, data): errors_of(runs)
        for reading, learned in by_reading.items()
        for data, runs in grouped(learned, lambda one: one.condition.data).items()
    }
    rows = []
    for k, name in enumerate(ESTIMATORS):
        if beside:
            figures = [f"{PAPER[data][k]:.4f}" if data in PAPER else "–" for data in sets]
            rows.append([f"**{paper_name(name)}**", "the paper", *figures])
        for reading in by_reading:
            values = [cells.get((reading, data), {}).get(name, np.array([])) for data in sets]
            title = "" if beside else paper_name(name)
            rows.append([title, reading, *(mean_text(some, 4) for some in values)])
    for reading, learned in list(by_reading.items())[:1]:
        by_set = grouped(learned, lambda one: one.condition.data)
        loggers = [mean_text([one.logger for one in by_set.get(data, [])], 4) for data in sets]
        rows.append(["the logger", reading, *loggers])
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
    rows: dict[str, list[str]] = {}
    for learned in by_reading.values():
        for one in learned:
            rows.setdefault(one.condition.data, [])
    for first, second in itertools.permutations(ESTIMATORS, 2):
        for data, lines in rows.items():
            found = [
                judge(log_ratios(errors_of(runs), first, [second]), strict=True)
                for learned in by_reading.values()
                if (runs := [one for one in learned if one.condition.data == data])
            ]
            if found and all(one.mean < 0.0 for one in found):
                told = sum(one.verdict == "holds" for one in found)
                lines.append(f"{paper_name(first)} < {paper_name(second)} ({told})")
    table = [[data, ", ".join(some) or "none"] for data, some in rows.items()]
    return (
        markdown(["data", "lower error in every reading (told by the interval in)"], table) + "\n"
    )


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


def planned(
    sets: Sequence[str], runs: int, readings: Sequence[Reading]
) -> list[tuple[Condition, Way]]:
    """The cells of the readings, those of the closest first; few runs of the others."""
    closest = [reading for reading in readings if reading in CLOSEST]
    others = [reading for reading in readings if reading not in CLOSEST]
    return list(dict.fromkeys(
        (Condition(data, run), reading.way)
        for some, count in ((closest, runs), (others, min(runs, FEWER)))
        for run, data, reading in itertools.product(range(count), sets, some)
    ))  # fmt: skip


def run(cells: Cells, sets: Sequence[str], runs: int, readings: bool, kept: bool) -> Report:
    """The paper's Table 2, in the closest readings or in all."""
    wanted = planned(sets, runs, READINGS if readings else CLOSEST)
    found = cells.all("runs", search, wanted, files_of(sets), kept=kept)
    return report_of(found)


def report_of(found: Sequence[Searched]) -> Report:
    """Tables of what there is, the paper's sets in its order."""
    order = [*PAPER, *dict.fromkeys(one.condition.data for one in found)]
    found = sorted(found, key=lambda one: order.index(one.condition.data))
    by_reading = {r.name: some for r in READINGS if (some := read_as(found, r))}
    near = {r.name: by_reading[r.name] for r in CLOSEST if r.name in by_reading}
    rows = judged(by_reading)
    parts = [
        "## Table 2", "Expected test error, mean ± standard error over the runs.",
        error_table(near, True),
        "## Readings", readings_table(by_reading),
        "## Claims", claims_table(rows, list(near)),
        "## Orders", orders_table(by_reading),
        "## letter", penalty_table(found, "letter"),
        "## All readings", error_table(by_reading, False),
    ]  # fmt: skip
    text = "\n\n".join(part.strip() for part in parts) + "\n"
    body = {"schema": SCHEMA, "runs": by_reading, "claims": rows}
    return Report(text, {"results.json": body, "table.md": text}, folder="table2")
