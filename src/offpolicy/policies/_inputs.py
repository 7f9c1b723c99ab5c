"""What users hand over: is it a log, and what does the reward model predict for its candidates?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core.types import Floats
from offpolicy._core.validation import check_finite
from offpolicy.errors import ParameterError, PredictionError
from offpolicy.logs import BanditLog


def need_log(log: object) -> None:
    """Raise, saying how to make one, unless this is a log in memory."""
    if not isinstance(log, BanditLog):
        raise ParameterError(
            f"A {type(log).__name__} is not a log. Make one with BanditLog.from_frame (any "
            f"dataframe), from_arrays or from_ragged.",
            column="log",
        )


def resolve_prediction(log: BanditLog, prediction: Any, *, checked: bool = False) -> Floats | None:
    """δ̂ of every candidate, flat, from anything that can stand for a reward model."""
    if prediction is None:
        return None
    if isinstance(prediction, str):
        prediction = log.named_column(prediction)
    elif hasattr(prediction, "predict"):
        prediction = prediction.predict(log)
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


def remember(log: BanditLog, prediction: Any) -> Any:
    """The same predictions in a form that serves other logs too, as far as they can."""
    if isinstance(prediction, str) or hasattr(prediction, "predict"):
        return prediction
    return _Remembered(log, log.per_candidate(prediction, "prediction", PredictionError))
