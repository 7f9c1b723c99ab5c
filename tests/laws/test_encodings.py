"""Text files are UTF-8 on every machine: whoever reads or writes one says so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BYTES_UNASKED = {"gzip", "os", "tarfile", "zipfile", "Image"}


def calls_without_encoding(tree: ast.AST) -> Iterator[int]:
    """Lines that open text in whatever encoding the machine has."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or any(k.arg == "encoding" for k in call.keywords):
            continue
        method = isinstance(call.func, ast.Attribute)
        name = call.func.attr if method else getattr(call.func, "id", "")
        owner = getattr(call.func.value, "id", "") if method else ""
        if method and name in ("read_text", "write_text"):
            yield call.lineno
        elif name == "open" and owner not in BYTES_UNASKED:
            place = 0 if method else 1
            modes = [*call.args[place : place + 1], *(k.value for k in call.keywords if k.arg)]
            if not any(isinstance(m, ast.Constant) and "b" in str(m.value) for m in modes):
                yield call.lineno


@pytest.mark.parametrize("folder", ["src", "scripts"])
def test_text_is_read_and_written_in_a_named_encoding(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files
        for line in calls_without_encoding(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_the_law_sees_what_it_forbids():
    bad = ["p.read_text()", "p.write_text('x')", "open('f')", "open('f', 'w')", "p.open('r')"]
    good = ["p.read_text(encoding='utf-8')", "open('f', 'rb')", "p.open('wb')", "gzip.open('f')"]
    assert [len(list(calls_without_encoding(ast.parse(code)))) for code in bad] == [1] * 5
    assert [len(list(calls_without_encoding(ast.parse(code)))) for code in good] == [0] * 4
