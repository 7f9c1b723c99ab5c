"""Pictures of the estimators: what a reward counts for by its weight, and what that does to errors.

    python scripts/estimator_pictures.py [--out docs/img/estimators]

Left: what multiplies an observed reward, over its weight c = π/π₀. Below the dotted line, where the
reward would count in full, somebody else answers for the difference. Right: exact bias and root
mean squared error on one fixed problem (`PROBLEM`), by Theorems 1 and 2; those of the
self-normalised members, for which there is no theorem, by simulation. Equal versions of matplotlib
draw equal files.
"""

from __future__ import annotations

import argparse
import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import offpolicy as op
from offpolicy._core.files import write_whole
from offpolicy.estimators.theory import Problem
from offpolicy.experiments.pictures import STYLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLACE = Path(__file__).parent.parent / "docs" / "img" / "estimators"
PROBLEM = op.testing.random_problem(
    np.random.default_rng(31), contexts=6, actions=5, concentration=1.0, model_error=0.3
)
"""Six contexts, five actions, weights up to 151; value 0.597, of which the model makes 0.705."""
N = 1000
SIZES = np.round(np.geomspace(30, 100_000, 36)).astype(int)
REPEATS = 4000
C = np.sort(
    np.r_[np.geomspace(0.1, 100.0, 61), op.CAB.typical, np.nextafter(op.CAB.typical, np.inf)]
)
"""Weights on the left, with both sides of every jump."""
OVER = {
    "M": np.geomspace(0.1, 1000.0, 81),
    "tau": np.linspace(0.0, 1.0, 41),
    "DRos": np.geomspace(0.01, 1e6, 81),
    "lam": np.geomspace(1e-4, 1.0, 81),
}
SYMBOL = {"M": "M", "tau": "τ", "lam": "λ", "alpha": "α"}
GREY, OTHER = "#555555", "#44AA99"
COLOURS = {name: colour for name, (colour, _, _) in STYLES.items()} | {
    "DM": GREY, "IPS": GREY, "SNIPS": GREY, "DR": GREY, "SNDR": GREY,
    "SWITCH-DR": STYLES["SWITCH"][0], "DRos": "#332288", "SGIPS": "#D55E00", "SGDR": "#D55E00",
}  # fmt: skip


def over(kind: type[op.Estimator]) -> np.ndarray:
    """Values on the right; DRos has its λ on another scale than the others."""
    name = kind.name if kind.name in OVER else str(kind.parameter_name)
    return OVER[name] if name in OVER else np.linspace(0.0, kind.parameter_limit, 41)


def member_of(kind: type[op.Estimator], value: float) -> op.Estimator:
    return kind(**{str(kind.parameter_name): value})


def rewards_of(problem: Problem) -> np.ndarray:
    """δ ± σ, with probability ½ each, as in `testing.sample_log`: (contexts, actions, 2)."""
    return problem.delta[..., None] + np.sqrt(problem.sigma2)[..., None] * np.array([-1.0, 1.0])


def self_normalised(kind: type[op.Estimator], problem: Problem, counts: np.ndarray) -> np.ndarray:
    """The estimates from logs of which it is known how often each reward of each pair occurs."""
    model = np.zeros_like(problem.delta) if kind is op.SNIPS else problem.delta_hat
    weighted = counts * (problem.pi / problem.pi0)[..., None]
    ratio = (weighted * (rewards_of(problem) - model[..., None])).sum(axis=(1, 2, 3))
    contexts = counts.sum(axis=(2, 3))
    modelled = contexts @ (problem.pi * model).sum(axis=1) / contexts.sum(axis=1)
    return modelled + ratio / weighted.sum(axis=(1, 2, 3))


def self_normalised_errors(
    kind: type[op.Estimator], problem: Problem, n: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Bias and root mean squared error over `REPEATS` logs."""
    chance = (problem.p[:, None] * problem.pi0)[..., None] * np.array([0.5, 0.5])
    counts = rng.multinomial(n, chance.ravel(), size=REPEATS).reshape(-1, *chance.shape)
    error = self_normalised(kind, problem, counts) - problem.value
    return float(error.mean()), float(np.sqrt(np.square(error).mean()))


def draw_weights(ax: Axes, kind: type[op.Estimator]) -> None:
    """What a reward counts for, by its weight."""
    ax.plot(C, C, ":", color="#888888", lw=1.2)
    if kind.parameter_name is None:
        members = [kind()]
    else:
        members = [member_of(kind, value) for value in kind.typical]
    middle = members[len(members) // 2]
    colour = COLOURS.get(kind.name, OTHER)
    for member in members:
        # Of π = 0.1, or, where it jumps, with c to the last digit.
        pi, pi0 = (
            (np.full_like(C, 0.1), 0.1 / C) if kind.subdifferentiable else (C / 1024, 1 / 1024)
        )
        observed = member.observed(pi, np.broadcast_to(pi0, C.shape))
        main = member is middle
        ax.plot(C, floored(observed), color=colour, lw=2.6 if main else 1.2,
                alpha=1.0 if main else 0.55, zorder=3 if main else 2, clip_on=not main)  # fmt: skip
        if main:
            below, above = np.minimum(observed, C), np.maximum(observed, C)
            answers = "counts as 0" if kind.imputes == "nothing" else "the model answers"
            if (below < C * (1 - 1e-9)).any():
                ax.fill_between(C, floored(below), C, color=colour, alpha=0.16, lw=0, label=answers)
            if (above > C * (1 + 1e-9)).any():
                ax.fill_between(C, C, above, facecolor="none", edgecolor=colour, alpha=0.5, lw=0,
                                hatch="////", label="counts too much")  # fmt: skip
        if kind.parameter_name:
            label_line(ax, kind, member, observed)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(C[0], C[-1])
    ax.set_ylim(C[0], C[-1])
    ticks = [0.1, 1, 10, 100]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    divided = ", then divided by the mean of c" if kind.self_normalised else ""
    ax.set_xlabel(f"weight c = π/π₀{divided}")
    ax.set_title("what a reward counts for", loc="left", fontsize=10)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=9, loc="upper left")


def floored(values: np.ndarray) -> np.ndarray:
    """0 has no place on a logarithmic axis; it is drawn as its lower end."""
    return np.maximum(values, C[0])


def label_line(
    ax: Axes, kind: type[op.Estimator], member: op.Estimator, observed: np.ndarray
) -> None:
    """The parameter, at the right end of its line; under its peak, if it falls before."""
    text = f"{SYMBOL[str(kind.parameter_name)]} = {member.parameter:g}"
    peak = int(observed.argmax())
    if np.isclose(observed[-1], observed[peak]):
        x, y, place = 1.06 * C[-1], observed[-1], {"ha": "left", "va": "center"}
    elif kind.subdifferentiable:
        x, y, place = C[peak], 0.8 * observed[peak], {"ha": "center", "va": "top"}
    else:
        x, y, place = 1.1 * C[peak], 0.75 * observed[peak], {"ha": "left", "va": "center"}
    ax.text(x, y, text, fontsize=8.5, color=COLOURS.get(kind.name, OTHER), clip_on=False, **place)


def draw_errors(ax: Axes, kind: type[op.Estimator]) -> None:
    """Bias and error on `PROBLEM`: over the parameter, or over n where there is none."""
    colour = COLOURS.get(kind.name, OTHER)
    if kind.parameter_name is None:
        x = SIZES
        bias, rmse = errors_over_n(kind)
        ax.set_xscale("log")
        simulated = f" ({REPEATS:,} simulated logs each)" if kind.self_normalised else ""
        ax.set_xlabel(f"n, decisions logged{simulated}")
        ax.set_ylim(0.0, 0.3)
    else:
        x = over(kind)
        members = [member_of(kind, value) for value in x]
        bias = np.array([op.theory.bias(member, PROBLEM) for member in members])
        rmse = np.sqrt([op.theory.mse(member, PROBLEM, N) for member in members])
        if x[0] > 0.0:
            ax.set_xscale("log")
        ax.set_xlabel(f"{SYMBOL[kind.parameter_name]}  (n = {N:,})")
        ax.set_ylim(0.0, 0.2)
        ax.set_yticks(np.linspace(0.0, 0.2, 5))
        for other in ("DM", "IPS") if kind.imputes != "all" else (
            "DM", "DR",
        ):  # fmt: skip
            _, style, width = STYLES[other]
            level = op.theory.mse(op.parse(other), PROBLEM, N) ** 0.5
            ax.axhline(level, linestyle=style, color="#999999", lw=width)
            ax.text(1.01, level, other, transform=ax.get_yaxis_transform(), fontsize=8.5,
                    color="#777777", va="center")  # fmt: skip
    ax.plot(x, rmse, color=colour, lw=2.4, label="root mean squared error")
    ax.plot(x, np.abs(bias), "--", color=colour, lw=1.6, label="|bias|")
    ax.set_xlim(x[0], x[-1])
    ax.set_title("what that does to the estimate", loc="left", fontsize=10)
    ax.legend(
        frameon=False, fontsize=9, loc="upper right" if kind.parameter_name is None else "best"
    )
    ax.grid(axis="y", alpha=0.25, linewidth=0.6)


def errors_over_n(kind: type[op.Estimator]) -> tuple[np.ndarray, np.ndarray]:
    if kind.self_normalised:
        rng = np.random.default_rng(0)
        found = [self_normalised_errors(kind, PROBLEM, int(n), rng) for n in SIZES]
        return np.array(found)[:, 0], np.array(found)[:, 1]
    bias = np.full(len(SIZES), op.theory.bias(kind(), PROBLEM))
    return bias, np.sqrt([op.theory.mse(kind(), PROBLEM, int(n)) for n in SIZES])


def draw(kind: type[op.Estimator], path: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    settings = {"svg.fonttype": "none", "svg.hashsalt": "offpolicy", "font.size": 9.5}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(8.6, 3.1), layout="constrained", facecolor="white")
        left, right = figure.subplots(1, 2, width_ratios=[1.0, 1.25])
        draw_weights(left, kind)
        draw_errors(right, kind)
        for ax in (left, right):
            for side in ("top", "right"):
                ax.spines[side].set_visible(False)
            ax.minorticks_off()
        content = BytesIO()
        figure.savefig(content, format="svg", metadata={"Date": None})
    hundredths = re.sub(rb"(\d\.\d\d)\d\d+", rb"\1", content.getvalue())  # half the size
    write_whole(path, hundredths)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=PLACE)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for name, kind in op.estimators.NAMED.items():
        draw(kind, out / f"{name.lower()}.svg")


if __name__ == "__main__":
    main()
