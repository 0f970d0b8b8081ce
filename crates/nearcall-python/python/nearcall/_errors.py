"""Statuses, and the exception of a call that has failed."""

from __future__ import annotations

import enum
from typing import Any, Tuple, Union

Metadata = Tuple[Tuple[str, Union[str, bytes]], ...]


class StatusCode(enum.IntEnum):
    """How a call ended: the codes of gRPC, with their numbers."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class RpcError(Exception):
    """A call has failed: ``code()`` and ``details()`` say how, for programs and for people."""

    def __init__(self, code: StatusCode, details: str, trailing: Metadata = ()) -> None:
        super().__init__(code, details)
        self._code = code
        self._details = details
        self._trailing = trailing

    def code(self) -> StatusCode:
        """Returns the code of the status."""
        return self._code

    def details(self) -> str:
        """Returns the text of the status."""
        return self._details

    def trailing_metadata(self) -> Metadata:
        """Returns what the service has sent with the error."""
        return self._trailing

    def __str__(self) -> str:
        return f"{self._code.name}: {self._details}"

    def __reduce__(self) -> Any:
        return (type(self), (self._code, self._details, self._trailing))


def is_too_long(error: RpcError) -> bool:
    """Returns whether an item could not be sent by itself: the call goes on. Other errors of
    sending are the end of the call, which has its own error."""
    return error.code() is StatusCode.RESOURCE_EXHAUSTED


def from_native(code: int, details: str, trailing: Metadata) -> RpcError:
    """Makes the exception of a status. Called by the native half."""
    return RpcError(StatusCode(code), details, trailing)
