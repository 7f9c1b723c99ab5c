"""Drawing rows with replacement and adding up what they hold, compiled; and the same in NumPy.

A draw is a few bits of splitmix64's output (Steele, Lea and Flood 2014): rows that are `STRETCH`
are found by 13 bits, four to a number, others by 32 bits times their count, two to a number, which
is even to one in 500,000.
"""

from __future__ import annotations

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from offpolicy._core.kernels import COMMON, compiled
from offpolicy._core.types import Floats, Ints

STRETCH = 2**13
"""So many neighbouring rows are drawn from at a time: they stay in the processor's cache."""
COLUMNS = 4
"""Of so many columns a draw adds up the values at once."""

_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_U_STEP, _U_FIRST, _U_SECOND = (uint64(number) for number in (_STEP, _FIRST, _SECOND))
_SHIFTS = tuple(uint64(bits) for bits in (30, 27, 31, 16, 32, 48))
_LOW, _HALF = uint64(STRETCH - 1), uint64(2**32 - 1)


@compiled(**COMMON)
def add_draws(rows: Floats, counts: Ints, states: NDArray[np.uint64], sums: Floats) -> None:
    """For every bootstrap resample k, add ``counts[k]`` rows to ``sums[k]``, drawn from
    ``states[k]`` on."""
    size = len(rows)
    many, all_bits = uint64(size), size == STRETCH
    for k in range(len(counts)):
        state, left = states[k], counts[k]
        a = b = c = d = 0.0
        while left > 0:
            state += _U_STEP
            z = (state ^ (state >> _SHIFTS[0])) * _U_FIRST
            z = (z ^ (z >> _SHIFTS[1])) * _U_SECOND
            z ^= z >> _SHIFTS[2]
            if all_bits and left >= 4:
                h, i = np.int64(z & _LOW), np.int64((z >> _SHIFTS[3]) & _LOW)
                j, m = np.int64((z >> _SHIFTS[4]) & _LOW), np.int64((z >> _SHIFTS[5]) & _LOW)
                a += (rows[h, 0] + rows[i, 0]) + (rows[j, 0] + rows[m, 0])
                b += (rows[h, 1] + rows[i, 1]) + (rows[j, 1] + rows[m, 1])
                c += (rows[h, 2] + rows[i, 2]) + (rows[j, 2] + rows[m, 2])
                d += (rows[h, 3] + rows[i, 3]) + (rows[j, 3] + rows[m, 3])
                left -= 4
                continue
            for lane in range(min(left, 4 if all_bits else 2)):
                if all_bits:
                    h = np.int64((z >> uint64(16 * lane)) & _LOW)
                else:
                    h = np.int64((((z >> uint64(32 * lane)) & _HALF) * many) >> _SHIFTS[4])
                a += rows[h, 0]
                b += rows[h, 1]
                c += rows[h, 2]
                d += rows[h, 3]
            left -= 4 if all_bits else 2
        sums[k, 0] += a
        sums[k, 1] += b
        sums[k, 2] += c
        sums[k, 3] += d


def add_draws_by_numpy(
    rows: Floats, counts: Ints, states: NDArray[np.uint64], sums: Floats
) -> None:
    """The same bootstrap draws, for few rows: nothing need be compiled."""
    lanes = 4 if len(rows) == STRETCH else 2
    bits = np.arange(lanes, dtype=np.uint64) * np.uint64(64 // lanes)
    steps = np.arange(1, -(-int(counts.max(initial=0)) // lanes) + 1, dtype=np.uint64)
    steps *= np.uint64(_STEP)
    for k, count in enumerate(counts):
        z = states[k] + steps[: -(-int(count) // lanes)]
        for shift, factor in ((30, _FIRST), (27, _SECOND)):
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        parts = ((z ^ (z >> np.uint64(31)))[:, None] >> bits).reshape(-1)[:count]
        if lanes == 4:
            drawn = parts & np.uint64(STRETCH - 1)
        else:
            drawn = ((parts & np.uint64(2**32 - 1)) * np.uint64(len(rows))) >> np.uint64(32)
        sums[k] += rows.take(drawn.astype(np.int64), axis=0).sum(axis=0)
