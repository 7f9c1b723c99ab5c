"""Policies: what each gives every candidate, and what each refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression

from offpolicy import BanditLog
from offpolicy.errors import LogError, ParameterError, PolicyError
from offpolicy.policies._policies import (
    Classifier,
    Deterministic,
    EpsilonGreedy,
    Mixture,
    MonteCarlo,
    Policy,
    Softmax,
    Tabular,
    Uniform,
    resolve,
)
from tests.support.cases import Shape, bandit_log
from tests.support.refusals import refuses

NAN, INF = float("nan"), float("inf")

SQUARE = bandit_log([0, 1], [1, 0], [0.5, 0.5], context=[[0.0, 1.0], [1.0, 0.0]])
NAMED = bandit_log(
    ["a", "c"], [1, 0], [0.5, 0.25, 0.25], actions=["a", "b", "c"], context=[[0.0], [1.0]]
)
RAGGED = BanditLog.from_ragged(
    offsets=[0, 2, 5],
    chosen=[1, 0],
    reward=[1, 0],
    logging=[0.5, 0.5, 0.2, 0.3, 0.5],
    candidate=["a", "b", "a", "b", "c"],
    context=[[0.0], [1.0]],
)
NAMELESS = BanditLog.from_ragged(
    offsets=[0, 2, 5], chosen=[1, 0], reward=[1, 0], logging=[0.5, 0.5, 0.2, 0.3, 0.5]
)
UNKNOWN = bandit_log(["a", "c"], [1, 0], propensity=[0.5, 0.5], context=[[0.0], [1.0]])


class Model:
    """Stands for a fitted classifier."""

    def __init__(self, probabilities: Any, classes: Any = None) -> None:
        self.probabilities_of = probabilities
        if classes is not None:
            self.classes_ = classes

    def predict_proba(self, X: Any) -> Any:
        return self.probabilities_of


def coin(log: BanditLog, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, np.diff(log.offsets))


def names_of(log: BanditLog) -> list[Any]:
    """What was chosen, by name."""
    return [log.actions[code] for code in log.candidate_codes()[log.chosen_index]]


def with_context(column: Any) -> BanditLog:
    return bandit_log([0, 1], [1, 0], [0.5, 0.5], context=column)


# -- every policy ------------------------------------------------------------------------------


@st.composite
def ragged_logs(draw: st.DrawFn) -> BanditLog:
    """Up to 12 decisions over some of up to 6 named actions each, with a context of states."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    K = draw(st.integers(1, 6))
    shape = Shape(draw(st.lists(st.integers(1, K), min_size=1, max_size=12)))
    n = len(shape.lengths)
    return BanditLog.from_ragged(
        offsets=shape.offsets,
        chosen=rng.integers(0, shape.lengths),
        reward=rng.random(n),
        candidate=shape.names(rng, "abcdef"[:K]),
        logging=np.maximum(shape.dirichlet(rng), 1e-12),
        context=rng.integers(0, 2, (n, 1)),
    )


def policies_of(log: BanditLog, scores: np.ndarray) -> list[Any]:
    K = len(log.actions)
    table = np.random.default_rng(0).dirichlet(np.ones(K), 2)
    return [
        Uniform(),
        Tabular(table[0], renormalise=True),
        Tabular(table, state=0, renormalise=True),
        Tabular(dict.fromkeys(log.actions, 0.5), renormalise=True),
        Softmax(scores),
        Softmax(scores, temperature=0),
        Softmax(lambda log: scores, temperature=1e-3),
        EpsilonGreedy(scores, epsilon=0.3),
        Deterministic(scores=scores),
        Deterministic(log.chosen if log.actions is None else names_of(log)),
        Mixture([Uniform(), Softmax(scores), log.logging], [0.2, 0.3, 0.5]),
        MonteCarlo(coin, draws=13),
    ]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(log=ragged_logs(), scale=st.sampled_from([0.0, 1.0, 1e4, 1e300]), seed=st.integers(0, 99))
def test_every_policy_sums_to_one_in_every_decision(log, scale, seed):
    scores = scale * np.random.default_rng(seed).uniform(-1, 1, int(log.offsets[-1]))
    for policy in policies_of(log, scores):
        probabilities = policy.probabilities(log)
        assert isinstance(policy, Policy)
        assert probabilities.shape == log.logging.shape
        assert (probabilities >= 0).all()
        assert_allclose(np.add.reduceat(probabilities, log.offsets[:-1]), 1.0, atol=1e-12)
        resolve(log, policy).check(log)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(log=ragged_logs(), cut=st.integers(0, 11))
def test_a_policy_of_the_log_is_the_same_on_its_rows(log, cut):
    start = min(cut, len(log) - 1)
    part = log.rows(start, len(log))
    flat = slice(int(log.offsets[start]), None)
    table = np.random.default_rng(1).dirichlet(np.ones(len(log.actions)), 2)
    for policy in (Uniform(), Tabular(table, state=0, renormalise=True)):
        assert_array_equal(policy.probabilities(part), policy.probabilities(log)[flat])


@pytest.mark.parametrize(
    "policy",
    [
        Uniform(),
        Tabular({"a": 1.0, "c": 0.0}),
        Softmax([0.0, 1.0]),
        EpsilonGreedy([0.0, 1.0]),
        Deterministic("a"),
        Deterministic(scores=[0.0, 1.0]),
        Classifier(Model([[0.5, 0.5]] * 2)),
        MonteCarlo(coin),
        Mixture([Uniform()], [1.0]),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_a_log_of_chosen_actions_only_is_refused(policy):
    with refuses(PolicyError, "actions"):
        policy.probabilities(UNKNOWN)


# -- Uniform -----------------------------------------------------------------------------------


def test_uniform_shares_alike_among_each_decisions_candidates():
    assert_allclose(Uniform().probabilities(RAGGED), [1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3])


# -- Tabular -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "table",
    [{"c": 0.1, "b": 0.2, "a": 0.7}, {"a": 0.7, "b": 0.2, "c": 0.1, "z": 0.0}, [0.7, 0.2, 0.1]],
)
def test_tabular_looks_every_action_up(table):
    assert_array_equal(Tabular(table).probabilities(NAMED), [0.7, 0.2, 0.1] * 2)


@pytest.mark.parametrize(("state", "rows"), [(0, [0, 1]), (1, [1, 0])])
def test_tabular_finds_its_row_by_state(state, rows):
    table = np.array([[0.1, 0.9], [0.6, 0.4]])
    assert_array_equal(Tabular(table, state=state).probabilities(SQUARE), table[rows].ravel())


def test_tabular_scales_up_where_actions_are_lacking():
    policy = Tabular({"a": 0.5, "b": 0.25, "c": 0.25}, renormalise=True)
    assert_allclose(policy.probabilities(RAGGED), [2 / 3, 1 / 3, 0.5, 0.25, 0.25])


def test_tabular_without_renormalising_is_caught_where_actions_are_lacking():
    target = resolve(RAGGED, Tabular({"a": 0.5, "b": 0.25, "c": 0.25}))
    with refuses(PolicyError, "policy", 0):
        target.check(RAGGED)


@pytest.mark.parametrize(
    ("log", "policy", "place"),
    [
        (NAMED, Tabular({"a": 1.0}), ["Tabular"]),
        (NAMED, Tabular([0.5, 0.5]), ["Tabular"]),
        (NAMED, Tabular(0.5), ["Tabular"]),
        (NAMED, Tabular("abc"), ["Tabular"]),
        (NAMED, Tabular({"a": "x", "b": 0.5, "c": 0.5}), ["Tabular, action 'a',"]),
        (NAMED, Tabular({"a": 0.5, "b": None, "c": 0.5}), ["Tabular"]),
        (SQUARE, Tabular(np.full((2, 2, 2), 0.5), state=0), ["Tabular"]),
        (SQUARE, Tabular([[0.5, 0.5]] * 2), ["state"]),
        (NAMELESS, Tabular([0.5, 0.5, 0.5]), ["candidate"]),
        (RAGGED, Tabular({"a": 0.0, "b": 0.0, "c": 1.0}, renormalise=True), ["Tabular", 0]),
    ],
)
def test_tabular_refuses_a_table_that_does_not_fit(log, policy, place):
    with refuses(PolicyError, *place):
        policy.probabilities(log)


@pytest.mark.parametrize(
    ("context", "state", "column", "row"),
    [
        (None, 0, "context", None),
        ([[0], [2]], 0, "Tabular: context column 0", 1),
        ([[0], [-1]], 0, "Tabular: context column 0", 1),
        ([[0.0], [0.5]], 0, "Tabular: context column 0", 1),
        ([[0.0], [1e30]], 0, "Tabular: context column 0", 1),
        ([["x"], ["y"]], 0, "Tabular: context column 0", None),
        ([[0], [1]], 5, "state", None),
    ],
)
def test_tabular_refuses_a_state_that_is_no_row(context, state, column, row):
    policy = Tabular([[0.5, 0.5]] * 2, state=state)
    with refuses(PolicyError, column, row):
        policy.probabilities(with_context(context))


# -- Softmax, EpsilonGreedy: policies of scores ------------------------------------------------


def test_softmax_follows_its_formula_within_each_decision():
    scores = np.array([1.0, 2.0, -1.0, 0.0, 3.0])
    first, second = np.exp(scores[:2] / 0.5), np.exp(scores[2:] / 0.5)
    expected = np.concatenate([first / first.sum(), second / second.sum()])
    assert_allclose(Softmax(scores, temperature=0.5).probabilities(RAGGED), expected)


@pytest.mark.parametrize(
    "scores",
    [[[1.0, 2.0], [0.0, 1.0]], [1.0, 2.0, 0.0, 1.0], lambda log: [[1.0, 2.0], [0.0, 1.0]]],
    ids=["square", "flat", "callable"],
)
def test_scores_may_be_an_array_or_a_function_of_the_log(scores):
    share = 1 / (1 + np.e)
    assert_allclose(Softmax(scores).probabilities(SQUARE), [share, 1 - share] * 2)


def test_softmax_at_temperature_zero_is_uniform_among_the_best():
    policy = Softmax([1.0, 1.0, 2.0, 0.0, 2.0], temperature=0)
    assert_array_equal(policy.probabilities(RAGGED), [0.5, 0.5, 0.5, 0.0, 0.5])


@pytest.mark.parametrize("temperature", [0.0, 5e-324, 1e-300, 1e-3, 1.0])
@pytest.mark.parametrize(
    "scores",
    [[1e4, 0, 0, -1e4], [-1e308, -1.1e308, 1e308, 9e307], [1e308, -1e308, 1.7e308, -1.7e308]],
)
def test_softmax_of_enormous_scores_is_the_best_one(scores, temperature):
    policy = Softmax(scores, temperature)
    assert_array_equal(policy.probabilities(SQUARE), [1.0, 0.0, 1.0, 0.0])


def test_softmax_of_equal_enormous_scores_is_uniform():
    assert_array_equal(Softmax([-1e308] * 4).probabilities(SQUARE), [0.5] * 4)


def test_epsilon_greedy_shares_epsilon_among_all():
    policy = EpsilonGreedy([1.0, 2.0, 0.0, 0.0, 1.0], epsilon=0.3)
    assert_allclose(policy.probabilities(RAGGED), [0.15, 0.85, 0.1, 0.1, 0.8])


def test_epsilon_greedy_takes_the_first_of_the_best():
    policy = EpsilonGreedy([1.0, 1.0, 0.0, 2.0, 2.0], epsilon=0)
    assert_array_equal(policy.probabilities(RAGGED), [1, 0, 0, 1, 0])


def test_epsilon_one_is_uniform():
    policy = EpsilonGreedy([1.0, 2.0, 3.0, 4.0, 5.0], epsilon=1)
    assert_allclose(policy.probabilities(RAGGED), Uniform().probabilities(RAGGED))


@pytest.mark.parametrize(
    ("policy", "column", "arguments"),
    [
        *((Softmax, "temperature", {"temperature": value}) for value in (-1.0, NAN, INF)),
        *((EpsilonGreedy, "epsilon", {"epsilon": value}) for value in (-0.1, 1.1, NAN)),
        *((MonteCarlo, "draws", {"draws": value}) for value in (9, 0, -1, 10.5)),
        (Deterministic, "action", {"scores": [1.0]}),
    ],
    ids=str,
)
def test_a_parameter_out_of_range_is_refused(policy, column, arguments):
    with refuses(ParameterError, column):
        policy([1.0], **arguments)


@pytest.mark.parametrize("policy", [Softmax, EpsilonGreedy, lambda s: Deterministic(scores=s)])
@pytest.mark.parametrize(
    ("scores", "row", "part"),
    [
        ([1.0, 2.0], None, ""),
        ([[1.0, 2.0]], None, ""),
        (lambda log: [1.0], None, ""),
        (["a", "b", "c", "d"], None, ""),
        ([1.0, 2.0, NAN, 3.0], 1, "candidate 0"),
        ([1.0, INF, 2.0, 3.0], 0, "candidate 1"),
    ],
)
def test_unusable_scores_are_refused(policy, scores, row, part):
    with refuses(PolicyError, row=row, part=part) as caught:
        policy(scores).probabilities(SQUARE)
    assert caught.value.column.endswith(" scores")


# -- Deterministic -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "action", "expected"),
    [
        (SQUARE, 1, [0, 1, 0, 1]),
        (SQUARE, [1, 0], [0, 1, 1, 0]),
        (SQUARE, lambda log: log.chosen, [1, 0, 0, 1]),
        (SQUARE, lambda log: 0, [1, 0, 1, 0]),
        (NAMED, "b", [0, 1, 0, 0, 1, 0]),
        (NAMED, ["b", "c"], [0, 1, 0, 0, 0, 1]),
        (RAGGED, ["b", "c"], [0, 1, 0, 0, 1]),
        (NAMELESS, [1, 2], [0, 1, 0, 0, 1]),
        (NAMELESS, 1, [0, 1, 0, 1, 0]),
    ],
)
def test_deterministic_puts_all_on_one(log, action, expected):
    assert_array_equal(Deterministic(action).probabilities(log), expected)


def test_deterministic_by_scores_takes_the_first_of_the_best():
    policy = Deterministic(scores=[1.0, 1.0, 0.0, 2.0, 2.0])
    assert_array_equal(policy.probabilities(RAGGED), [1, 0, 0, 1, 0])


def test_deterministic_takes_an_argument():
    with refuses(ParameterError, "action"):
        Deterministic()


@pytest.mark.parametrize(
    ("log", "action", "row", "hint"),
    [
        (NAMED, "bb", 0, 'Did you mean "b"?'),
        (NAMED, 1, 0, ""),
        (SQUARE, 2, 0, ""),
        (SQUARE, [0, -1], 1, ""),
        (SQUARE, [0, 0.5], 1, ""),
        (SQUARE, [0, None], 1, ""),
        (SQUARE, [0, 1, 0], None, ""),
        (SQUARE, [[0, 1]], None, ""),
    ],
)
def test_deterministic_refuses_what_is_no_action(log, action, row, hint):
    with refuses(PolicyError, "action", row) as caught:
        Deterministic(action).probabilities(log)
    assert hint in str(caught.value)


@pytest.mark.parametrize(("log", "column"), [(RAGGED, "action"), (NAMELESS, "Deterministic")])
@pytest.mark.parametrize(
    "action",
    [[0], [0, 3], [-1, 0], [[0], [2]], [0, 0.5], [0, NAN], [0, None], ["nothing", "of these"]],
    ids=str,
)
def test_deterministic_refuses_what_is_no_candidate(log, column, action):
    with refuses(PolicyError, column):
        Deterministic(action).probabilities(log)


# -- Mixture -----------------------------------------------------------------------------------


def test_a_mixture_is_the_weighted_sum_of_its_policies():
    policy = Mixture([Uniform(), [[1, 0], [0, 1]], Deterministic(0)], [0.5, 0.3, 0.2])
    assert_allclose(policy.probabilities(SQUARE), [0.75, 0.25, 0.45, 0.55])


def test_a_mixture_of_one_is_that_one():
    inner = Softmax([1.0, 2.0, 3.0, 4.0, 5.0])
    nested = Mixture([Mixture([inner], [1.0])], [1])
    assert_array_equal(nested.probabilities(RAGGED), inner.probabilities(RAGGED))


@pytest.mark.parametrize("weights", [[0.5, 0.6], [-0.5, 1.5], [NAN, 1.0], [1.0], []], ids=str)
def test_weights_that_are_no_distribution_are_refused(weights):
    with refuses(ParameterError, "weights"):
        Mixture([Uniform(), Uniform()], weights)


def test_an_empty_mixture_is_refused():
    with refuses(ParameterError, "weights"):
        Mixture([], [])


@pytest.mark.parametrize(
    ("part", "row"), [([[0.5, 0.4]] * 2, 0), ([0.5, 0.4], None), ([1.0, 2.0, 3.0], None)]
)
def test_a_mixture_refuses_an_unusable_part(part, row):
    with refuses(PolicyError, "Mixture", row):
        Mixture([Uniform(), part], [0.5, 0.5]).probabilities(SQUARE)


# -- Classifier --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "model", "expected"),
    [
        (SQUARE, Model([[0.1, 0.9], [0.8, 0.2]]), [0.1, 0.9, 0.8, 0.2]),
        (SQUARE, Model([[0.1, 0.9], [0.8, 0.2]], [1, 0]), [0.9, 0.1, 0.2, 0.8]),
        (NAMED, Model([[0.1, 0.9], [0.8, 0.2]], ["c", "a"]), [0.9, 0, 0.1, 0.2, 0, 0.8]),
    ],
    ids=["no classes", "reordered", "subset"],
)
def test_classes_are_matched_to_actions(log, model, expected):
    assert_array_equal(Classifier(model).probabilities(log), expected)


@pytest.mark.parametrize("labels", [["a", "b", "c"], ["c", "a", "a"], ["b", "c", "b"]])
def test_a_fitted_logistic_regression_is_a_policy(labels):
    model = LogisticRegression().fit([[0.0], [1.0], [2.0]], labels)
    table = np.zeros((2, 3))
    for k, name in enumerate(model.classes_):
        table[:, "abc".index(name)] = model.predict_proba([[0.0], [1.0]])[:, k]
    assert_array_equal(resolve(NAMED, model).flat, table.ravel())
    resolve(NAMED, model).check(NAMED)


@pytest.mark.parametrize(
    ("log", "model", "column"),
    [
        (with_context(None), Model([[0.5, 0.5]] * 2), "context"),
        (NAMELESS, Model([[0.5, 0.5]] * 2), "context"),
        (RAGGED, Model([[0.5, 0.5]] * 2), "predict_proba"),
        (SQUARE, Model([[0.5, 0.25, 0.25]] * 2), "predict_proba"),
        (SQUARE, Model([["x", "y"]] * 2), "predict_proba"),
        (NAMED, Model([[0.5, 0.5]] * 2, ["z", "a"]), "actions"),
        (NAMED, Model([[0.5, 0.5]] * 2, ["a"]), "predict_proba"),
        (NAMED, Model([[0.5, 0.5]] * 3, ["a", "b"]), "predict_proba"),
        (NAMED, Model([0.5, 0.5], ["a", "b"]), "predict_proba"),
        (NAMED, Model(None, ["a", "b"]), "predict_proba"),
    ],
)
def test_a_classifier_that_does_not_fit_is_refused(log, model, column):
    with refuses(PolicyError, column):
        Classifier(model).probabilities(log)


# -- MonteCarlo --------------------------------------------------------------------------------


def biased(log: BanditLog, rng: np.random.Generator) -> np.ndarray:
    """Position 1 with probability 0.3, else 0."""
    return (rng.random(len(log)) < 0.3).astype(int)


@pytest.mark.parametrize("draws", [10, 13, 37, 100])
def test_every_draw_is_counted_once(draws):
    policy = MonteCarlo(biased, draws=draws)
    counts = policy.counts(RAGGED)
    assert counts.shape == (10, 5)
    assert_array_equal(np.add.reduceat(counts.sum(axis=0), [0, 2]), [draws, draws])
    sizes = counts[:, :2].sum(axis=1)
    assert sizes.max() - sizes.min() <= 1


def test_frequencies_estimate_the_probabilities():
    n, draws = 50, 400
    log = BanditLog.from_arrays(action=[0] * n, reward=[0] * n, logging=[[0.5, 0.5]] * n)
    frequency = MonteCarlo(biased, draws=draws, seed=3).probabilities(log)[1::2]
    stderr = np.sqrt(0.3 * 0.7 / draws)
    assert np.abs(frequency - 0.3).max() < 4 * stderr
    assert abs(frequency.mean() - 0.3) < 4 * stderr / np.sqrt(n)


def test_draws_are_reproducible_and_follow_the_seed():
    first, again, other = (MonteCarlo(coin, draws=50, seed=s).counts(RAGGED) for s in (7, 7, 8))
    assert_array_equal(first, again)
    assert (first != other).any()


def test_leaving_one_replicate_out_averages_to_the_whole():
    policy = MonteCarlo(coin, draws=37, seed=1)
    target = resolve(RAGGED, policy)
    counts = policy.counts(RAGGED)
    for left_out, probabilities in enumerate(target.leave_one_out):
        rest = np.delete(counts, left_out, axis=0).sum(axis=0)
        assert_allclose(probabilities(), rest / rest[:2].sum())
    assert_array_equal(target.flat, policy.probabilities(RAGGED))


@pytest.mark.parametrize(
    "drawn",
    [[0], [2, 0], [-1, 0], [[0], [0]], 0, [0.5, 0], [NAN, 0], ["a", "b"], [None, 0], None],
    ids=str,
)
def test_a_draw_that_is_no_position_is_refused(drawn):
    with refuses(PolicyError, "MonteCarlo"):
        MonteCarlo(lambda log, rng: drawn).probabilities(RAGGED)


# -- resolve: anything that can stand for a policy ---------------------------------------------


class Halves:
    def probabilities(self, log: BanditLog) -> list[float]:
        return [0.5] * int(log.offsets[-1])


@pytest.mark.parametrize(
    ("log", "policy"),
    [
        (SQUARE, [[0.5, 0.5], [0.5, 0.5]]),
        (SQUARE, np.full((2, 2), 0.5, order="F")),
        (SQUARE, np.full(4, 0.5, dtype=np.float32)),
        (SQUARE, Uniform()),
        (SQUARE, Halves()),
        (SQUARE, Model([[0.5, 0.5]] * 2)),
    ],
    ids=["lists", "square", "flat", "policy", "foreign policy", "classifier"],
)
def test_anything_with_probabilities_of_all_candidates_is_a_policy(log, policy):
    target = resolve(log, policy)
    assert_array_equal(target.flat, [0.5] * 4)
    assert target.chosen is None
    target.check(log)


@pytest.mark.parametrize("log", [SQUARE, RAGGED, UNKNOWN], ids=["square", "ragged", "unknown"])
def test_one_probability_per_decision_is_of_the_chosen(log):
    target = resolve(log, [0.1, 1.0])
    assert target.flat is None
    assert_array_equal(target.chosen, [0.1, 1.0])


def test_one_candidate_per_decision_makes_a_policy_of_all_candidates():
    log = BanditLog.from_arrays(action=[0, 0], reward=[1, 0], logging=[[1.0], [1.0]])
    assert_array_equal(resolve(log, [1.0, 1.0]).flat, [1.0, 1.0])


def framed(**columns: Any) -> BanditLog:
    rows = {"action": [1, 0], "reward": [1, 0], "logging": [[0.5, 0.5], [0.2, 0.3, 0.5]]}
    return BanditLog.from_frame(pa.table({**rows, **columns}))


def test_a_column_of_the_frame_is_a_policy():
    log = framed(new=[[0.1, 0.9], [0.0, 0.0, 1.0]], p=[0.9, 0.0])
    assert_array_equal(resolve(log, "new").flat, [0.1, 0.9, 0.0, 0.0, 1.0])
    assert_array_equal(resolve(log, "p").chosen, [0.9, 0.0])


@pytest.mark.parametrize(
    ("name", "values", "error", "place"),
    [
        ("nwe", [[0.1, 0.9], [0.0, 0.0, 1.0]], LogError, ["nwe"]),
        ("new", [[0.1, 0.9], [0.0, 1.0]], LogError, ["new", 1]),
        ("new", ["x", "y"], PolicyError, ["new", 0]),
        ("new", [0.5, 1.5], PolicyError, ["policy", 1]),
    ],
)
def test_an_unusable_column_is_refused(name, values, error, place):
    with refuses(error, *place):
        resolve(framed(new=values), name)


def test_a_column_name_needs_a_frame():
    with refuses(LogError, "new"):
        resolve(SQUARE, "new")


NARROW = np.array([[0.3, 0.7005], [0.5, 0.5]], dtype=np.float32)


@pytest.mark.parametrize(
    "policy",
    [NARROW, NARROW.ravel(), Classifier(Model(NARROW)), Mixture([NARROW], [1.0])],
    ids=["square", "flat", "classifier", "mixture"],
)
def test_narrow_floats_are_given_their_tolerance(policy):
    resolve(SQUARE, policy).check(SQUARE)
    with refuses(PolicyError, "policy", 0):
        resolve(SQUARE, NARROW.astype(float)).check(SQUARE)


@pytest.mark.parametrize(
    ("log", "policy", "row"),
    [
        (SQUARE, None, None),
        (SQUARE, 0.5, None),
        (SQUARE, [1.0, 2.0, 3.0], None),
        (SQUARE, np.ones((2, 3)), None),
        (RAGGED, np.ones((2, 2)), None),
        (UNKNOWN, np.ones((2, 3)), None),
        (UNKNOWN, np.ones((2, 1)), None),
        (SQUARE, object(), None),
        (SQUARE, {"a": 1.0}, None),
        (SQUARE, [0.5, -0.1], 1),
        (SQUARE, [0.5, 1.1], 1),
        (SQUARE, [0.5, NAN], 1),
    ],
)
def test_what_cannot_stand_for_a_policy_is_refused(log, policy, row):
    with refuses(PolicyError, "new", row):
        resolve(log, policy, "new")


@pytest.mark.parametrize(
    ("values", "row", "part"),
    [
        ([0.5, 0.5, 1.2, -0.2, 0.0], 1, "candidate 0"),
        ([0.5, 0.5, 0.2, 0.3, NAN], 1, "candidate 2"),
        ([0.5, 0.4, 0.2, 0.3, 0.5], 0, ""),
    ],
)
def test_probabilities_that_are_none_are_caught_by_the_check(values, row, part):
    with refuses(PolicyError, "new", row, part=part):
        resolve(RAGGED, values, "new").check(RAGGED)
