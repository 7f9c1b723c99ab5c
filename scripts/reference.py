"""The API reference, from the docstrings: docs/reference/*.md.

    python scripts/reference.py [--out docs/reference]

The sources are read, not imported, so the pages of optional parts (PyTorch) can be made without
what they need. tests/test_reference.py compares the pages in the repository with what this writes.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from docstrings import markdown, summary

import offpolicy
from offpolicy.files import write_whole

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "offpolicy"
PLACE = ROOT / "docs" / "reference"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Part(NamedTuple):
    """Names under one heading, all of one module."""

    module: str
    names: tuple[str, ...] = ()
    """Without any: the module's ``__all__``, or else all that is public."""


PAGES: dict[str, tuple[str, tuple[Part, ...]]] = {
    "logs": ("Logs", (Part("", ("BanditLog", "Columns", "read_log", "LogScan")),)),
    "policies": ("Policies", (Part("policies"),)),
    "models": ("Models", (Part("", ("RewardModel", "PropensityModel")),)),
    "estimators": ("Estimators", (Part("estimators"),)),
    "evaluation": (
        "Evaluation",
        (
            Part("", ("evaluate", "Result", "Estimate", "Headline", "Tuned")),
            Part("", ("compare", "Comparison", "Difference")),
            Part("", ("sweep", "Curve")),
            Part("", ("check", "Report", "Finding")),
        ),
    ),
    "intervals": ("Intervals", (Part("intervals"), Part("betting"), Part("bootstrap"))),
    "simulation": (
        "Simulation",
        (Part("", ("simulate_bandit", "simulate_synthetic", "read_truth")),),
    ),
    "learning": ("Learning", (Part("learning"),)),
    "torch": ("PyTorch", (Part("torch"),)),
    "ranking": ("Rankings", (Part("ranking"),)),
    "theory": ("Theory", (Part("theory"),)),
    "testing": ("Testing", (Part("testing"),)),
    "datasets": ("Data sets", (Part("datasets"),)),
    "formats": (
        "Formats",
        tuple(Part(f"formats.{one}") for one in ("dsjson", "obp", "obd", "letor")),
    ),
    "errors": ("Errors", (Part("errors"),)),
}  # fmt: skip
INTERNAL = {
    "bootstrap.PoissonBootstrap", "errors.did_you_mean", "estimators.Share",
    "estimators.as_estimator", "formats.dsjson.Decision", "formats.dsjson.Facts",
    "formats.dsjson.numbered_batches", "formats.dsjson.schema", "formats.obd.Facts",
    "formats.obd.columns_of", "intervals.check_level", "intervals.check_range", "intervals.hull",
    "policies.Target", "policies.resolve", "theory.Member",
}  # fmt: skip
"""Public for other modules of the library only."""


@dataclass(frozen=True)
class Found:
    """A definition and the module that holds it."""

    module: str
    node: ast.ClassDef | Function


@cache
def tree(module: str) -> ast.Module:
    path = SOURCE.joinpath(*module.split(".")) if module else SOURCE
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def find(module: str, name: str) -> Found | None:
    """Where a name is defined, following imports within the library."""
    if not module:
        module = offpolicy._HOME[name]
    for node in tree(module).body:
        if isinstance(node, ast.ClassDef | Function) and node.name == name:
            return Found(module, node)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("offpolicy"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    home = (node.module or "").removeprefix("offpolicy").lstrip(".")
                    return find(home, alias.name)
    return None


def public_names(module: str) -> list[str]:
    """``__all__``; without it, what is defined there, is public and has a docstring."""
    for node in tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return [
        node.name
        for node in tree(module).body
        if isinstance(node, ast.ClassDef | Function)
        and not node.name.startswith("_")
        and ast.get_docstring(node)
        and f"{module}.{node.name}" not in INTERNAL
    ]


def members(found: Found) -> Iterator[ast.stmt]:
    """What a class defines, its own first, then what it inherits within the library."""
    assert isinstance(found.node, ast.ClassDef)
    yield from found.node.body
    for base in found.node.bases:
        above = find(found.module, ast.unparse(base)) if isinstance(base, ast.Name) else None
        if above is not None and isinstance(above.node, ast.ClassDef):
            yield from members(above)


def decorators(node: ast.ClassDef | Function) -> set[str]:
    return {ast.unparse(one).split("(")[0] for one in node.decorator_list}


def unparsed(node: ast.AST) -> str:
    return ast.unparse(node).replace("'", '"')


def arguments(node: Function, *, method: bool = False) -> list[str]:
    """The arguments as they would be written, without self."""
    args = node.args
    given = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [None] * (len(given) - len(args.defaults)) + [*args.defaults]
    out = [_argument(arg, default) for arg, default in zip(given, defaults, strict=True)]
    if method and "staticmethod" not in decorators(node):
        out = out[1:]
    if args.vararg:
        out.append(f"*{_argument(args.vararg, None)}")
    elif args.kwonlyargs:
        out.append("*")
    out += [_argument(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    if args.kwarg:
        out.append(f"**{_argument(args.kwarg, None)}")
    return out


def _argument(arg: ast.arg, default: ast.expr | None) -> str:
    text = arg.arg if arg.annotation is None else f"{arg.arg}: {unparsed(arg.annotation)}"
    if default is None:
        return text
    return f"{text} = {unparsed(default)}" if arg.annotation else f"{text}={unparsed(default)}"


def written(name: str, given: list[str], returns: str = "") -> str:
    """A signature on one line, or with one argument on each."""
    line = f"{name}({', '.join(given)}){returns}"
    if len(line) <= 88:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in given), f"){returns}"])


class Field(NamedTuple):
    name: str
    kind: str
    default: str
    about: str


def fields(found: Found) -> list[Field]:
    """Of a dataclass or a NamedTuple: what it is made of, with the text below each."""
    assert isinstance(found.node, ast.ClassDef)
    body = list(found.node.body)
    out = []
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        kind = unparsed(node.annotation)
        if kind.startswith("ClassVar") or kind == "KW_ONLY" or node.target.id.startswith("_"):
            continue
        about = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            about = summary(str(after.value.value))
        default = "" if node.value is None else unparsed(node.value)
        out.append(Field(node.target.id, kind, default, about))
    return out


def is_record(node: ast.ClassDef) -> bool:
    bases = {ast.unparse(base).split("[")[0] for base in node.bases}
    return "dataclass" in decorators(node) or "NamedTuple" in bases


def of_class(found: Found) -> str:
    node = found.node
    assert isinstance(node, ast.ClassDef)
    init = next((one for one in members(found) if _named(one, "__init__")), None)
    record = fields(found) if is_record(node) else []
    parts = []
    if isinstance(init, Function):
        parts.append(code(written(f"class {node.name}", arguments(init, method=True))))
    elif record:
        given = [
            f"{one.name}: {one.kind}" + (f" = {one.default}" if one.default else "")
            for one in record
        ]
        parts.append(code(written(f"class {node.name}", given)))
    elif any(
        "Error" in ast.unparse(base) or ast.unparse(base) == "Exception" for base in node.bases
    ):
        parts.append(code(written(f"class {node.name}", [ast.unparse(one) for one in node.bases])))
    else:
        parts.append(code(f"class {node.name}"))
    parts.append(markdown(ast.get_docstring(node) or ""))
    told = [one for one in record if one.about]
    if told:
        parts.append("**Fields**")
        parts.append("\n".join(f"- `{one.name}`: {one.about}" for one in told))
    methods = list(_methods(found))
    if methods:
        parts.append("**Methods and properties**")
        parts.append("\n".join(methods))
    return "\n\n".join(part for part in parts if part)


def _named(node: ast.stmt, name: str) -> bool:
    return isinstance(node, Function) and node.name == name


def _methods(found: Found) -> Iterator[str]:
    seen = set()
    for node in members(found):
        if not isinstance(node, Function) or node.name.startswith("_") or node.name in seen:
            continue
        seen.add(node.name)
        told = summary(ast.get_docstring(node))
        if "property" in decorators(node):
            yield f"- `{node.name}`" + (f": {told}" if told else "")
        elif told:
            names = [
                one.split(":")[0].split("=")[0].strip() for one in arguments(node, method=True)
            ]
            yield f"- `{node.name}({', '.join(names)})`: {told}"


def code(text: str) -> str:
    return f"```py\n{text}\n```"


def described(module: str, name: str) -> str:
    found = find(module, name)
    assert found is not None, f"{module}.{name}"
    if isinstance(found.node, ast.ClassDef):
        body = of_class(found)
    else:
        returns = f" -> {unparsed(found.node.returns)}" if found.node.returns else ""
        signature = written(name, arguments(found.node), returns)
        body = f"{code(signature)}\n\n{markdown(ast.get_docstring(found.node) or '')}"
    own_page = found.node.name in offpolicy._HOME and module == "estimators"
    if own_page and (file := _estimator_page(found.node)):
        body += f"\n\nMore: [its page](../estimators/{file})."
    return body


def _estimator_page(node: ast.ClassDef | Function) -> str | None:
    for one in getattr(node, "body", []):
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "name":
            file = f"{ast.literal_eval(one.value).lower()}.md"
            return file if (ROOT / "docs" / "estimators" / file).exists() else None
    return None


def page(title: str, parts: tuple[Part, ...]) -> str:
    out = [f"# {title}"]
    several = sum(bool(part.module) for part in parts) > 1
    for part in parts:
        if part.module:
            about = summary(ast.get_docstring(tree(part.module)))
            heading = f"`offpolicy.{part.module}`"
            out.append(f"## {heading}\n\n{about}" if several else f"{heading}: {about}")
        for name in part.names or public_names(part.module):
            out.append(f"{'###' if several else '##'} {name}\n\n{described(part.module, name)}")
    return "\n\n".join(out) + "\n"


def index() -> str:
    """Every name, with a line about it, and where it is described."""
    out = [
        "# API reference",
        "Every public name, from its docstring (`make reference`). Names without a module are "
        "`offpolicy.…`; symbols are those of [Concepts](../concepts.md).",
    ]
    for file, (title, parts) in PAGES.items():
        out.append(f"## [{title}]({file}.md)")
        rows = ["| name | |", "|---|---|"]
        for part in parts:
            for name in part.names or public_names(part.module):
                found = find(part.module, name)
                assert found is not None
                told = summary(ast.get_docstring(found.node)).replace("|", "\\|")
                top = not part.module or name in offpolicy._HOME
                full = name if top else f"{part.module}.{name}"
                rows.append(f"| [`{full}`]({file}.md#{name.lower()}) | {told} |")
        out.append("\n".join(rows))
    return "\n\n".join(out) + "\n"


def pages() -> dict[str, str]:
    """The text of every page, by its file name."""
    made = {f"{file}.md": page(title, parts) for file, (title, parts) in PAGES.items()}
    return {"index.md": index(), **made}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=PLACE)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        write_whole(out / name, text.encode())


if __name__ == "__main__":
    main()
