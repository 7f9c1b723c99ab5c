"""``offpolicy simulate``: what is in the file, what is printed, and what is refused."""

from __future__ import annotations

import errno
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from numpy.testing import assert_array_equal

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.datasets import _parquet as recording
from offpolicy.datasets._classic import Examples, load
from offpolicy.datasets._parquet import Truth, write_log
from offpolicy.datasets._population import BLOCK
from offpolicy.datasets._synthetic import make_population
from offpolicy.errors import LogError, ParameterError
from offpolicy.experiments.worlds import labelled_world
from tests.support.refusals import refuses


def run(*words: Any) -> Result:
    return CliRunner().invoke(cli, ["simulate", *map(str, words)])


def simulate(*words: Any) -> dict[str, Any]:
    outcome = run(*words, "--format", "json")
    assert outcome.exit_code == 0, (outcome.stderr, outcome.exception)
    return dict(json.loads(outcome.stdout))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "log.parquet"


def read(path: Path, features: int) -> op.BanditLog:
    log = op.read_log(path, op.Columns(context=[f"x{j}" for j in range(features)]))
    assert isinstance(log, op.BanditLog)
    return log


# -- what is in the file -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ([], {}),
        (["--fewest", 1, "--actions", 7], {"fewest": 1, "actions": 7}),
        (["--propensity-error", 0.5, "--unsupported", 0.3],
         {"propensity_error": 0.5, "unsupported": 0.3}),
        (["--reward", "continuous", "--noise", 2], {"reward": "continuous", "noise": 2.0}),
        (["--actions", 1, "--features", 1, "--contexts", 1],
         {"actions": 1, "features": 1, "contexts": 1}),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("n", [1, 900])
def test_the_file_holds_the_log_in_memory(out, words, settings, n):
    printed = simulate("synthetic", "-n", n, "--seed", 3, "-o", out, "--expected", *words)
    drawn = op.simulate_synthetic(n, rng=3, **settings)
    log = read(out, drawn.log.context.shape[1])
    for name in ("offsets", "chosen", "reward", "propensity", "logging", "context"):
        assert_array_equal(getattr(log, name), getattr(drawn.log, name), err_msg=name)
    if drawn.log.candidate is None:
        assert log.candidate is None
    else:
        assert log.actions == drawn.log.actions
        assert_array_equal(log.candidate, drawn.log.candidate)
    for name in ("policy", "prediction", "expected"):
        assert_array_equal(log.named_column(name), getattr(drawn, name), err_msg=name)
    assert printed["value"] == drawn.value == drawn.population.value
    assert printed["logger_value"] == drawn.population.logger_value
    assert printed["mean_reward"] == pytest.approx(log.reward.mean(), rel=1e-12)


def test_the_truth_is_in_the_file(out):
    printed = simulate("synthetic", "-n", 50, "--overlap", 0.3, "--seed", 9, "-o", out)
    truth = op.read_truth(out)
    assert truth.settings["overlap"] == 0.3
    assert truth.settings["seed"] == 9
    for name in ("value", "logger_value", "shared", "unsupported", "settings"):
        assert printed[name] == getattr(truth, name)
    settings = {key: value for key, value in truth.settings.items() if key not in ("source", "n")}
    again = make_population(settings.pop("seed"), **settings)
    assert (again.value, again.shared) == (truth.value, truth.shared)


def test_no_column_gives_the_truth_away(out):
    simulate("synthetic", "-n", 20, "-o", out)
    assert pq.read_schema(out).names == [
        "action", "reward", "propensity", "logging", "policy", "prediction",
        "x0", "x1", "x2", "x3", "x4",
    ]  # fmt: skip


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    first, again, other = (tmp_path / f"{name}.parquet" for name in ("first", "again", "other"))
    for path, seed in ((first, 1), (again, 1), (other, 2)):
        simulate("synthetic", "-n", 3000, "--seed", seed, "-o", path)
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()


@pytest.mark.parametrize("candidates", [1, 10_000, 10 * BLOCK + 7])
def test_row_groups_change_no_row(out, tmp_path, monkeypatch, candidates):
    n = 1000 if candidates == 1 else 2 * BLOCK + 11
    simulate("synthetic", "-n", n, "-o", out)
    monkeypatch.setattr(recording, "_CANDIDATES", candidates)
    other = tmp_path / "other.parquet"
    simulate("synthetic", "-n", n, "-o", other)
    assert pq.read_metadata(other).num_row_groups == -(-n // max(1, candidates // 10))
    assert pq.read_metadata(out).num_row_groups == 1
    assert pq.read_table(other).equals(pq.read_table(out))


def test_pages_carry_checksums(out):
    simulate("synthetic", "-n", 500, "-o", out)
    pq.read_table(out, page_checksum_verification=True)
    raw = bytearray(out.read_bytes())
    raw[3000] ^= 1
    out.write_bytes(raw)
    with pytest.raises(OSError, match="CRC"):
        pq.read_table(out, page_checksum_verification=True)


# -- labelled data -----------------------------------------------------------------------------


@pytest.fixture
def toy(tmp_path_factory, monkeypatch) -> Examples:
    """Three overlapping clouds, as a file in the folder of data sets."""
    folder = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("OFFPOLICY_DATA", str(folder))
    rng = np.random.default_rng(0)
    (folder / "uci").mkdir()
    with gzip.open(folder / "uci" / "toy.csv.gz", "wt") as file:
        file.write("a,b,label,split\n")
        for i in range(600):
            a, b = rng.normal([2 * (i % 3 == 1), 2 * (i % 3 == 2)])
            file.write(f"{a},{b},{i % 3},none\n")
    return load("toy")


def test_labelled_data_are_the_paper_s_problem(out, toy):
    options = ["--tenth", "different", "--scale", "raw"]
    printed = simulate("toy", "-n", 2000, "--seed", 4, "-o", out, *options)
    problem = labelled_world(toy, "raw, different 10%", 4, "probability")
    assert printed["value"] == pytest.approx(problem.value, rel=1e-12)
    assert printed["settings"]["source"] == "toy"
    log = read(out, 2)
    example = [int(np.flatnonzero((x == toy.X).all(axis=1))[0]) for x in log.context]
    assert_array_equal(log.reward, log.chosen == toy.y[example])
    decided = np.random.default_rng(4).permutation(600)[300:].tolist()
    rows = [decided.index(i) for i in example]
    assert_array_equal(problem.reward[rows].argmax(axis=1), toy.y[example])
    assert_array_equal(log.logging.reshape(-1, 3), problem.logging[rows])
    assert_array_equal(log.named_column("policy").reshape(-1, 3), problem.policy[rows])
    assert_array_equal(log.named_column("prediction").reshape(-1, 3), problem.prediction[rows])


def test_noise_and_losses_of_labelled_data(out, toy):
    options = ["--noise", 0.1, "--right", 0, "--wrong", -1, "--model", "indicator", "--expected"]
    printed = simulate("toy", "-n", 3000, "-o", out, *options)
    value = labelled_world(toy, "standardised, same 10%", 0, "indicator").value
    assert printed["value"] == pytest.approx(-(0.9 * (1 - value) + 0.1 * value), rel=1e-9)
    log = read(out, 2)
    assert set(log.reward) == {0.0, -1.0}
    assert set(log.named_column("prediction")) == {0.0, -1.0}
    assert set(np.round(log.named_column("expected"), 12)) == {-0.1, -0.9}
    result = op.evaluate(log, "policy", prediction="prediction", reward_range=(-1.0, 0.0))
    assert printed["value"] in result.headline.interval


def test_digits_need_no_folder(out, monkeypatch):
    monkeypatch.delenv("OFFPOLICY_DATA", raising=False)
    printed = simulate("digits", "-n", 10, "-o", out)
    assert 0.8 < printed["value"] < 1.0
    assert read(out, 64).logging.shape == (100,)


def test_a_misspelt_data_set_is_recognised(out, toy):
    assert 'Did you mean "toy"?' in run("tooy", "-o", out).stderr


# -- what is printed ---------------------------------------------------------------------------


def test_the_text_tells_the_truth_and_how_to_go_on(out):
    outcome = run("synthetic", "-n", 100, "-o", out)
    truth = op.read_truth(out)
    assert f"the policy earns {truth.value:.5g}" in outcome.stdout
    assert f"the logger earned {op.read_log(out).reward.mean():.5g}" in outcome.stdout
    line = outcome.stderr.strip().splitlines()[-1]
    _, _, command = line.partition("offpolicy ")
    followed = CliRunner().invoke(cli, command.split())
    assert followed.exit_code in (0, 1), followed.stderr
    assert "policy" in followed.stdout


def test_check_evaluate_compare_agree_with_the_truth(out):
    truth = simulate("synthetic", "-n", 20_000, "-o", out)
    found = {}
    for verb in ("check", "evaluate", "compare"):
        words = [verb, str(out), "--policy", "policy", "--prediction", "prediction"]
        outcome = CliRunner().invoke(cli, [*words, "--format", "json"])
        assert outcome.exit_code == 0, outcome.stderr
        found[verb] = json.loads(outcome.stdout)
    assert found["check"]["findings"] == []
    result = op.evaluate(op.read_log(out), "policy", prediction="prediction")
    assert found["evaluate"] == json.loads(result.to_json())
    assert truth["value"] in result.headline.interval
    (difference,) = found["compare"]["differences"]
    gain = truth["value"] - truth["logger_value"]
    assert difference["interval"][0] < gain < difference["interval"][1]


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["synthtic", "--actions", "3"],
            'There is no source "synthtic". Did you mean "synthetic"?',
        ),
        (["letters"], 'There is no source "letters". Did you mean "letter"?'),
        (["letter"], 'Run "offpolicy datasets fetch letter"'),
        (["../digits"], 'There is no source "../digits"'),
        (["synthetic", "-n", "0"], "'-n': 0"),
        (["synthetic", "-n", "many"], "'-n': 'many'"),
        (["synthetic", "--overlap", "1.5"], "'--overlap': 1.5"),
        (["synthetic", "--overlap", "nan"], "overlap is nan; it must be from 0 to 1"),
        (["synthetic", "--fewest", "11"], "fewest is 11"),
        (["synthetic", "--noise", "0.7"], "noise is 0.7; it must be from 0 to 0.5"),
        (["synthetic", "--reward", "ternary"], "--reward"),
        (["synthetic", "--seed", "-1"], "--seed"),
        (["digits", "--noise", "0.7"], "--noise"),
        (["digits", "--wrong", "2"], "right is 1 and wrong is 2"),
        (["digits", "--overlap", "0.5"], "--overlap"),
    ],
    ids=str,
)
def test_mistakes_are_named_and_nothing_is_written(out, monkeypatch, tmp_path_factory, words, text):
    monkeypatch.delenv("OFFPOLICY_DATA", raising=False)
    monkeypatch.setenv("OFFPOLICY_CACHE", str(tmp_path_factory.mktemp("cache")))
    outcome = run(*words, "-o", out)
    assert outcome.exit_code != 0
    told = outcome.stderr + str(outcome.exception)
    assert text in told, told
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize("name", ["log", "log.csv", f"{'x' * 250}.parquet"])
def test_a_path_that_cannot_be_written(tmp_path, name):
    outcome = run("synthetic", "-n", 5, "-o", tmp_path / name)
    assert isinstance(outcome.exception, ParameterError)
    assert outcome.exception.file == str(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path):
    outcome = run("synthetic", "-n", 5, "-o", tmp_path / "none/log.parquet")
    assert outcome.exit_code == 2
    assert "there is no folder" in outcome.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_path_is_looked_at_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("offpolicy.experiments.worlds.labelled_world", None)
    outcome = run("digits", "-o", tmp_path / "log.csv")
    assert isinstance(outcome.exception, ParameterError)


def test_an_output_is_needed():
    outcome = run("synthetic")
    assert outcome.exit_code == 2
    assert "--out" in outcome.stderr


def test_what_fails_on_the_way_leaves_the_old_file(out, monkeypatch):
    out.write_bytes(b"before")
    population = make_population(
        0, actions=10, fewest=None, contexts=10, features=1, overlap=0.5, unsupported=0.0,
        model_error=0.0, propensity_error=0.0, reward="binary", noise=0.0,
    )  # fmt: skip
    monkeypatch.setattr(recording, "_CANDIDATES", 100)

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done > 50:
            raise Stop

    with pytest.raises(Stop):
        write_log(out, population, Truth.of(population), n=100, seed=0, progress=stop)
    assert out.read_bytes() == b"before"
    assert [path.name for path in out.parent.iterdir()] == ["log.parquet"]


def test_a_full_disk_is_a_sentence(out, monkeypatch):
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    outcome = run("synthetic", "-n", 5, "-o", out)
    assert str(outcome.exception) == f"{out}: it cannot be written: No space left on device."
    assert list(out.parent.iterdir()) == []


def test_files_without_a_truth_say_so(tmp_path, out):
    with refuses(LogError, file=Path(out).name):
        op.read_truth(out)
    simulate("synthetic", "-n", 5, "-o", out)
    plain = tmp_path / "plain.parquet"
    pq.write_table(pq.read_table(out).replace_schema_metadata(None), plain)
    with refuses(LogError, file="plain.parquet"):
        op.read_truth(plain)
    plain.write_bytes(b"nonsense")
    with refuses(LogError, file="plain.parquet"):
        op.read_truth(plain)
    newer = pq.read_table(out).replace_schema_metadata(
        {"offpolicy.truth": '{"schema": "offpolicy.truth/2"}'}
    )
    pq.write_table(newer, plain)
    with refuses(LogError, file="plain.parquet"):
        op.read_truth(plain)
