"""Which kinds of files there are, and those that are small, read whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.errors import LogError, Place
from offpolicy.logs.files._csv import COMPRESSED, csv_tables, tiny_table
from offpolicy.logs.files._footer import read_whole
from offpolicy.logs.files._json import json_tables, read_json
from offpolicy.logs.files._sql import first_line
from offpolicy.logs.formats._lines import existing

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST = 2**28
"""Bytes of text. Files are held in memory, several times over; larger ones are converted."""
_UNPACKED = 5
"""How many times its size a compressed file is, about."""
_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".tsv", ".txt")
_JSON = (".jsonl", ".ndjson", ".json", ".dsjson")


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() in _PARQUET


def kind_of(path: Path) -> str:
    """ "csv", "json", or "" if the log's file name is of neither."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    last = suffixes[-2:-1] if suffixes and suffixes[-1] in COMPRESSED else suffixes[-1:]
    if last and last[0] in _CSV:
        return "csv"
    return "json" if any(suffix in _JSON for suffix in suffixes) else ""


def known_kind(path: Path) -> str:
    """ "csv" or "json"; a log in any other kind of file is an error."""
    kind = kind_of(path)
    if not kind:
        raise LogError(
            f'"{path.suffix.lower()}" is not a kind of file this version reads (.csv, '
            f".jsonl, .parquet).",
            path,
        )
    return kind


def is_large(files: Sequence[Path]) -> bool:
    """Whether a log's files of text are too large to be held."""
    total = sum(
        file.stat().st_size * (_UNPACKED if file.suffix.lower() in COMPRESSED else 1)
        for file in files
    )
    return total > LARGEST


def read_table(path: Path, on_bad_row: str = "error") -> pa.Table:
    """A log's file as an Arrow table; if rows are to be dropped, what is no list is missing."""
    import pyarrow as pa

    existing(path)
    if is_parquet(path):
        return read_whole(str(path))
    if known_kind(path) == "json":
        return read_json(path)
    tiny = tiny_table(path)
    if tiny is not None:
        return tiny
    return pa.concat_tables(csv_tables(path, lenient=on_bad_row == "drop"))


def text_tables(path: Path, **limits: Any) -> Iterator[pa.Table]:
    """A large CSV or JSON log's rows in order, at least one table; ``limits``: see `connect`."""
    return csv_tables(path, **limits) if kind_of(path) == "csv" else json_tables(path)


def check_same_columns(files: Sequence[Path], schemas: Sequence[pa.Schema]) -> None:
    """Raise unless all files of a log have columns of the same names."""
    for file, schema in zip(files, schemas, strict=True):
        other = sorted(set(schema.names) ^ set(schemas[0].names))
        if other:
            raise LogError(
                f"this column is not in this file and {files[0]} alike. Files of one log must have "
                f"the same columns.",
                Place(str(file), other[0]),
            )


def do_not_fit(files: Sequence[Path], problem: Exception) -> LogError:
    sentence = f"it and the others do not fit together: {first_line(problem)}."
    return LogError(sentence, files[0])
