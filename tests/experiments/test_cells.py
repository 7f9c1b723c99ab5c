"""Cells of experiments: kept, gone on with, and not mixed with those of other data."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from offpolicy.errors import ParameterError
from offpolicy.experiments.cells import Cells
from tests.support.refusals import refuses


def _squared(k: int, folder: str) -> dict[str, int]:
    with open(f"{folder}/seen", "a") as seen:
        seen.write(f"{k} ")
    if k == 3 and not Path(f"{folder}/fixed").exists():
        raise RuntimeError("killed")
    return {"square": k * k}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_was_stopped_goes_on(tmp_path, jobs):
    cells = [(k, str(tmp_path)) for k in range(5)]
    kept = Cells(tmp_path / "cells", jobs)
    with pytest.raises(RuntimeError):
        kept.all("squares", _squared, cells)
    (tmp_path / "fixed").touch()
    (tmp_path / "seen").unlink()
    found = kept.all("squares", _squared, cells)
    assert found == [{"square": k * k} for k in range(5)]
    again = (tmp_path / "seen").read_text().split()
    assert "3" in again
    assert not {"0", "1", "2"} & set(again)
    other = kept.all("squares", _squared, [(7, str(tmp_path))])
    assert other == [{"square": 49}]


def test_parts_are_kept_in_folders_of_their_own(tmp_path):
    (tmp_path / "fixed").touch()
    kept = Cells(tmp_path / "cells").within("squares")
    kept.all("squares", _squared, [(2, str(tmp_path))])
    assert [path.parent.name for path in (tmp_path / "cells").rglob("*.json")] == ["squares"]


def test_what_is_damaged_is_computed_again(tmp_path):
    kept, cell = Cells(tmp_path / "cells"), (2, str(tmp_path))
    kept.all("squares", _squared, [cell])
    path = kept.path(_squared, cell)
    whole = path.read_text()
    path.write_text(whole[:-2])
    assert kept.all("squares", _squared, [cell]) == [{"square": 4}]
    assert path.read_text() == whole


def test_other_data_are_not_mixed_with_what_is_kept(tmp_path):
    kept, cells = Cells(tmp_path / "cells"), [(2, str(tmp_path))]
    data = tmp_path / "clouds.csv.gz"
    data.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    files = {"clouds": [data]}
    kept.all("squares", _squared, cells, files)
    os.utime(data, (1, 1))  # the same data, written at another time
    kept.all("squares", _squared, cells, files)
    data.write_bytes(gzip.compress(b"a,b\n1,3\n"))
    with refuses(ParameterError) as caught:
        kept.all("squares", _squared, cells, files)
    assert "holds results of an earlier run, for which clouds was another" in str(caught.value)
    # Data that are not at hand are no other data.
    assert kept.all("squares", _squared, cells, {"clouds": []}) == [{"square": 4}]


def test_nothing_is_computed_for_what_is_kept_only(tmp_path):
    some, cells = Cells(tmp_path / "cells"), [(k, str(tmp_path)) for k in (1, 2)]
    kept = replace(some, only_kept=True)
    with refuses(ParameterError, "kept"):
        kept.all("squares", _squared, cells)
    some.all("squares", _squared, cells[:1])
    assert kept.all("squares", _squared, []) == []
    assert kept.all("squares", _squared, cells) == [{"square": 1}]
    assert (tmp_path / "seen").read_text() == "1 "


ENDLESS = """
import sys, time
from pathlib import Path
from offpolicy.experiments.cells import Cells

def endless(k: int) -> int:
    Path(sys.argv[1], f"{os.getpid()}").touch()
    time.sleep(120)
    return k

import multiprocessing, os
if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[2])
    Cells(Path(sys.argv[1], "cells"), 2).all("ends", endless, [(1,), (2,)])
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_workers_end_with_their_parent(tmp_path, how, number):
    (tmp_path / "seen").mkdir()
    (tmp_path / "endless.py").write_text(ENDLESS, encoding="utf-8")
    words = [sys.executable, str(tmp_path / "endless.py"), str(tmp_path / "seen"), how]
    parent = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while len(workers := [path.name for path in (tmp_path / "seen").glob("[0-9]*")]) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        parent.send_signal(number)
        parent.wait(30)
    for worker in workers:
        while Path("/proc", worker).exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
