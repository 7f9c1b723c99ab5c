"""`Expression`: text that has been parsed, and `Checked`: what it means on a log's columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import final

from offpolicy.logs.expressions._checking import check
from offpolicy.logs.expressions._kinds import WORDS, Dialect, Typed
from offpolicy.logs.expressions._parsing import Node, Refusals, parse
from offpolicy.logs.expressions._writing import Writer


@final
@dataclass(frozen=True)
class Expression:
    """An expression over a log's columns; ``name`` is the option or argument that it came by.

    Its grammar is checked when it is made, its columns by `on`.
    """

    text: str
    name: str = "where"
    tree: Node = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tree", parse(self.text, self.refusals))

    def __str__(self) -> str:
        return self.text

    @property
    def names(self) -> frozenset[str]:
        """Of the columns that it is about."""
        return frozenset(part.value for part in self.tree.all_parts() if part.op == "column")

    def depends_on(self, column: str) -> bool:
        """Whether it asks for more of a column than whether it is missing."""
        parts = list(self.tree.all_parts())
        only_missing = [part.parts[0] for part in parts if part.op == "is null"]
        named = [part.value for part in parts if part.op == "column"]
        unseen = [part.value for part in only_missing if part.op == "column"]
        return named.count(column) > unseen.count(column)

    @property
    def refusals(self) -> Refusals:
        return Refusals(self.name, self.text)

    def on(self, types: Mapping[str, str], dialect: Dialect) -> Checked:
        """The expression on columns of an engine's types."""
        columns = {name: dialect.column(type_) for name, type_ in types.items()}
        return Checked(self, dialect, check(self.tree, columns, self.refusals))


@final
@dataclass(frozen=True)
class Checked:
    """An expression whose every part is known to mean the same in every engine."""

    expression: Expression
    dialect: Dialect
    typed: Typed

    def as_condition(self) -> Checked:
        """Itself, if it is true or false of a row."""
        if self.typed.kind not in ("truth", "nothing"):
            self.expression.refusals.refuse(
                f"it must be true or false of every row, and is {WORDS[self.typed.kind]}: compare "
                f"it, as in reward > 0."
            )
        return self

    def sql(self, name: Callable[[str], str] | None = None) -> str:
        """SQL for it; ``name`` says how a column is called there, if not as in the log."""
        writer = Writer(self.dialect, name or self.dialect.name, self.expression.refusals)
        return writer.value(self.typed)
