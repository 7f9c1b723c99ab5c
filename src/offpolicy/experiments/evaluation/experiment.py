"""Section 4 on evaluation, as files: numbers, claims, Figures 1 and 2, parameters chosen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from offpolicy.datasets import files_of
from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.cells import Cells
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
    splits: int = 2
    """Splits on which every reading is surveyed."""
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
    surveyed = [exact for by_reading in surveys for exact in by_reading.values()]
    chosen = cells.all("chosen parameters", tuning.run_one, tuned, files)
    return Evaluated(settings, outcomes, surveyed, chosen).report()


@dataclass(frozen=True)
class Evaluated:
    """All that was found, and how."""

    settings: Settings
    outcomes: Sequence[Outcome]
    surveyed: Sequence[Accuracy] = ()
    """Of every reading and split, exactly, of logs of one decision."""
    chosen: Sequence[tuning.Outcome] = ()

    @cached_property
    def by_set(self) -> dict[str, list[Outcome]]:
        """The outcomes of each data set, by size."""
        ordered = sorted(self.outcomes, key=lambda outcome: outcome.n)
        return grouped(ordered, lambda outcome: outcome.data)

    @cached_property
    def claims(self) -> list[dict[str, Any]]:
        """Every claim on every data set, M from 0 and from 1 on, over the repeats and exactly, at
        the largest n (2,000 in the paper); and in how many readings and splits it holds."""
        rows = []
        surveyed = [{n: exact.at(n) for n in self.settings.sizes} for exact in self.surveyed]
        for start, claim in itertools.product(STARTS, CLAIMS):
            holds_in = sum(claim.holds(claim.measured(by_n, max(by_n), start)) for by_n in surveyed)
            for data, outcomes in self.by_set.items():
                last = outcomes[-1].n
                measured = claim.measured({o.n: o.repeated for o in outcomes}, last, start)
                exact = claim.measured({o.n: o.exact for o in outcomes}, last, start)
                rows.append(
                    {
                        "claim": claim.text,
                        "number": claim.number,
                        "limit": claim.limit,
                        "M_from": start,
                        "data": data,
                        "measured": measured,
                        "holds": claim.holds(measured),
                        "exact": exact,
                        "exact_holds": claim.holds(exact),
                        "readings_and_splits": len(self.surveyed),
                        "holds_in": holds_in,
                    }
                )
        return rows

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
        head = ["claim", "number", "holds up to", *self.by_set]
        if self.surveyed:
            head.append(f"of all {len(self.surveyed)} readings and splits")
        rows = []
        for claim in CLAIMS:
            judged = [r for r in self.claims if (r["claim"], r["M_from"]) == (claim.text, start)]
            marks = [
                f"{_mark(r['measured'], r['holds'])} ({_mark(r['exact'], r['exact_holds'])})"
                for r in judged
            ]
            count = [str(judged[0]["holds_in"])] if self.surveyed else []
            rows.append([claim.text, claim.number, f"{claim.limit:g}", *marks, *count])
        return (
            f"M from {start:g} on. Measured over the repeats (and exactly): "
            f"✓ where the claim holds, ✗ where it does not.\n\n{markdown(head, rows)}\n"
        )

    def report(self) -> Report:
        text = self.to_markdown()
        files = {
            "results.json": {
                "schema": "offpolicy.evaluation/2",
                "settings": self.settings,
                "outcomes": self.outcomes,
                "claims": self.claims,
                "chosen": self.chosen,
            },
            "accuracy.csv": to_csv(_accuracy_rows(self.outcomes)),
            "claims.csv": to_csv(self.claims),
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


def _mark(value: float, holds: bool) -> str:
    return f"{short(value)} {'✓' if holds else '✗'}"


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
