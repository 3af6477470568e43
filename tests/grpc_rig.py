"""A gRPC server in a thread of its own, and a small engine for it, for tests with real clients."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify import containers
from vitrify.core.errors import ReferenceNotFoundError, SignatureError, VitrifyError
from vitrify.core.signature import Field, Signature
from vitrify.serve.clients import Clients
from vitrify.serve.faults import codes
from vitrify.serve.lanes import Batching, Figures
from vitrify.serve.models import Served
from vitrify.serve.planes.grpc_python import GrpcServer
from vitrify.serve.ports import ports
from vitrify.serve.settings import ServerSettings
from vitrify.serve.values import Reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from vitrify.core.protocols import Arrays
    from vitrify.serve.rpc import Method
    from vitrify.serve.settings import ModelSettings
    from vitrify.serve.values import Infer

DIGEST = "sha256:" + "ab" * 32
SECONDS = 60.0
"""A test that waits longer hangs."""


@dataclass
class Model:
    served: Served
    run: Callable[[Arrays], Arrays]
    parts: int = 1


class LocalEngine:
    """Answers with functions, one call at a time; what it is asked is kept."""

    def __init__(self) -> None:
        self.models: dict[tuple[str, str], Model] = {}
        self.ready = True
        self.asked: list[Infer] = []
        self.loaded: list[ModelSettings] = []
        self.known: tuple[ModelSettings, ...] = ()
        self.figured = Figures()

    def add(self, name, inputs, outputs, run, *, version="1", number=1, parts=1, state="READY", batching=None):
        signature = Signature(inputs=inputs, outputs=outputs)
        ins, outs = ports(signature)
        rows = batching or Batching(rows=1)
        served = Served(
            name, version, number, DIGEST, name, "onnx_onnxruntime", state, "", signature, ins, outs, rows, 0.0, 1
        )
        self.models[name, version] = Model(served, run, parts)
        return served

    def _find(self, name: str, version: str = "") -> Model:
        found = [one for key, one in self.models.items() if key[0] == name and version in {"", key[1]}]
        if not found:
            msg = f"no model is called {name!r}"
            raise ReferenceNotFoundError(msg)
        return found[-1]

    async def infer(self, request: Infer) -> Reply:
        return [reply async for reply in self.stream(request)][-1]

    async def stream(self, request: Infer) -> AsyncIterator[Reply]:
        self.asked.append(request)
        model = self._find(request.model, request.version)
        served = model.served
        if unknown := set(request.outputs) - {field.name for field in served.signature.outputs}:
            msg = f"no output is called {sorted(unknown)}"
            raise SignatureError(msg)
        outputs = model.run(containers.conform(request.inputs, served.signature.inputs))
        wanted = {name: outputs[name] for name in request.outputs or outputs}
        for part in range(model.parts):
            parameters = {"part": part} if model.parts > 1 else {}
            yield Reply(served.name, served.version, wanted, request.id, served.digest, parameters)

    def served(self, name: str, version: str = "") -> Served:
        return self._find(name, version).served

    def index(self) -> tuple[Served, ...]:
        return tuple(one.served for one in self.models.values())

    def figures(self, name: str, version: str) -> Figures:
        return self.figured

    def settings(self, name: str) -> tuple[ModelSettings, ...]:
        return tuple(one for one in self.known if one.name == name)

    async def load(self, settings: ModelSettings) -> Served:
        self.loaded.append(settings)
        model = self._find(settings.name)
        model.served = replace(model.served, state="READY")
        return model.served

    async def unload(self, name: str, version: str = "") -> None:
        model = self._find(name, version)
        model.served = replace(model.served, state="UNAVAILABLE", reason="unloaded")


DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "string", "bytes"),
)


def echo(engine: LocalEngine) -> None:
    """Add a model for each element type that gives back what it takes: ``echo_int8`` from ``x`` to ``x``."""
    for dtype in DTYPES:
        field = Field(name="x", dtype=dtype, shape=("batch", "width"))
        engine.add(f"echo_{dtype}", (field,), (field,), dict)


@contextlib.contextmanager
def serving(
    methods: tuple[Method, ...], settings: ServerSettings | None = None, clients: Clients | None = None, **hooks: Any
) -> Iterator[str]:
    """Yield the address of a server in a thread."""
    faults: list[BaseException] = []
    hooks.setdefault("fault", lambda _id, error: faults.append(error))
    chosen = (settings or ServerSettings()).replace(grpc_port=0)
    server = GrpcServer(chosen, methods, clients or Clients(), **hooks)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        port = asyncio.run_coroutine_threadsafe(server.start(), loop).result(SECONDS)
        yield f"127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(0), loop).result(SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        loop.close()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that will be so."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


def same(left: np.ndarray, right: np.ndarray) -> bool:
    """Say whether two arrays are equal in every bit that counts; NaN is equal to itself."""
    floats = left.dtype.kind == "f"
    return left.shape == right.shape and left.dtype == right.dtype and np.array_equal(left, right, equal_nan=floats)


def status_of(function: Callable[[], object]) -> int:
    """Return the HTTP status of what a function raises, by which all faults of ours are 500; 200 for nothing."""
    try:
        function()
    except VitrifyError as error:
        return codes(error)[0]
    return 200
