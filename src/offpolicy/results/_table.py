"""What results have in common: rows as text, as a frame, as pictures and on a page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from offpolicy._core.documents import Document
from offpolicy._core.frames import Frames
from offpolicy._core.late import pa
from offpolicy._core.tables import aligned
from offpolicy.errors import EstimatorError, ParameterError, did_you_mean
from offpolicy.estimators import Estimator, parse
from offpolicy.results._findings import UNTRUE, Finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = TypeVar("Row")


class _Named(Protocol):
    @property
    def estimator(self) -> str: ...


Named = TypeVar("Named", bound=_Named)

_WORDS = ("policy", "estimator", "first", "second", "verdict")
"""Columns of text that stand to the left; numbers stand to the right."""


class ResultTable(Document, Frames, Generic[Row]):
    """A document of rows, each a dataclass with a value and an interval."""

    __slots__ = ()
    rows: ClassVar[str] = "estimates"
    """The field that holds them."""
    row: ClassVar[type]
    """Their class."""
    findings: tuple[Finding, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(getattr(self, self.rows))

    def __len__(self) -> int:
        return len(getattr(self, self.rows))

    def __str__(self) -> str:
        return f"{self.told()}\n\n{self.to_text()}"

    def told(self) -> str:
        """`sentence`, and below it what makes the answer doubtful."""
        return "\n".join([self.sentence(), *map(str, self.warnings)])

    @property
    def warnings(self) -> list[Finding]:
        """The findings that are more than good to know; of dropped rows the sentence speaks."""
        return [one for one in self.findings if one.severity != "note" and one.code != "dropped"]

    @property
    def problems(self) -> list[Finding]:
        """The findings because of which no answer is to be relied on: some probabilities cannot
        be true. (What few rows do to an answer is in its interval, or refused.)"""
        found = [one for one in self.warnings if one.severity == "problem"]
        return [one for one in found if one.code in UNTRUE]

    def flatters(self, *policies: str) -> bool:
        """Whether one of these policies was learned from the rows that it is asked about here."""
        findings: Sequence[Finding] = getattr(self, "findings")  # noqa: B009
        return any(one.code == "training-rows" and one.place in policies for one in findings)

    def sentence(self) -> str:
        """The answer in words."""
        raise NotImplementedError

    def _cells(self) -> list[list[str]]:
        """The table as text, under its head."""
        raise NotImplementedError

    def _notes(self) -> list[str]:
        """What stands below it."""
        return []

    def to_text(self) -> str:
        """An aligned table."""
        cells = self._cells()
        left = [k for k, head in enumerate(cells[0]) if head in _WORDS]
        return "\n".join([aligned(cells, left=left), *self._notes()])

    def to_arrow(self) -> pa.Table:
        """One row each, as an Arrow table. Where these are estimates the headlines come first, and
        ``refusal`` says why one is no answer."""
        rows = getattr(self, self.rows)
        if self.rows != "estimates":
            return _table_of(self.row, rows)
        headlines: Sequence[Any] = getattr(self, "headlines")  # noqa: B009
        return _table_of(self.row, [*headlines, *rows], "refusal")

    def _repr_html_(self) -> str:
        from offpolicy.report.pages.evaluation import fragment

        return fragment(self, *self._cells())

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """As a page: one HTML file that needs nothing else, with the warnings, the charts and the
        tables behind them. Written to ``path`` whole or not at all."""
        from offpolicy.report.document import Results

        return Results((self,)).to_html(path)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the values with their intervals (needs matplotlib: ``pip install
        offpolicy[plot]``)."""
        from offpolicy.report.matplotlib import plot_table

        return plot_table(self, ax)

    def _check_read(self) -> None:
        """A result is about something."""
        if not len(self):
            raise ValueError(f"it holds no {self.rows}")


def estimate_named(rows: Sequence[Named], wanted: str | Estimator) -> Named:
    """A result's one estimate by this name: what ``result[name]`` returns."""
    name = str(wanted)
    with suppress(EstimatorError):  # the label of an ICE
        name = str(parse(name))  # cab(10) is CAB(M=10)
    hits = [row for row in rows if row.estimator == name]
    hits = hits or [row for row in rows if row.estimator.partition("(")[0] == name]
    names = list(dict.fromkeys(row.estimator for row in hits or rows))
    policies = list(dict.fromkeys(getattr(row, "policy", "") for row in hits))
    if not hits:
        problem = f"was not among the estimators.{did_you_mean(name, names)} There are"
        raise ParameterError(f'"{name}" {problem} {", ".join(names)}.', column="estimator")
    if len(policies) > 1:
        problem = f'There are {len(policies)} policies: ask for result["{policies[0]}", "{name}"].'
        raise ParameterError(problem, column="policy")
    if len(hits) > 1:
        raise ParameterError(f'"{name}" could be {" or ".join(names)}.', column="estimator")
    return hits[0]


def _table_of(kind: Any, records: Sequence[Any], *texts: str) -> pa.Table:
    """A result's rows, dataclasses of text, flags and numbers, as an Arrow table; the ends of the
    interval stand beside the value, texts that only some rows have come last."""
    kinds = {"str": pa.string(), "bool": pa.bool_()}
    schema: list[tuple[str, Any]] = []
    for item in fields(kind):
        if item.name != "interval":
            schema.append((item.name, kinds.get(item.type.split()[0], pa.float64())))
        if item.name == "value":
            schema += [("low", pa.float64()), ("high", pa.float64())]

    schema += [(name, pa.string()) for name in texts]

    def cell(row: Any, name: str) -> Any:
        return getattr(row.interval if name in ("low", "high") else row, name, None)

    rows = [{name: cell(row, name) for name, _ in schema} for row in records]
    return pa.Table.from_pylist(rows, schema=pa.schema(schema))
