"""Estimated propensities: what they add to the noise, and that it is said."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.models import PropensityModel
from tests.support.cases import bandit_log
from tests.support.commands import fails


def drawn(n: int, seed: int = 0, **more) -> tuple[op.BanditLog, np.ndarray, float]:
    """A log without propensities, the policy, and its value on these contexts."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    score = np.stack([x[:, 0], -x[:, 1], np.zeros(n)], axis=1)
    pi0 = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    action = (rng.random(n)[:, None] > np.cumsum(pi0, axis=1)[:, :-1]).sum(axis=1)
    mean = np.stack([x[:, 0], np.zeros(n), x[:, 1]], axis=1)
    reward = mean[np.arange(n), action] + 0.5 * rng.standard_normal(n)
    policy = np.full((n, 3), [0.6, 0.2, 0.2])
    log = bandit_log(action, reward, actions=3, context=x, **more)
    return log, policy, float((policy * mean).sum(axis=1).mean())


def test_replicates_are_the_folds_models_asked_about_every_row():
    log, _, _ = drawn(400)
    model = PropensityModel(LogisticRegression(), calibration=None, folds=4).fit(log)
    fold = log.fold(4)
    for f, flat in enumerate(model.replicates(log)):
        rows = fold != f
        plain = LogisticRegression().fit(log.context[rows], log.chosen[rows])
        expected = plain.predict_proba(log.context)
        np.testing.assert_allclose(flat.reshape(-1, 3), expected, rtol=1e-9)


def test_the_noise_of_the_estimate_is_in_every_standard_error_and_interval():
    log, policy, _ = drawn(600)
    model = PropensityModel().fit(log)
    estimated = model.apply(log)
    bare = log.replace(logging=estimated.logging)
    assert estimated.estimated_by is model
    assert bare.estimated_by is None
    names = ["IPS", "SNIPS", "DM"]
    with_noise, without = (op.evaluate(one, policy, estimators=names) for one in (estimated, bare))
    values: dict[str, list[float]] = {"IPS": [], "SNIPS": []}
    for flat in model.replicates(log):
        w = (policy / flat.reshape(-1, 3))[np.arange(600), log.chosen]
        values["IPS"].append(float((w * log.reward).mean()))
        values["SNIPS"].append(float((w * log.reward).sum() / w.sum()))
    for name, each in values.items():
        added = math.sqrt(4 * np.var(each))
        assert with_noise[name].policy_stderr == pytest.approx(added, rel=1e-9)
        assert with_noise[name].value == without[name].value
        assert with_noise[name].interval.width > without[name].interval.width
    assert with_noise["DM"].policy_stderr == pytest.approx(0.0, abs=1e-12)
    assert with_noise.headline.interval.width > without.headline.interval.width
    assert with_noise.headline.value == without.headline.value
    codes = [[found.code for found in result.findings] for result in (with_noise, without)]
    assert "estimated-propensities" in codes[0]
    assert "estimated-propensities" not in codes[1]


def test_parts_and_copies_know_that_they_are_estimated():
    log, policy, _ = drawn(300)
    estimated = PropensityModel().fit(log).apply(log)
    for one in (estimated.rows(5, 60), estimated.take(np.arange(0, 300, 7))):
        assert one.estimated_by is estimated.estimated_by
    whole = op.evaluate(estimated, policy).to_json()
    for again in (pickle.loads(pickle.dumps(estimated)), copy.deepcopy(estimated)):
        assert op.evaluate(again, policy).to_json() == whole


def test_intervals_cover_what_the_policy_earns():
    """A small study: 95 % intervals of 60 logs of 300 decisions; fewer than 52 is a one in a
    thousand chance if they cover 95 %."""
    hits = 0
    for seed in range(60):
        log, policy, value = drawn(300, seed)
        hits += (
            value in op.evaluate(PropensityModel().fit(log).apply(log), policy).headline.interval
        )
    assert hits >= 52


def test_without_a_context_it_is_how_often_each_was_chosen():
    log, policy, _ = drawn(3_000)
    bare = log.replace(context=None)
    estimated = PropensityModel(calibration=None).fit(bare).apply(bare)
    share = np.bincount(log.chosen) / len(log)
    np.testing.assert_allclose(
        estimated.logging.reshape(-1, 3), np.tile(share, (3_000, 1)), atol=0.02
    )
    (found,) = [one for one in op.evaluate(estimated, policy).findings
                if one.code == "estimated-propensities"]  # fmt: skip
    assert "from how often each action was chosen" in found.sentence


def test_it_can_be_asked_for_on_the_command_line(tmp_path: Path, capsys):
    log, _, _ = drawn(500)
    names = np.array(["tea", "milk", "rye"])
    town = np.where(log.context[:, 0] > 0, "Ulm", "Köln")
    table = pa.table({
        "action": names[log.chosen], "reward": log.reward, "x": log.context[:, 1], "town": town,
    })  # fmt: skip
    path = str(tmp_path / "log.csv")
    csv.write_csv(table, path)
    asked = ["--context", "x", "--context", "town", "--policy", ":always(tea)"]
    outcome = CliRunner().invoke(cli, ["evaluate", path, *asked, "--estimate-propensity"])
    assert outcome.exit_code == 0, outcome.stderr
    assert "estimated-propensities" in outcome.stdout + outcome.stderr
    frame = op.read_log(path, op.Columns(context=["x", "town"], actions=["milk", "rye", "tea"]))
    estimated = PropensityModel().fit(frame).apply(frame)
    found = op.evaluate(estimated, ":always(tea)").headline.value
    assert f"{found:.5g}" in outcome.stdout
    known = str(tmp_path / "known.csv")
    csv.write_csv(table.append_column("propensity", pa.array(np.full(500, 0.5))), known)
    code, text = fails(["evaluate", known, *asked, "--estimate-propensity"], capsys)
    assert code == 2
    assert "The log has propensities: leave out --estimate-propensity" in text
    blank = CliRunner().invoke(
        cli, ["evaluate", known, *asked, "--estimate-propensity", "--propensity", ""]
    )
    assert blank.stdout.splitlines()[0] == outcome.stdout.splitlines()[0]
