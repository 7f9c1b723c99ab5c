"""From the README to an evaluated A/B test, a deterministic policy and a rule: one command each, as
it stands there, and the right number."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from offpolicy.cli import cli
from tests.docs.test_docs import BLOCK, ROOT, commands, read

README = [
    shlex.split(command)[1:]
    for kind, text in BLOCK.findall(read(ROOT / "README.md"))
    if kind == "console"
    for command, _ in commands(text)
    if command.startswith("offpolicy ")
]
RULE = {True: "mens", False: "womens"}
"""The rule of the README: months < 5."""
WOULD_SEND = {
    ":always(mens)": lambda row: "mens",
    "targeted": lambda row: row["targeted"],
    "rule": lambda row: RULE[int(row["months"]) < 5],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the first command of the README has run."""
    folder = tmp_path_factory.mktemp("front")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert README[0] == ["demo"]
        assert CliRunner().invoke(cli, README[0]).exit_code == 0
    return folder


def test_a_command_for_each_task_and_no_edit():
    first, second = README[1:]
    said = [word for command in (first, second) for word in command if "=" in word or ":" in word]
    assert (first[0], second[0]) == ("evaluate", "compare")
    assert {word.partition("=")[0] for word in said} | {"targeted"} == set(WOULD_SEND)
    assert "targeted" in second


@pytest.mark.parametrize("command", README[1:], ids=lambda command: command[0])
def test_the_answers_are_the_means_of_the_rows_that_match(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(cli, [*command, "--format", "json"])
    assert done.exit_code == 0
    with Path("out/demo/emails.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    visit = np.array([int(row["visit"]) for row in rows])
    asked = [command[k + 1] for k, word in enumerate(command) if word == "--policy"]
    answers = json.loads(done.stdout)["headlines"]
    assert len(answers) == len(asked)
    for spec, answer in zip(asked, answers, strict=True):
        send = WOULD_SEND[spec if spec in WOULD_SEND else spec.partition("=")[0]]
        matched = visit[[send(row) == row["email"] for row in rows]]
        stderr = matched.std() / np.sqrt(len(matched))
        assert answer["value"] == pytest.approx(matched.mean(), abs=0.25 * stderr)
        width = answer["interval"][1] - answer["interval"][0]
        assert 0.85 < width / (2 * 1.96 * stderr) < 1.1
