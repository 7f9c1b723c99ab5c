"""The types of a log's columns in text: the narrowest that hold all of their values, wherever in
the file they are.

Names (actions, candidates, clusters, decisions) are the text as written: "01" is not "1", "1e5" is
not "100000", and ids of 20 digits differ in their last. They are integers only if each is written
as an integer is printed, so that nothing is lost.
"""

from __future__ import annotations

from offpolicy._core.contexts import NO_VALUE
from offpolicy.logs.files._sql import literal

BIT, WHOLE, PADDED, LONG, FLOAT = (2**k for k in range(5))
TRUTH, DATE, TIME, ZONED, TEXT, NONE = (2**k for k in range(5, 11))
EMPTY, WHOLES, FLOATS, MATHS, TEXTS, NO_LIST, OBJECT, ROWS = (2**k for k in range(11, 19))
"""The kinds of values: integers as they are printed (0 and 1 may be truth values), others that
64 bits hold, others; …; lists without entries, of integers, of numbers as JSON writes them, of
other numbers, of text; no such list; …; text that looks like rows."""
NUMBER = BIT | WHOLE | PADDED | LONG | FLOAT
NUMBERS = WHOLES | FLOATS | MATHS
LIST = EMPTY | NUMBERS | TEXTS | NO_LIST
FAMILIES = (
    (NUMBER, TRUTH, DATE | TIME | ZONED | TEXT, LIST, OBJECT),
    (NUMBERS, TEXTS, NO_LIST),
)
"""The values of a column must be of one of these, each time."""
MISSING = NO_VALUE
"""What is no value in CSV, unless its column is one of text."""
_HOLDS = {
    "BIGINT": BIT | WHOLE | PADDED,
    "BOOLEAN": BIT | TRUTH,
    "DOUBLE": NUMBER,
    "DATE": DATE,
    "TIMESTAMP": DATE | TIME,
    "TIMESTAMPTZ": ZONED,
}
"""The kinds of values that a type holds, the narrowest first; text holds all."""

_MATHS = r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|-?[iI]nf(inity)?"
_NUMBER = rf"\s*({_MATHS})\s*"
_PRINTED = r"0|-?[1-9][0-9]{0,17}"
_WHOLE = r"\s*-?[0-9]+\s*"
_TIME = r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[-+]\d\d(:?\d\d)?)?)?"
_AS_JSON = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?|null"
_EMPTY = r"\s*\[\s*\]\s*"
_PYTHON_TEXT = r"""'([^'\\]|\\['"\\])*'|"([^"\\]|\\['"\\])*"|null"""
_JSON_TEXT = r'"([^"\\]|\\.)*"|null'


def _matches(cell: str, pattern: str) -> str:
    return f"regexp_full_match({cell}, {literal(pattern)})"


def _lists(cell: str, entry: str) -> str:
    return _matches(cell, rf"\s*\[\s*({entry})(\s*,\s*({entry}))*\s*\]\s*")


def number_kind(cell: str, other: str) -> str:
    """SQL for the kind of a log's cell that is a number; of any else ``other``."""
    whole = f"TRY_CAST({cell} AS BIGINT)"
    return f"""CASE
    WHEN {_matches(cell, _WHOLE)} THEN CASE
        WHEN {whole} IS NULL THEN {LONG}
        WHEN CAST({whole} AS VARCHAR) = {cell} THEN {WHOLE} ELSE {PADDED} END
    WHEN {_matches(cell, _NUMBER)} THEN {FLOAT}
    ELSE {other} END"""


def text_kind(cell: str) -> str:
    """SQL for the kind of a log's text: that of a time, if it is one."""
    return f"""CASE
    WHEN NOT {_matches(cell, _TIME)} OR TRY_CAST({cell} AS TIMESTAMP) IS NULL THEN {TEXT}
    WHEN length({cell}) = 10 THEN {DATE}
    WHEN regexp_matches({cell}, '[ T].*[-+Z]') THEN {ZONED}
    ELSE {TIME} END"""


def list_kind(cell: str) -> str:
    """SQL for the kind of a log's list, as JSON or Python write them."""
    return f"""CASE
    WHEN {_lists(cell, _PRINTED + "|null")} THEN {WHOLES}
    WHEN {_lists(cell, _AS_JSON)} THEN {FLOATS}
    WHEN {_lists(cell, _MATHS + "|-?[nN]a[nN]|null")} THEN {MATHS}
    WHEN {_matches(cell, _EMPTY)} THEN {EMPTY}
    WHEN {_lists(cell, _PYTHON_TEXT)} THEN {TEXTS}
    WHEN {_lists(cell, _JSON_TEXT)} AND json_valid({cell}) THEN {TEXTS}
    ELSE {NO_LIST} END"""


def csv_kind(cell: str, rows: str) -> str:
    """SQL for the kind of a CSV log's cell; that of text is another if it meets ``rows``."""
    truth = ("true", "True", "TRUE", "false", "False", "FALSE")
    other = f"CASE WHEN {cell} IN {MISSING} THEN {NONE} WHEN {cell} IN {truth} THEN {TRUTH}"
    other += f" WHEN {rows} THEN {ROWS} ELSE {text_kind(cell)} END"
    return f"CASE WHEN {cell} IN ('0', '1') THEN {BIT} ELSE {number_kind(cell, other)} END"


def json_kind(value: str) -> str:
    """SQL for the kind of a value in a log of JSON lines, given as JSON."""
    text = text_kind(f"({value} ->> '$')")
    return f"""CASE
    WHEN {value} IS NULL OR {value} = 'null' THEN {NONE}
    WHEN starts_with({value}, '"') THEN {text}
    WHEN {value} IN ('true', 'false') THEN {TRUTH}
    WHEN starts_with({value}, '[') THEN {list_kind(value)}
    WHEN starts_with({value}, '{{') THEN {OBJECT}
    ELSE {number_kind(value, str(FLOAT))} END"""


def csv_value(cell: str, kinds: int, *, names: bool) -> str:
    """SQL for the value of a CSV log's cell, in a column that holds values of these kinds."""
    type_ = type_of(kinds, names=names)
    if not kinds & ~(NUMBER | NONE) or type_ != "VARCHAR":
        cell = f"CASE WHEN {cell} NOT IN {MISSING} THEN {cell} END" if kinds & NONE else cell
    return f"CAST({cell} AS {type_})"


def list_value(cell: str, kinds: int, *, names: bool) -> str:
    """SQL for a log's list, in a column that holds lists of these kinds; what is none is NULL."""
    if kinds & NO_LIST:
        cell = f"CASE WHEN {list_kind(cell)} <> {NO_LIST} THEN {cell} END"
    if kinds & TEXTS:
        return (
            f"CASE WHEN json_valid({cell}) THEN CAST(CAST({cell} AS JSON) AS VARCHAR[]) "
            f"ELSE CAST({cell} AS VARCHAR[]) END"
        )
    if names and kinds & NUMBERS != WHOLES:
        return f"CAST({cell} AS VARCHAR[])"
    if kinds & MATHS:
        return f"CAST({cell} AS DOUBLE[])"
    entry = "BIGINT" if kinds & NUMBERS == WHOLES else "DOUBLE"
    return f"json_transform_strict({cell}, '[\"{entry}\"]')"


def json_value(value: str, kinds: int, *, names: bool) -> str:
    """SQL for a value in a log of JSON lines; objects and lists of lists stay JSON, as text."""
    if kinds & (OBJECT | NO_LIST):
        return f"nullif({value}, 'null')"
    if kinds & LIST:
        return list_value(f"nullif({value}, 'null')", kinds, names=names)
    return f"CAST({value} ->> '$' AS {type_of(kinds, names=names)})"


def type_of(kinds: int, *, names: bool) -> str:
    """The type of a log's column that holds values of these kinds, none of them a list."""
    values = kinds & ~NONE
    if not values:
        return '"NULL"'
    if names:
        return "VARCHAR" if values & ~(BIT | WHOLE) else "BIGINT"
    if values & LONG and not values & FLOAT:
        return "VARCHAR"
    return next((kind for kind, held in _HOLDS.items() if values & held == values), "VARCHAR")
