"""What Figure 3 is made from: the sampler, the estimates, the truth; and the Open Bandit logs."""

from __future__ import annotations

import csv
import gzip
import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import offpolicy as op
from offpolicy.datasets._open_bandit import open_bandit_file
from offpolicy.datasets.catalogue import ITEMS
from offpolicy.errors import LogError
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.real import campaigns, open_bandit
from offpolicy.experiments.real.converged import (
    GRID,
    Setup,
    clicks,
    estimates,
    labelled,
    run_pair,
    value_of,
    whitened,
)
from offpolicy.experiments.real.thompson import Posterior
from offpolicy.logs.files import _text
from offpolicy.logs.formats import obd
from tests.support.refusals import refuses

DATA = os.environ.get("OFFPOLICY_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="OFFPOLICY_DATA is not set")


# -- sampler -----------------------------------------------------------------------------------


def normal_equations(X, reward, action, a, variance, noise):
    """The posterior of one action, from all steps at once."""
    mine = action == a
    precision = np.eye(X.shape[1]) / variance + X[mine].T @ X[mine] / noise
    covariance = np.linalg.inv(precision)
    return covariance @ (X[mine].T @ reward[mine]) / noise, covariance


@pytest.fixture
def learned():
    rng = np.random.default_rng(1)
    X, action = rng.standard_normal((60, 3)), rng.integers(0, 3, 60)  # action 3 is never chosen
    reward = rng.random(60)
    sampler = Posterior.prior(4, 3, variance=2.0, noise=0.3, scale=1.5)
    for rows in np.split(np.arange(60), [1, 20, 45]):
        sampler = sampler.updated(X[rows], action[rows], reward[rows])
    return sampler, X, action, reward


def test_the_posterior_is_that_of_the_normal_equations(learned):
    sampler, X, action, reward = learned
    for a in range(4):
        mean, covariance = normal_equations(X, reward, action, a, 2.0, 0.3)
        assert sampler.mean[a] == pytest.approx(mean)
        assert sampler.covariance[a] == pytest.approx(covariance)
        assert sampler.predict(X)[:, a] == pytest.approx(X @ mean)
        for x, deviation in zip(X, sampler.deviation(X)[:, a], strict=True):
            assert deviation == pytest.approx(1.5 * math.sqrt(x @ covariance @ x))
    assert sampler.mean[3].tolist() == [0.0, 0.0, 0.0]


def test_probabilities_are_those_of_drawing_theta(learned):
    sampler, X, action, reward = learned
    rng = np.random.default_rng(2)
    theta = np.stack(
        [
            rng.multivariate_normal(mean, 1.5**2 * covariance, 40_000)
            for mean, covariance in (
                normal_equations(X, reward, action, a, 2.0, 0.3) for a in range(4)
            )
        ]
    )
    for x, found in zip(X[:5], sampler.probabilities(X[:5], 40_000, rng), strict=True):
        expected = np.bincount((theta @ x).argmax(axis=0), minlength=4) / 40_000
        assert found == pytest.approx(expected, abs=0.02)
        assert found.sum() == pytest.approx(1.0)


def test_two_actions_have_exact_probabilities():
    sampler = Posterior.prior(2, 1, variance=1.0, noise=0.5, scale=0.8)
    sampler = sampler.updated(np.ones((3, 1)), np.array([0, 0, 1]), np.array([1.0, 1.0, 0.2]))
    (m0, m1), (s0, s1) = sampler.predict(np.ones((1, 1)))[0], sampler.deviation(np.ones((1, 1)))[0]
    exact = 0.5 * (1 + math.erf((m0 - m1) / math.hypot(s0, s1) / math.sqrt(2)))
    found = sampler.probabilities(np.ones((1, 1)), 200_000, np.random.default_rng(0))
    assert found[0, 0] == pytest.approx(exact, abs=5 * math.sqrt(exact * (1 - exact) / 200_000))


def test_what_is_hopeless_is_never_drawn_and_the_best_always_can_be():
    sampler = Posterior.prior(3, 1, variance=1.0, noise=1e-6, scale=1.0)
    action = np.repeat([0, 1, 2], 50)
    sampler = sampler.updated(np.ones((150, 1)), action, np.array([0.1, 0.9, 0.2])[action])
    found = sampler.probabilities(np.ones((4, 1)), 50, np.random.default_rng(0))
    assert found.tolist() == [[0.0, 1.0, 0.0]] * 4


# -- two samplers ------------------------------------------------------------------------------


def test_components_are_white_and_span_the_features():
    X = np.random.default_rng(0).standard_normal((50, 3)) * [1.0, 5.0, 0.2]
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.ones(50)])  # of rank 3
    found = whitened(X)
    assert found.T @ found / 50 == pytest.approx(np.eye(3), abs=1e-9)
    assert abs(np.corrcoef(found[:, 0], X[:, 1])[0, 1]) > 0.9


@pytest.mark.parametrize("problem", ["small", "synthetic"])
def test_the_log_is_of_what_ran(small, problem):
    setup = Setup(problem, 3, steps=130, batch=50, draws=100)
    pair = run_pair(setup)
    logging = pair.log.logging.reshape(pair.policy.shape)
    assert len(pair.log) == 130
    assert (pair.log.propensity > 0).all()
    for probabilities in (logging, pair.policy):  # of 100 draws
        assert probabilities * 100 == pytest.approx(np.round(probabilities * 100), abs=1e-9)
        assert probabilities.sum(axis=1) == pytest.approx(np.ones(130))
    # Before the first update the logger knows nothing; afterwards only the past.
    assert not pair.prediction[:50].any()
    assert pair.prediction[50:].any()
    again = run_pair(setup)
    assert (again.log.reward == pair.log.reward).all()
    assert again.truth == pair.truth
    other = run_pair(Setup(problem, 4, steps=130, batch=50, draws=100))
    assert other.truth != pair.truth


def test_the_prediction_is_the_logger_s_own_model_of_the_step(small):
    """Fitted anew from what the log holds of the steps before."""
    pair = run_pair(Setup("small", 3, steps=130, batch=50, draws=100))
    log, X = pair.log, pair.log.context
    assert X.shape[1] == 3  # of four components the first half, and 1
    for past, batch in ((50, slice(50, 100)), (100, slice(100, 130))):
        for a in range(3):
            given = X[:past], log.reward[:past], log.chosen[:past]
            mean, _ = normal_equations(*given, a, 1.0, 0.1)
            assert pair.prediction[batch, a] == pytest.approx(X[batch] @ mean)
    for a in range(3):
        mean, _ = normal_equations(X, log.reward, log.chosen, a, 1.0, 0.1)
        assert pair.final[:, a] == pytest.approx(X @ mean)


def test_the_truth_is_exact_where_it_can_be_computed(small):
    world = labelled("small")
    x = world.everyone
    rng = np.random.default_rng(0)
    # A sampler that knows all but everything takes its best action: its accuracy is its value.
    sure = world.target
    for a in range(3):
        sure = sure.updated(
            np.repeat(x.X, 2000, axis=0), np.full(240_000, a), np.repeat(x.reward[:, a], 2000)
        )
    value, variance = value_of(sure, world, rng)
    best = sure.predict(x.X).argmax(axis=1)
    assert value == pytest.approx((best == x.reward.argmax(axis=1)).mean(), abs=0.01)
    assert variance < 1e-5
    # One that knows nothing takes any.
    value, variance = value_of(world.target, world, rng)
    assert value == pytest.approx(1 / 3, abs=5 * math.sqrt(variance))
    world = clicks(np.random.default_rng(5), actions=2)
    value, variance = value_of(world.target, world, rng)
    everyone = world.draw(200_000, rng).reward.mean()
    assert value == pytest.approx(everyone, abs=5 * math.sqrt(variance) + 0.002)


# -- estimates ---------------------------------------------------------------------------------


def by_the_paper(name, M, pi, pi0, delta_hat, action, reward):
    """The family with the weights of Table 1, decision by decision."""
    total = 0.0
    for i in range(len(action)):
        for y in range(pi.shape[1]):
            c = math.inf if pi0[i, y] == 0 else pi[i, y] / pi0[i, y]
            if pi[i, y] == 0:
                continue
            alpha = {
                "SB": 1 - M, "SWITCH": float(c > M), "CAB": 1 - min(M / c, 1), "CIPS": 0.0,
                "CAB-DR": 1.0,
            }[name]  # fmt: skip
            total += pi[i, y] * alpha * delta_hat[i, y]
        c = pi[i, action[i]] / pi0[i, action[i]]
        if c == 0:
            continue
        clip = min(M / c, 1)
        beta = {"SB": M, "SWITCH": float(c <= M)}.get(name, clip)
        gamma = -clip if name == "CAB-DR" else 0.0
        total += c * (beta * reward[i] + gamma * delta_hat[i, action[i]])
    return total / len(action)


def test_estimates_are_those_of_the_paper_s_formulas(small):
    pair = run_pair(Setup("synthetic", 0, steps=150, batch=50, draws=50))
    log, pi = pair.log, pair.policy
    pi0 = log.logging.reshape(pi.shape)
    assert (pi0 == 0).any()
    found = estimates(log, pi, pair.prediction)["curves"]
    given = (pi, pi0, pair.prediction, log.chosen, log.reward)
    for name in ("CIPS", "SB", "SWITCH", "CAB", "CAB-DR"):
        for k in (0, 13, 27, 40):
            parameter = GRID.tau[k] if name == "SB" else GRID.M[k]
            assert found[name][k] == pytest.approx(by_the_paper(name, parameter, *given)), name
    assert found["DM"] == pytest.approx([by_the_paper("CAB", 0.0, *given)])
    assert found["IPS"] == pytest.approx([by_the_paper("CIPS", 1e9, *given)])
    assert found["DR"] == pytest.approx([by_the_paper("CAB-DR", 1e9, *given)])


def test_chosen_estimates_are_those_of_evaluate(small):
    pair = run_pair(Setup("synthetic", 1, steps=200, batch=50, draws=50))
    found = estimates(pair.log, pair.policy, pair.prediction)
    result = op.evaluate(pair.log, pair.policy, prediction=pair.prediction)
    assert found["chosen"]["headline"] == result.headline.value
    assert found["chosen"]["CAB"] == result["CAB"].value
    shifted = op.BanditLog.from_arrays(
        action=pair.log.chosen,
        reward=pair.log.reward - 1,
        logging=pair.log.logging.reshape(pair.policy.shape),
    )
    losses = estimates(shifted, pair.policy, pair.prediction - 1, raised=1.0)
    assert losses["curves"]["DR"] == pytest.approx(found["curves"]["DR"])
    assert losses["curves"]["IPS"] != pytest.approx(found["curves"]["IPS"])


# -- Open Bandit -------------------------------------------------------------------------------


def write_release(folder: Path, rows: int = 400) -> None:
    """A small data set in the layout of the full release."""
    rng = np.random.default_rng(0)
    for behaviour in ("random", "bts"):
        for campaign, K in ITEMS.items():
            share = np.full(K, 1 / K) if behaviour == "random" else rng.dirichlet(np.ones(K))
            item = rng.choice(K, rows, p=share)
            path = folder / behaviour / campaign / f"{campaign}.csv"
            path.parent.mkdir(parents=True)
            with path.open("w") as file:
                file.write(",timestamp,item_id,position,click,propensity_score,user_feature_0\n")
                file.writelines(
                    f"{i},2019-11-24 00:00:17.004101+00:00,{k},{rng.integers(1, 4)},"
                    f"{int(rng.random() < 0.2)},{float(share[k])!r},a\n"
                    for i, k in enumerate(item.tolist())
                )


def test_the_full_release_is_read_in_its_layout(tmp_path):
    write_release(tmp_path / "open_bandit_dataset")
    path = tmp_path / "open_bandit_dataset/bts/all/all.csv"
    assert open_bandit_file("bts", "all", folder=tmp_path) == path
    assert open_bandit_file("bts", "all", folder=path.parents[2]) == path
    found = open_bandit.run(tmp_path, Cells(tmp_path / "cells"))
    assert [direction["campaign"] for direction in found[::2]] == ["all", "men", "women"]
    to_thompson, to_uniform = found[:2]
    assert to_thompson["rows"] == 400
    with path.open() as file:
        rows = list(csv.DictReader(file))
    clicks = sum(int(row["click"]) for row in rows)
    assert to_thompson["target_clicks"] == to_uniform["clicks"] == clicks
    ips = sum(int(row["click"]) / 80 / float(row["propensity_score"]) for row in rows) / 400
    value = {row["method"]: row["value"] for row in to_uniform["estimates"]}
    assert value["IPS"] == pytest.approx(ips)


def test_large_files_are_streamed_to_the_same_numbers(tmp_path, monkeypatch):
    write_release(tmp_path)
    files = [str(open_bandit_file(name, "men", folder=tmp_path)) for name in ("random", "bts")]
    small = open_bandit.run_cell("men", *files)
    monkeypatch.setattr(_text, "LARGEST", 1)
    assert isinstance(op.read_log(files[0]), op.LogScan)
    for one, other in zip(small, open_bandit.run_cell("men", *files), strict=True):
        for a, b in zip(one.pop("estimates"), other.pop("estimates"), strict=True):
            assert (a["method"], a["propensities"]) == (b["method"], b["propensities"])
            assert a["value"] == pytest.approx(b["value"], rel=1e-9)
            assert a["low"] == pytest.approx(b["low"], rel=1e-9)
        assert one == other


def test_what_is_not_of_the_campaign_is_named(tmp_path):
    write_release(tmp_path, rows=40)
    path = open_bandit_file("random", "men", folder=tmp_path)
    log = op.read_log(path)
    item = np.asarray(log.named_column("action"))
    with refuses(LogError, file=path.name, column="item_id", row=int(np.argmax(item >= 5))):
        campaigns.Completed(5)(log)
    with refuses(LogError, column="propensity_score", row=0):
        campaigns.Completed(35, uniform=True)(log)
    path.write_text(path.read_text().replace(",1,0,", ",4,0,"))
    changed = op.read_log(path)
    row = int(np.argmax(np.asarray(changed.named_column("position")) == 4))
    with refuses(LogError, column="position", row=row):
        campaigns.survey(changed, 34)


def test_frequencies_and_rates_are_of_the_other_folds():
    rng = np.random.default_rng(0)
    shown = rng.integers(0, 9, (5, 3, 4)).astype(float)
    clicked = np.minimum(shown, rng.integers(0, 3, (5, 3, 4)))
    pi0 = campaigns.frequencies(campaigns.from_other_folds(shown))
    rates = campaigns.reward_model(campaigns.Survey(shown, clicked)).table
    assert pi0.sum(axis=2) == pytest.approx(np.ones((5, 3)))
    for f in range(5):
        rest, won = np.delete(shown, f, axis=0).sum(axis=0), np.delete(clicked, f, 0).sum(axis=0)
        overall = (rest.sum(axis=0) + 1) / (rest.sum() + 4)
        mean = won.sum() / rest.sum()
        for p in range(3):
            for k in range(4):
                expected = (rest[p, k] + 100 * overall[k]) / (rest[p].sum() + 100)
                assert pi0[f, p, k] == pytest.approx(expected)
                item = (won[:, k].sum() + 1000 * mean) / (rest[:, k].sum() + 1000)
                assert rates[f, p, k] == pytest.approx(
                    (won[p, k] + 1000 * item) / (rest[p, k] + 1000)
                )


@pytest.mark.parametrize(("count", "n"), [(0, 50), (3, 1000), (46, 10_000), (7, 7)])
def test_wilson_s_interval_solves_its_equation(count, n):
    facts = campaigns.Survey(np.array([n]), np.array([count])).facts()
    low, high = facts["low"], facts["high"]
    z = 1.959963984540054
    for p in (low, high):
        if 0.0 < p < 1.0:
            assert abs(count / n - p) == pytest.approx(z * math.sqrt(p * (1 - p) / n))
    assert 0.0 <= low <= count / n <= high <= 1.0


def test_the_verdict_compares_widths_with_differences():
    def found(values, half, low, high):
        rows = [
            {"method": f"m{k}", "value": v, "stderr": half / 2, "low": v - half, "high": v + half}
            for k, v in enumerate(values)
        ]
        return {
            "campaign": "c", "direction": "d", "target_rate": 0.10, "target_low": low,
            "target_high": high, "target_clicks": 9, "estimates": rows,
        }  # fmt: skip

    noisy = open_bandit.verdict(found([0.09, 0.10, 0.12], 0.05, 0.06, 0.15))
    assert noisy.endswith(
        "none is off by more than the noise: this log cannot rank the estimators."
    )
    assert "±45% (9 clicks) and the estimates to ±49% in the median" in noisy
    assert "settled for 0 of 3 pairs" in noisy
    sharp = open_bandit.verdict(found([0.10, 0.11, 0.15], 0.012, 0.0999, 0.1001))
    assert sharp.endswith(
        "settled for 3 of 3 pairs, and m2 is off by more than the noise; "
        "the others cannot be ranked."
    )
    assert open_bandit.settled_pairs([0.0, 0.2], 0.05, 0.15) == (0, 1)


@needs_data
def test_the_sample_gives_what_few_lines_give():
    campaign, K = "women", 46
    files = {name: open_bandit_file(name, campaign) for name in ("random", "bts")}
    rows = {}
    for name, path in files.items():
        with gzip.open(path, "rt") as file:
            rows[name] = [
                (int(row["item_id"]), int(row["position"]), float(row["click"]),
                 float(row["propensity_score"]))
                for row in csv.DictReader(file)
            ]  # fmt: skip
    to_thompson, to_uniform = open_bandit.run_cell(campaign, *map(str, files.values()))
    rate = {name: sum(row[2] for row in some) / len(some) for name, some in rows.items()}
    assert to_thompson["target_rate"] == pytest.approx(rate["bts"])
    assert to_uniform["target_rate"] == pytest.approx(rate["random"])
    value = {row["method"]: row for row in to_uniform["estimates"]}
    weights = [1 / K / p for _, _, _, p in rows["bts"]]
    ips = [w * click for w, (_, _, click, _) in zip(weights, rows["bts"], strict=True)]
    assert value["IPS"]["value"] == pytest.approx(sum(ips) / len(ips))
    assert value["SNIPS"]["value"] == pytest.approx(sum(ips) / sum(weights))
    assert {name for name, row in value.items() if row["propensities"] == "estimated"} == {
        "SWITCH", "CAB",
    }  # fmt: skip
    # The Thompson policy as a target: frequencies, shrunken towards those of all positions.
    cell, item = Counter((p, k) for k, p, _, _ in rows["bts"]), Counter(k for k, *_ in rows["bts"])
    total, n = Counter(p for _, p, _, _ in rows["bts"]), len(rows["bts"])
    ips = [
        click * K * (cell[p, k] + 100 * (item[k] + 1) / (n + K)) / (total[p] + 100)
        for k, p, click, _ in rows["random"]
    ]
    value = {row["method"]: row for row in to_thompson["estimates"]}
    assert value["IPS"]["value"] == pytest.approx(sum(ips) / len(ips))
    for found in (to_thompson, to_uniform):
        assert "this log cannot rank the estimators" in open_bandit.verdict(found)
    table = open_bandit.to_markdown([to_thompson, to_uniform])
    assert f"| IPS | logged | {value['IPS']['value']:.3%} |" not in table  # of the other log
    assert f"| IPS | known | {value['IPS']['value']:.3%} |" in table
    headline = to_uniform["estimates"][0]
    refused = ", refused" if headline["refused"] else ""
    assert f"| default (headline){refused} | logged | {headline['value']:.3%} |" in table
    assert "| CAB(M=" in table


@needs_data
def test_frequencies_say_more_of_the_thompson_policy_than_its_published_prior():
    """Why the target is estimated from the log: held-out log-likelihood of the items shown."""
    prior, campaign, key = {}, "", ""
    for line in (Path(DATA) / "logs" / "obd" / "prior_bts.yaml").read_text().splitlines():
        word = line.strip()
        if word.startswith("- "):
            prior[campaign, key].append(float(word[2:]))
        elif line.startswith(" "):
            key = word[:-1]
            prior[campaign, key] = []
        elif word:
            campaign = word[:-1]
    rng = np.random.default_rng(0)
    for campaign, K in ITEMS.items():
        log = obd.read(open_bandit_file("bts", campaign), items=K)
        shown = campaigns.survey(log, K).shown
        position, fold = campaigns.position_of(log), log.fold(5)
        pi0 = campaigns.frequencies(campaigns.from_other_folds(shown))
        frequency = pi0[fold, position, log.chosen]
        theta = rng.beta(prior[campaign, "alpha"], prior[campaign, "beta"], (20_000, K))
        top = np.argsort(-theta, axis=1)[:, :3].T
        table = np.stack([np.bincount(items, minlength=K) for items in top]) / 20_000
        by_prior = 0.99 * table[position, log.chosen] + 0.01 / K
        assert np.log(frequency).mean() > np.log(by_prior).mean() + 0.3
