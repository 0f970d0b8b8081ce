"""Interceptors: functions between stubs and calls, and between calls and methods.

Not here: those of ``nearcall.aio`` (``_aio_interceptors.py``).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Iterable, NamedTuple, Optional, Sequence, Tuple

from nearcall import codegen
from nearcall._channel import Channel
from nearcall._errors import Metadata

Entries = Optional[Iterable[Tuple[str, Any]]]


class ClientCallDetails(NamedTuple):
    """What a call is made with. Pass on a changed copy: ``details._replace(timeout=1.0)``."""

    #: ``/package.Service/Method``
    method: str
    timeout: Optional[float] = None
    metadata: Entries = None
    wait_for_ready: Optional[bool] = None


class ClientInterceptor:
    """Stands between the stubs of a channel and their calls: see `intercept_channel`.

    A method for each shape gets ``continuation``, which makes the call of the details and the
    request that it is given, and returns what the next one is to return. Those that are not
    overridden pass the call on; a class with only some of the methods is fine as well.
    """

    def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        """Returns a started `Call`, or anything else with ``result()``."""
        return continuation(client_call_details, request)

    def intercept_oneway(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        """Sends a message that is never answered."""
        return continuation(client_call_details, request)

    def intercept_unary_stream(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        """Returns an iterator over the replies."""
        return continuation(client_call_details, request)

    def intercept_stream_unary(
        self, continuation: Callable[..., Any], client_call_details: Any, request_iterator: Any
    ) -> Any:
        """Returns a `Call` whose requests were sent, or anything else with ``result()``."""
        return continuation(client_call_details, request_iterator)

    def intercept_stream_stream(
        self, continuation: Callable[..., Any], client_call_details: Any, request_iterator: Any
    ) -> Any:
        """Returns an iterator over the replies."""
        return continuation(client_call_details, request_iterator)


def intercept_channel(channel: Channel, *interceptors: Any) -> Channel:
    """Returns the channel with interceptors before its calls, of which the first is called first.

    Calls by ``borrow`` are not there on it.
    """
    return InterceptedChannel(channel, interceptors)  # type: ignore[return-value]


class InterceptedChannel:
    """A channel with interceptors."""

    #: Those of this kind of channel.
    shapes: Any

    def __init__(self, channel: Any, interceptors: Sequence[Any]) -> None:
        self._channel, self._interceptors = channel, interceptors

    def service(self, service: codegen.Service) -> _Object:
        """Returns the callables of a service. Called by generated stubs."""
        return _Object(self, service)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def __enter__(self) -> InterceptedChannel:
        return self

    def __exit__(self, *_: Any) -> None:
        self._channel.close()


class _Object:
    def __init__(self, channel: InterceptedChannel, service: codegen.Service) -> None:
        self._channel, self._service = channel, service
        self._inner = channel._channel.service(service)

    def method(self, name: str) -> Any:
        """Returns what calls a method."""
        method = self._service.by_name[name]
        shape, intercept, start = self._channel.shapes[method.shape]
        interceptors = self._channel._interceptors
        return shape(self._inner.method(name), path(method), start, intercept, interceptors)


class Intercepted:
    """Calls a method by the interceptors, and returns what they do."""

    def __init__(
        self, inner: Any, method: str, start: str, name: str, interceptors: Sequence[Any]
    ) -> None:
        self._method, self.loan = method, inner.loan
        make = getattr(inner, start)

        def begin(details: Any, request: Any) -> Any:
            wait = getattr(details, "wait_for_ready", None)
            return self.begin(make, request, details.timeout, details.metadata, wait)

        self._begin: Callable[..., Any] = begin
        for interceptor in reversed(interceptors):
            intercept = getattr(interceptor, name, None)
            if intercept is not None:
                self._begin = partial(intercept, self._begin)

    def begin(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """Makes the call, behind all interceptors."""
        return make(*arguments)

    def start(self, request: Any, *options: Any, **named: Any) -> Any:
        """Has the interceptors make a call."""
        return self._begin(ClientCallDetails(self._method, *options, **named), request)

    __call__ = start


class _Awaited(Intercepted):
    """The same of a call with one reply."""

    def __call__(self, request: Any, *options: Any, **named: Any) -> Any:
        return self.start(request, *options, **named).result()

    def with_call(self, request: Any, *options: Any, **named: Any) -> Tuple[Any, Any]:
        """Calls, waits, and returns the reply and the call."""
        call = self.start(request, *options, **named)
        return call.result(), call


class _Unary(_Awaited):
    """The same of a call with one request and one reply."""

    future = Intercepted.start


#: What calls a method of a shape, the name of its interceptor, and what starts a call.
SHAPES: Any = {
    codegen.UNARY: (_Unary, "intercept_unary_unary", "future"),
    codegen.ONEWAY: (Intercepted, "intercept_oneway", "__call__"),
    codegen.REPLY_STREAM: (Intercepted, "intercept_unary_stream", "__call__"),
    codegen.REQUEST_STREAM: (_Awaited, "intercept_stream_unary", "_start"),
    codegen.BOTH_STREAMS: (Intercepted, "intercept_stream_stream", "__call__"),
}
InterceptedChannel.shapes = SHAPES


class HandlerCallDetails(NamedTuple):
    """The call that a server is about to serve."""

    #: ``/package.Service/Method``
    method: str
    invocation_metadata: Metadata


class ServerInterceptor:
    """Stands between the calls of a server and its methods: ``nearcall.server(interceptors=...)``.
    """

    def intercept_service(
        self, continuation: Callable[[Any], Any], handler_call_details: Any
    ) -> Callable[[Any, Any], Any]:
        """Returns what serves the call: what ``continuation`` has returned, which is a function of
        the request, or an iterator over requests, and the context; or another such function."""
        return continuation(handler_call_details)


def handler(
    interceptors: Sequence[Any],
    method: codegen.Method,
    continuation: Callable[[Any], Any],
    sent: Metadata,
) -> Any:
    """Has interceptors choose what serves a call with this metadata. The innermost calls
    ``continuation``; where that is ``async def`` so are they, and the result is awaited."""
    for interceptor in reversed(interceptors):
        continuation = partial(interceptor.intercept_service, continuation)
    return continuation(HandlerCallDetails(path(method), sent))


def path(method: codegen.Method) -> str:
    """Returns the name of a method with that of its service, as grpc has it."""
    return f"/{method.service}/{method.name}"
