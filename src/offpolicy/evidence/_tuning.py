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

from offpolicy._core.ragged import row_sums
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import EstimatorError, ParameterError
from offpolicy.estimators import Estimator, weights
from offpolicy.evidence._blocks import Block
from offpolicy.evidence._clip_path import Modelled
from offpolicy.evidence._risk_curve import RiskCurve
from offpolicy.intervals import normal_quantile
from offpolicy.results import Tuned

RULES = ("theory", "slope", "slope++", "switch")
_AS_GOOD_AS = 2.0


def tune(
    member: Estimator,
    modelled: Modelled,
    curve: RiskCurve,
    *,
    n: int,
    span: float,
    rule: str = "theory",
) -> Tuned:
    """Choose the parameter of ``member`` for a log of ``n`` decisions, with rewards over a range
    of ``span``, of which ``modelled`` holds some (or all); ``curve`` is the headline's there."""
    if member.parameter_name is None:
        raise EstimatorError(f"{member.name} has no parameter to choose.")
    table, name = _tabled(member, modelled, curve, n), modelled.block.target.name
    return choice(member, table, curve.best_value, policy=name, span=span, rule=rule)


def choice(
    member: Estimator,
    table: Table,
    headline: float,
    *,
    policy: str,
    span: float = math.inf,
    rule: str = "theory",
) -> Tuned:
    """What a rule of tuning chooses from a table with a row for every value of the parameter."""
    assert member.parameter_name is not None
    grid, j = member.grid, _RULE[rule](table, span, headline)
    return Tuned(
        policy=policy,
        estimator=str(member.at(float(grid[j]))),
        rule=rule,
        parameter=member.parameter_name,
        chosen=float(grid[j]),
        reason=_reason(rule, member.parameter_name, table, j),
        grid=grid,
        **table._asdict(),
    )


def chosen_by(rule: str, tuned: Tuned, span: float, headline: float | None = None) -> float:
    """The parameter that another rule of tuning would have chosen from the same table."""
    table = Table(*(getattr(tuned, name) for name in Table._fields))
    return float(tuned.grid[_RULE[rule](table, span, headline)])


def check_rule(rule: str) -> None:
    """Raise unless there is such a rule of tuning."""
    if rule not in RULES:
        raise ParameterError(f'tuning is "{rule}"; it can be {", ".join(RULES)}.', column="tuning")


class Table(NamedTuple):
    """Columns of `Tuned`."""

    value: Floats
    stderr: Floats
    bias: Floats
    bias_stderr: Floats
    variance: Floats
    imputed_mass: Floats

    @property
    def mse(self) -> Floats:
        with np.errstate(over="ignore"):
            return self.bias**2 + self.bias_stderr**2 + self.variance


# -- the table -------------------------------------------------------------------------------

_TILE = 4096
"""Candidates that are looked at together, for all values of a parameter."""


def _tabled(member: Estimator, modelled: Modelled, curve: RiskCurve, n: int) -> Table:
    """Value, noise, bias and variance for every value of a member's parameter, by Theorems 1 and 2
    with d for δ: against a world in which d is true."""
    block, prediction, _ = modelled
    log, size = block.log, float(curve.size[-1])
    known = block.target.flat is not None and log.logging is not None
    whole = known and prediction.flat is not None
    parts = _over_candidates(member, modelled, size) if whole else _over_chosen(member, block)
    omega: Floats = log.weights / log.weights.mean()
    with np.errstate(over="ignore", invalid="ignore"):
        spread, given_x = _spread(parts.value, omega), parts.given_x
        between = _spread(given_x, omega)
        if not whole:
            # What was drawn stands in for what could have been.
            given_x = parts.value - parts.observed * (log.reward - prediction.chosen)
            between = spread
        within = (omega * np.maximum(parts.variance, 0.0)).mean(axis=1)
        left = np.clip((omega * parts.left).mean(axis=1), 0.0, 1.0)
        table = Table(
            value=(omega * parts.value).mean(axis=1),
            stderr=spread / math.sqrt(n),
            bias=(omega * (given_x - prediction.modelled)).mean(axis=1),
            bias_stderr=np.where(left > 0.0, curve.kappa * size * left, 0.0),
            variance=(between**2 + within) / n,
            imputed_mass=left,
        )
    return Table(*(np.where(np.isnan(column), np.inf, column) for column in table))


class _Parts(NamedTuple):
    """Of every decision, at every value of the parameter: (grid, decisions)."""

    value: Floats
    observed: Floats
    left: Floats
    """What no observed reward answers for."""
    given_x: Floats
    """The mean of the contribution, given the decision,"""
    variance: Floats
    """and its variance."""


def _over_chosen(member: Estimator, block: Block) -> _Parts:
    """From what was chosen alone."""
    grid = member.grid[:, None]
    observed = member.observed_at(block.pi_chosen, block.propensity, grid)
    residual, modelled = block.log.reward, np.zeros_like(observed)
    with np.errstate(over="ignore", invalid="ignore"):
        if block.delta_hat is not None and member.uses_model:
            assert block.target.flat is not None
            model = row_sums(block.target.flat * block.delta_hat, block.log.offsets)
            modelled = member.share_at(grid) * model
            if member.imputes == "all":
                residual = residual - block.delta_hat_chosen
        value = modelled + observed * residual
    left, nothing = 1.0 - np.minimum(observed, block.c), np.zeros_like(observed)
    return _Parts(value, observed, left, nothing, nothing)


def _over_candidates(member: Estimator, modelled: Modelled, size: float) -> _Parts:
    """From all candidates, so that those which were not drawn count too."""
    block, d = modelled.block, modelled.prediction.flat
    log, pi, pi0 = block.log, block.target.flat, block.log.logging
    assert d is not None
    assert pi is not None
    assert pi0 is not None
    delta_hat = np.zeros_like(pi) if block.delta_hat is None else block.delta_hat
    grid, n = member.grid[:, None], len(log)
    parts = _Parts(*np.empty((5, len(grid), n)))
    parts.observed[:] = member.observed_at(block.pi_chosen, block.propensity, grid)
    rows = max(1, _TILE * n // len(pi))
    for start in range(0, n, rows):
        part = slice(start, min(start + rows, n))
        first, last = int(log.offsets[start]), int(log.offsets[part.stop])
        offsets, flat = log.offsets[start : part.stop + 1] - first, slice(first, last)
        p, q, model = pi[flat], pi0[flat], delta_hat[flat]
        # What a drawn candidate's reward adds to, by d.
        e = d[flat] - model if member.imputes == "all" else d[flat]
        with np.errstate(over="ignore", invalid="ignore"):
            o = member.observed_at(p, q, grid)
            rest = weights.leftover(p, q, o)
            if member.imputes == "rest":
                imputed = _sums(model, rest, offsets)
            else:
                imputed = member.share_at(grid) * row_sums(p * model, offsets)
            mean = _sums(q * e, o, offsets)
            second = _sums(q * (e * e + size**2), o * o, offsets)
            residual = log.reward[part]
            if member.imputes == "all":
                residual = residual - block.delta_hat_chosen[part]
            parts.value[:, part] = imputed + parts.observed[:, part] * residual
            parts.left[:, part] = _sums(np.ones_like(p), rest, offsets)
            parts.given_x[:, part] = imputed + mean
            parts.variance[:, part] = second - mean * mean
    return parts


def _sums(factor: Floats, values: Floats, offsets: Ints) -> Floats:
    """Σ factor·values over each decision's candidates, for all values of a parameter: in one pass
    where all have as many."""
    n = len(offsets) - 1
    if len(factor) % n or (np.diff(offsets) != len(factor) // n).any():
        return row_sums(factor * values, offsets)
    dense = values.reshape(len(values), n, -1)
    return np.asarray(np.einsum("nk,gnk->gn", factor.reshape(n, -1), dense))


def _spread(values: Floats, omega: Floats) -> Floats:
    """Standard deviation over a sample's rows (the last axis), for tuning; row weights ω have mean
    1."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = (omega * values).mean(axis=-1, keepdims=True)
        variance = (omega * omega * (values - mean) ** 2).mean(axis=-1)
    return np.sqrt(np.where(np.isfinite(variance), variance, np.inf))


# -- rules -----------------------------------------------------------------------------------


def _least_mse(table: Table, span: float, headline: float | None) -> int:
    mse = np.where(np.isfinite(table.mse), table.mse, np.inf)
    best = int(np.argmin(mse))
    if headline is None or not math.isfinite(mse[best]):
        return best
    apart = np.where(mse <= _AS_GOOD_AS * mse[best], np.abs(table.value - headline), np.inf)
    return int(np.argmin(apart))


def _slope(table: Table, span: float, headline: float | None) -> int:
    half = 2.0 * normal_quantile(0.95) * table.stderr
    low, high, chosen = -math.inf, math.inf, len(half) - 1
    for j in reversed(range(len(half))):
        if math.isfinite(half[j]):
            low, high = max(low, table.value[j] - half[j]), min(high, table.value[j] + half[j])
        if low > high:
            break
        chosen = j
    return chosen


def _slope_plus(table: Table, span: float, headline: float | None) -> int:
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


def _switch_bound(table: Table, span: float, headline: float | None) -> int:
    with np.errstate(over="ignore"):
        return int(np.argmin(table.stderr**2 + (span * table.imputed_mass) ** 2))


_RULE = {
    "theory": _least_mse,
    "slope": _slope,
    "slope++": _slope_plus,
    "switch": _switch_bound,
}


def _reason(rule: str, name: str, table: Table, j: int) -> str:
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
