"""One command reads the sample once, trains one model, and walks over the files at most twice."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.errors import ParameterError
from offpolicy.logs.files._parquet import ParquetScan
from offpolicy.models import RewardModel
from tests.support.refusals import refuses

N = 3000


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A log with contexts and two policies, in two files."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("log")
    logging = rng.dirichlet(np.ones(3), N)
    action = (rng.random((N, 1)) > logging.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    columns = {
        "action": action,
        "reward": (rng.random(N) < 0.2 + 0.2 * action).astype(float),
        "logging": list(logging),
        "x": rng.normal(size=N),
        "new": list(rng.dirichlet(np.ones(3), N)),
        "old": list(rng.dirichlet(np.ones(3), N)),
    }
    table = pa.table(columns)
    for k in range(2):
        pq.write_table(table.slice(k * N // 2, N // 2), folder / f"{k}.parquet")
    return folder


@pytest.fixture
def counted(monkeypatch) -> Counter[str]:
    """How often the sample is read, a model trained, the files walked over."""
    counts: Counter[str] = Counter()

    def count(owner, name, what):
        plain = getattr(owner, name)

        def counting(self, *given, **more):
            if what != "read" or given[0] != [(0, 1024)]:
                counts[what] += 1
            return plain(self, *given, **more)

        monkeypatch.setattr(owner, name, counting)

    count(ParquetScan, "read", "read")
    count(ParquetScan, "walk", "walked")
    count(RewardModel, "fit", "trained")
    return counts


def run(verb: str, folder: Path, *words: str) -> None:
    arguments = [verb, f"{folder}/*.parquet", "--context", "x", *words]
    outcome = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output


BOTH = ("--policy", "new", "--policy", "old")


def test_evaluate_alone_walks_once(files, counted):
    run("evaluate", files, "--policy", "new")
    assert counted == {"read": 1, "trained": 1, "walked": 1}


def test_check_walks_once_for_policies_and_never_without(files, counted):
    run("check", files, *BOTH)
    assert counted == {"read": 1, "walked": 1}
    run("check", files)
    assert counted == {"read": 2, "walked": 1}


def test_sweep_reads_its_sample_once_for_the_curve_and_its_best_value(files, counted):
    log = op.read_log(f"{files}/*.parquet", op.Columns(context=["x"]))
    curve = op.sweep(log, "new")
    (choice,) = op.evaluate(log, "new", estimators=["CAB"]).tuned
    assert counted == {"read": 2, "trained": 2, "walked": 2}
    assert curve.best == choice.chosen
    assert counted == {"read": 2, "trained": 2, "walked": 2}


def test_a_page_about_two_policies_walks_twice(files, counted, tmp_path):
    run("evaluate", files, *BOTH, "--report", str(tmp_path / "page.html"))
    assert counted == {"read": 1, "trained": 1, "walked": 2}
    page = (tmp_path / "page.html").read_text()
    assert "Policies against each other" in page


def test_compare_with_a_page_walks_twice(files, counted, tmp_path):
    run("compare", files, *BOTH, "--report", str(tmp_path / "page.html"))
    assert counted == {"read": 1, "trained": 1, "walked": 2}


@pytest.mark.parametrize("verb", ["evaluate", "compare"])
def test_the_page_from_python_is_that_of_the_command_line(files, tmp_path, verb):
    """But for how it came about, which the command line knows."""
    run(verb, files, *BOTH, "--report", str(tmp_path / "cli.html"))
    log = op.read_log(f"{files}/*.parquet", op.Columns(context=["x"]))
    getattr(op, verb)(log, {"new": "new", "old": "old"}, report=tmp_path / "python.html")
    pages = []
    for name in ("cli", "python"):
        text = (tmp_path / f"{name}.html").read_text().replace(" · 2 files", "")
        found = re.findall(r'<section[^>]*id="([^"]*)"(.*?)</section>', text, re.DOTALL)
        pages.append({title: inside for title, inside in found if title != "again"})
    assert pages[0].keys() >= {"answer", "warnings", "differences"}
    assert pages[0] == pages[1]


@pytest.mark.parametrize("verb", ["evaluate", "compare"])
def test_a_page_without_a_folder_is_refused_before_anything_is_read(files, counted, verb):
    log = op.read_log(f"{files}/*.parquet")
    with refuses(ParameterError, column="report"):
        getattr(op, verb)(log, {"new": "new"}, report=files / "nowhere" / "page.html")
    assert not counted
