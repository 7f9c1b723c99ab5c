"""In which form a user's estimator is given contexts: as numbers, as they are, or with names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.contexts import ContextEncoder
from offpolicy.errors import LogError
from offpolicy.logs import BanditLog
from offpolicy.models._scaled_ridge import ScaledRidge


@dataclass(frozen=True, eq=False)
class Given:
    """The form that an estimator asks for, fixed by the log it is fitted on.

    - "named": a pandas frame, for a pipeline that picks columns by name;
    - "unchanged": an array of what the log holds, for a pipeline that begins with a step of
      scikit-learn that takes categories, or any column as it is;
    - "numbers": encoded, for all others. A context of finite numbers alone is not changed by that.
    """

    encoder: ContextEncoder
    form: Literal["numbers", "unchanged", "named"]

    @classmethod
    def to(cls, model: Any, log: BanditLog) -> Self | None:
        """What is given to this estimator; None where the log has no context."""
        if log.context is None:
            return None
        encoder = ContextEncoder.fit(log.context, log.context_names)
        if isinstance(model, ScaledRidge):
            return cls(encoder, "numbers")
        if not _asks_by_name(model):
            return cls(encoder, "unchanged" if _takes_anything(model) else "numbers")
        if log.context_names is None:
            raise LogError(
                f"{type(model).__name__} asks for columns of the context by name, and the log does "
                f"not know what they are called. Make it from a frame, or give context_names=.",
                column="context",
            )
        return cls(encoder, "named")

    def of(self, log: BanditLog, who: str) -> NDArray[Any]:
        """The context of a log, encoded if it is to be."""
        names = self.encoder.names
        assert log.context is not None
        if names is not None and log.context_names not in (None, names):
            raise LogError(
                f"The context is {', '.join(log.context_names or ())}, but the {who} was fitted "
                f"with {', '.join(names)}. Name the same columns, in the same order.",
                column="context",
            )
        same_width = log.context.shape[1] == self.encoder.inputs
        return self.encoder(log.context) if self.form == "numbers" and same_width else log.context

    def frame(self, X: NDArray[Any]) -> Any:
        """What an estimator is fitted to or asked about, as a frame; after the context's columns
        come those of features or actions."""
        d = self.encoder.inputs
        frame = self.encoder.frame(X[:, :d])
        for j in range(d, X.shape[1]):
            frame[f"feature {j - d}"] = X[:, j].astype(np.float64)
        return frame


@dataclass(frozen=True, eq=False)
class ByName:
    """A fitted estimator that is asked with frames."""

    model: Any
    given: Given

    def predict(self, X: NDArray[Any]) -> Any:
        return self.model.predict(self.given.frame(X))

    def predict_proba(self, X: NDArray[Any]) -> Any:
        return self.model.predict_proba(self.given.frame(X))


def _asks_by_name(model: Any) -> bool:
    """Whether an estimator, or one within it, picks columns by their names."""
    kind = _column_transformer()
    return kind is not None and any(
        callable(columns)
        or isinstance(columns, str)
        or (isinstance(columns, (list, tuple)) and any(isinstance(c, str) for c in columns))
        for part in _parts(model)
        if isinstance(part, kind)
        for _, _, columns in part.transformers
    )


def _column_transformer() -> Any:
    """scikit-learn's class; None where nothing has loaded it, so that no model can be one."""
    return getattr(sys.modules.get("sklearn.compose"), "ColumnTransformer", None)


def _parts(model: Any) -> Iterator[Any]:
    yield model
    if hasattr(model, "get_params"):
        yield from model.get_params(deep=True).values()


def _takes_anything(model: Any) -> bool:
    """Whether an estimator begins with a step that is made for columns that are no numbers."""
    from sklearn.pipeline import FeatureUnion
    from sklearn.preprocessing import FunctionTransformer

    while True:
        if getattr(model, "steps", None):
            model = model.steps[0][1]
        elif getattr(model, "estimator", None) is not None:
            model = model.estimator
        else:
            break
    columns = _column_transformer()
    if isinstance(model, (FeatureUnion, FunctionTransformer, *([columns] if columns else []))):
        return True
    try:
        from sklearn.utils import get_tags
    except ImportError:  # before scikit-learn 1.6
        tags = model._get_tags() if hasattr(model, "_get_tags") else {}
        return "categorical" in tags.get("X_types", ())
    if not hasattr(model, "__sklearn_tags__"):
        return False
    asked = get_tags(model).input_tags
    return bool(asked.categorical or asked.string)
