"""Logged decisions as tensors: a whole log, or a mini-batch of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import InitVar, dataclass, fields
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from offpolicy._core.ragged import decision_of_candidate
from offpolicy._core.validation import check_finite
from offpolicy.errors import ParameterError, PredictionError
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
        delta_hat = resolve_prediction(log, prediction)
        if delta_hat is not None:
            check_finite(delta_hat, "prediction", log.source, PredictionError, log.offsets)
        chosen, offsets, mask = log.chosen, None, None
        candidates = {"logging": log.logging, "prediction": delta_hat}
        if log.candidate is None and log.has_equal_lengths:
            candidates = {name: _rows(x, len(log)) for name, x in candidates.items()}
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
            raise ParameterError("There is no decision in this part of the batch.")
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
        if size < 1:
            raise ParameterError(f"size is {size}; a mini-batch has at least one decision.")
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
        moved = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None:
                kind = in_full(place) if item.name in _IN_FULL else value.dtype
                value = value.to(device=place, dtype=kind)
            moved[item.name] = value
        return Batch(**moved, trusted=True)

    @property
    def columns(self) -> frozenset[str]:
        """Which of the columns that estimators may need are at hand."""
        own = ("propensity", "logging", "prediction")
        return frozenset({"policy", *(name for name in own if getattr(self, name) is not None)})


def _take(values: Tensor | None, index: Tensor) -> Tensor | None:
    return None if values is None else values[index]


def _rows(values: Any, n: int) -> Any:
    return None if values is None else values.reshape(n, -1)


def _by_action(log: BanditLog, candidates: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Position of the chosen action, which actions are there, and tables with 0 elsewhere."""
    actions = log.need_names("by_action")
    code = log.candidate_codes()
    place = decision_of_candidate(log.offsets), code
    shape = len(log), len(actions)
    mask = np.zeros(shape, dtype=bool)
    mask[place] = True

    def table(values: Any) -> Any:
        made = np.zeros(shape)
        made[place] = values
        return made

    tables = {name: None if x is None else table(x) for name, x in candidates.items()}
    return log.chosen_codes(), mask, tables


# -- batches made by hand --------------------------------------------------------------------


def _check(batch: Batch) -> None:
    for item in fields(batch):
        value = getattr(batch, item.name)
        if value is not None and not isinstance(value, Tensor):
            raise ParameterError(
                f"Batch: {item.name} is a {type(value).__name__}; it must be a tensor. "
                f"Batch.of(log) makes a batch from a log."
            )
    n = len(batch.reward) if batch.reward.ndim == 1 else 0
    if n == 0:
        raise ParameterError("Batch: reward must be (n,), with at least one decision.")
    for name in _PER_DECISION:
        _need_shape(getattr(batch, name), name, (n,))
    for name in ("chosen", "offsets"):
        value = getattr(batch, name)
        if value is not None and value.dtype != torch.int64:
            raise ParameterError(f"Batch: {name} is {value.dtype}; it must be torch.int64.")
    outside = batch.chosen < 0
    lengths = _lengths(batch, n)
    if lengths is not None:
        outside |= batch.chosen >= lengths
    _refuse(outside, "chosen", batch.chosen, "a position among the decision's candidates")
    _refuse(~batch.reward.isfinite(), "reward", batch.reward, "a number")
    for name, what in (("propensity", "above 0 and at most 1"), ("row_weight", "above 0")):
        value = getattr(batch, name)
        if value is not None:
            most = 1.0 + 1e-6 if name == "propensity" else float("inf")
            _refuse(~((value > 0.0) & (value <= most)), name, value, what)
    _check_candidates(batch)


def _lengths(batch: Batch, n: int) -> Tensor | int | None:
    """How many candidates each decision has; None if nothing says."""
    if batch.offsets is not None:
        bounds = batch.offsets
        _need_shape(bounds, "offsets", (n + 1,))
        if batch.mask is not None:
            raise ParameterError("Batch: mask is for (n, K) arrays; with offsets there is none.")
        if int(bounds[0]) != 0 or not bool((bounds.diff() > 0).all()):
            raise ParameterError("Batch: offsets must start at 0 and increase.")
        for name in _PER_CANDIDATE:
            _need_shape(getattr(batch, name), name, (int(bounds[-1]),))
        return bounds.diff()
    shapes = {x.shape for x in (getattr(batch, name) for name in _PER_CANDIDATE) if x is not None}
    if not shapes:
        return None
    if len(shapes) > 1 or any(len(shape) != 2 or shape[0] != n for shape in shapes):
        found = ", ".join(str(tuple(shape)) for shape in sorted(shapes))
        raise ParameterError(
            f"Batch: logging, prediction and mask have shape {found}; without offsets each must "
            f"be ({n}, K)."
        )
    return int(next(iter(shapes))[1])


def _check_candidates(batch: Batch) -> None:
    there = True if batch.mask is None else batch.mask
    if batch.mask is not None:
        if batch.mask.dtype != torch.bool:
            raise ParameterError(f"Batch: mask is {batch.mask.dtype}; it must be torch.bool.")
        gone = ~batch.mask.gather(1, batch.chosen[:, None])[:, 0]
        _refuse(gone, "mask", batch.chosen, "true for the chosen candidate")
    if batch.logging is not None:
        wrong = ~((batch.logging >= 0.0) & (batch.logging <= 1.0 + 1e-6)) & there
        _refuse(wrong, "logging", batch.logging, "from 0 to 1")
    if batch.prediction is not None:
        _refuse(~batch.prediction.isfinite() & there, "prediction", batch.prediction, "a number")


def _need_shape(value: Tensor | None, name: str, shape: tuple[int, ...]) -> None:
    if value is not None and tuple(value.shape) != shape:
        raise ParameterError(f"Batch: {name} has shape {tuple(value.shape)}; it must be {shape}.")


def _refuse(wrong: Tensor, name: str, values: Tensor, must: str) -> None:
    if bool(wrong.any()):
        at = tuple(wrong.nonzero()[0].tolist())
        shown = values[at[: values.ndim]].item()
        row = ", ".join(map(str, at))
        raise ParameterError(f"Batch: {name}, row {row}: {shown}; it must be {must}.")
