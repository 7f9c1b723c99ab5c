"""What Figures 1 and 2 are drawn from: bias, variance and error over M, of every data set.

Of labelled sets they come from `evaluation.accuracy`, of rankings from `ranking.accuracy`. A
*reading* is one way to take what the paper's text leaves open; in each, claims are measured on
several splits of the data, M being drawn from 0 or from 1 on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offpolicy.datasets import files_of, ranking_files
from offpolicy.experiments.accuracy import Accuracy, Grid
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import Claim, Judged, counted, judge_one
from offpolicy.experiments.evaluation import accuracy as labelled
from offpolicy.experiments.pictures import OverM
from offpolicy.experiments.ranking import accuracy as rankings
from offpolicy.experiments.ranking import rank_sums
from offpolicy.experiments.ranking.setup import is_ranking, known_as, thresholds
from offpolicy.experiments.saving import Report
from offpolicy.experiments.tables import grouped, markdown, short, to_csv
from offpolicy.experiments.worlds import PAPER

STARTS = (0.0, 1.0)
"""The paper does not say from which M on its figures are drawn: claims are measured from both."""
SWEEPS, LOGGERS = (0.5, 1.0, 5.0), (0.01, 0.1)
"""How often queries are shown; shares of the training queries that train the logger."""
BySize = Mapping[float, Accuracy]
"""Curves of logs of each size: decisions, or sweeps."""


@dataclass(frozen=True)
class Settings:
    """What determines every number."""

    sets: Sequence[str]
    sizes: Sequence[int] = (200, 500, 2000)
    repeats: int = 500
    """Logs of each size; of rankings a fifth as many, on every split, as in the paper."""
    splits: int = 10
    reading: str = PAPER
    seed: int = 0

    @property
    def labelled(self) -> list[str]:
        return [name for name in self.sets if not is_ranking(name)]

    @property
    def rankings(self) -> list[str]:
        return [known_as(name).name for name in self.sets if is_ranking(name)]

    @property
    def seeds(self) -> range:
        """Of the splits."""
        return range(self.seed, self.seed + self.splits)


@dataclass(frozen=True, eq=False)
class Curves:
    """One data set, in every reading."""

    data: str
    readings: Mapping[str, Sequence[BySize]]
    """Of every split."""
    closest: str
    """The reading that is nearest to the text."""
    shown: BySize
    """In that reading: of labelled sets the logs of one split, of rankings the mean of all."""
    exact: BySize | None
    """The same without chance, where it is known."""
    size: float
    """That of Figure 2, which claims are about unless they are about every size."""
    axes: OverM
    is_ranking: bool = False

    def named(self, size: float) -> str:
        """A size in words: "n = 2,000", "0.5 sweeps"."""
        if self.is_ranking:
            return f"{size:g} sweep{'' if size == 1.0 else 's'}"
        return f"n = {size:,}"

    def judged(self, claim: Claim, start: float) -> dict[str, Judged]:
        """By reading, over splits."""
        found: dict[str, Judged] = {}
        for reading, splits in self.readings.items():
            values = [claim.measured(split, self.size, start) for split in splits]
            found[reading] = judge_one(claim.number, values, claim.limit, of_ratio=claim.of_ratio)
        return found


def of_every_set(cells: Cells, settings: Settings) -> list[Curves]:
    """Labelled sets first."""
    cells = cells.within("curves")
    return [*_of_labelled(cells, settings), *_of_rankings(cells, settings)]


def _of_labelled(cells: Cells, settings: Settings) -> Iterator[Curves]:
    sets, files = settings.labelled, files_of(settings.labelled)
    drawn = [
        (data, n, settings.repeats, settings.reading, settings.seed)
        for data, n in itertools.product(sets, settings.sizes)
    ]
    trained = list(itertools.product(sets, labelled.TRAININGS, settings.seeds))
    outcomes = cells.all("logs of labelled sets", labelled.run_one, drawn, files)
    surveys = cells.all("readings of labelled sets", labelled.survey, trained, files)
    for data in sets:
        readings: dict[str, list[BySize]] = {}
        for (name, _, _), survey in zip(trained, surveys, strict=True):
            for reading, one in survey.items() if name == data else ():
                by_size = {float(n): one.at(n) for n in settings.sizes}
                readings.setdefault(reading, []).append(by_size)
        mine = sorted((one for one in outcomes if one.data == data), key=lambda one: one.n)
        yield Curves(
            data, readings, settings.reading, {one.n: one.repeated for one in mine},
            {one.n: one.exact for one in mine}, max(settings.sizes),
            OverM(labelled.GRID.M, (1.0, 10.0, 100.0, 1000.0)),
        )  # fmt: skip


def _of_rankings(cells: Cells, settings: Settings) -> Iterator[Curves]:
    axes = OverM(rank_sums.GRID.M, (0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
                 "relative to the truth, squared")  # fmt: skip
    for data in settings.rankings:
        cases = of_logs(cells, data, max(settings.repeats // 5, 2), settings.seeds)
        readings = {
            f"{metric}, logger of {logger:.0%}": [
                {case.case.sweeps: case.curves[metric] for case in cases
                 if (case.case.logger, case.case.split) == (logger, split)}
                for split in settings.seeds
            ]
            for metric, logger in itertools.product(rankings.METRICS, LOGGERS)
        }  # fmt: skip
        closest = next(iter(readings))
        shown = {
            size: rankings.averaged([split[size] for split in readings[closest]]) for size in SWEEPS
        }
        yield Curves(data, readings, closest, shown, None, min(SWEEPS), axes, True)


def of_logs(
    cells: Cells, data: str, repeats: int, splits: Iterable[int], chosen: int = 0
) -> list[rankings.Measured]:
    """What so many logs of a ranking set gave, for every logger, split and amount of clicks; from
    so many of them M and τ are ``chosen`` too."""
    relevant = thresholds(known_as(data))[0]
    wanted = [
        (rankings.Case(data, relevant, logger, size, split), repeats, chosen)
        for logger, split, size in itertools.product(LOGGERS, splits, SWEEPS)
    ]
    files = {data: ranking_files(known_as(data))}
    return cells.all(f"logs of {data}", rankings.run_one, wanted, files)


# -- claims ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A claim on one data set."""

    claim: str
    place: str
    number: str
    margin: float
    M_from: float
    data: str
    measured: float
    """Of the curves that are drawn."""
    judged: Judged
    """In the reading nearest to the text, over splits."""
    readings: dict[str, Judged]

    def __str__(self) -> str:
        counts = counted(self.readings.values())
        return (
            f"{self.judged.verdict} {self.judged.numbers}; {counts}; drawn {short(self.measured)}"
        )


def judged(found: Sequence[Curves], claims: Iterable[Claim]) -> list[Row]:
    """Every claim on every data set that has the estimators it is about."""
    return [
        Row(claim.text, claim.place, claim.number, claim.limit, start, one.data,
            claim.measured(one.shown, one.size, start), by_reading[one.closest], by_reading)
        for start, claim, one in itertools.product(STARTS, claims, found)
        if all(name in one.shown[one.size].bias for name in claim.about)
        if (by_reading := one.judged(claim, start))
    ]  # fmt: skip


def report(
    folder: str, settings: Settings, found: Sequence[Curves], rows: Sequence[Row],
    parts: Sequence[str], pictures: Mapping[str, Callable[[Path], None]], **more: Any,
) -> Report:  # fmt: skip
    """Of a figure over M: its claims in every reading of rankings, too, and the curves as CSV."""
    body = {"schema": "offpolicy.figure/1", "settings": settings, "claims": rows, **more}
    accuracy, claims = to_csv(accuracy_rows(found)), to_csv(map(_flat, rows))
    return Report.of(parts, body, folder, pictures, accuracy=accuracy, claims=claims)


def claims_parts(found: Sequence[Curves], rows: Sequence[Row]) -> list[str]:
    """The claims; of rankings in every reading."""
    ranked = [one.data for one in found if one.is_ranking]
    parts = ["## Claims", claims_table(rows)]
    return (
        [*parts, "## Rankings in every reading", readings_table(rows, ranked)] if ranked else parts
    )


def claims_table(rows: Sequence[Row]) -> str:
    """A row for each claim, with its place and number, and start; a column for each data set."""
    sets = list(dict.fromkeys(row.data for row in rows))
    lines = []
    for claim, some in grouped(rows, lambda row: row.claim).items():
        head = f"{claim}. {some[0].place}: {some[0].number}, at most {some[0].margin:.3g}"
        for start, of_sets in grouped(some, lambda row: row.M_from).items():
            by_set = {row.data: str(row) for row in of_sets}
            lines.append([head, f"{start:g}", *(by_set.get(data, "–") for data in sets)])
            head = ""
    return markdown(["claim", "M from", *sets], lines) + "\n"


def readings_table(rows: Sequence[Row], sets: Iterable[str]) -> str:
    """A row for each claim and start, a column for each reading of these data sets."""
    found = {
        (row.claim, row.M_from, row.data, reading): judged
        for row in rows
        for reading, judged in row.readings.items()
    }
    columns = list(dict.fromkeys(key[2:] for key in found if key[2] in set(sets)))
    lines = [
        [claim, f"{start:g}", *(f"{one.verdict} {one.middle}" if one else "–" for one in cells)]
        for claim, start in dict.fromkeys(key[:2] for key in found)
        if any(cells := [found.get((claim, start, *column)) for column in columns])
    ]
    return markdown(["claim", "M from", *map(", ".join, columns)], lines)


def _flat(row: Row) -> dict[str, Any]:
    """A claim as a row of numbers and words, for CSV."""
    own = ("claim", "place", "number", "margin", "M_from", "data", "measured")
    flat = {name: getattr(row, name) for name in own}
    flat |= {name: getattr(row.judged, name) for name in ("mean", "low", "high")}
    counts = counted(row.readings.values())
    return flat | {"splits": row.judged.runs, "verdict": row.judged.verdict, "readings": counts}


def accuracy_rows(found: Sequence[Curves]) -> Iterator[dict[str, Any]]:
    """What is drawn, and exactly where it is known: an estimator at a parameter each."""
    for one in found:
        grid, names = Grid(one.axes.M), one.shown[one.size].bias
        for (size, curves), name in itertools.product(one.shown.items(), names):
            for j, value in enumerate(grid.of(name).tolist()):
                row = {"data": one.data, "size": one.named(size), "estimator": name,
                       "parameter": "" if math.isnan(value) else value}  # fmt: skip
                exact = None if one.exact is None else one.exact[size]
                for kind, some in (("", curves), ("exact_", exact)):
                    numbers: list[Any] = [""] * 3
                    if some is not None:
                        by_part = some.bias[name], some.variance[name], some.mse(name)
                        numbers = [float(values[j]) for values in by_part]
                    parts = (f"{kind}{part}" for part in ("bias", "variance", "mse"))
                    row |= zip(parts, numbers, strict=True)
                yield row
