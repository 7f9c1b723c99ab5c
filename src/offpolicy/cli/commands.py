"""How commands read their options: what every verb refuses."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import click

_GROUPS = {
    "Options": (
        "out", "policies", "policy", "rankers", "clicks", "action", "reward", "propensity",
        "actions", "estimate_propensity", "rank", "click", "query", "impression", "document",
        "prediction", "context", "features", "metric", "metrics",
    ),
    "The answer": (),
    "More about the log": (
        "logging", "candidates", "cluster", "time", "row_weight", "fill_reward", "relevance",
        "relevant", "propensities", "eta", "decision", "chosen", "columns",
    ),
    "Reading it": (
        "where", "limit", "sample", "on_bad_row", "max_dropped", "verify", "allow_code", "engine",
        "master", "memory", "threads",
    ),
}  # fmt: skip
"""Headings of --help with their options in order, the same for all verbs; the group without any
has what is left."""


_MEANT = {
    "--json": "--format json", "--tsv": "--format tsv", "--csv": "--format tsv",
    "--html": "--report page.html", "--filter": "--where CONDITION",
    "--treatment": "--action COLUMN", "--outcome": "--reward COLUMN", "--metric": "--reward COLUMN",
    "--features": "--context COLUMN",
}  # fmt: skip
"""What people look for, where there is no such option."""


class Strict(click.Command):
    """A command that refuses an option given twice, of which click would take the last, and whose
    --help has what everybody needs first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        shown = {str(option.name): option.get_help_record(ctx) for option in options}
        left = [name for name in shown if not any(name in group for group in _GROUPS.values())]
        left.sort(key=lambda name: "help" in name)
        if not set(shown) & {"action", "click"}:
            super().format_options(ctx, formatter)
            return
        for head, names in _GROUPS.items():
            lines = [line for name in names or left if (line := shown.get(name)) is not None]
            if lines:
                with formatter.section(head):
                    formatter.write_dl(lines)

    def make_parser(self, ctx: click.Context) -> Any:
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            try:
                values, rest, order = parse(args)
            except click.NoSuchOption as problem:
                if (meant := _MEANT.get(problem.option_name)) is None:
                    raise
                name = problem.option_name
                raise click.UsageError(f"No such option '{name}': say {meant}.", ctx) from None
            for param in order:
                single = isinstance(param, click.Option) and not (param.multiple or param.is_flag)
                if single and order.count(param) > 1:
                    raise click.UsageError(f"{param.opts[-1]} is given twice; it takes one.", ctx)
            return values, rest, order

        parser.parse_args = parse_once  # type: ignore[method-assign]
        return parser


class StrictGroup(click.Group):
    """A group of commands that are `Strict`."""

    command_class = Strict


class Named(click.Path):
    """A file or folder of an option; what is empty, as an unset variable, is none."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if value == "":
            self.fail("it is empty; give a name.", param, ctx)
        return super().convert(value, param, ctx)


class Output(Named):
    """A file to write; if that is - or standard output, all else is printed to stderr."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        from offpolicy._core.files import STDOUT, descriptor_of

        path = Path(STDOUT if value == "-" else value)
        stream = descriptor_of(path)
        if stream is None:
            if value and not path.absolute().parent.is_dir():
                self.fail(f"there is no folder {path.parent}.", param, ctx)
            return super().convert(value, param, ctx)
        if stream == 1 and ctx is not None:
            if "offpolicy.output" in ctx.meta:
                self.fail("only one file can go to standard output.", param, ctx)
            ctx.meta["offpolicy.output"] = str(path)
            ctx.with_resource(contextlib.redirect_stdout(sys.stderr))
        return str(path)
