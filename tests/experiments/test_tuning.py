"""M and τ chosen from the log, against the best in hindsight: labelled sets and rankings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tuning_page
from click.testing import CliRunner

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.experiments import curves
from offpolicy.experiments import tuning as both
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import FAILS, HOLDS, OPEN
from offpolicy.experiments.evaluation import tuning
from offpolicy.experiments.ranking import tuning as rankings
from offpolicy.experiments.ranking.accuracy import AGAIN, ESTIMATORS, METRICS
from offpolicy.experiments.worlds import OWN, PAPER, READINGS, labelled_world
from tests.support.experiments import measured_logs, random_world

# -- labelled sets -----------------------------------------------------------------------------


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


def test_the_table_holds_ratios_to_the_best(clouds, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "READINGS", READINGS[:1])
    monkeypatch.setattr(tuning, "MODELS", tuning.MODELS[:1])
    monkeypatch.setattr(tuning, "SIZES", (200,))
    (outcome,) = tuning.of_sets(Cells(tmp_path), ["clouds"], 4, 1)
    assert set(outcome.mse) >= set(tuning.METHODS.values())
    rules = [method for method in tuning.METHODS if method.startswith("CAB by")]
    # The best M in hindsight is one for all logs: a rule may beat it on some, never IPS or DM.
    best = outcome.hindsight["CAB"]
    assert best <= min(outcome.mse["DM"], outcome.mse["IPS"]) * (1 + 1e-9)
    assert len(rules) == 3
    text = tuning.to_markdown([outcome], 4)
    for method in ("headline", "headline, own model"):
        assert f"| {method} | {outcome.ratio(method):.2f} |" in text


def test_the_own_model_is_of_the_same_logs(clouds, tmp_path, monkeypatch):
    """By hand: the logs that the paper's model had, with the examples' features."""
    monkeypatch.setattr(tuning, "READINGS", READINGS[:1])
    monkeypatch.setattr(tuning, "MODELS", ("probability",))
    monkeypatch.setattr(tuning, "SIZES", (200,))
    (outcome,) = tuning.of_sets(Cells(tmp_path), ["clouds"], 3, 1)
    text = f"clouds, 200, probability, split 0, {READINGS[0]}"
    for model, tag in (("probability", ""), (OWN, ", own model")):
        world = labelled_world("clouds", READINGS[0], 0, model)
        rng = np.random.default_rng([0, 200, *map(ord, text)])
        errors = []
        for _ in range(3):
            log, policy, prediction = world.draw(200, rng)
            result = op.evaluate(log, policy, prediction=prediction, reward_range=(0.0, 1.0))
            errors.append((result.headline.value - world.value) ** 2)
        assert outcome.mse[f"headline{tag}"] == pytest.approx(np.mean(errors), rel=1e-6)


# -- rankings ----------------------------------------------------------------------------------

BELOW, NO_WORSE, AHEAD = "CAB's MSE is well below", "CAB's MSE is at most 5%", "CAB around the"


def verdicts(**mse):
    """By how M and τ are chosen, and the beginning of the claim."""
    found = [measured_logs(split, sweeps=s, **mse) for split in range(3) for s in (0.5, 1.0)]
    rows = rankings.judged(found)
    assert len(rows) == 5
    assert {row.where for row in rows} == {"a set, logger of 1%"}
    assert {row.judged.runs for row in rows} == {3}
    return {
        (row.chosen, start): row.judged
        for row in rows
        for start in (BELOW, NO_WORSE, AHEAD)
        if row.claim.startswith(start)
    }


def test_claims_on_choosing_can_come_out_either_way():
    wins = verdicts(DM=2.0, IPS=2.0, CIPS=2.0)
    for how in rankings.WAYS.values():
        assert wins[how, BELOW].verdict == wins[how, NO_WORSE].verdict == HOLDS
    assert str(wins["from the log", BELOW]) == "holds: CAB/DM 0.5 [0.5, 0.5]"
    assert wins["from the log", AHEAD].verdict == FAILS  # level is not ahead
    loses = verdicts(DM=2.0, IPS=2.0, CIPS=1.1, SB=0.9)
    for how in rankings.WAYS.values():
        assert loses[how, BELOW].verdict == loses[how, NO_WORSE].verdict == FAILS
        assert loses[how, BELOW].part == "CAB/cIPS"
    ahead = verdicts(**dict.fromkeys(ESTIMATORS, 2.0), **{f"SB{AGAIN}": 2.0, f"SWITCH{AGAIN}": 2.0})
    assert ahead["from the log", AHEAD].verdict == HOLDS
    assert ("on other logs", AHEAD) not in ahead


def test_claims_on_choosing_are_judged_over_splits():
    """A split counts once, with the mean over the amounts of clicks."""
    found = [measured_logs(split, SB=0.5 if split else 2.0) for split in range(3)]
    row = next(row for row in rankings.judged(found) if row.claim.startswith(NO_WORSE))
    assert (row.judged.verdict, row.judged.part) == (OPEN, "CAB/SB")
    logs = rankings.log_ratios({0.5: found, 1.0: found[::-1]}, "chosen", METRICS[0], "SB", "CAB")
    assert len(logs) == 3
    assert logs[0] == pytest.approx(0.0)


def test_nothing_is_judged_where_nothing_was_chosen():
    found = [measured_logs(split) for split in range(2)]
    for one in found:
        one.chosen[METRICS[0]].clear()
    assert {row.chosen for row in rankings.judged(found)} == {"on other logs"}


def test_the_tables_on_rankings_hold_errors_and_ratios():
    found = [measured_logs(split, CAB=0.25, DM=4.0) for split in range(2)]
    text = rankings.to_markdown(found, 10, 5)
    assert text.startswith(
        "# Rankings\n\nRoot mean squared error in per cent of the truth; 2 splits"
    )
    root = 100.0 * (0.25 * 1.05) ** 0.5
    assert f"| **{root:.1f}** |" in rankings.errors(found, METRICS[0], "chosen")
    assert "| a set, 1% | 16.00 (×÷ 1.00) |" in rankings.ratios(found, METRICS[0], "held_out")
    assert "| a set, 1%, 0.5 | 90% | 100% |" in rankings.coverage(found)
    for metric in METRICS:
        for how in ("on the other half of the logs", "from the log (5 logs of each split)"):
            assert f"## {metric.capitalize()}, M and τ chosen {how}" in text
    for row in rankings.judged(found):
        assert f"| {row.claim} | {row.chosen} | {row.where} | {row.judged} | 2 |" in text


# -- the command -------------------------------------------------------------------------------


def test_what_was_kept_is_gone_on_with_to_equal_bytes(clouds, letor, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "READINGS", READINGS[:1])
    monkeypatch.setattr(tuning, "MODELS", tuning.MODELS[:1])
    monkeypatch.setattr(tuning, "SIZES", (100,))
    monkeypatch.setattr(curves, "SWEEPS", (1.0,))
    monkeypatch.setattr(curves, "LOGGERS", (0.1,))
    monkeypatch.setattr(both, "RANKED_SPLITS", 2)
    command = ["reproduce", "tuning", "--datasets", "clouds,MQ2008", "--repeats", "2"]
    command += ["--splits", "1", "--out", str(tmp_path)]
    first = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert first.exit_code == 0
    assert first.stdout.startswith("MSE relative to CAB with the best M in hindsight")
    assert "| a set" not in first.stdout
    assert "| MQ2008, logger of 10% |" in first.stdout
    whole = {name: (tmp_path / name).read_bytes() for name in ("results.json", "table.md")}
    body = json.loads(whole["results.json"])
    assert (len(body["outcomes"]), len(body["rankings"]), len(body["claims"])) == (1, 2, 5)
    cells = sorted((tmp_path / "cells").glob("*.json"))
    assert len(cells) == 4  # one setting, with both models, and two splits
    stamp = cells[0].stat().st_mtime_ns
    for path in cells[1:]:
        path.unlink()
    again = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert again.stdout == first.stdout
    assert cells[0].stat().st_mtime_ns == stamp
    for name, content in whole.items():
        assert (tmp_path / name).read_bytes() == content


def test_labelled_sets_or_rankings_alone(clouds, letor, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "of_sets", lambda _, sets, *__: [])
    monkeypatch.setattr(tuning, "to_markdown", lambda *_: "of labelled sets\n")
    monkeypatch.setattr(curves, "of_logs", lambda *_: [measured_logs(k) for k in range(2)])
    command = ["reproduce", "tuning", "--out", str(tmp_path), "--datasets"]
    one = CliRunner().invoke(cli, [*command, "clouds"], catch_exceptions=False).stdout
    assert one == "of labelled sets\n\n"
    other = CliRunner().invoke(cli, [*command, "MQ2008"], catch_exceptions=False).stdout
    assert other.startswith("# Rankings")


# -- what is kept ------------------------------------------------------------------------------

KEPT = Path(__file__).parents[2] / "measured" / "tuning"


def test_the_kept_table_is_of_the_kept_cells(data, monkeypatch):
    """Nothing is computed, and no data set is needed."""
    monkeypatch.delenv("OFFPOLICY_DATA")
    monkeypatch.setattr("offpolicy.experiments.cells._run", None)
    stamp = (KEPT / "cells" / "made_from.txt").read_text(encoding="utf-8")
    found = both.run(Cells(KEPT / "cells"), tuning_page.SETS, 100, 2)
    assert found.files["table.md"] == (KEPT / "table.md").read_text(encoding="utf-8")
    assert (KEPT / "cells" / "made_from.txt").read_text(encoding="utf-8") == stamp


def test_the_page_shows_the_kept_table():
    text = tuning_page.PAGE.read_text(encoding="utf-8")
    table = (KEPT / "table.md").read_text(encoding="utf-8")
    assert tuning_page.page(text, table) == text, "python scripts/tuning_page.py"


def test_what_is_kept_is_small():
    assert sum(path.stat().st_size for path in KEPT.rglob("*") if path.is_file()) < 1_000_000
