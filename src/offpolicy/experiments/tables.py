"""Tables as markdown and as CSV, and the figures in them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from offpolicy._core.types import Floats

SHOWN = {"CIPS": "cIPS"}
"""Estimators that the paper writes in another way."""


def shown(name: str) -> str:
    return SHOWN.get(name, name)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A line for each row; the last one is not ended."""
    titles = "".join(f" {title} |" if title else " |" for title in head)
    lines = [f"|{titles}", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def to_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """A column for each key of the first row."""
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def mean_text(values: Sequence[float] | Floats, digits: int) -> str:
    """Mean ± standard error."""
    if not len(values):
        return "–"
    spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{np.mean(values):.{digits}f} ± {spread:.{digits}f}"


def geometric_mean(ratios: Sequence[float] | Floats) -> float:
    return float(np.exp(np.mean(np.log(ratios))))


def best_marked(values: Sequence[float], form: str = ".1f") -> list[str]:
    """The least in bold."""
    texts = [format(value, form) for value in values]
    least = min(texts, key=float)
    return [f"**{text}**" if text == least else text for text in texts]
