"""What `check` found: findings, the worst first, as text and as data."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar, final

from offpolicy._core.documents import Document, dumps
from offpolicy.errors import ParameterError, did_you_mean
from offpolicy.results._findings import CODES, ORDER, Finding, Severity

if TYPE_CHECKING:
    import pyarrow as pa


@final
@dataclass(frozen=True, slots=True)
class Report(Document):
    """All findings, the worst first. ``"support" in report`` asks whether there is one;
    ``report["support"]`` and ``report["new", "support"]`` give it (the worst, if several)."""

    schema: ClassVar[str] = "offpolicy.check/1"
    what: ClassVar[str] = "report"
    derived: ClassVar[tuple[str, ...]] = ("worst",)

    findings: tuple[Finding, ...]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def worst(self) -> Severity | None:
        """The worst severity found; None if there are no findings."""
        return self.findings[0].severity if self.findings else None

    def __contains__(self, key: object) -> bool:
        return bool(self._having(key))

    def __getitem__(self, key: str | tuple[str, str]) -> Finding:
        hits = self._having(key)
        if not hits:
            code = key[-1] if isinstance(key, tuple) and key else key
            hint = "" if code in CODES else did_you_mean(str(code), CODES)
            there = ", ".join(dict.fromkeys(one.code for one in self)) or "none at all"
            raise ParameterError(f"There is no finding {key!r}.{hint} The findings: {there}.")
        return hits[0]

    def _having(self, key: object) -> list[Finding]:
        if isinstance(key, tuple):
            return [one for one in self.findings if (one.place, one.code) == key]
        return [one for one in self.findings if one.code == key]

    # -- as text -----------------------------------------------------------------------------

    def __str__(self) -> str:
        parts = [self.sentence()]
        for one in self:
            about = "" if one.place is None else f" of {one.place}"
            parts.append(f"{one.severity}: {one.code}{about}\n  {one.sentence}\n  {one.advice}")
        return "\n\n".join(parts)

    def sentence(self) -> str:
        """How many findings of which severity, in one line."""
        counts = {severity: sum(one.severity == severity for one in self) for severity in ORDER}
        said = [f"{many} {severity}{'s' * (many > 1)}" for severity, many in counts.items() if many]
        if not said:
            return "No findings: the log passed every check that its columns allow."
        return f"Found {', '.join(said)}."

    def _repr_html_(self) -> str:
        head = ("severity", "code", "place", "sentence", "advice")
        cell = "<{0} style='text-align:left'>{1}</{0}>"
        rows = [[str(getattr(one, name) or "") for name in head] for one in self]
        body = "".join(
            "<tr>" + "".join(cell.format("td", html.escape(text)) for text in row) + "</tr>"
            for row in rows
        )
        top = "".join(cell.format("th", name) for name in head)
        table = f"<table><tr>{top}</tr>{body}</table>" if rows else ""
        return f"<p>{html.escape(self.sentence())}</p>{table}"

    # -- as data -----------------------------------------------------------------------------

    def to_frame(self) -> pa.Table:
        """One row per finding, as an Arrow table; ``numbers`` as JSON text."""
        import pyarrow as pa

        names = ("code", "severity", "place", "sentence", "advice", "numbers")
        rows = [asdict(one) | {"numbers": dumps(one.numbers, indent=None)} for one in self]
        return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in names]))
