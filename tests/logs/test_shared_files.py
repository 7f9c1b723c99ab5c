"""How rows of files are shared out among Spark's tasks; what tasks make of them: `test_spark`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpolicy.logs import BLOCK
from offpolicy.logs.files._shared_files import SharedFiles

COUNTS = st.sampled_from([0, 1, 100, BLOCK - 1, BLOCK, BLOCK + 1, 7 * BLOCK + 5, 40 * BLOCK])


@pytest.fixture(scope="module")
def scan(tmp_path_factory) -> SharedFiles:
    file = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(pa.table({"action": [0], "reward": [1.0], "propensity": [1.0]}), file)
    return SharedFiles([file])


@settings(deadline=None)
@given(counts=st.lists(COUNTS, min_size=1).filter(any), most=st.integers(1, 20))
def test_every_row_is_in_one_share(scan, counts, most):
    scan._counts = counts
    shares = scan._shares(most)
    assert 1 <= len(shares) <= most
    position = 0
    for part in (part for share in shares for part in share):
        assert part.position == position
        assert part.start % BLOCK == 0
        assert part.start < part.stop <= counts[part.file]
        position += part.stop - part.start
    assert position == sum(counts)
