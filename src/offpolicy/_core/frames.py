"""Arrow tables as dataframes of the packages that users have."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from offpolicy._core.late import pa
from offpolicy.errors import MissingPackageError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class Frames:
    """What is a table, as one of Arrow's, of pandas', or of polars'."""

    __slots__ = ()

    def to_arrow(self) -> pa.Table:
        raise NotImplementedError

    def to_frame(self) -> pd.DataFrame:
        """`to_arrow` as a pandas DataFrame (needs pandas: ``pip install offpolicy[pandas]``)."""
        return as_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """`to_arrow` as a polars DataFrame (needs polars: ``pip install offpolicy[polars]``)."""
        return as_polars(self.to_arrow())


def as_pandas(table: pa.Table) -> pd.DataFrame:
    """A table for ``to_frame``, or an error that says what else there is."""
    _need("pandas", "to_frame", "to_polars")
    return table.to_pandas()


def as_polars(table: pa.Table) -> pl.DataFrame:
    """A table for ``to_polars``, likewise."""
    frame: pl.DataFrame = _need("polars", "to_polars", "to_frame").from_arrow(table)
    return frame


def _need(package: str, method: str, other: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise MissingPackageError(
            f"{method} needs {package}: pip install 'offpolicy[{package}]'. Without it there are "
            f"to_arrow and {other}."
        ) from None
