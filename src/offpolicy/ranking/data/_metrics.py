r"""Metrics of rankers: what a relevant document is worth at a rank.

.. math:: \Delta(\pi(x) \mid x, r) = \sum_{d} \lambda(\mathrm{rank}(d \mid \pi(x)))\, r(x, d)

(Appendix A of the paper.) A metric is known by its name: ``parse_metric("dcg@10")``; a function of
the rank is a metric, too. Two are ratios, of sums over all impressions: *average rank* divides the
sum of the ranks of relevant documents by their number, *recall@k* the number of those above the cut
by all of them. Impressions without relevant documents then add nothing to either sum.

Two are not additive, as what a document is worth depends on the relevance of others; given that,
they are. *ndcg* divides by the DCG of the best order, for as many relevant documents as there are
expected to be (at least one; of a fraction, between the whole numbers beside it). In *err* a reader
goes on past a relevant document half of the time: :math:`\lambda_d = \tfrac12
\prod_{e\text{ above }d} (1 - \tfrac12 r_e) / \mathrm{rank}_d`.
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
from offpolicy.ranking.data._ranks import reached

Lambda = Callable[[int], float]
"""A function of the rank: what a relevant document is worth there."""


@final
@dataclass(frozen=True, slots=True)
class Metric:
    """A metric by its name and, if it has one, its cut-off k; or with a λ of one's own."""

    name: str
    k: int | None = None
    of_rank: Lambda | None = None

    def __post_init__(self) -> None:
        if self.of_rank is not None:
            _check_own(self)
            return
        if self.name not in _KINDS:
            raise ParameterError(
                f'There is no metric "{self.name}".{did_you_mean(self.name, _KINDS)} The names are '
                f"{', '.join(_KINDS)}; dcg, ndcg, err, precision and recall with a cut-off: "
                f"dcg@10. A function of the rank is a metric, too.",
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
        """Whether more is better: not so for ranks, and what else grows with the rank."""
        if self.of_rank is not None:
            return self.of_rank(1) > self.of_rank(_FAR)
        return _KINDS[self.name].higher_is_better

    @property
    def is_ratio(self) -> bool:
        """Whether it is divided by the number of relevant documents."""
        return self.of_rank is None and _KINDS[self.name].is_ratio

    @property
    def needs_relevance(self) -> bool:
        """Whether what a document is worth depends on the relevance of others."""
        return self.of_rank is None and self.name in _OF_OTHERS

    def limits(self, lam: Floats, impressions: int) -> tuple[float, float]:
        """What its value cannot be below or above, given λ of every document."""
        if self.is_ratio:
            return float(lam.min()), float(lam.max())
        low, high = (float(f(lam, 0.0).sum()) / impressions for f in (np.minimum, np.maximum))
        return low, min(high, 1.0) if self.name == "ndcg" else high

    def weight(
        self, rank: Ints, offsets: Ints | None = None, relevance: Floats | None = None
    ) -> Floats:
        """λ of every document. Where it `needs_relevance`, that of every document of its list."""
        if self.of_rank is not None:
            different, place = np.unique(rank, return_inverse=True)
            return np.array([float(self.of_rank(k)) for k in different.tolist()])[place]
        value = _KINDS[self.name].weight(rank.astype(np.float64))
        if self.k is not None:
            value = np.where(rank <= self.k, value, 0.0)
        if self.needs_relevance:
            assert offsets is not None
            assert relevance is not None
            return value * _OF_OTHERS[self.name](rank, offsets, relevance, self.k)
        return value / self.k if self.name == "precision" and self.k else value


@dataclass(frozen=True, slots=True)
class _Kind:
    weight: Callable[[Floats], Floats]
    higher_is_better: bool
    is_ratio: bool = False
    cut: str = "never"


def _discount(rank: Floats) -> Floats:
    return np.asarray(1.0 / np.log2(1.0 + rank))


_KINDS = {
    "average rank": _Kind(lambda rank: rank, False, is_ratio=True),
    "sum of ranks": _Kind(lambda rank: rank, False),
    "dcg": _Kind(_discount, True, cut="perhaps"),
    "ndcg": _Kind(_discount, True, cut="perhaps"),
    "err": _Kind(lambda rank: 0.5 / rank, True, cut="perhaps"),
    "precision": _Kind(np.ones_like, True, cut="always"),
    "recall": _Kind(np.ones_like, True, is_ratio=True, cut="always"),
    "reciprocal rank": _Kind(lambda rank: 1.0 / rank, True, cut="perhaps"),
}
METRICS = tuple(_KINDS)
"""The names of the metrics."""
_PATTERN = re.compile(r"\s*([a-z ]+?)\s*(?:@\s*(\d+)\s*)?", re.IGNORECASE)


# -- what depends on other documents ---------------------------------------------------------------


def _by_the_best_order(rank: Ints, offsets: Ints, relevance: Floats, k: int | None) -> Floats:
    """Of nDCG: one over the DCG of the best order of each document's list."""
    sizes = np.diff(offsets)
    least = np.concatenate([[0.0], np.cumsum(_discount(np.arange(1.0, sizes.max() + 2)))])
    best = least[np.minimum(np.arange(len(least)), k or len(least))]
    count = np.maximum(np.add.reduceat(relevance, offsets[:-1]), 1.0)
    return np.repeat(1.0 / np.interp(count, np.arange(len(best)), best), sizes)


def _by_those_above(rank: Ints, offsets: Ints, relevance: Floats, k: int | None) -> Floats:
    """Of ERR: how likely a reader comes as far as each document."""
    return reached(0.5 * relevance, rank, offsets)


_OF_OTHERS = {"ndcg": _by_the_best_order, "err": _by_those_above}


# -- metrics of one's own --------------------------------------------------------------------------

_FAR = 1000
"""Better is a smaller number where λ is larger here than at rank 1."""


def _check_own(metric: Metric) -> None:
    """Raise if the function gives no numbers, or not more at one end than at the other."""
    function = metric.of_rank
    assert function is not None
    try:
        first, last = float(function(1)), float(function(_FAR))
    except (TypeError, ValueError, ArithmeticError) as problem:
        sentence = f"The metric's function gave no number at rank 1 or {_FAR}: {problem}"
        raise ParameterError(sentence, column="metric") from problem
    if not (math.isfinite(first) and math.isfinite(last) and first != last):
        raise ParameterError(
            f"The metric's function gave {first:g} at rank 1 and {last:g} at rank {_FAR}. Its λ "
            f"must be finite, and larger at one of the two, as that tells which way is better.",
            column="metric",
        )


def parse_metric(text: str) -> Metric:
    """The metric of rankers with that name, the inverse of ``str``.

    >>> parse_metric("DCG@10")
    Metric(name='dcg', k=10, of_rank=None)
    """
    match = _PATTERN.fullmatch(str(text))
    if match is None:
        sentence = f'{text!r} is not a metric. Write "average rank" or "dcg@10".'
        raise ParameterError(sentence, column="metric")
    name, k = match.groups()
    return Metric(" ".join(name.casefold().split()), None if k is None else int(k))


def as_metric(metric: Metric | str | Lambda) -> Metric:
    """The metric of rankers itself, the one of that name, or that of a function of the rank."""
    if isinstance(metric, Metric):
        return metric
    if callable(metric):
        name = getattr(metric, "__name__", "")
        return Metric(name if name.isidentifier() else "own metric", of_rank=metric)
    return parse_metric(metric)
