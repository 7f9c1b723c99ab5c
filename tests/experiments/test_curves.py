"""What Figures 1 and 2 are drawn from: readings, splits, sizes, and claims judged over them."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest

from offpolicy.experiments import curves, figure1, figure2
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.claims import FAILS, HOLDS, OPEN, Claim, judge_one
from offpolicy.experiments.curves import STARTS, Settings, accuracy_rows, claims_table, judged
from offpolicy.experiments.evaluation import accuracy
from offpolicy.experiments.ranking import accuracy as rankings
from offpolicy.experiments.ranking import rank_sums
from offpolicy.experiments.tables import short, to_csv
from offpolicy.experiments.worlds import ALL_READINGS, PAPER
from tests.support.experiments import GRID, flat, made_curves, measured_logs, ranked_curves, trading

BIAS = figure1.CLAIMS[0]


def rising():
    found = flat()
    found.bias["CAB"][:] = np.linspace(0.1, 1.0, len(GRID.M))
    return found


# -- claims ------------------------------------------------------------------------------------


def test_claims_are_judged_over_splits_in_every_reading():
    good, bad = trading(), rising()
    found = made_curves(good, good, good, one=[bad] * 3, other=[good, bad, good])
    row = judged([found], [BIAS])[0]
    assert (row.judged.verdict, row.judged.runs) == (HOLDS, 3)
    assert {name: one.verdict for name, one in row.readings.items()} == {
        PAPER: HOLDS, "one": FAILS, "other": OPEN,
    }  # fmt: skip
    assert str(row) == "holds 0 [0, 0]; 1/1/1; drawn 0"


def test_what_is_about_every_size_is_measured_at_the_worst():
    found = made_curves(trading())
    found.shown[200] = rising()
    assert BIAS.measured(found.shown, found.size, 0.0) == pytest.approx(9.0)  # from 0.1 to 1
    best = Claim("at one size", "", lambda accuracy: accuracy.best("CAB"), 0.0)
    at_one = best.measured(found.shown, found.size, 0.0)
    assert at_one == trading().best("CAB")  # at that of Figure 2


def test_claims_are_measured_from_both_starts():
    """What is wrong below 1 only is wrong from 0 on, and right from 1 on."""
    found = flat(CAB=np.where(GRID.M < 0.99, 2.0, 0.5))
    beats = next(claim for claim in figure2.CLAIMS if "full range" in claim.text)
    rows = judged([made_curves(*[found] * 3)], [beats])
    assert [(row.M_from, row.judged.verdict) for row in rows] == [(0.0, FAILS), (1.0, HOLDS)]
    assert tuple(row.M_from for row in rows) == STARTS


def test_what_has_no_such_estimator_has_no_such_claim():
    labelled, ranked = (
        {row.claim for row in judged([one], figure2.CLAIMS)}
        for one in (made_curves(flat()), ranked_curves(flat()))
    )
    assert labelled == {claim.text for claim in figure2.CLAIMS}
    assert {claim for claim in labelled if "DR" in claim} == labelled - ranked
    assert len(ranked) == 7


def test_the_table_has_a_row_for_each_claim_and_start():
    found = [made_curves(trading(), trading()), ranked_curves(rising(), rising())]
    lines = claims_table(judged(found, figure2.CLAIMS)).splitlines()
    assert lines[0] == "| claim | M from | a | ranks |"
    assert len(lines) == 2 + len(STARTS) * len(figure2.CLAIMS)
    (of_dr,) = (k for k, line in enumerate(lines) if line.startswith("| DR outperforms"))
    for line, start in zip(lines[of_dr:], STARTS, strict=False):
        assert f"| {start:g} | " in line
        assert line.endswith(" | – |")
    (line,) = claims_table(judged(found, [BIAS])).splitlines()[2:3]
    assert line == (
        f"| {BIAS.text}. {figure1.PLACE}: {BIAS.number}, at most 0.05 | 0 | "
        "holds 0 [0, 0]; 1/0/0; drawn 0 | fails 9 [9, 9]; 0/2/0; drawn 9 |"
    )


def test_every_reading_of_rankings_has_its_verdict():
    rows = judged([made_curves(*[flat()] * 2), ranked_curves(*[trading()] * 2)], figure1.CLAIMS)
    table = curves.readings_table(rows, ["ranks"]).splitlines()
    assert table[0].endswith(
        "| M from | ranks, average rank, logger of 1% | ranks, sum of ranks, logger of 1% |"
    )
    assert len(table) == 2 + 2 * len(figure1.CLAIMS)
    assert table[2].endswith("| 0 | holds 0 | holds 0 |")


def test_what_cannot_be_bounded_is_shown_with_its_sign():
    found = judge_one("a", [1.0, math.inf], 1.0, of_ratio=False)
    assert (found.verdict, found.numbers) == (OPEN, "∞ [−∞, ∞]")
    assert [short(x) for x in (math.inf, -math.inf, 0.123, -0.5, 1234.0)] == [
        "∞", "−∞", "0.12", "-0.5", "1e+03",
    ]  # fmt: skip


# -- what is drawn -----------------------------------------------------------------------------


def test_every_estimator_at_every_parameter_is_a_row():
    labelled, ranked = made_curves(flat(CAB=3.0)), ranked_curves(flat(SB=2.0))
    labelled.shown[500] = flat(CAB=5.0)
    rows = list(csv.DictReader(io.StringIO(to_csv(accuracy_rows([labelled, ranked])))))
    assert len(rows) == 3 * sum(
        len(GRID.of(name)) for name in (*accuracy.ESTIMATORS, *rankings.ESTIMATORS)
    )
    (one,) = (
        row for row in rows
        if (row["data"], row["size"], row["estimator"]) == ("a", "n = 500", "CAB")
        if row["parameter"] == "inf"
    )  # fmt: skip
    assert (float(one["variance"]), float(one["mse"]), float(one["exact_mse"])) == (5.0, 5.0, 3.0)
    (none,) = (row for row in rows if row["size"] == "1 sweep" and row["estimator"] == "DM")
    assert (none["parameter"], none["mse"], none["exact_mse"]) == ("", "1.0", "")
    assert {row["size"] for row in rows if row["data"] == "ranks"} == {
        "0.5 sweeps", "1 sweep", "5 sweeps",
    }  # fmt: skip


def test_labelled_sets_are_drawn_from_one_split_and_judged_on_all(clouds, tmp_path):
    reading = ALL_READINGS[5]
    settings = Settings(["clouds"], sizes=(50, 80), repeats=3, splits=2, reading=reading, seed=1)
    (found,) = curves.of_every_set(Cells(tmp_path / "cells"), settings)
    assert (found.data, found.closest, found.size, found.is_ranking) == (
        "clouds",
        reading,
        80,
        False,
    )
    assert sorted(found.readings) == sorted(ALL_READINGS)
    assert {len(splits) for splits in found.readings.values()} == {2}
    drawn = accuracy.run_one("clouds", 50, 3, reading, 1)
    assert found.shown[50].mse("SWITCH") == pytest.approx(drawn.repeated.mse("SWITCH"))
    assert found.exact[50].mse("SWITCH") == pytest.approx(drawn.exact.mse("SWITCH"))
    # The first split is the one that is drawn; there is no chance in what is judged.
    first, second = found.readings[reading]
    for n in (50, 80):
        assert first[n].mse("CAB") == pytest.approx(found.exact[n].mse("CAB"))
        assert second[n].mse("CAB") != pytest.approx(found.exact[n].mse("CAB"))
    assert [path.parent.name for path in (tmp_path / "cells").glob("*/*.txt")] == ["curves"]
    for row in judged([found], figure1.CLAIMS):
        assert len(row.readings) == 16
        assert row.judged.runs == 2


def test_readings_of_rankings_are_metrics_and_loggers(letor, tmp_path, monkeypatch):
    asked = []

    def of_logs(cells, data, repeats, splits):
        asked.append((data, repeats, list(splits)))
        return [
            measured_logs(split, data, logger, sweeps)
            for logger in curves.LOGGERS for split in splits for sweeps in curves.SWEEPS
        ]  # fmt: skip

    monkeypatch.setattr(curves, "of_logs", of_logs)
    settings = Settings(["mq2008"], repeats=50, splits=3, seed=2)
    (found,) = curves.of_every_set(Cells(tmp_path), settings)
    assert asked == [("MQ2008", 10, [2, 3, 4])]
    assert list(found.readings) == [
        "average rank, logger of 1%", "average rank, logger of 10%",
        "sum of ranks, logger of 1%", "sum of ranks, logger of 10%",
    ]  # fmt: skip
    assert found.closest == "average rank, logger of 1%"
    assert (found.size, found.is_ranking, found.exact) == (0.5, True, None)
    assert [found.named(size) for size in found.shown] == ["0.5 sweeps", "1 sweep", "5 sweeps"]
    one = measured_logs(2).curves["average rank"]
    assert found.shown[1.0].mse("CAB") == pytest.approx(one.mse("CAB"))  # all splits are equal here
    assert {len(splits) for splits in found.readings.values()} == {3}


def test_logs_of_rankings_are_of_every_logger_split_and_amount(letor, tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "SWEEPS", (1.0, 2.0))
    monkeypatch.setattr(curves, "LOGGERS", (0.1,))
    found = curves.of_logs(Cells(tmp_path), "MQ2008", 2, range(3, 4))
    assert [one.case for one in found] == [
        rankings.Case("MQ2008", 1, 0.1, 1.0, 3), rankings.Case("MQ2008", 1, 0.1, 2.0, 3),
    ]  # fmt: skip
    assert list(found[0].curves) == ["average rank", "sum of ranks"]
    assert len(found[0].curves["sum of ranks"].mse("CAB")) == len(rank_sums.GRID.M)
    assert not any(found[0].chosen.values())  # nothing is chosen unless asked for
