"""JSON lines, read by Arrow: its names tell upper from lower case.

Like CSV, large files are read twice: for the types, then for the values.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.errors import LogError, Place
from offpolicy.logs.files._sql import first_line
from offpolicy.logs.formats._lines import cut_off

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 8 * 2**20
"""Of text that is parsed at a time; no row may be longer."""


def read_json(path: Path) -> pa.Table:
    """A log in a small file of JSON lines."""
    import pyarrow as pa
    from pyarrow import json as arrow

    try:
        with pa.input_stream(str(path)) as stream:
            return arrow.read_json(stream, arrow.ReadOptions(block_size=BLOCK_BYTES))
    except (pa.ArrowException, OSError) as problem:
        for _ in json_tables(path):  # which tells the line
            pass
        what = f"not readable as JSON lines, one object a line ({first_line(problem)})."
        raise LogError(what, path) from None


def json_tables(path: Path) -> Iterator[pa.Table]:
    """All rows of a log in JSON lines in order, piece by piece."""
    schema: pa.Schema | None = None
    for line, block in _blocks(path):
        schema = _with_types_of(block, schema, path, line)
    if schema is None:
        raise LogError("there is not one object in this file.", path)
    for _, block in _blocks(path):
        yield _parse(block, schema).select(schema.names)


def _blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Whole JSON lines of a log, some `BLOCK_BYTES` of them, with the number of the first."""
    import pyarrow as pa

    line, rest = 1, b""
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
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
        raise cut_off(path, problem) from None
    if rest.strip():
        yield line, rest


def _parse(block: bytes, schema: pa.Schema | None = None) -> pa.Table:
    import pyarrow as pa
    from pyarrow import json as arrow

    return arrow.read_json(
        pa.BufferReader(block),
        read_options=arrow.ReadOptions(block_size=len(block) + 1),
        parse_options=arrow.ParseOptions(explicit_schema=schema),
    )


def _with_types_of(block: bytes, known: pa.Schema | None, path: Path, line: int) -> pa.Schema:
    """The types of a log's columns that hold what those ``known`` hold, and what the block of JSON
    lines does; its first line that cannot be read is named."""
    import pyarrow as pa

    try:
        return _joined_types(known, _parse(block).schema)
    except pa.ArrowException:
        lines = [part + b"\n" for part in block.split(b"\n")]

    def problem_of(count: int) -> Any:
        text = b"".join(lines[:count])
        try:
            if text.strip():
                _joined_types(known, _parse(text).schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
            return problem
        return None

    count = bisect_left(range(len(lines)), True, key=lambda count: problem_of(count) is not None)
    what = first_line(problem_of(count) or ValueError())
    what = re.sub(r" in row \d+|^JSON parse error: ", "", what)
    what = re.sub(r"Column\(/?(.*?)\)", r'column "\1"', what)
    text = lines[count - 1].decode(errors="replace").strip()
    raise LogError(
        f"not readable as JSON lines, one object a line ({what}): {text[:60]}. Correct the line or "
        f"leave it out.",
        Place(str(path), row=line + count - 1, unit="line"),
    )


def _joined_types(known: pa.Schema | None, more: pa.Schema) -> pa.Schema:
    """The types of a log's columns that hold what both hold, as where Arrow sees all JSON lines at
    once: what is a time in one and text in the other is text."""
    import pyarrow as pa

    if known is None:
        return more
    for k, field in enumerate(more):
        place = known.get_field_index(field.name)
        types = {field.type, known.field(place).type} if place >= 0 else set()
        if pa.string() in types and any(map(pa.types.is_timestamp, types)):
            more = more.set(k, field.with_type(pa.string()))
            known = known.set(place, more.field(k))
    return pa.unify_schemas([known, more], promote_options="permissive")
