"""How to come to the same page again."""

from __future__ import annotations

import shlex

from offpolicy.report.html.markup import Child, Markup, element, name, plain, section
from offpolicy.report.html.numbers import count
from offpolicy.report.html.provenance import File, Provenance
from offpolicy.report.svg.drawing import bare_table, facts

MOST_FILES = 100
"""Files that are listed; more are counted."""


def reproduction(provenance: Provenance | None, verb: str) -> Markup:
    """Section (10) of the page: command, versions, files, seed and time, and the same as JSON."""
    return section(
        "again",
        "How to make this page again",
        *(_not_kept(verb) if provenance is None else _kept(provenance)),
        element(
            "p",
            element("button", "Save as JSON", type="button", id="save", hidden=True,
                    data_name="offpolicy-result.json"),
            class_="no-print",
        ),
        element(
            "p",
            "The JSON holds every number of this page; ",
            element("code", "offpolicy report FILE.json"),
            " makes the page from it again.",
            class_="soft",
        ),
    )  # fmt: skip


def _not_kept(verb: str) -> list[Child]:
    text = element(
        "p",
        "This page was made from a result in memory or in a file; which command made that, and "
        "from which files, was not kept with it. A page by ",
        element("code", f"offpolicy {verb} … --report"),
        " says both.",
    )
    return [text]


def _kept(provenance: Provenance) -> list[Child]:
    command = " ".join(shlex.quote(plain(word, 300)) for word in provenance.command)
    versions = ", ".join(f"{what} {version}" for what, version in provenance.versions.items())
    seed = (
        "none: nothing is drawn at random; samples and folds follow from the rows' positions"
        if provenance.seed is None
        else str(provenance.seed)
    )
    lines = [
        ("finished", f"{provenance.finished}, after {provenance.seconds:,.1f} s"),
        ("versions", versions),
        ("seed", seed),
        ("engine", provenance.engine),
    ]
    unread = (
        "The files were read where they lie, by Spark: their contents were not hashed, and their "
        "rows not counted one by one."
    )
    files = [element("h3", "Files"), _files(provenance.files)]
    return [
        element("pre", element("code", plain(command, 4000))),
        facts(lines),
        *(files if provenance.files else [element("p", unread)]),
    ]


def _files(files: tuple[File, ...]) -> Markup:
    rows: list[list[Child]] = [
        [
            name(file.name, 120),
            "–" if file.rows is None else count(float(file.rows)),
            f"{file.size:,}",
            element("code", file.sha256 or "not hashed"),
        ]
        for file in files[:MOST_FILES]
    ]
    more = len(files) - MOST_FILES
    note = element("p", f"and {more:,} more, in the JSON.") if more > 0 else None
    return element(
        "div",
        bare_table(["file", "rows", "bytes", "SHA-256"], rows),
        note,
        class_="scroll",
        tabindex="0",
    )
