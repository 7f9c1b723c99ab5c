"""The command line. Results go to stdout, everything else to stderr.

Exit codes: 0 fine, 1 the data cannot answer, 2 usage or malformed input, 3 a fault of ours, 128 and
more ended by a signal (130 by Ctrl-C). Only click is imported before a verb runs.
"""

from __future__ import annotations

import contextlib
import io
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NoReturn

import click

from offpolicy import __version__

__all__ = ["cli", "main"]

_VERBS = {
    "check": "Is this log fit to answer, and about these policies?",
    "evaluate": "What would these policies have earned?",
    "compare": "Which of these policies is better, and is that certain?",
    "sweep": "The curve of an estimator over its parameter.",
    "learn": "Learn a policy that would have earned more.",
    "rank": "Rankings with clicks: evaluate rankers, learn them, find propensities.",
    "report": "A result as a page to look at.",
    "simulate": "Write a log whose truth is known.",
    "datasets": "Public data sets: list them, look them up, fetch them.",
    "demo": "Simulate an e-mail test and evaluate two policies against their known truth.",
    "reproduce": "The paper's theorems and experiments.",
    "warm-up": "Compile all loops and keep them on disk, while an image is built.",
}


class Verbs(click.Group):
    """Loads a verb's module from the package only when that verb is called."""

    def __init__(self, *args: Any, package: str, verbs: dict[str, str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.package, self.verbs = package, verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.verbs:
            return None
        command = import_module(f"{self.package}.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(self.verbs.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta.setdefault("offpolicy.command", ("offpolicy", *args))
        return super().parse_args(ctx, args)


@click.command(
    cls=Verbs, package="offpolicy.cli", verbs=_VERBS,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
@click.version_option(__version__)
@click.option("--debug", is_flag=True, help="show where an error comes from")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """How would this policy have done, had it been running?

    \b
    offpolicy evaluate log.parquet --policy new_policy --prediction q
    """
    ctx.ensure_object(dict)["debug"] = debug


def main() -> None:
    """Run the command line, and turn errors meant for the user into a line and an exit code."""
    from offpolicy._core.door import Door
    from offpolicy.cli.printing import say, show_what_cannot_be
    from offpolicy.errors import OffpolicyError, SupportError

    asked: dict[str, Any] = {}
    show_what_cannot_be()
    try:
        with _ended_by_signals(asked), Door.of_options():
            cli.main(standalone_mode=False, obj=asked)
            sys.stdout.flush()
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as problem:
        text = io.StringIO()
        problem.show(text)
        say(text.getvalue(), err=True, end="")
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        _fail_by_signal(asked)
    except OffpolicyError as problem:
        code = 1 if isinstance(problem, SupportError) else 2
        _fail(f"{type(problem).__name__}: {problem}", code, asked)
    except OSError as problem:
        what = problem.filename or "The output cannot be written"
        _fail(f"{what}: {problem.strerror}." if problem.strerror else str(problem), 2, asked)
    except Exception as problem:
        if "signal" in asked:
            _fail_by_signal(asked)
        _fail(
            f"This is a fault of offpolicy, not of your data: {problem!r}. Please report it, with "
            f"what the same command says as offpolicy --debug …",
            3,
            asked,
        )


@contextlib.contextmanager
def _ended_by_signals(asked: dict[str, Any]) -> Iterator[None]:
    """Let signals that end a process raise, so that what the command has begun is removed."""

    def end(number: int, _: object) -> None:
        asked["signal"] = number  # libraries may turn the interrupt into an error of their own
        raise KeyboardInterrupt

    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as other filters: end when nobody reads
    known = [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")]
    before = {number: signal.getsignal(number) for number in known if number is not None}
    heard = [number for number, how in before.items() if how != signal.SIG_IGN]  # nohup, and &
    for number in heard:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])


def _fail_by_signal(asked: dict[str, Any]) -> NoReturn:
    """End the command as the shell says that a signal ended it, and say how to go on."""
    number = signal.Signals(asked.get("signal", signal.SIGINT))
    text = "Interrupted." if number == signal.SIGINT else f"Ended by {number.name}."
    if any(word == "--resume" or word.startswith("--resume=") for word in sys.argv):
        text += " The same command goes on from where it was kept."
    elif len(sys.argv) > 1 and sys.argv[1] in ("evaluate", "compare", "sweep"):
        text += " With --resume DIR, a run can go on after this."
    _fail(text, 128 + number, asked)


def _fail(message: str, code: int, asked: dict[str, Any]) -> NoReturn:
    """End the command: one line to stderr, after the traceback if --debug asked for that."""
    from offpolicy.cli.printing import say

    with contextlib.suppress(OSError):  # the terminal may be gone
        if asked.get("debug"):
            import traceback

            say(traceback.format_exc(), err=True, end="")
        say(" ".join(message.splitlines()), err=True)
    sys.exit(code)
