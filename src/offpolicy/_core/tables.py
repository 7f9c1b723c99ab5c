"""Tables as aligned text."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def aligned(
    rows: Sequence[Sequence[str]], left: Collection[int] = (), *, ruled: bool = True
) -> str:
    """Any table as text: columns under the head that is the first row, those in ``left`` to the
    left; with a line under the head."""
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
