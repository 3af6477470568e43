"""Dispatch: from a call to the endpoint that answers it, and from an error to what its protocol says.

It is the one boundary at which everything is caught: a client never sees more of a fault of ours than its request's id.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from vitrify.core.errors import BusyError, VitrifyError
from vitrify.serve.faults import codes, said
from vitrify.serve.observe import heard
from vitrify.serve.web import Answer, Router

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from vitrify.serve.web import Call, Route

    Seen = Callable[[Call, str, int, float, int], None]

_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_INTERNAL, _UNAUTHORIZED = 500, 401
_CHALLENGE = 'Bearer realm="vitrify"'
"""What every 401 must say: RFC 9110, 15.5.2. The native plane says the same (``native/src/oip_rest_answer.rs``)."""
_LEFT = 499
"""As proxies call it; nobody is there to be told."""


def request_id(given: str) -> str:
    """Return the caller's name for a request where it can stand in a log, else a new one."""
    return given if _ID.fullmatch(given) else secrets.token_hex(8)


class Dispatcher:
    """Answers calls.

    Args:
        routes: Every endpoint; of two that fit, the first.
        fault: Told what went wrong on our side: the request's id and the error.
        begun: Told of each call, in the task that will answer it, before anything else.
        seen: Told of each call that has ended, in the same task: the call, the route's label, the status, the seconds
            that it took, and the bytes of the answer. An answer that streams has ended when its last piece was taken;
            a caller that has left is 499.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        *,
        fault: Callable[[str, BaseException], None],
        begun: Callable[[Call], None] = lambda _call: None,
        seen: Seen = lambda _call, _label, _status, _seconds, _bytes: None,
    ) -> None:
        """Compile the routes."""
        self.router = Router(routes)
        self._fault, self._begun, self._seen = fault, begun, seen

    async def __call__(self, call: Call) -> Answer:
        """Answer a call; it never raises."""
        began = time.monotonic()
        call.id = request_id(call.id)
        self._begun(call)
        found = self.router.match(call.method, call.path)
        label = "none" if isinstance(found, frozenset) else found[0].label
        try:
            answer = await self._answer(call, found)
        except asyncio.CancelledError:
            self._seen(call, label, _LEFT, time.monotonic() - began, 0)
            raise
        return self._end(call, label, answer, began)

    def refused(self, call: Call, error: VitrifyError, began: float) -> Answer:
        """Return what is said to a call that was not let in, or whose body did not come.

        Args:
            call: As far as it came.
            error: Why.
            began: When it came, by ``time.monotonic()``.
        """
        call.id = request_id(call.id)
        self._begun(call)
        heard.failed(error)
        answer = _may_come_again(plain_error(error, codes(error)[0]), error)
        return self._end(call, "refused", answer, began)

    async def _answer(self, call: Call, found: tuple[Route, dict[str, str]] | frozenset[str]) -> Answer:
        if isinstance(found, frozenset):
            return _nowhere(call, found)
        route, call.fields = found
        try:
            return await route.endpoint(call)
        except Exception as error:  # noqa: BLE001 (the boundary)
            return self.failed(route, call, error)

    def _end(self, call: Call, label: str, answer: Answer, began: float) -> Answer:
        answer.headers.setdefault("x-request-id", call.id)
        answer.headers.setdefault("x-content-type-options", "nosniff")
        if answer.status == _UNAUTHORIZED:
            answer.headers.setdefault("www-authenticate", _CHALLENGE)
        if isinstance(answer.body, bytes):
            self._seen(call, label, answer.status, time.monotonic() - began, len(answer.body))
        else:
            answer.body = self._streamed(call, label, answer.status, answer.body, began)
        return answer

    async def _streamed(
        self, call: Call, label: str, status: int, body: AsyncIterator[bytes], began: float
    ) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for piece in body:
                size += len(piece)
                yield piece
        except (asyncio.CancelledError, GeneratorExit):
            status = _LEFT
            raise
        finally:
            if isinstance(body, AsyncGenerator):  # what it has begun ends now, not when it is collected
                await body.aclose()
            self._seen(call, label, status, time.monotonic() - began, size)

    def failed(self, route: Route, call: Call, error: Exception) -> Answer:
        """Return what a route's protocol says of an error."""
        heard.failed(error)
        status, _ = codes(error)
        if status == _INTERNAL:
            self._fault(call.id, error)
            error = VitrifyError(said(error, call.id))
        return _may_come_again(route.failed(error, status), error)

    def is_open(self, method: str, path: str) -> bool:
        """Whether a call needs no token."""
        found = self.router.match(method, path)
        return not isinstance(found, frozenset) and found[0].open


def plain_error(error: Exception, status: int) -> Answer:
    """Say an error as the Open Inference Protocol does."""
    body = json.dumps({"error": str(error)}).encode()
    return Answer(status, body, {"content-type": "application/json"})


def _may_come_again(answer: Answer, error: Exception) -> Answer:
    """Say when, where an error knows it."""
    if isinstance(error, BusyError):
        answer.headers["retry-after"] = str(max(1, round(error.retry_after)))
    return answer


def _nowhere(call: Call, methods: frozenset[str]) -> Answer:
    if not methods:
        error = VitrifyError(f"there is nothing at {call.path[:200]}", remedy="GET / shows the models and all routes")
        return plain_error(error, 404)
    allowed = ", ".join(sorted(methods))
    answer = plain_error(VitrifyError(f"{call.path[:200]} takes {allowed}, not {call.method[:20]}"), 405)
    answer.headers["allow"] = allowed
    return answer
