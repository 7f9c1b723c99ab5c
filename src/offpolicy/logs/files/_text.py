"""Which kinds of files there are, text of any size, and files that are small, read whole."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

from offpolicy._core.late import pa
from offpolicy.errors import LogError, Place
from offpolicy.logs.files._csv import CsvFile
from offpolicy.logs.files._footer import read_whole
from offpolicy.logs.files._json import JsonFile
from offpolicy.logs.files._sql import connect
from offpolicy.logs.formats._lines import COMPRESSED, existing, unpacked, unpacked_size

LARGEST = 2**28
"""Bytes of text. Files are held in memory, several times over; larger ones are converted."""
_PARQUET = (".parquet", ".pq")
_FEATHER = (".feather", ".arrow", ".ipc")
_CSV = (".csv", ".tsv", ".txt")
_JSON = (".jsonl", ".ndjson", ".json", ".dsjson")


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() in _PARQUET


def is_feather(path: Path) -> bool:
    return path.suffix.lower() in _FEATHER


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
            f".jsonl, .parquet, .feather).",
            path,
        )
    return kind


def is_large(files: Sequence[Path]) -> bool:
    """Whether a log's files of text are, unpacked, too large to be held."""
    left = LARGEST
    for file in files:
        left -= unpacked_size(file, left)
        if left < 0:
            return True
    return False


def read_table(path: Path, names: Container[str] = (), *, on_bad_row: str = "error") -> pa.Table:
    """A log's file as an Arrow table; in text, these columns hold ``names``. If rows are to be
    dropped, what is no list is missing."""
    existing(path)
    if is_parquet(path):
        return read_whole(str(path))
    if is_feather(path):
        return _read_feather(path)
    return pa.concat_tables(text_tables(path, names, lenient=on_bad_row == "drop"))


def _read_feather(path: Path) -> pa.Table:
    """A log's Feather file, which holds Arrow as it is in memory: offsets in it are compared with
    what they point into."""
    from pyarrow import feather

    try:
        table = feather.read_table(str(path), memory_map=False)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise LogError(f"this is no whole Feather (Arrow IPC) file: {problem}.", path) from None
    return table


def text_tables(
    path: Path, names: Container[str] = (), *, lenient: bool = False, **settings: Any
) -> Iterator[pa.Table]:
    """The rows of a log's file of text in order, at least one table.

    Columns that hold ``names`` stay the text as written; ``settings`` are `connect`'s.
    """
    kind = CsvFile if known_kind(path) == "csv" else JsonFile
    with unpacked(path) as plain, connect(**settings) as connection:
        yield from kind(connection, plain, path, lenient).tables(names)


def common_schema(
    files: Sequence[Path], schemas: Sequence[pa.Schema], names: Container[str] = ()
) -> pa.Schema:
    """What holds the columns of all files of a log, which must have the same; ``names`` that are
    integers in one file and text in another are text."""
    for file, schema in zip(files, schemas, strict=True):
        other = sorted(set(schema.names) ^ set(schemas[0].names))
        if other:
            raise LogError(
                f"this column is not in this file and {files[0]} alike. Files of one log must have "
                f"the same columns.",
                Place(str(file), other[0]),
            )
    fields = []
    for name in schemas[0].names:
        common = pa.schema([schemas[0].field(name)])
        for file, schema in zip(files, schemas, strict=True):
            both = [common, pa.schema([schema.field(name)])]
            if name in names and both[0].types != both[1].types:
                both = [pa.schema([(name, _with_text(one.types[0]))]) for one in both]
            try:
                common = pa.unify_schemas(both, promote_options="permissive")
            except pa.ArrowException:
                raise LogError(
                    f"it holds {schema.field(name).type}, but in {files[0]} it holds "
                    f"{schemas[0].field(name).type}, and no column holds both.",
                    Place(str(file), name),
                ) from None
        fields.append(common.field(name))
    return pa.schema(fields)


def as_common(files: Sequence[Path], tables: Sequence[pa.Table], names: Container[str]) -> pa.Table:
    """The rows of all files of a log."""
    schema = common_schema(files, [table.schema for table in tables], names)
    return pa.concat_tables([table.select(schema.names).cast(schema) for table in tables])


def _with_text(kind: pa.DataType) -> pa.DataType:
    """The type of a log's names, which are integers, as text."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("l", _with_text(kind.value_type)))
    return pa.string() if pa.types.is_integer(kind) else kind
