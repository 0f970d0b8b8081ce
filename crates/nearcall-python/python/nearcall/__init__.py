"""Calls between processes at memory speed.

Names and shapes follow those of grpc: a stub that ``nearcall gen --lang python`` has generated
calls, a servicer serves.

    with nearcall.connect("thermostat") as channel:
        stub = thermostat_nearcall.ThermostatStub(channel)
        before = stub.SetTarget(Temperature(celsius=21.5), timeout=1.0)

``nearcall.aio`` has the same for asyncio.
"""

from nearcall._attachment import Attachment, Notice
from nearcall._buffers import Buffers, Loan, borrows
from nearcall._channel import (
    Call,
    Channel,
    Client,
    Oneway,
    ReplyIterator,
    StreamStream,
    StreamUnary,
    UnaryStream,
    UnaryUnary,
    attach,
    connect,
    hunt,
)
from nearcall._errors import RpcError, StatusCode
from nearcall._interceptors import (
    ClientCallDetails,
    ClientInterceptor,
    HandlerCallDetails,
    ServerInterceptor,
    intercept_channel,
)
from nearcall._native import VERSION as __version__
from nearcall._server import Server, ServicerContext, server
from nearcall import aio

__all__ = [
    "Attachment",
    "Buffers",
    "Call",
    "Channel",
    "Client",
    "ClientCallDetails",
    "ClientInterceptor",
    "HandlerCallDetails",
    "Loan",
    "Notice",
    "Oneway",
    "ReplyIterator",
    "RpcError",
    "Server",
    "ServerInterceptor",
    "ServicerContext",
    "StatusCode",
    "StreamStream",
    "StreamUnary",
    "UnaryStream",
    "UnaryUnary",
    "__version__",
    "aio",
    "attach",
    "borrows",
    "connect",
    "hunt",
    "intercept_channel",
    "server",
]
