"""Columns of text, encoded by Arrow: the logs that objects give."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from offpolicy import BanditLog
from offpolicy.errors import LogError
from offpolicy.logs import labels
from offpolicy.logs._encoded import Encoded
from tests.support.refusals import refuses

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@given(st.lists(st.lists(names, min_size=1, max_size=5), min_size=1, max_size=4), st.booleans())
def test_names_and_codes_are_those_of_objects(chunks, dictionary):
    kind = pa.dictionary(pa.int32(), pa.string()) if dictionary else pa.string()
    column = pa.chunked_array([pa.array(chunk).cast(kind) for chunk in chunks])
    flat = np.array([name for chunk in chunks for name in chunk], dtype=object)
    coded = Encoded.of(column)
    assert coded is not None
    expected, codes = labels.encode(flat, "candidate", "")
    assert coded.names == expected
    np.testing.assert_array_equal(coded.codes, codes)
    np.testing.assert_array_equal(np.asarray(coded), flat)


def test_other_columns_are_left_alone():
    assert Encoded.of(pa.chunked_array([[1, 2]])) is None
    assert Encoded.of(pa.chunked_array([[]], pa.string())) is None
    garbled = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    )
    assert Encoded.of(pa.chunked_array([garbled])) is None


@given(st.data())
def test_a_log_with_named_candidates(data):
    rows = data.draw(
        st.lists(st.lists(names, min_size=1, max_size=4, unique=True), min_size=1, max_size=6)
    )
    chosen = [data.draw(st.sampled_from(row)) for row in rows]
    reward = np.arange(len(rows), dtype=float)
    logging = [[1.0 / len(row)] * len(row) for row in rows]
    log = BanditLog.from_frame(
        pa.table({"action": chosen, "reward": reward, "candidates": rows, "logging": logging})
    )
    twin = BanditLog.from_ragged(
        offsets=np.concatenate([[0], np.cumsum([len(row) for row in rows])]),
        action=np.array(chosen, dtype=object),
        candidate=np.array([name for row in rows for name in row], dtype=object),
        reward=reward,
        logging=np.concatenate(logging),
    )
    assert log.actions == twin.actions
    assert log.fingerprint() == twin.fingerprint()


def test_what_is_wrong_is_named_as_before():
    table = {"reward": [1.0, 0.0], "logging": [[0.5, 0.5]] * 2}
    with refuses(LogError, "action", 1):
        BanditLog.from_frame(
            pa.table(table | {"action": ["tea", "tee"], "candidates": [["tea", "milk"]] * 2})
        )
    with refuses(LogError, "candidate", 1):
        BanditLog.from_frame(
            pa.table(
                table | {"action": ["tea", "tea"], "candidates": [["tea", "milk"], ["tea", "tea"]]}
            )
        )
    with refuses(LogError, "action"):
        BanditLog.from_frame(pa.table(table | {"action": ["tea", "tea"]}))
