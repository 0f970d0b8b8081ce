"""Channels and calls of threads, which wait."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from typing import Any, Callable, Generic, Iterable, Iterator, Optional, Tuple, TypeVar

from nearcall import _native, codegen
from nearcall import _shutdown as _shutdown
from nearcall._attachment import Attachment
from nearcall._buffers import Buffers, Loan, numbers
from nearcall._errors import Metadata, RpcError, StatusCode, is_too_long

Q = TypeVar("Q")
R = TypeVar("R")

#: How long a switch may take, in seconds.
SWITCH_TIMEOUT = 5.0


class Client:
    """Makes connections, which its channels share.

    ``timeout`` is that of calls that have none of their own, in seconds.
    """

    def __init__(
        self, *, timeout: Optional[float] = None, message_bytes_max: Optional[int] = None
    ) -> None:
        self._native = _native.Client(timeout, message_bytes_max)

    def connect(self, address: str) -> Channel:
        """Returns a channel to the server at an address. It connects at the first call."""
        return Channel(self, address)

    def hunt(self, address: str, timeout: float = math.inf) -> None:
        """Waits until a server answers at an address, for ``timeout`` seconds at most.

        Raises RpcError with UNAVAILABLE if none does.
        """
        self._native.hunt(address, timeout).wait()

    def attach(self, address: str, *, ping: Optional[float] = None) -> Attachment:
        """Watches over the server at an address, which has to answer now. It is pinged each
        ``ping`` seconds, if any."""
        return Attachment(address, self._native.attach(address, ping).wait())


_default: Optional[Client] = None
_default_lock = threading.Lock()


def default_client() -> Client:
    """Returns the client of those that name none."""
    global _default
    if _default is None:
        with _default_lock:
            _default = _default or Client()
    return _default


def _forget_default() -> None:
    global _default, _default_lock
    _default, _default_lock = None, threading.Lock()


# A client does not work in a child of its process.
os.register_at_fork(after_in_child=_forget_default)


def connect(address: str, *, client: Optional[Client] = None) -> Channel:
    """Returns a channel to the server at an address, such as a name, ``unix:/PATH`` or
    ``tcp://HOST:PORT``. It connects at the first call."""
    return (client or default_client()).connect(address)


def hunt(address: str, timeout: float = math.inf) -> None:
    """Waits until a server answers at an address, for ``timeout`` seconds at most."""
    default_client().hunt(address, timeout)


def attach(address: str, *, ping: Optional[float] = None) -> Attachment:
    """Watches over the server at an address, which has to answer now. It is pinged each ``ping``
    seconds, if any."""
    return default_client().attach(address, ping=ping)


class Channel:
    """Where the calls of stubs go. For all threads. ``with`` closes it."""

    def __init__(self, client: Client, address: str) -> None:
        self._client, self.address = client, address
        self._is_closed = False

    def service(self, service: codegen.Service) -> _Object:
        """Returns the callables of a service. Called by generated stubs."""
        native = self._client._native.object(
            self.address, service.descriptor_set, service.name
        )
        return _Object(self, native, service)

    def switch(self, mechanism: str, timeout: float = SWITCH_TIMEOUT) -> None:
        """Moves the connection to another mechanism, such as ``shm``, without losing a call. All
        threads and tasks of its client share it; one of them has called before."""
        self._check()
        self._client._native.switch(self.address, mechanism, timeout).wait()

    def close(self) -> None:
        """Takes no more calls. Those under way go on."""
        self._is_closed = True

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _check(self) -> None:
        if self._is_closed:
            raise ValueError(f"the channel to {self.address} was closed: connect again")


class _Object:
    """An object with the callables of its methods."""

    def __init__(self, channel: Channel, native: Any, service: codegen.Service) -> None:
        self._channel, self._native, self._service = channel, native, service

    def method(self, name: str) -> Any:
        """Returns what calls a method."""
        method = self._service.by_name[name]
        return _SHAPES[method.shape](self._channel, self._native, method)


class Call(Generic[R]):
    """A call that was started: as a future of ``concurrent.futures``."""

    def __init__(self, method: codegen.Method, operation: Any) -> None:
        self._method, self._operation = method, operation
        self._outcome: Optional[Tuple[Any, Optional[BaseException], Metadata, Metadata]] = None
        self._lock = threading.Lock()

    def _wait(self, timeout: Optional[float] = None) -> Any:
        if self._outcome is None:
            end = None if timeout is None else time.monotonic() + timeout
            while not self._operation.wait_briefly():
                if end is not None and time.monotonic() >= end:
                    raise TimeoutError(f"{self._method.name} has not ended in {timeout} s")
            self._take()
        return self._outcome

    def _take(self) -> None:
        with self._lock:
            if self._outcome is not None:
                return
            try:
                reply, trailing, initial = self._operation.result()
                self._outcome = (self._method.parse_reply(reply), None, trailing, initial)
            except RpcError as error:
                self._outcome = (None, error, error.trailing_metadata(), ())

    def result(self, timeout: Optional[float] = None) -> R:
        """Waits for the reply, for ``timeout`` seconds at most (then TimeoutError)."""
        reply, error, _, _ = self._wait(timeout)
        if error is not None:
            raise error
        return reply

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """Waits for the end. Returns the error of a call that has failed."""
        return self._wait(timeout)[1]

    def done(self) -> bool:
        """Returns whether the call has ended."""
        if self._outcome is None and self._operation.is_done():
            self._take()
        return self._outcome is not None

    def is_active(self) -> bool:
        """Returns whether the call has not ended."""
        return not self.done()

    def cancel(self) -> bool:
        """Cancels the call, unless it has ended."""
        return self._operation.cancel()

    def cancelled(self) -> bool:
        """Returns whether the call was cancelled."""
        return self.done() and self.code() is StatusCode.CANCELLED

    def add_done_callback(self, callback: Callable[[Call[R]], None]) -> None:
        """Has a thread call ``callback`` at the end of the call."""

        def wait() -> None:
            try:
                self._wait()
            finally:
                callback(self)

        threading.Thread(target=wait, name="nearcall-callback", daemon=True).start()

    def code(self) -> StatusCode:
        """Waits for the end, and returns the code of its status."""
        error = self._wait()[1]
        return error.code() if isinstance(error, RpcError) else StatusCode.OK

    def details(self) -> str:
        """Waits for the end, and returns the text of its status."""
        error = self._wait()[1]
        return error.details() if isinstance(error, RpcError) else ""

    def trailing_metadata(self) -> Metadata:
        """Waits for the end, and returns what came with it."""
        return self._wait()[2]

    def initial_metadata(self) -> Metadata:
        """Waits for the end, and returns what came before the reply."""
        return self._wait()[3]


class _Callable:
    """Calls a method."""

    __slots__ = ("_channel", "_method", "_native")

    def __init__(self, channel: Channel, native: Any, method: codegen.Method) -> None:
        self._channel, self._native, self._method = channel, native, method

    def loan(self, nbytes: int, timeout: Optional[float] = None) -> Loan:
        """Returns memory for a ``bytes`` field of requests. Waits while the server has too much of
        it."""
        self._channel._check()
        return Loan(self._native.loan(nbytes, timeout).wait())

    def _encode(self, request: Any) -> Any:
        return self._method.request_bytes(request, lend=self._lend)

    def _lend(self, nbytes: int) -> Any:
        try:
            return self._native.loan(nbytes).wait()
        except RpcError as error:
            if error.code() is not StatusCode.RESOURCE_EXHAUSTED:
                raise
            return codegen.plain(nbytes)


class UnaryUnary(_Callable, Generic[Q, R]):
    """Calls a method with one request and one reply."""

    __slots__ = ("_call", "_fast", "_index", "_parse", "_request")

    def __init__(self, channel: Channel, native: Any, method: codegen.Method) -> None:
        super().__init__(channel, native, method)
        self._call, self._index, self._request = native.call, method.index, method.request
        self._fast, self._parse = method.encode_request, method.parse_reply

    def __call__(
        self,
        request: Q,
        timeout: Optional[float] = None,
        metadata: Optional[Iterable[Tuple[str, Any]]] = None,
        wait_for_ready: Optional[bool] = None,
    ) -> R:
        """Calls, waits, and returns the reply. Raises RpcError if the call fails."""
        if self._channel._is_closed:
            self._channel._check()
        encode = self._fast if type(request) is self._request else self._encode
        return self._parse(
            self._call(self._index, encode(request), timeout, metadata, wait_for_ready)
        )

    def borrow(
        self,
        request: Any,
        timeout: Optional[float] = None,
        metadata: Optional[Iterable[Tuple[str, Any]]] = None,
        wait_for_ready: Optional[bool] = None,
    ) -> Buffers[R]:
        """Calls, waits, and returns the reply, whose long fields are not copied."""
        self._channel._check()
        method = self._method
        fields = numbers(method.reply)
        data = self._encode(request)
        return method.borrow_reply(
            self._call(self._index, data, timeout, metadata, wait_for_ready, fields)
        )

    def with_call(
        self,
        request: Q,
        timeout: Optional[float] = None,
        metadata: Optional[Iterable[Tuple[str, Any]]] = None,
        wait_for_ready: Optional[bool] = None,
    ) -> Tuple[R, Call[R]]:
        """Calls, waits, and returns the reply and the call, which has the metadata."""
        call = self.future(request, timeout, metadata, wait_for_ready)
        return call.result(), call

    def future(
        self,
        request: Q,
        timeout: Optional[float] = None,
        metadata: Optional[Iterable[Tuple[str, Any]]] = None,
        wait_for_ready: Optional[bool] = None,
    ) -> Call[R]:
        """Starts a call. Dropping it before its end cancels it."""
        self._channel._check()
        data = self._encode(request)
        started = self._native.start(self._method.index, data, timeout, metadata, wait_for_ready)
        started.start()
        return Call(self._method, started)


class Oneway(_Callable, Generic[Q]):
    """Sends messages that are never answered."""

    __slots__ = ()

    def __call__(
        self,
        request: Q,
        timeout: Optional[float] = None,
        metadata: Optional[Iterable[Tuple[str, Any]]] = None,
        wait_for_ready: Optional[bool] = None,
    ) -> None:
        """Returns when the message is in the channel to the server."""
        self._channel._check()
        data = self._encode(request)
        self._native.send(self._method.index, data, timeout, metadata, wait_for_ready).wait()


class ReplyIterator(Generic[R]):
    """The replies of a call, and the call. Dropping it before its end cancels the call."""

    def __init__(self, method: codegen.Method, opening: Any, borrows: bool = False) -> None:
        self._method, self._opening = method, opening
        self._fields = numbers(method.reply) if borrows else None
        self._parse = method.borrow_reply if borrows else method.parse_reply
        self._replies: Any = None
        self._end: Optional[RpcError] = None
        self._has_ended = False
        opening.start()

    def _opened(self) -> Any:
        if self._replies is None:
            try:
                self._replies = self._opening.wait()
            except RpcError as error:
                self._end, self._has_ended = error, True
                raise
        return self._replies

    def __iter__(self) -> Iterator[R]:
        return self

    def __next__(self) -> R:
        if self._has_ended:
            if self._end is not None:
                raise self._end
            raise StopIteration
        replies = self._opened()
        try:
            item = replies.next(self._fields).wait()
        except RpcError as error:
            self._end, self._has_ended = error, True
            raise
        if item is None:
            self._has_ended = True
            raise StopIteration
        return self._parse(item)

    def cancel(self) -> None:
        """Cancels the call; from any thread, also while another one waits for an item."""
        self._opening.cancel()
        if self._replies is not None:
            self._replies.cancel()

    def is_active(self) -> bool:
        """Returns whether the end of the call was not seen yet."""
        return not self._has_ended

    def initial_metadata(self) -> Metadata:
        """Waits for what the service sends before the first item."""
        return self._opened().headers().wait()

    def trailing_metadata(self) -> Metadata:
        """Returns what came with the end of the call, after that end."""
        if self._end is not None:
            return self._end.trailing_metadata()
        return self._opened().trailing()

    def code(self) -> Optional[StatusCode]:
        """Returns the code of the end of the call, after that end."""
        if not self._has_ended:
            return None
        return self._end.code() if self._end is not None else StatusCode.OK

    def details(self) -> str:
        """Returns the text of the end of the call."""
        return self._end.details() if self._end is not None else ""


class UnaryStream(_Callable, Generic[Q, R]):
    """Calls a method that replies with a stream."""

    __slots__ = ()

    def __call__(
        self,
        request: Q,
        timeout: Optional[float] = None,
        metadata: Optional[Iterable[Tuple[str, Any]]] = None,
        wait_for_ready: Optional[bool] = None,
    ) -> ReplyIterator[R]:
        """Starts the call, and returns an iterator over the replies, which raises its error."""
        opening = self._open(request, timeout, metadata, wait_for_ready)
        return ReplyIterator(self._method, opening)

    def borrow(
        self,
        request: Any,
        timeout: Optional[float] = None,
        metadata: Optional[Iterable[Tuple[str, Any]]] = None,
        wait_for_ready: Optional[bool] = None,
    ) -> ReplyIterator[Buffers[R]]:
        """Starts the call, and returns an iterator over the replies, whose long fields are not
        copied."""
        opening = self._open(request, timeout, metadata, wait_for_ready)
        return ReplyIterator(self._method, opening, borrows=True)

    def _open(self, request: Any, *options: Any) -> Any:
        self._channel._check()
        data = self._encode(request)
        return self._native.open_replies(self._method.index, data, *options)


class StreamUnary(_Callable, Generic[Q, R]):
    """Calls a method that takes a stream."""

    __slots__ = ()

    def __call__(
        self,
        requests: Iterable[Q],
        timeout: Optional[float] = None,
        metadata: Optional[Iterable[Tuple[str, Any]]] = None,
        wait_for_ready: Optional[bool] = None,
    ) -> R:
        """Sends all requests, and returns the reply."""
        return self.with_call(requests, timeout, metadata, wait_for_ready)[0]

    def with_call(
        self,
        requests: Iterable[Q],
        timeout: Optional[float] = None,
        metadata: Optional[Iterable[Tuple[str, Any]]] = None,
        wait_for_ready: Optional[bool] = None,
    ) -> Tuple[R, Call[R]]:
        """Sends all requests, and returns the reply and the call, which has the metadata."""
        call = self._start(requests, timeout, metadata, wait_for_ready)
        return call.result(), call

    def _start(self, requests: Iterable[Q], *options: Any) -> Call[R]:
        """Sends all requests."""
        self._channel._check()
        method = self._method
        stream = self._native.open_requests(method.index, *options).wait()
        try:
            send_all(method, stream, requests)
        except BaseException:
            stream.cancel()
            raise
        return Call(method, stream.finish())


def send_all(method: codegen.Method, stream: Any, requests: Iterable[Any]) -> None:
    """Sends requests until their end, or that of the call."""
    for number, request in enumerate(requests):
        data = method.request_bytes(request, f"requests[{number}]")
        try:
            stream.send(data).wait()
        except RpcError as error:
            if is_too_long(error):
                raise
            # The call has ended; its end says why.
            return


class _BothIterator(ReplyIterator[R]):
    """The replies of a call whose requests a thread sends."""

    def __init__(self, method: codegen.Method, opening: Any, requests: Iterable[Any]) -> None:
        super().__init__(method, opening)
        self._sending = _Sending(method, opening, requests)

    def _opened(self) -> Any:
        if self._replies is None:
            self._sending.opened.wait()
            if self._sending.error is not None:
                self._end, self._has_ended = self._sending.error, True
                raise self._sending.error
            self._replies = self._sending.replies
        return self._replies

    def __next__(self) -> R:
        try:
            return super().__next__()
        except RpcError as error:
            failure, self._sending.failure = self._sending.failure, None
            if failure is not None and error.code() is StatusCode.CANCELLED:
                raise failure from None
            raise


class _Sending:
    """A thread that opens a call and sends its requests. It does not keep the call."""

    def __init__(self, method: codegen.Method, opening: Any, requests: Iterable[Any]) -> None:
        self.opened = threading.Event()
        self.replies: Any = None
        self.error: Optional[RpcError] = None
        #: What the iterator over the requests has raised.
        self.failure: Optional[BaseException] = None
        arguments = (weakref.ref(self), self.opened, method, opening, requests)
        name = "nearcall-requests"
        threading.Thread(target=_send_in_thread, args=arguments, name=name, daemon=True).start()


def _send_in_thread(
    sending: Any, opened: Any, method: codegen.Method, opening: Any, requests: Iterable[Any]
) -> None:
    try:
        stream, replies = opening.wait()
    except RpcError as error:
        found = sending()
        if found is not None:
            found.error = error
        return opened.set()
    found = sending()
    if found is None:
        return None
    found.replies = replies
    del found, replies
    opened.set()
    try:
        send_all(method, stream, requests)
        stream.finish().wait()
    except BaseException as error:
        if isinstance(error, RpcError) and not is_too_long(error):
            # The replies end with it as well.
            return
        found = sending()
        if found is not None:
            found.failure = error
            found.replies.cancel()
        stream.cancel()


class StreamStream(_Callable, Generic[Q, R]):
    """Calls a method whose requests and replies are streams."""

    __slots__ = ()

    def __call__(
        self,
        requests: Iterable[Q],
        timeout: Optional[float] = None,
        metadata: Optional[Iterable[Tuple[str, Any]]] = None,
        wait_for_ready: Optional[bool] = None,
    ) -> ReplyIterator[R]:
        """Has a thread send the requests, and returns an iterator over the replies."""
        self._channel._check()
        index = self._method.index
        opening = self._native.open_both(index, timeout, metadata, wait_for_ready)
        return _BothIterator(self._method, opening, requests)


_SHAPES: Any = {
    codegen.UNARY: UnaryUnary,
    codegen.ONEWAY: Oneway,
    codegen.REPLY_STREAM: UnaryStream,
    codegen.REQUEST_STREAM: StreamUnary,
    codegen.BOTH_STREAMS: StreamStream,
}
