"""The main job on data that ships with scikit-learn: two policies against their known truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from offpolicy._core.tables import aligned
from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import simulate_bandit
from offpolicy.evaluation import Curve, compare, evaluate, sweep
from offpolicy.experiments.pictures import grid_of_axes
from offpolicy.experiments.saving import Report
from offpolicy.logs import BanditLog
from offpolicy.report.document import Results
from offpolicy.report.matplotlib import save_figure
from offpolicy.results import Comparison, Estimate, Headline, Result

ESTIMATORS = ("DM", "IPS", "SNIPS", "DR", "SWITCH(M=10)", "CAB(M=10)", "CAB-DR(M=10)")


@dataclass(frozen=True)
class Demo:
    """A simulated log, what the estimators say of two policies on it, and the truth."""

    log: BanditLog
    result: Result
    comparison: Comparison
    truth: dict[str, float]
    curves: dict[str, Curve]

    def to_text(self) -> str:
        """The table: estimate, interval, truth; the answer first, and then what is compared."""
        logged, several = self.result.logged, [["policy", "estimator", "estimate",
            "95% interval", "truth", "covered"]]  # fmt: skip
        for answer in self.result.headlines:
            several.append(self._line(answer, "the answer"))
            rows = (row for row in self.result if row.policy == answer.policy)
            several += [self._line(row, row.estimator) for row in rows]
        return (
            f"A logger ran on handwritten digits and was right {logged.value:.1%} of the time "
            f"({logged.n:,} decisions, 10 actions).\n"
            "How often would two other policies have been right? Neither ever ran; this is what "
            "the log says,\nand, as the digits are labelled, the truth.\n\n"
            f"{aligned(several, left=(0, 1, 3, 5), ruled=False)}\n\n"
            "Compared on the same decisions (logged is what ran):\n"
            f"{self.comparison.sentence()}"
        )

    def _line(self, row: Headline | Estimate, estimator: str) -> list[str]:
        truth, (low, high) = self.truth[row.policy], row.interval
        covered = "yes" if truth in row.interval else "no"
        interval = f"[{low:>7.4f}, {high:>7.4f}]"
        return [row.policy, estimator, f"{row.value:.4f}", interval, f"{truth:.4f}", covered]

    def report(self) -> Report:
        """The table; the page, the result and the picture of the curves."""
        page = Results((self.result, self.comparison))
        files = {"report.html": page.to_html(), "result.json": self.result.to_json()}
        return Report(self.to_text(), files, {"curve.png": self.picture})

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
    """The demonstration: simulate a log from the digits and evaluate two policies on it."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :]

    def learned_from(rows: Ints) -> Floats:
        model = LogisticRegression(C=1.0, max_iter=1000).fit(X[rows], y[rows])
        return np.asarray(model.predict_proba(X[test]))

    explored = 0.15
    logger = (1.0 - explored) * learned_from(train[:60]) + explored / 10
    model = learned_from(train[60:180])
    policies = {"large": learned_from(train), "small": learned_from(train[180:260])}
    truth = {name: float(pi[np.arange(len(test)), y[test]].mean()) for name, pi in policies.items()}
    log, rows = simulate_bandit(X[test], y[test], logger, n=n, rng=rng)
    asked = {name: pi[rows] for name, pi in policies.items()}
    result = evaluate(log, asked, prediction=model[rows], estimators=ESTIMATORS)
    comparison = compare(log, asked, prediction=model[rows])
    curves = {
        name: sweep(log, pi[rows], prediction=model[rows], estimator="CAB")
        for name, pi in policies.items()
    }
    return Demo(log, result, comparison, truth, curves)
