"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from offpolicy.columns import Columns

_ROLES = {
    "action": "what was chosen",
    "reward": "what came of it",
    "propensity": "probability with which it was chosen",
    "logging": "list: the logger's probability of every candidate",
    "candidates": "list: names of the candidates",
    "cluster": "user or session: rows of one may be dependent",
    "time": "when",
    "row_weight": "how many decisions the row stands for",
}


def log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The log, and which of its columns plays which role."""
    for role, meaning in reversed(_ROLES.items()):
        function = click.option(
            f"--{role.replace('_', '-')}", role, metavar="COLUMN", help=f"{meaning} [{role}]"
        )(function)
    function = click.option(
        "--prediction", metavar="COLUMN", help="list: the reward model's estimates"
    )(function)
    return click.argument("log", type=click.Path(dir_okay=False))(function)


def format_option(*formats: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--format", "style", type=click.Choice(formats), default=formats[0], show_default=True
    )


level_option = click.option(
    "--level", type=float, default=0.95, show_default=True, help="coverage of the intervals"
)


def columns_of(roles: dict[str, str | None]) -> Columns:
    """The `Columns` named on the command line."""
    from offpolicy.columns import Columns

    return Columns(**{role: roles.get(role) for role in _ROLES})  # type: ignore[arg-type]


def as_tsv(table: Any) -> str:
    """An Arrow table as tab-separated text."""
    rows = [table.column_names] + [list(row.values()) for row in table.to_pylist()]
    return "\n".join("\t".join(_cell(cell) for cell in row) for row in rows)


def _cell(value: Any) -> str:
    """One field: tabs and line ends would break the table."""
    return "" if value is None else " ".join(str(value).split())
