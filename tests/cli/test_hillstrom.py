"""A randomised e-mail test, from its CSV as it is, in one command for each reward."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import stats

from offpolicy.cli import cli

HILLSTROM = Path(os.environ.get("OFFPOLICY_DATA", "")) / "logs/hillstrom/hillstrom.csv.gz"
pytestmark = pytest.mark.skipif(not HILLSTROM.is_file(), reason="needs logs/hillstrom")
ARMS = ("Mens E-Mail", "No E-Mail", "Womens E-Mail")
RULE = "case when womens = 1 then 'Womens E-Mail' else 'Mens E-Mail' end"
CONTEXTS = ("recency", "history", "mens", "womens", "zip_code", "newbie", "channel")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.read_csv(HILLSTROM)


@pytest.mark.parametrize("reward", ["visit", "conversion", "spend"])
def test_the_model_alone_is_within_two_percent(frame, reward):
    """DM, around the built-in model, of every arm; numbers, text and truth values as they are."""
    contexts = (*CONTEXTS, "history_segment")
    words = [word for name in contexts for word in ("--context", name)]
    words += [word for arm in ARMS for word in ("--policy", f":always({arm})")]
    common = ["--action", "segment", "--propensity", "1/3", "--format", "json", "-e", "DM"]
    outcome = CliRunner().invoke(
        cli, ["evaluate", str(HILLSTROM), *common, "--reward", reward, *words]
    )
    assert outcome.exit_code == 0, outcome.stderr
    result = json.loads(outcome.stdout)
    for row in result["estimates"]:
        arm = row["policy"].removeprefix("always(").removesuffix(")")
        mean = frame.loc[frame.segment == arm, reward].mean()
        assert row["value"] == pytest.approx(mean, rel=0.02), row["policy"]
    # Of so rare a thing as an order these contexts say nothing.
    assert (result["trained"]["kind"] == "mean per action") == (reward != "visit")
    assert result["trained"]["fit"] == result["trained"]["tried"][result["trained"]["kind"]]


def test_a_policy_is_learned_from_any_column(frame, tmp_path):
    contexts = (*CONTEXTS, "history_segment")
    words = [word for name in contexts for word in ("--context", name)]
    out = str(tmp_path / "policy.json")
    common = ["--action", "segment", "--propensity", "1/3", "--reward", "visit", "--format", "json"]
    outcome = CliRunner().invoke(cli, ["learn", str(HILLSTROM), *common, *words, "-o", out])
    assert outcome.exit_code == 0, outcome.stderr
    learned = json.loads(outcome.stdout)
    head, constant = learned["result"]["headlines"][0], learned["constant"]
    assert learned["context"] == 8
    assert constant["action"] == "Mens E-Mail"
    # Both are about the 12,646 decisions held out, where men's e-mails earned .18 ± .006.
    assert 0.165 < constant["value"] < 0.20
    assert head["value"] > constant["value"] - 0.5 * (head["interval"][1] - head["interval"][0])
    assert head["versus_logged"][0] > 0.0


def evaluated(*words: str) -> dict[str, dict]:
    common = ["--action", "segment", "--propensity", "1/3", "--format", "json"]
    outcome = CliRunner().invoke(
        cli, ["evaluate", str(HILLSTROM), *common, *words], catch_exceptions=False
    )
    assert outcome.exit_code == 0, outcome.stderr
    return {head["policy"]: head for head in json.loads(outcome.stdout)["headlines"]}


@pytest.mark.parametrize("context", [(), CONTEXTS], ids=["plain", "contexts"])
@pytest.mark.parametrize("reward", ["visit", "conversion", "spend"])
def test_arms_and_a_rule_are_worth_the_means_of_their_rows(frame, reward, context):
    words = [word for name in context for word in ("--context", name)]
    for arm in ARMS:
        words += ["--policy", f":always({arm})"]
    heads = evaluated("--reward", reward, *words, "--policy", f"targeted=:rule({RULE})")
    matched = {f"always({arm})": frame.segment == arm for arm in ARMS}
    shown = np.where(frame.womens == 1, "Womens E-Mail", "Mens E-Mail")
    matched["targeted"] = frame.segment == shown
    assert set(heads) == set(matched)
    for name, rows in matched.items():
        values = frame.loc[rows, reward].to_numpy(float)
        mean, stderr = values.mean(), values.std(ddof=1) / np.sqrt(len(values))
        reference = 2.0 * stats.t.ppf(0.975, len(values) - 1) * stderr
        interval = heads[name]["interval"]
        width = interval[1] - interval[0]
        assert abs(heads[name]["value"] - mean) < 0.25 * stderr
        assert 0.85 <= width / reference <= 1.10
