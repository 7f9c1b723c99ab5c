r"""Choosing M, τ or λ from the log.

For each value θ of a parameter four things are known: the estimate, its standard error, its
*bias* and its *variance* by the paper's theory with the recalibrated model
(`evidence._recalibration`) in the place of the truth. The rules differ in what they make of them.

``theory``
    The least estimated mean squared error, bias² + variance, both summed over all candidates, so
    that weights which the log did not happen to draw count too. Values within a factor of two of
    the least are as good as equal; among them the one that agrees best with the headline.
``slope``
    Su, Srinath and Krishnamurthy 2020: from the least biased θ on, the last one whose interval
    still meets all intervals before it.
``slope++``
    Tucker and Lee 2021: the same without the assumption that the bias is monotone.
``switch``
    Wang, Agarwal and Dudík 2017: the variance observed, plus the square of the largest bias that
    could be (imputed mass times reward range).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from offpolicy._core.ragged import decision_of_candidate
from offpolicy._core.types import Floats
from offpolicy.errors import EstimatorError, ParameterError
from offpolicy.estimators import Estimator, weights
from offpolicy.evidence._blocks import contributions
from offpolicy.evidence._clip_path import Modelled
from offpolicy.evidence._plausible_bias import residual_size, typical_error
from offpolicy.intervals import normal_quantile
from offpolicy.results import Tuned

RULES = ("theory", "slope", "slope++", "switch")
_AS_GOOD_AS = 2.0


def tune(
    member: Estimator,
    modelled: Modelled,
    *,
    n: int,
    reward_range: tuple[float, float],
    rule: str = "theory",
    headline: float | None = None,
) -> Tuned:
    """Choose the parameter of ``member`` for a log of ``n`` decisions of which ``modelled`` holds
    some (or all); ``headline`` is the best estimate known by other means."""
    check_rule(rule)
    if member.parameter_name is None:
        raise EstimatorError(f"{member.name} has no parameter to choose.")
    grid = member.grid
    members = [member.at(float(value)) for value in grid]
    table = _Table(len(grid))
    theory = _Theory(modelled)
    omega = theory.omega
    for j, one in enumerate(members):
        terms = theory.of(one)
        with np.errstate(over="ignore", invalid="ignore"):
            value = float((omega * terms.value).mean())
        table.value[j] = value
        table.stderr[j] = _spread(terms.value, omega) / math.sqrt(n)
        table.imputed_mass[j] = min(max(float((omega * terms.imputed_mass).mean()), 0.0), 1.0)
        table.bias[j], table.variance[j] = terms.bias, terms.variance / n
    with np.errstate(over="ignore", invalid="ignore"):
        error = theory.kappa * theory.size * table.imputed_mass
    table.bias_stderr = np.where(table.imputed_mass > 0.0, error, 0.0)
    for column in vars(table).values():
        column[np.isnan(column)] = np.inf
    j = _RULE[rule](table, reward_range[1] - reward_range[0], headline)
    return Tuned(
        policy=modelled.block.target.name,
        estimator=str(members[j]),
        rule=rule,
        parameter=member.parameter_name,
        chosen=float(grid[j]),
        reason=_reason(rule, member.parameter_name, table, j),
        grid=grid,
        **vars(table),
    )


def chosen_by(rule: str, tuned: Tuned, span: float, headline: float | None = None) -> float:
    """The parameter that another rule of tuning would have chosen from the same table."""
    columns = {name: getattr(tuned, name) for name in vars(_Table(0))}
    table = _Table(0)
    vars(table).update(columns)
    return float(tuned.grid[_RULE[rule](table, span, headline)])


def check_rule(rule: str) -> None:
    """Raise unless there is such a rule of tuning."""
    if rule not in RULES:
        raise ParameterError(f'tuning is "{rule}"; it can be {", ".join(RULES)}.', column="tuning")


class _Table:
    """The columns of `Tuned`, being filled."""

    def __init__(self, size: int) -> None:
        self.value, self.stderr, self.bias = np.zeros((3, size))
        self.bias_stderr, self.variance, self.imputed_mass = np.zeros((3, size))

    @property
    def mse(self) -> Floats:
        with np.errstate(over="ignore"):
            return self.bias**2 + self.bias_stderr**2 + self.variance


class _Terms(NamedTuple):
    """One estimator on the rows at hand: contributions, imputed mass, bias, n × variance."""

    value: Floats
    imputed_mass: Floats
    bias: float
    variance: float


class _Theory:
    """Bias and variance of any member of the family by Theorems 1 and 2, with d for δ."""

    def __init__(self, modelled: Modelled) -> None:
        block, prediction, path = modelled
        log, pi = block.log, block.target.flat
        self.block, self.prediction = block, prediction
        self.kappa, self.size = typical_error(path.bins), float(residual_size(path.bins)[-1])
        self.omega = log.weights
        self.omega = self.omega / self.omega.mean()
        self.whole = pi is not None and log.logging is not None and prediction.flat is not None
        if self.whole:
            assert pi is not None
            assert log.logging is not None
            # What the policy never chooses adds nothing, whatever the estimator.
            kept = np.flatnonzero(pi > 0.0)
            self.decision = decision_of_candidate(log.offsets)[kept]
            self.pi, self.pi0 = pi[kept], log.logging[kept]
            assert prediction.flat is not None
            self.delta = prediction.flat[kept]
            model = block.delta_hat
            self.delta_hat = np.zeros(len(kept)) if model is None else model[kept]

    def of(self, member: Estimator) -> _Terms:
        """Against a world in which d is true."""
        return self._of_all(member) if self.whole else self._of_drawn(member)

    def _of_drawn(self, member: Estimator) -> _Terms:
        """The same sums over the candidates that were drawn."""
        (part,) = contributions(self.block, [member])
        reward, prediction = self.block.log.reward, self.prediction
        with np.errstate(over="ignore", invalid="ignore"):
            off = part.value - part.observed * (reward - prediction.chosen) - prediction.modelled
            bias = float((self.omega * off).mean())
        return _Terms(part.value, part.imputed_mass, bias, _spread(part.value, self.omega) ** 2)

    def _of_all(self, member: Estimator) -> _Terms:
        block, pi0, n = self.block, self.pi0, len(self.block.log)

        def summed(per_candidate: Floats) -> Floats:
            return np.bincount(self.decision, per_candidate, n).astype(np.float64)

        with np.errstate(over="ignore", invalid="ignore"):
            masses = member.masses(self.pi, pi0)
            o = masses.observed
            drawn = o * self.delta + masses.control * self.delta_hat
            left = summed(weights.leftover(self.pi, pi0, o))
            imputed = summed(masses.imputed * self.delta_hat)
            mean = summed(pi0 * drawn)
            second = summed(pi0 * (drawn * drawn + o * o * self.size**2))
            given_x = imputed + mean
            at = member.masses(block.pi_chosen, block.propensity)
            value = imputed + at.observed * block.log.reward + at.control * block.delta_hat_chosen
            bias = float((self.omega * (given_x - self.prediction.modelled)).mean())
            inner = float((self.omega * np.maximum(second - mean * mean, 0.0)).mean())
            variance = _spread(given_x, self.omega) ** 2 + inner
        return _Terms(value, left, bias, variance if math.isfinite(variance) else math.inf)


def _spread(values: Floats, omega: Floats) -> float:
    """Standard deviation over a sample's rows, for tuning; row weights ω have mean 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float((omega * values).mean())
        variance = float((omega * omega * (values - mean) ** 2).mean())
    return math.sqrt(variance) if math.isfinite(variance) else math.inf


# -- rules -----------------------------------------------------------------------------------


def _least_mse(table: _Table, span: float, headline: float | None) -> int:
    mse = np.where(np.isfinite(table.mse), table.mse, np.inf)
    best = int(np.argmin(mse))
    if headline is None or not math.isfinite(mse[best]):
        return best
    apart = np.where(mse <= _AS_GOOD_AS * mse[best], np.abs(table.value - headline), np.inf)
    return int(np.argmin(apart))


def _slope(table: _Table, span: float, headline: float | None) -> int:
    half = 2.0 * normal_quantile(0.95) * table.stderr
    low, high, chosen = -math.inf, math.inf, len(half) - 1
    for j in reversed(range(len(half))):
        if math.isfinite(half[j]):
            low, high = max(low, table.value[j] - half[j]), min(high, table.value[j] + half[j])
        if low > high:
            break
        chosen = j
    return chosen


def _slope_plus(table: _Table, span: float, headline: float | None) -> int:
    half = normal_quantile(0.95) * table.stderr
    order = np.argsort(-half, kind="stable")
    chosen = int(order[0])
    for place, j in enumerate(order):
        before = order[:place]
        with np.errstate(invalid="ignore"):
            apart = np.abs(table.value[j] - table.value[before])
        # What overflows is so uncertain that it contradicts nothing.
        if not (apart > half[j] + (math.sqrt(6.0) - 1.0) * half[before]).any():
            chosen = int(j)
    return chosen


def _switch_bound(table: _Table, span: float, headline: float | None) -> int:
    with np.errstate(over="ignore"):
        return int(np.argmin(table.stderr**2 + (span * table.imputed_mass) ** 2))


_RULE = {
    "theory": _least_mse,
    "slope": _slope,
    "slope++": _slope_plus,
    "switch": _switch_bound,
}


def _reason(rule: str, name: str, table: _Table, j: int) -> str:
    if rule in ("slope", "slope++"):
        return f"the last {name} whose interval agrees with those of less bias ({rule})"
    if rule == "switch":
        return f"least variance plus squared largest possible bias ({table.stderr[j]:.2g} noise)"
    return least_error(
        math.sqrt(table.variance[j]), math.hypot(table.bias[j], table.bias_stderr[j])
    )


def least_error(noise: float, bias: float) -> str:
    """Why tuning (or the headline) chose its parameter, in words."""
    shown = 0.0 if bias < 1e-6 * noise else bias
    return f"least estimated error: {noise:.2g} noise, {shown:.2g} bias"
