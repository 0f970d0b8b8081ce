"""Interceptors of channels of asyncio: ``async def`` with the names of
`nearcall.ClientInterceptor`."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, AsyncIterator, Coroutine, Generator

from nearcall import _interceptors, codegen
from nearcall._errors import Metadata, StatusCode


class Call:
    """A call behind interceptors: await it for its reply, or iterate over its replies."""

    def __init__(self, started: Coroutine[Any, Any, Any]) -> None:
        self._task = asyncio.ensure_future(started)

    async def _reply(self) -> Any:
        call = await self._task
        return await call if inspect.isawaitable(call) else call

    def __await__(self) -> Generator[Any, None, Any]:
        return self._reply().__await__()

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in await self._task:
            yield item

    def cancel(self) -> None:
        """Cancels the call, unless it has ended."""
        if not self._task.cancel() and not self._task.cancelled() and not self._task.exception():
            # An interceptor may have returned a reply.
            getattr(self._task.result(), "cancel", lambda: None)()

    async def code(self) -> StatusCode:
        """Returns the code of the status, as the call does that the interceptors have returned."""
        return await (await self._task).code()

    async def details(self) -> str:
        """Returns the text of the status."""
        return await (await self._task).details()

    async def initial_metadata(self) -> Metadata:
        """Waits for what came before the reply."""
        return await (await self._task).initial_metadata()

    async def trailing_metadata(self) -> Metadata:
        """Returns what came with the end."""
        return await (await self._task).trailing_metadata()


class _Started(_interceptors.Intercepted):
    """Calls a method by the interceptors."""

    def begin(self, make: Any, *arguments: Any) -> Any:
        async def begun() -> Any:
            return make(*arguments)

        return begun()

    def __call__(self, request: Any, *options: Any, **named: Any) -> Call:
        return Call(self.start(request, *options, **named))


class _Sent(_interceptors.Intercepted):
    """Sends a message by the interceptors: what is returned is awaited."""


#: What calls a method of a shape, the name of its interceptor, and what starts a call.
_SHAPES: Any = {
    shape: (_Sent if shape == codegen.ONEWAY else _Started, name, "__call__")
    for shape, (_, name, _) in _interceptors.SHAPES.items()
}


class InterceptedChannel(_interceptors.InterceptedChannel):
    """A channel with interceptors. ``async with`` closes it."""

    shapes = _SHAPES

    async def __aenter__(self) -> InterceptedChannel:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self._channel.close()
