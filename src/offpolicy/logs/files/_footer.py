"""The footer of a Parquet file: read once, and checked before it is believed.

A reader takes from it how many rows there are and where they lie. One damaged bit in it, and rows
are left out without a word: page checksums do not cover it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import index
from typing import Any, NamedTuple

from offpolicy._core.late import pa, pq
from offpolicy.errors import LogError, Place
from offpolicy.logs.files._sql import unreadable
from offpolicy.logs.files._thrift import Reader

_WORD = 4
"""Bytes of "PAR1", with which a file begins and ends, and of the length of its footer."""
_REPEATED = 2


class Footer(NamedTuple):
    """What is known of a Parquet file before its pages are read."""

    rows: int
    schema: pa.Schema


@contextlib.contextmanager
def opened(file: str, **options: Any) -> Iterator[Any]:
    """A log's Parquet file as pyarrow's `ParquetFile`, with a footer that can be believed."""
    try:
        _check(file)
        # Of other names, some are URLs to pyarrow, or someone's home.
        with pq.ParquetFile(os.path.abspath(file), **options) as whole:
            for name, count in Counter(whole.schema_arrow.names).items():
                if count > 1:
                    sentence = f"there are {count} columns of this name; each must have its own."
                    raise LogError(sentence, Place(file, name))
            yield whole
    except (pa.ArrowException, OSError, ValueError, OverflowError) as problem:
        if isinstance(problem, LogError):
            raise
        raise unreadable(problem, file) from None


def read_footer(file: str) -> Footer:
    """The footer of a log's Parquet file; one that contradicts itself is an error."""
    with opened(file) as whole:
        return Footer(whole.metadata.num_rows, whole.schema_arrow)


def only_value(file: str, name: str) -> Any:
    """What all rows of a log's Parquet file hold in a column, if the statistics say so; or None."""
    seen = set[Any]()
    with opened(file) as whole:
        for k in range(whole.num_row_groups):
            group = whole.metadata.row_group(k)
            for chunk in map(group.column, range(group.num_columns)):
                facts = chunk.statistics
                if chunk.path_in_schema == name:
                    told = facts is not None and facts.has_min_max and facts.null_count == 0
                    seen |= {facts.min, facts.max} if told else {None}
    return seen.pop() if len(seen) == 1 else None


def read_whole(file: str) -> pa.Table:
    """A log's Parquet file, its pages compared with their checksums, if it has any."""
    with opened(file, page_checksum_verification=True) as whole:
        table = whole.read()
        if len(table) != whole.metadata.num_rows:
            raise _damaged(f"{whole.metadata.num_rows:,} rows, but {len(table):,} stored", file)
        return table


def _check(file: str) -> None:
    """Raise if what the footer of a log's file says of rows and places cannot be."""
    with open(file, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(-min(2 * _WORD, size), os.SEEK_END)
        length, magic = int.from_bytes(stream.read(_WORD), "little"), stream.read(_WORD)
        end = size - 2 * _WORD - length
        if magic != b"PAR1" or end < _WORD:
            return  # No Parquet, or encrypted: pyarrow says what is wrong.
        stream.seek(end)
        reader = Reader(stream.read(length))
    try:
        footer = reader.struct()
        groups = [_Group.of(group) for group in footer[4]]
        rows, repeated = index(footer[3]), _repeated(footer[2])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _damaged("it is no list of row groups", file) from None
    if reader.at != length:
        raise _damaged(f"it is {length:,} bytes long, but ends after {reader.at:,}", file)
    if sum(group.rows for group in groups) != rows:
        counted = sum(group.rows for group in groups)
        raise _damaged(f"{rows:,} rows, but {counted:,} in its row groups", file)
    for group in groups:
        _check_values(group, repeated, file)
    _check_apart([span for group in groups for span in group.spans], end, file)


class _Group(NamedTuple):
    """A row group, as it says of itself."""

    rows: int
    values: list[int]
    """Of every column."""
    spans: list[tuple[int, int]]
    """Where every column begins and ends."""

    @classmethod
    def of(cls, group: dict[int, Any]) -> _Group:
        """From Parquet's RowGroup (1 columns, 3 rows) and its ColumnMetaData (5 values, 7 size, 9
        where the data are, 11 where their dictionary is)."""
        columns = [column[3] for column in group[1]]
        spans = []
        for column in columns:
            begin = min((at for at in (column[9], column.get(11, 0)) if at > 0), default=0)
            spans.append((begin, begin + index(column[7])))
        return cls(index(group[3]), [index(column[5]) for column in columns], spans)


def _repeated(schema: list[dict[int, Any]]) -> list[bool]:
    """Whether each of the columns of a log's file holds lists, whose values are not as its rows."""
    leaves: list[bool] = []
    elements = iter(schema)

    def visit(inherited: bool) -> None:
        element = next(elements, None)
        if element is None:
            raise ValueError("the schema ends too early")
        inside = inherited or element.get(3) == _REPEATED
        for _ in range(element.get(5, 0)):
            visit(inside)
        if not element.get(5):
            leaves.append(inside)

    visit(False)
    return leaves


def _check_values(group: _Group, repeated: list[bool], file: str) -> None:
    if len(group.values) != len(repeated):
        raise _damaged(f"{len(repeated)} columns, but {len(group.values)} in a row group", file)
    for values, lists in zip(group.values, repeated, strict=True):
        if values < group.rows or (values > group.rows and not lists):
            raise _damaged(f"{group.rows:,} rows in a row group, but {values:,} values", file)


def _check_apart(spans: Sequence[tuple[int, int]], end: int, file: str) -> None:
    """Raise if parts of a log's file overlap, or are not within it. What lies between them proves
    nothing: old pyarrow repeats the column's metadata there, others put bloom filters or padding.
    """
    filled = sorted(span for span in spans if span[1] > span[0])
    for (_, stop), (start, _) in itertools.pairwise([(0, _WORD), *filled, (end, end)]):
        if start < stop:
            raise _damaged(f"two columns, or a column and the footer, at byte {start:,}", file)


def _damaged(what: str, file: str) -> LogError:
    return LogError(
        f"its footer contradicts itself ({what}). Fetch the file again, or write it anew.",
        file,
    )
