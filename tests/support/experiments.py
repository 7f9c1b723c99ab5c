"""Made-up findings of the paper's experiments, to judge and to draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from offpolicy.experiments import curves, figure4
from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.claims import Claim
from offpolicy.experiments.curves import Curves, judged
from offpolicy.experiments.evaluation import accuracy as labelled
from offpolicy.experiments.learning.search import Learned, Searched, candidates
from offpolicy.experiments.learning.setup import ESTIMATORS, Condition
from offpolicy.experiments.pictures import OverM
from offpolicy.experiments.ranking import accuracy as rankings
from offpolicy.experiments.ranking import learning as rankers
from offpolicy.experiments.ranking import rank_sums
from offpolicy.experiments.ranking.learning import Ranked, Tried
from offpolicy.experiments.worlds import PAPER, World, certain

# -- curves ----------------------------------------------------------------------------------------

GRID = labelled.GRID
PLACE = np.arange(len(GRID.M))


def random_world(seed: int, m: int = 6, K: int = 3, unsupported: float = 0.2) -> World:
    rng = np.random.default_rng(seed)
    logging = rng.dirichlet(np.full(K, 0.5), m)
    gone = rng.random((m, K)) < unsupported
    gone[np.arange(m), logging.argmax(axis=1)] = False
    logging = np.where(gone, 0.0, logging)
    logging /= logging.sum(axis=1, keepdims=True)
    policy, one_hot = rng.dirichlet(np.full(K, 0.5), m), np.eye(K)
    prediction, label = rng.integers(0, K, m), rng.integers(0, K, m)
    return World(logging, policy, one_hot[label], one_hot[prediction], certain)


def flat(names: Sequence[str] = labelled.ESTIMATORS, **mse: float | np.ndarray) -> Accuracy:
    """Mean squared errors of 1, but for those given: all of it variance."""
    mse = {name.replace("_", "-"): value for name, value in mse.items()}
    variance = {
        name: np.broadcast_to(mse.get(name, 1.0), len(GRID.of(name))).astype(float).copy()
        for name in names
    }
    return Accuracy({name: np.zeros_like(v) for name, v in variance.items()}, variance, GRID.M)


def trading(low: float = 0.0) -> Accuracy:
    """As the paper has it: CAB's bias falls to ``low`` and its variance rises."""
    found = flat()
    found.bias["CAB"][:] = np.linspace(2.0, low, len(GRID.M))
    found.variance["CAB"][:] = np.linspace(0.1, 2.0, len(GRID.M))
    return found


def made_curves(*splits: Accuracy, data: str = "a", **others: Sequence[Accuracy]) -> Curves:
    """The same at every size of a labelled set, in the reading of the paper and in others."""

    def sized(one: Accuracy) -> dict[float, Accuracy]:
        return dict.fromkeys((200, 500, 2000), one)

    readings = {PAPER: splits} | others
    return Curves(
        data, {name: list(map(sized, some)) for name, some in readings.items()}, PAPER,
        sized(splits[0]), sized(splits[0]), 2000, OverM(GRID.M, (1.0, 100.0)),
    )  # fmt: skip


def ranked_curves(*splits: Accuracy, data: str = "ranks") -> Curves:
    """The same for rankings: the truth without chance is not known, and there is no DR."""
    kept = [
        Accuracy(*({name: part[name] for name in rankings.ESTIMATORS}
                   for part in (one.bias, one.variance)), one.M)
        for one in splits
    ]  # fmt: skip
    made = made_curves(*kept, data=data)
    by_sweeps = [dict.fromkeys(curves.SWEEPS, one[2000]) for one in made.readings[PAPER]]
    readings = {"average rank, logger of 1%": by_sweeps, "sum of ranks, logger of 1%": by_sweeps}
    return replace(made, readings=readings, closest="average rank, logger of 1%",
                   shown=by_sweeps[0], exact=None, size=0.5, is_ranking=True)  # fmt: skip


def verdict(claims: Sequence[Claim], text: str, *splits: Accuracy, start: float = 0.0) -> str:
    """That of the one claim which begins so; one set of curves is on three splits the same."""
    (claim,) = (one for one in claims if one.text.startswith(text))
    rows = judged([made_curves(*(splits if len(splits) > 1 else splits * 3))], [claim])
    return {row.M_from: row.judged.verdict for row in rows}[start]


def number(claims: Sequence[Claim], text: str, found: Accuracy) -> float:
    (claim,) = (claim for claim in claims if claim.text.startswith(text))
    return claim.measure(found)


def measured_logs(
    split: int, data: str = "a set", logger: float = 0.01, sweeps: float = 0.5, **mse: float
) -> rankings.Measured:
    """Of rankings; the errors with M and τ chosen are 1 but for those given."""
    grid = rank_sums.GRID
    names = rankings.ESTIMATORS
    bias = {name: np.linspace(1.0, 0.1, len(grid.of(name))) for name in names}
    variance = {name: np.linspace(0.1, 0.5, len(grid.of(name))) for name in names}
    around = [f"{name}{rankings.AGAIN}" for name in rankings.BLENDS]
    linear = [f"{name}{rankings.LINEAR}" for name in ("DM", "CIPS", *rankings.BLENDS)]
    both = [f"{name}{rankings.AGAIN}{rankings.LINEAR}" for name in rankings.BLENDS]
    each = {
        name: mse.get(name, 1.0) * (1 + 0.1 * split) for name in (*names, *around, *linear, *both)
    }
    held_out, chosen = ({metric: dict(each) for metric in rankings.METRICS} for _ in range(2))
    return rankings.Measured(
        rankings.Case(data, 1, logger, sweeps, split), dict.fromkeys(rankings.METRICS, 1.0),
        dict.fromkeys(rankings.METRICS, Accuracy(bias, variance, grid.M)), held_out, chosen,
        {metric: {} for metric in rankings.METRICS}, {"IPS": 0.9, rankings.HEADLINE: 1.0},
    )  # fmt: skip


# -- what is learned -------------------------------------------------------------------------------


def learned_runs(
    data: str, errors: dict[str, float], runs: int = 4, recipe: str = "text"
) -> list[Learned]:
    """Test errors on a labelled set, with a little noise."""
    noise = 0.0002 * np.random.default_rng(0).standard_normal((runs, len(errors)))
    return [
        Learned(Condition(data, run), recipe, 0.5,
                {name: float(x + noise[run, k]) for k, (name, x) in enumerate(errors.items())})
        for run in range(runs)
    ]  # fmt: skip


def figure_runs(
    slope: float, gap: float = 0.05, runs: int = 3, of_model: float = 0.0, of_logger: float = 0.0
) -> list[Learned]:
    """Test errors that change with the amount of data, as a power of it; of IPS, cIPS and DR they
    are higher by ``gap``. ``of_model``: the same power of the share that trains δ̂, of all but IPS
    and cIPS; ``of_logger`` of the logger's, of IPS and cIPS."""

    def error(one: Condition, k: int, name: str) -> float:
        log = slope * np.log(one.n / 500) + 0.001 * one.run * k - 1
        log += gap * (name in ("IPS", "CIPS", "DR"))
        weighs = name in ("IPS", "CIPS")
        log += of_logger * np.log(one.logger_share / 0.2) * weighs
        return float(np.exp(log + of_model * np.log(one.model_share / 0.1) * (not weighs)))

    return [
        Learned(one, "text", 0.5, {name: error(one, k, name) for k, name in enumerate(ESTIMATORS)})
        for one in figure4.conditions(runs)
    ]


def searched(cips, ips=None, error=None, **change) -> Searched:
    """All policies of a run, with these scores on the validation log, and their test errors."""
    n = len(candidates())
    error = np.arange(n) / n if error is None else error
    ips = np.zeros(n) if ips is None else ips
    made = Searched(Condition("letter", 0), change.pop("way"), 0.5, [1] * n, list(ips), list(cips),
                    [1.0] * n, list(error))  # fmt: skip
    return replace(made, **change)


def ranked_run(
    run: int, sweeps: float, lost: dict[str, float] | None = None, **change: float
) -> Ranked:
    """A run on rankings: of every estimator rank 12, less with more clicks, CAB half a rank ahead;
    of all judgements 11. There is a ranker that would be better by what is ``lost``, but it is not
    chosen."""
    lost, noise = lost or {}, 0.01 * run
    test = dict.fromkeys(rankers.ESTIMATORS, 12.0 - 0.1 * sweeps)
    test["CAB"] -= 0.5
    test |= {"full": 11.0} | change
    tried = {
        name: [Tried(name, 1.0, value, value + noise),
               Tried(name, 9.0, 99.0, value + noise - lost.get(name, -9.0))]
        for name, value in test.items()
    }  # fmt: skip
    ours = dict.fromkeys(rankers.OURS, 11.0)
    return Ranked(rankers.Condition("a set", 1, run, sweeps), 15.0, tried, ours)
