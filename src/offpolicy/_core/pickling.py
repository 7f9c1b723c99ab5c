"""What of an object goes to other processes: as much as makes it, and in one form, so that equal
objects have equal hashes wherever they have been (`joblib.hash`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from offpolicy._core.late import pa


class Portable:
    """An object without slots, pickled and copied without what its cached properties found."""

    def __getstate__(self) -> dict[str, Any]:
        cached = {
            name
            for kind in type(self).__mro__
            for name, value in vars(kind).items()
            if isinstance(value, cached_property)
        }
        return {name: _in_one_form(x) for name, x in vars(self).items() if name not in cached}

    def __setstate__(self, state: dict[str, Any]) -> None:
        tables = {name: x.table for name, x in state.items() if isinstance(x, _Table)}
        self.__dict__.update(state | tables)


class _Table:
    """An Arrow table; one that is part of another is pickled without the rest."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __deepcopy__(self, memo: dict[int, Any]) -> _Table:
        return self  # tables never change

    def __reduce__(self) -> tuple[Any, ...]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as stream:
            stream.write_table(self.table)
        return _unpacked, (sink.getvalue().to_pybytes(),)


def _unpacked(data: bytes) -> _Table:
    return _Table(pa.ipc.open_stream(data).read_all())


def _in_one_form(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        # Strides are part of the form; where a dimension is 1 they may be anything.
        return np.ascontiguousarray(value).reshape(-1).reshape(value.shape)
    known = type(value).__module__.startswith("pyarrow") and hasattr(value, "schema")
    return _Table(value) if known else value
