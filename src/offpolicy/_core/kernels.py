"""How numba loops are compiled here, and one that everybody needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

COMMON: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
SUMS = COMMON | {"fastmath": {"reassoc", "nsz", "contract"}}


@njit(**SUMS)
def sum_to_one(values, offsets, tolerance):
    """Whether every row of a ragged array sums to 1. NumPy twin: `_core.ragged.row_sums`."""
    fine = True
    for i in range(len(offsets) - 1):
        total = 0.0
        for k in range(np.uint64(offsets[i]), np.uint64(offsets[i + 1])):
            total += values[k]
        fine &= abs(total - 1.0) <= tolerance
    return fine
