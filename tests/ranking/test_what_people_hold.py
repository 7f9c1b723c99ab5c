"""The verbs for rankings take a frame or a file, and the names of its columns, as they take a
log."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from offpolicy import ranking
from offpolicy.errors import LogError, ParameterError
from offpolicy.ranking.data._read import RankingNames
from tests.support.refusals import refuses

NAMES = {"query": "search", "rank": "place", "click": "clicked", "propensity": "p"}
M, QUERIES = 4, 60


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    place = np.tile(np.arange(1, M + 1), QUERIES)
    p = 1.0 / place
    clicked = (rng.random(M * QUERIES) < 0.5 * p).astype(int)
    search = np.repeat(np.arange(QUERIES), M)
    columns = {"search": search, "place": place, "clicked": clicked, "p": p}
    return pa.table(columns | {"score": rng.random(M * QUERIES)})


@pytest.fixture(params=["frame", "polars, lazy", "mapping", "file"])
def held(request, table, tmp_path):
    if request.param == "file":
        pq.write_table(table, tmp_path / "clicks.parquet")
        return tmp_path / "clicks.parquet"
    made = {"frame": table, "mapping": {name: table[name] for name in table.column_names}}
    return made.get(request.param, pl.from_arrow(table).lazy())


def test_the_answer_is_that_of_the_log(held, table):
    log = ranking.RankingLog.from_frame(table, ranking.RankingColumns(**NAMES))
    score = table["score"].to_numpy()
    found = ranking.evaluate(held, "score", metric="dcg", **NAMES)
    assert found == ranking.evaluate(log, score, metric="dcg").named("score")
    curve, expected = (
        ranking.sweep(held, "score", "CIPS", **NAMES),
        ranking.sweep(log, score, "CIPS"),
    )
    assert curve.at([0.5, 2.0]).tolist() == expected.at([0.5, 2.0]).tolist()


def test_the_keywords_are_the_roles(table):
    assert list(RankingNames.__annotations__) == [
        item.name for item in fields(ranking.RankingColumns)
    ]
    with pytest.raises(TypeError) as caught:
        ranking.evaluate(table, "score", clikc="clicked")
    assert str(caught.value) == "evaluate() has no argument 'clikc'. Did you mean \"click\"?"


def test_a_log_that_is_made_has_its_columns(table):
    log = ranking.RankingLog.from_frame(table, ranking.RankingColumns(**NAMES))
    with refuses(ParameterError, "click"):
        ranking.evaluate(log, np.zeros(M * QUERIES), click="clicked")
    with refuses(LogError, "frame"):
        ranking.sweep(5, "score")
    with refuses(LogError, "scores"):
        ranking.evaluate(table, "scores", **NAMES)
