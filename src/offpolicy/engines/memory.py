"""Small files, read whole: CSV, JSON lines and Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.columns import Columns
from offpolicy.errors import LogError
from offpolicy.log import BanditLog

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST = 2**30
"""Bytes. Files are held in memory, several times over."""


def read_log(
    path: str | Path, columns: Columns | None = None, on_bad_row: str = "error"
) -> BanditLog:
    """A log from one file. In CSV, lists are written as JSON: ``"[0.2, 0.8]"``."""
    table = read_table(Path(path), on_bad_row)
    return BanditLog.from_frame(table, columns, source=str(path), on_bad_row=on_bad_row)


def read_table(path: Path, on_bad_row: str = "error") -> pa.Table:
    """The file as an Arrow table; where rows are to be dropped, what is no list is missing."""
    if path.is_dir():
        raise LogError(f"{path}: this is a folder; give a file.")
    if not path.is_file():
        raise LogError(f"{path}: there is no such file.")
    size = path.stat().st_size
    if size > LARGEST:
        raise LogError(
            f"{path}: {size / 1e9:.1f} GB is more than this version reads into memory "
            f"({LARGEST / 1e9:.1f} GB). Take a sample of the rows."
        )
    kind = path.suffix.lower()
    if kind in (".parquet", ".pq"):
        return _read_parquet(path)
    if kind in (".csv", ".tsv", ".txt") or path.name.lower().endswith((".csv.gz", ".tsv.gz")):
        return _read_csv(path, lenient=on_bad_row == "drop")
    if any(part in (".jsonl", ".ndjson", ".json", ".dsjson") for part in path.suffixes):
        return _read_json(path)
    raise LogError(
        f'{path}: "{kind}" is not a kind of file this version reads (.csv, .jsonl, .parquet).'
    )


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as problem:
        raise LogError(
            f"{path}: not a readable Parquet file ({_first_line(problem)}). Was it written or "
            f"copied only in part?"
        ) from None


def _read_csv(path: Path, lenient: bool) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    separator = "\t" if ".tsv" in path.name.lower() else ","
    try:
        table = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=separator))
    except (pa.ArrowException, OSError) as problem:
        raise LogError(f"{path}: not a readable CSV file ({_first_line(problem)}).") from None
    for position, name in enumerate(table.column_names):
        column = table.column(position)
        if pa.types.is_binary(column.type):
            raise LogError(f"{path}, {name}: the text is not UTF-8. Convert the file first.")
        if pa.types.is_string(column.type) and len(column) and _as_list(column[0].as_py()):
            table = table.set_column(position, name, _parse_lists(column, name, path, lenient))
    return table


def _read_json(path: Path) -> pa.Table:
    import pyarrow as pa
    from pyarrow import json as reader

    try:
        with pa.input_stream(str(path)) as stream:
            return reader.read_json(stream)
    except (pa.ArrowException, OSError) as problem:
        raise LogError(
            f"{path}: not readable as JSON lines, one object a line ({_first_line(problem)})."
        ) from None


def _as_list(text: str | None) -> list[Any] | None:
    """The list that the text holds as JSON, if it does."""
    if not text or not text.lstrip().startswith("["):
        return None
    try:
        values = json.loads(text)
    except ValueError:
        return None
    return values if isinstance(values, list) else None


def _parse_lists(column: pa.ChunkedArray, name: str, path: Path, lenient: bool) -> pa.Array:
    import pyarrow as pa

    lists: list[list[Any] | None] = []
    for row, text in enumerate(column.to_pylist()):
        values = _as_list(text)
        if values is None and not lenient:
            raise LogError(
                f'{path}, {name}, row {row}: "{(text or "")[:60]}" is not a list. Write lists as '
                f'JSON: "[0.2, 0.8]".'
            )
        lists.append(values)
    try:
        return pa.array(lists)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as problem:
        raise LogError(
            f"{path}, {name}: the lists must hold values of one kind ({_first_line(problem)})."
        ) from None


def _first_line(problem: Exception) -> str:
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__
