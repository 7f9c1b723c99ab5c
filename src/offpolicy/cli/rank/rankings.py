"""Options that the verbs for rankings share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.options import Options, option

if TYPE_CHECKING:
    from offpolicy._core.types import Floats, Ints
    from offpolicy.ranking.data import RankingLog
    from offpolicy.ranking.propensities import Propensities

_COLUMNS = Options(
    "offpolicy.ranking.data.RankingColumns",
    **opt.columns_of(
        {
            "impression": "one ranking that was shown; without it, every query is one [impression]",
            "query": "impressions of one may be dependent [query]",
            "document": "its name; with --clicks, its place among the lines of the query, from 1 "
            "[document]",
            "rank": "where it was shown, from 1; 0: not shown [rank]",
            "click": "0 or 1 [click]",
            "propensity": "probability with which the document was examined [propensity]",
            "prediction": "a model's probability of relevance [prediction]",
            "relevance": "known in experiments [relevance]",
        }
    ),
    features=option(
        "numbers that rankers and models see; 'x*' for all that begin so [f1, f2, …]", "COLUMN",
        default=(),
    ),
)  # fmt: skip
_FILES = Options(
    "offpolicy.ranking.data.read_with",
    where=option(
        "a condition on impressions, such as \"country = 'de'\"; others are left out",
        "CONDITION",
    ),
    clicks=option(
        "LOG is LETOR text, and this the table of what was shown and clicked", "FILE", opt.FILE
    ),
    relevant=option(
        "of LETOR text: from which judgement on a document is relevant", "GRADE", default=1.0
    ),
)
columns_again = _COLUMNS.again
propensity_options = Options(
    propensities=option(
        "what rank propensities wrote, or a CSV with the columns rank and propensity", "FILE",
        opt.FILE,
    ),
    eta=option("propensity is (1/rank)^ETA", "ETA", opt.NOT_NEGATIVE),
    context=option(
        "for --propensities by context: its columns, in the order of the estimation", "COLUMN",
        default=(),
    ),
)  # fmt: skip
"""Propensities that the log does not hold."""
LONGEST = 10_000
"""Ranks of a table of propensities, at most."""
METRIC = option('such as "dcg@10", "recall@5", "sum of ranks"', "NAME", default="average rank")


def log_options(command: opt.Command) -> opt.Command:
    """Gives a command of `rank` its LOG, and options for the columns and their roles."""
    return click.argument("log", type=click.Path())(_FILES(_COLUMNS(command)))


@dataclass(frozen=True)
class LogFile:
    """A log, and other columns of its file."""

    log: RankingLog
    columns: dict[str, Floats]

    def whole(self, name: str) -> Ints:
        """A column that must hold whole numbers."""
        from offpolicy._core.validation import as_integers

        return as_integers(self.columns[name], name, self.log.source)

    def per_impression(self, names: Sequence[str]) -> Floats:
        """(n, d): these columns, which must not change within an impression."""
        import numpy as np

        from offpolicy.errors import LogError

        log = self.log
        first = log.offsets[:-1]
        for name in names:
            changes = self.columns[name] != self.columns[name][first][log.impression]
            if changes.any():
                place = log.place(int(np.argmax(changes)), name)
                raise LogError("it must be the same for all documents of an impression.", place)
        return np.stack([self.columns[name][first] for name in names], axis=1)


def read(log: str, options: dict[str, Any], names: Sequence[str] = ()) -> LogFile:
    """A command's log, by its `log_options` and, if it has them, `propensity_options`."""
    from dataclasses import replace

    from offpolicy.logs.expressions import Expression
    from offpolicy.ranking.data import RankingColumns, read_with

    opt.refuse_idle(["relevant"], options["clicks"] is None, "LETOR text, with --clicks")
    if "propensities" in options:
        opt.refuse_idle(["context"], options["propensities"] is None, "--propensities by context")
    columns = RankingColumns(**_COLUMNS.said(options))
    ways = [name for name in ("propensity", "propensities", "eta") if options.get(name) is not None]
    if len(ways) > 1:
        raise click.UsageError(f"--{ways[0]} and --{ways[1]} are two ways to say the same.")
    replaced = bool(ways) and ways[0] != "propensity"
    if replaced:
        columns = replace(columns, propensity="")
    context = tuple(options.get("context") or ())
    how = _FILES.said(options)
    if "where" in how:
        how["where"] = Expression(how["where"], "--where")
    ranking_log, numbers = read_with(log, list(dict.fromkeys([*names, *context])), columns, **how)
    file = LogFile(ranking_log, numbers)
    if not replaced:
        return file
    rows = file.per_impression(context) if context else None
    return LogFile(_curve(options, ranking_log).filled(ranking_log, rows), numbers)


def _curve(options: dict[str, Any], log: RankingLog) -> Propensities:
    from offpolicy.errors import LogError
    from offpolicy.ranking.propensities import Propensities

    if options["eta"] is not None:
        last = int(log.rank.max())
        if last > 1000 * LONGEST:
            place = log.place(int(log.rank.argmax()), "rank")
            raise LogError(f"{last}: no ranking is that long.", place)
        return Propensities.power(options["eta"], max(last, 1))
    file = Path(options["propensities"])
    return Propensities.load(file) if file.suffix.lower() == ".json" else curve_of_table(file)


def curve_of_table(file: Path) -> Propensities:
    """The curve of --propensities, from a CSV, Parquet or JSON-lines table by rank."""
    import numpy as np

    from offpolicy._core.validation import as_integers, as_vector, where
    from offpolicy.errors import PropensityError
    from offpolicy.logs import missing_column
    from offpolicy.logs.files import read_table
    from offpolicy.ranking.data import source_of
    from offpolicy.ranking.propensities import Propensities

    table = read_table(file)
    source = source_of(file, len(table))
    for name in ("rank", "propensity"):
        if name not in table.column_names:
            raise missing_column(table.column_names, name, name, source)
    values = as_vector(table["propensity"].to_pylist(), "propensity", PropensityError)
    rank = as_integers(table["rank"].to_numpy(), "rank", source)
    # Estimates may exceed 1 by noise; what a log is filled with never does.
    bad = (rank < 1) | (rank > LONGEST) | ~((values > 0.0) | np.isnan(values)) | np.isinf(values)
    again = np.ones(len(rank), dtype=bool)
    again[np.unique(rank, return_index=True)[1]] = False
    for row in np.flatnonzero(bad | again)[:1].tolist():
        raise PropensityError(
            f"{values[row]} for rank {rank[row]}. There must be one row for "
            f"a rank, from 1 to {LONGEST:,}, with a propensity above 0.",
            where(source, "propensity", row),
        )
    curve = np.full(int(rank.max(initial=0)), np.nan)
    curve[rank - 1] = np.minimum(values, 1.0)
    return Propensities.known(curve)


def need_propensities(log: RankingLog) -> None:
    from offpolicy.errors import MissingColumnError

    if log.propensity is None:
        raise MissingColumnError(
            "The log has no propensity, the probability with which each document was examined. "
            "Estimate it: offpolicy rank propensities LOG -o propensities.json, then "
            "--propensities propensities.json; or assume (1/rank)^ETA with --eta ETA."
        )


def rankers_of(names: Sequence[str], file: LogFile) -> dict[str, Any]:
    """Rankers as --ranker names them: columns of scores, or files of learned ones."""
    from offpolicy.ranking.learning import PropensitySVMRank

    return opt.rankers_of(names, file.columns, PropensitySVMRank.load)


def columns_among(names: Sequence[str]) -> list[str]:
    """Of the names given to --ranker, those that are no files; without files, features idle."""
    from offpolicy._core.saved import saved_file

    columns = [name for name in names if saved_file(name) is None]
    opt.tell_idle(["features"], len(columns) == len(names), "a learned --ranker, ranker.json")
    return columns
