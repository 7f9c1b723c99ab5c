"""Every verb takes a frame or a file, and the names of its columns, as it takes a log."""

from __future__ import annotations

import inspect
from dataclasses import fields

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import offpolicy as op
from offpolicy.errors import LogError, MissingColumnError, ParameterError
from offpolicy.learning import SoftmaxLearner, learn
from offpolicy.logs._columns import ColumnNames
from offpolicy.logs.files import Reading
from tests.support.refusals import refuses

N = 400
NAMES = {"action": "item", "reward": "click", "logging": "p", "context": ["age"]}


def columns() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    item, age = rng.integers(0, 2, N), rng.normal(size=N)
    click = (rng.random(N) < np.where(item == (age > 0), 0.7, 0.3)).astype(float)
    new = np.where((age > 0)[:, None], [0.2, 0.8], [0.8, 0.2])
    return {"item": item, "click": click, "p": np.full((N, 2), 0.5), "new": new, "age": age}


TABLE = pa.table(
    {
        name: values if values.ndim == 1 else values.tolist()  # a mapping may hold (n, K) arrays
        for name, values in columns().items()
    }
)
LOG = op.read_log(TABLE, op.Columns(**NAMES))
VERBS = {
    "evaluate": lambda held, **names: op.evaluate(held, "new", **names).to_json(),
    "compare": lambda held, **names: op.compare(held, {"a": "new"}, **names).to_json(),
    "check": lambda held, **names: op.check(held, "new", **names).to_json(),
    "sweep": lambda held, **names: op.sweep(held, "new", **names).to_arrow().to_pydict(),
    "learn": lambda held, **names: learn(SoftmaxLearner(max_iter=3), held, **names).to_json(),
}
HELD = {
    "mapping": lambda _: columns(),
    "pandas": lambda _: TABLE.to_pandas(),
    "polars": lambda _: pl.from_arrow(TABLE),
    "polars, lazy": lambda _: pl.from_arrow(TABLE).lazy(),
    "mapping of series": lambda _: {name: pl.Series(v) for name, v in columns().items()},
    "DuckDB": lambda _: duckdb.from_arrow(TABLE),
    "path": lambda folder: folder / "part-0.parquet",
    "text of a path": lambda folder: str(folder / "part-0.parquet"),
    "glob": lambda folder: str(folder / "*.parquet"),
    "paths": lambda folder: [folder / "part-0.parquet"],
    "folder": lambda folder: folder,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("held")
    pq.write_table(TABLE, folder / "part-0.parquet")
    return folder


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("held", HELD)
def test_the_answer_is_that_of_the_log(verb, held, folder):
    assert VERBS[verb](HELD[held](folder), **NAMES) == VERBS[verb](LOG)


@pytest.mark.parametrize("verb", VERBS)
def test_a_log_that_is_made_has_its_columns(verb):
    with refuses(ParameterError, "action"):
        VERBS[verb](LOG, action="item")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("held", ["log", "frame"])
def test_an_argument_that_there_is_not(verb, held):
    with pytest.raises(TypeError) as caught:
        VERBS[verb](LOG if held == "log" else TABLE, rewrad="click")
    said = f"{verb}() has no argument 'rewrad'. Did you mean \"reward\"?"
    assert str(caught.value) == said


def test_the_keywords_are_the_roles_and_the_options_of_read_log():
    roles = [item.name for item in fields(op.Columns)]
    assert list(ColumnNames.__annotations__) == roles
    options = list(inspect.signature(op.read_log).parameters)[2:-1]  # without **names
    assert list(Reading.__annotations__) == roles + options


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("how", [{"where": "age > -1"}, {"sample": 0.5, "sample_seed": 3}])
def test_a_verb_reads_as_read_log_does(verb, how):
    log = op.read_log(TABLE, op.Columns(**NAMES), **how)
    assert len(log) < N
    assert VERBS[verb](TABLE, **NAMES, **how) == VERBS[verb](log)


def test_read_log_takes_the_roles_as_well():
    made = op.read_log(TABLE, **NAMES, where="age > 0")
    assert VERBS["evaluate"](made) == VERBS["evaluate"](TABLE, **NAMES, where="age > 0")
    with refuses(ParameterError, "columns"):
        op.read_log(TABLE, op.Columns(**NAMES), action="item")
    with pytest.raises(TypeError) as caught:
        op.read_log(TABLE, rewrad="click")
    assert str(caught.value).endswith('Did you mean "reward"?')


@pytest.mark.parametrize("verb", VERBS)
def test_a_log_that_is_made_was_read(verb):
    with refuses(ParameterError, "where"):
        VERBS[verb](LOG, where="age > 0")


@pytest.mark.parametrize("nothing", [5, None, object()])
def test_what_no_log_is_read_from(nothing):
    with refuses(LogError, "frame"):
        op.evaluate(nothing, "new")


def test_series_of_a_mapping_may_differ_in_index():
    shuffled = {"action": pd.Series([0, 1], index=[7, 3]), "reward": [1, 0], "propensity": [1, 1]}
    assert op.read_log(shuffled).reward.tolist() == [1.0, 0.0]


def test_a_missing_propensity_is_answered_by_what_looks_like_it():
    frame = {"item": [0, 1], "click": [1, 0], "pscore": [0.5, 0.5], "new": [0.5, 0.5]}
    for ask in (
        op.evaluate,
        lambda *given, **names: op.compare(given[0], {"a": given[1]}, **names),
    ):
        with refuses(MissingColumnError, "propensity") as caught:
            ask(frame, "new", action="item", reward="click")
        assert "with propensity=, or the number" in str(caught.value)
        assert str(caught.value).endswith(" Perhaps pscore?")
