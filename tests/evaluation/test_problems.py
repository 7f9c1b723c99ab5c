"""Where there is a problem no answer is to be relied on, and none is given as if it were."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.errors import LogError, PolicyError
from tests.support.commands import fails
from tests.support.refusals import refuses

N = 3_000


def experiment():
    rng = np.random.default_rng(4)
    arm = rng.choice(["a", "b", "c"], N)
    return {
        "arm": arm,
        "bought": (rng.random(N) < np.where(arm == "a", 0.4, 0.2)).astype(int),
        "half": np.where(rng.random(N) < 0.6, 1.0, 0.0),  # no probability of what was chosen
        "city": rng.choice(["x", "y"], N),
        "shown": np.where(arm == "a", "a", "b"),
    }


HOW = {"action": "arm", "reward": "bought", "propensity": 1 / 3}


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    import pyarrow as pa
    import pyarrow.csv

    path = tmp_path_factory.mktemp("problems") / "log.csv"
    pa.csv.write_csv(pa.table(experiment()), path)
    return path


def run(*words):
    return CliRunner().invoke(cli, list(map(str, words)))


OPTIONS = ("--action", "arm", "--reward", "bought", "--propensity", "1/3")


def test_an_answer_with_a_problem_is_no_verdict():
    result = op.evaluate(experiment(), {"half": "half", "fine": ":always(a)"}, **HOW)
    assert [(one.code, one.place) for one in result.problems] == [("weight-mean", "half")]
    lines = result.sentence().splitlines()
    assert lines[0].startswith("half: there is a problem (weight-mean), so these numbers are not")
    assert any(line.startswith("fine is better than what ran") for line in lines)
    assert "not to be relied on: there is a problem." in result.to_html()


def test_few_rows_are_in_the_interval():
    rng = np.random.default_rng(3)
    action = rng.choice(2, 400, p=[0.99, 0.01])
    rare = {"action": action, "reward": rng.integers(0, 2, 400), "new": [[0.0, 1.0]] * 400}
    result = op.evaluate(rare | {"logging": [[0.99, 0.01]] * 400}, "new")
    assert ("effective-size", "problem") in [(one.code, one.severity) for one in result.findings]
    assert result.problems == []


def test_a_comparison_with_a_problem_says_so_first():
    compared = op.compare(experiment(), {"half": "half"}, **HOW)
    first = compared.sentence().splitlines()[0]
    assert first == "There is a problem (weight-mean), so these verdicts are not to be relied on."


@pytest.mark.parametrize("verb", ["evaluate", "compare"])
@pytest.mark.parametrize(("policy", "code"), [("half", 1), (":always(a)", 0)])
def test_the_exit_code(verb, policy, code, csv):
    assert run(verb, csv, *OPTIONS, "--policy", policy).exit_code == code


def test_an_action_where_a_column_should_be():
    with pytest.raises(PolicyError) as caught:
        op.evaluate(experiment(), "a", **HOW)
    assert str(caught.value).endswith("always chooses it is :always(a).")


@pytest.mark.parametrize("column", ["arm", "bought"])
def test_what_came_after_is_no_context(column):
    with refuses(LogError, column):
        op.evaluate(experiment(), ":uniform", context=["city", column], **HOW)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--context", "city,shown"), "--context city --context shown"),
        (("--propensity", "33%"), "--propensity 1/3"),
        (("--propensity", "0,33"), "--propensity 1/3"),
    ],
)
def test_what_people_write_is_answered_by_how_it_is_written(option, said, csv, capsys):
    asked = ["evaluate", str(csv), *OPTIONS[:4], "--policy", ":uniform", *option]
    code, told = fails(asked, capsys)
    assert code == 2
    assert said in told


def test_a_function_that_fails_is_the_one_that_failed():
    def mine(log):
        return log.context[:, 0]

    with refuses(PolicyError, "mine") as caught:
        op.evaluate(experiment(), {"mine": mine}, **HOW)
    assert "TypeError" in str(caught.value)
    assert "context=" in str(caught.value)
    assert isinstance(caught.value.__cause__, TypeError)
