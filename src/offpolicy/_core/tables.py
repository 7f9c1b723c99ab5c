"""Tables: as aligned text, and as Arrow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def aligned(
    rows: Sequence[Sequence[str]], left: Collection[int] = (), *, ruled: bool = True
) -> str:
    """Columns of text under the head that is the first row, those in ``left`` to the left; with a
    line under the head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    head, *body = rows
    rule = [["─" * width for width in widths]] if ruled else []
    return "\n".join(
        "  ".join(
            cell.ljust(width) if j in left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *rule, *body]
    )


def frame_of(kind: Any, records: Sequence[Any]) -> pa.Table:
    """A row for each of these dataclasses, of text, flags and numbers; the ends of an interval are
    the last columns."""
    import pyarrow as pa

    kinds = {"str": pa.string(), "bool": pa.bool_()}
    columns = [(item.name, kinds.get(item.type.split()[0], pa.float64())) for item in fields(kind)]
    columns = [column for column in columns if column[0] != "interval"]
    rows = [
        {name: getattr(row, name) for name, _ in columns}
        | {"low": row.interval.low, "high": row.interval.high}
        for row in records
    ]
    ends = [("low", pa.float64()), ("high", pa.float64())]
    return pa.Table.from_pylist(rows, schema=pa.schema(columns + ends))
