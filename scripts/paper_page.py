"""Puts what `offpolicy reproduce` wrote to measured/paper into docs/paper.md and docs/real.md, and
its pictures into docs/img.

python scripts/paper_page.py
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from coverage_page import between

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "measured" / "paper"
PAGES = [ROOT / "docs" / name for name in ("paper.md", "real.md")]
PICTURES = ROOT / "docs" / "img"
MARK = re.compile(r"<!-- (\w+): ([^>]+?) -->")
"""Where a table goes: the folder of an artefact, and the heading in its table.md."""


def part(folder: str, heading: str) -> str:
    """What stands below a heading in an artefact's tables, up to the next one."""
    text = (KEPT / folder / "table.md").read_text(encoding="utf-8")
    (found,) = re.findall(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    return str(found).strip()


def page(text: str) -> str:
    """The page with every table in it."""
    for mark in MARK.finditer(text):
        name = f"{mark[1]}: {mark[2]}"
        marks = (f"<!-- {name} -->", f"<!-- end of {name} -->")
        text = between(text, marks, f"\n{part(mark[1], mark[2])}\n\n")
    return text


def pictures() -> list[Path]:
    return sorted(KEPT.glob("*/*.png"))


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
    for picture in pictures():
        shutil.copy(picture, PICTURES / picture.name)
