"""Results on a terminal: the same words and numbers, with colour and the curve in a line."""

from __future__ import annotations

import os
import textwrap
from typing import Any

import click

from offpolicy._core.tables import visible

_COLOURS = {"problem": "red", "warning": "yellow"}


def rendered(result: Any) -> str:
    """A result for the terminal: with colours, the curve over M in a line, and warnings."""
    from offpolicy.results import LEARNED_HERE

    if not hasattr(result, "headlines"):
        return _checked(result) if hasattr(result, "worst") else visible(str(result))
    head, _, rest = visible(str(result)).partition("\n\n")
    warnings = {visible(str(one)): _COLOURS[one.severity] for one in result.warnings}
    refused = tuple(f"{visible(row.policy)}: " for row in result.headlines if not row.can_tell)
    names = getattr(result, "policies", ())
    first = tuple(f"{visible(name)}{end}" for name in names for end in (" ", ": "))
    first += (LEARNED_HERE,)
    lines: list[str] = []
    for line in head.splitlines():
        if line in warnings:
            continue
        colour = "red" if line.startswith(refused) else None
        is_answer = not lines or line.startswith(first)
        lines.append(_styled(line, bold=True, fg=colour) if is_answer else line)
    lines += [_curve(row) for row in result.headlines if row.model != "logger"]
    lines += [_styled(textwrap.fill(said, 100), fg=fg) for said, fg in warnings.items()]
    top, *body = rest.splitlines()
    return "\n".join([*lines, "", _styled(top, bold=True), *body])


def _checked(report: Any) -> str:
    """What `check` prints on a terminal: findings, each headed by its severity in colour."""
    parts = []
    colours = [None, *(_COLOURS.get(finding.severity) for finding in report)]
    for part, colour in zip(visible(str(report)).split("\n\n"), colours, strict=True):
        first, _, rest = part.partition("\n")
        parts.append("\n".join([_styled(first, bold=True, fg=colour), *rest.splitlines()]))
    return "\n\n".join(parts)


def _curve(row: Any) -> str:
    """For the terminal: '  new over M: 0 ▁▂▃▅▆▇█ ∞, from 0.46 to 0.53, at M = 3.1 taken'."""
    from offpolicy.report.html.numbers import short
    from offpolicy.report.svg.charts import sparkline

    values = list(row.values)
    place = min(range(len(values)), key=lambda k: abs(row.grid[k] - row.M))
    last = len(values) - 1
    while last > place + 1 and values[last - 1] == values[last]:
        last -= 1
    shown = values[: last + 1]
    drawn = sparkline(shown)
    marked = f"{drawn[:place]}{_styled(drawn[place], fg='green', bold=True)}{drawn[place + 1 :]}"
    finite = [value for value in shown if abs(value) < float("inf")]
    low, high = short(min(finite)), short(max(finite))
    name = visible(row.policy)
    return f"  {name} over M: 0 {marked} ∞, from {low} to {high}, at M = {short(row.M)} taken"


def _styled(text: str, **style: Any) -> str:
    return text if "NO_COLOR" in os.environ else click.style(text, **style)
