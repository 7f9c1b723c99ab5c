"""Packages that take long to import: each is imported when something of it is first used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["duckdb", "pa", "pc", "pq"]


class _Late(ModuleType):
    """What stands for a package until then."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    duckdb, pa = _Late("duckdb"), _Late("pyarrow")
    pc, pq = _Late("pyarrow.compute"), _Late("pyarrow.parquet")
