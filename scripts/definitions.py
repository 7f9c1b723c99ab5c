"""What the library defines, read from its sources without importing them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from docstrings import summary

import offpolicy

SOURCE = Path(__file__).parent.parent / "src" / "offpolicy"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Found:
    """A definition and the module that holds it."""

    module: str
    node: ast.ClassDef | Function


@cache
def tree(module: str) -> ast.Module:
    first, _, rest = module.partition(".")
    home = ".".join(filter(None, (offpolicy._MODULES.get(first, first), rest)))
    path = SOURCE.joinpath(*home.split(".")) if home else SOURCE
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
    ]


def bases(found: Found) -> Iterator[Found]:
    """The classes above, as far as they are the library's own."""
    assert isinstance(found.node, ast.ClassDef)
    for base in found.node.bases:
        name = base.value if isinstance(base, ast.Subscript) else base  # Base[Row] is Base
        above = find(found.module, name.id) if isinstance(name, ast.Name) else None
        if above is not None and isinstance(above.node, ast.ClassDef):
            yield above


def members(found: Found, apart: frozenset[str] = frozenset()) -> Iterator[ast.stmt]:
    """What a class defines, its own first, then what it inherits; not from those ``apart``."""
    yield from found.node.body
    for above in bases(found):
        if above.node.name not in apart:
            yield from members(above, apart)


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


class Field(NamedTuple):
    name: str
    kind: str
    default: str
    about: str
    keyword_only: bool = False


def fields(found: Found) -> list[Field]:
    """Of a dataclass or a NamedTuple: what it is made of, with the text below each.

    Inherited ones come first.
    """
    assert isinstance(found.node, ast.ClassDef)
    body = list(found.node.body)
    out = [one for above in bases(found) if is_record(above.node) for one in fields(above)]
    keyword_only = False
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        kind = unparsed(node.annotation)
        if kind == "KW_ONLY":
            keyword_only = True
            continue
        if kind.startswith("ClassVar") or node.target.id.startswith("_"):
            continue
        kind = kind.removeprefix("InitVar[").removesuffix("]") if "InitVar" in kind else kind
        settings = _settings(node.value)
        if settings.get("init") == "False":
            continue
        about = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            about = summary(str(after.value.value))
        default = "" if node.value is None else unparsed(node.value)
        if settings:
            made = settings.get("default_factory")
            default = f"{made}()" if made else settings.get("default", "")
        out.append(Field(node.target.id, kind, default, about, keyword_only))
    return out


def _settings(value: ast.expr | None) -> dict[str, str]:
    """What ``field(…)`` says of a field."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        return {str(one.arg): unparsed(one.value) for one in value.keywords}
    return {}


def is_property(node: Function) -> bool:
    return bool({"property", "cached_property"} & decorators(node))


def is_record(node: ast.ClassDef) -> bool:
    bases = {ast.unparse(base).split("[")[0] for base in node.bases}
    return "dataclass" in decorators(node) or "NamedTuple" in bases
