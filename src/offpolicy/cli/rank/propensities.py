"""``offpolicy rank propensities``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.commands import Strict
from offpolicy.cli.options import Options, option
from offpolicy.cli.printing import say, say_json
from offpolicy.cli.rank import rankings

_METHOD = Options(
    "offpolicy.ranking.propensities.estimate_propensities",
    method=option("how", kind=("pairs", "em", "swaps", "contextual")),
    top=option("ranks [10, or all shown]", "N", click.IntRange(min=2)),
    pairs=option("pairs: all, pivot or adjacent", "WHICH"),
    weighting=option("pairs, contextual: overlap or paper", "HOW"),
    traffic=option(
        "pairs: how many impressions each ranker of --ranks gets", "X", float, default=()
    ),
    ridge=option("em, contextual", "X", opt.NOT_NEGATIVE),
)
_MEASURED = Options(
    "offpolicy.ranking.propensities.estimate_propensities",
    ranks=option(
        "pairs: where each ranker of a randomised test puts the document; repeat for each",
        "COLUMN", default=(),
    ),
    swapped=option("swaps: the rank that was swapped with the first; 0: none", "COLUMN"),
    context=option(
        "contextual: numbers that are the same in all of an impression", "COLUMN", default=()
    ),
)  # fmt: skip


@click.command("propensities", cls=Strict)
@rankings.log_options
@_METHOD
@_MEASURED
@Options(
    out=option(
        "write what --propensities of the other verbs takes: .json, or .csv", "FILE", opt.OUTPUT,
        flags="-o --out",
    )
)  # fmt: skip
@opt.report_option()
@opt.format_option("table", "json", "tsv")
def command(
    log: str, ranks: tuple[str, ...], swapped: str | None, context: tuple[str, ...],
    out: str | None, style: str, **options: Any,
) -> None:  # fmt: skip
    """How likely is each rank examined, relative to the first?

    LOG is a table (Parquet, CSV, JSON lines) with a row for every document of every impression;
    or LETOR text, with --clicks. The exit code is 1 if it cannot tell.
    """
    import numpy as np

    from offpolicy._core.files import descriptor_of, write_whole
    from offpolicy.cli.pages import Run
    from offpolicy.ranking.propensities import estimate_propensities

    opt.refuse_idle(["propensity", "relevant"], True, "what is done with propensities")
    opt.tell_idle(["prediction", "relevance"], True, "what is done with propensities")
    opt.tell_idle(["features"], options["method"] != "em", "--method em")
    run = Run.begun(options["report"])
    if out is not None:
        if descriptor_of(Path(out)) is None:
            opt.check_suffix(out, ".json", ".csv")
        if options["method"] == "contextual" and Path(out).suffix.lower() == ".csv":
            raise click.UsageError("Propensities by context are more than one curve: write .json.")
    options["propensity"] = ""  # what is to be found need not be right
    file = rankings.read(log, options, [*ranks, *context, *([] if swapped is None else [swapped])])
    swaps = None
    if swapped is not None:
        file.per_impression([swapped])
        swaps = file.whole(swapped)[file.log.offsets[:-1]]
    curve = estimate_propensities(
        file.log,
        ranks=np.stack([file.whole(name) for name in ranks], axis=1) if ranks else None,
        swapped=swaps,
        context=file.per_impression(context) if context else None,
        **_METHOD.said(options),
    )
    frame = curve.to_arrow()
    if out is not None:
        if Path(out).suffix.lower() == ".csv":
            write_whole(Path(out), opt.as_tsv(frame).replace("\t", ",") + "\n")
        else:
            curve.save(out)
        say(f"Wrote {out}.", err=True)
    if style == "json":
        say_json(curve.to_json())
    else:
        say(opt.as_tsv(frame) if style == "tsv" else str(curve))
    run.write_of_rankings(file.log.documents, curve)
