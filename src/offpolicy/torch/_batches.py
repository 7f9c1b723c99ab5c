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
from offpolicy.logs import BanditLog, need_log
from offpolicy.models import resolve_prediction

_PER_DECISION = ("chosen", "reward", "propensity", "row_weight")
_PER_CANDIDATE = ("logging", "prediction", "mask")
_IN_FULL = ("reward", "propensity", "row_weight")
"""In double precision: a propensity of 1e-50 is not 0, and these are few."""
_KINDS = {"chosen": torch.int64, "offsets": torch.int64, "mask": torch.bool}


def in_full(device: torch.device) -> torch.dtype:
    """Torch's double precision, where the device has it."""
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
        arrays: dict[str, Any] = {
            "chosen": log.chosen, "reward": log.reward, "propensity": log.propensity,
            "row_weight": log.row_weight, "logging": log.logging, "prediction": delta_hat,
        }  # fmt: skip
        arrays = {name: values for name, values in arrays.items() if values is not None}
        per_candidate = [name for name in _PER_CANDIDATE if name in arrays]
        if log.candidate is None and log.has_equal_lengths:
            arrays |= {name: arrays[name].reshape(len(log), -1) for name in per_candidate}
        elif by_action:
            shape = len(log), len(log.need_names("by_action"))
            cells = decision_of_candidate(log.offsets), log.candidate_codes()
            arrays |= {"chosen": log.chosen_codes(), "mask": np.ones(len(cells[0]), dtype=bool)}
            for name in (*per_candidate, "mask"):
                flat, arrays[name] = arrays[name], np.zeros(shape, dtype=arrays[name].dtype)
                arrays[name][cells] = flat
        else:
            arrays["offsets"] = log.offsets
        place = torch.device("cpu" if device is None else device)
        kinds = dict.fromkeys(_PER_CANDIDATE, torch.float32 if dtype is None else dtype)
        kinds |= dict.fromkeys(_IN_FULL, in_full(place)) | _KINDS
        tensors = {
            name: torch.tensor(values, dtype=kinds[name], device=place)
            for name, values in arrays.items()
        }
        return cls(**tensors, trusted=True)

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, rows: Any) -> Batch:
        """These decisions: a slice, positions, or a mask."""
        index = torch.arange(len(self), device=self.chosen.device)[rows].reshape(-1)
        if not len(index):
            raise ParameterError("There is no decision in this part of the batch.", column="rows")
        flat, offsets = index, None
        if self.offsets is not None:
            lengths = self.offsets.diff()[index]
            ends = lengths.cumsum(0)
            offsets = torch.cat([ends.new_zeros(1), ends])
            shift = self.offsets[index] - offsets[:-1]
            flat = torch.repeat_interleave(shift, lengths)
            flat = flat + torch.arange(len(flat), device=flat.device)
        rows_of = dict.fromkeys(_PER_DECISION, index) | dict.fromkeys(_PER_CANDIDATE, flat)
        parts = {name: value[rows_of[name]] for name, value in self._parts() if name in rows_of}
        return Batch(**parts, offsets=offsets, trusted=True)

    def batches(
        self, size: int, generator: torch.Generator | None = None
    ) -> Iterator[tuple[Tensor, Batch]]:
        """All decisions once, ``size`` at a time: (rows, batch), the last one perhaps smaller.

        In the order of a permutation drawn with ``generator``; without one, in their own.
        """
        check.need(size >= 1, "size", size, "at least one decision")
        n, device = len(self), self.chosen.device
        order = torch.arange(n, device=device)
        if generator is not None:
            order = torch.randperm(n, generator=generator, device=generator.device).to(device)
        for rows in order.split(size):
            yield rows, self[rows]

    def to(self, device: Any) -> Batch:
        """The same batch on another device."""
        place = torch.device(device)
        kinds = dict.fromkeys(_IN_FULL, in_full(place))
        moved = {name: x.to(place, kinds.get(name, x.dtype)) for name, x in self._parts()}
        return Batch(**moved, trusted=True)

    @property
    def columns(self) -> frozenset[str]:
        """Which of the columns that estimators may need are at hand."""
        needed = {"propensity", "logging", "prediction"}
        return frozenset({"policy"} | needed & dict(self._parts()).keys())

    def _parts(self) -> Iterator[tuple[str, Tensor]]:
        """What there is, by name."""
        for item in fields(self):
            if getattr(self, item.name) is not None:
                yield item.name, getattr(self, item.name)


# -- batches made by hand --------------------------------------------------------------------

_ONE = 1.0 + 1e-6
_MUST_BE: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "reward": (torch.isfinite, "a number"),
    "propensity": (lambda x: (x > 0.0) & (x <= _ONE), "above 0 and at most 1"),
    "row_weight": (lambda x: (x > 0.0) & x.isfinite(), "above 0"),
    "logging": (lambda x: (x >= 0.0) & (x <= _ONE), "from 0 to 1"),
    "prediction": (torch.isfinite, "a number"),
}


def _check(batch: Batch) -> None:
    values = dict(batch._parts())
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
    """How many candidates each decision of a batch of tensors has; infinite if nothing says."""
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
