"""Writes the table of types in docs/reliability.md.

PYTHONPATH=. python scripts/types_page.py
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.arrow_types import page

PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"

if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    table = re.compile(r"\| Arrow type .*?(?=\n\n)", re.DOTALL)
    PAGE.write_text(table.sub(lambda _: page(), text), encoding="utf-8")
