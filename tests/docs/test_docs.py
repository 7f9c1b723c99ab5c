"""The documentation is true: its code runs, its commands work, and both print what is shown.

A page's blocks run in order, in an empty folder. A ``text`` block holds what the ``python`` block
before it printed. In a ``console`` block, ``$ cat FILE`` shows a file, which is thereby made, and
``$ head`` its beginning, ``$ offpolicy …`` a command with its output; other commands are left
alone. A line "…" stands for lines left out.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import offpolicy as op
from offpolicy.cli import cli

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
TOLD = [page for page in DOCS if page.parent.name != "reference"]
"""Pages that somebody wrote: the reference has every name by itself."""
BLOCK = re.compile(r"^```(python|text|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")


def name_of(page: Path) -> str:
    """Its path in the documentation, which no other page has."""
    return page.relative_to(ROOT / "docs").as_posix() if page in DOCS else page.name


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, and what is shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def run(command: str) -> str:
    """What a command prints to stdout; it must answer, if only that the log cannot tell."""
    outcome = CliRunner().invoke(
        cli, shlex.split(command)[1:], catch_exceptions=False, prog_name="offpolicy"
    )
    assert outcome.exit_code in (0, 1), f"{command}\n{outcome.stderr}"
    assert outcome.stdout, command
    return outcome.stdout


def assert_same(shown: str, printed: str) -> None:
    """Equal words, and numbers equal but for what another machine's libraries may change."""
    expected, found = shown.rstrip().splitlines(), printed.rstrip().splitlines()
    if "…" in expected:
        at = expected.index("…")
        found[at : len(found) - (len(expected) - at - 1)] = ["…"]
    texts = ["\n".join(re.sub("─+", "─", line) for line in lines) for lines in (expected, found)]
    words = [NUMBER.sub("#", text).split() for text in texts]
    numbers = [[float(x.replace(",", "")) for x in NUMBER.findall(text)] for text in texts]
    assert words[0] == words[1], printed
    assert numbers[0] == pytest.approx(numbers[1], rel=5e-3, abs=5e-3), printed


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_everything_shown_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for kind, text in BLOCK.findall(read(page)):
        if kind == "python":
            exec(compile(text, page.name, "exec"), namespace)
        elif kind == "text":
            assert_same(text, capsys.readouterr().out)
        else:
            for command, shown in commands(text):
                if command.startswith("cat "):
                    Path(command[4:]).write_text(shown, encoding="utf-8")
                elif command.startswith("head -"):
                    lines, file = command.removeprefix("head -").split()
                    first = Path(file).read_text(encoding="utf-8").splitlines()[: int(lines)]
                    assert shown.splitlines() == first
                elif command.startswith("offpolicy "):
                    printed = run(command)
                    if shown.strip():
                        assert_same(shown, printed)


@pytest.mark.parametrize("name", op.__all__)
def test_every_exported_name_is_in_the_docs(name):
    word = re.compile(rf"(?<![\w-]){name}(?![\w-])")
    assert any(word.search(read(page)) for page in TOLD)


def described(part: str) -> list[str]:
    """The names on a page of the reference."""
    text = (ROOT / "docs" / "reference" / f"{part}.md").read_text(encoding="utf-8")
    return re.findall(r"^## (\w+)$", text, re.MULTILINE)


@pytest.mark.parametrize("name", [*described("learning"), *described("ranking")])
def test_every_name_of_a_part_is_in_the_docs(name):
    word = re.compile(rf"(?<![\w-]){name}(?![\w-])")
    assert any(word.search(read(page)) for page in TOLD)


def test_links_of_the_front_page_lead_somewhere():
    for target in re.findall(r"\]\((?!http)([^)#]+)", read(ROOT / "README.md")):
        assert (ROOT / target).exists(), target


def _sh(page: Path) -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", read(page), flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def _logs_of_the_front_page(folder: Path) -> None:
    """What the commands of the front page are given: two parts of a log, and one with clicks."""
    rng = np.random.default_rng(0)
    n, K = 4000, 3
    X = rng.normal(size=(n, 2))
    best = (X @ [[1, 0, -1], [0, 1, -1]]).argmax(axis=1)
    logging = np.full((n, K), 1.0 / K)
    action = rng.integers(0, K, n)
    new, other = 0.7 * np.eye(K)[best] + 0.1, np.tile([0.2, 0.3, 0.5], (n, 1))
    columns = {
        "action": action, "reward": (rng.random(n) < 0.2 + 0.6 * (action == best)).astype(float),
        "logging": list(logging), "new_policy": list(new), "other": list(other),
        "q": list(np.full((n, K), 0.4)), "x0": X[:, 0], "x1": X[:, 1],
    }  # fmt: skip
    whole = pa.table(columns)
    (folder / "logs").mkdir()
    pq.write_table(whole.slice(0, n // 2), folder / "logs" / "a.parquet")
    pq.write_table(whole.slice(n // 2), folder / "logs" / "b.parquet")
    pq.write_table(whole, folder / "logs.parquet")
    m, queries = 6, 300
    rank = np.tile(np.arange(1, m + 1), queries)
    score = rng.normal(size=m * queries)
    seen = rng.random(m * queries) < 1.0 / rank
    clicks = {
        "query": np.repeat(np.arange(queries), m), "rank": rank, "propensity": 1.0 / rank,
        "click": (seen & (score > 0.5)).astype(int), "new_score": score,
    }  # fmt: skip
    pq.write_table(pa.table(clicks), folder / "clicks.parquet")


def test_the_commands_of_the_front_page_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _logs_of_the_front_page(tmp_path)
    ran = [line for line in _sh(ROOT / "README.md") if line.startswith("offpolicy ")]
    assert len(ran) >= 4
    for line in ran:
        words = [name for word in shlex.split(line) for name in sorted(glob(word)) or [word]]
        run(shlex.join(words))
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "policy.json").exists()


def test_the_targets_of_the_front_page_exist():
    made = re.findall(r"make ([a-z-]+)", read(ROOT / "README.md"))
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert {"demo", "test"} <= set(made) <= set(targets)


def test_the_front_page_is_short():
    assert len(read(ROOT / "README.md").splitlines()) <= 150


def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    built = {page.relative_to(tmp_path).as_posix() for page in tmp_path.rglob("*.html")}
    assert {name_of(page).replace(".md", ".html") for page in DOCS} <= built


def test_every_estimator_has_its_page_and_its_picture():
    for name in op.estimators.NAMED:
        page = ROOT / "docs" / "estimators" / f"{name.lower()}.md"
        picture = f"img/estimators/{name.lower()}.svg"
        assert read(page).startswith(f"# {name}\n")
        assert f"](../{picture})" in read(page)
        assert 0 < (ROOT / "docs" / picture).stat().st_size < 40_000, picture
        assert f"](estimators/{name.lower()}.md)" in read(ROOT / "docs" / "estimators.md")
