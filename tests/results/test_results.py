"""What `evaluate` returns and refuses: indexing, text, JSON, frames, files, and every error."""

from __future__ import annotations

import json
import math
import os
import re
import stat
import sys
from dataclasses import fields, replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

import offpolicy as op
from offpolicy import errors, ranking
from offpolicy._core.files import write_whole
from offpolicy.errors import MissingPackageError
from offpolicy.intervals._closed_form import Interval
from offpolicy.results._findings import finding
from offpolicy.results._result import Estimate, Headline, Logged, Tuned
from tests.support.cases import bandit_log
from tests.support.clicks import clicked
from tests.support.members import BOTH, CHOSEN_ONLY, EVERYTHING
from tests.support.public import propensities
from tests.support.refusals import refuses

MODEL = ["DM"]
ODD_NAMES = [
    "inf", "-inf", "NaN", "null", "", "</script>", "naïve 日本 🎉 \u2028", 'quote " \\ tab \t',
]  # fmt: skip


def bare(name: str) -> str:
    return name.split("(", maxsplit=1)[0]


@pytest.fixture
def log() -> op.BanditLog:
    return bandit_log([0, 1, 0, 1], [1, 0, 1, 1], [0.5, 0.5])


PI = np.array([[0.9, 0.1]] * 4)
OTHER = np.array([[0.2, 0.8]] * 4)
DELTA_HAT = np.array([[0.7, 0.2]] * 4)


@pytest.fixture
def result(log) -> op.Result:
    estimators = ["IPS", "CAB(M=1)", "CAB(M=10)", "DR"]
    return op.evaluate(log, {"new": PI, "old": OTHER}, prediction=DELTA_HAT, estimators=estimators)


# -- indexing --------------------------------------------------------------------------------


def test_index_by_name_or_estimator(log):
    result = op.evaluate(log, PI, prediction=DELTA_HAT, estimators=["IPS", "CAB(M=10)"])
    assert result["IPS"] is result[op.IPS()] is result["policy", "IPS"]
    assert result["CAB"] is result["CAB(M=10)"] is result[op.CAB(M=10)] is result[op.CAB()]


def test_index_by_policy_and_estimator(result):
    assert result["old", "IPS"].policy == "old"
    assert result["new", op.CAB(M=10)].estimator == "CAB(M=10)"
    assert [row.policy for row in result] == ["new"] * 4 + ["old"] * 4
    assert (len(result), result.policies) == (8, ("new", "old"))


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("IPS", 'There are 2 policies: ask for result["new", "IPS"].'),
        (("new", "CAB"), '"CAB" could be CAB(M=1) or CAB(M=10).'),
        (("new", "CAB(M=11)"), '"CAB(M=11)" was not among the estimators. Did you mean "CAB(M='),
        (("new", "DM"), "There are IPS, CAB(M=1), CAB(M=10), DR."),
        (
            ("nwe", "IPS"),
            'There is no policy "nwe". Did you mean "new"? The policies are new, old.',
        ),
        (("new", "IPS", "M"), "Ask for result[estimator] or result[policy, estimator]."),
    ],
)
def test_index_errors_say_what_there_is(result, key, message):
    with pytest.raises(errors.ParameterError) as caught:
        result[key]
    assert message in str(caught.value)


@pytest.mark.parametrize("estimators", [["DM", "IPS"], ["CAB-DR(M=2)"], ["CAB"]], ids=str)
def test_headline_is_cab_dr_for_the_first_policy_whatever_was_asked_for(log, estimators):
    result = op.evaluate(
        log, {"new": PI, "old": OTHER}, prediction=DELTA_HAT, estimators=estimators
    )
    same = op.evaluate(log, {"new": PI, "old": OTHER}, prediction=DELTA_HAT, estimators=["DR"])
    assert result.headlines == same.headlines
    assert result.headline is result.headlines[0]
    assert [row.policy for row in result.headlines] == ["new", "old"]
    for row in result.headlines:
        assert row.estimator == "headline"
        place = row.grid.index(row.M)
        moved = row.values[place] + row.correction
        assert row.value == min(max(moved, row.interval.low), row.interval.high)
        assert row.stderr == row.stderrs[place]
        assert row.errors[place] == min(row.errors)
        assert {len(row.grid), len(row.values), len(row.stderrs), len(row.errors)} == {64}
        assert row.can_tell == (row.refusal is None)
    assert result.can_tell == all(row.can_tell for row in result.headlines)


def test_without_propensities_the_headline_is_the_first_estimate():
    log = op.BanditLog.from_arrays(**_chosen)
    result = op.evaluate(log, {"new": PI, "old": OTHER}, prediction=DELTA_HAT)
    assert result.headlines == ()
    assert result.headline is result["new", "DM"]
    assert result.headline.covers == (
        "the estimator's own mean: this log has no propensities to say more"
    )
    assert result.can_tell


def test_an_estimate_knows_its_member(result):
    row = result["new", "CAB(M=10)"]
    assert (row.member, row.M) == (op.CAB(M=10), 10.0)
    assert result["new", "IPS"].M is None


def test_an_ice_has_no_clipping_constant(log):
    ice = op.ICE(alpha=np.zeros_like, beta=np.ones_like, gamma=np.zeros_like)
    row = op.evaluate(log, PI, prediction=DELTA_HAT, estimators=[ice])[ice]
    assert row.M is None


# -- text ------------------------------------------------------------------------------------


def told(
    value: float, refusal: str | None = None, policy: str = "new", model: str = "model"
) -> op.Result:
    """A result with one headline, by hand."""
    gap = value - 0.75
    headline = Headline(
        policy=policy,
        M=3.2112345,
        model=model,
        value=value,
        stderr=0.1,
        interval=Interval(value - 0.25, value + 0.125),
        level=0.95,
        covers="the policy's value, and allows for sampling error",
        imputed_mass=0.1,
        correction=0.0,
        kappa=0.1,
        interval_M=8.0,
        interval_imputed_mass=0.05,
        plausible_bias=0.01,
        bias_bound=0.1,
        rewarded=100.0,
        policy_stderr=0.0,
        versus_logged=Interval(gap - 0.125, gap + 0.125),
        reason="least estimated error: 0.1 noise, 0.01 bias",
        refusal=refusal,
        grid=(0.0,),
        values=(value,),
        stderrs=(0.1,),
        errors=(0.1,),
    )
    row = Estimate(policy, "DM", 0.5, 0.1, Interval(0.0, 1.0), 0.95, 1.0, None, 0.0)
    logged = Logged(1200, 0.75, 0.1, Interval(0.5, 1.0))
    return op.Result((row,), logged, (headline,))


@pytest.mark.parametrize(
    ("value", "how", "gap"),
    [
        (0.95, "is better than", "+0.2 [0.075, 0.325]"),
        (0.5, "is worse than", "-0.25 [-0.375, -0.125]"),
        (0.8, "may be better or worse than", "+0.05 [-0.075, 0.175]"),
    ],
)
def test_sentence(value, how, gap):
    """The paired difference decides, whether or not the interval holds what ran."""
    result = told(value)
    earned = f"{value} per decision, not 0.75"
    if "may be" in how:
        earned = f"about {value} per decision, what ran earned 0.75"
    assert result.sentence() == (
        f"new {how} what ran: it would have earned {earned}.\n"
        f"  95% intervals from 1,200 decisions: {value} [{value - 0.25:.5g}, {value + 0.125:.5g}]; "
        f"difference {gap}.\n"
        "  The first covers the policy's value, and allows for sampling error.\n"
        "  Method: CAB-DR, weights capped at M = 3.211 (chosen from the log), around the reward "
        "model, recalibrated on the log; least estimated error: 0.1 noise, 0.01 bias."
    )
    assert str(result) == f"{result.sentence()}\n\n{result.to_text()}"


def test_sentence_of_a_log_that_cannot_tell():
    result = told(0.95, refusal="there is nothing in it.")
    assert result.sentence() == (
        "new: this log cannot tell: there is nothing in it.\n"
        "  The estimate would be 0.95 [0.7, 1.075]."
    )
    assert not result.can_tell
    assert not result.headline.can_tell


def test_sentence_of_the_policy_that_wrote_the_log():
    result = told(0.75, model="logger")
    assert result.headlines[0].verdict == "identical"
    assert result.sentence() == (
        "new does what ran, and earns the same: 0.75 per decision.\n"
        "  95% intervals from 1,200 decisions: 0.75 [0.5, 0.875].\n"
        "  The first covers the policy's value, and allows for sampling error."
    )


def test_several_differences_stand_for_themselves():
    first, second = told(0.95), told(0.5, policy="old")
    result = replace(first, headlines=first.headlines + second.headlines)
    assert result.sentence().splitlines()[-1] == (
        "Each paired difference stands for itself; compare holds them together."
    )


def test_sentence_without_propensities_is_about_the_first_estimate():
    log = op.BanditLog.from_arrays(**_chosen)
    result = op.evaluate(log, {"new": PI, "old": OTHER}, prediction=DELTA_HAT)
    assert result.sentence() == (
        "new: 0.65 [0.65, 0.65], by DM.\n"
        "  The interval covers the estimator's own mean: this log has no propensities to say more."
    )


def test_sentence_has_a_paragraph_for_every_policy(result):
    text = result.sentence()
    heads = [re.split(r"[ :]", line)[0] for line in text.splitlines() if not line.startswith(" ")]
    assert heads == ["new", "old"]


def test_table_is_aligned(log, result):
    for table in (result.to_text(), op.evaluate(log, PI, estimators=["IPS"]).to_text()):
        *lines, legend, note = table.splitlines()
        assert len({len(line) for line in lines}) == 1
        assert "imputed: " in legend
        assert note.startswith("† Too few effective rows")


def test_table_marks_weights_that_are_too_heavy_and_says_how_far_a_row_is_from_the_headline():
    light, heavy = (
        Estimate("new", "IPS", 0.5, 0.1, Interval(0.0, 1.0), 0.95, 0.0, ess, 8.0, from_headline=far)
        for ess, far in ((100.0, -0.04), (99.0, 1.24))
    )
    assert (light.too_heavy, heavy.too_heavy) == (False, True)
    told_both = replace(told(0.95), estimates=(light, heavy)).to_text().splitlines()
    assert told_both[2].split()[-5:] == ["+0.0", "se", "0.0%", "100.0", "8"]
    assert told_both[3].split()[-5:] == ["+1.2", "se", "0.0%", "99.0†", "8"]
    assert told_both[5].startswith("† ")
    assert "†" not in replace(told(0.95), estimates=(light,)).to_text()


def test_a_value_outside_of_its_interval_is_explained_and_one_interval_of_all_rows_told_once():
    covers = "the policy's value, and allows for sampling error"
    cut, held = (
        Estimate("new", name, value, 0.1, Interval(0.0, 1.0), 0.95, 0.0, 200.0, 8.0, covers=covers)
        for name, value in (("IPS", 1.2), ("DR", 0.5))
    )
    head, _, ips, dr, *notes = replace(told(0.95), estimates=(cut, held)).to_text().splitlines()
    assert "low" not in head
    assert (ips.split()[1], dr.split()[1]) == ("1.2‡", "0.5")
    assert [note[:40] for note in notes[1:]] == [
        "‡ The value is outside its interval, whi", "Every row has the interval [0, 1].",
    ]  # fmt: skip
    assert "low 0.95" in replace(told(0.95), estimates=(held,)).to_text()


def test_warnings_stand_below_the_sentence_and_notes_do_not():
    drift, size = (
        finding(code, severity, "What was found.")
        for code, severity in (("drift", "warning"), ("sample", "note"))
    )
    result = replace(told(0.95), findings=(*drift, *size))
    assert str(result) == f"{result.sentence()}\n{drift[0]}\n\n{result.to_text()}"


def test_repr_is_the_short_text(log, result):
    assert repr(result) == str(result)
    compared = op.compare(log, {"new": PI, "old": OTHER})
    assert repr(compared) == str(compared)
    assert len(repr(result.headline)) < 2000


def test_the_ends_of_the_interval_stand_beside_the_value(result):
    columns = list(result.to_frame().columns)
    assert columns[columns.index("value") :][:4] == ["value", "low", "high", "stderr"]


def test_table_names_the_policies_only_if_there_are_several(log, result):
    head, rule, *body, _, _ = result.to_text().splitlines()
    assert head.split()[:4] == ["policy", "estimator", "value", "stderr"]
    assert set(rule) == {"─", " "}
    assert [line.split()[:2] for line in body] == [[row.policy, row.estimator] for row in result]
    assert op.evaluate(log, PI, estimators=["IPS"], level=0.8).to_text().split()[:5] == [
        "estimator", "value", "stderr", "low", "0.8",
    ]  # fmt: skip


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.data: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.data.append(data)


def test_html_escapes_everything(log):
    nasty = "<script>alert('x')</script> & \"co\""
    ice = op.ICE(np.zeros_like, np.ones_like, np.zeros_like, label="<img src=x onerror=y>")
    page = Tags(
        op.evaluate(
            log, {nasty: PI, "b": PI}, prediction=DELTA_HAT, estimators=[ice, "IPS"]
        )._repr_html_()
    )
    assert page.tags.isdisjoint({"script", "img", "iframe"})
    assert page.data.count(nasty) == 2
    assert any(text.startswith(f"{nasty}: ") for text in page.data)
    assert page.data.count(ice.label) >= 2


# -- JSON ------------------------------------------------------------------------------------


def strict(text: str) -> dict:
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_json_round_trip(log, name, tmp_path):
    result = op.evaluate(log, {name: PI, "b": OTHER}, prediction=DELTA_HAT)
    path = tmp_path / "result.json"
    text = result.to_json(path)
    again = op.Result.from_json(text)
    assert again.to_json() == text
    assert (again.estimates, again.headlines) == (result.estimates, result.headlines)
    assert again.logged == result.logged
    assert [row.estimator for row in again.tuned] == [row.estimator for row in result.tuned]
    for a, b in zip(again.tuned, result.tuned, strict=True):
        assert_same_table(a, b)
    assert path.read_text(encoding="utf-8") == text
    for part in ("estimates", "headlines", "tuned"):
        assert strict(text)[part][0]["policy"] == name


def assert_same_table(a: Tuned, b: Tuned) -> None:
    for item in fields(Tuned):
        np.testing.assert_array_equal(getattr(a, item.name), getattr(b, item.name))
    assert a.grid.dtype == b.grid.dtype


def test_json_round_trip_with_infinite_errors():
    log = op.BanditLog.from_arrays(action=["a"], reward=[2.5], propensity=[0.5])
    result = op.evaluate(log, {"inf": [0.5]})
    body = strict(result.to_json())
    assert body["estimates"][0]["interval"] == ["-inf", "inf"]
    again = op.Result.from_json(result.to_json())
    assert again == result
    assert again["IPS"].stderr == math.inf


def test_equal_inputs_give_equal_bytes(large_log):
    first, second = (
        op.evaluate(large_log, op.Uniform(), prediction=np.ones(large_log.offsets[-1])).to_json()
        for _ in range(2)
    )
    assert first == second


def damaged(result: op.Result, **changes: object) -> str:
    return json.dumps(json.loads(result.to_json()) | changes)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "{}", '"schema"'])
def test_other_json_is_not_a_result(text):
    with pytest.raises(errors.ResultError, match=r"^This is not a result: no JSON object with a"):
        op.Result.from_json(text)


def test_another_schema_is_named(result):
    with pytest.raises(errors.ResultError) as caught:
        op.Result.from_json(damaged(result, schema="offpolicy.result/3"))
    assert str(caught.value) == (
        'The schema is "offpolicy.result/3"; this version reads "offpolicy.result/1".'
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"estimates": 5},
        {"estimates": []},
        {"estimates": ["x"]},
        {"estimates": [{}]},
        {"logged": []},
        {"logged": {}},
        {"logged": None},
        {"headlines": 5},
        {"headlines": [{}]},
        {"tuned": [5]},
        {"tuned": [{}]},
        {"findings": [{"code": "x", "severity": "dire", "sentence": "", "advice": ""}]},
    ],
    ids=str,
)
def test_damaged_json_is_refused(result, changes):
    with refuses(errors.ResultError):
        op.Result.from_json(damaged(result, **changes))


@pytest.mark.parametrize(
    "cell", [{"value": "x"}, {"value": None}, {"interval": [1]}, {"surprise": 1}], ids=str
)
def test_damaged_rows_are_refused(result, cell):
    row = json.loads(result.to_json())["estimates"][0]
    with refuses(errors.ResultError):
        op.Result.from_json(damaged(result, estimates=[row | cell]))


# -- frames ----------------------------------------------------------------------------------

FRAME = {
    "policy", "estimator", "value", "stderr", "low", "high", "level", "imputed_mass", "ess",
    "largest_weight", "policy_stderr", "covers", "plausible_bias", "bias_bound",
    "from_headline", "reason", "refusal",
}  # fmt: skip


def test_frame_has_a_row_for_each_headline_and_estimate(result):
    frame = result.to_arrow()
    assert set(frame.column_names) == FRAME
    rows = [*result.headlines, *result]
    assert frame["estimator"].to_pylist()[: len(result.headlines) + 1] == [
        *("headline" for _ in result.headlines), rows[len(result.headlines)].estimator
    ]  # fmt: skip
    assert frame["value"].to_pylist() == [row.value for row in rows]
    assert frame["low"].to_pylist() == [row.interval.low for row in rows]
    assert frame["high"].to_pylist() == [row.interval.high for row in rows]
    for name in FRAME - {"low", "high"}:
        assert frame[name].to_pylist() == [getattr(row, name, None) for row in rows]


def tables(log, result):
    """Everything that is a table."""
    curve = op.sweep(log, PI, prediction=DELTA_HAT, grid=[0.5, 1.0])
    clicks = clicked()
    on_clicks = ranking.sweep(clicks, clicks.X[:, 0])
    tuned = op.evaluate(log, PI, prediction=DELTA_HAT, estimators=["CAB"]).tuned[0]
    compared = op.compare(log, {"new": PI}, prediction=DELTA_HAT)
    report = op.check(log, PI)
    return [result, curve, on_clicks, tuned, compared, report, clicks, propensities()]


def test_tables_are_those_of_pandas_polars_and_arrow(log, result):
    for table in tables(log, result):
        arrow, pandas, polars = table.to_arrow(), table.to_frame(), table.to_polars()
        assert isinstance(pandas, pd.DataFrame)
        assert isinstance(polars, pl.DataFrame)
        assert list(pandas.columns) == polars.columns == arrow.column_names
        assert len(pandas) == len(polars) == arrow.num_rows
        assert polars.equals(pl.DataFrame(arrow))
        for name in arrow.column_names:
            numbers = arrow.schema.field(name).type in (pa.float64(), pa.int64())
            if numbers:
                assert_array_equal(pandas[name], arrow[name].to_numpy())
    assert len(op.sweep(log, PI, estimator="CIPS").to_frame(3)) == 3


@pytest.mark.parametrize(("method", "package"), [("to_frame", "pandas"), ("to_polars", "polars")])
def test_without_the_package_a_table_says_what_else_there_is(
    log, result, method, package, monkeypatch
):
    monkeypatch.setitem(sys.modules, package, None)
    for table in tables(log, result):
        with refuses(MissingPackageError, match=f"{package}.*to_arrow"):
            getattr(table, method)()
        assert table.to_arrow().num_rows >= 0


def test_frame_types_do_not_depend_on_the_values(log, result):
    alone = op.evaluate(log, PI, prediction=DELTA_HAT, estimators=["DM"])
    assert alone["DM"].ess is None
    assert alone.to_arrow().schema.equals(result.to_arrow().schema)


# -- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("before", [None, "old"])
@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()], ids=repr)
def test_a_failed_write_leaves_the_old_content(tmp_path, monkeypatch, step, before, failure):
    path = tmp_path / "result.json"
    if before is not None:
        path.write_text(before)

    def fail(*args):
        raise failure

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(failure)):
        write_whole(path, "new")
    assert [item.name for item in tmp_path.iterdir()] == ([path.name] if before else [])
    assert before is None or path.read_text() == before


def test_a_text_that_cannot_be_encoded_leaves_nothing(tmp_path):
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "result.json", "x" * 100_000 + "\ud800")
    assert list(tmp_path.iterdir()) == []


def test_a_write_replaces_the_old_content(tmp_path):
    path = tmp_path / "result.json"
    for text in ("old", "日本\n"):
        write_whole(path, text)
    assert path.read_text(encoding="utf-8") == "日本\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_has_ordinary_permissions(tmp_path):
    write_whole(tmp_path / "ours", "x")
    (tmp_path / "plain").write_text("x")
    ours, plain = (stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours", "plain"))
    assert ours == plain


# -- intervals -------------------------------------------------------------------------------


def test_a_higher_level_gives_a_wider_interval():
    log = bandit_log([0, 1, 0, 1], [3, 0, 1, 2], [0.5, 0.5])
    narrow, wide = (op.evaluate(log, PI, level=level) for level in (0.5, 0.99))
    for a, b in zip([narrow.headline, *narrow], [wide.headline, *wide], strict=True):
        assert b.interval.low < a.interval.low < a.interval.high < b.interval.high


@pytest.mark.parametrize("value", [0, 0.5, np.float64(0.5), np.float32(0.5), np.int64(1)])
def test_an_interval_contains_numbers_of_any_type(value):
    assert value in Interval(0.0, 1.0)
    assert value not in Interval(2.0, 3.0)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95, math.nan])
def test_level_must_be_a_share(log, level):
    with refuses(errors.ParameterError, "level"):
        op.evaluate(log, PI, level=level)


# -- which columns are needed ----------------------------------------------------------------

_chosen = {"action": [0, 1, 0, 1], "reward": [1, 0, 1, 1], "actions": 2}
_propensity = {"propensity": [0.5] * 4}
_logging = {"logging": [[0.5, 0.5]] * 4}
WITHOUT = {
    "logging": (_chosen | _propensity, PI, DELTA_HAT, CHOSEN_ONLY + MODEL + BOTH),
    "prediction": (_chosen | _logging, PI, None, CHOSEN_ONLY),
    "policy": (_chosen | _logging, PI[[0, 1, 2, 3], [0, 1, 0, 1]], DELTA_HAT, CHOSEN_ONLY),
    "propensity": (_chosen, PI, DELTA_HAT, MODEL),
}
PHRASE = {
    "logging": "logging, the logger's probability of every candidate",
    "prediction": "prediction, the reward model's estimate for every candidate",
    "policy": "the policy's probability of every candidate",
    "propensity": "the propensity of the chosen action",
}


@pytest.mark.parametrize("missing", WITHOUT)
@pytest.mark.parametrize("name", CHOSEN_ONLY + MODEL + BOTH + EVERYTHING)
def test_a_missing_column_is_named_with_what_still_works(missing, name):
    arrays, policy, prediction, works = WITHOUT[missing]
    log = op.BanditLog.from_arrays(**arrays)
    if name in works:
        assert op.evaluate(log, policy, prediction=prediction, estimators=[name])[name]
        return
    with pytest.raises(errors.MissingColumnError) as caught:
        op.evaluate(log, policy, prediction=prediction, estimators=[name])
    text = str(caught.value)
    assert text.startswith(f"{bare(name)} needs ")
    assert PHRASE[missing] in text
    still = text.split("These still work: ")[1].rstrip(".").split(", ")
    assert set(still) == {bare(one) for one in works}


@pytest.mark.parametrize("missing", WITHOUT)
def test_default_estimators_are_those_that_work(missing):
    arrays, policy, prediction, works = WITHOUT[missing]
    result = op.evaluate(op.BanditLog.from_arrays(**arrays), policy, prediction=prediction)
    assert {row.member.name for row in result} <= {bare(one) for one in works}


def test_a_log_without_propensities_is_told_so():
    log = op.BanditLog.from_arrays(**_chosen)
    with refuses(errors.MissingColumnError, "propensity"):
        op.evaluate(log, PI)


# -- estimators and policies asked for -------------------------------------------------------


@pytest.mark.parametrize(
    ("estimators", "message"),
    [
        (["CAB", op.CAB()], '"CAB" is asked for twice.'),
        (["IPS", "ips"], '"IPS" is asked for twice.'),
        (["CAB(M=1)", op.CAB(M=1.0)], '"CAB(M=1)" is asked for twice.'),
        ([], "There is no estimator to compute."),
        (["CBA(M=1)"], 'Did you mean "CAB"?'),
    ],
    ids=str,
)
def test_estimators_that_cannot_be_computed(log, estimators, message):
    with pytest.raises(errors.EstimatorError) as caught:
        op.evaluate(log, PI, prediction=DELTA_HAT, estimators=estimators)
    assert message in str(caught.value)


@pytest.mark.parametrize("wanted", ["CAB", op.SB(), "DRos", "SGIPS"], ids=str)
def test_a_parameter_left_out_is_chosen(log, wanted):
    result = op.evaluate(
        log, {"new": PI, "old": OTHER}, prediction=DELTA_HAT, estimators=["IPS", wanted]
    )
    assert [row.policy for row in result.tuned] == ["new", "old"]
    for choice in result.tuned:
        row = result[choice.policy, wanted]
        assert row.estimator == choice.estimator
        assert row.reason == choice.reason
        assert row.member.parameter == choice.chosen
        assert choice.chosen in choice.grid
        assert choice.rule == "theory"
        assert row.reason.startswith("least estimated error: ")
        again = op.evaluate(
            log, {choice.policy: {"new": PI, "old": OTHER}[choice.policy]}, prediction=DELTA_HAT,
            estimators=[row.estimator],
        )  # fmt: skip
        assert replace(again[row.estimator], reason=row.reason) == row
        assert again.tuned == ()
    assert result["new", "IPS"].reason is None


def test_the_table_of_a_choice_as_a_frame(log):
    (choice,) = op.evaluate(log, PI, prediction=DELTA_HAT, estimators=["SB"]).tuned
    frame = choice.to_arrow()
    assert frame.column_names == [
        "tau", "value", "stderr", "bias", "bias_stderr", "variance", "mse", "imputed_mass",
    ]  # fmt: skip
    assert frame["tau"].to_pylist() == choice.grid.tolist()
    mse = choice.bias**2 + choice.bias_stderr**2 + choice.variance
    assert frame["mse"].to_pylist() == mse.tolist()


@pytest.mark.parametrize("wanted", [op.DM, 3, None], ids=["class", "number", "none"])
def test_what_is_no_estimator_is_refused(log, wanted):
    with pytest.raises(errors.EstimatorError):
        op.evaluate(log, PI, prediction=DELTA_HAT, estimators=[wanted])


def test_one_estimator_needs_no_list(log):
    assert len(op.evaluate(log, PI, estimators="IPS")) == 1
    assert len(op.evaluate(log, PI, estimators=op.IPS())) == 1


def test_no_policy_is_refused(log):
    with refuses(errors.ParameterError, "policy"):
        op.evaluate(log, {})


@pytest.mark.parametrize("column", ["policy", "prediction"])
def test_a_column_name_needs_a_frame(log, column):
    arguments = {"policy": PI, "prediction": DELTA_HAT} | {column: "q"}
    with refuses(errors.LogError, "q"):
        op.evaluate(log, **arguments)


@pytest.mark.parametrize("shape", [(3,), (4,), (2, 4), (4, 3), (4, 2, 1)])
def test_a_prediction_of_the_wrong_shape(log, shape):
    with refuses(errors.PredictionError, "prediction"):
        op.evaluate(log, PI, prediction=np.zeros(shape))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_prediction_that_is_not_finite_is_found_by_row(log, bad):
    delta_hat = DELTA_HAT.copy()
    delta_hat[2, 1] = bad
    with refuses(errors.PredictionError, "prediction", 2, part="candidate 1"):
        op.evaluate(log, PI, prediction=delta_hat)


# -- large logs take the compiled path -------------------------------------------------------

LARGE, WIDE, BAD_ROW = 20_500, 20, 17_777


@pytest.fixture(scope="module")
def large_log() -> op.BanditLog:
    rng = np.random.default_rng(5)
    return bandit_log(
        rng.integers(0, WIDE, LARGE), rng.random(LARGE), np.full((LARGE, WIDE), 1.0 / WIDE)
    )


@pytest.mark.parametrize(
    ("change", "part"),
    [({3: 0.06}, ""), ({3: -0.1, 4: 0.2}, "candidate 3"), ({3: math.nan}, "candidate 3")],
    ids=["sum", "negative", "missing"],
)
@pytest.mark.parametrize("estimators", [["IPS"], ["DM", "CAB(M=10)"]], ids=str)
def test_a_bad_policy_in_a_large_log_is_found_by_row(large_log, change, part, estimators):
    pi = np.full((LARGE, WIDE), 1.0 / WIDE)
    for candidate, value in change.items():
        pi[BAD_ROW, candidate] = value
    with refuses(errors.PolicyError, "policy", BAD_ROW, part=part):
        op.evaluate(large_log, pi, prediction=np.ones((LARGE, WIDE)), estimators=estimators)


@pytest.mark.parametrize("estimators", [["IPS"], ["DM"], ["CAB(M=10)"]], ids=str)
def test_a_bad_prediction_in_a_large_log_is_found_by_row(large_log, estimators):
    delta_hat = np.ones((LARGE, WIDE))
    delta_hat[BAD_ROW, 3] = math.nan
    with refuses(errors.PredictionError, "prediction", BAD_ROW, part="candidate 3"):
        op.evaluate(large_log, op.Uniform(), prediction=delta_hat, estimators=estimators)


def test_a_large_policy_in_single_precision_may_be_rounded(large_log):
    pi = np.random.default_rng(0).dirichlet(np.ones(WIDE), LARGE).astype(np.float32)
    assert len(op.evaluate(large_log, pi, estimators=["IPS"])) == 1


# -- support and overflow --------------------------------------------------------------------

NEVER = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    "name",
    [*CHOSEN_ONLY, *BOTH, *EVERYTHING, "SGIPS(lam=0)", "SGDR(lam=0)", "CAB(M=inf)"],
)
def test_no_overlap_is_no_answer(log, name):
    with refuses(errors.SupportError, "new"):
        op.evaluate(log, {"new": NEVER}, prediction=DELTA_HAT, estimators=[name])


def test_no_overlap_of_one_policy_names_it(log):
    with refuses(errors.SupportError, "second"):
        op.evaluate(log, {"first": PI, "second": NEVER})


def test_the_model_alone_answers_without_overlap(log):
    row = op.evaluate(log, NEVER, prediction=DELTA_HAT, estimators=["DM"])["DM"]
    assert row.value == pytest.approx(0.45)
    assert row.imputed_mass == pytest.approx(1.0)
    assert row.ess is None


@pytest.mark.parametrize("name", ["SWITCH(M=0.1)", "SWITCH-DR(M=0.1)"])
def test_a_switch_that_is_never_on_is_not_a_lack_of_overlap(log, name):
    row = op.evaluate(log, PI, prediction=DELTA_HAT, estimators=[name])[name]
    assert row.value == pytest.approx(0.65)


def extreme(reward: float, propensity: float) -> op.BanditLog:
    return bandit_log(["a", "b"], [reward, 1.0], propensity=[propensity, 0.5])


@pytest.mark.parametrize("name", ["IPS", "CIPS(M=inf)", "SGIPS(lam=0)"])
def test_an_overflow_is_refused(name):
    with refuses(errors.EstimatorError, str(op.parse(name))):
        op.evaluate(extreme(1e150, 1e-300), [1.0, 0.5], estimators=[name])


def test_a_spread_that_overflows_is_infinite():
    row = op.evaluate(extreme(2.0, 1e-200), [1.0, 0.5], estimators=["IPS"])["IPS"]
    assert row.value == pytest.approx(1e200)
    assert row.stderr == math.inf
    assert row.interval == (-math.inf, math.inf)


def test_a_spread_that_overflows_ends_where_rewards_do():
    """Where they are known to lie between 0 and 1; it is not stretched to hold the estimate."""
    row = op.evaluate(extreme(1.0, 1e-200), [1.0, 0.5], estimators=["IPS"])["IPS"]
    assert row.stderr == math.inf
    assert row.interval == (0.0, 1.0)
