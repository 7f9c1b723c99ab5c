"""Compiled loops where nothing can be kept on disk, and where nothing can be added to it."""

from __future__ import annotations

from pathlib import Path

import pytest

import offpolicy as op
from tests.support.containers import FULL, READ_ONLY, bare_package, run_in

EVALUATE = """
import numpy as np, offpolicy as op
from offpolicy.evidence._blocks import COMPILED_FROM
rng = np.random.default_rng(0)
n, logger = COMPILED_FROM // 10, np.arange(10.0, 0.0, -1.0) / 55.0
action = rng.choice(10, n, p=logger)
reward = (rng.random(n) < 0.2 + 0.05 * action).astype(float)
log = op.BanditLog.from_arrays(action=action, reward=reward, logging=np.tile(logger, (n, 1)))
policy, model = np.tile(logger[::-1], (n, 1)), np.full((n, 10), 0.5)
result = op.evaluate(log, policy, prediction=model, estimators=["CAB", "DRos", "SB"])
text = result.to_json() + repr(op.sweep(log, policy, prediction=model).best)
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


def test_loops_of_this_process_are_kept():
    """The cache is numba's own, reached through a name that is not promised."""
    from offpolicy.evidence._candidate_kernels import grid_values

    assert op.__file__ is not None
    assert grid_values._cache.cache_path is not None
