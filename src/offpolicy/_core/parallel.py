"""A function of many pieces, in order, on all cores."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

Made = TypeVar("Made")
Outcome = TypeVar("Outcome")


def each_block(
    function: Callable[[Made], Outcome], makers: Iterable[Callable[[], Made]]
) -> Iterator[Outcome]:
    """Any ``function`` of every block, in order, on all cores; a block lives only while it is used,
    and no more are begun than a few beyond those that are awaited."""
    workers = os.cpu_count() or 1
    remaining = iter(makers)
    first = list(itertools.islice(remaining, 2))
    if workers == 1 or len(first) < 2:
        for make in itertools.chain(first, remaining):
            yield function(make())
        return

    with ThreadPoolExecutor(workers) as pool:
        begun: deque[Future[Outcome]] = deque()
        try:
            for make in itertools.chain(first, remaining):
                begun.append(pool.submit(lambda make: function(make()), make))
                if len(begun) >= 2 * workers:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()


def one_thread_each() -> AbstractContextManager[object]:
    """Within it NumPy's products take one thread each: what runs on all cores is shared out here.

    Products are small or many: threads that wait for each other take up to twenty times as long
    where other work is on the machine, and add in an order of their own.
    """
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limits
