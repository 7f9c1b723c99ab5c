"""Small faults put into estimators, moments and intervals: does a test notice each of them?

    python scripts/mutants.py list --seed 0 --count 60 > mutants.txt
    python scripts/mutants.py run mutants.txt --out mutants.json [--root CHECKOUT] [--tests PATH …]

A mutant is named by symbol, operator and occurrence (``cab: min to max #1``), so that the same one
can be made after code has moved to another file. Each is run against the tests that cover its line,
which one run with coverage finds out (kept beside ``--out``); examples in docstrings, which would
be looked for beside the mutant, do not count. Needs pytest-cov.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent.parent
MUTATED = (
    "estimators/*.py", "intervals/*.py", "_core/moments.py",
    "weights.py", "estimators.py", "intervals.py", "betting.py", "capital.py", "bootstrap.py",
    "moments.py", "theory.py",
)  # fmt: skip
"""Where faults are made; the second line is where version 0.1 had the same symbols."""
SWAPPED: dict[type[ast.AST], tuple[type[ast.AST], str]] = {
    ast.Add: (ast.Sub, "+ to -"),
    ast.Sub: (ast.Add, "- to +"),
    ast.Mult: (ast.Div, "* to /"),
    ast.Div: (ast.Mult, "/ to *"),
    ast.Lt: (ast.GtE, "< to >="),
    ast.LtE: (ast.Gt, "<= to >"),
    ast.Gt: (ast.LtE, "> to <="),
    ast.GtE: (ast.Lt, ">= to <"),
    ast.And: (ast.Or, "and to or"),
    ast.Or: (ast.And, "or to and"),
}
PATIENCE = 1200
"""Seconds for the tests of a mutant."""
CALLS = {"minimum": "maximum", "maximum": "minimum", "min": "max", "max": "min"}


class Mutant(NamedTuple):
    name: str
    file: Path
    line: int
    text: str
    """The whole file, with the fault."""


def files(root: Path) -> list[Path]:
    package = root / "src" / "offpolicy"
    found = {path for pattern in MUTATED for path in package.glob(pattern)}
    return sorted(path for path in found if not path.stem.endswith("kernels"))


def functions(module: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every function with its name, or class and name."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def sites(function: ast.FunctionDef) -> Iterator[tuple[str, int, ast.AST]]:
    """What can be turned into a fault: how it is called, its line, and the node."""
    for node in ast.walk(function):
        line = getattr(node, "lineno", function.lineno)
        if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPPED:
            yield SWAPPED[type(node.op)][1], line, node
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
            yield SWAPPED[type(node.ops[0])][1], line, node
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in CALLS:
                yield f"{called} to {CALLS[called]}", line, node
        elif (
            isinstance(node, ast.Constant)
            and type(node.value) in (int, float)
            and node.value in (0, 1, 2, 0.5)
        ):
            yield f"{node.value} to {node.value + 1}", line, node


def break_node(node: ast.AST) -> None:
    """Put the fault in."""
    if isinstance(node, ast.BinOp | ast.BoolOp):
        node.op = SWAPPED[type(node.op)][0]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = SWAPPED[type(node.ops[0])][0]()
    elif isinstance(node, ast.Constant):
        node.value += 1
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            node.func.attr = CALLS[node.func.attr]
        elif isinstance(node.func, ast.Name):
            node.func.id = CALLS[node.func.id]


def mutants(root: Path) -> Iterator[Mutant]:
    for path in files(root):
        source = path.read_text(encoding="utf-8")
        names = [name for name, _ in functions(ast.parse(source))]
        for place, symbol in enumerate(names):
            count = len(list(sites(list(functions(ast.parse(source)))[place][1])))
            seen: Counter[str] = Counter()
            for which in range(count):
                module = ast.parse(source)
                how, line, node = list(sites(list(functions(module))[place][1]))[which]
                seen[how] += 1
                break_node(node)
                text = ast.unparse(module)
                yield Mutant(f"{symbol}: {how} #{seen[how]}", path, line, text)


def covering(root: Path, data: Path, tests: list[str]) -> dict[str, dict[int, list[str]]]:
    """By file and line, the tests that run it; from ``data`` if it was measured before."""
    from coverage import CoverageData

    if not data.exists():
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider",
             "--cov=offpolicy", "--cov-branch", "--cov-context=test", "--cov-report=", *tests],
            cwd=root, env=environment(root) | {"COVERAGE_FILE": str(data)}, check=False,
        )  # fmt: skip
    measured = CoverageData(str(data))
    measured.read()
    return {
        path: {
            line: [context.split("|")[0] for context in contexts if context.startswith("tests")]
            for line, contexts in measured.contexts_by_lineno(path).items()
        }
        for path in measured.measured_files()
    }


def environment(root: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(root / "src")}


def survives(mutant: Mutant, root: Path, tests: list[str], most: int) -> bool:
    """Whether all of the tests pass with the fault; a run that does not end is no pass."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(root / "src", copy)
        target = copy / mutant.file.relative_to(root / "src")
        target.write_text(mutant.text, encoding="utf-8")
        chosen = sorted(set(tests))
        random.Random(0).shuffle(chosen)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        try:
            done = subprocess.run(
                [*command, *chosen[:most]], cwd=root, capture_output=True, timeout=PATIENCE,
                env=os.environ | {"PYTHONPATH": str(copy)},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["list", "run"])
    parser.add_argument("names", nargs="?", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--root", type=Path, default=HERE)
    parser.add_argument("--out", type=Path, default=Path("mutants.json"))
    parser.add_argument("--most", type=int, default=400, help="tests a mutant")
    parser.add_argument("--tests", nargs="+", default=["tests"])
    given = parser.parse_args()
    root = given.root.resolve()
    known = {one.name: one for one in mutants(root)}
    if given.what == "list":
        print("\n".join(sorted(random.Random(given.seed).sample(sorted(known), given.count))))
        return
    results = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    by_line = covering(root, given.out.with_suffix(".coverage").resolve(), given.tests)
    for name in given.names.read_text(encoding="utf-8").splitlines():
        if name in results:
            continue
        mutant = known.get(name)
        tests = by_line.get(str(mutant.file), {}).get(mutant.line, []) if mutant else []
        if mutant is None:
            results[name] = "no such symbol"
        elif not tests:
            results[name] = "not covered"
        else:
            alive = survives(mutant, root, tests, given.most)
            results[name] = "survives" if alive else "killed"
        print(f"{name}: {results[name]} ({len(set(tests))} tests)", flush=True)
        given.out.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(Counter(results.values()))


if __name__ == "__main__":
    main()
