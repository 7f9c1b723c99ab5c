"""Reading and writing ranking logs: the long format, and LETOR text with a table of clicks.

In the long format every row is one document of one impression. The rows of an impression follow
each other. A document that is listed with rank 0 was a candidate, but was not shown.

A table of clicks beside LETOR text has one row for each *shown* document: ``impression``, ``query``
(the qid), ``document`` (its place among the lines of its query, from 1 on), ``rank``, ``click``,
and, if known, ``propensity`` and ``prediction``. All other documents of the query are candidates
that were not shown; a prediction must be of all documents, so it is only for tables that list all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from offpolicy._core import validation as check
from offpolicy._core.late import pa
from offpolicy._core.ragged import (
    candidates_of,
    decision_of_candidate,
    offsets_of,
    position_in_decision,
)
from offpolicy._core.types import Floats, Ints
from offpolicy._core.validation import Copy, RowsOfFiles
from offpolicy.errors import LogError, Place
from offpolicy.logs import (
    as_table,
    column_of,
    labels,
    matching_columns,
    missing_column,
    read_plain,
    source_of_kept,
)
from offpolicy.ranking.data._log import RankingLog

if TYPE_CHECKING:
    from offpolicy.logs.expressions import Expression
    from offpolicy.logs.formats.letor import Queries

_NUMBERS = ("click", "propensity", "prediction", "relevance")
_NEEDED = ("rank", "click")
_ALSO = {"query": "qid"}
_FEATURE = re.compile(r"f\d+")


@dataclass(frozen=True, slots=True)
class RankingColumns:
    """Names of the columns. One left out is looked for under the name of its role (``query`` also
    under "qid"); one that is "" is not used even if it is there.

    Without ``impression``, every query is one impression. ``features`` are names or patterns
    (``f*``), numbers in them counting as numbers; left out, they are f1, f2, … if there are any.
    """

    impression: str | None = None
    query: str | None = None
    document: str | None = None
    rank: str | None = None
    click: str | None = None
    propensity: str | None = None
    prediction: str | None = None
    relevance: str | None = None
    features: Sequence[str] | None = None

    @property
    def names(self) -> frozenset[str]:
        """The columns that hold names, which are compared and never added up, if they are there."""
        asked = [(role, getattr(self, role)) for role in ("impression", "query", "document")]
        also = [_ALSO[role] for role, name in asked if name is None and role in _ALSO]
        return frozenset([*also, *(name or role for role, name in asked)])

    def roles_in(self, names: Sequence[str], source: str) -> dict[str, str]:
        """The column of every role that has one."""
        roles: dict[str, str] = {}
        for role in [field.name for field in fields(self) if field.name != "features"]:
            asked, needed = getattr(self, role), role in _NEEDED
            name = column_of(role, asked, names, source, needed=needed, also=_ALSO.get(role))
            if name is not None:
                roles[role] = name
        if "impression" not in roles and "query" not in roles:
            raise missing_column(names, "impression", "impression", source)
        return roles

    def feature_columns(self, names: Sequence[str], taken: set[str], source: str) -> list[str]:
        """The columns of the features, in order."""
        if self.features is None:
            free = (name for name in names if name not in taken and _FEATURE.fullmatch(name))
            return sorted(free, key=_natural)
        return matching_columns(self.features, "features", names, taken, source, _natural)


class RankingNames(TypedDict, total=False):
    """The fields of `RankingColumns` as keywords of a verb."""

    impression: str | None
    query: str | None
    document: str | None
    rank: str | None
    click: str | None
    propensity: str | None
    prediction: str | None
    relevance: str | None
    features: Sequence[str] | None


def as_rankings(
    log: Any, names: RankingNames, verb: Callable[..., Any], ranker: Any = None
) -> tuple[RankingLog, Any]:
    """What a verb is asked about: a log of rankings as it is, or one read from a frame or a file;
    with the ranker, whose scores may be a column of it."""
    from offpolicy.logs.files import check_names

    made = isinstance(log, RankingLog)
    check_names(names, RankingColumns, verb, made)
    if made:
        return log, ranker
    columns, scores = RankingColumns(**names), [ranker] if isinstance(ranker, str) else []
    if isinstance(log, (str, Path)):
        read, numbers = read_with(log, scores, columns)
    else:
        table = as_table(log)
        read, rows = from_frame(table, columns), _Rows(table, {}, "")
        numbers = {name: rows.numbers(name) for name in scores}
    return read, numbers[ranker] if scores else ranker


def from_frame(frame: Any, columns: RankingColumns | None, source: str = "") -> RankingLog:
    """See `RankingLog.from_frame`."""
    columns = columns or RankingColumns()
    rows = _Rows.of(as_table(frame), columns, source)
    offsets, query = rows.impressions()
    roles = {role: rows.column(role) for role in (*_NUMBERS, "document") if role in rows.roles}
    taken = set(rows.roles.values())
    features = columns.feature_columns(rows.table.column_names, taken, source)
    return RankingLog.from_arrays(
        offsets=offsets,
        query=query,
        rank=rows.integers("rank"),
        X=rows.features(features) if features else None,
        source=source,
        **roles,
    )


def read_with(
    path: str | Path,
    names: Sequence[str],
    columns: RankingColumns | None = None,
    *,
    clicks: str | Path | None = None,
    relevant: float = 1.0,
    where: str | Expression | None = None,
) -> tuple[RankingLog, dict[str, Floats]]:
    """The log of a file with clicks, and other columns of numbers, one for every document.

    With LETOR text, f7 is its feature 7, unless the table of clicks has a column of this name.
    Impressions that do not meet a condition on the table, ``where``, are left out.
    """
    from offpolicy.logs.files import read_table

    file = Path(path if clicks is None else clicks)
    columns = columns or RankingColumns()
    table = read_table(file, columns.names)
    source = source_of(file, len(table))
    if where is not None:
        table, source = _meeting(where, table, columns, source)
    if clicks is None:
        log = from_frame(table, columns, source)
        rows = _Rows(table, {}, source)
        return log, {name: rows.numbers(name) for name in names}
    from offpolicy.datasets import letor

    rows = _Rows.of(table, columns, source)
    log, documents = _scattered_log(letor(path), rows, relevant)
    assert log.X is not None
    features = {f"f{k + 1}": log.X[:, k].astype(np.float64) for k in range(log.X.shape[1])}
    return log, {
        name: features[name]
        if name in features and name not in table.column_names
        else _scattered(rows, name, documents, log.documents)
        for name in names
    }


def _meeting(
    where: str | Expression, table: pa.Table, columns: RankingColumns, source: str
) -> tuple[pa.Table, str]:
    """The impressions of which every row meets a condition; some rows of one are no ranking."""
    from offpolicy.logs.files import as_expression, kept_rows

    condition = as_expression(where)
    assert condition is not None
    rows = kept_rows(table, condition, source)
    bounds, _ = _Rows.of(table, columns, source).impressions()
    meets = np.zeros(len(table), dtype=bool)
    meets[rows] = True
    share = np.add.reduceat(meets, bounds[:-1], dtype=np.int64) / np.diff(bounds)
    torn = (share > 0.0) & (share < 1.0)
    if torn.any():
        row = int(bounds[np.argmax(torn)])
        raise LogError(
            f"{condition.name} keeps some documents of this impression and not the others "
            f"({check.count_of(torn).replace('rows', 'impressions')} are like this). A condition "
            f"must be on what is the same for all documents of an impression.",
            check.where(source, "", row),
        )
    return table.take(rows), source_of_kept(rows, source)


def _scattered_log(queries: Queries, rows: _Rows, relevant: float) -> tuple[RankingLog, Ints]:
    """The log with clicks, and which of its documents each row of the table is."""
    for role in ("query", "document"):
        if role not in rows.roles:
            raise missing_column(rows.table.column_names, role, role, rows.source)
    bounds, qid = rows.impressions()
    assert qid is not None
    which = _known_queries(queries, qid, bounds, rows)
    lengths = np.diff(queries.offsets)[which]
    offsets = offsets_of(lengths)
    place = rows.integers("document")
    impression = decision_of_candidate(bounds)
    outside = (place < 1) | (place > lengths[impression])
    sentence = "{place}, but query {query} has {most} documents, counted from 1."
    of_query, most = qid[impression], lengths[impression]
    rows.refuse("document", outside, sentence, place=place, query=of_query, most=most)
    documents = offsets[impression] + place - 1
    twice = np.ones(len(documents), dtype=bool)
    twice[np.unique(documents, return_index=True)[1]] = False
    sentence = "document {place} is listed twice in one impression."
    rows.refuse("document", twice, sentence, place=place)
    roles = [role for role in ("rank", "click", "propensity", "prediction") if role in rows.roles]
    # Messages count rows in the table of clicks, so what is wrong there is found there first.
    shown: dict[str, Any] = {role: rows.numbers(role) for role in roles}
    RankingLog.from_arrays(offsets=bounds, source=rows.source, **shown)
    size = int(offsets[-1])
    every: dict[str, Any] = {
        role: _scattered(rows, role, documents, size, partly=role != "prediction") for role in roles
    }
    judged = candidates_of(queries.offsets, which)
    log = RankingLog.from_arrays(
        offsets=offsets,
        query=qid,
        X=queries.X[judged],
        relevance=(queries.relevance[judged] >= relevant).astype(np.float64),
        document=position_in_decision(offsets) + 1,
        **every,
    )
    return log, documents


def to_arrow(log: RankingLog) -> pa.Table:
    """See `RankingLog.to_arrow`."""
    columns: dict[str, Any] = {"impression": log.impression}
    if log.query is not None:
        columns["query"] = log.query[log.impression]
    for role in ("document", "rank", *_NUMBERS):
        values = getattr(log, role)
        if values is not None:
            columns[role] = values
    if log.X is not None:
        columns |= {f"f{k + 1}": log.X[:, k] for k in range(log.X.shape[1])}
    return pa.table(columns)


# -- parts -----------------------------------------------------------------------------------


def source_of(path: Path, rows: int) -> str:
    """The name of a file with clicks; in text whose rows are its lines, rows are named by these."""
    from offpolicy.logs.files import kind_of
    from offpolicy.logs.formats import numbered

    kind = kind_of(path)
    first = 2 if kind == "csv" else 1
    if not kind or sum(1 for _ in numbered(path)) != rows + first - 1:
        return str(path)
    copy = Copy.of(str(path), lambda row: Place(str(path), row=row + first, unit="line"))
    return RowsOfFiles.of([(0, 0, copy)])


class _Rows(NamedTuple):
    """A frame, the column of every role that has one, and where it is from."""

    table: pa.Table
    roles: dict[str, str]
    source: str

    @classmethod
    def of(cls, table: pa.Table, columns: RankingColumns, source: str) -> _Rows:
        if not len(table):
            raise LogError("there is not one document.", source, column="impression")
        return cls(table, columns.roles_in(table.column_names, source), source)

    def name(self, role: str) -> str:
        """Of the role's column; any other name is a column's own."""
        return self.roles.get(role, role)

    def column(self, role: str) -> NDArray[Any]:
        name = self.name(role)
        if name not in self.table.column_names:
            raise missing_column(self.table.column_names, name, name, self.source)
        return np.asarray(read_plain(self.table, name, "it", self.source))

    def numbers(self, role: str) -> Floats:
        numbers = check.as_vector(self.column(role), self.name(role))
        check.check_finite(numbers, self.name(role), self.source)
        return numbers

    def integers(self, role: str) -> Ints:
        return check.as_integers(self.column(role), self.name(role), self.source)

    def labels(self, role: str) -> NDArray[Any]:
        """Names; in CSV a missing one is empty text."""
        column = self.column(role)
        if column.dtype.kind in "OU":
            sentence = "the label is missing ({count}). Fill it in or leave these rows out."
            self.refuse(role, np.asarray(column == ""), sentence)
        return column

    def features(self, names: Sequence[str]) -> NDArray[Any]:
        """(N, d), float32 only if all columns are."""
        for name in names:
            self.numbers(name)
        X = np.stack([self.column(name) for name in names], axis=1)
        return X if X.dtype == np.float32 else X.astype(np.float64)

    def refuse(self, role: str, bad: NDArray[np.bool_], sentence: str, **values: Any) -> None:
        check.refuse(bad, sentence, self.name(role), self.source, **values)

    def impressions(self) -> tuple[Ints, NDArray[Any] | None]:
        """Where each impression begins, and the label of its query."""
        role = "impression" if "impression" in self.roles else "query"
        column = self.labels(role)
        codes = labels.encode(column, self.name(role), self.source)[1]
        begins = np.flatnonzero(np.diff(codes, prepend=-1))
        first = np.unique(codes[begins], return_index=True)[1]
        if len(first) < len(begins):
            back = np.delete(begins, first)
            row = int(back[0])
            began = check.where(self.source, "", np.argmax(codes == codes[row]))._replace(file="")
            raise LogError(
                f"{column[row : row + 1].tolist()[0]!r} comes back after rows of another; it began "
                f"at {began} ({len(back):,} are like this). The documents of an impression must "
                f'follow each other: sort by "{self.name(role)}", or give every impression a label '
                f"of its own.",
                check.where(self.source, self.name(role), row),
            )
        offsets = np.append(begins, len(codes)).astype(np.int64)
        if "query" not in self.roles:
            return offsets, None
        query = self.labels("query")
        of_query = labels.encode(query, self.name("query"), self.source)[1]
        other = of_query != np.repeat(of_query[begins], np.diff(offsets))
        if other.any():
            sentence = (
                "{query!r}, but the impression began with another query. All documents of an "
                "impression are of one query."
            )
            self.refuse("query", other, sentence, query=query.astype(object))
        return offsets, query[begins]


def _known_queries(queries: Queries, qid: NDArray[Any], bounds: Ints, rows: _Rows) -> Ints:
    """Which query of the LETOR text each impression is of."""
    wanted = check.as_integers(qid, rows.name("query"), rows.source)
    place = {known: k for k, known in enumerate(queries.qid.tolist())}
    which = np.array([place.get(label, -1) for label in wanted.tolist()])
    of_row = decision_of_candidate(bounds)
    sentence = "there is no query {query} in the LETOR text."
    rows.refuse("query", which[of_row] < 0, sentence, query=wanted[of_row])
    return which


def _scattered(
    rows: _Rows, role: str, documents: Ints, size: int, *, partly: bool = False
) -> Floats:
    """A column in the order of the impressions' documents; unless ``partly``, of all of them."""
    flat, numbers = np.zeros(size), rows.numbers(role)
    if len(documents) < size and not partly:
        raise LogError(
            f"it must be known of every document, but the table lists {len(documents):,} of "
            f"{size:,}. List all, with rank 0 for those that were not shown.",
            check.where(rows.source, rows.name(role), 0),
        )
    flat[documents] = numbers
    return flat


def _natural(name: str) -> list[tuple[int, int, str]]:
    """By what feature columns of documents are sorted: f2 before f10."""
    return [
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in re.split(r"(\d+)", name)
        if part
    ]
