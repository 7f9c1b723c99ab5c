"""LETOR text: every number to the last bit, every line accounted for."""

from __future__ import annotations

import gzip
import math
import os
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from offpolicy import datasets
from offpolicy.errors import DatasetError, LogError, ParameterError
from offpolicy.logs.formats import _letor_kernels as scanning
from offpolicy.logs.formats import letor
from tests.support.limits import limit
from tests.support.refusals import refuses

DATA = os.environ.get("OFFPOLICY_DATA", "")
LTR = Path(DATA) / "ltr"
needs_data = pytest.mark.skipif(not (DATA and LTR.is_dir()), reason="OFFPOLICY_DATA has no ltr")

SMALL = b"""\
2 qid:10 1:0.5 2:1 4:-3e-2 #docid = a:1 inc = 1
0 qid:10 3:.25\r
\t 1\tqid:10 1:+7. 2:0.1 # 5:5

# a line of its own 9:9
0 qid:7
1 qid:7 4:1e2#x"""


@pytest.fixture
def write(tmp_path):
    def to(content: bytes, name: str = "a.txt") -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return to


def slowly(text: str, d: int) -> list[tuple[float, int, list[float]]]:
    """The obvious reader."""
    rows = []
    for line in text.split("\n"):
        words = line.partition("#")[0].split()
        if words:
            values = [0.0] * d
            for word in words[2:]:
                feature, _, value = word.partition(":")
                values[int(feature) - 1] = float(value)
            rows.append((float(words[0]), int(words[1].removeprefix("qid:")), values))
    return rows


def parsed(text: str) -> tuple[float, int, int]:
    return scanning.decimal(np.frombuffer(f"{text}\n".encode(), np.uint8), 0)


def same(a: float, b: float) -> bool:
    return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)


# -- numbers ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=500)
@given(
    st.sampled_from(["", "-", "+"]),
    st.text("0123456789", max_size=24),
    st.one_of(st.none(), st.text("0123456789", max_size=24)),
    st.one_of(st.none(), st.integers(-330, 330)),
)
@example("-", "0", "0", None)
@example("", "9007199254740993", None, None)
@example("", "0", "500000000000000000000000000000", None)
@example("", "1", None, -400)
@example("", "12345678901234567", "8", 5)
def test_a_number_is_exact_or_left_to_float(sign, whole, part, exponent):
    text = sign + whole + ("" if part is None else f".{part}")
    text += "" if exponent is None else f"e{exponent:+d}"
    value, end, kind = parsed(text)
    if not whole and not part:
        assert kind == scanning.NONE
        return
    assert end == len(text)
    assert kind == scanning.LATE or (kind == scanning.EXACT and same(value, float(text)))


@settings(deadline=None, max_examples=500)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_python_writes_is_read_back(value):
    found, _, kind = parsed(repr(value))
    assert kind == scanning.LATE or same(found, value)


@settings(deadline=None, max_examples=500)
@given(st.integers(2**52, 2**53 - 1), st.integers(1, 10), st.integers(-1, 1))
def test_a_number_between_two_doubles_goes_to_the_right_one(mantissa, bits, beside):
    """Halfway, and one digit to either side, in at most 19 digits or not."""
    halfway = Fraction(2 * mantissa + 1, 2 ** (bits + 1))
    text = f"{Decimal(halfway.numerator) / Decimal(halfway.denominator):f}"
    text = text[:-1] + str(int(text[-1]) + beside)
    value, _, kind = parsed(text)
    assert kind == scanning.LATE or same(value, float(text))


def test_few_numbers_are_left_to_float():
    numbers = np.random.default_rng(0).random(20_000)
    late = [parsed(repr(float(value)))[2] == scanning.LATE for value in numbers]
    assert np.mean(late) < 0.01
    assert not any(parsed(f"{value:.6f}")[2] for value in numbers[:2000])


@pytest.mark.parametrize("text", ["", "-", ".", "+.", "e5", "1e", "1e+", "nan", "inf", "NULL"])
def test_what_is_no_number(text):
    _, end, kind = parsed(text)
    assert kind == scanning.NONE or end < len(text)


# -- files -----------------------------------------------------------------------------------


def test_a_file_is_read(write):
    found = datasets.letor(write(SMALL))
    assert found.X.tolist() == [
        [0.5, 1, 0, -0.03], [0, 0, 0.25, 0], [7, 0.1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 100],
    ]  # fmt: skip
    assert found.relevance.tolist() == [2, 0, 1, 0, 1]
    assert found.offsets.tolist() == [0, 3, 5]
    assert found.qid.tolist() == [10, 7]
    assert found.scattered == 0
    assert (found.X.dtype, found.offsets.dtype, found.qid.dtype) == (float, np.int64, np.int64)


def test_numbers_left_to_float_land_where_they_belong(write):
    long = "0.1234567890123456789012345"
    found = letor.read(write(f"1e30 qid:1 2:1e-30\n2 qid:1 1:{long} 2:-{long}\n".encode()))
    assert found.relevance.tolist() == [1e30, 2.0]
    assert found.X.tolist() == [[0.0, 1e-30], [float(long), -float(long)]]


def random_text(seed: int) -> str:
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(60):
        kept = np.flatnonzero(rng.random(9) < 0.6) + 1
        numbers = [repr(float(v)) if rng.random() < 0.5 else f"{v:.6f}" for v in rng.random(9)]
        pairs = " ".join(f"{j}:{numbers[j - 1]}" for j in kept)
        lines.append(f"{rng.integers(0, 5)} qid:{rng.integers(0, 8)} {pairs} # {rng.random()}")
        if rng.random() < 0.2:
            lines.append(rng.choice(["", "   ", "# 12:1"]))
    return rng.choice(["\n", "\r\n"]).join(lines) + rng.choice(["", "\n"])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("block", [7, 100, 10**6])
def test_any_file_is_read_as_the_obvious_reader_does(write, monkeypatch, seed, block):
    limit(monkeypatch, "offpolicy.logs.formats.letor.BLOCK", block)
    limit(monkeypatch, "offpolicy.logs.formats.letor._LATE", 11)
    text = random_text(seed)
    rows = slowly(text, 9)
    order = {}
    for _, qid, _ in rows:
        order.setdefault(qid, len(order))
    grouped = sorted(rows, key=lambda row: order[row[1]])
    found = letor.read(write(text.encode()), features=9)
    assert found.X.tolist() == [values for _, _, values in grouped]
    assert found.relevance.tolist() == [relevance for relevance, _, _ in grouped]
    assert found.qid.tolist() == list(order)
    assert np.repeat(found.qid, np.diff(found.offsets)).tolist() == [qid for _, qid, _ in grouped]


def test_queries_that_are_scattered_are_put_together_and_counted(write):
    found = letor.read(write(b"0 qid:3 1:1\n0 qid:1 1:2\n0 qid:3 1:3\n0 qid:2 1:4\n0 qid:1 1:5\n"))
    assert found.X.ravel().tolist() == [1, 3, 2, 5, 4]
    assert found.qid.tolist() == [3, 1, 2]
    assert found.offsets.tolist() == [0, 2, 4, 5]
    assert found.scattered == 2


def test_several_files_are_one(write):
    first, second = write(b"1 qid:1 1:1\n", "a.txt"), write(b"0 qid:2 3:1\n1 qid:1\n", "b.txt")
    found = datasets.letor([first, second])
    assert found.X.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert found.scattered == 1
    write(b"not for us", "readme.md")
    for a, b in zip(found, datasets.letor(first.parent), strict=True):
        assert np.array_equal(a, b)


def test_packed_files_and_a_byte_order_mark(write):
    plain = letor.read(write(SMALL))
    for path in (
        write(gzip.compress(SMALL), "a.txt.gz"),
        write(gzip.compress(SMALL[:80]) + gzip.compress(SMALL[80:]), "b.txt.gz"),
        write(b"\xef\xbb\xbf" + SMALL, "c.txt"),
    ):
        assert letor.read(path).X.tolist() == plain.X.tolist()


def test_single_precision_and_the_number_of_features(write):
    found = letor.read(write(SMALL), features=6, dtype=np.float32)
    assert (found.X.dtype, found.X.shape) == (np.float32, (5, 6))
    assert found.X[2, 1] == np.float32(0.1)
    with refuses(ParameterError, "dtype"):
        letor.read(write(SMALL), dtype=int)
    with refuses(ParameterError, "features"):
        letor.read(write(SMALL), features=0)


WRONG = {
    "x qid:1 1:1": '"x" is not a number; a line begins with the relevance.',
    "1x qid:1 1:1": '"1x" is not a number; a line begins with the relevance.',
    "qid:1 1:1": '"qid:1" is not a number; a line begins with the relevance.',
    "1 1:1": 'after the relevance there must be qid:NUMBER, not "1:1".',
    "1": "after the relevance there must be qid:NUMBER, not the end of the line.",
    "1 # qid:3": "after the relevance there must be qid:NUMBER, not the end of the line.",
    "1 qid:": '"qid:" does not name a query by a whole number of at most 18 digits.',
    "1 qid:q 1:1": '"qid:q" does not name a query by a whole number of at most 18 digits.',
    "1 qid:1.5": '"qid:1.5" does not name a query by a whole number of at most 18 digits.',
    "1 qid:1 0:1": "feature 0, but they are numbered from 1 to 3.",
    "1 qid:1 4:1": "feature 4, but they are numbered from 1 to 3.",
    "1 qid:1 99999999999999999999:1": "feature 99999999999999999999, but they are numbered from",
    "1 qid:1 2:1 2:1": "feature 2 is given twice.",
    "1 qid:1 3:1 2:1": "feature 2 after feature 3; they must be in order.",
    "1 qid:1 -1:1": '"-1:1" is not a feature and its value, such as 3:0.25.',
    "1 qid:1 2": '"2" is not a feature and its value, such as 3:0.25.',
    "1 qid:1 a:2": '"a:2" is not a feature and its value, such as 3:0.25.',
    "1 qid:1 2 :1": '"2" is not a feature and its value, such as 3:0.25.',
    "1 qid:1 2:": '"2:": the value is not a number. Correct it or leave the line out.',
    "1 qid:1 2:NULL": '"2:NULL": the value is not a number. Correct it or leave the line out.',
    "1 qid:1 2:nan": '"2:nan": the value is not a number. Correct it or leave the line out.',
    "1 qid:1 2:1_0": '"2:1_0": the value is not a number. Correct it or leave the line out.',
    "1 qid:1 2:1,5": '"2:1,5": the value is not a number. Correct it or leave the line out.',
    "1 qid:1 2:\x00": '"2:\x00": the value is not a number. Correct it or leave the line out.',
    "1 qid:1 2:1e999": "1e999 is too large.",
    "-1e999 qid:1 2:1": "-1e999 is too large.",
}


@pytest.mark.parametrize("line", WRONG, ids=repr)
@pytest.mark.parametrize("block", [16, 10**6])
@pytest.mark.parametrize("end", ["", "\n", "\r\n0 qid:1 1:1\n"])
def test_a_malformed_line_is_named(write, monkeypatch, line, block, end):
    limit(monkeypatch, "offpolicy.logs.formats.letor.BLOCK", block)
    path = write(f"0 qid:1 1:1 3:2\n\n# x\n1 qid:1 2:1\n{line}{end}".encode())
    with refuses(LogError, row=5, file="a.txt", match=re.escape(WRONG[line])):
        letor.read(path, features=3)


def test_a_feature_number_beyond_reason_is_named(write):
    path = write(b"0 qid:1 1:1\n0 qid:1 4000000000:1 # 5\n")
    with refuses(LogError, row=2, file="a.txt"):
        letor.read(path)


def test_files_that_hold_nothing_or_end_early(write, tmp_path):
    with refuses(LogError, file="a.txt"):
        letor.read(write(b"\n# nothing\n"))
    with refuses(LogError, file="e.txt"):
        letor.read(write(b"", "e.txt"))
    with refuses(LogError, file="a.txt.gz"):
        letor.read(write(gzip.compress(random_text(0).encode())[:-20], "a.txt.gz"))
    with refuses(LogError, file="none.txt"):
        letor.read(tmp_path / "none.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogError, match=r"empty: there is no \.txt in it\.$"):
        datasets.letor(tmp_path / "empty")


# -- known sets ------------------------------------------------------------------------------


def lay_out(folder: Path, names: list[str], packed: bool = False) -> None:
    """A document each, whose query says which file it is in."""
    for k, name in enumerate(names):
        path = folder / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        line = f"1 qid:{k} 1:{k} 40:1\n".encode()
        if packed:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(line))
        else:
            path.write_bytes(line)


FOLDS = [f"Fold{k}/{split}" for k in range(1, 6) for split in ("train", "vali", "test")]
PARTS = [f"S{k}" for k in range(1, 6)]


@pytest.mark.parametrize("name", ["MQ2007", "MQ2008", "MSLR-WEB10K", "MSLR-WEB30K", "mslr-web10k"])
def test_folds(tmp_path, name):
    lay_out(tmp_path, FOLDS)
    found = datasets.ranking(name, "vali", fold=3, folder=tmp_path)
    assert found.qid.tolist() == [FOLDS.index("Fold3/vali")]
    assert found.X.shape == (1, 46 if name.startswith("MQ") else 136)
    assert datasets.ranking(name, folder=tmp_path).qid.tolist() == [0, 1, 2]
    assert datasets.ranking(name, "valid", fold=1, folder=tmp_path).qid.tolist() == [1]
    # The fifth part is the test set of the first fold, the first part that of the second.
    assert datasets.ranking(name, part="S5", folder=tmp_path).qid.tolist() == [2]
    assert datasets.ranking(name, part="S1", folder=tmp_path).qid.tolist() == [5]


def test_parts_make_folds(tmp_path):
    lay_out(tmp_path / "MQ2008", PARTS, packed=True)

    def of(*arguments, **options):
        return datasets.ranking("MQ2008", *arguments, folder=tmp_path, **options).qid.tolist()

    assert of() == [0, 1, 2, 3, 4]
    assert of(part="S4") == [3]
    assert [of("train", fold=k) for k in (1, 4)] == [[0, 1, 2], [3, 4, 0]]
    assert [of("vali", fold=k) for k in (1, 4)] == [[3], [1]]
    assert [of("test", fold=k) for k in (1, 4)] == [[4], [2]]


def test_splits(tmp_path):
    lay_out(tmp_path / "a" / "full", ["train", "test"])
    assert datasets.ranking("Istella", folder=tmp_path / "a").qid.tolist() == [0, 1]
    assert datasets.ranking("Istella", "test", folder=tmp_path / "a").X.shape == (1, 220)
    lay_out(tmp_path / "b", ["train", "vali", "test"])
    assert datasets.ranking("Istella-S", folder=tmp_path / "b").qid.tolist() == [0, 1, 2]
    lay_out(tmp_path / "c", ["set1.train", "set1.valid", "set1.test"])
    yahoo = datasets.ranking("Yahoo-Set1", "vali", folder=tmp_path / "c", dtype=np.float32)
    assert (yahoo.qid.tolist(), yahoo.X.shape, yahoo.X.dtype) == ([1], (1, 700), np.float32)


def test_what_is_not_there_says_where_to_get_it(tmp_path, monkeypatch):
    monkeypatch.delenv("OFFPOLICY_DATA", raising=False)
    monkeypatch.setenv("OFFPOLICY_CACHE", str(tmp_path))
    with pytest.raises(DatasetError) as problem:
        datasets.ranking("MQ2008", "train", fold=5)
    place = tmp_path / "ltr" / "MQ2008"
    assert str(problem.value) == (
        f"MQ2008: there is no Fold5/train.txt or S5.txt, S1.txt, S2.txt (or .gz) in {place}. It is "
        "not fetched, because of its terms: get it from https://www.microsoft.com/en-us/research/"
        "project/letor-learning-rank-information-retrieval/ and give its folder (folder=), or put "
        "it there."
    )
    monkeypatch.setenv("OFFPOLICY_DATA", str(tmp_path / "own"))
    lay_out(tmp_path / "own" / "ltr" / "MQ2008", PARTS)
    assert datasets.ranking("MQ2008", part="S2").qid.tolist() == [1]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("MQ2008", {"split": "dev", "fold": 1}, 'split is "dev"; it must be train, vali or test.'),
        ("MQ2008", {"split": "test", "fold": 6}, "fold is 6; it must be 1 to 5."),
        ("MQ2008", {"part": "S6"}, 'part is "S6"; it must be S1 to S5.'),
        ("MQ2008", {"part": "S1", "fold": 1}, "Give a part, or a fold and a split, not both."),
        ("MSLR-WEB10K", {"fold": 1}, "MSLR-WEB10K has five folds: give fold and split together, a"),
        ("Istella", {"fold": 1, "split": "test"}, "Istella has the splits train, vali and test, n"),
        ("ClueWeb09_webis", {"split": "train"}, "ClueWeb09_webis has the test sets of five folds:"),
        ("MQ2007_85pct", {"fold": 1}, "MQ2007_85pct is one file: give no split, fold or part."),
        ("letter", {}, "letter is not a set for ranking."),
        ("MQ2009", {}, 'There is no data set "MQ2009". Did you mean "MQ2008"?'),
    ],
)
def test_what_a_set_does_not_have(tmp_path, name, options, message):
    with pytest.raises((ParameterError, DatasetError), match=f"^{re.escape(message)}"):
        datasets.ranking(name, folder=tmp_path, **options)


@needs_data
@pytest.mark.parametrize(
    ("name", "rows", "queries", "d", "grades"),
    [
        ("MQ2008", 15_211, 784, 46, [12279, 2001, 931]),
        ("MQ2007_85pct", 59_135, 1_692, 46, [43857, 11994, 3284]),
        ("ClueWeb09_webis", 26_646, 61, 42, None),
    ],
)
def test_the_sets_at_hand(name, rows, queries, d, grades):
    found = datasets.ranking(name, dtype=np.float32)
    assert found.X.shape == (rows, d)
    assert (len(found.qid), found.offsets[-1], found.scattered) == (queries, rows, 0)
    counts = np.unique(found.relevance, return_counts=True)[1]
    assert len(counts) == 5 if grades is None else counts.tolist() == grades


@needs_data
def test_a_real_file_is_read_as_the_obvious_reader_does():
    path = LTR / "MQ2008" / "S1.txt.gz"
    found = datasets.ranking("MQ2008", part="S1")
    with gzip.open(path, "rt") as file:
        rows = slowly(file.read(), 46)
    assert found.X.tolist() == [values for _, _, values in rows]
    assert found.relevance.tolist() == [relevance for relevance, _, _ in rows]
    assert np.repeat(found.qid, np.diff(found.offsets)).tolist() == [qid for _, qid, _ in rows]
