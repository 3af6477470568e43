"""``ModelStreamInfer``: many requests and their answers over one call.

Requests are worked on side by side, so that they can become batches; their answers come in the order of the requests.
A model that makes parts gives each as it is made. A request that fails does so alone: its error is a message of the
stream, and the next one is answered. So it is with a request that is more than its client may ask.

Source: Triton's ``decoupled_models.md`` for what marks the last part of an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import VitrifyError
from vitrify.serve.faults import INTERNAL, codes, said
from vitrify.serve.protocols._messages import aside, messages
from vitrify.serve.protocols._oip_grpc_request import infer_of, response_of, size_of, value_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from vitrify.serve.models import Engine
    from vitrify.serve.rpc import RpcCall
    from vitrify.serve.values import Reply

AHEAD = 64
"""So many requests of one call are worked on at a time; the next is not read from the client before."""
BYTES_AHEAD = 64 * 1024 * 1024
"""Of these requests, in all; a single one may be larger."""
PARTS_AHEAD = 4
"""So many parts of one answer wait for the client; the model is not asked for the next before."""
FINAL = "triton_final_response"
WANTS_EMPTY = "triton_enable_empty_final_response"

_Parts = asyncio.Queue[Any]
"""Messages for the client, then None; or the error that ends the call."""


async def stream_infer(
    requests: AsyncIterator[Any], call: RpcCall, engine: Engine, charge: Callable[[str], None]
) -> AsyncGenerator[Any, None]:
    """Answer requests as they come; the first is what the call itself was let in for, each other one is charged."""
    waiting: asyncio.Queue[_Parts] = asyncio.Queue(AHEAD)
    tasks: set[asyncio.Task[None]] = set()
    room = _Room(BYTES_AHEAD)

    async def read() -> None:
        last = _Parts()
        pay = _free
        try:
            async for request in requests:
                parts, size = _Parts(PARTS_AHEAD), request.ByteSize()
                await room.take(size)
                await waiting.put(parts)
                task = asyncio.create_task(_answer(request, size, call, engine, parts, pay=pay))
                pay = partial(charge, call.client)
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                task.add_done_callback(partial(room.give, size))
            last.put_nowait(StopAsyncIteration())
        except Exception as error:  # noqa: BLE001 (it ends the call, where it is raised again)
            last.put_nowait(error)
        await waiting.put(last)

    reader = asyncio.create_task(read())
    try:
        while True:
            parts = await waiting.get()
            while (part := await parts.get()) is not None:
                if isinstance(part, StopAsyncIteration):
                    return
                if isinstance(part, Exception):
                    raise part
                yield part
    finally:
        for task in (reader, *tasks):
            task.cancel()
        await asyncio.gather(reader, *tasks, return_exceptions=True)


class _Room:
    """So many bytes, for one who takes and many who give back."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self._freed = asyncio.Event()

    async def take(self, size: int) -> None:
        """Wait until there is room; what is larger than all of it gets all of it."""
        while min(size, self._most) > self._left:
            self._freed.clear()
            await self._freed.wait()
        self._left -= min(size, self._most)

    def give(self, size: int, _task: asyncio.Task[None]) -> None:
        """Give back what was taken."""
        self._left += min(size, self._most)
        self._freed.set()


def _free() -> None:
    """Cost nothing."""


async def _answer(
    request: Any, size: int, call: RpcCall, engine: Engine, parts: _Parts, *, pay: Callable[[], None]
) -> None:
    """Put everything that is said to one request."""
    said_ = messages("inference")
    try:
        pay()
        async with contextlib.aclosing(_flagged(engine, request, size, call)) as replies:
            final = False
            async for reply, final in replies:
                response = await aside(size_of(reply), response_of, reply, request, engine)
                response.parameters[FINAL].bool_param = final
                await parts.put(said_.ModelStreamInferResponse(infer_response=response))
            if not final and _wants_empty(request):
                await parts.put(_empty(request))
    except VitrifyError as error:
        if codes(error)[1] == INTERNAL:
            await parts.put(error)
            return
        failed = said_.ModelStreamInferResponse(error_message=said(error))
        failed.infer_response.id = request.id
        await parts.put(failed)
    except Exception as error:  # noqa: BLE001 (it ends the call, where it is raised again)
        await parts.put(error)
        return
    await parts.put(None)


async def _flagged(engine: Engine, request: Any, size: int, call: RpcCall) -> AsyncGenerator[tuple[Reply, bool], None]:
    """Yield the parts of an answer, and of each whether it is the last as far as can be told without waiting."""
    replies = engine.stream(await aside(size, infer_of, request, call, engine))
    current = await anext(replies, None)
    while current is not None:
        following = asyncio.create_task(_next(replies))
        try:
            await asyncio.sleep(0)  # a model that has made its last part says so at once
            yield current, following.done() and following.exception() is None and following.result() is None
            current = await following
        finally:
            following.cancel()


async def _next(replies: AsyncIterator[Reply]) -> Reply | None:
    return await anext(replies, None)


def _wants_empty(request: Any) -> bool:
    return WANTS_EMPTY in request.parameters and value_of(request.parameters[WANTS_EMPTY]) is True


def _empty(request: Any) -> Any:
    """Return the message that only says that an answer is complete."""
    message = messages("inference").ModelStreamInferResponse()
    response = message.infer_response
    response.model_name, response.model_version, response.id = request.model_name, request.model_version, request.id
    response.parameters[FINAL].bool_param = True
    return message
