"""Table 2: what the paper says of it, the tables, the picture, and the command."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from click.testing import CliRunner

from offpolicy.cli import cli
from offpolicy.errors import ParameterError
from offpolicy.experiments import figure4, page, table2
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import FAILS, HOLDS
from offpolicy.experiments.learning.readings import CLOSEST, READINGS, TEXT
from offpolicy.experiments.learning.search import candidates, runs_of
from offpolicy.experiments.learning.setup import ESTIMATORS, Condition
from tests.support.experiments import learned_runs, ranked_run, searched
from tests.support.refusals import refuses

KEPT = Path(__file__).parents[2] / "measured" / "paper"
needs_data = pytest.mark.skipif(
    not os.environ.get("OFFPOLICY_DATA"), reason="OFFPOLICY_DATA is not set"
)


def paper(data):
    return dict(zip(ESTIMATORS, table2.PAPER[data], strict=True))


def ranked(runs=3, **change):
    return [ranked_run(run, 1.0, **change) for run in range(runs)]


# -- claims ------------------------------------------------------------------------------------


def test_the_paper_s_own_figures_pass_its_claims():
    """But for CAB-DR, and one more tenth, nothing that it says is against its own table."""
    own = {
        (statement.text, data): statement.of_the_paper(data)
        for statement in table2.STATEMENTS
        for data in (["Yahoo"] if statement.of_ranks else statement.sets)
    }
    assert all(own.values())
    assert len(own) == 12 + 2
    assert table2.STATEMENTS[0].of_the_paper("another set") is None


def test_the_paper_s_own_figures_could_be_against_it(monkeypatch):
    monkeypatch.setattr(table2, "YAHOO", table2.YAHOO | {"CAB": 11.5})
    monkeypatch.setitem(table2.PAPER, "letter", (0.5,) * 7)
    assert [one.of_the_paper("letter") for one in table2.STATEMENTS] == [
        True, True, False, False, False, False,
    ]  # fmt: skip


def test_claims_can_come_out_either_way():
    def verdicts(errors, data="letter"):
        rows = table2.judged({"text": learned_runs(data, errors)})
        return [row.judged.verdict for row in rows]

    assert verdicts(paper("letter")) == [HOLDS, HOLDS, HOLDS]
    turned = paper("letter") | {"CAB": 0.9, "IPS": 0.574}
    assert verdicts(turned) == [FAILS, FAILS, FAILS]
    # On satimage cIPS is the one in bold.
    assert verdicts(paper("satimage"), "satimage")[-1] == HOLDS
    assert verdicts(paper("satimage") | {"CIPS": 0.3}, "satimage")[-1] == FAILS
    assert len(verdicts(paper("letter"), "another set")) == 4


def test_claims_on_rankings_can_come_out_either_way():
    """A tenth of what all judgements gain over the logger: of four ranks, from 15 to 11."""

    def verdicts(**change):
        return [row.judged.verdict for row in table2.judged({}, ranked(**change))]

    assert verdicts() == [HOLDS, HOLDS]
    assert verdicts(SB=11.1) == [HOLDS, FAILS]  # CAB has 11.4
    assert verdicts(SB=10.9) == [FAILS, FAILS]
    row = table2.judged({}, ranked(SB=11.0))[1]
    assert (row.data, row.reading, row.paper) == ("a set, y ≥ 1", "text", True)
    assert str(row.judged).startswith("fails: CAB − SB 0.1 [")


def test_every_statement_is_tested_here():
    assert [one.of_ranks for one in table2.STATEMENTS] == [False] * 4 + [True] * 2
    said = {
        row.claim
        for data in table2.PAPER
        for row in table2.judged({"text": learned_runs(data, paper(data))}, ranked())
    }
    assert said == {one.text for one in table2.STATEMENTS}


# -- tables ------------------------------------------------------------------------------------


def test_tables_hold_means_and_the_paper_s_figures():
    runs = learned_runs("letter", paper("letter"))
    by_reading = {"text": runs, "λ by IPS": runs[:1]}
    text = table2.main_table(by_reading, ranked())
    mean = np.mean([one.errors["DM"] for one in runs])
    lines = text.splitlines()
    assert lines[0] == "| objective | reading | letter | a set, y ≥ 1 | Yahoo! LTR |"
    assert lines[2:5] == [
        "| **DM** | the paper | 0.6372 | – | 11.25 |",
        f"|  | text | {mean:.4f} ± 0.0001 | 11.91 ± 0.01 | – |",
        f"|  | λ by IPS | {runs[0].errors['DM']:.4f} | – | – |",
    ]
    assert "| **SWITCH** | the paper | – | – | 10.95 |" in lines
    assert "| the logger |  | 0.5000 ± 0.0000 | 15.00 ± 0.00 | – |" in lines
    assert "| all judgements |  | – | 11.01 ± 0.01 | – |" in lines
    assert "± nan" not in text
    rows = table2.judged(by_reading)
    claims = table2.claims_table(rows, list(by_reading))
    assert "| letter | holds: CAB/CAB-DR" in claims
    assert "1/0/1 | so |" in claims
    assert "CAB < IPS (1)" in table2.orders_table({"text": runs})
    assert "| text | logger and" not in table2.readings_table(by_reading)
    assert "| letter 4 |" in table2.readings_table(by_reading)
    assert f"| DM | text | {mean:.4f} ± " in table2.error_table({"text": runs})


def test_what_is_lost_by_choosing_is_shown():
    text = table2.lost_table(ranked(lost={"SWITCH": 0.25}))
    assert "| a set, y ≥ 1 | 0.00 (0.00) | 0.00 (0.00) | 0.00 (0.00) | 0.00 (0.00) | 0.25 " in text
    assert text.endswith("| 11.00 ± 0.00 | 11.00 ± 0.00 |")


def test_what_is_reached_at_each_penalty():
    """The least error over M and τ; and what the validation log says of IPS."""
    n = len(candidates())
    found = searched(np.full(n, 0.75), error=np.linspace(0.9, 0.1, n), way=TEXT)
    lines = table2.penalty_table([found], "letter").splitlines()
    assert len(lines) == 2 + len(table2.PENALTIES)
    for l2, line in zip(table2.PENALTIES, lines[2:], strict=True):
        least = [
            min(found.error[k] for k, one in enumerate(candidates())
                if (one.estimator, one.l2) == (name, l2))
            for name in ESTIMATORS
        ]  # fmt: skip
        told = " | ".join(f"{value:.3f}" for value in least)
        assert line == f"| text | {l2:g} | {told} | 1.00 | 0.75 | 1 |"


def test_a_way_is_learned_once_for_all_its_readings():
    cells = Mock()
    runs_of(cells, [Condition(data, run) for run in range(5) for data in "ab"], READINGS)
    wanted = cells.within.return_value.all.call_args.args[2]
    assert len(wanted) == len(set(wanted))
    count = {reading.name: sum(way == reading.way for _, way in wanted) for reading in READINGS}
    assert set(count.values()) == {2 * 5}
    assert len(wanted) == (len(READINGS) - 1) * 2 * 5  # λ by IPS is a choice, not a way
    assert wanted[0] == (Condition("a", 0), TEXT)


def made_report(runs):
    n, rng = len(candidates()), np.random.default_rng(0)
    found = [
        searched(rng.random(n), error=rng.random(n), way=way, condition=Condition(data, run))
        for way in (CLOSEST[0].way, CLOSEST[2].way)
        for run in range(2)
        for data in ("satimage", "letter")
    ]
    return table2.report_of(found, runs)


def test_everything_is_written(tmp_path):
    written = {path.name: path for path in made_report(ranked()).save(tmp_path)}
    assert set(written) == {"results.json", "table.md", "table2.png"}
    assert {path.parent.name for path in written.values()} == {"table2"}
    assert written["table2.png"].stat().st_size > 10_000
    text = written["table.md"].read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Table 2", "## Claims", "## Readings", "## Orders", "## All readings", "## letter",
        "## Ranks lost by choosing",
    ]  # fmt: skip
    assert "| objective | reading | letter | satimage | a set, y ≥ 1 | Yahoo! LTR |" in text
    body = json.loads(written["results.json"].read_text())
    assert body["schema"] == table2.SCHEMA
    assert list(body["runs"]) == ["text", "λ by IPS", "standardised"]
    assert len(body["ranked"]) == 3


def test_rankings_or_labelled_sets_alone(tmp_path):
    alone = table2.report_of([], ranked())
    assert "## Readings" not in alone.text
    assert "|  | text | 11.91 ± 0.01 | – |" in alone.text
    assert alone.save(tmp_path)[-1].stat().st_size > 10_000
    assert "Yahoo! LTR" not in made_report([]).text
    assert table2.report_of([]).pictures == {}


def test_without_matplotlib_there_is_no_picture(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert [path.name for path in made_report(ranked()).save(tmp_path)] == [
        "results.json",
        "table.md",
    ]


# -- the command, and what it keeps ------------------------------------------------------------


def test_the_command_goes_on_where_it_was(clouds, letor, few_candidates, tmp_path):
    command = ["reproduce", "table2", "--datasets", "clouds,MQ2008", "--runs", "2"]
    command += ["--out", str(tmp_path)]
    first = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert first.exit_code == 0
    assert "| **CAB-DR** | the paper | – | – | – | – |" in first.stdout
    learned = sorted((tmp_path / "cells" / "learned").glob("*.json"))
    ranked = sorted((tmp_path / "cells" / "ranked").glob("*.json"))
    assert len(learned) == 4  # two runs, raw and standardised
    assert len(ranked) == 4  # two runs, two readings of what is relevant
    names = ("results.json", "table.md", "table2.png")
    before = {name: (tmp_path / "table2" / name).read_bytes() for name in names}
    learned[0].unlink()
    ranked[0].unlink()
    stamps = [path.stat().st_mtime_ns for path in (*learned[1:], *ranked[1:])]
    again = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert again.stdout == first.stdout
    assert [path.stat().st_mtime_ns for path in (*learned[1:], *ranked[1:])] == stamps
    assert {name: (tmp_path / "table2" / name).read_bytes() for name in names} == before
    only = CliRunner().invoke(cli, [*command, "--readings", "--kept"], catch_exceptions=False)
    assert only.stdout == first.stdout
    command[command.index("--runs") + 1] = "1"
    quick = CliRunner().invoke(cli, [*command, "--quick", "--kept"], catch_exceptions=False)
    assert quick.stdout != first.stdout
    assert len(json.loads((tmp_path / "table2" / "results.json").read_text())["ranked"]) == 2


def test_nothing_is_made_of_what_is_not_there(clouds, tmp_path):
    command = ["reproduce", "table2", "--datasets", "clouds", "--kept", "--out", str(tmp_path)]
    with refuses(ParameterError, "kept"):
        CliRunner().invoke(cli, command, catch_exceptions=False)
    assert not list(tmp_path.glob("table2"))


@needs_data
def test_the_tables_are_made_from_the_cells():
    """`make paper` with --kept writes the same again."""
    cells = Cells(KEPT / "cells", only_kept=True)
    sets = (*page.LABELLED, *page.RANKINGS)
    made = table2.run(cells, sets, 10, readings=True)
    assert made.files["table.md"] == (KEPT / "table2" / "table.md").read_text(encoding="utf-8")
    drawn = figure4.run(cells, (figure4.DATA, *page.RANKINGS), 10)
    assert drawn.files["table.md"] == (KEPT / "figure4" / "table.md").read_text(encoding="utf-8")
