"""How far long work has come, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

from offpolicy.cli.printing import say

_T = TypeVar("_T")


class Progress:
    """Called with the rows done so far and in all; writes a line that replaces itself."""

    def __init__(self, verb: str = "read") -> None:
        self._verb = verb
        self._start = self._shown = time.monotonic()
        self._last = 0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done < self._last:  # another pass
            self._start = now
        self._last = done
        if done >= total:
            sys.stderr.write("\r\x1b[K")
        elif now - self._shown >= 0.2:
            self._shown = now
            sys.stderr.write(f"\r\x1b[K{progress_line(done, total, now - self._start, self._verb)}")
        else:
            return
        sys.stderr.flush()


def progress_line(done: int, total: int, seconds: float, verb: str = "read") -> str:
    """On the terminal: 'read 3,000 of 20,000 decisions (15%), 1,500 a second, 11 s left'."""
    text = f"{verb} {done:,} of {total:,} decisions ({done / total:.0%})"
    rate = done / seconds if seconds > 0.0 else 0.0
    if rate > 0.0:
        left = round((total - done) / rate)
        clock = f"{left} s" if left < 120 else f"{left // 60} min {left % 60} s"
        text += f", {rate:,.0f} a second, {clock} left"
    return text


@contextmanager
def told_in_a_line(text: str) -> Iterator[Callable[[int, float], None] | None]:
    """What is called with two numbers writes them into a line of the terminal that replaces itself,
    and is gone in the end; None if there is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return

    def told(first: int, second: float) -> None:
        sys.stderr.write(f"\r\x1b[K{text.format(first, second)}")
        sys.stderr.flush()

    try:
        yield told
    finally:
        sys.stderr.write("\r\x1b[K")


def counted(parts: Iterable[_T], total: int, what: str) -> Iterator[_T]:
    """Passes parts of long work through: a progress bar on the terminal, or a line for each."""
    if not total:
        return
    if not sys.stderr.isatty():
        for done, part in enumerate(parts, 1):
            say(f"{what}: {done} of {total}", err=True)
            yield part
        return
    with click.progressbar(parts, length=total, label=what, file=sys.stderr) as bar:
        yield from bar
