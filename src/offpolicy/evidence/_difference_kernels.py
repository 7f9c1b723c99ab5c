"""The numba loop over the candidates of pairs of policies; NumPy twin: `_differences._by_pair`."""

from __future__ import annotations

import numpy as np

from offpolicy._core.kernels import SUMS, compiled
from offpolicy._core.types import Floats, Ints

_TILE = 1024
"""Candidates that all pairs look at together, while what is made of them is in the cache."""


@compiled(**SUMS)
def add_pairs(
    pairs: Ints,
    offsets: Ints,
    c: Floats,
    M: Floats,
    d: Floats,
    pi0: Floats,
    omega: Floats,
    shared: Floats,
    sums: Floats,
) -> None:
    """What two policies have in common, and what tells them apart, for every pair of them.

    ``c`` and ``d`` are of every policy and candidate. Fills ``shared`` (pairs, rows) with
    Σ π₀·½(left_a + left_b)(d_a − d_b), left being c − min(c, M), and adds to ``sums`` (pairs, 4)
    the row-weighted Σ π₀ of |c_a − c_b|, |left_a − left_b|, (w_a − w_b)² and |w_a − w_b|.
    """
    size, n = _TILE, len(offsets) - 1
    for i in range(n):
        size = max(size, offsets[i + 1] - offsets[i])
    w, left = np.empty((2, len(c), size))
    both, share = np.empty(size), np.empty(size)
    begin = end = 0
    while begin < n:
        start = offsets[begin]
        while end < n and offsets[end + 1] - start <= size:
            for k in range(offsets[end], offsets[end + 1]):
                share[k - start] = omega[end] * pi0[k]
            end += 1
        m = offsets[end] - start
        q = pi0[start : start + m]
        for a in range(len(c)):
            for k in range(m):
                w[a, k] = min(c[a, start + k], M[a])
                left[a, k] = c[a, start + k] - w[a, k]
        for p in range(len(pairs)):
            a, b = pairs[p, 0], pairs[p, 1]
            d_a, d_b = d[a, start : start + m], d[b, start : start + m]
            w_a, w_b, left_a, left_b = w[a], w[b], left[a], left[b]
            differ = mass = drawable = kept = 0.0
            for k in range(m):
                apart, further = w_a[k] - w_b[k], left_a[k] - left_b[k]
                both[k] = q[k] * (0.5 * (left_a[k] + left_b[k]) * (d_a[k] - d_b[k]))
                differ += share[k] * abs(apart + further)
                mass += share[k] * abs(further)
                drawable += share[k] * apart * apart
                kept += share[k] * abs(apart)
            sums[p, 0] += differ
            sums[p, 1] += mass
            sums[p, 2] += drawable
            sums[p, 3] += kept
            for i in range(begin, end):
                total = 0.0
                for k in range(np.uint64(offsets[i] - start), np.uint64(offsets[i + 1] - start)):
                    total += both[k]
                shared[p, i] = total
        begin = end
