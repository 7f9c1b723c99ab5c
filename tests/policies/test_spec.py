"""The grammar of policies: what text stands for, in memory and in files."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offpolicy as op
from offpolicy._core.quoting import parts_of, quoted, unquoted
from offpolicy.errors import LogError, ParameterError, PolicyError, PropensityError
from offpolicy.logs.files._parquet import ParquetScan
from offpolicy.policies import named, policies_of, resolve, settle
from tests.support.refusals import refuses

N = 3000
ARMS = ("a, b", "it's", "c")


def table(rng: np.random.Generator) -> pa.Table:
    """A randomised log of three arms, two of whose names must be quoted."""
    arm, better = rng.integers(0, 3, N), rng.integers(0, 3, N)
    group = rng.integers(0, 2, N)
    reward = rng.random(N) < 0.2 + 0.2 * (arm == better)
    names = np.array(ARMS)
    return pa.table({
        "action": names[arm], "reward": reward.astype(float), "better": names[better],
        "place": better, "group": group, "pi": np.where(arm == better, 1.0, 0.0),
        "scores": (np.eye(3)[better] * 2.0).tolist(), "listed": [list(ARMS)] * N,
        "third": np.full(N, 1 / 3), "pi0": [[1 / 3] * 3] * N,
    })  # fmt: skip


@pytest.fixture(scope="module")
def data() -> pa.Table:
    return table(np.random.default_rng(1))


COLUMNS = op.Columns(propensity=1 / 3)
NAMED = op.Columns(propensity=1 / 3, actions=ARMS)
LISTED = op.Columns(logging="pi0", candidates="listed")
CASES = {
    "one propensity": ([COLUMNS, NAMED], LISTED),
    "a column of propensities": (
        [op.Columns(propensity="third"), op.Columns(propensity="third", actions=ARMS)],
        op.Columns(propensity="third", candidates="listed"),
    ),
}


def answer(log, spec: str) -> np.ndarray:
    head = op.evaluate(log, {"new": spec}).headline
    return np.array([head.value, head.interval.low, head.interval.high])


# -- what a spec is ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "spec"),
    [
        ("pi", "pi", "pi"),
        ("new=pi", "new", "pi"),
        ("new=a=b", "new", "a=b"),
        (":always(x=y)", "always(x=y)", ":always(x=y)"),
        ("new=:rule(case when a = 1 then 'x' end)", "new", ":rule(case when a = 1 then 'x' end)"),
        ('"a=b"=:uniform', "a=b", ":uniform"),
        (":uniform", "uniform", ":uniform"),
        ("python:my.module:choose", "choose", "python:my.module:choose"),
    ],
)
def test_the_name_ends_at_the_first_equals_sign_outside_parentheses(text, name, spec):
    assert named(text) == (name, spec)


@given(st.lists(st.text(min_size=1).map(str.strip).filter(bool), min_size=1, max_size=4))
def test_names_are_quoted_and_read_back(names):
    text = ",".join(map(quoted, names))
    assert list(map(unquoted, parts_of(text))) == names


@pytest.mark.parametrize(
    "text",
    [
        "", "=pi", "new=", ":allways(a)", ":always", ":always(a", ":always(a, b)", ":uniform(a)",
        ":softmax()", ":softmax(s, epsilon=1)", ":softmax(s, temperature=x)", ":rule(case when)",
        ":rule(action; drop table x)", ":rule(read_csv('x'))", ":rule((select 1))",
        ":rule(a -- b)", "python:os", "python::f",
    ],
)  # fmt: skip
def test_what_is_no_policy_is_refused(text):
    with pytest.raises(ParameterError):
        policies_of(text, allow_code=True)


def test_two_policies_of_one_name_are_refused():
    with refuses(ParameterError, "policy"):
        policies_of([":uniform", "uniform=pi"])


def test_code_is_run_only_if_allowed(data, tmp_path, monkeypatch):
    (tmp_path / "ours_to_run.py").write_text("def even(log):\n    return [1 / 3] * len(log)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with refuses(ParameterError, "policy"):
        policies_of("python:ours_to_run:even")
    (policy,) = policies_of("python:ours_to_run:even", allow_code=True).values()
    log = op.BanditLog.from_frame(data, COLUMNS)
    assert op.evaluate(log, policy).headline.value == pytest.approx(log.reward.mean())
    with refuses(ParameterError, "policy"):
        policies_of("python:ours_to_run:odd", allow_code=True)


# -- what it means -----------------------------------------------------------------------------


SPECS = {
    "better": "pi", ":item(better)": "pi", ":probability(pi)": "pi",
    ":always(\"a, b\")": ":rule('a, b')", ":always(it's)": ":rule('it''s')",
    ":rule(case when \"group\" = 1 then better else 'c' end)": None,
    ":uniform": ":logged",
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("spec", SPECS)
def test_arms_that_are_named_or_found_or_listed_give_the_same_answer(data, tmp_path, spec, case):
    kinds, listed = CASES[case]
    expected = answer(op.BanditLog.from_frame(data, listed), spec)
    for columns in kinds:
        np.testing.assert_allclose(
            answer(op.BanditLog.from_frame(data, columns), spec), expected, rtol=1e-12
        )
    pq.write_table(data, tmp_path / "log.parquet", row_group_size=500)
    for columns in (*kinds, listed):
        scan = ParquetScan([tmp_path / "log.parquet"], columns)
        np.testing.assert_allclose(answer(scan, spec), expected, rtol=1e-12)


@pytest.mark.parametrize(("spec", "other"), [pair for pair in SPECS.items() if pair[1]])
def test_a_policy_that_is_said_in_two_ways(data, spec, other):
    log = op.BanditLog.from_frame(data, LISTED)
    np.testing.assert_allclose(
        op.evaluate(log, {"a": spec}, estimators=["IPS"])["IPS"].value,
        op.evaluate(log, {"a": other}, estimators=["IPS"])["IPS"].value, rtol=1e-12,
    )  # fmt: skip


def test_scores_are_in_the_order_of_arms_that_are_named(data):
    log, scores = op.BanditLog.from_frame(data, NAMED), np.array(data["scores"].to_pylist())
    weights = np.exp(scores / 0.5)
    np.testing.assert_allclose(
        resolve(log, ":softmax(scores, temperature=0.5)").flat.reshape(N, 3),
        weights / weights.sum(axis=1, keepdims=True), rtol=1e-12,
    )  # fmt: skip
    greedy = resolve(log, ":greedy(scores, epsilon=0.3)").flat.reshape(N, 3)
    np.testing.assert_allclose(greedy, 0.1 + 0.7 * (scores > 0), rtol=1e-12)


@pytest.mark.parametrize("spec", ["scores", ":softmax(scores)", ":greedy(scores)"])
def test_lists_beside_arms_that_were_found_have_no_order(data, spec):
    log = op.BanditLog.from_frame(data, COLUMNS)
    with pytest.raises(PolicyError):
        op.evaluate(log, {"uniform": ":uniform", "new": spec})


@pytest.mark.parametrize("values", [[0, 1, 1, 0], [True, False, True, True]])
@pytest.mark.parametrize("in_file", [False, True])
def test_zeros_and_ones_on_arms_0_and_1_are_refused_with_both_readings(tmp_path, values, in_file):
    frame = pa.table({"action": [0, 1, 1, 0], "reward": [1, 0, 1, 1], "new": values})
    log = op.BanditLog.from_frame(frame, op.Columns(propensity=0.5))
    if in_file:
        pq.write_table(frame, tmp_path / "log.parquet")
        log = ParquetScan([tmp_path / "log.parquet"], op.Columns(propensity=0.5))
    with refuses(PolicyError, "new") as caught:
        op.evaluate(log, "new")
    assert {":probability(new)", ":item(new)"} <= set(str(caught.value).split())
    item, probability = (settle(log, f":{kind}(new)") for kind in ("item", "probability"))
    assert op.evaluate(log, {"a": item, "b": probability}).headlines


def test_zeros_and_ones_on_other_arms_are_probabilities():
    frame = pa.table({"action": [5, 6, 6, 5], "reward": [1, 0, 1, 1], "new": [0, 1, 1, 1]})
    log = op.BanditLog.from_frame(frame, op.Columns(propensity=0.5))
    assert resolve(log, "new").chosen.tolist() == [0, 1, 1, 1]
    frame = frame.set_column(2, "new", pa.array([5, 6, 5, 6]))
    log = op.BanditLog.from_frame(frame, op.Columns(propensity=0.5))
    assert resolve(log, "new").chosen.tolist() == [1, 1, 0, 0]


def test_arrays_of_items_functions_and_frame_columns(data):
    log = op.BanditLog.from_frame(data, NAMED)
    better = np.array(data["better"].to_pylist())
    expected = resolve(log, "better").flat
    for policy in (better, better.tolist(), lambda part: better, data["better"]):
        np.testing.assert_array_equal(resolve(log, policy).flat, expected)
    with refuses(PolicyError, "policy"):
        resolve(log, lambda part: None)


def test_many_actions_are_no_arms_but_items_are_still_matched():
    rng = np.random.default_rng(0)
    action = rng.integers(0, 500, 5000)
    new = np.where(rng.random(5000) < 0.5, action, 501)
    frame = pa.table({"action": action, "reward": rng.random(5000), "new": new})
    log = op.BanditLog.from_frame(frame, op.Columns(propensity=0.01))
    target = resolve(log, "new")
    np.testing.assert_array_equal(target.chosen, action == new)
    assert op.evaluate(log, "new", estimators=["SNIPS"])["SNIPS"].value == pytest.approx(
        log.reward[action == new].mean()
    )


# -- refusals, by place ------------------------------------------------------------------------


def test_items_that_are_no_arms_are_refused_by_row(data, tmp_path):
    wrong = data.set_column(2, "better", pa.array(["c", "d", *["c"] * (N - 2)]))
    log = op.BanditLog.from_frame(wrong, COLUMNS, "log")
    with refuses(PolicyError, "better", row=1, file="log"):
        op.evaluate(log, "better")
    pq.write_table(wrong, tmp_path / "log.parquet")
    with refuses(PolicyError, "better", row=1, file="log.parquet"):
        op.evaluate(ParquetScan([tmp_path / "log.parquet"], COLUMNS), "better")
    with refuses(PolicyError, "policy"):
        op.evaluate(log, ":always(d)")
    with refuses(PolicyError, "case when place > 0 then 'c' end"):
        op.evaluate(log, ":rule(case when place > 0 then 'c' end)")


def test_items_that_are_no_candidates_of_their_decision_are_refused_by_row():
    frame = pa.table({
        "action": ["a", "b"], "reward": [1.0, 0.0], "propensity": [0.5, 0.5],
        "candidates": [["a", "b"], ["b", "c"]], "new": ["a", "a"],
    })  # fmt: skip
    with refuses(PolicyError, "new", row=1):
        op.evaluate(op.BanditLog.from_frame(frame), "new")


def test_propensities_that_do_not_sum_to_1_are_refused_with_the_sum(data):
    with refuses(PropensityError, "propensity") as caught:
        op.Columns(propensity=0.25, actions=["a", "b", "c"])
    assert "0.75" in str(caught.value)
    log = op.BanditLog.from_frame(data, op.Columns(propensity=0.25))
    with refuses(PropensityError, "propensity") as caught:
        op.evaluate(log, ":uniform")
    assert "0.75" in str(caught.value)
    for propensity in (0.0, 1.5, -1.0, float("nan")):
        with refuses(ParameterError, "propensity"):
            op.Columns(propensity=propensity)


def test_actions_that_are_not_among_the_arms_are_refused_by_row(data):
    with refuses(LogError, "action", file="log"):
        op.BanditLog.from_frame(data, op.Columns(propensity=0.5, actions=["c", "it's"]), "log")
    with refuses(LogError, "candidates"):
        op.BanditLog.from_frame(data, op.Columns(actions=ARMS, candidates="listed"))
    with refuses(ParameterError, "actions"):
        op.Columns(actions="a,b")
    with refuses(LogError, "actions"):
        op.Columns(actions=["a", "a"])


def test_arms_order_lists_of_the_logger():
    frame = pa.table({"action": ["y", "x"], "reward": [1.0, 0.0], "logging": [[0.4, 0.6]] * 2})
    log = op.BanditLog.from_frame(frame, op.Columns(actions=["x", "y"]))
    assert log.propensity.tolist() == [0.6, 0.4]
    with refuses(PropensityError, "logging", row=0):
        op.BanditLog.from_frame(frame, op.Columns(actions=["x", "y", "z"]))


# -- rewards -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_missing_rewards_are_filled_everywhere(tmp_path, kind):
    rows = list(zip("abab" * 50, itertools.cycle(["1", "", "0.5"]), strict=False))
    text = "action,reward,new\n" + "".join(f"{a},{r},a\n" for a, r in rows)
    path = tmp_path / "log.csv"
    path.write_text(text)
    columns = op.Columns(propensity=0.5, fill_reward=0)
    log = op.read_log(path, columns)
    if kind != "csv":
        frame = pa.table({
            "action": [a for a, _ in rows], "new": ["a"] * len(rows),
            "reward": pa.array([float(r) if r else None for _, r in rows]),
        })  # fmt: skip
        if kind == "frame":
            log = op.read_log(frame, columns)
        else:
            pq.write_table(frame, tmp_path / "log.parquet")
            log = ParquetScan([tmp_path / "log.parquet"], columns)
            assert (log.rewards.low, log.rewards.high) == (0.0, 1.0)
    expected = np.mean([float(r or 0) for a, r in rows if a == "a"])
    assert op.evaluate(log, "new", estimators=["SNIPS"])["SNIPS"].value == pytest.approx(expected)
    with refuses(ParameterError, "fill_reward"):
        op.Columns(fill_reward="0")


def test_roles_from_toml(tmp_path: Path):
    path = tmp_path / "columns.toml"
    path.write_text('propensity = 0.5\nactions = ["a", "b"]\nfill_reward = 0\n')
    assert op.Columns.from_toml(path) == op.Columns(
        propensity=0.5, actions=("a", "b"), fill_reward=0
    )


def test_a_classifier_is_renormalised_when_asked():
    class Model:
        classes_ = np.array(["a", "b", "c"])

        def predict_proba(self, X):
            return np.tile([0.2, 0.3, 0.5], (len(X), 1))

    log = op.BanditLog.from_ragged(
        offsets=[0, 2, 4], action=["a", "b"], candidate=["a", "b", "b", "c"], reward=[1.0, 0.0],
        propensity=[0.5, 0.5], context=[[0.0], [1.0]],
    )  # fmt: skip
    made = op.policies.Classifier(Model(), renormalise=True).probabilities(log)
    np.testing.assert_allclose(made, [0.4, 0.6, 0.375, 0.625])
