"""Logs on a Spark cluster: executors run the kernel on their own rows and send back sums.

A log has an order, a Spark DataFrame has not. Rows that come from files are ordered by file and
row there, others by partition and row in it. One job counts the rows of every piece, a piece being
neighbouring rows of one partition, so that each row's position in the log is known wherever it is
worked on. With it come the same sample, the same folds and hence the same numbers as anywhere else.
Besides the plan's sample, at most 200,000 decisions in whole pieces, no row leaves the executors.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlparse

import numpy as np
from numpy.typing import NDArray

from offpolicy import errors
from offpolicy._core.checkpoint import decode, encode
from offpolicy._core.door import Door
from offpolicy._core.late import pa
from offpolicy._core.types import Ints
from offpolicy._core.validation import EMPTY, RowsOfFiles
from offpolicy.errors import LogError, OffpolicyError, ParameterError, Place
from offpolicy.logs import labels
from offpolicy.logs._bandit_log import BanditLog
from offpolicy.logs._columns import Columns
from offpolicy.logs._rewards import RewardSummary
from offpolicy.logs._scan import BLOCK, Distributed, LogScan, Sums
from offpolicy.logs.expressions import Expression
from offpolicy.logs.expressions._kinds import SPARK
from offpolicy.logs.files._filter import as_expression, none_meets
from offpolicy.logs.files._roles import Roles, few_clusters, log_of
from offpolicy.logs.files._sql import first_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHUNK = 4096
"""Rows of a file whose neighbours are in one piece at most."""
_FILE, _ROW = "__offpolicy_file", "__offpolicy_row"


class Piece(NamedTuple):
    """Neighbouring rows of one partition: of which file, from which row to which, and how many."""

    file: str
    first: int
    last: int
    rows: int


def spark_session(master: str | None = None) -> SparkSession:
    """The Spark session there is, or one of our own, in which executors run this Python."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ParameterError(
            "Spark is not installed. pip install 'offpolicy[spark]' (it needs Java 17 or later)."
        ) from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("offpolicy")
    try:
        spark: SparkSession = (builder if master is None else builder.master(master)).getOrCreate()
    except Exception as problem:  # Spark's own, Py4J's, or of a program that is not there
        raise ParameterError(
            f"Spark does not start ({first_line(problem)}). It needs Java 17 or later: set "
            f"JAVA_HOME, or have java on the PATH. {Door.named('master')} must be a cluster that "
            f"answers."
        ) from None
    return spark


class SparkScan(Distributed):
    """A Spark DataFrame, one row per decision. See `offpolicy.read_log`."""

    def __init__(
        self,
        frame: DataFrame,
        columns: Columns | None = None,
        *,
        where: str | Expression | None = None,
        order: Sequence[str] | None = None,
        source: str = "",
    ) -> None:
        from pyspark.errors import PySparkException

        self.columns, self.where = columns or Columns(), as_expression(where)
        self.condition = self.where
        self.source = source or "a Spark DataFrame"
        self._roles = Roles(self.columns, frame.columns, self.source)
        try:
            if self.where is not None:
                types = dict(frame.dtypes)
                frame = frame.where(self.where.on(types, SPARK).as_condition().sql())
            self._frame = _numbered(frame)
        except PySparkException as problem:
            raise LogError(first_line(problem), Place(self.source, "where")) from None
        self._order = list(order) if order is not None else file_paths(frame)
        if not len(self):
            empty = LogError(EMPTY, self.source)
            raise empty if self.where is None else none_meets(self.where, self.source)

    # -- what is known before reading ------------------------------------------------------

    @functools.cached_property
    def _pieces(self) -> list[Piece]:
        """All pieces, in the order of the log."""
        counted = self._run(self._frame.select(_FILE, _ROW).mapInArrow(_count, _PIECE))
        place = {file: k for k, file in enumerate(self._order)}
        pieces = sorted(
            (Piece(**row) for row in counted.to_pylist()),
            key=lambda piece: (place.get(_path(piece.file), -1), piece.file, piece.first),
        )
        for piece, following in itertools.pairwise(pieces):
            if piece.file == following.file and piece.last >= following.first:
                raise LogError(
                    f"rows {piece.first} to {piece.last} of {piece.file} are spread over "
                    f"several partitions. Write the files anew, with larger row groups.",
                    self.source,
                )
        return pieces

    @functools.cached_property
    def _starts(self) -> Ints:
        """Position in the log of the first row of every piece, and the number of rows."""
        return np.cumsum([0, *(piece.rows for piece in self._pieces)])

    @functools.cached_property
    def _places(self) -> _Places:
        starts = {
            (piece.file, piece.first): int(start)
            for piece, start in zip(self._pieces, self._starts[:-1], strict=True)
        }
        files: dict[str, int] = {}
        for piece in self._pieces:
            files.setdefault(piece.file, starts[piece.file, piece.first])
        return _Places(starts, files, self.where)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def _reward(self) -> Any:
        """The reward as a number."""
        from pyspark.sql import functions as f

        name, fill = self._roles.reward, self.columns.fill_reward
        kind = dict(self._frame.dtypes)[name]
        if kind.startswith(("array", "map", "struct")):
            sentence = f"it holds {kind}, but reward must be a single value in every row."
            raise LogError(sentence, Place(self.source, name))
        reward = f.col(_quoted(name)).cast("double")
        if fill is None:
            return reward
        return f.when(reward.isNull() | f.isnan(reward), float(fill)).otherwise(reward)

    @functools.cached_property
    def rewards(self) -> RewardSummary:
        from pyspark.sql import functions as f

        reward = self._reward
        low, high, binary = self._rows(
            self._frame.agg(f.min(reward), f.max(reward), f.bool_and(reward.isin(0.0, 1.0)))
        )[0]
        if low is None:
            raise LogError("there is not one value.", Place(self.source, "reward"))
        return RewardSummary(float(low), float(high), bool(binary))

    def find_reward_outside(self, low: float, high: float) -> tuple[Place, float]:
        reward = self._reward
        outside = self._frame.where(~reward.between(low, high)).select(_FILE, _ROW, reward).limit(1)
        for file, row, value in self._rows(outside):
            return Place(_path(file) or self.source, "reward", row), float(value)
        return Place(self.source, "reward"), math.nan

    @functools.cached_property
    def _clusters(self) -> tuple[Hashable, ...] | None:
        name = self._roles.of("cluster")
        if name is None:
            return None
        return few_clusters(self.distinct(name, labels.GROUPS + 1), self.source)

    @property
    def column_names(self) -> Sequence[str]:
        return self._roles.names

    def column_of(self, role: str) -> str | None:
        return self._roles.of(role)

    def type_of(self, column: str) -> pa.DataType:
        from pyspark.sql.pandas.types import to_arrow_type

        (name,) = self._roles.known([column])
        return to_arrow_type(self._frame.schema[name].dataType)

    def distinct(self, column: str, most: int) -> NDArray[Any]:
        named = self._frame.select(_quoted(column))
        some = self._run(named.dropna().distinct().limit(most))
        return np.asarray(some.column(0).to_numpy())

    def fingerprint(self) -> str:
        """Of the pieces and the plan by which they are made."""
        plan = self._frame._jdf.queryExecution().analyzed().toString()
        return hashlib.sha256(repr((self.columns, plan, self._pieces)).encode()).hexdigest()

    # -- reading ---------------------------------------------------------------------------

    def read(self, ranges: Sequence[tuple[int, int]], extra: Sequence[str]) -> BanditLog:
        held = sorted({k for start, stop in ranges for k in self._between(start, stop)})
        table = self._whole_pieces(held, extra)
        positions = np.concatenate([np.arange(self._starts[k], self._starts[k + 1]) for k in held])
        wanted = np.concatenate([np.arange(start, stop) for start, stop in ranges])
        parts, begun = [], 0
        for start, stop in ranges:
            for k in self._between(start, stop):
                first = max(start, int(self._starts[k]))
                file, row = self._places.label(self._pieces[k].file, first)
                parts.append((begun + first - start, row, file))
            begun += stop - start
        log = log_of(
            table.take(np.searchsorted(positions, wanted)),
            self.columns,
            RowsOfFiles.of(parts),
            0,
            self._clusters,
        )
        return log.replace(whole_row=wanted, trusted=True)

    def _between(self, start: int, stop: int) -> range:
        """The pieces that hold these positions."""
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        return range(first, int(np.searchsorted(self._starts, stop, side="left")))

    def _whole_pieces(self, held: Sequence[int], extra: Sequence[str]) -> pa.Table:
        """All rows of these pieces, in order."""
        pieces = [self._pieces[k] for k in held]
        spans: list[Piece] = []
        before = -1
        for k, piece in zip(held, pieces, strict=True):
            if spans and k - 1 == before and spans[-1].file == piece.file:
                spans[-1] = spans[-1]._replace(last=piece.last)
            else:
                spans.append(piece)
            before = k
        from pyspark.sql import functions as f

        condition = f.lit(False)
        for span in spans:
            condition |= (f.col(_FILE) == span.file) & f.col(_ROW).between(span.first, span.last)
        table = self._run(self._selected(extra).where(condition))
        order = {file: k for k, file in enumerate(dict.fromkeys(piece.file for piece in pieces))}
        files = np.array([order.get(file, -1) for file in table.column(_FILE).to_pylist()])
        rows = table.column(_ROW).to_numpy()
        sort = np.lexsort((rows, files))
        expected = np.cumsum([0, *(piece.rows for piece in pieces)])
        firsts = np.array([piece.first for piece in pieces])
        if len(table) != expected[-1] or (rows[sort][expected[:-1]] != firsts).any():
            raise _unsteady(self.source)
        return table.take(sort).drop_columns([_FILE, _ROW])

    def _selected(self, extra: Sequence[str]) -> DataFrame:
        columns = [*map(_quoted, self._roles.with_extra(extra)), _FILE, _ROW]
        return self._frame.select(*columns)

    def reduce(
        self,
        function: Callable[[BanditLog], Sums],
        add: Callable[[Sums, Sums], Sums],
        extra: Sequence[str],
    ) -> Sums:
        task = _Task(function, add, self._places, self.columns, self._clusters, self.source)
        return added_up(self._selected(extra).mapInArrow(task, PARTIAL), add, self)

    # -- running ---------------------------------------------------------------------------

    def _run(self, frame: DataFrame) -> pa.Table:
        return run(frame, self.source)

    def _rows(self, frame: DataFrame) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self._run(frame).to_pylist()]


@dataclass(frozen=True)
class _Places:
    """Where in the log pieces begin, and files."""

    pieces: dict[tuple[str, int], int]
    files: dict[str, int]
    where: Expression | None

    def label(self, file: str, position: int) -> tuple[str, int]:
        """How a row is named in messages: with a condition, it is counted among those meeting
        it."""
        name = _path(file) or "a Spark DataFrame"
        if self.where is not None:
            name += f" (of the rows where {self.where})"
        return name, position - self.files[file]


@dataclass(frozen=True)
class _Task:
    """What an executor does with the rows of one partition."""

    function: Callable[[BanditLog], Any]
    add: Callable[[Any, Any], Any]
    places: _Places
    columns: Columns
    clusters: tuple[Hashable, ...] | None
    source: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from partial(self._logs(batches), self.function, self.add)

    def _logs(self, batches: Iterator[pa.RecordBatch]) -> Iterator[BanditLog]:
        for table, file, position in self._blocks(batches):
            name, row = self.places.label(file, position)
            source = RowsOfFiles.of([(0, row, name)])
            yield log_of(table, self.columns, source, position, self.clusters)

    def _blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.Table, str, int]]:
        """Tables of neighbouring rows, at most `BLOCK` of them, with their file and position."""
        held: list[pa.RecordBatch] = []
        have, begun, file = 0, 0, ""
        for batch, piece, offset in _pieces_of(batches):
            position, rest = self._position(piece, offset), batch
            while len(rest):
                if have and (have == BLOCK or piece.file != file or begun + have != position):
                    yield pa.Table.from_batches(held), file, begun
                    held, have = [], 0
                if not have:
                    file, begun = piece.file, position
                taken = rest.slice(0, BLOCK - have)
                held.append(taken)
                have, position = have + len(taken), position + len(taken)
                rest = rest.slice(len(taken))
        if have:
            yield pa.Table.from_batches(held), file, begun

    def _position(self, piece: Piece, offset: int) -> int:
        start = self.places.pieces.get((piece.file, piece.first))
        if start is None:
            raise _unsteady(self.source)
        return start + offset


def partial(
    logs: Iterator[BanditLog], function: Callable[[BanditLog], Any], add: Callable[[Any, Any], Any]
) -> Iterator[pa.RecordBatch]:
    """What an executor sends back of neighbouring pieces of a log: their sums, or an error."""
    start, rows, sums = -1, 0, None
    try:
        for log in logs:
            part = function(log)
            start, sums = (log.first_row, part) if rows == 0 else (start, add(sums, part))
            rows += len(log)
    except OffpolicyError as problem:
        told = json.dumps([str(problem), *problem.place])
        yield _batch(PARTIAL, [{"rows": 0, "error": type(problem).__name__, "text": told}])
        return
    if rows:
        yield _batch(PARTIAL, [{"start": start, "rows": rows, "sums": encode(sums)}])


def added_up(frame: DataFrame, add: Callable[[Sums, Sums], Sums], log: LogScan) -> Sums:
    """The sums of all rows of a Spark log, from what executors send back."""
    partials = run(frame, log.source).to_pylist()
    for row in partials:
        if row["error"] is not None:
            raise _raised(row["error"], json.loads(row["text"]))
    if sum(row["rows"] for row in partials) != len(log):
        raise _unsteady(log.source)
    partials.sort(key=lambda row: row["start"])
    sums: Iterator[Sums] = (decode(row["sums"]) for row in partials)
    return functools.reduce(add, sums)


def run(frame: DataFrame, source: str) -> pa.Table:
    """A Spark log's frame as an Arrow table; Spark's errors as ours."""
    from pyspark.errors import PySparkException

    try:
        return frame.toArrow()
    except PySparkException as problem:
        raise LogError(first_line(problem), source) from None


def _numbered(frame: DataFrame) -> DataFrame:
    """A Spark log with every row's file and its row there; or with none and a growing number."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    try:
        named = frame.select(
            "*", f.col("_metadata.file_path").alias(_FILE), f.col("_metadata.row_index").alias(_ROW)
        )
        _ = named.schema
    except AnalysisException:
        return frame.select(
            "*", f.lit("").alias(_FILE), f.monotonically_increasing_id().alias(_ROW)
        )
    return named


def _pieces_of(
    batches: Iterator[pa.RecordBatch],
) -> Iterator[tuple[pa.RecordBatch, Piece, int]]:
    """The rows of a Spark log's partition, piece by piece or part of a piece by part: without the
    columns that number them, with the piece so far, and how many of its rows came before."""
    last = Piece("", 0, -1, 0)
    for batch in batches:
        rows = batch.column(_ROW).to_numpy()
        files = batch.column(_FILE).dictionary_encode()
        codes = files.indices.to_numpy()
        plain = batch.drop_columns([_FILE, _ROW])
        chunk = rows // CHUNK
        breaks = (np.diff(codes) != 0) | (np.diff(chunk) != 0) | (np.diff(rows) <= 0)
        ends = [*(np.flatnonzero(breaks) + 1).tolist(), len(rows)]
        begin = 0
        for end in ends:
            if end == begin:
                continue
            file = files.dictionary[int(codes[begin])].as_py()
            first = int(rows[begin])
            goes_on = (
                begin == 0
                and last.rows > 0
                and last.file == file
                and last.last < first
                and last.last // CHUNK == first // CHUNK
            )
            before = last.rows if goes_on else 0
            last = Piece(
                file, last.first if goes_on else first, int(rows[end - 1]), before + end - begin
            )
            yield plain.slice(begin, end - begin), last, before
            begin = end


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The pieces of one partition of a Spark log."""
    pieces = {(piece.file, piece.first): piece for _, piece, _ in _pieces_of(batches)}
    if pieces:
        yield _batch(_PIECE, [piece._asdict() for piece in pieces.values()])


_PIECE = "file string, first long, last long, rows long"
PARTIAL = "start long, rows long, sums binary, error string, text string"


def _batch(columns: str, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Rows with columns as Spark declares them; what they do not say is missing."""
    declared = (column.split() for column in columns.split(", "))
    types = {name: pa.type_for_alias(kind.replace("long", "int64")) for name, kind in declared}
    return pa.RecordBatch.from_pylist(rows, pa.schema(list(types.items())))


def _raised(name: str, told: list[Any]) -> OffpolicyError:
    """The error of a Spark executor, with its place in the log."""
    error: OffpolicyError = getattr(errors, name)(told[0])
    error.place = Place(*told[1:])
    return error


def file_paths(frame: DataFrame) -> list[str]:
    """The files of a log's Spark frame, folder by folder."""
    return sorted(map(_path, frame.inputFiles()), key=lambda path: path.split("/"))


def _path(file: str) -> str:
    """A file that Spark reads, on this machine without its scheme; others as they are."""
    parsed = urlparse(file)
    return unquote(parsed.path) if parsed.scheme == "file" else file


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _unsteady(source: str) -> LogError:
    return LogError(
        f"{source} gave other rows when it was read again. Write it to Parquet first, or cache it."
    )
