"""Pages of rankers, propensities and what was learned: their sections, numbers and names."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from offpolicy import errors
from offpolicy._core.documents import json_safe
from offpolicy.cli import cli
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.evaluation._evaluate import evaluate
from offpolicy.ranking.evaluation._result import RankingResult
from offpolicy.ranking.propensities._curve import Propensities
from offpolicy.report.document import Results
from offpolicy.report.html.provenance import File, Provenance
from offpolicy.results import Report
from tests.support.pages import (
    HOSTILE,
    IMAGE,
    MARKS,
    SCRIPT,
    Page,
    clicked,
    examined,
    learned,
    learned_ranker,
    problem,
    ranked,
)
from tests.support.refusals import refuses

HOSTILE_RUN = Provenance(
    ("offpolicy", SCRIPT, IMAGE), {SCRIPT: IMAGE},
    (File(IMAGE, 1, 1, "ab"), File(SCRIPT, 1, 1, "c")), SCRIPT, 1.0,
)  # fmt: skip


def sections(page: Page) -> list[str]:
    known = ("answer", "warnings", "rankers", "estimators", "curve", "meaning", "method", "search",
             "again")  # fmt: skip
    return [one for one in page.ids if one in known]


def twin(text: str) -> str:
    found = re.search(r'<script type="application/json" id="twin">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return found[1]


# -- rankers ---------------------------------------------------------------------------------


def test_a_result_makes_its_page(tmp_path):
    (result,) = ranked()
    text = result.named("new").to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == text
    page = Page(text)
    assert sections(page) == ["answer", "warnings", "estimators", "curve", "again"]
    assert f"{result.headline.value:.2f}" in page.text
    assert "lower is better" in page.text
    assert "IPS" in page.text
    assert f"taken: M = {result.headline.M:.3g}" in page.text


def test_several_rankers_and_metrics_are_on_one_page():
    found = ranked(("new", "old"), ("average rank", "dcg@3"))
    page = Page(Results(found).to_html())
    assert "rankers" in sections(page)
    assert len(set(page.ids)) == len(page.ids)
    for result in found:
        assert f"{result.ranker}: {result.metric}" in page.text
    assert page.text.count("The curve in numbers") == 4


def test_more_than_can_be_read_are_counted():
    found = ranked(tuple(f"r{k}" for k in range(15)))
    page = Page(Results(found).to_html())
    assert "3 more are in the JSON." in page.text
    assert len(json.loads(twin(Results(found).to_html()))["results"]) == 15


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_is_markup(name):
    plain, hostile = (Page(Results(ranked((one,))).to_html()) for one in ("a", name))
    assert hostile.tags == plain.tags
    assert hostile.events == []


def test_no_file_name_is_markup():
    for document in (
        Results(ranked((SCRIPT,)), None, HOSTILE_RUN),
        Results((examined(),), None, HOSTILE_RUN),
        Results((learned(f"{SCRIPT}.json"),), None, HOSTILE_RUN),
        Results((learned(MARKS, held_out=False),), None, HOSTILE_RUN),
        Results((learned_ranker(f"{IMAGE}.json"),), None, HOSTILE_RUN),
        Results((learned_ranker(IMAGE, held_out=False),), None, HOSTILE_RUN),
    ):
        page = Page(document.to_html())
        assert "img" not in page.tags
        assert page.events == []
        assert SCRIPT in page.text
        assert len(document.to_html()) < 500_000


def test_what_was_tried_is_text_too():
    usual = learned_ranker()
    hostile = [replace(one, params={"estimator": SCRIPT, IMAGE: IMAGE}) for one in usual.trials]
    page = Page(Results((replace(usual, trials=tuple(hostile)),)).to_html())
    assert "img" not in page.tags
    assert page.tags.count("script") == Page(Results((usual,)).to_html()).tags.count("script")


def test_every_warning_has_advice():
    log = RankingLog.from_arrays(
        offsets=[0, 2, 4], rank=[1, 0, 1, 2], click=[1, 0, 1, 0], propensity=[1, 0, 1, 0.5]
    )
    few = evaluate(log, [0.0, 1.0, 1.0, 0.0], ["IPS"])
    bare = evaluate(clicked().replace(propensity=None), clicked().X[:, 0], ["DM"])
    found = [*few.findings, *bare.findings]
    assert len({one.code for one in found}) == 4
    assert all(one.advice for one in found)
    page = Page(few.to_html())
    assert page.text.count("What to do:") == len(few.findings) == 3
    assert "no weights, and no curve" in Page(bare.to_html()).text


# -- propensities ----------------------------------------------------------------------------


def test_a_curve_makes_its_page():
    curve = examined()
    page = Page(curve.to_html())
    assert sections(page) == ["answer", "warnings", "curve", "meaning", "method", "again"]
    assert f"Rank 3 is examined {curve.propensity[2]:.2f}" in page.text
    assert "Rank 4: too few clicks" in page.text
    assert "not known" in page.text


def test_known_and_odd_curves_have_pages():
    assert "given, not estimated" in Page(Propensities.power(1.0, 100).to_html()).text
    assert "No rank can be compared" in Page(Propensities.known([1.0]).to_html()).text
    wide = Propensities("pairs", np.array([1.0, 0.5]), np.diag([0.0, np.inf]), np.ones(2),
                        np.ones(2), np.ones(2))  # fmt: skip
    assert "∞]" in Page(wide.to_html()).text


# -- what was learned ------------------------------------------------------------------------


def test_the_search_is_drawn_with_the_evaluation():
    page = Page(Results((learned(),)).to_html())
    assert page.ids.index("order") < page.ids.index("search") < page.ids.index("again")
    assert "the objective over 5 steps" in page.text
    assert "converged" in page.text
    assert "Dashed: what came after the first search" in page.text
    assert "offpolicy learn … --report" in page.text
    bare = replace(learned(), course=())
    assert "steps were not kept" in Page(Results((bare,)).to_html()).text


def test_what_was_not_evaluated_says_so():
    for found in (learned(held_out=False), learned_ranker(held_out=False)):
        page = Page(Results((found,)).to_html())
        assert sections(page) == ["answer", "search", "again"]
        assert "learned, not yet evaluated" in page.text


def test_a_learned_ranker_shows_its_gap_and_what_was_tried():
    page = Page(Results((learned_ranker(),)).to_html())
    assert "at most 0.04% of the objective" in page.text
    assert "4 rankers that were tried, between 3.1 and 8" in page.text
    assert "none of which the ranker was learned from" in page.text


# -- as JSON ---------------------------------------------------------------------------------


def test_the_twin_makes_the_same_page_again():
    run = Provenance(("offpolicy",), {}, (File("a", 1, 2, "c"),), "now", 1.0)
    for document in (
        Results(ranked(("a", "b")), None, run),
        Results((examined(),), None, run),
        Results((learned(),), None, run),
        Results((learned_ranker(),), None, run),
    ):
        text = document.to_html()
        assert Results.opened(twin(text)).to_html() == text


@pytest.mark.parametrize(
    "body",
    [
        {"schema": "offpolicy.results/1"},
        {"schema": "offpolicy.results/1", "results": [3]},
        {"schema": "offpolicy.results/1", "results": [], "checked": None, "provenance": None},
        json_safe(Results((learned(), learned()))),
        json_safe(Results((Report(()),))),
        {"schema": "offpolicy.propensities/1", "method": "pairs"},
        {"schema": "offpolicy.learned-ranker/3", "ranker": "a"},
        {"schema": "offpolicy.ranking-result/3"},
        {"schema": "offpolicy.learned/1"},
        json_safe(learned()) | {"course": [[1]]},
    ],
)
def test_damaged_json_makes_no_page(tmp_path, body):
    (tmp_path / "x.json").write_text(json.dumps(body))
    with refuses(errors.ResultError, file="x.json"):
        run("report", str(tmp_path / "x.json"))


# -- command line ----------------------------------------------------------------------------


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words), catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    log = clicked()
    table = log.to_arrow().append_column("new", [log.X[:, 0]]).append_column(SCRIPT, [log.X[:, 1]])
    pq.write_table(table, "log.parquet")
    return tmp_path


def check_page(outcome: Result, log: str, *said: str) -> str:
    assert outcome.exit_code == 0, outcome.stderr
    assert "Wrote page.html." in outcome.stderr
    text = Path("page.html").read_text(encoding="utf-8")
    page = Page(text)
    assert hashlib.sha256(Path(log).read_bytes()).hexdigest() in page.text
    for one in said:
        assert one in page.text
    Path("twin.json").write_text(twin(text), encoding="utf-8")
    assert run("report", "twin.json").exit_code == 0
    assert Path("twin.html").read_text(encoding="utf-8") == text
    return text


def test_rank_evaluate_writes_a_page(folder):
    done = run("rank", "evaluate", "log.parquet", "--ranker", "new", "--ranker", SCRIPT,
               "-e", "IPS", "--report", "page.html", "--format", "json")  # fmt: skip
    text = check_page(done, "log.parquet", "offpolicy rank evaluate log.parquet --ranker new")
    assert json.loads(twin(text))["provenance"]["files"][0]["rows"] == clicked().documents
    body = json.loads(done.stdout)
    assert RankingResult.from_json(json.dumps(body["results"][0])).metric == "average rank"
    assert body["provenance"] is None
    (folder / "one.json").write_text(json.dumps(body["results"][0]))
    assert run("report", "one.json").exit_code == 0
    assert "new: average rank" in Page((folder / "one.html").read_text(encoding="utf-8")).text


def test_rank_propensities_writes_a_page(folder):
    done = run("rank", "propensities", "log.parquet", "--method", "swaps", "--report", "page.html")
    check_page(done, "log.parquet", "by definition", "put at random into ranks")


def test_rank_learn_writes_a_page(folder):
    done = run("rank", "learn", "log.parquet", "-e", "IPS", "-C", "1", "--max-iter", "20",
               "-o", "ranker.json", "--report", "page.html")  # fmt: skip
    check_page(done, "log.parquet", "certified gap", "held-out impressions")


def test_learn_writes_a_page_with_the_course_of_its_search(folder):
    action, reward, running, *_ = problem(1500)
    X = np.random.default_rng(0).random((1500, 2))
    columns = {"action": action, "reward": reward.astype(float), "logging": list(running)}
    pq.write_table(pa.table(columns | {"x0": X[:, 0], "x1": X[:, 1]}), "bandit.parquet")
    done = run("learn", "bandit.parquet", "--context", "x*", "--max-iter", "8", "-o", "p.json",
               "--report", "page.html", "--format", "json")  # fmt: skip
    body = json.loads(done.stdout)
    ((*_, (step, value)),) = body["course"]
    assert (step, value) == (body["report"]["steps"], pytest.approx(body["report"]["value"]))
    check_page(done, "bandit.parquet", "How it was learned", f"the objective over {step} steps")


def test_passes_over_a_large_log_are_drawn_apart(folder, monkeypatch):
    from offpolicy.learning import _large_logs as streaming
    from offpolicy.logs.files import _read as reading

    action, reward, running, *_ = problem(1500)
    columns = {"action": action, "reward": reward.astype(float), "logging": list(running)}
    x = np.random.default_rng(0).random(1500)
    pq.write_table(pa.table(columns | {"x0": x}), "bandit.parquet")
    monkeypatch.setattr(reading, "READ_WHOLE", 0)
    monkeypatch.setattr(streaming, "sample_size", lambda width: 300)
    monkeypatch.setattr(streaming, "TOGETHER_ROWS", 100)
    done = run("learn", "bandit.parquet", "--context", "x0", "--passes", "2", "-o", "p.json",
               "--report", "page.html", "--format", "json")  # fmt: skip
    assert len(json.loads(done.stdout)["course"]) == 2
    assert "Dashed:" in Page(Path("page.html").read_text(encoding="utf-8")).text


def test_nowhere_to_write_is_told_first(folder):
    for words in (("rank", "evaluate", "log.parquet", "--ranker", "new"),
                  ("rank", "propensities", "log.parquet"),
                  ("rank", "learn", "log.parquet", "-o", "r.json"),
                  ("learn", "log.parquet", "-o", "r.json")):  # fmt: skip
        done = run(*words, "--report", "no/page.html")
        assert done.exit_code == 2
        assert "there is no folder no" in done.stderr
