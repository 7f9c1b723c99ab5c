"""Thresholds of the library set low, so that few rows go the way of many."""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import offpolicy

SOURCE = Path(offpolicy.__file__).parent


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def holders(home: str, name: str) -> Iterator[tuple[ModuleType, bool]]:
    """The modules that hold a name defined in ``home``, each with whether it reads it."""
    known = {home}
    seen: set[Path] = set()
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if name in path.read_text()]
    while found := [
        (path, dotted)
        for path in paths
        if path not in seen
        and ((dotted := module_name(path)) in known or imports(tree_of(path), known, name))
    ]:
        for path, dotted in found:
            seen.add(path)
            known.add(dotted)
            reads = any(
                isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
                for node in ast.walk(tree_of(path))
            )
            yield importlib.import_module(dotted), reads


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.Module, modules: set[str], name: str) -> bool:
    """Whether a file takes the name from one of the modules."""
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module in modules
        and any(alias.name == name and alias.asname is None for alias in node.names)
        for node in ast.walk(tree)
    )


def limit(patch: pytest.MonkeyPatch, where: str, value: object) -> None:
    """Set a constant (or function), given by where it is defined, wherever it was imported to.

    ``from there import NAME`` makes a copy that a patch of ``there.NAME`` would not reach. Raises
    if it is not defined there, or if nothing reads it.
    """
    home, _, name = where.rpartition(".")
    assert name in vars(importlib.import_module(home)), f"{home} has no {name}"
    found = list(holders(home, name))
    assert any(reads for _, reads in found), f"nothing reads {where}"
    for module, _ in found:
        patch.setattr(module, name, value)
