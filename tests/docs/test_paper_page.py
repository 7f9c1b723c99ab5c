"""The page about the paper leads to what there is: functions, commands, tests, anchors."""

from __future__ import annotations

import re
from pathlib import Path

import paper_page
import pytest
from click.testing import CliRunner

import offpolicy as op
from offpolicy.cli import cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
TABLES = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
TESTS = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py"))


LONG = {("figure3", "Open Bandit logs, every estimate")}


def test_functions_are_there():
    names = re.findall(r"`(?:op\.)([A-Za-z_.]+)", TABLES)
    assert len(names) > 10
    for name in names:
        found: object = op
        for part in name.split("."):
            found = getattr(found, part)


def test_functions_of_theory_are_there():
    for line in TABLES.splitlines():
        if "of `op.theory`" in line:
            for name in re.findall(r"`(\w+)`[,`a-z_ ]*(?=.*of `op.theory`)", line):
                assert hasattr(op.theory, name), name


def test_tests_are_there():
    for name in re.findall(r"`(test_\w+)`", TABLES):
        assert f"def {name}(" in TESTS, name
    for path in re.findall(r"`(tests/[\w/]+\.py)`", TABLES):
        assert (ROOT / path).is_file(), path


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`(offpolicy [\w -]+?)`", TABLES))))
def test_commands_are_there(command):
    outcome = CliRunner().invoke(cli, [*command.split()[1:], "--help"])
    assert outcome.exit_code == 0, outcome.output


def test_links_and_anchors_are_there():
    for target, anchor in re.findall(r"\]\(([\w/-]*(?:\.md)?)(?:#([\w-]+))?\)", PAGE):
        page = ROOT / "docs" / target if target else ROOT / "docs" / "paper.md"
        assert page.is_file(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = [re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads]
            assert anchor in slugs, (target, anchor, slugs)


@pytest.mark.parametrize("path", paper_page.PAGES, ids=lambda path: path.name)
def test_every_table_is_what_the_command_wrote(path):
    text = path.read_text(encoding="utf-8")
    assert paper_page.MARK.search(text)
    assert paper_page.page(text) == text, "python scripts/paper_page.py"


def test_every_section_that_a_command_writes_is_on_a_page():
    """But for those that are too long for one."""
    text = "".join(path.read_text(encoding="utf-8") for path in paper_page.PAGES)
    shown = {mark.group(1, 2) for mark in paper_page.MARK.finditer(text)}
    for path in paper_page.KEPT.glob("*/table.md"):
        for heading in re.findall(r"^## (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            if (path.parent.name, heading) not in LONG:
                assert (path.parent.name, heading) in shown, (path, heading)
