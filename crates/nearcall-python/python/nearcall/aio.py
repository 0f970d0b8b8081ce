"""The same as ``nearcall`` for asyncio: calls are awaited, streams are asynchronous iterators.

Cancelling the task that awaits a call cancels the call.
"""

from nearcall._aio_channel import (
    EOF,
    Attachment,
    BothCall,
    Channel,
    Oneway,
    ReplyStreamCall,
    RequestStreamCall,
    StreamStream,
    StreamUnary,
    UnaryCall,
    UnaryStream,
    UnaryUnary,
    attach,
    connect,
    hunt,
)
from nearcall._aio_server import Server, ServicerContext, server

__all__ = [
    "EOF",
    "Attachment",
    "BothCall",
    "Channel",
    "Oneway",
    "ReplyStreamCall",
    "RequestStreamCall",
    "Server",
    "ServicerContext",
    "StreamStream",
    "StreamUnary",
    "UnaryCall",
    "UnaryStream",
    "UnaryUnary",
    "attach",
    "connect",
    "hunt",
    "server",
]
