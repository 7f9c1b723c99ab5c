"""Section 4 on evaluation, as files: numbers, claims, Figures 1 and 2, parameters chosen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from offpolicy.datasets import files_of
from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import Claim, Judged, counted
from offpolicy.experiments.evaluation import accuracy, figure1, figure2, tuning
from offpolicy.experiments.evaluation.accuracy import ESTIMATORS, GRID, Outcome
from offpolicy.experiments.saving import Report
from offpolicy.experiments.tables import grouped, markdown, short, to_csv
from offpolicy.experiments.worlds import PAPER, SETS

CLAIMS = (*figure1.CLAIMS, *figure2.CLAIMS)
STARTS = (0.0, 1.0)
"""The paper does not say from which M on its figures are drawn: claims are measured from both."""


@dataclass(frozen=True)
class Settings:
    """What determines every number."""

    sets: Sequence[str] = SETS
    sizes: Sequence[int] = (200, 500, 2000)
    repeats: int = 500
    reading: str = PAPER
    splits: int = 10
    """Splits on which every reading is surveyed, and every claim is judged."""
    chosen_repeats: int = 100
    """Logs on which the parameter is chosen by every rule."""
    seed: int = 0


def run(cells: Cells, **options: Any) -> Report:
    settings = Settings(**options)
    files = files_of(settings.sets)
    problems = list(itertools.product(settings.sets, settings.sizes))
    drawn = [(*problem, settings.repeats, settings.reading, settings.seed) for problem in problems]
    splits = range(settings.seed, settings.seed + settings.splits)
    readings = list(itertools.product(settings.sets, accuracy.TRAININGS, splits))
    tuned = [
        (tuning.Setting(data, settings.reading, settings.seed, n), settings.chosen_repeats,
         tuning.TUNED, (1, *map(ord, data)))
        for data, n in problems
        if settings.chosen_repeats
    ]  # fmt: skip
    outcomes = cells.all("repeats", accuracy.run_one, drawn, files)
    surveys = cells.all("readings", accuracy.survey, readings, files)
    surveyed: Surveyed = {}
    for (data, _, _), by_reading in zip(readings, surveys, strict=True):
        for reading, exact in by_reading.items():
            surveyed.setdefault((data, reading), []).append(exact)
    chosen = cells.all("chosen parameters", tuning.run_one, tuned, files)
    return Evaluated(settings, outcomes, surveyed, chosen).report()


Surveyed = dict[tuple[str, str], list[Accuracy]]
"""By data set and reading: exactly, on every split, of logs of one decision."""


@dataclass(frozen=True)
class Evaluated:
    """All that was found, and how."""

    settings: Settings
    outcomes: Sequence[Outcome]
    surveyed: Surveyed = field(default_factory=dict)
    chosen: Sequence[tuning.Outcome] = ()

    @cached_property
    def by_set(self) -> dict[str, list[Outcome]]:
        """The outcomes of each data set, by size."""
        ordered = sorted(self.outcomes, key=lambda outcome: outcome.n)
        return grouped(ordered, lambda outcome: outcome.data)

    @cached_property
    def claims(self) -> list[dict[str, Any]]:
        """Every claim on every data set, M from 0 and from 1 on: the number over the repeats and
        exactly, at the largest n (2,000 in the paper); its verdict over splits in the reading at
        hand; and how often each verdict is given over all readings."""
        rows = []
        for start, claim in itertools.product(STARTS, CLAIMS):
            for data, outcomes in self.by_set.items():
                last = outcomes[-1].n
                by_reading = self._judged(claim, data, start)
                rows.append(
                    {
                        "claim": claim.text,
                        "place": claim.place,
                        "number": claim.number,
                        "margin": claim.limit,
                        "M_from": start,
                        "data": data,
                        "measured": claim.measured(
                            {o.n: o.repeated for o in outcomes}, last, start
                        ),
                        "exact": claim.measured({o.n: o.exact for o in outcomes}, last, start),
                        "judged": by_reading.get(self.settings.reading),
                        "readings": counted(by_reading.values()),
                    }
                )
        return rows

    def _judged(self, claim: Claim, data: str, start: float) -> dict[str, Judged]:
        """By reading, over splits."""
        sizes = self.settings.sizes
        return {
            reading: claim.judged(
                [claim.measured({n: one.at(n) for n in sizes}, max(sizes), start) for one in splits]
            )
            for (name, reading), splits in self.surveyed.items()
            if name == data
        }

    def to_markdown(self) -> str:
        """The best of each estimator, the claims, and parameters chosen from the log."""
        best = [
            [f"{o.data}, {o.n:,}"]
            + [f"{1e4 * o.repeated.best(e):.3g} ({1e4 * o.exact.best(e):.3g})" for e in ESTIMATORS]
            for o in self.outcomes
        ]
        parts = [
            "## Mean squared error × 10⁴ with the best parameter in hindsight",
            f"{self.settings.repeats} logs of each size; {self.settings.reading}. In "
            "brackets: exactly.",
            markdown(["data set, n", *ESTIMATORS], best),
            "## The paper's claims",
            "\n".join(map(self._claims_from, STARTS)),
        ]
        if self.chosen:
            parts += [
                "## The parameter chosen from the log",
                f"MSE relative to the best value in hindsight, {self.settings.chosen_repeats} "
                "logs each; geometric means over data sets and sizes (worst in brackets).",
                tuning.chosen_table(self.chosen),
            ]
        return "\n\n".join(parts)

    def _claims_from(self, start: float) -> str:
        head = ["claim", "where", "number", "margin", *self.by_set]
        rows = []
        for claim in CLAIMS:
            here = [r for r in self.claims if (r["claim"], r["M_from"]) == (claim.text, start)]
            rows.append(
                [claim.text, claim.place, claim.number, f"{claim.limit:g}", *map(_mark, here)]
            )
        return (
            f"M from {start:g} on. Measured over the repeats (exactly): the verdict by its 95% "
            f"interval over {self.settings.splits} splits, and how often each is given over all "
            f"readings of the set-up.\n\n{markdown(head, rows)}\n"
        )

    def report(self) -> Report:
        text = self.to_markdown()
        files = {
            "results.json": {
                "schema": "offpolicy.evaluation/3",
                "settings": self.settings,
                "outcomes": self.outcomes,
                "claims": self.claims,
                "chosen": self.chosen,
            },
            "accuracy.csv": to_csv(_accuracy_rows(self.outcomes)),
            "claims.csv": to_csv(map(_flat, self.claims)),
            "table.md": text,
        }
        if self.chosen:
            files["chosen.csv"] = to_csv(row for outcome in self.chosen for row in outcome.rows())
        pictures = {
            f"figure1_{data}.png": partial(figure1.draw, outcomes)
            for data, outcomes in self.by_set.items()
        }
        largest = max(outcome.n for outcome in self.outcomes)
        headline = {
            outcome.setting.data: outcome.mse["headline"]
            for outcome in self.chosen
            if outcome.setting.n == largest
        }
        last = [outcomes[-1] for outcomes in self.by_set.values()]
        pictures["figure2.png"] = partial(figure2.draw, last, headline=headline)
        return Report(text, files, pictures)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A claim as a row of numbers and words."""
    judged = row["judged"] or Judged("", "", math.nan, math.nan, math.nan, 0)
    verdict = {"verdict": judged.verdict, "low": judged.low, "high": judged.high,
               "splits": judged.runs}  # fmt: skip
    return {**row, "judged": judged.mean, **verdict}


def _mark(row: Mapping[str, Any]) -> str:
    numbers = f"{short(row['measured'])} ({short(row['exact'])})"
    judged = row["judged"]
    if judged is None:
        return numbers
    interval = f"[{short(judged.low)}, {short(judged.high)}]"
    return f"{numbers}: {judged.verdict} {interval}; {row['readings']}"


def _accuracy_rows(outcomes: Sequence[Outcome]) -> Iterable[dict[str, Any]]:
    for outcome in outcomes:
        for name in ESTIMATORS:
            for j, value in enumerate(GRID.of(name).tolist()):
                row = {"data": outcome.data, "n": outcome.n, "estimator": name,
                       "parameter": "" if math.isnan(value) else value}  # fmt: skip
                for kind, curves in (("", outcome.repeated), ("exact_", outcome.exact)):
                    row[f"{kind}bias"] = float(curves.bias[name][j])
                    row[f"{kind}variance"] = float(curves.variance[name][j])
                    row[f"{kind}mse"] = float(curves.mse(name)[j])
                yield row
