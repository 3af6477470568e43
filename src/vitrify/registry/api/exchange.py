"""One request and its answer on the wire: bodies in bounded memory, and no wait without an end.

An endpoint runs in a thread and the wire in the event loop; between them go pieces of about a MiB, one ahead of the
other side, so that both work at once and neither gathers more.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import LimitExceededError, MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from vitrify.registry.api.routing import Answer

    Message = dict[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

PIECE = 1024 * 1024
BODY_SECONDS = 60.0
"""For a body that is taken into memory, and for each piece of one that streams: slower is not waited for."""
SEND_SECONDS = 60.0
"""For whoever reads an answer to take the next piece."""
_AT_ONCE = 64 * 1024
"""Bytes that the socket's buffer takes without a wait."""
_DISCARDED = PIECE
"""What is left of a body that nobody reads is thrown away up to so much; of a longer one, the connection is closed."""
_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")


class Exchange:
    """A request as it came, and what became of it.

    Attributes:
        id: The caller's ``X-Request-Id``, or a new one.
        status: Of the answer; 499 where the caller left before it.
        sent: Bytes of bodies.
        gone: Whether the caller has left.
    """

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Read nothing of the body yet."""
        self.method: str = scope["method"]
        self.path: bytes = scope["raw_path"] or b""
        self.query: bytes = scope["query_string"]
        self.remote: str = (scope.get("client") or ("",))[0]
        self.headers = _headers(scope["headers"])
        given = self.headers.get("x-request-id", "")
        self.id = given if _ID.fullmatch(given) else secrets.token_hex(8)
        self.actor = ""
        self.label = "none"
        self.status = 499
        self.received = self.sent = 0
        self.gone = False
        self._stuck = False
        self._more = "content-length" in self.headers or "transfer-encoding" in self.headers
        self._receive = receive
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._begun = False

    @property
    def declared(self) -> int | None:
        """How long the body says that it is; None where it does not.

        Raises:
            MalformedError: It says no number.
        """
        said = self.headers.get("content-length")
        if said is None:
            return None if "transfer-encoding" in self.headers else 0
        if not said.isascii() or not said.isdigit() or len(said) > 18:  # noqa: PLR2004 (digits of 64 bits)
            msg = "the length of the body is no number"
            raise MalformedError(msg)
        return int(said)

    async def body(self, most: int) -> bytes:
        """Return the whole body.

        Raises:
            LimitExceededError: It is longer than ``most``.
            UnavailableError: It does not come, or its sender left.
        """
        declared = self.declared
        if declared is not None and declared > most:
            raise _too_long(most)
        gathered = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while self._more:
                    gathered += await self._next()
                    if len(gathered) > most:
                        raise _too_long(most)
        except TimeoutError:
            self._stuck = True
            raise _slow() from None
        return bytes(gathered)

    def pieces(self) -> Iterator[bytes]:
        """Yield the body, in a thread that is not the loop's.

        Raises:
            UnavailableError: It does not go on; what came before was yielded.
        """
        if not self._more:
            return
        following = self._ask(self._gather())
        try:
            while True:
                pieces, failure, more = _result(following, BODY_SECONDS * 2)
                if more:
                    following = self._ask(self._gather())
                if pieces:
                    # One large write costs a disk less than many small ones, by more than this copy.
                    yield pieces[0] if len(pieces) == 1 else b"".join(pieces)
                if failure is not None:
                    raise failure
                if not more:
                    return
        finally:
            following.cancel()

    async def answer(self, answer: Answer) -> None:
        """Send the head of an answer, and its body where that is bytes."""
        body = answer.body if isinstance(answer.body, bytes) else None
        length = answer.length if body is None else len(body)
        headers = [(name.encode(), value.encode("latin-1")) for name, value in answer.headers.items()]
        headers += [(b"x-request-id", self.id.encode()), (b"x-content-type-options", b"nosniff")]
        if length is not None and "content-length" not in answer.headers:
            headers.append((b"content-length", b"%d" % length))
        if self._more and (self._stuck or not self._is_short()):
            headers.append((b"connection", b"close"))
        self.status = answer.status
        self._begun = True
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
        if body is not None or self.method == "HEAD":
            self.sent += 0 if self.method == "HEAD" else len(body or b"")
            doing = self._send({"type": "http.response.body", "body": body or b""})
            await (doing if len(body or b"") <= _AT_ONCE else self._within(doing))

    def pump(self, body: Iterator[bytes | memoryview]) -> None:
        """Send the pieces of a body whose head was sent, in a thread that is not the loop's.

        Raises:
            UnavailableError: Whoever reads it has left or is too slow.
        """
        sending: Future[None] | None = None
        watching = self._ask(self._watch())
        try:
            for piece in body:
                if sending is not None:
                    _result(sending, SEND_SECONDS * 2)
                if self.gone:
                    raise _left()
                message = {"type": "http.response.body", "body": piece, "more_body": True}
                sending = self._ask(self._within(self._send(message)))
                self.sent += len(piece)
            if sending is not None:
                _result(sending, SEND_SECONDS * 2)
            _result(self._ask(self._within(self._send({"type": "http.response.body"}))), SEND_SECONDS * 2)
        finally:
            watching.cancel()

    @property
    def begun(self) -> bool:
        """Whether the head of an answer was sent, so that nothing else can be said any more."""
        return self._begun

    def _ask(self, doing: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(doing, self._loop)

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] != "http.request":
            self.gone, self._more = True, False
            raise _left()
        self._more = message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        self.received += len(piece)
        return piece

    async def _gather(self) -> tuple[list[bytes], UnavailableError | None, bool]:
        """Return the next pieces, what keeps those after them from coming, and whether there are any."""
        gathered, count = [], 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while self._more and count < PIECE:
                    if piece := await self._next():
                        gathered.append(piece)
                        count += len(piece)
        except TimeoutError:
            self._stuck = True
            return gathered, _slow(), False
        except UnavailableError as error:
            return gathered, error, False
        return gathered, None, self._more

    async def _watch(self) -> None:
        """Notice that the caller leaves: a body is sent into the void otherwise."""
        with contextlib.suppress(UnavailableError):
            while not self.gone:
                message = await self._receive()
                self.gone = message["type"] == "http.disconnect"

    async def _within(self, doing: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await doing
        except TimeoutError:
            raise _slow() from None

    def _is_short(self) -> bool:
        said = self.headers.get("content-length", "")
        return said.isdigit() and int(said) - self.received <= _DISCARDED


def _headers(pairs: list[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw, data in pairs:
        name, value = raw.decode("latin-1"), data.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _result(future: Future[Any], seconds: float) -> Any:
    try:
        return future.result(seconds)
    except FutureTimeoutError:
        future.cancel()
        raise _slow() from None


def _too_long(most: int) -> LimitExceededError:
    msg = f"the body has more than {most} bytes"
    return LimitExceededError(msg, remedy="send large content by its digest: POST /v1/uploads")


def _slow() -> UnavailableError:
    return UnavailableError("the other side is too slow: nothing came, or nothing was taken", remedy="go on from there")


def _left() -> UnavailableError:
    return UnavailableError("the other side has left", remedy="ask what has arrived, and go on from there")
