"""What newcomers write, and what they are told: on a small randomised test with two outcomes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.errors import LogError, ParameterError, PolicyError
from offpolicy.learning import SoftmaxLearner, learn
from offpolicy.logs.files import _read
from tests.support.commands import fails
from tests.support.refusals import refuses

N = 1200
ASKED = ["evaluate", "log.csv", "--action", "arm", "--reward", "visit", "--propensity", "1/3"]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    arm = rng.integers(0, 3, N)
    visit = rng.random(N) < 0.2 + 0.2 * arm
    made = pd.DataFrame({
        "age": rng.integers(18, 80, N), "arm": np.array(["a", "b", "no mail"])[arm],
        "visit": visit.astype(int), "spend": np.round(visit * rng.exponential(20.0, N), 2),
    })  # fmt: skip
    made.to_csv("log.csv", index=False)
    made.to_parquet("log.parquet")
    return made


def run(*words: str) -> tuple[str, str]:
    outcome = CliRunner().invoke(cli, [*ASKED, *words], catch_exceptions=False)
    assert outcome.exit_code in (0, 1), outcome.stderr
    return outcome.stdout, outcome.stderr


# -- policies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("always(no mail)", ":always(no mail)"), ("uniform", ":uniform"), ("logged", ":logged"),
        ("new=rule(case when age < 30 then 'a' else 'b' end)", ":rule(case when age < 30 then"),
        ("case when age = 30 then 'a' else 'b' end", ":rule(case when age = 30 then 'a' else"),
        ("new=CASE when age = 30 then 'a' else 'b' end", ":rule(CASE when age = 30 then 'a' else"),
        ("softmax(age)", ":softmax(age)"),
    ],
)  # fmt: skip
def test_a_missing_colon_is_pointed_at(capsys, spec, meant):
    code, text = fails([*ASKED, "--policy", spec], capsys)
    assert code == 2
    assert f"Did you mean {meant}" in text


def test_a_column_of_such_a_name_is_that_column(data):
    column = {"uniform": [0.9] * N} | dict(data.assign(p=0.9))
    made = op.evaluate(column, "uniform", action="arm", reward="visit", propensity="p")
    assert made["SNIPS"].value == pytest.approx(data.visit.mean())


@pytest.mark.parametrize(
    ("spec", "column"),
    [
        (":rule(case when visit = 1 then 'a' else 'b' end)", "visit"), (":rule(arm)", "arm"),
        ("visit", "visit"), (":probability(visit)", "visit"), (":item(arm)", "arm"),
        ("arm", "arm"), (":softmax(visit)", "visit"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("large", [False, True], ids=["memory", "files"])
def test_a_policy_that_reads_what_came_later_is_refused(monkeypatch, spec, column, large):
    if large:
        monkeypatch.setattr(_read, "READ_WHOLE", 1)
    names = {"action": "arm", "reward": "visit", "propensity": 1 / 3}
    with refuses(PolicyError, column):
        op.evaluate("log.parquet", spec, **names)
    with refuses(PolicyError, column):
        op.compare("log.parquet", {"new": spec, "a": ":always(a)"}, **names)
    with refuses(PolicyError, column):
        op.check("log.parquet", spec, **names)


def test_the_rewards_themselves_are_no_policy(data):
    """By values, whatever the column is called; few rows may be alike by accident."""
    names = {"action": "arm", "reward": "visit", "propensity": 1 / 3}
    copied = data.assign(seen=data.visit)
    for policy in (data.visit.to_numpy(float), "seen", ":probability(seen)"):
        with refuses(PolicyError):
            op.evaluate(copied, policy, **names)
    assert not op.evaluate(copied[:20], "seen", **names).can_tell


def test_another_outcome_may_be_read_if_it_is_not_the_reward():
    """What else came later nothing says; weights that do not average 1 give it away."""
    spec = "new=:rule(case when spend > 0 then 'a' else 'b' end)"
    assert "weight-mean" in run("--policy", spec)[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--policy", ":rule(case when age < 30 then no mail else b end)"],
            "in single quotes: 'de'",
        ),
        (["--policy", ":rule(case when age < 30 then 'nomail' else 'b' end)"], '"no mail"'),
        (["--policy", ":uniform", "--json"], "say --format json"),
        (["--policy", ":uniform", "--treatment", "arm"], "say --action COLUMN"),
        (["--policy", ":uniform", "--jsonn"], "No such option"),
    ],
)
def test_words_of_other_tools_are_pointed_at(capsys, words, said):
    code, text = fails([*ASKED, *words], capsys)
    assert code == 2
    assert said in text


def test_one_reward_at_a_time(capsys):
    words = ["visit,spend" if word == "visit" else word for word in ASKED]
    assert "One reward" in fails([*words, "--policy", ":uniform"], capsys)[1]


# -- rows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("large", [False, True], ids=["memory", "files"])
def test_rows_picked_by_their_reward_are_warned_of(monkeypatch, large):
    if large:
        monkeypatch.setattr(_read, "READ_WHOLE", 1)
    names = {"action": "arm", "reward": "visit", "propensity": 1 / 3}

    def codes(**how) -> set[str]:
        one = op.evaluate("log.parquet", ":uniform", **names, **how)
        both = op.check("log.parquet", ":uniform", **names, **how)
        assert ("reward-filter" in {f.code for f in one.findings}) == ("reward-filter" in both)
        return {f.code for f in one.warnings}

    assert "reward-filter" in codes(where="visit = 1 or age < 30")
    assert "reward-filter" in codes(where="visit = 1 or age < 30", sample=0.9)
    assert "reward-filter" in codes(where="visit is not null and coalesce(visit, 0) = 1")
    assert "reward-filter" not in codes(where="visit is not null and age < 30")
    assert "reward-filter" not in codes()


def test_a_sample_of_all_rows_is_all_rows(data):
    for words in (["--sample", "5000"], ["--limit", "1200"]):
        assert "All 1,200 rows are read" in run("--policy", ":always(a)", *words)[1]
    assert "Only 600 rows" in run("--policy", ":always(a)", "--limit", "600")[1]
    whole = op.read_log(data, action="arm", reward="visit", propensity=1 / 3, sample=1200)
    assert not whole.is_part


@pytest.mark.parametrize(
    ("file", "told"), [("bad.csv", ", below the header."), ("bad.parquet", ".")]
)
def test_messages_say_how_rows_are_counted(data, file, told):
    bad = data.assign(visit=data.visit.astype(float))
    bad.loc[5, "visit"] = np.nan
    bad.to_csv("bad.csv", index=False)
    bad.to_parquet("bad.parquet")
    with refuses(LogError, "visit", row=5) as caught:
        op.read_log(file, action="arm", reward="visit", propensity=1 / 3)
    assert str(caught.value).endswith(f"Rows are counted from 0{told}")


# -- the shell ---------------------------------------------------------------------------------


@pytest.mark.parametrize("files", [["log.csv"], ["log.csv", "log.parquet", "notes.md"]], ids=str)
def test_a_star_that_the_shell_expanded_is_pointed_at(capsys, files):
    Path("notes.md").write_text("x")
    first, *others = files
    code, text = fails([*ASKED, "--policy", ":always(a)", "--context", first, *others], capsys)
    assert code == 2
    assert "Quote it: --context '*'" in text


def test_a_sweep_says_what_it_took_too():
    words = ["sweep", *ASKED[1:], "--policy", ":always(a)", "--context", "*", "-e", "CAB-DR"]
    told = CliRunner().invoke(cli, words, catch_exceptions=False).stderr
    assert "Note (contexts-taken): * took the contexts age, spend." in told
    assert "Warning (contexts-later)" in told


def test_a_report_is_of_a_result(capsys):
    for file in ("log.csv", "log.parquet"):
        code, text = fails(["report", file], capsys)
        assert code == 2
        assert "offpolicy evaluate LOG … --report page.html" in text


def test_contexts_are_left_out_by_a_minus():
    stdout, stderr = run("--policy", ":always(a)", "--context", "*", "--context", "-spend")
    assert "* took the contexts age." in stderr
    assert "reward model was trained" in stdout


# -- what is told --------------------------------------------------------------------------------


def test_arms_are_told_only_where_some_may_be_missing(data):
    assert "arms-found" not in run("--policy", ":always(a)")[1]
    data.assign(p=1 / 3).to_csv("log.csv", index=False)
    told = CliRunner().invoke(cli, [*ASKED[:-1], "p", "--policy", ":always(a)"]).stderr
    assert "Note (arms-found): The arms are those found in the log: a, b, no mail." in told


def test_columns_of_the_table_are_explained_below_it():
    stdout, _ = run("--policy", ":always(a)", "-e", "IPS", "-e", "CIPS(M=2)")
    assert "M: cap on weights; imputed: share answered by a model" in stdout
    assert "M: cap" not in run("--policy", ":always(a)", "-e", "IPS")[0]


def test_compare_says_what_model_it_trained():
    words = ["compare", *ASKED[1:], "--policy", ":always(a)", "--policy", ":always(b)"]
    words += ["--context", "age"]
    text = CliRunner().invoke(cli, words, catch_exceptions=False).stdout
    assert "a reward model was trained on the contexts of 1,200 decisions: " in text
    made = op.Comparison.from_json(CliRunner().invoke(cli, [*words, "--format", "json"]).stdout)
    assert made.trained.tried[made.trained.kind] == made.trained.fit
    assert str(made.trained) in repr(made)
    plain = CliRunner().invoke(cli, [*words[:-2], "--format", "json"]).stdout
    assert json.loads(plain)["trained"] is None


@pytest.mark.parametrize("large", [False, True], ids=["memory", "files"])
@pytest.mark.parametrize("holdout", [0.0, 0.5])
def test_what_a_policy_is_learned_from_is_looked_at(monkeypatch, large, holdout):
    if large:
        monkeypatch.setattr(_read, "READ_WHOLE", 1)
    names = {"action": "arm", "reward": "visit", "propensity": 1 / 3, "context": ["*"]}
    learner = SoftmaxLearner(max_iter=2)
    made = learn(learner, "log.parquet", holdout=holdout, where="visit < 9", **names)
    assert [one.code for one in made.findings] == [
        "reward-filter", "contexts-taken", "contexts-later",
    ]  # fmt: skip
    assert str(made).count("Warning (contexts-later)") == 1
    assert type(made).from_json(made.to_json()) == made
    words = ["learn", "log.parquet", *ASKED[2:], "--context", "*", "-o", "new.json"]
    words += ["--holdout", str(holdout), "--max-iter", "2"]
    told = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert "Note (contexts-taken): * took the contexts age, spend." in told.stderr
    assert told.stdout.count("Warning (contexts-later)") == 1
    told = CliRunner().invoke(cli, [*words, "--format", "json"], catch_exceptions=False)
    assert "Warning (contexts-later)" in told.stderr


# -- large logs ----------------------------------------------------------------------------------


def test_propensities_of_a_scanned_log_are_estimated_in_memory(monkeypatch, capsys):
    asked = ["evaluate", "log.parquet", "--action", "arm", "--reward", "visit", "--context", "age"]
    asked += ["--policy", ":always(a)", "--estimate-propensity", "--format", "json"]
    held = CliRunner().invoke(cli, asked, catch_exceptions=False).stdout
    monkeypatch.setattr(_read, "READ_WHOLE", 1)
    scanned = CliRunner().invoke(cli, asked, catch_exceptions=False).stdout
    assert scanned == held
    from offpolicy.cli import options

    monkeypatch.setattr(options, "HELD", 1000)
    code, text = fails(asked, capsys)
    assert code == 2
    assert "Add --sample 1000" in text
    assert CliRunner().invoke(cli, [*asked, "--sample", "800"]).exit_code == 0


def test_spark_is_told_what_to_do_instead():
    from offpolicy._core.door import Door
    from offpolicy.logs import Distributed
    from offpolicy.logs._part import portion

    class Far(Distributed):
        source, columns = "far", op.Columns()
        column_names = type_of = distinct = rewards = column_of = find_reward_outside = None
        read = fingerprint = reduce = None

        def __len__(self) -> int:
            return 10

    with refuses(ParameterError, "sample") as caught:
        portion(Far(), None, 5.0, 0)
    assert "where=" in str(caught.value)
    with Door.of_options(), refuses(ParameterError, "limit") as caught:
        portion(Far(), 5, None, 0)
    assert "--limit is for" in str(caught.value)
    assert "--where" in str(caught.value)
