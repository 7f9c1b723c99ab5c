r"""Additive metrics: what a relevant document is worth at a rank.

.. math:: \Delta(\pi(x) \mid x, r) = \sum_{d} \lambda(\mathrm{rank}(d \mid \pi(x)))\, r(x, d)

(Appendix A of the paper.) A metric is known by its name: ``parse_metric("dcg@10")``. Two are
ratios, of sums over all impressions: *average rank* divides the sum of the ranks of relevant
documents by their number, *recall@k* the number of those above the cut by all of them. Impressions
without relevant documents then add nothing to either sum.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.errors import ParameterError, did_you_mean


@final
@dataclass(frozen=True, slots=True)
class Metric:
    """A metric by its name and, if it has one, its cut-off k."""

    name: str
    k: int | None = None

    def __post_init__(self) -> None:
        if self.name not in _KINDS:
            raise ParameterError(
                f'There is no metric "{self.name}".{did_you_mean(self.name, _KINDS)} The names are '
                f"{', '.join(_KINDS)}; dcg, precision and recall with a cut-off: dcg@10.",
                column="metric",
            )
        kind = _KINDS[self.name]
        if self.k is not None and (kind.cut == "never" or self.k < 1):
            why = "has no cut-off" if kind.cut == "never" else "must be cut at 1 or more"
            raise ParameterError(f'"{self.name}@{self.k}": {self.name} {why}.', column="k")
        if self.k is None and kind.cut == "always":
            raise ParameterError(f'{self.name} needs a cut-off: "{self.name}@10".', column="k")

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"

    @property
    def higher_is_better(self) -> bool:
        """Whether more is better: not so for ranks."""
        return _KINDS[self.name].higher_is_better

    @property
    def is_ratio(self) -> bool:
        """Whether it is divided by the number of relevant documents."""
        return _KINDS[self.name].is_ratio

    @property
    def limits(self) -> tuple[float, float]:
        """What its value cannot be below or above, whatever the queries."""
        kind = _KINDS[self.name]
        return kind.least, kind.most

    def weight(self, rank: Ints) -> Floats:
        """λ(rank)."""
        value = _KINDS[self.name].weight(rank.astype(np.float64))
        if self.k is not None:
            value = np.where(rank <= self.k, value, 0.0)
        return value / self.k if self.name == "precision" and self.k else value


@dataclass(frozen=True, slots=True)
class _Kind:
    weight: Callable[[Floats], Floats]
    higher_is_better: bool
    is_ratio: bool = False
    cut: str = "never"
    least: float = 0.0
    most: float = math.inf


_KINDS = {
    "average rank": _Kind(lambda rank: rank, False, is_ratio=True, least=1.0),
    "sum of ranks": _Kind(lambda rank: rank, False),
    "dcg": _Kind(lambda rank: 1.0 / np.log2(1.0 + rank), True, cut="perhaps"),
    "precision": _Kind(np.ones_like, True, cut="always", most=1.0),
    "recall": _Kind(np.ones_like, True, is_ratio=True, cut="always", most=1.0),
    "reciprocal rank": _Kind(lambda rank: 1.0 / rank, True, cut="perhaps"),
}
METRICS = tuple(_KINDS)
"""The names of the metrics."""
_PATTERN = re.compile(r"\s*([a-z ]+?)\s*(?:@\s*(\d+)\s*)?", re.IGNORECASE)


def parse_metric(text: str) -> Metric:
    """The metric of rankers with that name, the inverse of ``str``.

    >>> parse_metric("DCG@10")
    Metric(name='dcg', k=10)
    """
    match = _PATTERN.fullmatch(str(text))
    if match is None:
        sentence = f'{text!r} is not a metric. Write "average rank" or "dcg@10".'
        raise ParameterError(sentence, column="metric")
    name, k = match.groups()
    return Metric(" ".join(name.casefold().split()), None if k is None else int(k))


def as_metric(metric: Metric | str) -> Metric:
    """The metric of rankers itself, or the one of that name."""
    return metric if isinstance(metric, Metric) else parse_metric(metric)
