"""Section 5 on evaluation, as files: numbers, claims, Figures 1 and 2, parameters chosen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy.datasets import stamps
from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.evaluation import accuracy, figure1, figure2, tuning
from offpolicy.experiments.evaluation.accuracy import ESTIMATORS, GRID, Outcome
from offpolicy.experiments.evaluation.tuning import Chosen
from offpolicy.experiments.saving import save
from offpolicy.experiments.tables import markdown, to_csv
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


def run(settings: Settings, cells: Cells) -> Evaluated:
    """All of it."""
    made_from = stamps(settings.sets)
    sizes = list(itertools.product(settings.sets, settings.sizes))
    splits = range(settings.seed, settings.seed + settings.splits)
    how, chosen = (settings.reading, settings.seed), settings.chosen_repeats
    drawn = [(*one, settings.repeats, *how) for one in sizes]
    readings = list(itertools.product(settings.sets, accuracy.TRAININGS, splits))
    tuned = [(*one, chosen, *how) for one in sizes if chosen]
    outcomes = cells.all("repeats", accuracy.run_one, drawn, made_from)
    surveys = cells.all("readings", accuracy.survey, readings, made_from)
    return Evaluated(
        settings,
        outcomes,
        [one for part in surveys for one in part.values()],
        cells.all("chosen parameters", tuning.choose_all, tuned, made_from),
    )


@dataclass(frozen=True)
class Evaluated:
    """All that was found, and how."""

    settings: Settings
    outcomes: Sequence[Outcome]
    surveyed: Sequence[Accuracy] = ()
    """Of every reading and split, exactly, of logs of one decision."""
    chosen: Sequence[Chosen] = ()

    @cached_property
    def by_set(self) -> dict[str, list[Outcome]]:
        """The outcomes of each data set, by size."""
        ordered = sorted(self.outcomes, key=lambda one: one.n)
        sets = dict.fromkeys(one.data for one in self.outcomes)
        return {data: [one for one in ordered if one.data == data] for data in sets}

    @cached_property
    def claims(self) -> list[dict[str, Any]]:
        """Every claim on every data set, M from 0 and from 1 on, over the repeats and exactly, at
        the largest n (2,000 in the paper); and in how many readings and splits it holds."""
        rows = []
        surveyed = [{n: one.at(n) for n in self.settings.sizes} for one in self.surveyed]
        for start, claim in itertools.product(STARTS, CLAIMS):
            holds_in = sum(claim.holds(claim.measured(one, max(one), start)) for one in surveyed)
            for data, own in self.by_set.items():
                found, exact = (
                    claim.measured(curves, own[-1].n, start)
                    for curves in ({o.n: o.found for o in own}, {o.n: o.exact for o in own})
                )
                rows.append(
                    {
                        "claim": claim.text,
                        "number": claim.number,
                        "limit": claim.limit,
                        "M_from": start,
                        "data": data,
                        "measured": found,
                        "holds": claim.holds(found),
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
            [f"{one.data}, {one.n:,}", *(_best(one.found, one.exact, name) for name in ESTIMATORS)]
            for one in self.outcomes
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
            own = [r for r in self.claims if (r["claim"], r["M_from"]) == (claim.text, start)]
            marks = [
                f"{_mark(r['measured'], r['holds'])} ({_mark(r['exact'], r['exact_holds'])})"
                for r in own
            ]
            count = [str(own[0]["holds_in"])] if self.surveyed else []
            rows.append([claim.text, claim.number, f"{claim.limit:g}", *marks, *count])
        return (
            f"M from {start:g} on. Measured over the repeats (and exactly): "
            f"✓ where the claim holds, ✗ where it does not.\n\n{markdown(head, rows)}\n"
        )

    def save(self, folder: Path) -> list[Path]:
        """Write everything; pictures only if matplotlib is there."""
        body = {
            "schema": "offpolicy.evaluation/1",
            "settings": self.settings,
            "grid": GRID.to_json(),
            "outcomes": [
                vars(one) | {"found": one.found.to_json(), "exact": one.exact.to_json()}
                for one in self.outcomes
            ],
            "claims": self.claims,
            "chosen": self.chosen,
        }
        texts = {
            "results.json": body,
            "accuracy.csv": to_csv(_accuracy_rows(self.outcomes)),
            "claims.csv": to_csv(self.claims),
            "table.md": self.to_markdown(),
        }
        if self.chosen:
            texts["chosen.csv"] = to_csv(row for one in self.chosen for row in one.rows())
        largest = max(one.n for one in self.outcomes)
        default = {row.data: row.fixed["headline"] for row in self.chosen if row.n == largest}
        last = [own[-1] for own in self.by_set.values()]
        pictures = {
            f"figure1_{data}.png": partial(figure1.draw, own) for data, own in self.by_set.items()
        } | {"figure2.png": partial(figure2.draw, last, headline=default)}
        return save(folder, texts, pictures)


def _best(found: Accuracy, exact: Accuracy, name: str) -> str:
    return f"{1e4 * found.best(name):.3g} ({1e4 * exact.best(name):.3g})"


def _mark(value: float, holds: bool) -> str:
    text = "∞" if np.isinf(value) else f"{value:.2g}" if value < 100.0 else f"{value:.0e}"
    return f"{text} {'✓' if holds else '✗'}"


def _accuracy_rows(outcomes: Sequence[Outcome]) -> Iterable[dict[str, Any]]:
    for one in outcomes:
        for name in ESTIMATORS:
            for j, value in enumerate(GRID.of(name).tolist()):
                row = {"data": one.data, "n": one.n, "estimator": name,
                       "parameter": "" if math.isnan(value) else value}  # fmt: skip
                for kind, values in (("", one.found), ("exact_", one.exact)):
                    row[f"{kind}bias"] = float(values.bias[name][j])
                    row[f"{kind}variance"] = float(values.variance[name][j])
                    row[f"{kind}mse"] = float(values.mse(name)[j])
                yield row
