"""The rooms: one tree in the source and in CONTRIBUTING, and no way around their doors."""

from __future__ import annotations

import re

import house
import pytest

CONTRIBUTING = (house.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_contributing_shows_the_tree():
    (shown,) = re.findall(r"```\noffpolicy/\n(.*?)```", CONTRIBUTING, re.DOTALL)
    entries = re.findall(r"^  (\w+)(/|\.py)", shown, re.MULTILINE)
    assert sorted(name for name, kind in entries if kind == "/") == sorted(house.rooms())
    assert {name for name, kind in entries if kind == ".py"} == house.LOOSE
    for room, line in re.findall(r"^  (\w+)/ +(.*(?:\n {8,}.*)*)", shown, re.MULTILINE):
        for inner in re.findall(r"(\w+)/", line):
            assert (house.SOURCE / room / inner).is_dir(), f"{room}/{inner}"


def test_there_are_no_other_loose_modules():
    assert {path.stem for path in house.SOURCE.glob("*.py")} == house.LOOSE


def test_every_room_says_what_lives_there():
    for path in house.files():
        if path.stem == "__init__":
            assert house.ast.get_docstring(house.tree(path)), path
            package = ".".join(path.parent.relative_to(house.SOURCE).parts)
            assert package in ("", "cli.rank") or house.exported(package), path


def test_a_room_imports_what_another_exports():
    assert [str(one) for one in house.imports() if house.foreign(one)] == []


@pytest.mark.parametrize("path", [path for path in house.files() if path.stem == "__init__"])
def test_doors_are_light(path):
    """Packages are imported by whoever needs one name of them."""
    heavy = {"numba", "sklearn", "pyarrow", "scipy", "duckdb", "matplotlib"}
    for node in house.tree(path).body:
        if isinstance(node, house.ast.Import | house.ast.ImportFrom):
            module = getattr(node, "module", None) or node.names[0].name
            assert module.split(".")[0] not in heavy, path


@pytest.mark.parametrize(("what", "most"), house.MOST.items())
def test_what_stood_many_times_stands_once(what, most):
    found = house.places(house.COUNTED[what])
    assert len(found) <= most, found


def test_refusals_are_told_by_class_and_place():
    """`refuses` says what is refused; matching is for where the words themselves are tested."""
    tests = sorted((house.ROOT / "tests").rglob("test_*.py"))
    by_words = [
        f"{path.name}:{number}"
        for path in tests
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "match" + "=" in line
    ]
    assert len(by_words) <= 50, by_words
