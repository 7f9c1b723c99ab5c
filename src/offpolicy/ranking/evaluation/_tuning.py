r"""Choosing M or τ from the log: the least estimated mean squared error.

With the recalibrated model :math:`\tilde\delta` in the place of the truth, an estimator with the
weights a on the model and b on a click has, by the paper's theory,

.. math::
    \text{bias} = \frac1n\sum_{ij} \lambda_j\big(a_j\hat\delta_j - (1 - b_jp_j)\,\delta_j\big),
    \qquad \text{variance} = \frac1n V_x\Big[\sum_j \lambda_j(a_j\hat\delta_j + b_jp_j\delta_j)\Big]
    + \frac1{n^2}\sum_{ij} \lambda_j^2 b_j^2\, p_j\delta_j(1 - p_j\delta_j),

the latter if clicks are independent given the query, else the variance observed over queries. What
:math:`\tilde\delta` may itself be off is added by `_model_error`. Both are sums over
all documents, so that the rare clicks far down, which the log did not happen to draw, count too.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.estimators import Estimator
from offpolicy.evidence import least_error
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import Metric
from offpolicy.ranking.data._weights import weights_at
from offpolicy.ranking.evaluation._model_error import ModelError
from offpolicy.ranking.evaluation._sums import Queries
from offpolicy.results import Tuned


def parameter_grid(member: Estimator, p: Floats) -> Floats:
    """For rankers, from all model to all clicks: M up to the largest 1/p."""
    if member.parameter_name == "M":
        largest = max(float(1.0 / p[p > 0.0].min()) if (p > 0.0).any() else 1.0, 1.0)
        return np.concatenate([[0.0], np.geomspace(0.1, largest, 48), [np.inf]])
    return member.grid


class _Parts(NamedTuple):
    """Sums over what has the same weights and counts in the same query.

    All that depends on M or τ is the weights, and these on p alone: where queries are shown again
    and again, by the same ranker, there is much less to go through than there are documents.
    """

    queries: Queries
    p: Floats
    model_error: ModelError
    model: Floats
    """(2, parts): Σ λδ̂ and Σ δ̂."""
    click: Floats
    delta: Floats
    noise: Floats
    """(3, parts): Σ of pδ̃(1 − pδ̃) times λ², λ and 1."""

    @classmethod
    def of(
        cls, log: RankingLog, lam: Floats, model: Floats, delta: Floats, model_error: ModelError
    ) -> _Parts:
        assert log.propensity is not None
        levels, level = np.unique(log.propensity, return_inverse=True)
        keys, inverse = np.unique(
            log.cluster[log.impression] * len(levels) + level.reshape(-1), return_inverse=True
        )
        part = inverse.reshape(-1)
        band = np.empty(len(keys), dtype=np.int64)
        band[part] = model_error.band

        def summed(x: Floats) -> Floats:
            return np.bincount(part, x, len(keys)).astype(np.float64)

        def twice(x: Floats) -> Floats:
            return np.stack([summed(lam * x), summed(x)])

        chance = log.propensity * delta
        noise = chance * (1.0 - chance)
        return cls(
            Queries.of(log)._replace(query=keys // len(levels)),
            levels[keys % len(levels)],
            replace(model_error, band=band, unit=summed(model_error.unit)),
            twice(model),
            twice(log.click),
            twice(delta),
            np.stack([summed(lam * lam * noise), summed(lam * noise), summed(noise)]),
        )

    def noise_of(self, metric: Metric, mean: float, scale: float, observed: Floats) -> float:
        """Of clicks that are independent, given what is shown."""
        squares, singles, ones = self.noise
        if metric.is_ratio:
            squares = squares - 2.0 * mean * singles + mean**2 * ones
        total = float((observed**2 * squares).sum()) / scale**2
        return max(total, 0.0) / float(self.queries.impressions.sum()) ** 2


def choose(
    log: RankingLog,
    member: Estimator,
    metric: Metric,
    lam: Floats,
    prediction: Floats | None,
    delta: Floats,
    model_error: ModelError,
    *,
    independent: bool = True,
    grid: Floats | None = None,
) -> Tuned:
    """Choose ``member``'s parameter for rankers, ``prediction`` being its model, ``delta`` δ̃."""
    assert log.propensity is not None
    assert member.parameter_name is not None
    base = model_error.base
    grid = parameter_grid(member, log.propensity) if grid is None else grid
    model = np.zeros_like(lam) if prediction is None else prediction
    parts = _Parts.of(log, lam, model, delta, model_error)
    single = len(parts.queries.impressions) == 1  # One query says nothing about others.
    value, stderr, bias, bias_stderr, variance, imputed = np.full((6, len(grid)), np.inf)
    for j, parameter in enumerate(grid):
        weights = weights_at(member.at(float(parameter)), parts.p)
        seen = weights.observed * parts.p
        clicks = weights.observed * parts.click
        c = weights.imputed * parts.model + clicks
        estimate, spread, _ = parts.queries.value(metric, *c)
        expected = weights.imputed * parts.model + seen * parts.delta
        mean, between, scale = parts.queries.value(metric, *expected)
        if not (math.isfinite(estimate) and math.isfinite(mean)):
            continue
        # A ratio grows by what its denominator lacks.
        share = 1.0 - seen * (base.scale / scale)
        error, uncertain = parts.model_error.bias(parts.model_error.left(share))
        value[j], stderr[j] = estimate, spread
        bias[j], bias_stderr[j] = mean - base.value + error, math.sqrt(uncertain)
        total = float(c[1].sum())
        imputed[j] = 1.0 - float(clicks[1].sum()) / total if total > 0.0 else 0.0
        variance[j] = spread**2
        if independent or single:
            inner = parts.noise_of(metric, mean, scale, weights.observed)
            variance[j] = inner if single else between**2 + inner
    mse = bias**2 + bias_stderr**2 + variance
    best = int(np.argmin(np.where(np.isfinite(mse), mse, np.inf)))
    return Tuned(
        policy="",
        estimator=str(member.at(float(grid[best]))),
        rule="theory",
        parameter=member.parameter_name,
        chosen=float(grid[best]),
        reason=least_error(math.sqrt(variance[best]), math.hypot(bias[best], bias_stderr[best])),
        grid=grid,
        value=value,
        stderr=stderr,
        bias=bias,
        bias_stderr=bias_stderr,
        variance=variance,
        imputed_mass=imputed,
    )
