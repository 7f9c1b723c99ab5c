"""Docstrings as Markdown: numpydoc sections become lists, formulas plain text."""

from __future__ import annotations

import inspect
import re

from plain_math import plain_math

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


def markdown(docstring: str) -> str:
    """The whole docstring."""
    text = inspect.cleandoc(docstring)
    pieces = SECTION.split(text)
    parts = [paragraphs(pieces[0])]
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        parts.append(f"**{title}**")
        parts.append(
            entries(body) if title in ("Parameters", "Attributes", "Returns") else paragraphs(body)
        )
    return "\n\n".join(part for part in parts if part)


def summary(docstring: str | None) -> str:
    """Its first sentence or paragraph, on one line."""
    if not docstring:
        return ""
    first = inspect.cleandoc(docstring).split("\n\n")[0]
    return inline(" ".join(first.split()))


def entries(body: str) -> str:
    """``name : type`` with an indented description, as list items."""
    items: list[str] = []
    for line in body.strip("\n").splitlines():
        if line and not line[0].isspace():
            name, _, kind = line.partition(" : ")
            names = ", ".join(f"`{one.strip()}`" for one in name.split(","))
            items.append(f"- {names}" + (f" ({inline(kind)})" if kind else ""))
            started = False
        elif line.strip():
            items[-1] += (" " if started else ": ") + inline(line.strip())
            started = True
    return "\n".join(items)


def paragraphs(text: str) -> str:
    """Prose, formulas and examples, each block for itself."""
    blocks = [block for block in re.split(r"\n\s*\n", text.strip("\n")) if block.strip()]
    return "\n\n".join(_block(block) for block in blocks)


def _block(block: str) -> str:
    if block.lstrip().startswith(">>>"):
        return f"```py\n{inspect.cleandoc(block)}\n```"
    if block.startswith(".. math::"):
        return "> " + inline_escaped(plain_math(block.removeprefix(".. math::")))
    if block.startswith((" ", "\t")):
        return f"```\n{inspect.cleandoc(block)}\n```"
    if re.match(r"[-*] ", block):
        return re.sub(r"\n\s+", " ", inline(block))
    return inline(block)


def inline(text: str) -> str:
    """Roles and double backticks; whatever is not code is text, not markup."""
    text = text.replace("\n", "\x00")
    parts = re.split(r":math:`([^`]+)`|``(.+?)``|`([^`]+)`", text)
    out = []
    for k in range(0, len(parts), 4):
        out.append(inline_escaped(parts[k]))
        if k + 3 < len(parts):
            formula, double, single = parts[k + 1 : k + 4]
            if formula is not None:
                out.append(inline_escaped(plain_math(formula.replace("\x00", " "))))
            else:
                out.append(f"`{(double or single).replace(chr(0), ' ')}`")
    return "".join(out).replace("\x00", "\n")


def inline_escaped(text: str) -> str:
    return re.sub(r"(?<!\*)\*(?=\w+[,) ])(?!\w[^*]*\*)", r"\\*", text.replace("<", "&lt;"))
