"""The direction in which L-BFGS goes, compiled: `minimise_together` asks for it at every step."""

from __future__ import annotations

import numpy as np

from offpolicy._core.kernels import SUMS, compiled
from offpolicy._core.types import Floats


@compiled(**SUMS)
def direction(gradient: Floats, steps: Floats, changes: Floats, first: int, count: int) -> Floats:
    """−H·gradient, H from the last ``count`` steps and changes of the gradient, which lie in
    circles whose oldest row is ``first``."""
    kept, size = steps.shape
    d = -gradient
    share = np.empty(count)
    for back in range(count):
        row = (first + count - 1 - back) % kept
        share[back] = np.dot(steps[row], d) / np.dot(steps[row], changes[row])
        for j in range(size):
            d[j] -= share[back] * changes[row, j]
    if count:
        row = (first + count - 1) % kept
        scale = np.dot(steps[row], changes[row]) / np.dot(changes[row], changes[row])
        for j in range(size):
            d[j] *= scale
    for on in range(count):
        row = (first + on) % kept
        turn = np.dot(changes[row], d) / np.dot(steps[row], changes[row])
        for j in range(size):
            d[j] += (share[count - 1 - on] - turn) * steps[row, j]
    return d
