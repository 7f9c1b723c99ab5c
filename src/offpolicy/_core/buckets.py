"""Which interval between the edges of a grid a number is in, from its leading bits."""

from __future__ import annotations

import numpy as np

from offpolicy._core.types import Floats, Ints


def bucket_table(edges: Floats) -> Ints:
    """For each leading 16 bits of a number from 0 on, how many edges lie surely below it.

    A start from which few steps up lead to the bucket.
    """
    first = (np.arange(1 << 15, dtype=np.int64) << 48).view(np.float64)
    return np.searchsorted(edges, first, side="left")
