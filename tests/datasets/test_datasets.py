"""Data sets: what is at hand is found, what is fetched is whole and right, or nothing is kept."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import offpolicy as op
from offpolicy import datasets
from offpolicy.cli import cli, main
from offpolicy.datasets import _fetching as fetching
from offpolicy.datasets import _folders as folders
from offpolicy.datasets import _lzw as lzw
from offpolicy.datasets import catalogue
from offpolicy.datasets.catalogue import LABELLED, OPEN_BANDIT, Labelled, Member
from offpolicy.errors import DatasetError, ParameterError
from tests.support.limits import limit
from tests.support.refusals import refuses

DATA = os.environ.get("OFFPOLICY_DATA", "")
RAW = Path(DATA) / "uci" / "raw"
needs_data = pytest.mark.skipif(not (DATA and RAW.is_dir()), reason="OFFPOLICY_DATA has no uci/raw")
AT_HAND = [name for name in LABELLED if (RAW.parent / f"{name}.csv.gz").is_file()] if DATA else []

TINY_DATA = b"1 2.5 ape\n3 4 bee\r\n\n"
TINY_TEST = b"5 6e1 ape\n"
TINY = Labelled(
    "tiny", 1, "tiny+set.zip",
    (Member("tiny.data", hashlib.sha256(TINY_DATA).hexdigest(), "train"),
     Member("tiny.test", hashlib.sha256(TINY_TEST).hexdigest(), "test")),
    ("u", "v"), ("ape", "bee"), (2, 1), "Nobody (2020), Tiny", "10.0/tiny",
)  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_here(tmp_path, monkeypatch) -> Path:
    """No data folder, an empty cache, no proxy; returns the cache."""
    for name in ("OFFPOLICY_DATA", "OFFPOLICY_OBD"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    cache = tmp_path / "cache"
    monkeypatch.setenv("OFFPOLICY_CACHE", str(cache))
    return cache


def kept(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def zipped(files: dict[str, bytes]) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return body.getvalue()


class Server:
    """Serves ``answers`` by path: bytes, or a function of the handler; counts the requests."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes | Callable[[http.server.BaseHTTPRequestHandler], None]] = {}
        self.requests: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append(self.path)
                answer = outer.answers.get(self.path)
                if answer is None:
                    self.send_error(404)
                elif callable(answer):
                    answer(self)
                else:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


@pytest.fixture
def tiny(server, monkeypatch) -> Labelled:
    """A set of three examples, which the server has."""
    known = replace(TINY, source=server.url)
    monkeypatch.setitem(LABELLED, "tiny", known)
    server.answers["/1/tiny+set.zip"] = zipped(
        {"Index": b"", "inner/folder/tiny.data": TINY_DATA, "inner/tiny.test": TINY_TEST}
    )
    return known


# -- fetching --------------------------------------------------------------------------------


def test_a_set_is_fetched_once(server, tiny, nothing_here, capsys):
    examples = datasets.load("tiny", download=True)
    assert examples.X.tolist() == [[1, 2.5], [3, 4], [5, 60]]
    assert examples.y.tolist() == [0, 1, 0]
    assert examples.train.tolist() == [True, True, False]
    assert (examples.features, examples.classes) == (("u", "v"), ("ape", "bee"))
    size = len(server.answers["/1/tiny+set.zip"])
    assert capsys.readouterr() == ("", f"tiny+set.zip: {size:,} bytes fetched\n")
    assert kept(nothing_here) == ["uci/raw/tiny.data", "uci/raw/tiny.test"]
    server.answers.clear()
    assert datasets.load("tiny").y.tolist() == [0, 1, 0]
    assert datasets.fetch("tiny") == [nothing_here / f"uci/raw/tiny.{k}" for k in ("data", "test")]
    assert len(server.requests) == 1


def test_without_being_asked_nothing_is_fetched(server, tiny, nothing_here):
    with refuses(DatasetError, "download", match='Run "offpolicy datasets fetch tiny"'):
        datasets.load("tiny")
    assert server.requests == []


def test_progress_on_a_terminal(server, tiny, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    datasets.fetch("tiny")
    size = len(server.answers["/1/tiny+set.zip"])
    assert sys.stderr.getvalue() == (
        f"\r\x1b[Ktiny+set.zip: {size:,} of {size:,} bytes (100%)"
        f"\r\x1b[Ktiny+set.zip: {size:,} bytes fetched\n"
    )
    assert fetching.amount_fetched(3000, None) == "3,000 bytes"


def halfway(body: bytes, *, say_length: bool = True):
    """An answer that ends in the middle."""

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        if say_length:
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: len(body) // 2])

    return answer


def hang_up(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.connection.close()


def damaged(body: bytes) -> bytes:
    """One byte of a member is another."""
    position = body.index(b"tiny.data") + 20
    return body[:position] + bytes([body[position] ^ 255]) + body[position + 1 :]


BODY = zipped({"tiny.data": TINY_DATA * 50, "tiny.test": TINY_TEST})
BAD = {
    "404": (None, r"answers 404 \(Not Found\)\. Or get tiny\.data, tiny\.test from https://"),
    "dies": (halfway(BODY), r"broke off after \d+ of \d+ bytes \(\d+%\)\. Try again later\. Or"),
    "truncated": (halfway(BODY, say_length=False), r"is not a whole zip archive \(.*\)\. Try"),
    "hangs up": (hang_up, r"cannot be reached \(.*\)\. Or get"),
    "not a zip": (b"<html>Sorry</html>", r"is not a whole zip archive"),
    "damaged": (damaged(BODY), r"is not a whole zip archive"),
    "wrong content": (BODY, r"tiny\.data: this is not the official file: its SHA-256 is \w{64}"),
    "no such file": (zipped({"tiny.data": TINY_DATA}), r"holds no tiny\.test\. Or get"),
    "empty": (b"", r"is not a whole zip archive"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_what_goes_wrong_says_so_and_leaves_nothing(server, tiny, nothing_here, kind):
    answer, message = BAD[kind]
    if answer is None:
        server.answers.clear()
    else:
        server.answers["/1/tiny+set.zip"] = answer
    with refuses(DatasetError, match=message) as problem:
        datasets.fetch("tiny")
    assert str(problem.value).endswith(f"and put them into {nothing_here / 'uci' / 'raw'}.")
    assert kept(nothing_here) == []


def test_no_network(tiny, nothing_here, monkeypatch):
    nobody = replace(tiny, source="http://127.0.0.1:9")
    monkeypatch.setitem(LABELLED, "tiny", nobody)
    with refuses(DatasetError, file="tiny+set.zip"):
        datasets.load("tiny", download=True)
    assert kept(nothing_here) == []


def test_a_cache_that_cannot_be_written(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OFFPOLICY_CACHE", str(tmp_path / "file"))
    with refuses(DatasetError, file="tiny.data"):
        datasets.fetch("tiny")


FETCH = """
import sys
from dataclasses import replace
from offpolicy import datasets
from offpolicy.datasets.catalogue import LABELLED, Labelled, Member
LABELLED["tiny"] = eval(sys.argv[1])
print(datasets.load("tiny", download=True).y.tolist())
"""


def test_two_processes_at_once(server, tiny, nothing_here):
    body = server.answers["/1/tiny+set.zip"]
    both = threading.Barrier(2, timeout=30)

    def together(handler: http.server.BaseHTTPRequestHandler) -> None:
        both.wait()
        handler.send_response(200)
        handler.end_headers()
        for k in range(0, len(body), 40):
            handler.wfile.write(body[k : k + 40])
            time.sleep(0.001)

    server.answers["/1/tiny+set.zip"] = together
    command = [sys.executable, "-c", FETCH, repr(tiny)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for process in running:
        out, error = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "[0, 1, 0]\n"), error
    assert len(server.requests) == 2
    assert kept(nothing_here) == ["uci/raw/tiny.data", "uci/raw/tiny.test"]
    assert (nothing_here / "uci/raw/tiny.data").read_bytes() == TINY_DATA


def test_a_damaged_file_in_the_cache_is_noticed(tiny, nothing_here):
    datasets.fetch("tiny")
    path = nothing_here / "uci" / "raw" / "tiny.data"
    path.write_bytes(TINY_DATA.replace(b"ape", b"bee"))
    with refuses(DatasetError, file="tiny.data"):
        datasets.load("tiny")


@pytest.mark.parametrize(
    ("line", "file", "row"),
    [
        (b"1 2 cat", "tiny+set.zip, tiny.data", 1),
        (b"1 ape", "tiny+set.zip, tiny.data", 1),
        (b"1 2 3 ape", "tiny+set.zip, tiny.data", 1),
        (b"1 x ape", "tiny+set.zip, tiny.data", 1),
        (b"1 2 ape", "tiny+set.zip", None),
    ],
)
def test_without_a_hash_the_content_is_compared(
    tiny, server, nothing_here, monkeypatch, line, file, row
):
    unpinned = replace(tiny, members=(Member("tiny.data"), Member("tiny.test")))
    monkeypatch.setitem(LABELLED, "tiny", unpinned)
    server.answers["/1/tiny+set.zip"] = zipped({"tiny.data": line, "tiny.test": TINY_TEST})
    with refuses(DatasetError, row=row, file=file):
        datasets.fetch("tiny")
    assert kept(nothing_here) == []


# -- the official sets -----------------------------------------------------------------------


def made_up(known: Labelled) -> dict[str, bytes]:
    """Files in the official form, with made-up numbers and the known counts of classes."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(known.labels, known.counts))
    files = {}
    for k, part in enumerate(np.array_split(labels, len(known.members))):
        lines = []
        for label in part:
            numbers = [f"{v:.4g}" for v in rng.normal(0, 50, len(known.features))]
            fields = [label, *numbers] if known.label_first else [*numbers, label]
            lines.append((known.separator or " ").join(fields) + ("" if known.separator else " "))
        if known.header:
            lines[:0] = [";;; a comment", "", f"{known.header},AND,OTHERS", ""]
        files[known.members[k].name] = ("\n".join(lines) + "\n").encode()
    return files


@pytest.mark.parametrize("name", ["vehicle", "page-blocks", "segment"])
def test_sets_of_which_no_copy_is_at_hand(server, monkeypatch, nothing_here, name):
    known = replace(LABELLED[name], source=server.url)
    monkeypatch.setitem(LABELLED, name, known)
    files = made_up(known)
    if name == "page-blocks":  # as in the archive
        files = {"page-blocks.data.Z": compress(files["page-blocks.data"])}
    server.answers[f"/{known.number}/{known.archive}"] = zipped(files)
    examples = datasets.load(name, download=True)
    assert examples.X.shape == (known.rows, len(known.features))
    assert tuple(np.bincount(examples.y)) == known.counts
    assert (examples.train is not None) == (name == "segment")
    assert kept(nothing_here) == [f"uci/raw/{member.name}" for member in known.members]


def equal(a: datasets.Examples, b: datasets.Examples) -> None:
    assert np.array_equal(a.X, b.X)
    assert np.array_equal(a.y, b.y)
    assert (a.train is None) == (b.train is None)
    assert a.train is None or np.array_equal(a.train, b.train)
    assert (a.features, a.classes) == (b.features, b.classes)
    assert (a.X.dtype, a.y.dtype) == (b.X.dtype, b.y.dtype) == (np.float64, np.int64)


@needs_data
@pytest.mark.parametrize("name", AT_HAND)
def test_official_files_fetched_or_laid_down_equal_the_table(
    name, server, tmp_path, monkeypatch, nothing_here
):
    monkeypatch.setenv("OFFPOLICY_DATA", DATA)
    table = datasets.load(name)
    known = replace(LABELLED[name], source=server.url)
    monkeypatch.setitem(LABELLED, name, known)

    folder = tmp_path / "own" / "uci" / "raw"
    folder.mkdir(parents=True)
    for member in known.members:
        shutil.copy(RAW / f"{member.name}.gz", folder)
    monkeypatch.setenv("OFFPOLICY_DATA", str(tmp_path / "own"))
    equal(datasets.load(name), table)

    monkeypatch.delenv("OFFPOLICY_DATA")
    contents = {m.name: gzip.decompress((RAW / f"{m.name}.gz").read_bytes()) for m in known.members}
    server.answers[f"/{known.number}/{known.archive}"] = zipped(
        {f"some/folder/{file}": content for file, content in contents.items()}
    )
    equal(datasets.load(name, download=True), table)
    assert kept(nothing_here) == sorted(f"uci/raw/{member.name}" for member in known.members)


def test_the_catalogue_is_consistent():
    for known in LABELLED.values():
        assert len(known.labels) == len(known.counts) == len(known.class_names)
        assert len(set(known.features)) == len(known.features)
        assert all(
            m.sha256 is None or re.fullmatch("[0-9a-f]{64}", m.sha256) for m in known.members
        )
        assert known.url.startswith("https://archive.ics.uci.edu/static/public/")
    shapes = {name: (k.rows, len(k.features), len(k.labels)) for name, k in LABELLED.items()}
    assert shapes == {
        "letter": (20000, 16, 26), "optdigits": (5620, 64, 10), "satimage": (6435, 36, 6),
        "pendigits": (10992, 16, 10), "ecoli": (336, 7, 8), "glass": (214, 9, 6),
        "vehicle": (846, 18, 4), "yeast": (1484, 8, 10), "page-blocks": (5473, 10, 5),
        "segment": (2310, 19, 7),
    }  # fmt: skip


# -- your own folder -------------------------------------------------------------------------


def own_table(folder: Path, name: str, text: str) -> None:
    (folder / "uci").mkdir(parents=True, exist_ok=True)
    (folder / "uci" / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))


def test_a_set_of_your_own(tmp_path, monkeypatch):
    monkeypatch.setenv("OFFPOLICY_DATA", str(tmp_path))
    own_table(tmp_path, "mine", "a,label,b,split\n1,0,2,train\n3,2,4,test\n")
    examples = datasets.load("mine")
    assert examples.X.tolist() == [[1, 2], [3, 4]]
    assert examples.y.tolist() == [0, 2]
    assert examples.train.tolist() == [True, False]
    assert (examples.features, examples.classes) == (("a", "b"), ("0", "1", "2"))
    own_table(tmp_path, "unsplit", "a,label\n1,0\n")
    assert datasets.load("unsplit").train is None


@pytest.mark.parametrize(
    ("text", "column", "row"),
    [
        ("a,b\n1,2\n", "label", None),
        ("a,label\n1,0\nx,1\n", "", 1),
        ("a,label\n1,0.5\n", "", 0),
        ("a,label\n1\n", "", 0),
        ("a,label\n1,-1\n", "", None),
        ("a,label\nnan,1\n", "", None),
        ("a,label\n", "", None),
        ("", "", None),
    ],
)
def test_a_malformed_set_of_your_own(tmp_path, monkeypatch, text, column, row):
    monkeypatch.setenv("OFFPOLICY_DATA", str(tmp_path))
    own_table(tmp_path, "mine", text)
    with refuses(DatasetError, column, row, file="mine.csv.gz"):
        datasets.load("mine")


def test_a_table_that_is_not_what_it_is_called(tmp_path, monkeypatch):
    monkeypatch.setenv("OFFPOLICY_DATA", str(tmp_path))
    own_table(tmp_path, "ecoli", "a,label\n1,0\n")
    with refuses(DatasetError, file="ecoli.csv.gz"):
        datasets.load("ecoli")
    (tmp_path / "uci" / "glass.csv.gz").write_bytes(gzip.compress(b"a,label\n1,0\n")[:-5])
    with refuses(DatasetError, file="glass.csv.gz"):
        datasets.load("glass")


def test_names_that_are_none(tmp_path, monkeypatch):
    with refuses(DatasetError, "name", match='Did you mean "letter"'):
        datasets.load("leter", download=True)
    monkeypatch.setenv("OFFPOLICY_DATA", str(tmp_path))
    with refuses(DatasetError, "name", match=r"A set of your own would be .*/uci/x\.csv\.gz\.$"):
        datasets.load("x")
    for name in ("../uci/letter", "..", "a/b", "MQ2007"):
        with refuses(DatasetError, "name"):
            datasets.load(name)


def test_the_cache_is_where_the_platform_has_it(monkeypatch, tmp_path):
    monkeypatch.delenv("OFFPOLICY_CACHE")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    places = {}
    for platform in ("linux", "darwin", "win32"):
        monkeypatch.setattr(folders.sys, "platform", platform)
        for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
            monkeypatch.delenv(variable, raising=False)
        places[platform] = datasets.cache_folder()
    assert places == {
        "linux": tmp_path / ".cache" / "offpolicy",
        "darwin": tmp_path / "Library" / "Caches" / "offpolicy",
        "win32": tmp_path / "AppData" / "Local" / "offpolicy" / "Cache",
    }
    monkeypatch.setattr(folders.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert datasets.cache_folder() == tmp_path / "x" / "offpolicy"


def test_a_user_without_a_home_is_told_what_to_name(monkeypatch, tmp_path):
    """In a container a user may be a number without an entry anywhere."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for variable in ("OFFPOLICY_CACHE", "OFFPOLICY_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(folders.sys, "platform", "linux")
    monkeypatch.setattr(Path, "home", homeless)
    with refuses(DatasetError):
        datasets.roots()
    monkeypatch.setenv("OFFPOLICY_DATA", str(tmp_path))
    assert datasets.roots() == [tmp_path]


# -- .Z --------------------------------------------------------------------------------------


def compress(data: bytes, widest: int = 16, clear_after: int = 0) -> bytes:
    """Unix compress, plainly: groups of eight codes, padded where the width changes."""
    out = bytearray([0x1F, 0x9D, 0x80 | widest])
    width, codes, table, after, before = 9, [], {bytes([k]): k for k in range(256)}, 257, b""

    def flush() -> None:
        bits = sum(code << (k * width) for k, code in enumerate(codes))
        out.extend(
            bits.to_bytes(width if len(codes) == 8 else -(-len(codes) * width // 8), "little")
        )
        codes.clear()

    def pad() -> None:
        if codes:
            codes.extend([0] * (8 - len(codes)))
            flush()

    def put(code: int) -> None:
        codes.append(code)
        if len(codes) == 8:
            flush()

    for k in range(len(data)):
        byte = data[k : k + 1]
        if before + byte in table:
            before += byte
            continue
        put(table[before])
        if after < 1 << widest:
            table[before + byte] = after
            after += 1
            if after > 1 << width and width < widest:
                pad()
                width += 1
        if clear_after and after >= clear_after:
            put(256)
            pad()
            width, table, after = 9, {bytes([k]): k for k in range(256)}, 257
        before = byte
    if before:
        put(table[before])
    if codes:
        flush()
    return bytes(out)


@pytest.mark.parametrize(
    "options", [{}, {"widest": 10}, {"widest": 12}, {"clear_after": 700}], ids=str
)
@pytest.mark.parametrize("size", [0, 1, 2, 3000, 80_000])
def test_old_archives_are_unpacked(tmp_path, options, size):
    rng = np.random.default_rng(size)
    data = bytes(rng.choice(list(b"0123456789. \n"), size).astype(np.uint8)) + b"a" * min(size, 900)
    packed = compress(data, **options)
    assert lzw.unpack(packed, "x") == data
    if shutil.which("gzip"):
        (tmp_path / "x.Z").write_bytes(packed)
        done = subprocess.run(["gzip", "-dc", "x.Z"], cwd=tmp_path, capture_output=True, timeout=30)
        assert done.stdout == data, done.stderr


@pytest.mark.parametrize(
    ("packed", "row"),
    [(b"PK", None), (b"\x1f\x9d\x9f", None), (b"\x1f\x9d\x90\x61\xfe\xff\xff", 4)],
    ids=["another format", "31 bits", "damaged"],
)
def test_old_archives_that_are_none(packed, row):
    with refuses(DatasetError, row=row, file="x"):
        lzw.unpack(packed, "x")


# -- Open Bandit -----------------------------------------------------------------------------

HEAD = ",timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0\n"


def bandit_csv(items: int, n: int = 120, *, uniform: bool = True) -> bytes:
    rng = np.random.default_rng(items)
    lines = [
        f"{k},2019-11-24 00:00:{k % 60:02d}.5+00:00,{rng.integers(items)},{k % 3 + 1},{k % 9 // 8},"
        f"{1 / items if uniform else 0.01 + rng.random() / 2},f{k % 4},0.0\n"
        for k in range(n)
    ]
    return (HEAD + "".join(lines)).encode()


@pytest.mark.parametrize(("campaign", "items"), [("all", 80), ("men", 34), ("women", 46)])
def test_the_full_release_in_its_layout(tmp_path, monkeypatch, campaign, items):
    inner = tmp_path / "open_bandit_dataset"
    for behaviour in ("random", "bts"):
        (inner / behaviour / campaign).mkdir(parents=True)
        content = bandit_csv(items, uniform=behaviour == "random")
        (inner / behaviour / campaign / f"{campaign}.csv").write_bytes(content)
    for folder in (tmp_path, inner):
        log = datasets.open_bandit("random", campaign, folder=folder)
        assert (len(log), len(log.actions)) == (120, items)
        assert log.logging is not None
    monkeypatch.setenv("OFFPOLICY_OBD", str(inner))
    log = datasets.open_bandit("bts", campaign)
    assert (len(log.actions), log.logging) == (items, None)
    path = datasets.open_bandit_file("bts", campaign)
    assert path == inner / "bts" / campaign / f"{campaign}.csv"
    assert len(op.read_log(path)) == 120
    limit(monkeypatch, "offpolicy.datasets._open_bandit.LARGE", 100)
    with refuses(DatasetError, file=f"{campaign}.csv"):
        datasets.open_bandit("bts", campaign)


def test_a_release_without_the_file(tmp_path):
    with refuses(DatasetError, file=tmp_path.name):
        datasets.open_bandit(campaign="men", folder=tmp_path)
    with refuses(ParameterError, "behaviour"):
        datasets.open_bandit("ts")


@pytest.fixture
def sample(server, monkeypatch) -> bytes:
    """The server has the sample of men under the random policy, a made-up one."""
    content = bandit_csv(34)
    name = "open-bandit/random/men"
    known = replace(OPEN_BANDIT[name], source=server.url, sha256=fetching.sha256(content))
    monkeypatch.setitem(OPEN_BANDIT, name, known)
    server.answers["/random/men/men.csv"] = content
    return content


def test_the_sample_is_fetched_once(server, sample, nothing_here, monkeypatch, tmp_path):
    with refuses(DatasetError, "download"):
        datasets.open_bandit("random", "men")
    log = datasets.open_bandit("random", "men", download=True)
    assert (len(log), len(log.actions)) == (120, 34)
    assert kept(nothing_here) == ["logs/obd/random_men.csv"]
    assert datasets.open_bandit_file("random", "men").read_bytes() == sample
    assert datasets.fetch("open-bandit/random/men") == [nothing_here / "logs/obd/random_men.csv"]
    assert len(server.requests) == 1
    copy = tmp_path / "own" / "logs" / "obd" / "random_men.csv.gz"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(gzip.compress(sample))
    monkeypatch.setenv("OFFPOLICY_DATA", str(tmp_path / "own"))
    assert datasets.open_bandit_file("random", "men") == copy


def test_a_sample_that_is_another(server, sample, nothing_here):
    server.answers["/random/men/men.csv"] = sample + b"x"
    with refuses(DatasetError, file="men.csv"):
        datasets.fetch("open-bandit/random/men")
    assert kept(nothing_here) == []


@needs_data
@pytest.mark.parametrize("name", OPEN_BANDIT)
def test_the_sample_at_hand(name, monkeypatch):
    monkeypatch.setenv("OFFPOLICY_DATA", DATA)
    known = OPEN_BANDIT[name]
    log = datasets.open_bandit(known.behaviour, known.campaign)
    assert (len(log), len(log.actions)) == (10_000, known.items)
    assert (log.logging is not None) == (known.behaviour == "random")
    path = datasets.open_bandit_file(known.behaviour, known.campaign)
    assert fetching.sha256(gzip.decompress(path.read_bytes())) == known.sha256


# -- the command -----------------------------------------------------------------------------


def run(*arguments: str) -> tuple[str, str]:
    outcome = CliRunner().invoke(
        cli, ["datasets", *arguments], catch_exceptions=False, prog_name="offpolicy"
    )
    assert outcome.exit_code == 0, outcome.stderr
    return outcome.stdout, outcome.stderr


def fails(capsys, *arguments: str) -> str:
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["offpolicy", "datasets", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 2
    out, error = capsys.readouterr()
    assert out == ""
    return error


def test_list(tiny, nothing_here):
    before, quiet = run("list")
    assert quiet == ""
    head, _, *lines = before.splitlines()
    assert head.split() == ["name", "kind", "rows", "×", "features", "found"]
    assert len(lines) == len(catalogue.entries())
    assert all(line.endswith("not here") for line in lines)
    assert "pendigits                 labelled  10,992 × 16       10 classes  not here" in lines
    datasets.fetch("tiny")
    rows = json.loads(run("list", "--format", "json")[0])["datasets"]
    (row,) = [row for row in rows if row["name"] == "tiny"]
    assert row == {
        "name": "tiny", "kind": "labelled", "rows": 3, "features": 2, "classes": "2 classes",
        "found": str(nothing_here / "uci" / "raw"),
    }  # fmt: skip
    tsv = [line.split("\t") for line in run("list", "--format", "tsv")[0].splitlines()]
    assert tsv[0] == ["name", "kind", "rows", "features", "classes", "found"]
    assert [row["name"] for row in rows] == [line[0] for line in tsv[1:]]


def test_info(tiny, nothing_here, capsys):
    assert "counts" not in run("info", "tiny")[0]
    datasets.fetch("tiny")
    text = run("info", "TINY")[0]
    hashes = [member.sha256 for member in tiny.members]
    assert text == (
        "name      tiny\n"
        "kind      labelled\n"
        "shape     3 × 2, 2 classes\n"
        "source    https://archive.ics.uci.edu/dataset/1\n"
        "licence   CC BY 4.0\n"
        "citation  Nobody (2020), Tiny, https://doi.org/10.0/tiny\n"
        f"file      tiny.data  {hashes[0]}\n"
        f"file      tiny.test  {hashes[1]}\n"
        f"found     {nothing_here}/uci/raw/tiny.data\n"
        f"found     {nothing_here}/uci/raw/tiny.test\n"
        f"download  {tiny.url}\n"
        "counts    ape 2, bee 1\n"
    )
    (facts,) = json.loads(run("info", "tiny", "--format", "json")[0])["datasets"]
    assert facts["counts"] == {"ape": 2, "bee": 1}
    assert ("queries\t784" in run("info", "mq2008", "--format", "tsv")[0].splitlines()) is True
    assert run("info", "open-bandit")[0].count("found     not here") == 6
    assert "(no SHA-256 known)" in run("info", "vehicle")[0]
    assert fails(capsys, "info", "tinny").startswith(
        'DatasetError: There is no data set "tinny". Did you mean "tiny"?'
    )


def test_fetch(server, tiny, sample, nothing_here, capsys):
    out, progress = run("fetch", "tiny", "open-bandit/random/men")
    assert [line.split("\t") for line in out.splitlines()] == [
        ["tiny", f"{nothing_here}/uci/raw/tiny.data", fetching.sha256(TINY_DATA)],
        ["tiny", f"{nothing_here}/uci/raw/tiny.test", fetching.sha256(TINY_TEST)],
        ["open-bandit/random/men", f"{nothing_here}/logs/obd/random_men.csv",
         fetching.sha256(sample)],
    ]  # fmt: skip
    assert [line.split(":")[0] for line in progress.splitlines()] == ["tiny+set.zip", "men.csv"]
    assert run("fetch", "tiny") == ("".join(out.splitlines(True)[:2]), "tiny is here already.\n")
    assert "Name the data sets, or give --all." in fails(capsys, "fetch")
    assert "Name the data sets, or give --all." in fails(capsys, "fetch", "--all", "tiny")
    assert fails(capsys, "fetch", "MQ2008") == (
        "DatasetError: MQ2008 is not fetched, because of its terms: get it from https://www."
        "microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/, and put "
        "it into ltr/MQ2008 of the folder that OFFPOLICY_DATA names.\n"
    )


def test_what_can_be_fetched_is(server, tiny, sample, nothing_here):
    server.answers.pop("/1/tiny+set.zip")
    outcome = CliRunner().invoke(cli, ["datasets", "fetch", "tiny", "open-bandit/random/men"])
    assert isinstance(outcome.exception, DatasetError)
    assert str(outcome.exception) == "1 of 2 are missing: tiny."
    assert "answers 404" in outcome.stderr
    assert kept(nothing_here) == ["logs/obd/random_men.csv"]


def test_fetch_all(server, monkeypatch, nothing_here):
    for name in list(LABELLED):
        monkeypatch.delitem(LABELLED, name)
    for name in list(OPEN_BANDIT):
        content = bandit_csv(OPEN_BANDIT[name].items, 5)
        known = replace(OPEN_BANDIT[name], source=server.url, sha256=fetching.sha256(content))
        monkeypatch.setitem(OPEN_BANDIT, name, known)
        server.answers[f"/{known.behaviour}/{known.campaign}/{known.campaign}.csv"] = content
    assert len(run("fetch", "--all")[0].splitlines()) == 6
    assert len(kept(nothing_here)) == 6
