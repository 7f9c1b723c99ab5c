"""The command line: answers on stdout, everything else on stderr, and an exit code that tells."""

from __future__ import annotations

import gzip
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import offpolicy as op
from offpolicy.cli import cli, main
from tests.support.commands import fails

TEN_ROWS = """\
action,reward,propensity,new,old
a,1,0.5,0.9,0.5
b,0,0.5,0.1,0.5
a,1,0.5,0.9,0.5
a,0,0.5,0.9,0.5
b,1,0.5,0.1,0.5
b,0,0.5,0.1,0.5
a,1,0.5,0.9,0.5
a,1,0.5,0.9,0.5
b,0,0.5,0.1,0.5
a,0,0.5,0.9,0.5
"""
CHOSEN_ONLY = [k.name for k in op.estimators.NAMED.values() if k.needs == {"propensity"}]
HEAD, *TEN = TEN_ROWS.splitlines(keepends=True)
MANY_ROWS = HEAD + "".join(TEN) * 20
LISTS = """\
action,reward,logging,new,q
0,1,"[0.5, 0.5]","[0.9, 0.1]","[0.7, 0.2]"
1,0,"[0.5, 0.5]","[0.9, 0.1]","[0.7, 0.2]"
1,1,"[0.2, 0.8]","[0.9, 0.1]","[0.7, 0.2]"
"""
LOGGING = np.array([[0.5, 0.5], [0.5, 0.5], [0.2, 0.8]])
PI = np.array([[0.9, 0.1]] * 3)
DELTA_HAT = np.array([[0.7, 0.2]] * 3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small logs, in which the command runs."""
    (tmp_path / "ten.csv").write_text(TEN_ROWS)
    (tmp_path / "ten.tsv").write_text(TEN_ROWS.replace(",", "\t"))
    (tmp_path / "ten.csv.gz").write_bytes(gzip.compress(TEN_ROWS.encode()))
    (tmp_path / "lists.csv").write_text(LISTS)
    frame = {"action": [0, 1, 1], "reward": [1.0, 0.0, 1.0]}
    lists = {"logging": list(LOGGING), "new": list(PI), "q": list(DELTA_HAT)}
    pq.write_table(pa.table(frame | lists), tmp_path / "lists.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int = 0) -> str:
    """What a command that succeeds prints; it must say nothing else, but for findings that its
    format has no place for."""
    outcome = CliRunner().invoke(cli, arguments, catch_exceptions=False, prog_name="offpolicy")
    assert outcome.exit_code == code
    said = outcome.stderr.splitlines()
    assert {"json", "tsv"} & set(arguments) or not said
    assert all(re.match(r"(Warning|Problem) \([a-z-]+\): ", line) for line in said)
    return outcome.stdout


def evaluate(*arguments: str) -> str:
    """What ``evaluate`` prints of a log that is too small to tell, which the exit code says."""
    return run("evaluate", *arguments, code=1)


def evaluate_lists(**options: object) -> op.Result:
    log = op.BanditLog.from_arrays(action=[0, 1, 1], reward=[1, 0, 1], logging=LOGGING)
    return op.evaluate(log, {"new": PI}, prediction=DELTA_HAT, **options)


# -- evaluate --------------------------------------------------------------------------------


def test_evaluate_ten_rows_answers_in_the_first_line(folder):
    lines = evaluate("ten.csv", "--policy", "new").splitlines()
    assert re.match(r"new: this log cannot tell: only about \d rewarded rows stand", lines[0])
    assert lines[1].startswith("  The estimate would be 0.")
    assert lines[2].startswith("Problem (effective-size): Of 10 decisions, ")
    assert lines[3] == ""
    assert lines[4].split()[:3] == ["estimator", "value", "stderr"]
    assert [line.split()[0] for line in lines[6:]] == ["IPS", "SNIPS", "imputed:", "†"]
    assert lines[7].split()[1] == "0.63793"


def test_evaluate_prints_what_the_library_prints(folder):
    (folder / "many.csv").write_text(MANY_ROWS)
    log = op.read_log("many.csv")
    result = op.evaluate(log, {"new": "new"})
    assert run("evaluate", "many.csv", "--policy", "new") == f"{result}\n"


@pytest.mark.parametrize("name", ["ten.tsv", "ten.csv.gz"])
def test_other_spellings_of_the_file_give_the_same_answer(folder, name):
    expected = evaluate("ten.csv", "--policy", "new", "--format", "json")
    assert evaluate(name, "--policy", "new", "--format", "json") == expected


@pytest.mark.parametrize("name", ["lists.csv", "lists.parquet"])
def test_list_columns_give_what_the_arrays_give(folder, name):
    text = evaluate(
        name, "--policy", "new", "--prediction", "q", "--format", "json"
    )  # fmt: skip
    assert text == evaluate_lists().to_json()


def test_evaluate_as_tsv_holds_the_frame(folder):
    head, *body = evaluate(
        "lists.csv", "--policy", "new", "--prediction", "q", "--format", "tsv"
    ).splitlines()
    result = evaluate_lists()
    assert head.split("\t") == result.to_arrow().column_names
    rows = [dict(zip(head.split("\t"), line.split("\t"), strict=True)) for line in body]
    told = [*result.headlines, *result]
    assert [row["estimator"] for row in rows] == [row.estimator for row in told]
    assert [float(row["value"]) for row in rows] == [row.value for row in told]
    assert rows[0]["estimator"] == "headline"
    assert rows[0]["ess"] == ""


def test_evaluate_the_estimators_asked_for(folder):
    text = evaluate(
        "lists.csv", "--policy", "new", "--prediction", "q",
        "-e", "cab(10)", "--estimator", "SB(tau=0.5)", "--level", "0.8", "--format", "json",
    )  # fmt: skip
    assert text == evaluate_lists(estimators=["CAB(M=10)", "SB(tau=0.5)"], level=0.8).to_json()


def test_evaluate_several_policies(folder):
    text = evaluate("ten.csv", "--policy", "new", "--policy", "old", "--format", "json")
    result = op.Result.from_json(text)
    assert result.policies == ("new", "old")
    assert result["old", "IPS"].value == pytest.approx(0.5)


def test_columns_are_mapped_by_flags(folder):
    names = {
        "action": "item", "reward": "click", "propensity": "p", "cluster": "user",
        "row_weight": "w", "new": "π",
    }  # fmt: skip
    rows = TEN_ROWS.splitlines()
    plain = [rows[0] + ",cluster,row_weight"]
    plain += [f"{row},{i % 4},{1 + i % 2}" for i, row in enumerate(rows[1:])]
    (folder / "plain.csv").write_text("\n".join(plain))
    for name, other in names.items():
        plain[0] = re.sub(rf"\b{name}\b", other, plain[0])
    (folder / "mapped.csv").write_text("\n".join(plain))
    expected = evaluate("plain.csv", "--policy", "new", "--format", "json")
    mapped = evaluate(
        "mapped.csv", "--action", "item", "--reward", "click", "--propensity", "p",
        "--cluster", "user", "--row-weight", "w", "--policy", "π", "--format", "json",
    )  # fmt: skip
    assert mapped.replace("π", "new") == expected
    assert mapped != evaluate(
        "mapped.csv", "--action", "item", "--reward", "click", "--propensity", "p",
        "--policy", "π", "--format", "json",
    )  # fmt: skip


def test_candidates_may_have_names(folder):
    text = LISTS.replace("reward", "reward,who").replace("0,1,", '"x","1","[""x"",""y""]",', 1)
    text = text.replace("\n1,0,", '\ny,0,"[""x"",""y""]",').replace(
        "\n1,1,", '\nx,1,"[""y"",""x""]",'
    )
    (folder / "named.csv").write_text(text)
    found = evaluate(
        "named.csv", "--candidates", "who", "--policy", "new", "--prediction", "q",
        "--format", "json",
    )  # fmt: skip
    # The names are in the summaries; all else is the same.
    named, positions = op.Result.from_json(found), evaluate_lists()
    assert named.estimates == positions.estimates
    assert named.headlines == positions.headlines
    assert {action.name for action in named.summaries[0].support.actions} == {"x", "y"}


# -- sweep -----------------------------------------------------------------------------------

SWEEP = ("sweep", "lists.csv", "--policy", "new", "--prediction", "q")


def expected_curve(estimator: str) -> dict[str, list[float]]:
    log = op.BanditLog.from_arrays(action=[0, 1, 1], reward=[1, 0, 1], logging=LOGGING)
    curve = op.sweep(log, PI, prediction=DELTA_HAT, estimator=estimator)
    return curve.to_arrow().to_pydict()


@pytest.mark.parametrize("estimator", ["CAB", "CAB-DR", "SWITCH", "CIPS", "SB"])
def test_sweep_as_tsv_and_json(folder, estimator):
    expected = expected_curve(estimator)
    head, *body = run(*SWEEP, "-e", estimator).splitlines()
    assert head.split("\t") == list(expected)
    rows = [[float(cell) for cell in line.split("\t")] for line in body]
    assert rows == [list(row) for row in zip(*expected.values(), strict=True)]
    assert json.loads(run(*SWEEP, "-e", estimator, "--format", "json")) == expected


def test_sweep_of_one_row_is_honest_json(folder):
    (folder / "one.csv").write_text("\n".join(TEN_ROWS.splitlines()[:2]))
    text = run("sweep", "one.csv", "--policy", "new", "-e", "CIPS", "--format", "json")

    def refuse(constant):
        raise AssertionError(constant)

    assert set(json.loads(text, parse_constant=refuse)["stderr"]) == {"inf"}


@pytest.mark.parametrize("name", ["curve.png", "curve.svg"])
def test_sweep_draws_a_whole_picture(folder, name):
    (folder / name).write_text("old")
    before = set(folder.iterdir())
    outcome = CliRunner().invoke(cli, [*SWEEP, "--plot", name], catch_exceptions=False)
    assert outcome.stderr == f"Wrote {name}.\n"
    assert outcome.stdout == run(*SWEEP)
    data = (folder / name).read_bytes()
    if name.endswith("png"):
        assert data.startswith(b"\x89PNG")
        assert data.endswith(b"IEND\xaeB`\x82")
    else:
        assert ElementTree.fromstring(data).tag.endswith("svg")
    assert set(folder.iterdir()) == before


# -- demo and reproduce ----------------------------------------------------------------------


def test_demo_writes_its_result_and_picture(tmp_path):
    out = tmp_path / "deep" / "demo"
    outcome = CliRunner().invoke(cli, ["demo", "--out", str(out)], catch_exceptions=False)
    assert outcome.exit_code == 0
    assert {"targeted", "mens_to_all"} <= set(outcome.stdout.split())
    assert {item.name for item in out.iterdir()} == {
        "emails.csv", "report.html", "result.json", "curve.png",
    }  # fmt: skip
    result = op.Result.from_json((out / "result.json").read_text(encoding="utf-8"))
    assert result.policies == ("targeted", "mens_to_all")


@pytest.mark.parametrize("verb", [[], ["evaluate"], ["sweep"], ["demo"], ["reproduce", "theorems"]])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_verb_has_help(verb, flag):
    assert run(*verb, flag).startswith("Usage: ")


# -- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope.csv", "--policy", "new"], "LogError: nope.csv: there is no such file."),
        ([".", "--policy", "new"], "a log is of one kind"),
        (["ten.csv"], "Missing option '--policy'"),
        (
            ["ten.csv", "--policy", "nwe"],
            'LogError: ten.csv: there is no column "nwe". Did you mean "new"? The columns are '
            "action, reward, propensity, new, old.",
        ),
        (
            ["ten.csv", "--policy", "new", "--reward", "rewrad"],
            'there is no column "rewrad" (for reward). Did you mean "reward"?',
        ),
        (
            ["ten.csv", "--policy", "new", "--logging", "propensity"],
            "ten.csv, propensity: it holds double, but must hold lists",
        ),
        (
            ["ten.csv", "--policy", "new", "-e", "CBA"],
            'EstimatorError: There is no estimator "CBA".',
        ),
        (
            ["ten.csv", "--policy", "new", "-e", "CAB"],
            "MissingColumnError: CAB needs logging, the logger's probability of every candidate "
            "and the policy's probability of every candidate and prediction, the reward model's "
            "estimate for every candidate. Say which column it is with --logging. These still "
            f"work: {', '.join(CHOSEN_ONLY)}.",
        ),
        (
            ["ten.csv", "--policy", "new", "-e", "DM"],
            f"These still work: {', '.join(CHOSEN_ONLY)}.",
        ),
        (["ten.csv", "--policy", "new", "-e", "IPS", "-e", "ips"], '"IPS" is asked for twice.'),
        (["ten.csv", "--policy", "new", "--level", "95"], "ParameterError: level is 95.0;"),
        (["ten.csv", "--policy", "new", "--format", "xml"], "'xml' is not one of"),
        (["ten.csv", "--policy", "new", "--polcy", "x"], "Did you mean '--policy'?"),
        (
            ["ten.csv", "--action", "reward", "--reward", "new", "--policy", "x=action"],
            "PolicyError: ten.csv, action, row 0: the policy chooses 'a', which is not among the "
            "arms (10 of 10 rows are like this). The arms were found in the log (0, 1)",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_evaluate_says_what_is_wrong(folder, capsys, arguments, message):
    code, text = fails(["evaluate", *arguments], capsys)
    assert code == 2
    assert message in text


BROKEN = {
    "broken.parquet": (b"garbage, and more", "not a readable Parquet file"),
    "cut.csv": (TEN_ROWS.encode() + b"a,1\n", "not a readable CSV file"),
    "cut.csv.gz": (gzip.compress(TEN_ROWS.encode())[:-12], "cannot be read to its end"),
    "nothing.csv": (b"", "not a readable CSV file"),
    "header.csv": (TEN_ROWS.splitlines()[0].encode() + b"\n", "The log is empty"),
    "log.xlsx": (b"PK", "kind of file this version reads (.csv, .jsonl, .parquet, .feather)."),
    "log": (b"PK", "is not a kind of file this version reads"),
    "twice.csv": (TEN_ROWS.replace("old", "new").encode(), '"new"'),
    "semicolons.csv": (TEN_ROWS.replace(",", ";").encode(), 'there is no column "action"'),
    "gap.csv": (TEN_ROWS.replace("a,0,0.5,0.9", "a,0,0.5,").encode(), "new, row 3: the value is"),
    "zero.csv": (TEN_ROWS.replace("b,1,0.5", "b,1,0").encode(), "propensity, row 4: 0.0"),
    "percent.csv": (TEN_ROWS.replace("0.5,", "50,").encode(), "percentages, convert them first"),
    "words.csv": (TEN_ROWS.replace(",1,", ",yes,").encode(), "reward, row 0: 'yes'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_cannot_be_read_are_named(folder, capsys, name):
    data, message = BROKEN[name]
    (folder / name).write_bytes(data)
    code, text = fails(["evaluate", name, "--policy", "new"], capsys)
    assert code == 2
    assert message in text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"[0.2, 0.8]"', '"[0.2, 0.8"', 'logging, row 2: "[0.2, 0.8" is not a list. Write lists'),
        ('"[0.2, 0.8]"', "", 'logging, row 2: "" is not a list.'),
        ('"[0.2, 0.8]"', '"[0.2, 0.7]"', "logging, row 2: the probabilities sum to 0.9, not 1"),
        ('"[0.2, 0.8]"', '"[null, 0.8]"', "logging, row 2, candidate 0: the value is missing"),
        ('"[0.2, 0.8]"', '"[[0.2], 0.8]"', "logging"),
        ('"[0.2, 0.8]"', '"[""x"", 0.8]"', "logging"),
        ('"[0.7, 0.2]"\n1,1', '"[0.7]"\n1,1', "q, row 1: the list has 1 entries, but the decision"),
        ('"[0.7, 0.2]"\n1,1', '"[NaN, 0.2]"\n1,1', ", row 1"),
        ("\n1,1,", "\n2,1,", "row 2: position 2, but the decision has 2 candidates"),
    ],
    ids=["open", "empty", "sum", "null", "nested", "mixed", "short", "nan", "outside"],
)
@pytest.mark.parametrize("verb", ["evaluate", "sweep"])
def test_lists_that_cannot_be_used_are_named(folder, capsys, verb, old, new, message):
    (folder / "bad.csv").write_text(LISTS.replace(old, new))
    code, text = fails([verb, "bad.csv", "--policy", "new", "--prediction", "q"], capsys)
    assert code == 2
    assert message in text


def test_text_in_a_column_without_a_role_is_left_alone(folder):
    rows = TEN_ROWS.splitlines()
    noted = [rows[0] + ",note", rows[1] + ",[urgent] call", *(f"{row},-" for row in rows[2:])]
    (folder / "noted.csv").write_text("\n".join(noted))
    expected = evaluate("ten.csv", "--policy", "new")
    assert evaluate("noted.csv", "--policy", "new") == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [*SWEEP, "-e", "DR"],
            "EstimatorError: DR has no curve, as it has no parameter; these have: CIPS",
        ),
        ([*SWEEP, "--level", "3"], "ParameterError: level is 3.0;"),
        (["sweep", "lists.csv", "--policy", "new"], "MissingColumnError: CAB needs prediction"),
        (["evaluates"], "No such command 'evaluates'"),
        (["demo", "--seed", "-1"], "seed"),
        (["reproduce", "theorems", "--n", "-5"], "-5"),
        (["reproduce", "theorems", "--seed", "-1"], "seed"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_other_verbs_say_what_is_wrong(folder, capsys, arguments, message):
    code, text = fails(arguments, capsys)
    assert code == 2
    assert message in text


@pytest.mark.parametrize("name", ["curve.docx", "nowhere/curve.png"])
def test_a_picture_that_cannot_be_written_is_no_fault_of_ours(folder, monkeypatch, capsys, name):
    before = set(folder.iterdir())
    monkeypatch.setattr(sys, "argv", ["offpolicy", *SWEEP, "--plot", name])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
    assert set(folder.iterdir()) == before


# -- exit codes of the real command ----------------------------------------------------------


def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("offpolicy")
    return subprocess.run(
        [command, *arguments], capture_output=True, encoding="utf-8", timeout=60, check=False
    )


def test_exit_0_with_an_answer(folder):
    (folder / "many.csv").write_text(MANY_ROWS)
    done = shell("evaluate", "many.csv", "--policy", "new")
    assert (done.returncode, done.stderr) == (0, "")
    number = r"0\.\d+ \[0\.\d+, 0\.\d+\]"
    assert re.match(
        rf"new is better than what ran: it would have earned 0\.\d+ per decision, not 0\.5\.\n"
        rf"  95% intervals from 200 decisions: {number}; difference \+{number}\.\n"
        r"  The first covers the policy's value, and allows for sampling error, a row not yet "
        r"seen\.\n  Method: ",
        done.stdout,
    )


def test_exit_1_if_the_log_cannot_tell(folder):
    done = shell("evaluate", "ten.csv", "--policy", "new")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("new: this log cannot tell: only about ")
    assert "\nSNIPS " in done.stdout


def test_exit_1_if_the_data_cannot_answer(folder):
    (folder / "never.csv").write_text(TEN_ROWS.replace("0.9", "0").replace("0.1", "0"))
    done = shell("evaluate", "never.csv", "--policy", "new")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("SupportError: new gives probability 0 to every action")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("policy", [[], ["--policy", "nwe"]], ids=["usage", "input"])
def test_exit_2_if_the_question_is_wrong(folder, policy):
    done = shell("evaluate", "ten.csv", *policy)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_quiet(folder):
    command = Path(sys.executable).with_name("offpolicy")
    with subprocess.Popen(
        [command, *SWEEP], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, -signal.SIGPIPE)


def test_version():
    assert run("--version") == f"offpolicy, version {op.__version__}\n"
