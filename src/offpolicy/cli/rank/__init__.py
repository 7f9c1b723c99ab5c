"""``offpolicy rank``: rankings with clicks."""

from __future__ import annotations

import click

from offpolicy.cli import Verbs

_VERBS = {
    "evaluate": "How good would these rankers have been?",
    "sweep": "The curve of an estimator over its parameter.",
    "propensities": "How likely is each rank examined, relative to the first?",
    "learn": "Learn a ranker from clicks.",
}


@click.command("rank", cls=Verbs, package="offpolicy.cli.rank", verbs=_VERBS)
def command() -> None:
    """Rankings with clicks.

    LOG is a table (Parquet, CSV, JSON lines) with one row for every document of every impression,
    those of one impression following each other; or LETOR text, with --clicks.
    """
