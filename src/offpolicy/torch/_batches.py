"""Logged decisions as tensors: a whole log, or a mini-batch of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, fields
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from offpolicy._core import validation as check
from offpolicy._core.ragged import decision_of_candidate
from offpolicy.errors import ParameterError, Place
from offpolicy.logs import BanditLog
from offpolicy.policies import need_log, resolve_prediction

_PER_DECISION = ("chosen", "reward", "propensity", "row_weight")
_PER_CANDIDATE = ("logging", "prediction", "mask")
_IN_FULL = ("reward", "propensity", "row_weight")
"""In double precision: a propensity of 1e-50 is not 0, and these are few."""


def in_full(device: torch.device) -> torch.dtype:
    """Double precision, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


@final
@dataclass(frozen=True, eq=False)
class Batch:
    """What an estimator needs of n decisions, in one of two layouts.

    *Dense*: every decision has K candidates, arrays of candidates are (n, K), and ``mask`` says
    which of them are there. *Ragged*: ``offsets`` is given, as in `BanditLog`, and arrays of
    candidates are flat, (N,). Make one with `Batch.of`; those made by hand are checked.

    Attributes
    ----------
    chosen : int64[n]
        Position of the chosen candidate inside its decision.
    reward : float64[n]
    propensity : float64[n] or None
        π₀ of the chosen candidate. Only DM works without.
    logging, prediction : per candidate, or None
        π₀ and δ̂.
    offsets : int64[n + 1] or None
    row_weight : float64[n] or None
    mask : bool[n, K] or None
        False where there is no such candidate. Its logit then does not matter.
    """

    chosen: Tensor
    reward: Tensor
    propensity: Tensor | None = None
    logging: Tensor | None = None
    prediction: Tensor | None = None
    offsets: Tensor | None = None
    row_weight: Tensor | None = None
    mask: Tensor | None = None
    trusted: InitVar[bool] = False

    def __post_init__(self, trusted: bool) -> None:
        if not trusted:
            _check(self)

    @classmethod
    def of(
        cls,
        log: BanditLog,
        prediction: Any = None,
        *,
        by_action: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> Batch:
        """The whole log.

        Parameters
        ----------
        log : BanditLog
        prediction : optional
            A reward model, as in `evaluate`.
        by_action : bool
            Lay out a log whose candidates differ as (n, K), K being the number of its actions,
            with a mask: for modules that have one output per action.
        device, dtype : optional
            ``dtype`` is that of arrays of candidates, float32 unless told; what there is one of
            per decision is float64.

        Examples
        --------
        >>> log = BanditLog.from_arrays(action=[0, 1], reward=[1, 0], logging=[[0.5, 0.5]] * 2)
        >>> Batch.of(log).logging.shape
        torch.Size([2, 2])
        """
        need_log(log)
        log.need_candidates("A loss")
        delta_hat = resolve_prediction(log, prediction, checked=True)
        chosen, offsets, mask = log.chosen, None, None
        candidates = {"logging": log.logging, "prediction": delta_hat}
        if log.candidate is None and log.has_equal_lengths:
            shape = len(log), -1
            candidates = {k: None if x is None else x.reshape(shape) for k, x in candidates.items()}
        elif by_action:
            chosen, mask, candidates = _by_action(log, candidates)
        else:
            offsets = log.offsets
        place = torch.device("cpu" if device is None else device)
        single = torch.float32 if dtype is None else dtype
        full = in_full(place)

        def put(values: Any, kind: torch.dtype) -> Tensor | None:
            return None if values is None else torch.tensor(values, dtype=kind, device=place)

        return cls(
            chosen=put(chosen, torch.int64),
            reward=put(log.reward, full),
            propensity=put(log.propensity, full),
            logging=put(candidates["logging"], single),
            prediction=put(candidates["prediction"], single),
            offsets=put(offsets, torch.int64),
            row_weight=put(log.row_weight, full),
            mask=put(mask, torch.bool),
            trusted=True,
        )

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, rows: Any) -> Batch:
        """These decisions: a slice, positions, or a mask."""
        index = torch.arange(len(self), device=self.chosen.device)[rows].reshape(-1)
        if not len(index):
            raise ParameterError("There is no decision in this part of the batch.", column="rows")
        parts = {name: _take(getattr(self, name), index) for name in _PER_DECISION}
        flat, offsets = index, None
        if self.offsets is not None:
            lengths = self.offsets.diff()[index]
            ends = lengths.cumsum(0)
            offsets = torch.cat([ends.new_zeros(1), ends])
            shift = self.offsets[index] - offsets[:-1]
            flat = torch.repeat_interleave(shift, lengths)
            flat = flat + torch.arange(len(flat), device=flat.device)
        parts |= {name: _take(getattr(self, name), flat) for name in _PER_CANDIDATE}
        return Batch(**parts, offsets=offsets, trusted=True)

    def batches(
        self, size: int, generator: torch.Generator | None = None
    ) -> Iterator[tuple[Tensor, Batch]]:
        """All decisions once, ``size`` at a time: (rows, batch), the last one perhaps smaller.

        In the order of a permutation drawn with ``generator``; without one, in their own.
        """
        check.need(size >= 1, "size", size, "at least one decision")
        n, device = len(self), self.chosen.device
        if generator is None:
            order = torch.arange(n, device=device)
        else:
            order = torch.randperm(n, generator=generator, device=generator.device).to(device)
        for rows in order.split(size):
            yield rows, self[rows]

    def to(self, device: Any) -> Batch:
        """The same batch on another device."""
        place = torch.device(device)

        def move(name: str, value: Tensor | None) -> Tensor | None:
            if value is None:
                return None
            return value.to(place, in_full(place) if name in _IN_FULL else value.dtype)

        names = [item.name for item in fields(self)]
        return Batch(**{name: move(name, getattr(self, name)) for name in names}, trusted=True)

    @property
    def columns(self) -> frozenset[str]:
        """Which of the columns that estimators may need are at hand."""
        names = ("propensity", "logging", "prediction")
        return frozenset({"policy", *(name for name in names if getattr(self, name) is not None)})


def _take(values: Tensor | None, index: Tensor) -> Tensor | None:
    return None if values is None else values[index]


def _by_action(log: BanditLog, candidates: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Position of the chosen action, which actions are there, and tables with 0 elsewhere."""
    actions = log.need_names("by_action")
    place = decision_of_candidate(log.offsets), log.candidate_codes()
    shape = len(log), len(actions)

    def table(values: Any, kind: type) -> Any:
        made: Any = np.zeros(shape, dtype=kind)
        made[place] = values
        return made

    tables = {name: None if x is None else table(x, float) for name, x in candidates.items()}
    return log.chosen_codes(), table(True, bool), tables


# -- batches made by hand --------------------------------------------------------------------

_ONE = 1.0 + 1e-6
_KINDS = {"chosen": torch.int64, "offsets": torch.int64, "mask": torch.bool}
_MUST_BE: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "reward": (torch.isfinite, "a number"),
    "propensity": (lambda x: (x > 0.0) & (x <= _ONE), "above 0 and at most 1"),
    "row_weight": (lambda x: (x > 0.0) & x.isfinite(), "above 0"),
    "logging": (lambda x: (x >= 0.0) & (x <= _ONE), "from 0 to 1"),
    "prediction": (torch.isfinite, "a number"),
}


def _check(batch: Batch) -> None:
    values = {item.name: getattr(batch, item.name) for item in fields(batch)}
    values = {name: value for name, value in values.items() if value is not None}
    for name, value in values.items():
        is_tensor = isinstance(value, Tensor)
        check.need(is_tensor, name, f"a {type(value).__name__}", "a tensor, as of Batch.of(log)")
        kind = _KINDS.get(name, value.dtype)
        check.need(value.dtype == kind, name, value.dtype, f"{kind} in a Batch")
    lengths = _check_shapes(values)
    positions = (batch.chosen >= 0) & (batch.chosen < lengths)
    _need(positions, "chosen", batch.chosen, "a position among the decision's candidates")
    if batch.mask is not None:
        chosen = batch.mask.gather(1, batch.chosen[:, None])[:, 0]
        _need(chosen, "mask", chosen, "true for the chosen candidate")
    for name, (holds, must) in _MUST_BE.items():
        if name in values:
            right = holds(values[name])
            if batch.mask is not None and name in _PER_CANDIDATE:
                right |= ~batch.mask
            _need(right, name, values[name], must)


def _check_shapes(values: dict[str, Tensor]) -> Tensor | float:
    """How many candidates each decision has; infinite if nothing says."""
    reward, n = values["reward"], len(values["reward"])
    check.need_shape(reward.ndim == 1 and n > 0, "reward", reward, "(n,), n > 0", ParameterError)
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(_PER_DECISION, (n,))
    lengths: Tensor | float = float("inf")
    per_candidate = [name for name in _PER_CANDIDATE if name in values]
    if "offsets" in values:
        bounds = values["offsets"]
        check.need("mask" not in values, "mask", "given", "left out where there are offsets")
        fine = bool((bounds[:1] == 0).all() and (bounds.diff() > 0).all())
        check.need(fine, "offsets", bounds.tolist(), "a list from 0 on that increases")
        shapes["offsets"] = (n + 1,)
        lengths = bounds.diff()
        shapes |= dict.fromkeys(per_candidate, (int(bounds[-1]),))
    elif per_candidate:
        lengths = values[per_candidate[0]].shape[-1]
        shapes |= dict.fromkeys(per_candidate, (n, int(lengths)))
    for name, shape in shapes.items():
        if name in values:
            fine = values[name].shape == shape
            check.need_shape(fine, name, values[name], f"{shape} in this Batch", ParameterError)
    return lengths


def _need(right: Tensor, name: str, values: Tensor, must: str) -> None:
    if not bool(right.all()):
        row, *candidate = first = tuple((~right).nonzero()[0].tolist())
        part = f"candidate {candidate[0]}" if candidate else ""
        raise ParameterError(
            f"{values[first].item()}; in a Batch it must be {must}.",
            Place(column=name, row=row, part=part),
        )
