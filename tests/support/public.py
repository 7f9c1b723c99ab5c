"""An object of every public class, found in the packages that users import."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import offpolicy as op
from offpolicy import datasets, errors, intervals, learning, ranking
from offpolicy.datasets import make_population
from offpolicy.evaluation import evaluate_and_check
from offpolicy.learning import objective
from offpolicy.models import ScaledRidge
from offpolicy.policies import learned, resolve
from offpolicy.ranking.data._metrics import as_metric
from offpolicy.testing import LawBroken
from tests.support.clicks import clicked
from tests.support.contexts import world
from tests.support.learning import classes

PACKAGES = (
    "", "datasets", "errors", "estimators", "evaluation", "intervals", "intervals.betting",
    "intervals.bootstrap", "learning", "logs", "logs.formats", "models", "policies",
    "policies.learned", "ranking", "results", "testing",
)  # fmt: skip
ABSTRACT = {
    "ClickModel", "Derived", "Distributed", "Estimator", "LogScan", "ParameterCurve", "Part",
    "Policy", "ResultTable",
}  # fmt: skip
"""What nothing is an object of by itself, protocols and bases; and parts of logs in files."""
N = 400


def public_classes() -> dict[str, type]:
    """Every class that users can import, but for `ABSTRACT`, by its name."""
    found: dict[str, type] = {}
    for name in PACKAGES:
        module = importlib.import_module(f"offpolicy.{name}".rstrip("."))
        own = (key for key, value in vars(module).items() if _is_own(value, module.__name__))
        for key in getattr(module, "__all__", own):
            value = getattr(module, key)
            if inspect.isclass(value) and not key.startswith("_") and key not in ABSTRACT:
                found[value.__name__] = value
    return found


def _is_own(value: Any, module: str) -> bool:
    return inspect.isclass(value) and value.__module__ == module


# -- logs ------------------------------------------------------------------------------------


@functools.cache
def table() -> Any:
    return world(N, cities=True)[0]


def log() -> op.BanditLog:
    return op.BanditLog.from_frame(table(), op.Columns(cluster="city", context=["x*"]))


def labelled() -> op.BanditLog:
    return classes()[0]


def scan(folder: Path) -> op.LogScan:
    """A log in two files, read piece by piece."""
    for name, part in (("a", table().slice(0, N // 2)), ("b", table().slice(N // 2))):
        pq.write_table(part, folder / f"{name}.parquet")
    made = op.read_log([folder / "a.parquet", folder / "b.parquet"])
    assert isinstance(made, op.LogScan)
    return made


# -- what users write ------------------------------------------------------------------------


def first_feature(log: op.BanditLog) -> np.ndarray:
    return np.repeat(log.context[:, 0], np.diff(log.offsets))


def coin(log: op.BanditLog, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 2, len(log))


def square_root(c: Any) -> Any:
    return 1.0 / np.sqrt(np.maximum(c, 1.0))


def nothing(c: Any) -> Any:
    return np.zeros_like(c)


# -- answers ---------------------------------------------------------------------------------


@functools.cache
def result() -> op.Result:
    """With a parameter to choose, and all that a page shows."""
    policies = {"new": "new", "other": op.Uniform()}
    model = np.full((N, 4), 0.5)
    together = evaluate_and_check(log(), policies, prediction=model, estimators=["CAB", "IPS"])
    answer = together.answers[0]
    assert isinstance(answer, op.Result)
    return answer


@functools.cache
def comparison() -> op.Comparison:
    return op.compare(log(), {"new": "new", "other": op.Uniform()})


@functools.cache
def report() -> op.Report:
    return op.check(log().replace(propensity=None, logging=None), "new")


def curve() -> op.Curve:
    return op.sweep(log().replace(cluster=None), "new", estimator="CIPS")


def learner(**parameters: Any) -> learning.SoftmaxLearner:
    return learning.SoftmaxLearner("CAB-DR(M=10)", model_l2=1e-3, max_iter=20, **parameters)


@functools.cache
def fitted() -> learning.SoftmaxLearner:
    return learner().fit(labelled())


@functools.cache
def ranker() -> tuple[ranking.PropensitySVMRank, ranking.LearnedRanker]:
    return ranking.learn_ranker(ranking.PropensitySVMRank(), clicked())


def propensities() -> ranking.Propensities:
    """Of rankings whose first two documents are swapped in half of all impressions."""
    rng = np.random.default_rng(0)
    swapped, n = rng.random(500) < 0.5, 500
    rank = np.where(swapped[:, None], [2, 1, 3], [1, 2, 3]).reshape(-1)
    shown = ranking.RankingLog.from_arrays(
        offsets=np.arange(n + 1) * 3, rank=rank, click=rng.random(3 * n) < 0.5 / rank,
        query=np.repeat(np.arange(n // 5), 5), document=np.tile(["a", "b", "c"], n),
    )  # fmt: skip
    return ranking.estimate_propensities(shown, top=2)


def searched() -> ranking.RankerCV:
    grid = {"estimator": ["IPS", "CAB(M=5)"], "loss": [1.0, 10.0]}
    return ranking.RankerCV(grid=grid, metric="dcg@3").fit(clicked())


def population() -> datasets.Population:
    return make_population(
        0, actions=3, fewest=None, contexts=20, features=2, overlap=0.5, unsupported=0.0,
        model_error=0.5, propensity_error=0.0, reward="binary", noise=0.0,
    )  # fmt: skip


def _problem(kind: type[errors.OffpolicyError]) -> Callable[[], errors.OffpolicyError]:
    place = errors.Place("clicks.csv", "reward", 3, "line")
    return lambda: kind("it is missing.", place, np.array([3, 5]))


def _classifier() -> Any:
    from sklearn.linear_model import LogisticRegression

    _, X, y = classes()
    return LogisticRegression().fit(X, y)


def _models() -> dict[str, Callable[[], Any]]:
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.naive_bayes import GaussianNB

    def relevance() -> ranking.RelevanceModel:
        return ranking.RelevanceModel(GaussianNB(), steps=2).fit_clicks(clicked())

    return {
        "ScaledRidge": ScaledRidge,
        "RewardModel": lambda: op.RewardModel(Ridge()).fit(labelled()),
        "PropensityModel": lambda: op.PropensityModel(LogisticRegression()).fit(labelled()),
        "RelevanceModel": relevance,
    }


def _summary() -> Any:
    return result().summaries[0]


EXAMPLES: dict[str, Callable[[], Any]] = {
    # logs
    "BanditLog": log,
    "Columns": lambda: op.Columns(reward="bought"),
    "Buckets": lambda: op.logs.Buckets((1, 5)),
    "FoundArms": lambda: op.logs.FoundArms(("a", "b")),
    "Encoded": lambda: op.logs.Encoded(("a", "b"), np.array([0, 1, 1])),
    "Dropped": lambda: op.BanditLog.from_frame(table(), on_bad_row="drop").dropped,
    "RankingLog": clicked,
    "RankingColumns": lambda: ranking.RankingColumns(click="clicked"),
    "Queries": lambda: datasets.Queries(np.eye(2), np.ones(2), np.array([0, 2]), np.arange(1), 0),
    # policies
    "Uniform": op.Uniform,
    "Tabular": lambda: op.Tabular({"a": 0.9, "b": 0.1}),
    "Softmax": lambda: op.Softmax(first_feature),
    "EpsilonGreedy": lambda: op.EpsilonGreedy(first_feature),
    "Deterministic": lambda: op.Deterministic("a"),
    "Mixture": lambda: op.Mixture([op.Uniform(), "new"], [0.5, 0.5]),
    "Classifier": lambda: op.Classifier(_classifier()),
    "MonteCarlo": lambda: op.MonteCarlo(coin, draws=20),
    "Target": lambda: resolve(log(), "new"),
    "LinearSoftmax": lambda: fitted().policy_,
    "FeatureMap": lambda: fitted().policy_.map,
    "Dense": lambda: learned.Dense(np.eye(3), 2),
    "Ragged": lambda: learned.Ragged(np.array([0, 1, 3]), features=np.eye(3)),
    # estimators
    **{kind.__name__: kind for kind in op.estimators.NAMED.values()},
    "ICE": lambda: op.ICE(nothing, square_root, nothing),
    # answers
    "Result": result,
    "Estimate": lambda: result().estimates[0],
    "Headline": lambda: result().headline,
    "Tuned": lambda: result().tuned[0],
    "TrainedModel": lambda: op.TrainedModel(9, "ridge per action", 0.5, {"ridge per action": 0.5}),
    "Logged": lambda: result().logged,
    "Interval": lambda: intervals.Interval(0.1, 0.2),
    "Limits": lambda: intervals.betting.confidence_sequence(np.full(50, 0.5), 0.0, 1.0, 0.95),
    "Summary": _summary,
    "Weights": lambda: _summary().weights,
    "Support": lambda: _summary().support,
    "Action": lambda: _summary().support.actions[0],
    "Calibration": lambda: _summary().calibration,
    "OverLog": lambda: _summary().over_log,
    "Comparison": comparison,
    "Difference": lambda: comparison().differences[0],
    "Report": report,
    "Finding": lambda: report().findings[0],
    "Together": lambda: evaluate_and_check(log(), "new"),
    "Curve": curve,
    "RankingResult": lambda: ranking.evaluate(clicked(), clicked().X[:, 0]),
    "RankingCurve": lambda: ranking.sweep(clicked(), clicked().X[:, 0]),
    "Metric": lambda: as_metric("dcg@3"),
    "Place": lambda: errors.Place("clicks.csv", "reward", 3),
    # learners and models
    "SoftmaxLearner": fitted,
    "LearnerCV": lambda: learning.LearnerCV(learner(), {"l2": [1e-5, 1e-3]}).fit(labelled()),
    "LearnedPolicy": lambda: learning.learn(learner(), labelled()),
    "Constant": lambda: learning.learn(learner(), labelled()).constant,
    "FitReport": lambda: fitted().report_,
    "Trial": lambda: learning.Trial({"l2": 1e-3}, 0.5, 20),
    "Objective": lambda: objective(log(), "new", estimator="CIPS(M=2)"),
    "PropensitySVMRank": lambda: ranker()[0],
    "RankerCV": lambda: searched(),
    "LearnedRanker": lambda: ranker()[1],
    "Propensities": lambda: propensities(),
    "PositionBased": lambda: ranking.PositionBased(1.0),
    "DependentClicks": lambda: ranking.DependentClicks(),
    **_models(),
    # data sets
    "Examples": lambda: datasets.Examples(np.eye(2), np.array([0, 1])),
    "Population": population,
    "Truth": lambda: datasets.Truth.of(population(), seed=0),
    "TwoValued": lambda: population().rewards,
    # errors
    **{name: _problem(kind) for name, kind in public_classes().items()
       if issubclass(kind, errors.OffpolicyError) and kind is not LawBroken},
    "LawBroken": lambda: LawBroken("CAB breaks the law of scale."),
}  # fmt: skip
