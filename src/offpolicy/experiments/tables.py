"""Tables as markdown and as CSV, and the figures in them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from offpolicy._core.types import Floats

_Row = TypeVar("_Row")
_Key = TypeVar("_Key", bound=Hashable)


def paper_name(name: str) -> str:
    """The name of an estimator as the paper writes it."""
    return "cIPS" if name == "CIPS" else name


def grouped(rows: Iterable[_Row], key: Callable[[_Row], _Key]) -> dict[_Key, list[_Row]]:
    """The runs or rows of an experiment by key, in order."""
    groups: dict[_Key, list[_Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of an experiment, a line for each row; the last one is not ended."""
    titles = "".join(f" {title} |" if title else " |" for title in head)
    lines = [f"|{titles}", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def to_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """What an experiment found as CSV: a column for each key of the first row."""
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def mean_text(values: Sequence[float] | Floats, digits: int) -> str:
    """Over the runs of an experiment: mean ± standard error, if there are several."""
    if len(values) < 2:
        return f"{values[0]:.{digits}f}" if len(values) else "–"
    spread = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.{digits}f} ± {spread:.{digits}f}"


def named(values: Mapping[str, float]) -> str:
    """What was measured of a claim of the paper: 'CAB 0.95, SB 1.02'."""
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def short(value: float) -> str:
    """A figure in an experiment's table: two digits, and the power of ten of what is large."""
    if np.isinf(value):
        return "∞" if value > 0.0 else "−∞"
    return f"{value:.2g}" if abs(value) < 100.0 else f"{value:.0e}"


def geometric_mean(ratios: Sequence[float] | Floats) -> float:
    return float(np.exp(np.mean(np.log(ratios))))


def best_marked(values: Sequence[float], form: str = ".1f") -> list[str]:
    """A row of an experiment's table: the least error in bold."""
    texts = [format(value, form) for value in values]
    least = min(texts, key=float)
    return [f"**{text}**" if text == least else text for text in texts]
