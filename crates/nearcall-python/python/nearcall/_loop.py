"""Waiting for native operations in a loop of asyncio."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, Dict, Generator, Tuple

from nearcall import _native


class Waiter:
    """The operations that the tasks of a loop wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.notifier = _native.Notifier()
        self.pending: Dict[int, Tuple[Any, asyncio.Future[None]]] = {}
        self._last = 0
        loop.add_reader(self.notifier.fileno(), self._ready)

    def number(self) -> int:
        """Returns a number that no operation has."""
        self._last += 1
        return self._last

    def _ready(self) -> None:
        pending, notifier = self.pending, self.notifier
        for number in notifier.take():
            entry = pending.get(number)
            if entry is not None and entry[0].poll(notifier, number):
                pending.pop(number, None)
                if not entry[1].done():
                    entry[1].set_result(None)


_waiters: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Waiter]" = (
    weakref.WeakKeyDictionary()
)


def waiter(loop: asyncio.AbstractEventLoop) -> Waiter:
    """Returns the waiter of a loop."""
    found = _waiters.get(loop)
    if found is None:
        found = _waiters[loop] = Waiter(loop)
    return found


class Step:
    """An operation that was started in the running loop. Await it once; dropping it cancels it."""

    __slots__ = ("_future", "_number", "_operation", "_waiter")

    def __init__(self, operation: Any) -> None:
        loop = asyncio.get_running_loop()
        self._operation = operation
        self._waiter = found = waiter(loop)
        self._number = number = found.number()
        self._future: Any = None
        if not operation.poll(found.notifier, number):
            self._future = loop.create_future()
            found.pending[number] = (operation, self._future)

    def done(self) -> bool:
        """Returns whether it has ended."""
        return self._future is None or self._future.done()

    def cancel(self) -> bool:
        """Cancels it, unless it has ended."""
        return not self.done() and self._operation.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        if self._future is not None:
            try:
                yield from self._future
            except BaseException:
                self._end()
                raise
        return self._operation.result()

    def _end(self) -> None:
        self._waiter.pending.pop(self._number, None)
        self._operation.cancel()

    def __del__(self) -> None:
        if getattr(self, "_future", None) is not None and not self._future.done():
            self._end()
