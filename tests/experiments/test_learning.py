"""The paper's learning experiments, small: set-up, recipes, tables, claims, resuming."""

from __future__ import annotations

import gzip
import json
from dataclasses import fields, replace
from pathlib import Path

import learned_page
import numpy as np
import pytest
from click.testing import CliRunner

from offpolicy.cli import cli
from offpolicy.errors import ParameterError
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import FAILS, HOLDS
from offpolicy.experiments.learning import figure4, ours, search, table2
from offpolicy.experiments.learning.readings import CLOSEST, READINGS, TEXT, Reading, Way
from offpolicy.experiments.learning.search import Learned, Searched, candidates, read_as
from offpolicy.experiments.learning.setup import ESTIMATORS, Condition, set_up
from tests.support.refusals import refuses

KEPT = Path(__file__).parents[2] / "measured" / "learning"


@pytest.fixture
def clouds(tmp_path, monkeypatch):
    """Four overlapping classes where data sets are looked for."""
    rng = np.random.default_rng(0)
    y = np.arange(800) % 4
    X = rng.standard_normal((800, 3)) + 2.5 * np.eye(4)[y][:, :3]
    folder = tmp_path / "data" / "uci"
    folder.mkdir(parents=True)
    with gzip.open(folder / "clouds.csv.gz", "wt") as file:
        file.write("a,b,c,label,split\n")
        file.writelines(f"{u},{v},{w},{k},none\n" for (u, v, w), k in zip(X, y, strict=True))
    monkeypatch.setenv("OFFPOLICY_DATA", str(tmp_path / "data"))
    return X, y


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(search, "CLIPS", (2.0, 30.0))
    monkeypatch.setattr(search, "BLENDS", (0.5,))
    monkeypatch.setattr(search, "PENALTIES", (1e-6, 1e-2))
    monkeypatch.setattr(search, "RANDOM_STARTS", 2)
    monkeypatch.setattr(search, "STEPS", 50)


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


def searched(cips, ips=None, error=None, way=TEXT, condition=None):
    n = len(candidates())
    where = condition or Condition("letter", 0)
    made = Searched(where, way, 0.5, [1] * n, list(np.zeros(n)), list(cips), [1.0] * n,
                    list(np.arange(n) / n))  # fmt: skip
    made = made if ips is None else replace(made, ips=list(ips))
    return made if error is None else replace(made, error=list(error))


def test_the_validation_log_chooses():
    rng = np.random.default_rng(0)
    n = len(candidates())
    found = searched(rng.random(n), rng.random(n))
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


def test_every_way_learns(clouds, quick):
    condition = Condition("clouds", 0, n=300)
    for way in dict.fromkeys(reading.way for reading in READINGS):
        found = search.search(condition, way)
        assert len(found.error) == len(found.steps) == len(candidates())
        errors = found.errors("cIPS")
        # Where losses are 0 and 1, what uses no model learns to do what was not logged.
        able = ESTIMATORS if way.loss == "-1, 0" else ("DM", "DR", "CAB-DR")
        assert max(errors[name] for name in able) < found.logger + 0.15, way
        assert way.loss == "-1, 0" or errors["IPS"] > errors["DR"]


def test_scores_are_those_of_the_formulas(clouds, quick):
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


# -- tables and claims -------------------------------------------------------------------------


def learned(data, errors, runs=4, recipe="text"):
    noise = 0.0002 * np.random.default_rng(0).standard_normal((runs, len(errors)))
    return [
        Learned(Condition(data, run), recipe, 0.5,
                {name: float(x + noise[run, k]) for k, (name, x) in enumerate(errors.items())})
        for run in range(runs)
    ]  # fmt: skip


def paper(data):
    return dict(zip(ESTIMATORS, table2.PAPER[data], strict=True))


def test_the_paper_s_own_figures_pass_its_claims():
    """But for CAB-DR, and one more tenth, nothing that it says is against its own table."""
    own = {
        (statement.text.split(" (")[0], data): statement.of_the_paper(data)
        for statement in table2.STATEMENTS
        for data in statement.sets
    }
    assert all(own.values())
    assert len(own) == 12
    assert table2.STATEMENTS[0].of_the_paper("another set") is None


def test_claims_on_table_2_can_come_out_either_way():
    def verdicts(errors):
        rows = table2.judged({"text": learned("letter", errors)})
        return [row["judged"].verdict for row in rows]

    assert verdicts(paper("letter")) == [HOLDS, HOLDS, HOLDS]
    turned = paper("letter") | {"CAB": 0.9, "IPS": 0.574}
    assert verdicts(turned) == [FAILS, FAILS, FAILS]
    nobody = table2.judged({"text": learned("satimage", paper("satimage"))})
    assert [row["judged"].verdict for row in nobody if "cIPS" in row["claim"]] == [HOLDS]


def test_tables_hold_means_and_the_paper_s_figures():
    runs = learned("letter", paper("letter"))
    text = table2.error_table({"text": runs, "other": runs[:1]}, True)
    mean = np.mean([one.errors["DM"] for one in runs])
    assert "| **DM** | the paper | 0.6372 |" in text
    assert f"| text | {mean:.4f} ± " in text
    assert "± nan" not in text
    rows = table2.judged({"text": runs})
    claims = table2.claims_table(rows, ["text"])
    assert "| letter | holds: CAB/CAB-DR" in claims
    assert "1 holds | so |" in claims
    assert "CAB < IPS (1)" in table2.orders_table({"text": runs})


def figure_runs(slope, gap=0.05, runs=3):
    return [
        Learned(one, "text", 0.5,
                {name: float(np.exp(slope * np.log(one.n / 500) + 0.001 * one.run * k - 1
                                    + gap * (name in ("IPS", "CIPS", "DR"))))
                 for k, name in enumerate(ESTIMATORS)})
        for one in figure4.conditions(runs)
    ]  # fmt: skip


def test_claims_on_figure_4_can_come_out_either_way(tmp_path):
    def verdicts(*args):
        return {row.claim: row.judged.verdict for row in figure4.judged(figure_runs(*args))}

    falling, rising = verdicts(-0.1, 0.3), verdicts(0.1, -0.3)
    assert falling["performance improves for all estimators as n grows"] == HOLDS
    assert rising["performance improves for all estimators as n grows"] == FAILS
    substantial = "CAB improves substantially over IPS, cIPS and DR at the smallest n (by a tenth)"
    assert (falling[substantial], rising[substantial]) == (HOLDS, FAILS)
    assert falling["IPS and cIPS are flat (within a tenth)"] == HOLDS
    path = tmp_path / "figure4.png"
    figure4.draw(figure_runs(-0.1), path)
    assert path.stat().st_size > 10_000


def test_panels_are_of_whole_runs():
    """A run that stopped in the middle of a panel is not compared."""
    runs = figure_runs(-0.1)
    assert len(figure4.panel_of(runs, "decisions")[500]["CAB"]) == 3
    part = [one for one in runs if one.condition != Condition("pendigits", 2, n=500)]
    assert len(figure4.panel_of(part, "decisions")[5000]["CAB"]) == 2
    assert figure4.panel_of(part[:1], "decisions") == {}
    assert figure4.judged(part[:1]) == []


# -- the command, and what it keeps ------------------------------------------------------------


def test_the_command_goes_on_where_it_was(clouds, quick, tmp_path):
    command = ["reproduce", "learning", "--datasets", "clouds", "--quick"]
    command += ["--out", str(tmp_path / "out")]
    first = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert first.exit_code == 0
    assert "| **CAB-DR** | the paper | – |" in first.stdout
    cells = sorted((tmp_path / "out" / "cells").glob("*.json"))
    assert len(cells) == 4  # two runs, raw and standardised
    before = (tmp_path / "out" / "table2" / "results.json").read_bytes()
    cells[0].unlink()
    stamp = cells[1].stat().st_mtime_ns
    again = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert again.stdout == first.stdout
    assert cells[1].stat().st_mtime_ns == stamp
    assert (tmp_path / "out" / "table2" / "results.json").read_bytes() == before
    assert json.loads(before)["schema"] == "offpolicy.learning/2"
    only = CliRunner().invoke(cli, [*command, "--readings", "--kept"], catch_exceptions=False)
    assert only.stdout == first.stdout
    both = CliRunner().invoke(cli, [*command, "--ours", "--figure"])
    assert "leave out --ours" in both.stderr
    with refuses(ParameterError, "kept"):
        Cells(tmp_path / "nothing").all("runs", search.search, [], kept=True)


def test_the_page_holds_what_the_command_wrote():
    text = learned_page.PAGE.read_text(encoding="utf-8")
    assert learned_page.page(text) == text, "python scripts/learned_page.py"


def test_the_tables_are_made_from_the_cells(tmp_path):
    """`make learning` with --kept writes the same again."""
    cells = Cells(KEPT / "cells")
    made = table2.run(cells, tuple(table2.PAPER), 10, readings=True, kept=True)
    assert made.files["table.md"] == (KEPT / "table2" / "table.md").read_text(encoding="utf-8")
    drawn = figure4.run(cells, 10, kept=True)
    assert drawn.files["table.md"] == (KEPT / "figure4" / "table.md").read_text(encoding="utf-8")
