"""The demonstration finds the truth it knows, and simulation agrees with the theorems."""

from __future__ import annotations

import json

import pytest

import offpolicy as op
from offpolicy.experiments.demo import ESTIMATORS, Demo, run_demo, save_demo
from offpolicy.experiments.theorems import MEMBERS, Row, compare_with_simulation, save, to_text


@pytest.fixture(scope="module")
def demo() -> Demo:
    return run_demo(seed=0)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return compare_with_simulation(n=50_000, seed=0)


def test_demo_is_reproducible(demo):
    assert run_demo(seed=0).result.to_json() == demo.result.to_json()


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


def test_demo_table_has_a_line_for_every_estimate(demo):
    body = demo.to_text().splitlines()[4:]
    assert [line.split()[:2] for line in body] == [
        [policy, estimator] for policy in ("large", "small") for estimator in ESTIMATORS
    ]
    for line, row in zip(body, demo.result, strict=True):
        assert line.split()[-1] == ("yes" if demo.truth[row.policy] in row.interval else "no")


def test_demo_is_saved_whole(demo, tmp_path):
    written = save_demo(demo, tmp_path / "a" / "b")
    assert sorted(written) == sorted((tmp_path / "a" / "b").iterdir())
    assert op.Result.from_json(written[0].read_text(encoding="utf-8")) == demo.result


def test_simulation_agrees_with_the_theorems(rows):
    assert len(rows) == 3 * len(MEMBERS)
    assert max(abs(row.bias_z) for row in rows) < 4.5


def test_simulated_spread_agrees_with_the_theorems(rows):
    bounded = ("CAB", "CIPS", "SWITCH", "DRos", "SG", "DM")
    for row in rows:
        if row.member.startswith(bounded):
            assert row.simulated_deviation == pytest.approx(row.deviation, rel=0.1)


def test_simulation_is_reproducible():
    first, second = (compare_with_simulation(n=500, seed=3) for _ in range(2))
    assert first == second
    assert compare_with_simulation(n=500, seed=4) != first


def test_theorems_are_saved_as_they_are_shown(rows, tmp_path):
    path = save(rows, tmp_path / "theory")
    assert [Row(**row) for row in json.loads(path.read_text())] == rows
    worst = max(abs(row.bias_z) for row in rows)
    assert to_text(rows).endswith(f"Largest |z| of the bias over {len(rows)} rows: {worst:.2f}.")
