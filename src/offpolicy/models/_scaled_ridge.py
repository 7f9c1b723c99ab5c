"""The model that is trained where none was given, before it is fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ScaledRidge:
    """A model for `RewardModel`: a ridge regression on scaled numbers. `models._ridge` fits it
    without scikit-learn, whose import takes longer than most fits."""

    alpha: float = 1.0

    def pipeline(self) -> Any:
        """The same from scikit-learn, for what has features of candidates or is too wide."""
        from sklearn.linear_model import Ridge
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), Ridge(alpha=self.alpha))
