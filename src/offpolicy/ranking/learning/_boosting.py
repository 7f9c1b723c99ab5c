r"""Boosted trees with the family's weights: an objective for LightGBM's or XGBoost's ``train``.

Their own ranking objectives take whole grades of relevance, and weigh queries or pairs in their
own way. Here every document has its weight, as in `PropensitySVMRank`, with the logistic loss in
the place of the hinge, since trees need a second derivative:

.. math:: \sum_i\sum_j c_{ij}\sum_{k\ne j}\log\big(1 + \exp(s_{ik} - s_{ij})\big)

Divided by ln 2 it, too, bounds :math:`\sum_j c_{ij}(\mathrm{rank}_{ij} - 1)` from above.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core.types import Floats
from offpolicy._core.validation import as_vector, check_length
from offpolicy.errors import ParameterError, SupportError
from offpolicy.ranking.data._log import as_offsets
from offpolicy.ranking.learning._problem import as_weights

TreeObjective = Callable[[Any, Any], tuple[Floats, Floats]]


class PairwiseLoss(NamedTuple):
    """Value and derivatives, in every document's score."""

    value: float
    gradient: Floats
    curvature: Floats


def pairwise_loss(scores: ArrayLike, offsets: ArrayLike, weights: ArrayLike) -> PairwiseLoss:
    """The pairwise logistic loss over all impressions, exact in every weight.

    >>> pairwise_loss([1.0, 1.0], [0, 2], [1.0, 0.0])
    PairwiseLoss(value=0.693..., gradient=array([-0.5,  0.5]), curvature=array([0.25, 0.25]))
    """
    from offpolicy.ranking.learning._hinge_kernels import pair_logistic

    bounds = as_offsets(offsets)
    c = as_weights(weights, bounds)
    s = as_vector(scores, "scores", ParameterError)
    check_length(s, len(c), "scores", "documents", ParameterError)
    gradient, curvature = np.empty(len(c)), np.empty(len(c))
    value = pair_logistic(s, bounds, c, gradient, curvature)
    return PairwiseLoss(float(value), gradient, curvature)


def tree_objective(offsets: ArrayLike, weights: ArrayLike) -> TreeObjective:
    """Loss of a ranker: "objective" of ``lightgbm.train``, ``obj`` of ``xgboost.train``.

    For a data set with these documents in this order; its labels are not looked at. The loss is
    divided by the mean weight of a document's pairs, so that defaults for the least curvature in
    a leaf, and the like, keep their meaning.
    """
    bounds = as_offsets(offsets)
    c = as_weights(weights, bounds)
    sizes = np.diff(bounds)
    unit = float(c @ np.repeat(sizes - 1.0, sizes)) / len(c)
    if not unit > 0.0:
        raise SupportError(
            "No document that could be ranked above another has a weight: there is nothing to "
            "learn from.",
            column="weights",
        )

    def objective(scores: Any, data: Any) -> tuple[Floats, Floats]:
        loss = pairwise_loss(np.asarray(scores, dtype=np.float64), bounds, c / unit)
        return loss.gradient, loss.curvature

    return objective
