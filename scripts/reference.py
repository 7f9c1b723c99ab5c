"""The API reference, from the docstrings: docs/reference/*.md.

    python scripts/reference.py [--out docs/reference]

The sources are read, not imported, so the pages of optional parts (PyTorch) can be made without
what they need. tests/docs/test_api_reference.py compares the pages in the repository with what
this writes.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from definitions import (
    Field,
    Found,
    Function,
    arguments,
    bases,
    fields,
    find,
    is_property,
    is_record,
    members,
    public_names,
    tree,
    unparsed,
)
from docstrings import markdown, summary
from members import class_names

import offpolicy
from offpolicy._core.files import write_whole

ROOT = Path(__file__).parent.parent
PLACE = ROOT / "docs" / "reference"


class Part(NamedTuple):
    """Names under one heading, all of one module."""

    module: str
    names: tuple[str, ...] = ()
    """Without any: the module's ``__all__``, or else all that is public."""


PAGES: dict[str, tuple[str, tuple[Part, ...]]] = {
    "logs": ("Logs", (Part("", ("BanditLog", "Columns", "read_log", "LogScan")),)),
    "policies": (
        "Policies",
        (
            Part(
                "policies",
                (
                    "Policy",
                    "Uniform",
                    "Tabular",
                    "Softmax",
                    "EpsilonGreedy",
                    "Deterministic",
                    "Mixture",
                    "Classifier",
                    "MonteCarlo",
                ),
            ),
        ),
    ),
    "models": ("Models", (Part("", ("RewardModel", "PropensityModel")),)),
    "estimators": (
        "Estimators",
        (
            Part(
                "estimators",
                ("Estimator", *class_names(), "parse"),
            ),
        ),
    ),
    "evaluation": (
        "Evaluation",
        (
            Part("", ("evaluate", "Result", "Estimate", "Headline", "Tuned", "TrainedModel")),
            Part("", ("compare", "Comparison", "Difference")),
            Part("", ("sweep", "Curve")),
            Part("", ("check", "Report", "Finding")),
        ),
    ),
    "intervals": (
        "Intervals",
        (
            Part(
                "intervals",
                (
                    "Interval",
                    "normal_quantile",
                    "normal",
                    "student_t",
                    "hoeffding",
                    "bernstein",
                    "empirical_bernstein",
                    "t_quantile",
                ),
            ),
            Part("betting"),
            Part("bootstrap"),
        ),
    ),
    "simulation": (
        "Simulation",
        (Part("", ("simulate_bandit", "simulate_synthetic", "read_truth")),),
    ),
    "learning": (
        "Learning",
        (
            Part(
                "learning",
                (
                    "Trial",
                    "LearnedPolicy",
                    "Constant",
                    "LearnerCV",
                    "LinearSoftmax",
                    "Objective",
                    "FitReport",
                    "SoftmaxLearner",
                    "fit_together",
                    "how_learned",
                    "learn",
                    "load_policy",
                    "objective",
                    "save_policy",
                    "split",
                ),
            ),
        ),
    ),
    "torch": ("PyTorch", (Part("torch"),)),
    "ranking": (
        "Rankings",
        (
            Part(
                "ranking",
                (
                    "ClickModel",
                    "DependentClicks",
                    "LearnedRanker",
                    "Metric",
                    "PositionBased",
                    "Propensities",
                    "PropensitySVMRank",
                    "RankerCV",
                    "RankingColumns",
                    "RankingCurve",
                    "RankingLog",
                    "RankingResult",
                    "RelevanceModel",
                    "cascade",
                    "document_weights",
                    "estimate_propensities",
                    "evaluate",
                    "learn_ranker",
                    "pairwise_loss",
                    "simulate_clicks",
                    "sweep",
                    "tree_objective",
                    "true_value",
                ),
            ),
        ),
    ),
    "theory": ("Theory", (Part("theory"),)),
    "testing": ("Testing", (Part("testing"),)),
    "datasets": (
        "Data sets",
        (
            Part(
                "datasets",
                (
                    "Examples",
                    "Queries",
                    "cache_folder",
                    "data_folder",
                    "fetch",
                    "letor",
                    "load",
                    "open_bandit",
                    "open_bandit_file",
                    "ranking",
                ),
            ),
        ),
    ),
    "formats": (
        "Formats",
        tuple(Part(f"formats.{one}") for one in ("dsjson", "obp", "obd", "letor")),
    ),
    "errors": ("Errors", (Part("errors"),)),
}
INTERNAL = {
    "errors.did_you_mean",
    "formats.dsjson.Facts", "formats.dsjson.numbered_batches", "formats.dsjson.schema",
    "formats.obd.Facts", "formats.obd.columns_of", "theory.Member",
}  # fmt: skip
"""Public for other modules of the library only."""


def names_of(part: Part) -> tuple[str, ...]:
    """The names that a part describes."""
    given = part.names or public_names(part.module)
    return tuple(name for name in given if f"{part.module}.{name}" not in INTERNAL)


def written(name: str, given: list[str], returns: str = "") -> str:
    """A signature on one line, or with one argument on each."""
    line = f"{name}({', '.join(given)}){returns}"
    if len(line) <= 88:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in given), f"){returns}"])


def of_class(found: Found, described: frozenset[str]) -> str:
    node = found.node
    assert isinstance(node, ast.ClassDef)
    init = next((one for one in members(found) if _named(one, "__init__")), None)
    record = fields(found) if is_record(node) else []
    parts = []
    if any("Error" in base or base == "Exception" for base in map(ast.unparse, node.bases)):
        parts.append(code(written(f"class {node.name}", [ast.unparse(one) for one in node.bases])))
    elif isinstance(init, Function):
        parts.append(code(written(f"class {node.name}", arguments(init, method=True))))
    elif record:
        given = [_given(one) for one in record if not one.keyword_only]
        only = [_given(one) for one in record if one.keyword_only]
        given += ["*", *only] if only else []
        parts.append(code(written(f"class {node.name}", given)))
    else:
        parts.append(code(f"class {node.name}"))
    parts.append(markdown(ast.get_docstring(node) or ""))
    told = [one for one in record if one.about]
    if told:
        parts.append("**Fields**")
        parts.append("\n".join(f"- `{one.name}`: {one.about}" for one in told))
    methods = list(_methods(found, described))
    above = [
        f"[`{one.node.name}`](#{one.node.name.lower()})"
        for one in bases(found)
        if one.node.name in described and any(_methods(one, described))
    ]
    heading = "**Methods and properties**"
    if methods:
        parts += [heading, "\n".join([*methods, *(f"- those of {one}" for one in above)])]
    elif above:
        parts.append(f"{heading}: those of {', '.join(above)}.")
    return "\n\n".join(part for part in parts if part)


def _given(one: Field) -> str:
    return f"{one.name}: {one.kind}" + (f" = {one.default}" if one.default else "")


def _named(node: ast.stmt, name: str) -> bool:
    return isinstance(node, Function) and node.name == name


def _methods(found: Found, described: frozenset[str]) -> Iterator[str]:
    """Public ones, with their own words or those of what they override; bases that are
    ``described`` on the same page speak for themselves."""
    first: dict[str, Function] = {}
    told: dict[str, str] = {}
    for node in members(found, described):
        if isinstance(node, Function) and not node.name.startswith("_"):
            first.setdefault(node.name, node)
            told[node.name] = told.get(node.name) or summary(ast.get_docstring(node))
    for name, node in first.items():
        about = f": {told[name]}" if told[name] else ""
        if is_property(node):
            yield f"- `{name}`{about}"
        elif about:
            given = arguments(node, method=True)
            names = [one.split(":")[0].split("=")[0].strip() for one in given]
            yield f"- `{name}({', '.join(names)})`{about}"


def code(text: str) -> str:
    return f"```py\n{text}\n```"


def entry(module: str, name: str, described: frozenset[str]) -> str:
    found = find(module, name)
    assert found is not None, f"{module}.{name}"
    if isinstance(found.node, ast.ClassDef):
        body = of_class(found, described)
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


def heading(part: Part, name: str, parts: tuple[Part, ...]) -> str:
    """The name; where a page is about several modules, with its module."""
    several = len({one.module for one in parts}) > 1
    return f"{part.module.split('.')[-1]}.{name}" if several else name


def page(title: str, parts: tuple[Part, ...]) -> str:
    out = [f"# {title}"]
    several = len({part.module for part in parts}) > 1
    for part in parts:
        if part.module:
            about = summary(ast.get_docstring(tree(part.module)))
            module = f"`offpolicy.{part.module}`"
            out.append(f"## {module}\n\n{about}" if several else f"{module}: {about}")
        names = names_of(part)
        mark = "###" if several else "##"
        for name in names:
            out.append(f"{mark} {heading(part, name, parts)}")
            out.append(entry(part.module, name, frozenset(names)))
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
            for name in names_of(part):
                found = find(part.module, name)
                assert found is not None
                told = summary(ast.get_docstring(found.node)).replace("|", "\\|")
                top = not part.module or name in offpolicy._HOME
                full = name if top else f"{part.module}.{name}"
                anchor = heading(part, name, parts).replace(".", "").lower()
                rows.append(f"| [`{full}`]({file}.md#{anchor}) | {told} |")
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
