"""`check`: every finding on a log that has the fault and on one that has not, the numbers against
slow references, honest logs that must stay silent, and what a report can do."""

from __future__ import annotations

import importlib
import json
import math
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy import errors
from offpolicy.cli.check import command
from offpolicy.datasets._from_labels import sample_actions
from offpolicy.estimators import GRID
from offpolicy.evaluation._check import check
from offpolicy.evidence._limits import FALSE_ALARM, tail
from offpolicy.evidence.findings._chance import STAKES, Rows
from offpolicy.evidence.findings._drift import moved
from offpolicy.evidence.findings._policy import CLIPS
from offpolicy.evidence.findings._propensities import EDGES
from offpolicy.evidence.findings._rows import _bits
from offpolicy.logs.files._parquet import ParquetScan
from offpolicy.results._check_report import Report
from offpolicy.results._findings import CODES, Finding
from tests.support.cases import Case, bandit_log, cases, make_case
from tests.support.limits import small_blocks
from tests.support.refusals import refuses

CHANCE = {
    "constant-propensity", "deterministic", "drift", "duplicates", "frequencies",
    "prediction-calibration", "reward-outlier", "reward-values", "rounded-propensities",
    "weight-drift", "weight-mean",
}  # fmt: skip
"""What an honest log may only show by accident."""


def softmax(scores: np.ndarray) -> np.ndarray:
    mass = np.exp(scores - scores.max(axis=1, keepdims=True))
    return mass / mass.sum(axis=1, keepdims=True)


class World:
    """An honest log in pieces, to be spoiled: softmax logger, clicks at 20 %."""

    def __init__(self, seed: int, n: int = 4000, K: int = 5) -> None:
        rng = np.random.default_rng(seed)
        self.rng, self.n, self.K = rng, n, K
        self.scores = rng.normal(size=(n, K))
        self.pi0 = softmax(self.scores)
        self.pi = softmax(self.scores + rng.normal(size=(n, K)))
        self.action = sample_actions(self.pi0, rng)
        self.reward = (rng.random(n) < 0.2).astype(float)

    @property
    def at(self) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(self.n), self.action

    def log(self, **changed: object) -> op.BanditLog:
        columns = {"action": self.action, "reward": self.reward, "logging": self.pi0} | changed
        return op.BanditLog.from_arrays(**columns)

    def narrow(self, **changed: object) -> op.BanditLog:
        """With the propensities of the chosen actions only."""
        columns = {"propensity": self.pi0[self.at], "logging": None} | changed
        return self.log(**columns)


def codes(report: Report) -> list[str]:
    return sorted(one.code for one in report)


# -- chance ----------------------------------------------------------------------------------


def binomial(n: int, p: float) -> list[float]:
    return [math.comb(n, k) * p**k * (1.0 - p) ** (n - k) for k in range(n + 1)]


@pytest.mark.parametrize("n", [1, 7, 60])
@pytest.mark.parametrize("p", [0.001, 0.03, 0.3, 0.5, 0.9])
def test_bennett_is_never_below_the_exact_tail(n, p):
    chances = binomial(n, p)
    for k in range(n + 1):
        exact = sum(chances[k:]) if k > n * p else sum(chances[: k + 1])
        bound = tail(abs(k - n * p), n * p * (1.0 - p), 1.0)
        assert bound >= exact * (1.0 - 1e-9)


def test_bennett_by_hand():
    u = 6.0 * 2.0 / 3.0
    expected = math.exp(-3.0 / 4.0 * ((1.0 + u) * math.log(1.0 + u) - u))
    assert tail(6.0, 3.0, 2.0) == pytest.approx(expected, rel=1e-12)
    assert tail([-1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, math.inf], 1.0).tolist() == [1.0] * 4


@pytest.mark.parametrize("p", [0.01, 0.2, 0.5, 0.99])
@pytest.mark.parametrize("alpha", [0.5, 0.1, 0.01])
def test_a_bet_on_an_honest_mean_wins_no_more_often_than_it_says(p, alpha):
    """x = 1/p − 1 with chance p, else −1: the mean is 0. All outcomes of 40 rows are tried."""
    n, won = 40, 0.0
    for k, chance in enumerate(binomial(n, p)):
        x = np.array([1.0 / p - 1.0] * k + [-1.0] * (n - k))
        rows = Rows(np.ones(n), None, True)
        won += chance * (rows.chance_above(x, -1.0) <= alpha)
    assert won <= alpha


def test_a_bet_by_hand_with_clusters_and_weights():
    rows = Rows(np.array([0.5, 1.5, 1.0]), np.array([0, 1, 0]), False)
    x = np.array([3.0, 1.0, -2.0])
    totals = [0.5 * 3.0 - 2.0, 1.5]  # of at most 1.5 rows, and no row below −2
    wealth = [math.prod(1.0 + stake * total / (2.0 * 1.5) for total in totals) for stake in STAKES]
    assert rows.chance_above(x, -2.0) == pytest.approx(min(1.0, len(wealth) / sum(wealth)))


def test_chance_by_hand_with_clusters_and_weights():
    """The variance is that of the clusters' totals, the largest term that of the largest."""
    rows = Rows(np.array([0.5, 1.5, 1.0]), np.array([0, 1, 0]), False)
    x = np.array([3.0, 1.0, -1.0])
    totals = [0.5 * 3.0 - 1.0, 1.5]
    variance = max(0.1, totals[0] ** 2 + totals[1] ** 2)
    expected = 2.0 * float(tail(sum(totals), variance, 4.0 * 1.5))
    assert rows.chance(x, 0.1, 4.0) == pytest.approx(min(1.0, expected))
    assert rows.chance(x, 50.0, 4.0) == pytest.approx(
        min(1.0, 2.0 * float(tail(sum(totals), 50.0, 4.0 * 1.5)))
    )
    many = Rows(np.ones(300), np.arange(300) // 3, False)
    x = np.where(np.arange(300) % 2 == 0, 1.0, -0.2)
    totals = x.reshape(100, 3).sum(axis=1)
    expected = 2.0 * float(tail(totals.sum(), (totals**2).sum(), 3.0))
    assert many.chance(x, 1.0, 1.0) == pytest.approx(expected)
    assert expected < 0.1


def honest_log(seed: int) -> tuple[op.BanditLog, np.ndarray, np.ndarray]:
    """Any kind of log whose propensities are true, a policy and a true reward model."""
    rng = np.random.default_rng([77, seed])
    n, K = int(rng.choice([50, 300, 2000])), int(rng.choice([2, 5, 20, 100]))
    states = int(rng.choice([1, 5, n]))
    table = rng.dirichlet(np.full(K, rng.choice([0.1, 0.5, 2.0])), states) + 1e-6
    x = rng.integers(0, states, n)
    pi0 = (table / table.sum(axis=1, keepdims=True))[x]
    pi = rng.dirichlet(np.full(K, rng.choice([0.1, 0.5, 2.0])), states)[x]
    delta = (rng.random((states, K)) * rng.choice([0.02, 0.3, 1.0]))[x]
    action = sample_actions(pi0, rng)
    mean = delta[np.arange(n), action]
    reward = (rng.random(n) < mean).astype(float)
    if rng.random() < 0.5:
        reward = mean + rng.normal(size=n)
    extra: dict[str, object] = {}
    kind = rng.integers(4)
    if kind == 1:
        extra["cluster"] = rng.integers(0, n // 4, n)
    elif kind == 2:
        keep = np.where(reward > 0.5, 1.0, 0.3)
        rows = np.flatnonzero(rng.random(n) < keep)
        pi0, pi, delta, action, reward = (v[rows] for v in (pi0, pi, delta, action, reward))
        extra["row_weight"], n = 1.0 / keep[rows], len(rows)
    elif kind == 3:
        extra |= {"context": x[:, None], "time": np.arange(n)}
    columns = {"action": action, "reward": reward} | extra
    if rng.random() < 0.5:
        return op.BanditLog.from_arrays(**columns, logging=pi0), pi, delta
    columns["propensity"] = pi0[np.arange(n), action]
    if rng.random() < 0.5:
        return op.BanditLog.from_arrays(**columns, actions=K), pi, delta
    at = np.arange(n), action
    return op.BanditLog.from_arrays(**columns), pi[at], delta[at]


def test_honest_logs_raise_no_alarm():
    """Each test is wrong at most once in 1,000 logs, and far less often as its bounds are wide."""
    alarms = Counter()
    for seed in range(200):
        log, policy, prediction = honest_log(seed)
        report = check(log, policy, prediction=prediction)
        alarms.update(one.code for one in report if one.code in CHANCE)
        alarms.update(
            one.code for one in report if one.code == "support" and log.logging is not None
        )
    assert sum(alarms.values()) <= 1, alarms


def test_a_good_log_has_no_findings():
    world = World(1)
    truth = np.full((world.n, world.K), 0.2) + 0.01 * world.scores
    assert codes(check(world.log(), world.pi, prediction=truth, reward_range=(0, 1))) == []
    assert codes(check(world.narrow(actions=5), world.pi)) == []
    assert codes(check(world.narrow(), world.pi[world.at])) == []


# -- support and weights, against slow references --------------------------------------------


def slow(case: Case, M: float) -> dict[str, float]:
    """Everything about weights, decision by decision."""
    n = len(case.reward)
    omega = np.ones(n) if case.row_weight is None else case.row_weight / case.row_weight.mean()
    out = dict.fromkeys(("unsupported", "thin", "w", "w2"), 0.0)
    for i, row in enumerate(case.decisions):
        for pi, pi0 in zip(row.pi, row.pi0, strict=True):
            if pi0 == 0.0:
                out["unsupported"] += omega[i] * pi / n
            else:
                out["thin"] += omega[i] * max(pi - M * pi0, 0.0) / n
        w = omega[i] * row.pi[row.chosen] / row.pi0[row.chosen]
        out["w"] += w
        out["w2"] += w * w
    out["ess"] = out["w"] ** 2 / out["w2"] if out["w"] else 0.0
    return out


@settings(max_examples=60, deadline=None)
@given(cases(smallest=1, largest=30))
def test_masses_and_effective_size_equal_the_slow_reference(case):
    report = check(case.log, case.pi, prediction=case.delta_hat)
    expected = slow(case, GRID[GRID <= 10.0][-1])
    assert report["effective-size"].numbers["ess"] == pytest.approx(expected["ess"])
    assert report["effective-size"].severity == ("problem" if expected["ess"] < 20 else "warning")
    if not expected["w"]:
        return
    for code, key, least in (("support", "unsupported", 1e-6), ("thin-support", "thin", 1e-3)):
        if code in report:
            assert report[code].numbers["mass"] == pytest.approx(expected[key])
        else:
            assert expected[key] < least * 1.0000001


def test_support_names_mass_and_actions():
    world = World(2)
    keep = np.array([1.0, 1.0, 0.0, 1.0, 0.0])
    pi0 = world.pi0 * keep
    pi0 /= pi0.sum(axis=1, keepdims=True)
    action = sample_actions(pi0, world.rng)
    names = ["tea", "milk", "<b>", "jam", "rye"]
    log = world.log(logging=pi0, action=[names[k] for k in action], actions=names)
    policy = np.tile([0.3, 0.3, 0.2, 0.15, 0.05], (world.n, 1))
    finding = check(log, {"new": policy})["new", "support"]
    assert finding.severity == "problem"
    assert finding.sentence == (
        "new puts 25% of its probability where the logger has none: on action <b> (20%), "
        "action rye (5%)."
    )
    assert finding.numbers == {"mass": pytest.approx(0.25), "actions": 2}
    assert "support" not in check(log, np.tile([0.5, 0.3, 0.0, 0.2, 0.0], (world.n, 1)))
    little = np.tile([0.5, 0.3, 0.0, 0.1995, 0.0005], (world.n, 1))
    assert check(log, little)["support"].severity == "note"


def test_support_lists_three_actions_at_most():
    log = op.BanditLog.from_arrays(action=[0, 0], reward=[1, 0], logging=[[1, 0, 0, 0, 0, 0]] * 2)
    message = check(log, [[0.4, 0.1, 0.1, 0.2, 0.1, 0.1]] * 2)["support"].sentence
    assert message.endswith("on action 3 (20%), action 1 (10%), action 2 (10%) and 2 more.")


def test_support_without_logging_is_seen_in_the_mean_weight():
    world = World(3, n=2000)
    pi0 = world.pi0 * np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    pi0 /= pi0.sum(axis=1, keepdims=True)
    world.action = sample_actions(pi0, world.rng)
    finding = check(world.narrow(propensity=pi0[world.at]), world.pi[world.at])["support"]
    mean = (world.pi[world.at] / pi0[world.at]).mean()
    assert finding.numbers["mass"] == pytest.approx(1.0 - mean)
    assert finding.severity == "problem"
    stderr = math.sqrt(((world.pi[world.at] / pi0[world.at] - 1.0) ** 2).sum()) / world.n
    assert finding.sentence == (
        f"The weights of policy average {mean:.3g}, not 1: about {100 * (1 - mean):.2g}% (give or "
        f"take {100 * stderr:.2g}%) of its probability is on actions that the log shows never, or "
        f"hardly ever."
    )


def test_thin_support():
    """A tenth of the policy is on an action that the logger takes once in 10,000 times."""
    n = 5000
    rng = np.random.default_rng(4)
    pi0 = np.tile([0.9999, 0.0001], (n, 1))
    log = bandit_log(sample_actions(pi0, rng), rng.random(n), pi0)
    report = check(log, [[0.9, 0.1]] * n)
    assert report["thin-support"].severity == "warning"
    M = GRID[GRID <= 50.0][-1]
    assert report["thin-support"].numbers == {"mass": pytest.approx(0.1 - M * 0.0001), "M": M}
    assert report["thin-support"].sentence == (
        f"{100 * (0.1 - M * 0.0001):.2g}% of the probability of policy is on actions so rare in "
        f"the log that their weights go beyond {M:.4g}."
    )
    assert "support" not in report
    assert "thin-support" not in check(log, [[0.9999, 0.0001]] * n)


def test_thin_support_without_logging_takes_the_smaller_of_two_estimates():
    c = np.full(1000, 0.9)
    c[:3] = 40.0, 60.0, 50.0
    log = bandit_log(["a"] * 1000, np.arange(1000.0), propensity=0.01 + 0.0 * c)
    M = GRID[GRID <= 10.0][-1]
    beyond = (40 + 60 + 50 - 3 * M) / 1000
    missing = 1.0 - (997 * 0.9 + 3 * M) / 1000
    mass = check(log, 0.01 * c)["thin-support"].numbers["mass"]
    assert mass == pytest.approx(min(beyond, missing))


def test_effective_size():
    world = World(5, n=20_000)
    rare = np.zeros((world.n, world.K))
    rare[:, 0] = 1.0
    pi0 = np.tile([0.004, 0.2, 0.2, 0.296, 0.3], (world.n, 1))
    log = world.log(logging=pi0, action=sample_actions(pi0, world.rng))
    c = np.where(log.chosen == 0, 250.0, 0.0)
    ess = c.sum() ** 2 / (c**2).sum()
    report = check(log, rare)
    assert ess == pytest.approx(np.count_nonzero(log.chosen == 0))
    assert (report["effective-size"].severity, 60 < ess < 100) == ("warning", True)
    assert report["effective-size"].sentence == (
        f"Of 20,000 decisions, {ess:.1f} effective ones stand behind policy "
        f"({100 * ess / 20_000:.2g}%)."
    )
    assert "effective-size" not in check(log, pi0)
    few = check(log.rows(0, 4000), rare[:4000])["effective-size"]
    assert few.severity == "problem"


def test_effective_size_may_be_small_beside_the_log():
    n = 40_000
    pi0 = np.tile([0.005, 0.995], (n, 1))
    action = sample_actions(pi0, np.random.default_rng(0))
    log = op.BanditLog.from_arrays(action=action, reward=action, logging=pi0)
    assert check(log, [[1.0, 0.0]] * n)["effective-size"].severity == "note"


def test_no_overlap_is_a_problem_not_an_error():
    log = bandit_log([0] * 300, [1, 0] * 150, [0.5, 0.5])
    finding = check(log, [[0.0, 1.0]] * 300)["effective-size"]
    assert (finding.severity, finding.numbers["ess"]) == ("problem", 0.0)
    assert finding.sentence == (
        "policy gives probability 0 to every action that was chosen: no reward in the log says "
        "anything about it."
    )


def test_heavy_weights():
    rng = np.random.default_rng(6)
    n = 3000
    for sigma, severity in ((1.0, None), (2.0, "warning"), (4.0, "problem")):
        c = rng.lognormal(0.0, sigma, n)
        c /= c.max()
        log = bandit_log(np.arange(n) % 3, rng.random(n), propensity=np.full(n, 1e-3))
        report = check(log, 1e-3 * c)
        share = np.sort(c)[-30:].sum() / c.sum()
        if severity is None:
            assert "heavy-weights" not in report
            continue
        assert report["heavy-weights"].severity == severity
        assert report["heavy-weights"].numbers == {
            "share": pytest.approx(share), "rows": 30, "largest": pytest.approx(1.0),
        }  # fmt: skip
        assert report["heavy-weights"].sentence.startswith("The heaviest 30 of 3,000 rows hold ")


def test_equal_weights_on_few_rows_are_not_heavy():
    world = World(7, K=100)
    policy = np.zeros((world.n, 100))
    policy[:, 3] = 1.0
    uniform = np.full((world.n, 100), 0.01)
    log = world.log(logging=uniform, action=np.where(np.arange(world.n) % 20 == 0, 3, 5))
    assert "heavy-weights" not in check(log, policy)


def slow_weight_mean(case: Case, M: float) -> tuple[float, float, float]:
    """Mean of min(c, M), what it should be, and its standard error, for equal row weights."""
    found = expected = variance = 0.0
    for row in case.decisions:
        pairs = list(zip(row.pi, row.pi0, strict=True))
        clipped = [min(pi / pi0, M) if pi0 else 0.0 for pi, pi0 in pairs]
        mean = sum(pi0 * c for (_, pi0), c in zip(pairs, clipped, strict=True))
        found += clipped[row.chosen]
        expected += mean
        variance += sum(pi0 * (c - mean) ** 2 for (_, pi0), c in zip(pairs, clipped, strict=True))
    n = len(case.reward)
    return found / n, expected / n, math.sqrt(variance) / n


def slow_chance(case: Case, M: float) -> float:
    found, expected, stderr = slow_weight_mean(case, M)
    n = len(case.reward)
    return 2.0 * float(tail(n * abs(found - expected), (n * stderr) ** 2, M))


def test_weight_mean_finds_false_propensities_and_says_by_how_much():
    """`make_case` chooses among the supported candidates alike, whatever the logger says."""
    case = make_case(np.random.default_rng(8), 800, most=4)
    finding = check(case.log, case.pi)["weight-mean"]
    M = finding.numbers["M"]
    found, expected, stderr = slow_weight_mean(case, M)
    assert max(clip for clip in CLIPS if slow_chance(case, clip) * len(CLIPS) < FALSE_ALARM) == M
    assert finding.numbers["mean"] == pytest.approx(found)
    assert finding.numbers["expected"] == pytest.approx(expected)
    assert finding.numbers["stderr"] == pytest.approx(stderr)
    assert finding.numbers["chance"] * len(CLIPS) < FALSE_ALARM
    assert finding.sentence == (
        f"The weights of policy, clipped at {M:g}, average {found:.4g}; by the logged "
        f"probabilities it should be {expected:.4g} (give or take {stderr:.2g})."
    )
    drawn = make_case(np.random.default_rng(8), 800, most=4, drawn=True, unsupported=0.3)
    assert "weight-mean" not in check(drawn.log, drawn.pi)


@pytest.mark.parametrize("way", ["lists", "propensities", "file"])
def test_weight_mean_is_found_by_every_verb(tmp_path, way):
    """One rule: what `check` finds, `evaluate` and `compare` say with their answer."""
    rng, n = np.random.default_rng(0), 4_000
    action = (rng.random(n) < 0.5).astype(int)
    table = pa.table(
        {
            "action": action, "reward": rng.random(n),
            "propensity": np.where(action == 1, 0.3, 0.7),
            "logging": [[0.7, 0.3]] * n, "new": [[0.1, 0.9]] * n,
        }
    )  # fmt: skip
    if way == "propensities":
        table = table.drop(["logging"])
        chosen = pa.array(np.where(action == 1, 0.9, 0.1))
        table = table.set_column(table.column_names.index("new"), "new", chosen)
    log = op.BanditLog.from_frame(table)
    if way == "file":
        pq.write_table(table, tmp_path / "log.parquet")
        log = ParquetScan([tmp_path / "log.parquet"])
    by_check = check(log, "new")["new", "weight-mean"]
    assert by_check.severity == "problem"
    for answer in (op.evaluate(log, "new"), op.compare(log, {"new": "new"})):
        assert [one for one in answer.findings if one.code == "weight-mean"] == [by_check]


def test_weight_mean_grows_with_the_fault():
    world = World(9, n=40_000)
    severity = []
    for share in (0.0, 0.02, 0.5):
        swapped = world.rng.random(world.n) < share
        pi0 = np.where(swapped[:, None], world.pi0[:, ::-1], world.pi0)
        log = world.log(logging=pi0)
        report = check(log, world.pi)
        severity.append(report["weight-mean"].severity if "weight-mean" in report else None)
    assert severity == [None, "warning", "problem"]


def test_a_deficit_with_heavy_weights_is_no_alarm():
    """The mean of c is far below 1 as the rare large weights have not come up: that is honest."""
    rng = np.random.default_rng(10)
    n = 1000
    pi0 = np.tile([1.0 - 1e-5, 1e-5], (n, 1))
    log = bandit_log(sample_actions(pi0, rng), rng.random(n), pi0)
    report = check(log, [[0.2, 0.8]] * n)
    assert log.chosen.max() == 0
    assert "weight-mean" not in report
    assert "thin-support" in report


def test_weights_above_one_without_logging():
    world = World(11)
    honest = world.narrow()
    too_small = world.narrow(propensity=world.pi0[world.at] * 0.9)
    policy = world.pi[world.at]
    assert "weight-mean" not in check(honest, policy)
    finding = check(too_small, policy)["weight-mean"]
    c = policy / too_small.propensity
    stderr = c.std() / math.sqrt(world.n)
    assert finding.severity == "problem"
    assert finding.sentence == (
        f"The weights of policy average {c.mean():.4g} (give or take {stderr:.2g}), where 1 is "
        f"the most there can be."
    )
    assert "weight-mean" not in check(world.narrow(propensity=world.pi0[world.at] ** 0.5), policy)


# -- propensities ----------------------------------------------------------------------------


def slow_class(case: Case, what: str) -> tuple[float, float, float]:
    """How often a class was chosen, its expectation and standard deviation."""
    n = len(case.reward)
    omega = np.ones(n) if case.row_weight is None else case.row_weight / case.row_weight.mean()
    observed = expected = variance = squares = 0.0
    for weight, row in zip(omega, case.decisions, strict=True):
        if what.startswith("position "):
            inside = [k == int(what.split()[1]) for k in range(len(row.pi0))]
        else:
            low, high = map(float, re.findall(r"[\d.e-]+\d", what))
            inside = [low < p <= high for p in row.pi0]
        p = sum(pi0 for pi0, yes in zip(row.pi0, inside, strict=True) if yes)
        observed += weight * inside[row.chosen]
        expected += weight * p
        variance += weight**2 * p * (1.0 - p)
        squares += weight**2 * (inside[row.chosen] - p) ** 2
    return observed, expected, math.sqrt(variance if case.row_weight is None else squares)


@pytest.mark.parametrize("weighted", [False, True])
def test_frequencies_equal_the_slow_reference(weighted):
    case = make_case(np.random.default_rng(12), 1500, most=4, weighted=weighted)
    finding = check(case.log)["frequencies"]
    observed, expected, stderr = slow_class(case, finding.numbers["what"])
    assert finding.numbers["observed"] == pytest.approx(observed)
    assert finding.numbers["expected"] == pytest.approx(expected)
    assert finding.numbers["stderr"] == pytest.approx(stderr)
    assert finding.severity == "problem"
    assert finding.numbers["tests"] <= 4 + len(EDGES) + 1
    honest = make_case(np.random.default_rng(12), 1500, most=4, weighted=weighted, drawn=True)
    assert "frequencies" not in check(honest.log)


def test_frequencies_name_the_action():
    world = World(13)
    forced = np.where(world.rng.random(world.n) < 0.08, 2, world.action)
    names = list("abcde")
    log = world.log(action=[names[k] for k in forced], actions=names)
    finding = check(log)["frequencies"]
    count, expected = np.count_nonzero(forced == 2), world.pi0[:, 2].sum()
    spread = math.sqrt((world.pi0[:, 2] * (1.0 - world.pi0[:, 2])).sum())
    assert finding.severity == "problem"
    assert finding.sentence.startswith(
        f"Action c was chosen {count:,} times; the logged probabilities add up to "
        f"{expected:,.0f} (give or take {spread:.0f})."
    )


def test_frequencies_by_class_of_probability():
    """The logger was less sure than it says; no action as such is chosen too often."""
    world = World(14)
    finding = check(world.log(logging=softmax(1.3 * world.scores)))["frequencies"]
    assert finding.sentence.startswith("Candidates with a logged probability ")
    assert finding.sentence.endswith(" such comparisons fail.")


def test_a_small_fault_of_a_large_log_is_not_a_problem():
    world = World(15, n=300_000, K=2)
    pi0 = np.clip(world.pi0 * [0.97, 1.0], 0.0, 1.0)
    pi0[:, 1] = 1.0 - pi0[:, 0]
    assert check(world.log(logging=pi0))["frequencies"].severity == "warning"


def test_sums_within_the_tolerance_are_no_fault():
    """float32 probabilities may sum to 1.0009; that must not add up to an alarm."""
    n = 100_000
    pi0 = np.tile(np.array([0.9999, 0.001], dtype=np.float32), (n, 1))
    action = (np.arange(n) % 1001 == 0).astype(int)
    reward = np.random.default_rng(0).random(n)
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=pi0)
    policy = np.tile([0.99, 0.01], (n, 1))
    assert {"frequencies", "weight-mean"}.isdisjoint(codes(check(log, policy)))


def test_choices_that_stick_to_a_cluster_are_honest_if_clusters_are_given():
    rng = np.random.default_rng(16)
    n, users = 5000, 200
    user = np.sort(rng.integers(0, users, n))
    scores = rng.normal(size=(users, 5))
    pi0, chosen = softmax(scores), sample_actions(softmax(scores), rng)
    columns = {
        "action": chosen[user],
        "reward": (rng.random(n) < 0.6 * rng.random(users)[user]).astype(float),
        "logging": pi0[user],
        "context": rng.normal(size=(n, 1)),
    }
    policy = softmax(2.0 * scores)[user]
    without = check(op.BanditLog.from_arrays(**columns), policy)
    given = check(op.BanditLog.from_arrays(**columns, cluster=user), policy)
    assert "frequencies" in without
    assert codes(given) == []


def test_a_fault_is_found_in_spite_of_clusters():
    rng = np.random.default_rng(17)
    user = np.sort(rng.integers(0, 1000, 10_000))
    scores = rng.normal(size=(1000, 5))
    log = bandit_log(
        sample_actions(softmax(1.5 * scores), rng)[user],
        (rng.random(10_000) < 0.3).astype(float),
        softmax(scores)[user],
        cluster=user,
        time=np.arange(10_000),
    )
    report = check(log, softmax(2.0 * scores)[user])
    assert {"frequencies", "weight-mean"} <= set(codes(report))


@pytest.mark.parametrize("known", [False, True])
def test_frequencies_without_logging(known):
    world = World(18)
    extra = {"actions": world.K} if known else {}
    reversed_pi0 = world.pi0[:, ::-1][world.at]
    finding = check(world.narrow(propensity=reversed_pi0, **extra))["frequencies"]
    inverse = 1.0 / reversed_pi0
    if known:
        what, mean, most = "all actions together", inverse.mean(), 5.0
    else:
        what = finding.numbers["what"]
        mean, most = inverse[world.action == int(what.split()[1])].sum() / world.n, 1.0
    assert finding.numbers["mean"] == pytest.approx(mean)
    assert finding.severity == "problem"
    assert finding.sentence == (
        f"For {what}, 1/propensity averages {mean:.4g}, where {most:.4g} is the most there can be: "
        f"it was chosen more often than the propensities say."
    )
    assert "frequencies" not in check(world.narrow(**extra))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("often", [0, 1, 4])
def test_a_rare_choice_that_comes_up_is_no_fault(known, often):
    """Once in a thousand rows is expected; four times happens to one log in fifty."""
    rare = np.arange(1000) % 250 == 249
    rare &= np.cumsum(rare) <= often
    log = bandit_log(
        rare.astype(int),
        np.random.default_rng(0).random(1000),
        propensity=np.where(rare, 0.001, 0.999),
        actions=2 if known else None,
    )
    assert "frequencies" not in check(log)


def test_the_severity_is_that_of_all_actions_together():
    world = World(52, n=40_000)
    finding = check(world.narrow(propensity=world.pi0[world.at] * 0.95, actions=5))["frequencies"]
    assert finding.numbers["what"] == "all actions together"
    assert finding.severity == "warning"


def test_one_of_many_actions_may_stand_out_by_chance():
    """What would be an alarm, were it the only action, is none among a thousand."""
    actions = np.concatenate([np.full(200, 1000), np.arange(1000)])
    rows = Rows(np.ones(1200), None, True)
    chances = {}
    for q in np.linspace(0.16, 0.1, 200):
        x = np.where(actions == 1000, 1.0 / q, 0.0) - 1.0
        chances[q] = rows.chance_above(x, -1.0)
    q = next(q for q, chance in chances.items() if chance < 0.3 * FALSE_ALARM)
    assert chances[q] > FALSE_ALARM / 500.0
    columns = {"action": actions, "reward": np.random.default_rng(0).random(1200)}
    silent = op.BanditLog.from_arrays(propensity=np.where(actions == 1000, q, 0.5), **columns)
    assert "frequencies" not in check(silent)
    worse = op.BanditLog.from_arrays(propensity=np.where(actions == 1000, 0.1, 0.5), **columns)
    assert check(worse)["frequencies"].numbers["what"] == "action 1000"


def test_a_favourite_that_is_always_chosen_is_no_fault():
    columns = {"reward": np.random.default_rng(0).random(200), "propensity": [0.999] * 200}
    assert codes(check(op.BanditLog.from_arrays(action=["a"] * 200, **columns))) == []
    assert codes(check(op.BanditLog.from_arrays(action=[0] * 200, actions=2, **columns))) == []


def test_rounded_propensities():
    world = World(19)
    p = np.maximum(np.round(world.pi0[world.at], 2), 0.01)
    finding = check(world.narrow(propensity=p))["rounded-propensities"]
    low = np.count_nonzero(p < 0.05)
    assert finding.severity == "warning"
    assert finding.sentence == (
        f"All propensities have at most 2 decimals, and {low} of 4,000 are below 0.05, where "
        f"rounding may be off by more than 10% (the least, 0.01, by 50%)."
    )
    fine = np.round(world.pi0[world.at], 3)
    assert check(world.narrow(propensity=np.append(fine[1:], 0.001)))["rounded-propensities"]
    assert "rounded-propensities" not in check(world.narrow())
    assert "rounded-propensities" not in check(world.narrow(propensity=np.maximum(p, 0.05)))


def test_round_propensities_may_be_meant():
    """ε-greedy with ε = 0.1 among five: 0.92 and 0.02."""
    pi0 = np.tile([0.92, 0.02, 0.02, 0.02, 0.02], (3000, 1))
    log = World(20, n=3000).log(logging=pi0, action=sample_actions(pi0, np.random.default_rng(1)))
    assert codes(check(log)) == []


@pytest.mark.parametrize(
    ("p", "lengths", "severity", "text"),
    [
        (0.25, [4], None, ""),
        (0.5, [4], "warning", "4 candidates: drawn alike, each has 0.25."),
        (0.1, [4], "problem", "4 candidates: they cannot all be that unlikely."),
        (0.5, [2, 4], "warning", "2 to 4 candidates: drawn alike, each has 0.25 to 0.5."),
        (0.2, [2, 4], "problem", "2 to 4 candidates: they cannot all be that unlikely."),
        (0.9999, [4], None, ""),
    ],
)
def test_constant_propensity(p, lengths, severity, text):
    lengths = np.resize(lengths, 400)
    log = op.BanditLog.from_ragged(
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        chosen=np.arange(400) % 2,
        reward=np.arange(400.0),
        propensity=np.full(400, p),
    )
    report = check(log)
    if severity is None:
        assert "constant-propensity" not in report
    else:
        finding = report["constant-propensity"]
        assert finding.severity == severity
        assert finding.sentence == f"Every propensity is {p:g}, but decisions have {text}"


def test_propensities_that_differ_are_not_constant():
    world = World(21)
    assert "constant-propensity" not in check(world.narrow(actions=world.K))


@pytest.mark.parametrize(
    ("certain", "severity"), [(0, None), (3, "note"), (100, "warning"), (400, "problem")]
)
def test_deterministic_rows(certain, severity):
    pi0 = np.tile([0.5, 0.5], (400, 1))
    pi0[:certain] = [1.0, 0.0]
    action = np.where(np.arange(400) < certain, 0, np.arange(400) % 2)
    log = op.BanditLog.from_arrays(action=action, reward=np.arange(400.0), logging=pi0)
    report = check(log)
    if severity is None:
        assert "deterministic" not in report
    else:
        assert report["deterministic"].severity == severity
        assert report["deterministic"].sentence == (
            f"{certain} of 400 decisions ({100 * certain / 400:.2g}%) have propensity 1: the "
            f"logger had no choice."
        ).replace("1e+02", "100")


def test_a_single_candidate_leaves_no_choice_and_that_is_fine():
    log = op.BanditLog.from_ragged(
        offsets=np.arange(301),
        chosen=np.zeros(300),
        reward=np.random.default_rng(0).random(300),
        logging=np.ones(300),
    )
    assert codes(check(log, np.ones(300))) == []


def test_no_propensity():
    log = op.BanditLog.from_arrays(action=[0, 1] * 200, actions=2, reward=np.arange(400.0))
    report = check(log, [[0.5, 0.5]] * 400, prediction=[[1.0, 2.0]] * 400)
    assert report["no-propensity"].severity == "problem"
    assert report["no-propensity"].sentence == (
        "The log has no propensities: nothing says how likely each choice was."
    )
    assert "no-propensity" not in check(World(22).narrow())


# -- rewards and clusters --------------------------------------------------------------------


def with_rewards(reward: object, **extra: object) -> op.BanditLog:
    n = len(reward)
    return bandit_log(np.arange(n) % 2, reward, [0.5, 0.5], **extra)


def test_reward_range():
    log = with_rewards(np.linspace(0.0, 2.0, 400))
    finding = check(log, reward_range=(0, 1))["reward-range"]
    assert finding.severity == "problem"
    assert finding.sentence == (
        "Rewards go from 0 to 2, outside the declared range from 0 to 1; the first outside is "
        "1.00251, in row 200. Rows are counted from 0."
    )
    assert finding.numbers == {"reward": pytest.approx(1.00251, rel=1e-5), "low": 0.0, "high": 2.0}
    assert "reward-range" not in check(log, reward_range=(0.0, 2.0))
    assert "reward-range" not in check(log)


def test_constant_reward():
    finding = check(with_rewards([7.0] * 400))["constant-reward"]
    assert (finding.severity, finding.sentence) == ("warning", "All 400 rewards are 7.")
    assert "constant-reward" not in check(with_rewards([7.0] * 399 + [8.0]))
    assert "constant-reward" not in check(with_rewards([7.0]))
    assert "rare-rewards" in check(with_rewards([0.0] * 400))
    assert "rare-rewards" not in check(with_rewards([7.0] * 400))


def test_few_values_may_be_codes():
    reward = np.resize([-1.0, 0.0, 5.0], 400)
    finding = check(with_rewards(reward))["reward-values"]
    assert finding.severity == "note"
    assert finding.sentence == "The rewards take only 3 values: -1, 0, 5."
    for silent in (
        check(with_rewards(reward), reward_range=(-1, 5)),
        check(with_rewards(np.resize([0.0, 1.0], 400))),
        check(with_rewards(np.resize(np.arange(11.0), 400))),
        check(with_rewards([0.0] * 390 + [0.3, 1.7, 2.2, 0.4])),
    ):
        assert "reward-values" not in silent


def test_reward_outlier():
    reward = np.random.default_rng(23).normal(size=400)
    assert "reward-outlier" not in check(with_rewards(reward))
    reward[31] = 1e6
    finding = check(with_rewards(reward))["reward-outlier"]
    median = np.median(reward)
    usual = np.sort(np.abs(reward - median))[-41]
    assert finding.severity == "note"
    times = float(re.search(r"is ([\d,]+) times", finding.sentence)[1].replace(",", ""))
    assert times == pytest.approx(1e6 / usual, rel=0.02)
    assert finding.sentence.startswith("The reward of row 31, 1e+06, is ")
    amounts = np.where(
        np.arange(2000) % 20 == 0, np.random.default_rng(1).lognormal(0, 1.5, 2000), 0
    )
    assert "reward-outlier" not in check(with_rewards(amounts))


@pytest.mark.parametrize(
    ("clicks", "severity"), [(5, "problem"), (19, "problem"), (50, "warning"), (100, None)]
)
@pytest.mark.parametrize("coding", [(0.0, 1.0), (-1.0, 0.0), (1.0, 0.0), (0.0, "amounts")])
def test_rare_rewards(clicks, severity, coding):
    usual, rare = coding
    reward = np.full(3000, usual)
    place = np.random.default_rng(24).choice(3000, clicks, replace=False)
    reward[place] = np.arange(1.0, clicks + 1.0) if rare == "amounts" else rare
    report = check(with_rewards(reward))
    if severity is None:
        assert "rare-rewards" not in report
    else:
        finding = report["rare-rewards"]
        assert finding.severity == severity
        assert finding.numbers == {"ess": pytest.approx(clicks), "rows": clicks, "usual": usual}
        assert finding.sentence.startswith(
            f"{clicks} of 3,000 rewards differ from {usual:g}; for the log they count as "
            f"{clicks:.1f}. "
        )


def test_rare_rewards_count_as_the_policy_weighs_them():
    world = World(25, n=3000, K=2)
    log = world.log()
    report = check(log, {"far": softmax(world.scores * [[-8.0, 8.0]]), "same": world.pi0})
    c = softmax(world.scores * [[-8.0, 8.0]])[world.at] / world.pi0[world.at]
    w = c[world.reward == 1.0]
    if w.sum() ** 2 / (w**2).sum() < 100:
        expected = w.sum() ** 2 / (w**2).sum()
        assert report["far", "rare-rewards"].numbers["ess"] == pytest.approx(expected)
    assert ("same", "rare-rewards") not in report
    assert (None, "rare-rewards") not in report


def test_rewards_that_are_amounts_are_not_rare():
    assert "rare-rewards" not in check(with_rewards(np.random.default_rng(0).normal(size=150)))


@pytest.mark.parametrize(
    ("clusters", "severity", "text"),
    [
        (1, "problem", "There is 1 cluster. Alone it says nothing of the spread: errors are "
         "infinite."),
        (12, "warning", "There are 12 clusters. With fewer than 30, normal intervals are too "
         "short."),
        (30, None, ""),
        (200, None, ""),
    ],
)  # fmt: skip
def test_clusters(clusters, severity, text):
    reward = np.random.default_rng(26).normal(size=600)
    report = check(with_rewards(reward, cluster=np.arange(600) % clusters))
    if severity is None:
        assert "clusters" not in report
    else:
        finding = report["clusters"]
        assert (finding.severity, finding.sentence) == (severity, text)


def test_one_cluster_may_outweigh_many():
    reward = np.random.default_rng(27).normal(size=600)
    user = np.where(np.arange(600) < 400, 0, np.arange(600))
    finding = check(with_rewards(reward, cluster=user))["clusters"]
    effective = 600**2 / (400**2 + 200)
    assert finding.numbers == {"clusters": 201, "effective": pytest.approx(effective)}
    assert finding.sentence.startswith(f"There are 201 clusters, worth {effective:.1f} of equal")


# -- copies and drift ------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["beside", "at the end"])
def test_duplicates(where):
    world = World(28, n=1000)
    again = world.rng.choice(1000, 80, replace=False)
    rows = np.concatenate([np.arange(1000), again])
    if where == "beside":
        rows = np.sort(rows)
    log = world.log(action=world.action[rows], reward=world.reward[rows], logging=world.pi0[rows])
    finding = check(log)["duplicates"]
    p = world.pi0[world.at][again].sum()
    assert finding.severity == "warning"
    assert finding.sentence == (
        f"80 of 1,080 rows (7.4%) are exact copies of another. Of 80 pairs of rows in one "
        f"situation 80 are alike; drawn anew, at most {p:.0f} or so would be."
    )
    assert finding.numbers["expected"] == pytest.approx(p)
    assert "duplicates" not in check(world.log())


def test_a_double_write_is_seen_in_a_log_of_few_different_rows():
    world = World(29, n=2000, K=3)
    pi0 = np.tile([0.5, 0.3, 0.2], (2000, 1))
    action = sample_actions(pi0, world.rng)
    once = {"action": action, "reward": world.reward, "logging": pi0}
    twice = {name: np.repeat(values, 2, axis=0) for name, values in once.items()}
    assert "duplicates" not in check(op.BanditLog.from_arrays(**once))
    assert check(op.BanditLog.from_arrays(**twice))["duplicates"].severity == "warning"


def test_contexts_that_come_again_are_no_copies():
    """Drawn anew for each of 50 contexts and 40 times over, rows repeat, as they should."""
    rng = np.random.default_rng(30)
    x = np.sort(rng.integers(0, 50, 2000))
    pi0 = softmax(rng.normal(size=(50, 4)))[x]
    label = rng.integers(0, 4, 50)[x]
    action = sample_actions(pi0, rng)
    log = bandit_log(action, (action == label).astype(float), pi0, context=x)
    assert "duplicates" not in check(log)


@pytest.mark.parametrize(
    "column",
    [
        {"time": np.arange(2000)},
        {"time": np.datetime64("2026-01-01") + np.arange(2000)},
        {"context": np.array([f"user {i}" for i in range(2000)])},
        {"context": np.array([(i, "x") for i in range(2000)], dtype=object)},
        {"context": np.arange(2000) * 0.5},
    ],
    ids=["whole", "dates", "text", "objects", "numbers"],
)
def test_what_is_known_of_a_decision_tells_copies_from_equals(column):
    """Neighbours have equal actions and rewards, but were not one decision."""
    log = bandit_log(
        np.repeat(np.arange(1000) % 2, 2), np.repeat(np.arange(1000) % 3, 2), [0.5, 0.5], **column
    )
    assert "duplicates" not in check(log)


def test_equal_values_have_equal_bits():
    assert len(set(_bits(np.array([0.0, -0.0])).tolist())) == 1
    assert len(set(_bits(np.array([0.0, 5e-324, 1.0])).tolist())) == 3
    b, a, other = _bits(np.array(["b", "a", "b"])).tolist()
    assert b == other != a


def test_copies_within_a_cluster_are_only_noted():
    rng = np.random.default_rng(31)
    user = np.repeat(np.arange(1000), 5)
    log = bandit_log(
        rng.integers(0, 2, 1000)[user],
        rng.random(1000)[user],
        np.full((5000, 2), 0.5),
        cluster=user,
    )
    assert check(log)["duplicates"].severity == "note"


def test_drift_of_the_reward_in_one_tenth():
    world = World(32)
    tenth = np.arange(world.n) // 400
    reward = (world.rng.random(world.n) < np.where(tenth == 6, 0.45, 0.2)).astype(float)
    finding = check(world.log(reward=reward))["drift"]
    there, rest = reward[tenth == 6].mean(), reward[tenth != 6].mean()
    assert finding.severity == "warning"
    assert finding.sentence == (
        f"By the rows' order, the mean reward is {there:.4g} in tenth 7 of 10 and {rest:.4g} in "
        f"the rest."
    )
    assert finding.numbers == {
        "moved": 1,
        "mean reward": pytest.approx(there),
        "mean reward elsewhere": pytest.approx(rest),
    }


def slow_move(x, omega, cluster, order) -> tuple[float, float, float]:
    """Chance, mean there and mean elsewhere of the part that stands out most."""
    n, best = len(x), (2.0, 0.0, 0.0)
    mean = (omega * x).sum() / n
    y, bound = omega * (x - mean), np.abs(x - mean).max()
    spread = (y**2).mean()
    parts = [order[k * n // 10 : (k + 1) * n // 10] for k in range(10)] + [order[: 5 * n // 10]]
    for part in parts:
        variance = len(part) * (n - len(part)) / (n - 1) * spread
        largest = np.abs(y).max()
        if cluster is not None:
            users = set(cluster[part].tolist())
            totals = [y[part][cluster[part] == user].sum() for user in users]
            variance = max(variance, sum(total**2 for total in totals))
            largest = bound * max(omega[cluster == user].sum() for user in set(cluster.tolist()))
        chance = 22.0 * float(tail(abs(y[part].sum()), variance, largest))
        rest = np.setdiff1d(np.arange(n), part)
        there = (omega[part] * x[part]).sum() / omega[part].sum()
        elsewhere = (omega[rest] * x[rest]).sum() / omega[rest].sum()
        best = min(best, (chance, there, elsewhere))
    return best


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("timed", [False, True])
def test_moves_equal_the_slow_reference(weighted, clustered, timed):
    rng = np.random.default_rng(49)
    n = 503
    order = rng.permutation(n) if timed else np.arange(n)
    x = np.empty(n)
    x[order] = rng.normal(size=n) + np.linspace(0.0, 2.5, n)
    omega = rng.uniform(0.2, 2.0, n) if weighted else np.ones(n)
    omega /= omega.mean()
    cluster = None
    if clustered:
        cluster = np.empty(n, dtype=np.int64)
        cluster[order] = np.arange(n) // 4
    rows = Rows(omega, cluster, not weighted and not clustered)
    move = moved(rows, x, order if timed else None)
    chance, there, elsewhere = slow_move(x, omega, cluster, order)
    assert move.chance == pytest.approx(chance, rel=1e-6)
    assert (move.there, move.elsewhere) == (pytest.approx(there), pytest.approx(elsewhere))
    assert chance < 0.1


def test_a_small_drift_is_not_worth_a_word():
    """2 % of the mean, in a log where chance would bring about a tenth of that."""
    n = 400_000
    rng = np.random.default_rng(50)
    late = np.arange(n) >= n // 2
    reward = (rng.random(n) < np.where(late, 0.51, 0.49)).astype(float)
    log = op.BanditLog.from_arrays(action=["a"] * n, reward=reward, propensity=np.ones(n))
    assert abs(reward[late].mean() - reward[~late].mean()) > 10.0 / math.sqrt(n)
    assert "drift" not in check(log)


def test_an_action_that_is_missing_in_a_tenth():
    world = World(51, K=2)
    gone = (np.arange(world.n) // 400 == 3)[:, None]
    pi0 = np.where(gone, [1.0, 0.0], world.pi0)
    log = world.log(logging=pi0, action=sample_actions(pi0, world.rng))
    message = check(log)["drift"].sentence
    assert "the share of action 1 is 0 in tenth 4 of 10" in message


def test_drift_is_by_time_where_there_is_one():
    world = World(33)
    late = np.arange(world.n) >= world.n // 2
    reward = (world.rng.random(world.n) < np.where(late, 0.3, 0.15)).astype(float)
    order = world.rng.permutation(world.n)
    shuffled = world.log(action=world.action[order], reward=reward[order], logging=world.pi0[order])
    assert "drift" not in check(shuffled)
    timed = world.log(
        action=world.action[order], reward=reward[order], logging=world.pi0[order], time=order
    )
    first, second = reward[~late].mean(), reward[late].mean()
    assert check(timed)["drift"].sentence == (
        f"By time, the mean reward is {first:.4g} in the first half and {second:.4g} in the rest."
    )


def test_drift_of_logger_and_choices_is_noted():
    world = World(34)
    scores = world.scores + np.outer(np.arange(world.n) > 2000, [3.0, 0, 0, 0, 0])
    pi0 = softmax(scores)
    log = world.log(logging=pi0, action=sample_actions(pi0, world.rng))
    report = check(log, world.pi)
    assert report["drift"].severity == "note"
    assert "the mean propensity is " in report["drift"].sentence
    assert "the share of action 0 is " in report["drift"].sentence
    numbers = report["drift"].numbers
    half = log.chosen[:2000] == 0
    assert numbers["share of action 0"] == pytest.approx(half.mean())
    assert "weight-drift" not in report


def test_drift_of_the_weights():
    """In the third tenth the logger left out an action that the policy likes."""
    world = World(47)
    tenth = np.arange(world.n) // 400
    pi0 = np.where((tenth == 2)[:, None] & (np.arange(5) == 1), 0.0, world.pi0)
    pi0 /= pi0.sum(axis=1, keepdims=True)
    world.action = sample_actions(pi0, world.rng)
    policy = softmax(world.scores + np.array([0.0, 1.0, 0.0, 0.0, 0.0]))
    finding = check(world.log(logging=pi0), {"new": policy})["new", "weight-drift"]
    c = np.minimum(policy[world.at] / pi0[world.at], 10.0)
    there, rest = c[tenth == 2].mean(), c[tenth != 2].mean()
    assert finding.severity == "note"
    assert finding.sentence == (
        f"The mean weight of new (clipped at 10) is {there:.4g} in tenth 3 of 10 and {rest:.4g} in "
        f"the rest."
    )
    honest = World(47)
    assert "weight-drift" not in check(honest.log(), policy)


def test_sessions_are_no_drift():
    """Rewards differ between users, whose rows stand together."""
    rng = np.random.default_rng(35)
    user = np.repeat(np.arange(60), 50)
    reward = (rng.random(3000) < rng.beta(0.3, 0.9, 60)[user]).astype(float)
    assert "drift" in check(with_rewards(reward))
    assert "drift" not in check(with_rewards(reward, cluster=user))


def test_short_logs_and_times_that_cannot_be_ordered():
    reward = np.r_[np.zeros(95), np.ones(104)]
    assert "drift" not in check(with_rewards(reward))
    reward = np.r_[np.zeros(150), np.ones(150)]
    odd = np.array([(i, "x")[i % 2] for i in range(300)], dtype=object)
    assert check(with_rewards(reward, time=odd))["drift"].sentence.startswith("By the rows' order")


# -- the reward model ------------------------------------------------------------------------


def test_prediction_calibration():
    world = World(36)
    delta_hat = np.full((world.n, world.K), 0.25) + 0.01 * world.pi0
    finding = check(world.log(), prediction=delta_hat)["prediction-calibration"]
    off = world.reward - delta_hat[world.at]
    stderr = math.sqrt((off**2).sum()) / world.n
    assert finding.severity == "warning"
    assert finding.sentence == (
        f"For what was chosen, the model predicts {delta_hat[world.at].mean():.4g} on average; the "
        f"mean reward is {world.reward.mean():.4g} (the difference is known to ±{stderr:.2g})."
    )
    fair = delta_hat - 0.05
    assert codes(check(world.log(), prediction=fair)) == []
    exact = np.zeros((world.n, world.K))
    exact[world.at] = world.reward
    assert codes(check(world.log(), prediction=exact)) == []


def calibration_fails(world: World, reward: np.ndarray, off: float) -> bool:
    """Whether a model is found out that predicts ``off`` times the mean reward."""
    prediction = off * reward.mean() * (1.0 + 1e-6 * world.pi0)
    report = check(world.log(reward=reward), prediction=prediction)
    return "prediction-calibration" in report


def test_too_few_orders_to_judge_a_model():
    """Of 19 orders nothing is known; of clicks, which are all alike, ten are enough."""
    world = World(37)
    for count in (19, 60):
        orders = np.where(np.arange(world.n) < count, 1.0 + np.arange(world.n) % 7, 0.0)
        assert calibration_fails(world, orders, 8.0) == (count == 60)
    clicks = (np.arange(world.n) < 10).astype(float)
    assert calibration_fails(world, clicks, 8.0)
    assert not calibration_fails(world, clicks, 2.0)


@pytest.mark.parametrize("click", [1.0, -1.0])
def test_no_click_where_four_were_predicted_is_no_fault_of_the_model(click):
    world = World(53)
    log = world.log(reward=np.zeros(world.n))
    few = 4.0 / world.n * click * (1.0 + 1e-6 * world.pi0)
    assert "prediction-calibration" not in check(log, prediction=few)
    assert ("prediction-calibration" in check(log, prediction=20.0 * few)) == (click == 1.0)


def test_orders_that_have_not_come_up_are_no_fault_of_the_model():
    """A third of the value is in five rows, so that a model that says twice as much may well be
    right; one that says a tenth is not, as nothing makes up for what did come."""
    world = World(48)
    orders = 1.5 * (np.arange(world.n) % 10 == 0)
    orders[world.rng.choice(world.n, 5, replace=False)] = 40.0
    assert not calibration_fails(world, orders, 2.0)
    few = np.where(orders == 40.0, 1.5, np.where(np.arange(world.n) % 100 == 0, orders, 0.0))
    assert np.count_nonzero(few) in range(20, 50)
    assert calibration_fails(world, few + 1e-9 * (few > 0) * np.arange(world.n), 0.1)
    clicks = (orders > 0.0).astype(float)
    assert calibration_fails(world, clicks, 2.0)
    assert calibration_fails(world, clicks, 0.4)


@pytest.mark.parametrize(
    ("low", "high", "limits", "severity"),
    [
        (0.0, 1.0, None, None),
        (-0.05, 1.0, None, "note"),
        (-0.5, 1.0, None, "warning"),
        (-0.5, 1.0, (-1.0, 1.0), None),
        (0.0, 3.0, (-1.0, 1.0), "warning"),
    ],
)
def test_prediction_range(low, high, limits, severity):
    world = World(38)
    delta_hat = np.full((world.n, world.K), 0.2) + 1e-3 * world.pi0
    delta_hat[0, :2] = low, high
    report = check(world.log(), prediction=delta_hat, reward_range=limits)
    if severity is None:
        assert "prediction-range" not in report
        return
    least, most = limits or (0.0, 1.0)
    assert report["prediction-range"].severity == severity
    assert report["prediction-range"].sentence == (
        f"1 of 20,000 predictions (0.005%) are outside the range of rewards, {least:g} to {most:g}:"
        f" they go from {low:g} to {high:g}."
    )


def test_prediction_beyond_the_rewards_seen_is_a_note():
    world = World(39)
    reward = world.rng.random(world.n)
    delta_hat = np.full((world.n, world.K), 0.5) + 1e-3 * world.pi0
    delta_hat[3, 3] = 9.0
    finding = check(world.log(reward=reward), prediction=delta_hat)["prediction-range"]
    assert finding.severity == "note"
    assert "outside the rewards seen" in finding.sentence


def test_constant_prediction():
    world = World(40)
    flat = check(world.log(), prediction=np.full((world.n, world.K), 0.2))["constant-prediction"]
    assert flat.sentence == (
        "In every decision the predictions of all candidates are equal: 0.2 for all."
    )
    by_row = np.repeat(0.2 + 0.001 * world.scores[:, :1], world.K, axis=1)
    finding = check(world.log(), prediction=by_row)["constant-prediction"]
    assert finding.sentence == "In every decision the predictions of all candidates are equal."
    assert finding.severity == "note"
    by_row[5, 0] += 0.1
    assert "constant-prediction" not in check(world.log(), prediction=by_row)
    narrow = check(world.narrow(), prediction=np.full(world.n, 0.2))
    assert "constant-prediction" not in narrow


# -- laws ------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(cases(largest=12), st.sampled_from(["all", "narrow", "unknown"]), st.booleans())
def test_odd_logs_are_checked_without_a_fault(case, columns, clustered):
    log, policy, prediction = case.log, case.pi, case.delta_hat
    n = len(log)
    extra = {"row_weight": case.row_weight}
    if clustered:
        extra |= {"cluster": np.arange(n) // 2, "time": np.arange(n)[::-1]}
    if columns == "unknown":
        prediction, policy = prediction[log.chosen_index], policy[log.chosen_index]
        log = bandit_log(log.chosen, log.reward, propensity=log.propensity, **extra)
    else:
        narrow = {"logging": None, "propensity": log.propensity} if columns == "narrow" else {}
        log = case.log_with(**narrow, **extra)
    for report in (check(log), check(log, {"π": policy}, prediction=prediction)):
        order = [one.severity for one in report]
        assert order == sorted(order, key=["problem", "warning", "note"].index)
        assert all(one.severity in CODES[one.code].severities for one in report)
        assert "nan" not in str(report)
        body = json.loads(report.to_json())
        assert len(body["findings"]) == len(report)
        assert report.to_arrow().num_rows == len(report)


@pytest.mark.parametrize("weight", [1e-200, 1e-12])
def test_huge_weights(weight):
    pi0 = np.tile([1.0 - weight, weight], (500, 1))
    log = op.BanditLog.from_arrays(action=np.arange(500) % 2, reward=np.arange(500.0), logging=pi0)
    report = check(log, [[0.5, 0.5]] * 500)
    assert {"frequencies", "weight-mean", "thin-support"} <= set(codes(report))
    narrow = bandit_log(np.arange(500) % 2, np.arange(500.0), propensity=log.propensity)
    assert {"frequencies", "weight-mean"} <= set(codes(check(narrow, [0.5] * 500)))


def test_one_row():
    log = op.BanditLog.from_arrays(action=["a"], reward=[1.0], propensity=[0.5])
    assert codes(check(log, [0.5])) == ["effective-size"]
    assert codes(check(log)) == ["effective-size"]
    assert check(log)["effective-size"].sentence == "The log has 1 decision."
    assert check(log, [0.5])["effective-size"].sentence == (
        "Of 1 decision, 1.0 effective ones stand behind policy (100%)."
    )
    weighted = bandit_log(["a", "b"], [1.0, 2.0], propensity=[0.5, 0.5], row_weight=[3.0, 1.0])
    assert check(weighted)["effective-size"].sentence == (
        "The log has 2 decisions, worth 1.6 of equal weight."
    )


def test_only_proportions_of_row_weights_matter():
    case = make_case(np.random.default_rng(41), 400, weighted=True)
    heavier = replace(case, row_weight=case.row_weight * 1024.0)
    assert check(case.log, case.pi).to_json() == check(heavier.log, case.pi).to_json()


def test_equal_inputs_give_equal_bytes_and_blocks_do_not_matter(monkeypatch):
    case = make_case(np.random.default_rng(42), 1000, most=6, unsupported=0.2)
    whole = check(case.log, case.pi, prediction=case.delta_hat)
    assert whole.to_json() == check(case.log, case.pi, prediction=case.delta_hat).to_json()
    small_blocks(monkeypatch, 64)
    split = check(case.log, case.pi, prediction=case.delta_hat)
    assert codes(split) == codes(whole)
    assert len(whole) > 3
    for one, other in zip(whole, split, strict=True):
        for name, value in one.numbers.items():
            assert other.numbers[name] == (
                value if isinstance(value, str) else pytest.approx(value, rel=1e-9)
            )


def test_a_part_of_a_log_is_checked_like_any_other():
    world = World(43)
    part = world.log().rows(1000, 3000)
    alone = world.log(
        action=world.action[1000:3000], reward=world.reward[1000:3000], logging=world.pi0[1000:3000]
    )
    policy = world.pi0[1000:3000, ::-1]
    assert check(part, policy).to_json() == check(alone, policy).to_json()


def test_actions_are_matched_by_name_where_candidates_differ():
    """Positions are shuffled from decision to decision; only by name is one chosen too often."""
    world = World(44, K=4)
    order = np.argsort(world.rng.random((world.n, 4)), axis=1)
    forced = np.where(world.rng.random(world.n) < 0.15, 2, world.action)
    log = op.BanditLog.from_ragged(
        offsets=np.arange(world.n + 1) * 4,
        candidate=np.array(list("wxyz"))[order].reshape(-1),
        action=np.array(list("wxyz"))[forced],
        reward=world.reward,
        logging=np.take_along_axis(world.pi0, order, axis=1).reshape(-1),
    )
    assert check(log)["frequencies"].numbers["what"] == "action y"


# -- the report ------------------------------------------------------------------------------


def finding(code: str, severity: str, policy: str | None = None) -> Finding:
    return Finding(code, severity, policy, "What <was> found.", "What to do.", {"x": math.inf})


@pytest.fixture
def report() -> Report:
    return Report(
        (
            finding("support", "problem", "a & b"),
            finding("drift", "warning"),
            finding("support", "note", "old"),
        )
    )


def test_report_is_a_collection(report):
    assert len(report) == 3
    assert [one.code for one in report] == ["support", "drift", "support"]
    assert report.worst == "problem"
    assert Report(()).worst is None
    assert report["support"] is report.findings[0]
    assert report["old", "support"] is report.findings[2]
    assert "drift" in report
    assert ("old", "support") in report
    assert "clusters" not in report
    assert ("old", "drift") not in report
    assert len({*report.findings}) == 3


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("suport", "There is no finding 'suport'. Did you mean \"support\"? The findings: "
         "support, drift."),
        ("clusters", "There is no finding 'clusters'. The findings: support, drift."),
        (("new", "support"), "There is no finding ('new', 'support'). The findings: support, "
         "drift."),
    ],
)  # fmt: skip
def test_asking_for_what_is_not_there(report, key, text):
    with pytest.raises(errors.ParameterError) as caught:
        report[key]
    assert str(caught.value) == text


def test_asking_an_empty_report():
    with pytest.raises(errors.ParameterError, match=r"The findings: none at all\.$"):
        Report(())["drift"]


def test_report_as_text(report):
    assert str(report).splitlines() == [
        "Found 1 problem, 1 warning, 1 note.",
        "",
        "problem: support of a & b",
        "  What <was> found.",
        "  What to do.",
        "",
        "warning: drift",
        "  What <was> found.",
        "  What to do.",
        "",
        "note: support of old",
        "  What <was> found.",
        "  What to do.",
    ]
    assert str(Report(())) == "No findings: the log passed every check that its columns allow."
    two = Report((finding("drift", "note"), finding("clusters", "note")))
    assert two.sentence() == "Found 2 notes."


def test_report_as_html_escapes_everything(report):
    class Reader(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.cells: list[str] = []
            self.tags: set[str] = set()

        def handle_starttag(self, tag, attrs):
            self.tags.add(tag)

        def handle_data(self, data):
            self.cells.append(data)

    reader = Reader()
    reader.feed(report._repr_html_())
    assert reader.tags == {"p", "table", "tr", "th", "td"}
    assert reader.cells.count("What <was> found.") == 3
    assert "a & b" in reader.cells
    assert "<table" not in Report(())._repr_html_()


def test_report_as_json(report, tmp_path):
    text = report.to_json(tmp_path / "report.json")
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == text
    body = json.loads(text)
    assert (body["schema"], body["worst"]) == ("offpolicy.check/1", "problem")
    assert body["findings"][0] == {
        "code": "support",
        "severity": "problem",
        "place": "a & b",
        "sentence": "What <was> found.",
        "advice": "What to do.",
        "numbers": {"x": "inf"},
    }
    assert json.loads(Report(()).to_json()) == {
        "schema": "offpolicy.check/1", "worst": None, "findings": [],
    }  # fmt: skip


def test_report_as_frame(report):
    frame = report.to_arrow()
    assert frame.column_names == ["code", "severity", "place", "sentence", "advice", "numbers"]
    assert frame.column("place").to_pylist() == ["a & b", None, "old"]
    assert frame.column("numbers").to_pylist() == ['{"x": "inf"}'] * 3
    assert Report(()).to_arrow().schema == frame.schema


# -- what may be asked -----------------------------------------------------------------------


def test_policies_by_name():
    world = World(45, n=300)
    report = check(world.log(), {"new": world.pi0[:, ::-1], 7: np.eye(5)[np.zeros(300, int)]})
    assert {one.place for one in report} <= {None, "new", "7"}
    assert ("7", "effective-size") in report
    frame = pa.table({"action": ["a"] * 40, "reward": [1.0, 0.0] * 20, "propensity": [0.5] * 40,
                      "mine": [0.9] * 40})  # fmt: skip
    by_column = check(op.BanditLog.from_frame(frame), "mine")
    assert ("mine", "effective-size") in by_column


@pytest.mark.parametrize("policy", [{}, {1: [[0.5, 0.5]] * 2, "1": [[0.5, 0.5]] * 2}])
def test_policies_that_cannot_be_asked_about(policy):
    log = op.BanditLog.from_arrays(action=[0, 1], reward=[1, 0], logging=[[0.5, 0.5]] * 2)
    with refuses(errors.ParameterError, "policy"):
        check(log, policy)


@pytest.mark.parametrize(
    "limits", [(1, 0), (0, 0), (0,), 5, (0, math.inf), (math.nan, 1), "ab", (0, 1, 2), ("a", 1)]
)
def test_reward_range_must_be_two_numbers(limits):
    log = op.BanditLog.from_arrays(action=[0, 1], reward=[1, 0], logging=[[0.5, 0.5]] * 2)
    for asked in (partial(check, log), partial(op.evaluate, log, [[0.5, 0.5]] * 2)):
        with refuses(errors.ParameterError, "reward_range"):
            asked(reward_range=limits)


def test_malformed_input_is_refused_as_everywhere():
    log = op.BanditLog.from_arrays(action=[0, 1], reward=[1, 0], logging=[[0.5, 0.5]] * 2)
    with refuses(errors.ParameterError, "source"):
        check([1, 2])
    with refuses(errors.PolicyError, "policy", 1):
        check(log, [[0.5, 0.5], [0.5, 1.0]])
    with refuses(errors.PredictionError, "prediction", 0, part="candidate 1"):
        check(log, prediction=[[0.5, math.nan], [0.5, 1.0]])
    with refuses(errors.PredictionError, "prediction"):
        check(log, prediction=[1.0, 2.0, 3.0])


def test_every_code_is_in_the_docs(monkeypatch):
    """docs/findings.md is what its script would write; docs/checks.md has what check looks for."""
    root = Path(__file__).parents[2]
    monkeypatch.syspath_prepend(str(root / "scripts"))
    page = importlib.import_module("findings_page").page()
    assert page == (root / "docs" / "findings.md").read_text(encoding="utf-8"), "make reference"
    checks = (root / "docs" / "checks.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z-]+)` \|", checks, flags=re.MULTILINE)
    made = {path: path.read_text(encoding="utf-8") for path in root.glob("src/**/*.py")}
    used = {
        code: [
            path for path, text in made.items() if f'"{code}"' in text and "CODES = " not in text
        ]
        for code in CODES
    }
    assert all(used.values())
    assert sorted(listed) == [
        code for code in CODES if any(path.parent.name == "findings" for path in used[code])
    ]
    assert list(CODES) == sorted(CODES)
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", code) for code in CODES)
    assert all(text.endswith((".", ".)")) for kind in CODES.values() for text in kind[1:])


def test_checking_a_small_log_is_light():
    code = (
        "import sys, offpolicy; from offpolicy.evaluation import check\n"
        "log = offpolicy.BanditLog.from_arrays(action=[0, 1] * 200, reward=[1, 0] * 200, "
        "logging=[[0.5, 0.5]] * 400)\n"
        "check(log, [[0.9, 0.1]] * 400, prediction=[[0.7, 0.2]] * 400).to_json()\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert {"scipy", "sklearn", "numba", "pyarrow"}.isdisjoint(done.stdout.split())


# -- the command -----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a good log (good.parquet) and one of ten rows (ten.csv)."""
    world = World(46, n=1500)
    lists = {"logging": list(world.pi0), "new": list(world.pi), "old": list(world.pi0)}
    q = np.full((world.n, world.K), 0.2) + 0.01 * world.scores
    columns = {"action": world.action, "reward": world.reward, "q": list(q)} | lists
    pq.write_table(pa.table(columns), tmp_path / "good.parquet")
    rows = [f"{'ab'[i % 2]},{i % 3 % 2},0.5,0.{1 + i % 9}" for i in range(10)]
    (tmp_path / "ten.csv").write_text("\n".join(["action,reward,propensity,new", *rows]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    outcome = CliRunner().invoke(command, arguments)
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit)
    return outcome.exit_code, outcome.stdout


def test_command_on_a_good_log(folder):
    code, text = run("good.parquet", "--policy", "new", "--policy", "old", "--prediction", "q")
    assert (code, text) == (0, "No findings: the log passed every check that its columns allow.\n")


def test_command_on_a_log_with_problems(folder):
    code, text = run("ten.csv", "--policy", "new")
    assert code == 1
    assert text.startswith("Found 2 problems.\n\nproblem: effective-size of new\n  Of 10 decisions")
    assert run("ten.csv")[0] == 1


def test_command_formats(folder):
    code, text = run("ten.csv", "--policy", "new", "--format", "json")
    assert (code, json.loads(text)["worst"]) == (1, "problem")
    code, text = run("ten.csv", "--policy", "new", "--format", "tsv")
    head, *rows = text.splitlines()
    assert (code, head) == (1, "code\tseverity\tplace\tsentence\tadvice\tnumbers")
    assert [row.split("\t")[:3] for row in rows] == [
        ["effective-size", "problem", "new"], ["rare-rewards", "problem", "new"],
    ]  # fmt: skip


def test_command_takes_roles_and_a_range(folder):
    code, text = run("good.parquet", "--reward-range", "0", "0.5")
    assert code == 1
    assert "outside the declared range from 0 to 0.5" in text
    code, text = run("ten.csv", "--cluster", "action", "--policy", "new")
    assert "There are 2 clusters." in text


def test_command_refuses_one_policy_twice(folder):
    outcome = CliRunner().invoke(command, ["ten.csv", "--policy", "new", "--policy", "new"])
    assert outcome.exit_code == 2
    assert "Two policies are named" in outcome.stderr
