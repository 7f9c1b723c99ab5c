"""Compiled loops where nothing can be kept on disk, and where nothing can be added to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import offpolicy as op
from offpolicy._core.bucket_kernels import add_by_action
from offpolicy._core.compiling import everything_compiled
from offpolicy.evidence._weight_bins import sums_by_bucket
from tests.support.containers import FULL, READ_ONLY, bare_package, run_in, run_process

EVALUATE = """
import numpy as np, offpolicy as op
from offpolicy._core.compiling import everything_compiled
rng = np.random.default_rng(0)
n, logger = 100_000, np.arange(10.0, 0.0, -1.0) / 55.0
action = rng.choice(10, n, p=logger)
reward = (rng.random(n) < 0.2 + 0.05 * action).astype(float)
log = op.BanditLog.from_arrays(action=action, reward=reward, logging=np.tile(logger, (n, 1)))
policy, model = np.tile(logger[::-1], (n, 1)), np.full((n, 10), 0.5)
with everything_compiled():
    result = op.evaluate(log, policy, prediction=model, estimators=["CAB", "DRos", "SB"])
    text = result.to_json() + repr(op.sweep(log, policy, prediction=model).best)
"""
ALL_VERBS = """
import numpy as np, offpolicy as op
from offpolicy._core.compiling import everything_compiled
from offpolicy._core.kernels import compiled_within
rng = np.random.default_rng(1)
n, K = 3_000, 5
pi0, pi, other = rng.dirichlet(np.ones(K), (3, n))
action = np.array([rng.choice(K, p=row) for row in pi0])
X, q, weight = rng.normal(size=(n, 2)), rng.random((n, K)), rng.random(n)
reward = (rng.random(n) < 0.2 + 0.1 * action).astype(float)
given = {"action": action, "reward": reward, "logging": pi0, "context": X}
log = op.BanditLog.from_arrays(**given)
weighted = op.BanditLog.from_arrays(**given, row_weight=weight, cluster=action)
with compiled_within() as loops, everything_compiled():
    for each, model in ((log, q), (log, None), (weighted, q)):
        op.evaluate(each, pi, prediction=model)
        op.compare(each, {"one": pi, "other": other}, prediction=model)
        op.check(each, pi)
        op.sweep(each, pi, prediction=q, grid=[1.0, 5.0, 10.0])
    op.sweep(log, pi, prediction=q)
    op.learning.SoftmaxLearner().fit(log)
print(loops)
"""
HITS = """
from offpolicy.evaluation import _path_kernels
from offpolicy.evidence import _candidate_kernels
modules = vars(_path_kernels) | vars(_candidate_kernels)
loops = [loop for loop in modules.values() if hasattr(loop, "stats")]
hits, misses = ([sum(getattr(loop.stats, kind).values()) for loop in loops]
                for kind in ("cache_hits", "cache_misses"))
print(sum(hits), sum(misses))
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_package(tmp_path_factory.mktemp("site-packages"))


@pytest.fixture(scope="module")
def expected() -> str:
    known: dict[str, str] = {}
    exec(EVALUATE, known)
    return known["text"]


def test_without_any_place_for_them_loops_are_compiled_in_memory(bare, expected):
    printed = run_in(bare, READ_ONLY + EVALUATE + "print(text)")
    assert printed.strip() == expected.strip()
    assert not list(bare.rglob("*.nbi"))


@pytest.mark.parametrize("inside", [True, False])
def test_loops_compiled_before_are_used_where_nothing_can_be_written(tmp_path, bare, inside):
    """Compiled when an image was built: beside the code, or in ``NUMBA_CACHE_DIR``."""
    package = bare_package(tmp_path / "warm") if inside else bare
    variables = {} if inside else {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    run_in(package, EVALUATE, **variables)
    kept = sorted(tmp_path.rglob("*.nb?"))
    hits, misses = run_in(package, READ_ONLY + EVALUATE + HITS, **variables).split()
    assert int(hits) > 0
    assert int(misses) == 0
    assert sorted(tmp_path.rglob("*.nb?")) == kept != []


def test_a_full_disk_is_no_reason_to_fail(tmp_path, bare, expected):
    printed = run_in(bare, FULL + EVALUATE + "print(text)", NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert printed.strip() == expected.strip()


def test_what_is_damaged_is_compiled_once_more(tmp_path, bare, expected):
    variables = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    run_in(bare, EVALUATE, **variables)
    for file in tmp_path.rglob("*.nbi"):
        file.write_bytes(b"")
    assert run_in(bare, EVALUATE + "print(text)", **variables).strip() == expected.strip()


# -- offpolicy warm-up -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def warm(bare, tmp_path_factory) -> Warm:
    """Where ``offpolicy warm-up`` has been run, while an image was built."""
    variables = {"NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("warm"))}
    return Warm(bare, variables, run_process(WARM_UP, bare, **variables))


class Warm(NamedTuple):
    package: Path
    variables: dict[str, str]
    done: subprocess.CompletedProcess[str]


WARM_UP = [sys.executable, "-m", "offpolicy", "warm-up"]


def test_after_warm_up_nothing_is_left_to_compile(warm):
    assert warm.done.returncode == 0, warm.done.stderr
    assert warm.done.stdout.startswith("Compiled ")
    assert run_in(warm.package, ALL_VERBS, **warm.variables).strip() == "[]"
    again = run_process(WARM_UP, warm.package, **warm.variables)
    assert again.stdout == "All loops are compiled.\n"


def test_what_was_warmed_up_is_used_where_nothing_can_be_written(warm):
    code = READ_ONLY + ALL_VERBS
    assert run_in(warm.package, code, **warm.variables).strip() == "[]"


def test_what_was_warmed_up_serves_smaller_logs(warm):
    """Which are not worth compiling for."""
    code = """
from offpolicy.evidence._blocks import WALK
print(WALK.compiling(WALK.kept), WALK.compiling(WALK.kept - 1), WALK.compiling(WALK.fresh))
"""
    assert run_in(warm.package, code, **warm.variables).split() == ["True", "False", "True"]
    cold = {"NUMBA_CACHE_DIR": str(Path(warm.variables["NUMBA_CACHE_DIR"]) / "empty")}
    assert run_in(warm.package, code, **cold).split() == ["False", "False", "True"]


def test_warm_up_says_if_nothing_can_be_kept(bare):
    code = READ_ONLY + "import sys; sys.argv[1:] = ['warm-up']\n"
    code += "from offpolicy.cli import main; main()"
    done = run_process([sys.executable, "-c", code], bare)
    assert done.returncode == 2
    assert "NUMBA_CACHE_DIR" in done.stderr


@pytest.mark.parametrize("log", ["plain", "weighted", "no model"])
def test_compiled_loops_and_numpy_say_the_same(log):
    rng = np.random.default_rng(3)
    n, K = 2_000, 7
    pi0, pi, other = rng.dirichlet(np.ones(K), (3, n))
    pi0[:50, 0] = 0.0
    pi0 /= pi0.sum(axis=1, keepdims=True)
    action = np.array([rng.choice(K, p=row) for row in pi0])
    reward = rng.random(n) * action
    weight = rng.random(n) if log == "weighted" else None
    q = None if log == "no model" else K * rng.random((n, K))
    made = op.BanditLog.from_arrays(action=action, reward=reward, logging=pi0, row_weight=weight)

    def numbers() -> np.ndarray:
        one = op.evaluate(made, pi, prediction=q)
        two = op.compare(made, {"one": pi, "other": other}, prediction=q)
        grid = np.geomspace(0.1, 100.0, 30)
        estimator = "CIPS" if q is None else "CAB"
        curve = op.sweep(made, pi, prediction=q, estimator=estimator, grid=grid)
        values = [(each.value, *each.interval) for each in one.estimates]
        gaps = [(each.value, *each.interval) for each in two.differences]
        return np.concatenate([*values, *gaps, curve.values, curve.variances])

    plain = numbers()
    with everything_compiled():
        fast = numbers()
    np.testing.assert_allclose(fast, plain, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("columns", [3, 12])
def test_sums_by_bucket_and_by_action(columns):
    rng = np.random.default_rng(columns)
    place, values = rng.integers(0, 5, 1_000), rng.normal(size=(4, 1_000))
    plain, fast = (sums_by_bucket(place, values, 7, compiled=how) for how in (False, True))
    np.testing.assert_allclose(fast, plain, rtol=1e-12)
    assert not fast[5:].any()
    pi, pi0 = rng.random((2, 700, 3))
    pi0[rng.random(pi0.shape) < 0.2] = 0.0
    sums = np.zeros((4, columns))
    add_by_action(pi.reshape(-1), pi0.reshape(-1), sums)
    expected = pi, pi0, np.where(pi0 == 0.0, pi, 0.0), pi0 * (1.0 - pi0)
    found = sums.reshape(4, -1, 3).sum(axis=1)
    np.testing.assert_allclose(found, [each.sum(axis=0) for each in expected], rtol=1e-12)


def test_loops_of_this_process_are_kept():
    """The cache is numba's own, reached through a name that is not promised."""
    from offpolicy.evidence._candidate_kernels import grid_values

    assert op.__file__ is not None
    assert grid_values._cache.cache_path is not None
