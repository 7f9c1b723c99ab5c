"""All that a page is made of, as one JSON document."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, Self, final

from offpolicy._core.documents import Document, read, written
from offpolicy.learning import LearnedPolicy
from offpolicy.ranking.evaluation import RankingResult
from offpolicy.ranking.learning import LearnedRanker
from offpolicy.ranking.propensities import Propensities
from offpolicy.report.html.provenance import Provenance
from offpolicy.report.pages.evaluation import page
from offpolicy.report.pages.learned import learned_page
from offpolicy.report.pages.propensities import examination_page
from offpolicy.report.pages.rankers import Rankers, ranking_page
from offpolicy.report.sections.page_data import PageData
from offpolicy.results import Comparison, Finding, Result

KINDS = (Result, Comparison, RankingResult, Propensities, LearnedPolicy, LearnedRanker)
"""Documents that there are pages of."""


@final
@dataclass(frozen=True, slots=True)
class Results(Document):
    """The results of a command: a result, a comparison, or both; rankers; or one of the others of
    `KINDS`. With what `check` found, if it was asked, and how they came about."""

    schema: ClassVar[str] = "offpolicy.results/1"

    results: tuple[Document, ...]
    checked: tuple[Finding, ...] | None = None
    provenance: Provenance | None = None

    @classmethod
    def opened(cls, text: str) -> Self:
        """From JSON, of these or of a single result."""
        document = read(text, [cls, *KINDS])
        return document if isinstance(document, cls) else cls((document,))

    def _check_read(self) -> None:
        """There is a page of them."""
        kinds = [type(result) for result in self.results]
        if kinds not in ([Result, Comparison], [RankingResult] * (len(kinds) or 1)) and (
            len(kinds) != 1 or kinds[0] not in KINDS
        ):
            raise ValueError("no page is made of these results")

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The page; written to ``path`` whole or not at all."""
        return written(self._page(self.to_json()), path)

    def _page(self, twin: str) -> str:
        first, run = self.results[0], self.provenance
        if isinstance(first, Propensities):
            return examination_page(first, run, twin)
        if isinstance(first, (LearnedPolicy, LearnedRanker)):
            return learned_page(first, run, twin)
        rankers = tuple(result for result in self.results if isinstance(result, RankingResult))
        if rankers:
            return ranking_page(Rankers(rankers, run, twin))
        result = first if isinstance(first, Result) else None
        last = self.results[-1]
        compared = last if isinstance(last, Comparison) else None
        return page(PageData(result, compared, self.checked, run, twin))
