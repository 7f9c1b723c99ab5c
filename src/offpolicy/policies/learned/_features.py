"""What a linear policy sees of a context: standardised (or raw), perhaps mapped by a kernel.

The map is Nyström's: with centres z₁ … z_m and the kernel k(x, z) = exp(−γ‖x − z‖²/d), inner
products of the features k(x, z)·K^{−½} approximate k itself, and are exact at the centres.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from offpolicy._core import validation as check
from offpolicy._core.types import Floats, Singles
from offpolicy.errors import LogError, ParameterError, Place

KINDS = ("linear", "kernel", "raw")
_FLOOR = 0.6
"""A column is divided by no less than this share of the columns' median deviation: what hardly
moves is not to count as much as what does."""
_NEGLIGIBLE = 1e-6
"""Directions of the kernel matrix below this share of the largest are left out."""
_AT_ONCE = 16_384


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """(x − shift)/scale, then, with centres, their kernel; and a last feature that is 1."""

    shift: Floats
    scale: Floats
    centres: Floats | None = None
    root: Floats | None = None
    """K^{−½} of the centres' kernel matrix, without negligible directions."""
    gamma: float = 1.0

    @classmethod
    def fit(
        cls,
        X: Floats,
        *,
        kind: str = "linear",
        centres: int = 1000,
        gamma: float = 1.0,
        rng: np.random.Generator,
    ) -> FeatureMap:
        """Scales from the rows of X; centres drawn among its different rows."""
        if kind not in KINDS:
            raise ParameterError(
                f'features is "{kind}"; it can be {", ".join(KINDS)}.', column="features"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            shift, deviation = X.mean(axis=0), X.std(axis=0)
        if not np.isfinite(deviation).all() or not np.isfinite(shift).all():
            column = int(np.argmax(~np.isfinite(deviation) | ~np.isfinite(shift)))
            raise LogError(
                f"column {column}: its numbers are so large that they have no mean or deviation. "
                f"Rescale it.",
                Place(column="context"),
            )
        moving = deviation[deviation > 0.0]
        floor = _FLOOR * float(np.median(moving)) if len(moving) else 1.0
        plain = cls(shift, np.maximum(deviation, floor))
        if kind == "raw":
            return cls(np.zeros_like(shift), np.ones_like(shift))
        if kind == "linear":
            return plain
        if centres < 1 or not gamma > 0.0:
            raise ParameterError(
                f"centres is {centres} and gamma {gamma:g}; there must be at least one centre, "
                f"and gamma above 0.",
                column="centres" if centres < 1 else "gamma",
            )
        different = np.unique((X - plain.shift) / plain.scale, axis=0)
        chosen = different[np.sort(rng.permutation(len(different))[:centres])]
        values, vectors = np.linalg.eigh(_kernel(chosen, chosen, gamma))
        kept = values > _NEGLIGIBLE * values[-1]
        root = vectors[:, kept] / np.sqrt(values[kept])
        return cls(plain.shift, plain.scale, chosen, root, gamma)

    @property
    def inputs(self) -> int:
        """How many numbers a context has."""
        return len(self.shift)

    @property
    def is_even(self) -> bool:
        """Whether features move about as much as each other; a kernel's do not."""
        return self.root is None

    @property
    def width(self) -> int:
        """How many features there are."""
        return 1 + (self.inputs if self.root is None else self.root.shape[1])

    def __call__(self, X: Any) -> Singles:
        """The features of each row of X, in single precision: (n, width)."""
        out = np.ones((len(X), self.width), dtype=np.float32)
        for start in range(0, len(X), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            z = (X[part] - self.shift) / self.scale
            if self.root is not None:
                assert self.centres is not None
                z = _kernel(z, self.centres, self.gamma) @ self.root
            out[part, :-1] = z
        return out


def _kernel(x: Floats, z: Floats, gamma: float) -> Floats:
    square = (x**2).sum(axis=1)[:, None] + (z**2).sum(axis=1) - 2.0 * (x @ z.T)
    return np.asarray(np.exp((-gamma / x.shape[1]) * np.maximum(square, 0.0)))


def numeric(values: Any, column: str) -> Floats:
    """What a learned policy sees, context or features, as finite numbers in columns."""
    cells = np.asarray(values)
    if cells.dtype.kind in "USO" and cells.size and isinstance(cells.flat[0], str):
        raise LogError(
            f"{column} holds text ({str(cells.flat[0])!r}), and is to be numbers: turn categories "
            f"into columns of 0 and 1.",
            column=column,
        )
    array = check.as_floats(values, column)
    array = array.reshape(len(array), -1)
    check.check_finite(array, column)
    return array
