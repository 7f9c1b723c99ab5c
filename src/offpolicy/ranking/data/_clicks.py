r"""Simulated clicks on rankings of judged documents, with the exact propensities beside them.

A click needs a document to be examined and to be attractive. A model says both: with which
probability the document at a rank is examined, and with which an examined document is clicked,

.. math:: a = \varepsilon^+_k\, r + \varepsilon^-_k\,(1 - r) .

Without noise (:math:`\varepsilon^+ = 1, \varepsilon^- = 0`) a click is an examined relevant
document, as in the paper. Where :math:`\varepsilon` depends on the rank k, users trust what stands
high (Vardasbi, Oosterhuis and de Rijke 2020).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from offpolicy._core.ragged import candidates_of, offsets_of, position_in_decision
from offpolicy._core.types import Floats, Ints
from offpolicy._core.validation import need
from offpolicy.errors import ParameterError
from offpolicy.logs.formats.letor import Queries
from offpolicy.ranking.data._log import SMALLEST_EXAMINATION, RankingLog
from offpolicy.ranking.data._ranks import ranks_of, reached

PerRank = float | Sequence[float]
"""One number, or one for each rank from 1 on; the last holds for all further ranks."""


class ClickModel(ABC):
    """Who examines what, and clicks on it. ``relevant`` and ``irrelevant`` are ε⁺ and ε⁻."""

    __slots__ = ()
    relevant: PerRank
    irrelevant: PerRank

    @abstractmethod
    def examined(self, rank: Ints, attraction: Floats, offsets: Ints) -> Floats:
        """The probability with which each document is examined; 0 at rank 0."""

    @abstractmethod
    def draw(
        self, rank: Ints, attraction: Floats, offsets: Ints, rng: np.random.Generator
    ) -> Floats:
        """Clicks, 0 or 1."""

    def attraction(self, rank: Ints, relevance: Floats) -> Floats:
        """The probability of a click once the document is examined."""
        low = at_rank(self.irrelevant, rank)
        return low + (at_rank(self.relevant, rank) - low) * relevance


@final
@dataclass(frozen=True, slots=True)
class PositionBased(ClickModel):
    r"""Examination depends on the rank alone: :math:`p = (1/\mathrm{rank})^\eta`.

    Joachims, Swaminathan and Schnabel 2017. ``relevant`` and ``irrelevant`` are ε⁺ and ε⁻, each
    one number or one per rank (trust bias). Clicks on different documents are independent.
    """

    eta: float = 1.0
    relevant: PerRank = 1.0
    irrelevant: PerRank = 0.0

    def __post_init__(self) -> None:
        need(0.0 <= self.eta < math.inf, "eta", self.eta, "a number, 0 or more")
        _check_shares(relevant=self.relevant, irrelevant=self.irrelevant)

    def examined(self, rank: Ints, attraction: Floats, offsets: Ints) -> Floats:
        return np.where(rank > 0, np.maximum(rank, 1).astype(np.float64) ** -self.eta, 0.0)

    def draw(
        self, rank: Ints, attraction: Floats, offsets: Ints, rng: np.random.Generator
    ) -> Floats:
        chance = self.examined(rank, attraction, offsets) * attraction
        return (rng.random(len(rank)) < chance).astype(np.float64)


@final
@dataclass(frozen=True, slots=True)
class DependentClicks(ClickModel):
    r"""Users read from the top; after a click at rank k they go on with probability ``goes_on``.

    Guo, Liu and Wang 2009. The propensity is the probability of getting as far as a rank, given
    the documents above it, :math:`\prod_{j<k} (1 - a_j (1 - \gamma_j))`. Clicks of one impression
    depend on each other.
    """

    goes_on: PerRank = 0.5
    relevant: PerRank = 1.0
    irrelevant: PerRank = 0.0

    def __post_init__(self) -> None:
        _check_shares(goes_on=self.goes_on, relevant=self.relevant, irrelevant=self.irrelevant)

    def examined(self, rank: Ints, attraction: Floats, offsets: Ints) -> Floats:
        stop = np.where(rank > 0, attraction * (1.0 - at_rank(self.goes_on, rank)), 0.0)
        return np.where(rank > 0, reached(stop, rank, offsets), 0.0)

    def draw(
        self, rank: Ints, attraction: Floats, offsets: Ints, rng: np.random.Generator
    ) -> Floats:
        liked = (rng.random(len(rank)) < attraction) & (rank > 0)
        stopped = liked & (rng.random(len(rank)) >= at_rank(self.goes_on, rank))
        return liked * reached(stopped.astype(np.float64), rank, offsets)


def cascade(relevant: PerRank = 1.0, irrelevant: PerRank = 0.0) -> DependentClicks:
    """The cascade model (Craswell et al. 2008): users stop at their first click.

    What stands below a document that is always clicked is never examined. So that every
    propensity is above 0, leave some noise: ``relevant`` below 1.
    """
    return DependentClicks(0.0, relevant, irrelevant)


def simulate_clicks(
    queries: Queries,
    ranker: Any,
    model: ClickModel | None = None,
    *,
    sweeps: float = 1.0,
    top: int | None = None,
    relevant: float = 1.0,
    features: bool = True,
    rng: np.random.Generator | int = 0,
) -> RankingLog:
    """Show every query's documents in the order of a ranker, and let a click model click.

    Parameters
    ----------
    queries : Queries
        Judged documents, from `offpolicy.datasets.letor` or `ranking`.
    ranker
        Of the logger: scores (N,), a callable X → scores, or a fitted model.
    model : ClickModel, optional
        By default `PositionBased`, as in the paper.
    sweeps : float
        How often every query is shown; of a part of a sweep, a random subset of the queries.
    top : int, optional
        Show this many documents only; the others are candidates with rank 0.
    relevant : float
        From which judgement on a document is relevant.
    features : bool
        Whether the log holds a copy of the features, for every impression.
    rng : Generator or seed

    Examples
    --------
    >>> from offpolicy.logs.formats.letor import Queries
    >>> queries = Queries(
    ...     np.zeros((3, 1)), np.array([0.0, 1.0, 2.0]), np.array([0, 3]), np.array([7]), 0
    ... )
    >>> log = simulate_clicks(queries, [1.0, 3.0, 2.0], sweeps=2)
    >>> log.rank.tolist(), log.propensity[:3].round(2).tolist()
    ([3, 1, 2, 3, 1, 2], [0.33, 1.0, 0.5])
    """
    generator = np.random.default_rng(rng)
    need(0.0 < sweeps < math.inf, "sweeps", sweeps, "a number above 0")
    if top is not None and top < 1:
        raise ParameterError(f"top is {top}; at least one document must be shown.", column="top")
    shown = ranks_of(ranker, queries)
    if top is not None:
        shown = np.where(shown <= top, shown, 0)
    which = _shown_queries(len(queries.qid), sweeps, generator)
    rows = candidates_of(queries.offsets, which)
    offsets = offsets_of(np.diff(queries.offsets)[which])
    model = PositionBased() if model is None else model
    relevance = (queries.relevance[rows] >= relevant).astype(np.float64)
    rank = shown[rows]
    attraction = model.attraction(rank, relevance)
    propensity = model.examined(rank, attraction, offsets)
    # What nobody can get to was as good as not shown.
    propensity = np.where(propensity >= SMALLEST_EXAMINATION, propensity, 0.0)
    rank = np.where(propensity > 0.0, rank, 0)
    return RankingLog(
        offsets=offsets,
        rank=rank,
        click=model.draw(rank, attraction, offsets, generator),
        propensity=propensity,
        X=queries.X[rows] if features else None,
        relevance=relevance,
        query=queries.qid[which],
        document=position_in_decision(offsets) + 1,
    )


def at_rank(values: PerRank, rank: Ints) -> Floats:
    """What a click model says of every rank; its last value holds for all ranks below."""
    listed = np.atleast_1d(np.asarray(values, dtype=np.float64))
    return np.asarray(listed[np.clip(rank, 1, len(listed)) - 1])


def _shown_queries(count: int, sweeps: float, rng: np.random.Generator) -> Ints:
    whole = int(sweeps)
    part = round((sweeps - whole) * count)
    rest = np.sort(rng.choice(count, part, replace=False))
    which = np.concatenate([np.tile(np.arange(count), whole), rest]).astype(np.int64)
    if not len(which):
        sentence = f"{sweeps:g} sweeps over {count:,} queries show not one of them."
        raise ParameterError(sentence, column="sweeps")
    return which


def _check_shares(**shares: PerRank) -> None:
    for name, values in shares.items():
        listed = np.atleast_1d(np.asarray(values, dtype=np.float64))
        fine = listed.ndim == 1 and len(listed) and ((listed >= 0.0) & (listed <= 1.0)).all()
        need(bool(fine), name, values, "of probabilities, from 0 to 1")
