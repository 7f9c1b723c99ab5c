"""Arrow's types: what a log's columns are settled to at the door, and what is not read."""

from __future__ import annotations

from typing import Any

import numpy as np

from offpolicy._core.late import pa
from offpolicy._core.types import Ints
from offpolicy._core.validation import glimpse, where
from offpolicy.errors import LogError, OffpolicyError, Place


def settled(table: pa.Table) -> pa.Table:
    """A log's table without the types that few of Arrow's own functions know: views, runs, half
    floats, narrow decimals, also inside lists, dictionaries and structs."""
    for position, field in enumerate(table.schema):
        if settled_type(field.type) != field.type:
            chunks = [_settled(chunk) for chunk in table.column(position).chunks]
            column = pa.chunked_array(chunks, settled_type(field.type))
            table = table.set_column(position, field.name, column)
    return table


def settled_type(kind: pa.DataType) -> pa.DataType:
    """What a type of a log's column is settled to."""
    t = pa.types
    if t.is_dictionary(kind):
        values = settled_type(kind.value_type)
        return pa.dictionary(kind.index_type, values, kind.ordered)
    if t.is_struct(kind):
        return pa.struct([field.with_type(settled_type(field.type)) for field in kind])
    if t.is_fixed_size_list(kind):
        return pa.list_(settled_type(kind.value_type), kind.list_size)
    if t.is_list(kind):
        return pa.list_(settled_type(kind.value_type))
    if t.is_large_list(kind) or t.is_list_view(kind) or t.is_large_list_view(kind):
        return pa.large_list(settled_type(kind.value_type))
    if t.is_run_end_encoded(kind):
        return settled_type(kind.value_type)
    if t.is_string_view(kind):
        return pa.large_string()
    if t.is_binary_view(kind):
        return pa.large_binary()
    if t.is_decimal(kind) and kind.bit_width < 128:
        return pa.decimal128(kind.precision, kind.scale)
    return pa.float32() if t.is_float16(kind) else kind


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Likewise, and without dictionaries: what a column is read as, whoever reads it."""
    kind = settled_type(kind)
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if holds_lists(kind):
        values = plain_type(kind.value_type)
        return pa.large_list(values) if pa.types.is_large_list(kind) else pa.list_(values)
    return kind


def holds_lists(kind: pa.DataType) -> bool:
    """Whether a settled type is one of lists."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def holds_numbers(kind: pa.DataType) -> bool:
    """Whether a plain type is one of numbers, or of yes and no, which are 1 and 0."""
    t = pa.types
    return bool(
        t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind) or t.is_boolean(kind)
    )


def refuse_unreadable(kind: pa.DataType, name: str, source: str) -> None:
    """Raise if values of this type, or lists of them, are none that a log can hold."""
    t, kind = pa.types, plain_type(kind)
    inner = kind.value_type if holds_lists(kind) else kind
    advice = ""
    if t.is_duration(inner) or t.is_interval(inner):
        advice = "a length of time: store it as a number (of seconds)"
    elif t.is_binary(inner) or t.is_large_binary(inner) or t.is_fixed_size_binary(inner):
        advice = "bytes: store it as text (UTF-8)"
    elif t.is_decimal256(inner):
        advice = "more digits than are read: store it as decimal128 or float64"
    elif isinstance(inner, pa.BaseExtensionType):
        advice = f"a type of its own: store it as {inner.storage_type} or as text"
    elif kind is not inner and t.is_nested(inner):
        advice = "lists of lists or of structs: give each decision one plain list"
    elif t.is_nested(inner):
        advice = "a structure: store its fields as columns of their own"
    if advice:
        raise LogError(f"it holds {kind}, {advice}.", Place(source, name))


def refuse_no_number(
    values: pa.ChunkedArray,
    name: str,
    source: str,
    error: type[OffpolicyError],
    offsets: Ints | None = None,
) -> None:
    """Raise if a log's column, without missing values, is of a type that is neither of numbers nor
    of text, in which they may be written."""
    t, kind = pa.types, plain_type(values.type)
    if holds_numbers(kind) or t.is_string(kind) or t.is_large_string(kind) or not len(values):
        return
    raise error(
        f"{glimpse(values[0].as_py())} is {kind}, but the column must hold numbers. Convert it.",
        where(source, name, 0, offsets),
    )


def _settled(array: Any) -> Any:
    """A log's array as `settled_type` says; what is settled already is not copied."""
    t, kind = pa.types, array.type
    wanted = settled_type(kind)
    if wanted == kind:
        return array
    if t.is_run_end_encoded(kind):
        return _settled(pa.compute.run_end_decode(array))
    if t.is_dictionary(kind):
        values = _settled(array.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, values, ordered=kind.ordered)
    if t.is_struct(kind):
        parts = [_settled(part) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=array.is_null())
    if t.is_list_view(kind) or t.is_large_list_view(kind):
        # Not by a cast, which gives wrong offsets in some versions of pyarrow.
        missing = array.is_null()
        lengths = np.where(missing.to_numpy(zero_copy_only=False), 0, array.sizes.to_numpy())
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
        flat = _settled(array.flatten())
        return pa.LargeListArray.from_arrays(offsets, flat, mask=missing)
    if holds_lists(kind):
        shared = array.buffers()[: 1 if t.is_fixed_size_list(kind) else 2]
        children = [_settled(array.values)]
        return pa.Array.from_buffers(
            wanted, len(array), shared, array.null_count, array.offset, children
        )
    return array.cast(wanted)
