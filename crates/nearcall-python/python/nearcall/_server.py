"""Servers whose methods run in threads."""

from __future__ import annotations

import inspect
import logging
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, NoReturn, Optional, Sequence
from typing import Tuple

from nearcall import _native, _shutdown, codegen
from nearcall._buffers import Loan, numbers
from nearcall._errors import Metadata, RpcError, StatusCode
from nearcall._interceptors import handler

_log = logging.getLogger("nearcall.server")

#: What the caller of a service that has raised an exception gets.
FAILED = "the service failed; its log says why"


#: A shorter field of a reply is copied once more: to have it lent takes two changes of threads.
LEND_BYTES_MIN = 64 << 10


class Abort(Exception):
    """Ends a method with the status that its context has."""


class ServicerContext:
    """A call that a method serves."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._code: Optional[StatusCode] = None
        self._details = ""
        self._trailing: Iterable[Tuple[str, Any]] = ()

    def abort(self, code: StatusCode, details: str) -> NoReturn:
        """Ends the call with an error. Raises an exception, which the method lets pass."""
        if code is StatusCode.OK:
            raise ValueError("a call is not aborted with OK: return the reply")
        self._code, self._details = StatusCode(code), details
        raise Abort()

    def set_code(self, code: StatusCode) -> None:
        """Has the call end with this code when the method returns."""
        self._code = StatusCode(code)

    def set_details(self, details: str) -> None:
        """Sets the text that goes with the code."""
        self._details = details

    def code(self) -> Optional[StatusCode]:
        """Returns the code that was set."""
        return self._code

    def details(self) -> str:
        """Returns the text that was set."""
        return self._details

    def invocation_metadata(self) -> Metadata:
        """Returns what the caller has sent beside the request."""
        return self._call.metadata()

    def set_trailing_metadata(self, metadata: Iterable[Tuple[str, Any]]) -> None:
        """Sends entries with the end of the call."""
        self._trailing = tuple(metadata)

    def send_initial_metadata(self, metadata: Iterable[Tuple[str, Any]]) -> None:
        """Sends entries now, before the first item and the reply."""
        self._call.send_initial(metadata)

    def time_remaining(self) -> Optional[float]:
        """Returns the seconds until the deadline of the call; ``None`` if it has none."""
        return self._call.remaining()

    def is_active(self) -> bool:
        """Returns whether the caller waits for the end of the call."""
        return not self._call.is_cancelled()

    def cancel(self) -> None:
        """Ends the call with CANCELLED."""
        self._call.fail(StatusCode.CANCELLED, "cancelled by the service")

    def loan(self, length: int) -> Loan:
        """Lends memory for a long ``bytes`` field of the reply, which the caller gets without a
        copy where the mechanism can. Raises RpcError with RESOURCE_EXHAUSTED for more than the
        limit, or while the caller has not given back enough of what it was lent before."""
        return Loan(self._call.loan(length).wait())

    def peer(self) -> str:
        """Returns the caller: ``process:PID``, or ``tcp:HOST:PORT``."""
        return self._call.peer()[0]

    def peer_ids(self) -> Tuple[Optional[int], Optional[int]]:
        """Returns the process id and the user id of the caller, as the kernel knows them."""
        return self._call.peer()[1:]

    # What follows is for the server.

    def lend(self, length: int) -> Any:
        """Gives native memory for a field of the reply."""
        if length >= LEND_BYTES_MIN:
            try:
                return self._call.loan(length).wait()
            except RpcError:
                pass  # The reply is copied then, or nothing waits for it.
        return codegen.plain(length)

    def finish(self, reply: Callable[[], bytes]) -> None:
        """Ends the call as the method has left it."""
        if self._code not in (None, StatusCode.OK):
            return self.fail()
        data = reply()
        self._add_trailing()
        self._call.reply(data)

    def fail(self) -> None:
        """Ends the call with the error of the context."""
        self._add_trailing()
        self._call.fail(self._code or StatusCode.UNKNOWN, self._details)

    def fail_by(self, method: codegen.Method, error: BaseException) -> None:
        """Ends the call because the method has raised an exception."""
        if isinstance(error, Abort):
            return self.fail()
        is_over = isinstance(error, RpcError) and (
            error.code() is StatusCode.CANCELLED or self._call.is_cancelled()
        )
        if is_over:
            _log.debug("%s/%s: the caller does not wait any more", method.service, method.name)
        else:
            _log.error("%s/%s failed", method.service, method.name, exc_info=error)
        self._call.fail(StatusCode.INTERNAL, FAILED)

    def request(self, method: codegen.Method, behaviour: Any) -> Any:
        """Returns the request, as the method wants it, or ends the call."""
        if borrows(behaviour):
            data = self._call.borrow(numbers(method.request))
            return self.parse(method, method.borrow_request, data)
        return self.parse(method, method.parse_request, self._call.request)

    def parse(self, method: codegen.Method, parse: Callable[[Any], Any], data: Any) -> Any:
        """Decodes a request, or ends the call."""
        try:
            return parse(data)
        except Exception:
            text = f"the request is no encoded {method.request.DESCRIPTOR.full_name}"
            ServicerContext.abort(self, StatusCode.INVALID_ARGUMENT, text)

    def _add_trailing(self) -> None:
        if self._trailing:
            self._call.add_trailing(self._trailing)


class _Requests:
    """The items of a request."""

    def __init__(self, method: codegen.Method, behaviour: Any, context: ServicerContext) -> None:
        self._context, self._has_ended, self._method = context, False, method
        self._fields, self._parse = items(method, behaviour)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._has_ended:
            raise StopIteration
        item = self._context._call.receive(self._fields).wait()
        if item is None:
            self._has_ended = True
            raise StopIteration
        return self._context.parse(self._method, self._parse, item)


def borrows(behaviour: Any) -> bool:
    """Returns whether a method wants its requests as `Buffers`."""
    return getattr(behaviour, "nearcall_borrows", False)


def items(method: codegen.Method, behaviour: Any) -> Tuple[Optional[List[int]], Any]:
    """Returns the fields of the items of a request that are not copied, and what decodes them."""
    if borrows(behaviour):
        return numbers(method.request), method.borrow_request
    return None, method.parse_request


def serve(
    method: codegen.Method,
    behaviour: Callable[..., Any],
    call: Any,
    interceptors: Sequence[Any] = (),
) -> None:
    """Serves a call in this thread."""
    context = ServicerContext(call)
    try:
        served_by = behaviour
        if interceptors:
            served_by = handler(interceptors, method, lambda _: behaviour, call.metadata())
        if method.shape in (codegen.REQUEST_STREAM, codegen.BOTH_STREAMS):
            argument: Any = _Requests(method, behaviour, context)
        else:
            argument = context.request(method, behaviour)
        result = served_by(argument, context)
        if method.shape in (codegen.REPLY_STREAM, codegen.BOTH_STREAMS):
            _send_all(method, call, result)
            context.finish(lambda: b"")
        elif method.shape == codegen.ONEWAY:
            context.finish(lambda: b"")
        else:
            context.finish(lambda: method.reply_bytes(result, lend=context.lend))
    except BaseException as error:
        context.fail_by(method, error)


def _send_all(method: codegen.Method, call: Any, items: Iterable[Any]) -> None:
    try:
        for number, item in enumerate(items):
            call.send(method.reply_bytes(item, f"replies[{number}]")).wait()
    finally:
        # A generator runs its `finally` now, and not when it is collected.
        close = getattr(items, "close", None)
        if close is not None:
            close()


def behaviours(
    service: codegen.Service, servicer: Any
) -> Dict[str, Tuple[codegen.Method, Callable[..., Any]]]:
    """Returns the methods of a servicer, by their names."""
    found = {}
    for method in service.methods:
        behaviour = getattr(servicer, method.attribute, None)
        if not callable(behaviour):
            raise TypeError(f"{type(servicer).__name__} has no method {method.attribute}")
        found[method.name] = (method, behaviour)
    return found


def is_async(behaviour: Any) -> bool:
    """Returns whether a method is `async def`."""
    return inspect.iscoroutinefunction(behaviour) or inspect.isasyncgenfunction(behaviour)


class Prepared:
    """What servers of threads and of asyncio have: what they serve, and where."""

    def __init__(self, native: Any, interceptors: Sequence[Any]) -> None:
        self._native, self._interceptors = native, tuple(interceptors)
        self._services: List[Dict[str, Tuple[codegen.Method, Callable[..., Any]]]] = []
        #: Where it listens, from its start on.
        self.addresses: List[str] = []

    def add_service(
        self, service: codegen.Service, servicer: Any, name: Optional[str] = None
    ) -> None:
        """Has it serve a servicer. Called by generated ``add_..._to_server`` functions."""
        methods = behaviours(service, servicer)
        for method, behaviour in methods.values():
            reason = self._refuses(behaviour)
            if reason is not None:
                raise TypeError(f"{type(servicer).__name__}.{method.name} is {reason}")
        self._native.register(service.descriptor_set, service.name, name)
        self._services.append(methods)

    def _refuses(self, behaviour: Callable[..., Any]) -> Optional[str]:
        """Returns what is wrong with a method, if anything is."""
        raise NotImplementedError

    def add_address(
        self,
        address: str,
        *,
        socket_mode: Optional[int] = None,
        users: Optional[List[int]] = None,
    ) -> None:
        """Has it listen at an address: a name, ``unix:/PATH``, ``unix:@NAME``,
        ``tcp://HOST:PORT``. ``socket_mode`` and ``users`` say who may connect."""
        self._native.listen(address, socket_mode, users)

    def _listen(self) -> None:
        self.addresses = self._native.start()
        _shutdown.stop_at_exit(self)

    def stop_now(self) -> None:
        """Ends at once, also where no loop runs any more."""
        self._native.stop()


class Server(Prepared):
    """Serves servicers in threads. ``with`` starts and stops it."""

    def __init__(
        self, max_workers: int, maximum_concurrent_rpcs: int, threads: int,
        message_bytes_max: Optional[int], interceptors: Sequence[Any] = (),
    ) -> None:
        native = _native.Server(threads, maximum_concurrent_rpcs, message_bytes_max)
        super().__init__(native, interceptors)
        self._max_workers = max_workers
        self._workers: List[threading.Thread] = []
        self._stopped = threading.Event()
        self._stop_lock = threading.Lock()

    def _refuses(self, behaviour: Callable[..., Any]) -> Optional[str]:
        if is_async(behaviour):
            return "`async def`: serve it with nearcall.aio.server()"
        return None

    def start(self) -> None:
        """Starts to serve. Raises OSError if it cannot listen."""
        self._listen()
        for number in range(self._max_workers):
            name = f"nearcall-worker-{number}"
            worker = threading.Thread(target=self._work, name=name, daemon=True)
            worker.start()
            self._workers.append(worker)

    def _work(self) -> None:
        next_call, services = self._native.next_call, self._services
        while True:
            call = next_call()
            if call is None:
                return
            method, behaviour = services[call.service][call.method]
            serve(method, behaviour, call, self._interceptors)

    def stop(self, grace: Optional[float] = None) -> threading.Event:
        """Takes no more calls, and ends: at once, or after ``grace`` seconds at most in which
        calls under way end. Returns the event of the end."""
        if grace is None or grace <= 0:
            self.stop_now()
        else:
            drain = threading.Thread(target=self._drain, args=(grace,), daemon=True)
            drain.start()
        return self._stopped

    def _drain(self, grace: float) -> None:
        self._native.drain(grace)
        self.stop_now()

    def stop_now(self) -> None:
        """Ends at once."""
        with self._stop_lock:
            self._native.stop()
            self._stopped.set()

    def wait_for_termination(self, timeout: Optional[float] = None) -> bool:
        """Waits until it has stopped, for ``timeout`` seconds at most. Returns whether time was
        up, as that of grpc does."""
        return not self._stopped.wait(timeout)

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop().wait()


def server(
    *,
    max_workers: int = 8,
    maximum_concurrent_rpcs: int = 4096,
    threads: int = 1,
    message_bytes_max: Optional[int] = None,
    interceptors: Sequence[Any] = (),
) -> Server:
    """Makes a server: add servicers and addresses, then start it.

    ``max_workers`` threads run the methods, ``threads`` receive the calls. Calls above
    ``maximum_concurrent_rpcs`` end with RESOURCE_EXHAUSTED. Of ``interceptors`` the first is called
    first: see `ServerInterceptor`.
    """
    return Server(max_workers, maximum_concurrent_rpcs, threads, message_bytes_max, interceptors)
