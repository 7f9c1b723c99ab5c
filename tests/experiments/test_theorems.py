"""The theorems and simulation agree, and both are shown."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from offpolicy.cli import cli
from offpolicy.experiments import theorems
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.saving import Report
from offpolicy.experiments.theorems import MEMBERS, Row, compare_with_simulation


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return compare_with_simulation(n=50_000, seed=0)


def test_simulation_agrees_with_the_theorems(rows):
    assert len(rows) == 3 * len(MEMBERS)
    assert max(abs(row.bias_z) for row in rows) < 4.5


def test_simulated_spread_agrees_with_the_theorems(rows):
    bounded = ("CAB", "CIPS", "SWITCH", "DRos", "DM")
    for row in rows:
        if row.member.startswith(bounded):
            assert row.simulated_deviation == pytest.approx(row.deviation, rel=0.1)


def test_simulation_is_reproducible():
    first, second = (compare_with_simulation(n=500, seed=3) for _ in range(2))
    assert first == second
    assert compare_with_simulation(n=500, seed=4) != first


def test_theorems_are_saved_as_they_are_shown(tmp_path):
    report = theorems.run(Cells(tmp_path / "cells"), n=500, seed=3)
    written = {path.name: path for path in report.save(tmp_path / "out")}
    assert set(written) == {"results.json", "table.md", "theorems.png"}
    assert {path.parent for path in written.values()} == {tmp_path / "out" / "theorems"}
    rows = [Row(**row) for row in json.loads(written["results.json"].read_text())]
    assert rows == compare_with_simulation(n=500, seed=3)
    worst = max(abs(row.bias_z) for row in rows)
    said = f"Largest |z| of the bias over {len(rows)} rows: {worst:.2f}."
    assert report.text.endswith(said)
    table = written["table.md"].read_text()
    assert said in table
    assert f"| {rows[0].problem} | {rows[0].member} | {rows[0].bias:.5f} |" in table
    assert written["theorems.png"].stat().st_size > 10_000


def test_without_matplotlib_there_is_no_picture(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    command = ["reproduce", "theorems", "--n", "100", "--out", str(tmp_path)]
    done = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert done.exit_code == 0
    assert {path.suffix for path in (tmp_path / "theorems").iterdir()} == {".json", ".md"}
    assert "For the pictures: pip install 'offpolicy[plot]'." in done.stderr


def test_quick_is_of_fewer_decisions(tmp_path, monkeypatch):
    asked = []

    def run(_, **settings):
        asked.append(settings)
        return Report("", {})

    monkeypatch.setattr(theorems, "run", run)
    for given in (["--n", "100"], []):
        command = ["reproduce", "theorems", "--quick", *given, "--out", str(tmp_path)]
        CliRunner().invoke(cli, command)
    assert asked == [{"n": 100, "seed": 0}, {"n": 50_000, "seed": 0}]
