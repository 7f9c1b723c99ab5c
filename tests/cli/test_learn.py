"""``offpolicy learn``, and learned policies where other verbs ask for one."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.learning import _large_logs as streaming
from offpolicy.learning._softmax_learner import SoftmaxLearner
from offpolicy.learning._split import split
from offpolicy.logs.files import _read as reading
from offpolicy.policies.learned._saved import how_learned, load_policy
from tests.support.commands import fails
from tests.support.learning import classes

QUICK = ["--context", "x*", "--max-iter", "30", "-o", "policy.json"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    log, X, _ = classes(5, n=1600)
    table = {
        "action": log.chosen,
        "reward": log.reward,
        "logging": list(log.logging.reshape(-1, 3)),
        "q": list(np.full((1600, 3), 0.3)),
        "city": ["Ulm", "Köln"] * 800,
        "user": np.arange(1600) // 2,
        **{f"x{j}": X[:, j] for j in range(4)},
    }
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    pq.write_table(pa.table(table | {"reward": np.ones(1600)}), tmp_path / "constant.parquet")
    names = np.array(["tea", "milk", "rye"])
    pq.write_table(
        pa.table(table | {"action": names[log.chosen], "candidates": [names.tolist()] * 1600}),
        tmp_path / "named.parquet",
    )
    pq.write_table(
        pa.table({"action": log.chosen, "reward": log.reward, "propensity": log.propensity,
                  "x0": X[:, 0]}),
        tmp_path / "narrow.parquet",
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str, code: int = 0) -> Result:
    outcome = CliRunner().invoke(cli, words, catch_exceptions=False, prog_name="offpolicy")
    assert outcome.exit_code == code, outcome.stderr
    return outcome


def test_a_policy_is_learned_and_evaluated_on_what_it_was_not_learned_from(folder):
    outcome = run("learn", "log.parquet", *QUICK)
    log = op.read_log("log.parquet", op.Columns(context=["x*"]))
    rest, held = split(log, 0.2)
    expected = SoftmaxLearner(max_iter=30).fit(rest)
    assert (load_policy("policy.json").weights == expected.policy_.weights).all()
    lines = outcome.stdout.splitlines()
    assert lines[0] == (
        f"A policy over 3 actions, learned from {len(rest):,} decisions, 4 columns of context each."
    )
    assert f"was maximised: {expected.report_.value:.5g} on the training data" in lines[1]
    assert "That is optimistic" in outcome.stdout
    assert f"On {len(held):,} decisions that it was not learned from:" in lines
    sentence = op.evaluate(held, {"policy": expected.policy_}).sentence()
    assert sentence in outcome.stdout
    assert lines[-1] == "  offpolicy evaluate OTHER --context 'x*' --policy policy.json"
    assert outcome.stderr == "Wrote policy.json.\n"


def test_the_next_command_names_the_columns_too(folder):
    table = pq.read_table("log.parquet")
    names = [{"reward": "the click"}.get(name, name) for name in table.column_names]
    pq.write_table(table.rename_columns(names), "renamed.parquet")
    outcome = run("learn", "renamed.parquet", *QUICK, "--reward", "the click")
    command = outcome.stdout.splitlines()[-1].replace("OTHER", "renamed.parquet")
    assert "--reward 'the click'" in command
    run(*shlex.split(command)[1:])


def test_as_json(folder):
    words = ["log.parquet", *QUICK, "--prediction", "q", "--refit", "--format", "json"]
    body = json.loads(run("learn", *words, "-e", "DR", "--l2", "0.1").stdout)
    assert body["schema"] == "offpolicy.learned/1"
    assert (body["actions"], body["context"], body["decisions"]) == (3, 4, 1600)
    assert body["evaluated"] < 1600
    assert body["parameters"]["estimator"] == "DR"
    assert body["result"]["schema"] == "offpolicy.result/1"
    log = op.read_log("log.parquet", op.Columns(context=["x*"]))
    whole = SoftmaxLearner("DR", l2=0.1, max_iter=30).fit(log, prediction="q")
    assert (load_policy("policy.json").weights == whole.policy_.weights).all()
    assert how_learned("policy.json")["parameters"] == body["parameters"]


def test_nothing_held_out(folder):
    text = run("learn", "log.parquet", *QUICK, "--holdout", "0").stdout
    assert "learned from 1,600 decisions" in text
    assert "Nothing was held out" in text
    text = run("learn", "log.parquet", *QUICK, "--refit").stdout
    assert "The one written was learned from all 1,600." in text


def test_options_reach_the_learner(folder):
    run("learn", "log.parquet", *QUICK, "--features", "kernel", "--centres", "15", "--gamma", "0.5",
        "--start", "zero", "--penalty", "0.2", "--baseline", "0.1", "--model-l2", "0.01",
        "--seed", "4", "-e", "CAB(M=5)", "--passes", "1")  # fmt: skip
    kept = how_learned("policy.json")["parameters"]
    expected = SoftmaxLearner(
        "CAB(M=5)", features="kernel", centres=15, gamma=0.5, start="zero", penalty=0.2,
        baseline=0.1, model_l2=0.01, seed=4, max_iter=30, passes=1,
    )  # fmt: skip
    assert kept == expected.get_params()


@pytest.mark.parametrize("large", [False, True])
def test_the_loop_is_closed(folder, monkeypatch, large):
    """Learned, evaluated, compared and checked; in memory, and piece by piece."""
    if large:
        monkeypatch.setattr(reading, "READ_WHOLE", 0)
        monkeypatch.setattr(streaming, "sample_size", lambda width: 500)
        monkeypatch.setattr(streaming, "TOGETHER_ROWS", 100)
    text = run("learn", "log.parquet", *QUICK, "--cluster", "user").stdout
    assert ("3 passes over all decisions" in text) == large
    policy = load_policy("policy.json")
    log = op.BanditLog.from_frame(
        pq.read_table("log.parquet"), op.Columns(context=["x*"], cluster="user")
    )
    asked = ["log.parquet", "--context", "x*", "--cluster", "user", "--policy", "policy.json"]
    outcome = run("evaluate", *asked, "--policy", ":uniform", "--prediction", "q", "-e", "CAB(M=3)",
                  "--format", "json")  # fmt: skip
    found = op.Result.from_json(outcome.stdout)
    expected = op.evaluate(log, {"policy": policy}, prediction="q", estimators=["CAB(M=3)"])
    row = found["policy", "CAB(M=3)"]
    assert row.value == pytest.approx(expected["CAB(M=3)"].value, rel=1e-9)
    assert row.value > found["uniform", "CAB(M=3)"].value + 0.2
    assert "policy is better than logged" in run("compare", *asked, "--prediction", "q").stdout
    assert run("sweep", *asked, "--prediction", "q", "--grid").stdout.startswith("M\tvalue")
    report = json.loads(CliRunner().invoke(cli, ["check", *asked, "--format", "json"]).stdout)
    assert "policy" in {finding["place"] for finding in report["findings"]}


@pytest.mark.parametrize("large", [False, True])
def test_malformed_rows_are_left_out_of_both_parts(folder, monkeypatch, large):
    table = pq.read_table("log.parquet")
    reward = table.column("reward").to_pylist()
    reward[7] = None
    q = table.column("q").to_pylist()
    q[9] = [0.3, float("nan"), 0.3]
    table = table.set_column(1, "reward", pa.array(reward)).set_column(3, "q", pa.array(q))
    pq.write_table(table, "bad.parquet")
    if large:
        monkeypatch.setattr(reading, "READ_WHOLE", 0)
        monkeypatch.setattr(streaming, "sample_size", lambda width: 500)
    words = ["learn", "bad.parquet", *QUICK, "--prediction", "q", "--on-bad-row", "drop"]
    outcome = run(*words, "--holdout", "0.5", "--refit", "--passes", "1")
    assert "learned from 1,598 decisions" in outcome.stdout
    assert "2 of 1,600" in outcome.stderr.splitlines()[0]


def test_arms_that_nobody_named_are_found_in_the_log(folder):
    run("learn", "narrow.parquet", "--context", "x0", "-o", "narrow.json")
    named = run("learn", "narrow.parquet", "--context", "x0", "-o", "named.json",
                "--actions", "0,1,2")  # fmt: skip
    assert "3 actions" in named.stdout
    policies = [op.policies.learned.load_policy(f"{name}.json") for name in ("narrow", "named")]
    np.testing.assert_array_equal(*(policy.weights for policy in policies))


def test_names_of_files(folder):
    run("learn", "log.parquet", *QUICK)
    Path("a").mkdir()
    for beside in Path().glob("policy*"):
        (Path("a") / beside.name).write_bytes(beside.read_bytes())
    shown = run("evaluate", "log.parquet", "--context", "x*", "--policy", "file:a/policy.json",
                "--format", "tsv", "-e", "IPS").stdout  # fmt: skip
    assert [line.split("\t")[:2] for line in shown.splitlines()[1:3]] == [
        ["policy", "headline"],
        ["policy", "IPS"],
    ]
    twice = ["--policy", "policy.json", "--policy", "a/policy.json"]
    outcome = run("evaluate", "log.parquet", *twice, code=2)
    assert 'Two policies are named "policy"' in outcome.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["log.parquet", "-o", "p.json"], "name the columns of the context with --context"),
        (["constant.parquet", *QUICK], "Every reward is 1: all policies are as good"),
        (["log.parquet", *QUICK[:-1], "p.txt"], "must end in .json"),
        (["log.parquet", *QUICK[:-1], "-"], "must end in .json"),
        (["log.parquet", *QUICK[:-1], ""], "it is empty"),
        (["log.parquet", *QUICK, "-o", "p.json"], "--out is given twice"),
        (["log.parquet", *QUICK[:-1], "none/p.json"], "there is no folder none"),
        (["log.parquet", *QUICK, "-e", "SWITCH(M=2)"], "SWITCH jumps where c = M"),
        (["log.parquet", *QUICK, "-e", "CAB"], "CAB as an objective needs its parameter"),
        (["log.parquet", *QUICK, "--prediction", "p"], 'no column "p"'),
        (["log.parquet", *QUICK, "--refit", "--holdout", "0"], "--refit is for a policy"),
        (["log.parquet", *QUICK, "--holdout", "1"], "--holdout"),
        (["log.parquet", *QUICK, "--l2", "-1"], "--l2"),
        (["log.parquet", *QUICK, "--features", "deep"], 'features is "deep"'),
        (["log.parquet", *QUICK, "--start", "best"], 'start is "best"'),
    ],
)  # fmt: skip
def test_mistakes_are_told(words, message, folder, capsys):
    code, text = fails(["learn", *words], capsys)
    assert code == 2
    assert message in text
    assert not list(folder.glob("p*.npy"))


def test_mistakes_with_a_learned_policy_are_told(folder, capsys):
    run("learn", "log.parquet", *QUICK)

    def told(*words: str) -> str:
        code, text = fails(["evaluate", *words], capsys)
        assert code == 2
        return text

    asked = ["--policy", "policy.json"]
    assert "needs a log with context (x0, x1, x2, x3)" in told("log.parquet", *asked)
    assert "--context" in told("log.parquet", *asked)
    assert "The context is x0, but the policy was" in told("log.parquet", "--context", "x0", *asked)
    assert "does not know action 'milk'" in told("named.parquet", "--context", "x*", *asked)
    assert "none.json: cannot be read" in told("log.parquet", "--policy", "file:none.json")
    Path("result.json").write_text('{"schema": "offpolicy.result/1"}')
    assert 'The schema is "offpolicy.result/1"' in told("log.parquet", "--policy", "result.json")
    (numbers,) = folder.glob("policy-*.npy")
    numbers.unlink()
    assert "A policy is two files" in told("log.parquet", "--context", "x*", *asked)
