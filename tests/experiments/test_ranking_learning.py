"""Rankers that are learned with each estimator, and which of them is taken."""

from __future__ import annotations

import numpy as np
import pytest

from offpolicy.experiments.cells import Cells
from offpolicy.experiments.ranking import learning
from tests.support.experiments import ranked_run


def test_the_choice_is_by_validation_and_hindsight_by_test():
    one = ranked_run(0, 1.0, lost={"CAB": 2.4})
    assert one.chosen("CAB").strength == 1.0
    assert one.best("CAB").strength == 9.0
    assert one.rank("logger") == 15.0
    assert one.rank("CAB") == pytest.approx(11.4)
    assert one.rank("default") == 11.0
    assert learning.regret([one], "CAB") == pytest.approx([2.4])
    assert learning.regret([one], "DM") == pytest.approx([0.0])


def test_runs_are_of_every_reading_of_what_is_relevant(letor, few_candidates, tmp_path):
    cells = Cells(tmp_path)
    found = learning.runs_of(cells, ["clouds", "mq2008"], 1, (1.0,))
    assert [one.condition for one in found] == [
        learning.Condition("MQ2008", relevant, 0) for relevant in (1, 2)
    ]
    assert list(learning.by_set(found)) == ["MQ2008, y ≥ 1", "MQ2008, y ≥ 2"]
    assert learning.runs_of(cells, ["clouds"], 1) == []
    for one in found:
        assert set(one.tried) == {*learning.ESTIMATORS, "full"}
        assert len(one.tried["IPS"]) == 2  # of every C
        assert len(one.tried["SWITCH"]) == 2 * 2  # and of every M
        ranks = [ranker.test for some in one.tried.values() for ranker in some]
        assert 1.0 < min(ranks) <= max(ranks) < 8.0
        assert one.rank("full") < one.logger
        assert set(one.ours) == set(learning.OURS)
        assert np.isfinite(list(one.ours.values())).all()


def test_amounts_are_in_order():
    found = [ranked_run(run, sweeps) for run in range(2) for sweeps in (5.0, 0.5)]
    by_amount = learning.by_sweeps(found)
    assert list(by_amount) == [0.5, 5.0]
    assert [one.condition.run for one in by_amount[5.0]] == [0, 1]
