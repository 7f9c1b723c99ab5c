"""One thread for matrices, as cells have it: they are small, and threads wait for one another."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    import scipy.linalg  # noqa: F401  what is not loaded yet cannot be limited
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", "1")  # of commands that are started
        yield
