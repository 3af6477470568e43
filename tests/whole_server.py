"""The whole server in a thread, on either plane: settings, engine, protocols, rollout, sockets."""

from __future__ import annotations

import asyncio
import io
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper
from served_models import ROWS, multiplier, seal

from vitrify.core.signature import Field, Signature
from vitrify.registry.api.log import Log
from vitrify.serve.planes.native import missing
from vitrify.serve.server import Server
from vitrify.serve.settings import ServerSettings, Settings

PLANES = ("python", "native")
EXACT = 2**53 + 1


@dataclass
class Running:
    """A server that runs.

    Attributes:
        http: ``127.0.0.1:port`` of REST.
        grpc: The same of gRPC.
        plane: Which plane moves its bytes.
        server: Itself.
    """

    http: str
    grpc: str
    plane: str
    server: Server


@contextmanager
def whole(plane, store, models, *, seconds=10.0, **settings):
    """Run a server until the block ends; it must then have answered everything."""
    if plane == "native":
        assert not missing(), missing()
    server_settings = ServerSettings(
        port=0, grpc_port=0, plane=plane, drain_seconds=seconds, **settings.pop("server", {})
    )
    told = Settings(server=server_settings, models=tuple(models), **settings)
    log = Log(io.StringIO())
    ready, found, ended = threading.Event(), {}, {}

    async def serve():
        server = found["server"] = Server(told, log, store=store)
        ended["loop"], ended["event"] = asyncio.get_running_loop(), asyncio.Event()
        found["orderly"] = await server.until(ended["event"], listens)

    def listens(listening):
        found["listening"] = listening
        ready.set()

    def run():
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 (it is raised where the test is)
            found["error"] = error
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="whole-server")
    thread.start()
    try:
        ready.wait()
        if "error" in found:
            raise found["error"]
        listening = found["listening"]
        yield Running(listening.http.partition("://")[2], listening.grpc, listening.plane, found["server"])
    finally:
        if "event" in ended:
            with suppress(RuntimeError):  # it ended by itself: it could not begin
                ended["loop"].call_soon_threadsafe(ended["event"].set)
        thread.join()
        log.close()
    assert found.get("orderly"), found


def _graph(nodes, inputs, outputs):
    infos = [[helper.make_tensor_value_info(*one) for one in side] for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, "graph", *infos)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def same(store, name, kind, dtype, golden):
    """Seal a model that gives back its one input, ``x``, as ``y``."""
    model = _graph(
        [helper.make_node("Identity", ["x"], ["y"])], [("x", kind, ["batch", 2])], [("y", kind, ["batch", 2])]
    )
    signature = Signature(
        inputs=(Field(name="x", dtype=dtype, shape=("batch", 2)),),
        outputs=(Field(name="y", dtype=dtype, shape=("batch", 2)),),
        container="dict",
    )
    return seal(store, name, model, signature, ({"x": golden}, {"y": golden}))


def logarithm(store, name):
    """Seal a model that gives NaN and infinities: the logarithm of its input, and one divided by it."""
    model = _graph(
        [helper.make_node("Log", ["x"], ["log"]), helper.make_node("Reciprocal", ["x"], ["inverse"])],
        [("x", TensorProto.FLOAT, ["batch"])],
        [("log", TensorProto.FLOAT, ["batch"]), ("inverse", TensorProto.FLOAT, ["batch"])],
    )
    signature = Signature(
        inputs=(Field(name="x", dtype="float32"),),
        outputs=(Field(name="log", dtype="float32"), Field(name="inverse", dtype="float32")),
        container="dict",
    )
    rows = np.array([1.0, 2.0, 4.0], np.float32)
    return seal(store, name, model, signature, ({"x": rows}, {"log": np.log(rows), "inverse": 1 / rows}))


def models(store):
    """Seal one of each kind: ``times``, ``exact`` (int64), ``odd`` (NaN and infinities), ``text``."""
    multiplier(store, "times", 2.0)
    same(store, "exact", TensorProto.INT64, "int64", np.array([[1, EXACT], [-EXACT, 0]], np.int64))
    logarithm(store, "odd")
    text = np.array([["a", "b"], ["ä", ""]], dtype=object)
    same(store, "text", TensorProto.STRING, "string", text)
    return ("times", "exact", "odd", "text")


__all__ = ["EXACT", "PLANES", "ROWS", "Running", "models", "whole"]
