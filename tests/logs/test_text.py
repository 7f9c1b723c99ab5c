"""Text as people have it: what is read is what is written, or an error says where and why not."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.errors import LogError, PolicyError, PropensityError
from offpolicy.logs.files._convert import ConvertedScan
from offpolicy.logs.formats._lines import DEEPEST
from offpolicy.ranking import RankingColumns, RankingLog
from tests.logs.test_conversion import both, small, temporary
from tests.support.foreign import LINE
from tests.support.limits import limit
from tests.support.refusals import refuses

HEAD = "action,reward,propensity,new\n"


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture(params=["held", "streamed"])
def way(request, monkeypatch):
    """A log is read whole, or too large for that."""
    if request.param == "streamed":
        with small():
            yield request.param
    else:
        yield request.param


def names_in(
    path: Path | list[Path], columns: op.Columns | None = None, n: int = 4
) -> list[object]:
    """The action of every row, by name."""
    log = op.read_log(path, columns)
    held = log if isinstance(log, op.BanditLog) else log.read([(0, n)], [])
    assert held.actions is not None
    return [held.actions[code] for code in held.chosen_codes()]


# -- ids -------------------------------------------------------------------------------------

IDS = {
    "leading zeros": ["01", "1", "001", "0"],
    "20 digits": [f"1234567890123456789{k}" for k in range(4)],
    "from 2**63 on": [str(2**63 - 1 + k) for k in range(4)],
    "from 2**64 on": [str(2**64 - 1 + k) for k in range(4)],
    "versions": ["1.1", "1.10", "1.100", "1"],
    "exponents": ["1e5", "100000", "10e4", "1E5"],
    "signs": ["-0", "0", "-1", "1"],
    "truth": ["true", "True", "TRUE", "false"],
    "days": ["2024-01-01", "2024-01-01 00:00", "2024-01-01 00:00:00", "2024-01-02"],
    "words": ["NA", "nan", "null", "None"],
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_in_csv_are_the_text_as_written(tmp_path, way, kind):
    ids = IDS[kind]
    rows = [f"{name},1,0.5,0.5\n" for name in ids]
    path = write(tmp_path / "log.csv", HEAD + "".join(rows))
    assert names_in(path) == ids
    lists = json.dumps(ids).replace('"', '""')
    rows = [f'{name},1,"{lists}","[0.25, 0.25, 0.25, 0.25]"\n' for name in ids]
    write(path, "action,reward,candidates,logging\n" + "".join(rows))
    assert names_in(path) == ids


@pytest.mark.parametrize("kind", IDS)
def test_ids_in_json_lines_are_the_text_as_written(tmp_path, way, kind):
    rows = [{"action": name, "reward": 1, "propensity": 0.5} for name in IDS[kind]]
    path = write(tmp_path / "log.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert names_in(path) == IDS[kind]


@pytest.mark.parametrize("kind", ["20 digits", "from 2**63 on", "from 2**64 on"])
def test_integers_in_json_lines_stay_whole(tmp_path, way, kind):
    ids = list(map(int, IDS[kind]))
    rows = [{"action": name, "reward": 1, "candidates": ids, "logging": [0.25] * 4} for name in ids]
    path = write(tmp_path / "log.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert names_in(path) == IDS[kind]


def test_plain_integers_are_integers(tmp_path, way):
    path = write(tmp_path / "log.csv", HEAD + "".join(f"{k},1,0.5,1\n" for k in (7, -3, 10**17, 0)))
    assert names_in(path) == [7, -3, 10**17, 0]


def test_an_id_is_the_same_whatever_its_column_holds_besides(tmp_path, way):
    """In one column all are integers as they are printed, in the other not."""
    rows = ['1,1,"[01, 1]","[0.5, 0.5]"\n', '1,1,"[1, 2]","[0.5, 0.5]"\n'] * 2
    path = write(tmp_path / "log.csv", "action,reward,candidates,logging\n" + "".join(rows))
    assert names_in(path) == ["1"] * 4
    rows = ['01,1,"[0, 1]","[0.5, 0.5]"\n'] + ['1,1,"[0, 1]","[0.5, 0.5]"\n'] * 3
    write(path, "action,reward,candidates,logging\n" + "".join(rows))
    with refuses(LogError, "action", 0, file="log.csv"):
        names_in(path)


def test_ids_that_are_integers_in_one_file_and_text_in_another(tmp_path, way):
    paths = [
        write(tmp_path / "a.csv", HEAD + "1,1,0.5,1\n2,1,0.5,1\n"),
        write(tmp_path / "b.csv", HEAD + "01,1,0.5,1\n1,1,0.5,1\n"),
    ]
    assert names_in(paths) == ["1", "2", "01", "1"]


def test_clusters_do_not_merge(tmp_path, way):
    rows = [f"0,1,0.5,1,{user}\n" for user in IDS["20 digits"]]
    path = write(tmp_path / "log.csv", HEAD.strip() + ",user\n" + "".join(rows))
    log = op.read_log(path, op.Columns(cluster="user"))
    assert op.evaluate(log, "new", prediction=None).logged.n == 4
    held = log if isinstance(log, op.BanditLog) else log.read([(0, 4)], [])
    assert sorted(set(held.cluster)) == sorted(IDS["20 digits"])
    assert len(op.read_log(path, where=f"user = '{IDS['20 digits'][0]}'")) == 1


def test_impressions_do_not_merge(tmp_path):
    rows = [f"{name},1,1\n{name},2,0\n" for name in ("01", "1", *IDS["20 digits"])]
    path = write(tmp_path / "clicks.csv", "session,rank,click\n" + "".join(rows))
    assert len(RankingLog.read(path, RankingColumns(impression="session"))) == 6


# -- lists -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("['tea', 'x']", ["tea", "x"]),
        ("""['it\\'s', "a 'b'"]""", ["it's", "a 'b'"]),
        ('["t\\u00e4", "x\\n"]', ["tä", "x\n"]),
        ("['x', 'null', 'None']", ["x", "null", "None"]),
        ('["a", "01"]', ["a", "01"]),
    ],
)
def test_lists_of_text_as_json_and_python_write_them(tmp_path, way, cell, names):
    quoted = cell.replace('"', '""')
    name = names[0].replace('"', '""')
    share = [1 / len(names)] * len(names)
    row = f'"{name}",1,"{quoted}","{share}"\n'
    path = write(tmp_path / "log.csv", "action,reward,candidates,logging\n" + row * 3)
    log = op.read_log(path)
    held = log if isinstance(log, op.BanditLog) else log.read([(0, 3)], [])
    assert held.actions == tuple(sorted(names))


@pytest.mark.parametrize("cell", ["[.5, 5e-1]", "[0.5,0.5]", " [ 0.5 , 0.5 ] ", "[5.e-1, .5]"])
def test_lists_of_numbers_as_they_are_written(tmp_path, way, cell):
    path = write(tmp_path / "log.csv", f'action,reward,logging\n0,1,"{cell}"\n1,0,"[0.5, 0.5]"\n')
    log = op.read_log(path)
    held = log if isinstance(log, op.BanditLog) else log.read([(0, 2)], [])
    assert held.logging.tolist() == [0.5] * 4


@pytest.mark.parametrize(
    "cell", ["[0.5, 0.5", "[0.5 0.5]", "[0.5, 0.5,]", "[0.5,, 0.5]", "[0.5, x]", "[0_5, 0.5]", ""]
)
def test_what_is_no_list(tmp_path, way, cell):
    good = '0,1,"[0.5, 0.5]"\n'
    text = f'action,reward,logging\n{good}0,1,"{cell}"\n{good}'
    path = write(tmp_path / "log.csv", text)
    with refuses(LogError, "logging", 1, file="log.csv"):
        op.read_log(path)
    result = op.evaluate(op.read_log(path, on_bad_row="drop", max_dropped=0.5), op.Uniform())
    assert result.dropped.reasons == {"logging": 1}
    assert result.dropped.of == 3


# -- numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "error"),
    [
        ("reward", LogError),
        ("propensity", PropensityError),
        ("row_weight", LogError),
        ("new", PolicyError),
    ],
)
def test_text_among_numbers_is_named_or_dropped(tmp_path, way, column, error):
    names = ["action", "reward", "propensity", "row_weight", "new"]
    cells = [["a", "1", "0.5", "1", "0.5"] for _ in range(300)]
    cells[200][names.index(column)] = "one"
    text = "\n".join(",".join(row) for row in [names, *cells]) + "\n"
    path = write(tmp_path / "log.csv", text)
    with refuses(error, column, 200, file="log.csv"):
        op.evaluate(op.read_log(path), "new")
    result = op.evaluate(op.read_log(path, on_bad_row="drop"), "new")
    assert result.dropped.reasons == {column: 1}
    assert result.logged.n == 299
    shown = CliRunner().invoke(cli, ["evaluate", str(path), "--policy", "new"])
    assert f"{path}, {column}, row 200: 'one' is not a number" in str(shown.exception)


def test_positions_may_be_written_as_numbers(tmp_path, way):
    good = '1.0,1,"[0.5, 0.5]"\n'
    path = write(tmp_path / "log.csv", f"action,reward,logging\n{good * 3}")
    log = op.read_log(path)
    assert (log if isinstance(log, op.BanditLog) else log.read([(0, 3)], [])).chosen.sum() == 3
    write(path, f'action,reward,logging\n{good * 3}x,1,"[0.5, 0.5]"\n')
    with refuses(LogError, "action", 3, file="log.csv"):
        op.evaluate(op.read_log(path), op.Uniform())
    write(path, 'action,reward,logging\nx,1,"[0.5, 0.5]"\n')
    with refuses(LogError, "action", file="log.csv"):
        op.evaluate(op.read_log(path), op.Uniform())


# -- quotes and line ends --------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_file_that_ends_within_quotes(tmp_path, way, end, suffix):
    comma = "\t" if suffix == ".tsv" else ","
    row = comma.join(['"0"', '"0.5"', '"1"', '"1000"'])
    lines = [comma.join(["action", "propensity", "new", "reward"]), *[row] * 20]
    path = write(tmp_path / f"log{suffix}", end.join(lines)[:-3])
    with refuses(LogError, "reward", 21, file=path.name) as caught:
        op.read_log(path)
    assert caught.value.place.unit == "line"
    write(path, end.join(lines))
    assert len(op.read_log(path)) == 20


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_rows_between_stray_quotes_are_not_swallowed(tmp_path, way, end):
    """Nothing is wrong with their number of fields: they are one field."""
    lines = ["action,note,reward,propensity", *["0,n,1,0.5"] * 9]
    for last in (4, 5, 8):
        stray = lines.copy()
        stray[3], stray[last] = '0,"n,1,0.5', '0,n",1,0.5'
        path = write(tmp_path / "log.csv", end.join(stray))
        with refuses(LogError, "note", 2, file="log.csv"):
            op.read_log(path)
    stray[3:] = [f'0,"a note{end}of two lines",1,0.5'] * 3
    assert len(op.read_log(write(path, end.join(stray)))) == 5


def test_the_line_of_a_wrong_row_is_that_of_an_editor(tmp_path, way):
    note = '"two\nlines"'
    text = "\n\naction,reward,note\n\n" + f"0,1,{note}\n" * 5 + "\n0,1\n"
    with refuses(LogError, "", 16, file="log.csv"):
        op.read_log(write(tmp_path / "log.csv", text))


@pytest.mark.parametrize(
    ("text", "column", "row"),
    [
        (b"action,reward,n\xd2w\n0,1,0\n", "", 1),
        (b"action,reward\n0,1\n\xd2,1\n", "action", 3),
        (b"\xff\xfea\x00c\x00", "", 1),
    ],
)
def test_text_that_is_not_utf_8(tmp_path, way, text, column, row):
    with refuses(LogError, column, row, file="log.csv"):
        op.read_log(write(tmp_path / "log.csv", text))
    path = write(tmp_path / "log.jsonl", b'{"action": 0, "reward": 1}\n{"action": "\xd2"}\n')
    with refuses(LogError, "", 2, file="log.jsonl"):
        op.read_log(path)


# -- names of files, and what is no file ------------------------------------------------------


@pytest.mark.parametrize("name", ["log[1].csv", "log*.csv", "log?.csv", "log{1}.jsonl", "it's.csv"])
def test_a_name_is_no_pattern(tmp_path, way, name):
    other = tmp_path / ("log1" + Path(name).suffix)
    for path, reward in ((other, 0), (tmp_path / name, 1)):
        row = {"action": 0, "reward": reward, "propensity": 0.5}
        csv = f"action,reward,propensity\n0,{reward},0.5\n"
        write(path, csv if path.suffix == ".csv" else json.dumps(row) + "\n")
    log = op.read_log(tmp_path / name)
    assert (log if isinstance(log, op.BanditLog) else log.read([(0, 1)], [])).reward.tolist() == [1]


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text elsewhere")
def test_a_name_that_is_not_utf_8(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/log-\xe4.csv")
    write(Path(path), HEAD + "a,1,0.5,1\n" * 3)
    assert len(op.read_log(path)) == 3
    write(Path(path), HEAD + "a,1,0.5,1\n" * 3 + "a\n")
    with refuses(LogError, "", 5):
        op.read_log(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.dsjson", "log.parquet"])
def test_a_pipe_is_refused(tmp_path, name):
    path = tmp_path / name
    os.mkfifo(path)
    with refuses(LogError, "", file=name):
        op.read_log(path)
    with refuses(LogError, "", file=name):
        op.formats.dsjson.read(path)
    shown = CliRunner().invoke(cli, ["evaluate", str(path), "--policy", "new"])
    assert isinstance(shown.exception, LogError)


# -- JSON ------------------------------------------------------------------------------------


@pytest.mark.parametrize("deep", [50, 1_000, 100_000])
def test_deep_json_lines(tmp_path, way, deep):
    """What is nested stays text; where lists of numbers are needed, it is an error."""
    nested = "[" * deep + "]" * deep
    row = '{"action": 0, "reward": 1, "propensity": 0.5, "new": 0.5, "x": %s}\n'
    path = write(tmp_path / "log.jsonl", row % nested * 3)
    assert len(op.read_log(path)) == 3
    write(path, row.replace('"new": 0.5', '"new": %s') % (nested, 0) * 3)
    with refuses(PolicyError, "new", 0, file="log.jsonl"):
        op.evaluate(op.read_log(path), "new")


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_dsjson(tmp_path, opening):
    closing = "]" if opening == "[" else "}"
    good = json.dumps(LINE)
    for deep in (DEEPEST // 2, 1_000, 100_000):
        inside = opening * deep + "0" + closing * deep
        path = write(tmp_path / "log.dsjson", f'{good}\n{good[:-1]}, "x": {inside}}}\n')
        if deep < DEEPEST:
            assert len(op.read_log(path)) == 2
        else:
            with refuses(LogError, "", 2, file="log.dsjson"):
                op.read_log(path)
    brackets = json.dumps(LINE | {"x": "[" * 1_000 + '\\"{'})
    assert len(op.read_log(write(path, brackets))) == 1


def test_many_names_in_one_object(tmp_path, way):
    row = {"action": 0, "reward": 1, "propensity": 0.5}
    path = write(tmp_path / "log.jsonl", json.dumps(row | {f"k{k}": k for k in range(200_000)}))
    with refuses(LogError, "", file="log.jsonl"):
        op.read_log(path)


def test_a_name_twice_in_one_object(tmp_path, way):
    good = '{"action": 0, "reward": 1, "propensity": 0.5}\n'
    path = write(tmp_path / "log.jsonl", good + "\n" + good.replace('"action"', '"reward"'))
    with refuses(LogError, "reward", 3, file="log.jsonl"):
        op.read_log(path)
    write(path, good.replace('"propensity"', '"Reward": 0, "propensity"') * 2)
    assert len(op.read_log(path)) == 2


def test_names_of_json_are_any_text(tmp_path, way):
    odd = ["a/b", "a~b", 'q"', "~1", "$.x", "a.b", "0", "ä", "it's"]
    rows = [
        {"action": 0, "reward": 1} | {name: k + j for j, name in enumerate(odd)} for k in range(3)
    ]
    path = write(tmp_path / "log.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    columns = op.Columns(context=odd)
    log = op.read_log(path, columns)
    held = log if isinstance(log, op.BanditLog) else log.read([(0, 3)], [])
    assert held.context.tolist() == [[k + j for j in range(len(odd))] for k in range(3)]


def test_objects_within_objects_can_be_asked(tmp_path, way):
    rows = [
        {"action": 0, "reward": 1, "propensity": 0.5, "user": {"country": country}}
        for country in ("de", "fr", "de")
    ]
    path = write(tmp_path / "log.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert len(op.read_log(path, where="""contains(user, '"country":"de"')""")) == 2


# -- compressed ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["log.csv.gz", "log.jsonl.gz"])
def test_a_small_file_that_holds_much_is_streamed(tmp_path, monkeypatch, name):
    row = "a,1,0.5,1\n"
    if "json" in name:
        row = '{"action": "a", "reward": 1, "propensity": 0.5, "new": 1}\n'
    path = tmp_path / name
    path.write_bytes(gzip.compress(((HEAD if "csv" in name else "") + row * 20_000).encode()))
    limit(monkeypatch, "offpolicy.logs.files._text.LARGEST", 2**17)
    assert path.stat().st_size < 2**13
    log = op.read_log(path)
    assert isinstance(log, ConvertedScan)
    assert len(log) == 20_000
    log.close()


# -- the long format -------------------------------------------------------------------------


def test_columns_of_the_long_format_that_are_not_there(tmp_path, way):
    path = write(tmp_path / "log.csv", "id,picked,reward,p\n1,1,1,0.5\n1,0,1,0.5\n")
    columns = op.Columns(decision="id", chosen="picked", logging="p", candidates="itm")
    with refuses(LogError, "itm", file="log.csv"):
        op.read_log(path, columns)


# -- small and large -------------------------------------------------------------------------

_NAMES = st.one_of(
    st.sampled_from(["0", "1", "01", "1.0", "NA", "-0", "1e3"]),
    st.integers(-5, 2**65).map(str),
    st.text("abä ,;'\"\t", min_size=1, max_size=4),
)


@st.composite
def logs(draw) -> list[dict[str, object]]:
    """Rows of a log, some values of which are written like other kinds."""
    names = draw(st.lists(_NAMES, min_size=2, max_size=4, unique=True))
    share = [1 / len(names)] * len(names)
    rows = draw(st.integers(1, 12))
    return [
        {
            "action": draw(st.sampled_from(names)),
            "reward": draw(st.one_of(st.integers(0, 1), st.floats(-1e6, 1e6))),
            "candidates": names,
            "logging": share,
            "new": draw(st.permutations(share)),
            "cluster": draw(_NAMES),
        }
        for _ in range(rows)
    ]


@settings(max_examples=40, deadline=None)
@given(logs(), st.sampled_from([".csv", ".tsv", ".jsonl"]), st.sampled_from(["\n", "\r\n"]))
def test_small_and_large_files_are_the_same_log(rows, suffix, end):
    if suffix == ".jsonl":
        lines = [json.dumps(row) for row in rows]
    else:
        comma = "\t" if suffix == ".tsv" else ","
        cells = [
            [json.dumps(v) if isinstance(v, list) else str(v) for v in row.values()] for row in rows
        ]
        every = [list(rows[0]), *cells]
        lines = [comma.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in every]
    with temporary(f"log{suffix}", end.join(lines) + end) as path:
        held, scan = both(path)
        part = scan.read([(0, len(rows))], ["new"])
        assert held.fingerprint() == part.replace(first_row=0).fingerprint()
        assert held.named_column("new").tolist() == part.named_column("new").tolist()
        wanted = [row["action"] for row in rows]
        for log in (held, part):
            assert [str(log.actions[code]) for code in log.chosen_codes()] == wanted
            assert log.reward.tolist() == [float(row["reward"]) for row in rows]
            assert list(map(str, log.cluster)) == [row["cluster"] for row in rows]
        scan.close()


def test_a_probability_that_is_none_is_named_by_its_line(tmp_path, way):
    path = write(tmp_path / "log.csv", HEAD + "a,1,0.5,1\n" * 150 + "a,1,0,1\n")
    with refuses(PropensityError, "propensity", 150, file="log.csv"):
        op.evaluate(op.read_log(path), "new")


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.dsjson"])
def test_a_line_without_end(tmp_path, name):
    long = "x" * (2**24 + 10)
    first = HEAD + "a,1,0.5,1\n" if name == "log.csv" else json.dumps(LINE) + "\n"
    if name == "log.jsonl":
        first = '{"action": 0, "reward": 1}\n'
    row = f'"{long}",1,0.5,1\n' if name == "log.csv" else f'{{"action": "{long}"}}\n'
    path = write(tmp_path / name, first + row)
    with refuses(LogError, "", 3 if name == "log.csv" else 2, file=name):
        op.read_log(path)
