"""L-BFGS, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
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


# -- many at once ----------------------------------------------------------------------------------

Losses = Callable[[list[int], list[Floats]], list[tuple[float, Floats]]]
"""The losses of the functions with these numbers at these points, and their gradients."""
_Search = Generator[Floats, tuple[float, Floats], Minimum]
_MEMORY = 10
_TRIES = 20


def minimise_together(
    losses: Losses, starts: Sequence[Floats], *, most_steps: int = 200, tolerance: float = 1e-8
) -> list[Minimum]:
    """Minimise many functions by L-BFGS, each from its own start, asking for all values at once.

    It pays where values of many functions cost little more together than one alone does.
    """
    searches = [_search(start, most_steps, tolerance) for start in starts]
    asked = {k: next(search) for k, search in enumerate(searches)}
    ended: dict[int, Minimum] = {}
    while asked:
        open_ = list(asked)
        for k, answer in zip(open_, losses(open_, list(asked.values())), strict=True):
            try:
                asked[k] = searches[k].send(answer)
            except StopIteration as end:
                ended[k] = end.value
                del asked[k]
    return [ended[k] for k in range(len(searches))]


def _search(w: Floats, most_steps: int, tolerance: float) -> _Search:
    """L-BFGS that yields the points at which it needs value and gradient, and is sent them."""
    from offpolicy._core.lbfgs_kernels import direction

    steps, changes = np.zeros((2, _MEMORY, len(w)))
    first = count = taken = 0
    loss, gradient = yield w
    while taken < most_steps:
        if np.abs(gradient).max() <= 1e-7:
            return Minimum(w, loss, taken, True, "")
        d = direction(gradient, steps, changes, first, count)
        reach = 1.0 if count else min(1.0, 1.0 / float(np.sqrt(gradient @ gradient)))
        t, lower, slope = yield from _line(w, d, loss, gradient, reach)
        if t == 0.0:
            if not count:
                return Minimum(w, loss, taken, False, "no point on the way down is lower")
            count = 0
            continue
        taken += 1
        step, change = t * d, slope - gradient
        if step @ change > 1e-10 * float(change @ change):
            place = (first + count) % _MEMORY
            steps[place], changes[place] = step, change
            first, count = (first + (count == _MEMORY)) % _MEMORY, min(count + 1, _MEMORY)
        gain, size = loss - lower, max(abs(loss), abs(lower), 1.0)
        w, loss, gradient = w + step, lower, slope
        if gain <= tolerance * size:
            return Minimum(w, loss, taken, True, "")
    return Minimum(w, loss, taken, False, "STOP: the limit of steps is reached")


def _line(
    w: Floats, d: Floats, loss: float, gradient: Floats, t: float
) -> Generator[Floats, tuple[float, Floats], tuple[float, float, Floats]]:
    """How far to go along ``d``, with what is found there: lower by some of what the slope
    promises, and less steep. Without such a point 0, or else the last one that is lower."""
    falls = float(gradient @ d)
    low, high, best = 0.0, np.inf, (0.0, loss, gradient)
    for _ in range(_TRIES if falls < 0.0 else 0):
        value, slope = yield w + t * d
        if not value <= loss + 1e-4 * t * falls:
            high = t
            curve = value - loss - falls * t
            guess = -0.5 * falls * t * t / curve if low == 0.0 and curve > 0.0 else 0.0
            t = min(max(guess, 0.1 * t), 0.5 * t) if low == 0.0 else 0.5 * (low + high)
            continue
        best = (t, value, slope)
        if float(slope @ d) >= 0.9 * falls:
            break
        low = t
        t = 4.0 * t if high == np.inf else 0.5 * (low + high)
    return best
