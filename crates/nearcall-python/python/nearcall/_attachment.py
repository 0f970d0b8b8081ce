"""Watching over a server: one notice when it is gone."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Optional

from nearcall._errors import RpcError, StatusCode


class Notice(NamedTuple):
    """Why a server is gone."""

    #: ``exited``, ``killed``, ``closed``, ``replaced``, ``unresponsive`` or ``lost``.
    cause: str
    #: The exit code, or the signal; 0 for other causes.
    code: int
    #: The process id of the server, or that of the one that has replaced it. ``None``: not known.
    pid: Optional[int]
    #: All of it, for people.
    text: str

    def __str__(self) -> str:
        return self.text


class Attachment:
    """A watch over the server that answered when it was made. ``with`` ends it."""

    def __init__(self, address: str, native: Any) -> None:
        self.address, self._native = address, native

    def wait(self, timeout: Optional[float] = None) -> Notice:
        """Waits until the server is gone, for ``timeout`` seconds at most: then raises RpcError
        with DEADLINE_EXCEEDED."""
        ended = self._native.ended()
        end = None if timeout is None else time.monotonic() + timeout
        while not ended.wait_briefly(None if end is None else end - time.monotonic()):
            if end is not None and time.monotonic() >= end:
                raise still_there(self.address)
        return Notice(*ended.result())

    def notice(self) -> Optional[Notice]:
        """Returns the notice, if there is one. Does not wait."""
        found = self._native.notice()
        return None if found is None else Notice(*found)

    def close(self) -> None:
        """Ends the watch."""
        self._native.close()

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def still_there(address: str) -> RpcError:
    """Returns the error of a wait whose time is up."""
    return RpcError(StatusCode.DEADLINE_EXCEEDED, f"the server at {address} is there")
