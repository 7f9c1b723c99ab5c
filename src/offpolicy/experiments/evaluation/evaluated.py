"""The paper's evaluation experiment as files: numbers, claims, pictures."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from offpolicy._core.documents import json_safe
from offpolicy._core.files import write_whole
from offpolicy.errors import MissingPackageError
from offpolicy.experiments.evaluation import accuracy, claims, hindsight, pictures
from offpolicy.experiments.evaluation.accuracy import (
    ESTIMATORS,
    M_GRID,
    SETS,
    SIZES,
    TAU_GRID,
    Outcome,
    Surveyed,
    grid_of,
)
from offpolicy.experiments.evaluation.claims import CLAIMS, STARTS, Judged
from offpolicy.experiments.evaluation.hindsight import Chosen
from offpolicy.experiments.labelled import PAPER

_T = TypeVar("_T")


class Shown(Protocol):
    """Passes parts through, showing how many of ``total`` are done."""

    def __call__(self, parts: Iterable[_T], total: int, what: str) -> Iterable[_T]: ...


@dataclass(frozen=True)
class Settings:
    """What determines every number."""

    sets: Sequence[str] = SETS
    sizes: Sequence[int] = SIZES
    repeats: int = 500
    reading: str = PAPER
    splits: int = 2
    """Splits on which every reading is surveyed."""
    chosen_repeats: int = 100
    """Logs on which the parameter is chosen by every rule."""
    seed: int = 0


def run(settings: Settings, folder: Path, *, shown: Shown, jobs: int = 1) -> Evaluated:
    """All of it; what ``folder`` holds of an earlier run is taken from there."""
    common: dict[str, Any] = {"sets": settings.sets, "sizes": settings.sizes, "jobs": jobs}
    drawn = common | {"reading": settings.reading, "seed": settings.seed}
    cells = len(settings.sets) * len(settings.sizes)
    outcomes = accuracy.run(folder, repeats=settings.repeats, **drawn)
    survey = accuracy.survey(folder, splits=settings.splits, seed=settings.seed, **common)
    surveys = len(settings.sets) * accuracy.TRAININGS * settings.splits
    chosen = hindsight.run(folder, repeats=settings.chosen_repeats, **drawn)
    return Evaluated(
        settings,
        list(shown(outcomes, cells, "repeats")),
        [one for part in shown(survey, surveys, "readings") for one in part],
        list(shown(chosen, cells, "chosen parameters")) if settings.chosen_repeats else [],
    )


@dataclass(frozen=True)
class Evaluated:
    """All that was found, and how."""

    settings: Settings
    outcomes: Sequence[Outcome]
    surveyed: Sequence[Surveyed] = ()
    chosen: Sequence[Chosen] = ()

    def to_markdown(self) -> str:
        """The best of each estimator, the claims, and parameters chosen from the log."""
        parts = [
            "## Mean squared error × 10⁴ with the best parameter in hindsight",
            f"{self.settings.repeats} logs of each size; {self.settings.reading}. In "
            "brackets: exactly.",
            _best_table(self.outcomes),
            "## The paper's claims",
            claims.to_markdown(claims.judge(self.outcomes), self.surveyed),
        ]
        if self.chosen:
            parts += [
                "## The parameter chosen from the log",
                f"MSE relative to the best value in hindsight, {self.settings.chosen_repeats} "
                "logs each; geometric means over data sets and sizes (worst in brackets).",
                hindsight.to_markdown(self.chosen),
            ]
        return "\n\n".join(parts)

    def save(self, folder: Path) -> list[Path]:
        """Write everything; pictures only if matplotlib is there."""
        folder.mkdir(parents=True, exist_ok=True)
        judged = claims.judge(self.outcomes)
        written = {
            "results.json": _to_json(self, judged),
            "accuracy.csv": _to_csv(_accuracy_rows(self.outcomes)),
            "claims.csv": _to_csv(_claim_rows(judged, self.surveyed)),
            "table.md": self.to_markdown(),
        }
        if self.chosen:
            written["chosen.csv"] = _to_csv(_chosen_rows(self.chosen))
        for name, text in written.items():
            write_whole(folder / name, text)
        return [*(folder / name for name in written), *self._draw(folder)]

    def _draw(self, folder: Path) -> list[Path]:
        by_set: dict[str, list[Outcome]] = {}
        for outcome in self.outcomes:
            by_set.setdefault(outcome.data, []).append(outcome)
        drawn = []
        try:
            for data, own in by_set.items():
                drawn.append(folder / f"figure1_{data}.png")
                pictures.figure_1(sorted(own, key=lambda one: one.n), drawn[-1])
            largest = max(one.n for one in self.outcomes)
            default = {row.data: row.fixed["headline"] for row in self.chosen if row.n == largest}
            last = [max(own, key=lambda one: one.n) for own in by_set.values()]
            drawn.append(folder / "figure2.png")
            pictures.figure_2(last, drawn[-1], default)
        except MissingPackageError:
            return []
        return drawn


def _best_table(outcomes: Sequence[Outcome]) -> str:
    lines = [f"| data set, n | {' | '.join(ESTIMATORS)} |", f"|---|{'---|' * len(ESTIMATORS)}"]
    for one in outcomes:
        cells = [
            f"{1e4 * one.found.best(name):.3g} ({1e4 * one.exact.best(name):.3g})"
            for name in ESTIMATORS
        ]
        lines.append(f"| {one.data}, {one.n:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _to_json(found: Evaluated, judged: Sequence[Judged]) -> str:
    body = {
        "schema": "offpolicy.evaluation/1",
        "settings": asdict(found.settings),
        "grid": {"M": M_GRID.tolist(), "tau": TAU_GRID.tolist()},
        "outcomes": [
            {"data": one.data, "n": one.n, "found": one.found.to_json(),
             "exact": one.exact.to_json()}
            for one in found.outcomes
        ],
        "claims": list(_claim_rows(judged, found.surveyed)),
        "chosen": [asdict(row) for row in found.chosen],
    }  # fmt: skip
    return json.dumps(json_safe(body), indent=1, allow_nan=False) + "\n"


def _accuracy_rows(outcomes: Sequence[Outcome]) -> Iterable[dict[str, Any]]:
    for one in outcomes:
        for name in ESTIMATORS:
            for j, value in enumerate(grid_of(name).tolist()):
                row = {"data": one.data, "n": one.n, "estimator": name,
                       "parameter": "" if math.isnan(value) else value}  # fmt: skip
                for kind, values in (("", one.found), ("exact_", one.exact)):
                    row[f"{kind}bias"] = float(values.bias[name][j])
                    row[f"{kind}variance"] = float(values.variance[name][j])
                    row[f"{kind}mse"] = float(values.mse(name)[j])
                yield row


def _claim_rows(judged: Sequence[Judged], problems: Sequence[Surveyed]) -> Iterable[dict[str, Any]]:
    count = {
        (claim.text, start): claims.surveyed(claim, start, problems)
        for claim in CLAIMS
        for start in STARTS
    }
    for row in judged:
        yield {
            "claim": row.claim.text,
            "number": row.claim.number,
            "limit": row.claim.limit,
            "M_from": row.start,
            "data": row.data,
            "measured": row.measured,
            "holds": row.holds,
            "exact": row.exact,
            "exact_holds": row.claim.holds(row.exact),
            "readings_and_splits": len(problems),
            "holds_in": count[row.claim.text, row.start],
        }


def _chosen_rows(chosen: Sequence[Chosen]) -> Iterable[dict[str, Any]]:
    for row in chosen:
        for name, best in row.hindsight.items():
            yield {"data": row.data, "n": row.n, "estimator": name, "rule": "hindsight",
                   "mse": best}  # fmt: skip
            for rule, mse in row.chosen[name].items():
                yield {"data": row.data, "n": row.n, "estimator": name, "rule": rule, "mse": mse}
        for name, mse in row.fixed.items():
            yield {"data": row.data, "n": row.n, "estimator": name, "rule": "", "mse": mse}


def _to_csv(rows: Iterable[dict[str, Any]]) -> str:
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
