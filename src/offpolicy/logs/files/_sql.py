"""DuckDB in this process: connections, quoting, and its errors as ours."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from offpolicy._core.late import duckdb, pa
from offpolicy.errors import LogError, ParameterError


def connect(
    memory: str | None = None,
    threads: int | None = None,
    *,
    files: Sequence[str] | None = None,
    **settings: Any,
) -> duckdb.DuckDBPyConnection:
    """A DuckDB of its own to read logs, which fetches nothing and no query can set otherwise; with
    ``files``, it opens these alone."""
    settings |= {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    limits = {"memory_limit": memory, "threads": threads}
    settings |= {name: value for name, value in limits.items() if value is not None}
    try:
        connection = duckdb.connect(":memory:", config=settings)
    except duckdb.Error as problem:
        raise ParameterError(f"memory or threads: {first_line(problem)}") from None
    connection.execute("SET enable_progress_bar = false")
    if files is not None:
        # As they are written in queries, and plain: DuckDB compares both.
        names = [*map(os.path.abspath, files), *map(_literally, files)]
        connection.execute(f"SET allowed_paths = {listed(names)}")
        connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


class Database:
    """DuckDB for one log, which opens its files alone: when first asked, and anew in other
    processes."""

    def __init__(
        self, files: Sequence[str], memory: str | None = None, threads: int | None = None
    ) -> None:
        self.files, self.memory, self.threads = list(files), memory, threads
        self._connection: duckdb.DuckDBPyConnection | None = None

    def cursor(self) -> duckdb.DuckDBPyConnection:
        connection = self._connection
        if connection is None:
            self._connection = connection = connect(self.memory, self.threads, files=self.files)
            _OPEN.add(self)
        return connection.cursor()

    def close(self) -> None:
        """Until it is asked again; what is being read meanwhile goes on."""
        self._connection = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Database, (self.files, self.memory, self.threads)


_OPEN: weakref.WeakSet[Database] = weakref.WeakSet()


def _close_all() -> None:
    """Before a process is forked: DuckDB's threads do not come along, and whoever asks it there
    waits for ever, or crashes at the end."""
    for database in list(_OPEN):
        database.close()
    _OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_all)


def parquet(files: Sequence[str], *, numbered: bool = False) -> str:
    """SQL for all rows of a log's Parquet files; if ``numbered``, with ``file_row_number``."""
    names = listed([_literally(file) for file in files])
    number = ", file_row_number = true" if numbered else ""
    return f"read_parquet({names}, hive_partitioning = false{number})"


def _literally(file: str) -> str:
    """A file's name as DuckDB must be given it: a pattern that only this name matches, and no
    "~" or scheme at its beginning."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in os.path.abspath(file))


def listed(values: Sequence[str]) -> str:
    return "[" + ", ".join(map(literal, values)) + "]"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextlib.contextmanager
def interrupts_as_pythons() -> Iterator[None]:
    """Control-C while a log is read, however DuckDB says it."""
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except RuntimeError as problem:
        if str(problem) == "Query interrupted":
            raise KeyboardInterrupt from None
        raise


@contextlib.contextmanager
def errors_as_ours(source: str) -> Iterator[None]:
    """What DuckDB says of a query or of a file, as an error of the log."""
    about_queries = (
        duckdb.BinderException, duckdb.CatalogException, duckdb.DataError,
        duckdb.OutOfMemoryException, duckdb.ParserException, duckdb.SyntaxException,
    )  # fmt: skip
    try:
        with interrupts_as_pythons():
            yield
    except about_queries as problem:
        raise LogError(first_line(problem), source) from None
    except (duckdb.Error, pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise unreadable(problem, source) from None


def unreadable(problem: Exception, file: str) -> LogError:
    """The error for a log's Parquet file that is not what it should be."""
    return LogError(
        f"not a readable Parquet file ({first_line(problem)}). Was it written or copied "
        f"only in part?",
        file,
    )


def first_line(problem: Exception) -> str:
    return str(problem).splitlines()[0].rstrip(". ") if str(problem) else type(problem).__name__
