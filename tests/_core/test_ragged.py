"""Places in ragged arrays, against loops; decisions with as many candidates have a way of their
own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpolicy._core import ragged

LENGTHS = st.one_of(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.tuples(st.integers(1, 4), st.integers(1, 8)).map(lambda both: [both[0]] * both[1]),
)


@given(LENGTHS, st.data())
def test_places_are_those_of_a_loop(lengths: list[int], data: st.DataObject) -> None:
    offsets = ragged.offsets_of(np.array(lengths))
    assert ragged.width_of(offsets) == (lengths[0] if len(set(lengths)) == 1 else 0)
    pairs = [(i, k) for i, length in enumerate(lengths) for k in range(length)]
    assert ragged.decision_of_candidate(offsets).tolist() == [i for i, _ in pairs]
    assert ragged.position_in_decision(offsets).tolist() == [k for _, k in pairs]
    rows = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=6))
    expected = [offsets[row] + k for row in rows for k in range(lengths[row])]
    found = ragged.candidates_of(offsets, np.array(rows, dtype=np.int64))
    assert found.dtype == np.int64
    assert found.tolist() == expected


def test_no_decision_has_no_width() -> None:
    assert ragged.width_of(np.zeros(1, dtype=np.int64)) == 0
    assert len(ragged.position_in_decision(np.zeros(1, dtype=np.int64))) == 0
