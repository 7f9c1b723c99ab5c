"""The demonstration finds the truth it knows."""

from __future__ import annotations

import pyarrow.csv
import pytest

import offpolicy as op
from offpolicy.experiments.demo import CUSTOMER, EMAILS, ESTIMATORS, Demo, run_demo


@pytest.fixture(scope="module")
def demo() -> Demo:
    return run_demo(n=2000, seed=0)


def test_demo_is_reproducible(demo):
    assert run_demo(n=2000, seed=0).result.to_json() == demo.result.to_json()


def test_another_seed_is_another_demo(demo):
    assert run_demo(n=500, seed=1).result.to_json() != demo.result.to_json()


@pytest.mark.parametrize("policy", ["targeted", "mens_to_all"])
@pytest.mark.parametrize("estimator", ["IPS", "SNIPS", "DR"])
def test_demo_finds_the_truth(demo, policy, estimator):
    row = demo.result[policy, estimator]
    assert abs(row.value - demo.truth[policy]) < 5 * row.stderr


def test_demo_curves_agree_with_its_table(demo):
    for policy, curve in demo.curves.items():
        row = demo.result[policy, "CAB(M=2)"]
        assert curve.at(2.0) == pytest.approx(row.value, rel=1e-9)
        assert curve.stderr_at(2.0) == pytest.approx(row.stderr, rel=1e-9)


def test_demo_says_the_answer_first_and_has_a_line_for_every_answer_and_estimate(demo):
    told, log, sentences, table, compared = demo.to_text().split("\n\n")
    answer = demo.result.headline
    assert f"{answer.value:.1%} would have, says the log" in told
    assert told.endswith(f"is {demo.truth['targeted']:.1%}.")
    assert log.splitlines()[1].split() == demo.report().files["emails.csv"].split()[0].split(",")
    assert sentences == demo.result.sentence()
    body = table.splitlines()[1:]
    rows = [
        row
        for answer in demo.result.headlines
        for row in (answer, *(one for one in demo.result if one.policy == answer.policy))
    ]
    names = ["the", *ESTIMATORS]
    assert [line.split()[:2] for line in body] == [[p, e] for p in demo.truth for e in names]
    for line, row in zip(body, rows, strict=True):
        assert line.split()[-1] == ("yes" if demo.truth[row.policy] in row.interval else "no")
    assert len({row.interval for row in rows}) > len(rows) // 2
    assert compared.splitlines()[1:] == demo.comparison.sentence().splitlines()


def test_the_log_of_the_demo_is_a_file_that_gives_its_answer(demo, tmp_path):
    demo.report().save(tmp_path)
    rows = pyarrow.csv.read_csv(tmp_path / "emails.csv")
    assert rows["visit"].to_pylist() == demo.log.reward.tolist()
    assert rows.column_names == [*CUSTOMER, "email", "visit", "targeted", "mens_to_all"]
    for name, chosen in demo.chosen.items():
        assert rows[name].to_pylist() == [EMAILS[email] for email in chosen]


def test_demo_is_saved_whole(demo, tmp_path):
    written = demo.report().save(tmp_path / "a" / "b")
    assert sorted(written) == sorted((tmp_path / "a" / "b").iterdir())
    kept = (tmp_path / "a" / "b" / "result.json").read_text(encoding="utf-8")
    assert op.Result.from_json(kept) == demo.result
