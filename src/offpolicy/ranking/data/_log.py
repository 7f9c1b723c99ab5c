"""`RankingLog`: rankings that were shown, and what was clicked, in one ragged layout.

One *impression* is one ranking that was shown for a query; its documents are
``offsets[i] : offsets[i + 1]`` of every per-document array, in any order: ``rank`` says where each
stood. All validation happens when a log is made, once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core import validation as check
from offpolicy._core.files import replacing
from offpolicy._core.frames import Frames
from offpolicy._core.late import pa, pq
from offpolicy._core.pickling import Portable
from offpolicy._core.ragged import candidates_of, decision_of_candidate, offsets_of
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import (
    LogError,
    OffpolicyError,
    ParameterError,
    Place,
    PredictionError,
    PropensityError,
)
from offpolicy.logs import labels

if TYPE_CHECKING:
    from offpolicy.ranking.data._read import RankingColumns

SMALLEST_EXAMINATION = 1e-12
"""Nobody examines that rarely; the square of its inverse is still a number."""


@dataclass(frozen=True, eq=False, repr=False)
class RankingLog(Portable, Frames):
    """Impressions: the candidate documents of a query, where each was shown, and the clicks.

    Make one with `from_arrays`, `from_frame` or `read`. Arrays of the right type
    are not copied: do not change them afterwards.

    Attributes
    ----------
    offsets : int64[n + 1]
        Where each impression's documents start.
    rank : int64[N]
        1 is the top; 0 is a candidate that was not shown.
    click : float64[N]
        0 or 1.
    propensity : float64[N] or None
        The probability with which the document was examined; 0 if it was not shown.
    prediction : float64[N] or None
        δ̂: modelled probability of a click once the document is examined.
    X : float[N, d] or None
        Features.
    relevance : float64[N] or None
        From 0 to 1; known in experiments only.
    query : labels[n] or None
        Impressions with the same label are of the same query, and may be dependent.
    document : labels[N] or None
    source : str
        Where it is from, for messages.
    """

    offsets: Ints
    rank: Ints
    click: Floats
    propensity: Floats | None = None
    prediction: Floats | None = None
    X: NDArray[Any] | None = None
    relevance: Floats | None = None
    query: NDArray[Any] | None = None
    document: NDArray[Any] | None = None
    source: str = ""

    def __post_init__(self) -> None:
        _validate(self)

    # -- making one ------------------------------------------------------------------------

    @classmethod
    def from_arrays(
        cls,
        *,
        offsets: ArrayLike,
        rank: ArrayLike,
        click: ArrayLike,
        propensity: ArrayLike | None = None,
        prediction: ArrayLike | None = None,
        X: ArrayLike | None = None,
        relevance: ArrayLike | None = None,
        query: ArrayLike | None = None,
        document: ArrayLike | None = None,
        source: str = "",
    ) -> RankingLog:
        """A log from flat arrays, one entry per document (``query``: one per impression).

        Examples
        --------
        >>> log = RankingLog.from_arrays(
        ...     offsets=[0, 2, 5],
        ...     rank=[2, 1, 1, 2, 3],
        ...     click=[0, 1, 0, 0, 1],
        ...     propensity=[0.5, 1, 1, 0.5, 1 / 3],
        ... )
        >>> log
        RankingLog(2 impressions, 5 documents, 2 clicks, propensity)
        """
        return cls(
            offsets=as_offsets(offsets),
            rank=check.as_integers(rank, "rank", source),
            click=check.as_vector(click, "click"),
            propensity=_optional(check.as_vector, propensity, "propensity", PropensityError),
            prediction=_optional(check.as_vector, prediction, "prediction", PredictionError),
            X=_optional(as_features, X),
            relevance=_optional(check.as_vector, relevance, "relevance"),
            query=_optional(labels.as_names, query, "query"),
            document=_optional(labels.as_names, document, "document"),
            source=source,
        )

    @classmethod
    def from_frame(
        cls, frame: Any, columns: RankingColumns | None = None, source: str = ""
    ) -> RankingLog:
        """A log from any dataframe in the long format: one row per document of an impression.

        See `RankingColumns` for the columns.
        """
        from offpolicy.ranking.data import _read as reading

        return reading.from_frame(frame, columns, source)

    @classmethod
    def read(
        cls,
        path: str | Path,
        columns: RankingColumns | None = None,
        *,
        clicks: str | Path | None = None,
        relevant: float = 1.0,
        where: str | None = None,
    ) -> RankingLog:
        """A log from a file: Parquet, CSV or JSON lines in the long format; or LETOR text, with
        ``clicks``, a table of what was shown and clicked. Impressions that do not meet a condition,
        ``where``, are left out; it must be on what is the same for all of their documents."""
        from offpolicy.ranking.data import _read as reading

        how: dict[str, Any] = {"clicks": clicks, "relevant": relevant, "where": where}
        return reading.read_with(path, (), columns, **how)[0]

    # -- looking at it ---------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        counts = {
            "impression": len(self),
            "document": self.documents,
            "click": int(self.click.sum()),
        }
        facts = [f"{n:,} {unit}{'s' * (n != 1)}" for unit, n in counts.items()]
        optional = ("propensity", "prediction", "X", "relevance", "query", "document")
        facts += [name for name in optional if getattr(self, name) is not None]
        name = f"{self.source}: " if self.source else ""
        return f"RankingLog({name}{', '.join(facts)})"

    @property
    def documents(self) -> int:
        """How many documents there are, over all impressions: N."""
        return int(self.offsets[-1])

    @cached_property
    def sizes(self) -> Ints:
        """Number of candidate documents of each impression."""
        return np.diff(self.offsets)

    @cached_property
    def impression(self) -> Ints:
        """For each document, the impression it belongs to."""
        return decision_of_candidate(self.offsets)

    @cached_property
    def p(self) -> Floats:
        """The propensities; without any, as DM needs none, 1 for all documents."""
        return np.ones(self.documents) if self.propensity is None else self.propensity

    @cached_property
    def shown(self) -> NDArray[np.bool_]:
        """For each document, whether it was shown."""
        return self.rank > 0

    @cached_property
    def cluster(self) -> Ints:
        """For each impression, the number of its query: those of one query share theirs."""
        if self.query is None:
            return np.arange(len(self), dtype=np.int64)
        return labels.encode(self.query, "query", self.source)[1]

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return int(self.cluster.max()) + 1

    def fold(self, folds: int = 5) -> Ints:
        """Each impression's fold, for cross-fitting: those of one query share theirs."""
        return labels.hash_rows(self.cluster) % folds

    def place(self, row: int, column: str) -> Place:
        """Where a document is: 'clicks.csv, click, line 9, impression 2, document 0'."""
        i = int(np.searchsorted(self.offsets, row, side="right")) - 1
        part = f"impression {i}, document {row - int(self.offsets[i])}"
        return check.where(self.source, column, row)._replace(part=part)

    # -- another like it -------------------------------------------------------------------

    def replace(self, **changes: Any) -> RankingLog:
        """The same log with other columns: ``log.replace(prediction=…, propensity=…)``."""
        kept = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return RankingLog.from_arrays(**(kept | changes))

    def take(self, impressions: ArrayLike) -> RankingLog:
        """The log of these impressions (positions, or a mask), in this order."""
        which = np.arange(len(self))[np.asarray(impressions)]
        kept = dict.fromkeys(_PER_DOCUMENT, candidates_of(self.offsets, which)) | {"query": which}
        parts = {
            name: getattr(self, name)[rows]
            for name, rows in kept.items()
            if getattr(self, name) is not None
        }
        return RankingLog(offsets=offsets_of(self.sizes[which]), **parts)

    # -- as data ---------------------------------------------------------------------------

    def to_arrow(self) -> pa.Table:
        """The long format as an Arrow table: one row per document; features are f1, f2, …"""
        from offpolicy.ranking.data import _read as reading

        return reading.to_arrow(self)

    def to_parquet(self, path: str | Path) -> None:
        """Write `to_arrow` to a file, whole or not at all; `read` reads it back."""
        with replacing(Path(path)) as part:
            pq.write_table(self.to_arrow(), part, write_page_checksum=True)


def need_rankings(log: object) -> None:
    """Raise, saying how to make one, unless this is a log of rankings."""
    if not isinstance(log, RankingLog):
        raise ParameterError(
            f"A {type(log).__name__} is not a log of rankings. Make one with RankingLog.from_frame "
            f"(any dataframe), from_arrays or read.",
            column="log",
        )


def as_offsets(values: ArrayLike) -> Ints:
    """Where each impression's documents start, and the last end."""
    return check.as_offsets(values, unit="impression", parts="documents")


def as_features(X: Any) -> NDArray[Any]:
    """Features of the documents, (N, d), in the float type they have."""
    kind = getattr(X, "dtype", None)
    if kind == np.float32 and getattr(X, "ndim", 0) == 2:
        return np.ascontiguousarray(X)
    array = check.as_floats(X, "X")
    if array.ndim != 2 or not array.shape[1]:
        raise LogError(
            f"X has shape {array.shape}; it must be (N, d), one row per document.", column="X"
        )
    return array


def _optional(make: Callable[..., Any], values: Any, *arguments: Any) -> Any:
    return None if values is None else np.asarray(make(values, *arguments))


# -- checks ----------------------------------------------------------------------------------

_PER_DOCUMENT = ("rank", "click", "propensity", "prediction", "relevance", "document", "X")
_ERRORS: dict[str, type[OffpolicyError]] = {
    "propensity": PropensityError,
    "prediction": PredictionError,
}
_NOT_FINITE = "is not a finite number"


def _validate(log: RankingLog) -> None:
    N = int(as_offsets(log.offsets)[-1])
    lengths = dict.fromkeys(_PER_DOCUMENT, (N, "documents")) | {"query": (len(log), "impressions")}
    for name, length in lengths.items():
        values = getattr(log, name)
        if values is not None:
            check.check_length(values, length[0], name, length[1])
            if name in ("query", "document"):
                labels.refuse_missing(values, name, log.source)
    rank, click, p, shown = log.rank, log.click, log.propensity, log.rank > 0
    _refuse(log, "rank", rank < 0, "is below 0", "1 is the top; 0 is a candidate not shown.")
    _refuse_equal_ranks(log)
    _refuse(log, "click", (click != 0.0) & (click != 1.0), "is neither 0 nor 1")
    unseen = "is a click on a document that was not shown (rank 0)"
    _refuse(log, "click", (click == 1.0) & ~shown, unseen)
    if p is not None:
        _refuse(log, "propensity", ~np.isfinite(p), _NOT_FINITE)
        low = "is 0, or under 1e-12, but the document was shown"
        advice = (
            "The log must hold the probability with which it was examined; if that is 0 from some "
            "rank on, write rank 0 there."
        )
        _refuse(log, "propensity", shown & (p < SMALLEST_EXAMINATION), low, advice)
        advice = "If these are inverse propensities, or percentages, convert them first."
        _refuse(log, "propensity", shown & (p > 1.0), "is above 1", advice)
        hidden = "is the propensity of a document that was not shown (rank 0); it must be 0"
        _refuse(log, "propensity", ~shown & (p != 0.0), hidden)
    advice = "Turn grades into 0 and 1 first, say relevance >= 1."
    for name, values in (("prediction", log.prediction), ("relevance", log.relevance)):
        if values is not None:
            outside = ~((values >= 0.0) & (values <= 1.0))
            _refuse(log, name, outside, "is not from 0 to 1", advice * (name == "relevance"))
    if log.X is not None:
        bad = ~np.isfinite(as_features(log.X))
        if bad.any():
            k = int(np.argwhere(bad)[0, 1])
            advice = "Fill such values in or leave these impressions out."
            _refuse(log, f"feature {k + 1}", bad.any(axis=1), _NOT_FINITE, advice, log.X[:, k])


def _refuse_equal_ranks(log: RankingLog) -> None:
    order = np.lexsort((log.rank, log.impression))
    ranks, impressions = log.rank[order], log.impression[order]
    twice = (np.diff(ranks) == 0) & (np.diff(impressions) == 0) & (ranks[1:] > 0)
    if twice.any():
        first, row = order[np.argmax(twice) :][:2].tolist()
        raise LogError(
            f"{log.rank[row]} is the rank of document {first - log.offsets[log.impression[first]]} "
            f"too ({int(twice.sum()):,} of {log.documents:,} are like this). Two documents of one "
            f"impression cannot stand in the same place; are these two impressions?",
            log.place(row, "rank"),
        )


def _refuse(
    log: RankingLog,
    column: str,
    bad: NDArray[np.bool_],
    wrong: str,
    advice: str = "",
    values: NDArray[Any] | None = None,
) -> None:
    """Raise if any document of the impressions is bad, naming the first and the number of them."""
    if bad.any():
        row = int(np.argmax(bad))
        value = getattr(log, column)[row] if values is None else values[row]
        count = f"({int(bad.sum()):,} of {len(bad):,} documents)"
        sentence = f"{value} {wrong} {count}. {advice}".rstrip()
        raise _ERRORS.get(column, LogError)(sentence, log.place(row, column))
