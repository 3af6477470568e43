"""Messages: the classes of what travels over gRPC, and the way from a typed handler to a method that moves bytes.

The descriptors are in a pool of our own. Client libraries register the same names (``inference.*``, ``tensorflow.*``)
in the pool that a process shares, each with its own idea of them; the server runs in one process with any of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from vitrify.core.errors import MalformedError, NotOfferedError
from vitrify.reading._protobuf_wire import BYTES, spans
from vitrify.reading.malformed import exceed
from vitrify.serve.protocols._proto import parse
from vitrify.serve.rpc import Method

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping

    from vitrify.serve.rpc import RpcCall

    Message = Any
    Unary = Callable[[Message, RpcCall], Awaitable[Message]]
    """A handler: one message to one message."""
    Streaming = Callable[[AsyncIterator[Message], RpcCall], AsyncGenerator[Message, None]]
    """A handler: messages to messages."""

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")
_FOLDER = Path(__file__).parent / "proto"
FILES = ("tensorflow", "inference", "tensorflow_serving", "health", "reflection", "reflection_v1alpha")
"""In the order in which they need each other."""
SMALL = 64 * 1024
"""A message that is no longer is parsed as it is: whatever is in it, its objects take a few megabytes."""
LARGE = 256 * 1024
"""What is longer is read and written in a thread, so that the event loop goes on."""
MAX_PARTS = 500_000
"""Of a message that is not small: fields in all, of which each may become an object many times its size."""


@cache
def pool() -> Any:
    """Return the pool, with all our files in it."""
    from google.protobuf import any_pb2, descriptor_pool, wrappers_pb2  # type: ignore[import-untyped]

    made = descriptor_pool.DescriptorPool()
    for known in (any_pb2, wrappers_pb2):
        made.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    for name in FILES:
        made.AddSerializedFile(parse(f"{name}.proto", _text(name)).SerializeToString())
    return made


@cache
def messages(name: str) -> SimpleNamespace:
    """Return the classes and enumerations of one of our files, by their names there."""
    from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper  # type: ignore[import-untyped]
    from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

    file = pool().FindFileByName(f"{name}.proto")
    classes = {one.name: GetMessageClass(one) for one in file.message_types_by_name.values()}
    enumerations = {one.name: EnumTypeWrapper(one) for one in file.enum_types_by_name.values()}
    return SimpleNamespace(**classes, **enumerations)


def bind(
    service: str, handlers: Mapping[str, Unary | Streaming], *, absent: str = "", without_token: Collection[str] = ()
) -> tuple[Method, ...]:
    """Return the methods of a service.

    Args:
        service: Its full name.
        handlers: By the method's name.
        absent: Why the methods without a handler are not offered.
        without_token: The methods for which nobody has to say who it is.
    """
    described = pool().FindServiceByName(service)
    return tuple(
        _bound(method, handlers.get(method.name), absent, without_token=method.name in without_token)
        for method in described.methods
    )


def decode(kind: type[Message], message: bytes) -> Message:
    """Return a message from its bytes.

    Raises:
        MalformedError: They are no such message, or a field of it came as another kind than it has: the library would
            pass it over like one that it does not know, and the caller be answered as if it had not been there.
        LimitExceededError: It has so many parts that its objects would take many times its bytes.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    if len(message) > SMALL:
        _count(kind.DESCRIPTOR, memoryview(message))
    try:
        found = kind.FromString(message)
        size = found.ByteSize()
        found.DiscardUnknownFields()
        unknown = found.ByteSize() != size
        if unknown and (place := _misfit(kind.FromString(message))):
            msg = f"{place}: it is on the wire as another kind of field than it is"
            raise MalformedError(msg)
    except DecodeError as error:
        raise _not_a(kind.DESCRIPTOR) from error
    return found


def _misfit(message: Message) -> str:
    """Return the path of the first field that came as another kind than it has; empty for none."""
    from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

    known = message.DESCRIPTOR.fields_by_number
    for field in UnknownFieldSet(message):
        if field.field_number in known:
            return str(known[field.field_number].name)
    for described, value in message.ListFields():
        if described.message_type is None:
            continue
        if hasattr(value, "items"):
            parts = [(f".{key}", one) for key, one in value.items()]
        elif hasattr(value, "__len__"):
            parts = [(f"[{index}]", one) for index, one in enumerate(value)]
        else:
            parts = [("", value)]
        for place, part in parts:
            if hasattr(part, "DESCRIPTOR") and (found := _misfit(part)):
                return f"{described.name}{place}.{found}"
    return ""


async def decoded(kind: type[Message], message: bytes) -> Message:
    """Return a message from its bytes, as :func:`decode`, without holding up the event loop."""
    return await aside(len(message), decode, kind, message)


async def aside(size: int, function: Callable[[Unpack[_Arguments]], _Result], *arguments: *_Arguments) -> _Result:
    """Call a function whose work grows with so many bytes: here, or in a thread where they are many."""
    return await asyncio.to_thread(function, *arguments) if size > LARGE else function(*arguments)


def _bound(described: Any, handler: Unary | Streaming | None, absent: str, *, without_token: bool) -> Method:
    from google.protobuf.message_factory import GetMessageClass

    path = f"/{described.containing_service.full_name}/{described.name}"
    kind = GetMessageClass(described.input_type)
    if handler is None:
        return Method(path, unary=_refusal(described.name, absent))
    answer: Any = handler

    async def unary(call: RpcCall) -> bytes:
        said = await answer(await decoded(kind, call.message), call)
        return bytes(said.SerializeToString())

    async def streaming(call: RpcCall, received: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async with contextlib.aclosing(answer(_each(kind, received), call)) as answers:
            async for said in answers:
                yield said.SerializeToString()

    if described.server_streaming:
        return Method(path, streaming=streaming, open=without_token)
    return Method(path, unary=unary, open=without_token)


async def _each(kind: type[Message], received: AsyncIterator[bytes]) -> AsyncIterator[Message]:
    async for message in received:
        yield await decoded(kind, message)


def _refusal(name: str, absent: str) -> Callable[[RpcCall], Awaitable[bytes]]:
    async def refuse(_call: RpcCall) -> bytes:
        msg = f"this server has no {name}: {absent}"
        raise NotOfferedError(msg)

    return refuse


def _count(descriptor: Any, view: memoryview) -> None:
    """Walk through the parts of a message without making them.

    Raises:
        MalformedError: It is no message.
        LimitExceededError: There are too many.
    """
    left = MAX_PARTS
    stack = [(descriptor, 0, len(view))]
    while stack:
        described, start, end = stack.pop()
        inner = {one.number: one.message_type for one in described.fields if one.message_type is not None}
        try:
            for number, kind, _, body, stop in spans(view, start, end, ""):
                left -= 1
                if left < 0:
                    break
                if kind == BYTES and number in inner:
                    stack.append((inner[number], body, stop))
        except MalformedError:
            raise _not_a(descriptor) from None
        if left < 0:
            remedy = "send tensors as raw bytes, or fewer rows at a time"
            exceed("the message", f"more than {MAX_PARTS} fields, strings and messages", remedy=remedy)


def _not_a(descriptor: Any) -> MalformedError:
    return MalformedError(f"the message is no {descriptor.full_name}, or is cut off")


def _text(name: str) -> str:
    plain = name.removesuffix("_v1alpha")
    text = (_FOLDER / f"{plain}.proto").read_text(encoding="utf-8")
    return text if plain == name else text.replace("package grpc.reflection.v1;", "package grpc.reflection.v1alpha;")
