"""Whatever is public goes to other processes and back: it is pickled, copied and hashed alike."""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
import pickle
from pathlib import Path

import joblib
import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

import offpolicy as op
from offpolicy import ranking
from offpolicy.errors import LogError, SupportError
from offpolicy.evaluation._sweep import _Found
from offpolicy.evidence import without_bad_rows
from offpolicy.learning import split
from offpolicy.logs.files._convert import convert
from offpolicy.logs.files._parquet import ParquetScan
from tests.support.clicks import clicked
from tests.support.public import EXAMPLES, curve, log, public_classes, scan, table
from tests.support.refusals import refuses


def test_every_public_class_has_an_example():
    assert set(EXAMPLES) == set(public_classes())


@pytest.mark.parametrize("name", EXAMPLES)
def test_copies_are_the_same(name):
    made = EXAMPLES[name]()
    assert type(made) is public_classes()[name]
    known = joblib.hash(made)
    copies = [copy.copy(made), copy.deepcopy(made)]
    copies += [pickle.loads(pickle.dumps(made, level)) for level in (2, pickle.HIGHEST_PROTOCOL)]
    for other in copies:
        assert type(other) is type(made)
        assert type(made).__repr__ is object.__repr__ or repr(other) == repr(made)
        assert joblib.hash(other) == known
    assert joblib.hash(made) == known


def converted(folder: Path) -> op.LogScan:
    """A log of text, in temporary files."""
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in table().to_pylist()))
    return convert([path], op.Columns())


def sifted(folder: Path) -> op.LogScan:
    """A log without one malformed row."""
    reward = table().column("reward").to_pylist()
    with_gap = table().set_column(1, "reward", [[None, *reward[1:]]])
    pq.write_table(with_gap, folder / "log.parquet")
    made = ParquetScan([folder / "log.parquet"], on_bad_row="drop")
    return without_bad_rows(made, {"new": "new"}, None)


LOGS = {
    "in memory": lambda folder: log(),
    "in pieces": scan,
    "converted": converted,
    "held out": lambda folder: split(scan(folder))[1],
    "without bad rows": sifted,
}


@pytest.mark.parametrize("kind", LOGS)
def test_copies_of_a_log_are_the_same_log(kind, tmp_path):
    """Also after it was used, and the other way round."""
    made = LOGS[kind](tmp_path)
    known = joblib.hash(made)
    answer = op.evaluate(made, "new").to_json()
    assert joblib.hash(made) == known
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert type(other) is type(made)
        assert repr(other) == repr(made)
        assert joblib.hash(other) == known
        assert other.fingerprint() == made.fingerprint()
        assert op.evaluate(other, "new").to_json() == answer
        assert joblib.hash(other) == known


def test_parts_of_arrays_are_hashed_like_whole_ones():
    X = np.arange(300.0).reshape(100, 3)
    made = [
        op.BanditLog.from_arrays(action=[0, 1] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100,
                                 context=context)
        for context in (X[:, [0]], X[:, :1], X[:, :1].copy(), np.asfortranarray(X[:, :1]))
    ]  # fmt: skip
    assert len({joblib.hash(log) for log in made}) == 1
    part = log().rows(10, 20)
    assert len(pickle.dumps(part)) < len(pickle.dumps(log())) / 10
    assert joblib.hash(part) == joblib.hash(pickle.loads(pickle.dumps(part)))


def test_a_copy_of_a_curve_is_the_whole_curve():
    made = curve()
    other = pickle.loads(pickle.dumps(made))
    assert other.best == made.best
    assert_array_equal(other.at([0.1, 1.0, np.inf]), made.at([0.1, 1.0, np.inf]))
    log = clicked()
    made = ranking.sweep(log, log.X[:, 0])
    other = pickle.loads(pickle.dumps(made))
    assert_array_equal(other.at([0.1, 1.0, 3.0]), made.at([0.1, 1.0, 3.0]))


def nothing_to_choose() -> float:
    raise SupportError("There is nothing to choose by.")


def test_a_copy_of_a_curve_that_knows_no_best_says_why():
    made = dataclasses.replace(curve(), chosen=_Found(nothing_to_choose))
    other = pickle.loads(pickle.dumps(made))
    for one in (made, other):
        with refuses(SupportError, match="nothing"):
            one.best  # noqa: B018


def test_the_files_of_a_converted_log_last_as_long_as_its_copies(tmp_path):
    made = converted(tmp_path)
    answer = op.evaluate(made, "new").to_json()
    sent = pickle.dumps(made)
    other = copy.deepcopy(made)
    folder = made._folder.path
    del made
    gc.collect()
    assert op.evaluate(other, "new").to_json() == answer
    borrowed = pickle.loads(sent)
    del borrowed
    gc.collect()
    assert folder.exists()
    other.close()
    assert not folder.exists()
    with refuses(LogError, file=folder.name):
        pickle.loads(sent)
