"""`read_log`: from whatever a log is in to something that can be evaluated."""

from __future__ import annotations

import glob
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Unpack

from offpolicy._core.door import Door
from offpolicy._core.late import pa
from offpolicy.errors import LogError, ParameterError, did_you_mean
from offpolicy.logs._bad_rows import MAX_DROPPED, Dropped, check_on_bad_row, refuse_many
from offpolicy.logs._bandit_log import BanditLog
from offpolicy.logs._columns import ColumnNames, Columns, as_table, is_frame
from offpolicy.logs._part import portion
from offpolicy.logs._scan import LogScan
from offpolicy.logs.expressions import Expression
from offpolicy.logs.files._filter import as_expression, filtered
from offpolicy.logs.files._folders import read_with_folders, roles_asked_for
from offpolicy.logs.files._text import (
    as_common,
    is_feather,
    is_large,
    is_parquet,
    kind_of,
    read_table,
)
from offpolicy.logs.formats import dsjson, obd
from offpolicy.logs.formats._lines import refuse_pipe

READ_WHOLE = 32 * 2**20
"""Bytes of Parquet that are read into memory at once; more are scanned."""
ENGINES = ("embedded", "spark")


def read_log(
    source: Any,
    columns: Columns | None = None,
    *,
    where: str | Expression | None = None,
    memory: str | None = None,
    threads: int | None = None,
    engine: str = "embedded",
    master: str | None = None,
    on_bad_row: str = "error",
    max_dropped: float = MAX_DROPPED,
    verify: bool = False,
    limit: int | None = None,
    sample: float | None = None,
    sample_seed: int = 0,
    **names: Unpack[ColumnNames],
) -> BanditLog | LogScan:
    """A log from files, or from a dataframe.

    Parameters
    ----------
    source : path, glob, folder, several of these, or a dataframe
        Dataframes of pandas, polars (also lazy), pyarrow and DuckDB, or a mapping of names to
        columns.
        Parquet files (all with the same columns), Feather (Arrow IPC) files, which are read whole,
        or CSV, TSV and JSON lines, also compressed (.gz, .bz2, .zst). Lists in CSV are written as
        JSON or Python write them: ``"[0.2, 0.8]"``. VW's dsjson and the Open
        Bandit Dataset are known when seen.
    columns : Columns, optional
        Which column plays which role; or, as in every verb, ``action="item"`` and so on.
    where : str, optional
        A condition: ``"country = 'de' and day >= 10"``; rows of which it is not true are left out.
        It means the same for files, frames and Spark; the guide on filters has what it can say.
    memory, threads : optional
        What DuckDB may use for large files: ``"4GB"``, 2.
    engine : {"embedded", "spark"}
        Who reads files: DuckDB in this process, or Spark, on as many machines as it has; then
        Parquet only, wherever Spark finds it (``"s3a://bucket/logs"``). A Spark DataFrame always
        stays with Spark.
    master : str, optional
        Of a Spark session that is begun here: ``"local[4]"``, ``"yarn"``, ``"spark://host:7077"``.
    on_bad_row : {"error", "drop"}
        A row that is malformed by itself (a missing reward, probabilities that do not sum to 1)
        is an error; or it is left out, and counted in `Result.dropped`. So are rows of columns
        that are evaluated as policies or predictions. What is wrong with a whole column stays an
        error.
    max_dropped : float
        The share of rows that may be dropped. If more are malformed, what is left may answer
        another question (a reward that is missing where nothing was bought), and that is an error.
    verify : bool
        Read large Parquet once more, against its page checksums, if it was written with them
        (``write_page_checksum=True`` in pyarrow). Small files are always compared with theirs.

    limit : int, optional
        Only so many rows, the first that meet the condition.
    sample : float, optional
        Of these, a share (0.1) or about so many (10_000), drawn by chance.
    sample_seed : int
        Of that draw: the same rows for the same number, in memory and in files.

    Returns
    -------
    BanditLog
        If it is small, held in memory.
    LogScan
        If it is large: read piece by piece whenever it is used. Text and the long format are
        copied once, to temporary Parquet files in a folder of ``TMPDIR``.
    """
    if names:
        check_names(names, Columns, read_log, False)
        if columns is not None:
            raise ParameterError(
                f"{next(iter(names))} and columns both say which column plays which role: give "
                f"one of them.",
                column="columns",
            )
        columns = Columns(**names)
    if limit is not None or sample is not None:
        whole = read_log(
            source, columns, where=where, memory=memory, threads=threads, engine=engine,
            master=master, on_bad_row=on_bad_row, max_dropped=max_dropped, verify=verify,
        )  # fmt: skip
        return portion(whole, limit, sample, sample_seed)
    if sample_seed:
        raise _idle("sample_seed", f"a {Door.named('sample')}")
    check_on_bad_row(on_bad_row, max_dropped)
    bad_rows: dict[str, Any] = {"on_bad_row": on_bad_row, "max_dropped": max_dropped}
    condition = as_expression(where)
    if engine not in ENGINES:
        raise ParameterError(
            f'engine is "{engine}"; it must be {" or ".join(ENGINES)}.', column="engine"
        )
    if on_bad_row == "error" and max_dropped != MAX_DROPPED:
        raise _idle("max_dropped", f"rows that are dropped, {Door.given('on_bad_row', 'drop')}")
    of_files = {"memory": memory, "threads": threads, "verify": verify or None}
    of_spark = type(source).__module__.startswith("pyspark.")
    if of_spark or engine == "spark":
        drop = None if on_bad_row == "error" else on_bad_row
        _refuse_idle(of_files | {"on_bad_row": drop}, "files read by this process")
        if of_spark:
            _refuse_idle({"master": master}, "a Spark session that is begun here")
        return _on_spark(source, columns, condition, master)
    _refuse_idle({"master": master}, Door.given("engine", "spark"))
    if is_frame(source) or not isinstance(source, (str, Path, Iterable)):
        _refuse_idle(of_files, "files")
        return _from_table(as_table(source), columns, condition, "", bad_rows)
    files = files_of(_paths_in(source))
    kinds = {_family(file) for file in files}
    if len(kinds) > 1:
        raise LogError(f"Some files are {' and some '.join(sorted(kinds))}; a log is of one kind.")
    columns = columns or Columns()
    if kinds == {"Parquet"}:
        columns = roles_asked_for(columns, list(map(str, files)))
    if verify and (kinds != {"Parquet"} or columns.decision):
        raise _idle("verify", "Parquet with a row per decision: nothing else is read in pages")
    if columns.chosen and not columns.decision:
        raise _idle("chosen", "the long format: name the column of the decision as well")
    how: dict[str, Any] = {"where": condition, "memory": memory, "threads": threads} | bad_rows
    foreign = None
    if kinds == {"Parquet"}:
        large = sum(file.stat().st_size for file in files) > READ_WHOLE
        large = large or len(files) > 1 or where is not None
        if large and not columns.decision:
            from offpolicy.logs.files._parquet import ParquetScan

            return ParquetScan(files, columns, verify=verify, **how)
    elif kinds == {"Feather"}:
        large = False
    else:
        foreign = _format_of(files[0])
        if foreign is not None and columns != Columns():
            raise ParameterError(
                f"{files[0]} is in a format with columns of its own: leave out columns, or convert "
                f"it first.",
                column="columns",
            )
        large = is_large(files)
        rewritten = len(files) > 1 or where is not None
        large = large or (foreign is not None and rewritten)
        large = large or (foreign is obd and on_bad_row == "drop")
    if large:
        from offpolicy.logs.files._convert import convert

        return convert(files, columns, foreign=foreign, **how)
    if foreign is None:
        return _in_memory(files, columns, condition, bad_rows)
    if foreign is dsjson:
        return _dsjson(files[0], on_bad_row, max_dropped)
    return obd.read(files[0])


def _family(file: Path) -> str:
    return "Parquet" if is_parquet(file) else "Feather" if is_feather(file) else "text"


class Reading(ColumnNames, total=False):
    """The keywords with which a verb reads its log: roles, and the options of `read_log`."""

    where: str | Expression | None
    memory: str | None
    threads: int | None
    engine: str
    master: str | None
    on_bad_row: str
    max_dropped: float
    verify: bool
    limit: int | None
    sample: float | None
    sample_seed: int


def as_log(log: Any, reading: Reading, verb: Callable[..., Any]) -> BanditLog | LogScan:
    """What a verb is asked about: a log as it is, or one read so from a frame or files."""
    options = list(Reading.__annotations__)[len(ColumnNames.__annotations__) :]
    if isinstance(log, (BanditLog, LogScan)):
        check_names(reading, Columns, verb, True, options)
        return log
    check_names(reading, Columns, verb, False, options)
    given: dict[str, Any] = dict(reading)
    how = {name: given.pop(name) for name in options if name in given}
    return read_log(log, Columns(**given), **how)


def check_names(
    names: Mapping[str, Any],
    columns: type,
    verb: Callable[..., Any],
    made: bool,
    options: Sequence[str] = (),
) -> None:
    """Raise if there are keywords of a verb that are neither roles nor ``options`` of reading, or
    any beside a log that is ``made``."""
    roles = [item.name for item in fields(columns)]
    for name in names:
        if name not in roles and name not in options:
            taken = inspect.signature(verb).parameters.values()
            known = [other.name for other in taken if other.kind is not other.VAR_KEYWORD]
            hint = did_you_mean(name, [*known, *roles, *options])
            raise TypeError(f"{verb.__name__}() has no argument {name!r}.{hint}")
        if made and name in options:
            raise ParameterError(
                f"{name} is for a frame or file that is yet to be read, and this log is made. Give "
                f"it to read_log.",
                column=name,
            )
        if made:
            raise ParameterError(
                f"{name} names a column of a frame or file that is yet to be read, and this log is "
                f"made. Name its columns when it is read, {columns.__name__}({name}=…).",
                column=name,
            )


def _refuse_idle(given: dict[str, Any], what: str) -> None:
    """Refuse parameters of `read_log` that would have no effect."""
    for name, value in given.items():
        if value is not None:
            raise _idle(name, what)


def _idle(name: str, what: str) -> ParameterError:
    return ParameterError(f"{Door.named(name)} is for {what}.", column=name)


def _on_spark(
    source: Any, columns: Columns | None, where: Expression | None, master: str | None
) -> LogScan:
    if type(source).__module__.startswith("pyspark."):
        from offpolicy.logs.files._spark import SparkScan

        return SparkScan(source, columns, where=where)
    from offpolicy.logs.files._spark_files import read_parquet

    paths = list(map(str, _paths_in(source)))
    return read_parquet(paths, columns, where=where, master=master)


def _paths_in(source: Any) -> list[str | Path]:
    """The paths of a log, of which there may be one or several; frames are no paths."""
    if isinstance(source, (str, Path)):
        return [source]
    listed: list[Any] = [source] if isinstance(source, bytes) else list(source)
    others = [item for item in listed if not isinstance(item, (str, Path))]
    if not others:
        return listed
    several = ""
    if hasattr(others[0], "__arrow_c_stream__"):
        several = " Put frames together first: pandas.concat, polars.concat, pyarrow.concat_tables."
    raise ParameterError(
        f"source holds a {type(others[0]).__name__}; it must be a path, several paths, or one "
        f"dataframe.{several} For arrays use BanditLog.from_arrays.",
        column="source",
    )


def files_of(sources: Iterable[str | Path]) -> list[Path]:
    """All files of a log that are meant, in order: those of a glob and of a folder by name."""
    files: list[Path] = []
    for source in sources:
        path = Path(source)
        if not str(source):
            raise LogError("The name of a file is empty.")
        if path.is_dir():
            inside = sorted(
                file
                for file in path.rglob("*")
                if file.is_file() and not file.name.startswith((".", "_"))
            )
            if not inside:
                raise LogError("the folder is empty.", path)
            files += inside
        elif path.exists() or not glob.has_magic(str(source)):
            if not path.exists():
                raise LogError("there is no such file.", path)
            refuse_pipe(path)
            files.append(path)
        else:
            matching = sorted(Path(name) for name in glob.glob(str(source), recursive=True))
            if not matching:
                raise LogError("no file matches this.", source)
            files += [file for file in matching if file.is_file()]
    if not files:
        raise LogError("There is no file to read.")
    return files


def _in_memory(
    files: list[Path], columns: Columns, where: Expression | None, bad_rows: dict[str, Any]
) -> BanditLog:
    tables = [
        read_with_folders(str(file))
        if is_parquet(file)
        else read_table(file, columns.names, on_bad_row=bad_rows["on_bad_row"])
        for file in files
    ]
    source = str(files[0]) if len(files) == 1 else f"{len(files)} files"
    whole = as_common(files, tables, columns.names)
    return _from_table(whole, columns, where, source, bad_rows)


def _from_table(
    table: pa.Table,
    columns: Columns | None,
    where: Expression | None,
    source: str,
    bad_rows: dict[str, Any],
) -> BanditLog:
    table, source = filtered(table, where, source)
    log = BanditLog.from_frame(table, columns, source, **bad_rows)
    return log if where is None else log.replace(condition=where, trusted=True)


def _format_of(path: Path) -> Any:
    """The module of `offpolicy.formats` that reads this log; None if it is in our columns."""
    from offpolicy.logs.formats import numbered

    kind = kind_of(path)
    lines = itertools.islice(numbered(path), 5) if kind else ()
    first = [line.decode(errors="replace") for _, line in lines]
    if kind == "json":
        return dsjson if dsjson.sniff(first) else None
    return obd if kind == "csv" and obd.sniff("".join(first[:1])) else None


def _dsjson(path: Path, on_bad_row: str, max_dropped: float) -> BanditLog:
    counts = dsjson.Skipped()
    log = dsjson.read(path, on_bad_row=on_bad_row, counts=counts)
    if on_bad_row == "drop":
        bad = {"malformed line": counts[dsjson.BAD]} if counts[dsjson.BAD] else {}
        dropped = Dropped(len(log) + counts[dsjson.BAD], bad)
        refuse_many(dropped, str(path), max_dropped)
        log = log.replace(dropped=dropped, max_dropped=max_dropped, trusted=True)
    return log
