"""What can stand for a reward model: a column, an array, anything that predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core.types import Floats
from offpolicy._core.validation import check_finite
from offpolicy.errors import PredictionError
from offpolicy.logs import BanditLog


def resolve_prediction(log: BanditLog, prediction: Any, *, checked: bool = False) -> Floats | None:
    """δ̂ of every candidate, flat, from anything that can stand for a reward model."""
    if prediction is None:
        return None
    if isinstance(prediction, str):
        prediction = log.named_column(prediction, numbers=PredictionError)
    elif hasattr(prediction, "predict"):
        prediction = prediction.predict(log)
    else:
        log.refuse_unordered("predictions", PredictionError)
    if callable(prediction):
        raise PredictionError(
            "prediction is a function. Give what it returns for this log, an array with one number "
            "for every candidate, or an object with predict(log).",
            column="prediction",
        )
    values: ArrayLike = prediction
    flat = log.per_candidate(values, "prediction", PredictionError)
    if checked:
        check_finite(flat, "prediction", log.source, PredictionError, log.offsets)
    return flat


@dataclass(frozen=True, slots=True, eq=False)
class _Remembered:
    """Predictions given as an array: good for one log and its slices."""

    log: BanditLog
    flat: Floats

    def predict(self, part: BanditLog) -> Floats:
        start = part.first_row - self.log.first_row
        if start >= 0 and start + len(part) <= len(self.log):
            stretch = self.log.rows(start, start + len(part))
            names = ("offsets", "chosen", "reward")
            if all(np.array_equal(getattr(stretch, name), getattr(part, name)) for name in names):
                first = int(self.log.offsets[start])
                return self.flat[first : first + int(stretch.offsets[-1])]
        raise PredictionError(
            "prediction was given to fit as an array, and this is not the log it belongs to. Use "
            "predict(log, prediction=…), or give fit a column name or a model.",
            column="prediction",
        )


def remember_prediction(log: BanditLog, prediction: Any) -> Any:
    """A reward model's predictions in a form that serves other logs too, as far as they can."""
    if isinstance(prediction, str) or hasattr(prediction, "predict"):
        return prediction
    return _Remembered(log, log.per_candidate(prediction, "prediction", PredictionError))
