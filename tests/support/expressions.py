"""Expressions made at random, with what they mean: a slow reference in plain Python.

Written from docs/filter.md, not from the code. A made expression is its text, and a function from a
row (a dict) to its value; None is null, and NaN is never there.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

Row = dict[str, Any]
UTC = dt.UTC


class Made(NamedTuple):
    text: str
    of: Callable[[Row], Any]


# -- rows ------------------------------------------------------------------------------------

_FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 2.5, -2.5, 1e300, -1e300, 5e-324, 0.49999999999999994,
           4503599627370497.5, 9007199254740993.0, math.inf, -math.inf, math.nan, None]  # fmt: skip
_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "x": (pa.float64(), _FLOATS),
    "y y": (pa.float64(), _FLOATS),
    "f": (pa.float32(), [0.0, 0.1, -2.5, 1e30, math.inf, math.nan, None]),
    "n": (pa.int32(), [0, 1, -1, 7, -7, 2**31 - 1, -(2**31), None]),
    "big": (pa.int64(), [0, 1, -5, 2**53 + 1, 2**63 - 1, -(2**63), None]),
    "tiny": (pa.int8(), [0, 1, 127, -128, None]),
    "m": (pa.decimal128(10, 2), [decimal.Decimal(v) for v in ("0.10", "-2.50", "99999999.99")]
          + [None]),
    "s": (pa.string(), ["", "a", "A", "b", "ab", "a%b", "a_b", "a\\b", "it's", "ä", "Z", "ß", "🙂",
                        "a\nb", "12", "-3", " 5", "1e3", "1.50", "abc", "2026-01-05", "2026-02-30",
                        "2026-01-05 10:20:30.5", "9" * 20, "${x}", "nan", "٣", "5\n", None]),
    "r": (pa.string(), ["a", "b", "%", "ab", "", None]),
    "b": (pa.bool_(), [True, False, None]),
    "d": (pa.date32(), [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 1, 5),
                        dt.date(2024, 2, 29), dt.date(2026, 1, 4), None]),
    "t": (pa.timestamp("us"), [dt.datetime(2026, 1, 5), dt.datetime(2026, 1, 5, 10, 20, 30, 500000),
                               dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None]),
    "z": (pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 5, tzinfo=UTC),
                                      dt.datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
                                      dt.datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC), None]),
    "gone": (pa.null(), [None]),
}  # fmt: skip


def table(rows: int = 400) -> pa.Table:
    """Rows with all the odd values in many combinations."""
    rng = np.random.default_rng(0)
    return pa.table(
        {
            name: pa.array([values[k] for k in rng.integers(0, len(values), rows)], type_)
            for name, (type_, values) in _VALUES.items()
        }
    )


def rows_of(table: pa.Table) -> list[Row]:
    """As the reference sees them: NaN is null, a decimal a float, a time with a zone in UTC."""
    return [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None
    return float(value) if isinstance(value, decimal.Decimal) else value


# -- what operators mean ---------------------------------------------------------------------


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """Null where any argument is, or where the result would be NaN."""

    def of(*values: Any) -> Any:
        if any(value is None for value in values):
            return None
        return _plain(function(*values))

    return of


def _on(function: Callable[..., Any], *parts: Made) -> Callable[[Row], Any]:
    of = _strict(function)
    return lambda row: of(*(part.of(row) for part in parts))


def _divide(a: float, b: float) -> float | None:
    return None if b == 0 else float(a) / float(b)


def _remainder(a: Any, b: Any) -> Any:
    if b == 0:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) % abs(b) * (1 if a >= 0 else -1)
    return None if math.isinf(a) else math.fmod(a, b)


def _round(x: float) -> float:
    if math.isinf(x):
        return x
    half_up = decimal.ROUND_HALF_UP
    with decimal.localcontext(prec=400):
        return float(decimal.Decimal(x).quantize(decimal.Decimal(1), rounding=half_up))


def _floor(x: float) -> float:
    return x if math.isinf(x) else float(math.floor(x))


def _key(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def _compare(op: str) -> Callable[[Any, Any], bool]:
    return lambda a, b: COMPARE[op](*_alike(a, b))


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    if float in (type(a), type(b)):
        return float(a), float(b)
    return _key(a), _key(b)


def _all(values: list[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def _any(values: list[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _like(pattern: str) -> Callable[[str], bool]:
    signs = {"%": ".*", "_": "."}
    regex = "".join(signs.get(character, re.escape(character)) for character in pattern)
    return lambda text: re.fullmatch(regex, text, re.DOTALL) is not None


def _folded(text: str, first: str, shift: int) -> str:
    return "".join(chr(ord(c) + shift) if first <= c <= chr(ord(first) + 25) else c for c in text)


def _read(pattern: str, make: Callable[[str], Any]) -> Callable[[str], Any]:
    def of(text: str) -> Any:
        try:
            return make(text) if re.fullmatch(pattern, text, re.ASCII) else None
        except ValueError:
            return None

    return of


_whole_in = _read(r"[+-]?\d{1,18}", int)
_number_in = _read(r"[+-]?\d{1,18}(\.\d{0,18})?([eE][+-]?\d{1,2})?", float)
_date_in = _read(r"\d{4}-\d\d-\d\d", dt.date.fromisoformat)
_time_in = _read(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,6})?)?", dt.datetime.fromisoformat)


# -- made at random --------------------------------------------------------------------------


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _column(name: str) -> Made:
    return Made(name if name.isidentifier() else f'"{name}"', lambda row: row[name])


def _literal(value: Any) -> Made:
    text = _quoted(value) if isinstance(value, str) else str(value).lower()
    return Made(text if not text.startswith("-") else f"({text})", lambda row: value)


def _columns(*names: str) -> st.SearchStrategy[Made]:
    return st.sampled_from([_column(name) for name in names])


def _call(text: str, function: Callable[..., Any], *parts: st.SearchStrategy[Made]) -> Any:
    return st.tuples(*parts).map(
        lambda made: Made(text.format(*(part.text for part in made)), _on(function, *made))
    )


def _case(truths: Any, values: Any) -> st.SearchStrategy[Made]:
    def make(pairs: list[tuple[Made, Made]], other: Made | None) -> Made:
        whens = " ".join(f"when {c.text} then {v.text}" for c, v in pairs)
        final = "" if other is None else f" else {other.text}"

        def of(row: Row) -> Any:
            for condition, value in pairs:
                if condition.of(row) is True:
                    return value.of(row)
            return None if other is None else other.of(row)

        return Made(f"case {whens}{final} end", of)

    return st.builds(
        make, st.lists(st.tuples(truths, values), min_size=1, max_size=3), st.none() | values
    )


def _coalesce(values: Any) -> st.SearchStrategy[Made]:
    def make(parts: list[Made]) -> Made:
        def of(row: Row) -> Any:
            return next((v for v in (part.of(row) for part in parts) if v is not None), None)

        return Made(f"coalesce({', '.join(part.text for part in parts)})", of)

    return st.lists(values, min_size=1, max_size=3).map(make)


def _nullif(values: Any) -> st.SearchStrategy[Made]:
    def make(a: Made, b: Made) -> Made:
        same = _strict(_compare("="))

        def of(row: Row) -> Any:
            return None if same(a.of(row), b.of(row)) is True else a.of(row)

        return Made(f"nullif({a.text}, {b.text})", of)

    return st.builds(make, values, values)


def _several(truths: Any, values: Any) -> st.SearchStrategy[Made]:
    return _case(truths, values) | _coalesce(values) | _nullif(values)


def _wholes(truths: Any, texts: Any, times: Any) -> st.SearchStrategy[Made]:
    small = _columns("n", "tiny", "big") | st.integers(-9, 9).map(_literal)
    found = (
        small
        | _call("length({})", len, texts)
        | _call("cast({} as integer)", _whole_in, texts)
        | _call("({})::int", int, truths)
        | _call("year({})", lambda t: t.year, times)
        | _call("month({})", lambda t: t.month, times)
        | _call("day({})", lambda t: t.day, times)
        | _call("dayofweek({})", lambda t: t.isoweekday() % 7, times)
        | _call("hour({})", lambda t: t.hour, _columns("t", "z"))
        | _call("minute({})", lambda t: t.minute, _columns("t", "z"))
        | _call("second({})", lambda t: t.second, _columns("t", "z"))
    )
    return (
        found
        | _call("({} + {})", lambda a, b: a + b, found, found)
        | _call("({} - {})", lambda a, b: a - b, found, found)
        | _call("({} * {})", lambda a, b: a * b, small, small)
        | _call("({} % {})", _remainder, found, found)
        | _call("abs({})", abs, found)
        | _call("(- {})", lambda a: -a, found)
        | _several(truths, found)
    )


def _numbers(truths: Any, texts: Any, wholes: Any) -> st.SearchStrategy[Made]:
    whole = _columns("n", "tiny", "big") | st.integers(-9, 9).map(_literal)
    leaves = _columns("x", "y y", "f", "m") | st.sampled_from(
        [0.0, 0.1, 2.5, -1.5, 1e300, 1e-300]
    ).map(_literal)
    found = (
        leaves
        | _call("cast({} as double)", _number_in, texts)
        | _call("({} / {})", _divide, whole, whole)
        | _call("cast({} as double)", float, whole)
    )
    for _ in range(2):
        other = found | whole
        found = (
            found
            | _call("({} + {})", lambda a, b: float(a) + float(b), found, other)
            | _call("({} - {})", lambda a, b: float(a) - float(b), other, found)
            | _call("({} * {})", lambda a, b: float(a) * float(b), found, other)
            | _call("({} / {})", _divide, other, found)
            | _call("({} % {})", lambda a, b: _remainder(float(a), float(b)), found, other)
            | _call("floor({})", _floor, found)
            | _call("ceil({})", lambda x: -_floor(-x), found)
            | _call("round({})", _round, found)
            | _call("abs({})", abs, found)
            | _call("(- {})", lambda a: -a, found)
            | _several(truths, found)
        )
    return found


def _texts(truths: Any) -> st.SearchStrategy[Made]:
    leaves = _columns("s", "r") | st.sampled_from(
        ["", "a", "it's", "%", 'say "x"', "a\\b", "${x}", "b\n"]
    ).map(_literal)
    found = (
        leaves
        | _call("lower({})", lambda text: _folded(text, "A", 32), leaves)
        | _call("upper({})", lambda text: _folded(text, "a", -32), leaves)
        | _call("({} || {})", lambda a, b: a + b, leaves, leaves)
        | _call("cast({} as text)", str, _columns("n", "big", "tiny"))
        | _call("cast({} as text)", lambda value: str(value).lower(), _columns("b"))
    )
    return found | _several(truths, found)


def _days(truths: Any, texts: Any) -> st.SearchStrategy[Made]:
    found = (
        _columns("d")
        | st.just(Made("date '2026-01-05'", lambda row: dt.date(2026, 1, 5)))
        | _call("cast({} as date)", _date_in, texts)
        | _call("cast({} as date)", lambda t: t.date(), _columns("t", "z"))
    )
    return found | _several(truths, found)


def _times(truths: Any, texts: Any) -> st.SearchStrategy[Made]:
    at = dt.datetime(2026, 1, 5, 10, 20, 30, 500_000)
    found = (
        _columns("t")
        | st.just(Made("timestamp '2026-01-05T10:20:30.5'", lambda row: at))
        | _call("cast({} as timestamp)", _time_in, texts)
        | _call("cast({} as timestamp)", lambda t: t.replace(tzinfo=None), _columns("z"))
        | _call("cast({} as timestamp)", _midnight, _columns("d"))
    )
    return found | _several(truths, found)


def _midnight(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time())


def _instants() -> st.SearchStrategy[Made]:
    literal = Made("'2026-01-05 01:00:00+01:00'", lambda row: dt.datetime(2026, 1, 5, tzinfo=UTC))
    return _columns("z") | st.just(literal)


def _predicates(kinds: list[Any]) -> st.SearchStrategy[Made]:
    made = st.nothing()
    for values in kinds:
        for op in COMPARE:
            made |= _call(f"({{}} {op} {{}})", _compare(op), values, values)
        made |= _between(values) | _in(values)
        made |= values.map(lambda v: Made(f"({v.text} is null)", lambda row: v.of(row) is None))
        made |= values.map(
            lambda v: Made(f"({v.text} is not null)", lambda row: v.of(row) is not None)
        )
    return made


def _between(values: Any) -> st.SearchStrategy[Made]:
    def make(v: Made, low: Made, high: Made, negated: bool) -> Made:
        at_least, at_most = _strict(_compare(">=")), _strict(_compare("<="))

        def of(row: Row) -> bool | None:
            value = v.of(row)
            inside = _all([at_least(value, low.of(row)), at_most(value, high.of(row))])
            return _not(inside) if negated else inside

        return Made(f"({v.text} {'not ' * negated}between {low.text} and {high.text})", of)

    return st.builds(make, values, values, values, st.booleans())


def _in(values: Any) -> st.SearchStrategy[Made]:
    def make(v: Made, parts: list[Made], negated: bool) -> Made:
        same = _strict(_compare("="))

        def of(row: Row) -> bool | None:
            inside = _any([same(v.of(row), part.of(row)) for part in parts])
            return _not(inside) if negated else inside

        listed = ", ".join(part.text for part in parts)
        return Made(f"({v.text} {'not ' * negated}in ({listed}))", of)

    return st.builds(make, values, st.lists(values, min_size=1, max_size=3), st.booleans())


def _matches(texts: Any) -> st.SearchStrategy[Made]:
    patterns = ["", "%", "a%", "%b", "_", "a_b", "%\\%", "a\\_b", "%'%", "a%b", "${%", "%\n%"]
    made = st.nothing()
    for pattern in patterns:
        shown = _quoted(pattern).replace("{", "{{").replace("}", "}}")
        made |= _call(f"({{}} like {shown})", _like(pattern), texts)
    return (
        made
        | _call("starts_with({}, {})", str.startswith, texts, texts)
        | _call("ends_with({}, {})", str.endswith, texts, texts)
        | _call("contains({}, {})", lambda a, b: b in a, texts, texts)
    )


def _joined(truths: Any) -> st.SearchStrategy[Made]:
    several = st.lists(truths, min_size=2, max_size=4)

    def make(parts: list[Made], word: str, join: Callable[..., Any]) -> Made:
        text = f" {word} ".join(part.text for part in parts)
        return Made(f"({text})", lambda row: join([part.of(row) for part in parts]))

    return (
        several.map(lambda parts: make(parts, "and", _all))
        | several.map(lambda parts: make(parts, "or", _any))
        | truths.map(lambda v: Made(f"(not {v.text})", lambda row: _not(v.of(row))))
    )


def _all_kinds() -> dict[str, st.SearchStrategy[Made]]:
    truths = _columns("b") | st.booleans().map(_literal)
    leaves = {"text": _columns("s", "r"), "number": _columns("x", "f"), "whole": _columns("n")}
    truths |= _predicates(list(leaves.values())) | _matches(leaves["text"])
    texts = _texts(truths)
    days, times = _days(truths, texts), _times(truths, texts)
    wholes = _wholes(truths, texts, _columns("d", "t", "z"))
    numbers = _numbers(truths, texts, wholes)
    same = [wholes, numbers, texts, days, times, _instants()]
    mixed = _columns("n", "tiny", "big", "x", "f", "m", "gone")
    truths = _predicates([*same, mixed]) | _matches(texts) | truths
    for _ in range(2):
        truths = truths | _joined(truths) | _several(_columns("b"), truths)
    return {"truth": truths, "whole": wholes, "number": numbers, "text": texts, "date": days,
            "time": times}  # fmt: skip


_KINDS = _all_kinds()


@st.composite
def conditions(draw: st.DrawFn) -> Made:
    return draw(_KINDS["truth"])


@st.composite
def expressions(draw: st.DrawFn) -> Made:
    """Of every kind, equally often."""
    return draw(_KINDS[draw(st.sampled_from(sorted(_KINDS)))])
