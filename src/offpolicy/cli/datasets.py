"""``offpolicy datasets``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from offpolicy._core.late import pa
from offpolicy._core.tables import aligned
from offpolicy.cli import options as opt
from offpolicy.cli.commands import StrictGroup
from offpolicy.cli.printing import say, say_json

if TYPE_CHECKING:
    from offpolicy.datasets.catalogue import Entry


@click.group("datasets", cls=StrictGroup)
def command() -> None:
    """Public data sets: which there are, where they are, and how to get them."""


@command.command("list")
@opt.format_option("table", "json", "tsv")
def list_all(style: str) -> None:
    """All data sets that are known, and where each was found."""
    from offpolicy.datasets import catalogue

    rows = [_row(known) for known in catalogue.entries().values()]
    _show(rows, style)


@command.command("info")
@click.argument("name")
@opt.format_option("table", "json", "tsv")
def info(name: str, style: str) -> None:
    """Source, licence, files and shape of a data set."""
    from offpolicy.datasets.finding import entries_named

    facts = [_facts(known) for known in entries_named(name)]
    if style == "json":
        _show(facts, style)
        return
    lines = [_flat(entry) for entry in facts]
    if style == "tsv":
        _show([{"fact": key, "value": value} for part in lines for key, value in part], style)
    else:
        parts = ("\n".join(f"{key:9} {value}" for key, value in part) for part in lines)
        say("\n\n".join(parts))


@command.command("fetch")
@click.argument("names", metavar="NAME...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="all that may be fetched")
def fetch(names: tuple[str, ...], everything: bool) -> None:
    """Get data sets from their public source, into the cache.

    Each file is compared with its known SHA-256; where none is known, its shape and class counts
    are compared. What is at hand is not fetched again. This is the only command that uses the
    network.
    """
    from offpolicy.datasets import catalogue, finding
    from offpolicy.errors import DatasetError

    if bool(names) == everything:
        raise click.UsageError("Name the data sets, or give --all.")
    if everything:
        names = (*catalogue.LABELLED, finding.GROUP)
    entries = [known for name in names for known in finding.entries_named(name)]
    missed = []
    for known in entries:
        if finding.find(known) is not None:
            say(f"{known.name} is here already.", err=True)
        try:
            paths = finding.fetch(known.name)
        except DatasetError as problem:
            if len(entries) == 1:
                raise
            say(str(problem), err=True)
            missed.append(known.name)
            continue
        for path in paths:
            say(f"{known.name}\t{path}\t{_hash(path)}")
    if missed:
        raise DatasetError(f"{len(missed)} of {len(entries)} are missing: {', '.join(missed)}.")


def _row(known: Entry) -> dict[str, Any]:
    from offpolicy.datasets import finding
    from offpolicy.datasets.catalogue import Labelled, OpenBandit

    if isinstance(known, Labelled):
        width, classes = len(known.features), f"{len(known.labels)} classes"
    elif isinstance(known, OpenBandit):
        width, classes = 4, f"{known.items} items"
    else:
        width, classes = known.features, f"{known.grades} grades"
    paths = finding.find(known)
    return {
        "name": known.name,
        "kind": known.kind,
        "rows": known.rows,
        "features": width,
        "classes": classes,
        "found": None if paths is None else str(paths[0] if len(paths) == 1 else paths[0].parent),
    }


def _show(rows: list[dict[str, Any]], style: str) -> None:
    if style == "json":
        from offpolicy._core.documents import dumps

        say_json(dumps({"datasets": rows}))
    elif style == "tsv":
        say(opt.as_tsv(pa.Table.from_pylist(rows)))
    else:
        head = ["name", "kind", "rows × features", "", "found"]
        body = [
            [row["name"], row["kind"], f"{row['rows']:,} × {row['features']}", row["classes"],
             row["found"] or "not here"]
            for row in rows
        ]  # fmt: skip
        say(aligned([head, *body], left=range(5)))


def _facts(known: Entry) -> dict[str, Any]:
    """What `datasets info` prints of a data set, and of the files that are here."""
    from offpolicy.datasets import finding
    from offpolicy.datasets.catalogue import Labelled, OpenBandit

    row, paths = _row(known), [str(path) for path in finding.find(known) or []]
    facts = {
        "name": known.name,
        "kind": known.kind,
        "shape": f"{known.rows:,} × {row['features']}, {row['classes']}",
        "source": known.page,
        "licence": known.licence,
        "citation": known.citation,
        "files": {},
        "found": paths,
    }
    if isinstance(known, Labelled):
        files = {member.name: member.sha256 for member in known.members}
        cited = f"{known.citation}, https://doi.org/{known.doi}"
        counts = {"counts": _counts(known.name)} if paths else {}
        return facts | {"citation": cited, "files": files, "download": known.url} | counts
    if isinstance(known, OpenBandit):
        files = {f"{known.campaign}.csv": known.sha256}
        return facts | {"files": files, "download": known.url}
    return facts | {"queries": known.queries}


def _counts(name: str) -> dict[str, int]:
    import numpy as np

    from offpolicy.datasets import load

    examples = load(name)
    counts = np.bincount(examples.y, minlength=len(examples.classes)).tolist()
    return dict(zip(examples.classes, counts, strict=True))


def _flat(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts of `datasets info` as printed: a line each, several where one holds several."""
    lines = []
    for key, value in facts.items():
        if key == "files":
            lines += [
                ("file", f"{name}  {sha or '(no SHA-256 known)'}") for name, sha in value.items()
            ]
        elif key == "found":
            lines += [("found", path) for path in value] or [("found", "not here")]
        elif key == "counts":
            lines.append(("counts", ", ".join(f"{name} {n:,}" for name, n in value.items())))
        elif key == "queries":
            lines.append(("queries", f"{value:,}"))
        else:
            lines.append((key, str(value)))
    return lines


def _hash(path: Any) -> str:
    """For the output of `datasets fetch`: the hash of a file's content, unpacked."""
    import gzip

    from offpolicy.datasets import sha256

    content = path.read_bytes()
    return sha256(gzip.decompress(content) if path.suffix == ".gz" else content)
