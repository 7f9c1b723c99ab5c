"""Simulated clicks: exact propensities, exact expectations, seeds, sweeps and cut-offs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from offpolicy.errors import ParameterError, PolicyError
from offpolicy.logs.formats.letor import Queries
from offpolicy.ranking.data._clicks import (
    DependentClicks,
    PositionBased,
    at_rank,
    cascade,
    simulate_clicks,
)
from tests.support.refusals import refuses

SIZES = [4, 1, 3]


def judged(sizes=SIZES, seed=0) -> Queries:
    rng = np.random.default_rng(seed)
    total = sum(sizes)
    return Queries(
        rng.normal(size=(total, 2)),
        rng.integers(0, 3, total).astype(float),
        np.cumsum([0, *sizes]),
        np.arange(10, 10 + len(sizes)),
        0,
    )


MODELS = [
    PositionBased(),
    PositionBased(eta=0.5, relevant=0.9, irrelevant=0.1),
    PositionBased(eta=2.0, relevant=(0.95, 0.8, 0.7), irrelevant=(0.4, 0.2)),
    DependentClicks(0.5, relevant=0.8, irrelevant=0.2),
    DependentClicks((0.9, 0.4, 0.2), relevant=0.7, irrelevant=0.3),
    cascade(relevant=0.6, irrelevant=0.1),
]


def reading(model, attraction) -> np.ndarray:
    """P(examined) down a list, by going through all outcomes of clicks and stops."""
    if isinstance(model, PositionBased):
        return np.array([(1 / k) ** model.eta for k in range(1, len(attraction) + 1)])
    found = np.zeros(len(attraction))
    for clicks in itertools.product([0, 1], repeat=len(attraction)):
        for goes_on in itertools.product([0, 1], repeat=len(attraction)):
            chance, reads = 1.0, True
            seen = np.zeros(len(attraction))
            for k, a in enumerate(attraction):
                more = at_rank(model.goes_on, np.array([k + 1]))[0]
                chance *= (a if clicks[k] else 1 - a) * (more if goes_on[k] else 1 - more)
                seen[k] = reads
                reads = reads and not (clicks[k] and not goes_on[k])
            found += chance * seen
    return found


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_propensities_against_all_outcomes(model):
    queries = judged()
    log = simulate_clicks(queries, queries.X[:, 0], model)
    for i in range(len(log)):
        rows = slice(log.offsets[i], log.offsets[i + 1])
        order = np.argsort(log.rank[rows])
        relevance = log.relevance[rows][order]
        k = np.arange(1, len(order) + 1)
        plus = at_rank(model.relevant, k)
        minus = at_rank(model.irrelevant, k)
        attraction = np.where(relevance == 1, plus, minus)
        assert_allclose(log.propensity[rows][order], reading(model, attraction), rtol=1e-12)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_clicks_come_as_often_as_they_should(model):
    queries = judged()
    sweeps = 4000
    log = simulate_clicks(queries, queries.X[:, 0], model, sweeps=sweeps, rng=7)
    expected = log.propensity * model.attraction(log.rank, log.relevance)
    N = sum(SIZES)
    found = log.click.reshape(sweeps, N).mean(axis=0)
    chance = expected.reshape(sweeps, N)[0]
    spread = np.sqrt(chance * (1 - chance) / sweeps)
    sure = spread == 0
    assert_array_equal(found[sure], chance[sure])
    assert (np.abs(found - chance)[~sure] / spread[~sure]).max() < 4.5


def test_clicks_of_the_position_based_model_are_independent_and_of_a_cascade_are_single():
    queries = judged([3])
    noisy = {"relevant": 0.7, "irrelevant": 0.5}
    log = simulate_clicks(queries, queries.X[:, 0], PositionBased(**noisy), sweeps=20_000)
    clicks = log.click.reshape(-1, 3)
    assert np.abs(np.corrcoef(clicks.T) - np.eye(3)).max() < 0.03
    log = simulate_clicks(queries, queries.X[:, 0], cascade(**noisy), sweeps=2000)
    assert log.click.reshape(-1, 3).sum(axis=1).max() == 1


def test_what_is_never_reached_was_not_shown():
    queries = judged([3])
    queries = queries._replace(relevance=np.array([1.0, 0.0, 1.0]))
    log = simulate_clicks(queries, [3.0, 2.0, 1.0], cascade(), sweeps=3)
    assert log.rank[:3].tolist() == [1, 0, 0]
    assert log.propensity[:3].tolist() == [1, 0, 0]
    assert log.click[:3].tolist() == [1, 0, 0]


def test_sweeps():
    queries = judged([2] * 40)
    half = simulate_clicks(queries, queries.X[:, 0], sweeps=0.5, rng=1)
    assert len(half) == 20
    assert len(set(half.query.tolist())) == 20
    assert (
        half.query.tolist()
        != simulate_clicks(queries, queries.X[:, 0], sweeps=0.5, rng=2).query.tolist()
    )
    more = simulate_clicks(queries, queries.X[:, 0], sweeps=2.25, rng=1)
    counts = np.bincount(more.query - 10)
    assert sorted(counts.tolist()) == [2] * 30 + [3] * 10
    for i in range(len(more)):
        k = more.query[i] - 10
        assert_array_equal(
            more.X[more.offsets[i] : more.offsets[i + 1]], queries.X[2 * k : 2 * k + 2]
        )


def test_seeds():
    queries = judged([5] * 30)
    same = [simulate_clicks(queries, queries.X[:, 0], rng=s).click for s in (3, 3, 4)]
    assert_array_equal(same[0], same[1])
    assert (same[0] != same[2]).any()


def test_a_cut_off_and_leaving_the_features_out():
    queries = judged()
    log = simulate_clicks(queries, queries.X[:, 0], top=2, features=False, relevant=2)
    assert log.X is None
    assert [log.rank[a:b].max() for a, b in itertools.pairwise(log.offsets)] == [2, 1, 2]
    assert_array_equal(log.propensity > 0, log.rank > 0)
    assert_array_equal(log.relevance, queries.relevance >= 2)


@pytest.mark.parametrize(
    ("column", "call"),
    [
        ("eta", lambda q: PositionBased(eta=-1)),
        ("eta", lambda q: PositionBased(eta=math.nan)),
        ("relevant", lambda q: PositionBased(relevant=1.5)),
        ("irrelevant", lambda q: PositionBased(irrelevant=())),
        ("goes_on", lambda q: DependentClicks(goes_on=(0.5, -0.1))),
        ("sweeps", lambda q: simulate_clicks(q, q.X[:, 0], sweeps=0)),
        ("sweeps", lambda q: simulate_clicks(q, q.X[:, 0], sweeps=0.1)),
        ("top", lambda q: simulate_clicks(q, q.X[:, 0], top=0)),
    ],
)
def test_what_is_refused(column, call):
    with refuses(ParameterError, column):
        call(judged())


def test_scores_that_do_not_fit():
    with refuses(PolicyError, "score"):
        simulate_clicks(judged(), [1.0, 2.0])
