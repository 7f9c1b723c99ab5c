r"""Recalibration: what the log's own clicks say about the relevance model.

A click has probability :math:`p\,\delta`, so with known propensities clicks have a likelihood, and
no weights are needed. The model is moved by a regression on what is known of every document,

.. math:: d = \sigma\big(\mathrm{logit}\,\hat\delta + \beta_f^\top \phi\big),

where :math:`\phi` holds a constant, the logarithms of the rank that the document would get (a good
ranker knows what is relevant) and of the number of candidates, and :math:`\mathrm{logit}\,\hat
\delta` itself: a model that knows nothing is as good as none then. The rank that the document had
is left out on purpose: with it the regression follows the logger where it should follow the clicks.
A normal prior around 0 keeps the model as it was given until clicks speak against it. The numbers
:math:`\beta_f` of a fold come from the other folds, so no query's clicks have a part in its own d.
Without a model it starts from one constant.
"""

from __future__ import annotations

import numpy as np

from offpolicy._core.logistic import FOLDS, fit_without, score_unseen, sigmoid
from offpolicy._core.types import Floats, Ints
from offpolicy.ranking.data._log import RankingLog

_PRIOR = np.array([3.0, 0.5, 0.5, 1.0])
"""How far each coefficient is thought to be from 0, in log odds."""
_UNKNOWN, _LEAST = 0.1, 1e-4
"""Relevance where there is no model, and the least that one may say."""
LARGEST = 400_000
"""Documents to fit on; of a larger log some impressions are enough for four numbers."""


def recalibrated(log: RankingLog, target: Ints) -> Floats:
    """Relevance d of every document, recalibrated for a ranker that gives the ranks ``target``."""
    start = np.full(log.documents, _UNKNOWN) if log.prediction is None else log.prediction
    share = np.clip(start, _LEAST, 1.0 - _LEAST)
    offset = np.log(share / (1.0 - share))
    columns = _columns(log, target, offset)
    fold = log.fold(FOLDS)[log.impression]
    step = -(-log.documents // LARGEST)
    used = (log.p > 0.0) & (log.impression % step == 0)
    beta = fit_without(
        columns[:, used], log.click[used], _PRIOR**-2.0, fold[used],
        offset=offset[used], seen=log.p[used],
    )  # fmt: skip
    return sigmoid(offset + score_unseen(columns[1:], beta, fold))


def _columns(log: RankingLog, target: Ints, score: Floats) -> Floats:
    """What recalibrates the relevance of documents, (4, N); all but the first with mean 0."""
    size = log.sizes[log.impression]
    columns = np.stack([np.ones(log.documents), np.log(target), np.log(size), score])
    columns[1:] -= columns[1:].mean(axis=1, keepdims=True)
    return columns
