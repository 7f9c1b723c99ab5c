"""`RankingLog`: what it holds, how it is read, and what it refuses."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from offpolicy._core.ragged import candidates_of
from offpolicy.errors import LogError, ParameterError, PolicyError, PredictionError, PropensityError
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._ranks import ranks, ranks_of
from offpolicy.ranking.data._read import RankingColumns
from tests.support.refusals import refuses

GOOD = {
    "offsets": [0, 3, 4, 6],
    "rank": [2, 1, 0, 1, 1, 2],
    "click": [0, 1, 0, 0, 0, 1],
    "propensity": [0.5, 1.0, 0.0, 1.0, 1.0, 0.5],
    "prediction": [0.1, 0.9, 0.5, 0.0, 1.0, 0.25],
    "X": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0], [8.0, 9.0], [1.5, 2.5]],
    "relevance": [0.0, 1.0, 0.0, 0.0, 1.0, 1.0],
    "query": ["a", "b", "a"],
    "document": ["u", "v", "w", "u", "x", "y"],
}
COLUMNS = ("rank", "click", "propensity", "prediction", "X", "relevance", "query", "document")


def made(**changes) -> RankingLog:
    return RankingLog.from_arrays(**(GOOD | changes))


def assert_same(one: RankingLog, other: RankingLog) -> None:
    assert_array_equal(one.offsets, other.offsets)
    for name in COLUMNS:
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None), name
        if a is not None:
            assert_array_equal(a, b, err_msg=name)


def test_what_it_holds():
    log = made()
    assert len(log) == 3
    assert log.documents == 6
    assert log.impression.tolist() == [0, 0, 0, 1, 2, 2]
    assert log.shown.tolist() == [True, True, False, True, True, True]
    assert log.cluster.tolist() == [0, 1, 0]
    assert log.fold(3)[0] == log.fold(3)[2]
    assert repr(log).startswith("RankingLog(3 impressions, 6 documents, 2 clicks, propensity,")


def test_impressions_without_clicks_and_of_one_document_are_fine():
    log = RankingLog.from_arrays(offsets=[0, 1, 2], rank=[1, 0], click=[0, 0], propensity=[1, 0])
    assert log.documents == 2


BAD = [
    (LogError, "rank", 2, {"rank": [2, 1, -1, 1, 1, 2]}),
    (LogError, "rank", 1, {"rank": [1, 1, 0, 1, 1, 2]}),
    (LogError, "rank", 2, {"rank": [2, 1, 0.5, 1, 1, 2]}),
    (LogError, "click", 1, {"click": [0, 2, 0, 0, 0, 1]}),
    (LogError, "click", 1, {"click": [0, np.nan, 0, 0, 0, 1]}),
    (LogError, "click", 2, {"click": [0, 1, 1, 0, 0, 1]}),
    (PropensityError, "propensity", 1, {"propensity": [0.5, 0, 0, 1, 1, 0.5]}),
    (PropensityError, "propensity", 5, {"propensity": [0.5, 1, 0, 1, 1, 1.5]}),
    (PropensityError, "propensity", 2, {"propensity": [0.5, 1, 0.2, 1, 1, 0.5]}),
    (PropensityError, "propensity", 1, {"propensity": [0.5, np.nan, 0, 1, 1, 0.5]}),
    (PredictionError, "prediction", 5, {"prediction": [0.5, 1, 0, 1, 1, 1.5]}),
    (LogError, "relevance", 2, {"relevance": [0, 1, 2, 0, 1, 1]}),
    (LogError, "feature 1", 0, {"X": np.full((6, 2), np.nan)}),
    (LogError, "X", None, {"X": np.zeros(6)}),
    (LogError, "documents", 1, {"offsets": [0, 3, 3, 6]}),
    (LogError, "offsets", None, {"offsets": [1, 3, 6]}),
    (LogError, "offsets", None, {"offsets": [0]}),
    (LogError, "click", None, {"click": [0, 1]}),
    (LogError, "query", None, {"query": ["a", "b"]}),
    (LogError, "query", 1, {"query": ["a", None, "b"]}),
]


@pytest.mark.parametrize(("error", "column", "row", "changes"), BAD)
def test_what_it_refuses(error, column, row, changes):
    with refuses(error, column, row):
        made(**changes)


def test_a_refusal_names_impression_document_and_how_many():
    says = r"^rank, row 2, impression 0, document 2: -1 is below 0 \(1 of 6 documents\)"
    with refuses(LogError, "rank", 2, part="impression 0, document 2", match=says):
        made(rank=[2, 1, -1, 1, 1, 2])


def test_parts_and_changes():
    log = made()
    part = log.take([2, 0])
    assert part.rank.tolist() == [1, 2, 2, 1, 0]
    assert part.query.tolist() == ["a", "a"]
    assert_same(log.take(np.array([True, False, True])), log.take([0, 2]))
    assert_same(log.take(np.arange(3)), log)
    other = log.replace(prediction=None, propensity=np.where(log.shown, 1.0, 0.0))
    assert other.prediction is None
    assert other.propensity.sum() == 5.0
    with refuses(LogError, "click", 0):
        log.replace(click=np.full(6, 3))


def test_rows_of_some_impressions():
    assert candidates_of(np.array([0, 2, 5, 6]), np.array([2, 0])).tolist() == [5, 0, 1]
    assert len(candidates_of(np.array([0, 2]), np.array([], dtype=np.int64))) == 0


# -- files -----------------------------------------------------------------------------------


def test_parquet_there_and_back(tmp_path):
    path = tmp_path / "log.parquet"
    log = made()
    log.to_parquet(path)
    assert_same(RankingLog.read(path), log)
    narrow = made(X=np.asarray(GOOD["X"], dtype=np.float32), query=None, document=None)
    narrow.to_parquet(path)
    again = RankingLog.read(path)
    assert_same(again, narrow)
    assert again.X.dtype == np.float32


def test_features_by_pattern_in_the_order_of_their_numbers():
    table = pa.table(
        {"impression": [1], "rank": [1], "click": [0], "v10": [10.0], "v2": [2.0], "w": [5.0]}
    )
    log = RankingLog.from_frame(table, RankingColumns(features=["w", "v*"]))
    assert log.X.tolist() == [[5.0, 2.0, 10.0]]
    assert RankingLog.from_frame(table).X is None


CSV = """session,qid,rank,click,propensity,f1,f2
s1,7,1,0,1,0.5,1
s1,7,2,1,0.5,0.25,0
s2,9,1,0,1,0.125,1
"""


def test_csv_with_named_columns(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text(CSV)
    log = RankingLog.read(path, RankingColumns(impression="session"))
    assert log.offsets.tolist() == [0, 2, 3]
    assert log.query.tolist() == [7, 9]
    assert log.X.shape == (3, 2)
    assert_array_equal(RankingLog.read(path).offsets, log.offsets)  # one impression per query


@pytest.mark.parametrize(
    ("old", "new", "column", "line"),
    [
        ("s1,7,2,1", "s1,7,2,3", "click", 3),
        ("s1,7,2,1", ",7,2,1", "session", 3),
        ("s2,9,1,0,1", "s2,9,1,0,0", "propensity", 4),
        ("s2,9,1,0,1,0.125", "s2,9,1,0,1,nan", "f1", 4),
        ("s1,7,2,1", "s1,8,2,1", "qid", 3),
        ("s1,7,2,1", "s1,7,1,1", "rank", 3),
        ("click", "clicked", "click", None),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(tmp_path, old, new, column, line):
    path = tmp_path / "clicks.csv"
    path.write_text(CSV.replace(old, new, 1))
    error = PropensityError if column == "propensity" else LogError
    with refuses(error, column, line, file="clicks.csv"):
        RankingLog.read(path, RankingColumns(impression="session"))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_condition_leaves_out_impressions_and_never_a_part_of_one(tmp_path, suffix):
    """What is read is what the rows that meet it alone would be; messages count as in the file."""
    table = made().to_arrow().append_column("day", pa.array([1, 1, 1, 2, 3, 3]))
    path = tmp_path / f"log.{suffix}"

    def written(table: pa.Table) -> None:
        made_by = pacsv.write_csv if suffix == "csv" else pq.write_table
        made_by(table, path)

    written(table.filter(pc.field("day") != 2))
    alone = RankingLog.read(path)
    written(table)
    assert_same(RankingLog.read(path, where="day in (1, 3)"), alone)
    assert len(RankingLog.read(path, where="query = 'b'")) == 1
    with refuses(LogError, "", file=path.name):
        RankingLog.read(path, where="rank > 0")
    with refuses(LogError, file=path.name):
        RankingLog.read(path, where="day = 4")
    with refuses(ParameterError, "where"):
        RankingLog.read(path, where="dya = 4")
    place = table.column_names.index("propensity")
    written(table.set_column(place, "propensity", pa.array([0.5, 1.0, 0.0, 1.0, 7.0, 0.5])))
    with refuses(PropensityError, "propensity", 6 if suffix == "csv" else 4, file=path.name):
        RankingLog.read(path, where="day > 1")


def test_impressions_that_come_back_are_refused(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text(CSV + "s1,7,3,0,0.3,1,1\n")
    with refuses(LogError, "session", 5, file="clicks.csv", match="'s1' .* began at line 2 "):
        RankingLog.read(path, RankingColumns(impression="session"))


def test_a_table_without_impressions_or_documents(tmp_path):
    with refuses(LogError, "impression"):
        RankingLog.from_frame(pa.table({"rank": [1], "click": [0]}))
    empty = pa.table({"impression": pa.array([], pa.int64()), "rank": [], "click": []})
    with refuses(LogError, "impression"):
        RankingLog.from_frame(empty)
    with refuses(LogError, "rank"):
        RankingLog.from_frame(pa.table({"impression": [1], "rank": [[1]], "click": [0]}))


LETOR = """2 qid:7 1:0.5 2:1
0 qid:7 1:0.25
1 qid:9 2:1
0 qid:7 1:0.75
"""
SHOWN = """impression,qid,document,rank,click,propensity
1,9,1,1,1,1
2,7,3,1,0,1
2,7,1,2,1,0.5
3,7,1,1,1,1
"""


def test_letor_text_with_clicks(tmp_path):
    text, clicks = tmp_path / "set.txt", tmp_path / "clicks.csv"
    text.write_text(LETOR)
    clicks.write_text(SHOWN)
    log = RankingLog.read(text, clicks=clicks)
    assert log.offsets.tolist() == [0, 1, 4, 7]
    assert log.query.tolist() == [9, 7, 7]
    assert log.rank.tolist() == [1, 2, 0, 1, 1, 0, 0]
    assert log.click.tolist() == [1, 1, 0, 0, 1, 0, 0]
    assert log.propensity.tolist() == [1, 0.5, 0, 1, 1, 0, 0]
    assert log.relevance.tolist() == [1, 1, 0, 0, 1, 0, 0]
    assert log.X[:, 0].tolist() == [0, 0.5, 0.25, 0.75, 0.5, 0.25, 0.75]
    assert RankingLog.read(text, clicks=clicks, relevant=2).relevance.sum() == 2


@pytest.mark.parametrize(
    ("old", "new", "error", "column", "line"),
    [
        ("2,7,1,2", "2,7,4,2", LogError, "document", 4),
        ("2,7,1,2", "2,7,3,2", LogError, "document", 4),
        ("1,9,1", "1,8,1", LogError, "qid", 2),
        ("2,7,1,2,1,0.5", "2,7,1,2,1,0", PropensityError, "propensity", 4),
    ],
)
def test_clicks_that_do_not_fit_the_text(tmp_path, old, new, error, column, line):
    text, clicks = tmp_path / "set.txt", tmp_path / "clicks.csv"
    text.write_text(LETOR)
    clicks.write_text(SHOWN.replace(old, new, 1))
    with refuses(error, column, line, file="clicks.csv"):
        RankingLog.read(text, clicks=clicks)


# -- ranks -----------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(-2, 2), min_size=1, max_size=6), min_size=1, max_size=5))
def test_ranks_against_counting(queries):
    scores = np.array([score for query in queries for score in query], dtype=np.float64)
    offsets = np.cumsum([0, *map(len, queries)])
    expected = [
        1 + sum(other > own or (other == own and k < j) for k, other in enumerate(query))
        for query in queries
        for j, own in enumerate(query)
    ]
    assert ranks(scores, offsets).tolist() == expected


def test_rankers_of_every_kind():
    log = made()

    class Model:
        def predict(self, X):
            return -X[:, 0]

    class Classifier(Model):
        def decision_function(self, X):
            return X[:, 0]

    down, up = [3, 2, 1, 1, 1, 2], [1, 2, 3, 1, 2, 1]
    assert ranks_of(lambda X: X[:, :1], log).tolist() == down
    assert ranks_of(Model(), log).tolist() == up
    assert ranks_of(Classifier(), log).tolist() == down
    assert ranks_of(log.X[:, 0], log).tolist() == down


@pytest.mark.parametrize(("ranker", "row"), [([1.0, 2.0], None), ([1, 2, 3, np.nan, 5, 6], 3)])
def test_rankers_that_are_refused(ranker, row):
    with refuses(PolicyError, "score", row):
        ranks_of(ranker, made())


def test_a_ranker_of_features_needs_features():
    with refuses(PolicyError, "X"):
        ranks_of(lambda X: X[:, 0], made(X=None))
    with refuses(PolicyError, "score"):
        ranks_of(np.zeros((6, 2)), made())
