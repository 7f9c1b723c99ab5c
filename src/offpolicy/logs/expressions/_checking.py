"""What an expression means on a log's columns: every part gets its kind, or is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import NoReturn

from offpolicy._core.validation import glimpse
from offpolicy.errors import did_you_mean
from offpolicy.logs.expressions._kinds import WORDS, Column, Typed
from offpolicy.logs.expressions._parsing import COMPARED, Node, Refusals

LARGEST = 10**38
"""Whole numbers are below: engines hold no larger ones."""
_EXACT = 2**64
"""Whole numbers up to here become fractions alike in all engines."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?( ?(Z|[+-]\d\d:\d\d))?)?", re.ASCII
)
_PARTS_OF_DAYS = ("year", "month", "day", "dayofweek")
_PARTS_OF_TIMES = ("hour", "minute", "second")
_CASTS = {
    ("truth", "whole"), ("truth", "text"), ("whole", "number"), ("whole", "text"),
    ("text", "whole"), ("text", "number"), ("text", "date"), ("text", "time"),
    ("date", "time"), ("time", "date"), ("instant", "date"), ("instant", "time"),
}  # fmt: skip
_TEXT_DIGITS = 18
"""Of a whole number that is cast from text, at most."""


def check(tree: Node, columns: Mapping[str, Column], refusals: Refusals) -> Typed:
    """An expression on columns of these kinds."""
    typed = _Checker(columns, refusals).of(tree)
    parts = list(typed.all_parts())
    folded = next((part.op for part in parts if part.op in ("lower", "upper")), None)
    texts = [part.value for part in parts if part.op in ("text", "like")]
    foreign = next((text for text in texts if not text.isascii()), None)
    if folded and foreign:
        refusals.refuse(
            f"{folded} changes A to Z alone, so that all engines agree; {glimpse(foreign)} has "
            f"other letters. List the spellings: … in ('…', '…')."
        )
    return typed


class _Checker:
    def __init__(self, columns: Mapping[str, Column], refusals: Refusals) -> None:
        self.columns, self.refusals = columns, refusals

    def of(self, node: Node) -> Typed:
        """Any part; what every operator does is in the method of its name or group."""
        if node.op in ("whole", "number", "text", "truth"):
            limit = abs(node.value) if node.op == "whole" else 0
            return Typed(node.op, node.op, value=node.value, limit=limit)
        if node.op == "null":
            self.refusals.refuse(
                "nothing is equal to null: write is null, or is not null.", node.at
            )
        if node.op in COMPARED or node.op in ("in", "between"):
            return self.compared(node)
        if node.op in ("+", "-", "*", "/", "%"):
            return self.arithmetic(node)
        if node.op in ("and", "or", "not"):
            return Typed(node.op, "truth", tuple(self.need(part, "truth") for part in node.parts))
        if node.op in ("abs", "floor", "ceil", "round", "negative"):
            return self.rounded(node)
        if node.op in _PARTS_OF_DAYS + _PARTS_OF_TIMES:
            return self.part_of_time(node)
        if node.op in _OF_TEXT:
            kind, limit = _OF_TEXT[node.op]
            parts = tuple(self.need(part, "text") for part in node.parts)
            return Typed(node.op, kind, parts, limit=limit)
        method = {
            "column": self.column, "moment": self.moment, "cast": self.cast, "like": self.like,
            "is null": self.is_null, "case": self.case, "coalesce": self.coalesce,
            "nullif": self.nullif,
        }[node.op]  # fmt: skip
        return method(node)

    def need(self, node: Node, *kinds: str) -> Typed:
        """A part that must be of one of these kinds."""
        typed = self.of(node)
        if typed.kind == "nothing":
            return replace(typed, kind=kinds[0])
        if typed.kind not in kinds:
            wanted = " or ".join(WORDS[kind] for kind in kinds)
            hint = " Compare it: … = 1." if kinds == ("truth",) else ""
            self.refusals.refuse(
                f"this is {self.said(typed)}, but must be {wanted}.{hint}", node.at
            )
        return typed

    def said(self, typed: Typed) -> str:
        return WORDS.get(typed.kind) or f"of type {typed.value[1].type}"

    # -- leaves ------------------------------------------------------------------------------

    def column(self, node: Node, *, any_kind: bool = False) -> Typed:
        name = node.value
        if name not in self.columns:
            close = did_you_mean(name, self.columns)
            self.refusals.refuse(
                f'there is no column "{name[:60]}".{close} The columns are '
                f"{', '.join(self.columns)}. (Text is written in single quotes: 'de'.)",
                node.at,
            )
        found = self.columns[name]
        if found.kind is None and not any_kind:
            sentence = f'"{name}" holds {found.type}; one can only ask whether it is null.'
            self.refusals.refuse(sentence, node.at)
        kind = found.kind or "other"
        return Typed("column", kind, (), (name, found), found.limit, wild=kind == "number")

    def moment(self, node: Node) -> Typed:
        kind, text = node.value
        typed = _moment(text, kind)
        if typed is None:
            self.refusals.refuse(f"{glimpse(text)} is not {WORDS[kind]}: {_FORMS[kind]}.", node.at)
        return typed

    # -- comparisons -------------------------------------------------------------------------

    def compared(self, node: Node) -> Typed:
        parts = self.alike(node, [self.of(part) for part in node.parts])
        if parts[0].kind == "truth" and node.op not in ("=", "<>", "in"):
            self.refusals.refuse("true and false have no order.", node.at)
        return Typed(node.op, "truth", tuple(parts))

    def alike(self, node: Node, parts: Sequence[Typed]) -> list[Typed]:
        """The parts as of one kind, in which they can be compared."""
        kinds = {part.kind for part in parts if part.op != "text"} - {"nothing"}
        wide = ("instant", "time", "date", "number")
        kind: str | None = next((kind for kind in wide if kind in kinds), None)
        if kind == "date" and not all(_moment(p.value, "date") for p in parts if p.op == "text"):
            kind = "time"
        if kind is None:
            kind = next((part.kind for part in parts if part.kind != "nothing"), "text")
        return [self.made(node, part, kind, parts) for part in parts]

    def made(self, node: Node, part: Typed, kind: str, parts: Sequence[Typed]) -> Typed:
        """A part as of a kind; ``parts`` are all that it is compared with."""
        if part.kind == kind:
            return part
        if part.kind == "nothing":
            return replace(part, kind=kind)
        if part.op == "text" and kind in _FORMS:
            typed = _moment(part.value, kind)
            if typed is not None:
                return typed
            sentence = f"{glimpse(part.value)} is not {WORDS[kind]}: {_FORMS[kind]}."
            self.refusals.refuse(sentence, node.at)
        if (part.kind, kind) == ("whole", "number"):
            return self.fraction(node, part)
        if (part.kind, kind) == ("date", "time"):
            return Typed("cast", "time", (part,))
        return self.refuse_pair(node, part, parts)

    def refuse_pair(self, node: Node, part: Typed, parts: Sequence[Typed]) -> NoReturn:
        """A part that cannot be compared with one of the others."""
        other = next(p for p in parts if p.kind not in (part.kind, "nothing"))
        hint = ""
        kinds = {part.kind, other.kind}
        if "text" in kinds and kinds & {"whole", "number"}:
            hint = " Numbers have no quotes; text becomes a number by cast(… as double)."
        if kinds == {"time", "instant"}:
            hint = " A time becomes one in UTC without a zone by cast(… as timestamp)."
        self.refusals.refuse(
            f"{self.shown(part)} does not go together with {self.shown(other)}.{hint}", node.at
        )

    def shown(self, part: Typed) -> str:
        name = f' ("{part.value[0]}")' if part.op == "column" else ""
        return f"{self.said(part)}{name}"

    def fraction(self, node: Node, part: Typed) -> Typed:
        if part.op == "whole" and float(part.value) == part.value:
            return Typed("number", "number", value=float(part.value))
        if part.limit > _EXACT:
            self.refusals.refuse(
                "a whole number of more than 19 digits cannot be compared or reckoned with "
                "fractions: cast what it is made of to double first.",
                node.at,
            )
        return Typed("cast", "number", (part,))

    def is_null(self, node: Node) -> Typed:
        inner = node.parts[0]
        part = self.column(inner, any_kind=True) if inner.op == "column" else self.of(inner)
        return Typed("is null", "truth", (part,))

    def like(self, node: Node) -> Typed:
        pattern = node.parts[1]
        if pattern.op != "text":
            self.refusals.refuse("what follows like must be text in single quotes.", pattern.at)
        text = self.need(node.parts[0], "text")
        return Typed("like", "truth", (text,), pattern.value)

    # -- numbers -----------------------------------------------------------------------------

    def arithmetic(self, node: Node) -> Typed:
        parts = [self.need(part, "whole", "number") for part in node.parts]
        a, b = parts
        whole = a.kind == b.kind == "whole"
        if not whole or node.op == "/":
            made = [p if p.kind == "number" else self.fraction(node, p) for p in parts]
            # A quotient of whole numbers is finite; all else may overflow, and ∞ − ∞ is NaN.
            return Typed(node.op, "number", tuple(made), wild=not whole)
        limit = a.limit * b.limit if node.op == "*" else a.limit + b.limit
        limit = b.limit if node.op == "%" else limit
        if limit >= LARGEST:
            self.refusals.refuse(
                "this could have more than 38 digits: cast one of the whole numbers to double.",
                node.at,
            )
        return Typed(node.op, "whole", (a, b), limit=max(limit, a.limit, b.limit))

    def rounded(self, node: Node) -> Typed:
        part = self.need(node.parts[0], "whole", "number")
        if node.op == "negative" and part.op in ("whole", "number"):
            return replace(part, value=-part.value)
        if part.kind == "whole" and node.op in ("floor", "ceil", "round"):
            return part
        return Typed(node.op, part.kind, (part,), limit=part.limit, wild=part.wild)

    # -- text and times ----------------------------------------------------------------------

    def part_of_time(self, node: Node) -> Typed:
        kinds = ("time", "instant") if node.op in _PARTS_OF_TIMES else ("time", "instant", "date")
        part = self.need(node.parts[0], *kinds)
        if part.kind == "instant":
            part = Typed("cast", "time", (part,))
        return Typed(node.op, "whole", (part,), limit=10**5)

    def cast(self, node: Node) -> Typed:
        part, kind = self.of(node.parts[0]), str(node.value)
        if part.kind == kind:
            return part
        if part.kind == "nothing":
            return replace(part, kind=kind)
        if (part.kind, kind) not in _CASTS:
            hint = ""
            if part.kind == "number":
                hint = " Say floor, ceil or round; what comes out is compared without a cast."
            sentence = f"{self.said(part)} cannot be cast to {WORDS[kind]}.{hint}"
            self.refusals.refuse(sentence, node.at)
        if kind == "number" and part.kind == "whole":
            return self.fraction(node, part)
        limit = 10**_TEXT_DIGITS if part.kind == "text" else 1
        return Typed("cast", kind, (part,), limit=limit if kind == "whole" else 0)

    # -- one of several ----------------------------------------------------------------------

    def joined(self, op: str, parts: Sequence[Typed], results: Sequence[Typed]) -> Typed:
        """Of the kind of its results, the last of its parts."""
        kind = next((part.kind for part in results if part.kind != "nothing"), "nothing")
        limit = max(part.limit for part in results)
        return Typed(op, kind, tuple(parts), limit=limit)

    def case(self, node: Node) -> Typed:
        conditions = [self.need(part, "truth") for part in node.parts[:-1:2]]
        values = [
            Typed("null", "nothing") if part.op == "null" else self.of(part)
            for part in (*node.parts[1:-1:2], node.parts[-1])
        ]
        results = self.alike(node, values)
        pairs = zip(conditions, results, strict=False)
        return self.joined("case", [p for pair in pairs for p in pair] + results[-1:], results)

    def coalesce(self, node: Node) -> Typed:
        results = self.alike(node, [self.of(part) for part in node.parts])
        return self.joined("coalesce", results, results)

    def nullif(self, node: Node) -> Typed:
        parts = self.alike(node, [self.of(part) for part in node.parts])
        return self.joined("nullif", parts, parts[:1])


_OF_TEXT = {
    "||": ("text", 0), "lower": ("text", 0), "upper": ("text", 0), "length": ("whole", 2**31),
    "contains": ("truth", 0), "starts_with": ("truth", 0), "ends_with": ("truth", 0),
}  # fmt: skip
_FORMS = {
    "date": "write 2026-01-31",
    "time": "write 2026-01-31 or 2026-01-31 10:30:00, without a zone",
    "instant": "write 2026-01-31 10:30:00+02:00, or without a zone for UTC",
}


def _moment(text: str, kind: str) -> Typed | None:
    """The date or time that a text says, as ISO 8601 without a zone; None if it says none."""
    try:
        if kind == "date":
            day = date.fromisoformat(text) if _DATE.fullmatch(text) else None
            return None if day is None else Typed("moment", kind, value=str(day))
        match = _TIME.fullmatch(text)
        if match is None or (match[4] is not None and kind == "time"):
            return None
        moment = datetime.fromisoformat(text.replace(" Z", "Z").replace(" +", "+"))
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        return Typed("moment", kind, value=moment.isoformat(" "))
    except (ValueError, OverflowError):
        return None
