"""The page with every figure and table of the paper."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from click.testing import CliRunner

from offpolicy.cli import cli
from offpolicy.experiments import page
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.page import ARTEFACTS, Artefact, html_of, make_all
from offpolicy.experiments.saving import Report
from tests.support.pages import Page


def text_of(markdown: str) -> str:
    return "".join(map(str, html_of(markdown)))


def test_tables_headings_and_paragraphs_are_shown():
    made = text_of("## A <b>\n\n| x | y |\n|---|---|\n| **1** | `a|` |\n\nOne\ntwo & three.")
    assert "<h3>A &lt;b&gt;</h3>" in made
    assert "<th>x</th><th>y</th>" in made
    assert "<td><strong>1</strong></td>" in made
    assert "<p>One two &amp; three.</p>" in made
    after = text_of("Words:\n| x |\n|---|\n| 1 |")
    assert after.index("Words:") < after.index("<table>")


def test_every_artefact_of_the_paper_has_its_verb_and_its_place_on_the_page():
    verbs = CliRunner().invoke(cli, ["reproduce", "--help"]).output
    names = [one.name for one in ARTEFACTS]
    assert names == ["theorems", "figure1", "figure2", "figure3", "table2", "figure4", "ours"]
    for name in names:
        assert f"  {name} " in verbs


@pytest.mark.parametrize("one", ARTEFACTS, ids=lambda one: one.name)
def test_what_the_page_asks_is_what_the_command_asks(one, tmp_path, monkeypatch):
    """Quick and in full: the same settings come from both, and are all that is needed."""
    asked = []
    for quick in (False, True):
        inspect.signature(one.run).bind(None, **one.settings_for(quick))

    def run(cells, **settings):
        asked.append(settings)
        return Report("", {"results.json": {}, "table.md": ""}, folder=one.name)

    module = {"ours": "learning.ours"}.get(one.name, one.name)
    monkeypatch.setattr(f"offpolicy.experiments.{module}.run", run)
    for quick in ([], ["--quick"]) if one.name != "ours" else ([],):
        command = ["reproduce", one.name, "--out", str(tmp_path), *quick]
        if one.name == "table2" and not quick:
            command.append("--readings")
        assert CliRunner().invoke(cli, command, catch_exceptions=False).exit_code == 0
        mine = one.settings_for(bool(quick))
        theirs = {key: value for key, value in asked[-1].items() if key in mine}
        assert theirs == mine


def made(name: str, text: str) -> Report:
    def picture(path: Path) -> None:
        path.write_bytes(b"not really a picture")

    files = {"results.json": {"of": name}, "table.md": text}
    return Report(text, files, {f"{name}.png": picture}, name)


def test_what_is_not_at_hand_is_left_out_and_named(data, tmp_path, monkeypatch):
    asked = {}

    def run(name):
        def artefact(cells, **settings):
            asked[name] = settings
            return made(name, f"## Claims\n\n| {name} |\n|---|\n| 1 |\n")

        return artefact

    monkeypatch.setattr(page, "ARTEFACTS", (
        Artefact("one", "Figure 1", "About.", run("one"), {"repeats": 9}, {"repeats": 2},
                 ("synthetic", "letter")),
        Artefact("two", "Figure 2", "About.", run("two"), {}, {}, ("letter", "MQ2008")),
    ))  # fmt: skip
    said: list[str] = []
    path = make_all(tmp_path, Cells(tmp_path / "cells"), True, said.append)
    assert asked == {"one": {"repeats": 2, "sets": ["synthetic"]}}
    assert said == ["Figure 1 …", "Figure 2: none of its data sets is at hand."]
    html = path.read_text(encoding="utf-8")
    shown = Page(html)
    assert "Left out, as not at hand: letter: " in shown.text
    assert "Left out, as not at hand: MQ2008: " in shown.text
    assert "Quick: few logs and runs" in shown.text
    assert shown.text.count("Figure 1") >= 1
    assert "data:image/png;base64,bm90IHJlYWxseSBhIHBpY3R1cmU=" in html
    assert (tmp_path / "one" / "table.md").is_file()
    assert not (tmp_path / "two").exists()
