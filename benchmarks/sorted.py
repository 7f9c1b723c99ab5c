"""Sorted logs: does a sample of stretches fix model and parameters as well as one of random rows?

The same decisions, shuffled and sorted by action, segment, reward or time (rewards and contexts
drift), with contexts and no model, the sample a fiftieth of the log. Lengths are in units of half
the width of the shuffled log's interval: the headline's root mean squared error, its root mean
squared difference from the shuffled log's, the interval's mean width; and how often it holds the
truth.

    python benchmarks/sorted.py --logs 20 --places 8 32
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np

import offpolicy as op
from offpolicy.evidence import _plan
from offpolicy.logs import _scan

K, SEGMENTS = 10, 40


def softmax(score: np.ndarray) -> np.ndarray:
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def world(n: int, seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], float]:
    """A log's columns, orders of its rows, and what the policy is worth on its contexts."""
    rng = np.random.default_rng([7, seed])
    time = np.sort(rng.random(n))
    segment = rng.integers(SEGMENTS, size=n)
    centre, effect = rng.standard_normal((SEGMENTS, 3)), rng.standard_normal((3, K))
    own = rng.standard_normal((SEGMENTS, K))
    x = centre[segment] + rng.standard_normal((n, 3))
    x[:, 0] += 2.0 * time
    q = 1.0 / (1.0 + np.exp(2.5 - 2.0 * time[:, None] - 0.7 * x @ effect - own[segment]))
    logging = softmax(0.5 * x @ rng.standard_normal((3, K)))
    policy = softmax(x @ effect)
    action = (rng.random((n, 1)) > logging.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
    reward = (rng.random(n) < q[np.arange(n), action]).astype(float)
    orders = {
        "shuffled": rng.permutation(n),
        "by action": np.argsort(action, kind="stable"),
        "by segment": np.argsort(segment, kind="stable"),
        "by reward": np.argsort(reward, kind="stable"),
        "by time": np.arange(n),
    }
    columns = {"action": action, "reward": reward, "context": x, "logging": logging}
    return columns | {"policy": policy}, orders, float((policy * q).sum(axis=1).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--places", type=int, nargs="+", default=[8, 32])
    given = parser.parse_args()
    _plan.SAMPLE = given.rows // 50
    found = defaultdict(list)
    for seed in range(given.logs):
        columns, orders, truth = world(given.rows, seed)
        for name, order in orders.items():
            rows = {column: values[order] for column, values in columns.items()}
            policy = rows.pop("policy")
            log = op.BanditLog.from_arrays(**rows)
            for places in given.places:
                _scan.PLACES = _scan.MOST_PLACES = places
                result = op.evaluate(log, policy, estimators=["IPS"])
                assert result.trained == _plan.SAMPLE
                (answer,) = result.headlines
                found[name, places].append((answer.value, *answer.interval, truth))
    print("| order | places | error | difference | width | coverage |\n|---|---|---|---|---|---|")
    for (name, places), each in found.items():
        value, low, high, truth = np.array(each).T
        base, base_low, base_high, _ = np.array(found["shuffled", places]).T
        unit = (base_high - base_low) / 2
        error, apart = (np.sqrt(np.mean(((value - x) / unit) ** 2)) for x in (truth, base))
        width = ((high - low) / 2 / unit).mean()
        held = int(((low <= truth) & (truth <= high)).sum())
        print(
            f"| {name} | {places} | {error:.2f} | {apart:.2f} | {width:.2f} | "
            f"{held} of {len(value)} |"
        )


if __name__ == "__main__":
    main()
