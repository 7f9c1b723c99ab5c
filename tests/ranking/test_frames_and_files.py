"""The verbs of rankings take a frame or a path as they take a log."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from offpolicy.errors import LogError
from offpolicy.ranking import PropensitySVMRank, estimate_propensities, evaluate, learn_ranker
from tests.support.clicks import clicked


@pytest.fixture
def forms(tmp_path):
    """A log, the path of its file, and a frame whose column of clicks has another name."""
    log = clicked(2, n=150)
    path = tmp_path / "log.parquet"
    log.to_parquet(path)
    table = pq.read_table(path)
    names = ["taken" if name == "click" else name for name in table.column_names]
    return log, path, table.rename_columns(names)


def test_propensities_are_estimated_from_frames_and_files(forms):
    log, path, frame = forms
    whole = estimate_propensities(log, "em", top=3)
    for found in (estimate_propensities(path, "em", top=3),
                  estimate_propensities(frame, "em", top=3, click="taken")):  # fmt: skip
        np.testing.assert_array_equal(found.propensity, whole.propensity)
    with pytest.raises(LogError):
        estimate_propensities(frame, "em", top=3, click="clicks")


def test_a_ranker_is_learned_and_evaluated_from_frames_and_files(forms):
    log, path, frame = forms
    learner = PropensitySVMRank(estimator="IPS", C=1.0)
    whole, told = learn_ranker(learner, log)
    for ranker, found in (learn_ranker(learner, path),
                          learn_ranker(learner, frame, click="taken")):  # fmt: skip
        np.testing.assert_array_equal(ranker.coef_, whole.coef_)
        assert found.result.to_json() == told.result.to_json()
    asked = evaluate(frame, whole, ["IPS"], click="taken")
    assert asked["IPS"].value == evaluate(log, whole, ["IPS"])["IPS"].value
