"""`RankingLog`: rankings that were shown, and what was clicked, in one ragged layout.

One *impression* is one ranking that was shown for a query; its documents are
``offsets[i] : offsets[i + 1]`` of every per-document array, in any order: ``rank`` says where each
stood. All validation happens when a log is made, once.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core import validation as check
from offpolicy._core.files import replacing
from offpolicy._core.ragged import candidates_of, decision_of_candidate, offsets_of
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import LogError, OffpolicyError, Place, PredictionError, PropensityError
from offpolicy.logs import Encoded, labels

if TYPE_CHECKING:
    import pyarrow as pa

    from offpolicy.logs.formats.letor import Queries
    from offpolicy.ranking.data._read import RankingColumns

SMALLEST_EXAMINATION = 1e-12
"""Nobody examines that rarely; the square of its inverse is still a number."""


@dataclass(frozen=True, eq=False, repr=False)
class RankingLog:
    """Impressions: the candidate documents of a query, where each was shown, and the clicks.

    Make one with `from_arrays`, `from_queries`, `from_frame` or `read`. Arrays of the right type
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
            propensity=_optional(propensity, "propensity", PropensityError),
            prediction=_optional(prediction, "prediction", PredictionError),
            X=None if X is None else as_features(X),
            relevance=_optional(relevance, "relevance"),
            query=_optional_labels(query, "query"),
            document=_optional_labels(document, "document"),
            source=source,
        )

    @classmethod
    def from_queries(
        cls,
        queries: Queries,
        *,
        rank: ArrayLike,
        click: ArrayLike,
        propensity: ArrayLike | None = None,
        prediction: ArrayLike | None = None,
        relevant: float = 1.0,
        source: str = "",
    ) -> RankingLog:
        """One impression for every query of a LETOR set (`offpolicy.datasets.letor`).

        What is at least ``relevant`` there is relevant.
        """
        return cls.from_arrays(
            offsets=queries.offsets,
            rank=rank,
            click=click,
            propensity=propensity,
            prediction=prediction,
            X=queries.X,
            relevance=(queries.relevance >= relevant).astype(np.float64),
            query=queries.qid,
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
    ) -> RankingLog:
        """A log from a file: Parquet, CSV or JSON lines in the long format; or LETOR text, with
        ``clicks``, a table of what was shown and clicked."""
        from offpolicy.ranking.data import _read as reading

        return reading.read_with(path, (), columns, clicks=clicks, relevant=relevant)[0]

    # -- looking at it ---------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        extras = [
            name
            for name in ("propensity", "prediction", "X", "relevance", "query", "document")
            if getattr(self, name) is not None
        ]
        name = f"{self.source}: " if self.source else ""
        facts = [
            f"{len(self):,} {'impression' if len(self) == 1 else 'impressions'}",
            f"{self.documents:,} {'document' if self.documents == 1 else 'documents'}",
            f"{int(self.click.sum()):,} {'click' if self.click.sum() == 1 else 'clicks'}",
        ]
        return f"RankingLog({name}{', '.join([*facts, *extras])})"

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
    def shown(self) -> NDArray[np.bool_]:
        """For each document, whether it was shown."""
        return self.rank > 0

    @cached_property
    def cluster(self) -> Ints:
        """For each impression, the number of its query: those of one query share theirs."""
        if self.query is None:
            return np.arange(len(self), dtype=np.int64)
        return labels.encode(self.query, "query", self.source)[1]

    def fold(self, folds: int = 5) -> Ints:
        """Each impression's fold, for cross-fitting: those of one query share theirs."""
        return labels.hash_rows(self.cluster) % folds

    def per_document(
        self, values: ArrayLike, column: str, error: type[OffpolicyError] = LogError
    ) -> Floats:
        """Finite numbers, one for every document."""
        flat = check.as_vector(values, column, error)
        check.check_length(flat, self.documents, column, "documents", error)
        _refuse(self, ~np.isfinite(flat), flat, column, "is not a finite number.", error)
        return flat

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
        rows = candidates_of(self.offsets, which)
        sizes = self.sizes[which]

        def taken(values: NDArray[Any] | None) -> Any:
            return None if values is None else values[rows]

        return RankingLog(
            offsets=offsets_of(sizes),
            rank=self.rank[rows],
            click=self.click[rows],
            propensity=taken(self.propensity),
            prediction=taken(self.prediction),
            X=taken(self.X),
            relevance=taken(self.relevance),
            query=None if self.query is None else self.query[which],
            document=taken(self.document),
        )

    # -- as data ---------------------------------------------------------------------------

    def to_frame(self) -> pa.Table:
        """The long format as an Arrow table: one row per document; features are f1, f2, …"""
        from offpolicy.ranking.data import _read as reading

        return reading.to_frame(self)

    def to_parquet(self, path: str | Path) -> None:
        """Write `to_frame` to a file, whole or not at all; `read` reads it back."""
        import pyarrow.parquet as pq

        with replacing(Path(path)) as part:
            pq.write_table(self.to_frame(), part, write_page_checksum=True)


def as_offsets(values: ArrayLike) -> Ints:
    """Where each impression's documents start, and the last end."""
    return check.as_offsets(values, unit="impression", parts="documents")


def as_features(X: Any) -> NDArray[Any]:
    """(N, d), in the float type it has."""
    kind = getattr(X, "dtype", None)
    if kind == np.float32 and getattr(X, "ndim", 0) == 2:
        return np.ascontiguousarray(X)
    array = check.as_floats(X, "X")
    if array.ndim != 2 or not array.shape[1]:
        raise LogError(
            f"X has shape {array.shape}; it must be (N, d), one row per document.", column="X"
        )
    return array


def _optional(
    values: ArrayLike | None, column: str, error: type[OffpolicyError] = LogError
) -> Floats | None:
    return None if values is None else check.as_vector(values, column, error)


def _optional_labels(values: Any, column: str) -> NDArray[Any] | None:
    if values is None:
        return None
    names = labels.as_names(values, column)
    return np.asarray(names.names)[names.codes] if isinstance(names, Encoded) else names


# -- checks ----------------------------------------------------------------------------------


def _validate(log: RankingLog) -> None:
    N = int(as_offsets(log.offsets)[-1])
    for name in ("rank", "click", "propensity", "prediction", "relevance", "document", "X"):
        values = getattr(log, name)
        if values is not None:
            check.check_length(values, N, name, "documents")
    if log.query is not None:
        check.check_length(log.query, len(log), "query", "impressions")
        labels.refuse_missing(log.query, "query", log.source)
    if log.document is not None:
        labels.refuse_missing(log.document, "document", log.source)
    _check_ranks(log)
    click = log.click
    _refuse(log, ~((click == 0.0) | (click == 1.0)), click, "click", "is neither 0 nor 1.")
    unseen = (click == 1.0) & (log.rank == 0)
    wrong = "is a click on a document that was not shown (rank 0)."
    _refuse(log, unseen, click, "click", wrong)
    if log.propensity is not None:
        _check_propensities(log, log.propensity)
    for name, error in (("prediction", PredictionError), ("relevance", LogError)):
        values = getattr(log, name)
        if values is not None:
            outside = ~((values >= 0.0) & (values <= 1.0))
            _refuse(log, outside, values, name, _OUTSIDE[name], error)
    if log.X is not None:
        if log.X.ndim != 2:
            raise LogError(
                f"X has shape {log.X.shape}; it must be (N, d), one row per document.", column="X"
            )
        if not np.isfinite(log.X).all():
            finite = np.isfinite(log.X)
            row, column = (int(at) for at in np.argwhere(~finite)[0])
            raise LogError(
                f"{log.X[row, column]} "
                f"({int((~finite.all(axis=1)).sum()):,} of {N:,} documents have features that are "
                f"missing or not finite). Fill them in or leave these impressions out.",
                log.place(row, f"feature {column + 1}"),
            )


_OUTSIDE = {
    "prediction": "is not a probability: it must be from 0 to 1.",
    "relevance": "is not from 0 to 1. Turn grades into 0 and 1 first, say relevance >= 1.",
}


def _check_ranks(log: RankingLog) -> None:
    wrong = "is below 0. Ranks count from 1; 0 is a candidate that was not shown."
    _refuse(log, log.rank < 0, log.rank, "rank", wrong)
    order = np.lexsort((log.rank, log.impression))
    ranks, impressions = log.rank[order], log.impression[order]
    twice = (np.diff(ranks) == 0) & (np.diff(impressions) == 0) & (ranks[1:] > 0)
    if twice.any():
        at = int(np.argmax(twice))
        row, first = int(order[at + 1]), int(order[at])
        raise LogError(
            f"{log.rank[row]} is the rank of document {first - int(log.offsets[impressions[at]])} "
            f"too ({int(twice.sum()):,} of {log.documents:,} are like this). Two documents of one "
            f"impression cannot stand in the same place; are these two impressions?",
            log.place(row, "rank"),
        )


def _check_propensities(log: RankingLog, p: Floats) -> None:
    _refuse(log, ~np.isfinite(p), p, "propensity", "is not a finite number.", PropensityError)
    shown = log.rank > 0
    low = shown & (p < SMALLEST_EXAMINATION)
    wrong = (
        "is 0, or under 1e-12, but the document was shown. The log must hold the probability with "
        "which it was examined; if that is 0 from some rank on, write rank 0 there."
    )
    _refuse(log, low, p, "propensity", wrong, PropensityError)
    wrong = "is above 1. If these are inverse propensities, or percentages, convert them first."
    _refuse(log, shown & (p > 1.0), p, "propensity", wrong, PropensityError)
    wrong = "is the propensity of a document that was not shown (rank 0); it must be 0."
    _refuse(log, ~shown & (p != 0.0), p, "propensity", wrong, PropensityError)


def _refuse(
    log: RankingLog,
    bad: NDArray[np.bool_],
    values: NDArray[Any],
    column: str,
    wrong: str,
    error: type[OffpolicyError] = LogError,
) -> None:
    """Raise if any document is bad, naming the first and the number of them."""
    if bad.any():
        row = int(np.argmax(bad))
        sentence, dot, rest = wrong.partition(". ")
        count = f"({int(bad.sum()):,} of {len(bad):,} documents)"
        raise error(
            f"{values[row]} {sentence.rstrip('.')} {count}.{' ' + rest if dot else ''}",
            log.place(row, column),
        )
