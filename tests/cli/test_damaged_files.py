"""Files that were written by offpolicy, and damaged since, are refused in a sentence."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from offpolicy.cli import cli
from tests.support.commands import fails

VALUES = [
    None, True, 0, -1, 1e308, -1e308, 10**400, "inf", "-inf", "x", "", [], {}, [[]], 0.5,
    float("nan"), "\ud800", [1, 2], 1e-320,
]  # fmt: skip


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(tree[key], (*path, key))


def damaged(text: str, rng: random.Random) -> str:
    """JSON that was cut off, or has other values, lengths or keys in a few places."""
    if rng.random() < 0.15:
        return text[: rng.randrange(len(text))]
    tree = copy.deepcopy(json.loads(text))
    for _ in range(rng.choice([1, 1, 2, 4])):
        path = rng.choice(list(places(tree)))
        owner = tree
        for key in path[:-1]:
            owner = owner[key]
        value, how = owner[path[-1]], rng.random()
        if how < 0.2:
            del owner[path[-1]]
        elif how < 0.35 and isinstance(value, list):
            owner[path[-1]] = value[: len(value) // 2]
        elif how < 0.45 and type(value) in (int, float):
            owner[path[-1]] = -value
        else:
            owner[path[-1]] = rng.choice(VALUES)
    return json.dumps(tree)


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """Logs, and what was learned and found from them."""
    folder = tmp_path_factory.mktemp("kept")
    rows = ["query,impression,document,rank,click,propensity,f1,f2,topic"]
    rng = np.random.default_rng(0)
    for k in range(600):
        for rank, document in enumerate(rng.permutation(4), start=1):
            click = int(rng.random() < 0.6 / rank)
            features = f"{document},{rng.normal():.4f},{k % 20 % 3}"
            rows.append(f"q{k % 20},{k},{document + 1},{rank},{click},{1 / rank},{features}")
    (folder / "rank.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, words in MADE.items():
            outcome = CliRunner().invoke(cli, words)
            assert outcome.exit_code in (0, 1), (words, outcome.output)
            assert isinstance(outcome.exception, (SystemExit, type(None))), outcome.exc_info
            if "--format" in words:
                Path(f"{name}.json").write_text(outcome.stdout, encoding="utf-8")
    return folder


LOG, RANK = ["log.parquet", "--policy", "policy", "--prediction", "prediction"], "rank.csv"
JSON = ["--format", "json"]
MADE = {
    "truth": ["simulate", "synthetic", "-n", "300", "-o", "log.parquet"],
    "result": ["evaluate", *LOG, *JSON],
    "comparison": ["compare", *LOG, *JSON],
    "learned": ["learn", "log.parquet", "--context", "x*", "--max-iter", "2", "-o", "policy.json",
                *JSON],
    "policy": ["learn", "log.parquet", "--context", "x*", "--max-iter", "2", "-o", "policy.json"],
    "ranker": ["rank", "learn", RANK, "-e", "IPS", "-C", "1", "-o", "ranker.json"],
    "curve": ["rank", "propensities", RANK, "-o", "curve.json"],
    "by_context": ["rank", "propensities", RANK, "--method", "contextual", "--context", "topic",
                   "-o", "by_context.json"],
}  # fmt: skip
READ = {
    "result": ["report", "bad.json", "-o", "page.html"],
    "comparison": ["report", "bad.json", "-o", "page.html"],
    "learned": ["report", "bad.json", "-o", "page.html"],
    "policy": ["evaluate", "log.parquet", "--context", "x*", "--policy", "bad.json"],
    "ranker": ["rank", "evaluate", RANK, "--ranker", "file:bad.json", "-e", "IPS"],
    "curve": ["rank", "evaluate", RANK, "--ranker", "rank", "--propensities", "bad.json", "-e",
              "IPS"],
    "by_context": ["rank", "evaluate", RANK, "--ranker", "rank", "--propensities", "bad.json",
                   "--context", "topic", "-e", "IPS"],
}  # fmt: skip


@pytest.fixture
def read(kept, tmp_path, monkeypatch) -> Callable[[str, str], Any]:
    """What comes of reading this text where a file of a kind is expected."""
    monkeypatch.chdir(tmp_path)
    for path in kept.iterdir():
        Path(path.name).symlink_to(path)

    def outcome(kind: str, text: str) -> Any:
        Path("bad.json").write_text(text, encoding="utf-8", errors="surrogatepass")
        return CliRunner().invoke(cli, READ[kind])

    return outcome


@pytest.mark.parametrize("kind", READ)
def test_damage_is_a_sentence_that_names_the_file(kept, read, kind):
    """Or, where nothing tells that it is damaged, an answer; never a fault of ours."""
    from offpolicy.errors import OffpolicyError

    text = (kept / f"{kind}.json").read_text(encoding="utf-8")
    assert read(kind, text).exit_code in (0, 1)
    rng, refused = random.Random(1), 0
    for _ in range(60):
        bad = damaged(text, rng)
        outcome = read(kind, bad)
        if outcome.exit_code not in (0, 1) or outcome.exception is not None:
            known = isinstance(outcome.exception, (OffpolicyError, SystemExit))
            assert known, (bad, outcome.exc_info)
            refused += isinstance(outcome.exception, OffpolicyError)
    assert refused > 15


@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize("text", ["[" * 100_000, '{"schema":' * 20_000, "", "\ud800", "NaN", "1"])
def test_nesting_and_what_is_no_object(read, capsys, kind, text):
    read(kind, text)
    code, said = fails(READ[kind], capsys)
    assert code == 2
    assert "bad.json" in said
    assert not Path("page.html").exists()


def test_nesting_inside_a_file_of_ours(kept, read, capsys):
    for kind in READ:
        text = (kept / f"{kind}.json").read_text(encoding="utf-8")
        read(kind, text.replace(": ", ": " + "[" * 50_000, 3))
        assert fails(READ[kind], capsys)[0] == 2


@pytest.mark.parametrize(
    "content", [b'action = "\xff"', b"action = [", b"a = " + b"[" * 100_000, b"\xff\xfe", b"\0"]
)
def test_columns_in_a_file_that_is_no_toml(kept, tmp_path, monkeypatch, capsys, content):
    monkeypatch.chdir(kept)
    (tmp_path / "bad.toml").write_bytes(content)
    words = ["evaluate", *LOG, "--columns", str(tmp_path / "bad.toml")]
    code, said = fails(words, capsys)
    assert code == 2
    assert said.startswith(f"LogError: {tmp_path / 'bad.toml'}: not a readable TOML file")


def test_json_with_numbers_that_are_none(kept, read, capsys):
    text = (kept / "result.json").read_text(encoding="utf-8")
    read("result", text.replace('"level": 0.95', '"level": NaN', 1))
    assert "NaN" in Path("bad.json").read_text(encoding="utf-8")
    assert fails(READ["result"], capsys)[0] == 2
