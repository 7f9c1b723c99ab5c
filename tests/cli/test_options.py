"""Options of the command line say what the objects that they fill say."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module

import pytest

import offpolicy.cli
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
