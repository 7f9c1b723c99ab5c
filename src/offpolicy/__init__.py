# ruff: noqa: F401, PLE0605
"""offpolicy: how would this policy have done, had it been running?

Names are imported when first used, so ``import offpolicy`` is quick. No module is named like a
function it exports (`evaluate` lives in ``evaluation``), or importing the module would hide it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "BanditLog": "log",
    "Columns": "columns",
    "read_log": "engines.reading",
    "LogScan": "sources",
    "Policy": "policies",
    "Uniform": "policies",
    "Tabular": "policies",
    "Softmax": "policies",
    "EpsilonGreedy": "policies",
    "Deterministic": "policies",
    "Mixture": "policies",
    "Classifier": "policies",
    "MonteCarlo": "policies",
    "DM": "estimators",
    "IPS": "estimators",
    "CIPS": "estimators",
    "SNIPS": "estimators",
    "DR": "estimators",
    "SNDR": "estimators",
    "SB": "estimators",
    "SWITCH": "estimators",
    "SWITCHDR": "estimators",
    "DRos": "estimators",
    "SGIPS": "estimators",
    "SGDR": "estimators",
    "CAB": "estimators",
    "CABDR": "estimators",
    "ICE": "estimators",
    "Estimator": "estimators",
    "parse": "estimators",
    "Estimate": "results",
    "Result": "results",
    "Headline": "results",
    "Tuned": "results",
    "RewardModel": "models",
    "PropensityModel": "models",
    "check": "checks",
    "Report": "checks",
    "Finding": "checks",
    "compare": "comparison",
    "Comparison": "differences",
    "Difference": "differences",
    "Interval": "intervals",
    "evaluate": "evaluation",
    "Curve": "curves",
    "sweep": "curves",
    "simulate_bandit": "simulation",
    "simulate_synthetic": "synthetic",
    "read_truth": "recording",
    "OffpolicyError": "errors",
}
_MODULES = (
    "betting", "bootstrap", "datasets", "errors", "estimators", "formats", "intervals", "learning",
    "policies", "ranking", "testing", "theory",
)  # fmt: skip

__all__ = sorted([*_HOME, *_MODULES, "__version__"])

if TYPE_CHECKING:
    from offpolicy import (
        betting,
        bootstrap,
        datasets,
        errors,
        estimators,
        formats,
        intervals,
        learning,
        policies,
        ranking,
        testing,
        theory,
    )
    from offpolicy.checks import Finding, Report, check
    from offpolicy.columns import Columns
    from offpolicy.comparison import compare
    from offpolicy.curves import Curve, sweep
    from offpolicy.differences import Comparison, Difference
    from offpolicy.engines.reading import read_log
    from offpolicy.errors import OffpolicyError
    from offpolicy.estimators import (
        CAB,
        CABDR,
        CIPS,
        DM,
        DR,
        ICE,
        IPS,
        SB,
        SGDR,
        SGIPS,
        SNDR,
        SNIPS,
        SWITCH,
        SWITCHDR,
        DRos,
        Estimator,
        parse,
    )
    from offpolicy.evaluation import evaluate
    from offpolicy.intervals import Interval
    from offpolicy.log import BanditLog
    from offpolicy.models import PropensityModel, RewardModel
    from offpolicy.policies import (
        Classifier,
        Deterministic,
        EpsilonGreedy,
        Mixture,
        MonteCarlo,
        Policy,
        Softmax,
        Tabular,
        Uniform,
    )
    from offpolicy.recording import read_truth
    from offpolicy.results import Estimate, Headline, Result, Tuned
    from offpolicy.simulation import simulate_bandit
    from offpolicy.sources import LogScan
    from offpolicy.synthetic import simulate_synthetic


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"offpolicy.{_HOME[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"offpolicy.{name}")
    else:
        raise AttributeError(f"module 'offpolicy' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
