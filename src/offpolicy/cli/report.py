"""``offpolicy report``."""

from __future__ import annotations

from pathlib import Path

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
    from offpolicy.report.document import Results

    path = Path(result)
    page = Path(out) if out is not None else path.with_suffix(".html")
    try:
        document = Results.opened(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ResultError("this is not text, and no result.", path) from None
    except FileNotFoundError:
        raise ResultError("there is no such file.", path) from None
    except ResultError as problem:
        raise ResultError(f"{problem}", path) from None
    if not page.absolute().parent.is_dir():
        raise click.UsageError(f"--out: there is no folder {page.parent}.")
    document.to_html(page)
    click.echo(f"Wrote {page}.", err=True)
