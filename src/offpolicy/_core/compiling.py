"""Whether work of some size is worth a compiled loop; numba is not imported to say no."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_asked_for = False


@dataclass(frozen=True)
class Worth:
    """From what size of the work on a compiled loop is faster than NumPy."""

    loop: Callable[[], Any]
    """Imports it; of several loops, the one that takes longest to compile."""
    kept: float
    """If it has been compiled before,"""
    fresh: float
    """and if it would have to be compiled now."""

    def compiling(self, size: float) -> bool:
        """Whether work of this size is for the compiled loop; the same all through a process.

        A sample, whose size counts as 0, never is.
        """
        if size >= self.fresh or (_asked_for and size > 0.0):
            return True
        return size >= self.kept and _is_kept(self.loop)


@functools.cache
def _is_kept(loop: Callable[[], Any]) -> bool:
    from offpolicy._core.kernels import is_kept

    return is_kept(loop())


@contextlib.contextmanager
def everything_compiled() -> Iterator[None]:
    """Within it all loops are compiled, however small the work."""
    global _asked_for
    before, _asked_for = _asked_for, True
    try:
        yield
    finally:
        _asked_for = before
