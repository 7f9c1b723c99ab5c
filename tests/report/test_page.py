"""The page: what it says, what it holds, and that names are never markup."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import offpolicy as op
from offpolicy import errors
from offpolicy.cli import cli
from offpolicy.intervals import Interval
from offpolicy.report.document import Results
from offpolicy.report.html import numbers as figures
from offpolicy.report.html.markup import Markup, data_block, element, escaped, plain
from offpolicy.report.html.provenance import File, Provenance
from offpolicy.report.sections.estimates import forest_chart
from offpolicy.report.svg.charts import Row, sparkline
from offpolicy.report.svg.scales import around, linear, with_room_for
from offpolicy.results import FEW_EFFECTIVE, Finding
from tests.support.pages import (
    HOSTILE,
    IMAGE,
    MARKS,
    SCRIPT,
    Page,
    compared,
    evaluated,
    problem,
    unsupported,
)
from tests.support.refusals import refuses

SECTIONS = [
    "answer", "warnings", "estimators", "curve", "weights", "support", "model", "order",
    "differences", "again",
]  # fmt: skip


# -- markup ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_never_markup(text):
    page = Page(element("p", text, title=text))
    assert page.tags == ["p"]
    assert page.events == []
    assert len(escaped(text)) < 10_000


def test_what_steers_the_display_is_shown_by_its_number():
    assert plain("a\u202eb") == "a⟨U+202E⟩b"
    assert plain("\x00\x00\x00") == "⟨U+0000 × 3⟩"
    assert plain("\ud800") == "⟨U+D800⟩"
    assert plain(MARKS, 80) == "⟨U+202E × 80⟩… (1,000,000 characters)"
    assert plain("tea\tand\nmilk, Tee, чай, شاي, 茶, 🫖") == "tea\tand\nmilk, Tee, чай, شاي, 茶, 🫖"


def test_markup_is_taken_as_it_is_and_nothing_else():
    assert element("p", Markup("<b>x</b>"), "<b>") == "<p><b>x</b>&lt;b&gt;</p>"
    assert element("input", value='"', hidden=True, for_=None) == '<input value="&quot;" hidden>'
    assert (
        element("p", class_="a", aria_label="b", x=1.5)
        == '<p class="a" aria-label="b" x="1.5"></p>'
    )


def test_no_text_ends_a_data_block():
    block = data_block(json.dumps({"name": SCRIPT + "<!--<script>"}), id="x")
    assert block.count("<") == 2
    inner = block[block.index(">") + 1 : block.rindex("<")]
    assert json.loads(inner) == {"name": SCRIPT + "<!--<script>"}


# -- numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [(0.492, 0.510, "[0.492, 0.510]"), (-0.0001, 2.0, "[0.0, 2.0]"),
     (-math.inf, 5.0, "[−∞, 5.0000]"), (100.0, 900.0, "[100, 900]"), (1e9, 3e9, "[1e+09, 3e+09]")],
)  # fmt: skip
def test_intervals_have_the_digits_that_tell_something(low, high, shown):
    assert figures.in_brackets(low, high, figures.places_for(low, high)) == shown


def test_shares_and_sizes():
    shown = [figures.percent(x) for x in (0.0, 1e-7, 0.0003, 0.012, 0.31, 1.0, -0.05)]
    assert shown == ["0%", "under 0.001%", "0.03%", "1.2%", "31%", "100%", "−5.0%"]
    sizes = [figures.short(x) for x in (0.1, 3.103, 1234.0, 1e6, 2.5e-4, -2.0, math.inf, 0.0)]
    assert sizes == ["0.1", "3.1", "1,234", "1e6", "0.00025", "−2", "∞", "0"]
    assert sparkline([0.0, 1.0, 0.5, math.inf]) == "▁█▅ "
    assert sparkline([2.0, 2.0]) == "▁▁"


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.4, 0.43), (-3.0, 1e6), (5.0, 5.0)])
def test_ticks_are_within_and_few(low, high):
    scale = linear(low, high, 0.0, 100.0)
    assert 2 <= len(scale.ticks) <= 9
    assert all(-1e-6 <= scale.at(value) <= 100.0 + 1e-6 for value, _ in scale.ticks)
    assert len({said for _, said in scale.ticks}) == len(scale.ticks)


def test_a_far_value_does_not_squeeze_the_rest():
    assert with_room_for((0.0, 1.0), 1.5)[1] > 1.5
    assert with_room_for((0.0, 1.0), 0.5) == (0.0, 1.0)
    assert with_room_for((0.0, 1.0), 100.0) == (0.0, 1.0)
    assert around([]) == (0.0, 1.0)


# -- the page --------------------------------------------------------------------------------


def test_sections_are_in_their_order_and_each_chart_has_its_table():
    page = Page(Results((evaluated(policies=("new", "old")), compared())).to_html())
    assert [id_ for id_ in page.ids if id_ in SECTIONS] == SECTIONS
    assert page.tags.count("details") >= 10
    assert page.tags.count("h1") == 1
    one = Page(evaluated().to_html())
    assert [id_ for id_ in one.ids if id_ in SECTIONS] == [
        s for s in SECTIONS if s != "differences"
    ]


def test_the_answer_comes_first_and_says_what_the_result_says():
    result = evaluated()
    page = Page(result.to_html())
    row = result.headline
    told = figures.with_interval(row.value, row.interval)
    gap = figures.with_interval(row.value - result.logged.value, row.versus_logged)
    expected = f"new: {told}. Better than what ran by {gap}."
    assert expected in page.text
    assert page.text.index(expected) < page.text.index("Before you use it")


def with_headline(result: op.Result, **changes: object) -> op.Result:
    return replace(result, headlines=(replace(result.headlines[0], **changes),))


@pytest.mark.parametrize(
    ("versus", "said"),
    [
        (Interval(0.02, 0.14), "Better than what ran by 0.08 [0.02, 0.14]."),
        (Interval(-0.30, -0.10), "Worse than what ran by 0.10 [0.10, 0.30]."),
        (Interval(-0.10, 0.20), "Not decided whether it is better than what ran."),
    ],
)
@pytest.mark.parametrize("holds", [True, False])
def test_the_paired_difference_decides_whether_or_not_the_interval_holds_what_ran(
    versus, said, holds
):
    result = evaluated()
    ran = result.logged.value
    span = Interval(ran - 0.1, ran + 0.2) if holds else Interval(ran + 0.01, ran + 0.2)
    told = with_headline(result, value=ran + 0.08, interval=span, versus_logged=versus)
    page = Page(told.to_html())
    assert said in page.text
    assert page.text.count("than what ran") == 1
    assert "within the interval" not in page.text
    assert "outside the interval" not in page.text


def test_with_a_comparison_its_simultaneous_differences_decide():
    comparison = compared()
    page = Page(Results((evaluated(policies=("new", "old")), comparison)).to_html())
    for headline in comparison.headlines:
        row, alone = comparison[headline.policy, "logged"], headline.versus_logged
        told = figures.with_interval(row.value, row.interval)
        assert row.decided
        assert f"Better than what ran by {told}." in page.text
        assert row.interval.low < alone.low < alone.high < row.interval.high
    assert page.text.count("holds together with 2 others on this page") == 2
    one = compared(("new",))
    assert one["new", "logged"].interval == one.headlines[0].versus_logged
    assert "together" not in Page(one.to_html()).text.partition("How far to trust")[0]


def test_a_comparison_begins_with_which_policy_is_better():
    """The policies against each other come before what ran, in the sentence and in the sections."""
    comparison = compared()
    row = comparison["new", "old"]
    by = figures.with_interval(row.value, row.interval)
    page = Page(comparison.to_html())
    assert row.decided
    said = f"new is better than old by {by}."
    assert page.text.index(said) < page.text.index("Better than what ran")
    order = [id_ for id_ in page.ids if id_ in SECTIONS]
    assert order[:4] == ["answer", "warnings", "differences", "estimators"]
    assert sorted(order) == sorted(SECTIONS)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verdict": "identical", "rows_needed": 0.0}, "new and old are identical on this log."),
        ({"verdict": "not decided", "rows_needed": 9.0, "rows_needed_80": 20.0},
         "Not decided whether new is better than"),
        ({"verdict": "this log cannot tell", "rows_needed": 9.0, "reason": "No rows."},
         "This log cannot tell whether new is better than old"),
        ({"verdict": "old is better than new", "value": -0.1, "interval": Interval(-0.2, -0.05)},
         "old is better than new by 0.10 [0.05, 0.20]."),
    ],
)  # fmt: skip
def test_every_verdict_about_two_policies_is_told(change, said):
    comparison = compared()
    rows = [
        replace(row, **change) if row.second == "old" else row for row in comparison.differences
    ]
    assert said in Page(replace(comparison, differences=tuple(rows)).to_html()).text


def test_against_a_baseline_the_best_comes_first():
    action, reward, running, new, guess = problem()
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=running)
    mixed = {"weak": (3 * running + new) / 4, "strong": new, "base": (9 * running + new) / 10}
    comparison = op.compare(log, mixed, prediction=guess, baseline="base")
    text = Page(comparison.to_html()).text.partition("Before you use it")[0]
    strong, weak = (text.index(f"{name} is better than base") for name in ("strong", "weak"))
    assert strong < weak


def test_the_policy_that_wrote_the_log_is_identical_to_it():
    action, reward, running, _, _ = problem(500)
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=running)
    result = op.evaluate(log, {"same": running}, prediction=np.full((500, 6), 0.3))
    page = Page(result.to_html())
    assert ", identical to what ran." in page.text
    assert "Every weight is 1: the answer is the mean reward of the log" in page.text
    assert not [finding for finding in result.findings if finding.code == "disagreement"]
    assert "identical" in Page(op.compare(log, {"same": running}).to_html()).text


def test_one_M_has_one_interval():
    """The answer's; the curve has standard errors. Value and interval may have an M each."""
    result = evaluated()
    row = result.headline
    curve = Page(result.to_html()).text.partition("How far to trust the weights")[2]
    curve = curve.partition("How the weights are spread")[0]
    assert "M = 0: estimate 0." in curve
    assert not re.search(r"M = [^.;]+\[", curve)
    other = 8.0 if row.M != 8.0 else 4.0
    for interval_M, said in [(row.M, "around the same M"), (other, f"around M = {other:g}")]:
        text = Page(with_headline(result, interval_M=interval_M).to_html()).text
        assert f"Dot: the answer's value, at M = {figures.short(row.M)}" in text
        assert f"Bar: its 95% interval, which stands {said}" in text


@pytest.mark.parametrize(
    ("times", "said"),
    [(2.0, "wider than"), (0.5, "narrower than"), (1.0, "as wide as")],
)
def test_the_sequence_is_compared_with_the_answers_interval_by_its_numbers(times, said):
    result = evaluated()
    (summary,), (low, high) = result.summaries, result.headline.interval
    course, width = summary.over_log, high - low
    ends = {
        "low": (*course.low[:-1], low),
        "high": (*course.high[:-1], low + times * width),
    }
    changed = replace(summary, over_log=replace(course, **ends))
    text = Page(replace(result, summaries=(changed,)).to_html()).text
    assert f", {said} the answer's interval, " in text


def test_rows_say_how_far_they_are_from_the_answer_and_mark_heavy_weights():
    result = evaluated()
    rows = [replace(row, ess=500.0, from_headline=0.25) for row in result.estimates]
    page = Page(replace(result, estimates=tuple(rows)).to_html())
    assert "†" not in page.text
    assert page.text.count("+0.2 se") >= len(rows)
    heavy = replace(rows[1], ess=12.0, largest_weight=50.0, from_headline=-3.4)
    text = Page(replace(result, estimates=(rows[0], heavy, *rows[2:])).to_html()).text
    assert f"{heavy.estimator} †" in text
    assert "† Too few effective rows for such weights: the interval may be too narrow." in text
    assert "−3.4 se" in text
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    marked = replace(result, estimates=(rows[0], heavy, *rows[2:]))
    for told, mark in ((marked, True), (replace(result, estimates=tuple(rows)), False)):
        assert (FEW_EFFECTIVE in told._repr_html_()) == mark
        assert (FEW_EFFECTIVE in told.plot(Figure().subplots()).get_xlabel()) == mark


def test_a_wild_interval_does_not_flatten_the_others():
    rows = [
        Row("a", 0.5, 0.4, 0.6, ""),
        Row("b", 0.5, 0.45, 0.55, ""),
        Row("c", 0.5, -90.0, 90.0, ""),
    ]
    for width in (720.0, 336.0):
        text = forest_chart(rows, "alt", "axis")(width)
        assert text.count("range tip") == 2
        near = re.search(
            r'<line x1="([\d.]+)" y1="[\d.]+" x2="([\d.]+)" y2="[\d.]+" class="range"', text
        )
        assert float(near[2]) - float(near[1]) > 0.08 * width


def test_what_the_walk_came_across_is_told_besides_what_check_found():
    told = Finding("disagreement", "warning", "new", "They differ.", "Look.")
    other = Finding("drift", "warning", None, "It drifts.", "Look.")
    result = replace(evaluated(), findings=(told, other))
    checked = (Finding("drift", "warning", None, "By time it drifts.", "Look."),)
    text = Page(Results((result,), checked).to_html()).text.partition("How to make this page")[0]
    assert "They differ." in text
    assert "By time it drifts." in text
    assert "It drifts." not in text


def test_a_refusal_is_no_answer():
    page = Page(unsupported().to_html())
    assert "This log cannot tell how lost would have done." in page.text
    assert "than what ran" not in page.text
    assert "40% of its probability where the logger has none" in page.text


def test_nothing_can_be_fetched_and_nothing_runs_but_our_script():
    text = evaluated().to_html()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert not re.search(r"https?://|url\(|@import|src=", text.replace("default-src", ""))
    page = Page(text)
    assert page.events == []
    assert set(page.tags).isdisjoint({"img", "iframe", "object", "embed", "form", "base"})


@pytest.mark.parametrize("kind", ["policy", "action", "both"])
def test_hostile_names_add_no_element(kind):
    harmless = tuple(f"name {k}" for k in range(6))
    bad = (SCRIPT, IMAGE, MARKS, "<!--", "\x00", "&amp;")
    actions = bad if kind != "policy" else harmless
    policies = bad[:3] if kind != "action" else harmless[:3]
    page = Page(evaluated(names=actions, policies=policies).to_html())
    plain_page = Page(evaluated(names=harmless, policies=harmless[:3]).to_html())
    assert sorted(set(page.tags)) == sorted(set(plain_page.tags))
    assert page.tags.count("script") == plain_page.tags.count("script")
    assert page.events == []


def test_hostile_names_do_not_swell_the_page():
    names = (SCRIPT, IMAGE, MARKS, "\u200f" * 1_000_000, "e", "f")
    text = evaluated(names=names, policies=(MARKS, "b")).to_html()
    assert len(text.encode()) < 500_000
    assert "\u202e" not in re.sub(r'<script type="application/json".*?</script>', "", text)


def test_hostile_files_and_commands():
    provenance = Provenance(
        ("offpolicy", "evaluate", SCRIPT, MARKS), {"offpolicy": "0"},
        (File(IMAGE, 3, 5, "ab"), File(MARKS, 3, None, None)), "now", 1.0,
    )  # fmt: skip
    document = Results((evaluated(),), None, provenance)
    page = Page(document.to_html())
    assert set(page.tags) == set(Page(evaluated().to_html()).tags) | {"pre", "h3"}
    assert len(document.to_html()) < 500_000
    assert IMAGE in page.text


def test_a_page_of_a_million_rows_is_small():
    rng = np.random.default_rng(0)
    n = 1_000_000
    action = (rng.random(n) < 0.3).astype(np.int64)
    log = op.BanditLog.from_arrays(
        action=action, reward=rng.random(n) < 0.1 + 0.1 * action,
        logging=np.tile([0.7, 0.3], (n, 1)),
    )  # fmt: skip
    result = op.evaluate(log, {"new": op.Uniform()}, prediction=np.tile([0.1, 0.2], n))
    assert result.logged.n == n
    assert len(result.to_html().encode()) < 500_000


def test_odd_results_have_pages(tmp_path):
    action, reward, running, new, _ = problem(60)
    without = op.BanditLog.from_arrays(action=action, reward=reward, actions=6, propensity=None)
    page = Page(
        op.evaluate(without, new, prediction=np.full((60, 6), 0.4), estimators=["DM"]).to_html()
    )
    assert "Without propensities there are no weights" in page.text
    one = op.BanditLog.from_arrays(action=[0], reward=[1], logging=[[0.5, 0.5]])
    Page(op.evaluate(one, [[0.5, 0.5]]).to_html(tmp_path / "one.html"))
    assert (tmp_path / "one.html").stat().st_size > 10_000
    chosen = op.BanditLog.from_arrays(
        action=action, reward=reward * 1e140, propensity=running[np.arange(60), action]
    )
    huge = Page(op.evaluate(chosen, new[np.arange(60), action]).to_html())
    assert "Shares are estimated from what was chosen" in huge.text


# -- as JSON ---------------------------------------------------------------------------------


def test_the_page_is_made_from_json_alone():
    for found in (evaluated(), compared()):
        again = type(found).from_json(found.to_json())
        assert again == found
        assert again.to_html() == found.to_html()


def test_the_twin_makes_the_same_page_again():
    provenance = Provenance(("offpolicy",), {}, (File("a", 1, 2, "c"),), "now", 1.0)
    document = Results((evaluated(policies=("a", "b")), compared()), (), provenance)
    text = document.to_html()
    twin = re.search(r'<script type="application/json" id="twin">(.*?)</script>', text, re.DOTALL)[
        1
    ]
    again = Results.from_json(twin)
    assert again == document
    assert again.to_html() == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "This is not a result: no JSON object with a schema."),
        (
            '{"schema": "offpolicy.check/1"}',
            'The schema is "offpolicy.check/1"; this version',
        ),
        ('{"schema": "offpolicy.results/1"}', "The result is damaged (KeyError: 'results')."),
        (
            '{"schema": "offpolicy.results/1", "results": [], "checked": null, "provenance": null}',
            "The result is damaged (ValueError: no page is made of these results).",
        ),
    ],
)
def test_other_json_makes_no_page(text, said):
    with pytest.raises(errors.ResultError) as raised:
        Results.opened(text)
    assert str(raised.value).startswith(said)


# -- command line ----------------------------------------------------------------------------


@pytest.fixture
def log_file(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.chdir(tmp_path)
    action, reward, running, new, guess = problem(500)
    columns = {"logging": running, "new": new, "old": (running + new) / 2, "q": guess}
    table = pa.table(
        {"action": action, "reward": reward.astype(float)}
        | {name: list(values) for name, values in columns.items()}
    )
    pq.write_table(table, "log.parquet")
    return "log.parquet"


def run(*arguments: str):
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


def test_evaluate_writes_a_page_that_can_be_made_again(log_file, tmp_path):
    import hashlib

    done = run("evaluate", log_file, "--policy", "new", "--policy", "old", "--prediction", "q",
               "--report", "page.html")  # fmt: skip
    assert done.exit_code == 0
    assert "Wrote page.html." in done.stderr
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(text)
    assert [id_ for id_ in page.ids if id_ in SECTIONS] == SECTIONS
    assert hashlib.sha256((tmp_path / log_file).read_bytes()).hexdigest() in page.text
    assert "offpolicy evaluate log.parquet --policy new --policy old" in page.text
    twin = re.search(r'<script type="application/json" id="twin">(.*?)</script>', text, re.DOTALL)[
        1
    ]
    body = json.loads(twin)
    assert body["provenance"]["files"][0]["rows"] == 500
    (tmp_path / "twin.json").write_text(twin, encoding="utf-8")
    assert run("report", "twin.json").exit_code == 0
    assert (tmp_path / "twin.html").read_text(encoding="utf-8") == text


def test_compare_and_report(log_file, tmp_path):
    done = run("compare", log_file, "--policy", "new", "--report", "page.html", "--format", "json")
    assert done.exit_code == 0
    (tmp_path / "result.json").write_text(done.stdout, encoding="utf-8")
    assert run("report", "result.json", "-o", "again.html").exit_code == 0
    for name in ("page.html", "again.html"):
        assert "Policies against each other" in (tmp_path / name).read_text(encoding="utf-8")


def test_mistakes_are_told(log_file, tmp_path):
    done = run("evaluate", log_file, "--policy", "new", "--report", "no/page.html")
    assert done.exit_code != 0
    assert "there is no folder no" in done.stderr
    (tmp_path / "x.json").write_text("{}")
    for name in ("x.json", "y.json"):
        with refuses(errors.ResultError, file=name):
            run("report", name)


# -- on a terminal, in notebooks and as pictures ---------------------------------------------


def test_on_a_terminal_there_is_colour_and_a_curve():
    from offpolicy.cli.terminal import rendered

    shown = rendered(evaluated())
    assert "\x1b[1m" in shown
    assert re.search(r"new over M: 0 [▁-█\x1b\[0-9m]+ ∞, from 0\.\d+ to 0\.\d+", shown)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert bare.splitlines()[0] == str(evaluated()).splitlines()[0]
    assert bare.endswith(str(evaluated()).partition("\n\n")[2])
    assert "Problem (support): lost puts 40%" in re.sub(r"\s+", " ", rendered(unsupported()))


def test_elsewhere_there_is_none(log_file):
    done = run("evaluate", log_file, "--policy", "new")
    assert "\x1b" not in done.stdout
    assert "over M: 0" not in done.stdout


def test_colour_can_be_declined(monkeypatch):
    from offpolicy.cli.terminal import rendered

    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in rendered(evaluated())


def test_notebooks_get_the_forest_plot():
    for found in (evaluated(), compared()):
        page = Page(found._repr_html_())
        assert "svg" in page.tags
        assert "script" not in page.tags


def test_pictures():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    result = evaluated(policies=("$a_b$", "new"))
    ax = result.plot(Figure().subplots())
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert len(labels) == len(result) + 2
    assert labels[0] == r"\$a_b\$, the answer"
    ax.figure.canvas.draw()
    found = compared()
    ax = found.plot(Figure().subplots())
    assert len(ax.get_yticklabels()) == len(found)
