"""Columns that are in the names of folders: ``country=de/day=3/part-0.parquet``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

from offpolicy._core.late import pa
from offpolicy.errors import LogError, Place
from offpolicy.logs._columns import ROLES, Columns
from offpolicy.logs.files._footer import Footer, only_value, read_footer, read_whole
from offpolicy.logs.files._sql import literal, quoted

_NOTHING = "__HIVE_DEFAULT_PARTITION__"
_WHOLE, _DAY = re.compile(r"0|-?[1-9]\d{0,17}"), re.compile(r"\d{4}-\d\d-\d\d")


class Folders(dict[str, list[str | None]]):
    """The columns that the folders of a log's files tell, each with its value in every file.

    Only folders that all files are in, by their names; values are whole numbers, days or text.
    """

    @classmethod
    def of(cls, files: Sequence[str]) -> Folders:
        told = [
            dict(part.split("=", 1) for part in PurePath(file).parent.parts if part.find("=") > 0)
            for file in files
        ]
        names = [name for name in told[0] if all(name in other for other in told)]
        return cls({name: [_value(other[name]) for other in told] for name in names})

    def without_own(self, files: Sequence[str], footers: Sequence[Footer]) -> Folders:
        """Those that are not in the files as well; what is in both must agree."""
        for name, values in self.items():
            for file, footer, value in zip(files, footers, values, strict=True):
                if name not in footer.schema.names:
                    continue
                own = only_value(file, name)
                if own is None or str(own) != value:
                    raise LogError(
                        f'the file has a column of this name, and its folder is "{name}={value}". '
                        f"Which of them holds? Rename one of them.",
                        Place(file, name),
                    )
        own_names = {name for footer in footers for name in footer.schema.names}
        return Folders({name: self[name] for name in self if name not in own_names})

    def kind(self, name: str) -> str:
        """What a column holds, in SQL: BIGINT, DATE or VARCHAR."""
        there = [value for value in self[name] if value is not None]
        if all(map(_WHOLE.fullmatch, there)):
            return "BIGINT"
        return "DATE" if all(map(_is_day, there)) else "VARCHAR"

    def in_sql(self, k: int) -> str:
        """What the folders of the k-th file tell, as columns of a query."""
        told = {name: values[k] for name, values in self.items()}
        return ", ".join(
            f"CAST({'NULL' if value is None else literal(value)} AS {self.kind(name)}) "
            f"AS {quoted(name)}"
            for name, value in told.items()
        )


def roles_asked_for(
    columns: Columns, files: Sequence[str], own: Sequence[str] | None = None
) -> Columns:
    """Roles of a log in Parquet files whose folders play only those that they were given by name:
    a folder may be called "time" for other reasons. The files have ``own`` columns."""
    folders = Folders.of(files)
    if not folders:
        return columns
    own = own or read_footer(files[0]).schema.names
    changes: dict[str, Any] = {}
    for role in ROLES:
        if getattr(columns, role) is None and role in folders and role not in own:
            if role in ("action", "reward"):
                raise LogError(
                    f'there is no column "{role}", only a folder "{role}=…". If that is meant, say '
                    f"so: name {role} as the column for {role}.",
                    Place(files[0], role),
                )
            changes[role] = ""
    context: list[str] = []
    for name in columns.context if not isinstance(columns.context, str) else ():
        alone = replace(columns, context=[name])
        context += [name] if name in folders else alone.context_in(own, files[0])
    return replace(columns, **changes, context=context or columns.context)


def read_with_folders(file: str) -> pa.Table:
    """A log's only Parquet file, whole, with what its folders tell in every row."""
    kinds = {"BIGINT": pa.int64(), "DATE": pa.date32(), "VARCHAR": pa.string()}
    table = read_whole(file)
    folders = Folders.of([file]).without_own([file], [Footer(len(table), table.schema)])
    for name, (value,) in folders.items():
        told = pa.scalar(value, pa.string()).cast(kinds[folders.kind(name)])
        table = table.append_column(name, pa.repeat(told, len(table)))
    return table


def _value(text: str) -> str | None:
    return None if text == _NOTHING else unquote(text)


def _is_day(text: str) -> bool:
    try:
        return bool(_DAY.fullmatch(text) and date.fromisoformat(text))
    except ValueError:
        return False
