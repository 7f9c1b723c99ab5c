"""A propensity that is a rounding of what exact logging says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import offpolicy as op
from offpolicy.errors import PropensityError
from offpolicy.logs.files._parquet import ParquetScan
from tests.support.refusals import refuses


def table(given) -> pa.Table:
    rng = np.random.default_rng(3)
    logging = rng.dirichlet([0.5, 1.0, 2.0], 400)
    action = np.array([rng.choice(3, p=row) for row in logging])
    exact = logging[np.arange(400), action]
    return pa.table({
        "action": action, "reward": rng.random(400), "logging": logging.tolist(),
        "propensity": given(exact),
    })  # fmt: skip


def significant(exact: np.ndarray) -> np.ndarray:
    return np.array([float(f"{p:.3g}") for p in exact])


@pytest.mark.parametrize("given", [lambda p: p.round(2), lambda p: p.round(4), significant])
@pytest.mark.parametrize("in_file", [False, True])
def test_logging_counts_and_a_warning_says_so(tmp_path, given, in_file):
    rounded = table(given)
    log = op.BanditLog.from_frame(rounded)
    if in_file:
        pq.write_table(rounded, tmp_path / "log.parquet")
        log = ParquetScan([tmp_path / "log.parquet"])
    result = op.evaluate(log, ":uniform")
    exact = op.evaluate(op.BanditLog.from_frame(table(lambda p: p)), ":uniform")
    assert result.headline.interval == exact.headline.interval
    (told,) = [one for one in result.findings if one.code == "propensity-rounded"]
    assert told.severity == "warning"
    assert "propensity-rounded" in [one.code for one in op.check(log)]
    assert "propensity-rounded" not in [one.code for one in exact.findings]


def test_what_is_no_rounding_is_refused_by_row():
    def spoilt(exact):
        rounded = exact.round(3)
        rounded[7] += 0.01
        return rounded

    with refuses(PropensityError, "propensity", row=7, file="log", rows=[7]):
        op.BanditLog.from_frame(table(spoilt), source="log")
    with refuses(PropensityError, "propensity", row=0):
        op.BanditLog.from_frame(table(lambda p: p * 0.9))
