"""Policies in files: exact to the last bit, whole or not at all, and never a way in."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy._core import saved as written
from offpolicy._core.contexts import ContextEncoder
from offpolicy._core.files import write_whole
from offpolicy.errors import PolicyError
from offpolicy.learning._softmax_learner import SoftmaxLearner
from offpolicy.policies.learned import _saved as storage
from offpolicy.policies.learned._features import FeatureMap
from offpolicy.policies.learned._linear_softmax import LinearSoftmax
from offpolicy.policies.learned._saved import how_learned, load_policy, save_policy
from tests.support.learning import classes, ragged
from tests.support.refusals import refuses


def policy_of(actions, *, seed=0, columns=None) -> LinearSoftmax:
    rng = np.random.default_rng(seed)
    seen = FeatureMap.fit(rng.normal(size=(9, 2)), rng=rng)
    weights = rng.normal(size=(len(actions), 3))
    encoder = ContextEncoder.fit(np.zeros((1, 2)), columns)
    return LinearSoftmax(tuple(actions), seen, weights, encoder=encoder)


def same(a: LinearSoftmax, b: LinearSoftmax) -> None:
    assert [(type(x), x) for x in a.actions or ()] == [(type(x), x) for x in b.actions or ()]
    assert a.encoder == b.encoder
    ours, theirs = storage._arrays(a), storage._arrays(b)
    assert list(ours) == list(theirs)
    for name in ours:
        assert ours[name].shape == theirs[name].shape
        assert ours[name].tobytes() == theirs[name].tobytes(), name
    for part in ("map", "candidate_map"):
        one, other = getattr(a, part), getattr(b, part)
        assert (one is None) == (other is None)
        assert one is None or one.gamma == other.gamma


@pytest.mark.parametrize("features", ["linear", "kernel"])
def test_what_was_learned_comes_back(features, tmp_path):
    log, X, _ = classes(0)
    learner = SoftmaxLearner(features=features, centres=20, gamma=0.3, max_iter=20).fit(log)
    learner.save(tmp_path / "policy.json")
    found = load_policy(tmp_path / "policy.json")
    same(learner.policy_, found)
    assert (found.of_contexts(X) == learner.predict_proba(X)).all()
    assert (found.probabilities(log) == learner.probabilities(log)).all()
    kept = how_learned(tmp_path / "policy.json")
    assert kept["parameters"]["estimator"] == "CAB-DR(M=30)"
    assert SoftmaxLearner(**kept["parameters"]).get_params() == learner.get_params()
    assert kept["report"]["value"] == learner.report_.value


@pytest.mark.parametrize("names", [True, False])
def test_features_of_candidates_come_back(names, tmp_path):
    log = ragged(0, names=names)
    learner = SoftmaxLearner("CAB(M=5)", max_iter=10).fit(log)
    learner.save(tmp_path / "p.json")
    found = load_policy(tmp_path / "p.json")
    same(learner.policy_, found)
    assert (found.probabilities(log) == learner.probabilities(log)).all()


NAMES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters()), st.sampled_from(["1", "1.0", "None", "true", '"', "\ud800", "é\0"]),
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NAMES, min_size=1, max_size=6, unique=True), st.integers(0, 99))
def test_names_keep_their_types(tmp_path, names, seed):
    policy = policy_of(names, seed=seed)
    save_policy(policy, tmp_path / "names.json")
    same(policy, load_policy(tmp_path / "names.json"))
    assert len(list(tmp_path.iterdir())) == 2


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=6, max_size=6))
def test_numbers_keep_every_bit(tmp_path, numbers):
    seen = FeatureMap(np.array([5e-324, -0.0]), np.array([1e-300, 1e300]))
    encoder = ContextEncoder.fit(np.zeros((1, 2)))
    policy = LinearSoftmax(("a", "b"), seen, np.array(numbers).reshape(2, 3), encoder=encoder)
    save_policy(policy, tmp_path / "bits.json")
    same(policy, load_policy(tmp_path / "bits.json"))


@pytest.mark.parametrize("name", [("a", 1), float("inf"), b"a", float("nan")])
def test_other_names_are_refused(name, tmp_path):
    with refuses(PolicyError, "actions"):
        save_policy(policy_of(["a", name]), tmp_path / "p.json")
    assert list(tmp_path.iterdir()) == []


def test_a_weight_that_is_no_number_is_not_written(tmp_path):
    bad = policy_of(["a"])
    bad.weights[0, 0] = np.nan
    with refuses(PolicyError, file="p.json"):
        save_policy(bad, tmp_path / "p.json")
    with refuses(PolicyError, file="policy.bin"):
        save_policy(policy_of(["a"]), tmp_path / "policy.bin")


# -- whole, or not at all ------------------------------------------------------------------------


@pytest.mark.parametrize("writes", [0, 1])
def test_whenever_writing_stops_the_old_policy_is_there(writes, tmp_path, monkeypatch):
    path = tmp_path / "p.json"
    old, new = policy_of(["a", "b"], seed=0), policy_of(["a", "b"], seed=1)
    save_policy(old, path)
    left = [writes]

    def write(target: Path, content: str | bytes) -> None:
        if not left[0]:
            raise OSError(28, "No space left on device")
        left[0] -= 1
        write_whole(target, content)

    monkeypatch.setattr(written, "write_whole", write)
    with pytest.raises(OSError, match="No space"):
        save_policy(new, path)
    same(old, load_policy(path))
    monkeypatch.undo()
    save_policy(new, path)
    same(new, load_policy(path))
    assert len(list(tmp_path.iterdir())) == 2


def test_files_of_others_are_left_alone(tmp_path):
    """A JSON that is there may name any file, and only numbers of ours are removed."""
    precious = tmp_path / "precious.npy"
    precious.write_text("!")
    (tmp_path / "p.json").write_text(json.dumps({"numbers": {"file": "precious.npy"}}))
    save_policy(policy_of(["a"]), tmp_path / "p.json")
    assert precious.read_text() == "!"


# -- damaged and hostile files -------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    save_policy(policy_of(["a", "b"], columns=("x", "y")), tmp_path / "p.json")
    (numbers,) = tmp_path.glob("*.npy")
    return tmp_path / "p.json", numbers


def test_the_numbers_are_missing_or_others(saved):
    path, numbers = saved
    raw = numbers.read_bytes()
    numbers.write_bytes(raw[:-1] + b"\x01")
    with refuses(PolicyError, file=numbers.name):
        load_policy(path)
    numbers.unlink()
    with refuses(PolicyError, file=numbers.name):
        load_policy(path)
    path.unlink()
    with refuses(PolicyError, file="p.json"):
        load_policy(path)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", "{}", "\x00", '{"schema": 7}'])
def test_what_is_not_a_policy_is_told(text, tmp_path):
    (tmp_path / "p.json").write_text(text)
    with refuses(PolicyError, file="p.json"):
        load_policy(tmp_path / "p.json")


@pytest.mark.parametrize(
    "name", ["../p.npy", "/etc/passwd", "a\\b.npy", "", ".", "..", "x/y.npy", 7, None, "p.json"]
)
def test_numbers_are_only_looked_for_beside(name, saved):
    change(saved, lambda body: body["numbers"].update(file=name))
    with refuses(PolicyError, file="p.json"):
        load_policy(saved[0])


def change(saved, how) -> None:
    body = json.loads(saved[0].read_text())
    how(body)
    saved[0].write_text(json.dumps(body))


@pytest.mark.parametrize(
    "how",
    [
        lambda b: b.pop("actions"),
        lambda b: b.update(actions=["a", "a"]),
        lambda b: b.update(actions=["a"]),
        lambda b: b.update(actions="ab"),
        lambda b: b.update(actions=[["a"], "b"]),
        lambda b: b.update(actions=[{}, "b"]),
        lambda b: b.update(context=None),
        lambda b: b.update(context=7),
        lambda b: b["context"].update(names=["x"]),
        lambda b: b["context"].update(inputs=3),
        lambda b: b["context"].update(columns=[]),
        lambda b: b["context"]["columns"][0].update(scale=0.0),
        lambda b: b["context"]["columns"][0].update(kind="text"),
        lambda b: b["context"]["columns"][0].update(kind="category"),
        lambda b: b["context"]["columns"][0].update(position=1),
        lambda b: b["context"]["columns"][0].update(levels=["x", "y"]),
        lambda b: b.update(numbers=[]),
        lambda b: b.update(gamma=None, numbers=None),
        lambda b: b["numbers"].pop("sha256"),
        lambda b: b["numbers"].update(shapes={}),
        lambda b: b["numbers"].update(shapes=[]),
        lambda b: b["numbers"]["shapes"].pop("context weights"),
        lambda b: b["numbers"]["shapes"].update({"context weights": [3, 2]}),
        lambda b: b["numbers"]["shapes"].update({"context weights": [-1, -6]}),
        lambda b: b["numbers"]["shapes"].update({"context weights": [10**30]}),
        lambda b: b["numbers"]["shapes"].update({"context weights": ["2", 3]}),
        lambda b: b["numbers"]["shapes"].update({"more": [0]}),
        lambda b: b["numbers"]["shapes"].update({"context centres": [0, 2]}),
    ],
)
def test_what_does_not_fit_is_told(how, saved):
    change(saved, how)
    with refuses(PolicyError) as caught:
        load_policy(saved[0])
    assert caught.value.file == str(saved[0]) or caught.value.column == "actions"


def exploit() -> bytes:
    return pickle.dumps(pytest.fail)


def npy(header: bytes, rest: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + rest


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"PK\x03\x04",
        exploit(),
        npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n", exploit()),
        npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999,)}\n"),
        npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}\n"),
        npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': ()}\n", bytes(8)),
        npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (10,)}\n", bytes(80)),
        npy(b"__import__('os')\n"),
        npy(b"(" * 5000 + b"\n"),
        npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (10,)}\n", b"\xff" * 80),
        npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (10,)}\n", bytes(80)),
    ],
    ids=range(12),
)
def test_numbers_made_up_are_told(raw, saved):
    """Even where the hash is right, as whoever wrote the file can see to."""
    path, numbers = saved
    numbers.write_bytes(raw)
    digest = hashlib.sha256(raw).hexdigest()
    change(saved, lambda body: body["numbers"].update(sha256=digest))
    with pytest.raises(PolicyError):
        load_policy(path)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_byte_may_be_wrong(saved, data):
    """A changed JSON is the same policy, another one, or an error that is a sentence."""
    path, _ = saved
    raw = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(raw) - 1))
    before = raw[at]
    raw[at] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(raw))
    with contextlib.suppress(PolicyError):
        assert len(load_policy(path).weights) == 2
    raw[at] = before
    path.write_bytes(bytes(raw))


def test_the_columns_of_the_context_are_remembered(tmp_path):
    import pyarrow as pa

    log, X, _ = classes(0, n=200)
    frame = pa.table(
        {"action": log.chosen, "reward": log.reward, "logging": list(log.logging.reshape(-1, 3))}
        | {f"x{j}": X[:, j] for j in range(4)}
    )
    there = op.BanditLog.from_frame(frame, op.Columns(context=["x*"]))
    SoftmaxLearner("CAB(M=5)", max_iter=5).fit(there).save(tmp_path / "p.json")
    policy = load_policy(tmp_path / "p.json")
    assert policy.columns == ("x0", "x1", "x2", "x3")
    assert policy.actions == (0, 1, 2)
    other = op.BanditLog.from_frame(frame, op.Columns(context=["x1", "x0", "x2", "x3"]))
    with refuses(PolicyError, "context"):
        policy.probabilities(other)
    with refuses(PolicyError, "context"):
        policy.probabilities(op.BanditLog.from_frame(frame))
