"""Options that the verbs for rankings share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from offpolicy._core.types import Floats, Ints
    from offpolicy.ranking.data import RankingLog
    from offpolicy.ranking.propensities import Propensities

_ROLES = {
    "impression": "one ranking that was shown; without it, every query is one",
    "query": "impressions of one may be dependent",
    "document": "its name; with --clicks, its place among the lines of the query, from 1",
    "rank": "where it was shown, from 1; 0: not shown",
    "click": "0 or 1",
    "propensity": "probability with which the document was examined",
    "prediction": "a model's probability of relevance",
    "relevance": "known in experiments",
}
_WAYS = (
    "Estimate it: offpolicy rank propensities LOG -o propensities.json, then --propensities "
    "propensities.json; or assume (1/rank)^ETA with --eta ETA."
)


def log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The log, and which of its columns plays which role."""
    function = click.option(
        "--features", metavar="COLUMN", multiple=True,
        help="numbers that rankers and models see; 'x*' for all that begin so [f1, f2, …]",
    )(function)  # fmt: skip
    for role, meaning in reversed(_ROLES.items()):
        function = click.option(f"--{role}", role, metavar="COLUMN", help=f"{meaning} [{role}]")(
            function
        )
    function = click.option(
        "--relevant", type=float, default=1.0, show_default=True, metavar="GRADE",
        help="of LETOR text: from which judgement on a document is relevant",
    )(function)  # fmt: skip
    function = click.option(
        "--clicks", type=click.Path(dir_okay=False), metavar="FILE",
        help="LOG is LETOR text, and this the table of what was shown and clicked",
    )(function)  # fmt: skip
    return click.argument("log", type=click.Path())(function)


def propensity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Propensities that the log does not hold."""
    function = click.option(
        "--context", metavar="COLUMN", multiple=True,
        help="for --propensities by context: its columns, in the order of the estimation",
    )(function)  # fmt: skip
    function = click.option(
        "--eta", type=click.FloatRange(min=0.0), metavar="ETA",
        help="propensity is (1/rank)^ETA",
    )(function)  # fmt: skip
    return click.option(
        "--propensities", type=click.Path(dir_okay=False), metavar="FILE",
        help="what rank propensities wrote, or a CSV with the columns rank and propensity",
    )(function)  # fmt: skip


metric_option = click.option(
    "--metric", default="average rank", show_default=True, metavar="NAME",
    help='such as "dcg@10", "recall@5", "sum of ranks"',
)  # fmt: skip


@dataclass(frozen=True)
class Read:
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


def read(log: str, given: dict[str, Any], names: Sequence[str] = ()) -> Read:
    """The log by the options of `log_options` and, if the verb has them, `propensity_options`."""
    from dataclasses import replace

    from offpolicy.ranking.data import RankingColumns, read_with

    columns = RankingColumns(**{role: given[role] for role in _ROLES})
    if given["features"]:
        columns = replace(columns, features=given["features"])
    ways = [name for name in ("propensity", "propensities", "eta") if given.get(name) is not None]
    if len(ways) > 1:
        raise click.UsageError(f"--{ways[0]} and --{ways[1]} are two ways to say the same.")
    replaced = bool(ways) and ways[0] != "propensity"
    if replaced:
        columns = replace(columns, propensity="")
    context = tuple(given.get("context") or ())
    found, numbers = read_with(
        log, list(dict.fromkeys([*names, *context])), columns,
        clicks=given["clicks"], relevant=given["relevant"],
    )  # fmt: skip
    made = Read(found, numbers)
    if not replaced:
        return made
    curve = _curve(given, found)
    rows = made.per_impression(context) if context else None
    return Read(curve.filled(found, rows), numbers)


def _curve(given: dict[str, Any], log: RankingLog) -> Propensities:
    from offpolicy.ranking.propensities import Propensities

    if given["eta"] is not None:
        return Propensities.power(given["eta"], max(int(log.rank.max()), 1))
    file = Path(given["propensities"])
    return Propensities.load(file) if file.suffix.lower() == ".json" else curve_of_table(file)


def curve_of_table(file: Path) -> Propensities:
    """From a CSV, Parquet or JSON-lines file with the columns rank and propensity."""
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
    for row, (k, p) in enumerate(zip(rank.tolist(), values.tolist(), strict=True)):
        # Estimates may exceed 1 by noise; what a log is filled with never does.
        if k < 1 or not (p > 0.0 or np.isnan(p)) or np.isinf(p) or k in rank[:row]:
            raise PropensityError(
                f"{p} for rank {k}. There must be one row for "
                f"a rank, from 1 on, with a propensity above 0.",
                where(source, "propensity", row),
            )
    curve = np.full(int(rank.max(initial=0)), np.nan)
    curve[rank - 1] = np.minimum(values, 1.0)
    return Propensities.known(curve)


def need_propensities(log: RankingLog) -> None:
    from offpolicy.errors import MissingColumnError

    if log.propensity is None:
        raise MissingColumnError(
            f"The log has no propensity, the probability with which each document was examined. "
            f"{_WAYS}"
        )


def is_file(ranker: str) -> bool:
    """Whether a ranker is named by the file it was saved to."""
    file = Path(ranker)
    return ranker.startswith("file:") or (file.suffix.lower() == ".json" and file.is_file())


def rankers_of(names: Sequence[str], found: Read) -> dict[str, Any]:
    """Rankers by name: columns of scores, or files of learned ones."""
    rankers: dict[str, Any] = {}
    for name in names:
        shown = name
        ranker: Any = found.columns.get(name)
        if is_file(name):
            from offpolicy.ranking.learning import PropensitySVMRank

            file = Path(name.removeprefix("file:"))
            shown, ranker = file.stem, PropensitySVMRank.load(file)
        if shown in rankers:
            raise click.UsageError(
                "One --ranker is given twice."
                if len(set(names)) < len(names)
                else f'Two rankers are named "{shown}"; rename one of the files.'
            )
        rankers[shown] = ranker
    return rankers


def columns_among(names: Sequence[str]) -> list[str]:
    """Those that are no files."""
    return [name for name in names if not is_file(name)]
