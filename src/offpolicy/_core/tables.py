"""Tables as aligned text, and names in them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str, keep: str = "\n\t") -> str:
    r"""Any text with its control characters, and those that turn its direction, as ``\u001b``: a
    terminal would obey them."""
    return _OBEYED.sub(lambda at: at[0] if at[0] in keep else f"\\u{ord(at[0]):04x}", text)


def aligned(
    rows: Sequence[Sequence[str]], left: Collection[int] = (), *, ruled: bool = True
) -> str:
    """Any table as text: columns under the head that is the first row, those in ``left`` to the
    left; with a line under the head."""
    rows = [[visible(cell, keep="") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    head, *body = rows
    rule = [["─" * width for width in widths]] if ruled else []
    return "\n".join(
        "  ".join(
            cell.ljust(width) if j in left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *rule, *body]
    )
