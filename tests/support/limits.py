"""Thresholds of the library set low, so that few rows go the way of many."""

from __future__ import annotations

import ast
import functools
import importlib
from pathlib import Path

import pytest

import offpolicy
from offpolicy._core.compiling import Worth

SOURCE = Path(offpolicy.__file__).parent


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def holders(home: str, name: str) -> dict[str, bool]:
    """The modules that hold a name defined in ``home``, each with whether it reads it."""
    paths = [path for path in SOURCE.rglob("*.py") if name in path.read_text()]
    found: dict[str, bool] = {}
    more = {home}
    while more:
        for path in paths:
            if module_name(path) in more:
                nodes = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.Name)]
                found[module_name(path)] = any(
                    node.id == name and isinstance(node.ctx, ast.Load) for node in nodes
                )
        more = {module_name(path) for path in paths if imports(tree_of(path), set(found), name)}
        more -= set(found)
    return found


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
    found = holders(home, name)
    assert any(found.values()), f"nothing reads {where}"
    for module in map(importlib.import_module, found):
        if name in vars(module):  # else it is imported where it is used
            patch.setattr(module, name, value)


def small_blocks(patch: pytest.MonkeyPatch, rows: int, sample: int | None = None) -> None:
    """Logs of a few blocks of so many rows are walked, sampled and compiled like large ones."""
    limit(patch, "offpolicy.logs._scan.BLOCK", rows)
    always = Worth(list, kept=0.0, fresh=0.0)
    limit(patch, "offpolicy.evidence._blocks.WALK", always)
    limit(patch, "offpolicy.evaluation._sweep.GRID_WALK", always)
    limit(patch, "offpolicy.evidence._plan.LARGE_SAMPLE", 0)
    if sample is not None:
        limit(patch, "offpolicy.evidence._plan.SAMPLE", sample)
