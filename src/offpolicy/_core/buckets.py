"""Which interval between the edges of a grid a number is in, by its leading bits; sums by that."""

from __future__ import annotations

import numpy as np

from offpolicy._core.types import Floats, Ints


def bucket_table(edges: Floats) -> Ints:
    """For each leading 16 bits of a number from 0 on, how many edges lie surely below it.

    A start from which few steps up lead to the bucket.
    """
    first = (np.arange(1 << 15, dtype=np.int64) << 48).view(np.float64)
    return np.searchsorted(edges, first, side="left")


def sums_by_bucket(place: Ints, columns: Floats, count: int, *, compiled: bool = False) -> Floats:
    """Of every column, the sums over the rows that are in each bucket: (buckets, columns)."""
    sums = np.zeros((count, len(columns)))
    if compiled:
        from offpolicy._core.bucket_kernels import add_by_bucket

        add_by_bucket(place, columns, sums)
        return sums
    for j, column in enumerate(columns):
        sums[:, j] = np.bincount(place, column, count)
    return sums
