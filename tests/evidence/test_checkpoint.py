"""Walks that are kept on the way: killed anywhere, they go on to the same bytes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offpolicy as op
from offpolicy._core.checkpoint import Checkpoint, decode, digest, encode, storable
from offpolicy._core.moments import Moments
from offpolicy.errors import LogError, ParameterError, Place
from offpolicy.logs.files._parquet import ParquetScan
from tests.support.cases import make_case
from tests.support.files import table_of, write
from tests.support.limits import limit, small_blocks
from tests.support.refusals import refuses

ROWS, BLOCK = 6_000, 750
KILLED = """
import os, signal, sys
from pytest import MonkeyPatch
from offpolicy._core.moments import Moments
from offpolicy.cli import cli
from tests.evidence.test_checkpoint import kept_blocks

kept_blocks(MonkeyPatch())
add, left = Moments.__add__, [int(sys.argv[1])]
def add_or_die(self, other):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return add(self, other)
Moments.__add__ = add_or_die
cli(sys.argv[2:])
"""


def kept_blocks(patch: pytest.MonkeyPatch) -> None:
    """Few rows are walked as many are, and kept after every block."""
    small_blocks(patch, BLOCK)
    limit(patch, "offpolicy.evidence._sources.KEEP_EVERY", 1)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_blocks(monkeypatch)


class Stop(Exception):
    """As if the process had ended."""


def stop_after(scan: ParquetScan, rows: int) -> None:
    def progress(done: int, total: int) -> None:
        if done >= rows:
            raise Stop

    scan.progress = progress


def blocks_read(scan: ParquetScan) -> list[int]:
    """Filled with the positions that a walk reports."""
    seen: list[int] = []
    scan.progress = lambda done, total: seen.append(done)
    return seen


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    case = make_case(np.random.default_rng(0), ROWS, drawn=True)
    shop = np.random.default_rng(1).integers(0, 4, ROWS)
    return write(tmp_path, table_of(case, shop=shop), 2, group=400)


@pytest.mark.parametrize("where", [None, "shop <> 2"])
@pytest.mark.parametrize("rows", [4_600, 5_300, 5_900])
def test_a_walk_goes_on_to_the_same_bytes(files, tmp_path, where, rows):
    whole = op.evaluate(ParquetScan(files, where=where), "new", prediction="q").to_json()
    scan = ParquetScan(files, where=where)
    stop_after(scan, rows if where is None else rows * 3 // 4)
    folder = tmp_path / "kept"
    with pytest.raises(Stop):
        op.evaluate(scan, "new", prediction="q", resume=folder)
    again = ParquetScan(files, where=where)
    seen = blocks_read(again)
    assert op.evaluate(again, "new", prediction="q", resume=folder).to_json() == whole
    assert seen, "nothing was left to do"
    assert len(seen) < len(blocks_of(files, where))


def blocks_of(files: list[Path], where: str | None) -> list[int]:
    scan = ParquetScan(files, where=where)
    seen = blocks_read(scan)
    list(scan.walk([]))
    return seen


def test_what_is_done_is_not_done_again(files, tmp_path):
    folder = tmp_path / "kept"
    first = op.evaluate(ParquetScan(files), "new", prediction="q", resume=folder)
    scan = ParquetScan(files)
    seen = blocks_read(scan)
    assert op.evaluate(scan, "new", prediction="q", resume=folder).to_json() == first.to_json()
    assert seen == []


def test_compare_and_sweep_go_on_as_well(files, tmp_path):
    def both(resume, *, stop=None):
        scan = ParquetScan(files)
        if stop is not None:
            stop_after(scan, stop)
        compared = op.compare(scan, {"new": "new", "q0": "logging"}, prediction="q", resume=resume)
        return compared.to_json(), op.sweep(scan, "new", prediction="q", resume=resume).to_arrow()

    folder = tmp_path / "kept"
    whole = both(None)
    with pytest.raises(Stop):
        both(folder, stop=4_600)
    assert both(folder) == whole


def test_rows_that_are_dropped_stay_dropped(files, tmp_path):
    table = pq.read_table(files[0])
    reward = table.column("reward").to_numpy().copy()
    reward[[3, 1_100, 1_101]] = np.nan
    pq.write_table(table.set_column(1, "reward", pa.array(reward)), files[0], row_group_size=200)

    def scan() -> ParquetScan:
        return ParquetScan(files, where="shop <> 3", on_bad_row="drop")

    whole = op.evaluate(scan(), "new", prediction="q")
    assert whole.dropped.rows == (table.column("shop").to_numpy()[[3, 1_100, 1_101]] != 3).sum()
    stopped = scan()
    seen = []

    def progress(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) > 9:  # the pass that finds them comes first
            raise Stop

    stopped.progress = progress
    with pytest.raises(Stop):
        op.evaluate(stopped, "new", prediction="q", resume=tmp_path / "kept")
    again = op.evaluate(scan(), "new", prediction="q", resume=tmp_path / "kept")
    assert again.to_json() == whole.to_json()


def test_a_copy_of_text_goes_on_as_well(tmp_path, monkeypatch):
    limit(monkeypatch, "offpolicy.logs.files._text.LARGEST", 1_000)
    rng = np.random.default_rng(0)
    lines = ["action,reward,logging,new"]
    for reward in rng.integers(0, 2, ROWS):
        lines.append(f'{rng.integers(0, 2)},{reward},"[0.5, 0.5]","[0.9, 0.1]"')
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    whole = op.evaluate(op.read_log(path), "new").to_json()
    stopped = op.read_log(path)
    stop_after(stopped, 5_900)
    with pytest.raises(Stop):
        op.evaluate(stopped, "new", resume=tmp_path / "kept")
    again = op.read_log(path)
    assert op.evaluate(again, "new", resume=tmp_path / "kept").to_json() == whole


def test_a_log_in_memory_is_kept_as_well(tmp_path):
    log = op.BanditLog.from_frame(table_of(make_case(np.random.default_rng(0), ROWS, drawn=True)))
    one = op.evaluate(log, "new", prediction="q")
    for _ in range(2):
        kept = op.evaluate(log, "new", prediction="q", resume=tmp_path / "kept")
        assert kept.to_json() == one.to_json()


def test_kill_minus_nine(files, tmp_path):
    command = ["evaluate", str(tmp_path / "*.parquet"), "--policy", "new", "--prediction", "q"]
    command += ["-e", "SNIPS", "-e", "CAB", "--format", "json"]

    def run(adds: int, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", KILLED, str(adds), *command, *more],
            capture_output=True, text=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip

    whole = run(10**9)
    assert whole.returncode == 0, whole.stderr
    for adds in (3, 15):
        kept = ["--resume", str(tmp_path / f"kept-{adds}")]
        assert run(adds, *kept).returncode == -9
        assert run(10**9, *kept).stdout == whole.stdout


# -- what must be refused --------------------------------------------------------------------


def test_a_changed_log_is_refused(files, tmp_path):
    folder = tmp_path / "kept"
    op.evaluate(ParquetScan(files), "new", prediction="q", resume=folder)
    with refuses(LogError, column="resume"):
        op.evaluate(ParquetScan(files[:1]), "new", prediction="q", resume=folder)
    with refuses(LogError, column="resume"):
        op.evaluate(ParquetScan(files, where="shop = 1"), "new", prediction="q", resume=folder)
    files[0].write_bytes(files[0].read_bytes())
    with refuses(LogError, column="resume"):
        op.evaluate(ParquetScan(files), "new", prediction="q", resume=folder)


def test_one_folder_holds_several_questions(files, tmp_path):
    folder = tmp_path / "kept"
    for estimator in ("IPS", "SNIPS"):
        fresh = op.evaluate(ParquetScan(files), "new", estimators=[estimator])
        kept = op.evaluate(ParquetScan(files), "new", estimators=[estimator], resume=folder)
        assert kept.to_json() == fresh.to_json()
    assert len(list(folder.glob("scan-*.npz"))) == 2


def test_a_damaged_file_is_refused(files, tmp_path):
    folder = tmp_path / "kept"
    op.evaluate(ParquetScan(files), "new", resume=folder)
    (path,) = folder.glob("*.npz")
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    for bad in (content[: len(content) // 2], bytes(flipped), b""):
        path.write_bytes(bad)
        with refuses(ParameterError, file=path.name):
            op.evaluate(ParquetScan(files), "new", resume=folder)


def test_folders_that_are_not_ours(files, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with refuses(ParameterError, column="resume"):
        op.evaluate(ParquetScan(files), "new", resume=tmp_path / "full")
    with refuses(ParameterError, column="resume"):
        op.evaluate(ParquetScan(files), "new", resume=files[0])


def test_another_version_is_refused(tmp_path):
    own = {"fingerprint": "a", "source": "log"}
    Checkpoint(tmp_path / "kept", version="1", **own)
    Checkpoint(tmp_path / "kept", version="1", **own)
    with refuses(ParameterError, column="resume"):
        Checkpoint(tmp_path / "kept", version="2", **own)
    (tmp_path / "kept" / "log.json").write_text("{}")
    with refuses(ParameterError, file="log.json"):
        Checkpoint(tmp_path / "kept", version="1", **own)


def test_what_cannot_be_recognised_again_is_refused(files, tmp_path):
    class Own:
        def probabilities(self, log):
            return np.repeat(1.0 / np.diff(log.offsets), np.diff(log.offsets))

    with refuses(ParameterError, column="resume"):
        op.evaluate(ParquetScan(files), Own(), resume=tmp_path / "kept")


# -- bytes -----------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=10,
)


@given(values)
def test_what_is_decoded_is_what_was_encoded(value):
    assert repr(decode(encode(value))) == repr(value)


@given(st.integers(1, 5), st.integers(2, 30), st.booleans(), st.integers(0, 1000))
def test_moments_come_back_bit_by_bit(columns, rows, grouped, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_cauchy((columns, rows))
    group = rng.integers(0, 7, rows) if grouped else None
    moments = Moments.of(x, None, group, groups=7)
    back = decode(encode([moments]))[0]
    for name in Moments.__slots__:
        np.testing.assert_array_equal(getattr(back, name), getattr(moments, name))


def test_what_is_not_ours_is_not_kept():
    for value in (Place("log.csv"), object(), [Moments]):
        with pytest.raises(TypeError):
            encode(value)
    with pytest.raises(TypeError):
        storable(type("Moments", (), {}))


def test_foreign_classes_are_not_built():
    for name in ("stat_result", "Checkpoint", "Estimate"):
        tree = json.dumps({"class": name, "fields": []}).encode()
        stream = io.BytesIO()
        np.savez(stream, tree=np.frombuffer(tree, np.uint8))
        with pytest.raises(KeyError):
            decode(stream.getvalue())


def listed(value):
    """Tuples and lists are asked alike."""
    return [listed(item) for item in value] if isinstance(value, (list, tuple)) else value


@given(values, values)
def test_a_digest_tells_questions_apart(a, b):
    assert digest(a) == digest(a)
    if repr(listed(a)) != repr(listed(b)):
        assert digest(a) != digest(b)
