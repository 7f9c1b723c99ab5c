"""Figure 1: its claims, what is written, and a command that goes on where it was."""

from __future__ import annotations

import itertools
import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from offpolicy.cli import cli
from offpolicy.experiments import curves, figure1
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import FAILS, HOLDS
from offpolicy.experiments.curves import STARTS
from offpolicy.experiments.figure1 import CLAIMS
from tests.support.experiments import (
    GRID,
    PLACE,
    flat,
    made_curves,
    number,
    ranked_curves,
    trading,
    verdict,
)

U = np.exp(((PLACE - 40.0) / 20.0) ** 2)

# -- claims ------------------------------------------------------------------------------------

FALLS, RISES, MIDDLE, ROBUST = (
    "the bias of CAB decreases", "the variance of CAB increases", "the best MSE of CAB is in",
    "CAB is pretty robust",
)  # fmt: skip


def turned():
    found = flat()
    found.bias["CAB"][:] = np.linspace(0.1, 1.0, len(GRID.M))
    found.variance["CAB"][:] = np.linspace(2.0, 0.1, len(GRID.M))
    return found


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    ("claim", "good", "bad"),
    [
        (FALLS, trading(), turned()),
        (RISES, trading(), turned()),
        (MIDDLE, flat(CAB=U), flat(CAB=np.exp(PLACE / 20))),
        (ROBUST, flat(CAB=np.where(abs(PLACE - 50) < 20, 1.0, 3.0)),
         flat(CAB=np.where(abs(PLACE - 50) < 5, 1.0, 3.0))),
    ],
    ids=["bias", "variance", "middle", "robust"],
)  # fmt: skip
def test_claims_can_come_out_either_way(claim, good, bad, start):
    assert verdict(CLAIMS, claim, good, start=start) == HOLDS
    assert verdict(CLAIMS, claim, bad, start=start) == FAILS


def test_every_claim_is_tested_here():
    for claim, start in zip(CLAIMS, (FALLS, RISES, MIDDLE, ROBUST), strict=True):
        assert claim.text.startswith(start)
        assert claim.every_size


def test_how_far_bias_and_variance_turn():
    found = flat(CAB=np.linspace(1.0, 2.0, len(GRID.M)))
    found.bias["CAB"][:] = np.linspace(-1.0, 0.0, len(GRID.M))
    assert number(CLAIMS, FALLS, found) == number(CLAIMS, RISES, found) == 0.0
    found.bias["CAB"][5] = 1.25
    found.variance["CAB"][-1] = 1.5
    assert number(CLAIMS, FALLS, found) == pytest.approx(1.25 - abs(found.bias["CAB"][4]))
    assert number(CLAIMS, RISES, found) > 0.2


def test_the_best_against_the_better_end_and_decades():
    u = np.exp(((PLACE - 10.0) / 5.0) ** 2)
    assert number(CLAIMS, MIDDLE, flat(CAB=u)) == pytest.approx(1.0 / u[0])
    assert number(CLAIMS, MIDDLE, flat(CAB=np.zeros(len(PLACE)))) == 1.0
    mse = np.full(len(GRID.M), 3.0)
    mse[6:16] = 1.0
    assert number(CLAIMS, ROBUST, flat(CAB=mse)) == pytest.approx(1.0 - 10 * 0.05)
    mse[:] = 3.0
    mse[0] = 1.0  # nowhere on the axis
    assert number(CLAIMS, ROBUST, flat(CAB=mse)) == 1.0


# -- files -------------------------------------------------------------------------------------


@pytest.fixture
def made_up(monkeypatch):
    found = [
        made_curves(trading(), trading(), data="letter"),
        made_curves(trading(), trading(), data="satimage"),
        ranked_curves(trading(0.1), trading(0.1), data="MQ2007"),
        ranked_curves(trading(0.1), trading(0.1), data="MQ2008"),
    ]
    monkeypatch.setattr(figure1.curves, "of_every_set", lambda *_: found)
    return found


def test_everything_is_written(made_up, tmp_path, monkeypatch):
    drawn = {}
    real = figure1.draw
    monkeypatch.setattr(
        figure1, "draw",
        lambda some, path: drawn.update({path.name: [one.data for one in some]}) or real(some, path)
    )  # fmt: skip
    report = figure1.run(Cells(tmp_path), sets=["letter"], repeats=7)
    written = {path.name: path for path in report.save(tmp_path / "a" / "b")}
    assert set(written) == {
        "results.json", "accuracy.csv", "claims.csv", "table.md", "figure1.png",
        "figure1_others.png",
    }  # fmt: skip
    assert sorted(written.values()) == sorted((tmp_path / "a" / "b" / "figure1").iterdir())
    # The paper's figure has one labelled set and one of rankings.
    assert drawn == {"figure1.png": ["satimage", "MQ2007"],
                     "figure1_others.png": ["letter", "MQ2008"]}  # fmt: skip
    assert min(written[name].stat().st_size for name in drawn) > 10_000
    body = json.loads(written["results.json"].read_text())
    assert body["settings"]["repeats"] == 7
    assert len(body["claims"]) == len(STARTS) * len(CLAIMS) * 4
    assert body["claims"][0]["judged"]["verdict"] == HOLDS
    text = written["table.md"].read_text()
    assert text == report.text
    for claim in CLAIMS:
        assert text.count(f"| {claim.text}. {figure1.PLACE}: ") == 1
    lines = written["claims.csv"].read_text().splitlines()
    assert len(lines) == 1 + len(body["claims"])


def test_without_the_paper_s_set_there_are_only_others(made_up, tmp_path):
    del made_up[1:]
    assert set(figure1.run(Cells(tmp_path), sets=["letter"]).pictures) == {"figure1_others.png"}


def test_without_matplotlib_there_are_no_pictures(made_up, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    written = figure1.run(Cells(tmp_path), sets=["letter"]).save(tmp_path)
    assert {path.suffix for path in written} == {".json", ".csv", ".md"}


# -- the command -------------------------------------------------------------------------------


def command(tmp_path, *change):
    asked = {"--datasets": "clouds,MQ2008", "--sizes": "50,80", "--repeats": "10", "--splits": "2"}
    asked |= {"--out": str(tmp_path / "out")} | dict(zip(change[::2], change[1::2], strict=True))
    return CliRunner().invoke(cli, ["reproduce", "figure1", *itertools.chain(*asked.items())])


def test_what_was_kept_is_gone_on_with_to_equal_bytes(clouds, letor, tmp_path, monkeypatch):
    """As after a kill: cells of both kinds are not there yet; and Figure 2 shares all of them."""
    monkeypatch.setattr(curves, "SWEEPS", (0.5, 2.0))
    monkeypatch.setattr(curves, "LOGGERS", (0.1,))
    first = command(tmp_path)
    assert first.exit_code == 0, first.output
    folder, cells = tmp_path / "out" / "figure1", tmp_path / "out" / "cells" / "curves"
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(whole) == 6
    made = sorted(cells.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    assert len(made) == 2 + 2 * 4 + 2 * 2  # sizes; splits in each training; splits and sweeps
    lost = [made[1], made[5], made[-1]]
    for path in lost:
        path.unlink()
    stamps = {path: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    again = command(tmp_path)
    assert again.stdout == first.stdout
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    after = set(cells.glob("*.json"))
    assert after == {*stamps, *lost}
    other = ["reproduce", "figure2", "--datasets", "clouds,MQ2008", "--sizes", "50,80"]
    other += ["--repeats", "10", "--splits", "2", "--out", str(tmp_path / "out")]
    second = CliRunner().invoke(cli, other, catch_exceptions=False)
    assert second.exit_code == 0
    assert len(set(cells.glob("*.json")) - after) == 1  # what is chosen, on one set
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--datasets", ""], "must name at least one"),
        (["--datasets", "clouds,clouds"], "each once"),
        (["--datasets", "nowhere"], "nowhere"),
        (["--datasets", "clouds,yahoo"], "Yahoo-Set1: there is no"),
        (["--sizes", "a,b"], "must be whole numbers"),
        (["--sizes", "0"], "must hold numbers above 0"),
        (["--repeats", "1"], "1 is not in the range x>=2"),
        (["--splits", "1"], "1 is not in the range x>=2"),
        (["--reading", "odd"], "is not a reading of the set-up"),
    ],
)
def test_mistakes_are_told(clouds, letor, tmp_path, change, said):
    done = command(tmp_path, *change)
    assert done.exit_code
    assert said in f"{done.stderr}{done.exception}"
    assert not (tmp_path / "out" / "figure1").exists()


def test_quick_is_of_few_logs_and_splits(made_up, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(figure1.curves, "of_every_set", lambda _, s: asked.append(s) or made_up)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for change in (["--quick"], ["--quick", "--repeats", "30"], []):
        done = CliRunner().invoke(cli, ["reproduce", "figure1", "--out", str(tmp_path), *change])
        assert done.exit_code == 0
    assert [(one.repeats, one.splits) for one in asked] == [(100, 2), (30, 2), (500, 10)]
    assert asked[0].labelled == ["letter", "optdigits", "satimage", "pendigits"]
