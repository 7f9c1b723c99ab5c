"""Puts measured/coverage/table.md into docs/coverage.md, between its two marks.

python scripts/coverage_page.py
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "measured" / "coverage" / "table.md"
PAGE = ROOT / "docs" / "coverage.md"
MARKS = ("<!-- table -->", "<!-- end of table -->")


def page(text: str, table: str) -> str:
    """The page with this table in it."""
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n\n{table.strip()}\n\n{MARKS[1]}{after}"


if __name__ == "__main__":
    filled = page(PAGE.read_text(encoding="utf-8"), TABLE.read_text(encoding="utf-8"))
    PAGE.write_text(filled, encoding="utf-8")
