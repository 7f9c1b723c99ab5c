"""``offpolicy warm-up``."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import click

from offpolicy.cli.commands import Strict
from offpolicy.cli.printing import say

_NOWHERE = (
    "Compiled loops cannot be kept: neither the library's own folder nor the user's cache can be "
    "written to. Name a folder that can be in the environment variable NUMBA_CACHE_DIR, here and "
    "where offpolicy runs later."
)


@click.command("warm-up", cls=Strict)
def command() -> None:
    """Compile all loops and keep them on disk, while an image is built.

    They are kept in NUMBA_CACHE_DIR, or beside the code. Later processes read them from there, also
    if nothing can be written then. Without them, large logs take seconds more to begin with.
    """
    from offpolicy._core.compiling import everything_compiled
    from offpolicy._core.kernels import compiled_within, folder_of
    from offpolicy.errors import OffpolicyError
    from offpolicy.evidence._candidate_kernels import recalibrated_sums

    folder, begun = folder_of(recalibrated_sums), time.perf_counter()
    if folder is None:
        raise OffpolicyError(_NOWHERE)
    with compiled_within() as loops, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with tempfile.TemporaryDirectory() as place, everything_compiled():
            _everything(Path(place))
    if loops and not os.access(folder, os.W_OK):
        raise OffpolicyError(_NOWHERE)
    if loops:
        say(f"Compiled {len(loops)} loops in {time.perf_counter() - begun:.0f} s.")
    else:
        say("All loops are compiled.")


def _everything(place: Path) -> None:
    """Every verb once, on logs that are as small as can be."""
    import numpy as np

    import offpolicy as op

    rng = np.random.default_rng(0)
    n, K = 2_500, 8
    pi0, pi = rng.dirichlet(np.ones(K), (2, n))
    X, q = rng.normal(size=(n, 3)), rng.random((n, K))
    action = np.array([rng.choice(K, p=row) for row in pi0])
    reward = (rng.random(n) < 1.0 / (1.0 + np.exp((action - 3.5) * X[:, 0]))).astype(float)
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=pi0, context=X)
    op.compare(log, {"one": pi, "other": pi[::-1]}, prediction=q)
    op.check(log, pi, prediction=q)
    op.evaluate(log, pi, prediction=q, estimators=list(op.estimators.NAMED))
    for interval in ("betting", "sequence"):
        op.evaluate(log, pi, prediction=q, estimators=["CAB-DR(M=5)"], interval=interval)
    for estimator in ("CAB", "SWITCH"):
        op.sweep(log, pi, prediction=q, estimator=estimator)
        op.sweep(log, pi, prediction=q, estimator=estimator, grid=[1.0, 2.0])
    op.learning.fit_together(
        [op.learning.SoftmaxLearner(estimator=f"CAB(M={M})") for M in (2, 5)], log
    )
    many = log.take(np.arange(30_000) % n)
    policy = np.tile(pi, (12, 1))
    op.evaluate(many, policy, estimators=["IPS"], interval="bootstrap")
    _rankings(place / "letor.txt", X)


def _rankings(file: Path, X: Any) -> None:
    """What there is for rankings, likewise."""
    import numpy as np

    from offpolicy import datasets, ranking

    lines = [
        f"{k % 3} qid:{k // 5} " + " ".join(f"{j + 1}:{x:.6f}" for j, x in enumerate(row))
        for k, row in enumerate(X[:1_000].tolist())
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    queries = datasets.letor(file)
    clicked = ranking.simulate_clicks(
        queries, queries.X[:, 0], ranking.PositionBased(1.0), sweeps=4.0, rng=0
    )
    ranking.PropensitySVMRank(C=0.1).fit(clicked)
    ranking.pairwise_loss(queries.X[:, 1], queries.offsets, queries.relevance)
    rng, n, K = np.random.default_rng(0), 200, 4
    for d in (5, 3_100):  # few features, and many
        wide, weights = rng.normal(size=(80, d)), rng.random(80)
        learner = ranking.PropensitySVMRank(C=100.0, tol=1e-6)
        learner.fit_weights(wide, np.arange(0, 81, K), weights)
    rank = rng.permuted(np.tile(np.arange(1, K + 1), (n, 1)), axis=1).reshape(-1)
    shuffled = ranking.RankingLog.from_arrays(
        offsets=np.arange(0, n * K + 1, K),
        rank=rank,
        click=(rng.random(n * K) < 1.0 / rank).astype(float),
        query=np.arange(n) % 5,
        document=np.tile(np.arange(K), n),
    )
    ranking.estimate_propensities(shuffled)
    ranking.estimate_propensities(shuffled, ranks=np.stack([rank, K + 1 - rank], axis=1))
