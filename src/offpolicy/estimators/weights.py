r"""What an observed reward counts for, as a function of π, π₀ and a parameter; and its slope.

A member of the family weighs three terms of a decision (Section 2.2 of the paper),

.. math::
    \sum_{\bar y} \pi(\bar y)\,w^\alpha \hat\delta(\bar y)
    + \frac{\pi(y)}{\pi_0(y)} w^\beta\, r + \frac{\pi(y)}{\pi_0(y)} w^\gamma\, \hat\delta(y) .

Multiplied out, these are three *masses* in front of :math:`\hat\delta(\bar y)`, :math:`r` and
:math:`\hat\delta(y)`. The one in front of the reward, :math:`w = c\,w^\beta` with
:math:`c = \pi/\pi_0`, is what members differ in; the other two follow from it
(`Estimator.imputes`). A *slope* is :math:`\pi_0\,\partial w/\partial\pi`: how much of a further bit
of π observed rewards answer for. At a kink it is the one from below.

Every function here is written once and runs elementwise on arrays, in compiled loops and on
tensors: nothing but arithmetic, comparisons and `where`. Those who call them see to π = 0 and
π₀ = 0, where nothing is observed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats


class Masses(NamedTuple):
    r"""What multiplies :math:`\hat\delta(\bar y)`, :math:`r` and :math:`\hat\delta(y)`."""

    imputed: Floats
    observed: Floats
    control: Floats


def ratio(pi: Floats, pi0: Floats) -> Floats:
    """The estimators' weight c = π/π₀, with c = 0 where π = 0 and c = ∞ where π > 0 = π₀."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        c = pi / pi0
    return np.where(pi == 0.0, 0.0, c)


def leftover(pi: Floats, pi0: Floats, observed: Floats) -> Floats:
    """What a member leaves: max(π − π₀·w, 0), for which no observed reward answers; what is
    rounding is 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        left = pi - pi0 * observed
    left = np.where(left > ROUNDING * pi, left, 0.0)
    never = pi0 == 0.0
    return np.where(never, pi, left) if np.any(never) else left


ROUNDING = 1e-15
"""Share of π below which what is left of it is rounding."""


def where(condition: Any, a: Any, b: Any) -> Any:
    """`numpy.where`; compiled loops and tensors have others in its place."""
    return np.where(condition, a, b)


def none(pi: Any, pi0: Any, parameter: Any) -> Any:
    """0: no reward counts. Its own slope."""
    return 0.0 * pi


def none_largest(parameter: float) -> float:
    return 0.0


def full(pi: Any, pi0: Any, parameter: Any) -> Any:
    """c itself."""
    return pi / pi0


def full_slope(pi: Any, pi0: Any, parameter: Any) -> Any:
    return 1.0 + 0.0 * pi


def scaled(pi: Any, pi0: Any, tau: Any) -> Any:
    """τc."""
    return where(tau > 0.0, tau * (pi / pi0), 0.0)


def scaled_slope(pi: Any, pi0: Any, tau: Any) -> Any:
    return tau + 0.0 * pi


def scaled_largest(tau: float) -> float:
    return math.inf if tau > 0.0 else 0.0


def clipped(pi: Any, pi0: Any, M: Any) -> Any:
    """min(c, M)."""
    c = pi / pi0
    return where(c <= M, c, M)


def clipped_slope(pi: Any, pi0: Any, M: Any) -> Any:
    return where((pi / pi0 <= M) & (M > 0.0), 1.0, 0.0)


def clipped_largest(M: float) -> float:
    return M


def switched(pi: Any, pi0: Any, M: Any) -> Any:
    """c·1{c ≤ M}."""
    c = pi / pi0
    return where(c <= M, c, 0.0)
