"""Differences of policies: paired errors, coverage, Holm, rows needed, refusals, every error."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy import errors
from offpolicy.cli.compare import command
from offpolicy.evaluation._compare import compare, holm
from offpolicy.intervals._closed_form import Interval
from offpolicy.results._comparison import CANNOT_TELL, IDENTICAL, LOGGED, NOT_DECIDED, Comparison
from tests.support.cases import bandit_log, cases
from tests.support.refusals import refuses

# -- logs ------------------------------------------------------------------------------------


class World:
    """A finite problem: contexts, a logger, two policies, click rates, a model that errs."""

    def __init__(self, seed: int = 3, contexts: int = 40, actions: int = 4) -> None:
        rng = np.random.default_rng(seed)
        shape = (contexts, actions)
        self.rate = rng.uniform(0.1, 0.7, shape)
        self.pi0 = rng.dirichlet(np.full(actions, 2.0), contexts)
        self.new = rng.dirichlet(np.full(actions, 2.0), contexts) * self.rate**1.5
        self.new /= self.new.sum(axis=1, keepdims=True)
        self.old = rng.dirichlet(np.full(actions, 2.0), contexts)
        self.model = np.clip(self.rate + 0.15 * rng.standard_normal(shape), 0.0, 1.0)

    def value(self, policy: str) -> float:
        pi = self.pi0 if policy == LOGGED else getattr(self, policy)
        return float((pi * self.rate).sum() / len(pi))

    def draw(self, n: int, seed: object, **columns: object):
        """(log, {"new": …, "old": …}, prediction)."""
        rng = np.random.default_rng(seed)
        x = rng.integers(0, len(self.rate), n)
        edges = np.cumsum(self.pi0[x], axis=1)
        edges[:, -1] = 1.0
        action = (rng.random(n)[:, None] >= edges).sum(axis=1)
        click = rng.random(n) < self.rate[x, action]
        log = op.BanditLog.from_arrays(action=action, reward=click, logging=self.pi0[x], **columns)
        return log, {"new": self.new[x], "old": self.old[x]}, self.model[x]


WORLD = World()


@pytest.fixture(scope="module")
def drawn():
    return WORLD.draw(600, 1)


@pytest.fixture(scope="module")
def compared(drawn) -> Comparison:
    log, policies, model = drawn
    return compare(log, policies, prediction=model)


def odd_log(n: int = 400, **columns: object) -> op.BanditLog:
    """Four actions, of which the logger never takes the last."""
    rng = np.random.default_rng(5)
    action = rng.integers(0, 3, n)
    click = rng.random(n) < np.array([0.1, 0.3, 0.8])[action]
    logging = np.tile([1 / 3, 1 / 3, 1 / 3, 0.0], (n, 1))
    return op.BanditLog.from_arrays(action=action, reward=click, logging=logging, **columns)


def always(log: op.BanditLog, *pi: float) -> np.ndarray:
    return np.tile(np.array(pi), (len(log), 1))


# -- in simulation ---------------------------------------------------------------------------


def _between(n: int, seed: object, **options: object) -> Comparison:
    log, policies, model = WORLD.draw(n, seed)
    return compare(log, policies, prediction=model, baseline="old", **options)


@pytest.fixture(scope="module")
def repeats():
    return [_between(500, [9, k])["new", "old"] for k in range(250)]


def test_coverage_of_the_difference(repeats):
    # 250 repeats: the share that covers is known to 1.4 points. The interval is a cautious one,
    # yet at most 1.7 times as wide as need be.
    truth = WORLD.value("new") - WORLD.value("old")
    assert np.mean([truth in row.interval for row in repeats]) >= 0.93
    spread = np.std([row.value for row in repeats], ddof=1)
    assert np.mean([row.interval.width for row in repeats]) / (2.0 * 1.96) < 1.7 * spread


def test_the_standard_error_is_the_spread_between_logs(repeats):
    # Known to 4.5 %; without the rows' part in the fit it would be less than half of that.
    spread = np.std([row.value for row in repeats], ddof=1)
    stated = math.sqrt(np.mean([row.stderr**2 for row in repeats]))
    assert 0.85 < stated / spread < 1.2


# -- laws ------------------------------------------------------------------------------------


def test_a_policy_does_not_differ_from_itself(drawn):
    log, policies, model = drawn
    found = compare(log, {"a": policies["new"], "b": policies["new"]}, prediction=model)["a", "b"]
    assert (found.value, found.stderr, found.p_value) == (0.0, 0.0, 1.0)
    assert (found.verdict, found.rows_needed, found.rows_needed_80) == (
        IDENTICAL, math.inf, math.inf,
    )  # fmt: skip
    assert found.interval == (0.0, 0.0)
    assert found.sentence() == "a and b are identical on this log."


def test_exchanging_the_two_changes_the_sign(compared):
    one, other = compared["new", "old"], compared["old", "new"]
    assert (other.first, other.second) == ("old", "new")
    assert other.value == -one.value
    assert other.interval == Interval(-one.interval.high, -one.interval.low)
    assert (other.p_value, other.verdict) == (one.p_value, one.verdict)
    assert -other == one
    decided = _between(4000, 16)
    assert decided["new", "old"].sentence() == decided["old", "new"].sentence()


def test_the_order_of_policies_does_not_matter(drawn, compared):
    log, policies, model = drawn
    turned = compare(log, dict(reversed(policies.items())), prediction=model)
    assert turned["new", "old"] == compared["new", "old"]
    assert turned["new", LOGGED] == compared["new", LOGGED]


def test_values_add_up(drawn, compared):
    log, policies, model = drawn
    path = compared["new", LOGGED].value + compared[LOGGED, "old"].value
    assert path == pytest.approx(compared["new", "old"].value, abs=1e-12)
    result = op.evaluate(log, policies, prediction=model)
    for ours, theirs in zip(compared.headlines, result.headlines, strict=True):
        assert ours == theirs
        gap = theirs.value - result.logged.value
        assert compared[theirs.policy, LOGGED].value == pytest.approx(gap, abs=1e-12)
    assert compared.logged == result.logged


@given(cases(smallest=2), st.booleans())
@settings(max_examples=40, deadline=None)
def test_odd_logs(case, with_model):
    log = case.log
    other = np.concatenate([np.full(k, 1.0 / k) for k in np.diff(case.offsets)])
    model = case.delta_hat if with_model else None
    try:
        found = compare(log, {"a": case.pi, "b": other}, prediction=model)
    except errors.SupportError:
        return
    size = max(1.0, float(np.abs(log.reward).max()))
    values = {row.policy: row.value for row in found.headlines} | {LOGGED: found.logged.value}
    for row in found:
        gap = values[row.first] - values[row.second]
        assert row.value == pytest.approx(gap, abs=1e-9 * size)
        assert row.value in row.interval
        assert row.stderr >= 0.0
        assert 0.0 < row.p_value <= row.adjusted_p_value <= 1.0
        assert row.verdict in (CANNOT_TELL, IDENTICAL)  # eight rows never tell
        assert row.rows_needed >= 1.0
        assert row.rows_needed_80 >= row.rows_needed
    assert Comparison.from_json(found.to_json()) == found
    assert found.best == LOGGED
    assert found.can_tell == any(row.verdict == IDENTICAL for row in found)


# -- multiplicity ----------------------------------------------------------------------------


def rejected(p_values: list[float], alpha: float) -> set[int]:
    """Holm's procedure as he wrote it: step down until one is kept."""
    left = list(range(len(p_values)))
    out: set[int] = set()
    while left:
        best = min(left, key=lambda j: p_values[j])
        if p_values[best] > alpha / len(left):
            break
        out.add(best)
        left.remove(best)
    return out


@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=8), st.floats(0.001, 0.5))
def test_holm_is_the_step_down_procedure(p_values, alpha):
    adjusted = holm(p_values)
    near = [abs(p - alpha) < 1e-9 for p in adjusted]
    if not any(near):
        assert {j for j, p in enumerate(adjusted) if p <= alpha} == rejected(p_values, alpha)
    assert all(p <= q <= 1.0 for p, q in zip(p_values, adjusted, strict=True))


def test_holm_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_the_intervals_of_three_pairs_are_wider(drawn, compared):
    log, policies, model = drawn
    alone = compare(log, policies, prediction=model, multiplicity="none")
    level = 1.0 - 0.05 / 3
    each = compare(log, policies, prediction=model, multiplicity="none", level=level)
    for row in compared:
        pair = row.first, row.second
        assert row.interval == pytest.approx(each[pair].interval)
        assert row.interval.width > alone[pair].interval.width
        assert row.p_value == alone[pair].p_value == alone[pair].adjusted_p_value
    assert [row.adjusted_p_value for row in compared] == holm([row.p_value for row in compared])


def test_a_level_too_near_to_1_for_many_pairs(drawn):
    log, policies, _ = drawn
    with refuses(errors.ParameterError, "level"):
        compare(log, policies, level=1 - 4e-12)
    assert len(compare(log, policies, level=1 - 4e-12, multiplicity="none")) == 3


def test_decided_by_holm_alone_says_so(compared):
    row = compared["new", "old"]
    fields = {name: getattr(row, name) for name in row.__slots__}
    odd = type(row)(**fields | {"value": 0.1, "interval": Interval(-0.01, 0.2),
                                "adjusted_p_value": 0.04, "rows_needed": None,
                                "verdict": "new is better than old"})  # fmt: skip
    assert odd.sentence() == (
        "new is better than old by 0.1 [-0.01, 0.2]. The interval holds 0 because it is the more "
        "cautious of two rules (Bonferroni's); the adjusted p, 0.04 (Holm's), decides."
    )
    table, note = str(replace(compared, differences=(odd,) * 2)).split("\n\n")[1:]
    assert [line.rstrip()[-1] for line in table.splitlines()[2:]] == ["*", "*"]
    assert "\n* Decided by the adjusted p (Holm), though the interval" in note


def test_the_smallest_p_is_shown_as_a_limit(compared):
    row = replace(compared["new", "old"], p_value=2e-12, adjusted_p_value=6e-12)
    assert " < 2e-12     < 6e-12 " in replace(compared, differences=(row,)).to_text()
    row = replace(row, p_value=3e-12)
    assert "<" not in replace(compared, differences=(row,)).to_text()


# -- rows needed -----------------------------------------------------------------------------


def test_rows_needed_decide_about_half_the_time():
    # Of 60 small logs those whose estimate is near to the truth are asked.
    truth, n = WORLD.value("new") - WORLD.value("old"), 100
    asked = [_between(n, [14, k])["new", "old"] for k in range(60)]
    near = [row for row in asked if row.verdict == NOT_DECIDED and abs(row.value / truth - 1) < 0.2]
    assert len(near) > 5
    half, most = [], []
    for k, row in enumerate(near):
        assert 20 <= row.rows_needed < row.rows_needed_80 < 5000
        for rows, decided in ((row.rows_needed, half), (row.rows_needed_80, most)):
            again = (_between(n + int(rows), [15, k, j])["new", "old"] for j in range(8))
            decided += [one.better == "new" for one in again]
    assert 0.35 <= np.mean(half) <= 0.8
    assert 0.65 <= np.mean(most) <= 0.99


def test_rows_needed_are_none_when_decided_and_round_otherwise():
    found = _between(4000, 16)["new", "old"]
    assert (found.verdict, found.rows_needed, found.rows_needed_80) == (
        "new is better than old", None, None,
    )  # fmt: skip
    small = _between(100, [14, 1])["new", "old"]
    for rows in (small.rows_needed, small.rows_needed_80):
        digits = str(int(rows)).rstrip("0")
        assert len(digits) <= 2
        assert rows == int(rows)
    assert "more rows would decide it with a chance of one half" in small.sentence()


def test_rows_needed_are_those_of_holm_s_next_step():
    """Where all other pairs are decided, the last one is judged as if it were alone."""
    n, rng = 3000, np.random.default_rng(3)
    action = rng.integers(0, 3, n)
    reward = rng.random(n) < np.array([0.2, 0.5, 0.53])[action]
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=[[1 / 3] * 3] * n)
    tables = {name: np.tile(np.eye(3)[k], (n, 1)) for k, name in enumerate(["a", "b", "c"])}
    three = op.compare(log, tables)
    assert [row.decided for row in three.differences].count(False) == 1
    last, alone = three["b", "c"], op.compare(log, tables, multiplicity="none")["b", "c"]
    assert not alone.decided
    assert last.interval.width > alone.interval.width
    assert (last.rows_needed, last.rows_needed_80) == (alone.rows_needed, alone.rows_needed_80)


# -- when the log cannot tell ----------------------------------------------------------------


def test_few_rewarded_rows():
    log, policies, _ = WORLD.draw(25, 17)
    found = compare(log, policies)
    assert [row.verdict for row in found] == [CANNOT_TELL] * 3
    assert not found.can_tell
    reason = found["new", "old"].reason
    assert reason.startswith("new: only about ")
    assert "rewarded rows stand behind this number" in reason
    # Ten times as many at most, for 20 rewarded rows at least: a number can be foretold.
    assert all(1.0 <= row.rows_needed <= row.rows_needed_80 for row in found)
    assert math.isfinite(found["new", "old"].rows_needed)


def test_what_the_logger_never_does():
    log = odd_log()
    lost = always(log, 0.1, 0.1, 0.2, 0.6)
    plain = always(log, 0.3, 0.3, 0.3, 0.1)
    found = compare(log, {"a": lost, "b": plain})["a", "b"]
    assert (found.verdict, found.rows_needed) == (CANNOT_TELL, math.inf)
    assert found.reason.startswith("50.0% of their probability is where they differ and the logger")
    assert "could put the difference anywhere from -" in found.reason
    assert found.reason.endswith("log some decisions that explore these candidates.")
    assert found.interval.width > 0.5


def test_what_both_do_where_the_logger_never_goes_cancels():
    log = odd_log()
    low, high = always(log, 0.6, 0.2, 0.0, 0.2), always(log, 0.0, 0.2, 0.6, 0.2)
    found = compare(log, {"low": low, "high": high})
    assert found["low", "high"].verdict == "high is better than low"
    assert found["low", "high"].interval.width < 0.4
    assert 0.3 < found["high", "low"].value < 0.55


def test_the_worst_case_by_hand():
    log = odd_log(3000)
    some, none = always(log, 0.3, 0.3, 0.3, 0.1), always(log, 0.35, 0.35, 0.3, 0.0)
    narrow = compare(log, {"a": some, "b": none}, baseline="b", reward_range=(0, 1))["a", "b"]
    wide = compare(log, {"a": some, "b": none}, baseline="b", reward_range=(-4, 5))["a", "b"]
    # Of the 0.1 that only a puts there, each unit of reward moves the difference by 0.1.
    assert wide.interval.width - narrow.interval.width == pytest.approx(0.1 * 8, abs=0.05)


def test_a_refused_headline_speaks_for_the_pair_with_logged():
    log = odd_log(300)
    found = compare(log, {"a": always(log, 0.25, 0.25, 0.3, 0.2)}, baseline=LOGGED)
    assert not found.headlines[0].can_tell
    assert found["a", LOGGED].verdict == CANNOT_TELL
    assert found["a", LOGGED].rows_needed == math.inf
    assert found.best is None or found.best == LOGGED


def test_one_cluster_says_nothing():
    log, policies, _ = WORLD.draw(400, 18, cluster=np.zeros(400, dtype=int))
    found = compare(log, policies)["new", "old"]
    assert found.interval == Interval(-1.0, 1.0)
    assert (found.p_value, found.verdict, found.rows_needed) == (1.0, CANNOT_TELL, math.inf)
    assert found.reason.startswith("The standard error is infinite: there is only one cluster")


def test_a_policy_known_through_draws_has_a_wider_interval():
    log, policies, _ = WORLD.draw(400, 19)
    edges = np.cumsum(policies["new"], axis=1)

    def draw(log: op.BanditLog, rng: np.random.Generator) -> np.ndarray:
        return (rng.random((len(log), 1)) >= edges[:, :-1]).sum(axis=1)

    few, many = (
        compare(log, {"new": op.MonteCarlo(draw, draws=k, seed=1), "old": policies["old"]})
        for k in (10, 1000)
    )
    sure = compare(log, policies)["new", "old"]
    assert few.headlines[0].policy_stderr > many.headlines[0].policy_stderr > 0.0
    assert few["new", "old"].interval.width > sure.interval.width
    assert many["new", "old"].value == pytest.approx(sure.value, abs=0.02)


def test_probabilities_of_the_chosen_only():
    log, policies, _ = WORLD.draw(500, 20)
    rows = np.arange(len(log))
    thin = op.BanditLog.from_arrays(action=log.chosen, reward=log.reward, propensity=log.propensity)
    known = {name: pi[rows, log.chosen] for name, pi in policies.items()}
    found = compare(thin, known)["new", "old"]
    assert WORLD.value("new") - WORLD.value("old") in found.interval
    assert found.stderr > 0.0


# -- the best --------------------------------------------------------------------------------


def test_the_best_and_its_contenders():
    log = odd_log(2000)
    policies = {
        "good": always(log, 0.1, 0.2, 0.7, 0.0),
        "alike": always(log, 0.15, 0.13, 0.72, 0.0),
        "bad": always(log, 0.7, 0.2, 0.1, 0.0),
    }
    found = compare(log, policies)
    assert found.best in ("good", "alike")
    assert found.contenders in (("alike",), ("good",))
    assert found.policies == ("good", "alike", "bad", LOGGED)
    assert compare(log, {"bad": policies["bad"]}).best == LOGGED
    assert compare(log, {"bad": policies["bad"]}).contenders == ()


def test_a_baseline_is_compared_with_all_others_only(drawn, compared):
    log, policies, model = drawn
    found = compare(log, policies | {"third": policies["old"]}, prediction=model, baseline="old")
    assert [(row.first, row.second) for row in found] == [("new", "old"), ("third", "old")]
    assert found.policies == ("new", "old", "third")
    assert found["new", "old"].value == compared["new", "old"].value
    logged = compare(log, policies, prediction=model, baseline=LOGGED)
    assert [(row.first, row.second) for row in logged] == [("new", LOGGED), ("old", LOGGED)]
    with pytest.raises(errors.ParameterError) as raised:
        found["new", "third"]
    assert str(raised.value) == '"new" and "third" were not compared: the baseline is "old".'


# -- errors ----------------------------------------------------------------------------------

PI = np.array([[0.9, 0.1]] * 4)


@pytest.fixture
def tiny() -> op.BanditLog:
    return bandit_log([0, 1, 0, 1], [1, 0, 1, 1], [0.5, 0.5])


@pytest.mark.parametrize(
    ("argument", "policies", "options"),
    [
        ("policy", {}, {}),
        ("policy", [PI, PI], {}),
        ("policy", {1: PI, "1": PI}, {}),
        ("policy", {"logged": PI}, {}),
        ("baseline", {"new": PI, "old": PI}, {"baseline": "olb"}),
        ("baseline", {"new": PI}, {"baseline": "new"}),
        ("multiplicity", {"new": PI}, {"multiplicity": "bonferroni"}),
        ("level", {"new": PI}, {"level": 1.5}),
    ],
    ids=["none", "list", "same name", "logged", "unknown", "alone", "multiplicity", "level"],
)
def test_arguments(tiny, argument, policies, options):
    with refuses(errors.ParameterError, argument):
        compare(tiny, policies, **options)


def test_no_propensity_no_overlap_no_log(tiny):
    bare = op.BanditLog.from_arrays(action=[0, 1], reward=[1, 0], actions=2)
    with refuses(errors.MissingColumnError, "propensity"):
        compare(bare, {"new": PI[:2]})
    never = op.BanditLog.from_arrays(action=[0, 0], reward=[1, 0], logging=[[0.5, 0.5]] * 2)
    with refuses(errors.SupportError, "new"):
        compare(never, {"new": [[0.0, 1.0]] * 2})
    with refuses(errors.LogError, "frame"):
        compare(5, {"new": PI})


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("new", 'Ask for two policies: comparison["new", "old"].'),
        (("new", "old", "x"), 'Ask for two policies: comparison["new", "old"].'),
        (
            ("nwe", "old"),
            'There is no policy "nwe". Did you mean "new"? The policies are new, old, logged.',
        ),
        (("new", "new"), '"new" is not compared with itself.'),
    ],
)
def test_indexing(compared, key, message):
    with pytest.raises(errors.ParameterError) as raised:
        compared[key]
    assert str(raised.value) == message


# -- as text and as data ---------------------------------------------------------------------


def test_as_text():
    found = _between(4000, 16)
    row = found["new", "old"]
    low, high = row.interval
    sentence = f"new is better than old by {row.value:.3g} [{low:.3g}, {high:.3g}]."
    assert row.sentence() == str(row) == found.sentence() == sentence
    first, _, head, line, cells, _, note = str(found).splitlines()
    assert first == sentence
    assert head.split() == [
        "first", "second", "difference", "stderr", "low", "0.95", "high", "0.95", "p",
        "adjusted", "p", "rows", "needed", "verdict",
    ]  # fmt: skip
    assert set(line) == {"─", " "}
    assert cells.split()[:2] == ["new", "old"]
    assert cells.endswith("–  new is better than old")
    assert note == "Each interval covers the difference of two policies' values by itself."


def test_the_sentences_are_about_the_best(compared):
    assert compared.best == "new"
    lines = compared.sentence().splitlines()
    assert len(lines) == 2
    assert all(line.startswith("new ") for line in lines)
    note = "\n\nThe 3 intervals hold together (Bonferroni); verdicts and adjusted p by Holm."
    assert note in str(compared)


class Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def test_names_are_no_markup(drawn):
    log, policies, _ = drawn
    name = "<script>alert(1)</script>"
    page = Texts()
    page.feed(compare(log, {name: policies["new"]})._repr_html_())
    assert page.tags.isdisjoint({"script", "img", "iframe"})
    assert name in page.cells


def test_json_is_the_same_every_time_and_reads_back(drawn, compared, tmp_path):
    log, policies, model = drawn
    path = tmp_path / "comparison.json"
    text = compared.to_json(path)
    assert path.read_text(encoding="utf-8") == text
    assert compare(log, policies, prediction=model).to_json() == text
    assert Comparison.from_json(text) == compared
    assert json.loads(text)["schema"] == "offpolicy.comparison/1"
    lost = odd_log()
    odd = compare(lost, {"inf": always(lost, 0.1, 0.1, 0.2, 0.6)})
    again = Comparison.from_json(odd.to_json())
    assert again == odd
    assert again["inf", LOGGED].rows_needed == math.inf


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "This is not a comparison: no JSON object with a schema."),
        ("{", "This is not a comparison: no JSON object with a schema."),
        (
            '{"schema": "offpolicy.result/1"}',
            'The schema is "offpolicy.result/1"; this version reads "offpolicy.comparison/1".',
        ),
        (
            '{"schema": "offpolicy.comparison/1"}',
            "The comparison is damaged (KeyError: 'differences').",
        ),
    ],
)
def test_json_of_something_else(text, message):
    with pytest.raises(errors.ResultError) as raised:
        Comparison.from_json(text)
    assert str(raised.value) == message


def test_json_without_differences(compared):
    body = json.loads(compared.to_json()) | {"differences": []}
    with pytest.raises(errors.ResultError, match=r"damaged \(.*it holds no differences\)"):
        Comparison.from_json(json.dumps(body))


def test_frame(compared):
    frame = pl.from_arrow(compared.to_arrow())
    assert frame.columns == [
        "first", "second", "value", "low", "high", "stderr", "p_value", "adjusted_p_value",
        "verdict", "reason", "rows_needed", "rows_needed_80",
    ]  # fmt: skip
    assert frame["value"].to_list() == [row.value for row in compared]
    assert frame["low"].to_list() == [row.interval.low for row in compared]


# -- the command line ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parquet(tmp_path_factory, drawn):
    log, policies, model = drawn
    frame = pl.DataFrame(
        {
            "action": log.chosen,
            "reward": log.reward,
            "logging": log.logging.reshape(len(log), -1).tolist(),
            "new": policies["new"].tolist(),
            "old": policies["old"].tolist(),
            "q": model.tolist(),
        }
    )
    path = tmp_path_factory.mktemp("compare") / "log.parquet"
    frame.write_parquet(path)
    frame[:15].write_parquet(path.with_name("short.parquet"))
    return path


BOTH = ["--policy", "new", "--policy", "old"]


def test_command(parquet, compared):
    run = CliRunner().invoke(command, [str(parquet), *BOTH, "--prediction", "q"])
    assert run.exit_code == 0, run.output
    assert run.stdout == f"{compared}\n"
    run = CliRunner().invoke(
        command, [str(parquet), *BOTH, "--prediction", "q", "--format", "json"]
    )
    assert Comparison.from_json(run.stdout) == compared
    run = CliRunner().invoke(command, [str(parquet), *BOTH, "--baseline", "old", "--format", "tsv"])
    head, row = run.stdout.splitlines()
    assert head.split("\t")[:3] == ["first", "second", "value"]
    assert row.split("\t")[:2] == ["new", "old"]


def test_command_exit_codes(parquet):
    short = str(parquet.with_name("short.parquet"))
    run = CliRunner().invoke(command, [short, *BOTH])
    assert run.exit_code == 1
    assert CANNOT_TELL in run.stdout
    run = CliRunner().invoke(command, [short, "--policy", "new", "--policy", "new"])
    assert run.exit_code == 2
    assert "Two policies are named" in run.stderr
