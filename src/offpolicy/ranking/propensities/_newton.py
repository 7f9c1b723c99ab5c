"""Newton's method for likelihoods, and the degrees of freedom of what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.types import Floats


class Derivatives(NamedTuple):
    """Of a log-likelihood."""

    value: float
    gradient: Floats
    curvature: Floats
    """Minus the Hessian, or what it is expected to be: Fisher's information."""


class Maximum(NamedTuple):
    theta: Floats
    value: float
    distance: float
    """From the maximum, in standard errors."""
    steps: int


def climb(
    theta: Floats, free: NDArray[np.bool_], derivatives: Callable[[Floats], Derivatives],
    *, steps: int, longest: float, slope: float = 0.0, near: float = 0.0,
) -> Maximum:  # fmt: skip
    """Newton's method up a likelihood of clicks, what is ``free`` by no more than ``longest`` a
    step, halving steps that do not climb; to a gradient under ``slope``, or ``near`` the top."""
    here, taken, block = derivatives(theta), 0, np.ix_(free, free)
    while True:
        gradient, direction = here.gradient[free], np.zeros(len(theta))
        direction[free] = np.linalg.solve(here.curvature[block], gradient)
        distance = float(np.sqrt(max(float(direction[free] @ gradient), 0.0)))
        flat = not np.abs(gradient).max(initial=0.0) > slope
        direction *= min(1.0, longest / max(float(np.abs(direction).max()), 1e-300))
        while not (flat or distance < near or taken == steps):
            there = derivatives(theta + direction)
            if there.value >= here.value - 1e-13 * abs(here.value):
                break
            direction /= 2.0
            flat = bool(np.abs(direction).max() < 1e-10)
        else:
            return Maximum(theta, here.value, distance, taken)
        theta, here, taken = theta + direction, there, taken + 1


def effective_degrees(squares: Floats, fourths: Floats) -> Floats:
    """Of the variance of a rank's log p, a sum of squares over queries, (Σe²)²/Σe⁴ less one: few
    queries, or many of which a few dominate, leave it uncertain."""
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.where(fourths > 0.0, squares**2 / fourths, np.inf)
    return np.asarray(np.maximum(effective - 1.0, 1.0))
