"""Arrow tables as dataframes of the packages that users have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy.errors import MissingPackageError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


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
    try:
        import pandas as pd
    except ImportError:
        raise _missing("pandas", "to_frame", "to_polars") from None
    frame = table.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    return frame


def as_polars(table: pa.Table) -> pl.DataFrame:
    """A table for ``to_polars``, likewise."""
    try:
        import polars as pl
    except ImportError:
        raise _missing("polars", "to_polars", "to_frame") from None
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _missing(package: str, method: str, other: str) -> MissingPackageError:
    return MissingPackageError(
        f"{method} needs {package}: pip install 'offpolicy[{package}]'. Without it there are "
        f"to_arrow and {other}."
    )
