"""Learning from files: as good as in memory, and the same whatever the threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import offpolicy as op
from offpolicy.errors import LogError, ParameterError, PredictionError
from offpolicy.learning._large_logs import Adam, Stream, fold_of
from offpolicy.learning._softmax_learner import SoftmaxLearner
from offpolicy.learning._split import split
from offpolicy.logs import sample_ranges
from offpolicy.logs._naming import all_action_names
from offpolicy.logs.files._parquet import ParquetScan
from tests.support.cases import bandit_log
from tests.support.learning import classes
from tests.support.limits import limit
from tests.support.refusals import refuses

K = 3


def write(path, log, X, **more):
    columns = {
        "action": log.chosen,
        "reward": log.reward,
        "logging": list(log.logging.reshape(-1, K)),
        **{f"x{j}": X[:, j] for j in range(X.shape[1])},
        **more,
    }
    pq.write_table(pa.table(columns), path, row_group_size=700)


def scan_of(path, **how):
    return ParquetScan([path], op.Columns(context=["x*"]), **how)


@pytest.fixture
def small(monkeypatch):
    """A sample and stretches that small files are larger than."""
    limit(monkeypatch, "offpolicy.evidence._plan.SAMPLE", 500)
    limit(monkeypatch, "offpolicy.learning._large_logs.TOGETHER_ROWS", 200)
    limit(monkeypatch, "offpolicy.learning._large_logs.BATCH", 100)


@pytest.fixture
def file(tmp_path):
    log, X, y = classes(5, n=6000, noise=0.2)
    write(tmp_path / "log.parquet", log, X, user=np.arange(6000) // 3)
    return tmp_path / "log.parquet", log, X, y


def right(learner, X, y):
    return learner.predict_proba(X)[np.arange(len(X)), y].mean()


def test_all_decisions_teach_more_than_some(small, file):
    path, log, _, _ = file
    _, X, y = classes(5, n=20_000)
    memory = right(SoftmaxLearner().fit(log), X, y)
    sample = right(SoftmaxLearner(passes=0).fit(scan_of(path)), X, y)
    learner = SoftmaxLearner(passes=4).fit(scan_of(path))
    assert right(learner, X, y) > sample
    assert right(learner, X, y) == pytest.approx(memory, abs=0.01)
    assert learner.report_.message == "4 passes over all decisions, from what 500 of them taught"
    assert "sample of 500" in SoftmaxLearner(passes=0).fit(scan_of(path)).report_.message


def test_kernels_are_learned_from_files_too(small, file):
    path, log, _, _ = file
    _, X, y = classes(5, n=20_000)
    how = {"features": "kernel", "centres": 60}
    memory = right(SoftmaxLearner(**how).fit(log), X, y)
    sample = right(SoftmaxLearner(**how, passes=0).fit(scan_of(path)), X, y)
    streamed = right(SoftmaxLearner(**how, passes=4).fit(scan_of(path)), X, y)
    assert streamed > sample
    assert streamed == pytest.approx(memory, abs=0.01)


def test_threads_change_nothing(small, file):
    path = file[0]
    a, b = (SoftmaxLearner(passes=1).fit(scan_of(path, threads=k)).policy_ for k in (1, 2))
    assert (a.weights == b.weights).all()
    other = SoftmaxLearner(passes=1, seed=1).fit(scan_of(path)).policy_
    assert (a.weights != other.weights).any()


def test_a_file_that_the_sample_holds_is_learned_from_as_in_memory(file):
    path, log, _, _ = file
    a = SoftmaxLearner("CAB(M=5)", max_iter=10).fit(scan_of(path)).policy_
    b = SoftmaxLearner("CAB(M=5)", max_iter=10).fit(log).policy_
    assert a.weights == pytest.approx(b.weights, abs=1e-3)
    assert a.columns == ("x0", "x1", "x2", "x3")


@pytest.mark.parametrize("name", ["IPS", "CAB(M=2)", "CAB-DR(M=2)", "SNIPS", "DRos(lam=3)"])
def test_batches_add_up_to_the_whole(name, small, file):
    """The mean of the batches' losses and gradients is the whole log's, for members that are
    means."""
    path = file[0]
    member = op.parse(name)
    learner = SoftmaxLearner(name, baseline=0.1)
    stream = Stream.of(learner, member, scan_of(path), None)
    task = stream.task()
    w = np.random.default_rng(0).normal(size=task.scores.size) * 0.3
    loss, gradient, rows = 0.0, 0.0, 0
    for group in stream._groups(task, np.random.default_rng(1).permutation(len(stream._pieces))):
        order = np.random.default_rng(2).permutation(len(group.log))
        for start in range(0, len(order), 100):
            part = order[start : start + 100]
            value, slope = group.batch(part, 6000).loss(w)
            loss, gradient = loss + value * len(part), gradient + slope * len(part)
            rows += len(part)
    assert rows == 6000
    group = stream._group(task, [(0, 6000)])
    at_once, slopes = group.batch(np.arange(6000), 6000).loss(w)
    if not member.self_normalised:
        assert loss / 6000 == pytest.approx(at_once, abs=1e-5)
        assert gradient / 6000 == pytest.approx(slopes, abs=1e-4)
    else:
        assert loss / 6000 == pytest.approx(at_once, abs=0.05)


def test_the_penalty_of_batches_is_that_of_the_whole(small, file):
    path = file[0]
    learner = SoftmaxLearner("IPS", penalty=5.0)
    stream = Stream.of(learner, op.parse("IPS"), scan_of(path), None)
    task = stream.task()
    group = stream._group(task, [(0, 6000)])
    w = np.zeros(task.scores.size)
    whole = group.batch(np.arange(6000), 6000).loss(w)[0]
    without = replace(group, penalty=0.0).batch(np.arange(6000), 6000).loss(w)[0]
    parts = [group.batch(np.arange(a, a + 500), 6000).loss(w)[0] for a in range(0, 6000, 500)]
    assert whole > without + 0.01
    assert np.mean(parts) - without == pytest.approx(whole - without, rel=0.05)


# -- names, folds, predictions -----------------------------------------------------------------


def test_a_name_that_the_sample_lacks_is_known(small, tmp_path):
    """Only the last decisions have the candidate "rare"."""
    log, X, _ = classes(1, n=3000)
    names = [["a", "b", "c"]] * 2990 + [["a", "b", "rare"]] * 10
    write(tmp_path / "log.parquet", log, X, candidates=names,
          action=[names[i][k] for i, k in enumerate(log.chosen)])  # fmt: skip
    scan = scan_of(tmp_path / "log.parquet")
    learner = SoftmaxLearner(passes=1).fit(scan)
    assert learner.policy_.actions == ("a", "b", "c", "rare")
    pi = learner.probabilities(scan.read([(2980, 3000)], ()))
    assert pi.reshape(-1, 3).sum(axis=1) == pytest.approx(np.ones(20))


def test_names_of_parts_are_put_together():
    assert all_action_names([("b", "a"), ("c", "a")]) == ("a", "b", "c")
    assert all_action_names([("b", 1), (None,)]) == ("b", 1, None)


def test_without_names_decisions_must_be_as_long(small, tmp_path):
    logging = [[0.5, 0.5]] * 900
    logging[sample_ranges(900, 500)[5][1]] = [0.2, 0.3, 0.5]  # just beyond a stretch of the sample
    table = {
        "action": [0] * 900,
        "reward": [0.0, 1.0] * 450,
        "logging": logging,
        "x": np.arange(900.0),
    }
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    with refuses(LogError, "candidates", file="log.parquet"):
        SoftmaxLearner().fit(scan_of(tmp_path / "log.parquet"))


def test_folds_are_a_matter_of_the_decision_alone(file):
    path, log, _, _ = file
    fold = fold_of(log, 3)
    assert (fold_of(log.rows(100, 200), 3) == fold[100:200]).all()
    assert np.bincount(fold).min() > 1800
    double = bandit_log([0, 0], [0, 1], [1.0], context=[[0.0, 1.0], [-0.0, 1.0]])
    assert len(set(fold_of(double, 100))) == 1
    clustered = ParquetScan([path], op.Columns(context=["x*"], cluster="user"))
    part = clustered.read([(0, 3000)], ())
    assert (fold_of(part, 5).reshape(-1, 3).std(axis=1) == 0.0).all()


def test_predictions_are_columns_or_models(small, file, tmp_path):
    _, log, X, y = file
    q = np.eye(K)[y] * 0.8 + 0.1
    write(tmp_path / "q.parquet", log, X, q=list(q))

    class Model:
        def predict(self, part):
            return 0.1 + 0.8 * np.eye(K)[truth(part.context)].reshape(-1)

    def truth(context):
        return [label_of[row.tobytes()] for row in context]

    label_of = {row.tobytes(): label for row, label in zip(X, y, strict=True)}
    scan = scan_of(tmp_path / "q.parquet")
    by_column = SoftmaxLearner("DR", passes=1).fit(scan, prediction="q")
    assert right(by_column, X, y) > 0.8
    by_model = SoftmaxLearner("DR", passes=1).fit(scan, prediction=Model())
    assert by_model.policy_.weights == pytest.approx(by_column.policy_.weights, abs=1e-6)
    with refuses(LogError, "p"):
        SoftmaxLearner("DR").fit(scan, prediction="p")
    with refuses(PredictionError, "prediction"):
        SoftmaxLearner("DR").fit(scan, prediction=q)
    with refuses(ParameterError, "known"):
        SoftmaxLearner("DR").fit(scan, known=(X[:1], q[:1]))


def test_a_file_with_one_reward_teaches_nothing(small, file, tmp_path):
    _, log, X, _ = file
    write(tmp_path / "one.parquet", log, X, reward=np.ones(6000))
    with refuses(LogError, "reward"):
        SoftmaxLearner().fit(scan_of(tmp_path / "one.parquet"))


def test_progress_is_told(small, file):
    scan, told, read = scan_of(file[0]), [], []
    scan.progress = lambda done, total: read.append((done, total))
    SoftmaxLearner(passes=2).fit(scan, progress=lambda step, value: told.append(step))
    assert told[-1] == 2 * 60
    assert read[-1] == (18_000, 18_000)


def test_worse_weights_are_not_kept(small, file, monkeypatch):
    limit(monkeypatch, "offpolicy.learning._large_logs._RATE", 1e4)
    path = file[0]
    start = SoftmaxLearner(passes=0).fit(scan_of(path))
    learner = SoftmaxLearner(passes=1).fit(scan_of(path))
    assert "did not improve" in learner.report_.message
    assert (learner.policy_.weights == start.policy_.weights).all()


def test_adam_finds_a_minimum():
    adam = Adam(np.array([5.0, -3.0]))
    for k in range(3000):
        adam.step(np.array([1.0, 100.0]) * (adam.w - 1.0), 0.05 * (1.0 - k / 3000))
    assert adam.w == pytest.approx([1.0, 1.0], abs=1e-3)


# -- holding out ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", [None, "user"])
def test_parts_are_all_of_the_log(cluster, file, monkeypatch):

    limit(monkeypatch, "offpolicy.logs._scan.BLOCK", 1000)
    path = file[0]
    columns = op.Columns(context=["x*"], cluster=cluster)
    scan, held = ParquetScan([path], columns), op.read_log(path, columns)
    parts, in_memory = split(scan, 0.25, seed=3), split(held, 0.25, seed=3)
    assert sum(map(len, parts)) == 6000
    assert len(parts[1]) == pytest.approx(1500, abs=200)
    for part, expected in zip(parts, in_memory, strict=True):
        walked = [make() for make in part.walk(())]
        assert (np.concatenate([block.reward for block in walked]) == expected.reward).all()
        some = part.read([(5, 900), (1000, 1001)], ())
        rows = np.r_[5:900, 1000]
        assert (some.reward == expected.reward[rows]).all()
        assert (some.bucket == expected.bucket[rows]).all()
        rest = [make() for make in part.walk((), 2)]
        assert len(rest) == len(walked) - 2
    assert parts[0].fingerprint() != parts[1].fingerprint()
    if cluster:
        users = [set(np.concatenate([m().cluster for m in part.walk(())])) for part in parts]
        assert not users[0] & users[1]
    result = op.evaluate(parts[1], op.Uniform(), estimators=["IPS"])
    same = op.evaluate(in_memory[1], op.Uniform(), estimators=["IPS"])
    assert result["IPS"].value == pytest.approx(same["IPS"].value, rel=1e-12)
    assert result["IPS"].stderr == pytest.approx(same["IPS"].stderr, rel=1e-9)


def test_what_cannot_be_held_out_is_told():
    log = op.BanditLog.from_arrays(action=[0, 1], reward=[0, 1], logging=[[0.5, 0.5]] * 2)
    assert [len(part) for part in split(log, 0.01)] == [1, 1]
    with refuses(ParameterError, "share"):
        split(log, 1.0)
    clustered = bandit_log([0, 1], [0, 1], [0.5, 0.5], cluster=["a", "a"])
    with refuses(ParameterError, "log"):
        split(clustered)
