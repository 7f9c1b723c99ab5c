"""Names as a column of text holds them, without an object for every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.late import pa
from offpolicy._core.types import Ints

_FEW = 1_000
"""Rows that are encoded sooner than Arrow's functions are loaded."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """The different names, sorted, and the position of every row's among them."""

    names: tuple[str, ...]
    codes: Ints

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Encoded | None:
        """From a column of text without missing values; None if it is not one, or garbled."""
        kind = column.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)) or not len(column):
            return None
        try:
            if len(column) < _FEW:
                texts = column.to_pylist()
                names = sorted(set(texts))
                code = {name: k for k, name in enumerate(names)}
                return cls(tuple(names), np.array([code[text] for text in texts], dtype=np.int64))
            coded = column.cast(kind).combine_chunks().dictionary_encode()
            names = coded.dictionary.to_pylist()
        except UnicodeDecodeError:
            return None
        rank = np.empty(len(names), dtype=np.int64)
        order = sorted(range(len(names)), key=names.__getitem__)
        rank[order] = np.arange(len(names))
        return cls(tuple(names[k] for k in order), rank[np.from_dlpack(coded.indices)])

    def __len__(self) -> int:
        return len(self.codes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Every row's name, as an object."""
        return np.array(self.names, dtype=object)[self.codes]
