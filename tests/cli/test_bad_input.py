"""Whatever a file holds, the command line ends with an answer or with one line that says what is
wrong, where, and what to do; never with a traceback, and never with a crash."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from offpolicy.cli import main
from offpolicy.logs.files import _read as reading
from offpolicy.logs.files._sql import errors_as_ours
from tests.support.cases import make_case
from tests.support.files import table_of

Fails = Callable[..., str]
VERBS = {"evaluate": ["--format", "tsv"], "compare": [], "check": [], "sweep": ["--grid"]}


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr, through the whole of `main`."""
    code = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["offpolicy", *arguments])
        before = signal.getsignal(signal.SIGINT)
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            signal.signal(signal.SIGINT, before)
    return code, *capsys.readouterr()


@pytest.fixture
def fails(tmp_path, monkeypatch, capsys) -> Fails:
    """The one line that a command ends with, in a folder of its own; the exit code is 2."""
    monkeypatch.chdir(tmp_path)

    def message(*arguments: str, verb: str = "evaluate") -> str:
        code, out, err = run([verb, *arguments, "--policy", "new", *VERBS[verb]], capsys)
        assert code == 2, err
        assert out == ""
        assert err.count("\n") == 1
        return err

    return message


@pytest.fixture(params=["memory", "scan"])
def way(request, monkeypatch) -> str:
    """Small Parquet is held in memory, large Parquet is scanned."""
    if request.param == "scan":
        monkeypatch.setattr(reading, "READ_WHOLE", 0)
    return str(request.param)


def sound(n: int = 300, **extra: object) -> pa.Table:
    return table_of(make_case(np.random.default_rng(0), n, drawn=True), **extra)


# -- Parquet ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "cut"), [*(("evaluate", cut) for cut in (0, 3, 4, -1, -8)), *((v, 100) for v in VERBS)]
)
def test_truncated_parquet(fails, way, cut, verb):
    pq.write_table(sound(), "log.parquet")
    data = Path("log.parquet").read_bytes()
    Path("log.parquet").write_bytes(data[:cut])
    text = fails("log.parquet", verb=verb)
    assert text.startswith("LogError: log.parquet: not a readable Parquet file (")
    assert text.endswith("Was it written or copied only in part?\n")


def test_parquet_without_rows(fails, way):
    pq.write_table(sound().slice(0, 0), "log.parquet")
    assert "log.parquet: The log is empty" in fails("log.parquet")


def test_text_that_calls_itself_parquet(fails, way):
    Path("log.parquet").write_text("action,reward\n1,2\n")
    assert "log.parquet: not a readable Parquet file" in fails("log.parquet")


def test_a_file_that_differs_from_the_others(fails):
    pq.write_table(sound(), "a.parquet")
    pq.write_table(sound().drop(["q"]), "b.parquet")
    text = fails("a.parquet", "b.parquet")
    assert "b.parquet, q: it holds nothing, but in a.parquet it holds list" in text
    pq.write_table(sound(reward=["1"] * 300), "b.parquet")
    text = fails("a.parquet", "b.parquet")
    assert "b.parquet, reward: it holds string, but in a.parquet it holds double" in text
    assert "must have the same columns" in text


def test_one_damaged_file_of_several_is_named(fails):
    for name in ("a", "b", "c"):
        pq.write_table(sound(), f"{name}.parquet", compression="none", use_dictionary=False)
    data = bytearray(Path("b.parquet").read_bytes())
    start = pq.read_metadata("b.parquet").row_group(0).column(1).data_page_offset
    data[start : start + 40] = b"\xff" * 40
    Path("b.parquet").write_bytes(bytes(data))
    text = fails("a.parquet", "b.parquet", "c.parquet")
    assert text.startswith("LogError: b.parquet: not a readable Parquet file (")


BAD_ROWS = {
    "ragged": ("new", lambda v: [*v, 0.0], ", new, row 7: the list has"),
    "nan": ("new", lambda v: [np.nan, *v[1:]], ", new, row 7, candidate 0: nan"),
    "nan in q": ("q", lambda v: [np.nan, *v[1:]], ", prediction, row 7, candidate 0: nan"),
    "null": ("logging", lambda v: [None, *v[1:]], ", logging, row 7, candidate 0: the value is"),
    "sum": ("logging", lambda v: [x / 2 for x in v], ", logging, row 7: the probabilities sum to"),
    "action": ("action", lambda _: 99, ", chosen, row 7: position 99, but the decision has"),
    "reward": ("reward", lambda _: None, ", reward, row 7: the value is missing (1 of"),
    "infinite": ("reward", lambda _: np.inf, ", reward, row 7: inf (1 of"),
    "propensity 0": ("propensity", lambda _: 0.0, ", propensity, row 7: 0.0 (1 of"),
    "propensity": ("propensity", lambda _: 2.0, ", propensity, row 7: 2.0 (1 of"),
}  # fmt: skip


def spoilt(table: pa.Table, name: str, change: Callable[[object], object]) -> pa.Table:
    values = table.column(name).to_pylist()
    values[7] = change(values[7])
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(values, table.column(name).type))


@pytest.mark.parametrize(
    ("verb", "bad"), [*(("evaluate", bad) for bad in BAD_ROWS), *((v, "nan") for v in VERBS)]
)
def test_a_malformed_row_is_named_or_dropped(fails, capsys, way, verb, bad):
    case = make_case(np.random.default_rng(0), 300, drawn=True)
    at = case.offsets[:-1] + case.chosen
    table = table_of(case, propensity=case.pi0[at])
    name, change, message = BAD_ROWS[bad]
    pq.write_table(spoilt(table, name, change), "log.parquet")
    text = fails("log.parquet", "--prediction", "q", verb=verb)
    assert f"log.parquet{message}" in text
    drop = [verb, "log.parquet", "--policy", "new", "--prediction", "q", *VERBS[verb]]
    code, _, err = run([*drop, "--on-bad-row", "drop"], capsys)
    assert code in (0, 1)
    assert err.startswith("Note (dropped): 1 of 300 rows was dropped: ")
    pq.write_table(table.filter(pa.array(np.arange(300) != 7)), "log.parquet")
    assert run(drop, capsys)[0] == code


def test_an_action_that_is_not_among_the_candidates(fails, way):
    names = pa.array([["tea", "milk"]] * 20)
    table = pa.table(
        {
            "action": ["tea"] * 11 + ["mlik"] + ["milk"] * 8,
            "reward": [1.0] * 20,
            "candidates": names,
            "logging": [[0.5, 0.5]] * 20,
            "new": [[0.9, 0.1]] * 20,
        }
    )
    pq.write_table(table, "log.parquet")
    text = fails("log.parquet")
    assert "log.parquet, action, row 11: 'mlik' is not among the decision's candidates" in text
    assert 'Did you mean "milk"? The chosen action must be one of them.' in text


# -- flipped bits ----------------------------------------------------------------------------

FLIPS = """
import contextlib, io, json, sys
import numpy as np
from pathlib import Path
from offpolicy.cli import main
from offpolicy.logs.files import _read as reading

path, seed, count, small, *options = sys.argv[1:]
reading.READ_WHOLE = int(small)
path, rng = Path(path), np.random.default_rng(int(seed))
data = path.read_bytes()
footer = int.from_bytes(data[-8:-4], "little") + 8
flipped = path.with_name("flipped.parquet")

def run(file):
    sys.argv = ["offpolicy", "evaluate", str(file), "--policy", "new", "--prediction", "q",
                "--cluster", "user", "--format", "json", "-e", "DR", *options]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue(), err.getvalue()

flipped.write_bytes(data)
intact = run(flipped)
print(json.dumps([*intact, "intact"]), flush=True)
for k in range(int(count)):
    at = int(rng.integers(len(data))) if k % 2 else len(data) - 1 - int(rng.integers(footer))
    changed = bytearray(data)
    changed[at] ^= 1 << int(rng.integers(8))
    flipped.write_bytes(bytes(changed))
    code, out, err = run(flipped)
    print(json.dumps([code, "same" if (code, out) == intact[:2] else out, err, at]), flush=True)
"""


def flips(folder: Path, seed: int, count: int, small: int, *options: str, **how: object):
    """What comes of a file with one bit flipped, for many bits, half of them in the footer."""
    users = [f"user {k % 97}" for k in range(2_000)]
    pq.write_table(sound(2_000, user=users), folder / "log.parquet", row_group_size=500, **how)
    done = subprocess.run(
        [sys.executable, "-c", FLIPS, str(folder / "log.parquet"), str(seed), str(count),
         str(small), *options],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    first, *found = [json.loads(line) for line in done.stdout.splitlines()]
    assert first[0] == 0, first
    assert len(found) == count
    return found


def assert_answered(found: list[tuple[int, str, str, int]]) -> None:
    for code, out, err, at in found:
        assert code in (0, 1, 2), (at, err)
        assert "Traceback" not in err
        if code == 2:
            assert "flipped.parquet" in err, (at, err)
            assert err.count("\n") == 1, (at, err)
            assert out == "", at


@pytest.mark.parametrize("small", [0, 2**25], ids=["scan", "memory"])
@pytest.mark.parametrize(
    "how",
    [{}, {"compression": "none", "use_dictionary": False}, {"compression": "zstd"}],
    ids=["snappy", "plain", "zstd"],
)
def test_a_flipped_bit_is_an_error_or_other_numbers(tmp_path, small, how):
    found = flips(tmp_path, 1, 40, small, **how)
    assert_answered(found)
    assert sum(code == 2 for code, *_ in found) > 5


@pytest.mark.parametrize("small", [0, 2**25], ids=["scan", "memory"])
def test_with_checksums_no_flipped_bit_changes_an_answer(tmp_path, small):
    found = flips(tmp_path, 2, 100, small, "--verify", write_page_checksum=True)
    assert_answered(found)
    assert all(code == 2 or out == "same" for code, out, *_ in found)


@pytest.mark.parametrize("small", [0, 2**25], ids=["scan", "memory"])
def test_flipped_bits_and_dropping(tmp_path, small):
    assert_answered(flips(tmp_path, 3, 40, small, "--on-bad-row", "drop"))


# -- text ------------------------------------------------------------------------------------

LISTS = """\
action,reward,logging,new
0,1,"[0.5, 0.5]","[0.9, 0.1]"
1,0,"[0.5, 0.5]","[0.9, 0.1]"
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('[0.5, 0.5]","', '[0.5, 0.5],"', "log.csv, logging, line 3: not a readable CSV file"),
        ('"[0.5, 0.5]"', "[0.5, 0.5]", "log.csv, line 3: not a readable CSV file"),
        ('"[0.5, 0.5]"', '"[0.5, 0.5"', 'log.csv, logging, row 1: "[0.5, 0.5" is not a list'),
        ('"[0.9, 0.1]"', '"[0.9, 0.1, 0]"', "log.csv, new, row 1: the list has 3 entries, but"),
        ('"[0.9, 0.1]"', '"[NaN, 0.1]"', "log.csv, new, row 1, candidate 0: nan"),
        ("1,0,", "2,0,", "log.csv, chosen, row 1: position 2, but the decision has 2 candidates"),
    ],
    ids=["open quote", "no quotes", "open list", "ragged", "nan", "action"],
)
def test_bad_lists_in_csv(fails, old, new, message):
    head, first, second = LISTS.splitlines(keepends=True)
    Path("log.csv").write_text(head + first + second.replace(old, new, 1))
    assert message in fails("log.csv")


HEAD = "action,reward,propensity,new\n"
GOOD = "a,1,0.5,0.9\nb,0,0.5,0.1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "log.csv: not a readable CSV file"),
        ("\n\n", "log.csv"),
        (HEAD, "log.csv: The log is empty"),
        (HEAD + GOOD + 'a,1,"0.5,0.9\nb,0,0.5,0.1\n', "log.csv"),
        (HEAD + GOOD + "a,1,0.5\n", "log.csv, line 4: not a readable CSV file"),
        (HEAD + GOOD + "a,1,0,0.9\n", "log.csv, propensity, row 2: 0.0 (1 of 3 rows are 0 or"),
        (HEAD + GOOD + "a,1,,0.9\n", "log.csv, propensity, row 2: the value is missing"),
        (HEAD + GOOD + "a,one,0.5,0.9\n", "log.csv, reward, row 2: 'one' is not a number (1 of 3"),
        (HEAD + GOOD + "a,1,0.5,half\n", "log.csv, new, row 2: 'half' is not a number (1 of 3"),
        (HEAD + GOOD + "a,1,0.5,nan\n", "log.csv, new, row 2: the value is missing"),
        ("\x00\x01\x02\x03", "log.csv"),
        (HEAD + GOOD + "\x00\n", "log.csv"),
    ],
    ids=[
        "0 bytes", "blank", "header only", "open quote", "short row", "propensity",
        "missing", "word", "word in a policy", "nan", "binary", "zero byte",
    ],
)  # fmt: skip
def test_bad_csv(fails, text, message):
    Path("log.csv").write_bytes(text.encode())
    assert message in fails("log.csv")


OBJECT = '{"action": 0, "reward": 1, "logging": [0.5, 0.5], "new": [0.9, 0.1]}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "log.jsonl: there is not one object in this file"),
        (OBJECT + "junk\n", "log.jsonl, line 2: not readable"),
        (OBJECT + '{"action": 0, "rew', "log.jsonl, line 2: not readable"),
        (OBJECT + "[1, 2]\n", "log.jsonl, line 2: not readable"),
        (OBJECT + OBJECT.replace("1,", '"one",', 1), "log.jsonl, reward, line 2: not readable"),
        (OBJECT + OBJECT.replace("[0.5, 0.5]", "[1]"), "log.jsonl, new, row 1: the list has 2"),
        (OBJECT + OBJECT.replace("[0.5, 0.5]", "0.5"), "log.jsonl, logging, line 2: not readable"),
        (OBJECT + OBJECT.replace("0.9", "null"), "log.jsonl, new, row 1, candidate 0: the value"),
        (OBJECT + OBJECT.replace('"action": 0', '"action": 2'), "row 1: position 2, but the"),
        ("{}\n", "log.jsonl"),
    ],
    ids=[
        "0 bytes", "junk", "cut off", "array", "word", "ragged", "no list", "null", "action",
        "empty object",
    ],
)  # fmt: skip
def test_bad_json_lines(fails, text, message):
    Path("log.jsonl").write_text(text)
    assert message in fails("log.jsonl")


# -- faults, interrupts ----------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path, monkeypatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(HEAD + GOOD * 5)
    return ["evaluate", "log.csv", "--policy", "new"]


def test_a_fault_of_ours_is_one_line_or_a_traceback(shop, monkeypatch, capsys):
    def broken(*_: object, **__: object) -> None:
        raise AssertionError("two\nlines")

    monkeypatch.setattr("offpolicy.evaluation.evaluate", broken)
    code, out, err = run(shop, capsys)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("This is a fault of offpolicy, not of your data: AssertionError(")
    assert "offpolicy --debug" in err
    code, out, err = run(["--debug", *shop], capsys)
    assert (code, out) == (3, "")
    assert err.startswith("Traceback (most recent call last)")


def test_debug_shows_where_any_error_comes_from(shop, capsys):
    code, _, err = run(["--debug", *shop[:-1], "nwe"], capsys)
    assert code == 2
    assert err.startswith("Traceback")
    assert 'LogError: log.csv: there is no column "nwe"' in err.splitlines()[-1]


@pytest.mark.parametrize("how", ["plain", "DuckDB", "a library"])
def test_an_interrupt_is_130(shop, monkeypatch, capsys, how):
    def interrupted(*_: object, **__: object) -> None:
        if how == "DuckDB":
            with errors_as_ours("log"):
                raise RuntimeError("Query interrupted")
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            if how == "plain":
                raise
        raise AttributeError("half imported")

    monkeypatch.setattr("offpolicy.evaluation.evaluate", interrupted)
    code, out, err = run(shop, capsys)
    assert (code, out) == (130, "")
    assert err.strip() == "Interrupted. With --resume DIR, a run can go on after this."
    code, _, err = run([*shop, "--resume", "kept"], capsys)
    assert err.strip() == "Interrupted. The same command goes on from where it was kept."


def test_a_real_interrupt_is_130(shop):
    program = (
        "import time, offpolicy.evaluation as e\n"
        "def wait(*a, **k):\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "e.evaluate = wait\n"
        "from offpolicy.cli import main\nmain()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, *shop],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert err.strip().startswith("Interrupted. With --resume DIR")
