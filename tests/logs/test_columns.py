"""Reading frames of every kind: roles, lists, nulls, and the words when something is amiss."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import offpolicy as op
from offpolicy import BanditLog, Columns
from offpolicy.errors import (
    LogError,
    ParameterError,
    Place,
    PolicyError,
    PredictionError,
    PropensityError,
)
from offpolicy.logs._columns import as_table, read_named
from tests.support.cases import Case, make_case
from tests.support.refusals import refuses

NAN = float("nan")
ROWS = {
    "action": [1, 2, 0],
    "reward": [1.0, 0.0, 2.0],
    "logging": [[0.4, 0.6], [0.2, 0.3, 0.5], [1.0]],
}
NAMED = {
    **ROWS,
    "action": ["b", "c", "a"],
    "candidates": [["a", "b"], ["a", "b", "c"], ["a"]],
}
CHOSEN_ONLY = {"action": ["b", "c", "b"], "reward": [1.0, 0.0, 2.0], "propensity": [0.6, 0.5, 1.0]}
PROPENSITY = [0.6, 0.5, 1.0]

FRAMES = [
    pytest.param(pa.table, id="pyarrow"),
    pytest.param(pl.DataFrame, id="polars"),
    pytest.param(pd.DataFrame, id="pandas"),
    pytest.param(lambda rows: pa.table(rows).to_batches()[0], id="record batch"),
    pytest.param(lambda rows: pa.table(rows).to_reader(), id="reader"),
]


def log_of(rows: dict, columns: Columns | None = None, **changes: object) -> BanditLog:
    return BanditLog.from_frame(pa.table({**rows, **changes}), columns)


# -- frames of every kind ----------------------------------------------------------------------


@pytest.mark.parametrize("frame", FRAMES)
def test_lists_of_positions_become_a_ragged_log(frame):
    log = BanditLog.from_frame(frame(ROWS))
    assert_array_equal(log.offsets, [0, 2, 5, 6])
    assert_array_equal(log.chosen, [1, 2, 0])
    assert_array_equal(log.logging, [0.4, 0.6, 0.2, 0.3, 0.5, 1.0])
    assert_array_equal(log.propensity, PROPENSITY)
    assert log.actions is None


@pytest.mark.parametrize("frame", FRAMES)
def test_a_column_of_candidates_names_them(frame):
    log = BanditLog.from_frame(frame(NAMED))
    assert log.actions == ("a", "b", "c")
    assert_array_equal(log.candidate, [0, 1, 0, 1, 2, 0])
    assert_array_equal(log.chosen, [1, 2, 0])


@pytest.mark.parametrize("frame", FRAMES)
def test_without_lists_only_the_chosen_are_known(frame):
    log = BanditLog.from_frame(frame(CHOSEN_ONLY))
    assert not log.candidates_known
    assert log.actions == ("b", "c")
    assert_array_equal(log.propensity, PROPENSITY)


def test_candidates_do_without_logging():
    rows = {**NAMED, "propensity": PROPENSITY}
    del rows["logging"]
    log = log_of(rows)
    assert log.logging is None
    assert log.candidates_known
    assert_array_equal(log.chosen, [1, 2, 0])


def test_frames_of_every_kind_give_the_same_log():
    prints = {BanditLog.from_frame(kind.values[0](NAMED)).fingerprint() for kind in FRAMES}
    assert len(prints) == 1


def test_chunks_make_no_difference():
    table = pa.concat_tables([pa.table(NAMED), pa.table(NAMED)])
    assert table.column("logging").num_chunks == 2
    log = BanditLog.from_frame(table)
    assert log.fingerprint() == BanditLog.from_frame(table.combine_chunks()).fingerprint()
    assert_array_equal(log.propensity, PROPENSITY * 2)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("rows", [ROWS, NAMED])
def test_a_slice_holds_only_its_own_rows(rows, chunked):
    table = pa.concat_tables([pa.table(rows), pa.table(rows)])
    part = (table if chunked else table.combine_chunks()).slice(1, 4)
    log = BanditLog.from_frame(part)
    assert_array_equal(log.offsets, [0, 3, 4, 6, 9])
    assert_array_equal(log.propensity, [0.5, 1.0, 0.6, 0.5])


@pytest.mark.parametrize(
    "frame", [pl.DataFrame(NAMED)[1:], pd.DataFrame(NAMED)[1:], pd.DataFrame(NAMED).iloc[[1, 2]]]
)
def test_a_slice_of_a_dataframe_holds_only_its_own_rows(frame):
    assert_array_equal(BanditLog.from_frame(frame).propensity, [0.5, 1.0])


SQUARE = [[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.float64()),
        pa.large_list(pa.float64()),
        pa.list_(pa.float64(), 2),
        pa.list_(pa.float32()),
        pa.list_(pa.float16()),
    ],
    ids=str,
)
@pytest.mark.parametrize("start", [0, 1])
def test_lists_of_any_kind_are_read(kind, start):
    narrow = pa.types.is_float16(kind.value_type)  # Of which older pyarrow takes NumPy's own only.
    rows = [list(map(np.float16, row)) for row in SQUARE] if narrow else SQUARE
    table = pa.table(
        {"action": [0, 1, 0], "reward": [1, 0, 1], "logging": pa.array(rows, kind)}
    ).slice(start)
    log = BanditLog.from_frame(table)
    assert_array_equal(log.logging, np.ravel(SQUARE[start:]))
    assert log.logging.dtype == np.float64


def test_polars_arrays_of_fixed_width_are_read():
    frame = pl.DataFrame(
        {"action": [0, 1, 0], "reward": [1, 0, 1], "logging": SQUARE},
        schema_overrides={"logging": pl.Array(pl.Float64, 2)},
    )
    assert_array_equal(BanditLog.from_frame(frame).propensity, [0.5, 0.75, 1.0])


def test_narrow_lists_are_given_the_tolerance_of_narrow_floats():
    rows = [[0.4, 0.6005], [0.2, 0.3, 0.5], [1.0]]
    log_of(ROWS, logging=pa.array(rows, pa.list_(pa.float32())))
    with refuses(PropensityError, "logging", 0):
        log_of(ROWS, logging=rows)


@pytest.mark.parametrize(
    "action",
    [
        pa.array(["b", "c", "b"]).dictionary_encode(),
        pa.array(["b", "c", "b"], pa.large_string()),
        pa.array(["b", "c", "b"], pa.string_view()),
    ],
    ids=lambda array: str(array.type),
)
def test_strings_of_any_kind_are_names(action):
    assert log_of(CHOSEN_ONLY, action=action).actions == ("b", "c")


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({**CHOSEN_ONLY, "action": pd.Categorical(["b", "c", "b"])}),
        pl.DataFrame(CHOSEN_ONLY, schema_overrides={"action": pl.Categorical}),
    ],
    ids=["pandas", "polars"],
)
def test_categories_are_names(frame):
    assert BanditLog.from_frame(frame).actions == ("b", "c")


@pytest.mark.parametrize(
    "kind", [pa.bool_(), pa.int8(), pa.float32(), pa.decimal128(5, 2)], ids=str
)
def test_rewards_of_any_numeric_type_become_doubles(kind):
    log = log_of(CHOSEN_ONLY, reward=pa.array([1.0, 0.0, 1.0]).cast(kind))
    assert_array_equal(log.reward, [1.0, 0.0, 1.0])
    assert log.reward.dtype == np.float64


# -- roles -------------------------------------------------------------------------------------


def test_columns_say_which_column_plays_which_role():
    table = pa.table(
        {
            "item": ["b", "c", "a"],
            "click": [1, 0, 1],
            "pi0": NAMED["logging"],
            "items": NAMED["candidates"],
            "p": PROPENSITY,
            "user": ["u", "v", "u"],
            "ts": pa.array([1, 2, 3], pa.timestamp("us")),
            "w": [1, 2, 3],
            "age": [20, 30, 40],
            "hour": [0.5, 1.5, 2.5],
            "action": [9, 9, 9],
        }
    )
    columns = Columns(
        action="item",
        reward="click",
        logging="pi0",
        candidates="items",
        propensity="p",
        cluster="user",
        time="ts",
        row_weight="w",
        context=["age", "hour"],
    )
    log = BanditLog.from_frame(table, columns, source="clicks.parquet")
    assert_array_equal(log.chosen, [1, 2, 0])
    assert_array_equal(log.reward, [1, 0, 1])
    assert_array_equal(log.cluster, ["u", "v", "u"])
    assert_array_equal(log.time.astype(int), [1, 2, 3])
    assert_array_equal(log.row_weight, [1, 2, 3])
    assert_array_equal(log.context, [[20, 0.5], [30, 1.5], [40, 2.5]])
    assert log.source == "clicks.parquet"


def test_columns_under_the_name_of_their_role_are_found():
    log = log_of(ROWS, cluster=[1, 2, 1], time=[1, 2, 3], row_weight=[1.0, 2.0, 3.0])
    assert_array_equal(log.cluster, [1, 2, 1])
    assert_array_equal(log.time, [1, 2, 3])
    assert_array_equal(log.row_weight, [1, 2, 3])
    assert log.context is None


def test_context_is_read_only_where_it_is_named():
    assert log_of(ROWS, context=[1, 2, 3]).context is None
    assert log_of(ROWS, Columns(context=["context"]), context=[1, 2, 3]).context.shape == (3, 1)


# -- other columns, by name --------------------------------------------------------------------


def test_other_columns_are_at_hand_by_name():
    new = [[0.1, 0.9], [0.2, 0.2, 0.6], [1.0]]
    log = log_of(ROWS, new=new, p=[0.9, 0.6, 1.0])
    assert_array_equal(log.named_column("new"), [0.1, 0.9, 0.2, 0.2, 0.6, 1.0])
    assert_array_equal(log.named_column("p"), [0.9, 0.6, 1.0])


def test_rows_take_the_other_columns_along():
    log = log_of(ROWS, new=[[0.1, 0.9], [0.2, 0.2, 0.6], [1.0]], p=[0.9, 0.6, 1.0]).rows(1, 3)
    assert_array_equal(log.named_column("new"), [0.2, 0.2, 0.6, 1.0])
    assert_array_equal(log.named_column("p"), [0.6, 1.0])


@pytest.mark.parametrize(
    ("values", "rows", "part"),
    [
        ([[1.0, 0.0], [0.5, 0.5], [1.0]], [1], ""),
        ([[1.0, 0.0], None, [1.0]], [1], ""),
        ([[1.0, 0.0], [0.0, None, 1.0], [1.0]], [1], "candidate 1"),
        ([0.5, None, None], [1, 2], ""),
    ],
)
def test_an_unusable_column_is_refused_by_name(values, rows, part):
    log = BanditLog.from_frame(pa.table({**ROWS, "new": values}), source="f")
    with refuses(LogError, "new", 1, file="f", part=part, rows=rows):
        log.named_column("new")
    with refuses(LogError, "neww", file="f", match=r'Did you mean "new"\?'):
        log.named_column("neww")


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [None, [ROWS], np.zeros((2, 2)), "log.csv"])
def test_what_is_no_dataframe_is_refused(frame):
    with refuses(LogError, "frame"):
        as_table(frame)


@pytest.mark.parametrize("series", [pa.array([1, 2]), pl.Series([1, 2]), pd.Series([1, 2])])
def test_a_single_column_is_no_dataframe(series):
    with refuses(LogError, "frame"):
        BanditLog.from_frame(series)


def test_a_column_that_arrow_cannot_hold_is_refused_by_name():
    with refuses(LogError, "frame", match="action"):
        BanditLog.from_frame(pd.DataFrame({**CHOSEN_ONLY, "action": ["b", 1, "b"]}))


@pytest.mark.parametrize(
    ("renamed", "columns", "column", "hint"),
    [
        ({"action": "item"}, None, "action", 'which column it is with action=; perhaps "item".'),
        ({"action": "what"}, None, "action", "which column it is with action=. The"),
        ({"action": "shopItem"}, None, "action", 'perhaps "shopItem".'),
        ({"reward": "rewards"}, None, "reward", 'perhaps "rewards".'),
        ({"reward": "Reward"}, None, "reward", 'perhaps "Reward".'),
        ({"reward": "click"}, Columns(reward="clik"), "clik", 'Did you mean "click"?'),
        ({}, Columns(propensity="p"), "p", ""),
        ({}, Columns(logging="pi0"), "pi0", ""),
        ({}, Columns(candidates="items"), "items", ""),
        ({}, Columns(cluster="user"), "user", ""),
        ({}, Columns(context=["age"]), "age", ""),
    ],
)
def test_a_column_that_is_not_there_is_refused(renamed, columns, column, hint):
    rows = {renamed.get(name, name): values for name, values in ROWS.items()}
    with refuses(LogError, column, file="f") as caught:
        BanditLog.from_frame(pa.table(rows), columns, source="f")
    assert hint in str(caught.value)


def test_a_missing_column_is_told_without_a_source_too():
    with refuses(LogError, "reward", file=""):
        BanditLog.from_frame(pa.table({"action": [0]}))


def test_two_columns_of_one_name_are_refused():
    columns = [pa.array([0, 1]), pa.array([0, 1]), pa.array([1, 0]), pa.array([0.5, 0.5])]
    table = pa.table(columns, names=["action", "action", "reward", "propensity"])
    with refuses(LogError, "action"):
        BanditLog.from_frame(table)


@pytest.mark.parametrize("column", ["action", "reward", "propensity", "cluster", "time"])
def test_a_null_is_refused(column):
    values = {"age": [20, 30, 40], "cluster": [1, 2, 3], "time": [1, 2, 3]}
    rows = {**CHOSEN_ONLY, **values}
    rows[column] = [rows[column][0], None, None]
    with refuses(LogError, column, 1, file="f", rows=[1, 2]):
        BanditLog.from_frame(pa.table(rows), Columns(context=["age"]), source="f")


def test_a_null_is_found_behind_a_chunk_and_a_slice():
    good, bad = pa.table(CHOSEN_ONLY), pa.table({**CHOSEN_ONLY, "reward": [1.0, None, 2.0]})
    with refuses(LogError, "reward", 3, rows=[3]):
        BanditLog.from_frame(pa.concat_tables([good, bad]).slice(1))


@pytest.mark.parametrize("kind", [pl.DataFrame, pd.DataFrame])
def test_a_missing_reward_is_refused_in_every_dataframe(kind):
    with refuses(LogError, "reward", 1, rows=[1]):
        BanditLog.from_frame(kind({**CHOSEN_ONLY, "reward": [1.0, NAN, 0.0]}))


@pytest.mark.parametrize(
    ("changes", "column", "row", "part"),
    [
        ({"logging": [[0.4, 0.6], None, [1.0]]}, "logging", 1, ""),
        ({"logging": [[0.4, 0.6], [0.2, 0.3, None], [1.0]]}, "logging", 1, "candidate 2"),
        ({"candidates": [["a", "b"], [None, "b", "c"], ["a"]]}, "candidates", 1, "candidate 0"),
        ({"candidates": [["a", "b"], None, ["a"]]}, "candidates", 1, ""),
        ({"logging": [0.6, 0.5, 1.0]}, "logging", None, ""),
        ({"candidates": ["a", "b", "c"]}, "candidates", None, ""),
        ({"candidates": [["a", "b"], ["a", "c"], ["a"]]}, "candidates", 1, ""),
        ({"candidates": [["b"], ["a", "a", "b", "c"], ["a"]]}, "candidates", 0, ""),
        (
            {"logging": [[0.4, 0.6], [], [1.0]], "candidates": [["a", "b"], [], ["a"]]},
            "logging", 1, "",
        ),
        ({"candidates": [["a", "b"], ["c", "b", "c"], ["a"]]}, "candidate", 1, ""),
        ({"action": ["b", "z", "a"]}, "action", 1, ""),
        ({"logging": [["x", "y"], ["x", "y", "z"], ["x"]]}, "logging", 0, "candidate 0"),
    ],
)  # fmt: skip
def test_unusable_lists_are_refused(changes, column, row, part):
    with pytest.raises(LogError) as caught:
        log_of(NAMED, **changes)
    assert caught.value.place == Place("", column, row, part=part)


def test_a_decision_without_candidates_is_refused():
    with refuses(LogError, "logging", 1):
        log_of(ROWS, logging=[[0.4, 0.6], [], [1.0]])


def test_a_null_list_of_fixed_width_is_refused():
    lists = pa.array([[0.4, 0.6], None, [0.1, 0.9]], pa.list_(pa.float64(), 2))
    with refuses(LogError, "logging", 1):
        log_of(ROWS, action=[0, 0, 0], logging=lists)


def test_a_null_in_a_list_is_placed_rightly_behind_a_slice():
    table = pa.table({**ROWS, "logging": [[0.4, 0.6], [0.2, 0.3, 0.5], [None]]}).slice(1)
    with refuses(LogError, "logging", 1, part="candidate 0"):
        BanditLog.from_frame(table)


@pytest.mark.parametrize("action", [[1, 5, 0], [1, -1, 0], [1, 0.5, 0]])
def test_without_candidates_the_action_must_be_a_position(action):
    with refuses(LogError, None, 1):
        log_of(ROWS, action=action)


def test_names_without_candidates_are_told_what_is_missing():
    with refuses(LogError, "action"):
        log_of(ROWS, action=["b", "c", "a"])


@pytest.mark.parametrize("action", [[[0], [1], [0]], [{"id": 0}, {"id": 1}, {"id": 0}]])
def test_an_action_must_be_a_plain_value(action):
    with refuses(LogError, "action"):
        log_of(CHOSEN_ONLY, action=action)


@pytest.mark.parametrize("reward", [["x", "y", "z"], [[1, 2], [3, 4], [5, 6]]])
def test_a_reward_must_be_a_number(reward):
    with refuses(LogError, "reward"):
        log_of(CHOSEN_ONLY, reward=reward)


@pytest.mark.parametrize("rows", [ROWS, NAMED, CHOSEN_ONLY])
def test_an_empty_frame_is_refused(rows):
    with refuses(LogError, file="f"):
        BanditLog.from_frame(pa.table(rows).slice(0, 0), source="f")


def test_the_values_of_a_frame_are_checked_like_any_other():
    with refuses(PropensityError, "logging", 1):
        log_of(ROWS, logging=[[0.4, 0.6], [0.2, 0.2, 0.5], [1.0]])
    with refuses(PropensityError, "propensity", 1):
        log_of(CHOSEN_ONLY, propensity=[0.5, 1.5, 0.5])
    with refuses(PropensityError, "propensity", 0):
        log_of(ROWS, propensity=[0.5, 0.5, 1.0])


def test_named_columns_survive_as_doubles():
    log = log_of(ROWS, new=pa.array([[1, 0], [0, 1, 0], [1]], pa.list_(pa.float32())))
    assert_allclose(log.per_candidate(log.named_column("new"), "new"), [1, 0, 0, 1, 0, 1])


# -- the long format -------------------------------------------------------------------------


def long_table(case: Case, shuffle: bool = True) -> tuple[pa.Table, np.ndarray]:
    """A row per candidate, and the order of decisions in it."""
    n = len(case.reward)
    decision = np.repeat(np.arange(n), np.diff(case.offsets))
    place = np.arange(len(decision)) - np.repeat(case.offsets[:-1], np.diff(case.offsets))
    rows = np.arange(len(decision))
    if shuffle:
        rows = np.random.default_rng(0).permutation(rows)
    table = pa.table(
        {
            "id": [f"d{i}" for i in decision[rows]],
            "name": [f"c{k}" for k in place[rows]],
            "picked": (place == case.chosen[decision]).astype(int)[rows],
            "shown": [f"c{k}" for k in case.chosen[decision[rows]]],
            "reward": case.reward[decision[rows]],
            "pi0": case.pi0[rows],
            "new": case.pi[rows],
            "q": case.delta_hat[rows],
        }
    )
    first = dict.fromkeys(decision[rows].tolist())
    return table, np.array(list(first))


@pytest.mark.parametrize("how", ["flag", "flag and names", "names"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_long_format_is_the_same_log(how, shuffle):
    case = make_case(np.random.default_rng(3), 60, drawn=True)
    table, order = long_table(case, shuffle)
    columns = {
        "flag": op.Columns(decision="id", chosen="picked", logging="pi0", candidates=""),
        "flag and names": op.Columns(
            decision="id", chosen="picked", logging="pi0", candidates="name"
        ),
        "names": op.Columns(decision="id", action="shown", logging="pi0", candidates="name"),
    }[how]
    log = op.BanditLog.from_frame(table, columns)
    expected = case.log.take(order)
    np.testing.assert_array_equal(log.reward, expected.reward)
    np.testing.assert_array_equal(np.diff(log.offsets), np.diff(expected.offsets))
    np.testing.assert_array_equal(log.propensity, expected.propensity)
    result = op.evaluate(log, "new", prediction="q", estimators=["IPS", "DM", "CAB(M=2)"])
    whole = case.evaluate(["IPS", "DM", "CAB(M=2)"])
    for name in ("IPS", "DM", "CAB"):
        assert result[name].value == pytest.approx(whole[name].value, rel=1e-10)


@pytest.mark.parametrize(
    ("name", "value", "row"),
    [("picked", 0, 0), ("picked", 1, None), ("picked", 2, 0), ("id", None, 0)],
)
def test_long_formats_that_are_not(name, value, row):
    case = make_case(np.random.default_rng(4), 5, most=4, drawn=True)
    table, _ = long_table(case, shuffle=False)
    column = pa.array([value] * len(table), table.schema.field(name).type)
    table = table.set_column(table.column_names.index(name), name, column)
    columns = op.Columns(decision="id", chosen="picked", logging="pi0", candidates="name")
    with refuses(LogError, name, row, file="log.csv"):
        op.BanditLog.from_frame(table, columns, source="log.csv")


def test_a_long_format_without_either_way_to_say_what_was_chosen():
    case = make_case(np.random.default_rng(4), 5, drawn=True)
    table, _ = long_table(case)
    with refuses(LogError, "action"):
        op.BanditLog.from_frame(table, op.Columns(decision="id", logging="pi0"))
    with refuses(LogError, "nope"):
        op.BanditLog.from_frame(table, op.Columns(decision="nope"))


@pytest.mark.parametrize("value", [pa.float64(), pa.float32(), pa.int16(), pa.string()])
@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, lambda value: pa.list_(value, 2)])
@pytest.mark.parametrize("chunks", [1, 3])
def test_lists_are_read_as_they_are_wherever_they_lie(kind, value, chunks):
    """Slices of longer columns, in one piece or several, empty ones among them."""
    fixed = isinstance(kind(value), pa.FixedSizeListType)
    lists = [[3 * i, 3 * i + 1] + ([] if fixed or i % 2 else [3 * i + 2]) for i in range(20)]
    if value == pa.string():
        lists = [[str(entry) for entry in entries] for entries in lists]
    whole = pa.array(lists, kind(value))
    pieces = [whole.slice(4, 3), whole.slice(9, 0), whole.slice(11, 5)][:chunks]
    table = pa.table({"x": pa.chunked_array(pieces)})
    expected = table.column("x").to_pylist()
    offsets = np.cumsum([0, *map(len, expected)])
    values = read_named(table, "x", offsets, "")
    assert values.tolist() == [entry for entries in expected for entry in entries]
    if value != pa.string():
        assert values.dtype == value.to_pandas_dtype()


def test_numbers_in_one_piece_are_not_copied():
    values = np.arange(12.0)
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 5, 12], pa.int32()), pa.array(values))
    table = pa.table({"x": lists, "y": pa.array(values[:3])}).slice(1)
    flat = read_named(table, "x", np.array([0, 3, 10]), "")
    assert flat.tolist() == values[2:].tolist()
    assert np.shares_memory(flat, values)
    assert np.shares_memory(read_named(table, "y", np.array([0, 1, 2]), ""), values)


def test_reading_a_file_does_not_load_pandas(tmp_path):
    import subprocess
    import sys

    import pyarrow.parquet as pq

    pq.write_table(pa.table(ROWS), tmp_path / "log.parquet")
    program = (
        "import sys; from pathlib import Path; "
        "from offpolicy.logs.files._parquet import ParquetScan; "
        f"scan = ParquetScan([Path({str(tmp_path / 'log.parquet')!r})]); "
        "print(sum(len(make()) for make in scan.walk([])), 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["3", "False"], done.stderr


def test_a_number_is_no_name_of_a_column():
    for role in ("action", "reward", "decision", "chosen"):
        with refuses(ParameterError, role):
            Columns(**{role: 1 / 3})
    with refuses(ParameterError, "context"):
        Columns(context=["age", 3])


class Tensor:
    """What PyTorch's says to NumPy while it wants its gradient."""

    def __init__(self, values, wants=True):
        self.values, self.wants = np.asarray(values, dtype=float), wants
        self.shape, self.ndim = self.values.shape, self.values.ndim

    def detach(self):
        return Tensor(self.values, wants=False)

    def cpu(self):
        return self

    def __array__(self, dtype=None, copy=None):
        if self.wants:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return self.values


def test_tensors_lose_their_gradient():
    log = op.BanditLog.from_arrays(
        action=[0, 1] * 20, reward=Tensor([1, 0] * 20), logging=Tensor([[0.5, 0.5]] * 40)
    )
    policy, prediction = Tensor([[0.2, 0.8]] * 40), Tensor([[0.1, 0.9]] * 40)
    found = op.evaluate(log, policy, prediction=prediction, estimators=["IPS", "DM"])
    assert found["IPS"].value == pytest.approx(0.2)
    assert found["DM"].value == pytest.approx(0.2 * 0.1 + 0.8 * 0.9)


def test_functions_are_neither_policies_nor_predictions():
    log = log_of(NAMED)
    with refuses(PolicyError, "policy"):
        op.evaluate(log, lambda log: 1)
    with refuses(PolicyError, "new"):
        op.compare(log, {"new": lambda log: 1, "old": op.Uniform()})
    with refuses(PredictionError, "prediction"):
        op.evaluate(log, op.Uniform(), prediction=lambda log: 1)


@pytest.mark.parametrize(
    "source",
    [
        [pa.table({"reward": [1]})], (frame for frame in [pa.table({"reward": [1]})]), [None],
        b"log.parquet", np.zeros((2, 2)), [{"reward": 1}],
    ],
)  # fmt: skip
def test_what_is_neither_paths_nor_a_frame(source):
    with refuses(ParameterError, "source"):
        op.read_log(source)
