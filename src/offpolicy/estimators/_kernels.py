"""The numba loops over the ragged layout. Everything here is exact and free of I/O.

Each has a plain NumPy twin elsewhere (named in its docstring) that serves small inputs, where
compiling would cost more than it saves, and against which it is tested.

Sums over one decision's candidates may be re-associated, so that they vectorise; their result
does not depend on threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from offpolicy._core.kernels import SUMS

KINDS = {
    "all": 0,
    "scaled": 1,
    "static": 2,
    "clip": 3,
    "switch": 4,
    "optimistic": 5,
    "subgaussian": 6,
    "unsupported": 7,
}
"""Codes of the shares that `candidate_sums` knows (`offpolicy.estimators.Share`)."""


@njit(**SUMS)
def candidate_sums(
    offsets, chosen, pi, pi0, delta_hat, kinds, parameters,
    mass, dot, total, lowest, pi_chosen, delta_hat_chosen,
):  # fmt: skip
    """Σ share and Σ share·δ̂ of every decision, for every share of π that estimators impute.

    ``pi0`` and ``delta_hat`` may be empty where no share needs them. Fills ``mass`` and ``dot``
    of shape (shares, decisions); on the way, π and δ̂ of the chosen candidates, and the sum and
    the least of π, by which it is checked. NumPy twin: `Estimator.masses`, `_core.ragged.row_sums`.

    The shares of DRos and of the subgaussian weights are written with one division and no c:
    π·π²/(π² + λπ₀²) and λπ·max(π − π₀, 0)/((1 − λ)π₀ + λπ). Where nothing can be divided by,
    π₀ = 0, and all of π is left.
    """
    with_model = len(delta_hat) > 0
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        pi_chosen[i] = pi[start + chosen[i]]
        delta_hat_chosen[i] = delta_hat[start + chosen[i]] if with_model else 0.0
        p = pi[start:stop]
        d = delta_hat[start:stop] if with_model else p
        q = pi0[start:stop] if len(pi0) > 0 else p
        whole = 0.0
        whole_d = 0.0
        least = p[0]
        for k in range(len(p)):
            whole += p[k]
            whole_d += p[k] * d[k]
            least = least if least < p[k] else p[k]
        total[i] = whole
        lowest[i] = least
        for j in range(len(kinds)):
            kind, parameter = kinds[j], parameters[j]
            share_sum = 0.0
            modelled = 0.0
            if kind == 0 or kind == 1:
                share_sum = whole if kind == 0 else (1.0 - parameter) * whole
                modelled = whole_d if kind == 0 else (1.0 - parameter) * whole_d
            elif kind == 2:
                for k in range(len(p)):
                    share = p[k] if q[k] == 0.0 else (1.0 - parameter) * p[k]
                    share_sum += share
                    modelled += share * d[k]
            elif kind == 7 or np.isinf(parameter) or (kind == 6 and parameter == 0.0):
                for k in range(len(p)):
                    share = p[k] if q[k] == 0.0 else 0.0
                    share_sum += share
                    modelled += share * d[k]
            elif kind == 3:
                for k in range(len(p)):
                    share = max(p[k] - parameter * q[k], 0.0)
                    share_sum += share
                    modelled += share * d[k]
            elif kind == 4:
                for k in range(len(p)):
                    share = p[k] if p[k] / q[k] > parameter else 0.0
                    share_sum += share
                    modelled += share * d[k]
            elif kind == 5:
                for k in range(len(p)):
                    square = p[k] * p[k]
                    beside = square + parameter * (q[k] * q[k])
                    share = p[k] * (square / beside) if beside > 0.0 else p[k]
                    share_sum += share
                    modelled += share * d[k]
            else:
                for k in range(len(p)):
                    beside = (1.0 - parameter) * q[k] + parameter * p[k]
                    more = parameter * p[k] * max(p[k] - q[k], 0.0)
                    share = more / beside if beside > 0.0 else p[k]
                    share_sum += share
                    modelled += share * d[k]
            mass[j, i] = share_sum
            dot[j, i] = modelled
