"""The grammar of expressions: text to a tree. What is not in it cannot be said."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from offpolicy.errors import ParameterError, did_you_mean

LONGEST, DEEPEST = 100_000, 100
"""Characters, and expressions within one another."""
FUNCTIONS: Mapping[str, tuple[int, int]] = {
    "abs": (1, 1), "ceil": (1, 1), "floor": (1, 1), "round": (1, 1),
    "length": (1, 1), "lower": (1, 1), "upper": (1, 1),
    "starts_with": (2, 2), "ends_with": (2, 2), "contains": (2, 2),
    "year": (1, 1), "month": (1, 1), "day": (1, 1), "dayofweek": (1, 1),
    "hour": (1, 1), "minute": (1, 1), "second": (1, 1),
    "coalesce": (1, 1000), "nullif": (2, 2),
}  # fmt: skip
"""How many arguments each takes, at least and at most."""
TARGETS: Mapping[str, str] = {
    "integer": "whole", "int": "whole", "bigint": "whole", "double": "number", "float": "number",
    "text": "text", "varchar": "text", "string": "text", "date": "date", "timestamp": "time",
}  # fmt: skip
"""What can be cast to, as kinds."""
COMPARED = ("=", "<>", "<", "<=", ">", ">=")
_PREDICATE, _UNARY = 4, 8
_POWERS = dict.fromkeys((*COMPARED, "in", "between", "like", "is", "not"), _PREDICATE) | {
    "or": 1, "and": 2, "||": 5, "+": 6, "-": 6, "*": 7, "/": 7, "%": 7, "::": 9,
}  # fmt: skip
_NOT = 3
_RESERVED = {
    "and", "or", "not", "in", "between", "like", "is", "null", "true", "false", "case", "when",
    "then", "else", "end",
}  # fmt: skip
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![\w.])
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")+")
    |(?P<word>[^\W\d]\w*)
    |(?P<comment>--|/\*)
    |(?P<sign><=|>=|<>|!=|==|::|\|\||[=<>+\-*/%(),])""",
    re.VERBOSE,
)
_SAID = (
    "What can be said: columns (\"in quotes\" if they are no plain words), numbers, 'text', "
    "date '2026-01-31', true, false, and, or, not, = <> < <= > >=, in (…), between, like, is null, "
    "+ - * / %, ||, case when … then … else … end, cast(… as …), and the functions "
    f"{', '.join(sorted(FUNCTIONS))}."
)
_INSTEAD = {
    ";": "It is one expression, without statements and semicolons.",
    "'": "A text that is opened here is not closed.",
    '"': "A name that is opened here is not closed, or empty.",
    ".": 'Columns have no tables; a name with a dot is written in quotes: "a.b".',
    "&": "It is written and.",
    "|": "It is written or.",
    "!": "It is written not, or <>.",
    "`": 'Names are written in double quotes: "a b".',
}


class Node(NamedTuple):
    """A part of an expression, as it was written."""

    op: str
    parts: tuple[Node, ...] = ()
    value: Any = None
    at: int = 0
    """Where in the text."""
    depth: int = 1

    def all_parts(self) -> Iterator[Node]:
        """Itself, and all that is within it."""
        yield self
        for part in self.parts:
            yield from part.all_parts()


@dataclass(frozen=True)
class Refusals:
    """Errors about an expression, in the spelling of who gave it."""

    name: str
    text: str

    def refuse(self, sentence: str, at: int | None = None) -> NoReturn:
        place = "" if at is None else f", character {at + 1} ({self._around(at)})"
        raise ParameterError(f"{self.name}{place}: {sentence}", column=self.name.lstrip("-"))

    def _around(self, at: int) -> str:
        rest = " ".join(self.text[at : at + 200].split())
        shown = rest if len(rest) <= 20 else rest[:20] + "…"
        return repr(shown)[1:-1] if shown else "its end"


class _Token(NamedTuple):
    kind: str
    text: str
    """As it stands; a word without quotes in lower case."""
    at: int


def parse(text: str, refusals: Refusals) -> Node:
    """The tree of an expression."""
    if not isinstance(text, str):
        refusals.refuse(f"it must be text; it is a {type(text).__name__}.")
    if len(text) > LONGEST:
        refusals.refuse(f"it has {len(text):,} characters; {LONGEST:,} can be read.")
    parser = _Parser(text, refusals)
    if len(parser.tokens) == 1:
        refusals.refuse(f"it is empty. {_SAID}")
    tree = parser.expression()
    if parser.next.kind != "end":
        parser.unexpected("an operator, such as = or and")
    return tree


class _Parser:
    """Of operators by how strongly they bind."""

    def __init__(self, text: str, refusals: Refusals) -> None:
        self.text, self.refusals = text, refusals
        self.tokens = self._tokens()
        self.position = self.level = 0

    def _tokens(self) -> list[_Token]:
        tokens, at = [], 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                character = self.text[at]
                instead = _INSTEAD.get(character, "This means nothing here.")
                if character.isdigit():
                    instead = "This is no number."
                self.refusals.refuse(f"{instead} {_SAID}", at)
            kind, text = str(match.lastgroup), match.group()
            if kind == "comment":
                self.refusals.refuse(f"it cannot hold comments. {_SAID}", at)
            if kind == "word" and text.isascii():
                text = text if text.lower() not in _RESERVED else text.lower()
                kind = "keyword" if text in _RESERVED else kind
            if kind != "space":
                tokens.append(_Token(kind, {"==": "=", "!=": "<>"}.get(text, text), at))
            at = match.end()
        return [*tokens, _Token("end", "", at)]

    # -- tokens ------------------------------------------------------------------------------

    @property
    def next(self) -> _Token:
        return self.tokens[self.position]

    def take(self) -> _Token:
        token = self.next
        self.position += token.kind != "end"
        return token

    def follows(self, text: str) -> bool:
        """Whether the next token is this sign or keyword; then it is passed over."""
        found = self.next.kind in ("sign", "keyword") and self.next.text == text
        self.position += found
        return found

    def need(self, text: str) -> None:
        if not self.follows(text):
            self.unexpected(text)

    def unexpected(self, wanted: str) -> NoReturn:
        found = "it ends" if self.next.kind == "end" else "there is something else"
        text = " Text is written in single quotes: 'de'." if self.next.kind == "word" else ""
        self.refusals.refuse(f"{wanted} should be here, but {found}.{text} {_SAID}", self.next.at)

    def node(self, op: str, at: int, *parts: Node, value: Any = None) -> Node:
        depth = 1 + max((part.depth for part in parts), default=0)
        self._check_depth(depth, at)
        return Node(op, parts, value, at, depth)

    def _check_depth(self, depth: int, at: int) -> None:
        if depth > DEEPEST:
            sentence = f"more than {DEEPEST} expressions are within one another here."
            self.refusals.refuse(sentence, at)

    # -- expressions -------------------------------------------------------------------------

    def expression(self, power: int = 0) -> Node:
        """All that binds more strongly than ``power``."""
        self.level += 1
        self._check_depth(self.level, self.next.at)
        left, predicate = self.prefix(), False
        while True:
            operator = self.next.text if self.next.kind in ("sign", "keyword") else ""
            binds = _POWERS.get(operator, 0)
            if binds <= power:
                self.level -= 1
                return left
            if binds == _PREDICATE and predicate:
                self.refusals.refuse("put brackets around what is meant first.", self.next.at)
            left, predicate = self.infix(left, binds), binds == _PREDICATE

    def infix(self, left: Node, binds: int) -> Node:
        operator, at = self.take().text, self.tokens[self.position - 1].at
        if binds == _PREDICATE and operator not in COMPARED:
            return self.predicate(left, operator, at)
        if operator == "::":
            return self.node("cast", at, left, value=self.target())
        right = self.expression(binds)
        # Long chains are flat, so that a hundred conditions are no hundred levels.
        parts = left.parts if left.op == operator and operator in ("and", "or") else (left,)
        return self.node(operator, at, *parts, right)

    def predicate(self, left: Node, operator: str, at: int) -> Node:
        if operator == "is":
            negated = self.follows("not")
            self.need("null")
            made = self.node("is null", at, left)
            return self.node("not", at, made) if negated else made
        negated = operator == "not"
        if negated:
            operator = self.take().text.lower()
        if operator == "in":
            self.need("(")
            made = self.node("in", at, left, *self.listed())
        elif operator == "between":
            low = self.expression(_PREDICATE)
            self.need("and")
            made = self.node("between", at, left, low, self.expression(_PREDICATE))
        elif operator == "like":
            made = self.node("like", at, left, self.expression(_PREDICATE))
        else:
            self.position -= 1
            self.unexpected("in, between or like")
        return self.node("not", at, made) if negated else made

    def listed(self) -> list[Node]:
        """Up to the closing bracket: at least one."""
        parts = [self.expression()]
        while self.follows(","):
            parts.append(self.expression())
        self.need(")")
        return parts

    def prefix(self) -> Node:
        token = self.take()
        kind, text, at = token
        if kind == "number":
            return self.number(text, at)
        if kind == "text":
            return self.node("text", at, value=self.unquoted(token, "'"))
        if kind == "quoted":
            return self.node("column", at, value=self.unquoted(token, '"'))
        if kind == "word":
            return self.word(text, at)
        if text == "(":
            inner = self.expression()
            self.need(")")
            return inner
        if text == "-":
            return self.node("negative", at, self.expression(_UNARY))
        if text == "not":
            return self.node("not", at, self.expression(_NOT))
        if text in ("true", "false"):
            return self.node("truth", at, value=text == "true")
        if text == "null":
            return self.node("null", at)
        if text == "case":
            return self.case(at)
        self.position -= kind != "end"
        return self.unexpected("a column or a value")

    def number(self, text: str, at: int) -> Node:
        if text.isdigit():
            if len(text.lstrip("0")) > 38:
                self.refusals.refuse("a whole number has 38 digits at most.", at)
            return self.node("whole", at, value=int(text))
        value = float(text)
        if not math.isfinite(value):
            self.refusals.refuse("this number is too large.", at)
        return self.node("number", at, value=value)

    def unquoted(self, token: _Token, quote: str) -> str:
        text = token.text[1:-1].replace(2 * quote, quote)
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            self.refusals.refuse("this is not text in UTF-8.", token.at)
        return text

    def word(self, text: str, at: int) -> Node:
        name = text.lower()
        if self.follows("("):
            return self.call(name, at)
        if name in ("date", "timestamp") and self.next.kind == "text":
            value = self.unquoted(self.take(), "'")
            return self.node("moment", at, value=(TARGETS[name], value))
        return self.node("column", at, value=text)

    def call(self, name: str, at: int) -> Node:
        if name == "cast":
            inner = self.expression()
            if self.next.kind != "word" or self.take().text.lower() != "as":
                self.unexpected("as")
            target = self.target()
            self.need(")")
            return self.node("cast", at, inner, value=target)
        name = "ceil" if name == "ceiling" else name
        if name not in FUNCTIONS:
            close = did_you_mean(name, FUNCTIONS)
            self.refusals.refuse(f"there is no function {name} here.{close} {_SAID}", at)
        least, most = FUNCTIONS[name]
        parts = self.listed()
        if not least <= len(parts) <= most:
            takes = f"{least} to {most}" if least < most else str(least)
            self.refusals.refuse(f"{name} takes {takes}, not {len(parts)}, in brackets.", at)
        return self.node(name, at, *parts)

    def target(self) -> str:
        token = self.take()
        kind = TARGETS.get(token.text.lower()) if token.kind == "word" else None
        if kind is None:
            self.refusals.refuse(f"one can cast to {', '.join(TARGETS)}.", token.at)
        return kind

    def case(self, at: int) -> Node:
        compared = None
        if self.next.text != "when" or self.next.kind != "keyword":
            compared = self.expression()
            if compared.op != "column":
                sentence = "case … when compares a column; otherwise write case when … = … then."
                self.refusals.refuse(sentence, at)
        parts: list[Node] = []
        while self.follows("when"):
            condition = self.expression()
            if compared is not None:
                condition = self.node("=", condition.at, compared, condition)
            self.need("then")
            parts += [condition, self.expression()]
        if not parts:
            self.unexpected("when")
        parts.append(self.expression() if self.follows("else") else self.node("null", at))
        self.need("end")
        return self.node("case", at, *parts)
