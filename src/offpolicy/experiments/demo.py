"""The main job on data that ships with scikit-learn: two policies against their known truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.datasets import simulate_bandit
from offpolicy.evaluation import Curve, evaluate, sweep
from offpolicy.experiments.pictures import grid_of_axes
from offpolicy.experiments.saving import save
from offpolicy.logs import BanditLog
from offpolicy.report.matplotlib import save_figure
from offpolicy.results import Result

ESTIMATORS = ("DM", "IPS", "SNIPS", "DR", "SWITCH(M=10)", "CAB(M=10)", "CAB-DR(M=10)")


@dataclass(frozen=True)
class Demo:
    """A simulated log, what the estimators say of two policies on it, and the truth."""

    log: BanditLog
    result: Result
    truth: dict[str, float]
    curves: dict[str, Curve]

    def to_text(self) -> str:
        """The table: estimate, interval, truth."""
        logged = self.result.logged
        lines = [
            f"A logger ran on handwritten digits and was right {logged.value:.1%} of the time "
            f"({logged.n:,} decisions, 10 actions).",
            "How would two other policies have done? Neither ever ran.",
            "",
            f"{'policy':<8} {'estimator':<14} {'estimate':>8}   {'95% interval':<18} "
            f"{'truth':>6}  {'covered':<7}",
        ]
        for row in self.result:
            truth = self.truth[row.policy]
            low, high = row.interval
            lines.append(
                f"{row.policy:<8} {row.estimator:<14} {row.value:>8.4f}   "
                f"[{low:>7.4f}, {high:>7.4f}] {truth:>6.4f}  "
                f"{'yes' if truth in row.interval else 'no'}"
            )
        return "\n".join(lines)

    def picture(self, path: Path) -> None:
        """The curves of CAB over M, with the truth."""
        figure, [[ax]] = grid_of_axes(1, 1, (7.5, 4.5))
        for name, curve in self.curves.items():
            curve.plot(ax, label=f"{name}, CAB")
            colour = ax.lines[-1].get_color()
            ax.axhline(self.truth[name], color=colour, linestyle=":", linewidth=1.4)
        ax.plot([], [], color="black", linestyle=":", linewidth=1.4, label="truth")
        ax.set_xlim(0.02, 2.0 * max(curve.breakpoints[-1] for curve in self.curves.values()))
        ax.set_xlabel("M  (left: trust the model; right: trust the weights)")
        ax.set_title("Two policies that never ran, from one log", loc="left")
        ax.legend(frameon=False, loc="center left")
        save_figure(figure, path)


def run_demo(*, n: int = 5000, seed: int = 0) -> Demo:
    """Simulate a log from the digits and evaluate two policies on it."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :]

    logger = _soften(_logistic(X[train[:60]], y[train[:60]], X[test]), 0.15)
    model = _logistic(X[train[60:180]], y[train[60:180]], X[test])
    policies = {
        "large": _logistic(X[train], y[train], X[test]),
        "small": _logistic(X[train[180:260]], y[train[180:260]], X[test]),
    }
    truth = {name: float(pi[np.arange(len(test)), y[test]].mean()) for name, pi in policies.items()}
    log, rows = simulate_bandit(X[test], y[test], logger, n=n, rng=rng)
    result = evaluate(
        log,
        {name: pi[rows] for name, pi in policies.items()},
        prediction=model[rows],
        estimators=ESTIMATORS,
    )
    curves = {
        name: sweep(log, pi[rows], prediction=model[rows], estimator="CAB")
        for name, pi in policies.items()
    }
    return Demo(log, result, truth, curves)


def save_demo(demo: Demo, folder: Path) -> list[Path]:
    """Write the report, the result and, if matplotlib is there, the picture of the curves."""
    texts = {"report.html": demo.result.to_html(), "result.json": demo.result.to_json()}
    return save(folder, texts, {"curve.png": demo.picture})


def _logistic(X: Any, y: Any, at: Any) -> Floats:
    from sklearn.linear_model import LogisticRegression

    return np.asarray(LogisticRegression(C=1.0, max_iter=1000).fit(X, y).predict_proba(at))


def _soften(pi: Floats, mix: float) -> Floats:
    """A logger that explores: part model, part uniform."""
    return np.asarray((1.0 - mix) * pi + mix / pi.shape[1])
