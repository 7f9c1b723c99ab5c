"""The main job on an e-mail test: two policies that never ran, against their known truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from offpolicy._core.tables import aligned
from offpolicy._core.types import Floats, Ints
from offpolicy.evaluation import Curve, compare, evaluate, sweep
from offpolicy.experiments.pictures import grid_of_axes
from offpolicy.experiments.saving import Report
from offpolicy.logs import BanditLog
from offpolicy.report.document import Results
from offpolicy.report.matplotlib import save_figure
from offpolicy.results import Comparison, Estimate, Headline, Result

EMAILS = ("mens", "womens", "none")
CUSTOMER = ("months", "spent", "bought_mens", "bought_womens")
ESTIMATORS = ("DM", "IPS", "SNIPS", "DR", "CAB(M=2)", "CAB-DR(M=2)")


@dataclass(frozen=True)
class Demo:
    """A simulated log, what the estimators say of two policies on it, and the truth."""

    log: BanditLog
    chosen: Mapping[str, Ints]
    """The e-mail that each policy would send to each customer."""
    result: Result
    comparison: Comparison
    truth: dict[str, float]
    curves: dict[str, Curve]

    def to_text(self) -> str:
        """The answer in words beside the truth; the log, and what the estimators say."""
        several = [["policy", "estimator", "estimate", "95% interval", "truth", "covered"]]
        for answer in self.result.headlines:
            several.append(self._line(answer, "the answer"))
            rows = (row for row in self.result if row.policy == answer.policy)
            several += [self._line(row, row.estimator) for row in rows]
        first, logged = self.result.headline, self.result.logged.value
        low, high = first.interval
        return (
            f"A shop sent {len(self.log):,} customers one of two e-mails, or none, at random; "
            f"{logged:.1%} then visited it.\nHad all got the e-mail for what they last bought, "
            f"{first.value:.1%} would have, says the log\n(95% interval {low:.1%} to {high:.1%}). "
            f"The truth, known because the log is simulated, is {self.truth[first.policy]:.1%}.\n\n"
            f"The log, and what two policies that never ran would have sent:\n"
            f"{aligned([line.split(',') for line in self._lines()[:4]], ruled=False)}\n\n"
            f"{self.result.sentence()}\n\n"
            f"{aligned(several, left=(0, 1, 3, 5), ruled=False)}\n\n"
            f"Compared on the same decisions (logged is what ran):\n"
            f"{self.comparison.sentence()}"
        )

    def _line(self, row: Headline | Estimate, estimator: str) -> list[str]:
        truth, (low, high) = self.truth[row.policy], row.interval
        covered = "yes" if truth in row.interval else "no"
        interval = f"[{low:>7.4f}, {high:>7.4f}]"
        return [row.policy, estimator, f"{row.value:.4f}", interval, f"{truth:.4f}", covered]

    def _lines(self) -> list[str]:
        """The log as CSV, with the e-mail that each policy would send."""
        log, names = self.log, np.array(EMAILS)
        assert log.context is not None
        columns = [
            *(column.astype(int).astype(str) for column in log.context.T),
            names[log.chosen], log.reward.astype(int).astype(str),
            *(names[chosen] for chosen in self.chosen.values()),
        ]  # fmt: skip
        head = [*CUSTOMER, "email", "visit", *self.chosen]
        return [",".join(row) for row in (head, *zip(*columns, strict=True))]

    def report(self) -> Report:
        """The text; the log, the page, the result and the picture of the curves."""
        page = Results((self.result, self.comparison))
        files = {
            "emails.csv": "\n".join(self._lines()) + "\n",
            "report.html": page.to_html(),
            "result.json": self.result.to_json(),
        }
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


def run_demo(*, n: int = 20_000, seed: int = 0) -> Demo:
    """The demonstration: simulate an e-mail test and evaluate two policies on it."""
    rng = np.random.default_rng(seed)
    customers, visits = _customers(n, rng)
    email = rng.integers(0, len(EMAILS), n)
    visit = rng.random(n) < visits[np.arange(n), email]
    chosen = {"targeted": _targeted(customers), "mens_to_all": np.zeros(n, dtype=np.int64)}
    log = BanditLog.from_arrays(
        action=email, reward=visit, logging=np.full((n, 3), 1.0 / 3.0), context=customers,
        source="emails",
    )  # fmt: skip
    asked = {name: np.eye(len(EMAILS))[emails] for name, emails in chosen.items()}
    everyone, rates = _customers(1_000_000, np.random.default_rng([seed, 1]))
    truth = {
        "targeted": float(rates[np.arange(len(rates)), _targeted(everyone)].mean()),
        "mens_to_all": float(rates[:, 0].mean()),
    }
    return Demo(
        log,
        chosen,
        evaluate(log, asked, estimators=ESTIMATORS),
        compare(log, asked),
        truth,
        {name: sweep(log, pi, estimator="CAB") for name, pi in asked.items()},
    )


def _customers(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Customers, as `CUSTOMER` names their numbers, and how likely each of `EMAILS` makes them
    visit."""
    months = rng.integers(1, 13, n)
    spent = np.round(rng.gamma(1.5, 150.0, n))
    mens = rng.random(n) < 0.55
    womens = ~mens | (rng.random(n) < 0.1)
    keen = 0.10 + 0.10 * (months < 5) + 0.05 * (spent > 300.0)
    lift = np.stack([0.03 + 0.07 * mens, 0.01 + 0.09 * womens, np.zeros(n)], axis=1)
    customers = np.stack([months, spent, mens, womens], axis=1).astype(float)
    return customers, keen[:, None] + lift


def _targeted(customers: Floats) -> Ints:
    """The e-mail for what each customer last bought, as the position among `EMAILS`."""
    return np.asarray(np.where(customers[:, 3] > 0.0, 1, 0))
