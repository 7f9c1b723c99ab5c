"""The paper's learning experiments, small: set-up, recipes, tables, claims, resuming."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from click.testing import CliRunner

from offpolicy.cli import cli
from offpolicy.experiments.learning import figure4, setup, table2
from offpolicy.experiments.learning.setup import (
    ESTIMATORS,
    Condition,
    as_in_the_paper,
    ours,
    set_up,
)
from offpolicy.experiments.learning.table2 import Learned


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
    monkeypatch.setattr(setup, "CLIPS", (2.0, 30.0))
    monkeypatch.setattr(setup, "BLENDS", (0.5,))
    monkeypatch.setattr(setup, "PENALTIES", (1e-6,))
    monkeypatch.setattr(setup, "STARTS", 2)


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
    assert made.logged == made.train.reward.mean()


def test_a_run_is_the_same_again_and_another_is_not(clouds):
    one, same, other = (set_up(Condition("clouds", run, n=100)) for run in (1, 1, 2))
    assert (one.train.context == same.train.context).all()
    assert (one.train.chosen == same.train.chosen).all()
    assert (one.train.context != other.train.context).any()


def test_both_recipes_learn(clouds, quick):
    made = set_up(Condition("clouds", 0, n=300))
    errors = as_in_the_paper(made)
    assert set(errors) == set(ESTIMATORS)
    assert max(errors.values()) < 1.0 - made.logged + 0.05
    mine = ours(made)
    assert set(mine) == set(table2.OURS)
    assert max(mine.values()) < 1.0 - made.logged  # better than what ran

    class Wrong:
        def predict_proba(self, X):
            return np.full((len(X), 4), 0.25)

    assert made.error(Wrong()) == pytest.approx(0.75)


def test_tables_hold_means_and_the_paper_s_figures():
    found = [
        Learned(Condition("letter", run), "paper", 0.5,
                {name: 0.1 * (k + 1) + 0.02 * run for k, name in enumerate(ESTIMATORS)})
        for run in range(2)
    ]  # fmt: skip
    text = table2.to_markdown(found)
    assert "| DM | 0.1100 ± 0.0100 (0.6372) |" in text
    assert "| CAB | 0.6100 ± 0.0100 (0.5740) |" in text
    assert "ours" not in text
    claims = {one.text: one for one in table2.judged(found)}
    assert not claims["CAB beats DM"].holds
    assert claims["CAB beats DM"].measured == "letter 5.55"
    assert claims["CAB-DR is no better than CAB"].holds


def test_figure_claims_can_come_out_either_way(tmp_path):
    def made(slope):
        return [
            Learned(one, "paper", 0.5,
                    {name: 0.3 + slope * np.log(one.n) + 0.01 * k
                     for k, name in enumerate(reversed(ESTIMATORS))})
            for one in figure4.conditions(2)
        ]  # fmt: skip

    falling, rising = (figure4.judged(made(slope)) for slope in (-0.02, 0.02))
    assert falling[0].holds
    assert not rising[0].holds
    assert falling[1].holds  # CAB stands before IPS, cIPS and DR
    path = tmp_path / "figure4.png"
    figure4.draw(made(-0.02), path)
    assert path.stat().st_size > 10_000


def test_the_command_goes_on_where_it_was(clouds, quick, tmp_path):
    command = ["reproduce", "learning", "--datasets", "clouds", "--runs", "2"]
    command += ["--out", str(tmp_path / "out")]
    first = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert first.exit_code == 0
    assert "| CAB-DR |" in first.stdout
    cells = sorted((tmp_path / "out" / "cells").glob("*.json"))
    assert len(cells) == 2
    before = (tmp_path / "out" / "table2-paper" / "results.json").read_bytes()
    cells[0].unlink()
    kept = cells[1].stat().st_mtime_ns
    again = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert again.stdout == first.stdout
    assert cells[1].stat().st_mtime_ns == kept
    assert (tmp_path / "out" / "table2-paper" / "results.json").read_bytes() == before
    assert json.loads(before)["schema"] == "offpolicy.learning/1"
    both = CliRunner().invoke(cli, [*command, "--ours", "--figure"])
    assert "leave out --ours" in both.stderr
