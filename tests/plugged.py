"""A model that a test holds in its hand, behind a lane of a whole server; and sockets, to say what no client would."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
import struct
from contextlib import contextmanager

import grpc
import numpy as np
from both_planes import INFER
from wire import message

from vitrify.core.signature import Signature
from vitrify.serve.models import Served
from vitrify.serve.protocols._messages import messages
from vitrify.testing.lane_models import INPUTS, LIMIT, OUTPUTS, WIDTH, Model, row, spec

GLASS = "glass"


def plug_in(running, model, name=GLASS, **batching):
    """Serve a function as a model from now on; returns its lane."""
    told = dataclasses.replace(spec(**batching), model=name)
    lane = running.server.plane.lane(told, model, None)
    served = Served(
        name=name,
        version=told.version,
        number=3,
        digest=told.digest,
        reference=name,
        platform="function",
        state="READY",
        reason="",
        signature=Signature(inputs=INPUTS, outputs=OUTPUTS, container="dict"),
        inputs=told.inputs,
        outputs=told.outputs,
        batching=told.batching,
        since=0.0,
        size=1,
    )
    running.server.engine.add(served, lane)
    return lane


@contextmanager
def plugged(running, model, name=GLASS, **batching):
    """Serve a function as a model while the block runs; yields its lane. A held model is released at the end."""
    try:
        yield plug_in(running, model, name, **batching)
    finally:
        if isinstance(model, Model):
            model.release()
        asyncio.run(running.server.engine.unload(name))


def document(*values, **more):
    """Return the JSON of a request with one row for each value."""
    array = row(*values)
    tensor = {"name": "x", "shape": list(array.shape), "datatype": "FP32", "data": array.ravel().tolist()}
    return json.dumps({"inputs": [tensor], **more}).encode()


def rpc(*values, model=GLASS, parameters=()):
    """Return the ``ModelInferRequest`` with one row for each value; parameters are whole numbers by name."""
    array = row(*values)
    tensor = message((1, "x"), (2, "FP32"), *((3, size) for size in array.shape))
    more = [(4, message((1, name), (2, message((2, value))))) for name, value in parameters]
    return message((1, model), *more, (5, tensor), (7, array.tobytes()))


def head(body=b"", *fields, path=f"/v2/models/{GLASS}/infer", method="POST", length=None, keep=False):
    """Return a request over HTTP/1.1: its head, and the body behind it; the last one of its connection, or not."""
    lines = [f"{method} {path} HTTP/1.1", "host: here", *fields]
    if not keep and not any(one.lower().startswith("connection") for one in fields):
        lines.append("connection: close")
    if length is None and not any(one.lower().startswith("transfer-encoding") for one in fields):
        length = len(body)
    lines += [] if length in {None, ""} else [f"content-length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextmanager
def connected(address):
    """Connect to ``host:port``."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), LIMIT) as connection:
        yield connection


def rest_of(connection):
    """Return everything that comes until the other side closes, or resets."""
    found = b""
    try:
        while piece := connection.recv(65536):
            found += piece
    except ConnectionError:
        pass
    return found


def exactly(connection, size):
    """Return so many bytes, which must come."""
    found = b""
    while len(found) < size:
        piece = connection.recv(size - len(found))
        assert piece, "closed too early"
        found += piece
    return found


def answers(text):
    """Return the status and the body of each answer in what came over HTTP/1.1; interim ones are left out."""
    found = []
    while text:
        top, _, text = text.partition(b"\r\n\r\n")
        first, *lines = top.decode("latin-1").split("\r\n")
        status = int(first.split()[1])
        fields = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines}
        size = int(fields.get("content-length", 0 if 100 <= status < 200 else len(text)))
        if status >= 200:
            found.append((status, fields, text[:size]))
        text = text[size:]
    return found


def exchange(address, *pieces, end=False):
    """Send bytes, perhaps say that there are no more, and return what is answered until the other side closes."""
    with connected(address) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            if end:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it was refused while it was sent
        return rest_of(connection)


def well(running, value=3):
    """Assert that an honest client is answered, over both protocols."""
    [(status, _, body)] = answers(exchange(running.http, head(document(value))))
    assert (status, firsts(body)) == (200, [value])
    with grpc.insecure_channel(running.grpc, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        answer = messages("inference").ModelInferResponse.FromString(
            channel.unary_unary(INFER)(rpc(value), timeout=LIMIT)
        )
    assert np.frombuffer(answer.raw_output_contents[1], np.int64).tolist() == [value]


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    """Return a frame of HTTP/2."""
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def fields(*pairs):
    """Return a block of HPACK in its plainest form: names and values as they are, nothing indexed."""
    return b"".join(b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in pairs)


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = frame(4)


def call(stream, path=b"/inference.GRPCInferenceService/ModelInfer", *more, content=b"application/grpc"):
    """Return the frame that begins a call."""
    block = fields(
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"here"),
        (b"content-type", content),
        (b"te", b"trailers"),
        *more,
    )
    return frame(1, 4, stream, block)


def firsts(body):
    """Return the first value of each row that was answered, as JSON."""
    outputs = {one["name"]: one["data"] for one in json.loads(body)["outputs"]}
    assert np.allclose(outputs["twice"][::WIDTH], 2 * np.array(outputs["first"]))
    return outputs["first"]
