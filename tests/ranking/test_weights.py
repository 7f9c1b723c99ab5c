"""Table 3 and the metrics: against the paper's formulas written out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from offpolicy.errors import EstimatorError, MissingColumnError, ParameterError
from offpolicy.estimators._named import DM, ICE, IPS, SB
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import METRICS, Metric, as_metric, parse_metric
from offpolicy.ranking.data._weights import document_weights, for_rankings, weights_at
from tests.support.refusals import refuses

TABLE_3 = {
    "DM": lambda p, t: (1.0, 0.0),
    "IPS": lambda p, t: (0.0, 1.0),
    "CIPS": lambda p, t: (0.0, min(t * p, 1.0)),
    "SB": lambda p, t: (1.0 - t, t),
    "SWITCH": lambda p, t: (1.0, 0.0) if 1.0 / p > t else (0.0, 1.0),
    "CAB": lambda p, t: (1.0 - min(t * p, 1.0), min(t * p, 1.0)),
}
PARAMETER = {"CIPS": "M", "SB": "tau", "SWITCH": "M", "CAB": "M"}


def named(name: str, t: float) -> str:
    return f"{name}({PARAMETER[name]}={t!r})" if name in PARAMETER else name


def small(**changes) -> RankingLog:
    base = {
        "offsets": [0, 3, 5],
        "rank": [1, 2, 0, 2, 1],
        "click": [1, 0, 0, 1, 0],
        "propensity": [1.0, 0.4, 0.0, 0.25, 0.8],
        "prediction": [0.9, 0.3, 0.5, 0.2, 0.6],
    }
    return RankingLog.from_arrays(**(base | changes))


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(TABLE_3)),
    st.floats(1e-6, 1.0),
    st.floats(0.0, 1.0) | st.floats(0.0, 1e4),
    st.floats(0.0, 1.0),
    st.booleans(),
)
def test_table_3(name, p, t, delta_hat, click):
    if name == "SB":
        t = min(t, 1.0)
    alpha, beta = TABLE_3[name](p, t)
    log = RankingLog.from_arrays(
        offsets=[0, 1], rank=[1], click=[float(click)], propensity=[p], prediction=[delta_hat]
    )
    expected = alpha * delta_hat + beta * click / p
    found = document_weights(log, named(name, t))[0]
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("member", "same_as"),
    [("CAB(M=0)", DM()), ("SB(tau=0)", DM()), ("SB(tau=1)", IPS()), ("SWITCH(M=0)", DM())],
)
def test_limits(member, same_as):
    log = small()
    assert_allclose(document_weights(log, member), document_weights(log, same_as))


def test_what_was_not_shown_is_left_to_the_model_and_is_nothing_to_ips():
    log = small()
    for name, expected in [
        ("DM", 0.5), ("IPS", 0.0), ("CIPS(M=9)", 0.0), ("CAB(M=9)", 0.5), ("CAB(M=inf)", 0.5),
        ("SWITCH(M=inf)", 0.5), ("SB(tau=0.25)", 0.375), ("SGIPS(lam=0.5)", 0.0),
    ]:  # fmt: skip
        assert document_weights(log, name)[2] == expected, name


@pytest.mark.parametrize("name", ["DR", "CAB-DR(M=3)", "SWITCH-DR(M=3)", "DRos(lam=1)", "SGDR"])
def test_what_needs_to_know_the_examined_documents_is_refused(name):
    with refuses(EstimatorError, "estimator"):
        document_weights(small(), name)


@pytest.mark.parametrize("name", ["SNIPS", "SNDR"])
def test_self_normalised_ones_are_refused_with_what_to_do(name):
    with refuses(EstimatorError, "estimator", match="use IPS or CIPS"):
        for_rankings(name)


def test_an_ice_of_two_terms_is_welcome():
    def half(c):
        return np.full_like(c, 0.5)

    log = small(rank=[1, 2, 3, 2, 1], propensity=[1.0, 0.4, 0.3, 0.25, 0.8])
    blend = ICE(half, half, np.zeros_like)
    assert_allclose(document_weights(log, blend), document_weights(log, SB(0.5)))
    with refuses(EstimatorError, "gamma"):
        weights_at(ICE(half, half, half), np.ones(2))


def test_missing_columns():
    with refuses(MissingColumnError, "propensity"):
        document_weights(small(propensity=None), "CAB(M=2)")
    with refuses(MissingColumnError, "prediction"):
        document_weights(small(prediction=None), "CAB(M=2)")
    assert_allclose(document_weights(small(propensity=None), "DM"), small().prediction)
    bare = small(prediction=None)
    assert_allclose(document_weights(bare, "IPS"), [1, 0, 0, 4, 0])
    with refuses(EstimatorError, "M"):
        document_weights(small(), "CAB")


# -- metrics ---------------------------------------------------------------------------------

WRITTEN = {
    "average rank": lambda k: k,
    "sum of ranks": lambda k: k,
    "dcg": lambda k: 1 / math.log2(1 + k),
    "dcg@3": lambda k: 1 / math.log2(1 + k) if k <= 3 else 0,
    "precision@2": lambda k: 0.5 if k <= 2 else 0,
    "recall@2": lambda k: 1 if k <= 2 else 0,
    # Where nothing else is relevant:
    "ndcg": lambda k: 1 / math.log2(1 + k),
    "ndcg@3": lambda k: 1 / math.log2(1 + k) if k <= 3 else 0,
    "err": lambda k: 0.5 / k,
    "err@2": lambda k: 0.5 / k if k <= 2 else 0,
    "reciprocal rank": lambda k: 1 / k,
    "reciprocal rank@1": lambda k: 1 if k == 1 else 0,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_metrics(name):
    metric = parse_metric(name)
    ranks = np.arange(1, 8)
    found = metric.weight(ranks, np.array([0, 7]), np.zeros(7))
    assert_allclose(found, [WRITTEN[name](k) for k in ranks.tolist()])
    assert parse_metric(str(metric)) == metric
    assert as_metric(metric) is metric
    assert parse_metric(f" {name.upper()} ") == metric
    assert metric.higher_is_better == ("rank" not in name or "reciprocal" in name)
    assert metric.is_ratio == (name.split("@")[0] in ("average rank", "recall"))


def test_every_metric_is_tested():
    assert {name.split("@")[0] for name in WRITTEN} == set(METRICS)


@pytest.mark.parametrize(
    ("metric", "column"),
    [
        ("dgc@10", "metric"), ("precision", "k"), ("average rank@3", "k"), ("dcg@0", "k"),
        ("dcg@x", "metric"), (3, "metric"),
    ],
)  # fmt: skip
def test_metrics_that_are_not(metric, column):
    with refuses(
        ParameterError, column, match='Did you mean "dcg"' if metric == "dgc@10" else None
    ):
        as_metric(metric)


def test_a_metric_is_a_value():
    assert Metric("dcg", 10) == parse_metric("DCG@10")


def lists(seed: int, certain: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, ranks and relevance of some lists; ``certain``: of 0 and 1."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, 30)
    relevance = rng.random(sizes.sum())
    relevance = np.round(relevance) if certain else relevance
    rank = np.concatenate([1 + rng.permutation(size) for size in sizes])
    return np.concatenate([[0], np.cumsum(sizes)]), rank, relevance


def by_list(offsets, rank, relevance):
    for low, high in itertools.pairwise(offsets.tolist()):
        order = np.argsort(rank[low:high])
        yield [float(x) for x in relevance[low:high][order]]


@pytest.mark.parametrize("k", [None, 1, 3])
def test_ndcg_is_dcg_over_that_of_the_best_order(k):
    offsets, rank, relevance = lists(0, certain=True)

    def dcg(rel):
        return sum(x / math.log2(2 + j) for j, x in enumerate(rel[:k]))

    expected = [dcg(rel) / (dcg(sorted(rel, reverse=True)) or 1.0)
                for rel in by_list(offsets, rank, relevance)]  # fmt: skip
    terms = Metric("ndcg", k).weight(rank, offsets, relevance) * relevance
    assert_allclose(np.add.reduceat(terms, offsets[:-1]), expected)
    assert max(expected) == pytest.approx(1.0)


@pytest.mark.parametrize("certain", [True, False])
@pytest.mark.parametrize("k", [None, 2])
def test_err_is_the_cascade_of_a_reader_who_goes_on_half_of_the_time(certain, k):
    offsets, rank, relevance = lists(1, certain)
    expected = []
    for rel in by_list(offsets, rank, relevance):
        goes_on, total = 1.0, 0.0
        for j, x in enumerate(rel[:k], start=1):
            total += goes_on * x / 2 / j
            goes_on *= 1 - x / 2
        expected.append(total)
    terms = Metric("err", k).weight(rank, offsets, relevance) * relevance
    assert_allclose(np.add.reduceat(terms, offsets[:-1]), expected)


def test_the_best_order_of_a_fraction_lies_between_whole_numbers():
    ranks, offsets = np.array([1, 2, 3]), np.array([0, 3])
    for relevance, best in (([0.1, 0.2, 0.3], 1.0), ([0.5, 0.5, 0.5], 1 + 0.5 / math.log2(3))):
        found = Metric("ndcg").weight(ranks, offsets, np.array(relevance))
        assert_allclose(found, [1 / best, 1 / math.log2(3) / best, 0.5 / best])


def half_life(rank):
    return 0.5 ** (rank - 1) if rank < 50 else 0.0


def test_a_function_of_the_rank_is_a_metric():
    metric = as_metric(half_life)
    assert str(metric) == "half_life"
    assert metric.higher_is_better
    assert not as_metric(lambda rank: rank**2).higher_is_better
    assert str(as_metric(lambda rank: -rank)) == "own metric"
    assert_allclose(metric.weight(np.array([3, 1, 1, 60])), [0.25, 1, 1, 0])
    assert metric.limits(np.array([1.0, 0.5, -0.25]), 2) == (-0.125, 0.75)


@pytest.mark.parametrize(
    "function",
    [lambda rank: 1.0, lambda rank: math.nan, lambda rank: "much", lambda rank: 1 / (rank - 1)],
)
def test_a_function_that_is_no_metric_is_refused(function):
    with refuses(ParameterError, "metric"):
        as_metric(function)
