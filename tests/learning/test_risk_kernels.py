"""The compiled walk over a dense log against the chain of NumPy calls; its exponential."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpolicy._core import fastmath as elementary
from offpolicy.estimators._named import parse
from offpolicy.learning import _risk_kernels
from offpolicy.learning._risk import DenseRisk, Observed
from offpolicy.learning._risk_kernels import Fused
from offpolicy.learning._softmax_learner import SoftmaxLearner
from offpolicy.learning._task import Task
from offpolicy.policies.learned._scores import Dense
from tests.support.learning import classes

MEMBERS = ("DM", "IPS", "CIPS(M=0)", "CIPS(M=2)", "DR", "SB(tau=0)", "SB(tau=0.3)", "CAB(M=0)",
           "CAB(M=1.5)", "CAB(M=inf)", "CAB-DR(M=0)", "CAB-DR(M=3)", "CAB-DR(M=inf)")  # fmt: skip


def problem(name, n, m, K, seed):
    """Everything at random: some actions never logged, rewards of either sign, unequal shares."""
    rng = np.random.default_rng(seed)
    member = parse(name)
    logging = rng.dirichlet(np.full(K, 0.5), n)
    if K > 1:
        logging[rng.random((n, K)) < 0.2] = 0.0
    logging[logging.sum(axis=1) == 0.0, 0] = 1.0
    logging /= logging.sum(axis=1, keepdims=True)
    action = np.array([rng.choice(K, p=p) for p in logging])
    observed = Observed(
        rng.normal(size=n),
        logging[np.arange(n), action],
        rng.normal(size=n) if "prediction" in member.needs else np.zeros(n),
        rng.dirichlet(np.ones(n)),
    )
    table = rng.normal(size=(K, n + m)).astype(np.float32)
    if "prediction" not in member.needs:
        table[:, :n] = 0.0
        table = table if m else None
    risk = DenseRisk(member, observed, action, table, logging.T.astype(np.float32))
    phi = rng.normal(size=(n + m, 3)).astype(np.float32)
    return Dense(phi, K), risk, rng


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(MEMBERS), st.sampled_from([1, 2, 511, 512, 513, 1030]),
    st.sampled_from([0, 1, 600]), st.integers(1, 5), st.sampled_from([0.0, 0.5, 30.0]),
    st.integers(0, 1000), st.booleans(),
)  # fmt: skip
def test_the_walk_is_the_chain(name, n, m, K, size, seed, in_parts):
    scores, risk, rng = problem(name, n, m, K, seed)
    if in_parts:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(_risk_kernels, "_PART", 1)
            assert len(_risk_kernels._parts(n + m, scores.size)) == -(-(n + m) // 512)
            _same_as_the_chain(scores, risk, rng, size, n, m)
    else:
        _same_as_the_chain(scores, risk, rng, size, n, m)


def _same_as_the_chain(scores, risk, rng, size, n, m):
    assert risk.is_plain
    w = size * rng.normal(size=scores.size)
    pi = scores.probabilities(w)
    value, per_pi = risk(pi)
    gradient = scores.back(pi, per_pi)
    fused, slope = Fused(scores, risk)(w)
    largest = 1.0 + float(np.abs(risk.observed.share / risk.observed.propensity).max())
    assert fused == pytest.approx(value, abs=1e-6 * largest * (1 + m / n))
    assert slope == pytest.approx(gradient, abs=2e-6 * largest * (1 + m / n) * np.sqrt(n + m))


def test_it_is_used_where_it_can_be():
    log, _, _ = classes(2, n=6000)
    for learner, fused in (
        (SoftmaxLearner("CAB-DR(M=3)"), True),
        (SoftmaxLearner("CAB-DR(M=3)", penalty=1.0), False),
        (SoftmaxLearner("DRos(lam=2)"), False),
        (SoftmaxLearner("SNIPS"), False),
    ):
        task = Task.of(learner, learner.check(), log, None, None)
        assert isinstance(task._gain, Fused) == fused
    few, _, _ = classes(2, n=100)
    learner = SoftmaxLearner("CAB-DR(M=3)")
    assert not isinstance(Task.of(learner, learner.check(), few, None, None)._gain, Fused)


def test_a_score_that_is_no_number_shows():
    scores, risk, _ = problem("CAB-DR(M=3)", 600, 0, 3, 0)
    value, gradient = Fused(scores, risk)(np.full(scores.size, np.nan))
    assert np.isnan(value)
    assert np.isnan(gradient).any()


def test_propensities_of_zero_go_the_plain_way():
    scores, risk, _ = problem("IPS", 10, 0, 2, 0)
    odd = risk.observed._replace(propensity=np.zeros(10))
    assert not DenseRisk(risk.member, odd, risk.place[0], None, None).is_plain
    assert scores.size == 6


def test_exponential_of_singles():
    x = np.concatenate([np.linspace(-80, 80, 4001), [0.0, -0.0, 1e-30]]).astype(np.float32)
    powers = np.array([elementary.exp_single(value) for value in x])
    np.testing.assert_allclose(powers, np.exp(x.astype(np.float64)), rtol=3e-7)
