"""Examination by rank, estimated from clicks: right, with intervals that cover, or refused."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from offpolicy.errors import LogError, MissingColumnError, ParameterError, ResultError, SupportError
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.propensities import _by_context as contextual
from offpolicy.ranking.propensities import _em as regression_em
from offpolicy.ranking.propensities import _pair_likelihood as pair_likelihood
from offpolicy.ranking.propensities import _pairs as harvesting
from offpolicy.ranking.propensities import _strata as strata
from offpolicy.ranking.propensities._curve import Propensities
from offpolicy.ranking.propensities._estimate import estimate_propensities
from offpolicy.ranking.propensities._pair_likelihood import PairCounts
from tests.support.refusals import refuses

MQ2008 = Path(os.environ.get("OFFPOLICY_DATA", "nowhere")) / "ltr" / "MQ2008"
TOP, DOCS = 6, 8
BETA = np.array([1.0, -0.7, 0.5])


class World(NamedTuple):
    """A log with what was known when it was made."""

    log: RankingLog
    ranks: np.ndarray
    """Of every ranker, (N, rankers)."""
    context: np.ndarray
    p: np.ndarray
    """Of every rank and impression, (n, TOP)."""


def findings(found: Propensities) -> list[tuple[str, str | None]]:
    return [(one.code, one.place) for one in found.findings]


def curve(eta):
    return np.arange(1.0, TOP + 1.0) ** -eta


def simulated(seed, eta=1.0, queries=100, each=20, kind="rankers", depends=0.0, noise=None):
    """Impressions of three rankers, or shuffled at the top; clicks of the position-based model.

    ``depends`` is how fast examination falls with one feature of the query, and ``noise(rank)``
    gives the probability of a click on an irrelevant and on a relevant document that is examined.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries, DOCS, 3))
    chance = 1.0 / (1.0 + np.exp(1.0 - X @ BETA))
    scores = X @ BETA + 0.8 * rng.normal(size=(3, queries, DOCS))
    ranks = (-scores).argsort(axis=2).argsort(axis=2) + 1
    n = queries * each
    query = rng.integers(queries, size=n)
    if kind == "shuffled":
        rank = rng.permuted(np.tile(np.arange(1, DOCS + 1), (n, 1)), axis=1)
    else:
        rank = ranks[rng.integers(3, size=n), query]
    rank = np.where(rank <= TOP, rank, 0)
    context = rng.normal(size=(queries, 2))[query]
    p = np.arange(1, TOP + 1) ** -(eta + depends * context[:, :1])
    p = np.minimum(p, 1.0)
    examined = np.where(rank > 0, np.take_along_axis(p, np.maximum(rank - 1, 0), axis=1), 0.0)
    attractive = chance[query]
    if noise is not None:
        irrelevant, relevant = noise(np.maximum(rank, 1))
        attractive = irrelevant + (relevant - irrelevant) * attractive
    click = rng.random(rank.shape) < examined * attractive
    log = RankingLog.from_arrays(
        offsets=np.arange(0, n * DOCS + 1, DOCS),
        rank=rank.ravel(),
        click=click.ravel().astype(float),
        X=X[query].reshape(-1, 3),
        query=query,
        document=np.tile(np.arange(DOCS), n),
    )
    every = ranks[:, query].transpose(1, 2, 0).reshape(-1, 3)
    return World(log, np.where(every <= TOP, every, 0), context, p)


def estimated(world, method):
    if method == "known":
        return estimate_propensities(world.log, ranks=world.ranks)
    if method == "contextual":
        return estimate_propensities(world.log, "contextual", context=world.context)
    return estimate_propensities(world.log, method)


KIND = {"swaps": "shuffled"}
METHODS = ["pairs", "known", "em", "swaps", "contextual"]
TOGETHER = 1.0 - 0.01 / (5 * 3 * (TOP - 1))
"""Of every interval, such that all five methods, three curves and all ranks hold together."""


# -- the truth is found ----------------------------------------------------------------------


@pytest.mark.parametrize("eta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("method", METHODS)
def test_the_true_curve_is_within_the_intervals(method, eta):
    world = simulated(11, eta, queries=300, each=40, kind=KIND.get(method, "rankers"))
    found = estimated(world, method)
    low, high = found.interval(TOGETHER).T
    assert ((low <= curve(eta)) & (curve(eta) <= high)).all(), str(found)
    # And the intervals say something: within a third at rank 2, and rank 2 is below the first.
    assert found.log_stderr[1] < 0.1
    assert high[1] < 1.0
    assert not found.findings


@pytest.mark.parametrize(
    ("method", "repeats"),
    [("pairs", 100), ("known", 100), ("swaps", 100), ("contextual", 100), ("em", 40)],
)
def test_intervals_cover_as_often_as_they_say(method, repeats):
    hits = []
    for seed in range(repeats):
        world = simulated(1000 + seed, queries=80, each=12, kind=KIND.get(method, "rankers"))
        low, high = estimated(world, method).interval(0.9).T
        hits.append((low <= curve(1.0)) & (curve(1.0) <= high))
    by_rank = np.mean(hits, axis=0)[1:]
    # In standard errors of a share of 0.9 among so many logs; ranks are estimated together.
    assert 0.9 - 2 * 0.3 / np.sqrt(repeats) <= by_rank.mean() <= 0.97, by_rank
    assert by_rank.min() >= 0.9 - 4 * 0.3 / np.sqrt(repeats), by_rank


def test_intervals_by_the_sandwich_agree_with_leaving_out_queries():
    world = simulated(5, queries=60, each=40)
    found = estimated(world, "pairs")
    left_out = np.array(
        [
            np.log(estimate_propensities(world.log.take(world.log.cluster != q)).propensity)
            for q in range(60)
        ]
    )
    jackknife = np.sqrt(59 / 60 * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(found.log_stderr[1:], jackknife[1:], rtol=0.12)


def test_with_few_queries_the_intervals_are_wider_than_normal_ones():
    found = estimated(simulated(5, queries=8, each=100), "pairs")
    assert np.isinf(found.degrees[0])
    assert (found.degrees[1:] <= 7.0).all()
    assert (found.degrees[1:] >= 1.0).all()
    low, high = found.interval(0.95).T
    assert (np.log(high / low)[1:] > 2 * 1.96 * found.log_stderr[1:] * 1.15).all()


@pytest.mark.skipif(not MQ2008.is_dir(), reason="OFFPOLICY_DATA has no ltr/MQ2008")
def test_on_the_queries_of_mq2008():
    from offpolicy.datasets._queries import ranking

    queries = ranking("MQ2008", part="S1")
    rng = np.random.default_rng(0)
    sizes = np.diff(queries.offsets)
    which = rng.permutation(np.repeat(np.flatnonzero(sizes >= 6), 30))
    rows = np.concatenate([np.arange(queries.offsets[i], queries.offsets[i + 1]) for i in which])
    offsets = np.concatenate([[0], np.cumsum(sizes[which])])
    # Two rankers, each by one feature and a fixed jitter.
    jitter = 0.3 * rng.normal(size=(len(queries.X), 2))
    score = queries.X[:, [24, 39]] + jitter
    rank = np.zeros(len(rows), np.int64)
    for i, q in enumerate(which):
        own = score[queries.offsets[q] : queries.offsets[q + 1], rng.integers(2)]
        rank[offsets[i] : offsets[i + 1]] = (-own).argsort(kind="stable").argsort() + 1
    rank[rank > 10] = 0
    relevant = 0.1 + 0.8 * (queries.relevance[rows] >= 1)
    click = rng.random(len(rows)) * np.maximum(rank, 1) < relevant * (rank > 0)
    log = RankingLog.from_arrays(
        offsets=offsets, rank=rank, click=click.astype(float), X=queries.X[rows],
        query=queries.qid[which],
    )  # fmt: skip
    found = estimate_propensities(log)
    low, high = found.interval(TOGETHER).T
    truth = 1.0 / np.arange(1, 11)
    assert ((low <= truth) & (truth <= high)).all(), str(found)


# -- against slow references -------------------------------------------------------------------


def slow_counts(log, top, overlap):
    seen = defaultdict(lambda: [0.0, 0.0])
    for i in range(len(log)):
        for row in range(log.offsets[i], log.offsets[i + 1]):
            if 1 <= log.rank[row] <= top:
                cell = seen[log.query[i], log.document[row], log.rank[row] - 1]
                cell[0] += log.click[row]
                cell[1] += 1.0
    clicks, shown = np.zeros((2, top, top))
    for (q, d, j), (c, n) in seen.items():
        for k in range(top):
            if k != j and (q, d, k) in seen:
                other = seen[q, d, k][1]
                weight = (n * other / (n + other) if overlap else 1.0) / n
                clicks[j, k] += weight * c
                shown[j, k] += weight * n
    return PairCounts(clicks, shown)


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("top", [2, TOP])
def test_counts_of_pairs_equal_a_slow_reference(overlap, top):
    log = simulated(3, queries=15, each=6).log
    fast = harvesting.observed(log, top, overlap).counts()
    slow = slow_counts(log, top, overlap)
    np.testing.assert_allclose(fast.clicks, slow.clicks, rtol=1e-12)
    np.testing.assert_allclose(fast.shown, slow.shown, rtol=1e-12)


@pytest.mark.parametrize("overlap", [True, False])
def test_counts_of_known_rankers_equal_a_slow_reference(overlap):
    world = simulated(4, queries=15, each=6)
    log, traffic = world.log, np.array([0.2, 0.5, 0.3])
    fast = harvesting.known_rankers(log, world.ranks, traffic, TOP, overlap).counts()
    clicks, shown = np.zeros((2, TOP, TOP))
    for row in np.flatnonzero(log.rank > 0):
        w = {k: traffic[world.ranks[row] == k].sum() for k in set(world.ranks[row]) - {0}}
        j = log.rank[row]
        for k in set(w) - {j}:
            weight = (w[j] * w[k] / (w[j] + w[k]) if overlap else 1.0) / w[j]
            clicks[j - 1, k - 1] += weight * log.click[row]
            shown[j - 1, k - 1] += weight
    np.testing.assert_allclose(fast.clicks, clicks, rtol=1e-12)
    np.testing.assert_allclose(fast.shown, shown, rtol=1e-12)


def random_counts(seed, top=4):
    rng = np.random.default_rng(seed)
    shown = rng.uniform(5.0, 50.0, (top, top)) * (1.0 - np.eye(top))
    return PairCounts(shown * rng.uniform(0.05, 0.9, (top, top)), shown)


def test_the_likelihood_is_that_of_the_paper_at_the_best_relevance():
    from scipy.optimize import minimize_scalar

    counts = random_counts(0)
    log_p = np.log([1.0, 0.6, 0.8, 1.3])
    total = 0.0
    for j, k in itertools.combinations(range(4), 2):

        def minus(r, j=j, k=k):
            value = 0.0
            for a, b in ((j, k), (k, j)):
                mean = np.exp(log_p[a]) * r
                c, n = counts.clicks[a, b], counts.shown[a, b]
                value += c * np.log(mean) + (n - c) * np.log(1.0 - mean)
            return -value

        most = 1.0 / np.exp(max(log_p[j], log_p[k]))
        total -= minimize_scalar(minus, bounds=(1e-9, most - 1e-9), options={"xatol": 1e-10}).fun
    assert pair_likelihood.evaluated(log_p, counts).value == pytest.approx(total, rel=1e-8)


def differences(function, x, step=1e-5):
    """Central differences of a function of a flat array."""
    return np.array(
        [
            (np.asarray(function(x + step * unit)) - function(x - step * unit)) / (2 * step)
            for unit in np.eye(len(x))
        ]
    )


def test_derivatives_of_the_pairs_likelihood():
    counts = random_counts(1)
    at = np.log([1.0, 0.6, 0.8, 1.3])
    parts = pair_likelihood.evaluated(at, counts)
    value = differences(lambda x: pair_likelihood.evaluated(x, counts).value, at)
    slope = differences(lambda x: pair_likelihood.evaluated(x, counts).score.sum(axis=1), at)
    np.testing.assert_allclose(parts.score.sum(axis=1), value, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(-pair_likelihood.laplacian(parts), slope, rtol=1e-5, atol=1e-5)


def test_derivatives_of_the_contextual_likelihood():
    world = simulated(6, queries=30, each=10)
    data = contextual.context_pairs(world.log, world.context, TOP, True)
    at = 0.3 * np.random.default_rng(0).normal(size=TOP * 3)

    def parts(x):
        return contextual.value_and_derivatives(x, data, 0.7)

    _, slope, hessian = parts(at)
    np.testing.assert_allclose(slope, differences(lambda x: parts(x)[0], at), rtol=1e-5, atol=1e-5)
    value = differences(lambda x: parts(x)[1], at)
    np.testing.assert_allclose(-hessian, value, rtol=1e-5, atol=1e-5)


def test_the_contextual_pairs_sum_to_those_of_all_queries():
    world = simulated(6, queries=30, each=10)
    data = contextual.context_pairs(world.log, world.context, TOP, True)
    whole = harvesting.observed(world.log, TOP, True).counts()
    np.testing.assert_allclose(data.total.clicks, whole.clicks, rtol=1e-12)
    np.testing.assert_allclose(data.total.shown, whole.shown, rtol=1e-12)
    above = np.zeros((TOP, TOP))
    np.add.at(above, (data.first, data.second), data.above)
    np.add.at(above, (data.second, data.first), data.below)
    np.testing.assert_allclose(above, whole.clicks, rtol=1e-12)


@pytest.mark.parametrize("expected", [True, False])
def test_derivatives_of_the_likelihood_of_regression_em(expected):
    rows = regression_em.rows_of(simulated(7, queries=20, each=10).log, TOP)
    at = np.concatenate([np.log(curve(0.8)), [-0.5, 0.4, -0.2, 0.1]])
    found = regression_em.derivatives(at, rows, 0.7, expected=expected)
    value = differences(lambda x: regression_em.derivatives(x, rows, 0.7).value, at)
    np.testing.assert_allclose(found.gradient, value, rtol=1e-6, atol=1e-5)
    slope = differences(lambda x: regression_em.derivatives(x, rows, 0.7).gradient, at)
    if expected:  # equal on average only
        np.testing.assert_allclose(np.diag(found.curvature)[1:], -np.diag(slope)[1:], rtol=0.3)
    else:
        np.testing.assert_allclose(found.curvature, -slope, rtol=1e-5, atol=1e-4)


def test_em_climbs_to_where_scoring_ends_and_stays_there():
    rows = regression_em.rows_of(simulated(8, queries=20, each=20).log, TOP)
    (block,) = rows.blocks(len(rows.place))
    at = np.concatenate([np.log(curve(0.3)), np.zeros(4)])
    values = []
    for _ in range(400):
        value, at = regression_em.em_step(at, *block[:3], TOP, 1.0)
        values.append(value)
    assert (np.diff(values) >= -1e-9 * abs(values[-1])).all()
    fit = regression_em.maximised(rows, np.ones(TOP, bool), 1.0)
    assert fit.convergence.converged
    assert fit.convergence.log_likelihood == pytest.approx(values[-1], rel=1e-6)
    np.testing.assert_allclose(at[:TOP], fit.log_p, atol=2e-3)


# -- limit cases --------------------------------------------------------------------------------


def test_pivot_and_adjacent_pairs_have_a_closed_form():
    log = simulated(9, queries=200, each=20).log
    clicks = harvesting.observed(log, TOP, True).counts().clicks
    pivot = estimate_propensities(log, pairs="pivot").propensity
    np.testing.assert_allclose(pivot[1:], clicks[1:, 0] / clicks[0, 1:], rtol=1e-7)
    below, above = np.arange(1, TOP), np.arange(TOP - 1)
    chain = np.cumprod(clicks[below, above] / clicks[above, below])
    adjacent = estimate_propensities(log, pairs="adjacent").propensity
    np.testing.assert_allclose(adjacent[1:], chain, rtol=1e-7)


def test_after_a_shuffle_it_is_the_ratio_of_click_through_rates():
    world = simulated(10, kind="shuffled")
    found = estimate_propensities(world.log, "swaps")
    rate = found.clicks / found.shown
    np.testing.assert_allclose(found.propensity, rate / rate[0], rtol=1e-7)


def swapped_log(seed, n=20_000, adjacent=False):
    """Ranks k and k′ of a fixed order swapped by the toss of a coin, in 9 impressions of 10."""
    rng = np.random.default_rng(seed)
    relevance = np.sort(rng.random((n, TOP)), axis=1)[:, ::-1]
    second = rng.integers(2, TOP + 1, size=n)
    which = np.stack([second - 1 if adjacent else np.ones(n, int), second], axis=1)
    which[rng.random(n) < 0.1] = 0
    rank = np.tile(np.arange(1, TOP + 1), (n, 1))
    toss = np.flatnonzero((which[:, 0] > 0) & (rng.random(n) < 0.5))
    rank[toss, which[toss, 0] - 1], rank[toss, which[toss, 1] - 1] = which[toss].T[::-1]
    click = rng.random((n, TOP)) < relevance / rank
    log = RankingLog.from_arrays(
        offsets=np.arange(0, n * TOP + 1, TOP), rank=rank.ravel(), click=click.ravel().astype(float)
    )
    return log, which


@pytest.mark.parametrize("adjacent", [False, True])
def test_swaps_of_two_ranks(adjacent):
    log, which = swapped_log(1, adjacent=adjacent)
    found = estimate_propensities(log, "swaps", swapped=which)
    low, high = found.interval(TOGETHER).T
    assert ((low <= curve(1.0)) & (curve(1.0) <= high)).all(), str(found)
    if not adjacent:
        same = estimate_propensities(log, "swaps", swapped=which[:, 1])
        np.testing.assert_array_equal(same.propensity, found.propensity)
        # Not the plain ratio, which is confounded by what was not randomised.
        rate = found.clicks / found.shown
        assert (rate[3:] / rate[0] < found.interval()[3:, 0]).all()


def test_a_context_that_matters_is_found():
    world = simulated(12, queries=600, each=30, depends=0.3)
    found = estimated(world, "contextual")
    for first in (-1.0, 1.0):
        truth = np.arange(1, TOP + 1) ** -(1.0 + 0.3 * first)
        low, high = found.at([first, 0.5]).interval(TOGETHER).T
        assert ((low <= truth) & (truth <= high)).all()
    assert found.at([-1.0, 0.0]).interval()[3, 0] > found.at([1.0, 0.0]).interval()[3, 1]
    # What is told of every document agrees with it.
    values = found.of(world.log, world.context)
    row = int(np.argmax(world.log.rank == 3))
    context = world.context[world.log.impression[row]]
    assert values[row] == pytest.approx(found.at(context).propensity[2])
    assert (values[world.log.rank == 0] == 0.0).all()


def test_a_context_may_differ_between_impressions_of_a_query():
    world = simulated(13, queries=100, each=60)
    phone = np.random.default_rng(0).integers(2, size=len(world.log)).astype(float)
    # On the phone, half of the clicks below rank 2 never came.
    deep = (world.log.rank > 2) & (phone[world.log.impression] == 1.0)
    lost = deep & (np.random.default_rng(1).random(len(deep)) < 0.5)
    log = world.log.replace(click=np.where(lost, 0.0, world.log.click))
    found = estimate_propensities(log, "contextual", context=phone)
    for value, factor in ((0.0, 1.0), (1.0, 0.5)):
        truth = curve(1.0) * np.where(np.arange(TOP) > 1, factor, 1.0)
        low, high = found.at([value]).interval(TOGETHER).T
        assert ((low <= truth) & (truth <= high)).all()


def test_the_same_documents_without_labels_or_with_words():
    log = simulated(14).log
    plain = estimate_propensities(log).propensity
    by_place = estimate_propensities(log.replace(document=None)).propensity
    words = log.replace(
        document=np.array([f"d{d}" for d in log.document]),
        query=np.array([f"q{q}" for q in log.query]),
    )
    np.testing.assert_allclose(by_place, plain, rtol=1e-12)
    np.testing.assert_allclose(estimate_propensities(words).propensity, plain, rtol=1e-9)
    far = log.replace(document=log.document * 2**59 - 2**62)
    np.testing.assert_allclose(estimate_propensities(far).propensity, plain, rtol=1e-12)


def test_numbers_of_strata_that_would_overflow_are_made_smaller():
    log = simulated(14).log
    kept = strata.within_top(log, TOP)
    owner, within = log.cluster * 2**40, log.document * 2**39
    wide = harvesting.Strata.of(strata.packed(log, owner, within, kept, TOP), True).counts()
    plain = harvesting.observed(log, TOP, True).counts()
    np.testing.assert_allclose(wide.clicks, plain.clicks, rtol=1e-12)


def test_the_order_of_impressions_does_not_matter():
    world = simulated(15)
    order = np.random.default_rng(0).permutation(len(world.log))
    log = world.log.take(order)
    for method in ("pairs", "em"):
        first, second = (estimate_propensities(one, method) for one in (world.log, log))
        np.testing.assert_allclose(first.propensity, second.propensity, rtol=1e-6)
        np.testing.assert_allclose(first.log_stderr, second.log_stderr, rtol=1e-4)


# -- clicks that are not those of the model -----------------------------------------------------


def test_click_noise_leaves_the_estimate_alone():
    noisy = simulated(16, queries=400, each=40, noise=lambda rank: (0.1, 0.9))
    found = estimated(noisy, "pairs")
    low, high = found.interval(TOGETHER).T
    assert ((low <= curve(1.0)) & (curve(1.0) <= high)).all()


def test_trust_in_the_top_is_absorbed():
    def trust(rank):
        return 0.0 * rank, 0.5 + 0.5 / rank

    found = estimated(simulated(17, queries=400, each=40, noise=trust), "pairs")
    low, high = found.interval(TOGETHER).T
    rank = np.arange(1, TOP + 1)
    absorbed = curve(1.0) * (0.5 + 0.5 / rank)
    assert ((low <= absorbed) & (absorbed <= high)).all()
    assert (high[1:] < curve(1.0)[1:]).all()


# -- what the log cannot tell --------------------------------------------------------------------


def small(rank, click, **columns):
    """Impressions of two documents each."""
    n = len(rank) // 2
    columns = {"query": ["q"] * n, "document": ["a", "b"] * n} | columns
    return RankingLog.from_arrays(
        offsets=np.arange(0, 2 * n + 1, 2), rank=rank, click=click, **columns
    )


def test_documents_that_keep_their_rank_cannot_be_harvested():
    log = small([1, 2] * 10, [1, 0] * 9 + [1, 1])
    with refuses(SupportError, "rank"):
        estimate_propensities(log)
    both = small([1, 2, 2, 1] * 5, [1, 0] * 9 + [1, 1])
    with refuses(SupportError, "context"):
        estimate_propensities(both, "contextual", context=np.arange(10.0))


def test_ranks_that_are_not_linked_to_the_first_are_named():
    # Ranks 1 and 2 are swapped, and so are 3 and 4, but never across.
    rng = np.random.default_rng(0)
    n = 400
    turned = rng.random((n, 2)) < 0.5
    rank = np.empty((n, 4), int)
    rank[:, :2] = np.where(turned[:, :1], [2, 1], [1, 2])
    rank[:, 2:] = np.where(turned[:, 1:], [4, 3], [3, 4])
    log = RankingLog.from_arrays(
        offsets=np.arange(0, 4 * n + 1, 4), rank=rank.ravel(),
        click=(rng.random(4 * n) < 0.5).astype(float), query=np.arange(n) % 40,
        document=np.tile(np.arange(4), n),
    )  # fmt: skip
    found = estimate_propensities(log)
    assert np.isnan(found.propensity).tolist() == [False, False, True, True]
    assert np.isnan(found.interval()).any(axis=1).tolist() == [False, False, True, True]
    assert findings(found) == [("rank-not-linked", "ranks 3 and 4")]
    assert "Ranks 3 and 4" in str(found)
    with refuses(SupportError, "rank", match="ranks 3 and 4"):
        found.of(log)
    again = Propensities.from_json(found.to_json())
    np.testing.assert_array_equal(again.propensity, found.propensity)
    context = estimate_propensities(log, "contextual", context=np.arange(n) % 40)
    assert np.isnan(context.propensity).tolist() == [False, False, True, True]


@pytest.mark.parametrize("method", ["pairs", "em"])
def test_a_rank_without_clicks_or_impressions_is_named(method):
    log = simulated(18).log
    click = np.where(log.rank == 5, 0.0, log.click)
    found = estimate_propensities(log.replace(click=click), method)
    assert np.isnan(found.propensity).tolist() == [False] * 4 + [True, False]
    assert findings(found) == [("rank-few-clicks", "rank 5")]
    hidden = log.replace(rank=np.where(log.rank == 5, 0, log.rank), click=click)
    found = estimate_propensities(hidden, method)
    assert np.isnan(found.propensity).tolist() == [False] * 4 + [True, False]
    assert findings(found) == [("rank-not-shown", "rank 5")]


def test_one_query_has_infinite_intervals():
    log = small([1, 2, 2, 1] * 50, [1, 0, 1, 0, 1, 0, 0, 0] * 25)
    found = estimate_propensities(log)
    assert found.propensity == pytest.approx([1.0, 0.5])
    assert found.interval().tolist() == [[1.0, 1.0], [0.0, np.inf]]
    assert findings(found) == [("one-query", None)]
    assert Propensities.from_json(found.to_json()).interval().tolist() == found.interval().tolist()
    device = np.arange(len(log)) // 2 % 2
    context = estimate_propensities(log, "contextual", context=device)
    assert context.at([1.0]).interval()[1].tolist() == [0.0, np.inf]


def test_every_click_at_the_top_is_no_obstacle():
    log = small([1, 2, 2, 1] * 50, [1, 1, 0, 1] * 50, query=list("abcde") * 20)
    found = estimate_propensities(log)
    assert 0.0 < found.propensity[1] < 1.0
    assert np.isfinite(found.interval()).all()


ONE = small([1, 2], [1, 0])
SWAPS = {"method": "swaps"}
CONTEXT = {"method": "contextual"}


@pytest.mark.parametrize(
    ("log", "options", "error", "column"),
    [
        (small([1, 2], [0, 0]), {}, SupportError, "click"),
        (small([1, 2], [0, 1]), {}, SupportError, "click"),
        (small([0, 0], [0, 0]), {}, SupportError, "rank"),
        (small([1, 0], [1, 0]), {}, SupportError, "rank"),
        (ONE, {"top": 3}, ParameterError, "top"),
        (ONE, {"top": 1}, ParameterError, "top"),
        (ONE, {"top": "2"}, ParameterError, "top"),
        (ONE, {"method": "swap"}, ParameterError, "method"),
        (ONE, {"pairs": "pivots"}, ParameterError, "pairs"),
        (ONE, {"swapped": [2]}, ParameterError, "swapped"),
        (ONE, {"traffic": [1, 1]}, ParameterError, "traffic"),
        (small([1, 2], [1, 0], query=None), {}, MissingColumnError, "query"),
        (small([1, 2], [1, 0], document=None), {}, MissingColumnError, "document"),
        (ONE, {"method": "em"}, MissingColumnError, "X"),
        (ONE, {"method": "em", "ridge": -1}, ParameterError, "ridge"),
        (ONE, CONTEXT, MissingColumnError, "context"),
        (ONE, CONTEXT | {"context": [1, 2]}, ParameterError, "context"),
        (ONE, CONTEXT | {"context": [np.nan]}, ParameterError, "context"),
        (ONE, CONTEXT | {"context": [1]}, LogError, "context"),
        (ONE, {"ranks": [[1, 2]]}, ParameterError, "ranks"),
        (ONE, {"ranks": [[1, 2], [-1, 1]]}, ParameterError, "ranks"),
        (ONE, {"ranks": [[1, 2], [1, 1]]}, LogError, "rank"),
        (ONE, {"ranks": [[1, 2], [2, 1]], "traffic": [1, 0]}, ParameterError, "traffic"),
        (ONE, SWAPS | {"swapped": [[2]]}, ParameterError, "swapped"),
        (ONE, SWAPS | {"swapped": [[2, 2]]}, ParameterError, "swapped"),
        (ONE, SWAPS | {"swapped": [5]}, SupportError, "swapped"),
        (ONE, SWAPS, SupportError, "rank"),
    ],
)
def test_what_is_refused(log, options, error, column):
    with refuses(error, column):
        estimate_propensities(log, **options)


def test_a_method_that_is_misspelt_is_guessed():
    with refuses(ParameterError, "method", match='Did you mean "swaps"'):
        estimate_propensities(ONE, "swap")


def test_documents_that_cannot_be_told_apart():
    X = np.arange(8.0).reshape(8, 1) % 4
    X[5] = 7.0
    log = small([1, 2] * 4, [1, 0] * 4, document=None, X=X, query=[1, 2, 1, 2])
    with refuses(LogError, "document", part="impression 2"):
        estimate_propensities(log)


def test_features_that_say_nothing_are_mentioned():
    log = simulated(19).log
    found = estimate_propensities(log.replace(X=np.ones((log.documents, 2))), "em")
    rate = found.clicks / found.shown
    np.testing.assert_allclose(found.propensity, rate / rate[0], rtol=1e-5)
    assert findings(found) == [("same-features", None)]


# -- what is made of it ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["pairs", "em", "contextual"])
def test_saved_and_loaded_it_is_the_same(method, tmp_path):
    found = estimated(simulated(20), method)
    found.save(tmp_path / "p.json")
    again = Propensities.load(tmp_path / "p.json")
    assert again.to_json() == found.to_json()
    assert str(again) == str(found)
    np.testing.assert_array_equal(again.interval(0.8), found.interval(0.8))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "offpolicy.propensities/1", "method": "em"}']
)
def test_a_damaged_file_is_refused(text, tmp_path):
    (tmp_path / "p.json").write_text(text)
    with refuses(ResultError, file="p.json"):
        Propensities.load(tmp_path / "p.json")


def test_a_log_is_filled_with_propensities():
    log = simulated(21).log
    found = estimate_propensities(log)
    filled = found.filled(log)
    at_three = log.rank == 3
    assert (filled.propensity[at_three] == found.propensity[2]).all()
    assert (filled.propensity[log.rank == 0] == 0.0).all()
    short = estimate_propensities(log, top=4)
    with refuses(ParameterError, "rank", 1, part="impression 0, document 1"):
        short.of(log)
    with refuses(ParameterError, "context"):
        found.of(log, np.ones((len(log), 1)))
    with refuses(ParameterError, "context"):
        found.at([1.0])


def test_of_the_contextual_method_the_context_is_asked_for():
    world = simulated(22)
    found = estimated(world, "contextual")
    with refuses(ParameterError, "context"):
        found.of(world.log)
    with refuses(ParameterError, "context"):
        found.of(world.log, world.context[:, :1])
    with refuses(ParameterError, "context"):
        found.at([np.nan, 0.0])


def test_no_propensity_is_above_one():
    log = small(
        [1, 2, 2, 1] * 50,
        [0, 1, 1, 0] * 49 + [1, 0, 0, 1],
        query=list("abcde") * 20,
    )
    found = estimate_propensities(log)
    assert found.propensity[1] > 1.0
    assert found.of(log).max() == 1.0


def test_as_text_it_is_an_aligned_table():
    found = estimated(simulated(23), "em")
    lines = str(found).splitlines()
    assert lines[0].split() == ["rank", "propensity", "95%", "low", "high", "shown", "clicks"]
    assert len({len(line) for line in lines[: TOP + 1]}) == 1
    assert lines[TOP + 1].startswith("Converged after ")
    assert repr(found) == "Propensities(em, 6 ranks)"


# -- curves from elsewhere -----------------------------------------------------------------------


def test_a_known_curve_is_used_as_it_is():
    log = RankingLog.from_arrays(
        offsets=[0, 3], rank=[2, 1, 0], click=[1, 0, 0], query=["q"], document=["a", "b", "c"]
    )
    assert Propensities.known([1.0, 0.3]).of(log).tolist() == [0.3, 1.0, 0.0]
    assert Propensities.power(2.0, 3).propensity.tolist() == [1.0, 1 / 4, 1 / 9]
    assert Propensities.power(0.0, 2).filled(log).propensity.tolist() == [1.0, 1.0, 0.0]
    curve = Propensities.known([1.0, 0.3])
    assert curve.interval().tolist() == [[1.0, 1.0], [0.3, 0.3]]
    assert curve.to_arrow()["rank"].to_pylist() == [1, 2]
    gap = Propensities.known([1.0, np.nan])
    assert findings(gap) == [("curve-gap", "rank 2")]
    with refuses(SupportError, "rank"):
        gap.of(log)
    for row, wrong in ((1, [1.0, 0.0]), (0, [1.5]), (0, [-0.1])):
        with refuses(ParameterError, "propensity", row):
            Propensities.known(wrong)
    with refuses(ParameterError, "eta"):
        Propensities.power(-1.0, 3)
