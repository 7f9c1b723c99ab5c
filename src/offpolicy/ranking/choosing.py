r"""Choosing M or τ from the log: the least estimated mean squared error.

With the recalibrated model :math:`\tilde\delta` in the place of the truth, an estimator with the
weights a on the model and b on a click has, by the paper's theory,

.. math::
    \text{bias} = \frac1n\sum_{ij} \lambda_j\big(a_j\hat\delta_j - (1 - b_jp_j)\,\delta_j\big),
    \qquad \text{variance} = \frac1n V_x\Big[\sum_j \lambda_j(a_j\hat\delta_j + b_jp_j\delta_j)\Big]
    + \frac1{n^2}\sum_{ij} \lambda_j^2 b_j^2\, p_j\delta_j(1 - p_j\delta_j),

the latter if clicks are independent given the query, else the variance observed over queries. What
:math:`\tilde\delta` may itself be off is added by `offpolicy.ranking.thinkable`. Both are sums over
all documents, so that the rare clicks far down, which the log did not happen to draw, count too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from offpolicy.estimators import Estimator
from offpolicy.ranking.contributions import Value, value_of
from offpolicy.ranking.family import FamilyWeights, weights_at
from offpolicy.ranking.log import RankingLog
from offpolicy.ranking.metrics import Metric
from offpolicy.ranking.results import Choice
from offpolicy.ranking.thinkable import Thinkable
from offpolicy.tuning import least_error
from offpolicy.weights import Floats


def parameter_grid(member: Estimator, p: Floats) -> Floats:
    """From all model to all weights: M up to the largest 1/p, or τ from 0 to 1."""
    if member.parameter_name == "M":
        largest = max(float(1.0 / p[p > 0.0].min()) if (p > 0.0).any() else 1.0, 1.0)
        return np.concatenate([[0.0], np.geomspace(0.1, largest, 48), [np.inf]])
    if member.parameter_name == "tau":
        return np.linspace(0.0, 1.0, 51)
    return np.concatenate([np.geomspace(1e-4, 1.0, 48)[::-1], [0.0]])


class Expected(NamedTuple):
    """What an estimator would say on average, were δ̃ true."""

    value: Value
    left: Floats
    """The share of each document that is left to the model."""


def expected(
    log: RankingLog,
    metric: Metric,
    lam: Floats,
    at: FamilyWeights,
    model: Floats,
    delta: Floats,
    base: Value,
) -> Expected:
    """For the weights ``at`` of an estimator around ``model``."""
    assert log.propensity is not None
    seen = at.observed * log.propensity
    value = value_of(log, metric, lam, at.imputed * model + seen * delta)
    # A ratio grows by what its denominator lacks.
    return Expected(value, 1.0 - seen * (base.scale / value.scale))


def choose(
    log: RankingLog,
    member: Estimator,
    metric: Metric,
    lam: Floats,
    prediction: Floats | None,
    delta: Floats,
    thinkable: Thinkable,
    *,
    independent: bool = True,
    grid: Floats | None = None,
) -> Choice:
    """Choose the parameter of ``member``, whose model is ``prediction``; ``delta`` is δ̃."""
    assert log.propensity is not None
    assert member.parameter_name is not None
    p, n, base = log.propensity, len(log), thinkable.base
    grid = parameter_grid(member, p) if grid is None else grid
    model = np.zeros_like(p) if prediction is None else prediction
    noise = p * delta * (1.0 - p * delta)
    single = bool(log.cluster.max() == 0)  # One query says nothing about others.
    value, bias, stderr, variance = np.full((4, len(grid)), np.inf)
    for j, parameter in enumerate(grid):
        at = weights_at(type(member)(float(parameter)), p)  # type: ignore[call-arg]
        found = value_of(log, metric, lam, at.imputed * model + at.observed * log.click)
        mean, left = expected(log, metric, lam, at, model, delta, base)
        if not (math.isfinite(found.value) and math.isfinite(mean.value)):
            continue
        error, spread = thinkable.bias(thinkable.left(left))
        value[j], bias[j] = found.value, mean.value - base.value + error
        stderr[j] = math.sqrt(spread)
        inner = float((mean.weight**2 * at.observed**2 * noise).sum()) / n**2
        if independent or single:
            variance[j] = inner if single else mean.stderr**2 + inner
        else:
            variance[j] = found.stderr**2
    mse = bias**2 + stderr**2 + variance
    best = int(np.argmin(np.where(np.isfinite(mse), mse, np.inf)))
    return Choice(
        estimator=str(type(member)(float(grid[best]))),  # type: ignore[call-arg]
        parameter=member.parameter_name,
        chosen=float(grid[best]),
        reason=least_error(math.sqrt(variance[best]), math.hypot(bias[best], stderr[best])),
        grid=grid,
        value=value,
        bias=bias,
        bias_stderr=stderr,
        variance=variance,
    )
