"""How far estimated examination is from the truth, how often its intervals cover, what it costs.

    python benchmarks/propensities.py error [--repeats 100]
    python benchmarks/propensities.py speed [--impressions 1000000]

Clicks are simulated with propensity (1/rank)^η. 500 queries of 12 documents, 40 impressions each,
are shown by one of three rankers that see relevance through noise. Part of relevance may be unseen
by the features, though not by the rankers, as with rankers that were trained on clicks.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any, NamedTuple

import numpy as np

from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.propensities._estimate import estimate_propensities

TOP, DOCUMENTS, QUERIES, EACH = 10, 12, 500, 40


class World(NamedTuple):
    log: RankingLog
    ranks: Any
    context: Any


def world(seed: int, eta: float, *, shuffled: bool = False, unseen: float = 0.0) -> World:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(QUERIES, DOCUMENTS, 4))
    quality = X @ [1.0, -0.7, 0.5, 0.0] + unseen * rng.normal(size=(QUERIES, DOCUMENTS))
    scores = quality + rng.normal(size=(3, QUERIES, DOCUMENTS))
    ranks = (-scores).argsort(axis=2).argsort(axis=2) + 1
    n = QUERIES * EACH
    query = rng.integers(QUERIES, size=n)
    rank = ranks[rng.integers(3, size=n), query]
    if shuffled:
        rank = rng.permuted(rank, axis=1)
    rank = np.where(rank <= TOP, rank, 0)
    examined = np.where(rank > 0, np.maximum(rank, 1.0) ** -eta, 0.0)
    click = rng.random(rank.shape) < examined / (1.0 + np.exp(2.0 - quality[query]))
    log = RankingLog.from_arrays(
        offsets=np.arange(0, n * DOCUMENTS + 1, DOCUMENTS),
        rank=rank.ravel(),
        click=click.ravel().astype(float),
        X=X[query].reshape(-1, 4),
        query=query,
        document=np.tile(np.arange(DOCUMENTS), n),
    )
    every = ranks[:, query].transpose(1, 2, 0).reshape(-1, 3)
    context = rng.normal(size=(QUERIES, 2))[query]
    return World(log, np.where(every <= TOP, every, 0), context)


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "pairs": ({"unseen": 1.0}, {}),
    "pairs, weighting of the paper": ({"unseen": 1.0}, {"weighting": "paper"}),
    "pairs, each with the first": ({"unseen": 1.0}, {"pairs": "pivot"}),
    "pairs, each with the next": ({"unseen": 1.0}, {"pairs": "adjacent"}),
    "pairs, ranks of all rankers known": ({"unseen": 1.0}, {"ranks": True}),
    "contextual, with two features that do not matter": (
        {"unseen": 1.0},
        {"method": "contextual", "context": True},
    ),
    "swaps, top 10 shuffled": ({"unseen": 1.0, "shuffled": True}, {"method": "swaps"}),
    "em, relevance as the regression has it": ({}, {"method": "em"}),
    "em, a third of relevance unseen": ({"unseen": 1.0}, {"method": "em"}),
}


def errors(repeats: int) -> None:
    print("| method | η | relative error | bias at rank 2 | at rank 5 | at rank 10 | coverage |")
    print("|---|---|---|---|---|---|---|")
    for name, (made, asked) in CASES.items():
        for eta in (0.5, 1.0, 2.0):
            truth = np.arange(1.0, TOP + 1.0) ** -eta
            off, hit = [], []
            for seed in range(repeats):
                one = world(seed, eta, **made)
                options = {
                    key: getattr(one, key) if value is True else value
                    for key, value in asked.items()
                }
                found = estimate_propensities(one.log, top=TOP, **options)
                low, high = found.interval(0.9).T
                off.append(np.log(found.propensity / truth)[1:])
                hit.append(np.where(np.isnan(low), np.nan, (low <= truth) & (truth <= high))[1:])
            bias = " | ".join(_mean(np.array(off)[:, k - 2]) for k in (2, 5, 10))
            print(
                f"| {name} | {eta:g} | {np.sqrt(np.nanmean(np.square(off))):.3f} | {bias} "
                f"| {np.nanmean(hit):.1%} |",
                flush=True,
            )


def _mean(values: Any) -> str:
    """Over the logs that could tell, if they all could."""
    return "–" if np.isnan(values).any() else f"{values.mean():+.3f}"


def speed(n: int, features: int) -> None:
    rng = np.random.default_rng(0)
    queries = max(n // 50, 1)
    query = rng.integers(queries, size=n)
    ranks = rng.permuted(np.tile(np.arange(1, TOP + 1), (4 * queries, 1)), axis=1)
    ranks = ranks.reshape(4, queries, TOP)
    rank = ranks[rng.integers(4, size=n), query]
    click = rng.random((n, TOP)) * rank < 0.5 * rng.random((queries, TOP))[query]
    log = RankingLog.from_arrays(
        offsets=np.arange(0, n * TOP + 1, TOP),
        rank=rank.ravel(),
        click=click.ravel().astype(float),
        X=rng.standard_normal((n * TOP, features), np.float32),
        query=query,
        document=np.tile(np.arange(TOP), n),
    )
    every = ranks[:, query].transpose(1, 2, 0).reshape(-1, 4)
    context = (query % 7).astype(float)
    calls: dict[str, dict[str, Any]] = {
        "pairs": {},
        "pairs, ranks of all rankers known": {"ranks": every},
        "swaps": {"method": "swaps"},
        "contextual": {"method": "contextual", "context": context},
        f"em, {features} features": {"method": "em"},
    }
    few = min(n, 5000)
    print("| method | CPU seconds | peak memory, MB |\n|---|---|---|")
    print(f"| the log itself | – | {_peak():.0f} |")
    for name, options in calls.items():
        part = dict(options)
        if "ranks" in part:
            part["ranks"] = every[: few * TOP]
        if "context" in part:
            part["context"] = context[:few]
        estimate_propensities(log.take(np.arange(few)), **part)  # compiled once
        start = time.process_time()
        estimate_propensities(log, **options)
        print(f"| {name} | {time.process_time() - start:.1f} | {_peak():.0f} |", flush=True)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["error", "speed"])
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--impressions", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=20)
    options = parser.parse_args()
    if options.what == "error":
        errors(options.repeats)
    else:
        speed(options.impressions, options.features)
