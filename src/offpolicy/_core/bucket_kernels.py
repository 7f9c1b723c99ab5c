"""The numba loops of sums by bucket; NumPy twins: `np.bincount`, and plain sums."""

from __future__ import annotations

from offpolicy._core.kernels import COMMON, compiled
from offpolicy._core.types import Floats, Ints


@compiled(**COMMON)
def add_by_bucket(place: Ints, columns: Floats, sums: Floats) -> None:
    """Adds every column's number of row i to ``sums`` (buckets, columns) at ``place[i]``."""
    for i in range(len(place)):
        own = sums[place[i]]
        for j in range(len(columns)):
            own[j] += columns[j, i]


@compiled(**COMMON)
def add_by_action(pi: Floats, pi0: Floats, sums: Floats) -> None:
    """Adds the k-th candidate's π, π₀, π where π₀ = 0, and π₀(1 − π₀) to column k modulo as many
    columns as ``sums`` (4, columns) has."""
    for start in range(0, len(pi), sums.shape[1]):
        p, q = pi[start : start + sums.shape[1]], pi0[start : start + sums.shape[1]]
        for k in range(len(p)):
            sums[0, k] += p[k]
            sums[1, k] += q[k]
            sums[2, k] += p[k] if q[k] == 0.0 else 0.0
            sums[3, k] += q[k] * (1.0 - q[k])
