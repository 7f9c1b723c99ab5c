"""Puts out/peers/table.md, which a full `make bench-peers` leaves, into docs/benchmarks.md, between
its two marks.

python scripts/peers_page.py
"""

from __future__ import annotations

from coverage_page import MARKS, ROOT, between

TABLE = ROOT / "out" / "peers" / "table.md"
PAGE = ROOT / "docs" / "benchmarks.md"

if __name__ == "__main__":
    table = TABLE.read_text(encoding="utf-8").strip()
    text = between(PAGE.read_text(encoding="utf-8"), MARKS, f"\n{table}\n\n")
    PAGE.write_text(text, encoding="utf-8")
