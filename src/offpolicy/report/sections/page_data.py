"""What a page is made of, whichever verb it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from offpolicy.report.html.provenance import Provenance
from offpolicy.results import ORDER, Finding, Summary

if TYPE_CHECKING:
    from offpolicy.results import Comparison, Headline, Logged, Result

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
    def _either(self) -> Result | Comparison:
        found = self.result if self.result is not None else self.comparison
        assert found is not None
        return found

    @property
    def logged(self) -> Logged:
        return self._either.logged

    @property
    def headlines(self) -> tuple[Headline, ...]:
        return self._either.headlines

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """Of the policies that are drawn."""
        return self._either.summaries[:MOST_POLICIES]

    @property
    def policies(self) -> tuple[str, ...]:
        if self.result is not None:
            return self.result.policies
        return tuple(row.policy for row in self.headlines)

    @property
    def level(self) -> float:
        if self.result is not None:
            return self.result.estimates[0].level
        assert self.comparison is not None
        return self.comparison.level

    @property
    def findings(self) -> list[Finding]:
        """The worst first: what `check` found, or else what the scan came across."""
        found = self._either.findings if self.checked is None else self.checked
        return sorted(found, key=lambda one: ORDER.index(one.severity))
