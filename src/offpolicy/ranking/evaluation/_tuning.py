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
    asked, p = known.path.asked, known.path.asked.log.p
    model = np.zeros_like(p) if prediction is None else prediction
    largest = 1.0 / float(p[p > 0.0].min(initial=1.0))
    rows = np.full((6, len(member.grid)), np.inf)
    for j, parameter in enumerate(member.grid.tolist()):
        # Beyond the largest weight all M are alike.
        same = member.parameter_name == "M" and j > 0 and member.grid[j - 1] >= largest
        rows[:, j] = rows[:, j - 1] if same else by_theory(known, member.at(parameter), model)
    return choice(member, Table(*rows), known.value, policy=asked.ranker)


def by_theory(known: Known, member: Estimator, model: Floats) -> list[float]:
    """Value, standard error, bias and its uncertainty, variance and imputed mass."""
    asked, d, curve = known.path.asked, known.path.d, known.path.curve
    log, p, single = asked.log, asked.log.p, asked.log.queries == 1
    weights = weights_at(member, p)
    seen = weights.observed * p
    found, mean, base = (
        value_of(log, asked.metric, asked.lam, counts)
        for counts in (
            weights.imputed * model + weights.observed * log.click,
            weights.imputed * model + seen * d,
            d,
        )
    )
    if not (math.isfinite(found.value) and math.isfinite(mean.value)):
        return [math.inf] * 6
    omega = np.abs(mean.weight)
    mass = float((omega * np.maximum(1.0 - seen, 0.0)).sum() / max(float(omega.sum()), 1e-300))
    variance = found.stderr**2
    if asked.independent or single:
        inner = omega**2 * weights.observed**2 * p * d * (1.0 - p * d)
        variance = float(inner.sum()) / len(log) ** 2 + (0.0 if single else mean.stderr**2)
    error = curve.kappa * float(curve.size[-1]) * mass
    return [found.value, found.stderr, mean.value - base.value, error, variance, mass]
