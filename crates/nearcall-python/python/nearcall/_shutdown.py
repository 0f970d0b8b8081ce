"""The end of the interpreter: servers stop, and nothing waits in the native half any more."""

from __future__ import annotations

import atexit
import weakref
from typing import Any

from nearcall import _native

_servers: "weakref.WeakSet[Any]" = weakref.WeakSet()


def stop_at_exit(server: Any) -> None:
    """Has a native server stop before the interpreter ends."""
    _servers.add(server)


@atexit.register
def _end() -> None:
    for server in list(_servers):
        server.stop_now()
    _native.shutdown()
