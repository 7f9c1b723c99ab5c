"""Writes what follows from the classes of the estimators: exports, tables and menu of the docs.

    python scripts/members.py [--check]

With --check, nothing is written, and what would be is named. `make members` runs it, draws the
pictures and makes the reference anew.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from offpolicy.estimators import ICE, NAMED, Estimator

ROOT = Path(__file__).parent.parent
OTHERS = ("GRID", "NAMED", "Estimator", "as_estimator", "choose_estimators", "parse")
WORDS = {"nothing": "0", "all": "π", "share": "(1 − τ)·π"}
LEFT = {"0": "1", "c": "Σ π·1{π₀ = 0}: what the log does not support"}


def class_names() -> list[str]:
    return [kind.__name__ for kind in (*NAMED.values(), ICE)]


def sorted_as_ruff(names: list[str]) -> list[str]:
    """Constants, then classes, then functions."""
    return sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name))


def listed(names: list[str], indent: str) -> str:
    """Names in quotation marks, in lines of at most 100 characters."""
    lines, line = [], indent
    for name in names:
        piece = f'"{name}",'
        if len(line) + len(piece) + 1 > 100:
            lines.append(line.rstrip())
            line = indent
        line += f"{piece} "
    return "\n".join([*lines, line.rstrip()])


def room(text: str) -> str:
    """`estimators/__init__.py`."""
    names = sorted_as_ruff([*class_names(), *OTHERS])
    imported = "".join(f"    {name},\n" for name in names if name != "choose_estimators")
    text = re.sub(
        r"(from offpolicy\.estimators\._named import \(\n).*?(\)\n)",
        lambda found: found[1] + imported + found[2], text, flags=re.S,
    )  # fmt: skip
    exported = listed(sorted_as_ruff([*names, "theory", "weights"]), "    ")
    return re.sub(
        r"__all__ = \[\n.*?\n\]", lambda _: f"__all__ = [\n{exported}\n]", text, flags=re.S
    )


def front_door(text: str) -> str:
    """`offpolicy/__init__.py`: where names live, and their imports for type checkers."""
    homes = "".join(
        f'    "{name}": "estimators",\n' for name in (*class_names(), "Estimator", "parse")
    )
    text = re.sub(r'(    "\w+": "estimators",\n)+', homes, text, count=1)
    names = sorted_as_ruff([*class_names(), "Estimator", "parse", "theory"])
    imported = "".join(f"        {name},\n" for name in names)
    return re.sub(
        r"(    from offpolicy\.estimators import \(\n).*?(    \)\n)",
        lambda found: found[1] + imported + found[2], text, count=1, flags=re.S,
    )  # fmt: skip


def page(kind: type[Estimator]) -> str:
    return f"estimators/{kind.name.lower()}.md"


def menu(text: str) -> str:
    """The navigation in `mkdocs.yml`."""
    lines = "".join(f"      - {kind.name}: {page(kind)}\n" for kind in NAMED.values())
    return re.sub(r"(      - [\w-]+: estimators/[\w-]+\.md\n)+", lines, text, count=1)


def imputed(kind: type[Estimator]) -> str:
    """What is multiplied with the model, in words."""
    return WORDS.get(kind.imputes) or f"max(π − π₀·{parts(kind.formula)}, 0)"


def parts(formula: str) -> str:
    return f"[{formula}]" if " " in formula and not formula.endswith(")") else formula


def masses(text: str) -> str:
    """The table of the family in `docs/estimators.md`."""
    rows = []
    for kind in NAMED.values():
        name = kind.name + (f"({kind.parameter_name})" if kind.parameter_name else "")
        control = "0"
        if kind.imputes == "all" and kind.formula != "0":
            control = f"−{kind.formula}"
        needs = ("propensity", "logging", "policy", "prediction")
        needed = [column for column in needs if column in kind.needs]
        if "logging" in needed:
            needed.remove("propensity")
        rows.append(
            f"| [{name}]({page(kind)}) | {imputed(kind)} | {kind.formula} | {control} "
            f"| {', '.join(needed)} |\n"
        )
    return re.sub(
        r"(\| name \| imputed.*?\n\|---.*?\n)(\|.*\n)+",
        lambda found: found[1] + "".join(rows), text, count=1,
    )  # fmt: skip


def left(text: str) -> str:
    """The table of the imputed mass in `docs/estimators.md`."""
    groups: dict[str, list[str]] = {}
    for kind in NAMED.values():
        groups.setdefault(kind.formula.removesuffix(" / mean of c"), []).append(kind.name)
    rows = [
        f"| {', '.join(names)} | {LEFT.get(formula) or f'Σ max(π − π₀·{parts(formula)}, 0)'} |\n"
        for formula, names in groups.items()
    ]
    return re.sub(
        r"(\| estimator \| per decision \|\n\|---.*?\n)(\|.*\n)+",
        lambda found: found[1] + "".join(rows), text, count=1,
    )  # fmt: skip


WRITTEN = {
    "src/offpolicy/estimators/__init__.py": (room,),
    "src/offpolicy/__init__.py": (front_door,),
    "mkdocs.yml": (menu,),
    "docs/estimators.md": (masses, left),
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    changed = []
    for name, writers in WRITTEN.items():
        before = text = (ROOT / name).read_text(encoding="utf-8")
        for writer in writers:
            text = writer(text)
        if text != before:
            changed.append(name)
            if not check:
                (ROOT / name).write_text(text, encoding="utf-8")
    print("\n".join(changed))
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
