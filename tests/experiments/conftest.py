"""One thread for matrices, as cells have it: they are small, and threads wait for one another.

And small data sets where the experiments look for them, and short lists of what they try.
"""

from __future__ import annotations

import numpy as np
import pytest

from offpolicy.experiments.learning import search
from offpolicy.experiments.learning import setup as learning
from offpolicy.experiments.ranking import learning as rankers
from offpolicy.experiments.ranking import setup as rankings
from tests.support.data_sets import write_clouds, write_labelled, write_letor


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    import scipy.linalg  # noqa: F401  what is not loaded yet cannot be limited
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", "1")  # of commands that are started
        yield


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Where data sets are looked for: nothing is there yet, and nothing was before."""
    for cache in (learning.set_up, rankings.load, rankings.prepare_set, rankers._made):
        cache.cache_clear()
    monkeypatch.setenv("OFFPOLICY_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("OFFPOLICY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "data"


@pytest.fixture
def clouds(data):
    """Four overlapping classes, 800 examples."""
    return write_clouds(data)


@pytest.fixture
def small(data):
    """Three classes, 120 examples."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    X = rng.standard_normal((120, 4)) + 2 * np.eye(4)[y]
    write_labelled(data, "small", X, y)
    return X, y


@pytest.fixture
def letor(data):
    """Queries where MQ2008 is looked for."""
    write_letor(data)


@pytest.fixture
def few_candidates(monkeypatch):
    """Logs of 300 decisions; few parameters of policies and rankers, and few steps."""
    monkeypatch.setattr(learning.Condition.__init__, "__defaults__", (300, 0.2, 0.1))
    monkeypatch.setattr(search, "CLIPS", (2.0, 30.0))
    monkeypatch.setattr(search, "BLENDS", (0.5,))
    monkeypatch.setattr(search, "PENALTIES", (1e-6, 1e-2))
    monkeypatch.setattr(search, "RANDOM_STARTS", 2)
    monkeypatch.setattr(search, "STEPS", 50)
    monkeypatch.setattr(rankers, "CLIPS", (3.0, 30.0))
    monkeypatch.setattr(rankers, "BLENDS", (0.5,))
    monkeypatch.setattr(rankers, "STRENGTHS", (0.01, 1.0))
