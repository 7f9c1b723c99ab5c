"""L-BFGS, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from offpolicy._core.types import Floats

Loss = Callable[[Floats], tuple[float, Floats]]


class Minimum(NamedTuple):
    """Where the search ended, and why."""

    w: Floats
    loss: float
    steps: int
    converged: bool
    message: str


def minimise(
    loss: Loss,
    start: Floats,
    *,
    most_steps: int = 200,
    tolerance: float = 1e-8,
    each_step: Callable[[int, float], None] | None = None,
    units: Floats | None = None,
) -> Minimum:
    """Minimise any function by L-BFGS from ``start``; ``each_step`` is told the step and the loss.

    The search counts each weight in its own of the ``units``, if there are any: with those in
    which the loss is about as curved along every weight, it takes far fewer steps.
    """
    from scipy.optimize import minimize

    last, step = [np.inf], [0]
    scale = 1.0 if units is None else units

    def counted(w: Floats) -> tuple[float, Floats]:
        last[0], gradient = loss(w * scale)
        return last[0], gradient * scale

    def told(_: Floats) -> None:
        step[0] += 1
        if each_step is not None:
            each_step(step[0], last[0])

    result = minimize(
        counted,
        start / scale,
        jac=True,
        method="L-BFGS-B",
        callback=told,
        options={"maxiter": most_steps, "maxcor": 10, "ftol": tolerance, "gtol": 1e-7,
                 "maxfun": 3 * most_steps},
    )  # fmt: skip
    ended = "" if result.success else str(result.message)
    return Minimum(
        result.x * scale, float(result.fun), int(result.nit), bool(result.success), ended
    )
