"""``offpolicy rank propensities``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from offpolicy.cli.options import as_tsv, bare_report_option, check_writable, format_option
from offpolicy.cli.rank.options import Read, log_options, read

if TYPE_CHECKING:
    from offpolicy._core.types import Ints


@click.command("propensities")
@log_options
@click.option(
    "--method", type=click.Choice(["pairs", "em", "swaps", "contextual"]), default="pairs",
    show_default=True, help="how",
)  # fmt: skip
@click.option("--top", type=click.IntRange(min=2), metavar="N", help="ranks [10, or all shown]")
@click.option("--pairs", metavar="WHICH", help="pairs: all, pivot or adjacent")
@click.option("--weighting", metavar="HOW", help="pairs, contextual: overlap or paper")
@click.option(
    "--ranks", metavar="COLUMN", multiple=True,
    help="pairs: where each ranker of a randomised test puts the document; repeat for each",
)  # fmt: skip
@click.option(
    "--traffic", type=float, metavar="X", multiple=True,
    help="pairs: how many impressions each ranker of --ranks gets",
)  # fmt: skip
@click.option(
    "--swapped", metavar="COLUMN", help="swaps: the rank that was swapped with the first; 0: none"
)
@click.option(
    "--context", metavar="COLUMN", multiple=True,
    help="contextual: numbers that are the same in all of an impression",
)  # fmt: skip
@click.option("--ridge", type=click.FloatRange(min=0.0), metavar="X", help="em, contextual")
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False), metavar="FILE",
    help="write what --propensities of the other verbs takes: .json, or .csv",
)  # fmt: skip
@bare_report_option
@format_option("table", "json", "tsv")
def command(
    log: str,
    method: str,
    ranks: tuple[str, ...],
    traffic: tuple[float, ...],
    swapped: str | None,
    context: tuple[str, ...],
    out: str | None,
    report: str | None,
    style: str,
    **given: Any,
) -> None:
    """How likely is each rank examined, relative to the first?

    LOG is a table (Parquet, CSV, JSON lines) with a row for every document of every impression;
    or LETOR text, with --clicks. The exit code is 1 if it cannot tell.
    """
    import numpy as np

    from offpolicy._core.files import write_whole
    from offpolicy.cli.pages import Run, provenance_of_rankings
    from offpolicy.ranking.propensities import estimate_propensities

    run = Run.begun(report)
    if out is not None:
        check_writable(out, ".json", ".csv")
        if method == "contextual" and Path(out).suffix.lower() == ".csv":
            raise click.UsageError("Propensities by context are more than one curve: write .json.")
    if given["propensity"] is None:
        given["propensity"] = ""  # what is to be found need not be right
    own = {name: given.pop(name) for name in ("top", "pairs", "weighting", "ridge")}
    each = [*ranks, *context, *([] if swapped is None else [swapped])]
    found = read(log, given, each)
    curve = estimate_propensities(
        found.log,
        method,  # type: ignore[arg-type]
        **own,
        ranks=np.stack([found.whole(name) for name in ranks], axis=1) if ranks else None,
        traffic=list(traffic) or None,
        swapped=None if swapped is None else _of_impressions(found, swapped),
        context=found.per_impression(context) if context else None,
    )
    frame = curve.to_frame()
    if out is not None:
        if Path(out).suffix.lower() == ".csv":
            write_whole(Path(out), as_tsv(frame).replace("\t", ",") + "\n")
        else:
            curve.save(out)
        click.echo(f"Wrote {out}.", err=True)
    if style == "json":
        click.echo(curve.to_json(), nl=False)
    else:
        click.echo(as_tsv(frame) if style == "tsv" else str(curve))
    if run.page is not None:
        run.write(curve, provenance=provenance_of_rankings(run, found.log.documents))


def _of_impressions(found: Read, name: str) -> Ints:
    found.per_impression([name])
    return found.whole(name)[found.log.offsets[:-1]]
