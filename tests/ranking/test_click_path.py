"""CAB around a model of relevance, over M: against loops over documents."""

from __future__ import annotations

import bisect
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from offpolicy import intervals
from offpolicy.estimators import GRID
from offpolicy.evidence._weight_bins import EDGES
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import parse_metric
from offpolicy.ranking.evaluation._click_path import Question, path_of
from offpolicy.ranking.evaluation._headline import make_headline, what_is_known
from offpolicy.ranking.evaluation._sums import lam_of


def question(seed: int, metric: str, *, top=99, queries=7, independent=True) -> tuple:
    """A small log with a few long lists, shown down to a rank; and a model."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, 12)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rank = np.concatenate([1 + rng.permutation(size) for size in sizes])
    rank = np.where(rank <= top, rank, 0)
    p = np.where(rank > 0, np.maximum(rank, 1.0) ** -rng.choice([0.5, 1.0, 2.0]), 0.0)
    relevance, d = rng.random((2, len(rank))) ** 2
    log = RankingLog.from_arrays(
        offsets=offsets, rank=rank, click=(rng.random(len(rank)) < p * relevance).astype(float),
        propensity=p, prediction=d, query=rng.integers(0, queries, 12),
    )  # fmt: skip
    asked = parse_metric(metric)
    target = np.concatenate([1 + rng.permutation(size) for size in sizes])
    return Question(log, asked, target, lam_of(log, asked, target), 0.95, independent), d


def slow_values(asked: Question, d, M: float) -> tuple[float, float]:
    """Σ λ x and Σ x per impression, x = d + min(1/p, M)(click − pd)."""
    top = bottom = 0.0
    for lam, model, p, click in zip(asked.lam, d, asked.log.propensity, asked.log.click,
                                    strict=True):  # fmt: skip
        x = model + (min(1 / p, M) * (click - p * model) if p > 0 else 0.0)
        top, bottom = top + lam * x, bottom + x
    return top / len(asked.log), bottom / len(asked.log)


def slow(asked: Question, d, g) -> dict[str, np.ndarray]:
    """Everything that the curve holds, document by document, linearised with g."""
    log, n = asked.log, len(asked.log)
    labels = log.cluster[log.impression]
    rows = [(labels[j], g[j], d[j], log.propensity[j], log.click[j]) for j in range(log.documents)]
    seen = [row for row in rows if row[3] > 0]
    total = sum(abs(g) for _, g, _, _, _ in rows)
    hidden = sum(abs(g) for _, g, _, p, _ in rows if p == 0)
    kappa = slow_kappa(seen)
    largest = max((bisect.bisect_right(EDGES, 1 / p) for _, _, _, p, _ in seen), default=0)
    found: dict[str, list[float]] = {name: [] for name in ("value", "variance", "mass", "size",
                                                            "correction")}  # fmt: skip
    for k, M in enumerate(GRID.tolist()):
        top, bottom = slow_values(asked, d, M)
        found["value"].append(top / bottom if asked.metric.is_ratio else top)
        mean = sum(contribution(row, M) for row in rows) / n
        variance = 0.0
        for label in set(log.cluster.tolist()):
            part = sum(contribution(row, M) for row in rows if row[0] == label)
            variance += (part - mean * (log.cluster == label).sum()) ** 2
        variance *= log.queries / (log.queries - 1)
        extra = sum(
            (g * min(1 / p, M)) ** 2 * (p * model * (1 - p * model) - (click - p * model) ** 2)
            for _, g, model, p, click in seen
        )
        found["variance"].append((variance + asked.independent * max(extra, 0)) / n**2)
        left = sum(abs(g) * max(1 - M * p, 0) for _, g, _, p, _ in seen) + hidden
        found["mass"].append(left / total)
        size, shown = slow_residuals(seen, M, kappa)
        if hidden and k >= largest:
            size, shown = slow_residuals(seen, float(GRID[max(largest - 1, 0)]), kappa)
        found["size"].append(min(size, 1.0) * total / n)
        found["correction"].append(left / n * shown)
    return {name: np.array(values) for name, values in found.items()} | {"kappa": kappa}


def contribution(row, M: float) -> float:
    _, g, d, p, click = row
    return g * (d + (min(1 / p, M) * (click - p * d) if p > 0 else 0.0))


def squares_by_bin(seen) -> list[tuple[float, float, float]]:
    """Per bin from its lower edge on: Σω(click(1 − 2d) + pd²), at least 0, and Σ of c times that,
    at least the edge times it."""
    bins: dict[int, list[float]] = {}
    for _, g, d, p, click in seen:
        sums = bins.setdefault(bisect.bisect_right(EDGES, 1 / p), [0.0, 0.0])
        square = abs(g) * (click * (1 - 2 * d) + p * d * d)
        sums[0], sums[1] = sums[0] + square, sums[1] + square / p
    found = []
    for place, (ee, cee) in bins.items():
        edge = float(EDGES[place - 1]) if place else 0.0
        found.append((edge, max(ee, 0.0), max(cee, edge * max(ee, 0.0))))
    return found


def slow_residuals(seen, M: float, kappa: float) -> tuple[float, float]:
    """s, and the mean error as far as it is shown."""
    beyond = [(abs(g) * p, max(1 / p - M, 0.0), g * (click - p * d)) for _, g, d, p, click in seen]
    t = sum(w * x for w, x, _ in beyond)
    scale = noise_scale(seen)
    squares = sum(
        (abs(g) * max(1 / p - M, 0.0)) ** 2 * noise_of(d, p, scale) for _, g, d, p, _ in seen
    )
    N = max(t * t / squares, 1.0) if squares > 0 else 0.0
    capped = M if M > 0 else float(EDGES[0])
    table = squares_by_bin(seen)
    everywhere = sum(cee if edge < capped else capped * ee for edge, ee, cee in table)
    everywhere /= sum(abs(g) * p * min(1 / p, capped) for _, g, _, p, _ in seen)
    there = sum(cee - M * ee for edge, ee, cee in table if edge >= M) / t if N else 0.0
    mean = sum(x * e for _, x, e in beyond) / t if N else 0.0
    size = math.sqrt((N * there + 10 * everywhere) / (N + 10))
    return size, mean * N / (N + 2 / kappa**2)


def noise_scale(seen) -> float:
    """The mean square of relevance less the model, of documents examined."""
    total = sum(ee for _, ee, _ in squares_by_bin(seen))
    return total / sum(abs(g) * p for _, g, _, p, _ in seen)


def noise_of(d: float, p: float, scale: float) -> float:
    """Of a click, in units of that; that of an examined document is p of it at least."""
    return max(p, p * d * (1 - p * d) / scale)


def slow_kappa(seen) -> float:
    scale = noise_scale(seen)
    fine: dict[int, np.ndarray] = {}
    for row in seen:
        _, g, d, p, click = row
        sums = fine.setdefault(bisect.bisect_right(EDGES, 1 / p), np.zeros(5))
        sums += [abs(g) * p, g * g * noise_of(d, p, scale), g * (click - p * d),
                 abs(g) * (click * (1 - 2 * d) + p * d * d), abs(g)]  # fmt: skip
    total = sum(sums[4] for sums in fine.values())
    bands: dict[int, np.ndarray] = {}
    before = 0.0
    for _, sums in sorted(fine.items()):
        sums[3] = max(sums[3], 0.0)
        band = int(min(max((before + 0.5 * sums[4]) / total * 8, 0), 7))
        bands[band] = bands.get(band, 0) + sums
        before += sums[4]
    overall = sum(x[3] for x in bands.values()) / sum(x[0] for x in bands.values())
    top, bottom = 2 * 0.2**2, 2.0
    for rows, squares, e, ee, _ in bands.values():
        N = rows * rows / squares
        size = (N * ee / rows + 10 * overall) / (N + 10)
        if N > 2:
            q = N / (N + 25)
            top, bottom = top + q * ((e / rows) ** 2 / size - 1 / N), bottom + q
    return math.sqrt(min(max(top / bottom, 0.01), 1.0))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "metric", ["sum of ranks", "dcg@3", "average rank", "recall@2", "ndcg@3", "err"]
)
@pytest.mark.parametrize("top", [99, 3])
def test_every_curve_equals_a_loop(metric, top, seed):
    asked, d = question(seed, metric, top=top, independent=seed % 2 == 0)
    path = path_of(asked, d)
    expected = slow(asked, d, path.g)
    for name, values in expected.items():
        found = getattr(path.curve, name)
        assert_allclose(found, values, rtol=1e-9, atol=1e-9 * np.abs(values).max(), err_msg=name)
    if asked.metric.is_ratio:  # linearised at a value of its own
        top_, bottom = slow_values(asked, d, float(GRID[path_at(path.g, asked)]))
        assert_allclose(path.g, (asked.lam - top_ / bottom) / bottom, rtol=1e-9, atol=1e-12)


def path_at(g, asked: Question) -> int:
    """The M of the grid whose value g is linearised at: g is 0 where λ is the value."""
    slope = np.ptp(g) / np.ptp(asked.lam)
    value = asked.lam[0] - g[0] / slope
    known = [slow_values(asked, asked.log.prediction, float(M)) for M in GRID]
    return int(np.argmin([abs(top / bottom - value) for top, bottom in known]))


@pytest.mark.parametrize("metric", ["sum of ranks", "average rank"])
def test_value_and_interval_are_those_of_the_curve(metric):
    asked, _ = question(3, metric)
    known = what_is_known(asked)
    path, curve, log = known.path, known.path.curve, asked.log
    k = int(np.argmin(curve.variance + (curve.kappa * curve.size * curve.mass) ** 2))
    caution = min(5 * curve.kappa, 1.0)
    j = int(np.argmin(curve.variance + (caution * curve.size * curve.mass) ** 2))
    totals = path.moments.group_total[:, j]
    share = (totals**4).sum() / (totals**2).sum() ** 2
    degrees = min(max(2 / (share - 1 / log.queries), 3.0), log.queries - 1)
    p, g = log.propensity, np.abs(path.g)
    weight = np.minimum(1 / p, GRID[j])
    document = (g**2 * p * weight**2).sum() / (g * p * weight).sum() / len(log)
    relevant = path.d.mean()
    worst = (1.0, 1.0) if asked.metric.is_ratio else (relevant, 1 - relevant)
    low, high = (
        curve.value[j] + side * intervals.bias_aware(
            math.sqrt(curve.variance[j] + (document * far) ** 2), curve.plausible_bias[j], 0.95,
            degrees)
        for side, far in zip((-1, 1), worst, strict=True)
    )  # fmt: skip
    assert known.interval == pytest.approx(
        (max(low, asked.metric.limits(asked.lam, len(asked.log))[0]), high), rel=1e-9
    )
    row = make_headline(known)
    assert (row.M, row.interval_M) == (GRID[k], GRID[j])
    value = curve.value[k] + curve.correction[k]
    assert row.value == pytest.approx(min(max(value, row.interval.low), row.interval.high))


def test_one_query_says_nothing_of_others():
    asked, _ = question(1, "sum of ranks", queries=1)
    row = make_headline(what_is_known(asked))
    assert tuple(row.interval) == (0.0, asked.lam.sum() / len(asked.log))  # all are relevant
    assert not row.can_tell
    assert math.isfinite(row.value)
    assert 0.0 < row.stderr < math.inf


def test_what_is_never_shown_is_left_to_the_model_at_every_m():
    asked, d = question(2, "sum of ranks", top=3)
    path = path_of(asked, d)
    hidden = asked.log.propensity == 0.0
    assert_allclose(path.curve.mass[-1], asked.lam[hidden].sum() / asked.lam.sum())
    assert path.curve.bias[-1] > 0.0


def test_a_constant_factor_of_the_metric_is_one_of_the_answer():
    asked, _ = question(5, "precision@2")
    d, thrice = asked.log.prediction, asked._replace(lam=3.0 * asked.lam)
    one, other = (path_of(each, d).curve for each in (asked, thrice))
    for name in ("value", "size", "correction"):
        assert_allclose(getattr(other, name), 3.0 * getattr(one, name), rtol=1e-9)
    assert_allclose(other.variance, 9.0 * one.variance, rtol=1e-9)
    assert_allclose(other.mass, one.mass, rtol=1e-9)
    assert other.kappa == pytest.approx(one.kappa, rel=1e-9)
