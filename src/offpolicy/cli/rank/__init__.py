"""``offpolicy rank``: rankings with clicks."""

from __future__ import annotations

from importlib import import_module

import click

_VERBS = {
    "evaluate": "How good would these rankers have been?",
    "sweep": "The curve of an estimator over its parameter.",
    "propensities": "How likely is each rank examined?",
    "learn": "Learn a ranker from clicks.",
}


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        command = import_module(f"offpolicy.cli.rank.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command


@click.command("rank", cls=_Verbs)
def command() -> None:
    """Rankings with clicks.

    LOG is a table (Parquet, CSV, JSON lines) with one row for every document of every impression,
    those of one impression following each other; or LETOR text, with --clicks.
    """
