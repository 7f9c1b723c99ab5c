"""Figure 2: its claims, what is written, and the parameter chosen from the log."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from offpolicy.cli import cli
from offpolicy.errors import ParameterError
from offpolicy.experiments import figure2
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import FAILS, HOLDS
from offpolicy.experiments.curves import STARTS
from offpolicy.experiments.evaluation import tuning
from offpolicy.experiments.figure2 import CLAIMS, best_table
from offpolicy.experiments.worlds import PAPER
from tests.support.experiments import (
    GRID,
    PLACE,
    flat,
    made_curves,
    number,
    ranked_curves,
    verdict,
)
from tests.support.refusals import refuses

# -- claims ------------------------------------------------------------------------------------

U = np.exp(((PLACE - 40.0) / 20.0) ** 2)
W = np.where(PLACE == 60, 40.0, 1.0) * U
ROUGH = 1.0 + (PLACE % 2)
RISING = np.geomspace(1.0, 2.0, len(PLACE))
EITHER_WAY = [
    ("SB's MSE over its parameter is a U", flat(SB=U), flat(SB=W)),
    ("CAB's MSE over its parameter is a U", flat(CAB=U), flat(CAB=np.exp(PLACE))),
    ("CAB-DR's MSE over its parameter is a U", flat(CAB_DR=U), flat(CAB_DR=W)),
    ("CAB substantially outperforms SB", flat(CAB=0.5), flat(CAB=0.95)),
    ("CAB-DR substantially outperforms SB", flat(CAB_DR=0.5), flat(CAB_DR=0.95)),
    ("CAB outperforms cIPS", flat(CAB=0.5), flat(CIPS=np.where(PLACE == 70, 0.5, 1.0))),
    ("SWITCH's curve is somewhat more erratic", flat(SWITCH=ROUGH, CAB=RISING),
     flat(CAB=ROUGH, SWITCH=RISING)),
    ("CAB is at least comparable to SWITCH", flat(CAB=1.05), flat(CAB=1.2)),
    ("CAB can be substantially more accurate than SWITCH", flat(CAB=0.8), flat(CAB=0.95)),
    ("DR outperforms IPS and DM", flat(DR=0.5), flat(DR=0.5, DM=0.4)),
    ("CAB outperforms DR", flat(CAB=0.9), flat(DR=0.9)),
    ("CAB-DR outperforms DR", flat(CAB_DR=0.9), flat(DR=0.9)),
]  # fmt: skip


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    ("claim", "good", "bad"), EITHER_WAY, ids=[claim for claim, *_ in EITHER_WAY]
)
def test_claims_can_come_out_either_way(claim, good, bad, start):
    assert verdict(CLAIMS, claim, good, start=start) == HOLDS
    assert verdict(CLAIMS, claim, bad, start=start) == FAILS


def test_every_claim_is_tested_here():
    assert len(CLAIMS) == len(EITHER_WAY)
    for claim, (start, *_) in zip(CLAIMS, EITHER_WAY, strict=True):
        assert claim.text.startswith(start)
        assert claim.place == figure2.PLACE
        assert not claim.every_size


def test_claims_tell_a_u_from_a_w():
    u = np.exp(((PLACE - 10.0) / 5.0) ** 2)
    of_cab = "CAB's MSE over its parameter is a U"
    assert number(CLAIMS, of_cab, flat(CAB=u)) == 1.0
    w = u.copy()
    w[5] *= 40.0
    assert number(CLAIMS, of_cab, flat(CAB=w)) == pytest.approx(w[5] / w[:5].min())
    assert number(CLAIMS, of_cab, flat(CAB=np.exp(PLACE))) == figure2.AT_AN_END


def test_claims_compare_the_best():
    ones = np.ones(len(GRID.M))
    found = flat(CAB=0.5 * ones, CIPS=np.r_[0.4, ones[1:]], DR=0.25)
    assert number(CLAIMS, "CAB substantially outperforms SB", found) == 0.5
    assert number(CLAIMS, "CAB outperforms DR", found) == 2.0
    assert number(CLAIMS, "DR outperforms IPS and DM", found) == 0.25
    assert number(CLAIMS, "CAB outperforms cIPS", found) == 1.25
    assert number(CLAIMS, "CAB outperforms cIPS", found.above(1.0)) == 0.5
    rough = flat(SWITCH=ROUGH, CAB=RISING)
    erratic = number(CLAIMS, "SWITCH's curve is somewhat more erratic", rough)
    assert erratic == pytest.approx(1.0 / (len(GRID.M) - 1))


# -- files -------------------------------------------------------------------------------------


@pytest.fixture
def made_up(monkeypatch):
    """Curves of a labelled set and of rankings; of the first, the parameter is chosen, too."""
    found = [made_curves(flat(CAB=U), flat(CAB=U)), ranked_curves(flat(CAB=U), flat(CAB=U))]
    by_rule = {f"{name} by {rule}": 2.0 for name in tuning.TUNED for rule in tuning.NAMES}
    mse, best = by_rule | dict.fromkeys(tuning.FIXED, 0.5), dict.fromkeys(tuning.TUNED, 1.0)
    chosen = [tuning.Outcome(tuning.Setting("a", PAPER, 0, 2000), best, mse)]
    monkeypatch.setattr(figure2.curves, "of_every_set", lambda *_: found)
    monkeypatch.setattr(figure2, "_chosen", lambda *_: chosen)
    return found, chosen


def test_everything_is_written(made_up, tmp_path):
    report = figure2.run(Cells(tmp_path), sets=["a"])
    written = {path.name: path for path in report.save(tmp_path / "out")}
    assert set(written) == {
        "results.json", "accuracy.csv", "claims.csv", "table.md", "figure2.png",
    }  # fmt: skip
    assert sorted(written.values()) == sorted((tmp_path / "out" / "figure2").iterdir())
    assert written["figure2.png"].stat().st_size > 10_000
    body = json.loads(written["results.json"].read_text())
    assert body["settings"]["repeats"] == 500
    assert body["chosen"][0]["mse"]["CAB by slope"] == 2.0
    # On rankings there is nothing that corrects the model: no DR, and no CAB-DR.
    assert len(body["claims"]) == len(STARTS) * (12 + 7)
    text = written["table.md"].read_text()
    assert text == report.text
    for claim in CLAIMS:
        assert text.count(f"| {claim.text}. {figure2.PLACE}: ") == 1
    assert "n = 2,000; geometric means over 1 sets" in text
    assert "| CAB | 1.00 | 2.00 (2) | 2.00 (2) | 2.00 (2) | 2.00 (2) |" in text
    assert "| headline | 0.50 (0.5) |" in text


def test_the_best_are_in_hindsight_and_exact_where_that_is_known():
    found = made_curves(flat(CAB=0.3))
    found.exact[500] = flat(CAB=0.2)
    table = best_table([found, ranked_curves(flat(CAB=0.3))]).splitlines()
    assert table[0] == "| data | DM | IPS | cIPS | DR | SB | SWITCH | CAB | CAB-DR |"
    one = "1e+04 (1e+04)"
    assert (
        f"| a, n = 500 | {one} | {one} | {one} | {one} | {one} | {one} | 3e+03 (2e+03) |"
        in (table[3])
    )
    assert table[5].startswith("| ranks, 0.5 sweeps | 1e+04 | 1e+04 | 1e+04 | – |")
    assert table[5].endswith("| 3e+03 | – |")


def test_of_rankings_alone_nothing_is_chosen(letor, tmp_path, monkeypatch):
    found = [ranked_curves(flat(), flat(), data="MQ2008")]
    monkeypatch.setattr(figure2.curves, "of_every_set", lambda *_: found)
    report = figure2.run(Cells(tmp_path), sets=["MQ2008"])
    assert report.files["results.json"]["chosen"] == []
    assert "## Chosen" not in report.text


def test_without_matplotlib_there_is_no_picture(made_up, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    written = figure2.run(Cells(tmp_path), sets=["a"]).save(tmp_path)
    assert {path.suffix for path in written} == {".json", ".csv", ".md"}


# -- the command -------------------------------------------------------------------------------


def test_what_was_kept_is_gone_on_with_to_equal_bytes(clouds, tmp_path):
    """As after a kill; other data in the same place are refused."""
    asked = ["reproduce", "figure2", "--datasets", "clouds", "--sizes", "50,80", "--repeats", "6"]
    asked += ["--reading", "standardised, softmax, stochastic, same 10%", "--splits", "2"]
    asked += ["--out", str(tmp_path / "out")]
    first = CliRunner().invoke(cli, asked, catch_exceptions=False)
    assert first.exit_code == 0
    assert "## Chosen" in first.stdout
    folder, cells = tmp_path / "out" / "figure2", tmp_path / "out" / "cells" / "curves"
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(whole) == 5
    made = sorted(cells.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    assert len(made) == 2 + 2 * 4 + 1
    for path in (made[0], made[4], made[-1]):
        path.unlink()
    again = CliRunner().invoke(cli, asked, catch_exceptions=False)
    assert again.stdout == first.stdout
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
    with refuses(ParameterError) as caught:
        (tmp_path / "data" / "uci" / "clouds.csv.gz").write_bytes(b"")
        CliRunner().invoke(cli, asked, catch_exceptions=False)
    assert "for which clouds was another" in str(caught.value)
