"""Figure 3: what the paper says of it, its tables, and its command."""

from __future__ import annotations

import csv
import json
import math
import os
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from offpolicy.cli import cli
from offpolicy.errors import DatasetError
from offpolicy.experiments import figure3
from offpolicy.experiments.claims import FAILS, HOLDS
from offpolicy.experiments.figure3 import CHOSEN, METHODS, Panel, claims_of, errors_markdown
from offpolicy.experiments.real.converged import GRID
from tests.support.refusals import refuses

LENGTH = dict.fromkeys(("DM", "IPS", "DR", *CHOSEN.values()), 1)


def made_panel(runs: int = 6, **errors: float | np.ndarray) -> Panel:
    """Errors of one size in every run, with both signs: 1 but for those given."""
    sizes = dict.fromkeys((*METHODS, *CHOSEN.values()), 1.0)
    sizes |= {name.replace("_", "-"): size for name, size in errors.items()}
    signs = np.where(np.arange(runs) % 2, -1.0, 1.0)
    made = {
        name: np.outer(signs, np.broadcast_to(size, LENGTH.get(name, len(GRID.M))))
        for name, size in sizes.items()
    }
    return Panel("here", "so", made, 0.95, 0)


def verdicts(panel: Panel) -> list[str]:
    return [row.judged.verdict for row in claims_of(panel)]


def share(count: int, low: float = 0.4, high: float = 3.0) -> np.ndarray:
    """A small error at so many values of M, a large one at the others."""
    return np.where(np.arange(len(GRID.M)) < count, low, high)


# -- claims ----------------------------------------------------------------------------------------


def test_claims_can_come_out_either_way():
    as_said = made_panel(CAB=share(30), SWITCH=share(30), IPS=2.0, SB=2.0)
    assert verdicts(as_said) == [HOLDS] * 6
    turned = made_panel(CAB=share(5), SWITCH=share(5), IPS=0.7, SB=0.7)
    assert verdicts(turned) == [FAILS] * 6


@pytest.mark.parametrize(("count", "verdict"), [(21, HOLDS), (20, FAILS)])
def test_the_majority_is_more_than_half_of_the_values_of_M(count, verdict):
    """41 values: 21 are a majority, 20 are not."""
    first = claims_of(made_panel(CAB=share(count)))[0]
    assert first.claim.startswith("for the majority of the values of M (more than 50% of the grid)")
    assert first.judged.verdict == verdict
    assert first.judged.mean == pytest.approx(1 - count / 41)


@pytest.mark.parametrize(("count", "verdict"), [(14, HOLDS), (13, FAILS)])
def test_a_large_range_is_a_third(count, verdict):
    row = claims_of(made_panel(CAB=share(count)))[4]
    assert "for a large range of M (33% of the grid or more) CAB outperforms DR" in row.claim
    assert row.judged.verdict == verdict


def test_at_each_M_SB_has_the_tau_beside_it():
    small = share(20, low=0.1, high=1.0)
    assert claims_of(made_panel(CAB=0.5))[0].judged.mean == 0.0
    assert claims_of(made_panel(CAB=0.5, SB=small))[0].judged.mean == pytest.approx(20 / 41)


def test_claims_are_judged_by_the_jackknife():
    """The number is that of all runs, its interval by leaving out groups of them."""
    rng = np.random.default_rng(0)
    errors = {
        name: values * rng.lognormal(0.0, 1.0, (40, 1))
        for name, values in made_panel(runs=40).errors.items()
    }
    panel = Panel("here", "so", errors, 0.95, 0)
    row = claims_of(panel)[2]
    assert row.claim.startswith("IPS performs poorly")

    def ratio(runs):
        a, b = (np.sqrt(np.mean(errors[name][runs] ** 2, axis=0)).min() for name in ("CAB", "IPS"))
        return math.log(a / b)

    every = np.arange(40)
    rest = [ratio(np.setdiff1d(every, group)) for group in np.split(every, figure3.GROUPS)]
    assert row.judged.runs == figure3.GROUPS
    stderr = math.sqrt(0.9 * np.sum((rest - np.mean(rest)) ** 2))
    assert (row.judged.high - row.judged.low) / 2 == pytest.approx(2.262157 * stderr, rel=1e-5)
    assert row.judged.mean == pytest.approx(ratio(every))


# -- tables ----------------------------------------------------------------------------------------


def test_the_table_is_at_the_best_M():
    text = errors_markdown(made_panel(CAB=np.linspace(2.0, 1.0, 41)))
    # RMSE and its error, mean absolute error, mean error, first run; median over M; relative.
    row = "| CAB | M = 1e+03 | 1.0000 | 0.0000 | 1.0000 | +0.0000 | 1.0000 | 1.5000 | 1.00 |"
    assert row in text
    assert "| DM |  | 1.0000 |" in text


# -- command ---------------------------------------------------------------------------------------

QUICK = ["reproduce", "figure3", "--datasets", "synthetic", "--steps", "100", "--repeats", "4"]


def test_what_was_kept_is_gone_on_with_to_equal_bytes(tmp_path, monkeypatch):
    monkeypatch.delenv("OFFPOLICY_DATA", raising=False)
    command = [*QUICK, "--out", str(tmp_path)]
    first = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert first.exit_code == 0
    assert "No Open Bandit logs" in first.stdout
    assert "CAB is more accurate than DM, IPS and SB" in first.stdout
    folder = tmp_path / "figure3"
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(whole) == {"results.json", "accuracy.csv", "table.md", "figure3.png"}
    body = json.loads(whole["results.json"])
    assert len(body["problems"]["synthetic"]["runs"]) == 4
    assert len(body["claims"]) == 3 * 6
    with (folder / "accuracy.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * (5 * 41 + 3 + 3)
    lost, *kept = sorted((tmp_path / "cells" / "samplers").glob("*.json"))
    assert len(kept) == 3
    lost.unlink()
    stamps = [path.stat().st_mtime_ns for path in kept]
    again = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert again.stdout == first.stdout
    assert [path.stat().st_mtime_ns for path in kept] == stamps
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole


def test_quick_is_of_few_short_runs(tmp_path, monkeypatch):
    asked = {}
    monkeypatch.setattr(figure3, "run", lambda cells, **settings: asked.update(settings) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        CliRunner().invoke(
            cli, ["reproduce", "figure3", "--quick", "--out", str(tmp_path)], catch_exceptions=False
        )
    assert (asked["repeats"], asked["steps"]) == (6, 2000)


@pytest.mark.parametrize(
    ("arguments", "file"),
    [(["--datasets", "absent"], ""), (["--datasets", "synthetic", "--obd", "nowhere"], "nowhere")],
)
def test_missing_data_is_a_sentence(small, tmp_path, arguments, file):
    command = ["reproduce", "figure3", *arguments, "--out", str(tmp_path / "out")]
    with refuses(DatasetError, file=file):
        CliRunner().invoke(cli, command, catch_exceptions=False)
    assert not (tmp_path / "out" / "figure3").exists()


def test_without_matplotlib_there_is_no_picture(tmp_path, monkeypatch):
    monkeypatch.delenv("OFFPOLICY_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = CliRunner().invoke(cli, [*QUICK, "--out", str(tmp_path)], catch_exceptions=False)
    assert "pip install 'offpolicy[plot]'" in outcome.stderr
    assert "figure3.png" not in os.listdir(tmp_path / "figure3")
