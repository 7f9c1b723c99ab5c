"""What the paper says of its ranking experiments, as sentences that can come out either way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.evaluation import claims
from offpolicy.experiments.evaluation.claims import Claim
from offpolicy.experiments.ranking.accuracy import (
    AGAIN,
    BLENDS,
    METRICS,
    Measured,
    averaged,
    geometric_mean,
    ratio,
)
from offpolicy.experiments.ranking.learning import ESTIMATORS, TABLE, Ranked
from offpolicy.experiments.verdicts import Verdict

CURVES = tuple(
    claim
    for claim in claims.CLAIMS
    if "DR" not in claim.text  # its third term needs to know what was examined
)
FROM = 1.0
"""M from here on: below, a click counts for less than itself."""
WELL_BELOW = 1.25
"""As a ratio of mean squared errors."""
NO_WORSE = 1.05


def where(data: str, logger: float) -> str:
    return f"{data}, logger of {logger:.0%}"


def grouped(found: Sequence[Measured]) -> dict[tuple[str, float], dict[float, list[Measured]]]:
    """By data set and logger, then by sweeps: the splits."""
    groups: dict[tuple[str, float], dict[float, list[Measured]]] = {}
    for one in found:
        key = (one.case.data, one.case.logger)
        groups.setdefault(key, {}).setdefault(one.case.sweeps, []).append(one)
    return groups


# -- curves --------------------------------------------------------------------------------------


def curve_claims(found: Sequence[Measured], metric: str = METRICS[0]) -> list[Verdict]:
    """Of Figures 1 and 2, on curves that are averaged over the splits; and in how many splits."""
    judged = []
    for (data, logger), by_sweeps in grouped(found).items():
        for claim in CURVES:
            asked = _asked(claim, by_sweeps)
            values = [claim.measure(averaged(parts, metric).above(FROM)) for parts in asked]
            splits = list(zip(*asked, strict=True))
            hits = sum(
                all(claim.holds(claim.measure(one.curves[metric].above(FROM))) for one in split)
                for split in splits
            )
            measured = f"{_short(max(values))} (up to {claim.limit:g}); in {hits} of {len(splits)}"
            judged.append(
                Verdict(claim.text, claim.holds(max(values)), measured, where(data, logger))
            )
    return judged


def _asked(claim: Claim, by_sweeps: dict[float, list[Measured]]) -> list[list[Measured]]:
    """Every size, or the smallest, which the paper's Figure 2 shows for rankings."""
    return list(by_sweeps.values()) if claim.every_n else [by_sweeps[min(by_sweeps)]]


def _short(value: float) -> str:
    return "∞" if np.isinf(value) else f"{value:.2g}" if value < 100.0 else f"{value:.0f}"


# -- parameters chosen ---------------------------------------------------------------------------

WAYS = {"held_out": "on other logs", "chosen": "from the log"}
"""How M and τ are chosen."""


def all_ratios(
    by_sweeps: dict[float, list[Measured]], kind: str, metric: str, one: str, other: str
) -> Floats:
    """MSE of one over the other's, in every split, as the geometric mean over sweeps."""
    logs = [np.log(ratio(parts, kind, metric, one, other)) for parts in by_sweeps.values()]
    return np.asarray(np.exp(np.mean(logs, axis=0)))


def choice_claims(found: Sequence[Measured], metric: str = METRICS[0]) -> list[Verdict]:
    """That CAB's error is well below those of DM, IPS and cIPS, and no more than 5% above those of
    SB and SWITCH: M and τ being chosen in each way."""
    judged = []
    for kind, how in WAYS.items():
        for (data, logger), by_sweeps in grouped(found).items():
            if not all(getattr(one, kind)[metric] for parts in by_sweeps.values() for one in parts):
                continue
            for others, limit, text in (
                (("DM", "IPS", "CIPS"), WELL_BELOW, "CAB's MSE is well below that of DM, IPS and "
                 f"cIPS (theirs / its, {WELL_BELOW:g} or more)"),
                (("SB", "SWITCH"), 1.0 / NO_WORSE,
                 "CAB's MSE is at most 5% above that of SB and SWITCH (theirs / its, .95 or more)"),
            ):  # fmt: skip
                means = {
                    name: geometric_mean(all_ratios(by_sweeps, kind, metric, name, "CAB"))
                    for name in others
                }
                judged.append(
                    Verdict(
                        f"{text}, chosen {how}",
                        all(mean >= limit for mean, _ in means.values()),
                        _ratios(means),
                        where(data, logger),
                    )
                )
        if kind == "chosen":
            judged += _recalibrated(found, metric)
    return judged


def _recalibrated(found: Sequence[Measured], metric: str) -> list[Verdict]:
    judged = []
    for (data, logger), by_sweeps in grouped(found).items():
        headline = f"CAB{AGAIN}"
        means = {
            name: geometric_mean(all_ratios(by_sweeps, "chosen", metric, name, headline))
            for name in [*BLENDS, *(f"{name}{AGAIN}" for name in BLENDS[:-1])]
        }
        judged.append(
            Verdict(
                "CAB around the recalibrated model, the default, is clearly ahead of SB, SWITCH "
                "and CAB (theirs / its, each two standard errors above 1), chosen from the log",
                all(mean > spread**2 for mean, spread in means.values()),
                _ratios(means),
                where(data, logger),
            )
        )
    return judged


def _ratios(means: dict[str, tuple[float, float]]) -> str:
    return ", ".join(
        f"{name.replace('CIPS', 'cIPS')} {mean:.2f} (×÷ {spread:.2f})"
        for name, (mean, spread) in means.items()
    )


# -- learning ------------------------------------------------------------------------------------


def learning_claims(found: Sequence[Ranked]) -> list[Verdict]:
    """Of the ranking column of Table 2, and of Figure 4 (2)."""
    judged = []
    for (data, relevant), own in _by_set(found).items():
        place = f"{data}, y ≥ {relevant}"
        table = [one for one in own if one.condition.sweeps == TABLE]
        if table:
            judged += _table_claims(table, place)
        sweeps = sorted({one.condition.sweeps for one in own})
        if len(sweeps) > 1:
            judged += _growth_claims(own, sweeps, place)
        judged.append(_stability(own, place))
    return judged


def _by_set(found: Sequence[Ranked]) -> dict[tuple[str, int], list[Ranked]]:
    groups: dict[tuple[str, int], list[Ranked]] = {}
    for one in found:
        groups.setdefault((one.condition.data, one.condition.relevant), []).append(one)
    return groups


def mean_rank(found: Sequence[Ranked], name: str) -> float:
    return float(np.mean([one.rank(name) for one in found]))


def behind(found: Sequence[Ranked], one: str, other: str) -> tuple[float, float]:
    """By how many ranks, run by run, and its standard error."""
    gap = np.array([run.rank(one) - run.rank(other) for run in found])
    spread = float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else float("inf")
    return float(gap.mean()), spread


def _table_claims(table: Sequence[Ranked], place: str) -> list[Verdict]:
    best = min(ESTIMATORS, key=lambda name: mean_rank(table, name))
    gap, spread = behind(table, "CAB", best)
    text = f"behind {best} by {gap:.3f} ± {spread:.3f}" if best != "CAB" else "the best"
    judged = [
        Verdict(
            "learned with CAB the rank is the best of the table, or within a standard error of it",
            gap <= spread,
            text,
            place,
        )
    ]
    gaps = {name: behind(table, "CAB", name) for name in ESTIMATORS if name != "CAB"}
    judged.append(
        Verdict(
            "CAB is ahead of every other estimator (ranks, its less theirs)",
            all(gap < 0.0 for gap, _ in gaps.values()),
            ", ".join(f"{name} {gap:+.2f} ± {se:.2f}" for name, (gap, se) in gaps.items()),
            place,
        )
    )
    return judged


def _growth_claims(own: Sequence[Ranked], sweeps: Sequence[float], place: str) -> list[Verdict]:
    at = {sweep: [one for one in own if one.condition.sweeps == sweep] for sweep in sweeps}

    def each(value: Callable[[str], float], names: Sequence[str]) -> dict[str, float]:
        return {name: value(name) for name in names}

    falls = each(
        lambda name: mean_rank(at[sweeps[-1]], name) - mean_rank(at[sweeps[0]], name), ESTIMATORS
    )
    first = each(lambda name: behind(at[sweeps[0]], "CAB", name)[0], ("IPS", "CIPS"))
    switch = {f"{sweep:g}": behind(at[sweep], "CAB", "SWITCH")[0] for sweep in sweeps}
    return [
        Verdict(
            f"the rank falls with data for all estimators (at {sweeps[-1]:g} less at "
            f"{sweeps[0]:g} sweeps)",
            all(value < 0.0 for value in falls.values()),
            _signed(falls),
            place,
        ),
        Verdict(
            f"at {sweeps[0]:g} sweeps CAB is ahead of IPS and cIPS (ranks, its less theirs)",
            all(value < 0.0 for value in first.values()),
            _signed(first),
            place,
        ),
        Verdict(
            "CAB is ahead of SWITCH at all sizes (ranks, its less SWITCH's, by sweeps)",
            all(value < 0.0 for value in switch.values()),
            _signed(switch),
            place,
        ),
    ]


def _signed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:+.2f}" for name, value in values.items())


def regret(found: Sequence[Ranked], estimator: str) -> Floats:
    """How many ranks the choice by validation clicks costs against the best in hindsight."""
    return np.array([one.chosen(estimator).test - one.best(estimator).test for one in found])


def _stability(own: Sequence[Ranked], place: str) -> Verdict:
    lost = {name: regret(own, name) for name in ("CAB", "SWITCH")}
    means = {name: float(values.mean()) for name, values in lost.items()}
    spreads = {name: float(values.std()) for name, values in lost.items()}
    return Verdict(
        "model selection is more stable for CAB than for SWITCH (ranks lost against the best in "
        "hindsight: mean, and spread over runs)",
        means["CAB"] < means["SWITCH"] and spreads["CAB"] < spreads["SWITCH"],
        ", ".join(f"{name} {means[name]:.2f}, {spreads[name]:.2f}" for name in lost),
        place,
    )
