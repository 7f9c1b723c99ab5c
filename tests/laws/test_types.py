"""A user's project, checked by ``mypy --strict``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import offpolicy as op

PROJECT = """
import numpy as np
import offpolicy as op
from offpolicy import BanditLog, datasets, evaluate, learning, ranking
from offpolicy.errors import LogError, OffpolicyError
from offpolicy.intervals import Interval
from offpolicy.policies import Policy


class Greedy:
    def probabilities(self, log: op.BanditLog) -> "np.typing.NDArray[np.float64]":
        return op.Uniform().probabilities(log)


def main() -> float:
    log: BanditLog = op.BanditLog.from_arrays(
        action=[0, 1], reward=[1.0, 0.0], logging=[[0.5, 0.5]] * 2
    )
    mine: Policy = Greedy()
    try:
        result: op.Result = evaluate(log, {"new": mine}, estimators=["IPS", op.CAB(M=10)])
    except LogError as problem:
        print(problem.file, problem.row)
        raise
    interval: Interval = result.headline.interval
    compared: op.Comparison = op.compare(log, {"new": mine, "even": op.Uniform()})
    curve: op.Curve = op.sweep(log, mine, estimator="CIPS", grid=[0.5, 1.0])
    report: op.Report = op.check(log, mine)
    read: op.BanditLog | op.LogScan = op.read_log("log.parquet")
    learner: learning.SoftmaxLearner = learning.SoftmaxLearner(l2=1e-3).fit(log)
    held: op.Result = evaluate({"item": [0]}, "new", action="item", context=["age"], report=None)
    op.sweep("log.csv", mine, reward="click")
    op.check(["a.csv", "b.csv"], propensity="p")
    clicks: ranking.RankingLog = ranking.RankingLog.read("clicks.parquet")
    answer: ranking.RankingResult = ranking.evaluate(clicks, clicks.rank)
    examples: datasets.Examples = datasets.load("digits")
    model: op.RewardModel = op.RewardModel().fit(log)
    copied: op.RewardModel = model.set_params(folds=3)
    print(held, compared, report.worst, read, learner.policy_, answer, examples.X, copied)
    print(result.to_frame(), result.to_arrow(), curve.to_polars(), result["IPS"].value + 1.0)
    return interval.high - float(curve.at(1.0))
"""


def checked(folder: Path, text: str) -> str:
    """What mypy says of a program; of the library itself it keeps quiet, as of any package that
    is installed."""
    (folder / "project.py").write_text(text)
    (folder / "mypy.ini").write_text(
        "[mypy]\nstrict = true\n[mypy-offpolicy.*]\nfollow_imports = silent\n"
    )
    source = str(Path(op.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(folder.parent / "mypy"), "project.py"],
        cwd=folder, env={"MYPYPATH": source, "PATH": ""}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert not done.stderr
    return done.stdout


def test_the_package_says_that_it_is_typed():
    assert (Path(op.__file__).parent / "py.typed").exists()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("project")


def test_a_strict_project_may_use_every_public_name(folder):
    names = [f"op.{name}" for name in op.__all__]
    for module in op._MODULES:
        inside = getattr(getattr(op, module), "__all__", [])
        names += [f"op.{module}.{name}" for name in inside]
    listed = "\n".join(f"print({name})" for name in names)
    assert "Success" in checked(folder, f"{PROJECT}\n\n{listed}\n")


def test_a_name_that_is_not_there_is_an_error(folder):
    assert 'no attribute "evalute"' in checked(folder, "import offpolicy as op\n\nop.evalute\n")


def test_a_role_that_there_is_not_is_an_error(folder):
    wrong = "import offpolicy as op\n\nop.evaluate('log.csv', 'new', {})\n"
    assert "arg-type" in checked(folder, wrong.format("action=5"))
    assert "call-arg" in checked(folder, wrong.format("rewrad='click'"))
