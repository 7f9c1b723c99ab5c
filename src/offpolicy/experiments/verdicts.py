"""Sentences of the paper, whether they hold, and what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """One sentence, on one problem if ``where`` names it."""

    text: str
    holds: bool
    measured: str
    where: str = ""


def to_markdown(verdicts: Sequence[Verdict]) -> str:
    """A row each; where they are about is a column only if any says so."""
    placed = any(one.where for one in verdicts)
    lines = [
        f"| claim |{' where |' if placed else ''} | measured |",
        f"|---|---|---|{'---|' * placed}",
    ]
    for one in verdicts:
        verdict = "holds" if one.holds else "does not hold"
        where = f" {one.where} |" if placed else ""
        lines.append(f"| {one.text} |{where} {verdict} | {one.measured} |")
    return "\n".join(lines) + "\n"
