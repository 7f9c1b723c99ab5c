"""What holds the rooms apart, counted from the source: tests/laws/test_rooms.py keeps it so.

python scripts/house.py          # rooms, their lines, and what breaks the rules
"""

from __future__ import annotations

import ast
import random
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "offpolicy"
LOOSE = {"__init__", "__main__", "errors", "testing"}
"""The only modules that are in no room."""


class Import(NamedTuple):
    """``from offpolicy.module import name``, in a file of some room."""

    file: Path
    line: int
    module: str
    name: str

    def __str__(self) -> str:
        path = self.file.relative_to(ROOT)
        return f"{path}:{self.line}: from offpolicy.{self.module} import {self.name}"


@cache
def files() -> tuple[Path, ...]:
    return tuple(sorted(SOURCE.rglob("*.py")))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room_of(path: Path) -> str:
    """The folder below the package, or the name of a loose module."""
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


@cache
def rooms() -> tuple[str, ...]:
    return tuple(sorted(item.parent.name for item in SOURCE.glob("*/__init__.py")))


def imports() -> Iterator[Import]:
    """All imports of the package's own names, wherever they stand."""
    for path in files():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("offpolicy"):
                module = (node.module or "").removeprefix("offpolicy").removeprefix(".")
                for alias in node.names:
                    yield Import(path, node.lineno, module, alias.name)
                    whole = ".".join(filter(None, (module, alias.name)))
                    if _is_package(whole):
                        for name in attributes(path, alias.asname or alias.name):
                            yield Import(path, node.lineno, whole, name)


def attributes(path: Path, name: str) -> set[str]:
    """What is taken from a module of this name, after a dot."""
    return {
        node.attr
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == name
    }


def exported(package: str) -> set[str]:
    """``__all__`` of a package; empty if it is none."""
    init = SOURCE.joinpath(*package.split("."), "__init__.py")
    if not init.exists():
        return set()
    for node in tree(init).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def _is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()


def _is_package(module: str) -> bool:
    return SOURCE.joinpath(*module.split("."), "__init__.py").exists()


def foreign(one: Import) -> bool:
    """Whether it reaches into another room for what that room does not export.

    A room exports names by ``__all__`` of its packages, and whole modules that are listed there and
    have no underscore. Compiled loops are imported where they run.
    """
    room = one.module.split(".")[0]
    if not one.module or room not in rooms() or room == room_of(one.file):
        return False
    if one.module.endswith("kernels") or one.name.endswith("kernels"):
        return False
    if _is_package(one.module):
        return one.name not in exported(one.module)
    package, _, leaf = one.module.rpartition(".")
    return leaf.startswith("_") or leaf not in exported(package) or one.name.startswith("_")


def idle(public: set[str]) -> Iterator[str]:
    """Names, not modules, that a room exports and nobody outside it uses."""
    used = {
        (one.module, one.name)
        for one in imports()
        if one.module.split(".")[0] != room_of(one.file) or one.file.stem == "__init__"
    }
    for path in files():
        if path.stem != "__init__" or path.parent in (SOURCE, SOURCE / "cli"):
            continue
        package = ".".join(path.parent.relative_to(SOURCE).parts)
        for name in sorted(exported(package)):
            taken = (package, name) in used or _is_module(path.parent / name)
            if not taken and f"{package}.{name}" not in public and name not in public:
                yield f"{package}.{name}"


COUNTED = {
    "aligned table": r"\.rjust\(",
    "JSON codec": r"def json_safe\(",
    "is damaged": r"is damaged",
    "logistic solver": r"step = np\.linalg\.solve\(",
    "write into a frozen object from outside": r"object\.__setattr__\(\s*(?!self\b)",
    "write into __dict__ from outside": r"(?<!self)\.__dict__(\[|\.update)",
    "dispatch on English text": r"(\.sentence|\.advice|\.message|str\(\w+\))\.(startswith|find)\("
    r"|\" in \w+\.(sentence|advice|message)\b",
}
"""What was written many times, as text that stands wherever it is written."""
MOST = dict.fromkeys(COUNTED, 1) | {
    "logistic solver": 2,  # recalibration has its own
    "write into a frozen object from outside": 0,
    "write into __dict__ from outside": 0,
    "dispatch on English text": 0,
}
"""How often it may stand."""


def places(pattern: str) -> list[str]:
    """``file:line`` of every match in the sources."""
    found = []
    for path in files():
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(pattern, text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path.relative_to(SOURCE)}:{line}")
    return found


def quiz(seed: int, count: int = 25) -> Iterator[tuple[str, str, Path]]:
    """Functions drawn at random: name with parameters, first line of the docstring, file."""
    functions = []
    for path in files():
        for node in tree(path).body:
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
                functions.append((node, path))
    for node, path in random.Random(seed).sample(functions, count):
        parameters = ", ".join(
            argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)
        )
        made = [ast.unparse(line).partition("(")[0] for line in node.decorator_list]
        says = (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")
        yield " ".join([*(f"@{name}" for name in made), f"{node.name}({parameters})"]), says, path


def main() -> None:
    if len(sys.argv) == 3:
        for number, (name, says, path) in enumerate(quiz(int(sys.argv[2])), 1):
            shown = str(path.relative_to(SOURCE)) if sys.argv[1] == "answers" else says
            print(f"{number:>2}. {name}: {shown}")
        return
    lines = dict.fromkeys((*rooms(), *sorted(LOOSE)), 0)
    for path in files():
        lines[room_of(path)] += len(path.read_text(encoding="utf-8").splitlines())
    for room, count in lines.items():
        print(f"{room:<14}{count:>7}")
    print(f"{'in all':<14}{sum(lines.values()):>7}\n")
    for one in filter(foreign, imports()):
        print(f"not exported: {one}")
    for name in idle(set()):
        print(f"exported, used by no other room: {name}")
    for what, pattern in COUNTED.items():
        found = places(pattern)
        print(f"{what}: {len(found)} ({', '.join(found[:12])})")


if __name__ == "__main__":
    main()
