"""Malformed rows that are dropped leave the answers of the same log without them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import offpolicy as op
from offpolicy.errors import LogError, ParameterError, PropensityError, SupportError
from offpolicy.logs import _bad_rows as dropping
from offpolicy.logs.files._parquet import ParquetScan
from tests.support.cases import make_case
from tests.support.files import table_of, write
from tests.support.limits import limit, small_blocks
from tests.support.refusals import refuses

ROWS, BLOCK = 5_000, 1_024

SPOILS = {
    "null reward": ("reward", None, "reward"),
    "nan reward": ("reward", np.nan, "reward"),
    "infinite reward": ("reward", np.inf, "reward"),
    "huge reward": ("reward", 1e200, "reward"),
    "no action": ("action", None, "action"),
    "action out of range": ("action", 99, "action"),
    "negative action": ("action", -1, "action"),
    "no propensity": ("propensity", None, "propensity"),
    "propensity 0": ("propensity", 0.0, "propensity"),
    "propensity above 1": ("propensity", 1.5, "propensity"),
    "another propensity": ("propensity", "half", "propensity"),
    "no logging": ("logging", None, "logging"),
    "empty logging": ("logging", [], "logging"),
    "short logging": ("logging", "short", "action"),
    "null in logging": ("logging", "null", "logging"),
    "nan in logging": ("logging", "nan", "logging"),
    "negative logging": ("logging", "negative", "logging"),
    "logging sums to 2": ("logging", "double", "logging"),
    "no policy": ("new", None, "new"),
    "nan in policy": ("new", "nan", "new"),
    "policy sums to 2": ("new", "double", "new"),
    "long policy": ("new", "long", "new"),
    "no prediction": ("q", None, "q"),
    "nan in prediction": ("q", "nan", "prediction"),
    "infinite prediction": ("q", "infinite", "prediction"),
    "no cluster": ("cluster", None, "cluster"),
    "no weight": ("row_weight", None, "row_weight"),
    "weight 0": ("row_weight", 0.0, "row_weight"),
    "weight beyond": ("row_weight", 1e120, "row_weight"),
    "no time": ("time", None, "time"),
}


def spoilt(value: object, kind: object) -> object:
    """A value with something wrong in it."""
    if kind == "half":
        return value / 2
    if not isinstance(kind, str):
        return kind
    first, *rest = value
    changed = {
        "nan": [np.nan, *rest], "null": [None, *rest], "infinite": [-np.inf, *rest],
        "negative": [-first - 0.1, *rest], "double": [2.0 * x for x in value],
        "short": rest or [first, first], "long": [*value, 0.0],
    }  # fmt: skip
    return changed[kind]


def full_table(seed: int, n: int) -> pa.Table:
    """A log with every column there can be, and if it is long with more clusters than groups."""
    case = make_case(np.random.default_rng(seed), n, weighted=True, unsupported=0.05, drawn=True)
    table = table_of(case)
    starts = case.offsets[:-1] + case.chosen
    return (
        table.append_column("propensity", pa.array(case.pi0[starts]))
        .append_column("cluster", pa.array(np.arange(n) // 8))
        .append_column("age", pa.array(np.random.default_rng(seed).normal(size=n)))
        .append_column("time", pa.array(np.arange(n)))
    )


def with_bad_rows(table: pa.Table, spoils: dict[int, tuple[str, object]]) -> pa.Table:
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    for row, (name, kind) in spoils.items():
        columns[name][row] = spoilt(columns[name][row], kind)
    return pa.table(columns, schema=table.schema)


COLUMNS = op.Columns(context=["age"])
DROP = {"on_bad_row": "drop", "max_dropped": 0.1}


def evaluated(log: op.BanditLog | op.LogScan) -> op.Result:
    return op.evaluate(log, {"new": "new"}, prediction="q")


def text_of(result: op.Result | op.Comparison) -> str:
    findings = tuple(one for one in result.findings if one.code != "dropped")
    return dataclasses.replace(result, dropped=None, findings=findings).to_json()


@pytest.fixture(scope="module")
def small() -> pa.Table:
    return full_table(0, 60)


@pytest.fixture(scope="module")
def small_text(small) -> str:
    """What is left without the 17th row."""
    keep = np.arange(60) != 17
    return text_of(evaluated(op.BanditLog.from_frame(small.filter(pa.array(keep)), COLUMNS)))


@pytest.mark.parametrize("name", SPOILS)
def test_every_way_to_be_malformed_is_dropped_and_counted(tmp_path, small, small_text, name):
    column, kind, reason = SPOILS[name]
    table = with_bad_rows(small, {17: (column, kind)})
    with pytest.raises(op.OffpolicyError) as caught:
        evaluated(op.BanditLog.from_frame(table, COLUMNS))
    assert caught.value.row == 17
    log = op.read_log(table, COLUMNS, on_bad_row="drop")
    (path,) = write(tmp_path, table)
    scan = ParquetScan([path], COLUMNS, on_bad_row="drop")
    for result in (evaluated(log), evaluated(scan)):
        assert result.dropped == dropping.Dropped(60, {reason: 1})
        assert text_of(result) == small_text
        assert f"1 of 60 rows was dropped: {reason} 1." in str(result)


def many_spoils(n: int) -> dict[int, tuple[str, object]]:
    """Bad rows everywhere: single, in a row, at both ends, and a whole block of them."""
    rng = np.random.default_rng(9)
    rows = {0, 1, n - 1, *range(1_020, 1_030), *range(2_500, 2_540)}
    rows |= set(rng.choice(n, 200, replace=False).tolist())
    kinds = [SPOILS[name][:2] for name in SPOILS]
    return {row: kinds[k % len(kinds)] for k, row in enumerate(sorted(rows))}


@pytest.fixture(scope="module")
def large() -> tuple[pa.Table, pa.Table, list[int]]:
    """A log with bad rows, the same without, and which they are."""
    table, spoils = full_table(1, ROWS), many_spoils(ROWS)
    keep = np.ones(ROWS, dtype=bool)
    keep[list(spoils)] = False
    return with_bad_rows(table, spoils), table.filter(pa.array(keep)), sorted(spoils)


@pytest.mark.parametrize("where", [None, "age > -0.5"])
@pytest.mark.parametrize("files", [1, 3])
def test_a_file_with_bad_rows_is_the_file_without_them(tmp_path, monkeypatch, large, files, where):
    small_blocks(monkeypatch, BLOCK, sample=1_000)
    limit(monkeypatch, "offpolicy.logs.files._parquet.CHUNK", 256)
    bad, clean, rows = large
    folders = [tmp_path / "bad", tmp_path / "clean"]
    for folder in folders:
        folder.mkdir()
    paths = write(folders[0], bad, files, group=200)
    twins, start = [], 0
    for path in paths:
        stop = start + pq.read_metadata(path).num_rows
        left = stop - start - sum(start <= row < stop for row in rows)
        done = sum(len(pq.read_table(twin)) for twin in twins)
        twins.append(folders[1] / path.name)
        pq.write_table(clean.slice(done, left), twins[-1], row_group_size=150)
        start = stop
    scan = ParquetScan(paths, COLUMNS, where=where, on_bad_row="drop", max_dropped=0.1)
    result = evaluated(scan)
    assert text_of(result) == text_of(evaluated(ParquetScan(twins, COLUMNS, where=where)))
    held = op.BanditLog.from_frame(
        clean if where is None else clean.filter(pa.compute.field("age") > -0.5), COLUMNS
    )
    memory = evaluated(held)
    assert result.headline.value == pytest.approx(memory.headline.value, rel=1e-12)
    assert result.headline.interval == pytest.approx(memory.headline.interval, rel=1e-12)
    assert result.logged.n == len(held) == result.dropped.of - result.dropped.rows
    if where is None:
        assert result.dropped.rows == len(rows)
        assert text_of(evaluated(op.read_log(bad, COLUMNS, **DROP))) == text_of(memory)


def test_all_verbs_drop(tmp_path, monkeypatch, large):
    small_blocks(monkeypatch, BLOCK)
    bad, clean, _ = large
    (path,) = write(tmp_path, bad)
    twin = tmp_path / "clean.parquet"
    pq.write_table(clean, twin)
    scan, plain = ParquetScan([path], COLUMNS, **DROP), ParquetScan([twin], COLUMNS)
    policies = {"new": "new", "old": "logging"}
    a = op.compare(scan, policies, prediction="q")
    b = op.compare(plain, policies, prediction="q")
    assert text_of(a) == text_of(b)
    assert "rows were dropped: " in str(a)
    again = op.Comparison.from_json(a.to_json())
    assert again == a
    curves = [op.sweep(log, "new", prediction="q") for log in (scan, plain)]
    assert curves[0].to_arrow().equals(curves[1].to_arrow())
    assert curves[0].dropped == a.dropped
    reports = [op.check(log, "new", prediction="q") for log in (scan, plain)]
    assert [one for one in reports[0] if one.code != "dropped"] == list(reports[1])
    assert reports[0]["dropped"].numbers["of"] == ROWS
    assert scan.fingerprint() != plain.fingerprint()


def test_columns_that_are_not_asked_about_may_be_malformed(tmp_path, small):
    table = with_bad_rows(small, {3: ("q", None), 5: ("new", "nan"), 7: ("reward", None)})
    (path,) = write(tmp_path, table)
    for log in (
        op.read_log(table, on_bad_row="drop"),
        ParquetScan([path], on_bad_row="drop"),
    ):
        assert op.evaluate(log, op.Uniform()).dropped.reasons == {"reward": 1}
        assert op.evaluate(log, "new").dropped.reasons == {"reward": 1, "new": 1}
        both = op.evaluate(log, "new", prediction="q")
        assert both.dropped.reasons == {"reward": 1, "new": 1, "q": 1}
        stored = json.loads(both.to_json())["dropped"]
        assert stored == {"rows": 3, "of": 60, "reasons": {"new": 1, "q": 1, "reward": 1}}
        assert op.Result.from_json(both.to_json()) == both


def test_what_is_wrong_afterwards_is_named_by_its_row_in_the_file(tmp_path, small):
    table = with_bad_rows(small, {3: ("reward", None), 5: ("new", "nan"), 40: ("reward", 7.0)})
    (path,) = write(tmp_path, table)
    for log in (
        op.read_log(path, on_bad_row="drop"),
        ParquetScan([path], on_bad_row="drop"),
    ):
        with refuses(LogError, "reward", 40, file="part-0.parquet"):
            op.evaluate(log, "new", reward_range=(-6, 6))


def test_nothing_bad_is_nothing_dropped(small):
    result = evaluated(op.read_log(small, on_bad_row="drop"))
    assert result.dropped == dropping.Dropped(60)
    assert "dropped" not in str(result)
    assert evaluated(op.read_log(small)).dropped is None


def test_all_rows_bad(tmp_path, small):
    table = with_bad_rows(small, dict.fromkeys(range(60), ("reward", None)))
    (path,) = write(tmp_path, table)
    with refuses(LogError, "reward"):
        op.read_log(table, on_bad_row="drop")
    with refuses(LogError, "reward", file="part-0.parquet"):
        op.evaluate(ParquetScan([path], on_bad_row="drop"), "new")
    table = with_bad_rows(small, dict.fromkeys(range(60), ("new", None)))
    with refuses(LogError, "new"):
        op.evaluate(op.read_log(table, on_bad_row="drop"), "new")


def test_what_is_wrong_with_a_whole_column_stays_an_error(small):
    with refuses(LogError, "reward"):
        op.read_log(small.drop(["reward"]), on_bad_row="drop")
    text = small.set_column(1, "reward", pa.array(["much"] * 60))
    with refuses(LogError, "reward"):
        op.read_log(text, on_bad_row="drop")
    with refuses(ParameterError, "on_bad_row"):
        op.read_log(small, on_bad_row="skip")


def test_an_array_cannot_follow_rows_that_other_columns_drop(small):
    log = op.read_log(with_bad_rows(small, {5: ("new", "nan")}), on_bad_row="drop")
    q = np.zeros(int(log.offsets[-1]))
    with pytest.raises(ParameterError, match=r"\(new 1\), and what is given as an array"):
        op.evaluate(log, "new", prediction=q)
    assert op.evaluate(log, op.Uniform(), prediction=q).dropped.rows == 0


def test_the_long_format_drops_whole_decisions(tmp_path):
    frame = {
        "id": [1, 1, 2, 2, 3, 3, 4, 4, None, 5, 5],
        "chosen": [1, 0, 0, 0, 1, 0, None, 1, 1, 0, 1],
        "reward": [1.0, 1.0, 0.0, 0.0, None, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0],
        "logging": [0.5] * 11,
        "new": [0.9, 0.1] * 4 + [0.5] + [0.9, 0.1],
    }
    columns = op.Columns(decision="id", chosen="chosen")
    log = op.read_log(pa.table(frame), columns, on_bad_row="drop", max_dropped=0.7)
    assert log.dropped == dropping.Dropped(6, {"id": 1, "chosen": 2, "reward": 1})
    assert log.reward.tolist() == [1.0, 1.0]


def test_lists_in_csv_that_are_none(tmp_path):
    path = tmp_path / "log.csv"
    rows = ['0,1,"[0.5, 0.5]"', '1,0,"[0.5, 0.5"', '1,0,"[0.5, 0.5]"', '1,,"[0.5, 0.5]"']
    path.write_text("\n".join(["action,reward,logging", *rows]) + "\n")
    log = op.read_log(path, on_bad_row="drop", max_dropped=0.5)
    assert log.dropped == dropping.Dropped(4, {"logging": 1, "reward": 1})
    assert log.reward.tolist() == [1.0, 0.0]


def test_dsjson_counts_its_malformed_lines(tmp_path: Path):
    good = (
        '{"_label_cost":-1,"_label_probability":0.5,"_labelIndex":0,"a":[1,2],"p":[0.5,0.5],'
        '"c":{"_multi":[{},{}]}}'
    )
    path = tmp_path / "log.json"
    path.write_text("\n".join([good, good, '{"_label_cost":-1,"a":[1,2],"p":[0.9', good]) + "\n")
    with refuses(SupportError, "malformed line", file="log.json"):
        op.read_log(path, on_bad_row="drop")
    log = op.read_log(path, on_bad_row="drop", max_dropped=0.25)
    assert log.dropped == dropping.Dropped(4, {"malformed line": 1})
    several = op.read_log([path, path], on_bad_row="drop", max_dropped=0.25)
    counts = op.evaluate(several, op.Uniform()).dropped
    assert counts == dropping.Dropped(8, {"malformed line": 2})
    with refuses(SupportError, "malformed line"):
        op.evaluate(op.read_log([path, path], on_bad_row="drop"), op.Uniform())
    with refuses(LogError, row=3, file="log.json"):
        op.evaluate(op.read_log([path, path]), op.Uniform())


# -- too many --------------------------------------------------------------------------------


def purchases(n: int, bought: int) -> pa.Table:
    """A log in which a missing reward means that nothing was bought."""
    table = full_table(2, n)
    reward = [1.0 if row % (n // bought) == 0 else None for row in range(n)]
    return table.set_column(1, "reward", pa.array(reward))


VERBS = {
    "evaluate": lambda log: op.evaluate(log, "new"),
    "compare": lambda log: op.compare(log, {"new": "new"}),
    "check": lambda log: op.check(log, "new"),
    "sweep": lambda log: op.sweep(log, "new", prediction="q", grid=[1.0, 2.0]),
    "learn": lambda log: op.learning.learn(op.learning.SoftmaxLearner(max_iter=2), log),
}


@pytest.mark.parametrize("kind", ["table", "parquet", "scan", "csv", "copied"])
@pytest.mark.parametrize("verb", VERBS)
def test_dropping_more_than_a_slip_is_refused(tmp_path, monkeypatch, verb, kind):
    table = purchases(1_000, 20)
    source: object = table
    if kind in ("parquet", "scan"):
        (source,) = write(tmp_path, table)
        limit(monkeypatch, "offpolicy.logs.files._read.READ_WHOLE", 0 if kind == "scan" else 2**25)
    if kind in ("csv", "copied"):
        source = tmp_path / "log.csv"
        flat = table.to_pandas().map(lambda v: json.dumps(list(v)) if np.ndim(v) else v)
        flat.to_csv(source, index=False)
        limit(monkeypatch, "offpolicy.logs.files._text.LARGEST", 0 if kind == "copied" else 2**25)
    with refuses(SupportError, "reward"):
        VERBS[verb](op.read_log(source, COLUMNS, on_bad_row="drop"))
    with refuses(SupportError, "reward"):
        VERBS[verb](op.read_log(source, COLUMNS, on_bad_row="drop", max_dropped=0.979))
    log = op.read_log(source, COLUMNS, on_bad_row="drop", max_dropped=0.98)
    if verb == "evaluate":
        assert op.evaluate(log, "new").dropped == dropping.Dropped(1_000, {"reward": 980})
    if verb != "learn":
        assert VERBS[verb](log)


def test_five_in_a_hundred_may_be_dropped_and_no_more(tmp_path, small):
    """Those that columns asked about make malformed are counted with the others."""
    three = with_bad_rows(small, {3: ("reward", None), 5: ("new", "nan"), 7: ("new", None)})
    (path,) = write(tmp_path, three)
    for read in (op.read_log, lambda table, **how: ParquetScan([path], **how)):
        log = read(three, on_bad_row="drop")
        assert op.evaluate(log, "new").dropped.rows == 3
        with refuses(SupportError, "q"):
            bad_q = with_bad_rows(three, {9: ("q", None), 11: ("q", None), 12: ("q", None)})
            write(tmp_path, bad_q)
            op.evaluate(read(bad_q, on_bad_row="drop"), "new", prediction="q")
        with refuses(SupportError, "new"):
            op.evaluate(read(three, on_bad_row="drop", max_dropped=0.02), "new")
        write(tmp_path, three)


@pytest.mark.parametrize("share", [-0.1, 1.1, np.nan])
def test_a_share_that_is_none(small, share):
    with refuses(ParameterError, "max_dropped"):
        op.read_log(small, on_bad_row="drop", max_dropped=share)


def test_a_file_of_the_open_bandit_dataset_drops_too(tmp_path):
    path = tmp_path / "log.csv"
    head = "timestamp,item_id,position,click,propensity_score"
    rows = [f"2019-11-24 00:00:0{k}+00:00,{k % 2},1,{k % 3 == 0:d},0.5" for k in range(10)]
    path.write_text("\n".join([head, *rows, "2019-11-24 00:00:11+00:00,1,1,1,0.0"]) + "\n")
    with refuses(PropensityError, row=10):
        op.check(op.read_log(path))
    log = op.read_log(path, on_bad_row="drop", max_dropped=0.2)
    numbers = op.check(log)["dropped"].numbers
    assert numbers == {"rows": 1, "of": 11, "reasons": "propensity 1"}
