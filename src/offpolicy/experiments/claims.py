"""What the paper says, whether it holds, and what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.tables import markdown

_Size = TypeVar("_Size", int, float)


@dataclass(frozen=True)
class Verdict:
    """One sentence, on one problem if ``where`` names it."""

    text: str
    holds: bool
    measured: str
    where: str = ""


def to_markdown(verdicts: Sequence[Verdict]) -> str:
    """The paper's claims, a row each; where they are about is a column only if any says so."""
    placed = any(verdict.where for verdict in verdicts)
    rows = []
    for verdict in verdicts:
        holds = "holds" if verdict.holds else "does not hold"
        rows.append([verdict.text, *[verdict.where] * placed, holds, verdict.measured])
    return markdown(["claim", *["where"] * placed, "", "measured"], rows) + "\n"


@dataclass(frozen=True)
class Claim:
    """A sentence about curves of bias, variance and mean squared error, and how it is measured.

    The number is small where the claim holds; up to ``limit`` it counts as holding.
    """

    text: str
    number: str
    """What the number is."""
    measure: Callable[[Accuracy], float]
    limit: float
    every_size: bool = False
    """Whether it is about logs of every size; otherwise about those of one."""

    def measured(self, curves: Mapping[_Size, Accuracy], size: _Size, start: float) -> float:
        """At ``size``, or at the worst if it is about every size; M from ``start`` on."""
        sizes = curves.values() if self.every_size else [curves[size]]
        return max(self.measure(accuracy.above(start)) for accuracy in sizes)

    def holds(self, measured: float) -> bool:
        return bool(measured <= self.limit)
