"""offpolicy: how would this policy have done, had it been running?

Names are imported when first used, so ``import offpolicy`` is quick. No module is named like a
function it exports (`evaluate` lives in ``evaluation``), or importing the module would hide it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "BanditLog": "logs",
    "Columns": "logs",
    "read_log": "logs.files",
    "LogScan": "logs",
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
    "IX": "estimators",
    "ES": "estimators",
    "CAB": "estimators",
    "CABDR": "estimators",
    "ICE": "estimators",
    "Estimator": "estimators",
    "parse": "estimators",
    "Estimate": "results",
    "Result": "results",
    "Headline": "results",
    "TrainedModel": "results",
    "Tuned": "results",
    "RewardModel": "models",
    "PropensityModel": "models",
    "check": "evaluation",
    "Report": "results",
    "Finding": "results",
    "compare": "evaluation",
    "Comparison": "results",
    "Difference": "results",
    "Interval": "intervals",
    "evaluate": "evaluation",
    "Curve": "evaluation",
    "sweep": "evaluation",
    "simulate_bandit": "datasets",
    "simulate_synthetic": "datasets",
    "read_truth": "datasets",
    "OffpolicyError": "errors",
}
_MODULES = {
    "betting": "intervals.betting",
    "bootstrap": "intervals.bootstrap",
    "formats": "logs.formats",
    "theory": "estimators.theory",
    "datasets": "datasets",
    "errors": "errors",
    "estimators": "estimators",
    "intervals": "intervals",
    "learning": "learning",
    "logs": "logs",
    "policies": "policies",
    "ranking": "ranking",
    "testing": "testing",
}

__all__ = [
    "CAB", "CABDR", "CIPS", "DM", "DR", "ES", "ICE", "IPS", "IX", "SB", "SGDR", "SGIPS", "SNDR",
    "SNIPS", "SWITCH", "SWITCHDR", "BanditLog", "Classifier", "Columns", "Comparison", "Curve",
    "DRos", "Deterministic", "Difference", "EpsilonGreedy", "Estimate", "Estimator", "Finding",
    "Headline", "Interval", "LogScan", "Mixture", "MonteCarlo", "OffpolicyError", "Policy",
    "PropensityModel", "Report", "Result", "RewardModel", "Softmax", "Tabular", "TrainedModel",
    "Tuned", "Uniform", "__version__", "betting", "bootstrap", "check", "compare", "datasets",
    "errors", "estimators", "evaluate", "formats", "intervals", "learning", "logs", "parse",
    "policies", "ranking", "read_log", "read_truth", "simulate_bandit", "simulate_synthetic",
    "sweep", "testing", "theory",
]  # fmt: skip

if TYPE_CHECKING:
    from offpolicy import (
        datasets,
        errors,
        estimators,
        intervals,
        learning,
        logs,
        policies,
        ranking,
        testing,
    )
    from offpolicy.datasets import read_truth, simulate_bandit, simulate_synthetic
    from offpolicy.errors import OffpolicyError
    from offpolicy.estimators import (
        CAB,
        CABDR,
        CIPS,
        DM,
        DR,
        ES,
        ICE,
        IPS,
        IX,
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
        theory,
    )
    from offpolicy.evaluation import Curve, check, compare, evaluate, sweep
    from offpolicy.intervals import Interval, betting, bootstrap
    from offpolicy.logs import BanditLog, Columns, LogScan, formats
    from offpolicy.logs.files import read_log
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
    from offpolicy.results import (
        Comparison,
        Difference,
        Estimate,
        Finding,
        Headline,
        Report,
        Result,
        TrainedModel,
        Tuned,
    )


if not TYPE_CHECKING:  # or a type checker would believe in every name

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            value = getattr(importlib.import_module(f"offpolicy.{_HOME[name]}"), name)
        elif name in _MODULES:
            value = importlib.import_module(f"offpolicy.{_MODULES[name]}")
        else:
            raise AttributeError(f"module 'offpolicy' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
