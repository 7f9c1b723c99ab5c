"""The same answers, to the byte, from threads and from other processes, however these begin."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import offpolicy as op
from offpolicy import ranking
from tests.support.clicks import clicked
from tests.support.public import log, scan

SCRIPT = """
import multiprocessing, os, sys
import offpolicy as op

def answer(log):
    result = op.evaluate(log, {"new": "new", "even": op.Uniform()}, estimators=["CIPS(M=3)", "IPS"])
    curve = op.sweep(log, "new", estimator="CIPS", grid=[0.5, 1, 2])
    return result.to_json() + repr(curve.values.tolist())

if __name__ == "__main__":
    how, *files = sys.argv[1:]
    logs = [op.read_log(files), op.read_log(files[0])]
    here = [answer(log) for log in logs]  # all that is opened when first used is open now
    if how == "joblib":
        import joblib
        there = joblib.Parallel(2)(joblib.delayed(answer)(log) for log in logs)
    elif how == "os.fork":
        if os.fork() == 0:
            there = [answer(log) for log in logs]
            sys.exit(0 if there == here else 1)
        there = here if os.wait()[1] == 0 else []
    else:
        with multiprocessing.get_context(how).Pool(2) as pool:
            there = pool.map(answer, logs)
    print("the same" if there == here else "not the same")
    again = [answer(log) for log in logs]
    print("the same" if again == here else "not the same")
"""


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver", "joblib", "os.fork"])
def test_other_processes_answer_alike(how, tmp_path):
    """A process that is forked has no threads of DuckDB's, and would wait for them for ever."""
    scan(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    files = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), how, *files],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["the same", "the same"]
    assert done.stderr == ""


def test_a_log_inherited_by_a_worker_is_read_there(tmp_path):
    """Not sent, but there already: a global of the process that was forked."""
    scan(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, sys\n"
        "import offpolicy as op\n"
        "log = op.read_log(sys.argv[1:])\n"
        "def value(name):\n"
        "    return op.evaluate(log, name).headline.value\n"
        "here = value('new')\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    print(pool.map(value, ['new'] * 4) == [here] * 4)\n"
    )
    files = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), *files],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("True", "")


def test_eight_threads_answer_alike(tmp_path: Path):
    one, pieces, shown = log(), scan(tmp_path), clicked()
    model = np.full((len(one), 4), 0.5)
    asks = [
        lambda: op.evaluate(one, "new", prediction=model, estimators=["CAB", "DR"]).to_json(),
        lambda: op.evaluate(pieces, "new").to_json(),
        lambda: op.compare(one, {"new": "new", "even": op.Uniform()}).to_json(),
        lambda: op.check(pieces, "new").to_json(),
        lambda: repr(op.sweep(pieces, "new", estimator="CIPS", grid=[1, 2]).values.tolist()),
        lambda: ranking.evaluate(shown, shown.X[:, 0]).to_json(),
    ]
    alone = [ask() for ask in asks]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda ask: ask(), asks * 8))
    assert together == alone * 8
