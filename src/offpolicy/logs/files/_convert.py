"""Large files of other kinds, written anew as temporary Parquet and then scanned.

Text is read piece by piece (`logs.files._text`), and so are the long format and the formats
of others. The copy is in a folder of its own, which goes when the log does.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.files import make_temporary_folder, remove_temporary_folder
from offpolicy._core.late import duckdb, pa, pq
from offpolicy._core.validation import Copy, RowsOfFiles
from offpolicy.errors import LogError, Place
from offpolicy.logs._bad_rows import MAX_DROPPED
from offpolicy.logs._columns import Columns, missing_column
from offpolicy.logs._long_format import one_row_per_decision
from offpolicy.logs.expressions import Expression
from offpolicy.logs.files._parquet import FILE, PLACE, ParquetScan
from offpolicy.logs.files._sql import connect, first_line, parquet, quoted
from offpolicy.logs.files._text import common_schema, is_parquet, known_kind, text_tables
from offpolicy.logs.formats import dsjson, obd

GROUP_ROWS, GROUP_BYTES = 122_880, 64 * 2**20
"""Rows, or bytes if these are fewer rows, that are written together."""
LONGEST = 2**24
"""Rows of one decision in the long format."""


class ConvertedScan(ParquetScan):
    """A log in temporary Parquet files, made from files of another kind. See `read_log`."""

    def __init__(self, copy: _Made, asked: _Asked, **how: Any) -> None:
        self._asked, self._unit = asked, copy.unit
        self._folder = asked.folder
        self.lost = copy.lost
        super().__init__(
            copy.files,
            copy.columns,
            where=copy.where,
            names=asked.names,
            **how,
            **asked.limits,
        )
        self.condition = asked.where

    def close(self) -> None:
        """Remove the temporary files; neither the log nor a copy of it can be read any more."""
        self._folder.remove()

    def fingerprint(self) -> str:
        """Of the files that were converted, columns and condition."""
        where = self._asked.where
        asked = repr((self._asked.columns, where and where.text))
        return hashlib.sha256((super().fingerprint() + asked).encode()).hexdigest()

    def _label(self, file: int) -> str:
        if self._unit is None:
            return super()._label(file)
        return Copy.of(
            self.source,
            lambda row: self._origin(file, f"{self._condition} LIMIT 1 OFFSET {row}"),
        )

    def _place(self, file: int, row: int) -> Place:
        if self._unit is None:
            return super()._place(file, row)
        return self._origin(file, f"WHERE file_row_number = {row}")

    def _origin(self, file: int, which: str) -> Place:
        """That a row of a copy is from."""
        ((source, place),) = self._rows(
            f"SELECT {quoted(FILE)}, {quoted(PLACE)} FROM "
            f"{parquet([self.files[file]], numbered=True)} {which}"
        )
        return Place(self.names[source], row=int(place), unit=str(self._unit))


@dataclass
class _Asked:
    """What `convert` was asked for."""

    files: Sequence[Path]
    columns: Columns
    where: Expression | None
    limits: dict[str, Any]
    """Of memory and threads; see `connect`."""
    folder: _Folder
    on_bad_row: str = "error"

    @property
    def names(self) -> list[str]:
        return [str(file) for file in self.files]

    @property
    def lenient(self) -> bool:
        """Whether malformed rows are to be dropped."""
        return self.on_bad_row == "drop"


class _Folder:
    """Where a log's temporary files are. They go when the log, and all copies of it in this
    process, do; other processes only read them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.remove = weakref.finalize(self, remove_temporary_folder, path)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Folder:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _borrowed, (self.path,)


def _borrowed(path: Path) -> _Folder:
    """The folder of a log that was sent to another process, or kept in a file."""
    if not path.is_dir():
        raise LogError(
            "the temporary copy of this log is gone: it lasts as long as the log that was read. "
            "Read the log again.",
            path,
        )
    folder = _Folder(path)
    folder.remove.detach()
    return folder


@dataclass
class _Made:
    """What was made of it: files, and how they are to be read."""

    files: list[Path]
    columns: Columns
    where: Expression | None
    unit: str | None = None
    """What the places in the columns FILE and PLACE count; None if the rows are as they were."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """Malformed lines that are no rows, if these are to be dropped."""


def convert(
    files: Sequence[Path],
    columns: Columns,
    *,
    foreign: ModuleType | None = None,
    where: Expression | None = None,
    on_bad_row: str = "error",
    max_dropped: float = MAX_DROPPED,
    **limits: Any,
) -> ConvertedScan:
    """The log in files that are not, or not as they should be, Parquet with a row per decision.

    ``foreign`` is the format if it is someone else's: `offpolicy.formats.dsjson` or ``obd``.
    """
    folder = _Folder(make_temporary_folder())
    asked = _Asked(files, columns, where, limits, folder, on_bad_row)
    try:
        copy = _made(asked, foreign)
        return ConvertedScan(copy, asked, on_bad_row=on_bad_row, max_dropped=max_dropped)
    except BaseException:
        folder.remove()
        raise


def _made(asked: _Asked, foreign: ModuleType | None) -> _Made:
    if foreign is dsjson:
        return _from_dsjson(asked)
    if foreign is obd:
        return _from_obd(asked)
    files = list(asked.files) if is_parquet(asked.files[0]) else _from_text(asked)
    if asked.columns.decision:
        return _from_long(asked, files)
    return _Made(files, asked.columns, asked.where)


# -- writing ---------------------------------------------------------------------------------


class _Written(NamedTuple):
    """A Parquet file, and what it was made of."""

    path: Path
    schema: pa.Schema
    rows: int


def _write(tables: Iterable[pa.Table], path: Path) -> _Written:
    """A log's tables, at least one, as a Parquet file, which gets its name when complete."""
    part = path.with_suffix(".part")
    writer: Any = None
    rows = 0
    try:
        for group in _groups(tables):
            with _on_disk(path):
                if writer is None:
                    writer = pq.ParquetWriter(part, group.schema)
                writer.write_table(group, row_group_size=max(len(group), 1))
            rows += len(group)
        with _on_disk(path):
            writer.close()
            os.replace(part, path)
    finally:
        with contextlib.suppress(Exception):
            writer.close()
        part.unlink(missing_ok=True)
    return _Written(path, group.schema, rows)


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """A log's tables put together to what is written at once."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(map(len, held)) >= GROUP_ROWS or sum(t.nbytes for t in held) >= GROUP_BYTES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _copies(asked: _Asked, tables_of: Callable[[int, Path], Iterable[pa.Table]]) -> list[_Written]:
    """A temporary Parquet file for every file of the log."""
    return [
        _write(tables_of(k, file), asked.folder.path / f"{k}.parquet")
        for k, file in enumerate(asked.files)
    ]


def _rewritten(copy: Path, change: Callable[[Any], Iterable[pa.Table]]) -> Path:
    """A log's copy written anew, with the tables that ``change`` makes of its `ParquetFile`."""
    wide = copy.with_suffix(".wide.parquet")
    with pq.ParquetFile(copy) as narrow:
        _write(change(narrow), wide)
    copy.unlink()
    return wide


@contextlib.contextmanager
def _on_disk(path: Path) -> Iterator[None]:
    """Errors of writing a log's temporary copy as ours."""
    try:
        yield
    except (OSError, pa.ArrowException) as problem:
        raise LogError(
            f"The temporary copy of the log cannot be written to {path.parent} "
            f"({first_line(problem)}). It takes up to half as much room as the log's text, "
            f"unpacked: set TMPDIR to a folder on a larger disk."
        ) from None


# -- text ------------------------------------------------------------------------------------


def _from_text(asked: _Asked) -> list[Path]:
    """A Parquet file for every CSV or JSON file of the log, all with the same columns."""
    for file in asked.files:
        known_kind(file)
    names = asked.columns.names
    copies = _copies(
        asked,
        lambda _, file: text_tables(file, names, lenient=asked.lenient, **asked.limits),
    )
    common = common_schema(asked.files, [copy.schema for copy in copies], names)
    return [
        copy.path
        if copy.schema.equals(common)
        else _rewritten(copy.path, functools.partial(_cast, schema=common))
        for copy in copies
    ]


def _cast(narrow: Any, schema: pa.Schema) -> Iterator[pa.Table]:
    yield schema.empty_table()
    for batch in narrow.iter_batches():
        yield pa.Table.from_batches([batch]).select(schema.names).cast(schema)


# -- the long format -------------------------------------------------------------------------


def _from_long(asked: _Asked, files: list[Path]) -> _Made:
    """A log with one row per decision, from files with a row per decision and candidate."""
    narrow = ParquetScan(files, where=asked.where, names=asked.names, **asked.limits)
    decision = str(asked.columns.decision)
    if decision not in narrow._names:
        raise missing_column(narrow._names, decision, "decision", narrow.source)
    path = asked.folder.path / "decisions.parquet"
    roles = asked.columns

    def wide() -> Iterator[pa.Table]:
        nonlocal roles
        for table in _whole_decisions(narrow, decision):
            decisions, roles = _one_part(table, asked.columns, asked.names)
            yield decisions

    _write(wide(), path)
    for file in files:
        if file.parent == asked.folder.path:
            file.unlink()
    _refuse_returning(path, decision, asked)
    return _Made([path], roles, None, unit="row")


def _whole_decisions(narrow: ParquetScan, decision: str) -> Iterator[pa.Table]:
    """A log's rows that meet the condition; those of a decision that follow each other are in one
    table."""
    rest: list[pa.Table] = []
    for table in _long_tables(narrow):
        whole = pa.concat_tables([*rest, table])
        ids = whole.column(decision)
        cut = _last_begins(ids)
        if len(whole) - cut > LONGEST:
            raise LogError(
                f"decision {ids[cut].as_py()!r} has more than {LONGEST:,} rows. "
                f'Is "{decision}" what tells decisions apart?',
                narrow.source,
            )
        if cut:
            yield whole.slice(0, cut)
        rest = [whole.slice(cut).combine_chunks()]
    yield from rest


def _long_tables(narrow: ParquetScan) -> Iterator[pa.Table]:
    """A log's rows that meet the condition, with the columns FILE and PLACE."""
    for k in range(len(narrow.files)):
        query = (
            f"SELECT * EXCLUDE (file_row_number), {k} AS {quoted(FILE)}, "
            f"file_row_number AS {quoted(PLACE)} FROM {narrow._relation(k, numbered=True)}"
            f"{narrow._condition}"
        )
        try:
            for table in narrow._tables(query, GROUP_ROWS):
                if len(table):
                    yield table
        except (duckdb.Error, pa.ArrowException) as problem:
            raise LogError(f"{first_line(problem)}.", narrow.names[k]) from None


def _last_begins(ids: pa.ChunkedArray) -> int:
    """The row of a log in the long format from which on all are of the last decision."""
    codes = ids.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    others = np.flatnonzero(codes != codes[-1])
    return int(others[-1]) + 1 if len(others) else 0


def _one_part(table: pa.Table, columns: Columns, names: Sequence[str]) -> tuple[pa.Table, Columns]:
    files, places = table.column(FILE).to_numpy(), table.column(PLACE).to_numpy()

    def find(row: int) -> Place:
        return Place(names[files[row]], row=int(places[row]))

    ids = table.column(columns.decision)
    if not ids.null_count:
        codes = ids.combine_chunks().dictionary_encode().indices.to_numpy()
        back = np.flatnonzero(np.diff(codes) < 0)
        if len(back):
            row = int(back[0]) + 1
            raise _returning(columns.decision, ids[row].as_py(), find(row))
    source = RowsOfFiles.of([(0, 0, Copy.of(names[0], find))])
    wide, roles = one_row_per_decision(table.drop_columns([FILE, PLACE]), columns, source)
    begins = np.flatnonzero(np.diff(codes, prepend=-1))
    for name in (FILE, PLACE):
        wide = wide.append_column(name, table.column(name).take(begins))
    return wide, roles


def _returning(decision: str | None, name: Any, place: Place) -> LogError:
    return LogError(
        f"decision {name!r} comes back after rows of other decisions. In files this large the rows "
        f'of a decision must follow each other: sort by "{decision}".',
        place._replace(column=decision or ""),
    )


def _refuse_returning(path: Path, decision: str, asked: _Asked) -> None:
    """Raise if a decision is twice in a log's file: its rows were not together."""
    scan, column = parquet([str(path)], numbered=True), quoted(decision)
    spilled = str(asked.folder.path / "spilled")
    try:
        with connect(temp_directory=spilled, **asked.limits) as connection:
            twice = connection.execute(
                f"SELECT {column}, {quoted(FILE)}, {quoted(PLACE)} FROM {scan} WHERE "
                f"file_row_number = (SELECT max(file_row_number) AS back FROM {scan} "
                f"GROUP BY {column} HAVING count(*) > 1 ORDER BY back LIMIT 1)"
            ).fetchone()
    except duckdb.Error as problem:
        raise LogError(
            f"whether every decision's rows are together cannot be told ({first_line(problem)}).",
            asked.names[0],
        ) from None
    if twice is not None:
        name, file, row = twice
        raise _returning(decision, name, Place(asked.names[file], row=row))


# -- formats of others -----------------------------------------------------------------------


def _from_dsjson(asked: _Asked) -> _Made:
    counts, facts = dsjson.Skipped(), dsjson.Facts()
    drop = asked.on_bad_row
    copies = _copies(asked, lambda k, file: _dsjson_tables(k, file, counts, facts, drop))
    if not any(copy.rows for copy in copies):
        raise LogError(f"there is not one decision in this file; {counts}.", asked.files[0])
    lost = {"malformed line": counts[dsjson.BAD]} if counts[dsjson.BAD] else {}
    return _Made([copy.path for copy in copies], facts.columns(), asked.where, "line", lost)


def _dsjson_tables(
    k: int, file: Path, counts: dsjson.Skipped, facts: dsjson.Facts, on_bad_row: str
) -> Iterator[pa.Table]:
    schema = dsjson.schema().append(pa.field(FILE, pa.int64())).append(pa.field(PLACE, pa.int64()))
    yield schema.empty_table()
    prefix = f"{file}, " if k else ""
    parts = dsjson.numbered_batches(file, counts, on_bad_row=on_bad_row, prefix=prefix)
    for batch, lines in parts:
        facts.add(batch)
        places = [pa.array(np.full(len(lines), k)), pa.array(lines, pa.int64())]
        yield pa.Table.from_arrays([*batch.columns, *places], schema=schema)


def _from_obd(asked: _Asked) -> _Made:
    """An Open Bandit log, with candidates and logging if items and propensities tell them."""
    facts = obd.Facts()
    copies = _copies(asked, lambda _, file: _obd_tables(file, facts))
    if not any(copy.rows for copy in copies):
        raise LogError("there is not one row below the header.", asked.files[0])
    common_schema(asked.files, [copy.schema for copy in copies])
    made = [copy.path for copy in copies]
    if (K := facts.candidates()) is not None:
        made = [_rewritten(path, functools.partial(_with_candidates, K=K)) for path in made]
    return _Made(made, obd.columns_of(copies[0].schema.names), asked.where)


def _obd_tables(file: Path, facts: obd.Facts) -> Iterator[pa.Table]:
    for batch in obd.batches(file):
        facts.add(batch)
        yield pa.Table.from_batches([batch])


def _with_candidates(narrow: Any, K: int) -> Iterator[pa.Table]:
    for batch in narrow.iter_batches(max(GROUP_BYTES // (16 * K), 1)):
        n = len(batch)
        offsets = pa.array(np.arange(n + 1) * K, pa.int64())
        names = pa.array(np.tile(np.arange(K), n))
        logging = pa.array(np.full(n * K, 1.0 / K))
        table = pa.Table.from_batches([batch])
        for name, values in (("candidates", names), ("logging", logging)):
            table = table.append_column(name, pa.LargeListArray.from_arrays(offsets, values))
        yield table
