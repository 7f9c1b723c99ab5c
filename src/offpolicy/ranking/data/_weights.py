r"""The family in the ranking setting: Table 3 of the paper, as functions of the propensity p.

.. math::
    \hat R(\pi) = \frac1n \sum_i \sum_j \Big[w^\alpha_{ij}\,\hat\delta_{ij}
    + w^\beta_{ij}\,\frac{\mathrm{click}_{ij}}{p_{ij}}\Big]\,\lambda(\mathrm{rank}_\pi(d_{ij}))

Every document counts in full (:math:`\pi = 1`) and was examined with probability
:math:`\pi_0 = p`, so the weights are those of `estimators.weights` at these two. A document
that was not shown has p = 0: blends leave it to the model, and IPS counts it as not relevant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.errors import EstimatorError, MissingColumnError
from offpolicy.estimators import ICE, Estimator, as_estimator
from offpolicy.ranking.data._log import RankingLog


class FamilyWeights(NamedTuple):
    r"""What multiplies :math:`\hat\delta` and :math:`\mathrm{click}`."""

    imputed: Floats
    r""":math:`w^\alpha`."""
    observed: Floats
    r""":math:`w^\beta / p`; 0 where p = 0, since nothing is observed there."""


def for_rankings(estimator: str | Estimator) -> Estimator:
    """The estimator, if it has a meaning for rankings; an error with the reason if not."""
    member = as_estimator(estimator)
    if member.self_normalised:
        raise EstimatorError(
            f"{member.name} divides by the weights of what was examined, and which documents were "
            f'examined is not observed. The metrics "average rank" and "recall@k" are '
            f"self-normalised by themselves: use IPS or CIPS with them.",
            column="estimator",
        )
    if not (member.for_ranking or isinstance(member, ICE)):
        instead = "CAB" if member.name != "SWITCH-DR" else "SWITCH"
        raise EstimatorError(
            f"{member.name} is not applicable to rankings: its third term (w^γ ≠ 0) needs to know "
            f"whether a document was examined, which is not observed, nor captured by the click. "
            f"Use {instead} instead.",
            column="estimator",
        )
    return member


def weights_at(estimator: str | Estimator, p: Floats) -> FamilyWeights:
    """An estimator's weights of documents that were examined with these propensities.

    >>> weights_at("CAB(M=2)", np.array([1.0, 0.5, 0.25, 0.0]))
    FamilyWeights(imputed=array([0. , 0. , 0.5, 1. ]), observed=array([1., 2., 2., 0.]))
    """
    member = for_rankings(estimator)
    masses = member.masses(np.ones_like(p), p)
    if isinstance(member, ICE) and np.any(masses.control != 0.0):
        raise EstimatorError(
            f"{member} has w^γ ≠ 0, so it needs to know whether a document was examined, which is "
            f"not observed. For rankings its gamma must be 0.",
            column="gamma",
        )
    return FamilyWeights(masses.imputed, masses.observed)


def document_weights(log: RankingLog, estimator: str | Estimator) -> Floats:
    """c = w^α·δ̂ + w^β·click/p of every document: how relevant it counts as."""
    return blended(log, for_rankings(estimator), log.prediction)


def blended(log: RankingLog, member: Estimator, prediction: Floats | None) -> Floats:
    """`document_weights` with another prediction of relevance than the log's."""
    if log.propensity is None and member.name != "DM":
        raise MissingColumnError(
            f"{member.name} needs propensity, the probability with which each document was "
            f"examined, and the log has none. Estimate it, or give it.",
            column="propensity",
        )
    imputed, observed = weights_at(member, log.p)
    if prediction is not None:
        return imputed * prediction + observed * log.click
    if np.any(imputed != 0.0) and member.uses_model:
        raise MissingColumnError(
            f"{member.name} needs prediction, the modelled probability of relevance of every "
            f"document, and the log has none. Train a RelevanceModel, or use CIPS or IPS.",
            column="prediction",
        )
    return observed * log.click
