"""Parquet files that Spark's executors find where this process does.

Spark shares out their rows, and every executor reads its own part as this process would: no row
goes through Spark's form of it, none is sent, and the blocks are those of the other engines.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from offpolicy._core.late import pa
from offpolicy._core.validation import RowsOfFiles
from offpolicy.logs._bandit_log import BanditLog
from offpolicy.logs._scan import BLOCK, Distributed, Sums
from offpolicy.logs.files._parquet import ParquetScan
from offpolicy.logs.files._spark import PARTIAL, added_up, partial, spark_session

TASKS_PER_CORE = 3
"""So that cores end at about the same time. Every task sends half a megabyte of sums."""
_KNOWN = (
    "_chunks",
    "_clusters",
    "_counts",
    "_folders",
    "_predicate",
    "_renamed",
    "_roles",
    "_types",
)
"""What is found out about all files once, and sent along."""


class Part(NamedTuple):
    """Rows ``start`` to ``stop`` of a file, and the position in the log of the first."""

    file: int
    start: int
    stop: int
    position: int


class SharedFiles(ParquetScan, Distributed):
    """A log in Parquet files that Spark's executors read. See `offpolicy.read_log`."""

    def reduce(
        self,
        function: Callable[[BanditLog], Sums],
        add: Callable[[Sums, Sums], Sums],
        extra: Sequence[str],
    ) -> Sums:
        spark = spark_session()
        shares = self._shares(TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
        known = {name: getattr(self, name) for name in _KNOWN}
        task = _Task(self, self._selected(extra), shares, known, function, add)
        numbers = spark.range(0, len(shares), 1, len(shares))
        return added_up(numbers.mapInArrow(task, PARTIAL), add, self)

    def _shares(self, most: int) -> list[list[Part]]:
        """The whole log in shares, at most so many, of about as many rows, in whole blocks."""
        rows = -(-len(self) // (most * BLOCK)) * BLOCK
        shares: list[list[Part]] = [[]]
        begun = held = 0
        for k, count in enumerate(self._counts):
            for start in range(0, count, rows):
                if held >= rows:
                    shares.append([])
                    held = 0
                part = Part(k, start, min(start + rows, count), begun + start)
                shares[-1].append(part)
                held += part.stop - part.start
            begun += count
        return shares

    def logs_of(self, part: Part, names: Sequence[str]) -> Iterator[BanditLog]:
        """The blocks of a part."""
        row = part.start
        for table in self._blocks(part.file, names, row):
            block = table.slice(0, part.stop - row)
            source = RowsOfFiles.of(self._parts(part.file, row, row + len(block)))
            yield self._log(block, source, part.position + row - part.start)
            row += len(block)
            if row == part.stop:
                return
        self._check_count(part.file, row, part.stop)


@dataclass(frozen=True)
class _Task:
    """What an executor does with its share."""

    scan: SharedFiles
    names: Sequence[str]
    shares: Sequence[Sequence[Part]]
    known: dict[str, Any]
    function: Callable[[BanditLog], Any]
    add: Callable[[Any, Any], Any]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for name, found in self.known.items():
            setattr(self.scan, name, found)
        self.scan._database.threads = 1  # as many shares as there are cores are read at a time
        mine = (k for batch in batches for k in batch.column(0).to_pylist())
        parts = itertools.chain.from_iterable(self.shares[k] for k in mine)
        logs = itertools.chain.from_iterable(self.scan.logs_of(p, self.names) for p in parts)
        yield from partial(logs, self.function, self.add)
