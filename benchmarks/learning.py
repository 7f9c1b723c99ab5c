"""What a step of learning costs, beside scikit-learn's logistic regression: `make bench-learning`.

Both see the same standardised features of 5,000 decisions, in turn; a step is one iteration of
L-BFGS, with whatever evaluations it needs.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

from offpolicy.datasets import load
from offpolicy.files import write_whole
from offpolicy.learning import SoftmaxLearner
from offpolicy.learning.minimising import minimise
from offpolicy.learning.tasks import Task
from offpolicy.simulation import simulate_bandit

BOUND = 0.6
STEPS = 60


def measure(name: str, n: int, rounds: int) -> dict[str, float | str]:
    """Seconds a step: ours and scikit-learn's, the best of several rounds in turn."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    X, y = load(name)[:2]
    K = int(y.max()) + 1
    rng = np.random.default_rng(0)
    rows = rng.choice(len(y), n)
    log, at = simulate_bandit(X[rows], y[rows], np.full((n, K), 1.0 / K), n=n, rng=rng)
    learner = SoftmaxLearner("CAB-DR(M=30)", start="zero")
    task = Task.of(learner, learner.check(), log, None, None)
    features, labels = StandardScaler().fit_transform(X[rows][at]), y[rows][at]
    best = {"ours": np.inf, "scikit-learn": np.inf}
    for _ in range(rounds):
        start = time.perf_counter()
        found = minimise(task.loss, np.zeros(task.scores.size), most_steps=STEPS, tolerance=0.0)
        best["ours"] = min(best["ours"], (time.perf_counter() - start) / found.steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is stopped before it converges
            start = time.perf_counter()
            theirs = LogisticRegression(C=1.0, max_iter=STEPS, tol=0.0).fit(features, labels)
            spent = time.perf_counter() - start
        best["scikit-learn"] = min(best["scikit-learn"], spent / int(theirs.n_iter_[0]))
    return {"data": name, "n": n, "actions": K, **best}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default="optdigits,letter")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks-learning.json"))
    given = parser.parse_args()
    rows = [measure(name, 5000, given.rounds) for name in given.datasets.split(",")]
    for row in rows:
        ratio = float(row["ours"]) / float(row["scikit-learn"])
        verdict = "ok" if ratio <= BOUND else "OVER"
        print(
            f"{row['data']:<10} {1e3 * float(row['ours']):6.2f} ms a step, {ratio:5.2f} × "
            f"scikit-learn's (at most {BOUND:g}: {verdict})"
        )
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(given.out, json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
