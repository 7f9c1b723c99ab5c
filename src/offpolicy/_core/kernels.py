"""How numba loops are compiled here."""

from __future__ import annotations

from typing import Any

import numpy as np

COMMON: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
SUMS = COMMON | {"fastmath": {"reassoc", "nsz", "contract"}}


def read_only(*arrays: np.ndarray | None) -> list[np.ndarray]:
    """Views of a kernel's inputs, empty for None: numba compiles twice for what is now read-only
    (from a file), now not."""
    views = [np.empty(0) if array is None else array.view() for array in arrays]
    for view in views:
        view.flags.writeable = False
    return views
