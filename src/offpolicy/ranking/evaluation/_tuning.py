r"""Choosing M or τ of a row from the log, by the rule of the bandits.

With the headline's model d in the place of relevance, an estimator with the weights a on the model
δ̂ and b on a click has, by the paper's theory,

.. math::
    \text{bias} = \frac1n\sum_{ij} g_j\big(a_j\hat\delta_j - (1 - b_jp_j)\,d_j\big),
    \qquad \text{variance} = \frac1n V_x\Big[\sum_j g_j(a_j\hat\delta_j + b_jp_jd_j)\Big]
    + \frac1{n^2}\sum_{ij} g_j^2 b_j^2\, p_jd_j(1 - p_jd_j),

the latter if clicks are independent given the query, else the variance observed over queries. Both
are sums over all documents, so that the rare clicks far down, which the log did not happen to draw,
count too. What d itself may be off is the plausible bias, κ s times the mass left.
"""

from __future__ import annotations

import math

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.estimators import Estimator
from offpolicy.evidence import Table, choice
from offpolicy.ranking.data._weights import weights_at
from offpolicy.ranking.evaluation._headline import Known
from offpolicy.ranking.evaluation._sums import value_of
from offpolicy.results import Tuned


def tuned(known: Known, member: Estimator, prediction: Floats | None) -> Tuned:
    """Choose ``member``'s parameter, ``prediction`` being its model."""
    model = np.zeros_like(known.d) if prediction is None else prediction
    rows = np.full((6, len(member.grid)), np.inf)
    largest = _largest_weight(known)
    for j, parameter in enumerate(member.grid.tolist()):
        clips = member.parameter_name == "M" and j > 0 and member.grid[j - 1] >= largest
        rows[:, j] = rows[:, j - 1] if clips else _row(known, member.at(parameter), model)
    table = Table(0)
    vars(table).update(zip(vars(table), rows, strict=True))
    return choice(member, table, known.value, policy=known.asked.ranker)


def _largest_weight(known: Known) -> float:
    """Of all documents shown: beyond it nothing is clipped."""
    p = known.asked.log.propensity
    assert p is not None
    return float(1.0 / p[p > 0.0].min()) if (p > 0.0).any() else 0.0


def _row(known: Known, member: Estimator, model: Floats) -> list[float]:
    """Value, standard error, bias and its uncertainty, variance and imputed mass."""
    (log, metric, _, lam, *_), d = known.asked, known.d
    p = log.propensity
    assert p is not None
    weights = weights_at(member, p)
    seen = weights.observed * p
    found = value_of(log, metric, lam, weights.imputed * model + weights.observed * log.click)
    mean = value_of(log, metric, lam, weights.imputed * model + seen * d)
    if not (math.isfinite(found.value) and math.isfinite(mean.value)):
        return [math.inf] * 6
    omega = np.abs(mean.weight)
    mass = float((omega * np.maximum(1.0 - seen, 0.0)).sum() / max(float(omega.sum()), 1e-300))
    variance = found.stderr**2
    if known.asked.independent or log.queries == 1:
        inner = omega**2 * weights.observed**2 * p * d * (1.0 - p * d)
        between = 0.0 if log.queries == 1 else mean.stderr**2
        variance = between + float(inner.sum()) / len(log) ** 2
    error = known.curve.kappa * float(known.curve.size[-1]) * mass
    bias = mean.value - value_of(log, metric, lam, d).value
    return [found.value, found.stderr, bias, error, variance, mass]
