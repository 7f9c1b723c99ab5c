"""Files read piece by piece give what the same decisions give in memory."""

from __future__ import annotations

import itertools

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.cli.progress import Progress, progress_line
from offpolicy.errors import LogError, ParameterError
from offpolicy.evidence._plan import sample_of
from offpolicy.evidence._sources import InMemory, Streamed
from offpolicy.logs._scan import sample_ranges
from offpolicy.logs.files._parquet import ParquetScan
from offpolicy.policies import settle
from tests.support.cases import make_case
from tests.support.files import as_csv, lists, same, table_of, write
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


@pytest.mark.parametrize("rows", ["all", "some"])
def test_pyarrow_and_duckdb_read_the_same(tmp_path, monkeypatch, rows):
    """With a condition that all rows meet, DuckDB reads them; otherwise pyarrow."""
    small_blocks(monkeypatch, 1_024, sample=600 if rows == "some" else None)
    limit(monkeypatch, "offpolicy.logs.files._parquet._BATCH", 500)
    case = make_case(np.random.default_rng(7), 5_000, drawn=True)
    paths = write(tmp_path, table_of(case, shop=np.zeros(5_000)), 2, group=700)
    plain, filtered = ParquetScan(paths), ParquetScan(paths, where="shop = 0")
    assert plain._plain(["new"])
    assert not filtered._plain(["new"])
    assert plain.rewards == filtered.rewards
    spans = [(0, 3), (650, 750), (1_399, 1_400), (4_990, 5_000)]
    for a, b in zip(
        *(scan.read(spans, ["new", "q"]).table.columns for scan in (plain, filtered)), strict=True
    ):
        assert a.to_pylist() == b.to_pylist()
    for skip in (0, 2):
        blocks = [[make().reward for make in scan.walk((), skip)] for scan in (plain, filtered)]
        np.testing.assert_array_equal(np.concatenate(blocks[0]), np.concatenate(blocks[1]))
        assert list(map(len, blocks[0])) == list(map(len, blocks[1]))
    results = [op.evaluate(scan, "new", prediction="q").to_json() for scan in (plain, filtered)]
    assert results[0] == results[1]


def test_rewards_that_are_no_plain_numbers_are_summed_up_by_duckdb(tmp_path):
    table = table_of(make_case(np.random.default_rng(8), 50, drawn=True))
    place = table.column_names.index("reward")
    numbers = table.column("reward").to_pylist()
    for values in (numbers, [bool(x > 0.5) for x in numbers], list(map(str, numbers))):
        pq.write_table(table.set_column(place, "reward", [values]), tmp_path / "log.parquet")
        scan = ParquetScan([tmp_path / "log.parquet"])
        assert (scan._plain_rewards() is None) == (values is not numbers)
        assert (scan.rewards.low, scan.rewards.high) == (
            min(map(float, values)),
            max(map(float, values)),
        )


def test_a_sample_of_a_large_log_is_the_same_everywhere(tmp_path, monkeypatch):
    small_blocks(monkeypatch, 1_024, sample=800)
    case = make_case(np.random.default_rng(2), 6_000, drawn=True)
    table = table_of(case)
    scan = ParquetScan(write(tmp_path, table, 3))
    log = op.BanditLog.from_frame(table)
    (a,) = sample_of(InMemory(log, [op.policies.resolve(log, "new", "new")], None))
    (b,) = sample_of(Streamed(scan, {"new": settle(scan, "new")}, None))
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


# -- where a log is sampled ------------------------------------------------------------------


@given(st.integers(1, 10**9), st.integers(1, 200_000))
@example(n=65, size=64)
@example(n=200_001, size=200_000)
def test_places_are_apart_in_order_inside_and_everywhere(n, size):
    ranges = sample_ranges(n, size)
    ends = [0, *(row for place in ranges for row in place), n]
    assert ends == sorted(ends)
    assert all(start < stop for start, stop in ranges)
    assert sum(stop - start for start, stop in ranges) == min(n, size)
    if 64 <= size < n:
        assert 32 <= len(ranges) <= 128
        for part in range(32):
            first, beyond = part * n // 32, (part + 1) * n // 32
            assert any(start < beyond and stop > first for start, stop in ranges)


@pytest.mark.parametrize(
    ("n", "places"),
    [(10**6, 32), (191_999_999, 32), (192_000_000, 64), (384_000_000, 128), (10**10, 128)],
)
def test_places_grow_with_the_log(n, places):
    assert len(sample_ranges(n, 200_000)) == places


@pytest.mark.parametrize("periods", [8, 16, 32, 64, 128, 256])
def test_places_do_not_meet_a_period_in_one_phase(periods):
    n = 25_600_000
    starts = np.array([start for start, _ in sample_ranges(n, 20_000)])
    phase = starts % (n // periods) / (n // periods)
    assert np.abs(np.exp(2j * np.pi * phase).mean()) < 0.4  # independent: above by 0.6 %


def test_the_sample_is_the_same_rows_however_they_are_stored(tmp_path, monkeypatch):
    limit(monkeypatch, "offpolicy.logs.files._text.LARGEST", 0)
    limit(monkeypatch, "offpolicy.logs.files._read.READ_WHOLE", 0)
    table = table_of(make_case(np.random.default_rng(5), 3_000, drawn=True))
    ranges = sample_ranges(3_000, 200)
    rows = np.concatenate([np.arange(start, stop) for start, stop in ranges])
    expected = op.BanditLog.from_frame(table).take(rows)
    for k, group in enumerate((50, 1_000, 3_000)):
        (tmp_path / str(k)).mkdir()
        write(tmp_path / str(k), table, k + 1, group)
    as_csv(table, tmp_path / "log.csv")
    for name in ("0", "1", "2", "log.csv"):
        scan = op.read_log(tmp_path / name)
        assert isinstance(scan, ParquetScan)
        found = scan.read(ranges, ())
        np.testing.assert_array_equal(found.reward, expected.reward)
        np.testing.assert_array_equal(found.logging, expected.logging)
        np.testing.assert_array_equal(found.bucket, expected.bucket)


@pytest.fixture(scope="module")
def stretched(tmp_path_factory):
    """A log of 600 rows in three files, with all rewards different; and with malformed ones."""
    shop, made = np.sort(np.random.default_rng(6).integers(0, 4, 600)), {}
    for bad in (False, True):
        reward = np.random.default_rng(7).random(600)
        reward[::11] = np.nan if bad else reward[::11]
        case = make_case(np.random.default_rng(8), 600, drawn=True)
        table = table_of(case, shop=shop, n=np.arange(600), reward=reward)
        made[bad] = table, write(tmp_path_factory.mktemp("stretches"), table, 3, group=70)
    return made


@given(
    ends=st.lists(st.integers(0, 600), min_size=2, max_size=40, unique=True).map(sorted),
    where=st.sampled_from([None, "shop <> 1", "shop <> 1 OR action = 0", "n >= 256"]),
    bad=st.booleans(),
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
def test_any_stretches_are_read_as_they_are(stretched, monkeypatch, ends, where, bad):
    limit(monkeypatch, "offpolicy.logs.files._parquet.CHUNK", 64)
    table, files = stretched[bad]
    scan = ParquetScan(files, where=where, on_bad_row="drop" if bad else "error", max_dropped=1.0)
    left = scan.without_bad_rows("", (), lambda _: None)
    with duckdb.connect() as connection:
        rows = connection.register("log", table).sql(f"FROM log WHERE {where or 'true'} ORDER BY n")
        kept = rows.to_arrow_table()
    kept = kept.filter(pc.is_finite(kept["reward"]))
    assert len(left) == len(kept)
    spans = [(a, min(b, len(kept))) for a, b in itertools.pairwise(ends) if a < len(kept)][::2]
    if not spans:
        return
    found = left.read(spans, ())
    rows = np.concatenate([np.arange(start, stop) for start, stop in spans])
    np.testing.assert_array_equal(found.reward, kept["reward"].to_numpy()[rows])
    np.testing.assert_array_equal(found.whole_row, rows)
    place = found.source.locate(len(rows) - 1)
    if where is None:
        assert pq.read_table(place.file)["reward"][place.row].as_py() == found.reward[-1]


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
    with refuses(ParameterError, "where"):
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
