"""What the command line writes and prints: into anything, in any encoding, and nothing in it that a
terminal or a spreadsheet obeys; and how it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from offpolicy.cli.options import as_tsv
from tests.support.cases import make_case
from tests.support.commands import fails
from tests.support.files import table_of

COMMAND = [sys.executable, "-m", "offpolicy"]
EVIL = "a\x1b]0;title\x07\x9b31m\u202ezyx\u2066"
"""A name that sets the title of a terminal, turns it red, and writes backwards."""
OBEYED = {"\x1b", "\x07", "\x9b", "\u202e", "\u2066"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small log and a result, in which the command runs."""
    case = make_case(np.random.default_rng(0), 300, drawn=True)
    pq.write_table(table_of(case), tmp_path / "log.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: object, **how: object) -> subprocess.CompletedProcess[bytes]:
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
    return subprocess.run([*COMMAND, *map(str, words)], timeout=120, **how)


EVALUATE = ("evaluate", "log.parquet", "--policy", "new", "--prediction", "q")


# -- files, devices, streams -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_a_page_on_standard_output_is_the_page_alone(folder, name):
    (folder / "r.json").write_bytes(run(*EVALUATE, "--format", "json").stdout)
    run("report", "r.json", "-o", "r.html")
    page = (folder / "r.html").read_bytes()
    assert page.startswith(b"<!DOCTYPE html>")
    assert run("report", "r.json", "-o", name).stdout == page
    with (folder / "out.html").open("wb") as out:
        run("report", "r.json", "-o", name, stdout=out)
    assert (folder / "out.html").read_bytes() == page
    done = run(*EVALUATE, "--report", name, "--format", "json")
    assert done.stdout.startswith(b"<!DOCTYPE html>")
    assert done.stdout.endswith(b"</html>\n")
    assert (folder / "r.json").read_bytes().strip() in done.stderr
    assert not Path("-").exists()


def test_a_simulated_log_on_standard_output_can_be_read(folder):
    written = run("simulate", "synthetic", "-n", 50, "-o", "-")
    Path("copy.parquet").write_bytes(written.stdout)
    assert len(pq.read_table("copy.parquet")) == 50
    assert b"truth: the policy earns" in written.stderr


def test_a_page_into_a_pipe(folder):
    os.mkfifo("pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_bytes()))
    reader.start()
    done = run(*EVALUATE, "--report", "pipe")
    reader.join(10)
    assert done.returncode == 0
    assert read[0].endswith(b"</html>\n")
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


def test_a_page_keeps_mode_and_symlink_of_the_one_before(folder):
    Path("kept.html").touch()
    Path("kept.html").chmod(0o600)
    Path("link.html").symlink_to("kept.html")
    assert run(*EVALUATE, "--report", "link.html").returncode == 0
    assert Path("link.html").is_symlink()
    assert stat.S_IMODE(Path("kept.html").stat().st_mode) == 0o600
    assert Path("kept.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_learned_policy_behind_a_symlink_has_its_numbers_there(folder):
    Path("kept").mkdir()
    Path("policy.json").symlink_to("kept/policy.json")
    run("simulate", "synthetic", "-n", 300, "-o", "s.parquet")
    learn = ("learn", "s.parquet", "--context", "x*", "--max-iter", 3, "-o", "policy.json")
    assert run(*learn).returncode in (0, 1)
    assert [path.suffix for path in sorted(Path("kept").iterdir())] == [".npy", ".json"]
    for name in ("policy.json", "kept/policy.json"):
        done = run("evaluate", "s.parquet", "--context", "x*", "--policy", name)
        assert done.returncode in (0, 1), done.stderr


@pytest.mark.parametrize(
    "words",
    [
        (*EVALUATE, "--report", ""), (*EVALUATE, "--resume", ""), (*EVALUATE, "--columns", ""),
        ("report", ""), ("report", "r.json", "-o", ""), ("simulate", "synthetic", "-o", ""),
        ("demo", "--out", ""), ("evaluate", "", "--policy", "new"),
        ("rank", "propensities", "log.parquet", "-o", ""),
        (*EVALUATE, "--report", "none/page.html"),
    ],
)  # fmt: skip
def test_a_name_that_is_empty_or_nowhere_is_refused(folder, capsys, words):
    before = sorted(folder.iterdir())
    assert fails(list(map(str, words)), capsys)[0] == 2
    assert sorted(folder.iterdir()) == before


def test_two_files_cannot_go_to_standard_output(folder, capsys):
    words = ["rank", "propensities", "log.parquet", "-o", "-", "--report", "/dev/stdout"]
    code, text = fails(words, capsys)
    assert code == 2
    assert "only one file" in text


def test_a_full_disk_is_a_line_that_names_what_was_written(folder):
    for words, name in [
        ((*EVALUATE, "--report", "/dev/full"), b"/dev/full: No space left on device.\n"),
        (EVALUATE, b"The output cannot be written: No space left on device.\n"),
    ]:
        with Path("/dev/full").open("wb") as full:
            done = run(*words, stdout=full if words == EVALUATE else subprocess.PIPE)
        assert done.returncode == 2
        assert done.stderr == name


# -- what is printed ---------------------------------------------------------------------------


def evil_log(folder: Path) -> list[str]:
    """A log with the name of a column, an action and of a file that terminals obey."""
    table = pq.read_table("log.parquet")
    names = [EVIL if name == "new" else name for name in table.column_names]
    pq.write_table(table.rename_columns(names), f"{EVIL}.parquet")
    return [f"{EVIL}.parquet", "--policy", EVIL]


def on_a_terminal(*words: object) -> bytes:
    """What a command prints to a terminal."""
    ours, its = pty.openpty()
    child = subprocess.Popen([*COMMAND, *map(str, words)], stdin=its, stdout=its, stderr=its)
    os.close(its)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    child.wait(60)
    os.close(ours)
    return shown


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate",), ("evaluate", "--format", "json"), ("evaluate", "--format", "tsv"),
        ("compare",), ("check",), ("evaluate", "--action", EVIL), ("evaluate", "--no\x1b[31m"),
        ("evaluate", "--policy", "x\x1b.json"),
    ],
)  # fmt: skip
def test_a_terminal_obeys_no_name(folder, words):
    verb, *more = words
    done = run(verb, *evil_log(folder), *more)
    shown = (done.stdout + done.stderr).decode()
    assert not OBEYED & set(shown)
    assert "\\u001b" in shown or "\\x1b" in shown
    if "json" in words:
        assert json.loads(done.stdout)["headlines"][0]["policy"] == EVIL


def test_a_terminal_sees_our_colours_and_no_others(folder):
    shown = on_a_terminal("evaluate", *evil_log(folder)).decode()
    assert "\x1b[1m" in shown
    assert not OBEYED & set(shown.replace("\x1b[", ""))
    assert "a\\u001b]0;title\\u0007\\u009b31m\\u202ezyx\\u2066" in shown


def test_text_that_a_spreadsheet_would_run_is_text():
    formulas = ["=1+2", "+1", "-1+cmd", "@SUM(A1)", "\t=1", "＝1", "-0.5"]
    plain = ["a=b", "1-2", "", "−1"]
    lines = as_tsv(pa.table({"name": formulas + plain})).split("\n")[1:]
    assert lines == [f"'{text.strip()}" for text in formulas] + plain
    numbers = pa.table({"x": [-0.5, 1e-300, float("-inf")], "k": [-1, 2, 3]})
    assert as_tsv(numbers) == "x\tk\n-0.5\t-1\n1e-300\t2\n-inf\t3"


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1", "cp437", "utf-8"])
def test_any_encoding_of_standard_output(folder, encoding, monkeypatch):
    table = pq.read_table("log.parquet")
    names = ["né−w 😀" if name == "new" else name for name in table.column_names]
    pq.write_table(table.rename_columns(names), "log.parquet")
    monkeypatch.setenv("PYTHONUTF8", "0")
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    for verb in ("evaluate", "check"):
        done = run(verb, "log.parquet", "--policy", "né−w 😀", env=environment)
        assert done.returncode in (0, 1), done.stderr
        assert "né" in done.stdout.decode(encoding) or encoding == "ascii" or verb == "check"
        words = (verb, "log.parquet", "--policy", "né−w 😀", "--format", "json")
        assert run(*words, env=environment).returncode in (0, 1)
    words = ("evaluate", "log.parquet", "--policy", "né−w 😀", "--format", "json")
    plain, other = run(*words).stdout, run(*words, env=environment).stdout
    assert json.loads(other.decode(encoding)) == json.loads(plain)
    assert run("check", "no−ne.parquet", env=environment).returncode == 2


def test_a_name_that_is_not_utf8(folder, capfdbinary):
    os.rename(b"log.parquet", b"l\xf6g.parquet")
    done = run("check", b"l\xf6g.parquet".decode(errors="surrogateescape"), "--policy", "none")
    assert done.returncode == 2
    assert b"l\\udcf6g.parquet" in done.stderr


# -- options -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        [*EVALUATE, "--level", "0.9", "--level", "0.95"],
        [*EVALUATE, "--prediction", "q"],
        ["report", "a.json", "-o", "b", "--out", "c"],
        ["simulate", "synthetic", "-n", "5", "-n", "6", "-o", "x.parquet"],
        ["simulate", "digits", "-n", "5", "-n", "6", "-o", "x.parquet"],
        ["demo", "--seed", "1", "--seed", "1"],
        ["reproduce", "theorems", "-n", "5", "--seed", "1", "--seed", "2"],
        ["datasets", "list", "--format", "json", "--format", "tsv"],
        ["rank", "sweep", "log.parquet", "--ranker", "a", "--ranker", "b"],
        [*EVALUATE, "--reward-range", "0", "1", "--reward-range", "0", "2"],
    ],
)
def test_an_option_that_is_given_twice_is_refused(folder, capsys, words):
    code, text = fails(words, capsys)
    assert code == 2
    assert "is given twice" in text or "No such option" in text


def test_options_that_take_several_and_flags_may_come_again(folder, capsys):
    words = (*EVALUATE, "-e", "IPS", "-e", "DR", "--verify", "--verify")
    assert run(*words).returncode == 0


# -- the end -----------------------------------------------------------------------------------

SLOW = """
import sys, time
from offpolicy._core.files import make_temporary_folder, replacing
import offpolicy.evaluation
def slow(*_, **__):
    make_temporary_folder()
    with replacing(__import__("pathlib").Path("out")) as part:
        part.write_text("half")
        print("begun", flush=True)
        time.sleep(60)
offpolicy.evaluation.evaluate = slow
from offpolicy.cli import main
sys.argv = ["offpolicy", *sys.argv[1:]]
main()
"""


def begun(**how: object) -> subprocess.Popen[str]:
    """A command in the middle of its work."""
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW, *EVALUATE], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=os.environ | {"TMPDIR": os.getcwd()}, **how,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    return child


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_ends_it_with_a_line_and_leaves_nothing(folder, name):
    child = begun()
    assert len(list(folder.iterdir())) == 3
    child.send_signal(getattr(signal, name))
    _, err = child.communicate(timeout=30)
    assert child.returncode == 128 + getattr(signal, name)
    said = "Interrupted." if name == "SIGINT" else f"Ended by {name}."
    assert err.strip() == f"{said} With --resume DIR, a run can go on after this."
    assert [path.name for path in folder.iterdir()] == ["log.parquet"]


def ignoring(number: int) -> Callable[[], None]:
    return lambda: signal.signal(number, signal.SIG_IGN) and None


def test_what_nohup_ignores_stays_ignored(folder):
    child = begun(preexec_fn=ignoring(signal.SIGHUP))
    child.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(1)
    child.send_signal(signal.SIGTERM)
    assert child.wait(30) == 128 + signal.SIGTERM
    child.communicate()


def test_false_propensities_are_said_with_the_answer(folder):
    n = 2_000
    columns = {
        "action": np.arange(n) % 2, "reward": np.arange(n) % 3 == 0, "logging": [[0.7, 0.3]] * n,
        "new": [[0.1, 0.9]] * n,
    }  # fmt: skip
    pq.write_table(pa.table(columns), "false.parquet")
    for verb in ("evaluate", "compare"):
        done = run(verb, "false.parquet", "--policy", "new", "--format", "json")
        assert b"Problem (weight-mean): " in done.stderr
        assert b"weight-mean" in done.stdout
    shown = on_a_terminal("evaluate", "false.parquet", "--policy", "new").decode()
    assert shown.count("(weight-mean)") == 1
