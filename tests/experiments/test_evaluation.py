"""The paper's evaluation experiment: exact, repeated, judged, drawn, stopped and gone on with."""

from __future__ import annotations

import csv
import gzip
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.datasets._classic import Examples
from offpolicy.errors import ParameterError
from offpolicy.estimators import theory
from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.evaluation import accuracy, tuning
from offpolicy.experiments.evaluation.accuracy import (
    ESTIMATORS,
    GRID,
    Outcome,
    draw_pairs,
    estimates,
    exact,
    repeated,
)
from offpolicy.experiments.evaluation.experiment import CLAIMS, STARTS, Evaluated, Settings
from offpolicy.experiments.worlds import (
    ALL_READINGS,
    PAPER,
    World,
    certain,
    labelled_world,
    train,
)
from tests.support import reference
from tests.support.refusals import refuses

SIZES = Settings().sizes


def random_world(seed: int, m: int = 6, K: int = 3, unsupported: float = 0.2) -> World:
    rng = np.random.default_rng(seed)
    logging = rng.dirichlet(np.full(K, 0.5), m)
    gone = rng.random((m, K)) < unsupported
    gone[np.arange(m), logging.argmax(axis=1)] = False
    logging = np.where(gone, 0.0, logging)
    logging /= logging.sum(axis=1, keepdims=True)
    policy, one_hot = rng.dirichlet(np.full(K, 0.5), m), np.eye(K)
    prediction, label = rng.integers(0, K, m), rng.integers(0, K, m)
    return World(logging, policy, one_hot[label], one_hot[prediction], certain)


def as_theory(world: World) -> theory.Problem:
    m = len(world.logging)
    return theory.Problem(
        p=np.full(m, 1.0 / m),
        pi=world.policy,
        pi0=world.logging,
        delta=world.reward,
        delta_hat=world.prediction,
    )


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_exact_moments_are_those_of_the_formulas(seed):
    world = random_world(seed, m=4)
    known = as_theory(world)
    slow = reference.Problem(
        p=known.p.tolist(),
        pi=known.pi.tolist(),
        pi0=known.pi0.tolist(),
        pi0_hat=known.pi0.tolist(),
        delta=known.delta.tolist(),
        delta_hat=known.delta_hat.tolist(),
        sigma2=known.sigma2.tolist(),
    )
    found = exact(world)
    for name in ESTIMATORS:
        places = range(0, len(GRID.of(name)), 34)
        for j in places:
            parameter = None if math.isnan(GRID.of(name)[j]) else float(GRID.of(name)[j])
            mean, variance = reference.enumerate_moments(name, parameter, slow)
            scale = max(1.0, variance)
            assert found.bias[name][j] == pytest.approx(
                mean - reference.true_value(slow), abs=1e-9 * scale
            )
            assert found.variance[name][j] == pytest.approx(variance, rel=1e-7, abs=1e-12)


def test_exact_moments_are_those_of_the_theorems():
    world = random_world(3, m=50, K=5, unsupported=0.0)
    found, known = exact(world), as_theory(world)
    for name in ESTIMATORS:
        for j, member in enumerate(GRID.members(name)):
            assert found.bias[name][j] == pytest.approx(theory.bias(member, known), abs=1e-9)
            assert found.variance[name][j] == pytest.approx(
                theory.variance(member, known), rel=1e-8, abs=1e-12
            )


def test_repeats_are_evaluations_of_logs():
    """Each repeat, taken apart again into a log, gives what `evaluate` and the formulas give."""
    world = random_world(1, unsupported=0.0)
    K = world.logging.shape[1]
    pairs = draw_pairs(world, 20, 2, np.random.default_rng(0))
    found = repeated(world, 20, 2, np.random.default_rng(0))
    for name in ESTIMATORS:
        values = estimates(world, name, pairs)
        slow = np.zeros_like(values)
        for k, own in enumerate(pairs):
            rows, action = own // K, own % K
            decisions = [
                reference.Decision(
                    world.policy[x].tolist(),
                    world.logging[x].tolist(),
                    world.prediction[x].tolist(),
                    int(y),
                    float(world.reward[x, y]),
                )
                for x, y in zip(rows, action, strict=True)
            ]
            log = op.BanditLog.from_arrays(
                action=action,
                reward=world.reward[rows, action],
                logging=world.logging[rows],
            )
            for j, member in enumerate(GRID.members(name)):
                slow[j, k] = reference.estimate(name, member.parameter, decisions)[0]
            result = op.evaluate(
                log,
                world.policy[rows],
                prediction=world.prediction[rows],
                estimators=[str(member) for member in GRID.members(name)],
            )
            assert values[:, k] == pytest.approx([row.value for row in result], rel=1e-9)
        assert values == pytest.approx(slow, rel=1e-9, abs=1e-12)
        assert found.bias[name] == pytest.approx(slow.mean(axis=1) - world.value, abs=1e-9)
        assert found.variance[name] == pytest.approx(slow.var(axis=1), rel=1e-6, abs=1e-12)


def test_many_repeats_come_to_what_is_exact():
    rng = np.random.default_rng(5)
    K = 4
    world = World(
        rng.dirichlet(np.full(K, 5.0), 40),
        rng.dirichlet(np.full(K, 5.0), 40),
        np.eye(K)[rng.integers(0, K, 40)],
        np.eye(K)[rng.integers(0, K, 40)],
    )
    n, repeats = 50, 4000
    found, known = repeated(world, n, repeats, rng), exact(world).at(n)
    for name in ESTIMATORS:
        z = (found.bias[name] - known.bias[name]) / np.sqrt(known.variance[name] / repeats + 1e-18)
        assert np.abs(z).max() < 4.5
        assert found.variance[name] == pytest.approx(known.variance[name], rel=0.15)


def test_the_ends_of_the_family():
    """M = 0 is the model, M = ∞ the weights; SB likewise."""
    found = exact(random_world(2, m=40, K=4, unsupported=0.0))
    for name in ("CAB", "SWITCH", "SB", "CAB-DR"):
        assert found.mse(name)[0] == pytest.approx(found.best("DM"))
    for name, end in {
        "CAB": "IPS",
        "SWITCH": "IPS",
        "SB": "IPS",
        "CIPS": "IPS",
        "CAB-DR": "DR",
    }.items():
        assert found.mse(name)[-1] == pytest.approx(found.best(end))


# -- readings --------------------------------------------------------------------------------


def test_every_reading_is_a_different_problem():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    examples = Examples(rng.standard_normal((300, 4)) * [1, 5, 20, 0.1] + 2 * np.eye(4)[y], y)
    worlds = [labelled_world(examples, reading, 0, "indicator") for reading in ALL_READINGS]
    assert len(ALL_READINGS) == len({p.policy.tobytes() + p.prediction.tobytes() for p in worlds})
    for reading, world in zip(ALL_READINGS, worlds, strict=True):
        assert world.policy.sum(axis=1) == pytest.approx(np.ones(150))
        assert (set(world.policy.ravel()) == {0.0, 1.0}) == ("argmax" in reading)
    short = labelled_world(examples, "raw, same 10%", 0, "indicator")
    paper = worlds[ALL_READINGS.index(PAPER)]
    for name in ("logging", "policy", "reward", "prediction"):
        assert (getattr(short, name) == getattr(paper, name)).all()


@pytest.mark.parametrize("reading", ["rare", "raw, standardised, same 10%", ""])
def test_a_reading_that_there_is_not(reading):
    with refuses(ParameterError, column="reading"):
        train(Examples(np.zeros((40, 1)), np.arange(40) % 2), reading, 0)


# -- claims ----------------------------------------------------------------------------------


def flat(**curves: np.ndarray) -> Accuracy:
    """Made-up variances (no bias) of 1, but for those given."""
    shape = {name: np.ones(len(GRID.of(name))) for name in ESTIMATORS}
    return Accuracy({name: np.zeros_like(v) for name, v in shape.items()}, shape | curves, GRID.M)


def number(text: str, found: Accuracy) -> float:
    (claim,) = (claim for claim in CLAIMS if claim.text.startswith(text))
    return claim.measure(found)


def test_claims_tell_a_u_from_a_w():
    place = np.arange(len(GRID.M))
    u = np.exp(((place - 10.0) / 5.0) ** 2)
    assert number("CAB's MSE is U-shaped", flat(CAB=u)) == 1.0
    w = u.copy()
    w[5] *= 40.0
    assert number("CAB's MSE is U-shaped", flat(CAB=w)) == pytest.approx(w[5] / w[:5].min())
    assert number("CAB's MSE is U-shaped", flat(CAB=np.exp(place))) == math.inf
    assert number("The best M", flat(CAB=u)) == pytest.approx(1.0 / u[0])


def test_claims_count_decades():
    mse = np.full(len(GRID.M), 3.0)
    mse[6:16] = 1.0
    assert number("CAB is robust", flat(CAB=mse)) == pytest.approx(1.0 / (10 * 0.05))


def test_claims_about_bias_and_variance():
    found = flat(CAB=np.linspace(1.0, 2.0, len(GRID.M)))
    found.bias["CAB"][:] = np.linspace(-1.0, 0.0, len(GRID.M))
    assert number("The bias of CAB falls", found) == 0.0
    assert number("The variance of CAB rises", found) == 0.0
    found.bias["CAB"][5] = 1.25
    found.variance["CAB"][-1] = 1.5
    assert number("The bias of CAB falls", found) == pytest.approx(1.25 - abs(found.bias["CAB"][4]))
    assert number("The variance of CAB rises", found) > 0.2


def test_claims_compare_the_best():
    ones = np.ones(len(GRID.M))
    found = flat(CAB=0.5 * ones, CIPS=np.r_[0.4, ones[1:]], DR=np.array([0.25]))
    assert number("CAB beats SB", found) == 0.5
    assert number("CAB beats DR", found) == 2.0
    assert number("DR beats IPS and DM", found) == 0.25
    assert number("CAB outperforms cIPS", found) == 1.25
    assert number("CAB outperforms cIPS", found.above(1.0)) == 0.5
    rough = flat(SWITCH=1.0 + (np.arange(len(GRID.M)) % 2), CAB=np.geomspace(1.0, 2.0, len(GRID.M)))
    assert number("SWITCH is more erratic", rough) == pytest.approx(1.0 / (len(GRID.M) - 1))


def test_from_one_on_means_from_one_on():
    found = exact(random_world(4)).above(1.0)
    assert found.M[0] == pytest.approx(1.0)
    assert len(found.mse("CAB")) == len(found.M) < len(GRID.M)
    assert len(found.mse("SB")) == len(GRID.tau)


def test_what_holds_at_every_n_holds_at_the_worst():
    good, bad = flat(), flat()
    good.bias["CAB"][:] = bad.bias["CAB"][:] = np.linspace(1.0, 0.1, len(GRID.M))
    bad.bias["CAB"][-1] = 2.0
    outcomes = [Outcome("a", 200, bad, good), Outcome("a", 2000, good, good)]
    rows = Evaluated(Settings(), outcomes).claims
    falls = [row for row in rows if row["claim"].startswith("The bias of CAB falls")]
    assert len(falls) == len(STARTS)
    assert all(row["measured"] > row["margin"] for row in falls)
    assert all(row["exact"] <= row["margin"] for row in falls)
    assert all(row["judged"] is None for row in falls)  # no splits


def test_claims_are_judged_over_splits():
    good, bad = flat(), flat()
    good.bias["CAB"][:] = np.linspace(1.0, 0.1, len(GRID.M))
    bad.bias["CAB"][:] = np.linspace(0.1, 1.0, len(GRID.M))
    outcomes = [Outcome("a", n, good, good) for n in SIZES]
    surveyed = {("a", PAPER): [good] * 3, ("a", ALL_READINGS[5]): [bad] * 3,
                ("a", ALL_READINGS[6]): [good, bad, good]}  # fmt: skip
    found = Evaluated(Settings(), outcomes, surveyed)
    falls = next(row for row in found.claims if row["claim"].startswith("The bias of CAB falls"))
    assert falls["judged"].verdict == "holds"
    assert falls["readings"] == "1 holds, 1 fails, 1 cannot be told"
    assert "holds [0, 0]; 1 holds, 1 fails, 1 cannot be told" in found.to_markdown()


# -- files -----------------------------------------------------------------------------------


def small_outcomes() -> list[Outcome]:
    rng = np.random.default_rng(0)
    world = random_world(7, m=60, K=4, unsupported=0.0)
    return [Outcome("small", n, repeated(world, n, 6, rng), exact(world).at(n)) for n in SIZES]


def test_everything_is_written(tmp_path):
    by_rule = {f"{name} by {rule}": 2.0 for name in tuning.TUNED for rule in tuning.NAMES}
    mse, best = by_rule | dict.fromkeys(tuning.FIXED, 0.5), dict.fromkeys(tuning.TUNED, 1.0)
    chosen = [tuning.Outcome(tuning.Setting("small", PAPER, 0, n), best, mse) for n in SIZES]
    found = Evaluated(Settings(sets=["small"]), small_outcomes(), chosen=chosen)
    written = {path.name: path for path in found.report().save(tmp_path / "a" / "b")}
    assert set(written) == {
        "results.json", "accuracy.csv", "claims.csv", "table.md", "chosen.csv",
        "figure1_small.png", "figure2.png",
    }  # fmt: skip
    assert sorted(written.values()) == sorted((tmp_path / "a" / "b").iterdir())
    body = json.loads(written["results.json"].read_text())
    assert body["settings"]["repeats"] == 500
    again, written_again = found.outcomes[2].repeated, body["outcomes"][2]["repeated"]
    assert written_again["M"][-1] == "inf"
    assert written_again["bias"]["CAB"] == again.bias["CAB"].tolist()
    assert written_again["variance"]["CAB"] == again.variance["CAB"].tolist()
    with open(written["accuracy.csv"], newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(SIZES) * sum(len(GRID.of(name)) for name in ESTIMATORS)
    one = next(r for r in rows if r["estimator"] == "CAB" and r["n"] == "2000")
    assert float(one["mse"]) == float(one["bias"]) ** 2 + float(one["variance"])
    text = written["table.md"].read_text()
    for claim in CLAIMS:
        assert text.count(f"| {claim.text} |") == len(STARTS)
    assert "| CAB | 1.00 | 2.00 (2) | 2.00 (2) | 2.00 (2) | 2.00 (2) |" in text
    assert "| headline | 0.50 (0.5) |" in text
    with open(written["chosen.csv"], newline="") as file:
        assert {row["rule"] for row in csv.DictReader(file)} == {"", "hindsight", *tuning.NAMES}


def test_without_matplotlib_there_are_no_pictures(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = Evaluated(Settings(sets=["small"]), small_outcomes())
    assert {path.suffix for path in found.report().save(tmp_path)} == {".json", ".csv", ".md"}


def test_what_is_chosen_is_measured_against_the_best(monkeypatch):
    world = random_world(9, m=80, K=4, unsupported=0.0)
    monkeypatch.setattr(tuning, "labelled_world", lambda *_: world)
    cell = (tuning.Setting("small", PAPER, 0, 100), 5, tuning.TUNED, (1,))
    outcome = tuning.run_one(*cell)
    for name in tuning.TUNED:
        assert {f"{name} by {rule}" for rule in tuning.NAMES} <= set(outcome.mse)
        if name != "CIPS":  # which has no model at its other end
            end = outcome.mse["DR" if name == "CAB-DR" else "IPS"]
            assert outcome.hindsight[name] <= min(outcome.mse["DM"], end) * (1 + 1e-9)
    assert tuning.run_one(*cell) == outcome


COMMAND = [
    "reproduce", "evaluation", "--datasets", "clouds", "--sizes", "50,80", "--repeats", "4",
    "--reading", "standardised, softmax, stochastic, same 10%", "--splits", "0",
    "--chosen-repeats", "2",
]  # fmt: skip


@pytest.fixture
def clouds(tmp_path, monkeypatch):
    """A made-up data set where data sets are looked for."""
    import gzip

    rng = np.random.default_rng(0)
    y = np.arange(400) % 3
    X = rng.standard_normal((400, 2)) + 2.0 * np.eye(3)[y][:, :2]
    folder = tmp_path / "data" / "uci"
    folder.mkdir(parents=True)
    with gzip.open(folder / "clouds.csv.gz", "wt") as file:
        file.write("a,b,label,split\n")
        file.writelines(f"{u},{v},{k},none\n" for (u, v), k in zip(X, y, strict=True))
    monkeypatch.setenv("OFFPOLICY_DATA", str(tmp_path / "data"))
    return tmp_path


def invoked(out: Path, *change: str) -> Result:
    return CliRunner().invoke(cli, [*COMMAND, "--out", str(out), *change])


def test_killed_and_gone_on_with_gives_equal_bytes(clouds):
    whole = invoked(clouds / "whole")
    assert whole.exit_code == 0
    killed = subprocess.Popen(
        [sys.executable, "-m", "offpolicy", *COMMAND, "--out", str(clouds / "killed")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    while len(list((clouds / "killed" / "cells").glob("*.json"))) < 2:
        assert killed.poll() is None
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert not (clouds / "killed" / "results.json").exists()
    kept = {path.name: path.stat().st_mtime_ns for path in (clouds / "killed/cells").glob("*.json")}
    again = invoked(clouds / "killed")
    assert again.exit_code == 0
    assert again.stdout == whole.stdout
    for name, when in kept.items():
        assert (clouds / "killed" / "cells" / name).stat().st_mtime_ns == when
    files = sorted(path.name for path in (clouds / "whole").iterdir() if path.is_file())
    assert len(files) == 7
    for name in files:
        assert (clouds / "killed" / name).read_bytes() == (clouds / "whole" / name).read_bytes()


def test_other_data_are_not_mixed_with_what_is_kept(clouds, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # no need of pictures
    less = ["--sizes", "50", "--chosen-repeats", "0"]
    assert invoked(clouds / "out", *less).exit_code == 0
    cell = next((clouds / "out" / "cells").glob("*.json"))
    cell.write_text("{")  # damaged: computed again
    assert invoked(clouds / "out", *less).exit_code == 0
    assert cell.read_text() != "{"
    data = clouds / "data" / "uci" / "clouds.csv.gz"
    os.utime(data, (1, 1))
    assert invoked(clouds / "out", *less).exit_code == 0
    text = gzip.decompress(data.read_bytes())
    data.write_bytes(gzip.compress(text + text.splitlines(keepends=True)[1]))
    refused = invoked(clouds / "out", *less).exception
    assert isinstance(refused, ParameterError)
    assert "holds results of an earlier run, for which clouds was another" in str(refused)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--datasets", ""], "must name at least one"),
        (["--datasets", "clouds,clouds"], "each once"),
        (["--sizes", "a,b"], "must be whole numbers"),
        (["--sizes", "0"], "must hold numbers above 0"),
        (["--reading", "odd"], "is not a reading of the set-up"),
    ],
)
def test_mistakes_are_told(clouds, change, said):
    done = invoked(clouds / "out", *change)
    assert done.exit_code
    assert said in f"{done.stderr}{done.exception}"
    assert not (clouds / "out" / "results.json").exists()


def test_the_survey_holds_every_reading(clouds):
    parts = {}
    for training in accuracy.TRAININGS:
        parts |= accuracy.survey("clouds", training, 0)
    assert sorted(parts) == sorted(ALL_READINGS)
    world = labelled_world("clouds", ALL_READINGS[5], 0)
    assert parts[ALL_READINGS[5]].mse("CAB") == pytest.approx(exact(world).mse("CAB"))
    surveyed = {("small", reading): [one, one] for reading, one in parts.items()}
    found = Evaluated(Settings(), small_outcomes(), surveyed)
    for row in found.claims:
        assert sum(int(word) for word in row["readings"].split() if word.isdigit()) == 16
