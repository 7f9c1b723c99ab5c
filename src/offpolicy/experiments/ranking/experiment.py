"""Section 4 on rankings, as files: numbers, tables, claims, pictures."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from offpolicy.datasets import ranking_files
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
from offpolicy.experiments.ranking.accuracy import METRICS, Case, Measured, by_case
from offpolicy.experiments.ranking.learning import Condition, Ranked, by_set
from offpolicy.experiments.ranking.setup import known_as, thresholds
from offpolicy.experiments.saving import Report


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
    chosen_repeats: int = 5
    """Logs of each split from which M and τ are chosen too."""
    runs: int = 5
    seed: int = 0


def run(cells: Cells, **options: Any) -> Report:
    """The paper's ranking experiments; evaluation is by the first reading of what is relevant."""
    settings = Settings(**options)
    entries = [known_as(name) for name in settings.sets]
    runs = range(settings.seed, settings.seed + settings.runs)
    splits = range(settings.seed, settings.seed + settings.splits)
    learned, evaluated = [], []
    for entry in entries:
        readings = thresholds(entry)
        sweeps = sorted({*settings.sweeps, learning.TABLE})
        every = itertools.product(readings, runs, sweeps)
        learned += [(Condition(entry.name, *choice),) for choice in every]
        evaluated += [
            (Case(entry.name, readings[0], logger, size, split), settings.repeats,
             settings.chosen_repeats)
            for logger, split, size in itertools.product(settings.loggers, splits, settings.sweeps)
        ]  # fmt: skip
    files = {entry.name: ranking_files(entry) for entry in entries}
    ranked = cells.all("learning", learning.run_one, learned, files)
    measured = cells.all("evaluation", accuracy.run_one, evaluated, files)
    return Experiments(settings, measured, ranked).report()


@dataclass(frozen=True)
class Experiments:
    """All that was found, and how."""

    settings: Settings
    measured: Sequence[Measured]
    ranked: Sequence[Ranked]

    def claims(self) -> dict[str, list[Verdict]]:
        """By what they are about."""
        learned = []
        for place, runs in by_set(self.ranked).items():
            learned += [*figure4.claims(runs, place), *table2.claims(runs, place)]
        judged = {
            "Figures 1 and 2": figure2.claims(self.measured, METRICS[0]),
            "Choosing M and τ": tuning.claims(self.measured, METRICS[0]),
            "Learning": learned,
        }
        return {title: verdicts for title, verdicts in judged.items() if verdicts}

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
        ways = {"held_out": "on the other half of the logs"}
        if self.settings.chosen_repeats:
            ways["chosen"] = f"from the log ({self.settings.chosen_repeats} logs of each split)"
        parts = ["# Evaluation: root mean squared error in per cent of the truth"]
        for metric in METRICS:
            parts += [
                f"## {metric.capitalize()}, the best value in hindsight, for all {logs}",
                tuning.hindsight(self.measured, metric),
            ]
            for kind, how in ways.items():
                parts += [
                    f"## {metric.capitalize()}, M and τ chosen {how}",
                    tuning.errors(self.measured, metric, kind),
                    "MSE relative to CAB's, geometric means over splits and sweeps (×÷ one "
                    "standard error):",
                    tuning.ratios(self.measured, metric, kind),
                    "Around a logistic regression on the same judged documents (recalibrated, if "
                    "chosen from the log), relative to CAB around it:",
                    tuning.models(self.measured, metric, kind),
                ]
        if self.settings.chosen_repeats:
            parts += [
                "## How often 95% intervals of the average rank held the truth",
                tuning.coverage(self.measured),
            ]
        return parts

    def report(self) -> Report:
        text = self.to_markdown()
        body = {
            "schema": "offpolicy.ranking-experiments/2",
            "settings": self.settings,
            "evaluation": self.measured,
            "learning": self.ranked,
            "claims": self.claims(),
        }
        pictures = {
            f"figure1_{data}_{100 * logger:g}.png": partial(figure1.draw, by_sweeps)
            for (data, logger), by_sweeps in by_case(self.measured).items()
        }
        if self.measured:
            pictures["figure2.png"] = partial(figure2.draw, self.measured)
        if self.ranked:
            pictures["figure4.png"] = partial(figure4.draw, self.ranked)
        return Report(text, {"results.json": body, "table.md": text}, pictures)
