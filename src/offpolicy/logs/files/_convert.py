"""Large files of other kinds, written anew as temporary Parquet and then scanned.

Text is read once, piece by piece (`logs.files._text`), and so are the long format and the
formats of others. The copy is in a folder of its own, which goes when the log does.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._core.validation import Copy, RowsOfFiles
from offpolicy.errors import LogError, Place
from offpolicy.logs._columns import Columns, missing_column
from offpolicy.logs._long_format import widened
from offpolicy.logs.files import _small as held
from offpolicy.logs.files._parquet import FILE, PLACE, ParquetScan
from offpolicy.logs.files._sql import connect, first_line, parquet, quoted
from offpolicy.logs.files._text import text_tables
from offpolicy.logs.formats import dsjson, obd

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS, GROUP_BYTES = 122_880, 64 * 2**20
"""Rows, or bytes if these are fewer rows, that are written together."""
LONGEST = 2**24
"""Rows of one decision in the long format."""


class ConvertedScan(ParquetScan):
    """A log in temporary Parquet files, made from files of another kind. See `read_log`."""

    def __init__(self, copy: _Made, asked: _Asked) -> None:
        self._asked, self._unit = asked, copy.unit
        self._folder = weakref.finalize(self, _remove, asked.folder, os.getpid())
        super().__init__(
            copy.files,
            copy.columns,
            where=copy.where,
            memory=asked.memory,
            threads=asked.threads,
            names=[str(file) for file in asked.files],
            on_bad_row=asked.on_bad_row,
        )

    def close(self) -> None:
        """Remove the temporary files; the log cannot be read any more."""
        self._folder()

    def fingerprint(self) -> str:
        """Of the files that were converted, columns and condition."""
        asked = repr((self._asked.columns, self._asked.where))
        return hashlib.sha256((super().fingerprint() + asked).encode()).hexdigest()

    def _label(self, file: int) -> str:
        if self._unit is None:
            return super()._label(file)
        return Copy.of(self.source, functools.partial(self._origin, file))

    def _place(self, file: int, row: int) -> Place:
        if self._unit is None:
            return super()._place(file, row)
        return self._origin(file, row, f"WHERE file_row_number = {row}", 0)

    def _origin(
        self, file: int, row: int, condition: str | None = None, skip: int | None = None
    ) -> Place:
        """That a row is from."""
        ((source, place),) = self._rows(
            f"SELECT {quoted(FILE)}, {quoted(PLACE)} FROM "
            f"{parquet([self.files[file]], numbered=True)} "
            f"{self._condition if condition is None else condition} "
            f"LIMIT 1 OFFSET {row if skip is None else skip}"
        )
        return Place(self.names[source], row=int(place), unit=str(self._unit))


@dataclass
class _Asked:
    """What `convert` was asked for."""

    files: Sequence[Path]
    columns: Columns
    where: str | None
    memory: str | None
    threads: int | None
    on_bad_row: str
    folder: Path


@dataclass
class _Made:
    """What was made of it: files, and how they are to be read."""

    files: list[Path]
    columns: Columns
    where: str | None
    unit: str | None = None
    """What the places in the columns FILE and PLACE count; None if the rows are as they were."""


def convert(
    files: Sequence[Path],
    columns: Columns,
    *,
    where: str | None = None,
    memory: str | None = None,
    threads: int | None = None,
    on_bad_row: str = "error",
    foreign: ModuleType | None = None,
) -> ConvertedScan:
    """The log in files that are not, or not as they should be, Parquet with a row per decision.

    ``foreign`` is the format if it is someone else's: `offpolicy.formats.dsjson` or ``obd``.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix="offpolicy-"))
    except OSError as problem:
        raise LogError(f"There is no place for temporary files: {problem}. Set TMPDIR.") from None
    asked = _Asked(files, columns, where, memory, threads, on_bad_row, folder)
    try:
        return ConvertedScan(_made(asked, foreign), asked)
    except BaseException:
        _remove(folder, os.getpid())
        raise


def _made(asked: _Asked, foreign: ModuleType | None) -> _Made:
    if foreign is dsjson:
        return _from_dsjson(asked)
    if foreign is obd:
        return _from_obd(asked)
    parquet = asked.files[0].suffix.lower() in (".parquet", ".pq")
    files = list(asked.files) if parquet else _from_text(asked)
    if asked.columns.decision:
        return _from_long(asked, files)
    return _Made(files, asked.columns, asked.where)


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


# -- writing ---------------------------------------------------------------------------------


@dataclass
class _Sink:
    """A Parquet file that is written group by group, and gets its name when it is complete."""

    path: Path
    rows: int = 0
    schema: pa.Schema | None = None
    _held: list[pa.Table] = field(default_factory=list)
    _writer: Any = None

    def add(self, table: pa.Table) -> None:
        self.schema = table.schema
        self._held.append(_storable(table))
        self.rows += len(table)
        if (
            sum(map(len, self._held)) >= GROUP_ROWS
            or sum(part.nbytes for part in self._held) >= GROUP_BYTES
        ):
            self._flush()

    def finish(self) -> None:
        self._flush()
        with _on_disk(self.path):
            self._writer.close()
            os.replace(self._part, self.path)

    def abandon(self) -> None:
        """Leave nothing behind."""
        if self._writer is not None:
            with contextlib.suppress(Exception):
                self._writer.close()
        self._part.unlink(missing_ok=True)

    @property
    def _part(self) -> Path:
        return self.path.with_suffix(".part")

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not self._held:
            return
        whole, self._held = pa.concat_tables(self._held), []
        with _on_disk(self.path):
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._part, whole.schema)
            self._writer.write_table(whole, row_group_size=max(len(whole), 1))


def _write(tables: Iterable[pa.Table], path: Path) -> _Sink:
    """All tables, at least one, as one Parquet file."""
    sink = _Sink(path)
    try:
        for table in tables:
            sink.add(table)
        sink.finish()
    finally:
        sink.abandon()
    return sink


@contextlib.contextmanager
def _on_disk(path: Path) -> Iterator[None]:
    """Errors of writing as ours."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as problem:
        raise LogError(
            f"The temporary copy of the log cannot be written to {path.parent} "
            f"({first_line(problem)}). It takes up to half as much room as the log's text, "
            f"unpacked: set TMPDIR to a folder on a larger disk."
        ) from None


def _storable(table: pa.Table) -> pa.Table:
    """The table with what Parquet cannot hold, objects without any field, as text."""
    import pyarrow as pa

    for name in table.column_names:
        if _is_hollow(table.schema.field(name).type):
            values = [json.dumps(value, default=str) for value in table.column(name).to_pylist()]
            position = table.column_names.index(name)
            table = table.set_column(position, name, pa.array(values, pa.string()))
    return table


def _is_hollow(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return not kind.num_fields or any(_is_hollow(field.type) for field in kind)
    return pa.types.is_list(kind) and _is_hollow(kind.value_type)


# -- text ------------------------------------------------------------------------------------


def _from_text(asked: _Asked) -> list[Path]:
    """One Parquet file for every file, all with the same columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    made, schemas = [], []
    for file in asked.files:
        held.known_kind(file)
    for k, file in enumerate(asked.files):
        made.append(asked.folder / f"{k}.parquet")
        tables = text_tables(file, memory=asked.memory, threads=asked.threads)
        schemas.append(_write(tables, made[-1]).schema)
    held.check_same_columns(asked.files, schemas)
    try:
        common = pa.unify_schemas(schemas, promote_options="permissive")
        for k, schema in enumerate(schemas):
            if not schema.equals(common):
                wide = asked.folder / f"{k}-wide.parquet"
                with pq.ParquetFile(made[k]) as narrow:
                    _write(_cast(narrow, common), wide)
                made[k].unlink()
                made[k] = wide
    except pa.ArrowException as problem:
        raise held.do_not_fit(asked.files, problem) from None
    return made


def _cast(narrow: Any, schema: pa.Schema) -> Iterator[pa.Table]:
    import pyarrow as pa

    yield schema.empty_table()
    for batch in narrow.iter_batches():
        yield pa.Table.from_batches([batch]).select(schema.names).cast(schema)


# -- the long format -------------------------------------------------------------------------


def _from_long(asked: _Asked, files: list[Path]) -> _Made:
    """One row per decision, from files whose rows are of one decision and candidate each."""
    names = [str(file) for file in asked.files]
    narrow = ParquetScan(
        files, where=asked.where, memory=asked.memory, threads=asked.threads, names=names
    )
    decision = str(asked.columns.decision)
    if decision not in narrow._names:
        raise missing_column(narrow._names, decision, "decision", narrow.source)
    path = asked.folder / "decisions.parquet"
    roles: list[Columns] = []
    _write(_wide(narrow, asked.columns, roles), path)
    for file in files:
        if file.parent == asked.folder:
            file.unlink()
    _refuse_returning(path, decision, names, asked)
    return _Made([path], roles[0], None, unit="row")


def _wide(narrow: ParquetScan, columns: Columns, roles: list[Columns]) -> Iterator[pa.Table]:
    """One row per decision; the roles in it are told to ``roles``."""
    import pyarrow as pa

    rest: pa.Table | None = None
    for table in _long_tables(narrow):
        whole = table if rest is None else pa.concat_tables([rest, table])
        ids = whole.column(columns.decision)
        if ids.null_count:
            _one_part(whole, columns, narrow.names)
        cut = _last_begins(ids)
        if len(whole) - cut > LONGEST:
            raise LogError(
                f"decision {ids[cut].as_py()!r} has more than {LONGEST:,} rows. "
                f'Is "{columns.decision}" what tells decisions apart?',
                narrow.source,
            )
        if cut:
            wide, found = _one_part(whole.slice(0, cut), columns, narrow.names)
            roles.append(found)
            yield wide
        rest = whole.slice(cut).combine_chunks()
    assert rest is not None
    wide, found = _one_part(rest, columns, narrow.names)
    roles.append(found)
    yield wide


def _long_tables(narrow: ParquetScan) -> Iterator[pa.Table]:
    """All rows that meet the condition, with the columns FILE and PLACE."""
    import duckdb
    import pyarrow as pa

    for k, file in enumerate(narrow.files):
        query = (
            f"SELECT * EXCLUDE (file_row_number), {k} AS {quoted(FILE)}, "
            f"file_row_number AS {quoted(PLACE)} FROM {parquet([file], numbered=True)}"
            f"{narrow._condition}"
        )
        try:
            for batch in narrow._sql(query).to_arrow_reader(GROUP_ROWS):
                if len(batch):
                    yield pa.Table.from_batches([batch])
        except (duckdb.Error, pa.ArrowException) as problem:
            raise LogError(f"{first_line(problem)}.", narrow.names[k]) from None


def _last_begins(ids: pa.ChunkedArray) -> int:
    """The row from which on all are of the last decision."""
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
    wide, roles = widened(table.drop_columns([FILE, PLACE]), columns, source)
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


def _refuse_returning(path: Path, decision: str, names: Sequence[str], asked: _Asked) -> None:
    """Raise if a decision is there twice: its rows were not together."""
    import duckdb

    spilled = str(asked.folder / "spilled")
    scan, column = parquet([str(path)], numbered=True), quoted(decision)
    try:
        with connect(asked.memory, asked.threads, temp_directory=spilled) as connection:
            twice = connection.execute(
                f"SELECT {column}, min(file_row_number) AS first FROM {scan} GROUP BY {column} "
                f"HAVING count(*) > 1 ORDER BY first LIMIT 1"
            ).fetchone()
            if twice is None:
                return
            found = connection.execute(
                f"SELECT {quoted(FILE)}, {quoted(PLACE)} FROM {scan} WHERE "
                f"file_row_number > {twice[1]} AND {column} IS NOT DISTINCT FROM (SELECT {column} "
                f"FROM {scan} WHERE file_row_number = {twice[1]}) ORDER BY file_row_number LIMIT 1"
            ).fetchone()
    except duckdb.Error as problem:
        raise LogError(
            f"whether every decision's rows are together cannot be told ({first_line(problem)}).",
            names[0],
        ) from None
    assert found is not None
    raise _returning(decision, twice[0], Place(names[found[0]], row=found[1]))


# -- formats of others -----------------------------------------------------------------------


def _from_dsjson(asked: _Asked) -> _Made:
    counts, facts = dsjson.Skipped(), dsjson.Facts()
    made, rows = [], 0
    for k, file in enumerate(asked.files):
        made.append(asked.folder / f"{k}.parquet")
        rows += _write(_dsjson_tables(k, file, counts, facts), made[-1]).rows
    if not rows:
        raise LogError(f"there is not one decision in this file; {counts}.", asked.files[0])
    return _Made(made, facts.columns(), asked.where, unit="line")


def _dsjson_tables(
    k: int, file: Path, counts: dsjson.Skipped, facts: dsjson.Facts
) -> Iterator[pa.Table]:
    import pyarrow as pa

    schema = dsjson.schema().append(pa.field(FILE, pa.int64())).append(pa.field(PLACE, pa.int64()))
    yield schema.empty_table()
    for batch, lines in dsjson.numbered_batches(file, counts, prefix=f"{file}, " if k else ""):
        facts.add(batch)
        places = [pa.array(np.full(len(lines), k)), pa.array(lines, pa.int64())]
        yield pa.Table.from_arrays([*batch.columns, *places], schema=schema)


def _from_obd(asked: _Asked) -> _Made:
    """With candidates and logging, if they can be told from the items and propensities."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    facts, made, schemas, rows = obd.Facts(), [], [], 0
    for k, file in enumerate(asked.files):
        made.append(asked.folder / f"{k}.parquet")
        sink = _write(_obd_tables(file, facts), made[-1])
        rows += sink.rows
        schemas.append(sink.schema)
    if not rows:
        raise LogError("there is not one row below the header.", asked.files[0])
    held.check_same_columns(asked.files, schemas)
    if (K := facts.candidates()) is not None:
        for k, file in enumerate(made):
            wide = asked.folder / f"{k}-wide.parquet"
            with pq.ParquetFile(file) as narrow:
                _write(_with_candidates(narrow, K), wide)
            file.unlink()
            made[k] = wide
    assert isinstance(schemas[0], pa.Schema)
    return _Made(made, obd.columns_of(schemas[0].names), asked.where)


def _obd_tables(file: Path, facts: obd.Facts) -> Iterator[pa.Table]:
    import pyarrow as pa

    for batch in obd.batches(file):
        facts.add(batch)
        yield pa.Table.from_batches([batch])


def _with_candidates(narrow: Any, K: int) -> Iterator[pa.Table]:
    import pyarrow as pa

    for batch in narrow.iter_batches(max(GROUP_BYTES // (16 * K), 1)):
        n = len(batch)
        offsets = pa.array(np.arange(n + 1) * K, pa.int64())
        names = pa.array(np.tile(np.arange(K), n))
        logging = pa.array(np.full(n * K, 1.0 / K))
        table = pa.Table.from_batches([batch])
        for name, values in (("candidates", names), ("logging", logging)):
            table = table.append_column(name, pa.LargeListArray.from_arrays(offsets, values))
        yield table
