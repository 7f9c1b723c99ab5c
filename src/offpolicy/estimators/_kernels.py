"""The numba loops of the estimators over candidates; free of I/O.

Sums over one decision's candidates may be re-associated, so that they vectorise; their result
does not depend on threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba.extending import overload, register_jitable

from offpolicy._core.kernels import SUMS, compiled
from offpolicy.estimators.weights import ROUNDING, where


@overload(where)
def _where(condition, a, b):
    return lambda condition, a, b: a if condition else b


@functools.cache
def rest_sums(weight: Callable[..., Any]) -> Any:
    """A loop over the candidates for one of the members' weights, compiled when it is first used.

    Fills Σ rest and Σ rest·δ̂ of every decision, rest = max(π − π₀·weight, 0). NumPy twin:
    `weights.leftover`.
    """
    register_jitable(weight)

    @compiled(**SUMS)
    def sums(offsets, pi, pi0, delta_hat, parameter, mass, modelled):
        with_model = len(delta_hat) > 0
        for i in range(len(offsets) - 1):
            p, q = pi[offsets[i] : offsets[i + 1]], pi0[offsets[i] : offsets[i + 1]]
            d = delta_hat[offsets[i] : offsets[i + 1]] if with_model else p
            left = 0.0
            left_d = 0.0
            for k in range(len(p)):
                rest = p[k] - q[k] * weight(p[k], q[k], parameter)
                rest = rest if rest > ROUNDING * p[k] else 0.0
                rest = p[k] if q[k] == 0.0 else rest
                left += rest
                left_d += rest * d[k]
            mass[i] = left
            modelled[i] = left_d if with_model else 0.0

    return sums
