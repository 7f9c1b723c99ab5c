"""`evaluate`: what would these policies have earned?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from offpolicy import intervals
from offpolicy.errors import (
    EstimatorError,
    MissingColumnError,
    ParameterError,
    PredictionError,
)
from offpolicy.estimators import NAMED, Estimator, as_estimator
from offpolicy.labels import GROUPS
from offpolicy.log import BanditLog
from offpolicy.moments import Moments, merged
from offpolicy.policies import Target, resolve
from offpolicy.results import Estimate, Logged, Result
from offpolicy.scan import (
    Block,
    blocks,
    contributions,
    each_block,
    effective_size,
    refuse_no_overlap,
    whole_block,
)
from offpolicy.weights import Floats

DEFAULT_ESTIMATORS = ("DM", "IPS", "SNIPS", "DR", "CAB(M=10)", "CAB-DR(M=10)")
"""What is computed unless asked otherwise, as far as the columns allow."""


def evaluate(
    log: BanditLog,
    policy: Any,
    *,
    prediction: Any = None,
    estimators: Sequence[str | Estimator] | None = None,
    level: float = 0.95,
) -> Result:
    """Estimate the mean reward that one or several policies would have earned.

    Parameters
    ----------
    log : BanditLog
    policy
        A policy (`offpolicy.policies`), an array of probabilities ((n, K), flat, or (n,) for the
        chosen action only), a column name, a fitted classifier, or a mapping of names to these.
    prediction : optional
        The reward model δ̂: an array of predictions for every candidate ((n, K) or flat), a
        column name, or an object with ``predict(log)``.
    estimators : names or objects, optional
        ``"CAB(M=10)"``, ``CAB(M=10)``, ``ICE(…)``, …; default `DEFAULT_ESTIMATORS`, as far as the
        columns at hand allow.
    level : float
        Coverage of the intervals.

    Examples
    --------
    >>> log = BanditLog.from_arrays(
    ...     action=[0, 1, 0, 1], reward=[1, 0, 1, 1], logging=[[0.5, 0.5]] * 4
    ... )
    >>> result = evaluate(log, [[0.9, 0.1]] * 4, estimators=["IPS"])
    >>> round(result["IPS"].value, 6)
    0.95
    """
    intervals.normal_quantile(level)
    need_log(log)
    delta_hat = resolve_prediction(log, prediction)
    policies = dict(policy) if isinstance(policy, Mapping) else {"policy": policy}
    if isinstance(policy, str):
        policies = {policy: policy}
    if not policies:
        raise ParameterError("There is no policy to evaluate.")
    if len({str(name) for name in policies}) < len(policies):
        raise ParameterError("Two policies have the same name; every name must be different.")
    targets = [resolve(log, one, str(name)) for name, one in policies.items()]
    estimates: list[Estimate] = []
    for target in targets:
        members = choose_estimators(estimators, available_columns(log, target, delta_hat))
        estimates += _evaluate_one(log, target, delta_hat, members, level)
    return Result(tuple(estimates), _logged(log, level))


def need_log(log: object) -> None:
    """Raise, saying how to make one, unless this is a log."""
    if not isinstance(log, BanditLog):
        raise ParameterError(
            f"A {type(log).__name__} is not a log. Make one with BanditLog.from_frame (any "
            f"dataframe), from_arrays or from_ragged."
        )


def resolve_prediction(log: BanditLog, prediction: Any) -> Floats | None:
    """δ̂ of every candidate, flat, from anything that can stand for a reward model; unchecked."""
    if prediction is None:
        return None
    if isinstance(prediction, str):
        prediction = log.named_column(prediction)
    elif hasattr(prediction, "predict"):
        prediction = prediction.predict(log)
    values: ArrayLike = prediction
    return log.per_candidate(values, "prediction", PredictionError)


def available_columns(log: BanditLog, target: Target, delta_hat: Floats | None) -> frozenset[str]:
    """Which of the columns that estimators may need are at hand."""
    have = {
        "propensity": log.propensity is not None,
        "logging": log.logging is not None,
        "policy": target.flat is not None,
        "prediction": delta_hat is not None,
    }
    return frozenset(name for name, there in have.items() if there)


def choose_estimators(
    wanted: Sequence[str | Estimator] | None, have: frozenset[str]
) -> tuple[Estimator, ...]:
    """The estimators asked for, all of them computable; or the default ones that are."""
    if wanted is None:
        members = [as_estimator(name) for name in DEFAULT_ESTIMATORS]
        usable = tuple(member for member in members if member.needs <= have)
        if not usable:
            _refuse_missing_columns(as_estimator("IPS"), have)
        return usable
    if isinstance(wanted, (str, Estimator)):
        wanted = [wanted]
    members = [as_estimator(item) for item in wanted]
    if not members:
        raise EstimatorError("There is no estimator to compute.")
    names = [str(member) for member in members]
    for member, name in zip(members, names, strict=True):
        if not member.resolved:
            raise EstimatorError(
                f"{name}: {member.parameter_name} is not given. "
                f'Write, for example, "{name}({member.parameter_name}=0.5)".'
            )
        if not member.needs <= have:
            _refuse_missing_columns(member, have)
        if names.count(name) > 1:
            raise EstimatorError(
                f'"{name}" is asked for twice. (An ICE takes a label= of its own.)'
            )
    return tuple(members)


_WHAT = {
    "propensity": "the propensity of the chosen action",
    "logging": "logging, the logger's probability of every candidate",
    "policy": "the policy's probability of every candidate",
    "prediction": "prediction, the reward model's estimate for every candidate",
}


def _refuse_missing_columns(member: Estimator, have: frozenset[str]) -> None:
    missing = " and ".join(text for name, text in _WHAT.items() if name in member.needs - have)
    works = [name for name, kind in NAMED.items() if kind.needs <= have]
    rest = f"These still work: {', '.join(works)}." if works else "No estimator works without."
    raise MissingColumnError(f"{member.name} needs {missing}. {rest}")


@dataclass(frozen=True, slots=True)
class Rows:
    """Which row of the moments holds what, for the j-th of E estimators."""

    members: tuple[Estimator, ...]

    @property
    def total(self) -> int:
        return 3 * len(self.members) + 1

    @property
    def weight(self) -> int:
        """The row of c itself."""
        return 3 * len(self.members)

    def value(self, j: int) -> int:
        return j

    def observed(self, j: int) -> int:
        return len(self.members) + j

    def imputed(self, j: int) -> int:
        return 2 * len(self.members) + j


class Centre(NamedTuple):
    """What a ratio is near to, Σcρ/Σc and the mean of c, so that little of it remains to be found.

    Taken from the log itself: the ratio that remains is then 0 but for rounding, and its variance
    that of a single column, so no digits are lost to cancellation.
    """

    ratio: float = 0.0
    weight: float = 1.0


class Scanned(NamedTuple):
    """What one pass over the log leaves behind."""

    plain: Moments
    ratios: tuple[Moments | None, ...]
    """For each self-normalised estimator, moments of c, of c·(residual − ratio), and of
    Σ πδ̂ + c·(residual − ratio)/weight."""


def _scan(
    log: BanditLog,
    target: Target,
    delta_hat: Floats | None,
    members: tuple[Estimator, ...],
    centres: tuple[Centre, ...],
) -> Scanned:
    rows = Rows(members)

    def of_block(block: Block) -> Scanned:
        parts = contributions(block, members)
        x = np.empty((rows.total, len(block.log)))
        x[rows.weight] = block.c
        ratios: list[Moments | None] = []
        for j, (member, part) in enumerate(zip(members, parts, strict=True)):
            x[rows.value(j)] = part.value
            x[rows.observed(j)] = part.observed
            x[rows.imputed(j)] = part.imputed_mass
            ratios.append(None)
            if member.self_normalised:
                residual = block.log.reward - centres[j].ratio
                if member.imputes is not None:
                    residual -= block.delta_hat_chosen
                weighted = block.c * residual
                y = np.stack([block.c, weighted, part.modelled + weighted / centres[j].weight])
                ratios[j] = Moments.of(y, block.log.row_weight, block.log.group, groups=GROUPS)
        plain = Moments.of(x, block.log.row_weight, block.log.group, groups=GROUPS, diagonal=True)
        return Scanned(plain, tuple(ratios))

    scans = list(each_block(of_block, blocks(log, target, delta_hat)))
    ratios = [
        None if first is None else merged(m for scan in scans if (m := scan.ratios[j]) is not None)
        for j, first in enumerate(scans[0].ratios)
    ]
    return Scanned(merged(scan.plain for scan in scans), tuple(ratios))


def _finish(member: Estimator, j: int, scanned: Scanned, centre: Centre) -> tuple[float, float]:
    """(value, standard error) from the moments."""
    ratio = scanned.ratios[j]
    if ratio is None:
        value = float(scanned.plain.mean[j])
        variance = scanned.plain.variance_of(np.eye(1, len(scanned.plain.mean), j)[0])
    else:
        weight, weighted, influence = map(float, ratio.mean)
        rest = 1.0 / weight - 1.0 / centre.weight
        value = centre.ratio + influence + weighted * rest
        # The influence function of the ratio, as the gradient with respect to the three means.
        variance = ratio.variance_of(np.array([-weighted / weight / weight, rest, 1.0]))
    if not math.isfinite(value):
        largest = scanned.plain.high[len(scanned.ratios) + j]
        raise EstimatorError(
            f"{member} overflows: the largest weight is {largest:.3g}. Use an estimator that "
            f"bounds the weights, CAB-DR(M=10) for example, or rescale rewards and predictions."
        )
    return value, math.sqrt(variance)


def _evaluate_one(
    log: BanditLog,
    target: Target,
    delta_hat: Floats | None,
    members: tuple[Estimator, ...],
    level: float,
) -> list[Estimate]:
    rows = Rows(members)
    centres = tuple(_centre(log, target, delta_hat, member) for member in members)
    scanned = _scan(log, target, delta_hat, members, centres)
    plain = scanned.plain
    if any("propensity" in member.needs for member in members):
        refuse_no_overlap(float(plain.high[rows.weight]), target.name)
    policy_stderr = _policy_stderr(log, target, delta_hat, members, centres)
    squares = plain.sum_of_squares()
    estimates = []
    for j, member in enumerate(members):
        value, stderr = _finish(member, j, scanned, centres[j])
        observed = rows.observed(j)
        estimates.append(
            Estimate(
                policy=target.name,
                estimator=str(member),
                value=value,
                stderr=stderr,
                interval=intervals.normal(value, math.hypot(stderr, policy_stderr[j]), level),
                level=level,
                imputed_mass=_imputed_mass(log, target, float(plain.mean[rows.imputed(j)])),
                ess=effective_size(plain.mean[observed] * plain.weight, float(squares[observed])),
                largest_weight=float(plain.high[observed]),
                policy_stderr=policy_stderr[j],
            )
        )
    return estimates


def _imputed_mass(log: BanditLog, target: Target, mean: float) -> float:
    """Where it had to be estimated from the chosen candidates it is noisy: keep it a share."""
    exact = log.logging is not None and target.flat is not None
    return mean if exact else min(max(mean, 0.0), 1.0)


def _policy_stderr(
    log: BanditLog,
    target: Target,
    delta_hat: Floats | None,
    members: tuple[Estimator, ...],
    centres: tuple[Centre, ...],
) -> list[float]:
    """Jackknife over the replicates of a policy that is known through draws only."""
    if target.leave_one_out is None:
        return [0.0] * len(members)
    values = []
    for replicate in target.leave_one_out:
        flat = replicate()
        if not flat[log.chosen_index].any():
            return [math.inf] * len(members)
        scanned = _scan(log, Target(target.name, flat), delta_hat, members, centres)
        values.append([_finish(m, j, scanned, centres[j])[0] for j, m in enumerate(members)])
    replicates = len(values)
    spread = np.var(np.array(values), axis=0) * (replicates - 1)
    return [float(math.sqrt(v)) for v in spread]


def _centre(log: BanditLog, target: Target, delta_hat: Floats | None, member: Estimator) -> Centre:
    if not member.self_normalised:
        return Centre()
    whole = whole_block(log, target, delta_hat)
    omega = np.ones(len(log)) if log.row_weight is None else log.row_weight
    residual = log.reward
    if member.imputes is not None:
        residual = residual - whole.delta_hat_chosen
    with np.errstate(over="ignore", invalid="ignore"):
        total = float((omega * whole.c).sum())
        ratio = float((omega * whole.c * residual).sum() / total) if total > 0.0 else math.nan
        weight = total / float(omega.sum())
    return Centre(ratio, weight) if math.isfinite(ratio) else Centre()


def _logged(log: BanditLog, level: float) -> Logged:
    moments = Moments.of(log.reward[None, :], log.row_weight, log.group, groups=GROUPS)
    value, stderr = float(moments.mean[0]), math.sqrt(moments.variance_of(np.ones(1)))
    return Logged(len(log), value, stderr, intervals.normal(value, stderr, level))
