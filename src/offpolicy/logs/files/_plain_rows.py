"""Rows of a Parquet file as they are, where no condition picks some of them: read by pyarrow, which
takes half of DuckDB's time for lists, and compares pages with their checksums."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import accumulate
from typing import Any

from offpolicy._core.late import pa
from offpolicy.logs.files._footer import opened

_BUFFER = 2**18
"""Bytes of a column that are fetched at a time, not all of a row group."""


def rows_from(
    file: str, names: Sequence[str], row: int, batch: int, *, parallel: bool
) -> Iterator[pa.RecordBatch]:
    """All rows of a Parquet file from the ``row``-th on, ``batch`` of them at a time."""
    with _opened(file) as whole:
        ends = _ends(whole)
        group = bisect.bisect_right(ends, row)
        before = row - ([0, *ends][group] if row else 0)
        groups = list(range(group, len(ends)))
        for found in whole.iter_batches(batch, groups, names, use_threads=parallel):
            yield found.slice(before)
            before = max(before - len(found), 0)


def stretches(
    file: str, names: Sequence[str], spans: Sequence[tuple[int, int]], batch: int, *, parallel: bool
) -> Iterator[pa.RecordBatch]:
    """Some stretches of a Parquet file's rows, in order. A row group is decoded once, up to the
    last of its rows that is wanted; they are copied, so that the others' memory is used again."""
    with _opened(file) as whole:
        ends = _ends(whole)
        for group, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            wanted = [(max(a, begin), min(b, end)) for a, b in spans if a < end and b > begin]
            if not wanted:
                continue
            for found in whole.iter_batches(batch, [group], names, use_threads=parallel):
                beyond = begin + len(found)
                for start, stop in ((max(a, begin), min(b, beyond)) for a, b in wanted):
                    if start < stop:
                        yield _copied(found.slice(start - begin, stop - start))
                begin = beyond
                if begin >= wanted[-1][1]:
                    break


def _copied(part: pa.RecordBatch) -> pa.RecordBatch:
    columns = [pa.concat_arrays([column]) for column in part.columns]
    return pa.RecordBatch.from_arrays(columns, schema=part.schema)


def _opened(file: str) -> AbstractContextManager[Any]:
    return opened(file, pre_buffer=False, buffer_size=_BUFFER, page_checksum_verification=True)


def _ends(whole: Any) -> list[int]:
    """The row after the last one of every row group."""
    groups = range(whole.num_row_groups)
    return list(accumulate(whole.metadata.row_group(k).num_rows for k in groups))
