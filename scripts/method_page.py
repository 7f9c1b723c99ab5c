"""Puts the docstring of offpolicy.evidence, which is the method, into docs/method.md.

python scripts/method_page.py
"""

from __future__ import annotations

import inspect
from pathlib import Path

from coverage_page import between

import offpolicy.evidence

PAGE = Path(__file__).parent.parent / "docs" / "method.md"
MARKS = ("<!-- method -->", "<!-- end of method -->")


def page(text: str) -> str:
    """The page with the method in it, as it is."""
    method = inspect.getdoc(offpolicy.evidence) or ""
    return between(text, MARKS, method.partition("\n\n")[2] + "\n")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
