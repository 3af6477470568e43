"""Answers as they are made, and Triton's plain form: ``generate``, ``generate_stream``, ``infer_stream``.

``generate`` takes an object of inputs by name, scalars or flat arrays, as one request of one row; what no input is
called is a parameter. It gives an object of outputs by name, scalars where there is one element. A streamed answer is
one server-sent event a part; an error after the first part is an event too: ``{"error": ...}``.

Source: ``docs/protocol/extension_generate.md`` of https://github.com/triton-inference-server/server; ``infer_stream``
is MLServer's.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import ModelError, SignatureError, VitrifyError
from vitrify.serve.faults import said
from vitrify.serve.ports import BYTES, to_session
from vitrify.serve.protocols import _data, _json, _oip_rest_answer, _oip_rest_request
from vitrify.serve.protocols._asking import answered, aside, ask, askable
from vitrify.serve.protocols._described import ANYTHING, OBJECT, DescribedRoute, an_object
from vitrify.serve.protocols._elements import elements
from vitrify.serve.web import Answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import numpy as np

    from vitrify.core.protocols import Arrays
    from vitrify.serve.models import Engine, Served
    from vitrify.serve.ports import Port
    from vitrify.serve.protocols._json import Raw
    from vitrify.serve.values import Infer, Reply
    from vitrify.serve.web import Call, Route

    Array = np.ndarray[Any, Any]

_LOG = logging.getLogger(__name__)

EVENTS = "text/event-stream"
_RESERVED = {"id", "parameters"}
_TEXT = {"type": "string"}
_GENERATED = an_object({"model_name": _TEXT, "model_version": _TEXT}, "model_name", "model_version")


def stream_routes(engine: Engine, infer_request: dict[str, Any]) -> tuple[Route, ...]:
    """Return the extensions' routes; the request of ``infer_stream`` is that of ``infer``."""
    streams = _Streams(engine)
    rows = (
        ("infer_stream", streams.infer_stream, "Run the model; the answer comes in parts.", infer_request, EVENTS),
        ("generate", streams.generate, "Run the model on plain values by name.", OBJECT, _json.JSON),
        ("generate_stream", streams.generate_stream, "As generate; the answer comes in parts.", OBJECT, EVENTS),
    )
    return tuple(
        DescribedRoute(
            *("POST", f"{path}/{verb}", endpoint, verb, _json.error_answer),
            summary=summary,
            takes={_json.JSON: takes},
            gives={media: _GENERATED if media == _json.JSON else ANYTHING},
        )
        for path in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")
        for verb, endpoint, summary, takes, media in rows
    )


@dataclass(frozen=True)
class _Streams:
    engine: Engine

    async def generate(self, call: Call) -> Answer:
        """Answer as one object."""
        reply = await self.engine.infer(await self._plain(call))
        return Answer(200, generated(reply), {"content-type": _json.JSON})

    async def generate_stream(self, call: Call) -> Answer:
        """Answer with an event a part."""
        return await _events(self.engine.stream(await self._plain(call)), generated, call.id)

    async def infer_stream(self, call: Call) -> Answer:
        """Answer with an event a part, each as ``infer`` would answer."""
        version = call.fields.get("version", "")
        served = askable(self.engine, call.fields["model"], version)
        asked = await aside(len(call.body), _oip_rest_request.read, call, served, version)
        if asked.binary or any(one.binary for one in asked.wanted):
            msg = "infer_stream answers with events, which are text; binary_data cannot be had"
            raise SignatureError(msg, remedy="leave binary_data and binary_data_output out")

        def event(reply: Reply) -> bytes:
            body = _oip_rest_answer.write(reply, answered(self.engine, reply), asked).body
            assert isinstance(body, bytes)
            return body

        return await _events(self.engine.stream(asked.infer), event, call.id)

    async def _plain(self, call: Call) -> Infer:
        version = call.fields.get("version", "")
        served = askable(self.engine, call.fields["model"], version)
        return await aside(len(call.body), read, call, served, version)


def read(call: Call, served: Served, version: str) -> Infer:
    """Return the request of ``generate``.

    Raises:
        MalformedError: The body is no object.
        SignatureError: A value does not fit the input that it is named after.
    """
    body = _json.request(call.body)
    given = _json.members(body["parameters"], "parameters") if "parameters" in body else {}
    names = {port.name: port for port in served.inputs}
    inputs: Arrays = {}
    parameters: dict[str, Any] = {}
    for where, name, text in (
        *((name, name, text) for name, text in body.items() if name not in _RESERVED or name in names),
        *((f"parameters.{name}", name, text) for name, text in given.items()),
    ):
        if name not in names:
            parameters[name] = _json.plain(text, where)
        elif name not in inputs:
            array = _value(text, names[name], where, gaps=names[name].field.nullable or served.signature.is_table)
            inputs[name] = to_session(array, names[name])
    id_ = _json.plain(body["id"], "id", str | int | None) if "id" in body and "id" not in names else None
    text_id = "" if id_ is None else str(id_)
    return ask(call, served.name, inputs, version=version, id_=text_id, parameters=parameters)


def generated(reply: Reply) -> bytes:
    """Return an answer as one object."""
    head = _oip_rest_answer.said(reply)
    outputs = {name: _scalar(array) for name, array in reply.outputs.items()}
    return msgspec.json.encode({**outputs, **head})


def _value(text: Raw, port: Port, where: str, *, gaps: bool) -> Array:
    """Return a scalar, or a flat array, in the shape of one row of an input."""
    whole = bytes(text).strip()
    listed = whole if whole.startswith(b"[") else b"[" + whole + b"]"
    if whole.startswith(b"{"):
        msg = f"{where}: an object, expected a value or an array of values for {port.field}"
        raise SignatureError(msg)
    count = len(_json.plain(listed, where, list[Any])) if port.datatype == BYTES else _count(listed)
    shape = list(port.shape)
    if shape and shape[0] < 0 and (len(shape) > 1 or not whole.startswith(b"[")):
        shape[0] = 1
    free = [axis for axis, size in enumerate(shape) if size < 0]
    known = math.prod(size for size in shape if size >= 0)
    for axis in free:
        shape[axis] = count // known if axis == free[-1] and known else 1
    return elements(listed, port.datatype, tuple(shape), where=where, gaps=gaps, mixed=port.field.dtype == "object")


def _count(listed: bytes) -> int:
    return listed.count(b",") + 1 if listed[1:-1].strip() else 0


def _scalar(array: Array) -> msgspec.Raw:
    text = _data.flat(array, _data.STRINGS, _data.as_text)
    return msgspec.Raw(text if array.size == 1 else b"[" + text + b"]")


async def _events(parts: AsyncIterator[Reply], said_as: Callable[[Reply], bytes], id_: str) -> Answer:
    """Return an answer in events. The first part is waited for, so that an error before it has a status of its own."""
    try:
        first = said_as(await anext(parts))
    except StopAsyncIteration:
        msg = "the model gave no answer"
        raise ModelError(msg) from None

    async def pieces() -> AsyncIterator[bytes]:
        try:
            yield _event(first)
            async for part in parts:
                yield _event(said_as(part))
        except Exception as error:  # noqa: BLE001 (the boundary: the status has been sent already)
            if not isinstance(error, VitrifyError):
                _LOG.error("request %s failed while it was answered", id_, exc_info=error)
            yield _event(msgspec.json.encode({"error": said(error, id_)}))
        finally:
            if isinstance(parts, AsyncGenerator):
                await parts.aclose()  # the client may have left

    return Answer(200, pieces(), {"content-type": EVENTS, "cache-control": "no-store"})


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"
