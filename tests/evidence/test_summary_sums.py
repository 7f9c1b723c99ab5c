"""The sums that pictures are drawn from, against slow and obvious ones."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import offpolicy as op
from offpolicy._core.checkpoint import decode, encode
from offpolicy.estimators import GRID
from offpolicy.evidence._blocks import whole_block
from offpolicy.evidence._stretches import Stretches
from offpolicy.evidence._summarise import sequence_half_width
from offpolicy.evidence._summary_sums import MOST_ACTIONS, Actions, Tally
from offpolicy.policies._policies import resolve
from tests.support.cases import Shape, bandit_log, make_case

RNG = np.random.default_rng(3)


def ragged(n: int = 400, *, weighted: bool = True) -> tuple[op.BanditLog, np.ndarray, np.ndarray]:
    """Candidates by name, some without support, row weights and times."""
    case = make_case(RNG, n, unsupported=0.2, drawn=True)
    log = case.log_with(
        reward=RNG.random(n),
        candidate=Shape(np.diff(case.offsets)).names(RNG, [f"a{k}" for k in range(6)]),
        row_weight=RNG.random(n) + 0.5 if weighted else None,
        time=np.arange(n),
    )
    return log, case.pi, RNG.random(len(case.pi))


def tally(log, pi, delta_hat, cuts, tilde, *, rows=None, n=None):
    start, stop = rows or (0, len(log))
    flat = slice(int(log.offsets[start]), int(log.offsets[stop]))
    part = log.rows(start, stop)
    block = whole_block(part, resolve(part, pi[flat], "p"), delta_hat[flat])
    return Tally.of(block, Stretches(0, n or len(log)), cuts, tilde[start:stop])


@pytest.mark.parametrize("weighted", [False, True])
def test_all_sums_row_by_row(weighted):
    log, pi, delta_hat = ragged(weighted=weighted)
    n = len(log)
    cuts, tilde = np.array([0.2, 0.5, 0.8]), RNG.random(n)
    found = tally(log, pi, delta_hat, cuts, tilde)
    parts = Stretches(0, n).count
    by_class, by_action = np.zeros((4, 7)), {name: np.zeros(6) for name in log.actions}
    for i in range(n):
        w = 1.0 if log.row_weight is None else log.row_weight[i]
        own = range(log.offsets[i], log.offsets[i + 1])
        at = log.chosen_index[i]
        r, d = log.reward[i], delta_hat[at]
        given = [1.0, w, d, tilde[i], r, r * r, (r - d) ** 2]
        by_class[int((d >= cuts).sum())] += w * np.array(given)
        by_action[log.actions[log.candidate[at]]][:2] += [w, w * r]
        for k in own:
            p, q = pi[k], log.logging[k]
            more = [w * p, w * q, w * p * (q == 0.0), w * w * q * (1.0 - q)]
            by_action[log.actions[log.candidate[k]]][2:] += more
    assert_allclose(found.by_class, by_class, rtol=1e-12)
    assert found.actions.names == log.actions
    assert_allclose(found.actions.sums, np.array(list(by_action.values())), rtol=1e-10, atol=1e-13)
    assert found.times.low.tolist() == [-(-k * n // parts) for k in range(parts)]
    assert found.times.high[-1] == n - 1


def test_parts_add_up_to_the_whole():
    log, pi, delta_hat = ragged()
    n = len(log)
    rest = (np.array([0.5]), RNG.random(n))
    whole = tally(log, pi, delta_hat, *rest)
    cut = [(0, 1), (1, 150), (150, 399), (399, 400)]
    parts = [tally(log, pi, delta_hat, *rest, rows=rows, n=n) for rows in cut]
    added = parts[0] + parts[1] + parts[2] + parts[3]
    assert_allclose(added.by_class, whole.by_class, rtol=1e-9, atol=1e-12)
    assert set(added.actions.names) == set(whole.actions.names)
    again = decode(encode(added))
    assert again.actions.names == added.actions.names
    assert (again.by_class == added.by_class).all()


@pytest.mark.parametrize(("n", "parts"), [(7, 1), (65, 3), (1010, 50), (20, 1)])
def test_every_row_is_in_its_stretch(n, parts):
    log = bandit_log([0] * (n + 4), [0] * (n + 4), [1.0])
    stretches = Stretches(4, n)
    assert stretches.count == parts
    for first in range(0, n, 3):
        for rows in {1, 2, min(5, n - first), n - first} & set(range(n - first + 1)):
            part = log.rows(4 + first, 4 + first + rows)
            expected = [i * parts // n for i in range(first, first + rows)]
            assert stretches.of_rows(part).tolist() == expected


def test_very_many_actions_are_counted_in_fixed_memory_and_honestly():
    def block(names, mass):
        sums = np.zeros((len(names), 6))
        sums[:, 2] = mass
        return Actions(tuple(names), sums, np.zeros(6), 0, 0.0).leading()

    frequent = [f"often {k}" for k in range(10)]
    truth = dict.fromkeys(frequent, 0.0)
    total = None
    for k in range(20):
        rare = [f"rare {k} {j}" for j in range(900)]
        part = block([*frequent, *rare], np.append(np.full(10, 50.0), np.full(900, 0.01 * (k + 1))))
        for name in frequent:
            truth[name] += 50.0
        total = part if total is None else total + part
    assert len(total.names) <= MOST_ACTIONS
    assert total.sums[:, 2].sum() + total.other[2] == pytest.approx(20 * 500.0 + 9.0 * 210)
    for name in frequent:
        found = total.sums[total.names.index(name), 2]
        assert truth[name] - total.short <= found <= truth[name]


def test_the_end_of_the_log_is_the_headline():
    log, pi, delta_hat = ragged(3000)
    result = op.evaluate(log, pi, prediction=delta_hat)
    (summary,) = result.summaries
    row = result.headline
    assert summary.over_log.so_far[-1] == pytest.approx(row.value, rel=1e-12)
    assert summary.over_log.rows[-1] == 3000.0
    at = GRID.tolist().index(row.M)
    assert summary.imputed[at] == pytest.approx(row.imputed_mass, rel=1e-12)
    assert sum(summary.weights.rows) == pytest.approx(1.0)
    assert sum(summary.weights.weight) == pytest.approx(1.0)
    lost = sum(action.unsupported for action in summary.support.actions)
    assert lost == pytest.approx(summary.weights.unsupported, rel=1e-12)
    assert sum(summary.weights.mass) + lost == pytest.approx(1.0)


def test_a_part_of_a_log_is_a_log():
    log, pi, delta_hat = ragged(600, weighted=False)
    flat = slice(int(log.offsets[100]), int(log.offsets[400]))
    result = op.evaluate(log.rows(100, 400), pi[flat], prediction=delta_hat[flat])
    assert result.summaries[0].over_log.rows[-1] == 300.0


def test_the_sequence_covers_at_every_look():
    """Of 400 logs, at most 5% may leave it anywhere; by chance, 34 would be too many."""
    rng = np.random.default_rng(0)
    t = np.arange(1, 51) * 40.0
    missed = 0
    for _ in range(400):
        x = rng.exponential(1.0, (50, 40)).sum(axis=1)
        mean = np.cumsum(x) / t
        half = sequence_half_width(t, np.ones(50), 0.95)
        missed += bool((np.abs(mean - 1.0) > half).any())
    assert missed <= 34
    assert half[-1] < 1.8 * 1.96 / np.sqrt(t[-1])


def test_names_longer_than_a_page_are_cut():
    log = bandit_log(["x" * 10_000, "y"] * 50, [0, 1] * 50, [0.5, 0.5], actions=["x" * 10_000, "y"])
    found = op.evaluate(log, [[0.4, 0.6]] * 100).summaries[0].support
    assert {len(action.name) for action in found.actions} == {1, 200 + len("… (10,000 characters)")}


# -- findings --------------------------------------------------------------------------------


def drawn(n=4000, *, told=None, jump=0.0, seed=0):
    """A log of two actions; ``told`` are other propensities than those it was drawn by."""
    rng = np.random.default_rng(seed)
    action = (rng.random(n) < 0.5).astype(int)
    later = np.arange(n) >= n // 2
    reward = rng.random(n) < 0.3 + jump * later
    logging = [told or [0.5, 0.5]] * n
    return op.BanditLog.from_arrays(action=action, reward=reward, logging=logging)


def codes(log, policy=(0.4, 0.6), **given):
    result = op.evaluate(log, [list(policy)] * len(log), **given)
    return {one.code: one.severity for one in result.findings}


def test_an_honest_log_is_not_warned_of():
    for seed in range(5):
        log = drawn(seed=seed)
        assert codes(log, prediction=np.full(8000, 0.3)) == {}


def test_what_the_scan_comes_across():
    false = {"frequencies": "problem", "weight-mean": "problem"}
    assert codes(drawn(told=[0.7, 0.3])) == false
    assert codes(drawn(jump=0.2)) == {"drift": "warning"}
    assert codes(drawn(), prediction=np.full(8000, 0.6)) == {"prediction-calibration": "warning"}
    lost = bandit_log([0, 1] * 2000, [0, 1, 1, 1] * 1000, [0.5, 0.5, 0.0])
    assert codes(lost, (0.3, 0.3, 0.4)) == {"support": "problem"}
    few = bandit_log([0, 1] * 20, [0, 1, 1, 1] * 10, [0.5, 0.5])
    assert codes(few)["effective-size"] == "warning"


def test_heavy_weights_are_noticed():
    rng = np.random.default_rng(1)
    n = 20_000
    rare = rng.random(n) < 0.005
    log = bandit_log(rare.astype(int), rng.random(n) < 0.4, [0.995, 0.005])
    found = codes(log, (0.5, 0.5))
    assert found["heavy-weights"] == "warning"
