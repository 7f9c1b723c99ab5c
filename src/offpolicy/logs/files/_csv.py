"""CSV and TSV, parsed by DuckDB: in one dialect, strictly, and with nothing guessed from a sample.

The text is read twice: for the types, then for the values. A column's type is the narrowest that
holds all of its values, wherever in the file they are.
"""

from __future__ import annotations

import contextlib
import csv
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._core.files import temporary_folder
from offpolicy._core.types import Ints
from offpolicy.errors import LogError, Place
from offpolicy.logs.files._sql import connect, first_line, interrupts_as_pythons, literal
from offpolicy.logs.formats._lines import cut_off

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

COMPRESSED = (".gz", ".bz2", ".zst")
LONGEST_ROW = 2**24
"""Bytes of a row of text, at most."""
BATCH = 65_536
"""Rows that are handed over at a time."""
_MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null",
)  # fmt: skip
"""What is no value, unless its column is one of text."""
_BIT, _WHOLE, _FLOAT, _TRUTH, _DATE, _TIME, _ZONED, _TEXT, _NONE = (2**k for k in range(9))
_HOLDS = {
    "BIGINT": _BIT | _WHOLE,
    "BOOLEAN": _BIT | _TRUTH,
    "DOUBLE": _BIT | _WHOLE | _FLOAT,
    "DATE": _DATE,
    "TIMESTAMP": _DATE | _TIME,
    "TIMESTAMPTZ": _ZONED,
}
"""The kinds of values that a type holds, the narrowest first; text holds all."""
_KIND = rf"""bit_or(CASE
    WHEN regexp_full_match({{0}}, '\s*-?[0-9]+\s*') THEN CASE
        WHEN {{0}} IN ('0', '1') THEN {_BIT}
        WHEN length({{0}}) < 19 OR TRY_CAST({{0}} AS BIGINT) IS NOT NULL THEN {_WHOLE}
        ELSE {_FLOAT} END
    WHEN regexp_full_match({{0}},
        '\s*-?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[iI]nf(inity)?)\s*') THEN {_FLOAT}
    WHEN {{0}} IN {_MISSING} THEN {_NONE}
    WHEN {{0}} IN ('true', 'True', 'TRUE', 'false', 'False', 'FALSE') THEN {_TRUTH}
    WHEN NOT regexp_full_match({{0}},
        '\d{{{{4}}}}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[-+]\d\d(:?\d\d)?)?)?')
        OR TRY_CAST({{0}} AS TIMESTAMP) IS NULL THEN {_TEXT}
    WHEN length({{0}}) = 10 THEN {_DATE}
    WHEN regexp_matches({{0}}, '[ T].*[-+Z]') THEN {_ZONED}
    ELSE {_TIME} END)"""
_LIST_KIND = rf"""bit_or(CASE
    WHEN regexp_full_match({{0}}, '\[[-0-9, ]*\]') THEN {_WHOLE}
    WHEN regexp_full_match({{0}}, '\[[-+0-9.eE, ]*\]') THEN {_FLOAT}
    ELSE {_TEXT} END)"""


_TINY = 2**15
"""Bytes of a file that Python reads."""
_TINY_WHOLE = re.compile(r"-?[0-9]{1,18}")
_TINY_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_TINY_TEXT = re.compile(r"[A-Za-z_][A-Za-z0-9_ ./-]*")
_WORDS = ("inf", "infinity", "na", "nan", "null", "n/a", "true", "false")


def csv_tables(path: Path, *, lenient: bool = False, **settings: Any) -> Iterator[pa.Table]:
    """A CSV log's rows in order, at least one table; if ``lenient``, what is no list is missing.

    A column holds lists, written as JSON, if its first value does. ``settings`` are `connect`'s.
    """
    import duckdb
    import pyarrow as pa

    with _unpacked(path) as plain, connect(**settings) as connection, interrupts_as_pythons():
        line, names = _header(plain, path)
        rows = connection.sql(f"SELECT * FROM {_scan(plain, path, line, len(names))}")
        try:
            values = _values(rows, lenient)
            with rows.project(", ".join(values)).to_arrow_reader(BATCH) as reader:
                yield pa.Table.from_batches([], reader.schema).rename_columns(names)
                for batch in reader:
                    yield pa.Table.from_batches([batch]).rename_columns(names)
        except (duckdb.Error, pa.ArrowException, OSError, ValueError) as problem:
            raise _located(plain, path, names, problem, lenient) from None


def tiny_table(path: Path) -> pa.Table | None:
    """A CSV log of a few rows as `csv_tables` would read it, sooner than DuckDB is loaded; None if
    it is larger, or holds anything but text, numbers and lists of numbers."""
    import pyarrow as pa

    if path.stat().st_size > _TINY or path.suffix.lower() in COMPRESSED:
        return None
    content = path.read_bytes()
    ends = content.count(b"\n")
    if b"\0" in content or {content.count(b"\r"), content.count(b"\r\n")} not in ({0}, {ends}):
        return None
    _, names = _header(path, path)
    cells = [row for _, row in _records(path, path)][1:]
    if len(names) < 2 or not cells or any(len(row) != len(names) for row in cells):
        return None
    columns = [_tiny_column(column) for column in zip(*cells, strict=True)]
    if any(column is None for column in columns):
        return None
    return pa.table(dict(zip(names, columns, strict=True)))


def _tiny_column(cells: Sequence[str]) -> pa.Array | None:
    """A column of a tiny CSV log; None if it is not plainly of numbers, lists or text."""
    import pyarrow as pa

    if _list_in(cells[0]) is not None:
        lists = [_list_in(cell) for cell in cells]
        flat = [value for values in lists for value in values or []]
        kinds = set(map(type, flat))
        if None in lists or kinds not in ({int}, {float}, {int, float}):
            return None
        if not all(abs(value) < 2**53 for value in flat):
            return None
        starts = np.cumsum([0, *(len(values or []) for values in lists)])
        values = _numbers(flat, "int64" if kinds == {int} else "double")
        return pa.ListArray.from_arrays(_numbers(starts, "int32"), values)
    if all(map(_TINY_WHOLE.fullmatch, cells)):
        return _numbers(list(map(int, cells)), "int64")
    if all(map(_TINY_NUMBER.fullmatch, cells)):
        return _numbers(list(map(float, cells)), "double")
    plain = all(_TINY_TEXT.fullmatch(cell) and cell.lower() not in _WORDS for cell in cells)
    if not plain:
        return None
    starts = np.cumsum([0, *map(len, cells)], dtype=np.int32)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer("".join(cells).encode())]
    return pa.Array.from_buffers(pa.string(), len(cells), buffers)


def _numbers(values: Sequence[float] | Ints, kind: str) -> pa.Array:
    """A column of a CSV log's numbers. Not by `pa.array`, which loads pandas if it is there."""
    import pyarrow as pa

    buffer = pa.py_buffer(np.array(values, dtype=kind))
    return pa.Array.from_buffers(pa.type_for_alias(kind), len(values), [None, buffer])


@contextlib.contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """The CSV log itself, or what it holds if compressed: DuckDB compares no checksums."""
    import pyarrow as pa

    if path.suffix.lower() not in COMPRESSED:
        yield path
        return
    with temporary_folder() as folder:
        plain = folder / "plain.csv"
        try:
            with (
                pa.input_stream(str(path), compression="detect") as packed,
                plain.open("wb") as out,
            ):
                shutil.copyfileobj(packed, out, 2**20)
        except (pa.ArrowException, OSError) as problem:
            raise cut_off(path, problem) from None
        yield plain


def _separator(path: Path) -> str:
    return "\t" if ".tsv" in path.name.lower() else ","


def _records(plain: Path, path: Path) -> Iterator[tuple[int, list[str]]]:
    """All records of a CSV log that are not blank, with the lines in which they begin, by Python's
    own reader; bytes that are not UTF-8 are surrogates."""
    with plain.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as stream:
        before, line = csv.field_size_limit(LONGEST_ROW), 1
        try:
            records = csv.reader(stream, delimiter=_separator(path), strict=True)
            for record in records:
                if record:
                    yield line, record
                line = records.line_num + 1
        except csv.Error as problem:
            known = "unexpected end of data" in str(problem) or "field larger" in str(problem)
            what = "a quote is opened here and not closed" if known else str(problem)
            raise _broken(what, Place(str(path), row=line, unit="line")) from None
        finally:
            csv.field_size_limit(before)


def _broken(what: str, place: Place) -> LogError:
    return LogError(f"not a readable CSV file: {what}. Correct the line.", place)


def _header(plain: Path, path: Path) -> tuple[int, list[str]]:
    """The names of a CSV log's columns, and the line that they are in."""
    line, names = next(_records(plain, path), (0, []))
    if not names:
        raise LogError("not a readable CSV file (it has no header). The file is empty.", path)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise LogError(
            f'there are two columns named "{min(twice)}"; every name must be different.', path
        )
    return line, names


def _scan(plain: Path, path: Path, line: int, columns: int) -> str:
    """SQL for a CSV log's cells as text, in columns c0, c1, …: names may differ in case only."""
    names = [f"c{k}" for k in range(columns)]
    return (
        f"read_csv({literal(str(plain))}, auto_detect = false, strict_mode = true, "
        f"header = true, skip = {line - 1}, "
        f"columns = {dict.fromkeys(names, 'VARCHAR')}, force_not_null = {names}, "
        f"delim = '{_separator(path)}', quote = '\"', escape = '\"', "
        f"max_line_size = {LONGEST_ROW}, buffer_size = {2 * LONGEST_ROW})"
    )


def _values(rows: duckdb.DuckDBPyRelation, lenient: bool) -> list[str]:
    """SQL for the values of a CSV log's columns."""
    first = {
        name: cell
        for row in rows.limit(1).fetchall()
        for name, cell in zip(rows.columns, row, strict=True)
    }
    lists = {name for name, cell in first.items() if _list_in(cell) is not None}
    asked = [(_LIST_KIND if name in lists else _KIND).format(name) for name in rows.columns]
    (kinds,) = rows.aggregate(", ".join(asked)).fetchall()
    return [
        _lists(rows, name, kind, lenient) if name in lists else _cast(name, kind or 0)
        for name, kind in zip(rows.columns, kinds, strict=True)
    ]


def _cast(name: str, kinds: int) -> str:
    values = kinds & ~_NONE
    if not values:
        return "NULL"
    text = f"CASE WHEN {name} NOT IN {_MISSING} THEN {name} END" if kinds & _NONE else name
    for type_, held in _HOLDS.items():
        if values & held == values:
            return f"CAST({text} AS {type_})"
    return name


def _lists(rows: duckdb.DuckDBPyRelation, name: str, kind: int, lenient: bool) -> str:
    is_array = f"json_type(TRY_CAST({name} AS JSON)) = 'ARRAY'"
    structure = '["BIGINT"]' if kind == _WHOLE else '["DOUBLE"]'
    if kind & _TEXT:
        other = "NULL" if lenient else "'\"\"'"
        ((structure,),) = rows.aggregate(
            f"json_group_structure(CAST(CASE WHEN {is_array} THEN {name} ELSE {other} END AS JSON))"
        ).fetchall()
        for wide in ("UBIGINT", "HUGEINT"):
            structure = structure.replace(f'"{wide}"', '"BIGINT"')
        if not structure.startswith("[") or '"JSON"' in structure:
            raise ValueError("lists that are none, or of values of several kinds")
    text = f"CASE WHEN {is_array} THEN {name} END" if lenient else name
    return f"json_transform_strict({text}, {literal(structure)})"


def _list_in(cell: str) -> list[Any] | None:
    """The list that a cell of a CSV log holds as JSON, if it does."""
    if not cell.lstrip().startswith("["):
        return None
    try:
        values = json.loads(cell)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, list) else None


def _located(
    plain: Path, path: Path, names: list[str], problem: Exception, lenient: bool
) -> LogError:
    """The error for the first row of a CSV log that is wrong: in its fields, bytes or lists."""
    kinds: dict[str, set[type]] = {}
    for row, (line, cells) in enumerate(_records(plain, path), start=-1):
        place = Place(str(path), row=line, unit="line")
        if len(cells) != len(names):
            hint = " (is a quote missing?)" if any("\n" in cell for cell in cells) else ""
            if len(names) == 1 and ";" in names[0]:
                hint = " (are fields separated by semicolons? They must be by commas)"
            what = f"{len(cells)} fields, but the header has {len(names)}{hint}"
            return _broken(what, place)
        for name, cell in zip(names, cells, strict=True):
            if any("\ud800" <= character <= "\udfff" for character in cell):
                place = place._replace(column=name)
                return LogError("the text is not UTF-8. Convert the file first.", place)
            values = _list_in(cell) if row == 0 or name in kinds else None
            if row == 0 and values is not None:
                kinds[name] = set()
            if row < 0 or name not in kinds or (values is None and lenient):
                continue
            place = Place(str(path), name, row)
            if values is None:
                sentence = f'"{cell[:60]}" is not a list. Write lists as JSON: "[0.2, 0.8]".'
                return LogError(sentence, place)
            kinds[name] |= {
                float if type(value) is int else type(value)
                for value in values
                if value is not None
            }
            if len(kinds[name]) > 1:
                return LogError("the lists must hold values of one kind.", place)
    return LogError(
        f"not a readable CSV file ({first_line(problem)}). Do all its lines end alike?", path
    )
