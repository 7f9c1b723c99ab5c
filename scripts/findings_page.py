"""Writes docs/findings.md: every code that a finding can have, and what to do about it.

python scripts/findings_page.py
"""

from __future__ import annotations

from pathlib import Path

from offpolicy.results._findings import CODES

PAGE = Path(__file__).parent.parent / "docs" / "findings.md"

TOP = """\
# Findings

What stands against trusting an answer is told as a `Finding`: by [`check`](checks.md), in the
`findings` of results and comparisons, of rankings, and of estimated propensities. It has a `code`
that stays the same from version to version, a `severity`, a `sentence` with the `numbers` that it
speaks of, `advice`, and a `place`: the policy, row or ranks concerned, or None for the log as a
whole. Python warnings and what the command line says on stderr name the code too.

*problem*: the answer may be plainly wrong, or there is none. *warning*: it may be off by more than
its standard error says. *note*: good to know. From where on each is one, [Checking a
log](checks.md#what-is-looked-for) says.

| code | severity | what it means | what to do |
|---|---|---|---|
"""


def page() -> str:
    """The text of docs/findings.md."""
    lines = [f"| `{code}` | {' | '.join(kind)} |\n" for code, kind in CODES.items()]
    return TOP + "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
