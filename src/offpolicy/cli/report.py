"""``offpolicy report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command("report")
@click.argument("result", type=click.Path(dir_okay=False))
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False), metavar="FILE",
    help="the page to write; by default named as RESULT, with .html",
)  # fmt: skip
def command(result: str, out: str | None) -> None:
    """A result as a page to look at.

    RESULT is what --format json of evaluate, compare, learn, rank evaluate, rank propensities or
    rank learn printed, or what a page saved as JSON. The page is one HTML file that needs nothing
    else.
    """
    from offpolicy.errors import ResultError

    path = Path(result)
    page = Path(out) if out is not None else path.with_suffix(".html")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ResultError("this is not text, and no result.", path) from None
    except FileNotFoundError:
        raise ResultError("there is no such file.", path) from None
    try:
        document = _opened(text)
    except ResultError as problem:
        raise ResultError(f"{problem}", path) from None
    if not page.absolute().parent.is_dir():
        raise click.UsageError(f"--out: there is no folder {page.parent}.")
    document.to_html(page)
    click.echo(f"Wrote {page}.", err=True)


def _opened(text: str) -> Any:
    """The document of any verb, by the schema that its JSON names."""
    import json

    from offpolicy.report import learned_document as learned
    from offpolicy.report.document import Document

    try:
        body = json.loads(text)
        schema = body["schema"]
    except (ValueError, KeyError, TypeError):
        return Document.from_json(text)
    if schema == learned.SCHEMA:
        return learned.LearnedDocument.from_body(body)
    from offpolicy.report import ranking_document as ranked

    return ranked.opened(body) if schema in ranked.SCHEMAS else Document.from_json(text)
