"""Large files of any kind give what the same files give when they are held in memory."""

from __future__ import annotations

import contextlib
import gc
import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.errors import LogError, ParameterError, Place
from offpolicy.logs.files import _text as text
from offpolicy.logs.files._convert import ConvertedScan
from tests.support.cases import make_case
from tests.support.files import as_csv, as_jsonl, same, table_of
from tests.support.foreign import DANGLING, DSJSON, LINE, SLOTS, data, needs_data
from tests.support.limits import limit
from tests.support.refusals import refuses


@contextlib.contextmanager
def small(block: int = 4_000) -> Iterator[None]:
    """Every file is too large to be held, and is read in many pieces."""
    with pytest.MonkeyPatch.context() as patch:
        limit(patch, "offpolicy.logs.files._text.LARGEST", 0)
        limit(patch, "offpolicy.logs.files._read.READ_WHOLE", 0)
        limit(patch, "offpolicy.logs.files._text_file.BATCH", block // 40 + 1)
        limit(patch, "offpolicy.logs.files._convert.GROUP_ROWS", 97)
        yield


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Iterator[Path]:
    """Where the copies are; there must be none after the test."""
    where = tmp_path / "temporary"
    where.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(where))
    yield where
    if list(where.iterdir()):
        gc.collect()
    assert not list(where.iterdir())


@pytest.fixture
def table() -> pa.Table:
    case = make_case(np.random.default_rng(0), 600, drawn=True)
    return table_of(case, shop=pa.array(["ä, b", "c"] * 300), user=np.arange(600) // 3)


def written(table: pa.Table, path: Path) -> Path:
    return as_csv(table, path) if ".csv" in path.name else as_jsonl(table, path)


def both(source, columns=None, **options) -> tuple[op.BanditLog, ConvertedScan]:
    """The log held in memory, and its copy."""
    held = op.read_log(source, columns, **options)
    with small():
        scan = op.read_log(source, columns, **options)
    assert isinstance(held, op.BanditLog)
    assert isinstance(scan, ConvertedScan)
    assert len(scan) == len(held)
    return held, scan


def contents(scan: ConvertedScan) -> pa.Table:
    """All rows of the copy, as Arrow reads them."""
    return pa.concat_tables([pq.read_table(file) for file in scan.files])


# -- the same numbers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["log.csv", "log.csv.gz", "log.jsonl", "log.jsonl.gz", "log.ndjson"]
)
def test_large_text_gives_what_small_text_gives(tmp_path, table, name):
    held, scan = both(written(table, tmp_path / name), op.Columns(cluster="user"))
    same(op.evaluate(held, "new", prediction="q"), op.evaluate(scan, "new", prediction="q"))
    assert repr(scan) == f"ConvertedScan({tmp_path / name}: 600 decisions)"


def test_zstd_and_tabs(tmp_path, table):
    plain = as_csv(table, tmp_path / "log.csv").read_text()
    for name, content in [("log.csv.zst", plain), ("log.tsv", None), ("log.tsv.bz2", None)]:
        if content is None:
            lines = ["action\treward\tlogging", *['0\t1\t"[0.5, 0.5]"'] * 50]
            content = "\n".join(lines) + "\n"
        with pa.output_stream(str(tmp_path / name), compression="detect") as stream:
            stream.write(content.encode())
        held, scan = both(tmp_path / name)
        same(op.evaluate(held, op.Uniform()), op.evaluate(scan, op.Uniform()))


def test_several_files_and_a_condition(tmp_path, table):
    first = table.slice(0, 200)
    whole = first.set_column(1, "reward", first.column("reward").cast(pa.int64(), safe=False))
    as_csv(whole, tmp_path / "a.csv")
    as_csv(table, tmp_path / "b.csv", 200, 600)
    held, scan = both(f"{tmp_path}/*.csv", where="shop = 'ä, b' AND reward < 5")
    same(op.evaluate(held, "new", prediction="q"), op.evaluate(scan, "new", prediction="q"))
    as_jsonl(whole, tmp_path / "a.jsonl")
    as_jsonl(table.slice(200), tmp_path / "b.jsonl")
    held, scan = both(f"{tmp_path}/*.jsonl", where="shop = 'c'")
    same(op.evaluate(held, "new", prediction="q"), op.evaluate(scan, "new", prediction="q"))
    with small(), refuses(ParameterError, "where"):
        op.read_log(tmp_path / "a.csv", where="no_such = 1")


def test_verbs(tmp_path, table):
    held, scan = both(as_csv(table, tmp_path / "log.csv"))
    policies = {"new": "new", "uniform": op.Uniform()}
    for one, other in zip(
        op.compare(held, policies, prediction="q"),
        op.compare(scan, policies, prediction="q"),
        strict=True,
    ):
        assert other.value == pytest.approx(one.value, rel=1e-10, abs=1e-13)
    assert str(op.check(scan, "new")) == str(op.check(held, "new"))
    grid = op.sweep(scan, "new", prediction="q").breakpoints
    np.testing.assert_allclose(
        op.sweep(scan, "new", prediction="q").values,
        op.sweep(held, "new", prediction="q", grid=grid).values,
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    "when", ["2020-01-{:02d}", "2020-01-{:02d} 10:00", "2020-01-{:02d} 10:00Z"]
)
@pytest.mark.parametrize("name", ["log.csv", "log.jsonl"])
def test_times(tmp_path, table, name, when):
    days = pa.array([when.format(1 + k // 25) for k in range(600)])
    path = written(table.append_column("time", days), tmp_path / name)
    held, scan = both(path, where="time >= '2020-01-03'")
    assert str(op.check(scan, "new", prediction="q")) == str(op.check(held, "new", prediction="q"))
    part = scan.read([(0, len(scan))], [])
    np.testing.assert_array_equal(part.time, held.time)


@pytest.mark.parametrize("verb", ["evaluate", "compare", "sweep", "check"])
@pytest.mark.parametrize("name", ["log.csv", "log.jsonl"])
def test_the_command_line(tmp_path, table, verb, name):
    path = written(table, tmp_path / name)
    extra = ["--policy", "new"] + (["--policy", "logging"] if verb == "compare" else [])
    arguments = [verb, str(path), *extra, "--prediction", "q", "--where", "shop <> 'nowhere'"]
    held = CliRunner().invoke(cli, arguments)
    with small():
        scan = CliRunner().invoke(cli, arguments)
    assert held.exit_code == scan.exit_code, scan.output
    assert scan.exit_code in (0, 1) if verb == "check" else scan.exit_code == 0
    if verb != "sweep":  # held, the curve has all its points; else a grid of them
        assert scan.output == held.output


# -- the same types --------------------------------------------------------------------------

_VALUES = {
    "whole": st.integers(-(2**63), 2**63 - 1).map(str),
    "bits": st.sampled_from(["0", "1"]),
    "truth": st.sampled_from(["true", "false", "True", "1"]),
    "float": st.floats(allow_nan=False).map(repr),
    "date": st.dates().map(str),
    "clock": st.times().map(lambda time: time.strftime("%H:%M:%S")),
    "time": st.sampled_from(["2020-01-01 10:20:30", "2021-05-06 00:00"]),
    "fraction": st.sampled_from(["2020-01-01 10:20:30.25"]),
    "zone": st.sampled_from(["2020-01-01 10:20:30Z", "2020-01-01 10:20:30+01:00"]),
    "fraction and zone": st.sampled_from(["2020-01-01 10:20:30.5Z"]),
    "nothing": st.sampled_from(["", "NA", "nan"]),
    "text": st.text("abä,;'\"\n ½", max_size=5),
}


@st.composite
def columns_of_text(draw) -> list[str]:
    """Cells of one kind, and then of another."""
    kinds = draw(st.lists(st.sampled_from(sorted(_VALUES)), min_size=1, max_size=3))
    found: list[str] = []
    for kind in kinds:
        found += draw(st.lists(_VALUES[kind], min_size=1, max_size=12))
    return found


def quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if set(cell) & set(',"\n') else cell


def as_arrow_reads(path: Path) -> pa.Table:
    """By Arrow's own reader of CSV, in our types: its times of day are text."""
    options = csv.ParseOptions(newlines_in_values=True)
    schema = csv.read_csv(path, parse_options=options).schema
    clocks = {field.name: pa.string() for field in schema if pa.types.is_time(field.type)}
    convert = csv.ConvertOptions(column_types=clocks)
    table = csv.read_csv(path, parse_options=options, convert_options=convert)
    for k, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            kind = pa.timestamp("us", field.type.tz and "Etc/UTC")
            table = table.set_column(k, field.name, table.column(k).cast(kind))
    return table


@settings(max_examples=150, deadline=None)
@given(columns_of_text(), st.integers(40, 200))
def test_a_column_of_csv_has_the_type_of_all_its_values(cells, block):
    lines = [f"{k},{quoted(cell)}" for k, cell in enumerate(cells)]
    with small(block), temporary("log.csv", "k,cell\n" + "\n".join(lines) + "\n") as path:
        assert streamed_table(path).equals(as_arrow_reads(path))


_JSON = {
    "whole": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "text": st.text(max_size=4),
    "time": st.sampled_from(["2020-01-01 10:20:30", "2021-05-06"]),
    "nothing": st.none(),
    "list": st.lists(st.integers(-9, 9), max_size=3),
    "floats": st.lists(st.floats(-1, 1), max_size=3),
    "object": st.fixed_dictionaries({"x": st.integers(0, 9)}),
    "other": st.fixed_dictionaries({"x": st.floats(0, 1), "y": st.booleans()}),
    "truth": st.booleans(),
}


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(20, 100))
def test_json_lines_have_the_types_of_all_values(data, block):
    kinds = data.draw(st.lists(st.sampled_from(sorted(_JSON)), min_size=1, max_size=3))
    values = [
        value
        for kind in kinds
        for value in data.draw(st.lists(_JSON[kind], min_size=1, max_size=9))
    ]
    lines = [json.dumps({"k": k} | ({} if v is None else {"v": v})) for k, v in enumerate(values)]
    with temporary("log.jsonl", "\n".join(lines)) as path:
        try:
            whole = text.read_table(path)
        except LogError:
            whole = None
        with small(block):
            if whole is None:
                with refuses(LogError, file="log.jsonl") as caught:
                    streamed_table(path)
                assert caught.value.place.unit == "line"
            else:
                assert streamed_table(path).equals(whole)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(60, 200))
def test_lists_in_csv_have_the_type_of_all_their_values(data, block):
    kinds = [
        st.integers(-5, 5),
        st.floats(-1, 1),
        st.integers(2**53, 2**54),
        st.text("aä", max_size=2),
    ]
    lists: list[list[object]] = []
    for kind in data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=2)):
        lists += data.draw(st.lists(st.lists(kind, max_size=3), min_size=1, max_size=9))
    rows = [f"{k},{quoted(json.dumps(values))}" for k, values in enumerate(lists)]
    texts = [{isinstance(value, str) for value in values} for values in lists]
    mixed = [k for k in range(len(lists)) if len(set().union(*texts[: k + 1])) > 1]
    kinds = frozenset(type(value) for values in lists for value in values)
    expected = {frozenset([int]): pa.int64(), frozenset([str]): pa.string()}
    with small(block), temporary("log.csv", "k,v\n" + "\n".join(rows) + "\n") as path:
        if mixed:
            with refuses(LogError, "v", mixed[0]):
                streamed_table(path)
        else:
            column = streamed_table(path)["v"]
            if float in kinds:
                lists = [[float(value) for value in values] for values in lists]
            assert column.to_pylist() == lists
            assert column.type.value_type == expected.get(kinds, pa.float64()) or not kinds


@contextlib.contextmanager
def temporary(name: str, content: str) -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_text(content, newline="")
        yield path


def streamed_table(path: Path) -> pa.Table:
    return pa.concat_tables(text.text_tables(path))


@pytest.mark.parametrize("last", ["0.5", "true", "text", '"[1]"', ""])
def test_a_reward_that_turns_out_to_be_wider(tmp_path, last):
    rows = [f'{k % 2},{k % 2},"[0.5, 0.5]"' for k in range(3000)]
    path = tmp_path / "log.csv"
    path.write_text("action,reward,logging\n" + "\n".join(rows) + f'\n1,{last},"[0.5, 0.5]"\n')
    try:
        expected = op.evaluate(op.read_log(path), op.Uniform())
    except LogError:
        with small(), pytest.raises(LogError, match=r"log.csv.*(reward|Conversion)"):
            op.evaluate(op.read_log(path), op.Uniform())
    else:
        with small():
            same(expected, op.evaluate(op.read_log(path), op.Uniform()))


def test_odd_names_and_empty_objects(tmp_path):
    rows = [
        {"action": k % 2, "reward": 0.5, "logging": [0.5, 0.5], 'π "neu"': [0.1, 0.9], "c": {},
         "d": [{}], "e": None}
        for k in range(200)
    ]  # fmt: skip
    path = tmp_path / "große 'Datei'.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    held, scan = both(path)
    same(op.evaluate(held, 'π "neu"'), op.evaluate(scan, 'π "neu"'))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([".csv", ".jsonl", ".csv.gz"])
)
def test_random_logs(seed, n, suffix):
    rng = np.random.default_rng(seed)
    case = make_case(rng, n, drawn=True)
    table = table_of(
        case, time=pa.array(rng.permutation(n)), note=pa.array(["a,b", 'ö "x"'] * n)[:n]
    )
    stream = io.StringIO()
    if suffix == ".jsonl":
        stream.write("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        stream.write(",".join(table.column_names) + "\n")
        for row in table.to_pylist():
            cells = [json.dumps(v) if isinstance(v, list) else str(v) for v in row.values()]
            stream.write(",".join(map(quoted, cells)) + "\n")
    with temporary(f"log{suffix}", "") as path:
        raw = stream.getvalue().encode()
        path.write_bytes(gzip.compress(raw) if suffix == ".csv.gz" else raw)
        held, scan = both(path)
        part = scan.read([(0, n)], ["new", "q"])
        for name in ("offsets", "chosen", "reward", "logging", "time"):
            np.testing.assert_array_equal(getattr(part, name), getattr(held, name))
        for name in ("new", "q"):
            np.testing.assert_array_equal(part.named_column(name), held.named_column(name))
        scan.close()


# -- the long format -------------------------------------------------------------------------

LONG = op.Columns(decision="id", chosen="picked", candidates="item", logging="p")


def long_table(n: int = 300, seed: int = 1) -> pa.Table:
    case = make_case(np.random.default_rng(seed), n, most=4)
    k = np.repeat(np.arange(n), np.diff(case.offsets))
    place = np.arange(len(k)) - case.offsets[k]
    return pa.table({
        "id": [f"r{i * 7919 % n}" for i in k], "item": [f"i{j}" for j in place],
        "picked": (place == case.chosen[k]).astype(int), "p": case.pi0, "new": case.pi,
        "reward": case.reward[k] + 0.25, "shop": np.array(["a", "b"])[k % 2],
    })  # fmt: skip


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.parquet"])
@pytest.mark.parametrize("where", [None, "shop = 'a'"])
def test_large_files_in_the_long_format(tmp_path, name, where):
    table = long_table()
    path = tmp_path / name
    if name == "log.parquet":
        pq.write_table(table, path, row_group_size=50)
    else:
        written(table, path)
    kept = table if where is None else table.filter(pa.compute.equal(table["shop"], "a"))
    expected = op.evaluate(op.BanditLog.from_frame(kept, LONG), {"new": "new"})
    with small():
        scan = op.read_log(path, LONG, where=where)
        assert isinstance(scan, ConvertedScan)
        same(expected, op.evaluate(scan, "new"))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_decision_may_go_on_in_the_next_file(tmp_path, kind):
    table = long_table()
    cut = next(k for k in range(400, 420) if table["id"][k - 1] == table["id"][k])
    for k, part in enumerate([table.slice(0, cut), table.slice(cut)]):
        path = tmp_path / f"{k}.{kind}"
        pq.write_table(part, path) if kind == "parquet" else as_csv(part, path)
    with small():
        scan = op.read_log(f"{tmp_path}/*.{kind}", LONG)
    same(
        op.evaluate(op.BanditLog.from_frame(table, LONG), {"new": "new"}),
        op.evaluate(scan, "new"),
    )
    place = scan._label(0).origin(len(scan) - 1)
    size = int(np.sum(np.array(table["id"].to_pylist()) == table["id"][-1].as_py()))
    assert place == Place(str(tmp_path / f"1.{kind}"), row=len(table) - cut - size)


@pytest.mark.parametrize("group", [7, 100_000])
def test_a_decision_that_comes_back_is_refused(tmp_path, monkeypatch, group):
    table = long_table()
    late = table.slice(0, 1)
    mixed = pa.concat_tables([table.slice(1, 500), late, table.slice(501)])
    mixed = mixed.set_column(2, "picked", pa.array([1] * len(mixed)))
    singles = pa.table({"id": [*range(40), 3, *range(40, 60)], "picked": [1] * 61,
                        "item": ["a"] * 61, "p": [1.0] * 61, "reward": [0.5] * 61})  # fmt: skip
    as_csv(singles, tmp_path / "log.csv")
    with small(200):
        limit(monkeypatch, "offpolicy.logs.files._convert.GROUP_ROWS", group)
        with refuses(LogError, "id", 40, file="log.csv"):
            op.read_log(tmp_path / "log.csv", LONG)
    held = op.read_log(as_csv(table.take([1, 0, *range(2, len(table))]), tmp_path / "b.csv"), LONG)
    assert len(held) == 300


def test_what_is_wrong_in_the_long_format_is_named_by_row(tmp_path):
    table = long_table()
    chosen = next(k for k in range(600, 700) if table["picked"][k].as_py())
    begins = min(k for k in range(len(table)) if table["id"][k] == table["id"][chosen])
    for name, row, value, told in [
        ("picked", 700, 2, 700), ("id", 650, None, 650), ("reward", chosen, 1e200, begins)
    ]:  # fmt: skip
        values = table[name].to_pylist()
        values[row] = value
        position = table.column_names.index(name)
        path = tmp_path / "log.jsonl"
        as_jsonl(table.set_column(position, name, pa.array(values)), path)
        with small(), refuses(LogError, name, told, file="log.jsonl"):
            op.evaluate(op.read_log(path, LONG), "new")
    with small(), refuses(LogError, "ID", match='Did you mean "id"'):
        op.read_log(written(table, tmp_path / "a.csv"), op.Columns(decision="ID", chosen="picked"))


def test_one_decision_without_end(tmp_path, monkeypatch):
    path = as_csv(long_table(), tmp_path / "log.csv")
    limit(monkeypatch, "offpolicy.logs.files._convert.LONGEST", 2)
    with small(), refuses(LogError, file="log.csv", match='"id" what tells'):
        op.read_log(path, LONG)


# -- formats of others -----------------------------------------------------------------------


def dsjson_file(path: Path, n: int = 50, slots: bool = False) -> Path:
    lines = []
    for k in range(n):
        lines.append(json.dumps(LINE | {"EventId": f"e{k}", "_label_cost": -(k % 3)}))
        if k % 4 == 0:
            lines.append(json.dumps(DANGLING))
        if k % 5 == 0:
            lines.append("")
        if slots and k % 3 == 0:
            lines.append(json.dumps(SLOTS | {"EventId": f"s{k}"}))
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["log.dsjson", "log.json.gz"])
@pytest.mark.parametrize("slots", [False, True])
def test_large_dsjson(tmp_path, name, slots):
    held, scan = both(dsjson_file(tmp_path / name, slots=slots))
    assert (held.cluster is None) == (not slots)
    same(op.evaluate(held, op.Uniform()), op.evaluate(scan, op.Uniform()))


@needs_data
@pytest.mark.parametrize("name", [name for name, rows in DSJSON.items() if rows > 20])
def test_real_dsjson(name):
    held, scan = both(data("vw", name))
    same(op.evaluate(held, op.Uniform()), op.evaluate(scan, op.Uniform()))


@needs_data
@pytest.mark.parametrize("name", ["random_men", "bts_women"])
def test_real_files_of_the_open_bandit_dataset(name):
    held, scan = both(data("obd", f"{name}.csv.gz"))
    policy = op.Deterministic(action=3) if held.candidates_known else "propensity"
    same(op.evaluate(held, policy), op.evaluate(scan, policy))


def test_events_without_a_name_are_different_in_different_files(tmp_path):
    unnamed = {name: value for name, value in SLOTS.items() if name != "EventId"}
    for k in range(2):
        (tmp_path / f"{k}.dsjson").write_text(json.dumps(unnamed) + "\n")
    scan = op.read_log(f"{tmp_path}/*.dsjson")
    assert len(set(scan.read([(0, 4)], []).cluster)) == 2


def test_dsjson_in_several_files_and_with_a_condition(tmp_path):
    paths = [dsjson_file(tmp_path / f"{k}.dsjson", 20) for k in range(2)]
    assert len(op.read_log(paths)) == 40
    scan = op.read_log(paths, where="reward > 0")
    assert len(scan) == 26
    with refuses(LogError, "reward", 4, file="0.dsjson"):
        op.evaluate(scan, op.Uniform(), reward_range=(0, 0.5))
    with refuses(ParameterError, "columns"):
        op.read_log(paths, op.Columns(reward="click"))


def test_a_line_of_dsjson_is_named(tmp_path):
    path = dsjson_file(tmp_path / "log.dsjson", 20)
    path.write_text("\n".join([json.dumps(DANGLING), "", path.read_text()]))
    with small():
        scan = op.read_log(path)
    with refuses(op.errors.PolicyError, "candidates", 3, file="log.dsjson", part="candidate 2"):
        op.evaluate(scan, "candidates")
    assert scan._label(0).origin(1) == Place(str(path), row=6, unit="line")
    scan.close()
    path.write_text(path.read_text() + "\njunk")
    with small(), refuses(LogError, "", len(path.read_text().split("\n")), file="log.dsjson"):
        op.read_log(path)
    path.write_text(json.dumps(DANGLING) + "\n")
    with small(), pytest.raises(LogError, match=r"not one decision .* \(1 dangling reward\)"):
        op.read_log(path)


def obd_file(path: Path, n: int = 200, uniform: bool = True) -> Path:
    rng = np.random.default_rng(0)
    header = ",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1"
    rows = [
        f"{k},2019-11-24 00:{k % 60:02d}:17.004101+00:00,{k % 4},{k % 3 + 1},{rng.integers(2)},"
        f"{0.25 if uniform else 0.2 + k % 4 / 10},81ce,{k % 5}"
        for k in range(n)
    ]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.parametrize("uniform", [True, False])
def test_large_files_of_the_open_bandit_dataset(tmp_path, uniform):
    held, scan = both(obd_file(tmp_path / "random.csv", uniform=uniform))
    known = {"a": op.Uniform(), "b": op.Deterministic(action=3)}
    policies = known if uniform else {"same": "propensity"}
    same(op.evaluate(held, policies), op.evaluate(scan, policies))
    part = scan.read([(0, len(scan))], ["position"])
    np.testing.assert_array_equal(part.context, held.context)
    np.testing.assert_array_equal(part.named_column("position"), held.named_column("position"))
    assert part.candidates_known == held.candidates_known == uniform
    assert len(op.read_log(tmp_path / "random.csv", where="position = 1")) == 67


# -- what cannot be read ---------------------------------------------------------------------

GOOD = "action,reward,logging\n" + '0,1,"[0.5, 0.5]"\n' * 40


@pytest.mark.parametrize(
    ("name", "content", "column", "row"),
    [
        ("log.csv", GOOD + '"0,1,"[0.5, 0.5]"\n' + GOOD[22:], "action", 42),
        ("log.csv", GOOD + '0,1,"[0.5, 0.5]\n', "logging", 42),
        ("log.csv", 'a,x\n0,1\n0,"text\n0,1\n0,1\n', "x", 3),
        ("log.csv", 'a,x\n0,1\n0,"text\n0,"1"\n0,1\n', "x", 3),
        ("log.csv", 'a,x\n0,"1\n2"\n\n0,1,2\n', "", 5),
        ("log.csv", GOOD + "0,1\n", "", 42),
        ("log.csv", GOOD + "0,1,2,3\n", "", 42),
        ("log.csv", GOOD + "0,1,0.5\n", "logging", 40),
        ("log.csv", GOOD + '0,1,"[""x""]"\n', "logging", 40),
        ("log.csv", GOOD + '0,1,"[0.5 0.5]"\n', "logging", 40),
        ("log.csv", GOOD.encode() + b'\xe4,1,"[0.5, 0.5]"\n', "action", 42),
        ("log.csv", "a,a\n1,2\n", "a", None),
        ("log.csv", "a;x\n0,5;1\n", "", 2),
        ("log.csv", "a,b\r\n1,2\n3,4\r\n", "", 2),
        ("log.csv", "", "", None),
        ("log.csv", GOOD[:22], "", None),
        ("log.jsonl", '{"a": 1}\n' * 40 + "junk\n" + '{"a": 1}\n' * 40, "", 41),
        ("log.jsonl", '{"a": 1}\n' * 40 + '{"a": "x"}\n', "a", 41),
        ("log.jsonl", '{"a": 1}\n' * 39 + '{"a": "x"}\n' * 60, "a", 40),
        ("log.jsonl", '{"a": 12}\n' * 60 + '{"a": "x"}\n' * 60, "a", 61),
        ("log.jsonl", '{"a": 1}\n\n[1]\n', "", 3),
        ("log.jsonl", '{"a": 1}\n{"a": ', "", 2),
        ("log.jsonl", "", "", None),
        ("log.jsonl", "\n\n", "", None),
        ("log.csv.gz", gzip.compress(GOOD.encode() * 99, mtime=0)[:-30], "", None),
        ("log.csv.gz", gzip.compress(GOOD.encode(), mtime=0)[:-8] + bytes(8), "", None),
        ("log.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 9999, mtime=0)[:-15], "", None),
        ("log.csv.gz", b"not gzip", "", None),
        ("log.xlsx", "x", "", None),
    ],
)  # fmt: skip
def test_broken_files(tmp_path, name, content, column, row):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with small(300), refuses(LogError, column, row, file=name) as caught:
        op.read_log(path)
    assert str(caught.value).count("\n") == 0
    assert caught.value.row == row
    with small(300):
        shown = CliRunner().invoke(cli, ["check", str(path)])
    assert isinstance(shown.exception, LogError)
    with refuses(LogError, file=name):
        op.read_log(path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_names_and_lines_may_be_odd(tmp_path, end):
    lines = ["", "", '"a ""b""",A,a', "1,x,NA", "", '2,"y,z",']
    (tmp_path / "log.csv").write_text(end.join(lines), encoding="utf-8-sig", newline="")
    assert text.read_table(tmp_path / "log.csv").to_pylist() == [
        {'a "b"': 1, "A": "x", "a": None}, {'a "b"': 2, "A": "y,z", "a": None}
    ]  # fmt: skip


def test_many_candidates_are_no_missing_quote(tmp_path):
    many = json.dumps([1 / 20_000] * 20_000)
    path = tmp_path / "log.csv"
    path.write_text(f'action,reward,logging\n0,1,"{many}"\n0,1,"{many}"\n0,1\n')
    with small(10**6), refuses(LogError, row=4, file="log.csv"):
        op.read_log(path)


def test_files_that_do_not_fit_together(tmp_path, table):
    as_csv(table, tmp_path / "a.csv")
    as_csv(table.drop(["q"]), tmp_path / "b.csv")
    with small(), refuses(LogError, "q", file="b.csv"):
        op.read_log(f"{tmp_path}/*.csv")
    as_csv(table.set_column(1, "reward", pa.array(["x"] * 600)), tmp_path / "b.csv")
    with small(), refuses(LogError, "reward", file="b.csv"):
        op.read_log(f"{tmp_path}/*.csv")
    with refuses(LogError, "reward", file="b.csv"):
        op.read_log(f"{tmp_path}/*.csv")


def test_a_bad_value_is_named_by_file_and_row(tmp_path, table):
    reward = table["reward"].to_pylist()
    reward[500] = 1e200
    wrong = table.set_column(1, "reward", pa.array(reward))
    as_csv(wrong, tmp_path / "a.csv", 0, 300)
    as_csv(wrong, tmp_path / "b.csv", 300, 600)
    with small():
        scan = op.read_log(f"{tmp_path}/*.csv")
        with refuses(LogError, "reward", 200, file="b.csv"):
            op.evaluate(scan, "new")
        with refuses(LogError, "reward", 200, file="b.csv"):
            op.evaluate(scan, "new", reward_range=(-100, 100))
        picked = op.read_log(f"{tmp_path}/*.csv", where="shop = 'ä, b'")
        with refuses(LogError, "reward", 100):
            op.evaluate(picked, "new")


# -- the copy --------------------------------------------------------------------------------


def test_the_copy_goes_with_the_log(tmp_path, table, folder):
    path = as_csv(table, tmp_path / "log.csv")
    with small():
        scan = op.read_log(path)
    (inside,) = folder.iterdir()
    assert inside.stat().st_mode & 0o077 == 0
    assert sorted(file.name for file in inside.iterdir()) == [".lock", "0.parquet"]
    before = scan.fingerprint()
    scan.close()
    assert not list(folder.iterdir())
    with small():
        assert op.read_log(path).fingerprint() == before
        assert op.read_log(path, where="reward > 0").fingerprint() != before
    gc.collect()
    assert not list(folder.iterdir())


def test_the_copy_goes_at_exit_and_is_where_tmpdir_says(tmp_path, table):
    path = as_csv(table, tmp_path / "log.csv")
    place = tmp_path / "elsewhere"
    place.mkdir()
    code = (
        "import offpolicy as op, sys\n"
        "from offpolicy.logs.files import _text; _text.LARGEST = 0\n"
        "log = op.read_log(sys.argv[1]); print(log.files[0])\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env=os.environ | {"TMPDIR": str(place)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.startswith(str(place))
    assert not list(place.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of files")
def test_a_full_disk(tmp_path, table):
    path = as_csv(table, tmp_path / "log.csv")
    code = (
        "import resource, sys, offpolicy.cli\n"
        "from offpolicy.logs.files import _text; _text.LARGEST = 0\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "sys.argv[1:] = ['check', sys.argv[1]]; offpolicy.cli.main()\n"
    )
    place = tmp_path / "elsewhere"
    place.mkdir()
    shown = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env=os.environ | {"TMPDIR": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 2, shown.stderr
    assert "temporary copy of the log cannot be written" in shown.stderr
    assert "set TMPDIR" in shown.stderr
    assert "Traceback" not in shown.stderr
    assert not list(place.iterdir())


@pytest.mark.parametrize(
    ("name", "way"), [("log.csv", small), ("log.csv.gz", contextlib.nullcontext)]
)
def test_no_place_for_the_copy(tmp_path, table, monkeypatch, name, way):
    path = as_csv(table, tmp_path / name)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with way(), pytest.raises(LogError, match=r"no place for temporary files: .* Set TMPDIR"):
        op.read_log(path)


def test_compressed_files_count_as_what_they_hold(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_bytes(b"x" * 100)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x" * 100))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"x" * 10**6))
    limit(monkeypatch, "offpolicy.logs.files._text.LARGEST", 300)
    assert not text.is_large([tmp_path / "a.csv"])
    assert not text.is_large([tmp_path / "a.csv.gz"] * 3)
    assert text.is_large([tmp_path / "b.csv.gz"])
    assert text.is_large([tmp_path / "a.csv"] * 4)
    assert text.is_large([tmp_path / "a.csv.gz"] * 4)


def test_long_numbers_stay_whole():
    """As 64-bit ids are: two that differ in the last digit are one as floating-point numbers."""
    ids = [10**18 + 1, 10**18 + 2]
    with temporary("log.csv", f"id,x\n{ids[0]},a\n{ids[1]},b\n") as path:
        assert text.read_table(path)["id"].to_pylist() == ids
