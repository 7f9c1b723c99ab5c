r"""The ICE family's weights, multiplied into masses.

Definition 1 of the paper weighs three terms per decision,

.. math::
    \sum_{\bar y} \pi(\bar y)\,w^\alpha \hat\delta(\bar y)
    + \frac{\pi(y)}{\pi_0(y)} w^\beta\, r + \frac{\pi(y)}{\pi_0(y)} w^\gamma\, \hat\delta(y) .

Here each member is written as the three *masses* that stand in front of
:math:`\hat\delta(\bar y)`, :math:`r` and :math:`\hat\delta(y)`. The divisions of Table 1 are
gone, so :math:`\pi = 0` and :math:`\pi_0 = 0` are ordinary inputs.

Every function is elementwise over (context, action) pairs: ``pi`` and ``pi0`` are the target's
and the logger's probability of the pair, ``c`` their `ratio`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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
    """What a member leaves: max(π − π₀·observed, 0), for which no observed reward answers."""
    return np.maximum(pi - pi0 * np.where(pi0 == 0.0, 0.0, observed), 0.0)


def dm(pi: Floats, c: Floats) -> Masses:
    """w = (1, 0, 0)."""
    return Masses(pi, np.zeros_like(c), np.zeros_like(c))


def ips(pi: Floats, c: Floats) -> Masses:
    """w = (0, 1, 0)."""
    return Masses(np.zeros_like(pi), c, np.zeros_like(c))


def cips(pi: Floats, c: Floats, M: float) -> Masses:
    """w = (0, min(M/c, 1), 0)."""
    return Masses(np.zeros_like(pi), np.minimum(c, M), np.zeros_like(c))


def dr(pi: Floats, c: Floats) -> Masses:
    """w = (1, 1, −1)."""
    return Masses(pi, c, -c)


def sb(pi: Floats, c: Floats, tau: float) -> Masses:
    """w = (1 − τ, τ, 0)."""
    observed = tau * c if tau > 0.0 else np.zeros_like(c)
    return Masses((1.0 - tau) * pi, observed, np.zeros_like(c))


def switch(pi: Floats, pi0: Floats, c: Floats, M: float) -> Masses:
    """w = (1{c > M}, 1{c ≤ M}, 0)."""
    return Masses(switched(pi, pi0, c, M), np.where(c <= M, c, 0.0), np.zeros_like(c))


def cab(pi: Floats, pi0: Floats, c: Floats, M: float) -> Masses:
    """w = (1 − min(M/c, 1), min(M/c, 1), 0)."""
    return Masses(clipped(pi, pi0, M), np.minimum(c, M), np.zeros_like(c))


def cab_dr(pi: Floats, c: Floats, M: float) -> Masses:
    """w = (1, min(M/c, 1), −min(M/c, 1))."""
    observed = np.minimum(c, M)
    return Masses(pi, observed, -observed)


def switch_dr(pi: Floats, c: Floats, M: float) -> Masses:
    """w = (1, 1{c ≤ M}, −1{c ≤ M})."""
    observed = np.where(c <= M, c, 0.0)
    return Masses(pi, observed, -observed)


def dros(pi: Floats, c: Floats, lam: float) -> Masses:
    """w = (1, λ/(c² + λ), −λ/(c² + λ))."""
    observed = optimistic(c, lam)
    return Masses(pi, observed, -observed)


def sgips(pi: Floats, c: Floats, lam: float) -> Masses:
    """w = (0, 1/(1 − λ + λc), 0)."""
    return Masses(np.zeros_like(pi), subgaussian(c, lam), np.zeros_like(c))


def sgdr(pi: Floats, c: Floats, lam: float) -> Masses:
    """w = (1, 1/(1 − λ + λc), −1/(1 − λ + λc))."""
    observed = subgaussian(c, lam)
    return Masses(pi, observed, -observed)


def clipped(pi: Floats, pi0: Floats, M: float) -> Floats:
    """CAB's imputed share of π: max(π − Mπ₀, 0); at M = ∞ what remains is π on {π₀ = 0}."""
    if math.isinf(M):
        return np.where(pi0 == 0.0, pi, 0.0)
    return np.maximum(pi - M * pi0, 0.0)


def switched(pi: Floats, pi0: Floats, c: Floats, M: float) -> Floats:
    """SWITCH's imputed share: π·1{c > M}; at M = ∞ what remains is π on {π₀ = 0}."""
    if math.isinf(M):
        return np.where(pi0 == 0.0, pi, 0.0)
    return np.where(c > M, pi, 0.0)


def optimistic(c: Floats, lam: float) -> Floats:
    """DRos's weight λc/(c² + λ), so that neither c² nor λ → ∞ overflows; 0 at λ = 0, c at λ = ∞."""
    if lam == 0.0:
        return np.zeros_like(c)
    if math.isinf(lam):
        return c
    with np.errstate(invalid="ignore", over="ignore"):
        shrunk = c / (1.0 + c * (c / lam))
    return np.where(np.isinf(c), 0.0, shrunk)


def subgaussian(c: Floats, lam: float) -> Floats:
    """The subgaussian weight c/(1 − λ + λc); c at λ = 0, 1{c > 0} at λ = 1."""
    if lam == 0.0:
        return c
    with np.errstate(invalid="ignore"):
        shrunk = c / (1.0 - lam + lam * c)
    return np.where(c > 0.0, np.where(np.isinf(c), 1.0 / lam, shrunk), 0.0)
