"""CSV and TSV, read by DuckDB: in one dialect, strictly, and with nothing guessed from a sample."""

from __future__ import annotations

import csv
import functools
import re
from pathlib import Path
from typing import final

from offpolicy._core.late import duckdb
from offpolicy.errors import LogError, Place
from offpolicy.logs.files import _kinds as kinds
from offpolicy.logs.files._sql import connect, first_line, literal
from offpolicy.logs.files._text_file import TextFile
from offpolicy.logs.formats._lines import LONGEST_LINE, NOT_UTF_8

_BLOCK = 2**20
_FEWEST, _MOST = 4, 1_000
"""Columns of a log in which text can be told from rows between stray quotes."""


@final
class CsvFile(TextFile):
    """A log in CSV or TSV. A column holds lists if its first value is one."""

    @functools.cached_property
    def names(self) -> list[str]:
        return self._header[1]

    @functools.cached_property
    def cells(self) -> duckdb.DuckDBPyRelation:
        return self.connection.sql(f"SELECT * FROM {self._scan()}")

    def kind(self, cell: str) -> str:
        if cell in self._lists:
            return kinds.list_kind(cell)
        return kinds.csv_kind(cell, self._swallows(cell))

    def _swallows(self, cell: str) -> str:
        """SQL for whether a cell is what stands between stray quotes in one column of two rows:
        the rest of a row, whole rows, and the beginning of another."""
        before, fields = int(cell[1:]), len(self.names)
        if fields < _FEWEST or fields > _MOST:
            return "false"
        field = rf"[^{self._separator}\r\n]*"
        rest, row, begin = (
            rf"{field}({self._separator}{field}){{{count}}}"
            for count in (fields - 1 - before, fields - 1, before)
        )
        end = r"(\r\n|\n|\r)"
        pattern = literal(f"{rest}{end}({row}{end})*{begin}")
        breaks = " OR ".join(f"contains({cell}, chr({code}))" for code in (10, 13))
        return f"({breaks}) AND regexp_full_match({cell}, {pattern})"

    def value(self, cell: str, held: int, *, names: bool) -> str:
        value = kinds.list_value if cell in self._lists else kinds.csv_value
        return value(cell, held, names=names)

    def check(self, name: str, cell: str, held: int) -> None:
        if held & kinds.ROWS:
            ((row, text),) = self.first(cell, kinds.ROWS)
            raise LogError(
                f"the text runs over {len(text.splitlines())} lines that look like rows: is there "
                f"a stray quote in two of them? Correct these, or write the text without line "
                f"breaks.",
                Place(str(self.path), name, row),
            )
        if cell not in self._lists:
            return
        if held & kinds.NO_LIST and not self.lenient:
            ((row, text),) = self.first(cell, kinds.NO_LIST)
            sentence = f'"{text[:60]}" is not a list. Write lists as JSON: "[0.2, 0.8]".'
            raise LogError(sentence, Place(str(self.path), name, row))
        if (other := self.first_of_others(cell, held & ~kinds.NO_LIST)) is not None:
            place = Place(str(self.path), name, other[0])
            raise LogError("the lists must hold values of one kind.", place)

    @functools.cached_property
    def _lists(self) -> set[str]:
        asked = ", ".join(map(kinds.list_kind, self.cells.columns))
        return {
            cell
            for row in self.cells.limit(1).project(asked).fetchall()
            for cell, kind in zip(self.cells.columns, row, strict=True)
            if kind != kinds.NO_LIST
        }

    @property
    def _separator(self) -> str:
        return "\t" if ".tsv" in self.path.name.lower() else ","

    @functools.cached_property
    def _header(self) -> tuple[int, list[str]]:
        """The line of the header and its names; where two are the same, DuckDB would rename one."""
        before, line = csv.field_size_limit(LONGEST_LINE), 1
        names: list[str] = []
        try:
            with self.plain.open(
                encoding="utf-8-sig", errors="surrogateescape", newline=""
            ) as stream:
                lines = iter(lambda: stream.readline(LONGEST_LINE), "")
                records = csv.reader(lines, delimiter=self._separator, strict=True)
                for names in records:
                    if names:
                        break
                    line = records.line_num + 1
        except csv.Error as problem:
            raise _broken(f"the header cannot be read ({problem})", self.line(line)) from None
        finally:
            csv.field_size_limit(before)
        if not names:
            raise LogError("not a readable CSV file (it has no header). It is empty.", self.path)
        if any("\udc80" <= character <= "\udcff" for character in "".join(names)):
            raise LogError(NOT_UTF_8, self.line(line))
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise LogError(
                f'there are two columns named "{min(twice)}"; every name must be different.',
                Place(str(self.path), min(twice)),
            )
        return line, names

    def _scan(self, more: str = "") -> str:
        """SQL for the cells as text."""
        line, names = self._header
        cells = [f"c{k}" for k in range(len(names))]
        return (
            f"read_csv({literal(str(self.plain))}, auto_detect = false, strict_mode = true, "
            f"header = true, skip = {line - 1}, "
            f"columns = {dict.fromkeys(cells, 'VARCHAR')}, force_not_null = {cells}, "
            f"delim = '{self._separator}', quote = '\"', escape = '\"', "
            f"max_line_size = {LONGEST_LINE}, buffer_size = {2 * LONGEST_LINE}{more})"
        )

    # -- what cannot be read ---------------------------------------------------------------

    def refusal(self, problem: Exception) -> LogError:
        """The error for the first row that DuckDB rejects."""
        rejected = self._rejected()
        if rejected is None:
            return _odd_end(self.plain, self.path) or LogError(
                f"not a readable CSV file ({first_line(problem)}).", self.path
            )
        kind, message, position, column, text = rejected
        place = self.line(_line_at(self.plain, position - 1))
        if kind in ("INVALID ENCODING", "UNQUOTED VALUE") and column and column <= len(self.names):
            place = place._replace(column=self.names[column - 1])
        if kind == "INVALID ENCODING":
            return LogError(NOT_UTF_8, place)
        if kind == "UNQUOTED VALUE":
            what = "a quote is opened here and not closed, or text follows where it is closed"
            return _broken(what, place)
        if kind == "LINE SIZE OVER MAXIMUM":
            what = f"the row has more than {LONGEST_LINE:,} bytes (is a quote missing?)"
            return _broken(what, place)
        found = re.search(r"Found: (\d+)", message)
        if found is None:
            return _broken(message.splitlines()[0], place)
        hint = " (is a quote missing?)" if re.search(r"\S\s*[\r\n]\s*\S", text) else ""
        if len(self.names) == 1 and ";" in self.names[0]:
            hint = " (are fields separated by semicolons? They must be by commas)"
        return _broken(f"{found[1]} fields, but the header has {len(self.names)}{hint}", place)

    def _rejected(self) -> tuple[str, str, int, int | None, str] | None:
        """Why, where and in which column DuckDB rejects a row, and the row: the first of all."""
        with connect(threads=1) as connection:
            try:
                scan = self._scan(", store_rejects = true")
                connection.execute(f"SELECT count(COLUMNS(*)) FROM {scan}").fetchall()
                found = connection.execute(
                    "SELECT error_type, error_message, line_byte_position, column_idx, csv_line "
                    "FROM reject_errors ORDER BY line, error_type = 'UNQUOTED VALUE' DESC LIMIT 1"
                ).fetchone()
            except duckdb.Error:
                return None
        return found


def _broken(what: str, place: Place) -> LogError:
    return LogError(f"not a readable CSV file: {what}. Correct the line.", place)


def _line_at(plain: Path, position: int) -> int:
    """The line of a CSV log in which the row begins that begins at this byte; DuckDB counts rows,
    and lets a row begin with the blank lines before it."""
    line, end = 1, b""
    with plain.open("rb") as stream:
        while position > 0 and (block := stream.read(min(position, _BLOCK))):
            end = end or (b"\r" if b"\r" in block and b"\n" not in block else b"\n")
            line += block.count(end)
            position -= len(block)
        while (byte := stream.read(1)) in (b"\r", b"\n"):
            line += byte == end
    return line


def _odd_end(plain: Path, path: Path) -> LogError | None:
    """The error for the first line of a CSV log that does not end as the first does."""
    first = ""
    with plain.open(encoding="utf-8", errors="replace", newline="") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE), ""), start=1):
            end = line[len(line.rstrip("\r\n")) :]
            first = first or end
            if end and end != first:
                return LogError(
                    f"not a readable CSV file: the line ends in {end!r}, the first in {first!r}. "
                    f"All lines must end alike.",
                    Place(str(path), row=number, unit="line"),
                )
    return None
