"""What logs said of a value that is known, counted for each cell of the experiment on coverage."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from offpolicy.intervals import Interval
from offpolicy.results import Difference, Estimate, Headline, Result

ENOUGH = 100.0
"""SNIPS's effective size from which on a log is to be answered."""
_FIRST = 3


class Outcome(NamedTuple):
    """One log: the answer, beside SNIPS and DR from the same log, and the truth."""

    truth: float
    value: float
    interval: Interval
    refused: bool
    alarm: bool = False
    """Whether SNIPS or DR were found to disagree."""
    snips: Estimate | None = None
    dr: Estimate | None = None

    @classmethod
    def of(cls, truth: float, result: Result, policy: str | None = None) -> Outcome:
        """The headline about a policy, by default the only one."""
        name = result.policies[0] if policy is None else policy
        (headline,) = (one for one in result.headlines if one.policy == name)
        rows = {row.estimator: row for row in result if row.policy == name}
        alarm = any(one.code == "disagreement" and one.place == name for one in result.findings)
        about = cls.about(truth, headline)
        return about._replace(alarm=alarm, snips=rows["SNIPS"], dr=rows.get("DR"))

    @classmethod
    def about(cls, truth: float, answer: Headline | Difference) -> Outcome:
        return cls(truth, answer.value, answer.interval, not answer.can_tell)


@dataclass(frozen=True)
class Cell:
    """Many logs of one kind, in groups: the splits of a data set, or logs drawn one after another.

    Refused logs count like all others.
    """

    where: str
    """The data set, world or variation."""
    policy: str
    """In finite worlds: the number of decisions."""
    model: str
    known: str
    """"candidates": π₀ of every candidate; "chosen only"; "estimated"."""
    n: int
    """Decisions in a log."""
    logs: int
    covered: list[float]
    """Share of each group's logs whose interval holds the truth."""
    error: list[float]
    """Mean squared error of the headline in each group."""
    snips_error: list[float]
    dr_error: list[float]
    """Empty if there is no model, or if differences are measured."""
    width: float
    """Mean."""
    snips_width: float
    """Of SNIPS ± 1.96 standard errors."""
    snips_covered: float
    refused: int
    alarms: int
    """Logs in which SNIPS or DR were found to disagree with the headline."""
    enough: int
    """Logs in which SNIPS has an effective size of 100 or more."""
    refused_enough: int
    first: list[list[float]]
    """Value, low and high of the first three logs, to tell whether a kept cell is of this code."""

    @classmethod
    def of(
        cls, where: str, policy: str, model: str, known: str, n: int,
        groups: Sequence[Sequence[Outcome]],
    ) -> Cell:  # fmt: skip
        """All that is kept of these logs."""
        every = [outcome for group in groups for outcome in group]
        with_snips = [(o.truth, o.snips) for o in every if o.snips is not None]
        enough = [o.refused for o in every if o.snips is not None and (o.snips.ess or 0) >= ENOUGH]
        return cls(
            where, policy, model, known, n, len(every),
            _means([[o.truth in o.interval for o in group] for group in groups]),
            _means([[(o.value - o.truth) ** 2 for o in group] for group in groups]),
            _means(_errors(groups, "snips")),
            _means(_errors(groups, "dr")),
            _rounded(np.mean([o.interval.width for o in every])),
            _rounded(np.mean([2 * 1.96 * row.stderr for _, row in with_snips] or [0.0])),
            _rounded(np.mean([abs(row.value - truth) <= 1.96 * row.stderr
                              for truth, row in with_snips] or [False])),
            sum(o.refused for o in every), sum(o.alarm for o in every), len(enough), sum(enough),
            [[_rounded(x, 10) for x in (o.value, *o.interval)] for o in every[:_FIRST]],
        )  # fmt: skip

    @property
    def coverage(self) -> float:
        return float(np.mean(self.covered))

    @property
    def mse(self) -> float:
        return float(np.mean(self.error))

    @property
    def width_ratio(self) -> float:
        """To SNIPS ± 1.96 standard errors."""
        return self.width / self.snips_width

    @property
    def name(self) -> str:
        """What tells it from others of its kind."""
        return ", ".join(filter(None, (self.where, self.policy, self.model, self.known)))

    def error_ratio(self) -> tuple[float, float]:
        """Mean squared error over that of the better of SNIPS and DR, and its lower limit: 1.96
        standard errors of its logarithm below, by the jackknife over groups."""
        rows = [self.error, self.snips_error, *([self.dr_error] if self.dr_error else [])]
        table = np.array(rows)
        groups = table.shape[1]
        left_out = (table.sum(axis=1, keepdims=True) - table) / max(groups - 1, 1)
        means = np.c_[table.mean(axis=1), left_out]
        ratio, *others = np.log(means[0]) - np.log(means[1:].min(axis=0))
        stderr = math.sqrt((groups - 1) * float(np.var(others)))
        return math.exp(ratio), math.exp(ratio - 1.96 * stderr)


def joined(parts: Sequence[Cell]) -> Cell:
    """One cell from blocks of it: lists one after another, means weighted by logs, counts added."""
    changes: dict[str, Any] = {}
    for name, value in vars(parts[0]).items():
        values = [getattr(part, name) for part in parts]
        if name in ("covered", "error", "snips_error", "dr_error"):
            changes[name] = [x for part in values for x in part]
        elif isinstance(value, float):
            changes[name] = float(np.average(values, weights=[part.logs for part in parts]))
        elif isinstance(value, int) and name != "n":
            changes[name] = sum(values)
    return replace(parts[0], **changes)


def grouped_logs(outcomes: Sequence[Outcome], groups: int = 100) -> list[Sequence[Outcome]]:
    """Logs that are independent, in as many groups as a cell keeps."""
    bounds = np.linspace(0, len(outcomes), min(groups, len(outcomes)) + 1).astype(int)
    return [outcomes[a:b] for a, b in itertools.pairwise(bounds)]


def _errors(groups: Sequence[Sequence[Outcome]], name: str) -> list[list[float]]:
    if getattr(groups[0][0], name) is None:
        return []
    return [[(getattr(o, name).value - o.truth) ** 2 for o in group] for group in groups]


def _means(groups: Sequence[Sequence[float]]) -> list[float]:
    return [_rounded(np.mean(group)) for group in groups]


def _rounded(value: Any, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}")
