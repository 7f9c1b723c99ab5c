"""A column of predictions that nobody named."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import offpolicy as op
from offpolicy.errors import MissingColumnError, PredictionError
from offpolicy.logs.files._parquet import ParquetScan
from tests.support.refusals import refuses


def table(name: str) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({
        "action": rng.integers(0, 2, 300), "reward": rng.random(300),
        "logging": [[0.5, 0.5]] * 300, name: rng.random((300, 2)).tolist(),
    })  # fmt: skip


@pytest.mark.parametrize("in_file", [False, True])
def test_a_column_called_prediction_is_used_and_said_to_be(tmp_path, in_file):
    log = op.BanditLog.from_frame(table("prediction"))
    if in_file:
        pq.write_table(table("prediction"), tmp_path / "log.parquet")
        log = ParquetScan([tmp_path / "log.parquet"])
    found = op.evaluate(log, ":uniform", estimators=["DM"])
    named = op.evaluate(log, ":uniform", prediction="prediction", estimators=["DM"])
    assert found["DM"] == named["DM"]
    codes = [[one.code for one in result.findings] for result in (found, named)]
    assert ["prediction-found" in each for each in codes] == [True, False]
    assert "prediction-found" in [one.code for one in op.check(log)]
    for without in (False, ""):
        with refuses(MissingColumnError, "prediction"):
            op.evaluate(log, ":uniform", prediction=without, estimators=["DM"])


def test_what_looks_like_predictions_is_named():
    log = op.BanditLog.from_frame(table("q_hat"))
    with refuses(MissingColumnError, "prediction") as caught:
        op.evaluate(log, ":uniform", estimators=["DM"])
    assert 'prediction="q_hat"' in str(caught.value)


def test_predictions_beside_arms_that_were_found_have_no_order():
    frame = table("q").drop_columns(["logging"])
    log = op.BanditLog.from_frame(frame, op.Columns(propensity=0.5))
    for error, prediction in ((PredictionError, "q"), (PredictionError, [[0.5, 0.5]] * 300)):
        with refuses(error, "actions"):
            op.evaluate(log, ":uniform", prediction=prediction)
