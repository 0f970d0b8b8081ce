"""Channels and calls of asyncio."""

from __future__ import annotations

import asyncio
import math
from typing import Any, AsyncIterable, AsyncIterator, Generator, Generic, Iterable, Optional
from typing import Sequence, Tuple, TypeVar, Union

from nearcall import _attachment, codegen
from nearcall._aio_interceptors import InterceptedChannel
from nearcall._attachment import Notice
from nearcall._buffers import Buffers, Loan, numbers
from nearcall._channel import SWITCH_TIMEOUT, Client, default_client
from nearcall._errors import Metadata, RpcError, StatusCode, is_too_long
from nearcall._loop import Step

Q = TypeVar("Q")
R = TypeVar("R")


class _Eof:
    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "nearcall.aio.EOF"


#: What ``read()`` returns at the end of a stream.
EOF = _Eof()

Items = Union[Iterable[Q], AsyncIterable[Q]]
Entries = Optional[Iterable[Tuple[str, Any]]]


def connect(
    address: str, *, client: Optional[Client] = None, interceptors: Sequence[Any] = ()
) -> Channel:
    """Returns a channel to the server at an address. It connects at the first call.

    Of ``interceptors`` the first is called first: those of `nearcall.ClientInterceptor`, with
    ``async def`` methods. A call behind them is awaited or iterated over; its requests are an
    iterator."""
    channel = Channel(client or default_client(), address)
    if not interceptors:
        return channel
    return InterceptedChannel(channel, interceptors)  # type: ignore[return-value]


async def hunt(address: str, timeout: float = math.inf) -> None:
    """Waits until a server answers at an address, for ``timeout`` seconds at most."""
    await Step(default_client()._native.hunt(address, timeout))


async def attach(address: str, *, ping: Optional[float] = None) -> Attachment:
    """Watches over the server at an address, as ``nearcall.attach``."""
    return Attachment(address, await Step(default_client()._native.attach(address, ping)))


class Attachment(_attachment.Attachment):
    """A watch over the server that answered when it was made. ``async with`` ends it."""

    async def wait(self, timeout: Optional[float] = None) -> Notice:  # type: ignore[override]
        """Waits until the server is gone, for ``timeout`` seconds at most: then raises RpcError
        with DEADLINE_EXCEEDED."""
        try:
            return Notice(*await asyncio.wait_for(_ended(self._native), timeout))
        except asyncio.TimeoutError:
            raise _attachment.still_there(self.address) from None

    async def __aenter__(self) -> Attachment:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()


async def _ended(native: Any) -> Any:
    return await Step(native.ended())


class Channel:
    """Where the calls of stubs go. ``async with`` closes it."""

    def __init__(self, client: Client, address: str) -> None:
        self._client, self.address = client, address
        self._is_closed = False

    def service(self, service: codegen.Service) -> _Object:
        """Returns the callables of a service. Called by generated stubs."""
        native = self._client._native.object(
            self.address, service.descriptor_set, service.name
        )
        return _Object(self, native, service)

    async def switch(self, mechanism: str, timeout: float = SWITCH_TIMEOUT) -> None:
        """Moves the connection to another mechanism, as ``nearcall.Channel.switch``."""
        self._check()
        await Step(self._client._native.switch(self.address, mechanism, timeout))

    async def close(self) -> None:
        """Takes no more calls. Those under way go on."""
        self._is_closed = True

    async def __aenter__(self) -> Channel:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    def _check(self) -> None:
        if self._is_closed:
            raise ValueError(f"the channel to {self.address} was closed: connect again")


class _Object:
    def __init__(self, channel: Channel, native: Any, service: codegen.Service) -> None:
        self._channel, self._native, self._service = channel, native, service

    def method(self, name: str) -> Any:
        """Returns what calls a method."""
        method = self._service.by_name[name]
        return _SHAPES[method.shape](self._channel, self._native, method)


class _OneReply(Generic[R]):
    """The end of a call with one reply."""

    def __init__(self, method: codegen.Method) -> None:
        self._method, self._parse = method, method.parse_reply
        self._step: Optional[Step] = None
        self._reply: Any = None
        self._error: Optional[RpcError] = None
        self._trailing: Metadata = ()
        self._initial: Metadata = ()
        self._is_taken = False

    def _await(self) -> Generator[Any, None, None]:
        if self._is_taken:
            return
        if self._step is None:
            raise RuntimeError("the call was not started")
        try:
            reply, self._trailing, self._initial = yield from self._step.__await__()
            self._reply = self._parse(reply)
        except RpcError as error:
            self._error, self._trailing = error, error.trailing_metadata()
        self._is_taken = True

    async def _ended(self) -> None:
        await _Steps(self._await())

    def done(self) -> bool:
        """Returns whether the call has ended."""
        return self._is_taken or (self._step is not None and self._step.done())

    async def code(self) -> StatusCode:
        """Waits for the end, and returns the code of its status."""
        await self._ended()
        return StatusCode.OK if self._error is None else self._error.code()

    async def details(self) -> str:
        """Waits for the end, and returns the text of its status."""
        await self._ended()
        return "" if self._error is None else self._error.details()

    async def trailing_metadata(self) -> Metadata:
        """Waits for the end, and returns what came with it."""
        await self._ended()
        return self._trailing

    async def initial_metadata(self) -> Metadata:
        """Waits for the end, and returns what came before the reply."""
        await self._ended()
        return self._initial


class _Steps:
    """Awaits what a generator yields."""

    def __init__(self, steps: Generator[Any, None, None]) -> None:
        self._steps = steps

    def __await__(self) -> Generator[Any, None, None]:
        return self._steps


class UnaryCall(_OneReply[R]):
    """A call under way: await it for its reply. Dropping it cancels it."""

    def __init__(self, method: codegen.Method, operation: Any, parse: Any = None) -> None:
        super().__init__(method)
        self._step = Step(operation)
        self._parse = parse or method.parse_reply

    def __await__(self) -> Generator[Any, None, R]:
        yield from self._await()
        if self._error is not None:
            raise self._error
        return self._reply

    def cancel(self) -> bool:
        """Cancels the call, unless it has ended."""
        return self._step is not None and self._step.cancel()

    def cancelled(self) -> bool:
        """Returns whether the call was cancelled."""
        return self._error is not None and self._error.code() is StatusCode.CANCELLED


class _Callable:
    __slots__ = ("_channel", "_method", "_native")

    def __init__(self, channel: Channel, native: Any, method: codegen.Method) -> None:
        self._channel, self._native, self._method = channel, native, method

    async def loan(self, nbytes: int, timeout: Optional[float] = None) -> Loan:
        """Returns memory for a ``bytes`` field of requests. Waits while the server has too much of
        it."""
        self._channel._check()
        return Loan(await Step(self._native.loan(nbytes, timeout)))


class UnaryUnary(_Callable, Generic[Q, R]):
    """Calls a method with one request and one reply."""

    __slots__ = ()

    def __call__(
        self,
        request: Q,
        timeout: Optional[float] = None,
        metadata: Entries = None,
        wait_for_ready: Optional[bool] = None,
    ) -> UnaryCall[R]:
        """Starts a call. Await it."""
        method = self._method
        data = method.request_bytes(request)
        self._channel._check()
        start = self._native.start
        return UnaryCall(method, start(method.index, data, timeout, metadata, wait_for_ready))

    def borrow(
        self,
        request: Any,
        timeout: Optional[float] = None,
        metadata: Entries = None,
        wait_for_ready: Optional[bool] = None,
    ) -> UnaryCall[Buffers[R]]:
        """Starts a call whose reply has long fields that are not copied. Await it."""
        method = self._method
        self._channel._check()
        data, fields = method.request_bytes(request), numbers(method.reply)
        start = self._native.start
        started = start(method.index, data, timeout, metadata, wait_for_ready, fields)
        return UnaryCall(method, started, method.borrow_reply)


class Oneway(_Callable, Generic[Q]):
    """Sends messages that are never answered."""

    __slots__ = ()

    async def __call__(
        self,
        request: Q,
        timeout: Optional[float] = None,
        metadata: Entries = None,
        wait_for_ready: Optional[bool] = None,
    ) -> None:
        """Returns when the message is in the channel to the server."""
        data = self._method.request_bytes(request)
        self._channel._check()
        send = self._native.send
        await Step(send(self._method.index, data, timeout, metadata, wait_for_ready))


class ReplyStreamCall(Generic[R]):
    """The replies of a call, and the call. Dropping it before its end cancels the call."""

    def __init__(self, method: codegen.Method, operation: Any, borrows: bool = False) -> None:
        self._method = method
        self._fields = numbers(method.reply) if borrows else None
        self._parse = method.borrow_reply if borrows else method.parse_reply
        self._opening: Optional[Step] = Step(operation)
        self._opening_lock = asyncio.Lock()
        self._replies: Any = None
        self._end: Optional[RpcError] = None
        self._has_ended = False
        self._is_cancelled = False

    async def _opened(self) -> Any:
        if self._replies is None:
            async with self._opening_lock:
                if self._opening is not None:
                    opening, self._opening = self._opening, None
                    try:
                        self._take(await opening)
                    except RpcError as error:
                        self._end, self._has_ended = error, True
                        raise
        if self._replies is None:
            raise self._end or RpcError(StatusCode.CANCELLED, "the call was cancelled")
        return self._replies

    def _take(self, opened: Any) -> None:
        self._replies = opened

    async def read(self) -> Any:
        """Receives the next reply; ``EOF`` at the end of a call that has succeeded."""
        if self._has_ended:
            if self._end is not None:
                raise self._end
            return EOF
        try:
            item = await Step((await self._opened()).next(self._fields))
        except RpcError as error:
            self._end, self._has_ended = error, True
            raise
        if item is None:
            self._has_ended = True
            return EOF
        return self._parse(item)

    def __aiter__(self) -> AsyncIterator[R]:
        return self

    async def __anext__(self) -> R:
        item = await self.read()
        if item is EOF:
            raise StopAsyncIteration
        return item

    def cancel(self) -> None:
        """Cancels the call."""
        if self._opening is not None:
            self._opening.cancel()
        if self._replies is not None:
            self._replies.cancel()

    async def initial_metadata(self) -> Metadata:
        """Waits for what the service sends before the first item."""
        return await Step((await self._opened()).headers())

    async def trailing_metadata(self) -> Metadata:
        """Returns what came with the end of the call, after that end."""
        if self._end is not None:
            return self._end.trailing_metadata()
        return (await self._opened()).trailing()

    async def code(self) -> Optional[StatusCode]:
        """Returns the code of the end of the call, after that end."""
        if not self._has_ended:
            return None
        return StatusCode.OK if self._end is None else self._end.code()


class UnaryStream(_Callable, Generic[Q, R]):
    """Calls a method that replies with a stream."""

    __slots__ = ()

    def __call__(
        self,
        request: Q,
        timeout: Optional[float] = None,
        metadata: Entries = None,
        wait_for_ready: Optional[bool] = None,
    ) -> ReplyStreamCall[R]:
        """Starts the call. Iterate over it, or ``read()`` it."""
        return self._open(False, request, timeout, metadata, wait_for_ready)

    def borrow(
        self,
        request: Any,
        timeout: Optional[float] = None,
        metadata: Entries = None,
        wait_for_ready: Optional[bool] = None,
    ) -> ReplyStreamCall[Buffers[R]]:
        """Starts a call whose replies have long fields that are not copied."""
        return self._open(True, request, timeout, metadata, wait_for_ready)

    def _open(self, borrows: bool, request: Any, *options: Any) -> Any:
        data = self._method.request_bytes(request)
        self._channel._check()
        opening = self._native.open_replies(self._method.index, data, *options)
        return ReplyStreamCall(self._method, opening, borrows)


async def _each(items: Items[Q]) -> AsyncIterator[Q]:
    if hasattr(items, "__aiter__"):
        async for item in items:  # type: ignore[union-attr]
            yield item
    else:
        for item in items:  # type: ignore[union-attr]
            yield item


async def _send_all(method: codegen.Method, stream: Any, items: Items[Any]) -> None:
    number = 0
    async for item in _each(items):
        data = method.request_bytes(item, f"requests[{number}]")
        try:
            await Step(stream.send(data))
        except RpcError as error:
            if is_too_long(error):
                raise
            # The call has ended; its end says why.
            return
        number += 1


class RequestStreamCall(_OneReply[R]):
    """A call whose request is a stream: ``write()`` the items, then await it for its reply."""

    def __init__(
        self, method: codegen.Method, operation: Any, requests: Optional[Items[Any]]
    ) -> None:
        super().__init__(method)
        self._opening: Optional[Step] = Step(operation)
        self._requests, self._stream = requests, None
        self._opening_lock = asyncio.Lock()

    async def _opened(self) -> Any:
        async with self._opening_lock:
            if self._opening is not None:
                opening, self._opening = self._opening, None
                try:
                    self._stream = await opening
                except RpcError as error:
                    self._error, self._is_taken = error, True
        if self._stream is None:
            raise self._error or RpcError(StatusCode.CANCELLED, "the call was cancelled")
        return self._stream

    async def write(self, request: Any) -> None:
        """Sends an item. Waits for credit and for room."""
        data = self._method.request_bytes(request)
        await Step((await self._opened()).send(data))

    async def done_writing(self) -> None:
        """Ends the items."""
        stream = await self._opened()
        if self._step is None:
            self._step = Step(stream.finish())

    def cancel(self) -> None:
        """Cancels the call."""
        for step in (self._opening, self._step):
            if step is not None:
                step.cancel()
        if self._stream is not None:
            self._stream.cancel()

    async def _ended(self) -> None:
        if not self._is_taken:
            try:
                stream = await self._opened()
                if self._requests is not None:
                    requests, self._requests = self._requests, None
                    await _send_all(self._method, stream, requests)
                await self.done_writing()
            except RpcError as error:
                self._error, self._is_taken = error, True
                self.cancel()
            except BaseException:
                self.cancel()
                raise
        await super()._ended()

    async def _result(self) -> R:
        await self._ended()
        if self._error is not None:
            raise self._error
        return self._reply

    def __await__(self) -> Generator[Any, None, R]:
        return self._result().__await__()


class StreamUnary(_Callable, Generic[Q, R]):
    """Calls a method that takes a stream."""

    __slots__ = ()

    def __call__(
        self,
        requests: Optional[Items[Q]] = None,
        timeout: Optional[float] = None,
        metadata: Entries = None,
        wait_for_ready: Optional[bool] = None,
    ) -> RequestStreamCall[R]:
        """Starts the call. Await it: it sends the requests, and returns the reply."""
        self._channel._check()
        opening = self._native.open_requests
        index = self._method.index
        operation = opening(index, timeout, metadata, wait_for_ready)
        return RequestStreamCall(self._method, operation, requests)


class BothCall(ReplyStreamCall[R]):
    """A call of two streams: ``write()`` and ``done_writing()``, iterate or ``read()``."""

    def __init__(
        self, method: codegen.Method, operation: Any, requests: Optional[Items[Any]]
    ) -> None:
        super().__init__(method, operation)
        self._requests, self._stream = requests, None
        self._sender: Optional[asyncio.Task[None]] = None
        self._failure: Optional[BaseException] = None

    def _take(self, opened: Any) -> None:
        self._stream, self._replies = opened
        if self._requests is not None:
            sending = _send_for(self._method, self._stream, self._replies, self._requests)
            self._sender = asyncio.get_running_loop().create_task(sending)

    async def read(self) -> Any:
        """Receives the next reply; ``EOF`` at the end of a call that has succeeded."""
        try:
            return await super().read()
        except RpcError:
            if self._sender is not None and self._sender.done():
                failure = self._sender.cancelled() or self._sender.exception()
                if isinstance(failure, BaseException):
                    raise failure from None
            raise
        finally:
            if self._has_ended and self._sender is not None and not self._sender.done():
                self._sender.cancel()

    async def write(self, request: Any) -> None:
        """Sends an item. Waits for credit and for room."""
        data = self._method.request_bytes(request)
        await self._opened()
        await Step(self._stream.send(data))  # type: ignore[attr-defined]

    async def done_writing(self) -> None:
        """Ends the items."""
        await self._opened()
        await Step(self._stream.finish())  # type: ignore[attr-defined]

    def cancel(self) -> None:
        """Cancels the call."""
        super().cancel()
        if self._sender is not None:
            self._sender.cancel()

    def __del__(self) -> None:
        sender = getattr(self, "_sender", None)
        if sender is not None and not sender.done():
            sender.cancel()


async def _send_for(
    method: codegen.Method, stream: Any, replies: Any, requests: Items[Any]
) -> None:
    try:
        await _send_all(method, stream, requests)
        await Step(stream.finish())
    except Exception as error:
        if isinstance(error, RpcError) and not is_too_long(error):
            # The replies end with it as well.
            return
        stream.cancel()
        replies.cancel()
        raise


class StreamStream(_Callable, Generic[Q, R]):
    """Calls a method whose requests and replies are streams."""

    __slots__ = ()

    def __call__(
        self,
        requests: Optional[Items[Q]] = None,
        timeout: Optional[float] = None,
        metadata: Entries = None,
        wait_for_ready: Optional[bool] = None,
    ) -> BothCall[R]:
        """Starts the call. Without ``requests``, ``write()`` them."""
        self._channel._check()
        opening = self._native.open_both
        operation = opening(self._method.index, timeout, metadata, wait_for_ready)
        return BothCall(self._method, operation, requests)


_SHAPES: Any = {
    codegen.UNARY: UnaryUnary,
    codegen.ONEWAY: Oneway,
    codegen.REPLY_STREAM: UnaryStream,
    codegen.REQUEST_STREAM: StreamUnary,
    codegen.BOTH_STREAMS: StreamStream,
}
