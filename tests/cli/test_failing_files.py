"""Every failing file of the corpus ends every verb with one line, whoever reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import faults
from tests.support.commands import fails
from tests.support.faults import Fault
from tests.support.limits import limit

VERBS = {
    "evaluate": ["--policy", faults.POLICY],
    "compare": ["--policy", faults.POLICY],
    "check": ["--policy", faults.POLICY],
    "sweep": ["--policy", faults.POLICY],
    "learn": ["--context", "age", "-o", "policy.json"],
    "rank evaluate": ["--ranker", "age", "--query", "user", "--rank", "age", "--click", "reward"],
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> tuple[Path, list[Fault]]:
    folder = tmp_path_factory.mktemp("faults")
    return folder, faults.write(folder)


def asked_of(verb: str, every: list[Fault]) -> list[Fault]:
    """The files that this verb cannot read: some have a fault that only others see."""
    if verb == "evaluate":
        return every
    few = [fault for fault in every if Path(fault.name).suffix not in (".tsv", ".gz", ".bz2")]
    if verb == "rank evaluate":
        rows = {fault.name for fault in faults.malformed()}
        return [fault for fault in few if fault.name not in rows]
    if verb == "learn":  # of dsjson, contexts have no columns of theirs
        few = [fault for fault in few if not fault.name.endswith(".dsjson")]
        return [fault for fault in few if fault.column != faults.POLICY]
    return few


@pytest.mark.parametrize("way", ["held", "streamed"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_failing_file_is_one_line(corpus, monkeypatch, capsys, verb, way):
    folder, every = corpus
    monkeypatch.chdir(folder)
    if way == "streamed":
        limit(monkeypatch, "offpolicy.logs.files._text.LARGEST", 0)
        limit(monkeypatch, "offpolicy.logs.files._read.READ_WHOLE", 0)
    wrong = []
    for fault in asked_of(verb, every):
        options = () if verb.startswith("rank") else fault.options
        code, said = fails([*verb.split(), fault.name, *VERBS[verb], *options], capsys)
        named, _, told = said.partition(fault.name)
        place = [fault.column] if fault.row is None else [fault.column, f"{fault.unit} {fault.row}"]
        right = (code, named) == (fault.code, f"{fault.error.__name__}: ")
        if not right or told.count("\n") != 1 or any(part not in told for part in place):
            wrong.append((str(fault.place), code, said))
    assert not wrong
    assert not Path("policy.json").exists()


def test_what_has_no_fault_is_read(tmp_path):
    """The same rows without the fault: it is the fault that is refused."""
    import offpolicy as op

    answers = set()
    for kind, made in faults.KINDS.items():
        (tmp_path / f"log.{kind}").write_bytes(made(faults.sound()))
        result = op.evaluate(op.read_log(tmp_path / f"log.{kind}"), faults.POLICY)
        answers.add(result["IPS"].value)
    assert len(answers) == 1


def test_the_corpus_is_the_same_every_time(corpus):
    folder, every = corpus
    assert faults.corpus() == every
    names = [fault.name for fault in every]
    assert len(set(names)) == len(names)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names, "faults.tsv"])
