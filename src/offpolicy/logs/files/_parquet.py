"""Parquet files of any size, scanned in this process: by pyarrow, or with a condition by DuckDB.

They read, filter and decode; they never add: sums of floating-point numbers are ours, in the order
of the rows, so that they are the same bytes whatever the threads and the batches.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.late import duckdb, pa
from offpolicy._core.validation import EMPTY, RowsOfFiles
from offpolicy.errors import LogError, Place
from offpolicy.logs import labels
from offpolicy.logs._arrow_types import plain_type, refuse_unreadable, settled
from offpolicy.logs._bad_rows import MAX_DROPPED, check_on_bad_row
from offpolicy.logs._bandit_log import BanditLog
from offpolicy.logs._columns import Columns
from offpolicy.logs._rewards import RewardSummary
from offpolicy.logs._scan import BLOCK, ColumnCheck, LogScan
from offpolicy.logs.expressions import Expression
from offpolicy.logs.expressions._kinds import DUCKDB
from offpolicy.logs.files._filter import as_expression, none_meets
from offpolicy.logs.files._folders import Folders
from offpolicy.logs.files._footer import Footer, opened, read_footer
from offpolicy.logs.files._plain_rows import rows_from, stretches
from offpolicy.logs.files._roles import Roles, few_clusters, log_of
from offpolicy.logs.files._sql import Database, errors_as_ours, parquet, quoted

CHUNK = 65_536
"""Rows of a file that are counted together where a condition picks some of them."""
_BATCH = BLOCK
"""Rows that are handed over at a time: larger ones take fresh memory every time."""
FILE, PLACE = "offpolicy: file", "offpolicy: place"
"""Columns of a copy: which file a row is from, and where in it."""


class Chunk(NamedTuple):
    """Rows ``start`` to ``stop`` of a file, of which ``rows`` meet the condition."""

    file: int
    start: int
    stop: int
    rows: int


class ParquetScan(LogScan):
    """A log in Parquet files, one row per decision. See `offpolicy.read_log`."""

    lost: Mapping[str, int] = {}
    """Malformed lines of the text that it was made from, which are no rows here."""

    def __init__(
        self,
        files: Sequence[Path],
        columns: Columns | None = None,
        *,
        where: str | Expression | None = None,
        memory: str | None = None,
        threads: int | None = None,
        names: Sequence[str] | None = None,
        on_bad_row: str = "error",
        max_dropped: float = MAX_DROPPED,
        verify: bool = False,
    ) -> None:
        check_on_bad_row(on_bad_row, max_dropped)
        self._drops, self.max_dropped = on_bad_row == "drop", max_dropped
        self._without: dict[Hashable, LogScan] = {}
        self.files = [str(file) for file in files]
        self.names = self.files if names is None else list(names)
        self.columns, self.where = columns or Columns(), as_expression(where)
        self.condition = self.where
        self.source = self.names[0] if len(self.names) == 1 else f"{len(self.names)} files"
        self._database = Database(self.files, memory, threads)
        self._same_columns()
        _ = self._roles, self._predicate
        if verify:
            self._verify()
        if not len(self):
            empty = LogError(EMPTY, self.source)
            raise empty if self.where is None else none_meets(self.where, self.source)

    # -- what is known before reading ------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_without": {}}

    def _sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """A query, its errors as ours."""
        with errors_as_ours(self.source):
            return self._database.cursor().sql(query)

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with errors_as_ours(self.source):
            return self._sql(query).fetchall()

    def _table(self, query: str, source: str) -> pa.Table:
        with errors_as_ours(source):
            return self._sql(query).to_arrow_table()

    def _of_all(self, query: Callable[[str], str]) -> pa.Table:
        """A query about the scan of all files; if one of them cannot be read, it is named."""
        try:
            return self._table(query(self._relation()), self.source)
        except LogError:
            for k, file in enumerate(self.files) if len(self.files) > 1 else ():
                self._table(query(self._relation(k)), file)
            raise

    @functools.cached_property
    def _footers(self) -> list[Footer]:
        return [read_footer(file) for file in self.files]

    @functools.cached_property
    def _folders(self) -> Folders:
        """The columns that only folders tell; none of a copy, whose folders are ours."""
        if self.names is not self.files:
            return Folders()
        return Folders.of(self.files).without_own(self.files, self._footers)

    @functools.cached_property
    def _types(self) -> dict[str, pa.DataType]:
        """What every column of the files is read as, here and in memory."""
        fields = self._footers[0].schema
        return {field.name: plain_type(field.type) for field in fields}

    @functools.cached_property
    def _names(self) -> list[str]:
        """All columns of the files, and of their folders."""
        return [name for name in (*self._types, *self._folders) if name not in (FILE, PLACE)]

    @functools.cached_property
    def _twins(self) -> set[str]:
        """The columns whose names differ only in case, which SQL does not tell apart."""
        count = Counter(name.casefold() for name in self._types)
        return {name for name in self._types if count[name.casefold()] > 1}

    @functools.cached_property
    def _renamed(self) -> set[str]:
        """The columns that DuckDB calls otherwise than the files, for the sake of twins."""
        renamed = set[str]()
        for file, footer in zip(self.files, self._footers, strict=True) if self._twins else ():
            names = footer.schema.names
            found = self._sql(f"SELECT * FROM {parquet([file])}").columns
            renamed |= {name for name, other in zip(names, found, strict=True) if name != other}
        return renamed

    def _relation(self, *which: int, numbered: bool = False) -> str:
        """SQL for all rows of these files, or of all files."""
        files = [self.files[k] for k in which or range(len(self.files))]
        if not self._folders:
            return parquet(files, numbered=numbered)
        parts = [
            f"SELECT *, {self._folders.in_sql(k)} FROM {parquet([file], numbered=numbered)}"
            for k, file in zip(which or range(len(self.files)), files, strict=True)
        ]
        return f"({' UNION ALL BY NAME '.join(parts)})"

    def _column(self, name: str) -> str:
        """A column in SQL; one that is not read there as in memory is an error."""
        if name in self._renamed:
            raise self._ambiguous(name)
        if name in self._types:
            refuse_unreadable(self._types[name], name, self.source)
        return quoted(name)

    def _ambiguous(self, name: str) -> LogError:
        twins = ", ".join(f'"{twin}"' for twin in sorted(self._twins))
        return LogError(
            f"there are columns whose names differ only in case ({twins}), and SQL would take one "
            f"for the other. Rename them.",
            Place(self.source, name),
        )

    @functools.cached_property
    def _sql_types(self) -> dict[str, str]:
        """All columns of the files and of their folders, and DuckDB's types of them."""
        rows = self._sql(f"SELECT * FROM {self._relation()}")
        return dict(zip(rows.columns, map(str, rows.types), strict=True))

    def _same_columns(self) -> None:
        """Raise unless all files have the columns of the first, of the same types."""
        first = self._footers[0].schema
        expected = {field.name: str(plain_type(field.type)) for field in first}
        for file, footer in zip(self.files, self._footers, strict=True):
            types = {field.name: str(plain_type(field.type)) for field in footer.schema}
            for name in dict.fromkeys([*expected, *types]):
                if expected.get(name) != types.get(name):
                    raise LogError(
                        f"it holds {types.get(name, 'nothing')}, but in {self.files[0]} it holds "
                        f"{expected.get(name, 'nothing')}. Files of one log must have the same "
                        f"columns.",
                        Place(file, name),
                    )

    def _verify(self) -> None:
        """Raise if a page is not what its checksum says; DuckDB does not look at them."""
        for file in self.files:
            with opened(file, page_checksum_verification=True) as whole:
                for _ in whole.iter_batches(BLOCK):
                    pass

    @functools.cached_property
    def _roles(self) -> Roles:
        return Roles(self.columns, self._names, self.source)

    @functools.cached_property
    def _chunks(self) -> list[Chunk]:
        """All rows, chunk by chunk."""
        if self.where is None:
            rows = [footer.rows for footer in self._footers]
            return [Chunk(k, 0, count, count) for k, count in enumerate(rows)]
        return [
            Chunk(k, chunk * CHUNK, (chunk + 1) * CHUNK, rows)
            for k in range(len(self.files))
            for chunk, rows in self._rows(
                f"SELECT file_row_number // {CHUNK} AS chunk, count(*) "
                f"FROM {self._relation(k, numbered=True)}{self._condition} "
                f"GROUP BY chunk ORDER BY chunk"
            )
        ]

    @functools.cached_property
    def _counts(self) -> list[int]:
        """The number of rows in every file."""
        counts = [0] * len(self.files)
        for chunk in self._chunks:
            counts[chunk.file] += chunk.rows
        return counts

    def __len__(self) -> int:
        return sum(self._counts)

    def rows_by_file(self) -> dict[str, int]:
        return dict(zip(self.names, self._counts, strict=True))

    @property
    def _reward(self) -> str:
        """The reward as a number, in SQL."""
        reward, fill = (
            f"CAST({self._column(self._roles.reward)} AS DOUBLE)",
            self.columns.fill_reward,
        )
        if fill is None:
            return reward
        missing = f"{reward} IS NULL OR isnan({reward})"
        return f"(CASE WHEN {missing} THEN {float(fill)!r} ELSE {reward} END)"

    @functools.cached_property
    def rewards(self) -> RewardSummary:
        reward = self._reward
        if (plain := self._plain_rewards()) is not None:
            return plain
        try:
            summary = self._of_all(
                lambda scan: (
                    f"SELECT min({reward}), max({reward}), bool_and({reward} IN (0, 1)) "
                    f"FROM {scan}{self._condition}"
                )
            )
        except LogError:
            for make in self.walk(()):
                make()  # which names the row
            raise
        low, high, binary = (column[0].as_py() for column in summary.columns)
        if low is None:
            raise LogError("there is not one value.", Place(self.source, "reward"))
        return RewardSummary(float(low), float(high), bool(binary))

    def _plain_rewards(self) -> RewardSummary | None:
        """The same without DuckDB, if the rewards are plain finite numbers."""
        name = self._roles.reward
        kind = str(self._types.get(name, ""))
        if not (self._plain([name]) and kind.startswith(("int", "uint", "float", "double"))):
            return None
        found: list[RewardSummary] = []
        for k in range(len(self.files)):
            for chunk in (c for table in self._blocks(k, [name]) for c in table.column(0).chunks):
                if chunk.null_count:
                    return None
                values = np.from_dlpack(chunk).astype(np.float64)
                if not np.isfinite(values).all():
                    return None
                found.append(RewardSummary.of(values))
        return RewardSummary.together(found)

    def find_reward_outside(self, low: float, high: float) -> tuple[Place, float]:
        reward = self._reward
        for k in range(len(self.files)):
            outside = self._rows(
                f"SELECT file_row_number, {reward} FROM {self._relation(k, numbered=True)} WHERE "
                f"{self._predicate} AND NOT ({reward} BETWEEN {low!r} AND {high!r}) LIMIT 1"
            )
            for row, value in outside:
                return self._place(k, row)._replace(column="reward"), float(value)
        return Place(self.source, "reward"), math.nan

    @functools.cached_property
    def _clusters(self) -> tuple[Hashable, ...] | None:
        """All clusters if they are few, none of them if they are many; None if there are none."""
        name = self._roles.of("cluster")
        if name is None:
            return None
        return few_clusters(self.distinct(name, labels.GROUPS + 1), self.source)

    @property
    def column_names(self) -> Sequence[str]:
        return self._names

    def column_of(self, role: str) -> str | None:
        return self._roles.of(role)

    def type_of(self, column: str) -> pa.DataType:
        (name,) = self._roles.known([column])
        return (
            self._types[name]
            if name in self._types
            else self._sql(f"SELECT {quoted(name)} FROM {self._relation()} LIMIT 0")
            .to_arrow_table()
            .schema.field(0)
            .type
        )

    def distinct(self, column: str, most: int) -> NDArray[Any]:
        name = self._column(column)
        some = self._of_all(
            lambda scan: (
                f"SELECT DISTINCT {name} FROM {scan} "
                f"WHERE {self._predicate} AND {name} IS NOT NULL LIMIT {most}"
            )
        )
        with errors_as_ours(self.source):
            return np.asarray(self._as_declared(some).column(0).to_numpy())

    @functools.cached_property
    def _predicate(self) -> str:
        """SQL that is true of the rows that meet the condition."""
        if self.where is None:
            return "true"
        for name in sorted(self._twins):
            if name in self.where.names:
                raise self._ambiguous(name)
        # DuckDB calls twins otherwise.
        types = {name: self._sql_types[name] for name in self._names if name in self._sql_types}
        return self.where.on(types, DUCKDB).as_condition().sql()

    @property
    def _condition(self) -> str:
        return "" if self.where is None else f" WHERE {self._predicate}"

    def fingerprint(self) -> str:
        """Of paths, sizes, times of change and footers, columns and condition."""
        digest = hashlib.sha256(repr((self.columns, self.where and self.where.text)).encode())
        for file in self.names:
            path = Path(file)
            stat = path.stat()
            digest.update(repr((file, stat.st_size, stat.st_mtime_ns)).encode())
            with path.open("rb") as stream:
                stream.seek(max(stat.st_size - 65_536, 0))
                digest.update(stream.read())
        return digest.hexdigest()

    # -- reading ---------------------------------------------------------------------------

    def _selected(self, extra: Sequence[str]) -> list[str]:
        """The log's own columns and these; one that is not read as in memory is an error."""
        names = self._roles.with_extra(extra)
        for name in names:
            self._column(name)
        return names

    def _plain(self, names: Sequence[str]) -> bool:
        """Whether these columns are read by pyarrow: of all rows, from the files alone. To it, a
        dot in a name leads into a structure."""
        plain = self.where is None and not any("." in name for name in self._types)
        return plain and all(name in self._types for name in names)

    def read(self, ranges: Sequence[tuple[int, int]], extra: Sequence[str]) -> BanditLog:
        names = self._selected(extra)
        jobs: list[tuple[int, list[tuple[int, int]]]] = []
        parts: list[tuple[int, int, str]] = []
        have = begun = 0
        for k, rows in enumerate(self._counts):
            inside = [(max(start - begun, 0), min(stop - begun, rows)) for start, stop in ranges]
            spans = [(low, high) for low, high in inside if low < high]
            for low, high in spans:
                for begin, first, name in self._parts(k, low, high):
                    parts.append((have + begin, first, name))
                have += high - low
            if spans:
                jobs.append((k, spans))
            begun += rows
        # Several at a time: one file alone may keep few cores busy.
        with ThreadPoolExecutor(self._database.threads or os.cpu_count() or 1) as pool:
            tables = list(pool.map(lambda job: self._stretches(job[0], names, job[1]), jobs))
        log = self._log(pa.concat_tables(tables), RowsOfFiles.of(parts))
        whole_row = np.concatenate([np.arange(start, stop) for start, stop in ranges])
        return log.replace(whole_row=whole_row, trusted=True)

    def _stretches(
        self, k: int, names: Sequence[str], spans: Sequence[tuple[int, int]]
    ) -> pa.Table:
        """Stretches of the rows of the k-th file that meet the condition, what is stored
        together being decoded once, however many of them are in it."""
        if self._plain(names):
            found = stretches(self.files[k], names, spans, _BATCH, parallel=self._parallel)
            table = pa.concat_tables(map(self._as_table, found))
            self._check_count(k, len(table), sum(stop - start for start, stop in spans))
            return table
        within: dict[tuple[int, int], tuple[int, int]] = {}
        begun = 0
        for chunk in (chunk for chunk in self._chunks if chunk.file == k):
            whole = chunk.rows == chunk.stop - chunk.start
            for start, stop in spans:
                low, high = max(start - begun, 0), min(stop - begun, chunk.rows)
                if low < high and whole:
                    within[chunk.start + low, chunk.start + high] = begun + low, begun + high
                elif low < high:
                    within[chunk.start, chunk.stop] = begun, begun + chunk.rows
            begun += chunk.rows
        wanted, read = (
            np.concatenate([np.arange(start, stop) for start, stop in ranges])
            for ranges in (spans, within.values())
        )
        conditions = " OR ".join(
            f"(file_row_number >= {first} AND file_row_number < {beyond})"
            for first, beyond in within
        )
        query = f"SELECT {self._sql_of(names)} FROM {self._relation(k, numbered=True)}"
        query += f"{self._condition or ' WHERE true'} AND ({conditions})"
        keep, have, tables = np.isin(read, wanted, assume_unique=True), 0, []
        with errors_as_ours(self.files[k]):
            for table in self._tables(query):
                kept = np.flatnonzero(keep[have : have + len(table)])
                for run in np.split(kept, np.flatnonzero(np.diff(kept) != 1) + 1):
                    tables.append(table.slice(run[0] if len(run) else 0, len(run)))
                have += len(table)
        self._check_count(k, have, len(read))
        return pa.concat_tables(tables)

    def _check_count(self, k: int, rows: int, counted: int) -> None:
        if rows != counted:
            raise LogError(
                f"{rows:,} rows were read where {counted:,} were counted. Was the file changed "
                f"meanwhile?",
                self.files[k],
            )

    def _parts(self, k: int, row: int, stop: int) -> list[tuple[int, int, str]]:
        """Where rows of the k-th file, ``row`` to ``stop``, are, for messages: `RowsOfFiles`."""
        return [(0, row, self._label(k))]

    def _label(self, file: int) -> str:
        """A file's name in messages: with a condition, rows are counted among those meeting it."""
        name = self.names[file]
        return name if self.where is None else f"{name} (of the rows where {self.where})"

    def _place(self, file: int, row: int) -> Place:
        """Of a row as counted in the file itself."""
        return Place(self.names[file], row=row)

    def walk(self, extra: Sequence[str], skip: int = 0) -> Iterator[Callable[[], BanditLog]]:
        """Blocks of `BLOCK` rows, counted anew in every file."""
        names = self._selected(extra)
        position = 0
        for k, rows in enumerate(self._counts):
            skipped = min(skip, -(-rows // BLOCK))
            skip -= skipped
            row = min(skipped * BLOCK, rows)
            position += row
            if row == rows:
                continue
            for table in self._blocks(k, names, row):
                source = RowsOfFiles.of(self._parts(k, row, row + len(table)))
                yield functools.partial(self._log, table, source, position)
                row, position = row + len(table), position + len(table)
                if self.progress is not None:
                    self.progress(position, len(self))
            self._check_count(k, row, rows)

    def _blocks(self, k: int, names: Sequence[str], row: int = 0) -> Iterator[pa.Table]:
        """Blocks of the rows of the k-th file that meet the condition, from the ``row``-th on."""
        if self._plain(names):
            found = rows_from(self.files[k], names, row, _BATCH, parallel=self._parallel)
            yield from in_blocks(map(self._as_table, found))
            return
        first, skip = self._start_of(k, row) if row else (0, 0)
        conditions = [] if self.where is None else [self._predicate]
        if first:
            conditions.append(f"file_row_number >= {first}")
        condition = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        scan = self._relation(k, numbered=first > 0)
        query = f"SELECT {self._sql_of(names)} FROM {scan}{condition}"
        query += f" OFFSET {skip}" if skip else ""
        with errors_as_ours(self.files[k]):
            yield from in_blocks(self._tables(query))

    def _tables(self, query: str, rows: int | None = None) -> Iterator[pa.Table]:
        """What a query finds, some rows at a time."""
        return map(self._as_table, self._sql(query).to_arrow_reader(rows or _BATCH))

    def _sql_of(self, names: Sequence[str]) -> str:
        return ", ".join(map(self._column, names))

    @property
    def _parallel(self) -> bool:
        return self._database.threads != 1

    def _as_table(self, batch: pa.RecordBatch) -> pa.Table:
        return self._as_declared(pa.Table.from_batches([batch]))

    def _as_declared(self, table: pa.Table) -> pa.Table:
        """A table with the types that the files declare, of which DuckDB knows fewer than Arrow."""
        table = settled(table)
        declared = [self._types.get(field.name, field.type) for field in table.schema]
        kinds = [
            field.type if pa.types.is_null(kind) else kind
            for kind, field in zip(declared, table.schema, strict=True)
        ]
        if kinds == table.schema.types:  # a cast takes Arrow's functions to load
            return table
        return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))

    def _log(self, table: pa.Table, source: RowsOfFiles, first_row: int = 0) -> BanditLog:
        return log_of(table, self.columns, source, first_row, self._clusters)

    def _start_of(self, k: int, row: int) -> tuple[int, int]:
        """Where the ``row``-th row of the k-th file is: the number of a row there, and how many of
        those from that one on that meet the condition come before it."""
        for chunk in self._chunks:
            if chunk.file != k:
                continue
            if row < chunk.rows:
                whole = chunk.rows == chunk.stop - chunk.start
                return (chunk.start + row, 0) if whole else (chunk.start, row)
            row -= chunk.rows
        raise IndexError(row)

    # -- without malformed rows ------------------------------------------------------------

    def without_bad_rows(self, key: str, extra: Sequence[str], check: ColumnCheck) -> LogScan:
        if not self._drops:
            return self
        wanted = f"{self.columns} {key}"
        if wanted not in self._without:
            from offpolicy.logs.files._bad_rows import WellFormed

            self._without[wanted] = WellFormed(self, key, extra, check)
        scan = self._without[wanted]
        scan.progress = self.progress
        return scan


def in_blocks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of a Parquet log's tables, `BLOCK` at a time."""
    held: list[pa.Table] = []
    have = 0
    for table in tables:
        rest = table
        while have + len(rest) >= BLOCK:
            need = BLOCK - have
            yield pa.concat_tables([*held, rest.slice(0, need)])
            rest, held, have = rest.slice(need), [], 0
        if len(rest):
            held.append(rest)
            have += len(rest)
    if held:
        yield pa.concat_tables(held)
