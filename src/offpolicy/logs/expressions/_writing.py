"""Checked expressions as SQL, with the same meaning in every engine.

Engines differ where a value is no number: NaN counts as missing here, as in text and in pandas, so
it becomes null before anything asks for it. No operation fails: what has no value is null.
"""

from __future__ import annotations

from collections.abc import Callable

from offpolicy.logs.expressions._kinds import Dialect, Typed
from offpolicy.logs.expressions._parsing import COMPARED, Refusals

LONGEST = 2_000_000
"""Characters that are written: what is used twice is written twice, and so are its parts."""
_WHOLE = "[+-]?[0-9]{1,18}"
_NUMBER = r"[+-]?[0-9]{1,18}([.][0-9]{0,18})?([eE][+-]?[0-9]{1,2})?"
_DATE = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = f"{_DATE}([ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{{1,6}})?)?"


class Writer:
    """Writes SQL for expressions; ``name`` says how a column is called there."""

    def __init__(self, dialect: Dialect, name: Callable[[str], str], refusals: Refusals) -> None:
        self.dialect, self.name, self.refusals = dialect, name, refusals

    def value(self, typed: Typed) -> str:
        """A part; where it is a number, without NaN."""
        text = self.raw(typed)
        if typed.kind == "number" and typed.wild:
            text = f"(CASE WHEN isnan({text}) THEN NULL ELSE {text} END)"
        return text

    def raw(self, typed: Typed) -> str:
        """A part; where it is a number, perhaps NaN, which arithmetic passes on."""
        text = f"({self.written(typed)})" if typed.parts else self.leaf(typed)
        if len(text) > LONGEST:
            self.refusals.refuse("too many expressions are within one another.")
        return text

    def leaf(self, typed: Typed) -> str:
        if typed.op == "column":
            name, column = typed.value
            text = self.name(name)
            return text if column.cast is None else f"CAST({text} AS {column.cast})"
        if typed.op == "whole":
            small = typed.limit < 2**31
            return f"({typed.value})" if small else f"CAST('{typed.value}' AS {self.dialect.large})"
        if typed.op == "number":
            return f"CAST('{typed.value!r}' AS DOUBLE)"
        if typed.op == "text":
            return self.dialect.text(typed.value)
        if typed.op == "moment":
            return self.dialect.templates[typed.kind].format(typed.value)
        return {"truth": str(typed.value).lower(), "null": "NULL"}[typed.op]

    def written(self, typed: Typed) -> str:
        op = typed.op
        if op in ("+", "-", "*", "/", "%", "negative", "abs"):
            return self.arithmetic(typed)
        if op == "cast":
            return self.cast(typed)
        if op in ("floor", "ceil", "round"):
            return self.template(op, self.raw(typed.parts[0]))
        parts = [self.value(part) for part in typed.parts]
        if op in COMPARED or op in ("and", "or", "||"):
            return f" {op} ".join(parts)
        if op == "case":
            whens = zip(parts[:-1:2], parts[1:-1:2], strict=True)
            written = " ".join(f"WHEN {when} THEN {then}" for when, then in whens)
            return f"CASE {written} ELSE {parts[-1]} END"
        if op == "nullif":
            return f"CASE WHEN {parts[0]} = {parts[1]} THEN NULL ELSE {parts[0]} END"
        if op == "like":
            return f"{parts[0]} LIKE {self.dialect.text(self.dialect.like(typed.value))}"
        plain = {
            "not": "NOT {0}", "is null": "{0} IS NULL", "between": "{0} BETWEEN {1} AND {2}"
        }  # fmt: skip
        if op in plain:
            return plain[op].format(*parts)
        if op == "in":
            return f"{parts[0]} IN ({', '.join(parts[1:])})"
        if op == "coalesce":
            return f"coalesce({', '.join(parts)})"
        return self.template(op, *parts)

    def template(self, op: str, *parts: str) -> str:
        return self.dialect.templates[op].format(*parts)

    def arithmetic(self, typed: Typed) -> str:
        parts = [self.raw(part) for part in typed.parts]
        if typed.kind == "whole":
            type_ = "BIGINT" if typed.limit < 2**63 else self.dialect.large
            parts = [f"CAST({part} AS {type_})" for part in parts]
        if len(parts) == 1:
            return f"abs({parts[0]})" if typed.op == "abs" else f"-{parts[0]}"
        made = f"{parts[0]} {typed.op} {parts[1]}"
        divisor = typed.parts[1]
        if typed.op not in ("/", "%") or (divisor.op in ("whole", "number") and divisor.value):
            return made
        return f"CASE WHEN {parts[1]} = 0 THEN NULL ELSE {made} END"

    def cast(self, typed: Typed) -> str:
        (part,) = typed.parts
        text = self.raw(part)
        if part.kind == "text":
            type_, pattern = {
                "whole": ("BIGINT", _WHOLE), "number": ("DOUBLE", _NUMBER),
                "date": ("DATE", _DATE), "time": (self.dialect.clock, _TIME),
            }[typed.kind]  # fmt: skip
            fits = self.dialect.matches(text, pattern)
            return f"CASE WHEN {fits} THEN TRY_CAST({text} AS {type_}) END"
        if part.kind == "truth":
            yes, no = ("1", "0") if typed.kind == "whole" else ("'true'", "'false'")
            return f"CASE WHEN {text} THEN {yes} WHEN NOT {text} THEN {no} END"
        if part.kind == "instant":
            text = self.template("utc", text)
        types = {
            "number": "DOUBLE", "text": self.dialect.string, "date": "DATE",
            "time": self.dialect.clock,
        }  # fmt: skip
        return f"CAST({text} AS {types[typed.kind]})"
