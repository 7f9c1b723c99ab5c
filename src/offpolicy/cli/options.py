"""Options that several verbs share."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from offpolicy.cli.commands import Named, Output
from offpolicy.cli.printing import say, say_json, say_styled

if TYPE_CHECKING:
    from pathlib import Path

    from offpolicy.logs import BanditLog, LogScan
    from offpolicy.results import Finding

Command = Callable[..., Any]
HELD = 1_000_000
"""Rows of a scanned log that are held in memory for --estimate-propensity."""
COUNT, SEED = click.IntRange(min=1), click.IntRange(min=0)
SHARE = click.FloatRange(0.0, 1.0)
POSITIVE, NOT_NEGATIVE = click.FloatRange(min=0.0, min_open=True), click.FloatRange(min=0.0)
FILE, FOLDER, OUTPUT = Named(dir_okay=False), Named(file_okay=False), Output()


def option(
    text: str | None = None,
    metavar: str | None = None,
    kind: Any = None,
    *,
    default: Any = None,
    flags: str = "",
    **settings: Any,
) -> dict[str, Any]:
    """What click needs to know of an option: a tuple of kinds is a choice, the first the default;
    one whose default is a tuple may be repeated, and one whose default is a truth is a flag that
    says the opposite."""
    if isinstance(kind, tuple):
        kind, default = click.Choice(kind), kind[0]
    if isinstance(default, bool):
        settings |= {"default": default, "is_flag": True, "flag_value": not default}
    elif default not in (None, ()):
        settings |= {"default": default, "show_default": True}
    return {
        "flags": flags, "help": text, "metavar": metavar, "type": kind,
        "multiple": isinstance(default, tuple),
    } | settings  # fmt: skip


class Options:
    """Options that fill parameters of one object of the library, each that of its own name.

    The object is named, not imported, so that --help stays light; tests/cli/test_options.py holds
    names and defaults equal to the object's.
    """

    def __init__(self, fills: str | None = None, /, **table: dict[str, Any]) -> None:
        self.fills, self.table = fills, table

    def __call__(self, command: Command) -> Command:
        for name, settings in reversed(self.table.items()):
            flags = settings["flags"].split() or [f"--{name.replace('_', '-')}"]
            rest = {key: value for key, value in settings.items() if key != "flags"}
            command = click.option(*flags, name, **rest)(command)
        return command

    def said(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The values that were given or have a default here; the object has its own of others."""
        return {name: options[name] for name in self.table if options[name] not in (None, ())}

    def again(self, options: Mapping[str, Any]) -> str:
        """The values that were given, as they are written for another command."""
        parts = []
        for name, value in self.said(options).items():
            flag = f"--{name.replace('_', '-')}"
            for one in value if isinstance(value, tuple) else [value]:
                parts += [flag, shlex.quote(str(one))]
        return "".join(f" {part}" for part in parts)


def columns_of(roles: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """A command-line option for each role: the column that plays it."""
    return {role: option(text, "COLUMN") for role, text in roles.items()}


_FILES = Options(
    "offpolicy.logs.files.read_log",
    engine=option("who reads the files", kind=("embedded", "spark")),
    columns=option('which column plays which role, as TOML: action = "item"', "FILE", FILE),
    where=option(
        "a condition, such as \"country = 'de' and day >= 3\"; rows that do not meet it are left "
        "out",
        "CONDITION",
    ),
    memory=option("what the scan of large files may use, such as 4GB", "SIZE"),
    threads=option("on how many threads large files are read", "N", COUNT),
    master=option("of Spark: local[4], yarn, spark://host:7077", "URL"),
    verify=option("compare large Parquet with its page checksums first", default=False),
    on_bad_row=option(
        "what becomes of a row that is malformed; dropped ones are counted", kind=("error", "drop")
    ),
    max_dropped=option("share of the rows that may be dropped", "SHARE", SHARE, default=0.05),
    limit=option("only so many rows: the first that meet the condition", "N", COUNT),
    sample=option("of these, a share (0.1) or about so many (10000), by chance", "X", POSITIVE),
    sample_seed=option("of the draw of --sample", "N", SEED, default=0),
)
_COLUMNS = Options(
    "offpolicy.logs.Columns",
    context=option(
        "what was known before the action was chosen: a reward model is trained on it if none is "
        "given; repeat for several, or user_* for all that begin so",
        "COLUMN",
        default=(),
    ),
    **columns_of(
        {
            "action": "what was chosen [action]",
            "reward": "what came of it [reward]",
            "propensity": "probability with which it was chosen [propensity], or a number if that "
            "is the same in all rows: 1/3",
            "logging": "list: the logger's probability of every candidate [logging]",
            "candidates": "list: names of the candidates [candidates]",
            "cluster": "user or session: rows of one may be dependent [cluster]",
            "time": "when [time]",
            "row_weight": "how many decisions the row stands for [row_weight]",
            "decision": "long format, a row per candidate: which decision it is of",
            "chosen": "long format: 1 where the candidate was chosen, else 0",
        }
    ),
    actions=option(
        "all arms, if every decision could choose among the same: a,b,c; in the order of lists, if "
        "there are any",
        "NAMES",
    ),
    fill_reward=option("what a missing reward counts as, such as 0", "X", float),
)

PREDICTION = option("list: the reward model's estimates", "COLUMN")
_POLICY = (
    "SPEC or NAME=SPEC: a column (probability of the chosen action, list by candidate, or the "
    "action it would choose); :always(arm), :uniform, :logged; :softmax(scores), :greedy(scores), "
    ":rule(case when … end); a learned policy.json; python:module:function"
)
POLICIES = option(f"{_POLICY}; repeat for several", "SPEC", default=(), flags="--policy")
POLICY = option(_POLICY, "SPEC", required=True)
ALLOW_CODE = option("let --policy python:module:function run that code", default=False)
ESTIMATORS = option(
    'such as IPS or "CAB(M=10)"; repeat for several', "NAME", default=(), flags="-e --estimator"
)
ESTIMATOR = option(metavar="NAME", default="CAB", flags="-e --estimator")
REWARD_RANGE = option("the least and the greatest reward there can be", "LOW HIGH", float, nargs=2)
LEVEL = option("coverage of the intervals", default=0.95)
RESUME = option(
    "keep sums there on the way; killed and run again, it goes on from them", "DIR", FOLDER
)


_ESTIMATE = Options(
    estimate_propensity=option(
        "estimate the propensities from the context: none were logged", default=False
    )
)


def columns_again(options: Mapping[str, Any]) -> str:
    """What a command was told of a log's columns, for one about another log."""
    return Options(columns={}).again(options) + _COLUMNS.again(options)


def log_options(command: Command) -> Command:
    """Gives a command its LOG, and the options that say which column plays which role."""
    command = _FILES(_COLUMNS(_ESTIMATE(command)))
    return click.argument("log", nargs=-1, required=True, type=click.Path())(command)


def report_option(more: str = "") -> Options:
    text = f"also write the answer as a page, report.html{more}"
    return Options(report=option(text, "FILE", OUTPUT))


def format_option(*formats: str) -> Options:
    return Options(style=option(kind=formats, flags="--format"))


def learned_option(what: str) -> Options:
    """The option --out of a command that learns: where what was learned is written."""
    text = f"the {what} to write, ending in .json; its numbers are in a second file beside it"
    return Options(out=option(text, "FILE", OUTPUT, flags="-o --out", required=True))


def held_out(units: str) -> dict[str, dict[str, Any]]:
    """The options --holdout and --refit of a command that learns."""
    return {
        "holdout": option(
            f"of the {units}, to be learned without and evaluated on; 0: none",
            "SHARE", click.FloatRange(0.0, 1.0, max_open=True), default=0.2,
        ),
        "refit": option(f"then learn again, from all {units}, and write that", default=False),
    }  # fmt: skip


def read(log: tuple[str, ...], options: Mapping[str, Any]) -> BanditLog | LogScan:
    """The log of a command, by `log_options`; a role named twice is as on the command line."""
    from dataclasses import replace

    from offpolicy.logs import BanditLog, Columns, Part
    from offpolicy.logs.expressions import Expression
    from offpolicy.logs.files import read_log

    settings = _FILES.said(options)
    file = settings.pop("columns", None)
    columns = Columns() if file is None else Columns.from_toml(file)
    if "where" in settings:
        settings["where"] = Expression(settings["where"], "--where")
    with _expanded_by_the_shell(options["context"]):
        source = read_log(list(log), replace(columns, **_roles_of(options)), **settings)
    if "limit" in settings or "sample" in settings:
        drawn = ""
        if "sample" in settings:
            drawn = f", drawn by chance (seed {settings['sample_seed']})"
        part = source.is_part if isinstance(source, BanditLog) else isinstance(source, Part)
        told = f"Only {len(source):,} rows are read{drawn}."
        say(told if part else f"All {len(source):,} rows are read: there are no more.", err=True)
    if not isinstance(source, BanditLog) and sys.stderr.isatty():
        from offpolicy.cli.progress import Progress

        source.progress = Progress()
    return _estimated(source) if options["estimate_propensity"] else source


@contextlib.contextmanager
def _expanded_by_the_shell(context: Sequence[str]) -> Iterator[None]:
    """Say with an error about the log that --context * must be quoted, if it names a file."""
    from pathlib import Path

    from offpolicy.errors import LogError

    try:
        yield
    except LogError as problem:
        file = next((name for name in context if Path(name).exists()), None)
        if file is None:
            raise
        raise LogError(
            f"{problem} And --context {file} names a file: if you wrote *, the shell put all files "
            f"in its place. Quote it: --context '*'."
        ) from None


def _estimated(log: BanditLog | LogScan) -> BanditLog:
    """A command's log with estimated propensities, for --estimate-propensity."""
    from offpolicy.evidence import with_arms
    from offpolicy.logs import BanditLog, Distributed, LogScan
    from offpolicy.models import PropensityModel

    if isinstance(log, LogScan) and len(log) <= HELD and not isinstance(log, Distributed):
        log = log.without_bad_rows("", (), lambda _: None)
        held = log.read([(0, len(log))], log.column_names)
        log = held.replace(dropped=log.dropped, condition=log.condition, trusted=True)
    if not isinstance(log, BanditLog):
        raise click.UsageError(
            f"--estimate-propensity takes at most {HELD:,} rows, and none from Spark. Add --sample "
            f"{HELD}; or estimate propensities elsewhere, and name their column (--propensity)."
        )
    if log.propensity is not None:
        raise click.UsageError(
            "The log has propensities: leave out --estimate-propensity. To estimate them all the "
            "same, say that no column holds them: --propensity '' --logging ''."
        )
    log = with_arms(log)
    assert isinstance(log, BanditLog)
    return PropensityModel().fit(log).apply(log)


def _roles_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a command says of columns, and of what no column holds."""
    from offpolicy._core.quoting import parts_of, unquoted
    from offpolicy.logs import as_ratio

    roles = _COLUMNS.said(options)
    if "actions" in roles:
        roles["actions"] = list(map(unquoted, parts_of(roles["actions"])))
    if "propensity" in roles:
        number = as_ratio(roles["propensity"])
        roles["propensity"] = roles["propensity"] if number is None else number
    return roles


def given(name: str) -> bool:
    """Whether this option of the command was given, or is its default."""
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.COMMANDLINE


def refuse_idle(names: Sequence[str], when: bool, what: str) -> None:
    """Refuse options of the command that were given and have no effect: they are for ``what``."""
    for sentence in _idle(names, when, what):
        raise click.UsageError(sentence)


def tell_idle(names: Sequence[str], when: bool, what: str) -> None:
    """Say that roles of columns were given that have no effect in this command, as in others."""
    for sentence in _idle(names, when, what):
        say(sentence, err=True)


def _idle(names: Sequence[str], when: bool, what: str) -> Iterator[str]:
    for name in names:
        if when and given(name):
            yield f"--{name.replace('_', '-')} is for {what}; here it has no effect."


def warn_of_contexts(options: Mapping[str, Any]) -> None:
    """Say that a command's --context is not needed, if that is so."""
    if options["context"] and options["prediction"]:
        say("No reward model is trained on --context: --prediction is the one.", err=True)


def policies_of(specs: Sequence[str], allow_code: bool) -> dict[str, Any]:
    """Policies as --policy says them, by name."""
    from offpolicy import policies
    from offpolicy.errors import ParameterError

    try:
        return policies.policies_of(specs, allow_code=allow_code)
    except ParameterError as problem:
        raise click.UsageError(str(problem)) from None


def rankers_of(
    names: Sequence[str], known: Mapping[str, Any], load: Callable[[Path], Any]
) -> dict[str, Any]:
    """What --ranker names, by the names to be shown: loaded, known, or as named."""
    from offpolicy._core.saved import saved_file

    if len(set(names)) < len(names):
        raise click.UsageError("One --ranker is given twice.")
    shown: dict[str, Any] = {}
    for name in names:
        file = saved_file(name)
        label = name.removeprefix(":") if file is None else file.stem
        if label in shown:
            raise click.UsageError(f'Two rankers are named "{label}"; rename one of the files.')
        shown[label] = known.get(name, name) if file is None else load(file)
    return shown


def check_learned(what: str, out: str, options: Mapping[str, Any]) -> None:
    """Refuse wrong options of a command that learns, before any work is done."""
    check_suffix(out, ".json")
    if options["refit"] and not options["holdout"]:
        raise click.UsageError(f"--refit is for a {what} that was learned without the --holdout.")
    refuse_idle(["level"], not options["holdout"], f"a {what} that is evaluated on a --holdout")


def check_suffix(out: str, *suffixes: str) -> None:
    """Refuse an --out of another kind, before the command does any work."""
    from pathlib import Path

    if Path(out).suffix.lower() not in suffixes:
        raise click.UsageError(f'FILE is "{out}"; it must end in {" or ".join(suffixes)}.')


def show(result: Any, style: str) -> None:
    """Print a command's result by its --format; what was left out goes to stderr, and what makes
    the answer doubtful, unless the text has it."""
    tell_dropped(result)
    if hasattr(result, "headlines"):
        tell(result.findings, *_TOLD)
        if style != "table":
            tell(result.warnings)
    if style == "json":
        say_json(result.to_json())
    elif style == "tsv":
        say(as_tsv(result.to_arrow()))
    elif sys.stdout.isatty():
        from offpolicy.cli.terminal import rendered

        say_styled(rendered(result))
    else:
        say(str(result))


_TOLD = (
    "arms-found", "prediction-found", "contexts-unused", "contexts-taken", "contexts-infinite",
)  # fmt: skip
"""Notes that say what was taken for what."""


def show_frame(frame: Any, style: str) -> None:
    """Print a curve by --format; what is no number, as a ratio by nothing, is None in JSON."""
    from offpolicy._core.documents import dumps

    columns = {name: frame.column(name).to_numpy() for name in frame.column_names}
    if style == "json":
        say_json(dumps(columns, indent=None))
    else:
        say(as_tsv(frame))


def tell(findings: Iterable[Finding], *codes: str) -> None:
    """Print a command's findings to stderr: all, or those of these codes."""
    for finding in findings:
        if not codes or finding.code in codes:
            say(str(finding), err=True)


def show_learned(learned: Any, out: str, how: str, style: str) -> None:
    """Print by --format what a command learned and wrote, and how to evaluate it."""
    say(f"Wrote {out}.", err=True)
    found = getattr(learned, "findings", ())
    tell(found, *_TOLD)
    if style == "json":
        tell(one for one in found if one.severity != "note")
        tell([] if learned.result is None else learned.result.warnings)
        say_json(learned.to_json())
    else:
        say(f"{learned}\n\nTo evaluate it on other {how} {shlex.quote(out)}")


def tell_dropped(result: Any) -> None:
    """Print to stderr how many rows of a command's log were left out, and why."""
    from offpolicy.evidence.findings import about_dropped

    tell(about_dropped(getattr(result, "dropped", None)), "dropped")


def as_tsv(table: Any) -> str:
    """An Arrow table as a command prints it for --format tsv."""
    rows = [table.column_names] + [list(row.values()) for row in table.to_pylist()]
    return "\n".join("\t".join(_cell(cell) for cell in row) for row in rows)


def _cell(value: Any) -> str:
    """One field of --format tsv: tabs and line ends would break the table, and text that begins as
    a formula a spreadsheet would run."""
    text = "" if value is None else " ".join(str(value).split())
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text


_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
