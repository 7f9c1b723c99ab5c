"""What the command line prints: in any encoding, and nothing in it that a terminal obeys."""

from __future__ import annotations

import codecs
import contextlib
import json
import sys
from typing import Any

import click

from offpolicy._core.tables import visible

_PLAIN = dict(zip("─−–—×·†▁▂▃▄▅▆▇█", "----x.+12345678", strict=True)) | {
    "…": "...", "∞": "inf", "±": "+/-", "≥": ">=", "≤": "<=", "“": '"', "”": '"', "’": "'",
}  # fmt: skip
"""Characters that our own words and tables have, where they cannot be shown."""


def say(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print what a command has to say; names in it may hold anything."""
    say_styled(visible(text), err=err, end=end)


def say_styled(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print text in which everything but our own colours is `visible`."""
    # Left to choose, click writes UTF-8 where ASCII was asked for.
    click.echo(f"{text}{end}", nl=False, file=sys.stderr if err else sys.stdout)


def say_json(text: str) -> None:
    """Print a command's JSON, which says the same in every encoding."""
    text = visible(text.removesuffix("\n"))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in text)
    say_styled(text)


def show_what_cannot_be() -> None:
    """Let both streams replace what their encoding lacks, where Python would raise."""
    codecs.register_error("offpolicy", _replaced)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="offpolicy")  # type: ignore[union-attr]


def _replaced(problem: Any) -> tuple[str, int]:
    lacking = problem.object[problem.start : problem.end]
    shown = (_PLAIN.get(c) or c.encode("ascii", "backslashreplace").decode() for c in lacking)
    return "".join(shown), problem.end
