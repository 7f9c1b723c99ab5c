"""A log's file of text before it has types: cells as text, their kinds, and their values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from offpolicy._core.late import duckdb, pa
from offpolicy.errors import LogError, Place
from offpolicy.logs.files._kinds import FAMILIES
from offpolicy.logs.files._sql import interrupts_as_pythons

BATCH = 65_536
"""Rows that are handed over at a time."""


@dataclass(frozen=True)
class TextFile(ABC):
    """A log in text, as DuckDB reads it; its columns are read twice: for the types, then for the
    values."""

    connection: duckdb.DuckDBPyConnection
    plain: Path
    """What the log's file holds, unpacked."""
    path: Path
    lenient: bool
    """Whether what is no list is missing, where the column holds lists; else it is an error."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Of the columns."""

    @property
    @abstractmethod
    def cells(self) -> duckdb.DuckDBPyRelation:
        """All rows in order, as text in columns c0, c1, …: names may differ in case only."""

    @abstractmethod
    def kind(self, cell: str) -> str:
        """SQL for the kind of a cell; see `_kinds`."""

    @abstractmethod
    def value(self, cell: str, held: int, *, names: bool) -> str:
        """SQL for the value of a cell whose column holds these kinds."""

    @abstractmethod
    def check(self, name: str, cell: str, held: int) -> None:
        """Raise if a column cannot hold all of these kinds."""

    @abstractmethod
    def refusal(self, problem: Exception) -> LogError:
        """The error for a file that DuckDB cannot read."""

    def tables(self, names: Container[str]) -> Iterator[pa.Table]:
        """All rows with their types, at least one table; these columns hold names."""
        try:
            with interrupts_as_pythons(), self._typed(names) as reader:
                yield pa.Table.from_batches([], reader.schema).rename_columns(self.names)
                for batch in reader:
                    yield pa.Table.from_batches([batch]).rename_columns(self.names)
        except (duckdb.Error, pa.ArrowException, OSError) as problem:
            raise self.refusal(problem) from None

    def _typed(self, names: Container[str]) -> pa.RecordBatchReader:
        asked = [f"bit_or({self.kind(cell)})" for cell in self.cells.columns]
        (kinds,) = self.cells.aggregate(", ".join(asked)).fetchall()
        values = []
        for name, cell, kind in zip(self.names, self.cells.columns, kinds, strict=True):
            held = kind or 0
            self.check(name, cell, held)
            values.append(self.value(cell, held, names=name in names))
        return self.cells.project(", ".join(values)).to_arrow_reader(BATCH)

    def line(self, number: int) -> Place:
        return Place(str(self.path), row=number, unit="line")

    def first(self, cell: str, wanted: int) -> list[tuple[int, str]]:
        """The first row whose cell is of one of these kinds, if there is one, and the cell."""
        numbered = self.cells.project(
            f"row_number() OVER () - 1 AS place, {cell} AS text, {self.kind(cell)} AS kind"
        )
        found = numbered.filter(f"kind & {wanted} <> 0").limit(1).fetchall()
        return [(int(row), text) for row, text, _ in found]

    def first_of_others(self, cell: str, held: int) -> tuple[int, str] | None:
        """The first row whose cell is of another family of kinds than those before it."""
        for families in FAMILIES:
            present = [family for family in families if held & family]
            if len(present) > 1:
                return sorted(place for kind in present for place in self.first(cell, kind))[1]
        return None
