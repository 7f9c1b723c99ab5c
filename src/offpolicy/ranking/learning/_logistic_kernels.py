"""The pairwise logistic loss of weighted documents: a numba loop over all pairs."""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import numpy as np
from numba import njit

from offpolicy._core.kernels import COMMON


@njit(**COMMON)
def pair_logistic(s, offsets, c, gradient, curvature):
    """Σ_j c_j Σ_{k≠j} log(1 + exp(s_k − s_j)); fills its first two derivatives in each score."""
    gradient[:] = 0.0
    curvature[:] = 0.0
    loss = 0.0
    for i in range(len(offsets) - 1):
        for j in range(offsets[i], offsets[i + 1]):
            if c[j] == 0.0:
                continue
            slopes, bends = 0.0, 0.0
            for k in range(offsets[i], offsets[i + 1]):
                if k == j:
                    continue
                z = s[k] - s[j]
                small = np.exp(-abs(z))
                loss += c[j] * (max(z, 0.0) + np.log1p(small))
                p = (1.0 if z >= 0.0 else small) / (1.0 + small)
                bend = small / ((1.0 + small) * (1.0 + small))
                slopes += p
                bends += bend
                gradient[k] += c[j] * p
                curvature[k] += c[j] * bend
            gradient[j] -= c[j] * slopes
            curvature[j] += c[j] * bends
    return loss
