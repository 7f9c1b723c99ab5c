"""What learning a ranking costs: `make bench-ranking`, with the sets in OFFPOLICY_DATA.

CPU seconds and passes until the gap to the optimum is certified to be 0.1%, for our solver and for
other methods on the same evaluations; how the cost grows with the length of lists; and what
repeated impressions add.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import ranking_solvers as others
from threadpoolctl import threadpool_limits

from offpolicy._core.files import write_whole
from offpolicy._core.types import Floats, Ints
from offpolicy.datasets._queries import ranking
from offpolicy.ranking.learning._objective import Objective
from offpolicy.ranking.learning._problem import Problem, prepare
from offpolicy.ranking.learning._solver import solve

SETS = {"MQ2007_85pct": 1.0, "ClueWeb09_webis": 2.0}
"""From which judgement on documents are relevant."""
CS = (0.1, 1.0, 10.0, 100.0, 1000.0)
LENGTHS = (50, 100, 200, 500, 1000, 2000)
SWEEPS = (1, 2, 5, 10, 20)
GROWTH, REPEATED = 1.5, 1.5
"""Bounds: times what m·log m would give, and times the cost without repetitions."""
METHODS: dict[str, Callable[[Objective, float], Any]] = {
    "**ours**: L-BFGS on the hinge, then Newton": lambda one, tol: solve(one, tolerance=tol),
    "dense Newton alone, ε from the gap": others.newton_alone,
    "Newton-CG, ε by continuation": others.newton_cg,
    "L-BFGS on Huber's hinge, ε by continuation": others.lbfgs_huber,
    "cutting plane with line search (as OCAS)": others.cutting_plane_search,
    "cutting plane, one slack": others.cutting_plane,
}


class Clicks(NamedTuple):
    """A set with a logger's ranking and a model of relevance."""

    X: Floats
    offsets: Ints
    relevant: Floats
    rank: Floats
    delta_hat: Floats

    @classmethod
    def of(cls, name: str) -> Clicks:
        """The logger is a least-squares fit to 1% of the queries, δ̂ a logistic one to 10%."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler

        found = ranking(name)
        relevant = (found.relevance >= SETS[name]).astype(np.float64)
        n = len(found.qid)
        query = np.repeat(np.arange(n), np.diff(found.offsets))
        order = np.random.default_rng(0).permutation(n)
        few = np.isin(query, order[: max(2, n // 100)])
        some = np.isin(query, order[: max(6, n // 10)])
        Z = StandardScaler().fit(found.X[some]).transform(found.X)
        model = LogisticRegression(max_iter=500).fit(Z[some], relevant[some])
        square = Z[few].T @ Z[few] + 10.0 * np.eye(Z.shape[1])
        score = Z @ np.linalg.solve(square, Z[few].T @ (relevant[few] - relevant[few].mean()))
        rank = np.empty(len(query))
        by_score = np.lexsort((-score, query))
        rank[by_score] = np.arange(1, len(query) + 1) - found.offsets[query]
        return cls(found.X, found.offsets, relevant, rank, model.predict_proba(Z)[:, 1])

    def weights(self, M: float, seed: int = 0) -> Floats:
        """CAB's, for one sweep of clicks: examined with p = 1/rank, clicked if relevant."""
        p = 1.0 / self.rank
        click = self.relevant * (np.random.default_rng(seed).random(len(p)) < p)
        return np.maximum(1.0 - M * p, 0.0) * self.delta_hat + np.minimum(1.0 / p, M) * click


def timed(act: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """The least CPU seconds of several rounds; one is enough if it takes long."""
    best, found = math.inf, None
    for _ in range(rounds):
        start = time.process_time()
        found = act()
        best = min(best, time.process_time() - start)
        if best > 1.0:
            break
    return best, found


def methods(problem: Problem, rounds: int) -> dict[str, list[dict[str, float] | None]]:
    """For each method and C: CPU seconds, passes, objective and certified gap."""
    table: dict[str, list[dict[str, float] | None]] = {}
    for name, method in METHODS.items():
        table[name] = []
        for C in CS:
            kept: list[Objective] = []

            def act(C: float = C, method: Any = method, kept: list[Objective] = kept) -> Any:
                kept[:] = [problem.objective(C)]
                return method(kept[0], 1e-3)

            try:
                seconds, found = timed(act, rounds)
            except others.TooLong:
                table[name].append(None)
                continue
            gap = 1.0 - found.bound / found.objective
            assert gap <= 1e-3
            table[name].append(
                {"seconds": seconds, "passes": kept[0].passes, "objective": found.objective,
                 "gap": gap}
            )  # fmt: skip
    return table


def print_methods(name: str, problem: Problem, table: dict[str, Any]) -> None:
    share = float((problem.c > 0.0).mean())
    print(f"\n{name}: {problem.n:,} impressions, {len(problem.X):,} documents that count, "
          f"{problem.X.shape[1]} features, {share:.0%} with a weight\n")  # fmt: skip
    print("| CPU seconds (passes), C = |", *(f"{C:g} |" for C in CS))
    print("|---|" + "---|" * len(CS))
    for method, cells in table.items():
        shown = (
            f"{cell['seconds']:.3f} ({cell['passes']:.0f}) |" if cell else f"> {others.LIMIT:g} |"
            for cell in cells
        )
        print(f"| {method} |", *shown)
    first = next(iter(table.values()))
    print("| objective |", *(f"{cell['objective']:.6g} |" for cell in first))
    print("| certified relative gap |", *(f"{cell['gap']:.1e} |" for cell in first))


def growth(rounds: int) -> list[dict[str, float]]:
    """50 lists of m documents, each with a weight: one evaluation in another order, and a fit."""
    rng = np.random.default_rng(0)
    d, n, rows = 40, 50, []
    for m in LENGTHS:
        X = rng.normal(size=(n * m, d))
        score = X @ rng.normal(size=d) / math.sqrt(d)
        weights = 0.01 + rng.exponential(size=n * m) / (1.0 + np.exp(4.0 - 2.0 * score))
        problem = prepare(X, np.arange(0, n * m + 1, m), weights, scale=False)
        objective = problem.objective(1.0)
        points = iter(rng.normal(size=(200, d)) / math.sqrt(d))
        objective.at(next(points), 0.1)
        one, _ = timed(lambda at=objective.at, points=points: at(next(points), 0.1), 4 * rounds)
        C = 100.0 / problem.pairs
        fit, found = timed(lambda p=problem, C=C: solve(p.objective(C)), rounds)
        rows.append({"m": m, "pass": one, "fit": fit, "passes": found.passes})
    return rows


def print_growth(rows: list[dict[str, float]]) -> None:
    first = rows[0]
    unit = first["m"] * math.log2(first["m"])
    print("\n| m | one evaluation, ms | × that of m = 50 | m·log m gives | m² gives "
          "| fit, CPU s | passes |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        m = row["m"]
        print(f"| {m:,} | {1e3 * row['pass']:.2f} | {row['pass'] / first['pass']:.1f} "
              f"| {m * math.log2(m) / unit:.1f} | {(m / first['m']) ** 2:,.0f} "
              f"| {row['fit']:.3f} | {row['passes']:.0f} |")  # fmt: skip
    last = rows[-1]
    ratio = last["pass"] / first["pass"] / (last["m"] * math.log2(last["m"]) / unit)
    print(f"\nm = {last['m']:,} costs {ratio:.2f} × what m·log m gives (at most {GROWTH:g}: "
          f"{'ok' if ratio <= GROWTH else 'OVER'})")  # fmt: skip


def repeated(clicks: Clicks, rounds: int) -> list[dict[str, float]]:
    """The same queries shown again and again, with new clicks each time."""
    rows = []
    for sweeps in SWEEPS:
        X = np.tile(clicks.X, (sweeps, 1))
        offsets = np.r_[0, np.cumsum(np.tile(np.diff(clicks.offsets), sweeps))]
        weights = np.concatenate([clicks.weights(10.0, seed) for seed in range(sweeps)])
        ready, problem = timed(lambda x=X, o=offsets, w=weights: prepare(x, o, w, scale=True), 2)
        fit, found = timed(lambda p=problem: solve(p.objective(100.0 / p.pairs)), rounds)
        rows.append(
            {"sweeps": sweeps, "documents": len(X), "kept": len(problem.X), "prepare": ready,
             "fit": fit, "passes": found.passes}
        )  # fmt: skip
    return rows


def print_repeated(rows: list[dict[str, float]]) -> None:
    print("\n| sweeps | documents in the log | after merging | checks and merging, CPU s "
          "| fit, CPU s | passes |")  # fmt: skip
    print("|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['sweeps']} | {row['documents']:,} | {row['kept']:,} | {row['prepare']:.3f} "
              f"| {row['fit']:.3f} | {row['passes']:.0f} |")  # fmt: skip
    ratio = rows[-1]["fit"] / rows[0]["fit"]
    print(f"\n{rows[-1]['sweeps']} sweeps cost {ratio:.2f} × the fit of one (at most {REPEATED:g}: "
          f"{'ok' if ratio <= REPEATED else 'OVER'})")  # fmt: skip


def path(problem: Problem, rounds: int) -> dict[str, float]:
    """All C, each from the end of the last, against each from 0."""

    def along() -> float:
        start, passes = None, 0.0
        for C in CS:
            found = solve(problem.objective(C), start=start)
            start, passes = found.w, passes + found.passes
        return passes

    def apart() -> float:
        return sum(solve(problem.objective(C)).passes for C in CS)

    (warm, warm_passes), (cold, cold_passes) = timed(along, rounds), timed(apart, rounds)
    return {"warm": warm, "cold": cold, "warm passes": warm_passes, "cold passes": cold_passes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default=",".join(SETS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks-ranking.json"))
    given = parser.parse_args()
    result: dict[str, Any] = {}
    with threadpool_limits(1):
        for name in given.datasets.split(","):
            clicks = Clicks.of(name)
            # M = 10, and M = ½, with which every document has a weight.
            for M in (10.0, 0.5):
                weights = clicks.weights(M)
                problem = prepare(clicks.X, clicks.offsets, weights, scale=False)
                for method in METHODS.values():
                    method(problem.objective(0.1), 1e-3)  # compiles
                label = f"{name}, CAB(M={M:g})"
                result[label] = methods(problem, given.rounds)
                print_methods(label, problem, result[label])
                found = path(problem, given.rounds)
                result[f"{label}, path"] = found
                print(f"\nAll five C as a path: {found['warm']:.3f} s "
                      f"({found['warm passes']:.0f} passes), each from 0: {found['cold']:.3f} s "
                      f"({found['cold passes']:.0f})", flush=True)  # fmt: skip
        result["growth"] = growth(given.rounds)
        print_growth(result["growth"])
        result["repeated"] = repeated(Clicks.of(given.datasets.split(",")[0]), given.rounds)
        print_repeated(result["repeated"])
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(given.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
