"""Section 5 on rankings, as files: numbers, tables, claims, pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from offpolicy.experiments import claims
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import Verdict
from offpolicy.experiments.ranking import (
    accuracy,
    figure1,
    figure2,
    figure4,
    learning,
    table2,
    tuning,
)
from offpolicy.experiments.ranking.accuracy import METRICS, Case, Measured, grouped
from offpolicy.experiments.ranking.learning import Condition, Ranked, by_set
from offpolicy.experiments.ranking.rank_sums import GRID
from offpolicy.experiments.ranking.setup import known_as, stamps, thresholds
from offpolicy.experiments.saving import save


@dataclass(frozen=True)
class Settings:
    """What determines every number."""

    sets: Sequence[str] = ("MQ2007", "MQ2008")
    sweeps: Sequence[float] = (0.5, 1.0, 5.0)
    loggers: Sequence[float] = (0.01, 0.1)
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


def run(settings: Settings, cells: Cells) -> Experiments:
    """All of it; the sets are evaluated by the first reading of what is relevant."""
    entries = [known_as(name) for name in settings.sets]
    conditions = [
        (Condition(entry.name, relevant, run, sweeps),)
        for entry in entries
        for relevant in thresholds(entry)
        for run in range(settings.seed, settings.seed + settings.runs)
        for sweeps in sorted({*settings.sweeps, learning.TABLE})
    ]
    cases = [
        (
            Case(entry.name, thresholds(entry)[0], logger, sweeps, split),
            settings.repeats,
            settings.chosen,
        )
        for entry in entries
        for logger in settings.loggers
        for split in range(settings.seed, settings.seed + settings.splits)
        for sweeps in settings.sweeps
    ]
    made_from = stamps(entry.name for entry in entries)
    ranked = cells.all("learning", learning.run_one, conditions, made_from)
    measured = cells.all("evaluation", accuracy.run_one, cases, made_from)
    return Experiments(settings, measured, ranked)


@dataclass(frozen=True)
class Experiments:
    """All that was found, and how."""

    settings: Settings
    measured: Sequence[Measured]
    ranked: Sequence[Ranked]

    def claims(self) -> dict[str, list[Verdict]]:
        """By what they are about."""
        learned = []
        for place, own in by_set(self.ranked).items():
            learned += [*table2.claims(own, place), *figure4.claims(own, place)]
            learned.append(table2.stability(own, place))
        found = {
            "Figures 1 and 2": figure2.claims(self.measured, METRICS[0]),
            "Choosing M and τ": tuning.claims(self.measured, METRICS[0]),
            "Learning": learned,
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
                table2.to_markdown(self.ranked),
                "## Over the amount of clicks (Figure 4, 2)",
                figure4.to_markdown(self.ranked),
                "## Ranks lost by choosing on validation clicks, mean (spread) over all runs",
                table2.selection(self.ranked),
            ]
        for title, judged in self.claims().items():
            parts += [f"## Claims: {title}", claims.to_markdown(judged)]
        return "\n\n".join(parts) + "\n"

    def _evaluation(self) -> list[str]:
        logs = f"{self.settings.splits} splits with {self.settings.repeats} logs each"
        parts = ["# Evaluation: root mean squared error in per cent of the truth"]
        for metric in METRICS:
            parts += [
                f"## {metric.capitalize()}, the best value in hindsight, for all {logs}",
                tuning.hindsight(self.measured, metric),
                f"## {metric.capitalize()}, M and τ chosen on the other half of the logs",
                tuning.errors(self.measured, metric, "held_out"),
                "MSE relative to CAB's, geometric means over splits and sweeps (×÷ one standard "
                "error):",
                tuning.ratios(self.measured, metric, "held_out"),
                "Around a logistic regression on the same judged documents, relative to CAB "
                "around it:",
                tuning.models(self.measured, metric, "held_out"),
            ]
            if self.settings.chosen:
                parts += [
                    f"## {metric.capitalize()}, M and τ chosen from the log "
                    f"({self.settings.chosen} logs of each split)",
                    tuning.errors(self.measured, metric, "chosen"),
                    "MSE relative to CAB's, as above:",
                    tuning.ratios(self.measured, metric, "chosen"),
                    "Around the logistic regression, recalibrated, relative to CAB around it:",
                    tuning.models(self.measured, metric, "chosen"),
                ]
        if self.settings.chosen:
            parts += [
                "## How often 95% intervals of the average rank held the truth",
                tuning.coverage(self.measured),
            ]
        return parts

    def save(self, folder: Path) -> list[Path]:
        """Write everything; pictures only if matplotlib is there."""
        body = {
            "schema": "offpolicy.ranking-experiments/1",
            "settings": self.settings,
            "grid": GRID.to_json(),
            "evaluation": [one.to_json() for one in self.measured],
            "learning": self.ranked,
            "claims": self.claims(),
        }
        pictures = {
            f"figure1_{data}_{100 * logger:g}.png": partial(figure1.draw, by_sweeps)
            for (data, logger), by_sweeps in grouped(self.measured).items()
        }
        if self.measured:
            pictures["figure2.png"] = partial(figure2.draw, self.measured)
        if self.ranked:
            pictures["figure4.png"] = partial(figure4.draw, self.ranked)
        return save(folder, {"results.json": body, "table.md": self.to_markdown()}, pictures)
