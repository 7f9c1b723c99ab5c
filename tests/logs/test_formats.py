"""Foreign formats: the same numbers as straight from the raw file, and no trap unseen."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import offpolicy as op
from offpolicy.errors import LogError, ParameterError, PolicyError, PropensityError
from offpolicy.logs.formats import dsjson, obd, obp
from tests.support.foreign import DANGLING, DSJSON, LINE, SLOTS, data, needs_data
from tests.support.refusals import refuses


def ips_and_snips(rows: list[tuple[float, float, float]]) -> tuple[float, float]:
    """From (π/π₀, reward, row weight) of every decision."""
    c, r, w = np.array(rows).T
    return (w * c * r).sum() / w.sum(), (w * c * r).sum() / (w * c).sum()


def evaluated(log: op.BanditLog, policy: object) -> tuple[float, float]:
    result = op.evaluate(log, policy, prediction=False, estimators=["IPS", "SNIPS"])
    return result["IPS"].value, result["SNIPS"].value


# -- dsjson: real files ------------------------------------------------------------------------

GREEDY = op.Deterministic(scores=lambda log: log.logging + 1e-6 * log.candidate_codes())
"""The likeliest candidate; of several, the one with the highest id."""

OTHER_JSON = ["cats_room_temp.json", "cb_test256.json"]


def raw_decisions(path: Path):
    """(ids, p, position of the chosen, reward, weight), by what is known of each file."""
    for line in path.read_text().splitlines():
        record = json.loads(line)
        weight = 1 / (1 - record.get("pdrop", 0))
        for outcome in record.get("_outcomes", []):
            yield outcome["_a"], outcome["_p"], 0, -outcome["_label_cost"], weight
        if "p" in record:
            position = record["_labelIndex"] if path.name == "igl.dsjson" else 0
            yield record["a"], record["p"], position, -record["_label_cost"], weight


@needs_data
@pytest.mark.parametrize("name", DSJSON)
def test_dsjson_files_give_what_the_raw_lines_give(name):
    uniform, greedy = [], []
    for ids, p, position, reward, weight in raw_decisions(data("vw", name)):
        best = max(range(len(p)), key=lambda k: (p[k], ids[k]))
        uniform.append((1 / len(p) / p[position], reward, weight))
        greedy.append(((best == position) / p[position], reward, weight))
    log = dsjson.read(data("vw", name))
    assert len(log) == len(uniform) == DSJSON[name]
    assert log.source == str(data("vw", name))
    assert_allclose(evaluated(log, op.Uniform()), ips_and_snips(uniform), rtol=1e-6)
    assert_allclose(evaluated(log, GREEDY), ips_and_snips(greedy), rtol=1e-6)


@needs_data
@pytest.mark.parametrize("name", [*DSJSON, *OTHER_JSON, "b1848_dsjson_parser_regression.txt"])
def test_dsjson_files_are_told_from_other_json(name):
    lines = data("vw", name).read_text(encoding="utf-8").splitlines()
    assert dsjson.sniff(lines[:3]) == (name not in OTHER_JSON)


@needs_data
def test_a_real_file_without_any_decision_is_refused():
    path, counts = data("vw", "b1848_dsjson_parser_regression.txt"), dsjson.Skipped()
    with refuses(LogError, row=8, file=path.name):
        dsjson.read(path)
    with refuses(LogError, file=path.name):
        dsjson.read(path, on_bad_row="drop", counts=counts)
    assert counts == {"_skipLearn": 1, "dangling reward": 6, "bad": 1}


@needs_data
@pytest.mark.parametrize("name", OTHER_JSON)
def test_other_json_is_refused(name):
    with refuses(LogError, "a", 1):
        dsjson.read(data("vw", name))


# -- dsjson: hand-made lines -------------------------------------------------------------------

FROM_ZERO = LINE | {"a": [0, 1, 2], "p": [0.6, 0.1, 0.3], "EventId": "e2"}


@pytest.fixture
def write(tmp_path):
    """Lines (records or raw text) as a file."""

    def make(*lines: object, name: str = "log.dsjson") -> Path:
        path = tmp_path / name
        text = "".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines)
        with pa.output_stream(str(path), compression="detect") as file:
            file.write(text.encode())
        return path

    return make


def without(record: dict, *names: str) -> dict:
    return {name: value for name, value in record.items() if name not in names}


def slots(**changes: object) -> dict:
    """`SLOTS` with another second slot."""
    return SLOTS | {"_outcomes": [SLOTS["_outcomes"][0], SLOTS["_outcomes"][1] | changes]}


@pytest.mark.parametrize(
    "record",
    [
        LINE,
        FROM_ZERO,
        LINE | {"a": [1, 2, 3], "p": [0.6, 0.1, 0.3]},
        FROM_ZERO | {"a": [2, 0, 1], "p": [0.3, 0.6, 0.1]},
        without(LINE, "_labelIndex"),
        without(LINE, "_label_Action"),
        without(LINE, "c"),
        LINE | {"_labelIndex": 1},  # p[1] is 0.1: only _label_Action agrees
        LINE | {"_label_probability": 0.30000001192092896},
    ],
    ids=[
        "chosen first, from 1",
        "in order, from 0",
        "in order, from 1",
        "chosen first, from 0",
        "no index",
        "no action",
        "no features",
        "contradiction",
        "float32",
    ],
)
def test_every_way_to_number_the_actions_gives_one_log(record, write):
    log = dsjson.read(write(record))
    assert_array_equal(log.candidate, [0, 1, 2])
    assert_array_equal(log.chosen, [2])
    assert_allclose(log.logging, [0.6, 0.1, 0.3], rtol=1e-12)
    assert_allclose(log.propensity, [0.3], rtol=1e-12)
    assert_array_equal(log.reward, [2.0])
    assert log.actions == (0, 1, 2)


def test_both_ways_in_one_file_are_told_line_by_line(write):
    log = dsjson.read(write(LINE, FROM_ZERO))
    assert_array_equal(log.chosen, [2, 2])
    assert_allclose(log.logging.reshape(2, 3), [[0.6, 0.1, 0.3]] * 2)
    assert_array_equal(log.time, [LINE["Timestamp"]] * 2)
    assert log.row_weight is None
    assert log.cluster is None


def test_equal_probabilities_do_not_hide_which_one_was_chosen(write):
    even = {"p": [0.25] * 4, "_label_probability": 0.25, "c": {"_multi": [{}] * 4}}
    first = LINE | even | {"a": [3, 1, 2, 4]}
    in_order = LINE | even | {"a": [0, 1, 2, 3]}
    assert_array_equal(dsjson.read(write(first, in_order)).chosen, [2, 2])


def test_lines_that_are_no_decisions_are_counted(write):
    counts = dsjson.Skipped()
    skipped = LINE | {"_skipLearn": True}
    path = write("", LINE, DANGLING, skipped, "  ", DANGLING, FROM_ZERO | {"_skipLearn": False})
    log = dsjson.read(path, counts=counts)
    assert counts == {"blank": 2, "dangling reward": 2, "_skipLearn": 1}
    assert str(counts) == "5 lines left out (1 _skipLearn, 2 blank, 2 dangling reward)"
    assert log.table.column("event").to_pylist() == ["e1", "e2"]


def test_dropped_lines_are_made_up_for(write):
    log = dsjson.read(write(LINE | {"pdrop": 0.75}, LINE | {"_label_cost": 0}))
    assert_array_equal(log.row_weight, [4.0, 1.0])
    # IPS of "always the third": 4/5 of (2/0.3) and 1/5 of nothing.
    assert evaluated(log, op.Deterministic(action=2)) == pytest.approx((0.8 * 2 / 0.3, 1.6))


def test_a_cost_of_minus_zero_is_a_plain_zero(write):
    log = dsjson.read(write(LINE | {"_label_cost": -0.0}, LINE | {"_label_cost": 0}))
    assert not np.signbit(log.reward).any()


def test_probabilities_are_divided_by_their_sum(write):
    off = LINE | {"p": [0.30001, 0.60002, 0.1], "_label_probability": 0.30001}
    log = dsjson.read(write(off))
    assert_allclose(log.logging, np.array([0.60002, 0.1, 0.30001]) / 1.00003, rtol=1e-12)


def test_each_slot_is_a_decision_of_its_event(write):
    log = dsjson.read(write(SLOTS, LINE, without(SLOTS, "EventId")))
    assert_array_equal(log.offsets, [0, 3, 5, 8, 11, 13])
    assert_array_equal(log.candidate, [0, 1, 2, 0, 1, 0, 1, 2, 0, 1, 2, 0, 1])
    assert_array_equal(log.chosen, [2, 1, 2, 2, 1])
    assert_allclose(log.logging[:5], [0.2, 0.3, 0.5, 0.1, 0.9])
    assert_array_equal(log.reward, [1.0, -0.5, 2.0, 1.0, -0.5])
    assert_array_equal(log.cluster, ["e3", "e3", "e1", "line 3", "line 3"])
    assert log.table.column("slot").to_pylist() == [0, 1, 0, 0, 1]
    assert log.time is None  # not every line has one


JUNK = [
    ("[CHECKPOINT INFO LINE]", LogError, ""),
    ('{"_label_cost": -1, "p": [0.5', LogError, ""),
    ("[1, 2]", LogError, ""),
    ("\xff" + "[" * 100_000, LogError, ""),
    ("{}", LogError, "a"),
    (without(LINE, "p"), LogError, "p"),
    (LINE | {"p": None}, LogError, "p"),
    (LINE | {"p": []}, LogError, "p"),
    (LINE | {"p": [0.3, 0.7]}, LogError, "a"),
    (LINE | {"p": [0.3, "x", 0.1]}, LogError, "p"),
    (LINE | {"p": [0.3, True, 0.1]}, LogError, "p"),
    (LINE | {"p": [0.3, 0.5, 0.1]}, PropensityError, "p"),
    (LINE | {"p": [0.3, 0.8, -0.1]}, PropensityError, "p"),
    (LINE | {"p": [0.3, float("nan"), 0.1]}, LogError, "p"),
    (LINE | {"a": [3, 1, 1]}, LogError, "a"),
    (LINE | {"a": [3, 1, 4]}, LogError, "a"),
    (LINE | {"a": [3, 1, 2.5]}, LogError, "a"),
    (LINE | {"c": {"_multi": [{}] * 4}}, LogError, "a"),
    (LINE | {"_label_probability": 0.6}, PropensityError, "_label_probability"),
    (LINE | {"_labelIndex": 7, "_label_Action": 8}, PropensityError, "_label_probability"),
    (without(LINE, "_label_probability"), LogError, "_label_probability"),
    (without(LINE, "_label_Action", "_labelIndex"), LogError, "_labelIndex"),
    (without(LINE, "_label_cost"), LogError, "_label_cost"),
    (LINE | {"_label_cost": "1"}, LogError, "_label_cost"),
    (LINE | {"_label_cost": 10**400}, LogError, "_label_cost"),
    (LINE | {"_label_cost": 1e200}, LogError, "_label_cost"),
    (LINE | {"p": [0, 0.9, 0.1], "_label_probability": 0}, PropensityError, "p"),
    (LINE | {"pdrop": 1.0}, LogError, "pdrop"),
    (LINE | {"pdrop": -0.1}, LogError, "pdrop"),
    (SLOTS | {"_outcomes": []}, LogError, "_outcomes"),
    (SLOTS | {"_outcomes": [{"_a": [0, 1], "_p": [0.5, 0.5]}]}, LogError, "_outcomes"),
    (slots(_p=[0.9, 0.2]), PropensityError, "_p"),
    (slots(_a=[1, 1]), LogError, "_a"),
    (slots(_a=[3, 1]), LogError, "_a"),
    (slots(_a=[1, 0, 2]), LogError, "_a"),
    (slots(_p=[0.0, 1.0]), PropensityError, "_p"),
]


@pytest.mark.parametrize(("line", "error", "field"), JUNK)
def test_a_bad_line_is_refused_or_counted(line, error, field, write):
    path = write(LINE, line, FROM_ZERO)
    part = "slot 1" if field in ("_a", "_p") else ""
    with refuses(error, field, 2, file="log.dsjson", part=part):
        dsjson.read(path)
    counts = dsjson.Skipped()
    log = dsjson.read(path, on_bad_row="drop", counts=counts)
    assert counts == {"bad": 1}
    assert log.table.column("event").to_pylist() == ["e1", "e2"]


@pytest.mark.parametrize("name", ["log.dsjson", "log.dsjson.gz", "log.dsjson.zst", "log.json.bz2"])
def test_compressed_files_are_unpacked(name, write):
    log = dsjson.read(write(LINE, FROM_ZERO, name=name))
    assert_array_equal(log.reward, [2.0, 2.0])


def test_joined_gzip_files_are_read_to_the_end(tmp_path):
    path = tmp_path / "log.dsjson.gz"
    member = gzip.compress((json.dumps(LINE) + "\n").encode())
    path.write_bytes(member * 3)
    assert len(dsjson.read(path)) == 3


def test_a_cut_off_file_is_refused(write):
    path = write(*[LINE] * 50, name="log.dsjson.gz")
    path.write_bytes(path.read_bytes()[:-20])
    with refuses(LogError, file="log.dsjson.gz"):
        dsjson.read(path)


@pytest.mark.parametrize("lines", [[], ["", DANGLING]])
def test_a_file_without_decisions_is_refused(lines, write):
    counts = dsjson.Skipped()
    with refuses(LogError, file="log.dsjson"):
        dsjson.read(write(*lines), counts=counts)
    assert counts.total() == len(lines)


def test_what_is_no_file_is_refused(tmp_path):
    with refuses(LogError, file="none.dsjson"):
        dsjson.read(tmp_path / "none.dsjson")
    with refuses(LogError, file=tmp_path.name):
        obd.read(tmp_path)


def test_batches_are_of_one_schema_and_keep_events_whole(write):
    path = write(LINE, SLOTS, FROM_ZERO, without(LINE, "Timestamp", "EventId"))
    parts = list(dsjson.batches(path, dsjson.Skipped(), batch_rows=2))
    assert [len(part) for part in parts] == [3, 2]
    assert all(part.schema == dsjson.schema() for part in parts)
    table = pa.Table.from_batches(parts)
    assert table.column("event").to_pylist() == ["e1", "e3", "e3", "e2", "line 4"]
    assert table.column("time").null_count == 3
    whole = dsjson.read(path)
    assert_array_equal(whole.logging, np.concatenate(table.column("logging").to_pylist()))
    assert_array_equal(whole.propensity, table.column("propensity"))


def test_a_batch_is_a_log_by_itself(write):
    (part,) = dsjson.batches(write(LINE, FROM_ZERO), dsjson.Skipped())
    log = op.BanditLog.from_frame(part)
    assert_array_equal(log.chosen, [2, 2])
    assert_array_equal(log.row_weight, [1.0, 1.0])


@pytest.mark.parametrize(("option", "value"), [("on_bad_row", "skip"), ("batch_rows", 0)])
def test_options_are_checked_at_once(option, value, write):
    with refuses(ParameterError, option):
        dsjson.batches(write(LINE), dsjson.Skipped(), **{option: value})


@pytest.mark.parametrize(
    ("lines", "yes"),
    [
        ([LINE], True),
        (["", "[CHECKPOINT]", SLOTS], True),
        ([DANGLING], True),
        ([], False),
        (["action,reward"], False),
        ([{"action": 1, "reward": 0, "logging": [0.5, 0.5]}], False),
        ([{"a": 1, "p": 0.5}], False),
    ],
)
def test_sniff(lines, yes):
    assert dsjson.sniff([x if isinstance(x, str) else json.dumps(x) for x in lines]) is yes


# -- Open Bandit Dataset -----------------------------------------------------------------------

CAMPAIGNS = {"all": 80, "men": 34, "women": 46}
HEADER = "timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0"
ROWS = [
    "2019-11-24 00:00:17.004101+00:00,1,2,0,0.5,u,0.0",
    "2019-11-24 00:00:19+00:00,0,3,1,0.5,v,1.0",
    "2019-11-24 00:00:20.5+00:00,1,1,1,0.5,u,0.0",
]


def write_csv(path: Path, rows: list[str], header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@needs_data
@pytest.mark.parametrize("campaign", CAMPAIGNS)
@pytest.mark.parametrize("logger", ["random", "bts"])
def test_obd_files_give_what_the_raw_rows_give(logger, campaign):
    path, K = data("obd", f"{logger}_{campaign}.csv.gz"), CAMPAIGNS[campaign]
    with gzip.open(path, "rt") as file:
        raw = [
            (int(row["item_id"]), float(row["click"]), float(row["propensity_score"]))
            for row in csv.DictReader(file)
        ]
    clicked = [item for item, click, _ in raw if click]
    best = max(set(clicked), key=clicked.count)
    log = obd.read(path, items=K)
    assert len(log) == 10_000
    uniform = ips_and_snips([(1 / K / p, click, 1) for _, click, p in raw])
    always = ips_and_snips([((item == best) / p, click, 1) for item, click, p in raw])
    assert_allclose(evaluated(log, op.Uniform()), uniform, rtol=1e-9)
    assert_allclose(evaluated(log, op.Deterministic(action=best)), always, rtol=1e-9)
    # The same by the chosen items' probabilities alone.
    narrow = obd.read(path)
    pi = np.array([float(item == best) for item, _, _ in raw])
    if logger == "bts":
        assert not narrow.candidates_known
        assert log.logging is narrow.logging is None
        assert_allclose(evaluated(narrow, pi), always, rtol=1e-9)
    else:
        assert narrow.fingerprint() == log.fingerprint()
        assert_allclose(log.logging, 1 / K)


def test_obd_columns(tmp_path):
    log = obd.read(write_csv(tmp_path / "log.csv", ROWS))
    assert_array_equal(log.chosen, [1, 0, 1])
    assert_array_equal(log.reward, [0, 1, 1])
    assert_array_equal(log.logging, [0.5] * 6)
    assert_array_equal(log.context, [["u"], ["v"], ["u"]])
    assert_array_equal(log.named_column("position"), [2, 3, 1])
    assert_array_equal(np.diff(log.time).astype(int), [1_995_899, 1_500_000])
    assert log.source.endswith("log.csv")


def test_obd_with_an_index_column_and_gzip(tmp_path):
    path = tmp_path / "log.csv.gz"
    rows = [f"{k},{row}" for k, row in enumerate(ROWS)]
    path.write_bytes(gzip.compress("\n".join(["," + HEADER, *rows]).encode()))
    plain = obd.read(write_csv(tmp_path / "log.csv", ROWS))
    assert obd.read(path).fingerprint() == plain.fingerprint()


def test_obd_candidates_are_known_only_if_that_is_certain(tmp_path):
    path = write_csv(tmp_path / "log.csv", [*ROWS, ROWS[0].replace("0.5", "0.25")])
    assert not obd.read(path).candidates_known
    given = obd.read(path, items=4)
    assert given.candidates_known
    assert given.logging is None
    assert given.actions == (0, 1, 2, 3)
    # Two items, each shown with 1/4: there must be others.
    path = write_csv(tmp_path / "log.csv", [row.replace("0.5,", "0.25,") for row in ROWS])
    assert not obd.read(path).candidates_known
    assert_array_equal(obd.read(path, items=4).logging, [0.25] * 12)
    # Two items, each shown with 1/2, but not the first two of the campaign.
    path = write_csv(tmp_path / "log.csv", [row.replace("00,1,", "00,5,") for row in ROWS])
    assert obd.read(path).actions == (0, 5)
    assert not obd.read(path).candidates_known


def test_obd_batches(tmp_path):
    path = write_csv(tmp_path / "log.csv", ROWS)
    parts = list(obd.batches(path, batch_rows=2))
    assert [len(part) for part in parts] == [2, 1]
    assert parts[0].schema == parts[1].schema
    table = pa.Table.from_batches(parts)
    assert table.column("action").to_pylist() == [1, 0, 1]
    assert table.column_names[-1] == "user_feature_0"
    with refuses(ParameterError, "batch_rows"):
        obd.batches(path, batch_rows=0)


@pytest.mark.parametrize(
    ("row", "error", "column"),
    [
        (ROWS[1].replace(",0,3", ",x,3"), LogError, "item_id"),
        (ROWS[1].replace(",1,0.5", ",y,0.5"), LogError, "click"),
        (ROWS[1].replace("2019", "in 2019"), LogError, "timestamp"),
        (ROWS[1].replace(",1,0.5", ",,0.5"), LogError, "reward"),
        ("1,2", LogError, ""),
        (ROWS[1].replace("0.5", "0"), PropensityError, "propensity"),
    ],
)
def test_bad_obd_rows_are_refused(row, error, column, tmp_path):
    with refuses(error, column, 1, file="log.csv"):
        obd.read(write_csv(tmp_path / "log.csv", [ROWS[0], row]))
    with refuses(LogError, file="log.csv"):
        obd.read(write_csv(tmp_path / "log.csv", []))


def test_obd_items_must_cover_what_was_shown(tmp_path):
    with refuses(LogError, "item_id", 0, file="log.csv"):
        obd.read(write_csv(tmp_path / "log.csv", ROWS), items=1)


def test_other_csv_is_refused(tmp_path):
    assert obd.sniff(HEADER)
    assert obd.sniff("," + HEADER + "\r\n")
    assert not obd.sniff("action,reward,propensity")
    assert not obd.sniff("")
    with refuses(LogError, "timestamp", file="log.csv"):
        obd.read(write_csv(tmp_path / "log.csv", ["1,2"], header="action,reward"))
    (tmp_path / "empty.csv").write_text("")
    with refuses(LogError, file="empty.csv"):
        obd.read(tmp_path / "empty.csv")


# -- obp ---------------------------------------------------------------------------------------


@pytest.fixture
def feedback():
    """What obp's synthetic data sets return, for 3 positions."""
    rng = np.random.default_rng(3)
    n, K, L = 60, 4, 3
    pi_b = rng.dirichlet(np.ones(K), size=(n, L)).transpose(0, 2, 1)
    position, action = rng.integers(0, L, n), rng.integers(0, K, n)
    return {
        "n_rounds": n,
        "n_actions": K,
        "context": rng.standard_normal((n, 2)),
        "action_context": rng.standard_normal((K, 3)),
        "action": action,
        "position": position,
        "reward": rng.binomial(1, 0.4, n),
        "expected_reward": rng.random((n, K)),
        "pi_b": pi_b,
        "pscore": pi_b[np.arange(n), action, position],
    }


def test_bandit_feedback_is_a_log(feedback):
    log = obp.from_bandit_feedback(feedback)
    n, position = feedback["n_rounds"], feedback["position"]
    for k in range(n):
        assert_array_equal(log.logging.reshape(n, 4)[k], feedback["pi_b"][k, :, position[k]])
    assert_array_equal(log.chosen, feedback["action"])
    assert_array_equal(log.context, feedback["context"])
    assert_allclose(log.propensity, feedback["pscore"])
    assert log.candidate_features is None
    c = 0.25 / feedback["pscore"]
    expected = ips_and_snips([(w, r, 1) for w, r in zip(c, feedback["reward"], strict=True)])
    assert evaluated(log, op.Uniform()) == pytest.approx(expected)


def test_action_context_on_request(feedback):
    log = obp.from_bandit_feedback(feedback, action_features=True)
    assert_array_equal(log.candidate_features[4:8], feedback["action_context"])
    feedback["action_context"] = np.ones((3, 3))
    with refuses(LogError, "action_context"):
        obp.from_bandit_feedback(feedback, action_features=True)


def test_a_policy_of_obp_takes_each_rounds_own_position(feedback):
    log = obp.from_bandit_feedback(feedback)
    action_dist, position = feedback["pi_b"], feedback["position"]
    policy = obp.from_action_dist(action_dist, position)
    assert_array_equal(policy.reshape(-1), log.logging)
    # The logging policy itself: every weight is 1.
    assert evaluated(log, policy) == pytest.approx([feedback["reward"].mean()] * 2)
    back = obp.to_action_dist(policy, len_list=3)
    assert back.shape == action_dist.shape
    assert_array_equal(obp.from_action_dist(back, position), policy)
    assert_array_equal(obp.from_action_dist(obp.to_action_dist(policy)), policy)


def test_without_pi_b_the_pscore_is_what_is_known(feedback):
    log = obp.from_bandit_feedback(without(feedback, "pi_b", "context"))
    assert log.logging is None
    assert log.candidates_known
    assert_array_equal(log.propensity, feedback["pscore"])
    single = feedback | {"pi_b": feedback["pi_b"][:, :, :1], "position": None, "pscore": None}
    assert_array_equal(
        obp.from_bandit_feedback(single).logging, feedback["pi_b"][:, :, 0].reshape(-1)
    )


@pytest.mark.parametrize(
    ("changes", "error", "place"),
    [
        ({"reward": None}, LogError, ["reward"]),
        ({"n_rounds": 59}, LogError, ["reward"]),
        ({"n_actions": 2.5}, LogError, ["n_actions"]),
        ({"n_actions": 3}, LogError, ["actions"]),
        ({"pi_b": None, "pscore": None}, LogError, ["pscore"]),
        ({"pi_b": np.full((60, 4), 0.25)}, LogError, ["pi_b"]),
        ({"position": None}, LogError, ["pi_b"]),
        ({"position": np.full(60, 3)}, LogError, ["position", 0]),
        ({"position": np.zeros(9, int)}, LogError, ["position"]),
        ({"pscore": np.full(60, 0.5)}, PropensityError, ["propensity", 0]),
        ({"action": np.full(60, 0.5)}, LogError, ["action", 0]),
        ({"action": np.full(60, 4)}, LogError, ["action", 0]),
    ],
)
def test_unusable_feedback_is_refused(changes, error, place, feedback):
    with refuses(error, *place):
        obp.from_bandit_feedback(feedback | changes)


def test_unusable_policies_are_refused(feedback):
    with refuses(PolicyError, "action_dist"):
        obp.from_action_dist(np.eye(2))
    with refuses(PolicyError, "action_dist"):
        obp.from_action_dist(feedback["pi_b"])
    with refuses(PolicyError, "probabilities"):
        obp.to_action_dist([0.5, 0.5])


def test_a_misspelt_key_is_guessed(feedback):
    feedback["rewards"] = feedback.pop("reward")
    with refuses(LogError, "reward", match='Did you mean "rewards"'):
        obp.from_bandit_feedback(feedback)
