"""CSV and JSON lines: one dialect, whether a file is read whole or piece by piece.

Read whole, a column's type follows from all of its values. Read piece by piece it follows from
those seen so far; where a later one needs a wider type, the reading starts over with that type.
So both ways end with the same types and the same values.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.errors import LogError, Place
from offpolicy.logs.formats._lines import cut_off, numbered

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 8 * 2**20
"""Of text that is parsed at a time; no row may be longer."""
COMPRESSED = (".gz", ".bz2", ".zst")
_CSV = (".csv", ".tsv", ".txt")
_JSON = (".jsonl", ".ndjson", ".json", ".dsjson")


class Wider(Exception):
    """A later value needs a wider type than earlier ones were given: start over."""


def kind_of(path: Path) -> str:
    """ "csv", "json", or "" if the file's name is of neither."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    last = suffixes[-2:-1] if suffixes and suffixes[-1] in COMPRESSED else suffixes[-1:]
    if last and last[0] in _CSV:
        return "csv"
    return "json" if any(suffix in _JSON for suffix in suffixes) else ""


def reader_of(path: Path) -> CsvPieces | JsonPieces:
    """What reads this file piece by piece."""
    return CsvPieces(path) if kind_of(path) == "csv" else JsonPieces(path)


def first_line(problem: Exception) -> str:
    return str(problem).splitlines()[0].rstrip(". ") if str(problem) else type(problem).__name__


def wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type that holds what both hold, as where Arrow sees all values at once."""
    import pyarrow as pa

    kinds = pa.types
    if one == other or kinds.is_null(other):
        return one
    if kinds.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if any(map(kinds.is_timestamp, (one, other))) and any(map(kinds.is_string, (one, other))):
        return pa.string()
    if kinds.is_list(one) and kinds.is_list(other):
        return pa.list_(wider(one.value_type, other.value_type))
    if kinds.is_struct(one) and kinds.is_struct(other):
        fields = {field.name: field.type for field in one}
        for field in other:
            fields[field.name] = wider(fields.get(field.name, field.type), field.type)
        return pa.struct(list(fields.items()))
    raise TypeError(f"{_in_words(other)} after {_in_words(one)}")


def _in_words(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_list(kind):
        return "a list"
    if pa.types.is_struct(kind):
        return "an object"
    if pa.types.is_boolean(kind):
        return "true or false"
    return "a number" if kind in (pa.int64(), pa.float64()) else "text"


# -- CSV -------------------------------------------------------------------------------------


def csv_options(path: Path, types: dict[str, pa.DataType] | None = None) -> dict[str, Any]:
    """How CSV is read, for `pyarrow.csv.read_csv` and `open_csv`."""
    from pyarrow import csv as arrow

    return {
        "read_options": arrow.ReadOptions(block_size=BLOCK_BYTES),
        "parse_options": arrow.ParseOptions(delimiter=_separator(path), newlines_in_values=True),
        "convert_options": arrow.ConvertOptions(column_types=types),
    }


def csv_error(path: Path, problem: Exception) -> LogError:
    """The error for CSV that cannot be parsed, with the line if it can be told."""
    if isinstance(problem, OSError):
        return cut_off(path, problem)
    try:
        found = _broken_line(path)
    except (OSError, ValueError):
        found = None
    if found is None:
        hint = "" if path.stat().st_size else " The file is empty."
        return LogError(f"not a readable CSV file ({first_line(problem)}).{hint}", path)
    line, what = found
    place = Place(str(path), row=line, unit="line")
    return LogError(f"not a readable CSV file: {what}. Correct the line.", place)


def has_line_ends(table: pa.Table) -> bool:
    """Whether some text goes over a line's end: is it meant, or is a quote missing?"""
    import pyarrow as pa
    import pyarrow.compute as pc

    return any(
        pc.any(pc.match_substring(column, "\n")).as_py()
        for column in table.columns
        if pa.types.is_string(column.type)
    )


def check_quotes(path: Path) -> None:
    """Raise if a quote is not closed, or closed in the middle of a field.

    Arrow takes both without a word, and makes several lines one field.
    """
    if _broken_line(path) is not None:
        raise csv_error(path, ValueError("quotes"))


def not_utf8(path: Path, name: str) -> LogError:
    for line, text in numbered(path):
        try:
            text.decode()
        except UnicodeDecodeError:
            place = Place(str(path), name, line, "line")
            return LogError("the text is not UTF-8. Convert the file first.", place)
    return LogError("the text is not UTF-8. Convert the file first.", Place(str(path), name))


def _separator(path: Path) -> str:
    return "\t" if ".tsv" in path.name.lower() else ","


def _broken_line(path: Path) -> tuple[int, str] | None:
    """The first line with other fields than the header, and what is wrong with it."""
    import pyarrow as pa

    with pa.input_stream(str(path), compression="detect") as stream:
        raw = io.BufferedReader(stream, 2**20)
        text = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="")
        rows = csv.reader(text, delimiter=_separator(path), strict=True)
        line = 1
        before = csv.field_size_limit(max(2**17, BLOCK_BYTES))
        try:
            header = next(rows, [])
            line = rows.line_num + 1
            for row in rows:
                if row and len(row) != len(header):
                    hint = " (is a quote missing?)" if rows.line_num > line else ""
                    return line, f"{len(row)} fields, but the header has {len(header)}{hint}"
                line = rows.line_num + 1
        except csv.Error as problem:
            known = "unexpected end of data" in str(problem) or "field larger" in str(problem)
            return line, "a quote is opened here and not closed" if known else str(problem)
        finally:
            csv.field_size_limit(before)
    return None


class CsvPieces:
    """A CSV file piece by piece. Types are those that Arrow tries, in its order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._types: dict[str, pa.DataType] | None = None
        self._lists: dict[str, pa.DataType] = {}
        self._scouted = False

    def tables(self) -> Iterator[pa.Table]:
        """All rows in order, at least one table; `Wider` if they must be read anew."""
        import pyarrow as pa
        from pyarrow import csv as arrow

        rows, doubtful, anew = 0, False, False
        try:
            with arrow.open_csv(self.path, **csv_options(self.path, self._types)) as reader:
                self._know(reader.schema)
                for batch in reader:
                    table = pa.Table.from_batches([batch])
                    doubtful = doubtful or has_line_ends(table)
                    if not rows:
                        self._find_lists(table)
                    known = dict(self._lists)
                    parsed = self._parsed(table, rows)
                    anew = anew or (rows > 0 and known != self._lists)
                    rows += len(table)
                    if not anew:
                        yield parsed
                if not rows:
                    yield reader.schema.empty_table()
                if doubtful:
                    check_quotes(self.path)
        except (pa.ArrowException, OSError) as problem:
            self._loosen(problem)
            if rows and not self._scouted:
                self._scout()
            raise Wider from None
        if anew:
            raise Wider

    def _know(self, schema: pa.Schema) -> None:
        twice = {name for name in schema.names if schema.names.count(name) > 1}
        if twice:
            raise LogError(
                f'there are two columns named "{min(twice)}"; every name must be different.',
                self.path,
            )
        if self._types is None:
            self._types = dict(zip(schema.names, schema.types, strict=True))
        for name, kind in self._types.items():
            if kind not in _ladder():
                raise not_utf8(self.path, name)

    def _loosen(self, problem: Exception) -> None:
        """The next type for the column that could not be converted."""
        found = re.search(r"column #(\d+): .*conversion error", str(problem))
        if found is None or self._types is None:
            raise csv_error(self.path, problem) from None
        name = list(self._types)[int(found[1])]
        ladder = _ladder()
        step = ladder.index(self._types[name]) + 1
        if step == len(ladder):
            raise not_utf8(self.path, name) from None
        self._types[name] = ladder[step]

    def _scout(self) -> None:
        """All other columns' types from the whole file as well, rather than one in every pass."""
        import pyarrow as pa
        from pyarrow import csv as arrow

        self._scouted = True
        assert self._types is not None
        ladder, types = _ladder(), self._types
        as_text = csv_options(self.path, dict.fromkeys(types, pa.string()))
        with (
            contextlib.suppress(pa.ArrowException, OSError),
            arrow.open_csv(self.path, **as_text) as reader,
        ):
            for batch in reader:
                for name, column in zip(types, batch.columns, strict=True):
                    while types[name] != pa.string() and not _converts(column, types[name]):
                        types[name] = ladder[ladder.index(types[name]) + 1]

    def _find_lists(self, table: pa.Table) -> None:
        """A column holds lists if its first value does."""
        import pyarrow as pa

        found = {
            name: self._lists.get(name, pa.null())
            for name in table.column_names
            if is_list_column(table.column(name))
        }
        self._lists = found

    def _parsed(self, table: pa.Table, first: int) -> pa.Table:
        for name, known in list(self._lists.items()):
            column = list_array(table.column(name), name, self.path, known, first)
            self._lists[name] = column.type
            table = table.set_column(table.column_names.index(name), name, column)
        return table


def _converts(texts: pa.Array, kind: pa.DataType) -> bool:
    """Whether Arrow's CSV reader makes this type of all these cells."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    sink = pa.BufferOutputStream()
    arrow.write_csv(pa.table({"cell": texts}), sink)
    block = sink.getvalue()
    try:
        arrow.read_csv(
            pa.BufferReader(block),
            read_options=arrow.ReadOptions(block_size=len(block) + 1),
            parse_options=arrow.ParseOptions(newlines_in_values=True),
            convert_options=arrow.ConvertOptions(column_types={"cell": kind}),
        )
    except pa.ArrowInvalid:
        return False
    return True


def _ladder() -> list[pa.DataType]:
    """The types that Arrow tries for a column of CSV: the first that takes all values is it."""
    import pyarrow as pa

    return [
        pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s"), pa.timestamp("s"),
        pa.timestamp("s", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.float64(),
        pa.string(),
    ]  # fmt: skip


def is_list_column(column: pa.ChunkedArray) -> bool:
    """Whether a column of CSV holds lists: text, of which the first is one."""
    import pyarrow as pa

    return bool(
        pa.types.is_string(column.type) and len(column) and _as_list(column[0].as_py()) is not None
    )


def list_array(
    column: pa.ChunkedArray,
    name: str,
    path: Path,
    known: pa.DataType,
    first: int = 0,
    *,
    lenient: bool = False,
) -> pa.Array:
    """The lists in a column of text, as an array that can hold lists of the ``known`` type, too.

    Its first row is row ``first`` of the file. If ``lenient``, what is no list is missing.
    """
    found = _lists_of_numbers(column, known)
    if found is None:
        found = _any_lists(_lists_of(column, name, path, first, lenient), name, path, known, first)
    return found


_NUMBERS = r"^\s*\[[-+0-9.eE,\s]*\]\s*$"
_LONG_INTEGER = r"(^|[^0-9.])[0-9]{16}"
"""Not every such number is a float, nor an integer of 64 bits."""


def _lists_of_numbers(column: pa.ChunkedArray, known: pa.DataType) -> pa.Array | None:
    """By Arrow's own reader, which is fast; None if there is anything but ordinary numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        texts = column.combine_chunks()
        plain = pc.all(pc.match_substring_regex(texts, _NUMBERS)).as_py()
        if not plain or pc.any(pc.match_substring_regex(texts, _LONG_INTEGER)).as_py():
            return None
        lines = pc.binary_join_element_wise('{"lists":', texts, "}\n", "")
        ends = pc.sum(pc.binary_length(lines)).as_py()
        block = lines.buffers()[2].slice(0, ends)
        found = _parse(block).column("lists").combine_chunks()
        kind = wider(known, found.type)
        if kind != found.type:
            found = _parse(block, pa.schema({"lists": kind})).column("lists").combine_chunks()
    except (pa.ArrowException, TypeError, ValueError):
        return None
    return found if len(found) == len(column) else None


def _lists_of(
    column: pa.ChunkedArray, name: str, path: Path, first: int, lenient: bool
) -> list[list[Any] | None]:
    lists = []
    for row, text in enumerate(column.to_pylist(), start=first):
        values = _as_list(text)
        if values is None and not lenient:
            raise LogError(
                f'"{(text or "")[:60]}" is not a list. Write lists as JSON: "[0.2, 0.8]".',
                Place(str(path), name, row),
            )
        lists.append(values)
    return lists


def _any_lists(
    lists: list[list[Any] | None], name: str, path: Path, known: pa.DataType, first: int
) -> pa.Array:
    import pyarrow as pa

    bad = (pa.ArrowException, OverflowError, TypeError, ValueError)
    try:
        found = pa.array(lists)
        kind = wider(known, found.type)
        return found if kind == found.type else pa.array(lists, kind)
    except bad as problem:
        row, kind = 0, known
        while row < len(lists) - 1:
            try:
                kind = wider(kind, pa.array(lists[row : row + 1]).type)
                pa.array(lists[row : row + 1], kind)
            except bad:
                break
            row += 1
        raise LogError(
            f"the lists must hold values of one kind ({first_line(problem)}).",
            Place(str(path), name, first + row),
        ) from None


def _as_list(text: str | None) -> list[Any] | None:
    """The list that the text holds as JSON, if it does."""
    if not text or not text.lstrip().startswith("["):
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, list) else None


# -- JSON lines ------------------------------------------------------------------------------


def json_error(path: Path, problem: Exception) -> LogError:
    """The error for JSON lines that cannot be parsed, with the line if it can be told."""
    reader = JsonPieces(path)
    while True:
        try:
            for _ in reader.tables():
                pass
        except LogError as found:
            return found
        except Wider:
            continue
        return LogError(
            f"not readable as JSON lines, one object a line ({first_line(problem)}).", path
        )


class JsonPieces:
    """JSON lines piece by piece. Types are found for every piece, and the widest are kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._types: dict[str, pa.DataType] = {}

    def tables(self) -> Iterator[pa.Table]:
        """All rows in order, at least one table; `Wider` if they must be read anew."""
        rows, anew = 0, False
        for line, block in self._blocks():
            table, types = self._parsed(line, block)
            anew = anew or (rows > 0 and types != self._types)
            self._types = types
            rows += len(table)
            if not anew:
                yield table
        if not rows:
            raise LogError("there is not one object in this file.", self.path)
        if anew:
            raise Wider

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Whole lines, some `BLOCK_BYTES` of them, with the number of the first."""
        import pyarrow as pa

        line, rest = 1, b""
        try:
            with pa.input_stream(str(self.path), compression="detect") as stream:
                while more := stream.read(BLOCK_BYTES):
                    end = more.rfind(b"\n") + 1
                    if not end:
                        rest += more
                        continue
                    block, rest = rest + more[:end], more[end:]
                    if block.strip():
                        yield line, block
                    line += block.count(b"\n")
        except (pa.ArrowException, OSError) as problem:
            raise cut_off(self.path, problem) from None
        if rest.strip():
            yield line, rest

    def _parsed(self, line: int, block: bytes) -> tuple[pa.Table, dict[str, pa.DataType]]:
        """The rows of a block, and the types of all columns so far."""
        import pyarrow as pa

        bad = (pa.ArrowException, TypeError)
        try:
            table, types = _parse(block), dict(self._types)
            for field in table.schema:
                types[field.name] = _joined(types.get(field.name), field)
            schema = pa.schema(list(types.items()))
            if not table.schema.equals(schema):
                table = _parse(block, schema).select(schema.names)
        except bad:
            raise self._located(line, block) from None
        return table, types

    def _located(self, line: int, block: bytes) -> LogError:
        """The error of the first line with which the block cannot be read."""
        import pyarrow as pa

        lines = [part + b"\n" for part in block.split(b"\n")]

        def problem_of(count: int) -> Exception | None:
            text = b"".join(lines[:count])
            try:
                for field in _parse(text).schema if text.strip() else ():
                    _joined(self._types.get(field.name), field)
            except (pa.ArrowException, TypeError) as problem:
                return problem
            return None

        at = _first_failing(lambda count: problem_of(count) is not None, len(lines))
        what = re.sub(r" in row \d+|^JSON parse error: ", "", first_line(problem_of(at) or Wider()))
        what = re.sub(r"Column\(/?(.*?)\)", r'column "\1"', what)
        text = lines[at - 1].decode(errors="replace").strip()
        return LogError(
            f"not readable as JSON lines, one object a line ({what}): {text[:60]}. Correct the "
            f"line or leave it out.",
            Place(str(self.path), row=line + at - 1, unit="line"),
        )


def _joined(known: pa.DataType | None, field: pa.Field) -> pa.DataType:
    try:
        return field.type if known is None else wider(known, field.type)
    except TypeError as problem:
        raise TypeError(f'column "{field.name}" has {problem}') from None


def _parse(block: bytes | pa.Buffer, schema: pa.Schema | None = None) -> pa.Table:
    import pyarrow as pa
    from pyarrow import json as arrow

    return arrow.read_json(
        pa.BufferReader(block),
        read_options=arrow.ReadOptions(block_size=len(block) + 1),
        parse_options=arrow.ParseOptions(explicit_schema=schema),
    )


def _first_failing(fails: Callable[[int], bool], count: int) -> int:
    """The least number of lines that fails, if ``count`` of them do."""
    low, high = 1, count
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle + 1, high)
    return low
