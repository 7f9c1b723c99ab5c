"""Names in what users type: where one holds a comma, a parenthesis, a quote or =, it is quoted."""

from __future__ import annotations

from collections.abc import Iterator

QUOTES = "\"'"


def outside(text: str) -> Iterator[tuple[int, str]]:
    """The characters that stand in no quotes and no parentheses, and where. Within parentheses any
    quote opens a text, outside of them one that begins a name."""
    quote, depth, begins = "", 0, True
    for at, character in enumerate(text):
        if quote:
            # A quote that is doubled closes the text and opens it again.
            quote = "" if character == quote else quote
            begins = False
            continue
        if character in QUOTES and (begins or depth or text[at - 1 : at] == character):
            quote = character
            continue
        depth += (character == "(") - (character == ")" and depth > 0)
        if not depth and character != ")":
            yield at, character
        begins = character in ",=" or (begins and character.isspace())


def parts_of(text: str, separator: str = ",") -> list[str]:
    """The names between separators that stand in no quotes."""
    cuts = [at for at, character in outside(text) if character == separator]
    ends = [*cuts, len(text)]
    begins = [0, *(at + 1 for at in cuts)]
    return [text[a:b].strip() for a, b in zip(begins, ends, strict=True)]


def unquoted(name: str) -> str:
    """A name as it is meant."""
    name = name.strip()
    if len(name) >= 2 and name[0] in QUOTES and name[-1] == name[0]:
        return name[1:-1].replace(2 * name[0], name[0])
    return name


def quoted(name: str) -> str:
    """A name as it must be typed, in quotes if it must be."""
    if name and name == name.strip() and not set(name) & set(",=()\"'"):
        return name
    return '"' + name.replace('"', '""') + '"'
