"""``offpolicy rank``: what the library says, and sentences for what is wrong in a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from offpolicy.cli import cli
from offpolicy.errors import ResultError
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.evaluation._evaluate import evaluate
from offpolicy.ranking.evaluation._result import RankingResult
from offpolicy.ranking.evaluation._sweep import sweep
from offpolicy.ranking.learning._search import RankerCV
from offpolicy.ranking.learning._svmrank import PropensitySVMRank
from offpolicy.ranking.propensities._curve import Propensities
from offpolicy.ranking.propensities._estimate import estimate_propensities
from tests.support.clicks import clicked
from tests.support.commands import fails

SMALL = """\
impression,query,rank,click,propensity,f1,f2,new,prediction
s1,shoes,1,0,1,0.5,0.1,2,0.3
s1,shoes,2,1,0.5,0.2,0.9,3,0.4
s2,hats,1,1,1,0.7,0.3,1,0.5
s3,hats,1,1,1,0.7,0.3,1,0.5
s3,hats,2,0,0.5,0.1,0.2,5,0.1
"""
NO_CLICKS = SMALL.replace(",2,1,0.5", ",2,0,0.5").replace(",1,1,1,", ",1,0,1,")
LETOR = """\
2 qid:1 1:0.5 2:0.1
0 qid:1 1:0.2 2:0.9
1 qid:7 1:0.1 2:0.2
0 qid:7 1:0.3 2:0.4
0 qid:7 1:0.7 2:0.1
"""
CLICKS = """\
impression,query,document,rank,click,propensity
a,1,2,1,0,1
a,1,1,2,1,0.5
b,7,1,1,1,1
b,7,3,2,0,0.5
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    log = clicked(1, n=120, sweeps=3.0)
    table = log.to_arrow().append_column("new", [log.X[:, 0]])
    table = table.append_column("old", [-log.rank])
    pq.write_table(table, "log.parquet")
    pq.write_table(table.drop(["propensity"]), "bare.parquet")
    pq.write_table(table.drop(["propensity", "prediction"]), "nothing.parquet")
    Path("small.csv").write_text(SMALL)
    Path("set.txt").write_text(LETOR)
    Path("clicks.csv").write_text(CLICKS)
    return tmp_path


def run(*words: str, code: int = 0) -> Result:
    outcome = CliRunner().invoke(cli, ["rank", *words], catch_exceptions=False)
    assert outcome.exit_code == code, outcome.stderr
    return outcome


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    found, text = fails(["rank", *words], capsys)
    assert found == code, text
    assert text.count("\n") == 1 or text.startswith("Usage"), text
    return text


# -- evaluate --------------------------------------------------------------------------------


def test_evaluate_prints_what_the_library_prints(folder):
    log = RankingLog.read("log.parquet")
    shown = run("evaluate", "log.parquet", "--ranker", "new", "--ranker", "old").stdout
    both = [f"new: {evaluate(log, log.X[:, 0])}", f"old: {evaluate(log, -log.rank)}"]
    assert shown == "\n\n".join(both) + "\n"
    words = ["-e", "IPS", "-e", "SB(tau=.5)", "--metric", "dcg@3", "--metric", "recall@2",
             "--level", "0.8", "--dependent-clicks"]  # fmt: skip
    shown = run("evaluate", "log.parquet", "--ranker", "new", *words).stdout
    both = [
        str(evaluate(log, log.X[:, 0], ["IPS", "SB(tau=.5)"], metric, level=0.8,
                     independent_clicks=False))
        for metric in ("dcg@3", "recall@2")
    ]  # fmt: skip
    assert shown == "\n\n".join(f"new: {one}" for one in both) + "\n"


def test_evaluate_as_json_and_tsv(folder):
    words = ["evaluate", "log.parquet", "--ranker", "new", "--ranker", "old", "-e", "IPS"]
    log = RankingLog.read("log.parquet")
    expected = evaluate(log, log.X[:, 0], ["IPS"])
    body = json.loads(run(*words, "--format", "json").stdout)
    assert body["schema"] == "offpolicy.results/1"
    assert [one["ranker"] for one in body["results"]] == ["new", "old"]
    first = RankingResult.from_json(json.dumps(body["results"][0]))
    assert first.to_json() == expected.named("new").to_json()
    head, *rows = [line.split("\t") for line in
                   run(*words, "--format", "tsv").stdout.splitlines()]  # fmt: skip
    assert head[:4] == ["ranker", "metric", "estimator", "value"]
    assert [row[0] for row in rows] == ["new", "new", "old", "old"]
    assert [row[2] for row in rows[:2]] == ["headline", "IPS"]
    assert [float(row[3]) for row in rows[:2]] == [expected.headline.value, expected["IPS"].value]


def test_a_result_survives_json():
    log = clicked(2, n=40)
    result = evaluate(log, log.X[:, 0], ["DM", "CAB", "SB(tau=1)"])
    assert RankingResult.from_json(result.to_json()).to_json() == result.to_json()
    assert str(RankingResult.from_json(result.to_json())) == str(result)
    one = RankingLog.from_arrays(
        offsets=[0, 2], rank=[1, 2], click=[1, 0], propensity=[1, 0.5], query=["q"]
    )
    infinite = evaluate(one, [0.0, 1.0], ["IPS"])
    assert "inf" in infinite.to_json()
    assert RankingResult.from_json(infinite.to_json()).to_json() == infinite.to_json()
    for wrong in ("", "[]", '{"schema": "offpolicy.result/1"}',
                  result.to_json().replace('"queries"', '"q"')):  # fmt: skip
        with pytest.raises(ResultError):
            RankingResult.from_json(wrong)


def test_columns_of_any_name(folder):
    renamed = SMALL.replace(
        "impression,query,rank,click,propensity,f1,f2,new,prediction",
        "session,words,place,hit,seen,bm25,page,new,q",
    )
    Path("other.csv").write_text(renamed)
    words = ["--impression", "session", "--query", "words", "--rank", "place", "--click", "hit",
             "--propensity", "seen", "--prediction", "q", "--features", "bm*"]  # fmt: skip
    asked = ["--ranker", "new", "-e", "IPS", "-e", "DM"]
    shown = run("evaluate", "other.csv", *words, *asked).stdout
    assert shown == run("evaluate", "small.csv", *asked).stdout


def test_a_log_without_propensities_says_how_to_get_them(folder, capsys):
    text = told(capsys, "evaluate", "nothing.parquet", "--ranker", "new")
    assert "offpolicy rank propensities LOG -o propensities.json" in text
    assert "--eta" in text
    told(capsys, "evaluate", "bare.parquet", "--ranker", "new", "-e", "CAB")
    told(capsys, "sweep", "bare.parquet", "--ranker", "new")
    told(capsys, "learn", "bare.parquet", "-o", "r.json")
    alone = run("evaluate", "bare.parquet", "--ranker", "new")
    assert "(propensities or eta)" in alone.stderr
    assert [line.split()[0] for line in alone.stdout.splitlines()[-2:-1]] == ["DM"]


def test_eta_is_a_power_of_the_rank(folder):
    log = RankingLog.read("log.parquet")  # simulated with η = 1
    expected = run("evaluate", "log.parquet", "--ranker", "new").stdout
    assert run("evaluate", "bare.parquet", "--eta", "1", "--ranker", "new").stdout == expected
    flat = Propensities.power(0.0, 20).filled(log)
    shown = run("evaluate", "log.parquet", "--eta", "0", "--ranker", "new", "-e", "IPS").stdout
    assert shown == f"new: {evaluate(flat, log.X[:, 0], ['IPS'])}\n"


def test_letor_with_clicks(folder):
    words = ["set.txt", "--clicks", "clicks.csv", "--ranker", "f1", "-e", "IPS"]
    log = RankingLog.read("set.txt", clicks="clicks.csv")
    assert run("evaluate", *words).stdout == f"f1: {evaluate(log, log.X[:, 0], ['IPS'])}\n"


# -- sweep -----------------------------------------------------------------------------------


def test_sweep_is_the_librarys_curve(folder):
    log = RankingLog.read("log.parquet")
    words = ["sweep", "log.parquet", "--ranker", "new", "--metric", "dcg"]
    frame = sweep(log, log.X[:, 0], "CAB", "dcg").to_arrow(1001)
    head, *rows = [line.split("\t") for line in run(*words).stdout.splitlines()]
    assert head == ["M", "value", "stderr", "low", "high"]
    assert np.array(rows, dtype=float)[:, 1].tolist() == frame["value"].to_pylist()
    body = json.loads(run(*words, "-e", "SB", "--format", "json").stdout)
    assert body["tau"][-1] == 1.0
    clipped = run("sweep", "log.parquet", "--ranker", "new", "-e", "CIPS", "--format", "json")
    body = json.loads(clipped.stdout, parse_constant=pytest.fail)
    assert body["value"][0] is None  # 0/0
    assert body["M"][-1] == "inf"


# -- propensities ----------------------------------------------------------------------------


def varied() -> RankingLog:
    """Two documents of each query, shown in either order, on two devices."""
    rng = np.random.default_rng(0)
    n = 1200
    query = rng.integers(30, size=n)
    first = rng.integers(2, size=n)
    rank = np.stack([1 + first, 2 - first], axis=1)
    relevance = rng.random((30, 2))[query]
    click = rng.random((n, 2)) * rank < relevance
    return RankingLog.from_arrays(
        offsets=range(0, 2 * n + 1, 2), rank=rank.ravel(), click=click.ravel(), query=query,
        document=["a", "b"] * n, X=rng.normal(size=(2 * n, 1)),
    )  # fmt: skip


@pytest.fixture
def two(folder: Path) -> RankingLog:
    log = varied()
    device = (np.arange(len(log)) % 2)[log.impression]
    table = log.to_arrow().append_column("phone", [device]).append_column("new", [log.X[:, 0]])
    pq.write_table(table.append_column("swapped", [np.full(len(table), 2)]), "two.parquet")
    return log


def test_propensities_are_estimated_written_and_used(two):
    found = estimate_propensities(two)
    outcome = run("propensities", "two.parquet", "-o", "p.json")
    assert outcome.stdout == f"{found}\n"
    assert outcome.stderr == "Wrote p.json.\n"
    assert (Propensities.load("p.json").propensity == found.propensity).all()
    assert run("propensities", "two.parquet", "-o", "p.csv", "--format", "json").stdout
    rows = run("propensities", "two.parquet", "--format", "tsv").stdout.splitlines()
    assert Path("p.csv").read_text().splitlines() == [row.replace("\t", ",") for row in rows]
    expected = f"new: {evaluate(found.filled(two), two.X[:, 0], ['IPS'])}\n"
    asked = ["evaluate", "two.parquet", "--ranker", "new", "-e", "IPS"]
    for file in ("p.json", "p.csv"):
        assert run(*asked, "--propensities", file).stdout == expected


def test_other_methods(two):
    for method in ("em", "swaps"):
        shown = run("propensities", "two.parquet", "--method", method, "--top", "2").stdout
        assert shown == f"{estimate_propensities(two, method, top=2)}\n"
    swapped = run("propensities", "two.parquet", "--method", "swaps", "--swapped", "swapped")
    expected = estimate_propensities(two, "swaps", swapped=np.full(len(two), 2))
    assert swapped.stdout == f"{expected}\n"
    phone = np.arange(len(two)) % 2
    words = ["--method", "contextual", "--context", "phone"]
    found = estimate_propensities(two, "contextual", context=phone)
    assert run("propensities", "two.parquet", *words, "-o", "c.json").stdout == f"{found}\n"
    asked = ["evaluate", "two.parquet", "--ranker", "new", "-e", "IPS", "--propensities", "c.json"]
    filled = found.filled(two, phone[:, None])
    expected = f"new: {evaluate(filled, two.X[:, 0], ['IPS'])}\n"
    assert run(*asked, "--context", "phone").stdout == expected


def test_ranks_of_known_rankers(two):
    table = pq.read_table("two.parquet").append_column("a", [two.rank])
    pq.write_table(table.append_column("b", [3 - two.rank]), "ab.parquet")
    words = ["--ranks", "a", "--ranks", "b", "--traffic", "1", "--traffic", "2"]
    expected = estimate_propensities(
        two, ranks=np.stack([two.rank, 3 - two.rank], axis=1), traffic=[1.0, 2.0]
    )
    assert run("propensities", "ab.parquet", *words).stdout == f"{expected}\n"


def test_mistakes_with_propensities_are_told(two, capsys):
    asked = ["evaluate", "two.parquet", "--ranker", "new"]
    assert "two ways" in told(capsys, *asked, "--eta", "1", "--propensities", "p.json")
    assert "none.json" in told(capsys, *asked, "--propensities", "none.json")
    wrong = {
        "rank,p\n1,1\n": 'no column "propensity"',
        "rank,propensity\n1,1\n1,0.5\n": "p.csv, propensity, line 3: 0.5 for rank 1",
        "rank,propensity\n1,1\n2,0\n": "p.csv, propensity, line 3: 0.0 for rank 2",
        "rank,propensity\n1,1\n9999999,1\n": "p.csv, propensity, line 3: 1.0 for rank 9999999",
    }
    for text, says in wrong.items():
        Path("p.csv").write_text(text)
        assert says in told(capsys, *asked, "--propensities", "p.csv")
    Path("p.csv").write_text("rank,propensity\n1,1\n")
    assert "first 1 ranks only" in told(capsys, *asked, "--propensities", "p.csv")
    Path("p.csv").write_text("rank,propensity\n1,1\n3,0.2\n")
    assert "whose propensity could not be" in told(
        capsys, *asked, "--propensities", "p.csv", code=1
    )
    by_device = ["--method", "contextual", "--context", "phone", "-o", "c.json"]
    run("propensities", "two.parquet", *by_device)
    assert "depend on the context" in told(capsys, *asked, "--propensities", "c.json")
    changing = ["--propensities", "c.json", "--context", "new"]
    text = told(capsys, *asked, *changing)
    assert "new, row 1, impression 0, document 1: it must be the same" in text
    words = ["propensities", "two.parquet"]
    assert "must end in .json or .csv" in told(capsys, *words, "-o", "p.txt")
    contextual = ["--method", "contextual", "-o", "p.csv"]
    assert "write .json" in told(capsys, *words, *contextual)
    assert "needs --context," in told(capsys, *words, "--method", "contextual")
    assert "ridge is for" in told(capsys, *words, "--ridge", "1")
    swaps = [*words, "--method", "swaps", "--swapped"]
    assert "rank, row 1, impression 0, document 1: it must" in told(capsys, *swaps, "rank")
    assert "is not a whole number" in told(capsys, *words, "--ranks", "new", "--ranks", "rank")
    assert "no document labels" in told(capsys, "propensities", "small.csv")
    same = ["propensities", "log.parquet"]
    assert "shown at two different ranks" in told(capsys, *same, code=1)


# -- learn -----------------------------------------------------------------------------------


def test_a_ranker_is_learned_written_and_evaluated(folder):
    words = ["learn", "log.parquet", "-o", "r.json"]
    log = RankingLog.read("log.parquet")
    outcome = run(*words, "-e", "CAB(M=2)", "--holdout", "0")
    assert outcome.stderr == "Wrote r.json.\n"
    expected = PropensitySVMRank(estimator="CAB(M=2)").fit(log)
    assert (PropensitySVMRank.load("r.json").coef_ == expected.coef_).all()
    lines = outcome.stdout.splitlines()
    assert lines[0] == (
        f"A ranker by 3 features, learned from 360 impressions of 120 queries with "
        f"{int(log.click.sum())} clicks."
    )
    assert "CAB(M=2) was minimised with C = " in lines[1]
    assert "converged; the objective is at most" in lines[1]
    assert "Nothing was held out" in lines[2]
    shown = run("evaluate", "log.parquet", "--ranker", "r.json", "-e", "IPS").stdout
    assert shown == f"r: {evaluate(log, expected, ['IPS'])}\n"
    assert shown == run("evaluate", "log.parquet", "--ranker", "file:r.json", "-e", "IPS").stdout


def test_what_is_left_out_is_chosen_on_queries_not_seen(folder):
    words = ["learn", "log.parquet", "-o", "r.json", "--format", "json"]
    body = json.loads(run(*words, "--holdout", "0", "--loss", "10").stdout)
    log = RankingLog.read("log.parquet")
    search = RankerCV(
        PropensitySVMRank(estimator="CAB", loss=10.0),
        {"estimator": [one["params"]["estimator"] for one in body["trials"]]},
    ).fit(log)
    assert body["schema"] == "offpolicy.learned-ranker/3"
    assert body["rule"] == "cab90"
    assert len(body["trials"]) > 3
    assert body["parameters"]["estimator"] == search.params_["estimator"]
    assert (PropensitySVMRank.load("r.json").coef_ == search.best_.coef_).all()
    assert body["result"] is None


def test_queries_held_out_are_not_learned_from(folder):
    words = ["learn", "log.parquet", "-o", "r.json", "-e", "IPS", "-C", "0.5"]
    body = json.loads(run(*words, "--holdout", "0.25", "--format", "json").stdout)
    assert body["result"]["queries"] == 30
    assert body["impressions"] == body["evaluated"] == 270
    assert body["parameters"]["C"] == body["report"]["C"] == 0.5
    first = PropensitySVMRank.load("r.json").coef_
    text = run(*words, "--holdout", "0.25", "--refit").stdout
    assert "On 30 queries that it was not learned from:\nr: average rank:" in text
    assert "The one written was learned from all 360." in text
    whole = PropensitySVMRank(0.5, estimator="IPS").fit(RankingLog.read("log.parquet")).coef_
    assert (PropensitySVMRank.load("r.json").coef_ == whole).all()
    assert (first != whole).any()
    alone = run("learn", "bare.parquet", "-o", "r.json", "-e", "DM").stdout
    assert "this is the model's word alone" in alone
    assert "not converged" in run(*words, "--max-iter", "1", "--tol", "1e-8").stdout


def test_without_a_prediction_one_is_learned(folder, monkeypatch):
    from sklearn.linear_model import LogisticRegression

    from offpolicy.ranking.data._relevance import RelevanceModel

    base = RelevanceModel.__init__

    def quick(self, classifier=None, **options):
        base(self, LogisticRegression(), steps=1)

    monkeypatch.setattr(RelevanceModel, "__init__", quick)
    words = ["learn", "nothing.parquet", "--eta", "1", "-o", "r.json", "-e", "CAB(M=2)"]
    outcome = run(*words, "--holdout", "0.2", "--unscaled")
    assert "learned from the same clicks, cross-fitted" in outcome.stdout
    log = Propensities.power(1.0, 20).filled(RankingLog.read("nothing.parquet"))
    body = json.loads(run(*words, "--holdout", "0", "--format", "json").stdout)
    assert body["modelled"]
    expected = PropensitySVMRank(estimator="CAB(M=2)").fit(RelevanceModel().cross_fit(log))
    assert (PropensitySVMRank.load("r.json").coef_ == expected.coef_).all()


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["log.parquet", "-o", "r.txt"], "must end in .json", 2),
        (["log.parquet", "-o", "none/r.json"], "there is no folder none", 2),
        (["log.parquet", "-o", "r.json", "--refit", "--holdout", "0"], "--refit is for", 2),
        (["log.parquet", "-o", "r.json", "-C", "1", "--loss", "1"], "two ways", 2),
        (["log.parquet", "-o", "r.json", "-C", "0"], "-C", 2),
        (["log.parquet", "-o", "r.json", "-e", "DR"], "not applicable to rankings", 2),
        (["log.parquet", "-o", "r.json", "-e", "CAP"], 'Did you mean "CAB"', 2),
        (["log.parquet", "-o", "r.json", "--metric", "mdcg"], "There is no metric", 2),
        (["log.parquet", "-o", "r.json", "--features", "z*"], 'no column "z*"', 2),
        (["log.parquet", "-o", "r.json", "--tol", "2"], "tol is 2", 2),
        (["one.csv", "-o", "r.json"], "one query only", 2),
        (["noclicks.csv", "-o", "r.json", "-e", "IPS", "--holdout", "0"], "without clicks", 1),
        (["noclicks.csv", "-o", "r.json", "--holdout", "0"], "no clicks", 1),
        (["noclicks.csv", "-o", "r.json"], "not one click on the", 1),
        (["single.csv", "-o", "r.json", "-e", "IPS", "--holdout", "0"], "nothing to learn from", 1),
    ],
)  # fmt: skip
def test_mistakes_in_learning_are_told(words, message, code, folder, capsys):
    one = SMALL.splitlines(keepends=True)
    (folder / "one.csv").write_text("".join(one[:3]))
    (folder / "noclicks.csv").write_text(NO_CLICKS)
    single = "".join(f"s{i},q{i},1,{i % 2},1,0.5,{i},2,0.3\n" for i in range(6))
    (folder / "single.csv").write_text(one[0] + single)
    assert message in told(capsys, "learn", *words, code=code)
    assert not list(folder.glob("r*.json"))
    assert not list(folder.glob("r*.npy"))


# -- what is wrong in a file -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("s1,shoes,2,1,0.5", "s1,shoes,2,1,0", "bad.csv, propensity, line 3"),
        ("s1,shoes,2,1,0.5", "s1,shoes,2,1,2", "bad.csv, propensity, line 3"),
        ("s1,shoes,2,1", "s1,shoes,2,3", "bad.csv, click, line 3"),
        ("s1,shoes,2,1", "s1,shoes,1,1", "bad.csv, rank, line 3"),
        ("s1,shoes,2,1", "s1,shoes,1.5,1", "bad.csv, rank, line 3: 1.5 is not a whole number"),
        ("s1,shoes,2", "s1,,2", "bad.csv, query, line 3: the label is missing"),
        ("s3,hats,1", "s1,hats,1", "bad.csv, impression, line 5: 's1' comes back"),
        ("s3,hats,2", "s3,caps,2", "bad.csv, query, line 6: 'caps', but the impression began"),
        ("0.2,0.9", "nan,0.9", "bad.csv, f1, line 3: the value is missing"),
        ("0.2,0.9", "0.2,inf", "bad.csv, f2, line 3: inf"),
        ("0.9,3,0.4", "0.9,nan,0.4", "bad.csv, new, line 3: the value is missing"),
        ("0.9,3,0.4", "0.9,3,1.4", "bad.csv, prediction, line 3"),
        (",rank,", ",place,", 'bad.csv: there is no column "rank"'),
        (",new,", ",newer,", 'no column "new". Did you mean "newer"?'),
    ],
)  # fmt: skip
def test_a_bad_file_is_named_with_its_line(old, new, message, folder, capsys):
    Path("bad.csv").write_text(SMALL.replace(old, new, 1))
    assert message in told(capsys, "evaluate", "bad.csv", "--ranker", "new")


def test_mistakes_with_rankers_are_told(folder, capsys):
    asked = ["evaluate", "small.csv", "--ranker"]
    assert "given twice" in told(capsys, *asked, "new", "--ranker", "new")
    assert "none.json: cannot be read" in told(capsys, *asked, "file:none.json")
    Path("policy.json").write_text('{"schema": "offpolicy.policy/1"}')
    assert "The schema is" in told(capsys, *asked, "policy.json")
    run("learn", "log.parquet", "-o", "r.json", "-e", "IPS", "--holdout", "0")
    assert "X has 2 features; the ranker learned from 3" in told(capsys, *asked, "r.json")
    Path("a").mkdir()
    for beside in Path().glob("r*.*"):
        (Path("a") / beside.name).write_bytes(beside.read_bytes())
    twice = ["evaluate", "log.parquet", "--ranker", "r.json", "--ranker", "a/r.json"]
    assert 'Two rankers are named "r"' in told(capsys, *twice)
    assert "there is no such file" in told(capsys, "evaluate", "no.csv", "--ranker", "new")
    letor = ["set.txt", "--clicks", "clicks.csv", "--ranker"]
    assert 'no column "f3"' in told(capsys, "evaluate", *letor, "f3")
    assert "lists 4 of 5" in told(capsys, "evaluate", *letor, "rank")
    Path("none.csv").write_text(NO_CLICKS)
    text = told(capsys, "evaluate", "none.csv", "--ranker", "new", "-e", "IPS", code=1)
    assert "not one document counts as relevant" in text


def test_queries_without_clicks_and_of_one_document_are_fine(folder):
    shown = run("evaluate", "small.csv", "--ranker", "new").stdout
    log = RankingLog.read("small.csv")
    assert shown == f"new: {evaluate(log, [2, 3, 1, 1, 5])}\n"


def test_queries_that_come_back_are_told_where(folder, capsys):
    """Without impressions, every query is one."""
    rows = [line.split(",", 1)[1] for line in SMALL.splitlines()]
    Path("qids.csv").write_text("\n".join([*rows[:4], rows[2], rows[5]]).replace("query", "qid"))
    text = told(capsys, "evaluate", "qids.csv", "--ranker", "new")
    assert "qids.csv, qid, line 5: 'shoes' comes back after rows of another; it began at" in text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("qid:7 1:0.3", "1:0.3", "set.txt"),
        ("qid:7 1:0.3", "qid:7 1:x", "set.txt"),
        ("a,1,2,1,0", "a,1,9,1,0", "clicks.csv, document, line 2"),
        ("b,7,", "b,8,", "clicks.csv, query, line 4: there is no query 8"),
        ("b,7,3,2,0,0.5", "b,7,3,2,0,0", "clicks.csv, propensity, line 5"),
    ],
)
def test_bad_letor_is_named_with_its_line(old, new, message, folder, capsys):
    Path("set.txt").write_text(LETOR.replace(old, new))
    Path("clicks.csv").write_text(CLICKS.replace(old, new))
    words = ["evaluate", "set.txt", "--clicks", "clicks.csv", "--ranker", "f1"]
    text = told(capsys, *words)
    assert message in text
    assert "line" in text
