"""Kinds of values, and which types of an engine's columns are of which kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

WORDS = {
    "truth": "true or false",
    "whole": "a whole number",
    "number": "a number",
    "text": "text",
    "date": "a date",
    "time": "a time",
    "instant": "a time with a zone",
    "nothing": "nothing",
}
"""The kinds, as messages call them."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A part of an expression that has passed all checks."""

    op: str
    kind: str
    parts: tuple[Typed, ...] = ()
    value: Any = None
    limit: int = 0
    """Of whole numbers: none is further from 0."""
    wild: bool = False
    """Of numbers: may be infinite or NaN."""

    def all_parts(self) -> Iterator[Typed]:
        """Itself, and all that is within it."""
        yield self
        for part in self.parts:
            yield from part.all_parts()


@dataclass(frozen=True, slots=True)
class Column:
    """What an engine says of a column: its type, and the kind if expressions know it."""

    type: str
    kind: str | None
    limit: int = 0
    cast: str | None = None
    """To which type it is cast first: one of several for the same kind."""


@dataclass(frozen=True)
class Dialect:
    """How an engine writes what expressions can say."""

    columns: Mapping[str, Column]
    """By the engine's type."""
    name: Callable[[str], str]
    text: Callable[[str], str]
    large: str
    """The type of whole numbers up to 38 digits."""
    string: str
    clock: str
    """The type of times without a zone."""
    templates: Mapping[str, str]
    matches: Callable[[str, str], str]
    """That a text is all of a pattern."""
    like: Callable[[str], str]
    """A pattern of LIKE in which % and _ alone are special."""

    def column(self, type_: str) -> Column:
        """Of a type as the engine writes it."""
        decimal = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", type_.lower())
        if decimal is not None:
            digits, scale = map(int, decimal.groups())
            if scale == 0:
                return Column(type_, "whole", 10**digits, self.large)
            # More digits than a double holds would be rounded, by every engine in its own way.
            return Column(type_, "number" if digits <= 15 else None, 0, "DOUBLE")
        if type_.startswith("ENUM("):
            return Column("ENUM", "text", 0, self.string)
        return self.columns.get(type_.upper(), Column(type_, None))


def _shared(large: str) -> dict[str, Column]:
    return {
        "BOOLEAN": Column("BOOLEAN", "truth"),
        "TINYINT": Column("TINYINT", "whole", 2**7),
        "SMALLINT": Column("SMALLINT", "whole", 2**15),
        "BIGINT": Column("BIGINT", "whole", 2**63),
        "FLOAT": Column("FLOAT", "number", 0, "DOUBLE"),
        "DOUBLE": Column("DOUBLE", "number"),
        "DATE": Column("DATE", "date"),
    }


def _in_quotes(quote: str) -> Callable[[str], str]:
    return lambda text: quote + text.replace(quote, 2 * quote) + quote


_LETTERS = "'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'"
_SMALL, _CAPITAL = _LETTERS, ", ".join(reversed(_LETTERS.split(", ")))
_TEMPLATES = {
    "lower": f"translate({{0}}, {_SMALL})",
    "upper": f"translate({{0}}, {_CAPITAL})",
    **{name: name + "({0})" for name in ("length", "floor", "ceil", "round")},
    **{name: name + "({0})" for name in ("year", "month", "day", "dayofweek", "hour", "minute")},
    **{name: name + "({0}, {1})" for name in ("contains", "starts_with", "ends_with")},
    "second": "CAST(floor(second({0})) AS BIGINT)",
    "utc": "make_timestamp(epoch_us({0}))",
    "date": "DATE '{0}'",
    "time": "TIMESTAMP '{0}'",
    "instant": "TIMESTAMPTZ '{0}+00'",
}


_END = r"\z"
"""Of text, in a pattern of Java."""


def _spark_text(text: str) -> str:
    # Backslashes and ${…} in Spark's strings mean something, depending on its settings.
    if re.fullmatch(r"[\w .:,+-]*", text, re.ASCII):
        return f"'{text}'"
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def _duckdb_case(function: str, template: str) -> str:
    """Its translate takes a hundred times as long, and is needed beyond ASCII alone."""
    return f"CASE WHEN strlen({{0}}) = length({{0}}) THEN {function}({{0}}) ELSE {template} END"


def _spark_large(function: str) -> str:
    """Spark's is of BIGINT, which does not hold all numbers."""
    small = "abs({0}) < 4503599627370496"
    return f"CASE WHEN {small} THEN CAST({function}({{0}}) AS DOUBLE) ELSE {{0}} END"


DUCKDB = Dialect(
    columns=_shared("HUGEINT")
    | {
        "INTEGER": Column("INTEGER", "whole", 2**31),
        "UTINYINT": Column("UTINYINT", "whole", 2**8),
        "USMALLINT": Column("USMALLINT", "whole", 2**16),
        "UINTEGER": Column("UINTEGER", "whole", 2**32, "BIGINT"),
        "UBIGINT": Column("UBIGINT", "whole", 2**64, "HUGEINT"),
        "VARCHAR": Column("VARCHAR", "text"),
        "TIMESTAMP": Column("TIMESTAMP", "time"),
        "TIMESTAMP WITH TIME ZONE": Column("TIMESTAMP WITH TIME ZONE", "instant"),
        "TIMESTAMPTZ_NS": Column("TIMESTAMPTZ_NS", "instant", 0, "TIMESTAMPTZ"),
        '"NULL"': Column("NULL", "nothing"),
    }
    | {
        type_: Column(type_, "time", 0, "TIMESTAMP")
        for type_ in ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
    },
    name=_in_quotes('"'),
    text=_in_quotes("'"),
    large="HUGEINT",
    string="VARCHAR",
    clock="TIMESTAMP",
    templates=_TEMPLATES
    | {name: _duckdb_case(name, _TEMPLATES[name]) for name in ("lower", "upper")},
    matches=lambda text, pattern: f"regexp_full_match({text}, '{pattern}')",
    like=lambda pattern: pattern,
)
SPARK = Dialect(
    columns=_shared("DECIMAL(38, 0)")
    | {
        "INT": Column("INT", "whole", 2**31),
        "STRING": Column("STRING", "text"),
        "TIMESTAMP_NTZ": Column("TIMESTAMP_NTZ", "time"),
        "TIMESTAMP": Column("TIMESTAMP", "instant"),
        "VOID": Column("VOID", "nothing"),
    },
    name=_in_quotes("`"),
    text=_spark_text,
    large="DECIMAL(38, 0)",
    string="STRING",
    clock="TIMESTAMP_NTZ",
    templates=_TEMPLATES
    | {
        "starts_with": "startswith({0}, {1})",
        "ends_with": "endswith({0}, {1})",
        "dayofweek": "(dayofweek({0}) - 1)",
        "floor": _spark_large("floor"),
        "ceil": _spark_large("ceil"),
        "utc": "(TIMESTAMP_NTZ '1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, "
        "CAST(CAST(unix_micros({0}) AS DECIMAL(24, 6)) / 1000000 AS DECIMAL(18, 6))))",
        "time": "TIMESTAMP_NTZ '{0}'",
        "instant": "TIMESTAMP '{0}Z'",
    },
    matches=lambda text, pattern: f"({text} RLIKE {_spark_text(f'^(?:{pattern}){_END}')})",
    like=lambda pattern: pattern.replace("\\", "\\\\"),
)
