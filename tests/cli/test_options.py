"""Options of the command line say what the objects that they fill say."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module

import click
import pytest
from click.testing import CliRunner

import offpolicy.cli
from offpolicy.cli import cli
from offpolicy.cli.options import Options

OTHER_DEFAULTS = {("PropensitySVMRank", "estimator"): "CAB(M=10)"}
"""On the command line a parameter of the estimator is chosen, if it is not given."""


def tables() -> list[Options]:
    names = [
        module.name
        for module in pkgutil.walk_packages(offpolicy.cli.__path__, "offpolicy.cli.")
        if module.name != "offpolicy.cli.reproduce"
    ]
    found = [value for name in names for value in vars(import_module(name)).values()]
    return list({id(one): one for one in found if isinstance(one, Options) and one.fills}.values())


@pytest.mark.parametrize("options", tables(), ids=lambda options: options.fills)
def test_options_fill_parameters_that_are_there_with_their_defaults(options):
    module, _, name = options.fills.rpartition(".")
    parameters = inspect.signature(getattr(import_module(module), name)).parameters
    for option, settings in options.table.items():
        default = parameters[option].default
        said = settings.get("default")
        for shown in re.findall(r" \[([\d.]+)\]|(\w+) \(the default\)", settings["help"] or ""):
            assert "".join(shown) == f"{default:g}" if shown[0] else shown[1] == default
        if said is not None and not settings["multiple"]:
            assert said == default or OTHER_DEFAULTS[name, option] == default


def test_there_are_tables_for_all_that_is_filled():
    filled = {options.fills.rpartition(".")[2] for options in tables()}
    assert filled >= {
        "read_log", "Columns", "RankingColumns", "SoftmaxLearner", "PropensitySVMRank",
        "simulate_synthetic", "estimate_propensities", "evaluate", "compare", "sweep",
    }  # fmt: skip


LOGS = ("evaluate", "compare", "check", "sweep", "learn")
RANKINGS = ("rank evaluate", "rank sweep", "rank learn", "rank propensities")


def helped(verb: str) -> list[str]:
    """The options of a verb in the order of its --help."""
    text = CliRunner().invoke(cli, [*verb.split(), "--help"]).stdout
    return re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", text, re.MULTILINE)


@pytest.mark.parametrize("verb", [*LOGS, *RANKINGS])
def test_help_has_first_what_everybody_needs_and_nothing_twice_or_not_at_all(verb):
    words, command = helped(verb), cli
    for name in verb.split():
        command = command.get_command(click.Context(command), name)
    given = [param.opts[-1] for param in command.params if isinstance(param, click.Option)]
    assert sorted(words) == sorted([word for word in given if word.startswith("--")] + ["--help"])
    first = [word for word in words if word not in ("--policy", "--out", "--ranker", "--clicks")]
    if verb in LOGS:
        assert first[:3] == ["--action", "--reward", "--propensity"]
        assert words[-4:] == ["--engine", "--master", "--memory", "--threads"]
    else:
        assert set(first[:3]) <= {"--propensity", "--rank", "--click"}


@pytest.mark.parametrize("verbs", [LOGS, RANKINGS])
def test_help_has_the_same_order_in_all_verbs(verbs):
    orders = [helped(verb) for verb in verbs]
    shared = set(orders[0]).intersection(*orders)
    assert len({tuple(word for word in order if word in shared) for order in orders}) == 1
