"""JSON lines, read by DuckDB: one object a line, whose names tell upper from lower case.

Objects within objects, and lists of lists, stay JSON, as text.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator
from typing import final

from offpolicy._core.late import duckdb
from offpolicy.errors import LogError, Place
from offpolicy.logs.files import _kinds as kinds
from offpolicy.logs.files._sql import first_line, listed, literal
from offpolicy.logs.files._text_file import TextFile
from offpolicy.logs.formats._lines import LONGEST_LINE, NOT_UTF_8, numbered

MOST_NAMES = 16_384
"""Different names in the objects of a file: where there are more, names are data."""
_BATCH = 4_096


@final
class JsonFile(TextFile):
    """A log in JSON lines."""

    @functools.cached_property
    def names(self) -> list[str]:
        """Those of the first object first, then the others."""
        keys = self._objects.project("json_type(x) AS kind, json_keys(x) AS names")
        found = dict.fromkeys(name for _, names in keys.limit(1).fetchall() for name in names or ())
        fine = True
        with keys.distinct().to_arrow_reader(_BATCH) as batches:
            for batch in batches:
                kinds_, sets = (column.to_pylist() for column in batch)
                fine = fine and all(kind == "OBJECT" for kind in kinds_)
                fine = fine and all(len(set(names)) == len(names) for names in sets)
                more = {name for names in sets for name in names or ()} - found.keys()
                found |= dict.fromkeys(sorted(more))
                if not fine or len(found) > MOST_NAMES:
                    break
        if not fine:
            raise self._no_object()
        if len(found) > MOST_NAMES:
            raise LogError(
                f"the objects have more than {MOST_NAMES:,} different names, each of which would "
                f"be a column. Write what they name as lists.",
                self.path,
            )
        if not found:
            raise LogError("there is not one object in this file that holds anything.", self.path)
        return list(found)

    @functools.cached_property
    def cells(self) -> duckdb.DuckDBPyRelation:
        names = [name.replace("~", "~0").replace("/", "~1") for name in self.names]
        pointers = listed([f"/{name}" for name in names])
        values = [f"CAST(v[{k + 1}] AS VARCHAR) AS c{k}" for k in range(len(names))]
        return self._objects.project(f"json_extract(x, {pointers}) AS v").project(", ".join(values))

    def kind(self, cell: str) -> str:
        return kinds.json_kind(cell)

    def value(self, cell: str, held: int, *, names: bool) -> str:
        return kinds.json_value(cell, held, names=names)

    def check(self, name: str, cell: str, held: int) -> None:
        other = self.first_of_others(cell, held)
        if other is not None:
            row, text = other
            place = self.line(self._line_of(row))._replace(column=name)
            raise _broken(f"{text[:60]} is of another kind than the values before it", place)

    @functools.cached_property
    def _objects(self) -> duckdb.DuckDBPyRelation:
        return self.connection.sql(
            f"SELECT json AS x FROM read_ndjson_objects({literal(str(self.plain))}, "
            f"maximum_object_size = {LONGEST_LINE})"
        )

    # -- what cannot be read ---------------------------------------------------------------

    def refusal(self, problem: Exception) -> LogError:
        """The error for the first line that is not JSON."""
        lines = self._lines()
        while some := list(itertools.islice(lines, _BATCH)):
            wrong = self._first_malformed(some)
            if wrong is not None:
                return wrong
        what = f"not readable as JSON lines, one object a line ({first_line(problem)})."
        return LogError(what, self.path)

    def _first_malformed(self, lines: list[tuple[int, bytes]]) -> LogError | None:
        texts = []
        for number, line in lines:
            try:
                texts.append(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError:
                return LogError(NOT_UTF_8, self.line(number))
        valid = self.connection.execute(
            "SELECT json_valid(x) FROM (SELECT unnest(CAST(? AS VARCHAR[])) AS x)", [texts]
        ).fetchall()
        for (fine,), (number, _), text in zip(valid, lines, texts, strict=True):
            if fine:
                continue
            try:
                self.connection.execute("SELECT CAST(? AS JSON)", [text]).fetchall()
                what = "malformed"
            except duckdb.Error as problem:
                what = first_line(problem).partition("of input: ")[2].partition(".  Input: ")[0]
            return _broken(f"{what or 'malformed'}: {text.strip()[:60]}", self.line(number))
        return None

    def _no_object(self) -> LogError:
        """The error for the first line that is no object, or names something twice."""
        odd = "kind <> 'OBJECT' OR len(names) > len(list_distinct(names))"
        numbered_keys = self._objects.project(
            "json_type(x) AS kind, json_keys(x) AS names, row_number() OVER () - 1 AS place"
        )
        ((kind, names, row),) = numbered_keys.filter(odd).limit(1).fetchall()
        place = self.line(self._line_of(int(row)))
        if kind != "OBJECT":
            return _broken(f"this is no object but {kind.lower()}", place)
        ((name, _),) = Counter(names).most_common(1)
        return _broken(f'"{name}" is there twice', place._replace(column=name))

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Those that are not blank."""
        return ((number, line) for number, line in numbered(self.plain) if line.strip())

    def _line_of(self, row: int) -> int:
        return next(itertools.islice(self._lines(), row, None))[0]


def _broken(what: str, place: Place) -> LogError:
    return LogError(
        f"not readable as JSON lines, one object a line ({what}). Correct the line or leave it "
        f"out.",
        place,
    )
