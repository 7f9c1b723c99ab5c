"""Parquet files for Spark: which are meant, and what their folders say, as for all engines."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from offpolicy.errors import LogError, Place
from offpolicy.logs._columns import Columns
from offpolicy.logs._scan import Distributed
from offpolicy.logs.expressions import Expression
from offpolicy.logs.files._folders import Folders, roles_asked_for
from offpolicy.logs.files._footer import Footer, read_footer
from offpolicy.logs.files._shared_files import SharedFiles
from offpolicy.logs.files._spark import SparkScan, file_paths, spark_session
from offpolicy.logs.files._sql import first_line
from offpolicy.logs.files._text import kind_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATTERN = re.compile(r"([\\*?\[\]{}])")
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"


def read_parquet(
    sources: Sequence[str],
    columns: Columns | None = None,
    *,
    where: str | Expression | None = None,
    master: str | None = None,
) -> Distributed:
    """A log in Parquet files, globs or folders, wherever Spark finds them; of those that are here,
    the files and their order are what they are for every engine."""
    from offpolicy.logs.files._read import files_of

    spark = spark_session(master)
    columns = columns or Columns()
    if _are_here(spark, sources):
        order = list(map(str, files_of(sources)))
        footers = _footers(order)
        folders = Folders.of(order)
        folders.without_own(order, footers)
        base = _above_folders(order) if folders else None
        with _folders_as_text(spark):
            frame = _frame(spark, order, sources, base)
        _refuse_unseen(order, file_paths(frame))
        columns = roles_asked_for(columns, order, footers[0].schema.names)
        return SharedFiles(list(map(Path, order)), columns, where=where)
    with _folders_as_text(spark):
        frame = _frame(spark, sources, sources)
        order = file_paths(frame)
        alone = _frame(spark, sources, sources, nested=True)
    folders = Folders.of(order)
    for name in folders:
        if name in frame.columns and name in alone.columns:
            raise LogError(
                f'the files have a column of this name, and are in folders "{name}=…". Which of '
                f"them holds? Rename one of them.",
                Place(order[0], name),
            )
        if name in frame.columns:
            frame = frame.withColumn(name, frame[name].cast(_TYPES[folders.kind(name)]))
    columns = roles_asked_for(columns, order, alone.columns)
    source = order[0] if len(order) == 1 else f"{len(order)} files"
    return SparkScan(frame, columns, where=where, order=order, source=source)


_TYPES = {"BIGINT": "bigint", "DATE": "date", "VARCHAR": "string"}


def _are_here(spark: SparkSession, sources: Sequence[str]) -> bool:
    """Whether Spark looks for these names where this process does."""
    default = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS") or "file:///"
    schemes = [source for source in sources if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", source)]
    return default.startswith("file:") and all(map(os.path.exists, schemes))


def _footers(files: Sequence[str]) -> list[Footer]:
    """Of a log's files that are here; what Spark cannot read is an error."""
    for file, count in Counter(map(os.path.abspath, files)).items():
        if count > 1:
            raise LogError("the file is given twice; Spark reads it once.", file)
        if kind_of(Path(file)):
            raise LogError("Spark reads a log in Parquet only; give its DataFrame instead.", file)
    footers = [read_footer(file) for file in files]
    for file, footer in zip(files, footers, strict=True):
        for field in footer.schema:
            if any(word in str(field.type) for word in ("halffloat", "time32", "time64", "[ns")):
                raise LogError(
                    f"it holds {field.type}, which Spark does not read, so that it reads nothing "
                    f"of this file. Write it as another type (float, timestamp[us]), or leave it "
                    f"out.",
                    Place(file, field.name),
                )
    return footers


def _above_folders(files: Sequence[str]) -> str:
    """The one folder in which a log's folders "day=3" are."""
    above = set()
    for file in files:
        parts = PurePath(file).parent.parts
        first = next(k for k, part in enumerate(parts) if part.find("=") > 0)
        above.add(os.path.abspath(PurePath(*parts[:first])))
    if len(above) > 1:
        raise LogError(
            f'With Spark, folders such as "day=3" must all be in one folder; these are in '
            f"{' and in '.join(sorted(above)[:2])}."
        )
    return above.pop()


@contextmanager
def _folders_as_text(spark: SparkSession) -> Iterator[None]:
    """Spark takes what folders say as it is written: u=01 and u=1 are two users."""
    before = spark.conf.get(_INFERENCE)
    spark.conf.set(_INFERENCE, "false")
    try:
        yield
    finally:
        spark.conf.set(_INFERENCE, before or "true")


def _frame(
    spark: SparkSession,
    files: Sequence[str],
    sources: Sequence[str],
    base: str | None = None,
    *,
    nested: bool = False,
) -> DataFrame:
    """Spark's frame of a log's files; names that exist here are no patterns."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    reader = spark.read if base is None else spark.read.option("basePath", base)
    reader = reader.option("recursiveFileLookup", "true") if nested else reader
    literal = [
        _PATTERN.sub(r"\\\1", os.path.abspath(file)) if os.path.exists(file) else file
        for file in files
    ]
    try:
        return reader.parquet(*literal)
    except PySparkException as problem:
        raise LogError(first_line(problem), ", ".join(sources)) from None
    except Py4JError as problem:
        cause = str(problem).partition("\n: ")[2].splitlines()
        raise LogError(cause[0] if cause else first_line(problem), ", ".join(sources)) from None


def _refuse_unseen(files: Sequence[str], seen: Sequence[str]) -> None:
    unseen = sorted(set(map(os.path.abspath, files)) - set(seen))
    if unseen:
        raise LogError(
            "Spark does not see this file. It leaves out names that begin with a dot or an "
            "underscore: rename it.",
            unseen[0],
        )
