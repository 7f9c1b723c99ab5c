"""The demonstration finds the truth it knows, and simulation agrees with the theorems."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import offpolicy as op
from offpolicy.errors import DatasetError
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.demo import ESTIMATORS, Demo, run_demo
from offpolicy.experiments.evaluation import theorems, tuning
from offpolicy.experiments.evaluation.theorems import MEMBERS, Row, compare_with_simulation
from offpolicy.experiments.worlds import READINGS, finite_worlds, labelled_world


@pytest.fixture(scope="module")
def demo() -> Demo:
    return run_demo(n=2000, seed=0)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return compare_with_simulation(n=50_000, seed=0)


def test_demo_is_reproducible(demo):
    assert run_demo(n=2000, seed=0).result.to_json() == demo.result.to_json()


def test_another_seed_is_another_demo(demo):
    assert run_demo(n=500, seed=1).result.to_json() != demo.result.to_json()


@pytest.mark.parametrize("policy", ["large", "small"])
@pytest.mark.parametrize("estimator", ["IPS", "SNIPS", "DR"])
def test_demo_finds_the_truth(demo, policy, estimator):
    row = demo.result[policy, estimator]
    assert abs(row.value - demo.truth[policy]) < 5 * row.stderr


def test_demo_curves_agree_with_its_table(demo):
    for policy, curve in demo.curves.items():
        row = demo.result[policy, "CAB(M=10)"]
        assert curve.at(10.0) == pytest.approx(row.value, rel=1e-9)
        assert curve.stderr_at(10.0) == pytest.approx(row.stderr, rel=1e-9)


def test_demo_table_has_a_line_for_every_answer_and_estimate(demo):
    _, table, compared = demo.to_text().split("\n\n")
    body = table.splitlines()[1:]
    rows = [
        row
        for answer in demo.result.headlines
        for row in (answer, *(one for one in demo.result if one.policy == answer.policy))
    ]
    names = ["the", *ESTIMATORS]
    assert [line.split()[:2] for line in body] == [
        [p, e] for p in ("large", "small") for e in names
    ]
    for line, row in zip(body, rows, strict=True):
        assert line.split()[-1] == ("yes" if demo.truth[row.policy] in row.interval else "no")
    assert compared.splitlines()[1:] == demo.comparison.sentence().splitlines()


def test_demo_is_saved_whole(demo, tmp_path):
    written = demo.report().save(tmp_path / "a" / "b")
    assert sorted(written) == sorted((tmp_path / "a" / "b").iterdir())
    kept = (tmp_path / "a" / "b" / "result.json").read_text(encoding="utf-8")
    assert op.Result.from_json(kept) == demo.result


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
    (path,) = report.save(tmp_path / "theory")
    rows = [Row(**row) for row in json.loads(path.read_text())]
    assert rows == compare_with_simulation(n=500, seed=3)
    worst = max(abs(row.bias_z) for row in rows)
    assert report.text.endswith(f"Largest |z| of the bias over {len(rows)} rows: {worst:.2f}.")


def test_every_world_s_log_is_fair_to_its_value():
    """With true propensities, the mean of c·r over a large log is the value, less what the
    logger never shows."""
    rng = np.random.default_rng(0)
    for world in finite_worlds():
        if world.reveals == "none" or "heavy" in world.name:
            continue
        log, policy, _ = world.draw(40_000, rng)
        row = op.evaluate(log, policy, estimators=["IPS"], reward_range=world.reward_range)["IPS"]
        supported = np.where(world.logging > 0.0, world.policy * world.reward, 0.0)
        assert row.value == pytest.approx(supported.sum(axis=1).mean(), abs=5 * row.stderr)


@pytest.fixture
def small_data(tmp_path, monkeypatch):
    """A data set of three overlapping classes where the experiments look for it."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    X = rng.standard_normal((400, 2)) + np.eye(3)[y][:, :2] * 2
    (tmp_path / "uci").mkdir()
    with gzip.open(tmp_path / "uci" / "small.csv.gz", "wt") as file:
        file.write("a,b,label,split\n")
        file.writelines(f"{u},{v},{k},none\n" for (u, v), k in zip(X, y, strict=True))
    monkeypatch.setenv("OFFPOLICY_DATA", str(tmp_path))
    return X, y


def test_labelled_data_become_problems(small_data):
    X, y = small_data
    examples = op.datasets.load("small")
    assert pytest.approx(X) == examples.X
    assert examples.y.tolist() == y.tolist()
    for reading in READINGS:
        world = labelled_world(examples, reading, 0, "probability")
        assert len(world.reward) == 200
        assert world.policy.sum(axis=1) == pytest.approx(np.ones(200))
        same = "same" in reading
        assert (world.prediction == world.logging).all() == same
        indicator = labelled_world(examples, reading, 0, "indicator").prediction
        assert set(indicator.ravel()) == {0.0, 1.0}
        assert (indicator.argmax(axis=1) == world.prediction.argmax(axis=1)).all()


def test_chosen_parameters_are_measured_against_the_best(small_data):
    setting = tuning.Setting("small", READINGS[0], 0, 200)
    outcome = tuning.run_one(setting, 4, ("CAB", "CAB-DR"), (1,))
    assert set(outcome.mse) >= set(tuning.METHODS.values())
    rules = [method for method in tuning.METHODS if method.startswith("CAB by")]
    # The best M in hindsight is one for all logs: a rule may beat it on some, never IPS or DM.
    best = outcome.hindsight["CAB"]
    assert best <= min(outcome.mse["DM"], outcome.mse["IPS"]) * (1 + 1e-9)
    assert len(rules) == 3
    text = tuning.to_markdown([outcome], 4)
    assert f"| headline | {outcome.ratio('headline'):.2f} |" in text


def test_a_missing_data_set_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv("OFFPOLICY_DATA", raising=False)
    monkeypatch.setenv("OFFPOLICY_CACHE", str(tmp_path))
    setting = tuning.Setting("letter", READINGS[0], 0, 200)
    with pytest.raises(DatasetError, match='Run "offpolicy datasets fetch letter", or let'):
        tuning.run_one(setting, 2, ("CAB",), (1,))


# -- cells -----------------------------------------------------------------------------------


def _squared(k: int, folder: str) -> dict[str, int]:
    with open(f"{folder}/seen", "a") as seen:
        seen.write(f"{k} ")
    if k == 3 and not Path(f"{folder}/fixed").exists():
        raise RuntimeError("killed")
    return {"square": k * k}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_was_stopped_goes_on(tmp_path, jobs):
    cells = [(k, str(tmp_path)) for k in range(5)]
    kept = Cells(tmp_path / "cells", jobs)
    with pytest.raises(RuntimeError):
        kept.all("squares", _squared, cells)
    (tmp_path / "fixed").touch()
    (tmp_path / "seen").unlink()
    found = kept.all("squares", _squared, cells)
    assert found == [{"square": k * k} for k in range(5)]
    again = (tmp_path / "seen").read_text().split()
    assert "3" in again
    assert not {"0", "1", "2"} & set(again)
    other = kept.all("squares", _squared, [(7, str(tmp_path))])
    assert other == [{"square": 49}]
