"""The document of a learned policy: all that its page is made of, as one JSON file."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

from offpolicy._core.files import write_whole
from offpolicy.errors import ResultError
from offpolicy.report.html.provenance import Provenance
from offpolicy.report.pages.learned import Searched, learned_page
from offpolicy.report.sections.page_data import PageData
from offpolicy.results import Result, json_safe

SCHEMA = "offpolicy.learned/1"


@final
@dataclass(frozen=True, slots=True)
class LearnedDocument:
    """What ``learn --format json`` prints, and how it came about."""

    body: dict[str, Any]
    provenance: Provenance | None = None

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The page; written to ``path`` whole or not at all."""
        stored, twin = self.body["result"], self.to_json()
        data = None
        if stored is not None:
            result = Result.from_json(json.dumps(stored))
            data = PageData(result, None, None, self.provenance, twin)
        text = learned_page(Searched.from_body(self.body), data, self.provenance, twin)
        if path is not None:
            write_whole(Path(path), text)
        return text

    def to_json(self) -> str:
        """As JSON text (schema ``offpolicy.learned/1``)."""
        body = self.body
        if self.provenance is not None:
            body = body | {"provenance": self.provenance.as_dict()}
        return json.dumps(json_safe(body), ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> Self:
        """From parsed JSON of `to_json`."""
        try:
            Searched.from_body(body)
            stored = body.get("provenance")
            bare = {key: value for key, value in body.items() if key != "provenance"}
            if bare["result"] is not None:
                Result.from_json(json.dumps(bare["result"]))
            return cls(bare, None if stored is None else Provenance.from_dict(stored))
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            kind = type(problem).__name__
            raise ResultError(f"The result is damaged ({kind}: {problem}).") from None
