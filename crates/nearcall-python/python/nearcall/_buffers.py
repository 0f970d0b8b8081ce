"""Messages whose long ``bytes`` fields are buffers, which are not copied.

Memory of the native half becomes a buffer by its address. The array of ``ctypes`` that has the
address keeps the object that has the memory, and every view of the array keeps the array.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from typing import Any, Callable, Dict, Generic, List, Tuple, TypeVar

from nearcall import _native

M = TypeVar("M")
F = TypeVar("F", bound=Callable[..., Any])


@functools.lru_cache(maxsize=64)
def _array_type(length: int) -> Any:
    return ctypes.c_ubyte * length


def _array_at(owner: Any) -> Any:
    array = _array_type(len(owner)).from_address(owner.address)
    array.owner = owner
    return array


class Loan:
    """Memory for a long ``bytes`` field of requests, which the server gets without a copy where
    the mechanism can (``shm``).

    ``with`` gives it as a buffer to be written; afterwards it goes into messages, any number of
    times. Its memory is given back when it and those that have received it are gone.
    """

    def __init__(self, native: Any) -> None:
        self._native, self._memory = native, None
        if len(native) > 0:
            array = _array_at(native)
            # Slices of a view do not count as uses of it: the array tells whether there are any.
            self._array: Any = weakref.ref(array)
            self._view = memoryview(array).cast("B")
        else:
            self._array, self._view = _nothing, memoryview(bytearray())

    def __len__(self) -> int:
        return len(self._native)

    @property
    def is_shared(self) -> bool:
        """Whether it is lent to the server, and not copied when it is sent."""
        return self._native.is_shared

    def __enter__(self) -> memoryview:
        return self._view

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.freeze()

    def freeze(self) -> None:
        """Ends the writing. Raises BufferError while an array or a view of it is left."""
        if self._memory is not None:
            return
        text = "something refers to the memory of the loan: `del` its arrays and views before"
        try:
            self._view.release()
        except BufferError:
            raise BufferError(text) from None
        if self._array() is not None:
            raise BufferError(text)
        self._memory = self._native.freeze()

    def memory(self) -> Any:
        """Returns the native memory of one that was written."""
        if self._memory is None:
            raise ValueError("the loan was not written: write it in a `with`, then send it")
        return self._memory


def _nothing() -> None:
    return None


@functools.lru_cache(maxsize=None)
def _fields(kind: Any) -> Tuple[Dict[str, bytes], Dict[int, str]]:
    """Returns the fields of a type that can be buffers: their keys, and their names by number."""
    keys, names = {}, {}
    for field in kind.DESCRIPTOR.fields:
        choice = field.containing_oneof
        is_optional = choice is not None and choice.name == f"_{field.name}"
        is_single = isinstance(getattr(kind(), field.name), bytes)
        if is_single and field.type == field.TYPE_BYTES and (choice is None or is_optional):
            keys[field.name] = _varint(field.number << 3 | 2)
            names[field.number] = field.name
    return keys, names


def numbers(kind: Any) -> List[int]:
    """Returns the numbers of the fields of a type that can be buffers."""
    return list(_fields(kind)[1])


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Buffers(Generic[M]):
    """A message, and buffers in the place of ``bytes`` fields of it.

    To be sent: ``Buffers(Image(width=w), pixels=array)``, where a buffer is a `Loan`, or anything
    contiguous that has the interface of buffers, which is copied once. Received: ``image.message``
    and ``image["pixels"]``, a ``memoryview`` that is read-only.
    """

    __slots__ = ("_given", "_views", "message")

    def __init__(self, message: M, /, **fields: Any) -> None:
        keys = _fields(type(message))[0]
        for name in fields:
            if name not in keys:
                kind = type(message).__name__
                raise TypeError(f"`{name}` is no field of {kind} that can be a buffer")
        self.message, self._given = message, fields
        self._views: Dict[str, memoryview] = {}

    def __getitem__(self, name: str) -> memoryview:
        """Returns a field, also one that was too short for a buffer."""
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = self._view(name)
        return view

    def _view(self, name: str) -> memoryview:
        given = self._given.get(name)
        if given is None:
            if name not in _fields(type(self.message))[0]:
                raise KeyError(name)
            return memoryview(getattr(self.message, name))
        if isinstance(given, Loan):
            given = given.memory()
        if isinstance(given, _native.Memory):
            return memoryview(_array_at(given)).cast("B").toreadonly()
        return memoryview(given).cast("B").toreadonly()

    def release(self) -> None:
        """Lets go of the memory, which goes back to the one that has lent it; an array that was
        made of a view keeps it until it is gone."""
        for view in self._views.values():
            try:
                view.release()
            except BufferError:
                pass  # In use: it goes with its last user.
        self._views, self._given = {}, {}

    def __enter__(self) -> Buffers[M]:
        return self

    def __exit__(self, *_: Any) -> None:
        self.release()

    def parts(self, lend: Callable[[int], Any]) -> List[Any]:
        """Returns the encoded message in parts. ``lend`` gives memory for what is copied."""
        keys = _fields(type(self.message))[0]
        parts: List[Any] = []
        between = self.message.SerializeToString()  # type: ignore[attr-defined]
        for name, given in self._given.items():
            memory = self._memory(name, given, lend)
            between += keys[name] + _varint(len(memory))
            if isinstance(memory, bytes):
                between += memory
                continue
            parts += (between, memory)
            between = b""
        if between or not parts:
            parts.append(between)
        return parts

    def _memory(self, name: str, given: Any, lend: Callable[[int], Any]) -> Any:
        if isinstance(given, Loan):
            return given.memory()
        if isinstance(given, _native.Memory):
            return given
        try:
            view = memoryview(given)
            view = view.cast("B") if view.nbytes else memoryview(b"")
        except TypeError as error:
            kind = type(self.message).__name__
            raise TypeError(f"`{name}` of {kind} is no contiguous buffer: {error}") from None
        if view.nbytes < _native.BUFFER_BYTES_MIN:
            return bytes(view)
        loan = Loan(lend(view.nbytes))
        with loan as into:
            into[:] = view
        return loan.memory()


def received(kind: Any, raw: Tuple[bytes, Tuple[Tuple[int, Any], ...]]) -> Buffers[Any]:
    """Makes a message of what has come."""
    rest, memory = raw
    buffers = Buffers(kind.FromString(rest))
    if memory:
        names = _fields(kind)[1]
        buffers._given = {names[number]: found for number, found in memory}
    return buffers


def borrows(method: F) -> F:
    """Has a method of a servicer get its requests as `Buffers`."""
    method.nearcall_borrows = True  # type: ignore[attr-defined]
    return method
