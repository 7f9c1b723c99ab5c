"""Expressions over columns in memory, by DuckDB, so that they mean what they do in files."""

from __future__ import annotations

import functools
import os

import numpy as np

from offpolicy._core.late import duckdb, pa, pc
from offpolicy._core.types import Ints
from offpolicy.errors import LogError
from offpolicy.logs._bad_rows import source_of_kept
from offpolicy.logs.expressions import Expression
from offpolicy.logs.expressions._kinds import DUCKDB
from offpolicy.logs.files._sql import connect, errors_as_ours


@functools.cache
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """One for all logs in memory, opened once in every process: a rule is asked block by block."""
    return connect(files=())


def as_expression(where: str | Expression | None) -> Expression | None:
    """A log's condition as it was given; it may be named by who gave it."""
    return where if where is None or isinstance(where, Expression) else Expression(where)


def none_meets(where: Expression, source: str) -> LogError:
    return LogError(f"no row of the log meets the condition: {where}", source)


def filtered(table: pa.Table, where: Expression | None, source: str) -> tuple[pa.Table, str]:
    """The rows of a log's table that meet a condition, in order; their source, in which they are
    counted as in the table."""
    if where is None:
        return table, source
    rows = kept_rows(table, where, source)
    return table.take(pa.array(rows)), source_of_kept(rows, source)


def kept_rows(table: pa.Table, where: Expression, source: str) -> Ints:
    """The rows of a log's table that meet a condition; none is an error."""
    meets = pc.fill_null(values(table, where, source, condition=True), False)
    rows = np.flatnonzero(meets.to_numpy())
    if not len(rows):
        raise none_meets(where, source)
    return rows


def values(
    table: pa.Table, expression: Expression, source: str, *, condition: bool = False
) -> pa.ChunkedArray:
    """What an expression is in every row of a log's table; a ``condition`` is true or false."""
    # Names may differ in case alone, which DuckDB does not tell apart, and other columns may be of
    # types that it does not know.
    named = [name for name in table.column_names if name in expression.names]
    columns = {f"c{k}": table.column(name) for k, name in enumerate(named)}
    held = pa.table(columns | {"row": pa.nulls(len(table), pa.bool_())})
    with errors_as_ours(source), _database(os.getpid()).cursor() as connection:
        try:
            connection.register("log", held)
            types = map(str, connection.table("log").types)
        except duckdb.NotImplementedException as problem:
            expression.refusals.refuse(f"a column is of a type that is not known here: {problem}")
        known = dict(zip(named, types, strict=False))
        checked = expression.on({name: known.get(name, "") for name in table.column_names}, DUCKDB)
        checked = checked.as_condition() if condition else checked
        sql = checked.sql(lambda name: f"c{named.index(name)}")
        return connection.sql(f"SELECT {sql} AS value FROM log").to_arrow_table().column("value")
