"""Calls that the native plane leaves to Python: each becomes a task in the event loop, as the Python plane has it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from vitrify.core.errors import BusyError, NotOfferedError, VitrifyError
from vitrify.serve.faults import EXHAUSTED, INTERNAL, codes, said
from vitrify.serve.observe import heard
from vitrify.serve.planes._library import CALL, GONE, MESSAGE, lend, library
from vitrify.serve.planes.http_python import deadline_of, decoded
from vitrify.serve.rpc import RpcCall
from vitrify.serve.web import Call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from vitrify.serve.planes import House
    from vitrify.serve.planes._library import Happened
    from vitrify.serve.web import Answer

_TIMEOUT = "x-request-timeout-ms"
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_DIGITS = 8
_CANCELLED, _OK = 1, 0
_LONGEST_TEXT = 2000
_OK, _CANCELLED = 0, 1
_WAITING = 4
"""So many of the largest messages of streaming calls may wait in all."""

_T = TypeVar("_T")


class _Inboxes:
    """What streaming callers have sent and nobody has taken yet.

    Attributes:
        bytes: How much that is in all.
    """

    def __init__(self) -> None:
        """Have none."""
        self._queues: dict[int, asyncio.Queue[bytes | None]] = {}
        self._sizes: dict[int, int] = {}
        self.bytes = 0

    def open(self, number: int) -> None:
        """Begin with a caller."""
        self._queues[number] = asyncio.Queue()
        self._sizes[number] = 0

    def largest(self) -> int:
        """Return the caller of whom most waits."""
        return max(self._sizes, key=self._sizes.__getitem__)

    def put(self, number: int, message: bytes | None) -> None:
        """Add a message, or the end; of a caller that has left, nothing."""
        if number in self._queues:
            self._add(number, len(message or b""))
            self._queues[number].put_nowait(message)

    def end(self) -> None:
        """Add the end for every caller."""
        for number in self._queues:
            self.put(number, None)

    async def take(self, number: int) -> AsyncIterator[bytes]:
        """Yield the messages of a caller to their end."""
        queue = self._queues[number]
        while (message := await queue.get()) is not None:
            self._add(number, -len(message))
            yield message

    def close(self, number: int) -> None:
        """Forget a caller."""
        self._queues.pop(number, None)
        self.bytes -= self._sizes.pop(number, 0)

    def _add(self, number: int, size: int) -> None:
        if number in self._sizes:
            self._sizes[number] += size
            self.bytes += size


class _Head(msgspec.Struct):
    """A call's head, as the library tells it."""

    grpc: bool
    method: str
    path: str
    query: str
    client: str
    id: str
    peer: str
    age: float
    headers: list[tuple[str, str]]

    def fields(self) -> dict[str, str]:
        """Return the headers by name; of one that came twice, the values joined by a comma."""
        fields: dict[str, str] = {}
        for name, value in self.headers:
            fields[name] = f"{fields[name]}, {value}" if name in fields else value
        return fields


class Calls:
    """The calls that are being answered.

    Args:
        native: Has the ``address`` of the library's house.
        house: What answers.
        loop: Where.
    """

    def __init__(self, native: Any, house: House, loop: asyncio.AbstractEventLoop) -> None:
        """Have none."""
        self._native = native
        self._house = house
        self._loop = loop
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._inboxes = _Inboxes()

    def happen(self, happened: Happened) -> None:
        """Take what happened, in any thread; it is only good until this returns."""
        number, what = happened.number, happened.what
        if what == CALL:
            head, body = msgspec.json.decode(happened.head.get(), type=_Head), happened.body.get()
            self._soon(self._begin, number, bool(happened.streaming), head, body)
        elif what == GONE:
            self._soon(self._gone, number)
        else:
            self._soon(self._message, number, happened.body.get() if what == MESSAGE else None)

    def drain(self) -> None:
        """End what streaming callers send: they get their answers, and no more."""
        self._inboxes.end()

    async def stop(self) -> None:
        """Give up what is not answered."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _soon(self, function: Any, *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody answers any more
            self._loop.call_soon_threadsafe(function, *arguments)

    # What follows runs in the loop.

    def _begin(self, number: int, streaming: bool, head: _Head, body: bytes) -> None:  # noqa: FBT001 (the library's)
        if streaming:
            self._inboxes.open(number)
        answer = self._rpc if head.grpc else self._http
        task = self._loop.create_task(answer(number, head, body))
        self._tasks[number] = task
        task.add_done_callback(partial(self._ended, number))

    def _ended(self, number: int, task: asyncio.Task[None]) -> None:
        """Clear up behind a call, also where it was given up before its task had begun."""
        del self._tasks[number]
        self._inboxes.close(number)
        if task.cancelled():
            library().forget(self._native.address, number)
        elif (error := task.exception()) is not None:
            self._house.fault(str(number), error)
            library().forget(self._native.address, number)

    def _message(self, number: int, body: bytes | None) -> None:
        self._inboxes.put(number, body)
        if self._inboxes.bytes > _WAITING * self._house.settings.body:
            number = self._inboxes.largest()
            text = b"messages come quicker than they can be answered"
            library().end(self._native.address, number, EXHAUSTED, lend(text), 1)
            self._gone(number)

    def _gone(self, number: int) -> None:
        if number in self._tasks:
            self._tasks[number].cancel()

    async def _http(self, number: int, head: _Head, body: bytes) -> None:
        began, fields = time.monotonic() - head.age, head.fields()
        path = unquote(head.path, errors="replace")
        query = dict(parse_qsl(head.query, keep_blank_values=True))
        deadline = deadline_of(fields.get(_TIMEOUT, "")) - head.age
        call = Call(head.method, path, query, fields, client=head.client, id=head.id, deadline=deadline)
        try:
            if not head.client and not self._house.dispatcher.is_open(call.method, path):
                self._nobody()
            call.body = decoded(body, fields.get("content-encoding", ""), self._house.settings.body)
        except VitrifyError as error:
            answer = self._house.dispatcher.refused(call, error, began)
        else:
            answer = await self._house.dispatcher(call)
        await self._send(number, answer)

    def _nobody(self) -> None:
        """Refuse who has no name, where names are needed: the library has let in what it took for an open path.

        Raises:
            AuthenticationError: They are needed.
        """
        with self._house.clients.enter(""):
            pass

    async def _send(self, number: int, answer: Answer) -> None:
        lib, house = library(), self._native.address
        fields = msgspec.json.encode(answer.headers)
        if isinstance(answer.body, bytes):
            lib.answer(house, number, answer.status, lend(fields), lend(answer.body))
            return
        lib.begin(house, number, answer.status, lend(fields))
        async with _closing(answer.body) as pieces:
            async for piece in pieces:
                if piece and lib.piece(house, number, lend(piece)) == 0:
                    break  # the client has left
        lib.end(house, number, 0, lend(b""), 0)

    async def _rpc(self, number: int, head: _Head, body: bytes) -> None:
        began, fields = time.monotonic() - head.age, head.fields()
        deadline = began + _seconds(fields.get("grpc-timeout", ""))
        call = RpcCall(head.path, body, fields, head.client, deadline)
        self._house.begun(call)
        status, size = _CANCELLED, 0
        try:
            async with _closing(self._answers(number, call)) as messages:
                async for last, message in messages:
                    size += len(message)
                    send = library().reply if last else library().piece
                    if send(self._native.address, number, lend(message)) == 0:
                        break  # the client has left
            library().end(self._native.address, number, _OK, lend(b""), 0)
            status = _OK
        except Exception as error:  # noqa: BLE001 (the boundary: nothing of ours goes to a client)
            heard.failed(error)
            status = codes(error)[1]
            if status == INTERNAL:
                self._house.fault(head.id, error)
            text = said(error, head.id)[:_LONGEST_TEXT].encode()
            retry = max(1, round(error.retry_after)) if isinstance(error, BusyError) else 0
            library().end(self._native.address, number, status, lend(text), retry)
        finally:
            if call.path not in self._house.methods:  # whoever counts by path must not be made to count everything
                call.path = "none"
            self._house.seen(call, head.id, status, time.monotonic() - began, size)

    async def _answers(self, number: int, call: RpcCall) -> AsyncIterator[tuple[bool, bytes]]:
        """Yield what is answered, and whether it is all of it.

        Raises:
            NotOfferedError: There is no such method.
        """
        method = self._house.methods.get(call.path)
        if not call.client and (method is None or not method.open):
            self._nobody()
        if method is None:
            msg = f"there is no method {call.path[:200]}"
            raise NotOfferedError(msg)
        if method.unary is not None:
            yield True, await method.unary(call)
            return
        assert method.streaming is not None, method.path
        async with _closing(method.streaming(call, self._inboxes.take(number))) as answers:
            async for message in answers:
                yield False, message


@contextlib.asynccontextmanager
async def _closing(pieces: AsyncIterator[_T]) -> AsyncIterator[AsyncIterator[_T]]:
    """End an iterator with the block, where it can be ended: a generator that nobody goes on with."""
    try:
        yield pieces
    finally:
        if (close := getattr(pieces, "aclose", None)) is not None:
            await close()


def _seconds(timeout: str) -> float:
    """Return what ``grpc-timeout`` says: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md."""
    digits, unit = timeout[:-1], timeout[-1:]
    if unit not in _UNITS or not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS):
        return math.inf
    return int(digits) * _UNITS[unit]
