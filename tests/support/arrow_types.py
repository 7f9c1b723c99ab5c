"""Columns of every Arrow type, in every container, read by every engine."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import offpolicy as op
from offpolicy.errors import LogError
from offpolicy.logs.files._parquet import ParquetScan

ROWS = 4
DAY = datetime.datetime(2026, 1, 2)
NUMBER = [1] * ROWS


class Kind(NamedTuple):
    """Some types that are read alike: plain ones, or ones of lists."""

    types: list[pa.DataType]
    values: list[Any]
    number: bool
    """Whether they are read as reward (lists: as logging)."""
    name: bool
    """Whether they are read as cluster (lists: as candidates)."""
    note: str = ""


def _known(*names: str) -> list[pa.DataType]:
    """Types that this version of pyarrow has."""
    return [getattr(pa, name)() for name in names if hasattr(pa, name)]


def _decimals(*names: str) -> list[pa.DataType]:
    return [getattr(pa, name)(5, 2) for name in names if hasattr(pa, name)]


def _lists(inner: pa.DataType) -> list[pa.DataType]:
    makers: list[Callable[[pa.DataType], pa.DataType]] = [
        pa.list_, pa.large_list, lambda kind: pa.list_(kind, 1)
    ]  # fmt: skip
    makers += [getattr(pa, name) for name in ("list_view", "large_list_view") if hasattr(pa, name)]
    return [make(inner) for make in makers]


POLARS_PANICS = "decimal256|halffloat|dictionary<values=string_view"
TEXTS = _known("string", "large_string", "string_view")
INTEGERS = _known("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
KINDS = {
    "int8 … int64, uint8 … uint64": Kind(INTEGERS, NUMBER, True, True),
    "float16, float32, float64": Kind(
        _known("float16", "float32", "float64"), [np.float16(1)] * ROWS, True, True,
        "float16 not with Spark, which has none",
    ),
    "bool": Kind([pa.bool_()], [True] * ROWS, True, True, "as a number, yes is 1 and no is 0"),
    "decimal32, decimal64, decimal128": Kind(
        _decimals("decimal32", "decimal64", "decimal128"), [decimal.Decimal("1.00")] * ROWS,
        True, True,
    ),
    "decimal256": Kind(
        [pa.decimal256(50, 2)], [decimal.Decimal("1.00")] * ROWS, False, False,
        "store it as decimal128 or float64",
    ),
    "string, large_string, string_view": Kind(
        TEXTS, ["1"] * ROWS, True, True,
        'as a number if every text is one, such as "1.5"; "1_000" and "١" are none',
    ),
    "dictionary of text": Kind(
        [pa.dictionary(pa.int32(), kind) for kind in TEXTS], ["1", "2", "1", "2"], True, True,
        "likewise, also ordered; pandas' and polars' categories",
    ),
    "dictionary of numbers": Kind([pa.dictionary(pa.int8(), pa.int64())], NUMBER, True, True),
    "date32, date64": Kind([pa.date32(), pa.date64()], [DAY.date()] * ROWS, False, True),
    "timestamp": Kind(
        [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns")
         for zone in (None, "UTC", "Europe/Berlin")],
        [DAY] * ROWS, False, True,
        "of any unit, but with Spark no nanoseconds; one with a zone is read as UTC",
    ),
    "time32, time64": Kind(
        [pa.time32("ms"), pa.time64("us")], [DAY.time()] * ROWS, False, True,
        "not with Spark, which has none",
    ),
    "duration": Kind(
        [pa.duration(unit) for unit in ("s", "ms", "us", "ns")], [datetime.timedelta(1)] * ROWS,
        False, False, "store it as a number (of seconds)",
    ),
    "binary, large_binary, binary_view, fixed_size_binary": Kind(
        [*_known("binary", "large_binary", "binary_view"), pa.binary(1)], [b"a"] * ROWS,
        False, False, "store it as text (UTF-8)",
    ),
    "null": Kind([pa.null()], [None] * ROWS, False, False, "every value is missing"),
    "struct, map": Kind(
        [pa.struct([("x", pa.int64())]), pa.map_(pa.string(), pa.int64())], [[("x", 1)]] * ROWS,
        False, False, "store the fields as columns of their own",
    ),
}  # fmt: skip
LISTS = {
    "list, large_list, fixed_size_list, list_view, large_list_view of numbers": Kind(
        [kind for inner in (pa.float16(), pa.float32(), pa.float64(), pa.int64(), pa.decimal128(5))
         for kind in _lists(inner)],
        [[1]] * ROWS, True, True, "one number for every candidate",
    ),
    "the same of text, or of dictionaries of text": Kind(
        [kind for inner in (*TEXTS, *(pa.dictionary(pa.int32(), text) for text in TEXTS))
         for kind in _lists(inner)],
        [["1"]] * ROWS, True, True, "likewise",
    ),
    "the same of lists": Kind(
        _lists(pa.list_(pa.float64())), [[[1.0]]] * ROWS, False, False, "one plain list a decision"
    ),
    "the same of durations or bytes": Kind(
        [*_lists(pa.duration("us")), *_lists(pa.binary())], [[None]] * ROWS, False, False
    ),
}  # fmt: skip


def column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """An array of any type, also of those that Arrow does not make of Python's values."""
    if pa.types.is_struct(kind):
        values = [dict(value) for value in values]
    if pa.types.is_dictionary(kind):
        codes = pa.array(values).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            codes.indices.cast(kind.index_type), codes.dictionary.cast(kind.value_type)
        )
    inner = getattr(kind, "value_type", None)
    if inner is not None and pa.types.is_dictionary(inner):
        flat = column(inner, [value[0] for value in values])
        if pa.types.is_fixed_size_list(kind):
            return pa.FixedSizeListArray.from_arrays(flat, 1)
        whole = pa.int64() if "large" in str(kind) else pa.int32()
        parts = [pa.array(range(ROWS + 1), whole), flat]
        if "view" in str(kind).split("<")[0]:
            parts = [pa.array(range(ROWS), whole), pa.array([1] * ROWS, whole), flat]
        return type(pa.nulls(0, kind)).from_arrays(*parts)
    if inner is not None and pa.types.is_float16(inner):
        values = [[np.float16(1)] for _ in values]
    return pa.array(values, kind)


def table(array: pa.Array, role: str) -> pa.Table:
    """A log in which a column plays a role: reward, cluster, logging or candidates."""
    columns: dict[str, Any] = {"action": [0] * ROWS, "reward": [1.0] * ROWS}
    if role == "candidates":
        (first,) = array[0].as_py()
        named = isinstance(first, (str, int, float, decimal.Decimal))
        columns |= {"action": [first if named else 0] * ROWS, "logging": [[1.0]] * ROWS}
    elif role != "logging":
        columns["propensity"] = [0.5] * ROWS
    return pa.table(columns | {role: array})


def outcome(read: Callable[[], op.BanditLog], role: str) -> Any:
    """What is read, or the column that is refused."""
    try:
        log = read()
    except LogError as problem:
        return f"refused: {problem.column}"
    values = log.actions if role == "candidates" else getattr(log, role)
    values = np.asarray(values)
    return (values.astype("datetime64[ns]") if values.dtype.kind == "M" else values).tolist()


def frames(data: pa.Table, containers: tuple[str, ...]) -> dict[str, Any]:
    """The table in each container that can hold it."""
    made: dict[str, Any] = {"pyarrow": data}
    for name in containers:
        try:
            made[name] = _in_pandas(data) if name == "pandas" else _in_polars(data)
        except Exception:  # Whatever they say to a type that they do not know.
            continue
    return made


def _in_pandas(data: pa.Table) -> Any:
    import pandas as pd

    return data.to_pandas(types_mapper=pd.ArrowDtype)


def _in_polars(data: pa.Table) -> Any:
    import polars as pl

    if any(re.search(POLARS_PANICS, str(field.type)) for field in data.schema):
        raise TypeError("polars may panic, or end the process")
    frame = pl.from_arrow(data)
    pa.table(frame)
    return frame


def outcomes(array: pa.Array, role: str, folder: Path) -> dict[str, Any]:
    """What every engine makes of a column, from every container that can hold it."""
    data = table(array, role)
    found = {
        name: outcome(lambda frame=frame: op.BanditLog.from_frame(frame), role)
        for name, frame in frames(data, ("pandas", "polars")).items()
    }
    path = folder / "log.parquet"
    try:
        pq.write_table(data, path)
    except (pa.ArrowException, TypeError):
        return found
    found["Parquet in memory"] = outcome(lambda: op.read_log(path), role)
    found["Parquet, scanned"] = outcome(lambda: ParquetScan([path]).read([(0, ROWS)], ()), role)
    return found


def page() -> str:
    """The table of the docs."""
    lines = ["| Arrow type | as a number | as a name | |", "|---|---|---|---|"]
    for name, kind in (KINDS | LISTS).items():
        number, name_too = ("yes" if read else "refused" for read in (kind.number, kind.name))
        lines.append(f"| {name} | {number} | {name_too} | {kind.note} |")
    return "\n".join(lines)
