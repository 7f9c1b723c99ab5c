"""The paper's ranking experiments as files: numbers, tables, claims, pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from offpolicy._core.documents import json_safe
from offpolicy._core.files import write_whole
from offpolicy.errors import MissingPackageError
from offpolicy.experiments import verdicts
from offpolicy.experiments.evaluation.evaluated import Shown
from offpolicy.experiments.ranking import accuracy as ranked_accuracy
from offpolicy.experiments.ranking import claims as ranked_claims
from offpolicy.experiments.ranking import learning as ranked_learning
from offpolicy.experiments.ranking import pictures as ranked_pictures
from offpolicy.experiments.ranking import tables as ranked_tables
from offpolicy.experiments.ranking.accuracy import LOGGERS, METRICS, SWEEPS, Measured
from offpolicy.experiments.ranking.learning import Ranked
from offpolicy.experiments.ranking.rank_sums import M_GRID, TAU_GRID
from offpolicy.experiments.ranking.rankings import known_as, thresholds
from offpolicy.experiments.verdicts import Verdict

SETS = ("MQ2007", "MQ2008")


@dataclass(frozen=True)
class Settings:
    """What determines every number."""

    sets: Sequence[str] = SETS
    sweeps: Sequence[float] = SWEEPS
    loggers: Sequence[float] = LOGGERS
    """Shares of the training queries that train the logger: two readings."""
    splits: int = 8
    repeats: int = 100
    """Logs of each split."""
    chosen: int = 5
    """Logs of each split from which M and τ are chosen too."""
    runs: int = 5
    seed: int = 0

    def quick(self) -> Settings:
        """A look at it, in a few minutes."""
        return replace(
            self,
            loggers=self.loggers[:1],
            splits=min(self.splits, 3),
            repeats=min(self.repeats, 10),
            chosen=min(self.chosen, 2),
            runs=min(self.runs, 2),
        )


def run(settings: Settings, folder: Path, *, shown: Shown, jobs: int = 1) -> Experiments:
    """All of it; what ``folder`` holds of an earlier run is taken from there."""
    entries = [known_as(name) for name in settings.sets]
    first = [(entry.name, thresholds(entry)[0]) for entry in entries]
    every = [(entry.name, relevant) for entry in entries for relevant in thresholds(entry)]
    sweeps = sorted({*settings.sweeps, ranked_learning.TABLE})
    conditions = ranked_learning.conditions(every, settings.runs, sweeps, settings.seed)
    learned = ranked_learning.run(conditions, folder, jobs=jobs)
    cases = ranked_accuracy.cases(
        first, settings.loggers, settings.sweeps, settings.splits, settings.seed
    )
    measured = ranked_accuracy.run(
        cases, folder, repeats=settings.repeats, chosen=settings.chosen, jobs=jobs
    )
    ranked = list(shown(learned, len(conditions), "learning"))
    return Experiments(settings, list(shown(measured, len(cases), "evaluation")), ranked)


@dataclass(frozen=True)
class Experiments:
    """All that was found, and how."""

    settings: Settings
    measured: Sequence[Measured]
    ranked: Sequence[Ranked]

    def claims(self) -> dict[str, list[Verdict]]:
        """By what they are about."""
        found = {
            "Figures 1 and 2": ranked_claims.curve_claims(self.measured),
            "Choosing M and τ": ranked_claims.choice_claims(self.measured),
            "Learning": ranked_claims.learning_claims(self.ranked),
        }
        return {title: judged for title, judged in found.items() if judged}

    def to_markdown(self) -> str:
        """Every table, and the claims."""
        parts = []
        if self.measured:
            parts += self._evaluation()
        if self.ranked:
            parts += [
                f"## Table 2: average rank of relevant results, learned, {self.settings.runs} runs",
                "Mean ± standard error, at one sweep; M, τ and C by 90-percentile cIPS on "
                "validation clicks.",
                ranked_tables.learned(self.ranked),
                "## Over the amount of clicks (Figure 4, 2)",
                ranked_tables.growth(self.ranked),
                "## Ranks lost by choosing on validation clicks, mean (spread) over all runs",
                ranked_tables.selection(self.ranked),
            ]
        for title, judged in self.claims().items():
            parts += [f"## Claims: {title}", verdicts.to_markdown(judged)]
        return "\n\n".join(parts) + "\n"

    def _evaluation(self) -> list[str]:
        logs = f"{self.settings.splits} splits with {self.settings.repeats} logs each"
        parts = ["# Evaluation: root mean squared error in per cent of the truth"]
        for metric in METRICS:
            parts += [
                f"## {metric.capitalize()}, the best value in hindsight, for all {logs}",
                ranked_tables.hindsight(self.measured, metric),
                f"## {metric.capitalize()}, M and τ chosen on the other half of the logs",
                ranked_tables.held_out(self.measured, metric),
                "MSE relative to CAB's, geometric means over splits and sweeps (×÷ one standard "
                "error):",
                ranked_tables.ratios(self.measured, metric, "held_out"),
                "Around a logistic regression on the same judged documents, relative to CAB "
                "around it:",
                ranked_tables.models(self.measured, metric, "held_out"),
            ]
            if self.settings.chosen:
                parts += [
                    f"## {metric.capitalize()}, M and τ chosen from the log "
                    f"({self.settings.chosen} logs of each split)",
                    ranked_tables.from_the_log(self.measured, metric),
                    "MSE relative to CAB's, as above:",
                    ranked_tables.ratios(self.measured, metric, "chosen"),
                    "Around the logistic regression, recalibrated, relative to CAB around it:",
                    ranked_tables.models(self.measured, metric, "chosen"),
                ]
        if self.settings.chosen:
            parts += [
                "## How often 95% intervals of the average rank held the truth",
                ranked_tables.coverage(self.measured),
            ]
        return parts

    def save(self, folder: Path) -> list[Path]:
        """Write everything; pictures only if matplotlib is there."""
        folder.mkdir(parents=True, exist_ok=True)
        body: dict[str, Any] = {
            "schema": "offpolicy.ranking-experiments/1",
            "settings": asdict(self.settings),
            "grid": {"M": M_GRID.tolist(), "tau": TAU_GRID.tolist()},
            "evaluation": [one.to_json() for one in self.measured],
            "learning": [asdict(one) for one in self.ranked],
            "claims": {
                title: [asdict(one) for one in judged] for title, judged in self.claims().items()
            },
        }
        text = json.dumps(json_safe(body), indent=1, allow_nan=False) + "\n"
        write_whole(folder / "results.json", text)
        write_whole(folder / "table.md", self.to_markdown())
        return [folder / "results.json", folder / "table.md", *self._draw(folder)]

    def _draw(self, folder: Path) -> list[Path]:
        drawn = []
        try:
            for (data, logger), by_sweeps in ranked_claims.grouped(self.measured).items():
                drawn.append(folder / f"figure1_{data}_{100 * logger:g}.png")
                ranked_pictures.figure_1(by_sweeps, drawn[-1])
            if self.measured:
                drawn.append(folder / "figure2.png")
                ranked_pictures.figure_2(self.measured, drawn[-1])
            if self.ranked:
                drawn.append(folder / "figure4.png")
                ranked_pictures.figure_4(self.ranked, drawn[-1])
        except MissingPackageError:
            return []
        return drawn
