"""Small files, read whole: CSV, JSON lines and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from offpolicy.errors import LogError
from offpolicy.logs._bandit_log import BanditLog
from offpolicy.logs._columns import Columns
from offpolicy.logs.files._csv import COMPRESSED, csv_tables
from offpolicy.logs.files._sql import first_line, unreadable
from offpolicy.logs.files._text import kind_of, read_json
from offpolicy.logs.formats._lines import existing

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST = 2**28
"""Bytes of text. Files are held in memory, several times over; larger ones are converted."""
_UNPACKED = 5
"""How many times its size a compressed file is, about."""


def is_large(files: Sequence[Path]) -> bool:
    """Whether these files of text are too large to be held."""
    total = sum(
        file.stat().st_size * (_UNPACKED if file.suffix.lower() in COMPRESSED else 1)
        for file in files
    )
    return total > LARGEST


def read_log(
    path: str | Path, columns: Columns | None = None, on_bad_row: str = "error"
) -> BanditLog:
    """A log from one file. In CSV, lists are written as JSON: ``"[0.2, 0.8]"``."""
    table = read_table(Path(path), on_bad_row)
    return BanditLog.from_frame(table, columns, source=str(path), on_bad_row=on_bad_row)


def read_table(path: Path, on_bad_row: str = "error") -> pa.Table:
    """The file as an Arrow table; where rows are to be dropped, what is no list is missing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    existing(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            return pq.read_table(path, page_checksum_verification=True)
        except (pa.ArrowException, OSError, ValueError, OverflowError) as problem:
            raise unreadable(problem, str(path)) from None
    if known_kind(path) == "json":
        return read_json(path)
    return pa.concat_tables(csv_tables(path, lenient=on_bad_row == "drop"))


def known_kind(path: Path) -> str:
    """ "csv" or "json"; any other kind of file is an error."""
    kind = kind_of(path)
    if not kind:
        raise LogError(
            f'"{path.suffix.lower()}" is not a kind of file this version reads (.csv, '
            f".jsonl, .parquet).",
            path,
        )
    return kind


def check_same_columns(files: Sequence[Path], schemas: Sequence[pa.Schema]) -> None:
    """Raise unless all files have columns of the same names."""
    for file, schema in zip(files, schemas, strict=True):
        other = sorted(set(schema.names) ^ set(schemas[0].names))
        if other:
            raise LogError(
                f'column "{other[0]}" is not in this file and {files[0]} alike. Files of '
                f"one log must have the same columns.",
                file,
            )


def do_not_fit(files: Sequence[Path], problem: Exception) -> LogError:
    return LogError(f"{files[0]} and others do not fit together: {first_line(problem)}.")
