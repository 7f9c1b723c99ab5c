"""Writes into the documentation what its code and commands print now, where that has changed.

PYTHONPATH=. python scripts/shown.py [PAGE ...]

Without pages, README and all of docs. `tests/docs/test_docs.py` says what blocks are run; read the
difference before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path

from tests.docs.test_docs import BLOCK, PAGES, commands, read, run


def in_place_of(shown: str, printed: str) -> str:
    """What is printed now, with lines left out as they were."""
    lines, now = shown.rstrip().splitlines(), printed.rstrip().splitlines()
    if "…" in lines:
        at = lines.index("…")
        now[at : len(now) - (len(lines) - at - 1)] = ["…"]
    return "\n".join(now) + "\n" + shown[len(shown.rstrip("\n")) + 1 :]


def refreshed(page: Path) -> str:
    """A page's text with its outputs made anew, in an empty folder."""
    text, parts, end = read(page), [], 0
    namespace: dict[str, object] = {}
    printed = io.StringIO()
    for block in BLOCK.finditer(text):
        kind, inside = block.groups()
        if kind == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(inside, page.name, "exec"), namespace)
        elif kind == "text":
            inside = in_place_of(inside, printed.getvalue())
        else:
            for command, shown in commands(inside):
                if command.startswith("cat "):
                    Path(command[4:]).write_text(shown, encoding="utf-8")
                elif command.startswith("offpolicy "):
                    output = run(command)
                    if shown.strip():
                        inside = inside.replace(shown, in_place_of(shown, output), 1)
        parts += [text[end : block.start(2)], inside]
        end = block.end(2)
    return "".join([*parts, text[end:]])


def main() -> None:
    here = Path.cwd()
    for page in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            text = refreshed(page)
            os.chdir(here)
        if text != read(page):
            page.write_text(text, encoding="utf-8")
            print(page.relative_to(here), flush=True)


if __name__ == "__main__":
    main()
