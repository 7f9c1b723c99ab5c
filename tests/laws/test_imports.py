"""What the package exports, and what importing it must not drag in."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import offpolicy as op

EXPORTED = [
    "Comparison", "Difference", "Finding", "Headline", "PropensityModel", "Report", "RewardModel",
    "TrainedModel", "Tuned", "betting", "bootstrap", "check", "compare", "intervals",
    *(kind.__name__ for kind in op.estimators.NAMED.values()),
    "BanditLog", "Classifier", "Columns", "Curve", "Deterministic", "EpsilonGreedy", "Estimate",
    "Estimator", "ICE", "Interval", "Mixture", "MonteCarlo", "OffpolicyError", "Policy", "Result",
    "Softmax", "Tabular", "Uniform", "__version__", "errors",
    "estimators", "evaluate", "parse", "policies", "simulate_bandit", "sweep", "testing",
    "theory", "LogScan", "datasets", "formats", "read_log", "read_truth", "simulate_synthetic",
    "learning", "logs", "ranking",
]  # fmt: skip

HEAVY = ["sklearn", "numba", "duckdb", "scipy", "torch", "pyspark", "pandas", "matplotlib"]
EVALUATE = """
log = offpolicy.BanditLog.from_arrays(
    action=[0, 1, 0, 1], reward=[1, 0, 1, 1], logging=[[0.5, 0.5]] * 4
)
print(offpolicy.evaluate(log, [[0.9, 0.1]] * 4, prediction=[[0.7, 0.2]] * 4).to_json())
"""


def imported_by(code: str) -> set[str]:
    """The top-level packages in memory after running the code in a new interpreter."""
    report = "import sys; print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stderr.split())


def test_import_is_light():
    assert imported_by("import offpolicy").isdisjoint([*HEAVY, "numpy", "pyarrow"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["evaluate", "--help"],
        ["learn", "--help"],
        ["rank", "--help"],
        ["rank", "learn", "--help"],
        ["simulate", "synthetic", "--help"],
        ["datasets", "fetch", "--help"],
        ["--version"],
    ],
)
def test_help_is_light(arguments):
    code = f"from offpolicy.cli import cli; cli.main({arguments}, standalone_mode=False)"
    assert imported_by(code).isdisjoint([*HEAVY, "numpy", "pyarrow"])


def test_evaluating_a_small_log_is_light():
    assert imported_by(f"import offpolicy{EVALUATE}").isdisjoint([*HEAVY, "pyarrow"])


def test_without_pytorch_its_part_says_what_to_install():
    code = """
import sys
sys.modules["torch"] = None
try:
    import offpolicy.torch
except ImportError as error:
    from offpolicy import OffpolicyError
    print(isinstance(error, OffpolicyError), error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    expected = "True offpolicy.torch needs PyTorch: pip install 'offpolicy[torch]'."
    assert done.stdout.strip() == expected


def test_exported_names_are_pinned():
    assert sorted(op.__all__) == dir(op) == sorted(EXPORTED)
    assert {*op._HOME, *op._MODULES, "__version__"} == set(EXPORTED)


@pytest.mark.parametrize("name", EXPORTED)
def test_every_exported_name_resolves(name):
    assert getattr(op, name) is getattr(op, name)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'offpolicy' has no attribute 'evalute'$"):
        op.evalute  # noqa: B018


def test_type_checkers_see_what_is_exported():
    tree = ast.parse(Path(op.__file__).read_text(encoding="utf-8"))
    (guard,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    seen = {alias.name: node.module for node in guard.body for alias in node.names}
    expected = {name: f"offpolicy.{home}" for name, home in op._HOME.items()}
    for name, home in op._MODULES.items():
        expected[name] = f"offpolicy.{home}".rpartition(".")[0]
    assert seen == expected


def test_no_module_is_named_like_a_function_it_would_hide():
    modules = {item.stem for item in Path(op.__file__).parent.glob("*.py")}
    assert modules.isdisjoint(op._HOME)


@pytest.mark.parametrize("name", [name for name in EXPORTED if name != "__version__"])
def test_every_exported_name_is_documented(name):
    thing = getattr(op, name)
    own = thing.__doc__ if not inspect.isclass(thing) else vars(thing).get("__doc__")
    assert own
    assert not own.startswith(f"{name}(")  # what a dataclass makes up


@pytest.mark.parametrize("name", ["BanditLog", "Result", "Curve"])
def test_every_public_method_is_documented(name):
    methods = inspect.getmembers(getattr(op, name), inspect.isroutine)
    bare = [key for key, method in methods if not key.startswith("_") and not method.__doc__]
    assert bare == []
