"""What Table 2 and Figure 4 are made from: set-up, readings, what is learned and chosen."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest
from click.testing import CliRunner

from offpolicy.cli import cli
from offpolicy.experiments.learning import ours, search
from offpolicy.experiments.learning.readings import CLOSEST, READINGS, TEXT, Reading, Way
from offpolicy.experiments.learning.search import candidates, read_as
from offpolicy.experiments.learning.setup import ESTIMATORS, Condition, set_up
from tests.support.experiments import searched

# -- the set-up --------------------------------------------------------------------------------


def test_the_set_up_keeps_its_parts_apart(clouds):
    X, y = clouds
    made = set_up(Condition("clouds", 1, n=300))
    seen = {tuple(row) for row in made.train.context} | {tuple(row) for row in made.known[0]}
    validation = {tuple(row) for row in made.validation.context}
    test = {tuple(row) for row in made.X}
    assert not seen & validation
    assert not (seen | validation) & test
    assert len(made.train) == len(made.validation) == 300
    assert len(made.known[0]) == 38  # a tenth of 384
    assert len(made.y) == 160
    label = {tuple(row): k for row, k in zip(X, y, strict=True)}
    right = [label[tuple(row)] for row in made.train.context]
    assert (made.train.reward == (made.train.chosen == right)).all()
    assert made.prediction.sum(axis=1) == pytest.approx(np.ones(300))
    assert (X[made.rows] == made.train.context).all()
    assert made.error_of(made.logger) == pytest.approx(1.0 - made.train.reward.mean(), abs=0.1)


def test_a_run_is_the_same_again_and_another_is_not(clouds):
    one, other = (set_up(Condition("clouds", run, n=100)) for run in (1, 2))
    set_up.cache_clear()
    same = set_up(Condition("clouds", 1, n=100))
    assert (one.train.context == same.train.context).all()
    assert (one.train.chosen == same.train.chosen).all()
    assert (one.train.context != other.train.context).any()


def test_same_parts_are_the_logger_s(clouds):
    """The log does not change with what trains the reward model."""
    apart, same = (set_up(Condition("clouds", 1, n=100), parts) for parts in ("disjoint", "same"))
    assert (apart.train.chosen == same.train.chosen).all()
    assert not {*map(tuple, apart.known[0])} & {*map(tuple, same.known[0])}


def test_repeats_become_weights(clouds):
    made = set_up(Condition("clouds", 0, n=3000))
    log, first = made.without_repeats()
    assert len(log) < 3000
    assert log.row_weight.sum() == 3000
    assert (made.train.context[first] == log.context).all()
    pi = np.random.default_rng(0).dirichlet(np.ones(4), 3000)
    # of one context and action, the same probability
    pair = {key: k for k, key in enumerate(zip(made.rows[first], log.chosen, strict=True))}
    place = [pair[key] for key in zip(made.rows, made.train.chosen, strict=True)]
    weighted = (log.row_weight * pi[first, log.chosen] * log.reward).sum()
    plain = (pi[first][place, made.train.chosen] * made.train.reward).sum()
    assert weighted == pytest.approx(plain)


# -- readings ----------------------------------------------------------------------------------


def test_readings_differ_from_the_text_in_what_they_say():
    assert len(READINGS) >= 8
    assert len({reading.name for reading in READINGS}) == len(READINGS)
    assert READINGS[0] == CLOSEST[0]
    assert READINGS[0].way == TEXT
    for reading in READINGS[1:]:
        axes = [one.name for one in fields(Way)
                if getattr(reading.way, one.name) != getattr(TEXT, one.name)]  # fmt: skip
        assert 1 <= len(axes) + (reading.rule != READINGS[0].rule) <= 2
    values = {one.name: {getattr(r.way, one.name) for r in READINGS} for one in fields(Way)}
    assert {name: len(some) for name, some in values.items()} == {
        "features": 2, "model": 2, "parts": 2, "start": 3, "loss": 2,
    }  # fmt: skip


def test_the_validation_log_chooses():
    rng = np.random.default_rng(0)
    n = len(candidates())
    found = searched(rng.random(n), rng.random(n), way=TEXT)
    for rule in ("cIPS", "IPS"):
        for name, at in found.chosen(rule).items():
            mine = [k for k, one in enumerate(candidates()) if one.estimator == name]
            if rule == "cIPS":
                assert found.cips[at] == max(found.cips[k] for k in mine)
            else:  # the best λ for its M, and no other M's best λ scores better
                same = [k for k in mine if candidates()[k].member == candidates()[at].member]
                assert found.ips[at] == max(found.ips[k] for k in same)
    assert found.errors("IPS")["DM"] == found.error[found.chosen("IPS")["DM"]]
    assert [r.recipe for r in read_as([found], Reading("x", "", TEXT))] == ["x"]
    assert read_as([found], READINGS[2]) == []


def test_every_way_learns(clouds, few_candidates):
    condition = Condition("clouds", 0, n=300)
    for way in dict.fromkeys(reading.way for reading in READINGS):
        found = search.search(condition, way)
        assert len(found.error) == len(found.steps) == len(candidates())
        errors = found.errors("cIPS")
        # Where losses are 0 and 1, what uses no model learns to do what was not logged.
        able = ESTIMATORS if way.loss == "-1, 0" else ("DM", "DR", "CAB-DR")
        assert max(errors[name] for name in able) < found.logger + 0.15, way
        assert way.loss == "-1, 0" or errors["IPS"] > errors["DR"]


def test_scores_are_those_of_the_formulas(clouds, few_candidates):
    setup = set_up(Condition("clouds", 0, n=300), "same")

    class Uniform:
        def predict_proba(self, X):
            return np.full((len(X), 4), 0.25)

    log = setup.validation
    for baseline in (0.0, 1.0):
        c = 0.25 / log.propensity
        ips, cips, weight, error = search._scores(setup, Uniform(), baseline)
        assert ips == pytest.approx((c * (log.reward - baseline)).mean())
        clipped = np.minimum(c, np.quantile(c, 0.9))
        assert cips == pytest.approx((clipped * (log.reward - baseline)).mean())
        assert weight == pytest.approx(c.mean())
        assert error == pytest.approx(0.75)


def test_our_recipe_learns(clouds):
    made = set_up(Condition("clouds", 0, n=300))
    mine = ours.ours(made)
    assert max(mine.values()) < made.error_of(made.logger)  # better than what ran


def test_our_recipe_goes_on_where_it_was(clouds, few_candidates, tmp_path):
    command = ["reproduce", "ours", "--datasets", "clouds", "--runs", "2", "--out", str(tmp_path)]
    first = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert first.exit_code == 0
    assert "| learner | clouds |" in first.stdout
    folder = tmp_path / "ours"
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(whole) == {"results.json", "table.md"}
    runs = json.loads(whole["results.json"])["runs"]
    assert [one["condition"]["run"] for one in runs] == [0, 1]
    mean = np.mean([one["errors"]["kernel, refitted"] for one in runs])
    assert f"| kernel, refitted | {mean:.4f} ± " in first.stdout
    lost, kept = sorted((tmp_path / "cells" / "learned").glob("*.json"))
    lost.unlink()
    stamp = kept.stat().st_mtime_ns
    again = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert again.stdout == first.stdout
    assert kept.stat().st_mtime_ns == stamp
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
    only = CliRunner().invoke(cli, [*command, "--kept"], catch_exceptions=False)
    assert only.stdout == first.stdout
