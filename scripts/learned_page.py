"""Puts what `offpolicy reproduce learning` wrote to measured/learning into docs/learned.md.

python scripts/learned_page.py
"""

from __future__ import annotations

import re
from pathlib import Path

from coverage_page import between

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "measured" / "learning"
PAGE = ROOT / "docs" / "learned.md"
TABLES = {
    "Table 2": ("table2", "Table 2"),
    "readings": ("table2", "Readings"),
    "claims": ("table2", "Claims"),
    "orders": ("table2", "Orders"),
    "letter": ("table2", "letter"),
    "all readings": ("table2", "All readings"),
    "Figure 4": ("figure4", "Figure 4"),
}
"""What the page shows: the folder, and the heading in its table.md."""


def part(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    (found,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return str(found).strip()


def page(text: str) -> str:
    """The page with the tables in it."""
    for name, (folder, heading) in TABLES.items():
        table = (KEPT / folder / "table.md").read_text(encoding="utf-8")
        marks = (f"<!-- {name} -->", f"<!-- end of {name} -->")
        text = between(text, marks, f"\n{part(table, heading)}\n\n")
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
