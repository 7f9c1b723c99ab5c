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
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offpolicy._core import validation as check
from offpolicy._core.ragged import candidates_of, offsets_of, position_in_decision
from offpolicy._core.types import Floats, Ints
from offpolicy._core.validation import Copy, RowsOfFiles, where
from offpolicy.errors import LogError, Place
from offpolicy.logs import as_table, column_of, labels, matching, missing_column, read_plain
from offpolicy.ranking.data._log import RankingLog

if TYPE_CHECKING:
    import pyarrow as pa

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

    def found(self, names: Sequence[str], source: str) -> dict[str, str]:
        """The column of every role that has one."""
        found: dict[str, str] = {}
        for role in [field.name for field in fields(self) if field.name != "features"]:
            given, needed = getattr(self, role), role in _NEEDED
            name = column_of(role, given, names, source, needed=needed, also=_ALSO.get(role))
            if name is not None:
                found[role] = name
        if "impression" not in found and "query" not in found:
            raise missing_column(names, "impression", "impression", source)
        return found

    def feature_columns(self, names: Sequence[str], taken: set[str], source: str) -> list[str]:
        """The columns of the features, in order."""
        if self.features is None:
            free = (name for name in names if name not in taken and _FEATURE.fullmatch(name))
            return sorted(free, key=_natural)
        return matching(self.features, "features", names, taken, source, _natural)


def from_frame(frame: Any, columns: RankingColumns | None, source: str = "") -> RankingLog:
    """See `RankingLog.from_frame`."""
    table = as_table(frame)
    columns = columns or RankingColumns()
    if not len(table):
        raise LogError(f"{source + ': ' if source else ''}there is not one document.")
    names = table.column_names
    found = columns.found(names, source)
    offsets, query = _impressions(table, found, source)
    roles: dict[str, Any] = {
        role: _column(table, found[role], source) for role in _NUMBERS if role in found
    }
    roles["rank"] = check.as_integers(_column(table, found["rank"], source), found["rank"], source)
    if "document" in found:
        roles["document"] = _column(table, found["document"], source)
    features = columns.feature_columns(names, set(found.values()), source)
    if features:
        roles["X"] = _features(table, features, source)
    return RankingLog.from_arrays(offsets=offsets, query=query, source=source, **roles)


def read_with(
    path: str | Path,
    names: Sequence[str],
    columns: RankingColumns | None = None,
    *,
    clicks: str | Path | None = None,
    relevant: float = 1.0,
) -> tuple[RankingLog, dict[str, Floats]]:
    """The log of a file, and other columns of numbers, one for every document of the log.

    With LETOR text, f7 is its feature 7, unless the table of clicks has a column of this name.
    """
    from offpolicy.logs.files import read_table

    file = Path(path if clicks is None else clicks)
    table = read_table(file)
    source = source_of(file, len(table))
    if clicks is None:
        log, at = from_frame(table, columns, source), None
    else:
        from offpolicy.datasets import letor

        log, at = _scattered_log(letor(path), table, columns, source, relevant)
    return log, {name: _numbers(table, name, source, log, at) for name in names}


def _scattered_log(
    queries: Queries,
    table: pa.Table,
    columns: RankingColumns | None,
    source: str,
    relevant: float,
) -> tuple[RankingLog, Ints]:
    """The log, and which of its documents each row of the table is."""
    if not len(table):
        raise LogError(f"{source + ': ' if source else ''}there is not one shown document.")
    columns = columns or RankingColumns()
    found = columns.found(table.column_names, source)
    for role in ("query", "document"):
        if role not in found:
            raise missing_column(table.column_names, role, role, source)
    bounds, qid = _impressions(table, found, source)
    assert qid is not None
    which = _known_queries(queries, qid, bounds, found["query"], source)
    lengths = np.diff(queries.offsets)[which]
    offsets = offsets_of(lengths.tolist())
    place = check.as_integers(_column(table, found["document"], source), found["document"], source)
    impression = np.repeat(np.arange(len(which)), np.diff(bounds))
    outside = (place < 1) | (place > lengths[impression])
    if outside.any():
        row = int(np.argmax(outside))
        raise LogError(
            f"{place[row]}, but query "
            f"{qid[impression[row]]} has {lengths[impression[row]]} documents, counted from 1.",
            where(source, found["document"], row),
        )
    at = offsets[impression] + place - 1
    order = np.argsort(at, kind="stable")
    if (twice := np.diff(at[order]) == 0).any():
        row = int(order[1:][twice].min())
        raise LogError(
            f"document {place[row]} is listed twice in one impression.",
            where(source, found["document"], row),
        )
    rows = candidates_of(queries.offsets, which)
    roles: dict[str, Any] = {}
    for role in ("rank", "click", "propensity", "prediction"):
        if role not in found:
            continue
        values = _column(table, found[role], source)
        if role == "prediction":
            _refuse_some(at, len(rows), found[role], source, "a prediction")
        roles[role] = _scattered(values, at, len(rows), found[role], source)
    # Messages count rows in the table of clicks, so what is wrong there is found there first.
    shown = {name: values[at] for name, values in roles.items()}
    RankingLog.from_arrays(offsets=bounds, source=source, **shown)
    log = RankingLog.from_arrays(
        offsets=offsets,
        query=qid,
        X=queries.X[rows],
        relevance=(queries.relevance[rows] >= relevant).astype(np.float64),
        document=position_in_decision(offsets) + 1,
        **roles,
    )
    return log, at


def to_frame(log: RankingLog) -> pa.Table:
    """See `RankingLog.to_frame`."""
    import pyarrow as pa

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
    """The file's name; in text whose rows are its lines, rows are named by their lines."""
    from offpolicy.logs.files import kind_of
    from offpolicy.logs.formats import numbered

    kind = kind_of(path)
    if not kind:
        return str(path)
    first = 2 if kind == "csv" else 1
    if sum(1 for _ in numbered(path)) != rows + first - 1:
        return str(path)
    copy = Copy.of(str(path), lambda row: Place(str(path), row=row + first, unit="line"))
    return RowsOfFiles.of([(0, 0, copy)])


def _impressions(
    table: pa.Table, found: dict[str, str], source: str
) -> tuple[Ints, NDArray[Any] | None]:
    """Where each impression begins, and the label of its query."""
    name = found.get("impression", found.get("query", ""))
    column = _labels(table, name, source)
    codes = labels.encode(column, name, source)[1]
    begins = np.flatnonzero(np.concatenate([[True], np.diff(codes) != 0]))
    seen, first = np.unique(codes[begins], return_index=True)
    if len(seen) < len(begins):
        back = np.ones(len(begins), dtype=bool)
        back[first] = False
        row = int(begins[back].min())
        begun = begins[first][np.searchsorted(seen, codes[row])]
        began = where(source, "", begun)._replace(file="")
        raise LogError(
            f"{_shown(column[row])} comes back after rows of another; it began at {began} "
            f"({int(back.sum()):,} are like this). The documents of an impression must follow each "
            f'other: sort by "{name}", or give every impression a label of its own.',
            where(source, name, row),
        )
    offsets = np.append(begins, len(codes)).astype(np.int64)
    if "query" not in found:
        return offsets, None
    query = _labels(table, found["query"], source)
    of_query = labels.encode(query, found["query"], source)[1]
    apart = of_query != np.repeat(of_query[begins], np.diff(offsets))
    if apart.any():
        row = int(np.argmax(apart))
        raise LogError(
            f"{_shown(query[row])}, but the impression began "
            f"with another query. All documents of an impression are of one query.",
            where(source, found["query"], row),
        )
    return offsets, query[begins]


def _labels(table: pa.Table, name: str, source: str) -> NDArray[Any]:
    """A column of names; in CSV a missing one is empty text."""
    column = _column(table, name, source)
    if column.dtype.kind in "OU":
        empty = np.asarray(column == "")
        if empty.any():
            row = int(np.argmax(empty))
            raise LogError(
                f"the label is missing ({int(empty.sum()):,} of "
                f"{len(column):,} rows). Fill it in or leave these rows out.",
                where(source, name, row),
            )
    return column


def _shown(label: Any) -> str:
    return repr(label.item() if isinstance(label, np.generic) else label)


def _known_queries(
    queries: Queries, qid: NDArray[Any], bounds: Ints, column: str, source: str
) -> Ints:
    """Which query of the LETOR text each impression is of."""
    wanted = check.as_integers(qid, column, source)
    order = np.argsort(queries.qid)
    at = np.minimum(np.searchsorted(queries.qid[order], wanted), len(order) - 1)
    unknown = queries.qid[order][at] != wanted
    if unknown.any():
        i = int(np.argmax(unknown))
        raise LogError(
            f"there is no query {wanted[i]} in the LETOR text.",
            where(source, column, int(bounds[i])),
        )
    return np.asarray(order[at])


def _refuse_some(at: Ints, documents: int, name: str, source: str, what: str) -> None:
    if len(at) < documents:
        raise LogError(
            f"{what} must be known of every document, but the table lists {len(at):,} of "
            f"{documents:,}. List all, with rank 0 for those that were not shown.",
            where(source, name, 0),
        )


def _numbers(table: pa.Table, name: str, source: str, log: RankingLog, at: Ints | None) -> Floats:
    """A column of finite numbers in the order of the log's documents."""
    names = table.column_names
    if name not in names and at is not None and log.X is not None and _FEATURE.fullmatch(name):
        k = int(name[1:])
        if 1 <= k <= log.X.shape[1]:
            return np.asarray(log.X[:, k - 1], dtype=np.float64)
    if name not in names:
        raise missing_column(names, name, name, source)
    values = _column(table, name, source)
    if at is not None:
        _refuse_some(at, log.documents, name, source, "it")
        return _scattered(values, at, log.documents, name, source)
    numbers = check.as_vector(values, name)
    check.check_finite(numbers, name, source)
    return numbers


def _scattered(values: NDArray[Any], at: Ints, size: int, name: str, source: str) -> NDArray[Any]:
    numbers = check.as_floats(values, name)
    check.check_finite(numbers, name, source)
    flat = np.zeros(size)
    flat[at] = numbers
    return flat


def _column(table: pa.Table, name: str, source: str) -> NDArray[Any]:
    return np.asarray(read_plain(table, name, "it", source))


def _features(table: pa.Table, names: list[str], source: str) -> NDArray[Any]:
    """(N, d), float32 only if all columns are."""
    parts = [_column(table, name, source) for name in names]
    narrow = all(part.dtype == np.float32 for part in parts)
    X = np.empty((len(table), len(names)), np.float32 if narrow else np.float64)
    for k, (name, part) in enumerate(zip(names, parts, strict=True)):
        numbers = part if narrow else check.as_floats(part, name)
        if not np.isfinite(numbers).all():
            check.check_finite(check.as_floats(part, name), name, source)
        X[:, k] = numbers
    return X


def _natural(name: str) -> list[tuple[int, int, str]]:
    """f2 before f10."""
    return [
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in re.split(r"(\d+)", name)
        if part
    ]
