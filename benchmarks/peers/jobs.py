"""What `make bench-peers` times: the same work by us, by version 0.1, and by others.

Run as a process of its own, so that nobody's memory or compiled code is another's:
``python benchmarks/peers/jobs.py WORK WHO FOLDER ROUNDS`` prints one line of JSON: the best
seconds, the growth of the process's peak memory, and the values computed.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from data import Arrays, Floats

Values = dict[str, float]
Job = Callable[[Path], Callable[[], Values]]
"""Reads what it needs from a folder, and returns the work that is timed."""

JOBS: dict[tuple[str, str], Job] = {}
M = 5.0
NINE = [
    "DM", "IPS", "CIPS(M=5)", "SNIPS", "DR", "SNDR", "SWITCH-DR(M=5)", "DRos(lam=5)",
    "CAB-DR(M=5)",
]  # fmt: skip
FOUR = ["IPS", "SNIPS", "DR", "CAB-DR(M=5)"]
RESAMPLES = 2_000
FEW_RESAMPLES = 20
"""Of those who would take minutes; their seconds are multiplied."""


def job(work: str, *who: str) -> Callable[[Job], Job]:
    def register(function: Job) -> Job:
        JOBS.update({(work, each): function for each in who})
        return function

    return register


def values_of(result: Any, names: list[str]) -> Values:
    return {name: float(result[name].value) for name in names}


# -- the family, in memory -----------------------------------------------------------------------


@job("family", "ours", "0.1")
def family(folder: Path) -> Callable[[], Values]:
    import offpolicy as op

    given = Arrays.load(folder)

    def run(part: Arrays = given) -> Values:
        log = op.BanditLog.from_arrays(action=part.action, reward=part.reward, logging=part.pi0)
        return values_of(op.evaluate(log, part.pi, prediction=part.q, estimators=NINE), NINE)

    run(given.first(150_000))  # enough for compiled loops
    return run


@job("family", "numpy")
def family_by_numpy(folder: Path) -> Callable[[], Values]:
    """Value and standard error of the nine in one pass, in blocks that stay in the cache."""
    given = Arrays.load(folder)

    def run() -> Values:
        n = len(given.action)
        names = [name for name in NINE if name not in ("SNIPS", "SNDR")]
        sums, squares = np.zeros(len(names)), np.zeros(len(names))
        total = np.zeros(3)
        for start in range(0, n, 16_384):
            part = slice(start, min(start + 16_384, n))
            pi, pi0, q, action = (x[part] for x in (given.pi, given.pi0, given.q, given.action))
            rows = np.arange(len(action))
            chosen, reward = q[rows, action], given.reward[part]
            c = pi[rows, action] / pi0[rows, action]
            direct = (pi * q).sum(axis=1)
            residual = reward - chosen
            clipped = np.minimum(c, M)
            columns = np.stack([
                direct, c * reward, clipped * reward, direct + c * residual,
                direct + np.where(c <= M, c, 0.0) * residual,
                direct + M * c / (c**2 + M) * residual,
                direct + clipped * residual,
            ])  # fmt: skip
            sums += columns.sum(axis=1)
            squares += (columns**2).sum(axis=1)
            total += np.array([c.sum(), (c * reward).sum(), (c * residual).sum()])
        values = dict(zip(names, sums / n, strict=True))
        _ = np.sqrt((squares / n - (sums / n) ** 2) / n)
        values["SNIPS"] = total[1] / total[0]
        values["SNDR"] = values["DM"] + total[2] / total[0]
        return {name: float(values[name]) for name in NINE}

    return run


@job("family", "reading")
def family_read(folder: Path) -> Callable[[], Values]:
    """The least that anyone must do: read the three arrays once."""
    given = Arrays.load(folder)
    return lambda: {"": float(given.pi.sum() + given.pi0.sum() + given.q.sum())}


@job("family", "obp")
def family_by_obp(folder: Path) -> Callable[[], Values]:
    ope, pi, q = _obp(folder, NINE)

    def run() -> Values:
        made = ope.estimate_policy_values(action_dist=pi, estimated_rewards_by_reg_model=q)
        return {name: float(value) for name, value in made.items()}

    return run


def _obp(folder: Path, names: list[str]) -> tuple[Any, Floats, Floats]:
    from obp import ope

    of_name = {
        "DM": ope.DirectMethod(estimator_name="DM"),
        "IPS": ope.InverseProbabilityWeighting(estimator_name="IPS"),
        "CIPS(M=5)": ope.InverseProbabilityWeighting(lambda_=M, estimator_name="CIPS(M=5)"),
        "SNIPS": ope.SelfNormalizedInverseProbabilityWeighting(estimator_name="SNIPS"),
        "DR": ope.DoublyRobust(estimator_name="DR"),
        "SNDR": ope.SelfNormalizedDoublyRobust(estimator_name="SNDR"),
        "SWITCH-DR(M=5)": ope.SwitchDoublyRobust(lambda_=M, estimator_name="SWITCH-DR(M=5)"),
        "DRos(lam=5)": ope.DoublyRobustWithShrinkage(lambda_=M, estimator_name="DRos(lam=5)"),
        "CAB-DR(M=5)": ope.DoublyRobust(lambda_=M, estimator_name="CAB-DR(M=5)"),
    }
    given = Arrays.load(folder)
    n, K = given.pi.shape
    feedback = {
        "n_rounds": n, "n_actions": K, "action": given.action, "reward": given.reward,
        "position": None, "pscore": given.pi0[given.chosen], "context": np.zeros((n, 1)),
        "action_context": None, "pi_b": None, "expected_reward": None,
    }  # fmt: skip
    estimators = [of_name[name] for name in names]
    ope_ = ope.OffPolicyEvaluation(bandit_feedback=feedback, ope_estimators=estimators)
    return ope_, given.pi[:, :, None], given.q[:, :, None]


@job("family", "duckdb")
def family_by_duckdb(folder: Path) -> Callable[[], Values]:
    """One aggregate in SQL over the Parquet file of the same log: its decoding is in the time."""
    import duckdb

    connection = duckdb.connect()
    file = folder / "log.parquet"

    def run() -> Values:
        row = connection.execute(
            f"""
            WITH rows AS (
                SELECT reward AS r, new[action + 1] / logging[action + 1] AS c,
                       list_dot_product(new, q) AS d, q[action + 1] AS m FROM '{file}')
            SELECT avg(d), avg(c * r), avg(least(c, {M}) * r), sum(c * r) / sum(c),
                   avg(d + c * (r - m)), avg(d) + sum(c * (r - m)) / sum(c),
                   avg(d + CASE WHEN c <= {M} THEN c ELSE 0 END * (r - m)),
                   avg(d + {M} * c / (c * c + {M}) * (r - m)),
                   avg(d + least(c, {M}) * (r - m)) FROM rows
            """
        ).fetchone()
        assert row is not None
        return dict(zip(NINE, map(float, row), strict=True))

    return run


@job("family", "polars")
def family_by_polars(folder: Path) -> Callable[[], Values]:
    """IPS, SNIPS and the clipped one, which need the chosen action alone."""
    import polars as pl

    file = folder / "log.parquet"

    def run() -> Values:
        c = pl.col("new").list.get(pl.col("action")) / pl.col("logging").list.get(pl.col("action"))
        r = pl.col("reward")
        made = pl.scan_parquet(file).select(
            (c * r).mean().alias("IPS"), (c.clip(upper_bound=M) * r).mean().alias("CIPS(M=5)"),
            ((c * r).sum() / c.sum()).alias("SNIPS"),
        )  # fmt: skip
        return {name: float(value) for name, value in made.collect().row(0, named=True).items()}

    return run


@job("family", "vw-estimators")
def family_by_vw(folder: Path) -> Callable[[], Values]:
    """IPS and SNIPS, a row at a time as its users feed it."""
    from estimators.bandits import ips, snips

    given = Arrays.load(folder)
    few = given.first(min(len(given.action), 100_000))
    old, new = few.pi0[few.chosen].tolist(), few.pi[few.chosen].tolist()

    def run() -> Values:
        made = {"IPS": ips.Estimator(), "SNIPS": snips.Estimator()}
        for p_log, p_pred, r in zip(old, new, few.reward.tolist(), strict=True):
            for each in made.values():
                each.add_example(p_log, r, p_pred)
        for each in made.values():
            each.get()
        return {"per": len(given.action) / len(few.action)}

    return run


# -- bootstrap -----------------------------------------------------------------------------------


@job("bootstrap", "ours", "0.1")
def bootstrap(folder: Path) -> Callable[[], Values]:
    import offpolicy as op

    given = Arrays.load(folder)

    def run(part: Arrays = given) -> Values:
        log = op.BanditLog.from_arrays(action=part.action, reward=part.reward, logging=part.pi0)
        made = op.evaluate(log, part.pi, prediction=part.q, estimators=FOUR, interval="bootstrap")
        ends = {f"{name} low": float(made[name].interval.low) for name in FOUR}
        return ends | {f"{name} high": float(made[name].interval.high) for name in FOUR}

    run(given.first(150_000))  # enough for compiled loops
    return run


@job("bootstrap", "numpy")
def bootstrap_by_numpy(folder: Path) -> Callable[[], Values]:
    given = Arrays.load(folder)
    c = given.pi[given.chosen] / given.pi0[given.chosen]
    direct, residual = (given.pi * given.q).sum(axis=1), given.reward - given.q[given.chosen]
    columns = np.stack(
        [c * given.reward, c, direct + c * residual, direct + np.minimum(c, M) * residual]
    )
    rng = np.random.default_rng(0)

    def run() -> Values:
        n, drawn = len(c), []
        for _ in range(FEW_RESAMPLES):
            sums = columns[:, rng.integers(0, n, n)].mean(axis=1)
            drawn.append([sums[0], sums[0] / sums[1], sums[2], sums[3]])
        np.quantile(drawn, [0.025, 0.975], axis=0)
        return {"per": RESAMPLES / FEW_RESAMPLES}

    return run


@job("bootstrap", "obp")
def bootstrap_by_obp(folder: Path) -> Callable[[], Values]:
    ope, pi, q = _obp(folder, FOUR)

    def run() -> Values:
        ope.estimate_intervals(
            action_dist=pi, estimated_rewards_by_reg_model=q, n_bootstrap_samples=FEW_RESAMPLES
        )
        return {"per": RESAMPLES / FEW_RESAMPLES}

    return run


# -- contexts, and no model ----------------------------------------------------------------------


def _contexts(folder: Path) -> dict[str, Any]:
    names = ("X", "pi0", "pi", "action", "reward", "truth")
    return {name: np.load(folder / f"{name}.npy") for name in names}


@job("contexts", "ours", "0.1")
def contexts(folder: Path) -> Callable[[], Values]:
    import offpolicy as op

    given = _contexts(folder)

    def run(part: dict[str, Any] = given) -> Values:
        log = op.BanditLog.from_arrays(
            action=part["action"], reward=part["reward"], logging=part["pi0"], context=part["X"]
        )
        return {"DR": float(op.evaluate(log, part["pi"], estimators=["DM", "DR"])["DR"].value)}

    run({name: values[:2_000] for name, values in given.items()})  # enough for compiled loops
    return run


@job("contexts", "numpy")
def contexts_by_numpy(folder: Path) -> Callable[[], Values]:
    """The closed form: a ridge per action and fold, solved in one batch; then DR."""
    given = _contexts(folder)
    folds = 5

    def run() -> Values:
        X, action, reward = given["X"], given["action"], given["reward"]
        n, K = given["pi"].shape
        A = np.hstack([X, np.ones((n, 1))])
        d = A.shape[1]
        fold = np.arange(n) % folds
        key = fold * K + action
        order = np.argsort(key, kind="stable")
        starts = np.searchsorted(key[order], np.arange(folds * K))
        filled = np.flatnonzero(np.diff(np.append(starts, n)))
        outer = (A[:, :, None] * A[:, None, :]).reshape(n, -1)[order]
        gram, target = np.zeros((folds * K, d * d)), np.zeros((folds * K, d))
        gram[filled] = np.add.reduceat(outer, starts[filled])
        target[filled] = np.add.reduceat((A * reward[:, None])[order], starts[filled])
        gram, target = gram.reshape(folds, K, d, d), target.reshape(folds, K, d)
        gram, target = gram.sum(axis=0) - gram, target.sum(axis=0) - target
        theta = np.linalg.solve(gram + np.eye(d), target[..., None])[..., 0]
        q = np.empty((n, K))
        for f in range(folds):
            q[fold == f] = A[fold == f] @ theta[f].T
        rows = np.arange(n)
        c = given["pi"][rows, action] / given["pi0"][rows, action]
        dr = (given["pi"] * q).sum(axis=1) + c * (reward - q[rows, action])
        return {"its own DR": float(dr.mean())}

    return run


# -- learning ------------------------------------------------------------------------------------


@job("learn-files", "in memory")
@job("learn", "ours", "0.1")
def learn(folder: Path) -> Callable[[], Values]:
    import offpolicy as op

    given = _contexts(folder)
    log = op.BanditLog.from_arrays(
        action=given["action"], reward=given["reward"], logging=given["pi0"], context=given["X"]
    )

    def run() -> Values:
        policy = op.learning.SoftmaxLearner().fit(log)
        pi = np.asarray(policy.policy_.probabilities(log)).reshape(given["truth"].shape)
        return _worth(pi, given)

    return run


@job("learn-files", "ours")
def learn_from_files(folder: Path) -> Callable[[], Values]:
    import offpolicy as op

    given = _contexts(folder)
    names = [f"x{k}" for k in range(given["X"].shape[1])]
    whole = op.BanditLog.from_arrays(
        action=given["action"], reward=given["reward"], logging=given["pi0"], context=given["X"]
    )

    def run() -> Values:
        log = op.read_log(folder / "log.parquet", op.Columns(context=names))
        policy = op.learning.SoftmaxLearner().fit(log)
        pi = np.asarray(policy.policy_.probabilities(whole)).reshape(given["truth"].shape)
        return _worth(pi, given)

    return run


@job("learn", "scikit-learn")
def learn_by_sklearn(folder: Path) -> Callable[[], Values]:
    """What most do: a weighted classifier of rewarded actions."""
    from sklearn.linear_model import LogisticRegression

    given = _contexts(folder)

    def run() -> Values:
        rows = np.arange(len(given["action"]))
        weight = given["reward"] / given["pi0"][rows, given["action"]]
        model = LogisticRegression(max_iter=1000).fit(given["X"], given["action"], weight)
        return _worth(model.predict_proba(given["X"]), given)

    return run


def _worth(pi: Floats, given: dict[str, Any]) -> Values:
    """What a policy earns in truth; values need not agree, more is better."""
    return {"worth": float((pi * given["truth"]).sum(axis=1).mean())}


# -- rankings ------------------------------------------------------------------------------------


@job("letor", "ours", "0.1")
def letor(folder: Path) -> Callable[[], Values]:
    import offpolicy as op

    def run() -> Values:
        found = op.datasets.letor(folder / "queries.txt")
        return {"rows": float(len(found.relevance)), "sum": float(found.X.sum())}

    return run


@job("letor", "scikit-learn")
def letor_by_sklearn(folder: Path) -> Callable[[], Values]:
    from sklearn.datasets import load_svmlight_file

    def run() -> Values:
        X, y, _ = load_svmlight_file(str(folder / "queries.txt"), query_id=True)
        return {"rows": float(len(y)), "sum": float(X.sum())}

    return run


def _clicks(folder: Path) -> tuple[Floats, Any, Floats, Floats, Floats]:
    """Documents ranked by one feature, clicked if relevant and examined, with p = 1/rank."""
    import offpolicy as op

    found = op.datasets.letor(folder / "queries.txt")
    relevant = (found.relevance >= 1).astype(float)
    query = np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))
    order = np.lexsort((-found.X[:, 0], query))
    rank = np.empty(len(query))
    rank[order] = np.arange(1, len(query) + 1) - found.offsets[query]
    click = relevant * (np.random.default_rng(0).random(len(query)) < 1.0 / rank)
    return found.X, found.offsets, relevant, rank, click


def _average_rank(score: Floats, offsets: Any, relevant: Floats) -> Values:
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((-score, query))
    rank = np.empty(len(query))
    rank[order] = np.arange(1, len(query) + 1) - offsets[query]
    return {"average rank": float((rank * relevant).sum() / relevant.sum())}


@job("svm-rank", "ours", "0.1")
def svm_rank(folder: Path) -> Callable[[], Values]:
    import offpolicy as op

    X, offsets, relevant, rank, click = _clicks(folder)
    weights = click * rank

    def run() -> Values:
        ranker = op.ranking.PropensitySVMRank(C=10.0).fit_weights(X, offsets, weights)
        return _average_rank(X @ ranker.coef_.reshape(-1), offsets, relevant)

    return run


@job("svm-rank", "lightgbm")
def svm_rank_by_lightgbm(folder: Path) -> Callable[[], Values]:
    """Lambdarank on the clicks, weighted by 1/p."""
    from lightgbm import LGBMRanker

    X, offsets, relevant, rank, click = _clicks(folder)

    def run() -> Values:
        model = LGBMRanker(objective="lambdarank", verbose=-1, random_state=0)
        weight = np.where(click > 0.0, rank, 1.0)
        model.fit(X, click.astype(int), group=np.diff(offsets), sample_weight=weight)
        return _average_rank(np.asarray(model.predict(X)), offsets, relevant)

    return run


# -- Spark ---------------------------------------------------------------------------------------


@job("spark", "ours", "local[1]", "a DataFrame")
def spark(folder: Path) -> Callable[[], Values]:
    """By Spark, which has started before the clock does."""
    import os

    from pyspark.sql import SparkSession

    import offpolicy as op

    os.environ["PYSPARK_PYTHON"] = sys.executable
    master = "local[1]" if sys.argv[2] == "local[1]" else "local[2]"
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.memory", "4g").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    file = str(folder / "log.parquet")

    def run() -> Values:
        if sys.argv[2] == "a DataFrame":
            log = op.read_log(session.read.parquet(file))
        else:
            log = op.read_log(file, engine="spark")
        return values_of(op.evaluate(log, "new", prediction="q", estimators=NINE), NINE)

    return run


@job("spark", "embedded")
def embedded(folder: Path) -> Callable[[], Values]:
    import offpolicy as op

    def run() -> Values:
        log = op.read_log(folder / "log.parquet", threads=2)
        return values_of(op.evaluate(log, "new", prediction="q", estimators=NINE), NINE)

    return run


# -- files: processes of their own, from the first import to the last line ----------------------


def scan(folder: str, columns: str, memory: str = "", threads: str = "") -> None:
    """A bare scan: DuckDB to an Arrow reader over the same columns, in order."""
    import duckdb

    settings = {"memory_limit": memory} if memory else {}
    settings |= {"threads": threads} if threads else {}
    connection = duckdb.connect(config=settings)
    for _ in connection.sql(f"SELECT {columns} FROM '{folder}/log.parquet'").to_arrow_reader(
        16_384
    ):
        pass


def scan_csv(folder: str) -> None:
    """The same of a CSV file, its lists parsed."""
    import duckdb

    lists = ", ".join(f"CAST({name} AS DOUBLE[]) AS {name}" for name in ("logging", "new", "q"))
    reader = duckdb.connect().sql(f"SELECT action, reward, {lists} FROM '{folder}/log.csv'")
    for _ in reader.to_arrow_reader(16_384):
        pass


def main() -> None:
    if sys.argv[1] in ("scan", "scan_csv"):
        globals()[sys.argv[1]](*sys.argv[2:])
        return
    work, who, folder, rounds = sys.argv[1:]
    warnings.simplefilter("ignore")
    run = JOBS[work, who](Path(folder))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    best, cpu, values = float("inf"), float("inf"), {}
    for _ in range(int(rounds)):
        start, used = time.perf_counter(), time.process_time()
        values = run()
        best = min(best, time.perf_counter() - start)
        cpu = min(cpu, time.process_time() - used)
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024.0
    per = values.pop("per", 1.0)
    print(json.dumps({
        "seconds": best * per, "cpu": cpu * per, "MB": more, "values": values,
        "multiplied": per != 1.0,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
