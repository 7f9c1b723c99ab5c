r"""An estimator as a training objective: its value and its gradient with respect to π.

Every sub-differentiable member is a mean of

.. math:: \sum_{\bar y} \text{imputed}(\pi, \pi_0)\,\hat\delta(\bar y)
          + \text{observed}(c)\, r + \text{control}(c)\, \hat\delta(y), \qquad c = \pi/\pi_0,

so its gradient needs three *slopes*: that of the imputed mass in π, and those of the other two in
c. At a kink (c = M) the slope is the one from below, as if the candidate were not clipped yet;
where there is no below (π = 0) it is the one from above.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.errors import EstimatorError, PolicyError
from offpolicy.estimators import NAMED, Estimator, as_estimator
from offpolicy.evaluation import choose_estimators
from offpolicy.evidence import Block, contributions, whole_block
from offpolicy.logs import BanditLog
from offpolicy.policies import need_log, resolve, resolve_prediction


class Objective(NamedTuple):
    """What the estimator says of a policy, and how that changes with each probability."""

    value: float
    gradient: Floats
    """∂value/∂π of every candidate, flat, each π taken as free."""


class Slopes(NamedTuple):
    """Derivatives of the masses: per candidate in π, per decision in c."""

    imputed: Floats
    observed: Floats
    control: Floats


def objective(
    log: BanditLog, policy: Any, *, prediction: Any = None, estimator: str | Estimator
) -> Objective:
    """Value and (sub)gradient of an estimator with respect to the policy's probabilities.

    Parameters
    ----------
    log, policy, prediction
        As in `evaluate`; the policy must give every candidate a probability.
    estimator : str or Estimator
        With its parameter. SWITCH and SWITCH-DR jump where c = M, so they have no gradient that
        could lead anywhere, and are refused.

    Examples
    --------
    >>> log = BanditLog.from_arrays(action=[0, 1], reward=[1, 0], logging=[[0.5, 0.5]] * 2)
    >>> objective(log, [[0.8, 0.2]] * 2, estimator="CIPS(M=1)").gradient.tolist()
    [0.0, 0.0, 0.0, 0.0]
    >>> objective(log, [[0.4, 0.6]] * 2, estimator="CIPS(M=1)").gradient.tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    need_log(log)
    member = need_differentiable(estimator)
    block = whole_block(log, resolve(log, policy), resolve_prediction(log, prediction))
    block.check_whole()
    choose_estimators([member], block.columns)
    return of_block(member, block)


def need_differentiable(estimator: str | Estimator) -> Estimator:
    """The estimator, if it can be a training objective as it stands."""
    member = as_estimator(estimator)
    if not member.subdifferentiable or NAMED.get(member.name) is not type(member):
        works = ", ".join(name for name, kind in NAMED.items() if kind.subdifferentiable)
        why = (
            "jumps where c = M, so it has no gradient that could lead anywhere"
            if member.name.startswith("SWITCH")
            else "does not say how its weights change with c"
        )
        raise EstimatorError(f"{member.name} {why}. Objectives can be {works}.")
    if not member.resolved:
        raise EstimatorError(
            f"{member.name} as an objective needs its parameter: "
            f"{member.name}({member.parameter_name}=…)."
        )
    return member


def of_block(member: Estimator, block: Block) -> Objective:
    """Value and gradient, everything being checked."""
    log, pi = block.log, block.target.flat
    if pi is None:
        raise PolicyError(
            "The gradient is with respect to the probability of every candidate, and this policy "
            "gives that of the chosen one only."
        )
    omega = log.weights
    share = omega / omega.sum()
    slope = slopes(member, pi, np.ones_like(pi) if log.logging is None else log.logging, block.c)
    gradient = np.zeros_like(pi)
    if block.delta_hat is not None and member.imputes is not None:
        gradient = np.repeat(share, np.diff(log.offsets)) * slope.imputed * block.delta_hat
    if member.self_normalised:
        return _self_normalised(member, block, share, gradient)
    (part,) = contributions(block, [member])
    per_c = slope.observed * log.reward + slope.control * block.delta_hat_chosen
    gradient[log.chosen_index] += share * per_c / block.propensity
    return Objective(float(share @ part.value), gradient)


def _self_normalised(member: Estimator, block: Block, share: Floats, gradient: Floats) -> Objective:
    """Σωc·residual/Σωc, plus, for SNDR, the model's mean: the slope in c is the residual's
    distance from that ratio."""
    log, pi = block.log, block.target.flat
    assert pi is not None
    residual = log.reward - (block.delta_hat_chosen if member.imputes is not None else 0.0)
    total = float(share @ block.c)
    if total == 0.0:
        raise EstimatorError(
            f"{member.name} divides by the sum of the weights, and the policy never chooses what "
            f"was logged."
        )
    ratio = float(share @ (block.c * residual)) / total
    gradient[log.chosen_index] += share * (residual - ratio) / (total * block.propensity)
    modelled = 0.0
    if member.imputes is not None:
        assert block.delta_hat is not None
        modelled = float(np.repeat(share, np.diff(log.offsets)) @ (pi * block.delta_hat))
    return Objective(modelled + ratio, gradient)


def slopes(member: Estimator, pi: Floats, pi0: Floats, c: Floats) -> Slopes:
    """How the masses change: the imputed one in each π, the others in the chosen one's c."""
    observed = _observed_slope(member, c)
    doubly_robust = member.imputes is not None and not member.for_ranking
    return Slopes(
        _imputed_slope(member, pi, pi0),
        observed,
        -observed if doubly_robust else np.zeros_like(c),
    )


def _imputed_slope(member: Estimator, pi: Floats, pi0: Floats) -> Floats:
    share = member.imputes
    if share is None:
        return np.zeros_like(pi)
    if share.kind == "clip":
        if np.isinf(share.parameter):
            return np.where(pi0 == 0.0, 1.0, 0.0)
        kept = share.parameter * pi0
        return np.where((pi > kept) | (kept == 0.0), 1.0, 0.0)
    return np.full_like(pi, 1.0 - share.parameter if share.kind == "scaled" else 1.0)


def _observed_slope(member: Estimator, c: Floats) -> Floats:
    """Of the observed mass, as a function of c."""
    parameter = member.parameter
    if member.name in ("CIPS", "CAB", "CAB-DR"):
        assert parameter is not None
        return np.where((c <= parameter) & (parameter > 0.0), 1.0, 0.0)
    if member.name == "DM":
        return np.zeros_like(c)
    if member.name == "SB":
        return np.full_like(c, parameter)
    if member.name == "DRos" and parameter != np.inf:
        return _optimistic_slope(c, parameter or 0.0)
    if member.name in ("SGIPS", "SGDR"):
        lam = parameter or 0.0
        if lam == 1.0:
            return np.zeros_like(c)
        return np.asarray((1.0 - lam) / (1.0 - lam + lam * c) ** 2)
    return np.ones_like(c)


def _optimistic_slope(c: Floats, lam: float) -> Floats:
    """Of λc/(c² + λ): (1 − c²/λ)/(1 + c²/λ)²."""
    if lam == 0.0:
        return np.zeros_like(c)
    with np.errstate(over="ignore", invalid="ignore"):
        square = c * (c / lam)
        slope = (1.0 - square) / (1.0 + square) ** 2
    return np.where(np.isfinite(square * square), slope, 0.0)
