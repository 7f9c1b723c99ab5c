"""What `check` found: findings, the worst first, as text and as data."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import ClassVar, final

from offpolicy._core.documents import Document, dumps
from offpolicy._core.frames import Frames
from offpolicy._core.late import pa
from offpolicy.errors import ParameterError, did_you_mean
from offpolicy.results._findings import CODES, ORDER, Finding, Severity


@final
@dataclass(frozen=True, slots=True, repr=False)
class Report(Document, Frames):
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
            there = ", ".join(dict.fromkeys(finding.code for finding in self)) or "none at all"
            raise ParameterError(f"There is no finding {key!r}.{hint} The findings: {there}.")
        return hits[0]

    def _having(self, key: object) -> list[Finding]:
        if isinstance(key, tuple):
            return [finding for finding in self.findings if (finding.place, finding.code) == key]
        return [finding for finding in self.findings if finding.code == key]

    # -- as text -----------------------------------------------------------------------------

    def __str__(self) -> str:
        parts = [self.sentence()]
        for finding in self:
            about = "" if finding.place is None else f" of {finding.place}"
            head = f"{finding.severity}: {finding.code}{about}"
            parts.append(f"{head}\n  {finding.sentence}\n  {finding.advice}")
        return "\n\n".join(parts)

    def sentence(self) -> str:
        """How many findings of which severity, in one line."""
        counts = Counter(finding.severity for finding in self)
        said = [
            f"{counts[kind]} {kind}{'s' * (counts[kind] > 1)}" for kind in ORDER if counts[kind]
        ]
        if not said:
            return "No findings: the log passed every check that its columns allow."
        return f"Found {', '.join(said)}."

    def _repr_html_(self) -> str:
        head = ("severity", "code", "place", "sentence", "advice")
        cell = "<{0} style='text-align:left'>{1}</{0}>"
        rows = [[str(getattr(finding, name) or "") for name in head] for finding in self]
        body = "".join(
            "<tr>" + "".join(cell.format("td", html.escape(text)) for text in row) + "</tr>"
            for row in rows
        )
        top = "".join(cell.format("th", name) for name in head)
        table = f"<table><tr>{top}</tr>{body}</table>" if rows else ""
        return f"<p>{html.escape(self.sentence())}</p>{table}"

    # -- as data -----------------------------------------------------------------------------

    def to_arrow(self) -> pa.Table:
        """One row per finding, as an Arrow table; ``numbers`` as JSON text."""
        names = ("code", "severity", "place", "sentence", "advice", "numbers")
        rows = [asdict(finding) for finding in self]
        for row in rows:
            row["numbers"] = dumps(row["numbers"], indent=None)
        return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in names]))
