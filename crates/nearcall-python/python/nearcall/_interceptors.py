"""Interceptors: functions between stubs and calls, and between calls and methods.

Not here: those of ``nearcall.aio``, which has none yet.
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
    ) -> None:
        """Sends a message that is never answered."""
        continuation(client_call_details, request)

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


def intercept_channel(channel: Channel, *interceptors: Any) -> Any:
    """Returns the channel with interceptors before its calls, of which the first is called first.

    Calls by ``borrow`` are not there on it.
    """
    return _Channel(channel, interceptors)


class _Channel:
    """A channel with interceptors."""

    def __init__(self, channel: Any, interceptors: Sequence[Any]) -> None:
        self._channel, self._interceptors = channel, interceptors

    def service(self, service: codegen.Service) -> _Object:
        """Returns the callables of a service. Called by generated stubs."""
        return _Object(self._channel.service(service), service, self._interceptors)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def __enter__(self) -> _Channel:
        return self

    def __exit__(self, *_: Any) -> None:
        self._channel.close()


class _Object:
    def __init__(self, inner: Any, service: codegen.Service, interceptors: Sequence[Any]) -> None:
        self._inner, self._service, self._interceptors = inner, service, interceptors

    def method(self, name: str) -> Any:
        """Returns what calls a method."""
        method = self._service.by_name[name]
        shape, intercept, start = _SHAPES[method.shape]
        return shape(self._inner.method(name), method, start, intercept, self._interceptors)


class _Iterated:
    """Calls a method by the interceptors, and returns what they do."""

    def __init__(
        self, inner: Any, method: codegen.Method, start: str, name: str, interceptors: Sequence[Any]
    ) -> None:
        self._path, self.loan = path(method), inner.loan
        make = getattr(inner, start)

        def begin(details: Any, request: Any) -> Any:
            wait = getattr(details, "wait_for_ready", None)
            return make(request, details.timeout, details.metadata, wait)

        self._begin: Callable[..., Any] = begin
        for interceptor in reversed(interceptors):
            intercept = getattr(interceptor, name, None)
            if intercept is not None:
                self._begin = partial(intercept, self._begin)

    def _start(self, request: Any, *options: Any, **named: Any) -> Any:
        return self._begin(ClientCallDetails(self._path, *options, **named), request)

    __call__ = _start


class _Awaited(_Iterated):
    """The same of a call with one reply."""

    def __call__(self, request: Any, *options: Any, **named: Any) -> Any:
        return self._start(request, *options, **named).result()

    def with_call(self, request: Any, *options: Any, **named: Any) -> Tuple[Any, Any]:
        """Calls, waits, and returns the reply and the call."""
        call = self._start(request, *options, **named)
        return call.result(), call


class _Unary(_Awaited):
    """The same of a call with one request and one reply."""

    def future(self, request: Any, *options: Any, **named: Any) -> Any:
        """Starts a call."""
        return self._start(request, *options, **named)


#: What calls a method of a shape, the name of its interceptor, and what starts a call.
_SHAPES: Any = {
    codegen.UNARY: (_Unary, "intercept_unary_unary", "future"),
    codegen.ONEWAY: (_Iterated, "intercept_oneway", "__call__"),
    codegen.REPLY_STREAM: (_Iterated, "intercept_unary_stream", "__call__"),
    codegen.REQUEST_STREAM: (_Awaited, "intercept_stream_unary", "_start"),
    codegen.BOTH_STREAMS: (_Iterated, "intercept_stream_stream", "__call__"),
}


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


def handler(interceptors: Sequence[Any], method: codegen.Method, behaviour: Any, sent: Any) -> Any:
    """Returns what serves a call with this metadata."""

    def continuation(_: Any) -> Any:
        return behaviour

    chosen: Callable[[Any], Any] = continuation
    for interceptor in reversed(interceptors):
        chosen = partial(interceptor.intercept_service, chosen)
    return chosen(HandlerCallDetails(path(method), sent))


def path(method: codegen.Method) -> str:
    """Returns the name of a method with that of its service, as grpc has it."""
    return f"/{method.service}/{method.name}"
