"""Options that several verbs share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from offpolicy.logs import BanditLog, Dropped, LogScan
    from offpolicy.results import Finding

_ROLES = {
    "action": "what was chosen",
    "reward": "what came of it",
    "propensity": "probability with which it was chosen",
    "logging": "list: the logger's probability of every candidate",
    "candidates": "list: names of the candidates",
    "cluster": "user or session: rows of one may be dependent",
    "time": "when",
    "row_weight": "how many decisions the row stands for",
    "decision": "long format, a row per candidate: which decision it is of",
    "chosen": "long format: 1 where the candidate was chosen, else 0",
}

_LONG = ("decision", "chosen")

_FILES = (
    ("--columns", "FILE", 'which column plays which role, as TOML: action = "item"'),
    ("--where", "SQL", "a condition; rows that do not meet it are left out"),
    ("--memory", "SIZE", "what the scan of large files may use, such as 4GB"),
    ("--threads", "N", "on how many threads large files are read"),
    ("--master", "URL", "of Spark: local[4], yarn, spark://host:7077"),
)


def log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The log, and which of its columns plays which role."""
    for role, meaning in reversed(_ROLES.items()):
        text = meaning if role in _LONG else f"{meaning} [{role}]"
        function = click.option(f"--{role.replace('_', '-')}", role, metavar="COLUMN", help=text)(
            function
        )
    function = click.option(
        "--context", metavar="COLUMN", multiple=True,
        help="what was known before: a reward model is trained on it if none is given; user_* for "
        "all that begin so",
    )(function)  # fmt: skip
    function = click.option(
        "--on-bad-row", type=click.Choice(["error", "drop"]), default="error", show_default=True,
        help="what becomes of a row that is malformed; dropped ones are counted",
    )(function)  # fmt: skip
    function = click.option(
        "--verify", is_flag=True, help="compare large Parquet with its page checksums first"
    )(function)
    for name, shown, meaning in reversed(_FILES):
        kind = click.IntRange(min=1) if name == "--threads" else str
        function = click.option(name, metavar=shown, type=kind, help=meaning)(function)
    function = click.option(
        "--engine", type=click.Choice(["embedded", "spark"]), default="embedded",
        show_default=True, help="who reads the files",
    )(function)  # fmt: skip
    function = click.option(
        "--prediction", metavar="COLUMN", help="list: the reward model's estimates"
    )(function)
    return click.argument("log", nargs=-1, required=True, type=click.Path())(function)


def format_option(*formats: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--format", "style", type=click.Choice(formats), default=formats[0], show_default=True
    )


resume_option = click.option(
    "--resume", type=click.Path(file_okay=False), metavar="DIR",
    help="keep sums there on the way; killed and run again, it goes on from them",
)  # fmt: skip

report_option = click.option(
    "--report", type=click.Path(dir_okay=False), metavar="FILE",
    help="also write the answer as a page, report.html; looks at the log as check does",
)  # fmt: skip

bare_report_option = click.option(
    "--report", type=click.Path(dir_okay=False), metavar="FILE",
    help="also write the answer as a page, report.html",
)  # fmt: skip

level_option = click.option(
    "--level", type=float, default=0.95, show_default=True, help="coverage of the intervals"
)


def read(log: tuple[str, ...], given: dict[str, Any]) -> BanditLog | LogScan:
    """The log, by the options of `log_options`; a role named twice is as on the command line."""
    from dataclasses import replace

    from offpolicy.logs import BanditLog, Columns
    from offpolicy.logs.files import read_log

    columns = Columns() if given["columns"] is None else Columns.from_toml(given["columns"])
    named: dict[str, Any] = {role: given[role] for role in _ROLES if given[role] is not None}
    if given["context"]:
        named["context"] = given["context"]
    found = read_log(
        list(log),
        replace(columns, **named),
        where=given["where"],
        memory=given["memory"],
        threads=given["threads"],
        engine=given["engine"],
        master=given["master"],
        on_bad_row=given["on_bad_row"],
        verify=given["verify"],
    )
    if not isinstance(found, BanditLog) and sys.stderr.isatty():
        from offpolicy.cli.progress import Progress

        found.progress = Progress()
    return found


def policies_of(names: tuple[str, ...]) -> dict[str, Any]:
    """Policies by name: columns, files of learned ones, or one that needs neither."""
    from pathlib import Path

    from offpolicy.policies import Uniform

    built_in = {":uniform": Uniform()}
    found: dict[str, Any] = {}
    for name in names:
        shown: str = name.removeprefix(":")
        policy: Any = built_in.get(name, name)
        if name.startswith(":") and name not in built_in:
            raise click.UsageError(f"There is no policy {name}; there is {', '.join(built_in)}.")
        file = Path(name.removeprefix("file:"))
        if name.startswith("file:") or (file.suffix.lower() == ".json" and file.is_file()):
            from offpolicy.policies.learned import load_policy

            shown, policy = file.stem, load_policy(file)
        if shown in found:
            raise click.UsageError(
                "One --policy is given twice."
                if len(set(names)) < len(names)
                else f'Two policies are named "{shown}"; rename one of the files.'
            )
        found[shown] = policy
    return found


def check_writable(out: str, *suffixes: str) -> None:
    """Refuse a name that could not be written, before any work is done."""
    from pathlib import Path

    if Path(out).suffix.lower() not in suffixes:
        raise click.UsageError(f'FILE is "{out}"; it must end in {" or ".join(suffixes)}.')
    if not Path(out).parent.is_dir():
        raise click.UsageError(f"There is no folder {Path(out).parent}.")


def show(found: Any, style: str) -> None:
    """Print a result, comparison or report as was asked."""
    if style == "json":
        click.echo(found.to_json(), nl=False)
    elif style == "tsv":
        click.echo(as_tsv(found.to_frame()))
    elif sys.stdout.isatty():
        from offpolicy.cli.terminal import rendered

        click.echo(rendered(found))
    else:
        click.echo(str(found))


def tell(findings: Iterable[Finding], code: str) -> None:
    """The findings of a code, to stderr."""
    for one in findings:
        if one.code == code:
            click.echo(str(one), err=True)


def tell_dropped(dropped: Dropped | None) -> None:
    """How many rows were left out, and why, to stderr."""
    from offpolicy.evidence.findings import about_dropped

    tell(about_dropped(dropped), "dropped")


def as_tsv(table: Any) -> str:
    """An Arrow table as tab-separated text."""
    rows = [table.column_names] + [list(row.values()) for row in table.to_pylist()]
    return "\n".join("\t".join(_cell(cell) for cell in row) for row in rows)


def _cell(value: Any) -> str:
    """One field: tabs and line ends would break the table."""
    return "" if value is None else " ".join(str(value).split())


def learned_options(what: str, units: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Where what was learned is written, and what of the log it is kept from."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option(
            "--refit", is_flag=True, help=f"then learn again, from all {units}, and write that"
        )(function)
        function = click.option(
            "--holdout", type=click.FloatRange(0.0, 1.0, max_open=True), default=0.2,
            show_default=True, metavar="SHARE",
            help=f"of the {units}, to be learned without and evaluated on; 0: none",
        )(function)  # fmt: skip
        return click.option(
            "-o", "--out", type=click.Path(dir_okay=False), required=True, metavar="FILE",
            help=f"the {what} to write, ending in .json; its numbers are in a second file beside "
            f"it",
        )(function)  # fmt: skip

    return decorate
