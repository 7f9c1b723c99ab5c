"""Figure 4: what the paper says of each of its panels, the picture, and the command."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from offpolicy.cli import cli
from offpolicy.experiments import figure4
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import FAILS, HOLDS, OPEN
from offpolicy.experiments.learning.setup import Condition
from tests.support.experiments import figure_runs, ranked_run

OF_RANKS = "sweeps of a set"


def ranked_runs(runs=3, **change):
    return [ranked_run(run, sweeps, **change) for run in range(runs) for sweeps in (0.5, 1.0, 5.0)]


def verdicts(panel, runs, ranked=()):
    """Of a panel, by how the claim begins."""
    rows = figure4.judged(figure4.panels_of(runs, ranked))
    return {row.claim.split(" (")[0]: row.judged.verdict for row in rows if row.panel == panel}


# -- claims ------------------------------------------------------------------------------------


def test_claims_on_the_amount_of_data_can_come_out_either_way():
    falling, rising = (
        verdicts("decisions", figure_runs(slope, gap)) for slope, gap in ((-0.1, 0.3), (0.1, -0.3))
    )
    assert len(falling) == 7
    assert falling.pop("CAB leads IPS, cIPS and DR by more at the smallest n than at the last")
    assert falling.pop("CAB-DR leads IPS, cIPS and DR by more at the smallest n than at the last")
    assert set(falling.values()) == {HOLDS}
    assert {rising[claim] for claim in falling} == {FAILS}


@pytest.mark.parametrize("name", ["CAB", "CAB-DR"])
def test_the_lead_at_the_smallest_n_can_grow_or_shrink(name):
    claim = f"{name} leads IPS, cIPS and DR by more at the smallest n than at the last"

    def with_lead(power):
        runs = figure_runs(-0.1)
        for one in runs:
            one.errors[name] *= one.condition.n**power
        return verdicts("decisions", runs)[claim]

    assert (with_lead(0.1), with_lead(-0.1)) == (HOLDS, FAILS)


def test_claims_on_the_reward_model_can_come_out_either_way():
    panel = "share that trains the reward model"
    good = verdicts(panel, figure_runs(-0.1, 0.3, of_model=-0.1))
    assert len(good) == 4
    assert set(good.values()) == {HOLDS}
    bad = figure_runs(-0.1, -0.3, of_model=0.1)
    for one in bad:
        for name in ("IPS", "CIPS"):
            one.errors[name] *= one.condition.model_share**0.3
    assert set(verdicts(panel, bad).values()) == {FAILS}


def test_claims_on_the_logger_can_come_out_either_way():
    panel = "share that trains the logger"
    good = verdicts(panel, figure_runs(-0.1, 0.3, of_logger=-0.1))
    assert len(good) == 4
    assert set(good.values()) == {HOLDS}
    bad = figure_runs(-0.1, -0.3, of_logger=0.1)
    for one in bad:
        one.errors["DM"] *= one.condition.logger_share**0.3
    assert set(verdicts(panel, bad).values()) == {FAILS}


GROWS = "performance improves for all estimators as the amount of data grows"

WELL = "CAB performs very well for all amounts"
OVER_IPS = "CAB improves substantially over IPS and cIPS at the fewest sweeps"
SWITCH = "CAB performs better than SWITCH in the ranking setting"
STABLE = "model selection during learning may be more stable for CAB than for SWITCH"


@pytest.mark.parametrize(
    ("claim", "bad"),
    [
        (WELL, {"SB": 10.0}),
        (OVER_IPS, {"CIPS": 11.6}),
        (SWITCH, {"SWITCH": 10.0}),
        (STABLE, {"lost": {"CAB": 0.5}}),
    ],
)
def test_claims_on_rankings_can_come_out_either_way(claim, bad):
    good = verdicts(OF_RANKS, [], ranked_runs(lost={"SWITCH": 0.5}))
    assert len(good) == 5
    assert good[claim] == HOLDS
    assert verdicts(OF_RANKS, [], ranked_runs(**bad))[claim] == FAILS


def test_performance_on_rankings_can_fail_to_improve():
    worse = [
        ranked_run(run, sweeps, SB=12.0 + 0.1 * sweeps)
        for run in range(3)
        for sweeps in (0.5, 1.0, 5.0)
    ]
    assert verdicts(OF_RANKS, [], ranked_runs(DM=12.0))[GROWS] == HOLDS
    assert verdicts(OF_RANKS, [], worse)[GROWS] == FAILS


def test_one_run_cannot_tell():
    assert set(verdicts(OF_RANKS, [], ranked_runs(1)).values()) == {OPEN}


# -- panels ------------------------------------------------------------------------------------


def test_panels_are_of_whole_runs():
    """A run that stopped in the middle of a panel is not compared."""
    runs = figure_runs(-0.1)
    assert len(figure4.panel_of(runs, "decisions")[500]["CAB"]) == 3
    part = [one for one in runs if one.condition != Condition("pendigits", 2, n=500)]
    assert len(figure4.panel_of(part, "decisions")[5000]["CAB"]) == 2
    assert figure4.panel_of(part[:1], "decisions") == {}
    assert figure4.panels_of(part[:1], []) == {}
    assert figure4.judged({}) == []


def test_panels_of_rankings_are_of_whole_runs():
    """Of the first amount there is a run more."""
    part = [*ranked_runs(2), ranked_run(2, 0.5)]
    ((name, by_reading),) = figure4.panels_of([], part).items()
    assert (name, list(by_reading)) == (OF_RANKS, ["y ≥ 1"])
    assert {len(ranks["CAB"]) for ranks in by_reading["y ≥ 1"].values()} == {2}
    assert len(figure4.judged({name: by_reading})) == 5
    apart = [ranked_run(0, 0.5), ranked_run(1, 1.0)]
    assert figure4.panels_of([], apart) == {}


def test_panels_are_in_the_paper_s_order():
    panels = figure4.panels_of(figure_runs(-0.1), ranked_runs())
    names = list(panels)
    assert names == ["decisions", OF_RANKS, "share that trains the reward model",
                     "share that trains the logger"]  # fmt: skip
    assert list(panels[OF_RANKS]["y ≥ 1"]) == [0.5, 1.0, 5.0]
    assert list(panels["decisions"]) == ["text"]


# -- files -------------------------------------------------------------------------------------


def test_the_picture_is_written(tmp_path):
    path = tmp_path / "figure4.png"
    panels = figure4.panels_of(figure_runs(-0.1), ranked_runs())
    figure4.draw({name: next(iter(by.items())) for name, by in panels.items()}, path)
    assert path.stat().st_size > 10_000


def test_the_tables_hold_means():
    panels = figure4.panels_of(figure_runs(-0.1), ranked_runs())
    table = figure4.panel_table("decisions", "text", panels["decisions"]["text"])
    assert table.startswith("| decisions (text) | DM | DR | IPS | cIPS | SB | CAB | CAB-DR |")
    assert f"| 500 | {np.exp(-1):.4f} ± 0.0000 |" in table
    table = figure4.panel_table(OF_RANKS, "y ≥ 1", panels[OF_RANKS]["y ≥ 1"])
    assert "| 0.5 | 11.96 ± 0.01 | " in table
    assert table.rstrip().endswith("| 11.01 ± 0.01 |")
    assert "| all judgements |" in table
    assert figure4.claims_table([]) == "No run has all values of a panel yet."


def short_panels(monkeypatch):
    monkeypatch.setattr(figure4, "DATA", "clouds")
    monkeypatch.setattr(figure4, "PANELS", {
        "decisions": ("n", (100, 200, 300)),
        "share that trains the reward model": ("model_share", (0.05, 0.1, 0.2)),
        "share that trains the logger": ("logger_share", (0.1, 0.2, 0.3)),
    })  # fmt: skip


def test_the_command_goes_on_where_it_was(clouds, letor, few_candidates, tmp_path, monkeypatch):
    short_panels(monkeypatch)
    monkeypatch.setattr(figure4, "SWEEPS", (0.5, 2.0))
    command = ["reproduce", "figure4", "--datasets", "clouds,MQ2008", "--runs", "1"]
    command += ["--out", str(tmp_path)]
    first = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert first.exit_code == 0
    learned = sorted((tmp_path / "cells" / "learned").glob("*.json"))
    ranked = sorted((tmp_path / "cells" / "ranked").glob("*.json"))
    assert len(learned) == 14  # by two ways; the middle of all three panels is one run
    assert len(ranked) == 4
    folder = tmp_path / "figure4"
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(whole) == {"results.json", "table.md", "figure4.png", "figure4_others.png"}
    names = [
        "decisions (text)", "decisions (standardised)", "sweeps of MQ2008 (y ≥ 1)",
        "sweeps of MQ2008 (y ≥ 2)", "share that trains the reward model (text)",
    ]  # fmt: skip
    for name in names:
        assert f"\n| {name} | DM | " in first.stdout
    learned[0].unlink()
    ranked[0].unlink()
    stamps = [path.stat().st_mtime_ns for path in (*learned[1:], *ranked[1:])]
    again = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert again.stdout == first.stdout
    assert [path.stat().st_mtime_ns for path in (*learned[1:], *ranked[1:])] == stamps
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out = str(tmp_path / "other")
    command[-1] = out
    (tmp_path / "other").mkdir()
    (tmp_path / "cells").rename(tmp_path / "other" / "cells")
    quick = CliRunner().invoke(cli, [*command, "--quick", "--kept"], catch_exceptions=False)
    assert quick.exit_code == 0
    assert {path.name for path in (tmp_path / "other" / "figure4").iterdir()} == {
        "results.json", "table.md",
    }  # fmt: skip
    body = json.loads((tmp_path / "other" / "figure4" / "results.json").read_text())
    assert len(body["runs"]) == 6  # the first and the last of each panel
    assert len(body["ranked"]) == 2  # the first amount


def test_of_other_sets_there_is_nothing(tmp_path):
    report = figure4.run(Cells(tmp_path), ["letter"], 1)
    assert "No run has all values of a panel yet." in report.text
    assert report.pictures == {}


def test_claims_are_counted_over_readings():
    runs = figure_runs(-0.1, 0.3)
    rising = [replace(one, recipe="standardised") for one in figure_runs(0.1, -0.3)]
    table = figure4.claims_table(figure4.judged(figure4.panels_of([*runs, *rising], [])))
    row = next(line for line in table.splitlines() if "performance improves" in line)
    assert "| holds: " in row
    assert "; 1/1/0 | 3 |" in row


def test_a_trend_is_that_of_least_squares():
    rng = np.random.default_rng(0)
    panel = {x: {"CAB": rng.random(4)} for x in (1.0, 3.0, 10.0)}
    found = figure4._trend(panel, "CAB")
    for run in range(4):
        y = [np.log(errors["CAB"][run]) for errors in panel.values()]
        slope = np.polyfit(np.log(list(panel)), y, 1)[0]
        assert found[run] == pytest.approx(slope * np.log(10.0))
