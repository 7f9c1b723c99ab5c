"""Contexts as numbers, column by column: against a slow reference, and on odd columns."""

from __future__ import annotations

import copy
import datetime
import json
import math
import pickle
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpolicy._core import contexts
from offpolicy._core.contexts import ContextEncoder, as_context, cell_bits, kind_of
from offpolicy._core.documents import built, dumps


def objects(*columns: list) -> np.ndarray:
    table = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        for i, value in enumerate(column):
            table[i, j] = value
    return table


def is_missing(value: object) -> bool:
    if value is None or value is pd.NA or value is pd.NaT or value in contexts.NO_VALUE:
        return True
    return isinstance(value, float) and math.isnan(value)


def slow(cells: list) -> np.ndarray:
    """What one column becomes, beside a column of text: a row at a time, from the words alone."""
    present = [value for value in cells if not is_missing(value)]
    gaps = [[float(is_missing(value))] for value in cells]
    gaps = gaps if any(gap[0] for gap in gaps) else [[] for _ in cells]
    if not any(isinstance(value, str) for value in cells):
        numbers = [Decimal(str(float(value))) for value in present if math.isfinite(value)]
        mean = sum(numbers) / len(numbers) if numbers else Decimal(0)
        square = sum((x - mean) ** 2 for x in numbers) / len(numbers) if numbers else Decimal(0)
        scale = square.sqrt() or Decimal(1)
        lost = [is_missing(value) or not math.isfinite(value) for value in cells]
        out = []
        for value, gone in zip(cells, lost, strict=True):
            z = 0.0 if gone else float((Decimal(str(float(value))) - mean) / scale)
            out.append([z] + ([float(gone)] if any(lost) else []))
        return np.array(out)
    counts = Counter(str(value) for value in present)
    often = sorted((-count, word) for word, count in counts.items() if count >= 10)
    words = [word for _, word in often]
    own, shared = words[:32], words[32:]
    shares = min(16, len(shared))
    rows = []
    for value, gap in zip(cells, gaps, strict=True):
        row = [0.0] * (len(own) + shares + (len(words) < len(counts)))
        word = None if is_missing(value) else str(value)
        if word in own:
            row[own.index(word)] = 1.0
        elif word in shared:
            row[len(own) + shared.index(word) % shares] = 1.0
        elif word is not None:
            row[-1] = 1.0
        rows.append(row + gap)
    return np.array(rows).reshape(len(cells), -1)


WORDS = st.sampled_from(["a", "b", "é", "名", "", "NA", "nan", "None", "a" * 300, "\x00", "0"])
NUMBERS = st.one_of(
    st.integers(-(10**6), 10**6), st.booleans(), st.decimals(-99, 99, places=2),
    st.floats(-1e6, 1e6), st.sampled_from([math.inf, -math.inf, math.nan, None]),
)  # fmt: skip
COLUMN = st.one_of(
    st.lists(st.one_of(WORDS, st.none()), min_size=60, max_size=60),
    st.lists(NUMBERS, min_size=60, max_size=60),
    st.lists(st.one_of(WORDS, NUMBERS), min_size=60, max_size=60),
    st.sampled_from([[None] * 60, [math.nan] * 60, [5] * 60, ["x"] * 60, [""] * 60]),
)


@settings(deadline=None, max_examples=150)
@given(COLUMN)
def test_each_column_is_what_the_words_say(cells):
    table = objects(cells, ["other"] * 60)
    expected = slow(cells)
    found = ContextEncoder.fit(table)(table)[:, : expected.shape[1]]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_many_levels_share_columns():
    words = [f"w{k:02d}" for k in range(80) for _ in range(10 + k)] + ["rare"] * 9
    table = objects(words)
    encoder = ContextEncoder.fit(table)
    np.testing.assert_array_equal(encoder(table), slow(words))
    assert encoder.width == 32 + 16 + 1
    assert encoder.unknown(objects(["w00", "rare", "new", "", None, "NA"])) == {"column 0": 2}
    many = objects(*([words] * 40))
    assert ContextEncoder.fit(many).width == 40 * (4 + 2 + 1)


def test_numbers_alone_are_as_they_are():
    rng = np.random.default_rng(0)
    for table in (rng.normal(size=(9, 2)), rng.integers(0, 5, (9, 2)), rng.random((9, 2)) > 0.5):
        encoder = ContextEncoder.fit(table)
        assert encoder.plain
        assert encoder(table) is table
        np.testing.assert_array_equal(encoder(table.astype(object)), table.astype(float))
    later = np.array([[1.0, np.nan], [np.inf, 2.0]])
    mean = [column.mean for column in encoder.columns]
    np.testing.assert_array_equal(encoder(later), [[1.0, mean[1]], [mean[0], 2.0]])


@pytest.mark.parametrize("value", [10**400, 1e300, -1e300, 2**63, 1e-320, math.inf, -math.inf])
def test_extreme_numbers_stay_finite(value):
    table = objects([1, 2, 3, value], ["x"] * 4)
    encoder = ContextEncoder.fit(table)
    assert np.isfinite(encoder(table)).all()
    assert np.isfinite(ContextEncoder.fit(objects([1, 2, 3, 4], ["x"] * 4))(table)).all()


def test_times_are_hours_and_weekdays():
    start = datetime.datetime(2024, 1, 1)  # a Monday
    when = [start + datetime.timedelta(hours=7 * k) for k in range(400)]
    forms = [
        objects(when),
        np.array(when, dtype="M8[ns]")[:, None],
        objects([pd.Timestamp(t) for t in when]),
        objects([np.datetime64(t) for t in when]),
        objects([t.replace(tzinfo=datetime.UTC) for t in when]),
    ]
    zone = datetime.timezone(datetime.timedelta(hours=5))
    forms.append(objects([t.replace(tzinfo=datetime.UTC).astimezone(zone) for t in when]))
    first = ContextEncoder.fit(forms[0])
    hours, days = (column.levels for column in first.columns)
    for form in forms:
        out = ContextEncoder.fit(form)(form)
        for t, row in zip(when, out, strict=True):
            assert row.sum() == 2.0
            assert row[hours.index(f"{t.hour:02d}")] == 1.0
            assert row[len(hours) + days.index(f"{t:%A}")] == 1.0
    dates = objects([t.date() for t in when])
    assert [column.kind for column in ContextEncoder.fit(dates).columns] == ["weekday"]
    some = objects([None, pd.NaT, *when[2:]])
    assert ContextEncoder.fit(some)(some)[:2].sum(axis=1).tolist() == [1.0, 1.0]


def test_kinds():
    cases = {
        "number": [[1, 2.5, None], [True, False, pd.NA], [Decimal(1), np.int8(3)], [None, None]],
        "category": [["1", "2"], [1, "a"], [math.nan, "a"], [b"x", None], [1, pd.Timestamp(0)]],
        "hour": [[pd.NaT, pd.Timestamp(0)], [math.nan, datetime.date(2020, 1, 1)]],
    }
    for kind, columns in cases.items():
        for column in columns:
            assert kind_of(objects(column)[:, 0]) == kind, column


def test_a_list_keeps_numbers_and_text_apart():
    context = as_context([[1, "a"], [2.5, "b"]])
    assert [kind_of(column) for column in context.T] == ["number", "category"]


def test_it_comes_back():
    words = ["é", "名前", '"', "\\", "\u2028"] * 12
    table = objects(words, list(range(60)), [None, 1.5] * 30)
    encoder = ContextEncoder.fit(table, ["a", "b", "c"])
    for again in (
        built(ContextEncoder, json.loads(dumps(encoder))),
        pickle.loads(pickle.dumps(encoder)),
        copy.deepcopy(encoder),
    ):
        assert again == encoder
        assert again(table).tobytes() == encoder(table).tobytes()
    surrogate = objects(["\ud800"] * 20 + ["b"] * 20)
    assert dumps(ContextEncoder.fit(surrogate)).encode()


def test_a_part_is_encoded_as_the_whole():
    rng = np.random.default_rng(0)
    table = objects(
        rng.choice(["a", "b", None], 200).tolist(), rng.normal(size=200).tolist(),
        [None if k % 3 else k for k in range(200)],
    )  # fmt: skip
    encoder = ContextEncoder.fit(table)
    whole = encoder(table)
    parts = [encoder(table[k : k + 1]) for k in range(200)]
    assert np.vstack(parts).tobytes() == whole.tobytes()


def test_equal_cells_have_equal_bits():
    mixed = objects([1, 1.0, True, "1", None, math.nan, "", "a", "a", [1], [1]])[:, 0]
    bits = cell_bits(mixed).tolist()
    assert bits[0] == bits[1] == bits[2] != bits[3]
    assert bits[7] == bits[8]
    assert bits[9] == bits[10]
    assert cell_bits(np.array([0.0, -0.0])).tolist() == [0, 0]
    text = np.array(["a", "b"])
    assert cell_bits(text).tolist() == cell_bits(text.astype(object)).tolist()
