"""``offpolicy report``."""

from __future__ import annotations

from pathlib import Path

import click

from offpolicy.cli import options as opt
from offpolicy.cli.commands import Strict
from offpolicy.cli.printing import say


@click.command("report", cls=Strict)
@click.argument("result", type=opt.FILE)
@click.option(
    "-o", "--out", type=opt.OUTPUT, metavar="FILE",
    help="the page to write; by default named as RESULT, with .html",
)  # fmt: skip
def command(result: str, out: str | None) -> None:
    """A result as a page to look at.

    RESULT is what --format json of evaluate, compare, learn, rank evaluate, rank propensities or
    rank learn printed, or what a page saved as JSON. The page is one HTML file that needs nothing
    else.
    """
    from offpolicy._core.documents import damage_named
    from offpolicy._core.door import Door
    from offpolicy._core.files import write_whole
    from offpolicy.errors import ResultError
    from offpolicy.report.document import Results

    path, of_logs = Path(result), ""
    if path.suffix != ".json":
        how = Door.given("report", "page.html")
        of_logs = f" For a page about a log: offpolicy evaluate LOG … {how}."
    page = Path(out) if out is not None else path.with_suffix(".html")
    try:
        document = Results.opened(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ResultError(f"this is not text, and no result.{of_logs}", path) from None
    except FileNotFoundError:
        raise ResultError("there is no such file.", path) from None
    except ResultError as problem:
        raise ResultError(f"{problem}{of_logs}", path) from None
    with damage_named("result", place=path):  # parts may not fit together
        text = document.to_html()
    write_whole(page, text)
    say(f"Wrote {page}.", err=True)
