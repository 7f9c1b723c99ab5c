"""Files read piece by piece give what the same decisions give in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import offpolicy as op
from offpolicy.cli.progress import Progress, progress_line
from offpolicy.errors import LogError, ParameterError
from offpolicy.evidence._plan import sample_of
from offpolicy.evidence._sources import InMemory, Streamed
from offpolicy.logs._scan import sample_ranges
from offpolicy.logs.files._parquet import ParquetScan
from tests.support.cases import make_case
from tests.support.files import lists, same, table_of, write
from tests.support.limits import limit, small_blocks
from tests.support.refusals import refuses


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("kind", ["plain", "weighted", "few clusters", "many clusters"])
def test_files_give_what_arrays_give(tmp_path, monkeypatch, kind, files):
    small_blocks(monkeypatch, 1_024)
    case = make_case(
        np.random.default_rng(0), 4_000, weighted=kind == "weighted", unsupported=0.05, drawn=True
    )
    extra = {}
    if "clusters" in kind:
        extra["cluster"] = np.arange(4_000) // (200 if kind == "few clusters" else 4)
    table = table_of(case, **extra)
    paths = write(tmp_path, table, files, group=300)
    memory = op.evaluate(op.BanditLog.from_frame(table), {"new": "new"}, prediction="q")
    same(memory, op.evaluate(ParquetScan(paths), "new", prediction="q"))


def test_the_bytes_do_not_depend_on_threads_and_batches(tmp_path, monkeypatch):
    small_blocks(monkeypatch, 1_024)
    case = make_case(np.random.default_rng(1), 6_000, drawn=True)
    paths = write(tmp_path, table_of(case), 2, group=700)
    texts = set()
    for threads, batch in ((1, 122_880), (2, 122_880), (2, 200), (4, 1_000)):
        limit(monkeypatch, "offpolicy.logs.files._parquet._BATCH", batch)
        scan = ParquetScan(paths, threads=threads)
        texts.add(op.evaluate(scan, "new", prediction="q").to_json())
    assert len(texts) == 1


def test_a_sample_of_a_large_log_is_the_same_everywhere(tmp_path, monkeypatch):
    small_blocks(monkeypatch, 1_024, sample=800)
    case = make_case(np.random.default_rng(2), 6_000, drawn=True)
    table = table_of(case)
    scan = ParquetScan(write(tmp_path, table, 3))
    log = op.BanditLog.from_frame(table)
    (a,) = sample_of(InMemory(log, [op.policies.resolve(log, "new", "new")], None))
    (b,) = sample_of(Streamed(scan, {"new": "new"}, None))
    assert len(a.log) == len(b.log) == 800
    np.testing.assert_array_equal(a.log.reward, b.log.reward)
    np.testing.assert_array_equal(a.target.flat, b.target.flat)
    np.testing.assert_array_equal(a.log.bucket, b.log.bucket)
    same(
        op.evaluate(log, {"new": "new"}, prediction="q"),
        op.evaluate(scan, "new", prediction="q"),
    )


def test_a_condition_picks_rows_before_anything_else(tmp_path, monkeypatch):
    small_blocks(monkeypatch, 1_024, sample=600)
    limit(monkeypatch, "offpolicy.logs.files._parquet.CHUNK", 256)
    case = make_case(np.random.default_rng(3), 6_000, drawn=True)
    shop = np.random.default_rng(4).integers(0, 3, 6_000)
    table = table_of(case, shop=shop)
    scan = ParquetScan(write(tmp_path, table, 2), where="shop <> 1")
    kept = table.filter(pa.array(shop != 1))
    assert len(scan) == len(kept)
    log = op.BanditLog.from_frame(kept)
    same(
        op.evaluate(log, {"new": "new"}, prediction="q"),
        op.evaluate(scan, "new", prediction="q"),
    )


def test_policies_that_are_objects_and_several_of_them(tmp_path, monkeypatch):
    small_blocks(monkeypatch, 1_024)
    case = make_case(np.random.default_rng(5), 3_000, drawn=True)
    table = table_of(case)
    policies = {"new": "new", "uniform": op.policies.Uniform(), "old": "logging"}
    log, scan = op.BanditLog.from_frame(table), ParquetScan(write(tmp_path, table, 2))
    same(op.evaluate(log, policies), op.evaluate(scan, policies))
    a, b = op.compare(log, policies, prediction="q"), op.compare(scan, policies, prediction="q")
    for one, other in zip(a, b, strict=True):
        assert other.value == pytest.approx(one.value, rel=1e-10, abs=1e-13)
        assert other.interval == pytest.approx(one.interval, rel=1e-10)
        assert other.verdict == one.verdict


def test_what_needs_all_rows_at_once_says_so(tmp_path):
    case = make_case(np.random.default_rng(6), 100, drawn=True)
    scan = ParquetScan(write(tmp_path, table_of(case)))
    with pytest.raises(ParameterError, match='interval="betting" needs all rows at once'):
        op.evaluate(scan, "new", interval="betting")
    draws = op.MonteCarlo(lambda log, rng: np.zeros(len(log), int), draws=10)
    with pytest.raises(ParameterError, match="known by draws only, which takes a log in memory"):
        op.evaluate(scan, draws)


@pytest.mark.parametrize("n", [1, 7, 8, 100, 1_000_003])
@pytest.mark.parametrize("size", [1, 5, 64, 200_000])
def test_stretches_are_apart_in_order_and_inside(n, size):
    found = sample_ranges(n, size)
    ends = [0, *(x for part in found for x in part), n]
    assert ends == sorted(ends)
    total = sum(stop - start for start, stop in found)
    assert total == n if n <= size else 0 < total <= size


# -- what is wrong, and where ----------------------------------------------------------------


def test_a_bad_value_is_named_by_file_and_row(tmp_path, monkeypatch):
    small_blocks(monkeypatch, 1_024)
    case = make_case(np.random.default_rng(7), 5_000, drawn=True)
    pi = case.pi.copy()
    pi[case.offsets[4_000] : case.offsets[4_001]] *= 0.5
    paths = write(tmp_path, table_of(case, new=lists(case, pi)), 2)
    first = pq.read_metadata(paths[0]).num_rows
    with refuses(op.errors.PolicyError, "new", 4_000 - first, file="part-1.parquet"):
        op.evaluate(ParquetScan(paths), "new", prediction="q")
    reward = case.reward.copy()
    reward[4_500] = np.nan
    paths = write(tmp_path, table_of(case, reward=reward), 2)
    with refuses(LogError, "reward", 4_500 - first, file="part-1.parquet"):
        op.evaluate(ParquetScan(paths), "new", prediction="q")


def test_with_a_condition_rows_are_counted_among_those_that_meet_it(tmp_path):
    case = make_case(np.random.default_rng(7), 1_000, drawn=True)
    pi = case.pi.copy()
    pi[case.offsets[901] : case.offsets[902]] *= 0.5
    shop = np.arange(1_000) % 2
    paths = write(tmp_path, table_of(case, new=lists(case, pi), shop=shop), 2)
    first = pq.read_metadata(paths[0]).num_rows
    row = int((shop[first:901] == 1).sum())
    file = "part-1.parquet (of the rows where shop = 1)"
    with refuses(op.errors.PolicyError, "new", row, file=file):
        op.evaluate(ParquetScan(paths, where="shop = 1"), "new", prediction="q")


def test_files_keep_the_order_in_which_they_are_given(tmp_path):
    case = make_case(np.random.default_rng(17), 3_000, drawn=True)
    table = table_of(case)
    paths = write(tmp_path, table, 3)[::-1]
    reversed_table = pa.concat_tables([pq.read_table(path) for path in paths])
    same(
        op.evaluate(op.BanditLog.from_frame(reversed_table), {"new": "new"}, prediction="q"),
        op.evaluate(ParquetScan(paths), "new", prediction="q"),
    )


def test_files_that_do_not_fit_together(tmp_path):
    case = make_case(np.random.default_rng(8), 100, drawn=True)
    table = table_of(case)
    paths = write(tmp_path, table, 2)
    pq.write_table(table.drop(["q"]).slice(50), paths[1])
    with refuses(LogError, "q", file="part-1.parquet"):
        ParquetScan(paths)


@pytest.mark.parametrize("cut", [3, 500, -4])
def test_a_truncated_file(tmp_path, cut):
    case = make_case(np.random.default_rng(9), 100, drawn=True)
    (path,) = write(tmp_path, table_of(case))
    path.write_bytes(path.read_bytes()[:cut])
    with refuses(LogError, file="part-0.parquet"):
        ParquetScan([path])


def test_columns_that_are_not_there(tmp_path):
    case = make_case(np.random.default_rng(10), 100, drawn=True)
    paths = write(
        tmp_path, table_of(case).rename_columns(["item", "reward", "logging", "new", "q"])
    )
    with refuses(LogError, "action", file="part-0.parquet"):
        op.evaluate(ParquetScan(paths), "new")
    scan = ParquetScan(paths, op.Columns(action="item"))
    with refuses(LogError, "nwe", match=r'Did you mean "new"\?'):
        op.evaluate(scan, "nwe")
    with refuses(LogError, file="part-0.parquet", match="no_such"):
        op.evaluate(ParquetScan(paths, op.Columns(action="item"), where="no_such > 3"), "new")


def test_a_condition_that_leaves_nothing(tmp_path):
    case = make_case(np.random.default_rng(11), 100, drawn=True)
    paths = write(tmp_path, table_of(case))
    with refuses(LogError, "", file="part-0.parquet"):
        ParquetScan(paths, where="reward > 1e9")


def test_names_with_quotes_are_names(tmp_path):
    case = make_case(np.random.default_rng(12), 300, drawn=True)
    folder = tmp_path / 'it\'s "here"'
    folder.mkdir()
    odd = 'new"; DROP TABLE x; --'
    table = table_of(case).rename_columns(["action", "reward", "logging", odd, "q"])
    paths = write(folder, table)
    same(
        op.evaluate(op.BanditLog.from_frame(table), {odd: odd}),
        op.evaluate(ParquetScan(paths), odd),
    )


def test_a_reward_outside_the_declared_range(tmp_path):
    case = make_case(np.random.default_rng(13), 1000, drawn=True)
    reward = np.zeros(1000)
    reward[777] = 3.0
    paths = write(tmp_path, table_of(case, reward=reward))
    with refuses(LogError, "reward", 777, file="part-0.parquet"):
        op.evaluate(ParquetScan(paths), "new", reward_range=(0, 1))


def test_a_fingerprint_changes_with_the_file(tmp_path):
    case = make_case(np.random.default_rng(14), 100, drawn=True)
    paths = write(tmp_path, table_of(case))
    before = ParquetScan(paths).fingerprint()
    assert ParquetScan(paths).fingerprint() == before
    assert ParquetScan(paths, where="reward >= 0").fingerprint() != before
    write(tmp_path, table_of(make_case(np.random.default_rng(15), 100, drawn=True)))
    assert ParquetScan(paths).fingerprint() != before


# -- progress --------------------------------------------------------------------------------


def test_progress_is_told(tmp_path, monkeypatch):
    small_blocks(monkeypatch, 1_024)
    case = make_case(np.random.default_rng(16), 4_000, drawn=True)
    scan = ParquetScan(write(tmp_path, table_of(case), 2))
    told: list[tuple[int, int]] = []
    scan.progress = lambda done, total: told.append((done, total))
    op.evaluate(scan, "new", estimators=["IPS"])
    assert told[-1] == (4_000, 4_000)
    assert [done for done, _ in told] == sorted({done for done, _ in told})


def test_the_line_of_progress(capsys):
    assert progress_line(3_000_000, 20_000_000, 2.0) == (
        "read 3,000,000 of 20,000,000 decisions (15%), 1,500,000 a second, 11 s left"
    )
    assert progress_line(1, 10_000, 1.0).endswith("166 min 39 s left")
    assert progress_line(0, 10, 0.0) == "read 0 of 10 decisions (0%)"
    progress = Progress()
    progress(1, 10)
    assert capsys.readouterr().err == ""
    progress._shown -= 1.0
    progress(2, 10)
    assert "read 2 of 10 decisions (20%)" in capsys.readouterr().err
    progress(10, 10)
    assert capsys.readouterr().err == "\r\x1b[K"
