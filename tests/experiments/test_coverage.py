"""Coverage: the protocol's logs, what is kept of a cell, the verdicts, and cells that are kept."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import coverage_cells
import coverage_page
import numpy as np
import pytest
import version_01
from click.testing import CliRunner
from scipy.special import softmax
from scipy.stats import ttest_1samp

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.datasets import Examples
from offpolicy.errors import ParameterError
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.intervals import coverage, protocol, variations
from offpolicy.experiments.intervals.coverage import run_one
from offpolicy.experiments.intervals.outcomes import Cell, Outcome, grouped_logs, joined
from offpolicy.experiments.intervals.verdicts import (
    Before,
    cover,
    error_verdicts,
    holm,
    p_below,
    protocol_verdicts,
    version_verdicts,
)
from offpolicy.experiments.worlds import finite_worlds
from offpolicy.intervals import Interval
from tests.support.refusals import refuses

KEPT = Path(__file__).parents[2] / "measured" / "coverage"

# -- the protocol ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wine():
    return protocol.load("wine")


def test_a_split_is_a_world(wine):
    split = protocol.split_of(wine, np.random.default_rng(3))
    for table in (split.logging, *split.policies.values()):
        assert table.shape == split.reward.shape == (89, 3)
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
        assert table.min() > 0.0
    # softmax of probabilities: no two differ by more than e, and of 10 p' by more than e^10
    assert (split.logging.max(axis=1) / split.logging.min(axis=1)).max() <= math.e
    strong, neg = split.policies["strong"], split.policies["neg"]
    np.testing.assert_allclose(softmax(-0.2 * np.log(strong), axis=1), neg)
    assert split.value(strong) > split.value(split.policies["mild"]) > split.value(neg)


def test_the_truth_is_over_the_log_s_own_contexts(wine):
    """By brute force: the mean of what every action would earn in every row."""
    split = protocol.split_of(wine, np.random.default_rng(3))
    pi = split.policies["mild"]
    rows, actions = split.reward.shape
    earned = sum(pi[i, a] * split.reward[i, a] for i in range(rows) for a in range(actions))
    assert split.value(pi) == pytest.approx(earned / rows, rel=1e-12)
    rng = np.random.default_rng(0)
    logs = list(split.draws(rng, 400))
    weight = np.array([pi[np.arange(rows), log.chosen] / log.propensity for log in logs])
    mean = (weight * [log.reward for log in logs]).mean(axis=1)
    assert mean.mean() == pytest.approx(split.value(pi), abs=4 * mean.std() / 20)


def test_splits_are_seeded_one_by_one():
    first = [log.chosen for _, log in protocol.logs_of("wine", 0, 3, 2)]
    later = [log.chosen for _, log in protocol.logs_of("wine", 1, 2, 2)]
    np.testing.assert_array_equal(first[2:], later)
    assert (first[0] != first[1]).any()
    (other,) = (log.chosen for _, log in protocol.logs_of("wine", 0, 1, 1))
    np.testing.assert_array_equal(other, first[0])


def test_classes_that_a_half_or_a_bootstrap_misses():
    """Two examples of a class: it is an action if the training half has one, and then has support
    even if both bootstrap samples miss it; else its examples earn nothing."""
    rng = np.random.default_rng(0)
    y = np.r_[np.repeat([0, 1], 30), 2, 2]
    examples = Examples(rng.standard_normal((62, 2)) + y[:, None], y)
    widths = set()
    for seed in range(30):
        split = protocol.split_of(examples, np.random.default_rng(seed))
        widths.add(split.logging.shape[1])
        assert split.logging.min() > 0.0
        if split.logging.shape[1] == 2:
            assert (split.reward.sum(axis=1) == 0.0).sum() == 2
    assert widths == {2, 3}


@pytest.mark.parametrize("model", protocol.MODELS)
def test_a_block_holds_every_policy(model):
    cells = protocol.run_block("wine", model, 0, 2, 2)
    assert {(cell.policy, cell.known) for cell in cells} == {
        (policy, known) for policy in protocol.TARGETS for known in protocol.KNOWN
    }
    for cell in cells:
        assert cell.logs == 4
        assert len(cell.covered) == len(cell.error) == len(cell.snips_error) == 2
        # 89 decisions are too few for a model of the library's own
        assert len(cell.dr_error) == (2 if model == "ridge" else 0)


def test_what_is_counted_is_what_evaluate_says():
    (cell,) = (
        cell
        for cell in protocol.run_block("wine", "no model", 5, 1, 3)
        if (cell.policy, cell.known) == ("strong", "chosen only")
    )
    inside, error, snips = [], [], []
    for at, (split, log) in enumerate(protocol.logs_of("wine", 5, 1, 3)):
        pi = split.policies["strong"]
        shown = op.BanditLog.from_arrays(
            action=log.chosen, reward=log.reward, propensity=log.propensity, actions=3
        )
        result = op.evaluate(shown, pi)
        truth = split.value(pi)
        inside.append(truth in result.headline.interval)
        error.append((result.headline.value - truth) ** 2)
        snips.append((result["SNIPS"].value - truth) ** 2)
        answer = (result.headline.value, *result.headline.interval)
        assert cell.first[at] == pytest.approx(answer, rel=1e-8)
    assert cell.covered == [pytest.approx(np.mean(inside), rel=1e-3)]
    assert cell.error == [pytest.approx(np.mean(error), rel=1e-3)]
    assert cell.snips_error == [pytest.approx(np.mean(snips), rel=1e-3)]


def test_differences_are_of_the_policies_values():
    cells = protocol.run_differences("wine", 2, 2)
    assert [cell.policy for cell in cells] == ["strong − mild", "strong − logged"]
    split, log = next(protocol.logs_of("wine", 0, 1, 1))
    policies = {name: split.policies[name] for name in ("strong", "mild")}
    pair = op.compare(log.replace(context=None), policies, multiplicity="none")["strong", "mild"]
    assert cells[0].first[0] == pytest.approx((pair.value, *pair.interval), rel=1e-8)


# -- variations --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", variations.VARIATIONS)
def test_variations_keep_the_truth(name):
    """The self-normalised estimates are near the value that is held to be true."""
    (cell,) = variations.run_variation(name, 5000, 2)
    assert math.sqrt(max(cell.snips_error)) < 5 * cell.snips_width / (2 * 1.96)
    assert cell.known == ("estimated" if name.startswith("estimated") else "candidates")


def test_rows_are_left_out_with_known_probability():
    world = variations._world("row weights by reward")
    rng = np.random.default_rng(0)
    log, policy, prediction = world.draw(5000, rng)
    part, pi, guess = variations._varied("row weights by reward", log, policy, prediction, rng)
    assert len(part) == len(pi) == len(guess) < 4000
    assert (part.row_weight == np.where(part.reward > 0.0, 1.0, 5.0)).all()
    assert part.row_weight.sum() == pytest.approx(5000, rel=0.05)


# -- finite worlds -----------------------------------------------------------------------------


def test_coverage_counts_what_is_inside():
    found = run_one("plain", 200, 6)
    kinds = {row.kind: row for row in found.rows}
    assert kinds["default: headline"].repeats + kinds["default: headline"].refused == 6
    assert all(0 <= row.covered <= row.repeats for row in found.rows)
    assert kinds["hoeffding: CIPS + bias bound"].width > kinds["normal: IPS"].width
    assert run_one("plain", 200, 6) == found
    text = coverage.worlds_markdown(found.rows)
    assert f"| default: IPS | {kinds['default: IPS'].share:.1%} |" in text
    assert found.cell.logs == 6
    assert len(found.cell.dr_error) == 6


def test_refused_logs_are_named_not_counted():
    """In the table of all kinds; the cell counts refused logs too."""
    found = run_one("deficient support", 2000, 4)
    assert "default: headline" not in {row.kind for row in found.rows}
    assert "every log was refused" in coverage.worlds_markdown(found.rows)
    assert found.cell.logs == found.cell.refused == 4


# -- cells -------------------------------------------------------------------------------------


def made(covered=0.96, error=1.0, snips=2.0, dr=None, width=1.0, **changes):
    """A cell of 50 groups of ten logs, spread as binomial shares and squared errors are."""
    rng = np.random.default_rng(1)
    noise = rng.chisquare(10, 50) / 10

    def around(mean):
        return [] if mean is None else list(mean * noise / noise.mean())

    shares = rng.binomial(10, covered, 50) / 10
    shares += covered - shares.mean()
    return replace(
        Cell("set", "strong", "no model", "candidates", 100, 500, list(shares), around(error),
             around(snips), around(dr), width, 1.0, 0.95, 0, 0, 500, 0, []),
        **changes,
    )  # fmt: skip


def test_blocks_are_joined():
    def outcome(value):
        return Outcome(0.5, value, Interval(value - 0.1, value + 0.1), value > 0.7)

    values = [0.41, 0.52, 0.55, 0.8, 0.45, 0.75]
    all_ = [outcome(value) for value in values]
    groups = [all_[at : at + 2] for at in range(0, 6, 2)]
    whole = Cell.of("set", "", "", "", 9, groups)
    parts = [Cell.of("set", "", "", "", 9, part) for part in (groups[:1], groups[1:])]
    assert replace(joined(parts), first=[]) == replace(
        whole, first=[], width=pytest.approx(whole.width)
    )
    assert whole.coverage == pytest.approx(4 / 6)
    assert (whole.logs, whole.refused, whole.snips_error) == (6, 2, [])
    assert whole.mse == pytest.approx(np.mean((np.array(values) - 0.5) ** 2), rel=1e-3)


@pytest.mark.parametrize("logs", [1, 99, 100, 250])
def test_groups_of_logs_hold_all(logs):
    groups = grouped_logs(list(range(logs)))
    assert [x for group in groups for x in group] == list(range(logs))
    assert min(map(len, groups)) >= 1
    assert len(groups) <= 100


def test_the_ratio_of_errors_and_its_limit():
    cell = made(error=1.5, snips=2.0, dr=1.0)
    assert cell.error_ratio()[0] == pytest.approx(1.5)
    same = cell.error_ratio()  # the noise is common to both: none is left in the ratio
    assert same[1] == pytest.approx(1.5)
    rng = np.random.default_rng(2)
    noisy = replace(cell, error=list(rng.chisquare(10, 50) / 10), dr_error=[])
    ratio, low = noisy.error_ratio()
    spread = [
        np.log((rng.chisquare(10, 50).mean()) / rng.chisquare(10, 50).mean()) for _ in range(2000)
    ]
    assert np.log(ratio / low) / 1.96 == pytest.approx(np.std(spread), rel=0.35)


# -- verdicts ----------------------------------------------------------------------------------


def test_the_t_test_is_the_usual_one():
    x = np.random.default_rng(0).random(20)
    expected = ttest_1samp(x, 0.6, alternative="less").pvalue
    assert p_below(x, 0.6) == pytest.approx(expected, rel=1e-9)
    assert p_below([1.0, 1.0], 0.93) == 1.0
    assert p_below([0.9, 0.9], 0.93) == 0.0


def test_holm_by_hand():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_cell_below_fails_and_chance_does_not():
    good = [made(0.95)] * 29
    assert cover([*good, made(0.925)], "", [0.93] * 30).holds
    bad = cover([*good, made(0.85, where="here")], "", [0.93] * 30)
    assert not bad.holds
    assert "below: here, strong, no model, candidates 85.0%" in bad.measured
    # What is significant alone need not be among thirty.
    alone = made(0.90)
    assert 0.05 / 30 < p_below(alone.covered, 0.93) < 0.05
    assert not cover([alone], "", [0.93]).holds
    assert cover([alone, *good], "", [0.93] * 30).holds


def holds(cells):
    return [verdict.holds for verdict in protocol_verdicts(cells)]


def test_what_the_protocol_asks_for():
    assert holds([made(0.96)] * 3) == [True] * 6
    assert holds([made(0.94)] * 3) == [True, False, True, True, True, True]
    # chosen only: 90 %, and not among those that are pooled
    assert holds([made(0.96), made(0.9, known="chosen only")]) == [True] * 6
    assert not holds([made(0.96), made(0.8, known="chosen only")])[0]


def test_coverage_is_not_bought():
    fine = made()
    assert not holds([fine, replace(fine, refused_enough=30)])[2]
    assert holds([fine, replace(fine, refused_enough=30, enough=600)])[2]
    assert holds([fine, replace(fine, refused=400)])[2]  # where SNIPS has nothing to say either
    assert holds([replace(fine, alarms=1)] * 2)[3]
    assert not holds([replace(fine, alarms=2)] * 2)[3]
    assert not holds([made(width=1.2)] * 2)[4]
    assert holds([made(width=1.4), made(width=0.8)])[4:] == [True, True]
    assert holds([made(width=1.6), made(width=0.6)])[4:] == [True, False]
    assert holds([made(width=1.6, snips_covered=0.8), made(width=0.6)])[4:] == [True, True]


def test_errors_against_the_better_of_two():
    def judged(*ratios):
        cells = [made(error=ratio, snips=1.0, dr=1.7) for ratio in ratios]
        return [verdict.holds for verdict in error_verdicts({"a": cells[:1], "b": cells[1:]})]

    assert judged(0.5, 0.6, 0.9) == [True, True]
    assert judged(0.8, 0.6, 0.9) == [False, True]
    assert judged(0.1, 1.2, 1.2, 1.25) == [True, True]  # three, to be explained
    assert judged(0.01, 1.2, 1.2, 1.2, 1.2) == [True, False]
    assert judged(0.1, 1.4) == [True, False]
    noisy = made(error=1.0, snips=1.0)
    noisy = replace(noisy, error=[x * (1 + 9 * (k == 0)) for k, x in enumerate(noisy.error)])
    assert noisy.error_ratio()[0] > 1.15
    assert error_verdicts({"a": [made(0.96, 0.2)], "b": [noisy]})[1].holds


def test_against_version_01():
    def judged(cell, mse=1.0, covered=480, repeats=500):
        old = Before("set", 100, repeats, mse, covered, 0, "")
        return [verdict.holds for verdict in version_verdicts([cell], [old])]

    assert judged(made(0.96, 0.9)) == [True, True, True]
    assert judged(made(0.96, 1.2)) == [False, True, True]
    assert judged(made(0.96, 1.4)) == [False, False, True]
    assert judged(made(0.94, 0.9), covered=500) == [True, True, True]
    assert judged(made(0.88, 0.9)) == [True, True, False]
    assert judged(made(0.88, 0.9), covered=440) == [True, True, True]
    assert judged(made(), repeats=400) == []  # other logs


# -- the command, and what it keeps ------------------------------------------------------------

SMALL = ["--datasets", "wine", "--splits", "2", "--draws", "2", "--repeats", "2", "--sizes", "200"]


def test_the_command_goes_on_where_it_was(tmp_path):
    args = ["reproduce", "coverage", *SMALL, "--out", str(tmp_path / "out")]
    first = CliRunner().invoke(cli, args, catch_exceptions=False)
    assert first.exit_code == 0
    assert "| no cell of the protocol covers significantly" in first.stdout
    table = (tmp_path / "out" / "table.md").read_text()
    assert table.startswith(first.stdout.strip()[:200])
    assert "| wine | neg | ridge | chosen only | 4 |" in table
    assert "### Simulated worlds" in table
    assert "### deficient support" in table
    kept = sorted((tmp_path / "out" / "cells").glob("*.json"))
    when = {path: path.stat().st_mtime_ns for path in kept}
    kept[3].unlink()
    kept[5].write_text("[")
    again = CliRunner().invoke(cli, args, catch_exceptions=False)
    assert again.stdout == first.stdout
    changed = [path for path in kept if path.stat().st_mtime_ns != when[path]]
    assert changed == [kept[3], kept[5]]


def test_the_plan_of_the_full_run():
    full = coverage.plan(200, 10)
    assert full == {"no model": (200, 10), "ridge": (50, 10), "contexts": (50, 10)}
    assert set(coverage.plan(*coverage.QUICK).values()) == {(20, 5)}
    assert {n: coverage.logs_at(n, 2000) for n in version_01.REPEATS} == version_01.REPEATS


def test_data_are_told_by_content(tmp_path):
    """The same data, written at another time, are the same; others are refused."""
    data, cells = tmp_path / "data.csv", Cells(tmp_path / "cells")
    data.write_text("1,2\n")
    cells.all("it", run_one, [("plain", 200, 2)], {"data": [data]})
    os.utime(data, (1, 1))
    cells.all("it", run_one, [("plain", 200, 2)], {"data": [data]})
    data.write_text("1,3\n")
    with refuses(ParameterError):
        cells.all("it", run_one, [("plain", 200, 2)], {"data": [data]})


BEFORE = coverage.before(KEPT / "version_01.json")


@pytest.mark.skipif(not BEFORE, reason="nothing is kept of version 0.1")
def test_version_01_was_asked_about_the_same_logs():
    worlds = {world.name: world for world in finite_worlds()}
    assert {(one.world, one.n) for one in BEFORE} == {
        (name, n) for name in worlds for n in version_01.REPEATS
    }
    for one in BEFORE:
        assert one.repeats == version_01.REPEATS[one.n]
        rng = np.random.default_rng([one.n, *map(ord, one.world)])
        assert version_01.digest(worlds[one.world].draw(one.n, rng)[0]) == one.first_log


KINDS = [function for function, _ in coverage.work(*coverage_cells.FULL).values()]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_kept_cells_are_of_this_code(kind):
    """The first logs again, of every set and model and of every world; of all cells the script does
    so. If this fails: python scripts/coverage_cells.py --delete, and `make coverage`."""
    kept = [cell for function, cell in coverage_cells.kept() if function is kind]
    if kind is protocol.run_block:
        kept = [cell for cell in kept if cell[2] == 0]
        assert {cell[:2] for cell in kept} >= {("wine", model) for model in protocol.MODELS}
    elif kind is run_one:
        kept = [cell for cell in kept if cell[1] <= 200]
    if not kept and kind is protocol.run_differences:
        pytest.skip("needs optdigits or ecoli")
    assert kept
    assert [differs for cell in kept if (differs := coverage_cells.differs(kind, cell))] == []


def test_a_cell_of_other_code_is_told(tmp_path):
    """One first log that was answered otherwise is enough."""
    path = Cells(tmp_path / "cells").path(run_one, ("plain", 50, 2000))
    whole = json.loads(Cells(KEPT / "cells").path(run_one, ("plain", 50, 2000)).read_text())
    path.parent.mkdir()
    for change, expected in ((1.0, ""), (1.001, "plain, n = 50, given, candidates")):
        whole["cell"]["first"][2][1] *= change
        path.write_text(json.dumps(whole))
        assert list(coverage_cells.kept(tmp_path)) == [(run_one, ("plain", 50, 2000))]
        assert coverage_cells.differs(run_one, ("plain", 50, 2000), tmp_path) == expected


def test_the_kept_table_is_of_the_kept_cells(tmp_path, monkeypatch):
    """Nothing is computed, and no data set is needed."""
    monkeypatch.setattr("offpolicy.experiments.cells._run", None)
    for path in coverage.run(Cells(KEPT / "cells"), *coverage_cells.FULL).save(tmp_path):
        assert path.read_bytes() == (KEPT / path.name).read_bytes()


@pytest.mark.skipif(not (KEPT / "table.md").is_file(), reason="no table is kept")
def test_the_page_shows_the_kept_table():
    text = coverage_page.PAGE.read_text(encoding="utf-8")
    table = (KEPT / "table.md").read_text(encoding="utf-8")
    assert coverage_page.page(text, table) == text, "python scripts/coverage_page.py"


def test_what_is_kept_is_small():
    assert sum(path.stat().st_size for path in KEPT.rglob("*") if path.is_file()) < 1_000_000


def test_a_table_is_put_between_the_marks():
    text = "top\n\n<!-- table -->\nold\n<!-- end of table -->\nend\n"
    filled = coverage_page.page(text, "new\n")
    assert filled == "top\n\n<!-- table -->\n\nnew\n\n<!-- end of table -->\nend\n"
    assert coverage_page.page(filled, "new\n") == filled
