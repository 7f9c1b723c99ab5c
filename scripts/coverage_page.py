"""Puts measured/coverage/table.md into docs/coverage.md, between its two marks.

python scripts/coverage_page.py
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "measured" / "coverage" / "table.md"
PAGE = ROOT / "docs" / "coverage.md"
MARKS = ("<!-- table -->", "<!-- end of table -->")


def between(text: str, marks: tuple[str, str], content: str) -> str:
    """A page with something else between its two marks."""
    before, _, rest = text.partition(marks[0])
    _, _, after = rest.partition(marks[1])
    return f"{before}{marks[0]}\n{content}{marks[1]}{after}"


def page(text: str, table: str) -> str:
    """The page with this table in it."""
    return between(text, MARKS, f"\n{table.strip()}\n\n")


if __name__ == "__main__":
    filled = page(PAGE.read_text(encoding="utf-8"), TABLE.read_text(encoding="utf-8"))
    PAGE.write_text(filled, encoding="utf-8")
