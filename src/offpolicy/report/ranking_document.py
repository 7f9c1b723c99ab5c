"""Documents about rankings: all that a page is made of, as one JSON file."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

from offpolicy._core.files import write_whole
from offpolicy.errors import ResultError
from offpolicy.ranking import evaluation, propensities
from offpolicy.ranking.data import parse_metric
from offpolicy.ranking.evaluation import RankingResult
from offpolicy.ranking.propensities import Propensities
from offpolicy.report.html.provenance import Provenance
from offpolicy.report.pages.learned import LearnedRanker, learned_ranker_page
from offpolicy.report.pages.propensities import examination_page
from offpolicy.report.pages.rankers import Ranked, Rankers, ranking_page
from offpolicy.results import json_safe

RESULTS = "offpolicy.ranking-results/1"
LEARNED = "offpolicy.learned-ranker/1"

PathLike = str | os.PathLike[str]


@final
@dataclass(frozen=True, slots=True)
class RankingDocument:
    """Rankers by their names, and how the results came about; of a ranker and a metric there is one
    result."""

    results: tuple[tuple[str, RankingResult], ...]
    provenance: Provenance | None = None

    def to_html(self, path: PathLike | None = None) -> str:
        """The page; written to ``path`` whole or not at all."""
        return _written(ranking_page(_rankers(self.results, self.provenance, self.to_json())), path)

    def to_json(self) -> str:
        """As JSON text (schema ``offpolicy.ranking-results/1``)."""
        listed = [{"ranker": name} | json.loads(one.to_json()) for name, one in self.results]
        return _text({"schema": RESULTS, "results": listed}, self.provenance)

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> Self:
        """From parsed JSON: of `to_json`, or of one result."""
        listed = body["results"] if body["schema"] == RESULTS else [body]
        found = tuple(
            (str(one.get("ranker", "The ranker")), RankingResult.from_json(json.dumps(one)))
            for one in listed
        )
        if not found:
            raise ResultError("There is no result in it.")
        return cls(found, _provenance(body))


@final
@dataclass(frozen=True, slots=True)
class PropensityDocument:
    """A curve, and how it came about."""

    curve: Propensities
    provenance: Provenance | None = None

    def to_html(self, path: PathLike | None = None) -> str:
        """The page; written to ``path`` whole or not at all."""
        return _written(examination_page(self.curve, self.provenance, self.to_json()), path)

    def to_json(self) -> str:
        """As JSON text (schema ``offpolicy.propensities/1``)."""
        return _text(self.curve.to_dict(), self.provenance)

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> Self:
        """From parsed JSON of `to_json`."""
        return cls(Propensities.from_dict(body), _provenance(body))


@final
@dataclass(frozen=True, slots=True)
class LearnedRankerDocument:
    """What ``rank learn --format json`` prints, and how it came about."""

    body: dict[str, Any]
    provenance: Provenance | None = None

    def to_html(self, path: PathLike | None = None) -> str:
        """The page; written to ``path`` whole or not at all."""
        stored = self.body["result"]
        learned = _learned(self.body)
        twin = self.to_json()
        if stored is None:
            return _written(learned_ranker_page(learned, None, self.provenance, twin), path)
        result = RankingResult.from_json(json.dumps(stored))
        found = _rankers(((learned.name, result),), self.provenance, twin)
        return _written(learned_ranker_page(learned, found, self.provenance, twin), path)

    def to_json(self) -> str:
        """As JSON text (schema ``offpolicy.learned-ranker/1``)."""
        return _text(self.body, self.provenance)

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> Self:
        """From parsed JSON of `to_json`."""
        _learned(body)
        return cls({k: v for k, v in body.items() if k != "provenance"}, _provenance(body))


AnyDocument = RankingDocument | PropensityDocument | LearnedRankerDocument
_KINDS: dict[str, type[AnyDocument]] = {
    evaluation.SCHEMA: RankingDocument,
    RESULTS: RankingDocument,
    propensities.SCHEMA: PropensityDocument,
    LEARNED: LearnedRankerDocument,
}
SCHEMAS = tuple(_KINDS)


def opened(body: dict[str, Any]) -> AnyDocument:
    """The document of parsed JSON with one of `SCHEMAS`."""
    try:
        return _KINDS[body["schema"]].from_body(body)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        kind = type(problem).__name__
        raise ResultError(f"The result is damaged ({kind}: {problem}).") from None


def _rankers(
    found: tuple[tuple[str, RankingResult], ...], provenance: Provenance | None, twin: str
) -> Rankers:
    ranked = tuple(Ranked(name, one) for name, one in found)
    return Rankers(ranked, provenance, twin)


def _learned(body: dict[str, Any]) -> LearnedRanker:
    better = parse_metric(body["metric"]).higher_is_better
    return LearnedRanker.from_body(body, higher_is_better=better)


def _provenance(body: dict[str, Any]) -> Provenance | None:
    stored = body.get("provenance")
    return None if stored is None else Provenance.from_dict(stored)


def _text(body: dict[str, Any], provenance: Provenance | None) -> str:
    if provenance is not None:
        body = body | {"provenance": provenance.as_dict()}
    return json.dumps(json_safe(body), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _written(text: str, path: PathLike | None) -> str:
    if path is not None:
        write_whole(Path(path), text)
    return text
