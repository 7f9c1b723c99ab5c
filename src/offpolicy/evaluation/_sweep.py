"""`sweep`: an estimator's value and standard error as a function of its parameter.

Three ways to the same numbers. The *path* holds every M at once, exactly: a contribution is
piecewise linear in M (or, for SWITCH, piecewise constant), so one walk over the sorted weights
gives the mean and the variance between every two of them. The *grid* holds chosen values of M
as mergeable moments, in one pass over blocks of rows, and values of any other parameter. For SB
the curve in τ is a closed form.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, final

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core.buckets import bucket_table
from offpolicy._core.checkpoint import storable
from offpolicy._core.compiling import Worth
from offpolicy._core.door import Door
from offpolicy._core.moments import Moments, merged
from offpolicy._core.types import Floats, Ints
from offpolicy._core.validation import as_floats
from offpolicy.errors import EstimatorError, LogError, OffpolicyError, ParameterError
from offpolicy.estimators import NAMED, Estimator, as_estimator, choose_estimators, weights
from offpolicy.evaluation._evaluate import named_policies
from offpolicy.evidence import (
    Block,
    InMemory,
    Prepared,
    Question,
    Source,
    contributions,
    make_plans,
    prepare,
    refuse_no_overlap,
    whole_block,
)
from offpolicy.logs import BanditLog, Dropped, LogScan
from offpolicy.logs.files import Reading, as_log
from offpolicy.logs.labels import GROUPS
from offpolicy.results import ParameterCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CUT = (weights.clipped, weights.switched)
"""Weights that are piecewise linear in M, between the values of c."""
_ROWS_AT_ONCE = 1024
"""Decisions whose contributions on a grid are held at once: they should fit in the cache."""


def _longest_to_compile() -> Any:
    from offpolicy.evidence._candidate_kernels import grid_values

    return grid_values


GRID_WALK = Worth(_longest_to_compile, kept=200_000, fresh=2_000_000)
"""From so many candidates in a log on, its contributions on a grid are worth a compiled loop."""


def sweep(
    log: Any,
    policy: Any,
    *,
    prediction: Any = None,
    estimator: str | Estimator = "CAB",
    grid: ArrayLike | None = None,
    level: float = 0.95,
    resume: str | Path | None = None,
    **reading: Unpack[Reading],
) -> Curve:
    """The curve of an estimator over its parameter: M, τ, λ or α.

    Parameters
    ----------
    log, policy, prediction, level, reading
        As in `evaluate`, with a single policy.
    estimator : str or Estimator
        Any with a parameter, by its name: the curve goes over all its values.
    grid : increasing values of the parameter, optional
        Only these, in one pass over the log. Without it, every τ, in one pass, and for a log in
        memory every M: O(N log N) time and O(N) memory for N candidates. For other parameters,
        and for M of files that are read piece by piece, 64 values or so from one end to the
        other.
    resume : folder, optional
        As for `evaluate`; an exact curve cannot be resumed.

    Examples
    --------
    >>> log = BanditLog.from_arrays(
    ...     action=[0, 1, 0, 1], reward=[1, 0, 1, 1], logging=[[0.5, 0.5]] * 4
    ... )
    >>> curve = sweep(log, [[0.9, 0.1]] * 4, estimator="CIPS")
    >>> curve.breakpoints.tolist()
    [0.0, 0.2, 1.8]
    >>> round(float(curve.at(1.0)), 6)
    0.55
    """
    log = as_log(log, reading, sweep)
    member = as_estimator(estimator)
    name = member.name
    if member.resolved and member.parameter_name is not None:
        raise EstimatorError(
            f"{member} has a value of {member.parameter_name}, and the curve goes over all of "
            f"them: leave it out, {name}.",
            column="estimator",
        )
    if resume is not None and grid is None and _is_exact(log, member):
        raise ParameterError(
            f"The exact curve of {name} cannot be resumed; one with {Door.named('grid')} can.",
            column="resume",
        )
    named = named_policies(policy, "sweep")
    if len(named) > 1:
        raise ParameterError("sweep takes one policy.", column="policy")
    question = Question(
        log, named, prediction, level=level, estimators=[as_estimator(name)], resume=resume
    )
    prepared = prepare(question)

    def chosen() -> float:
        choice = make_plans(question, prepared)[0].tuned[0]  # the others are guards
        assert choice is not None
        return choice.chosen

    curve = _curve(prepared, name, grid, level)
    return replace(curve, dropped=prepared.source.dropped, chosen=_Found(chosen))


def _is_exact(log: BanditLog | LogScan, member: Estimator) -> bool:
    """Whether the curve is known at every value, not on a grid."""
    return member.imputes == "share" or (isinstance(log, BanditLog) and member.weight in _CUT)


def _curve(prepared: Prepared, name: str, grid: ArrayLike | None, level: float) -> Curve:
    source, have = prepared.source, prepared.sample[0].columns
    if as_estimator(name).parameter_name is None:
        swept = (other for other, kind in NAMED.items() if kind.parameter_name is not None)
        raise EstimatorError(
            f"{name} has no curve, as it has no parameter; these have: {', '.join(swept)}.",
            column="estimator",
        )
    (member,) = choose_estimators([as_estimator(name).at(0.0)], have)
    if grid is None and _is_exact(source.log, member):
        if isinstance(source, InMemory) and member.imputes != "share":
            return _sweep_path(source, member, level)
        return _sweep_share(source, member, level)
    values = np.sort(member.grid) if grid is None else _checked_grid(grid, member)
    moments, left, largest = grid_moments(source, member, values)
    refuse_no_overlap(largest, source.names[0])
    return Curve(
        estimator=member.name,
        parameter=str(member.parameter_name),
        breakpoints=values,
        values=moments.mean,
        variances=_finite_or_infinite(moments.covariance()),
        joints=None,
        level=level,
        imputed_mass=left / moments.weight if {"logging", "policy"} <= have else None,
        on_grid=True,
    )


class _Found:
    """What a search finds, begun when first asked; a copy knows what was found, not how."""

    def __init__(
        self, search: Callable[[], float] | None, found: float | OffpolicyError | None = None
    ) -> None:
        self.search, self.found = search, found

    def __call__(self) -> float:
        if self.found is None:
            assert self.search is not None
            try:
                self.found = self.search()
            except OffpolicyError as problem:
                self.found = problem
        if isinstance(self.found, OffpolicyError):
            raise self.found
        return self.found

    def __reduce__(self) -> tuple[Any, ...]:
        with contextlib.suppress(OffpolicyError):
            self()
        return _Found, (None, self.found)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Curve(ParameterCurve):
    """Value and standard error of an estimator for every value of its parameter.

    ``breakpoints`` are the values where the curve may bend (or, on a grid, the grid). Between two
    of them `at` and `stderr_at` are exact; on a grid they answer only on it.
    """

    estimator: str
    parameter: str
    breakpoints: Floats = field(repr=False)
    values: Floats = field(repr=False)
    variances: Floats = field(repr=False)
    joints: Floats | None = field(repr=False)
    """Covariance of the estimates at each breakpoint and the next: with it, `stderr_at` is exact
    between them. None: constant between breakpoints (SWITCH), or known on a grid only."""
    level: float
    imputed_mass: Floats | None = field(default=None, repr=False)
    on_grid: bool = False
    dropped: Dropped | None = None
    """Malformed rows that were left out; None if they are errors."""
    chosen: Callable[[], float] | None = field(default=None, repr=False)
    """Finds `best`."""

    @property
    def best(self) -> float:
        """The value of the parameter with the least estimated error, as `evaluate` chooses it
        where it is left out."""
        assert self.chosen is not None
        return self.chosen()

    def _each(self, parameter: ArrayLike) -> tuple[Floats, Floats]:
        j, share = self._locate(parameter)
        k = self._next(j)
        value = np.asarray(self.values[j] + share * (self.values[k] - self.values[j]))
        low, high = self.variances[j], self.variances[k]
        if self.joints is None:
            return value, np.asarray(np.sqrt(low))
        with np.errstate(over="ignore", invalid="ignore"):
            rest = 1.0 - share
            variance = rest * rest * low + share * (share * high + 2.0 * rest * self.joints[j])
            variance = np.where(share == 0.0, low, _finite_or_infinite(variance))
        return value, np.asarray(np.sqrt(np.maximum(variance, 0.0)))

    def _next(self, j: Any) -> Any:
        return np.minimum(j + 1, len(self.breakpoints) - 1)

    def _locate(self, parameter: ArrayLike) -> tuple[Any, Floats]:
        """The interval of each value, and how far into it the value lies."""
        x = as_floats(parameter, self.parameter, ParameterError).reshape(np.shape(parameter))
        top = as_estimator(self.estimator).parameter_limit
        if not ((x >= 0.0) & (x <= top)).all():
            raise ParameterError(
                f"{self.parameter} must be from 0 to {top:g}; found {x}.", column=self.parameter
            )
        if self.on_grid and not np.isin(x, self.breakpoints).all():
            raise ParameterError(
                f"This curve is known on its grid only ({len(self.breakpoints)} values of "
                f"{self.parameter}, in breakpoints). Without grid= it is known everywhere.",
                column="grid",
            )
        j = np.searchsorted(self.breakpoints, x, side="right") - 1
        if self.joints is None:
            return j, np.zeros_like(x)
        start, stop = self.breakpoints[j], self.breakpoints[self._next(j)]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(stop > start, (x - start) / (stop - start), 0.0)
        return j, share

    def plot(self, ax: Axes | None = None, *, label: str | None = None) -> Axes:
        """Draw the curve and its interval (needs matplotlib: ``pip install offpolicy[plot]``)."""
        from offpolicy.report.matplotlib import plot_curve

        return plot_curve(self, ax, label=label)


def _checked_grid(grid: ArrayLike, member: Estimator) -> Floats:
    values = np.array(as_floats(grid, "grid", ParameterError))
    some, top = values.ndim == 1 and len(values) > 0, member.parameter_limit
    if not some or not 0.0 <= values[0] <= values[-1] <= top or not (np.diff(values) > 0.0).all():
        span = "0 or more" if math.isinf(top) else f"from 0 to {top:g}"
        raise ParameterError(
            f"grid must hold at least one value of {member.parameter_name}, {span}, in increasing "
            f"order, without repeats.",
            column="grid",
        )
    return values


def _terms(block: Block, member: Estimator) -> tuple[Floats, Floats]:
    """What `sweep` needs of decisions, base and residual: they contribute base + f(c, M)·residual,
    plus, for a blend, Σ share(M)·δ̂."""
    if member.imputes != "all":
        return np.zeros(len(block.log)), block.log.reward
    (part,) = contributions(block, [member])
    return part.modelled, block.log.reward - block.delta_hat_chosen


# -- grid ------------------------------------------------------------------------------------


@storable
class GridMoments(NamedTuple):
    """Mergeable moments of the contributions at every M of a grid."""

    moments: Moments
    left: Floats
    """Σω·(imputed mass)."""
    largest: float
    """The largest c."""

    def __add__(self, other: GridMoments) -> GridMoments:  # type: ignore[override]
        largest = max(self.largest, other.largest)
        return GridMoments(self.moments + other.moments, self.left + other.left, largest)


def grid_moments(
    source: Source, member: Estimator, grid: Floats, *, joint: bool = False
) -> GridMoments:
    """What `sweep` knows on a grid of G values of a parameter: O(K + G) work a decision of K
    candidates; ``joint`` asks for covariances between them, too."""

    def of_block(made: list[Block]) -> GridMoments:
        (block,) = made
        large = member.weight in _CUT and not joint and GRID_WALK.compiling(block.size)
        moments, left = (
            _grid_compiled(block, member, grid) if large else _grid_each(block, member, grid, joint)
        )
        return GridMoments(moments, left, float(block.c.max()))

    return source.reduce(of_block, GridMoments.__add__, question=("grid", member, grid, joint))


def _grid_compiled(block: Block, member: Estimator, grid: Floats) -> tuple[Moments, Floats]:
    """Moments of a block's contributions on a grid, and Σω·(imputed mass)."""
    from offpolicy._core.kernels import read_only
    from offpolicy.evidence._candidate_kernels import grid_moments, grid_values

    log, pi, G = block.log, block.target.flat, len(grid)
    # What is left of c where it is clipped; at M = ∞ that is only where π₀ = 0.
    ceiling = np.where((member.weight is weights.switched) | np.isinf(grid), 0.0, grid)
    delta_hat = block.delta_hat if member.imputes == "rest" else None
    candidates = read_only(pi, None if pi is None else log.logging, delta_hat)
    base, residual = _terms(block, member)
    left, table, parts = np.zeros(G), bucket_table(grid), []
    for start in range(0, len(log), _ROWS_AT_ONCE):
        rows = slice(start, min(start + _ROWS_AT_ONCE, len(log)))
        offsets = log.offsets[start : rows.stop + 1]
        omega = None if log.row_weight is None else log.row_weight[rows]
        values = np.empty((rows.stop - start, G))
        each = read_only(block.c[rows], base[rows], residual[rows], omega)
        grid_values(offsets, *candidates, grid, ceiling, table, *each, values, left)
        if log.group is not None:
            parts.append(_moments(values.T, log.rows(start, rows.stop)))
            continue
        sums = np.zeros((5, G))
        sums[3], sums[4] = np.inf, -np.inf
        grid_moments(values, each[-1], *sums)
        weight = float(len(values) if omega is None else omega.sum())
        weight2 = float(len(values) if omega is None else (omega * omega).sum())
        parts.append(Moments(len(values), weight, weight2, *sums))
    return merged(parts), left


def _grid_each(
    block: Block, member: Estimator, grid: Floats, joint: bool
) -> tuple[Moments, Floats]:
    values, left = np.empty((len(grid), len(block.log))), np.empty(len(grid))
    for m, parameter in enumerate(grid.tolist()):
        (part,) = contributions(block, [member.at(parameter)])
        values[m] = part.value
        left[m] = float(np.sum(block.log.weights * part.imputed_mass))
    return _moments(values, block.log, joint), left


def _moments(values: Floats, log: BanditLog, joint: bool = False) -> Moments:
    return Moments.of(values, log.row_weight, log.group, groups=GROUPS, diagonal=not joint)


# -- path ------------------------------------------------------------------------------------


def _events(block: Block, member: Estimator, base: Floats) -> tuple[Ints, Floats]:
    """Events of the exact path of `sweep`, their order and records: all candidates for a blend
    (``base`` gets those without support), else the chosen ones."""
    if member.imputes == "rest":
        return _events_of_candidates(block, base)
    rows = np.flatnonzero(block.c > 0.0)
    c, records = block.c[rows], np.zeros((len(rows), 4))
    records[:, 0], records[:, 3] = c, -1.0 - rows
    return np.argsort(c), records


def _events_of_candidates(block: Block, base: Floats) -> tuple[Ints, Floats]:
    """Events of the exact path of `sweep`, sorted by c: into buckets, then within them."""
    from offpolicy._core.kernels import read_only
    from offpolicy.evaluation import _path_kernels as kernels

    log, pi, delta_hat = block.log, block.target.flat, block.delta_hat
    assert pi is not None
    assert delta_hat is not None
    counts = np.zeros(kernels.EVENT_KEYS, dtype=np.int64)
    given = read_only(pi, log.logging)
    kernels.count_events(*given, counts)
    stop = np.cumsum(counts)
    start = stop - counts
    filled = np.flatnonzero(counts)
    bounds = np.append(start[filled], stop[-1])
    total = int(stop[-1])
    c, records = np.empty(total), np.empty((total, 4))
    places, model = read_only(log.offsets, log.chosen_index), read_only(delta_hat)
    kernels.place_events(*places, *given, *model, start, c, records, base)
    order = np.empty(total, dtype=np.int64)

    def sort(buckets: Any) -> None:
        for k in buckets:
            part = slice(bounds[k], bounds[k + 1])
            np.add(np.argsort(c[part]), bounds[k], out=order[part])

    half = int(np.searchsorted(bounds, total // 2))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(sort, (range(half), range(half, len(filled)))))
    return order, records


def _sweep_path(source: InMemory, member: Estimator, level: float) -> Curve:
    from offpolicy._core.kernels import read_only
    from offpolicy.evaluation import _path_kernels as kernels

    log = source.log
    if log.cluster is not None:
        raise LogError(
            f"The curve over every M at once has no clustered standard errors. To get them, give "
            f"{Door.spelled('grid')}{Door.in_python('offpolicy.estimators.GRID')}.",
            column="cluster",
        )
    whole = whole_block(log, source.targets[0], source.delta_hat)
    whole.check_whole()
    refuse_no_overlap(float(whole.c.max()), source.names[0])
    base, residual = _terms(whole, member)
    order, records = _events(whole, member, base)
    n = len(log)
    weight = float(n if log.row_weight is None else log.row_weight.sum())
    path = np.empty((4, len(order) + 128))
    count = kernels.walk_path(
        order,
        records,
        member.weight is weights.switched,
        *read_only(whole.c, base, residual, log.row_weight),
        n / (n - 1) / weight / weight if n > 1 else math.inf,
        *path,
    )
    breakpoints, values, variances, joints = path[:, path.shape[1] - count :]
    return Curve(
        estimator=member.name,
        parameter="M",
        breakpoints=breakpoints,
        values=values,
        variances=variances,
        joints=None if member.weight is weights.switched else joints,
        level=level,
    )


def _finite_or_infinite(variance: Floats) -> Floats:
    """A variance on a curve of `sweep`: infinite where squares overflowed or there is one row."""
    return np.where(np.isnan(variance), np.inf, variance)


# -- tau -------------------------------------------------------------------------------------


def _sweep_share(source: Source, member: Estimator, level: float) -> Curve:
    """`sweep` of SB, (1 − τ)·DM + τ·IPS: the mean is linear in τ, the variance quadratic."""
    ends = np.array([0.0, 1.0])
    moments, _, largest = grid_moments(source, member, ends, joint=True)
    refuse_no_overlap(largest, source.names[0])
    covariance = _finite_or_infinite(moments.covariance())
    return Curve(
        estimator=member.name,
        parameter=str(member.parameter_name),
        breakpoints=ends,
        values=moments.mean,
        variances=np.diag(covariance).copy(),
        joints=covariance[:, 1].copy(),
        level=level,
    )
