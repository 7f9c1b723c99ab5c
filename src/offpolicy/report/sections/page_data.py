"""What a page is made of, whichever verb it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from offpolicy.report.html.provenance import Provenance
from offpolicy.results import LOGGED, ORDER, Finding, Summary

if TYPE_CHECKING:
    from offpolicy.results import Comparison, Difference, Estimate, Headline, Result

MOST_POLICIES = 6
"""Policies that are drawn; a page of more would be too long to read."""


class PageData(NamedTuple):
    """A result, a comparison, or both; what `check` found, if it was asked; and how it came
    about. ``twin`` is the same as JSON."""

    result: Result | None
    comparison: Comparison | None
    checked: Sequence[Finding] | None
    provenance: Provenance | None
    twin: str

    @property
    def main(self) -> Result | Comparison:
        """What both have is taken from the result."""
        results = self.result if self.result is not None else self.comparison
        assert results is not None
        return results

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """Of the policies that are drawn."""
        return self.main.summaries[:MOST_POLICIES]

    @property
    def rows(self) -> list[Headline | Estimate]:
        """The answers about all policies, and then all estimates."""
        return [*self.main.headlines, *(() if self.result is None else self.result.estimates)]

    @property
    def policies(self) -> list[str]:
        return list(dict.fromkeys(row.policy for row in self.rows))

    @property
    def level(self) -> float:
        return self.rows[0].level

    @property
    def findings(self) -> list[Finding]:
        """The worst first: what `check` found, and what the walk came across besides."""
        findings = [*self.main.findings]
        if self.checked is not None:
            told = {(f.code, f.place) for f in self.checked}
            findings = [*self.checked, *(f for f in findings if (f.code, f.place) not in told)]
        return sorted(findings, key=lambda finding: ORDER.index(finding.severity))

    def headline_of(self, policy: str) -> Headline | None:
        return next((row for row in self.main.headlines if row.policy == policy), None)

    def compared_with_logged(self, policy: str) -> Difference | None:
        """The comparison's own difference to what ran, if there is one."""
        rows = () if self.comparison is None else self.comparison.differences
        return next((row for row in rows if (row.first, row.second) == (policy, LOGGED)), None)
