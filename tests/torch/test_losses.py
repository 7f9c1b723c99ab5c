"""`ice_loss` against `evaluate`, `objective` and the learner's loss; batches; `TorchPolicy`."""

from __future__ import annotations

import importlib.util
import math
import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import offpolicy as op  # noqa: E402
from offpolicy._core.ragged import row_sums, softmax  # noqa: E402
from offpolicy.errors import (  # noqa: E402
    EstimatorError,
    LogError,
    MissingColumnError,
    OffpolicyError,
    ParameterError,
    PolicyError,
)
from offpolicy.estimators._named import parse  # noqa: E402
from offpolicy.learning._objective import objective  # noqa: E402
from offpolicy.learning._softmax_learner import SoftmaxLearner  # noqa: E402
from offpolicy.learning._task import Task  # noqa: E402
from offpolicy.torch._batches import Batch  # noqa: E402
from offpolicy.torch._losses import ice_loss  # noqa: E402
from offpolicy.torch._modules import TorchPolicy  # noqa: E402
from tests.support.cases import bandit_log  # noqa: E402
from tests.support.learning import MEMBERS, classes, ragged, ragged_case, slow_value  # noqa: E402
from tests.support.refusals import refuses  # noqa: E402

pytestmark = pytest.mark.torch
F64 = torch.float64
MEANS = [name for name in MEMBERS if not parse(name).self_normalised]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tensors this small are not worth the waiting of threads for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def graded(logits, batch, estimator, **more):
    """Loss and gradient, as numbers."""
    logits = torch.as_tensor(logits).clone().requires_grad_()
    loss = ice_loss(logits, batch, estimator, **more)
    loss.backward()
    return loss.item(), logits.grad.numpy()


def chained(log, pi, delta_hat, estimator):
    """Minus `objective`, and its gradient through the softmax."""
    value, slope = objective(log, pi, prediction=delta_hat, estimator=estimator)
    mean = np.repeat(row_sums(pi * slope, log.offsets), np.diff(log.offsets))
    return -value, -pi * (slope - mean)


def dense_case(seed=0, n=30, K=4, **more):
    rng = np.random.default_rng(seed)
    pi0 = rng.dirichlet(np.ones(K), n)
    pi0[:, 0] *= rng.random(n) < 0.5
    pi0 /= pi0.sum(axis=1, keepdims=True)
    action = np.array([rng.choice(K, p=p) for p in pi0])
    log = bandit_log(action, rng.normal(size=n), pi0, context=rng.normal(size=(n, 3)), **more)
    return log, rng.normal(size=(n, K)) * 2.0, rng.normal(size=(n, K))


# -- values and gradients --------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "close"), [(F64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("name", MEMBERS)
def test_the_loss_is_minus_what_evaluate_says(name, dtype, close):
    log, logits, delta_hat = dense_case(row_weight=np.linspace(0.5, 2.0, 30))
    batch = Batch.of(log, delta_hat, dtype=dtype)
    loss = ice_loss(torch.tensor(logits, dtype=dtype), batch, name)
    assert loss.dtype == dtype
    pi = softmax(logits.reshape(-1), log.offsets)
    (row,) = op.evaluate(log, pi, prediction=delta_hat, estimators=[name])
    assert loss.item() == pytest.approx(-row.value, rel=close, abs=close)


@pytest.mark.parametrize(("dtype", "close"), [(F64, 1e-11), (torch.float32, 2e-5)])
@pytest.mark.parametrize("seed", range(4))
def test_gradients_are_those_of_objective(seed, dtype, close):
    log, _, delta_hat = ragged_case(seed, n=25)
    logits = torch.tensor(np.random.default_rng(seed).normal(size=len(delta_hat)) * 2, dtype=dtype)
    pi = softmax(logits.double().numpy(), log.offsets)
    batch = Batch.of(log, delta_hat, dtype=dtype)
    for name in MEMBERS:
        value, slope = chained(log, pi, delta_hat, name)
        loss, gradient = graded(logits, batch, name)
        size = max(1.0, np.abs(slope).max())
        assert loss == pytest.approx(value, rel=close, abs=close), name
        np.testing.assert_allclose(gradient, slope, rtol=0.0, atol=close * size, err_msg=name)


@pytest.mark.parametrize("dtype", [F64, torch.float32])
@pytest.mark.parametrize("name", ["CIPS", "CAB", "CAB-DR"])
def test_at_a_kink_the_slope_is_the_one_from_below(name, dtype):
    log = op.BanditLog.from_arrays(action=[0, 1], reward=[1.0, -2.0], logging=[[0.25, 0.75]] * 2)
    delta_hat = np.array([0.3, 0.2, 0.9, -0.4])
    pi = np.full(4, 0.5)  # c of the first action is exactly 2
    batch = Batch.of(log, delta_hat, dtype=dtype)
    _, gradient = graded(torch.zeros(2, 2, dtype=dtype), batch, f"{name}(M=2)")
    _, slope = chained(log, pi, delta_hat, f"{name}(M=2)")
    np.testing.assert_allclose(gradient.reshape(-1), slope, atol=1e-7)
    _, other = chained(log, pi, delta_hat, f"{name}(M=1.999)")
    assert np.abs(slope - other).max() > 0.01


def test_where_no_reward_answers_the_model_does_at_zero_too():
    """π₀ = 0 and a logit so low that π is 0: a slope in π, none in the logits."""
    log = op.BanditLog.from_arrays(action=[0], reward=[1.0], logging=[[1.0, 0.0]])
    batch = Batch.of(log, [[0.5, 7.0]])
    for M in ("0", "3", "inf"):
        loss, gradient = graded([[0.0, -1000.0]], batch, f"CAB(M={M})")
        assert loss == (-0.5 if M == "0" else -1.0)
        assert gradient.tolist() == [[0.0, 0.0]]
        loss, _ = graded([[0.0, 0.0]], batch, f"CAB(M={M})")
        pi = np.array([0.5, 0.5])
        expected = slow_value(parse(f"CAB(M={M})"), log, pi, np.array([0.5, 7.0]))
        assert loss == pytest.approx(-expected)


PENALISED = [*((name, 0.0) for name in MEMBERS), *((name, 1.5) for name in MEANS)]


@pytest.mark.parametrize(("name", "penalty"), PENALISED)
def test_gradcheck(name, penalty):
    member = parse(name)
    log, pi, delta_hat = ragged_case(11, n=6)
    if member.parameter_name == "M" and 0.0 < member.parameter < np.inf:
        kink = member.parameter * log.logging
        assert np.abs(pi - kink).min() > 1e-4  # far from any
    logits = torch.tensor(np.log(pi), requires_grad=True)
    batch = Batch.of(log, delta_hat, dtype=F64)
    assert torch.autograd.gradcheck(
        lambda s: ice_loss(s, batch, name, baseline=0.2, penalty=penalty), logits
    )


def test_both_layouts_agree():
    log, logits, delta_hat = dense_case(4, row_weight=np.linspace(0.5, 2.0, 30))
    dense = Batch.of(log, delta_hat, dtype=F64)
    names = ("logging", "prediction")
    flat = Batch(
        dense.chosen, dense.reward, dense.propensity,
        **{name: getattr(dense, name).reshape(-1) for name in names},
        offsets=torch.tensor(log.offsets), row_weight=dense.row_weight,
    )  # fmt: skip
    for name in MEMBERS:
        in_rows, in_line = graded(logits, dense, name), graded(logits.reshape(-1), flat, name)
        assert in_rows[0] == pytest.approx(in_line[0], abs=1e-12)
        np.testing.assert_allclose(in_rows[1].reshape(-1), in_line[1], atol=1e-13)


def test_masked_candidates_are_as_if_they_were_not_there():
    log, actions = ragged(5), 6
    rng = np.random.default_rng(0)
    delta_hat = rng.normal(size=log.offsets[-1])
    table = rng.normal(size=(len(log), actions))
    row = np.repeat(np.arange(len(log)), np.diff(log.offsets))
    code = log.candidate_codes()
    flat, wide = Batch.of(log, delta_hat, dtype=F64), Batch.of(log, delta_hat, by_action=True)
    wide = Batch.of(log, delta_hat, by_action=True, dtype=F64)
    assert wide.mask.sum() == log.offsets[-1]
    table[~wide.mask.numpy()] = 1e6  # a logit that would count
    for name in MEMBERS:
        loss, gradient = graded(table, wide, name, baseline=0.3)
        value, slope = graded(table[row, code], flat, name, baseline=0.3)
        assert loss == pytest.approx(value, abs=1e-12), name
        np.testing.assert_allclose(gradient[row, code], slope, atol=1e-13, err_msg=name)
        assert not gradient[~wide.mask.numpy()].any()
    # −∞ does the same.
    table[~wide.mask.numpy()] = -math.inf
    bare = Batch(
        wide.chosen, wide.reward, wide.propensity, wide.logging, wide.prediction,
        row_weight=wide.row_weight,
    )  # fmt: skip
    for name in MEMBERS:
        loss, gradient = graded(table, bare, name, baseline=0.3)
        assert loss == pytest.approx(graded(table, wide, name, baseline=0.3)[0], abs=1e-12)
        assert np.isfinite(gradient).all()


def test_a_row_weight_counts_decisions():
    log, logits, delta_hat = dense_case(2, n=6)
    twice = np.array([0, 1, 1, 2, 3, 3, 3, 4, 5])
    weight = np.bincount(twice).astype(float)
    weighted = Batch.of(log, delta_hat, dtype=F64)
    weighted = Batch(
        weighted.chosen, weighted.reward, weighted.propensity, weighted.logging,
        weighted.prediction, row_weight=torch.tensor(weight),
    )  # fmt: skip
    repeated = Batch.of(log, delta_hat, dtype=F64)[twice]
    for name in MEMBERS:
        loss, gradient = graded(logits, weighted, name)
        value, slopes = graded(logits[twice], repeated, name)
        assert loss == pytest.approx(value, abs=1e-12)
        summed = np.zeros_like(logits)
        np.add.at(summed, twice, slopes)
        np.testing.assert_allclose(gradient, summed, atol=1e-13)


@pytest.mark.parametrize("smallest", [1e-30, 1e-300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, F64])
def test_huge_weights_stay_numbers(smallest, dtype):
    logging = [[smallest, 1.0, 0.0], [0.5, 0.5, 0.0]]
    log = bandit_log([0, 1], [1.0, 0.0], propensity=[smallest, 0.5], actions=3)
    plain = Batch.of(log, np.full((2, 3), 0.5))
    batch = Batch(
        plain.chosen, plain.reward, plain.propensity, torch.tensor(logging), plain.prediction
    )
    assert float(batch.propensity[0]) == smallest
    for name in [*MEMBERS, "CAB(M=1e300)", "CIPS(M=1e300)", "DRos(lam=1e300)"]:
        member = parse(name)
        for penalty in (0.0, 1.0):
            if penalty and member.self_normalised:
                continue
            for score in (0.0, -80.0, 1000.0):
                logits = torch.zeros(2, 3, dtype=dtype)
                logits[0, 0] = score
                loss, gradient = graded(logits, batch, name, penalty=penalty)
                assert math.isfinite(loss), (name, score)
                assert np.isfinite(gradient).all(), (name, score)
    # By hand: in row 0 the reward counts 5 and the model answers for the first and the last third,
    # in row 1 the reward is 0 and the model answers for the last third.
    loss, gradient = graded(torch.zeros(2, 3), batch, "CAB(M=5)")
    assert loss == pytest.approx(-(5.0 + 2 / 3 * 0.5 + 1 / 3 * 0.5) / 2)
    assert gradient[0] == pytest.approx([-1 / 36, 1 / 18, -1 / 36])


@pytest.mark.parametrize("name", ["CIPS", "CAB", "CAB-DR"])
def test_without_a_limit_it_is_its_own_branch(name):
    log, logits, delta_hat = dense_case(3)
    batch = Batch.of(log, delta_hat, dtype=F64)
    loss, gradient = graded(logits, batch, f"{name}(M=inf)")
    value, slope = graded(logits, batch, f"{name}(M=1e12)")
    assert loss == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(gradient, slope, atol=1e-13)


# -- the learner's loss ------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "penalty"), PENALISED)
def test_it_is_the_learners_loss(name, penalty):
    log = ragged(3)
    delta_hat = np.random.default_rng(1).normal(size=log.offsets[-1])
    learner = SoftmaxLearner(name, penalty=penalty, baseline=0.3, l2=0.0, start="zero")
    task = Task.of(learner, parse(name), log, delta_hat, None)
    w = np.random.default_rng(0).normal(size=task.scores.size) * 0.3
    loss, slope = task.loss(w)
    scores = task.scores
    table = torch.tensor(w[: scores.split].reshape(scores.actions, -1), requires_grad=True)
    rest = torch.tensor(w[scores.split :], requires_grad=True)
    phi, features = torch.tensor(scores.phi).double(), torch.tensor(scores.features).double()
    logits = (table[scores.code] * phi[scores.decision]).sum(dim=1) + features @ rest
    batch = Batch.of(log, delta_hat, dtype=F64)
    mine = ice_loss(logits, batch, name, baseline=0.3, penalty=penalty)
    mine.backward()
    span = task.scale.span
    assert mine.item() == pytest.approx(loss * span, abs=1e-10)
    gradient = np.r_[table.grad.numpy().reshape(-1), rest.grad.numpy()]
    np.testing.assert_allclose(gradient, slope * span, atol=1e-10)


def test_without_spread_a_penalty_takes_nothing_off():
    log = op.BanditLog.from_arrays(action=[0, 0], reward=[1.0, 1.0], logging=[[0.5, 0.5]] * 2)
    batch, logits = Batch.of(log), torch.zeros(2, 2)
    plain, penalised = graded(logits, batch, "IPS"), graded(logits, batch, "IPS", penalty=3.0)
    assert plain[0] == penalised[0]
    assert plain[1].tolist() == penalised[1].tolist()


@pytest.mark.parametrize("name", [name for name in MEMBERS if not parse(name).for_ranking])
def test_doubly_robust_gradients_do_not_change_with_the_baseline(name):
    log, logits, delta_hat = dense_case(6)
    batch = Batch.of(log, delta_hat, dtype=F64)
    np.testing.assert_allclose(
        graded(logits, batch, name)[1], graded(logits, batch, name, baseline=5.0)[1], atol=1e-12
    )


def test_it_is_ordinary_autograd_around_it():
    """Scaled losses, shared logits, half precision, and no gradient where none is asked for."""
    log, logits, delta_hat = dense_case(7)
    batch = Batch.of(log, delta_hat, dtype=F64)
    _, slope = graded(logits, batch, "CAB(M=2)")
    s = torch.tensor(logits, requires_grad=True)
    (3.0 * ice_loss(s, batch, "CAB(M=2)") + s.square().sum()).backward()
    np.testing.assert_allclose(s.grad.numpy(), 3.0 * slope + 2.0 * logits, atol=1e-12)
    assert not ice_loss(torch.tensor(logits), batch).requires_grad
    turned = torch.tensor(logits.T.copy()).T
    assert not turned.is_contiguous()
    np.testing.assert_allclose(graded(turned, batch, "CAB(M=2)")[1], slope, atol=1e-14)
    s = torch.tensor(logits, requires_grad=True)
    with refuses(ParameterError, "create_graph"):
        torch.autograd.grad(ice_loss(s, batch, "DR"), s, create_graph=True)
    half = torch.tensor(logits, dtype=torch.bfloat16, requires_grad=True)
    loss = ice_loss(half, batch, "CAB(M=2)")
    loss.backward()
    assert loss.dtype == half.grad.dtype == torch.bfloat16
    np.testing.assert_allclose(half.grad.float().numpy(), slope, atol=0.05 * np.abs(slope).max())


# -- batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("flat", [False, True])
def test_mini_batches_add_up_to_the_whole(flat, weighted):
    if flat:
        log, pi, delta_hat = ragged_case(8, n=41, weighted=weighted)
        logits = torch.tensor(np.log(pi))
        row = torch.tensor(np.repeat(np.arange(41), np.diff(log.offsets)))
    else:
        more = {"row_weight": np.linspace(0.5, 2.0, 41)} if weighted else {}
        log, scores, delta_hat = dense_case(8, n=41, **more)
        logits, row = torch.tensor(scores), torch.arange(41)
    whole = Batch.of(log, delta_hat, dtype=F64)
    weight = whole.row_weight if weighted else torch.ones(41, dtype=F64)
    for name in MEANS:
        total, seen = 0.0, []
        for rows, part in whole.batches(9, torch.Generator().manual_seed(0)):
            seen += rows.tolist()
            assert len(part) == len(rows)
            scores = logits[rows] if not flat else torch.cat([logits[row == i] for i in rows])
            share = float(weight[rows].sum() / weight.sum())
            total += share * ice_loss(scores, part, name, baseline=0.1).item()
        assert sorted(seen) == list(range(41))
        assert seen != list(range(41))
        assert total == pytest.approx(ice_loss(logits, whole, name, baseline=0.1).item(), abs=1e-12)


def test_order_is_by_the_generator_alone():
    log, _, _ = dense_case(0)
    batch = Batch.of(log)
    draws = [
        [rows.tolist() for rows, _ in batch.batches(7, torch.Generator().manual_seed(seed))]
        for seed in (1, 1, 2)
    ]
    assert draws[0] == draws[1] != draws[2]
    assert [len(rows) for rows in draws[0]] == [7, 7, 7, 7, 2]
    in_order = torch.cat([rows for rows, _ in batch.batches(7)])
    assert in_order.tolist() == list(range(30))


def test_indexing_takes_decisions_as_the_log_does():
    log, _, delta_hat = ragged_case(9, n=12)
    batch = Batch.of(log, delta_hat, dtype=F64)
    rows = np.array([7, 2, 2, 11])
    part, taken = batch[rows], log.take(rows)
    expected = Batch.of(taken, delta_hat[log.candidates_of(rows)], dtype=F64)
    for name in ("chosen", "reward", "propensity", "logging", "prediction", "offsets"):
        assert torch.equal(getattr(part, name), getattr(expected, name)), name
    assert len(batch[2:5]) == 3
    assert len(batch[batch.reward > 0]) == int((log.reward > 0).sum())
    assert torch.equal(batch[-1].reward, batch.reward[11:])
    assert batch.to("cpu").reward.dtype == F64
    assert Batch.of(log).logging.dtype == torch.float32
    with refuses(ParameterError, "rows"):
        batch[3:3]
    with refuses(ParameterError, "size"):
        next(batch.batches(0))


# -- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "error", "column"),
    [
        ({"estimator": "SWITCH(M=2)"}, EstimatorError, "estimator"),
        ({"estimator": "SWITCH-DR(M=2)"}, EstimatorError, "estimator"),
        ({"estimator": "CAB"}, EstimatorError, "M"),
        ({"estimator": "IPS", "penalty": -1.0}, ParameterError, "penalty"),
        ({"estimator": "IPS", "baseline": math.nan}, ParameterError, "baseline"),
        ({"estimator": "SNIPS", "penalty": 1.0}, ParameterError, "penalty"),
    ],
    ids=str,
)
def test_objectives_that_make_no_sense_are_refused(how, error, column):
    log, logits, delta_hat = dense_case()
    with refuses(error, column):
        ice_loss(torch.tensor(logits), Batch.of(log, delta_hat), **how)


def test_what_does_not_fit_together_is_refused():
    log, logits, delta_hat = dense_case()
    s, batch = torch.tensor(logits), Batch.of(log, delta_hat)
    for wrong in (s[:, :3], s[1:], logits, s.long()):
        with refuses(ParameterError, "logits"):
            ice_loss(wrong, batch)
    with refuses(ParameterError, "batch"):
        ice_loss(s, log)
    with refuses(MissingColumnError, "prediction"):
        ice_loss(s, Batch.of(log))
    never = torch.zeros(30, 4).scatter(1, batch.chosen[:, None], -math.inf)
    with refuses(EstimatorError, "logits"):
        ice_loss(never, batch, "SNIPS")
    bare = Batch(batch.chosen, batch.reward, batch.propensity)
    assert ice_loss(s, bare, "IPS").item() == pytest.approx(ice_loss(s, batch, "IPS").item())
    with refuses(ParameterError, "logits"):
        ice_loss(s[:, :2], bare, "IPS")
    flat, _, _ = ragged_case(0)
    with refuses(ParameterError, "logits"):
        ice_loss(torch.zeros(7, 4), Batch.of(flat), "IPS")
    with refuses(LogError, "candidate"):
        Batch.of(flat, by_action=True)
    unknown = op.BanditLog.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    with refuses(LogError, "actions"):
        Batch.of(unknown)


@pytest.mark.parametrize(
    ("column", "value", "row", "part"),
    [
        ("reward", [1.0, 0.0], None, ""),
        ("chosen", torch.tensor([0, 2]), 1, ""),
        ("chosen", torch.tensor([-1, 0]), 0, ""),
        ("chosen", torch.tensor([0.0, 1.0]), None, ""),
        ("reward", torch.tensor([1.0, math.nan]), 1, ""),
        ("reward", torch.ones(2, 1), None, ""),
        ("propensity", torch.tensor([0.5, 0.0]), 1, ""),
        ("propensity", torch.ones(3), None, ""),
        ("row_weight", torch.tensor([-1.0, 1.0]), 0, ""),
        ("logging", torch.full((2, 2), 1.5), 0, "candidate 0"),
        ("logging", torch.ones(2), None, ""),
        ("prediction", torch.full((2, 2), math.inf), 0, "candidate 0"),
        ("prediction", torch.ones(2, 3), None, ""),
        ("mask", torch.ones(2, 2), None, ""),
        ("mask", torch.tensor([[True, True], [True, False]]), 1, ""),
        ("offsets", torch.tensor([0, 2, 2]), None, ""),
    ],
)
def test_batches_made_by_hand_are_checked(column, value, row, part):
    right = {
        "chosen": torch.tensor([0, 1]), "reward": torch.tensor([1.0, 0.0]),
        "propensity": torch.tensor([0.5, 0.5]), "logging": torch.full((2, 2), 0.5),
    }  # fmt: skip
    Batch(**right)
    with refuses(ParameterError, column, part=part) as caught:
        Batch(**(right | {column: value}))
    assert caught.value.row == row


def test_flat_arrays_are_as_long_as_the_offsets_say():
    per_decision = {"chosen": torch.tensor([0, 1]), "reward": torch.tensor([1.0, 0.0])}
    with refuses(ParameterError, "logging"):
        Batch(**per_decision, logging=torch.full((2, 2), 0.5), offsets=torch.tensor([0, 2, 4]))


# -- training, and the policy that comes of it ---------------------------------------------------


def network(inputs, actions, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Linear(inputs, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5),
            torch.nn.Linear(16, actions),
        )  # fmt: skip


@pytest.mark.parametrize("name", ["CAB(M=10)", "CAB-DR(M=10)", "SNIPS", "IPS"])
def test_training_lowers_the_loss_and_finds_a_better_policy(name):
    log, X, y = classes(0, n=600)
    net = network(4, 3).eval()
    contexts = torch.tensor(X, dtype=torch.float32)
    batch = Batch.of(log, np.full((600, 3), log.reward.mean()))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    before = ice_loss(net(contexts), batch, name).item()
    for epoch in range(10):
        for rows, part in batch.batches(100, torch.Generator().manual_seed(epoch)):
            optimiser.zero_grad()
            ice_loss(net(contexts[rows]), part, name, baseline=0.5).backward()
            optimiser.step()
    assert ice_loss(net(contexts), batch, name).item() < before - 0.1
    pi = TorchPolicy(net).probabilities(log).reshape(600, 3)
    assert pi[np.arange(600), y].mean() > log.reward.mean() + 0.1


def test_a_module_is_a_policy():
    log, X, _ = classes(1, n=50)
    net = network(4, 3)
    net[2].eval()  # a part that was not in training
    pi = TorchPolicy(net, batch_size=7).probabilities(log).reshape(50, 3)
    assert [part.training for part in net] == [True, True, False, True]
    assert net.training
    with torch.no_grad():
        expected = net.eval()(torch.tensor(X, dtype=torch.float32)).softmax(dim=1)
    np.testing.assert_allclose(pi, expected.numpy(), atol=1e-6)
    assert pi.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    mirrored = TorchPolicy(net.double(), lambda log: log.context[:, ::-1].copy())
    swapped = net(torch.tensor(X[:, ::-1].copy())).softmax(dim=1).detach().numpy()
    np.testing.assert_allclose(mirrored.probabilities(log).reshape(50, 3), swapped, atol=1e-12)
    value = op.evaluate(log, TorchPolicy(net), estimators=["IPS"])["IPS"].value
    loss = ice_loss(net(torch.tensor(X)), Batch.of(log, dtype=F64), "IPS")
    assert value == pytest.approx(-loss.item(), abs=1e-10)


def test_a_module_chooses_among_the_candidates_there_are():
    log = ragged(2)
    by_action = network(3, 6).eval()
    pi = TorchPolicy(by_action).probabilities(log)
    logits = by_action(torch.tensor(log.context, dtype=torch.float32)).detach().numpy()
    for i in range(len(log)):
        part = slice(log.offsets[i], log.offsets[i + 1])
        mass = np.exp(logits[i, log.candidate_codes()[part]].astype(float))
        assert pi[part] == pytest.approx(mass / mass.sum(), abs=1e-6)
    scorer = network(2, 1).eval()
    features = lambda log: log.candidate_features  # noqa: E731
    one_by_one = TorchPolicy(scorer, features, batch_size=13).probabilities(log)
    bare = ragged(2, names=False)
    for asked, pi in ((log, one_by_one), (bare, TorchPolicy(scorer).probabilities(bare))):
        scores = scorer(torch.tensor(asked.candidate_features, dtype=torch.float32)).detach()
        expected = softmax(scores.double().numpy().reshape(-1), asked.offsets)
        assert pi == pytest.approx(expected, abs=1e-6)


class Fails(torch.nn.Module):
    def forward(self, x):
        raise RuntimeError("no")


class Says(torch.nn.Module):
    """The same logits whatever it sees, of which it reads rows of whole numbers."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, x):
        return torch.tensor(self.logits)[x.long()].reshape(len(x), -1)


def test_what_a_policy_cannot_do_is_told():
    log, _, _ = classes(1, n=5)
    net = Fails()
    with pytest.raises(RuntimeError):
        TorchPolicy(net).probabilities(log)
    assert net.training
    index = lambda log: np.arange(5)[:, None]  # noqa: E731
    table = [[0.0, 1.0, -math.inf]] * 5
    pi = TorchPolicy(Says(table), index).probabilities(log).reshape(5, 3)
    assert pi[0].tolist() == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e), 0.0])
    for bad in (math.nan, math.inf):
        broken = [*table[:3], [bad, 0.0, 0.0], table[0]]
        with refuses(PolicyError, "TorchPolicy", 3):
            TorchPolicy(Says(broken), index).probabilities(log)
    with refuses(PolicyError, "module"):
        TorchPolicy(network(4, 2)).probabilities(log)
    with refuses(PolicyError, "features"):
        TorchPolicy(network(4, 3), lambda log: log.context[1:]).probabilities(log)
    bare = op.BanditLog.from_arrays(action=[0, 1], reward=[1, 0], logging=[[0.5, 0.5]] * 2)
    with refuses(PolicyError, "context"):
        TorchPolicy(net).probabilities(bare)
    named = bandit_log([0, 1], [1, 0], [0.5, 0.5], context=[["red"], ["blue"]])
    with refuses(PolicyError, "features"):
        TorchPolicy(net).probabilities(named)
    unknown = op.BanditLog.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    with refuses(PolicyError, "actions"):
        TorchPolicy(net).probabilities(unknown)
    for column, value in (("module", len), ("features", np.ones(3)), ("batch_size", 0)):
        with refuses(ParameterError, column):
            TorchPolicy(**{"module": net, column: value})
    assert issubclass(PolicyError, OffpolicyError)


ROOT = Path(__file__).parents[2]


def test_what_the_documentation_shows_runs(capsys):
    text = (ROOT / "docs" / "torch.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    space: dict[str, object] = {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        exec(compile(block, "torch.md", "exec"), space)
    assert "CAB-DR" in capsys.readouterr().out
    value = op.evaluate(space["fresh"], TorchPolicy(space["net"]), estimators=["IPS"])["IPS"].value
    assert value > 0.3  # the logger earns 0.1


def test_the_example_runs_and_is_reproducible(capsys):
    file = ROOT / "examples" / "banditnet.py"
    spec = importlib.util.spec_from_file_location("banditnet", file)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with torch.random.fork_rng():
        errors = example.main(decisions=200, epochs=1)
        shown = capsys.readouterr().out
        assert example.main(decisions=200, epochs=1) == errors
    assert capsys.readouterr().out == shown
    assert shown.startswith("baseline")
    assert list(errors)[:2] == ["logger", "IPS, no baseline"]
    assert all(0.0 <= error <= 1.0 for error in errors.values())


def test_a_class_of_one_s_own_is_taken_as_it_is():
    """With a function of NumPy in its weight."""
    from tests.learning.test_objective import SlopedRoot

    log, pi, delta_hat = ragged_case(4, unsupported=0.0)
    batch = Batch.of(log, delta_hat, dtype=torch.float64)
    logits = torch.tensor(np.log(pi), requires_grad=True)
    loss = ice_loss(logits, batch, SlopedRoot())
    loss.backward()
    found = objective(log, pi, prediction=delta_hat, estimator=SlopedRoot())
    assert -loss.item() == pytest.approx(found.value, rel=1e-12)
    mean = np.repeat(row_sums(pi * found.gradient, log.offsets), np.diff(log.offsets))
    expected = pi * (found.gradient - mean)
    np.testing.assert_allclose(-logits.grad.numpy(), expected, rtol=1e-9, atol=1e-12)
