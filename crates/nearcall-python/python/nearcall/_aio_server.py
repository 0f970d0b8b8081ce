"""Servers whose methods are ``async def``, in a loop of asyncio."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, AsyncIterator, Callable, Dict, NoReturn, Optional, Sequence

from nearcall import _native, _server, codegen
from nearcall._buffers import Loan
from nearcall._errors import StatusCode
from nearcall._interceptors import handler
from nearcall._loop import Step


class ServicerContext(_server.ServicerContext):
    """A call that a method serves. ``abort``, ``send_initial_metadata`` and ``loan`` are
    awaited."""

    async def abort(self, code: StatusCode, details: str) -> NoReturn:  # type: ignore[override]
        """Ends the call with an error. Raises an exception, which the method lets pass."""
        super().abort(code, details)

    async def send_initial_metadata(self, metadata: Any) -> None:  # type: ignore[override]
        """Sends entries now, before the first item and the reply."""
        super().send_initial_metadata(metadata)

    async def loan(self, length: int) -> Loan:  # type: ignore[override]
        """Lends memory for a long ``bytes`` field of the reply, as in threads."""
        return Loan(await Step(self._call.loan(length)))


async def _requests(
    method: codegen.Method, behaviour: Any, context: ServicerContext
) -> AsyncIterator[Any]:
    fields, parse = _server.items(method, behaviour)
    while True:
        item = await Step(context._call.receive(fields))
        if item is None:
            return
        yield context.parse(method, parse, item)


async def _serve(
    method: codegen.Method, behaviour: Callable[..., Any], call: Any, interceptors: Sequence[Any]
) -> None:
    context = ServicerContext(call)
    try:
        served_by = behaviour
        if interceptors:

            async def chosen(_: Any) -> Any:
                return behaviour

            served_by = await handler(interceptors, method, chosen, call.metadata())
        if method.shape in (codegen.REQUEST_STREAM, codegen.BOTH_STREAMS):
            argument: Any = _requests(method, behaviour, context)
        else:
            argument = context.request(method, behaviour)
        result = served_by(argument, context)
        if inspect.isasyncgen(result):
            await _send_all(method, call, result)
        else:
            result = await result
        if method.shape == codegen.UNARY or method.shape == codegen.REQUEST_STREAM:
            context.finish(lambda: method.reply_bytes(result))
        else:
            context.finish(lambda: b"")
    except asyncio.CancelledError:
        call.fail(StatusCode.CANCELLED, "cancelled by the service")
        raise
    except BaseException as error:
        context.fail_by(method, error)
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise


async def _send_all(method: codegen.Method, call: Any, items: Any) -> None:
    try:
        number = 0
        async for item in items:
            await Step(call.send(method.reply_bytes(item, f"replies[{number}]")))
            number += 1
    finally:
        await items.aclose()


class Server(_server.Prepared):
    """Serves servicers in the loop that starts it. ``async with`` starts and stops it.

    Methods that are not ``async def`` run in the threads of the loop's executor.
    """

    def __init__(
        self, maximum_concurrent_rpcs: int, threads: int, message_bytes_max: Optional[int],
        interceptors: Sequence[Any] = (),
    ) -> None:
        self._notifier = _native.Notifier()
        native = _native.Server(
            threads, maximum_concurrent_rpcs, message_bytes_max, self._notifier
        )
        super().__init__(native, interceptors)
        self._tasks: Dict[int, Any] = {}
        self._stopped: Any = None
        self._loop: Any = None

    def _refuses(self, behaviour: Callable[..., Any]) -> Optional[str]:
        if self._interceptors and not _server.is_async(behaviour):
            return "no `async def`, which methods of a server with interceptors have to be"
        return None

    async def start(self) -> None:
        """Starts to serve in this loop. Raises OSError if it cannot listen."""
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._loop.add_reader(self._notifier.fileno(), self._ready)
        self._listen()

    def _ready(self) -> None:
        self._notifier.take()
        for event in self._native.take():
            if isinstance(event, int):
                task = self._tasks.get(event)
                if task is not None:
                    task.cancel()
                continue
            self._start(event)

    def _start(self, call: Any) -> None:
        method, behaviour = self._services[call.service][call.method]
        if _server.is_async(behaviour):
            task: Any = self._loop.create_task(
                _serve(method, behaviour, call, self._interceptors)
            )
        else:
            task = self._loop.run_in_executor(None, _server.serve, method, behaviour, call)
        number, tasks = call.id, self._tasks
        tasks[number] = task
        task.add_done_callback(lambda _: tasks.pop(number, None))

    async def stop(self, grace: Optional[float] = None) -> None:
        """Takes no more calls, and ends: at once, or after ``grace`` seconds at most in which
        calls under way end."""
        loop = asyncio.get_running_loop()
        if grace is not None and grace > 0:
            await loop.run_in_executor(None, self._native.drain, grace)
        await loop.run_in_executor(None, self._native.stop)
        loop.remove_reader(self._notifier.fileno())
        for task in list(self._tasks.values()):
            task.cancel()
        if self._stopped is not None:
            self._stopped.set()

    async def wait_for_termination(self, timeout: Optional[float] = None) -> bool:
        """Waits until it has stopped, for ``timeout`` seconds at most. Returns whether time was
        up."""
        try:
            await asyncio.wait_for(self._stopped.wait(), timeout)
        except asyncio.TimeoutError:
            return True
        return False

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.stop()


def server(
    *,
    maximum_concurrent_rpcs: int = 4096,
    threads: int = 1,
    message_bytes_max: Optional[int] = None,
    interceptors: Sequence[Any] = (),
) -> Server:
    """Makes a server: add servicers and addresses, then ``await server.start()``.

    Of ``interceptors`` the first is called first: those of `nearcall.ServerInterceptor`, with
    ``async def``. The methods are ``async def`` as well then.
    """
    return Server(maximum_concurrent_rpcs, threads, message_bytes_max, interceptors)
