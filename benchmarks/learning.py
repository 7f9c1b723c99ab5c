"""What learning costs: `make bench-learning`.

A step, beside scikit-learn's logistic regression: both see the same standardised features of 5,000
decisions, in turn; a step is one iteration of L-BFGS, with whatever evaluations it needs.

A whole fit and the error of its policy, beside obp's neural learner, if obp and torch can be
imported (`pip install --no-deps --ignore-requires-python obp==0.5.7`, and torch, tqdm, seaborn,
mock, pyyaml): the log of the learning experiments, with the contexts standardised for obp. One
thread each: set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

from offpolicy._core.files import write_whole
from offpolicy._core.lbfgs import minimise
from offpolicy.datasets._classic import load
from offpolicy.datasets._from_labels import simulate_bandit
from offpolicy.experiments.learning.setup import Condition, Setup, set_up
from offpolicy.learning._softmax_learner import SoftmaxLearner
from offpolicy.learning._task import Task

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


def ours(setup: Setup, **how: str) -> tuple[float, float]:
    """Seconds and expected test error of a fit with the defaults, from the log alone."""
    start = time.perf_counter()
    learner = SoftmaxLearner(**how).fit(setup.train)
    return time.perf_counter() - start, setup.error(learner)


def obps(setup: Setup, objective: str, **how: float) -> tuple[float, float]:
    """The same of obp's NNPolicyLearner."""
    import torch
    from obp.policy import NNPolicyLearner
    from sklearn.preprocessing import StandardScaler

    torch.set_num_threads(1)
    log = setup.train
    assert log.context is not None
    assert log.propensity is not None
    start = time.perf_counter()
    scaler = StandardScaler().fit(log.context)
    learner = NNPolicyLearner(
        n_actions=len(log.actions or ()), dim_context=log.context.shape[1],
        off_policy_objective=objective, random_state=0, **how,
    )  # fmt: skip
    learner.fit(
        context=scaler.transform(log.context), action=log.chosen, reward=log.reward,
        pscore=log.propensity,
    )  # fmt: skip
    spent = time.perf_counter() - start
    pi = learner.predict_proba(scaler.transform(setup.X))[:, :, 0]
    return spent, float(1.0 - pi[np.arange(len(setup.y)), setup.y].mean())


def learners(name: str, runs: int) -> list[dict[str, float | str]]:
    """Whole fits on the same logs, the mean over the runs."""
    setups = [set_up(Condition(name, run)) for run in range(runs)]
    ours(setups[0])  # compiled and loaded
    ways = {
        "ours, linear": lambda setup: ours(setup),
        "ours, kernel": lambda setup: ours(setup, features="kernel"),
    }
    try:
        import obp  # noqa: F401
    except ImportError:
        print("obp cannot be imported: whole fits are ours alone.")
    else:
        for objective in ("ipw", "dr"):
            ways[f"obp, {objective}, as it comes"] = lambda setup, o=objective: obps(setup, o)
            for rate in (1e-3, 1e-2):
                ways[f"obp, {objective}, rate {rate:g}"] = lambda setup, o=objective, r=rate: obps(
                    setup, o, learning_rate_init=r
                )
    rows = []
    for way, fit in ways.items():
        found = np.array([fit(setup) for setup in setups])
        rows.append({"data": name, "learner": way, "seconds": float(found[:, 0].mean()),
                     "error": float(found[:, 1].mean())})  # fmt: skip
        print(f"{name:<10} {way:<26} {found[:, 0].mean():7.2f} s, error {found[:, 1].mean():.4f}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default="optdigits,letter")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=2, help="logs for whole fits; 0 for none")
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
    fits = [
        row
        for name in given.datasets.split(",")
        if given.runs
        for row in learners(name, given.runs)
    ]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(given.out, json.dumps({"steps": rows, "fits": fits}, indent=1) + "\n")


if __name__ == "__main__":
    main()
