"""`BanditLog`: making one from arrays, ragged or not; looking at it; what it refuses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from offpolicy import BanditLog
from offpolicy.errors import LogError, Place, PropensityError
from offpolicy.logs._validation import BLOCK_ROWS, check_probabilities
from offpolicy.logs.labels import hash_groups, hash_rows
from tests.support.refusals import refuses

NAN, INF = float("nan"), float("inf")
NAT = np.array(["2026-11-03", "NaT", "2026-11-05"], dtype="datetime64[D]")

ARRAYS = {
    "action": [0, 1, 1],
    "reward": [1.0, 0.0, 2.0],
    "logging": [[0.8, 0.2], [0.5, 0.5], [0.3, 0.7]],
}
CHOSEN_ONLY = {"action": [0, 1, 1], "reward": [1.0, 0.0, 2.0], "propensity": [0.8, 0.5, 0.7]}
RAGGED = {
    "offsets": [0, 2, 5, 6],
    "chosen": [1, 2, 0],
    "reward": [1.0, 0.0, 2.0],
    "logging": [0.4, 0.6, 0.2, 0.3, 0.5, 1.0],
}
NAMED = {
    **{key: RAGGED[key] for key in ("offsets", "reward", "logging")},
    "action": ["b", "c", "a"],
    "candidate": ["a", "b", "a", "b", "c", "a"],
}
COMPANIONS = {
    "cluster": ["u", "v", "u"],
    "time": [10, 20, 30],
    "row_weight": [1.0, 2.0, 4.0],
    "context": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
}


def objects(*values: object) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def from_arrays(**changes: object) -> BanditLog:
    return BanditLog.from_arrays(**{**ARRAYS, **changes})


def chosen_only(**changes: object) -> BanditLog:
    return BanditLog.from_arrays(**{**CHOSEN_ONLY, **changes})


def from_ragged(**changes: object) -> BanditLog:
    return BanditLog.from_ragged(**{**RAGGED, **changes})


def named(**changes: object) -> BanditLog:
    return BanditLog.from_ragged(**{**NAMED, **changes})


# -- from_arrays: what it makes ----------------------------------------------------------------


def test_square_arrays_become_the_ragged_layout_with_equal_lengths():
    log = from_arrays()
    assert len(log) == 3
    assert_array_equal(log.offsets, [0, 2, 4, 6])
    assert_array_equal(log.chosen, [0, 1, 1])
    assert_array_equal(log.chosen_index, [0, 3, 5])
    assert_array_equal(log.logging, [0.8, 0.2, 0.5, 0.5, 0.3, 0.7])
    assert_array_equal(log.propensity, [0.8, 0.5, 0.7])
    assert log.actions == (0, 1)
    assert log.has_equal_lengths
    assert log.candidates_known
    assert_array_equal(log.candidate_codes(), [0, 1, 0, 1, 0, 1])


def test_arrays_have_the_layouts_types():
    log = from_arrays(reward=[1, 0, 2], row_weight=[1, 2, 3])
    assert (log.offsets.dtype, log.chosen.dtype) == (np.int64, np.int64)
    for column in (log.reward, log.logging, log.propensity, log.row_weight):
        assert column.dtype == np.float64


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64, np.float64, bool])
def test_positions_may_be_of_any_numeric_type(kind):
    assert_array_equal(from_arrays(action=np.array([0, 1, 1], dtype=kind)).chosen, [0, 1, 1])


def test_propensity_alone_leaves_the_candidates_unknown():
    log = chosen_only()
    assert not log.candidates_known
    assert log.logging is None
    assert_array_equal(log.offsets, [0, 1, 2, 3])
    assert_array_equal(log.chosen, [0, 0, 0])
    assert_array_equal(log.candidate_codes(), [0, 1, 1])


@pytest.mark.parametrize("actions", [3, np.int64(3), [0, 1, 2], range(3)])
def test_propensity_with_actions_knows_the_candidates(actions):
    log = chosen_only(actions=actions)
    assert log.candidates_known
    assert log.actions == (0, 1, 2)
    assert_array_equal(log.offsets, [0, 3, 6, 9])
    assert_array_equal(log.chosen, [0, 1, 1])
    assert_array_equal(log.propensity, [0.8, 0.5, 0.7])


def test_neither_logging_nor_propensity_is_still_a_log():
    log = BanditLog.from_arrays(action=[0, 1], reward=[1, 0], actions=2)
    assert log.propensity is None
    assert log.logging is None


def test_an_agreeing_propensity_is_welcome_beside_logging():
    assert_array_equal(from_arrays(propensity=[0.8, 0.5, 0.7]).propensity, [0.8, 0.5, 0.7])


NAMES = [
    pytest.param(("red", "green"), id="strings"),
    pytest.param((10, 20), id="integers"),
    pytest.param((2.5, -1.0), id="floats"),
    pytest.param((b"x", b"y"), id="bytes"),
    pytest.param((("a", 1), ("b", 2)), id="tuples"),
    pytest.param((("a",), ("b", 2)), id="tuples of different lengths"),
    pytest.param(("a", 1), id="string and integer"),
    pytest.param((frozenset("a"), ("b", 2.5)), id="frozenset and tuple"),
]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("wrap", [list, lambda names: objects(*names)], ids=["list", "array"])
def test_actions_may_be_named_by_any_hashable(names, wrap):
    first, second = names
    log = from_arrays(action=wrap([second, first, first]), actions=names)
    assert_array_equal(log.chosen, [1, 0, 0])
    assert log.actions == names


@pytest.mark.parametrize("names", NAMES)
def test_unlisted_actions_may_be_named_by_any_hashable(names):
    first, second = names
    log = chosen_only(action=[second, first, second])
    codes = log.candidate_codes()
    assert [log.actions[code] for code in codes] == [second, first, second]


@pytest.mark.parametrize("names", NAMES)
def test_ragged_candidates_may_be_named_by_any_hashable(names):
    first, second = names
    log = BanditLog.from_ragged(
        offsets=[0, 2, 3],
        candidate=[second, first, first],
        action=[first, first],
        reward=[1, 0],
        propensity=[0.5, 1.0],
    )
    assert_array_equal(log.chosen, [1, 0])
    assert set(log.actions) == {first, second}


def test_names_given_as_an_array_are_the_same_log_as_names_in_a_list():
    one = chosen_only(action=[10, 20, 20], actions=np.array([10, 20]))
    other = chosen_only(action=[10, 20, 20], actions=[10, 20])
    assert one.fingerprint() == other.fingerprint()


def test_companions_are_carried_along():
    features = np.arange(18.0).reshape(3, 2, 3)
    log = from_arrays(**COMPANIONS, candidate_features=features)
    for name, values in COMPANIONS.items():
        assert_array_equal(getattr(log, name), values)
    assert_array_equal(log.candidate_features, features.reshape(6, 3))


def test_a_context_of_one_dimension_is_one_column():
    assert from_arrays(context=[1.0, 2.0, 3.0]).context.shape == (3, 1)


def test_candidate_features_without_a_third_axis_are_one_feature():
    assert from_arrays(candidate_features=np.ones((3, 2))).candidate_features.shape == (6, 1)


# -- from_ragged: what it makes ----------------------------------------------------------------


def test_ragged_arrays_are_taken_as_they_are():
    log = from_ragged(**COMPANIONS, candidate_features=np.arange(12.0).reshape(6, 2))
    assert_array_equal(log.offsets, RAGGED["offsets"])
    assert_array_equal(log.propensity, [0.6, 0.5, 1.0])
    assert_array_equal(log.candidate_features[2], [4.0, 5.0])
    assert not log.has_equal_lengths
    assert log.actions is None


def test_chosen_by_name_is_found_inside_its_own_decision():
    log = named()
    assert_array_equal(log.chosen, [1, 2, 0])
    assert log.actions == ("a", "b", "c")
    assert_array_equal(log.candidate, [0, 1, 0, 1, 2, 0])
    assert_array_equal(log.candidate_codes(), log.candidate)


def test_ragged_propensity_without_logging():
    log = from_ragged(logging=None, propensity=[0.6, 0.5, 1.0])
    assert log.logging is None
    assert_array_equal(log.propensity, [0.6, 0.5, 1.0])


def test_whole_floats_do_as_offsets_and_positions():
    log = from_ragged(offsets=[0.0, 2.0, 5.0, 6.0], chosen=[1.0, 2.0, 0.0])
    assert (log.offsets.dtype, log.chosen.dtype) == (np.int64, np.int64)


def test_equal_lengths_give_the_same_columns_as_square_arrays():
    flat = [0.8, 0.2, 0.5, 0.5, 0.3, 0.7]
    ragged = BanditLog.from_ragged(
        offsets=[0, 2, 4, 6], chosen=ARRAYS["action"], reward=ARRAYS["reward"], logging=flat
    )
    square = from_arrays()
    for name in ("offsets", "chosen", "reward", "logging", "propensity"):
        assert_array_equal(getattr(ragged, name), getattr(square, name))


# -- tolerance ---------------------------------------------------------------------------------


def test_double_precision_must_sum_to_one_within_a_millionth():
    from_arrays(logging=[[0.8, 0.2 + 5e-7], [0.5, 0.5], [0.3, 0.7]])
    with refuses(PropensityError, "logging", 0):
        from_arrays(logging=[[0.8, 0.2 + 5e-6], [0.5, 0.5], [0.3, 0.7]])


@pytest.mark.parametrize(
    ("row", "values"),
    [
        (0, [0.5, 0.5]), (7, [0.5, 0.5 + 2e-6]), (7, [0.3, 0.3]), (9, [0.0, 0.0]), (3, [-0.5, 1.5]),
        (4, [np.nan, 0.5]), (4, [np.inf, 0.5]), (2, [1.0, 0.0]), (5, [1e-310, 1.0]),
    ],
)  # fmt: skip
def test_probabilities_of_candidates_are_checked(row, values):
    offsets = np.array([0, 1, 3, 5, 7, 9, 11, 13, 15, 16, 18])
    logging = np.full(18, 0.5)
    logging[[0, 15]] = 1.0
    own = slice(offsets[row], offsets[row + 1])
    logging[own] = values[: offsets[row + 1] - offsets[row]]
    if row in (2, 5):
        check_probabilities(logging, offsets, "logging", "a.csv", PropensityError, 1e-6)
    else:
        with refuses(PropensityError, "logging", row):
            check_probabilities(logging, offsets, "logging", "a.csv", PropensityError, 1e-6)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_narrow_floats_must_sum_to_one_within_a_thousandth(kind):
    from_arrays(logging=np.array([[0.8, 0.2005], [0.5, 0.5], [0.3, 0.7]], dtype=kind))
    with refuses(PropensityError, "logging", 0):
        from_arrays(logging=np.array([[0.8, 0.205], [0.5, 0.5], [0.3, 0.7]], dtype=kind))


def test_narrow_floats_are_tolerated_in_ragged_logs():
    from_ragged(logging=np.array([0.4, 0.6005, 0.2, 0.3, 0.5, 1.0], dtype=np.float32))


def test_a_narrow_probability_may_exceed_one_by_its_rounding():
    from_arrays(logging=np.array([[1.0005, 0.0], [0.5, 0.5], [0.3, 0.7]], dtype=np.float32))


# -- rows, batches, per-candidate values -------------------------------------------------------


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (1, 2), (1, 3), (2, 3), (0, 3)])
def test_rows_equal_a_log_made_of_those_rows(start, stop):
    offsets = np.array(NAMED["offsets"])
    flat, row = slice(offsets[start], offsets[stop]), slice(start, stop)
    everything = {**NAMED, **COMPANIONS, "candidate_features": np.arange(12.0).reshape(6, 2)}
    per_candidate = ("logging", "candidate", "candidate_features")
    part = BanditLog.from_ragged(**everything).rows(start, stop)
    expected = BanditLog.from_ragged(
        offsets=offsets[start : stop + 1] - offsets[start],
        **{
            name: values[flat if name in per_candidate else row]
            for name, values in everything.items()
            if name != "offsets"
        },
    )
    assert len(part) == stop - start
    assert [part.actions[code] for code in part.candidate] == NAMED["candidate"][flat]
    for name in ("offsets", "chosen", "reward", "propensity", "logging", "candidate_features"):
        assert_array_equal(getattr(part, name), getattr(expected, name))
    for name in COMPANIONS:
        assert_array_equal(getattr(part, name), getattr(expected, name))


def test_rows_of_a_log_without_extras_have_none():
    part = chosen_only().rows(1, 3)
    assert not part.candidates_known
    assert_array_equal(part.propensity, [0.5, 0.7])
    assert_array_equal(part.chosen_index, [0, 1])
    assert (part.logging, part.cluster, part.context) == (None, None, None)


def test_rows_do_not_copy():
    log = from_arrays()
    assert np.shares_memory(log.rows(1, 2).reward, log.reward)


def test_a_log_is_its_own_only_batch():
    log = from_arrays()
    assert [batch is log for batch in log.batches()] == [True]


@pytest.mark.parametrize("values", [[[1, 2], [3, 4], [5, 6]], [1, 2, 3, 4, 5, 6]])
def test_values_per_candidate_may_be_square_or_flat(values):
    assert_array_equal(from_arrays().per_candidate(values, "prediction"), [1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize(
    ("log", "values"),
    [
        (from_arrays(), np.ones(3)),
        (from_arrays(), np.ones((2, 3))),
        (from_ragged(), np.ones((3, 2))),
        (chosen_only(), np.ones((3, 2))),
        (from_arrays(), "q"),
    ],
)
def test_values_per_candidate_of_another_shape_are_refused(log, values):
    with refuses(LogError, "prediction"):
        log.per_candidate(values, "prediction")


def test_a_column_name_means_nothing_without_a_frame():
    with refuses(LogError, "new"):
        from_arrays().named_column("new")


# -- repr, groups, fingerprint -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "text"),
    [
        (from_arrays(), "BanditLog(3 decisions, 2 candidates each, logging, propensity)"),
        (from_ragged(), "BanditLog(3 decisions, 1 to 3 candidates each, logging, propensity)"),
        (
            chosen_only(cluster=[1, 2, 3], time=[1, 2, 3], row_weight=[1, 2, 3], source="a.csv"),
            "BanditLog(a.csv: 3 decisions, candidates unknown, "
            "propensity, cluster, time, row_weight)",
        ),
        (
            BanditLog.from_arrays(action=[0, 1], reward=[1, 0], actions=2),
            "BanditLog(2 decisions, 2 candidates each)",
        ),
    ],
)
def test_repr_says_what_the_log_holds(log, text):
    assert repr(log) == text


def test_a_log_cannot_be_reassigned():
    with pytest.raises(dataclasses.FrozenInstanceError):
        from_arrays().reward = np.zeros(3)


def test_rows_of_one_cluster_share_a_group():
    group = from_arrays(cluster=["u", "v", "u"]).group
    assert group[0] == group[2] != group[1]
    assert from_arrays().group is None


def test_groups_are_the_same_on_every_machine():
    # blake2b(str(name), digest_size=1, person=b"cluster"), noted once: later versions must agree.
    names = np.array(["u", "v", "user-17", *map(str, range(300))])
    assert_array_equal(hash_groups(names)[:3], [46, 160, 41])


def clustered(clusters: bool) -> BanditLog:
    rng = np.random.default_rng(0)
    return BanditLog.from_arrays(
        action=rng.integers(0, 3, 300), actions=3, reward=rng.random(300),
        logging=np.full((300, 3), 1 / 3), context=rng.random((300, 2)),
        row_weight=rng.random(300) + 0.5,
        cluster=rng.integers(0, 40, 300) if clusters else None,
    )  # fmt: skip


HALF, THIRDS = np.arange(40, 220), np.arange(100, 300, 3)
PARTS = {
    "rows": (lambda log: log.rows(40, 220), HALF),
    "taken": (lambda log: log.take(np.array([7, 5, 299, 5])), [7, 5, 299, 5]),
    "rows of taken": (lambda log: log.take(THIRDS).rows(5, 50), THIRDS[5:50]),
    "taken of rows": (lambda log: log.rows(90, 300).take(THIRDS - 90), THIRDS),
    "named": (lambda log: log.rows(40, 220).replace(actions=(1, 2, 3), trusted=True), HALF),
    "rewarded": (lambda log: log.rows(40, 220).replace(reward=np.zeros(180)), HALF),
    "guessed": (
        lambda log: log.take(HALF).replace(logging=[0.2, 0.3, 0.5] * 180, propensity=None), HALF,
    ),
    "whole": (lambda log: log.replace(row_weight=None), np.arange(300)),
}  # fmt: skip


@pytest.mark.parametrize("clusters", [True, False])
@pytest.mark.parametrize("name", PARTS)
def test_a_decision_stays_in_its_fold_whatever_becomes_of_its_log(name, clusters):
    log, (make, places) = clustered(clusters), PARTS[name]
    part = make(log)
    assert_array_equal(part.bucket, log.bucket[places])
    assert_array_equal(part.fold(7), log.fold(7)[places])
    assert part.group is None if not clusters else (part.group == log.group[places]).all()
    assert part.is_part == (name != "whole")


def test_other_clusters_make_other_groups():
    part = clustered(True).rows(40, 220).replace(cluster=np.arange(180))
    assert_array_equal(part.group, np.arange(180))


def test_replaced_fields_are_checked():
    log = from_arrays(logging=np.array([[0.3, 0.7]] * 3, dtype=np.float32))
    assert log.replace(reward=[3, 2, 1]).reward.tolist() == [3.0, 2.0, 1.0]
    with refuses(LogError, "reward", 1):
        log.replace(reward=[1.0, np.nan, 0.0])
    with refuses(PropensityError, "logging", 0):
        log.replace(logging=[0.5, 0.4] * 3, propensity=None)
    assert log.weights.tolist() == [1.0] * 3
    assert log.replace(row_weight=[1, 2, 3]).weights.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("buckets", [1, 5, 256, 2**32])
def test_a_bucket_is_the_remainder_of_the_hash(buckets):
    whole = hash_rows(np.arange(2**40, 2**40 + 1000), salt=3, buckets=2**62)
    small = hash_rows(np.arange(2**40, 2**40 + 1000), salt=3, buckets=buckets)
    assert small.dtype == np.int64
    assert 0 <= small.min() <= small.max() < buckets
    if 2**62 % buckets == 0:
        assert_array_equal(small, whole % buckets)


def test_few_clusters_keep_a_group_of_their_own():
    names = np.array(["v", "u", "v", "user-17"])
    assert_array_equal(hash_groups(names), [2, 0, 2, 1])


def test_groups_fill_their_range_evenly():
    counts = np.bincount(hash_groups(np.arange(25_600)), minlength=256)
    assert len(counts) == 256
    assert np.abs(counts - 100).max() < 60


CHANGES = {
    "offsets": {"offsets": [0, 2, 3, 6], "chosen": [1, 0, 2], "logging": [0.4, 0.6, 1, 0, 0, 1]},
    "chosen": {"chosen": [0, 2, 0]},
    "reward": {"reward": [1.0, 0.0, 2.0 + 1e-15]},
    "logging": {"logging": [0.4, 0.6, 0.3, 0.2, 0.5, 1.0]},
    "propensity": {"logging": None, "propensity": [0.6, 0.5, 1.0]},
    "candidate": {"candidate": ["a", "b", "a", "b", "c", "a"]},
    "names": {"candidate": ["a", "b", "a", "b", "d", "a"]},
    "cluster": {"cluster": ["u", "v", "u"]},
    "other cluster": {"cluster": ["u", "u", "v"]},
    "time": {"time": [1, 2, 3]},
    "row_weight": {"row_weight": [1.0, 1.0, 1.0]},
    "context": {"context": [[1.0], [2.0], [3.0]]},
    "candidate_features": {"candidate_features": np.ones((6, 1))},
}


def test_any_change_changes_the_fingerprint():
    prints = [from_ragged(**change).fingerprint() for change in ({}, *CHANGES.values())]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize("change", [{}, *({name: v} for name, v in COMPANIONS.items())])
def test_the_same_content_has_the_same_fingerprint(change):
    assert from_ragged(**change).fingerprint() == from_ragged(**change).fingerprint()


def test_the_fingerprint_does_not_depend_on_where_the_log_came_from():
    assert from_arrays(source="a.csv").fingerprint() == from_arrays().fingerprint()


def test_the_fingerprint_tells_unknown_candidates_from_single_ones():
    single = BanditLog.from_ragged(
        offsets=[0, 1, 2, 3],
        chosen=[0, 0, 0],
        candidate=CHOSEN_ONLY["action"],
        reward=CHOSEN_ONLY["reward"],
        propensity=CHOSEN_ONLY["propensity"],
    )
    assert single.fingerprint() != chosen_only().fingerprint()


# -- what is refused ----------------------------------------------------------------------------

SECOND_ROW = [
    ([-0.5, 1.5], "logging", "candidate 0"),
    ([0.0, 1.5], "logging", "candidate 1"),
    ([0.5, NAN], "logging", "candidate 1"),
    ([INF, 0.5], "logging", "candidate 0"),
    ([0.5, 0.4], "logging", ""),
    ([0.5, 0.6], "logging", ""),
    ([1.0, 0.0], "propensity", ""),
    ([1.0, 1e-310], "propensity", ""),
]


@pytest.mark.parametrize(("second", "column", "part"), SECOND_ROW)
def test_logging_that_is_no_distribution_is_refused(second, column, part):
    with refuses(PropensityError, column, 1, part=part, rows=[1]):
        from_arrays(logging=[[0.8, 0.2], second, [0.3, 0.7]])


@pytest.mark.parametrize("bad", [[0.5, 0.4], [-0.5, 1.5]])
def test_bad_rows_are_counted_and_placed_beyond_the_first_block(bad):
    n = BLOCK_ROWS + 1000
    rows = [BLOCK_ROWS + 7, n - 1]
    logging = np.full((n, 2), 0.5)
    logging[rows] = bad
    with refuses(PropensityError, "logging", rows[0], rows=rows) as caught:
        BanditLog.from_arrays(action=np.zeros(n, int), reward=np.zeros(n), logging=logging)
    assert ("2 of 66,536 rows" if sum(bad) < 1 else "4 of 133,072 values") in str(caught.value)


def two(values: object, kind: type = float) -> np.ndarray:
    """In two dimensions, as no column may be."""
    return np.array(values, dtype=kind).reshape(3, -1)


FEATURES = np.ones((3, 2, 2))
FEATURES[1, 0, 1] = NAN
MALFORMED = [
    *((chosen_only, "propensity", [0.8, bad, 0.7]) for bad in (-0.1, 0.0, 1e-301, 1.25, NAN, INF)),
    *((from_arrays, "reward", [1.0, bad, 0.0]) for bad in (NAN, None, -INF, 1.1e150, -1.1e150)),
    *((from_arrays, "row_weight", [1, bad, 1]) for bad in (NAN, INF, 0, -2, 1e-101, 1e101)),
    *((from_arrays, "time", bad) for bad in ([1.0, NAN, 2.0], [1.0, INF, 2.0], [1, None, 2], NAT)),
    *((from_arrays, "cluster", bad) for bad in ([1.0, NAN, 2.0], ["u", None, "v"], NAT)),
    *((chosen_only, "action", bad) for bad in (["a", None, "b"], [1.0, NAN, 2.0], NAT)),
    (chosen_only, "action", objects("a", NAN, "b")),
    *((from_arrays, "action", [0, bad, 1]) for bad in (2, -1)),
    *((from_ragged, "chosen", [1, bad, 0]) for bad in (0.5, NAN, None, 1e30, -1, 3)),
    (from_arrays, "candidate_features", FEATURES),
    (from_ragged, "candidate_features", [1, 2, 3, 4, INF, 6]),
    (named, "candidate", ["a", "b", "a", None, "c", "a"]),
    (named, "candidate", ["a", "b", "a", "c", "a", "a"]),
    *((from_ragged, "offsets", [0, bad, 5, 6]) for bad in (2.5, NAN)),
]
"""In the second row, and there alone."""


@pytest.mark.parametrize(("make", "column", "values"), MALFORMED)
def test_a_malformed_value_is_refused_by_column_and_row(make, column, values):
    error = PropensityError if column == "propensity" else LogError
    with refuses(error, column, 1, file="" if column == "offsets" else "a.csv", rows=[1]):
        make(**{column: values}, source="a.csv")


ELSEWHERE = [
    (from_ragged, {"logging": [0.4, 0.6, 0.2, 0.3, 0.6, 1.0]}, "logging", 1, ""),
    (from_ragged, {"logging": [0.4, 0.6, 0.2, -0.3, 1.1, 1.0]}, "logging", 1, "candidate 1"),
    (from_ragged, {"logging": [0.4, 0.6, 0.2, 0.3, 0.5, NAN]}, "logging", 2, "candidate 0"),
    (from_ragged, {"logging": [1.0, 0.0, 0.2, 0.3, 0.5, 1.0]}, "propensity", 0, ""),
    (from_ragged, {"logging": [[0.5, 0.5]] * 3, "offsets": [0, 2, 4, 6]}, "logging", None, ""),
    (from_arrays, {"propensity": [0.8, 0.7, 0.3]}, "propensity", 1, ""),
    (from_arrays, {"propensity": [0.8, NAN, 0.7]}, "propensity", 1, ""),
    (from_arrays, {"row_weight": [1, 0, -1]}, "row_weight", 1, ""),
    (from_arrays, {"cluster": [1.0, NAN, NAN]}, "cluster", 1, ""),
    (from_arrays, {"candidate_features": FEATURES}, "candidate_features", 1, "candidate 0"),
    (named, {"candidate": ["a", "b", "a", None, "c", "a"]}, "candidate", 1, "candidate 1"),
    (named, {"action": ["c", "c", "b"]}, "action", 0, ""),
    (from_arrays, {"action": ["a", "q", "a"], "actions": ["a", "b"]}, "action", 1, ""),
    (from_ragged, {"chosen": [2, 3, 0]}, "chosen", 0, ""),
    (from_ragged, {"offsets": [0, 2, 2, 6]}, "candidates", 1, ""),
    (from_ragged, {"offsets": [0, 3, 2, 6]}, "candidates", 1, ""),
    (from_ragged, {"offsets": [0, 2, 5, 1e30]}, "offsets", 3, ""),
    (from_ragged, {"offsets": ["a", "b"]}, "offsets", None, ""),
    (from_ragged, {"offsets": [0, 2, 6]}, "reward", None, ""),
    (from_ragged, {"offsets": [0, 2, 5, 7]}, "logging", None, ""),
    *((from_ragged, {"offsets": bad}, "offsets", None, "") for bad in ([[0, 2, 5, 6]], 6)),
    (from_ragged, {"reward": [1.0]}, "reward", None, ""),
    (from_ragged, {"chosen": [0]}, "chosen", None, ""),
    (from_ragged, {"chosen": ["b", "c", "a"]}, "chosen", None, ""),
    (from_arrays, {"logging": [[0.5, 0.5]] * 2}, "logging", None, ""),
    (from_arrays, {"logging": "pi0"}, "logging", None, ""),
    (from_arrays, {"logging": [[0.5, 0.5], [1.0], [0.5, 0.5]]}, "logging", None, ""),
    (from_arrays, {"candidate_features": [["a", "b"]] * 3}, "candidate_features", None, ""),
    (from_arrays, {"reward": [[1], [1, 2], [3]]}, "reward", None, ""),
    (from_arrays, {"reward": {"a": 1}}, "reward", None, ""),
    (named, {"action": ["a", "b"]}, "action", None, ""),
    *(
        (named, {"action": two(bad, str)}, "action", None, "")
        for bad in (list("bca"), list("bbccaa"))
    ),
]


@pytest.mark.parametrize(("make", "change", "column", "row", "part"), ELSEWHERE)
def test_what_is_refused(make, change, column, row, part):
    with pytest.raises(LogError) as caught:
        make(**change)
    assert caught.value.place == Place("", column, row, part=part)


COLUMNS = ["action", "reward", "propensity", "row_weight", "cluster"]


@pytest.mark.parametrize("column", [*COLUMNS, "time", "context"])
@pytest.mark.parametrize("make", [from_arrays, chosen_only])
def test_a_column_of_another_shape_is_refused(make, column):
    wide = [np.ones((3, 1), int), np.ones((3, 2), int)] if column in COLUMNS else []
    text = [["x", "y", "z"]] if column in ("reward", "propensity", "row_weight") else []
    short = [[1, 1]] if column != "reward" else []  # by which the others are judged
    for values in (1, *short, *wide, *text):
        with pytest.raises(LogError) as caught:
            make(**{column: values})
        assert (caught.value.column, caught.value.row) == (column, None)


@pytest.mark.parametrize("column", ["logging", "candidate", "candidate_features"])
def test_a_ragged_column_must_have_a_value_for_every_candidate(column):
    with refuses(LogError, column):
        from_ragged(**{column: [0.4, 0.6, 1.0]})


@pytest.mark.parametrize("column", ["cluster", "time", "context", "candidate_features"])
def test_rows_of_different_lengths_are_refused(column):
    with refuses(LogError, column):
        from_arrays(**{column: [[1, 2], [3], [4]]})


@pytest.mark.parametrize("shape", [(2, 2, 3), (3, 1, 4), (3, 3, 2), (5,), (3,), (4, 3)])
def test_candidate_features_of_another_shape_are_refused(shape):
    with refuses(LogError, "candidate_features"):
        from_arrays(candidate_features=np.ones(shape))


@pytest.mark.parametrize("logging", [[0.5, 0.5, 0.5], np.full((3, 1, 2), 0.5), 0.5])
def test_logging_must_have_two_dimensions(logging):
    with refuses(LogError, "logging"):
        from_arrays(logging=logging)


def test_rewards_up_to_the_limit_are_taken():
    assert_array_equal(from_arrays(reward=[1e150, -1e150, 0]).reward, [1e150, -1e150, 0])


def test_a_long_value_is_cut_short_in_the_message():
    with pytest.raises(LogError) as caught:
        from_arrays(reward=["not a number"] * 1000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("make", "fields", "column"),
    [
        (BanditLog.from_arrays, {"action": [], "logging": np.zeros((0, 2))}, "reward"),
        (BanditLog.from_arrays, {"action": [], "propensity": []}, "reward"),
        (BanditLog.from_ragged, {"offsets": [0], "chosen": [], "logging": []}, "offsets"),
        (BanditLog, {"offsets": np.zeros(1, int), "chosen": np.zeros(0, int)}, "reward"),
    ],
)
def test_an_empty_log_is_refused(make, fields, column):
    with refuses(LogError, column):
        make(reward=np.zeros(0), **fields)


@pytest.mark.parametrize(
    ("make", "change", "column"),
    [
        (from_ragged, {"offsets": [1, 2, 5, 6]}, "offsets"),
        (from_ragged, {"offsets": []}, "offsets"),
        (from_ragged, {"action": ["b", "c", "a"]}, "action"),
        (from_ragged, {"chosen": None}, "action"),
        (from_ragged, {"chosen": None, "action": list("bca")}, "candidate"),
        (from_arrays, {"action": list("aaa"), "actions": ["a", "a"]}, "actions"),
        (from_arrays, {"actions": 3}, "actions"),
        (from_arrays, {"actions": [["a"], ["b"]]}, "actions"),
        (chosen_only, {"action": objects({}, {}, {})}, "action"),
        *((chosen_only, {"actions": none}, "actions") for none in (0, -1, [])),
    ],
)
def test_arguments_that_do_not_fit_together_are_refused(make, change, column):
    with refuses(LogError, column):
        make(**change)


@pytest.mark.parametrize(
    ("make", "change", "says"),
    [
        (chosen_only, {"propensity": [0.8, 0.0, 0.7]}, r"0 or below.* not randomised, leave them"),
        (chosen_only, {"propensity": [0.8, 1.25, 0.7]}, "inverse propensities, or percentages"),
        (from_arrays, {"reward": [1, 2e150, 0]}, r"2e\+150 \(1 of 3 rows are beyond.*rescale them"),
        (
            from_arrays,
            {"logging": [[0.8, 0.2], [0.5, 0.4], [0.3, 0.7]]},
            r"^logging, row 1: the probabilities sum to 0\.9, not 1 \(1 of 3 rows are off by more "
            r"than 1e-06\)\. Every candidate .* divide each decision's probabilities by their sum",
        ),
        (
            from_arrays,
            {"action": ["red", "gren", "red"], "actions": ["red", "green"], "source": "a.csv"},
            r"^a\.csv, action, row 1: 'gren' is not among the 2 actions\. Did you mean \"green\"\?",
        ),
        (
            from_arrays,
            {"action": ["red", "q", "red"], "actions": ["red", "green"]},
            r"'q' is not among the 2 actions\. Every chosen",
        ),
    ],
)
def test_the_sentence_says_what_to_do(make, change, says):
    with pytest.raises(LogError, match=says):
        make(**change)


def test_a_missing_action_of_pandas_is_refused():
    pandas = pytest.importorskip("pandas")
    with refuses(LogError, "action", 1):
        chosen_only(action=objects("a", pandas.NA, "b"))


def test_every_refusal_is_a_value_error_too():
    with refuses(LogError, "reward") as caught:
        from_arrays(reward=["x", "y", "z"])
    assert isinstance(caught.value, ValueError)
