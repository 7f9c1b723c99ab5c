"""An estimator as a training objective: its value and its gradient with respect to π."""

from __future__ import annotations

from typing import Any, NamedTuple

from offpolicy._core.types import Floats
from offpolicy.errors import EstimatorError, PolicyError
from offpolicy.estimators import NAMED, Estimator, as_estimator, choose_estimators
from offpolicy.evidence import whole_block
from offpolicy.learning._risk import Observed, RaggedRisk
from offpolicy.logs import BanditLog, need_log
from offpolicy.models import resolve_prediction
from offpolicy.policies import resolve


class Objective(NamedTuple):
    """What the estimator says of a policy, and how that changes with each probability."""

    value: float
    gradient: Floats
    """∂value/∂π of every candidate, flat, each π taken as free."""


def objective(
    log: BanditLog, policy: Any, *, prediction: Any = None, estimator: str | Estimator
) -> Objective:
    """What a learner climbs: an estimator's value and (sub)gradient in the policy's probabilities.

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
    delta_hat = resolve_prediction(log, prediction)
    block = whole_block(log, resolve(log, policy), delta_hat)
    block.check_whole()
    choose_estimators([member], block.columns)
    pi = block.target.flat
    if pi is None:
        raise PolicyError(
            "The gradient is with respect to the probability of every candidate, and this policy "
            "gives that of the chosen one only.",
            column="policy",
        )
    return Objective(*RaggedRisk(member, Observed.of(log, delta_hat), log, delta_hat)(pi))


def need_differentiable(estimator: str | Estimator) -> Estimator:
    """The estimator, if it can be a learner's objective as it stands."""
    member = as_estimator(estimator)
    if not member.has_slope:
        works = ", ".join(name for name, kind in NAMED.items() if kind.subdifferentiable)
        why = (
            "jumps where c = M, so it has no gradient that could lead anywhere"
            if member.name in NAMED
            else "does not say how its weights change with π"
        )
        raise EstimatorError(f"{member.name} {why}. Objectives can be {works}.", column="estimator")
    if not member.resolved:
        raise EstimatorError(
            f"{member.name} as an objective needs its parameter: "
            f"{member.name}({member.parameter_name}=…).",
            column=member.parameter_name or "",
        )
    return member
