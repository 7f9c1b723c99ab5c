"""`learn`: what decisions held out say of the policy, beside always taking the best action."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import offpolicy as op
from offpolicy.intervals import Interval
from offpolicy.learning import LearnedPolicy, SoftmaxLearner, learn, split
from offpolicy.report.document import Results
from offpolicy.results import Difference
from tests.support.pages import Page

COLUMNS = op.Columns(propensity=1 / 3, context=["x*"])
TAKEN = {"a": 0.3, "b": 0.4, "c": 0.35}


def table(n: int = 4_000, *, useful: float = 0.0, noise: int = 0, seed: int = 0) -> pa.Table:
    """Rewards by action, b the best; a context that matters as much as is ``useful``, and some
    that are ``noise``."""
    rng = np.random.default_rng(seed)
    x, code = rng.standard_normal((n, 2)), rng.integers(0, 3, n)
    mean = np.array(list(TAKEN.values()))[code] + useful * np.sign(x[:, 0]) * (code - 1)
    return pa.table({
        "action": np.array(list(TAKEN))[code], "reward": (rng.random(n) < mean).astype(float),
        "x0": x[:, 0], "x1": x[:, 1],
    } | {f"x_{k}": rng.standard_normal(n) for k in range(noise)})  # fmt: skip


def learned_from(given: pa.Table, **options) -> LearnedPolicy:
    return learn(SoftmaxLearner(), op.BanditLog.from_frame(given, COLUMNS), **options)


def test_the_difference_is_the_one_that_compare_finds_on_what_was_held_out():
    log, learner = op.BanditLog.from_frame(table(), COLUMNS), SoftmaxLearner()
    learned = learn(learner, log)
    held = split(learned_log := log.with_found_arms(log.find_arms()), 0.2)[1]
    assert len(learned_log) == len(log)
    two = {"policy": learner.policy_, "always b": ":always(b)"}
    slow = op.compare(held, two, multiplicity="none", prediction=True)
    fast = learned.constant.difference
    expected = slow["policy", "always b"]
    for name in ("value", "stderr", "p_value"):
        assert getattr(fast, name) == pytest.approx(getattr(expected, name), rel=1e-9)
    np.testing.assert_allclose(fast.interval, expected.interval, rtol=1e-9)
    assert learned.comparison["policy", "logged"].interval == pytest.approx(
        learned.result.headline.versus_logged
    )
    alone = op.evaluate(held, {"policy": learner.policy_}, prediction=True)
    assert learned.result.headline.value == pytest.approx(alone.headline.value, rel=1e-12)
    assert learned.result.policies == ("policy",)


def test_where_contexts_say_little_the_simple_rule_is_kept():
    learned = learned_from(table(useful=0.05, noise=10))
    assert learned.constant.action == "b"
    assert "policy is not told apart from always b" in str(learned)
    assert "Keep always b, which is simpler" in str(learned)
    again = LearnedPolicy.from_json(learned.to_json())
    assert again == learned
    page = Page(Results((learned,)).to_html())
    assert "Keep always b" in page.text
    assert "policy − always b" in page.text


def test_contexts_that_matter_are_better_than_any_single_action():
    learned = learned_from(table(useful=0.3))
    gap = learned.constant.difference
    assert gap.better == "policy"
    assert gap.interval.low > 0.0
    assert "policy is better than always " in str(learned)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verdict": "identical"}, "is always b, or nearly so"),
        ({"value": -0.1, "interval": Interval(-0.2, -0.05), "rows_needed": None},
         "worse than always b"),
        ({"verdict": "this log cannot tell", "reason": "No rows.",
          "interval": Interval(-1.0, 1.0)}, "cannot tell (No rows.)"),
    ],
)  # fmt: skip
def test_every_verdict_is_told(change: dict[str, object], said: str):
    constant = learned_from(table(600, useful=0.05)).constant
    gap: Difference = replace(constant.difference, **change)
    assert said in replace(constant, difference=gap).verdict


def test_the_best_action_is_not_one_that_was_lucky_once():
    """A reward of 1 in one row does not beat .5 in a thousand."""
    rng = np.random.default_rng(3)
    logging = np.tile([0.3, 0.4, 0.299, 0.001], (3_000, 1))
    action = np.array([rng.choice(4, p=row) for row in logging])
    reward = (action == 3) | (rng.random(3_000) < 0.3 + 0.1 * (action == 1))
    log = op.BanditLog.from_arrays(
        action=action, reward=reward, logging=logging, context=rng.standard_normal((3_000, 1))
    )
    assert 0 < (action == 3).sum() < 10
    assert learn(SoftmaxLearner(), log).constant.action == "1"


def test_nothing_held_out_is_not_compared():
    assert learned_from(table(), holdout=0.0).comparison is None


def test_the_verdict_on_training_rows_says_that_it_is_optimistic(tmp_path):
    log, learner = op.BanditLog.from_frame(table(useful=0.3), COLUMNS), SoftmaxLearner()
    learn(learner, log)
    policies = {"learned": learner.policy_, "plain": ":always(b)"}
    result, compared = op.evaluate(log, policies), op.compare(log, policies)
    lines = result.sentence().splitlines()
    assert lines[0].startswith(
        "learned (measured on its training data, which is optimistic) is better than what ran"
    )
    assert "training data" not in "".join(lines[1:])
    assert compared.sentence().startswith("Measured on training data, which is optimistic: learned")
    for found, verdict in ((result, "Better than what ran"), (compared, "is better than plain")):
        head = Page(found.to_html()).text
        assert head.index("training data, which is optimistic") < head.index(verdict)
    other = op.BanditLog.from_frame(table(useful=0.3, seed=1), COLUMNS)
    assert "optimistic" not in op.evaluate(other, policies).sentence()
    assert "optimistic" not in op.compare(other, policies).sentence()
