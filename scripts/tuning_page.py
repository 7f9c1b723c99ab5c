"""Puts measured/tuning/table.md into docs/tuning.md, between its two marks.

python scripts/tuning_page.py
"""

from __future__ import annotations

import re

from coverage_page import MARKS, ROOT, between

TABLE = ROOT / "measured" / "tuning" / "table.md"
PAGE = ROOT / "docs" / "tuning.md"
SETS = ("letter", "optdigits", "satimage", "pendigits")
"""Those of which cells are kept; what rankings leave is too large."""


def page(text: str, table: str) -> str:
    """The page with these tables in it, their headings below its own."""
    deeper = re.sub(r"^#", "##", table, flags=re.MULTILINE)
    return between(text, MARKS, f"\n{deeper.strip()}\n\n")


if __name__ == "__main__":
    filled = page(PAGE.read_text(encoding="utf-8"), TABLE.read_text(encoding="utf-8"))
    PAGE.write_text(filled, encoding="utf-8")
