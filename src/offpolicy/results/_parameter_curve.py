"""What the curves of estimators over their parameter have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core.frames import as_pandas, as_polars
from offpolicy._core.late import pa
from offpolicy._core.types import Floats
from offpolicy.errors import ParameterError
from offpolicy.intervals import Interval, normal, normal_quantile

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class ParameterCurve:
    """An estimator's value and standard error at every value of its parameter."""

    __slots__ = ()
    parameter: str
    breakpoints: Floats
    level: float
    points: ClassVar[int] = 1001
    """Rows of a table, at most, unless more are asked for."""

    def _each(self, parameter: ArrayLike) -> tuple[Floats, Floats]:
        """Values and standard errors."""
        raise NotImplementedError

    def _shown(self, points: int) -> Floats:
        """The breakpoints, or so many of them."""
        places = np.linspace(0, len(self.breakpoints) - 1, min(points, len(self.breakpoints)))
        return np.asarray(self.breakpoints[places.astype(np.int64)])

    def at(self, parameter: ArrayLike) -> Floats:
        """The estimate at each value of the parameter."""
        return self._each(parameter)[0]

    def stderr_at(self, parameter: ArrayLike) -> Floats:
        """The standard error of the estimate at each value of the parameter."""
        return self._each(parameter)[1]

    def interval_at(self, parameter: float) -> Interval:
        """The normal interval of the estimator's own mean, at one value of the parameter."""
        value, stderr = self._each(parameter)
        return normal(float(value), float(stderr), self.level)

    def to_arrow(self, points: int | None = None) -> pa.Table:
        """Parameter, value, stderr, low and high as an Arrow table: at every breakpoint, or, if
        there are more than ``points`` (1001; of rankers 101), at that many of them."""
        points = self.points if points is None else points
        if points < 2:
            raise ParameterError(f"points is {points}; there must be at least 2.", column="points")
        x = self._shown(points)
        value, stderr = self._each(x)
        half = normal_quantile(self.level) * stderr
        columns = {"value": value, "stderr": stderr, "low": value - half, "high": value + half}
        return pa.table({self.parameter: x} | columns)

    def to_frame(self, points: int | None = None) -> pd.DataFrame:
        """`to_arrow` as a pandas DataFrame (needs pandas: ``pip install offpolicy[pandas]``)."""
        return as_pandas(self.to_arrow(points))

    def to_polars(self, points: int | None = None) -> pl.DataFrame:
        """`to_arrow` as a polars DataFrame (needs polars: ``pip install offpolicy[polars]``)."""
        return as_polars(self.to_arrow(points))
