"""Lower limits that hold at every n: each against its formula, and how often it misses."""

from __future__ import annotations

import json
import math
from statistics import NormalDist

import numpy as np
import pytest
import scipy.stats
from click.testing import CliRunner

from offpolicy.cli import cli
from offpolicy.datasets import catalogue
from offpolicy.errors import ParameterError
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.intervals import bounds
from offpolicy.experiments.intervals.bounds import BOUNDS, DELTA, SETS, YARDSTICKS, Drawn, draw
from offpolicy.intervals._capital import lower_limit
from tests.support.limits import limit
from tests.support.refusals import refuses

LOG_TERM = math.log(1 / DELTA)


def small(seed: int) -> Drawn:
    """A log of decisions between two actions."""
    rng = np.random.default_rng(seed)
    n = 50 + 37 * seed
    p, q = rng.random(n), rng.uniform(0.05, 0.95, n)
    first = rng.random(n) < q
    reward = rng.random(n) < np.where(first, 0.7, 0.3)
    return Drawn(np.where(first, p, 1.0 - p), np.where(first, q, 1.0 - q), reward.astype(float))


def by_constant_stake(log):
    """The largest m below which a stake that stays at λ/(1 + λm) makes 1/δ of 1, by bisection."""
    rate, (low, high) = len(log.reward) ** -0.5, (-0.999 * math.sqrt(len(log.reward)), 100.0)
    for _ in range(100):
        m = (low + high) / 2
        capital = 1.0
        for x in log.pi / log.pi0 * log.reward:
            capital *= 1.0 + rate / (1.0 + rate * m) * (x - m)
        low, high = (m, high) if capital >= 1.0 / DELTA else (low, m)
    return low


def by_moments(log):
    n, total = len(log.reward), 0.0
    for pi, pi0, r in zip(*log, strict=True):
        x = min(pi / pi0, math.sqrt(n)) * r
        total += x - x**2 / (2 * math.sqrt(n))
    inner = total / n - math.sqrt(n) * LOG_TERM / n
    return math.sqrt(n) * (math.exp(inner / math.sqrt(n)) - 1.0)


def by_exploration(log):
    n = len(log.reward)
    rows = [pi / (pi0 + 0.5 / math.sqrt(n)) * r for pi, pi0, r in zip(*log, strict=True)]
    return sum(rows) / n - LOG_TERM / math.sqrt(n)


def by_maurer_and_pontil(log):
    n = len(log.reward)
    x = [min(pi / pi0, math.sqrt(n)) * r for pi, pi0, r in zip(*log, strict=True)]
    pairs = sum((a - b) ** 2 for a in x for b in x) / (2 * n * (n - 1))
    term = math.log(2 / DELTA)
    return sum(x) / n - math.sqrt(2 * pairs * term / n) - 7 * math.sqrt(n) * term / (3 * (n - 1))


def by_errors(log):
    x = log.pi / log.pi0 * log.reward
    return x.mean() + NormalDist().inv_cdf(DELTA) * scipy.stats.sem(x)


def one_sided(log):
    c = log.pi / log.pi0
    return lower_limit(c * log.reward, DELTA, c)


REFERENCES = {
    "betting": one_sided,
    "logarithmic smoothing": by_constant_stake,
    "implicit exploration": by_exploration,
    "cIPS, second moment": by_moments,
    "cIPS, empirical Bernstein": by_maurer_and_pontil,
    "normal": by_errors,
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", REFERENCES)
def test_bounds_are_their_formulas(name, seed):
    log = small(seed)
    expected = pytest.approx(REFERENCES[name](log), rel=1e-9, abs=1e-9)
    assert (BOUNDS | YARDSTICKS)[name](log) == expected


@pytest.mark.parametrize("seed", range(6))
def test_smoothing_is_never_below_what_it_was_made_to_beat(seed):
    log = small(seed)
    smoothed = bounds.logarithmic_smoothing(log)
    assert smoothed >= bounds.implicit_exploration(log)
    assert smoothed >= bounds.second_moment(log)
    assert bounds.smoothed_in_hindsight(log) >= smoothed


@pytest.mark.parametrize("setting", [("ecoli", 0.1, 0.3, 0.2), ("vehicle", 0.0, 0.5, 0.3)])
def test_bounds_seldom_miss(setting, monkeypatch):
    limit(monkeypatch, "offpolicy.intervals._capital.COMPILED", 0)
    rng, repeats = np.random.default_rng(0), 400
    most = scipy.stats.binom.isf(0.01, repeats, DELTA)
    misses = dict.fromkeys(BOUNDS, 0)
    for _ in range(repeats):
        log, value = draw(*setting, rng)
        for name, bound in BOUNDS.items():
            misses[name] += bound(log) > value
    assert max(misses.values()) <= most


@pytest.mark.parametrize("data", SETS)
def test_logs_are_fair_to_the_value(data):
    rng = np.random.default_rng(1)
    for noise, target, logger in [(0.0, 0.1, 0.3), (0.2, 0.5, 0.25)]:
        logs, values = zip(
            *(draw(data, noise, target, logger, rng) for _ in range(20)), strict=True
        )
        for of, mean in [(lambda log: log.c, 1.0), (lambda log: log.c * log.reward, values[0])]:
            rows = np.concatenate([of(log) for log in logs])
            assert abs(rows.mean() - mean) < 4.5 * scipy.stats.sem(rows)


def test_the_policies_are_a_softmax():
    """As the benchmark tells it, from a label, for every class."""
    K, target, logger, noise = 5, 0.2, 0.3, 0.1
    value = 0.0
    for label in range(K):
        preferred = (label + 1) % K if label in (0, 1) else label
        chances = np.exp(np.eye(K)[[label, preferred]] / np.array([[target], [logger]]))
        pi, pi0 = chances / chances.sum(axis=1, keepdims=True)
        assert pi[label] == pytest.approx(bounds.preference(target, K))
        assert pi0[preferred] == pytest.approx(bounds.preference(logger, K))
        reward = np.where(np.arange(K) == label, 1 - noise, noise)
        value += (pi * reward).sum() / K
    rng = np.random.default_rng(2)
    assert draw("page-blocks", noise, target, logger, rng)[1] == pytest.approx(value)


def test_the_logger_is_wrong_on_the_first_two_labels():
    rows, _, mistaken = SETS["yeast"]
    log, _ = draw("yeast", 0.0, 0.1, 0.02, np.random.default_rng(3))  # a logger that is sure
    assert len(log.reward) == int(0.98 * rows)
    assert 1.0 - log.reward.mean() == pytest.approx(mistaken / rows, abs=0.01)


@pytest.mark.parametrize("data", [name for name in SETS if name in catalogue.LABELLED])
def test_sets_are_those_of_the_catalogue(data):
    known = catalogue.LABELLED[data]
    first, second, *_ = sorted(zip(known.labels, known.counts, strict=True))
    assert SETS[data] == (known.rows, len(known.counts), first[1] + second[1])


def test_the_benchmark_is_kept_and_shown(tmp_path, monkeypatch):
    limit(monkeypatch, "offpolicy.intervals._capital.COMPILED", 0)
    report = bounds.run(Cells(tmp_path / "cells"), ["page-blocks"], 1)
    report.save(tmp_path)
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert len(rows) == 45 * len(BOUNDS | YARDSTICKS)
    means = {
        name: np.mean([row["distance"] for row in rows if row["bound"] == name]) for name in BOUNDS
    }
    assert min(means, key=means.get) == "betting"
    assert f"| page-blocks | **{means['betting']:.3f}** | " in report.text
    again = bounds.run(Cells(tmp_path / "cells"), ["page-blocks"], 1)
    assert again.text == report.text


def test_a_miss_counts_as_no_distance(monkeypatch):
    monkeypatch.setattr(bounds, "BOUNDS", {"high": lambda log: 2.0, "low": lambda log: -1.0})
    monkeypatch.setattr(bounds, "YARDSTICKS", {})
    rows = bounds.run_one("ecoli", 0.0, 3)
    by_bound = {name: [row for row in rows if row.bound == name] for name in ("high", "low")}
    assert {(row.missed, row.distance) for row in by_bound["high"]} == {(3, 0.0)}
    assert {(row.missed, row.distance) for row in by_bound["low"]} == {(0, 1.0)}


def test_other_sets_are_refused(tmp_path):
    with refuses(ParameterError, "sets"):
        bounds.run(Cells(tmp_path), ["ecolli"], 1)


def test_quick_is_five_logs(tmp_path, monkeypatch):
    asked = {}

    def run(cells, **settings):
        asked.update(settings)
        return bounds.Report("", {})

    monkeypatch.setattr(bounds, "run", run)
    arguments = ["reproduce", "bounds", "--quick", "--out", str(tmp_path)]
    CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert asked == {"sets": list(SETS), "repeats": 5}
