"""Documents: all that a page is made of, as one JSON file."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from offpolicy._core.files import write_whole
from offpolicy.errors import ResultError
from offpolicy.report.html.provenance import Provenance
from offpolicy.report.pages.evaluation import page
from offpolicy.report.sections.page_data import PageData
from offpolicy.results import (
    COMPARISONS,
    RESULTS,
    Comparison,
    Finding,
    Result,
    json_safe,
    read_finding,
)

SCHEMA = "offpolicy.report/1"


@final
@dataclass(frozen=True, slots=True)
class Document:
    """A result, a comparison, or both, with what `check` found and how they came about."""

    result: Result | None = None
    comparison: Comparison | None = None
    checked: tuple[Finding, ...] | None = None
    provenance: Provenance | None = None

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The page; written to ``path`` whole or not at all."""
        text = page(
            PageData(self.result, self.comparison, self.checked, self.provenance, self.to_json())
        )
        if path is not None:
            write_whole(Path(path), text)
        return text

    def to_json(self) -> str:
        """As JSON text (schema ``offpolicy.report/1``)."""
        parts = {"result": self.result, "comparison": self.comparison}
        body: dict[str, Any] = {
            "schema": SCHEMA,
            **{
                key: None if part is None else json.loads(part.to_json())
                for key, part in parts.items()
            },
            "checked": None if self.checked is None else [asdict(one) for one in self.checked],
            "provenance": None if self.provenance is None else self.provenance.as_dict(),
        }
        return json.dumps(json_safe(body), ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Document:
        """From what `to_json` wrote, or from the JSON of a result or of a comparison."""
        try:
            body = json.loads(text)
            schema = body["schema"]
        except (ValueError, KeyError, TypeError):
            raise ResultError("This is not a result: no JSON object with a schema.") from None
        if schema in RESULTS:
            return cls(result=Result.from_json(text))
        if schema in COMPARISONS:
            return cls(comparison=Comparison.from_json(text))
        if schema != SCHEMA:
            raise ResultError(
                f'The schema is "{schema}"; a page is made of results (--format json of evaluate, '
                f"compare, learn, and rank evaluate, propensities and learn), and of what a page "
                f"saves as JSON."
            )
        try:
            result, comparison = body["result"], body["comparison"]
            checked, provenance = body["checked"], body["provenance"]
            found = cls(
                None if result is None else Result.from_json(json.dumps(result)),
                None if comparison is None else Comparison.from_json(json.dumps(comparison)),
                None if checked is None else tuple(read_finding(one) for one in checked),
                None if provenance is None else Provenance.from_dict(provenance),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            kind = type(problem).__name__
            raise ResultError(f"The report is damaged ({kind}: {problem}).") from None
        if found.result is None and found.comparison is None:
            raise ResultError("The report is damaged (it holds no result).")
        return found
