"""The set-up of the experiments on rankings: counts, parts, names of data sets."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from offpolicy.errors import DatasetError
from offpolicy.experiments.ranking.learning import counts_of_log
from offpolicy.experiments.ranking.setup import is_ranking, known_as, shuffled, thresholds, trained
from offpolicy.ranking.data._clicks import simulate_clicks
from offpolicy.ranking.data._ranks import ranks
from offpolicy.ranking.data._weights import document_weights
from tests.support.data_sets import queries as made_queries
from tests.support.refusals import refuses


def test_counts_are_sums_over_the_impressions():
    queries = made_queries(20)
    log = simulate_clicks(queries, queries.X[:, 1], sweeps=3.5, rng=2)
    prediction = np.linspace(0, 1, len(queries.relevance))
    place = {qid: k for k, qid in enumerate(queries.qid)}
    rows = np.concatenate(
        [np.arange(queries.offsets[place[q]], queries.offsets[place[q] + 1]) for q in log.query]
    )
    found = counts_of_log(queries, log)
    log = log.replace(prediction=prediction[rows])
    for member in ("IPS", "DM", "SB(tau=0.3)", "CIPS(M=2)", "SWITCH(M=3)", "CAB(M=3)"):
        each = np.bincount(rows, document_weights(log, member), len(prediction))
        assert_allclose(found.weights(member, prediction), each, rtol=1e-12)
    scores = queries.X[:, 0]
    M = np.quantile(1 / log.propensity[log.click > 0], 0.9)
    weight = np.minimum(1 / log.propensity, M) * log.click
    given = ranks(scores[rows], log.offsets)
    assert found.clipped_rank(scores) == pytest.approx((weight * given).sum() / weight.sum())


def test_parts_are_apart_and_judged_documents_are_a_tenth():
    queries = made_queries(200)
    parts = shuffled(queries, 3)
    sets = [set(part.qid.tolist()) for part in parts]
    assert [len(one) for one in sets] == [120, 40, 40]
    assert len(set.union(*sets)) == 200
    made = trained(parts.train, 0.05, 3)
    assert len(made.judged.qid) == 12
    assert set(made.judged.qid.tolist()) | set(made.rest.qid.tolist()) == sets[0]
    again = trained(shuffled(queries, 3).train, 0.05, 3)
    assert_allclose(again.logger(queries.X), made.logger(queries.X))


def test_what_can_be_asked(letor):
    assert known_as("mq2008").name == "MQ2008"
    assert thresholds(known_as("MQ2008")) == (1, 2)
    assert is_ranking("yahoo")
    assert is_ranking("mq2007_85PCT")
    assert not is_ranking("letter")
    with refuses(DatasetError) as caught:
        known_as("yahoo")
    assert "Yahoo-Set1: there is no set1.train.txt" in str(caught.value)


def test_without_the_whole_of_mq2007_its_85_per_cent_are_taken(data):
    folder = data / "ltr" / "MQ2007_85pct"
    folder.mkdir(parents=True)
    (folder / "mq2007_union.txt").write_text("0 qid:1 1:0.5\n1 qid:1 1:0.7\n")
    assert known_as("MQ2007").name == "MQ2007_85pct"
