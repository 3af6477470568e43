"""A real server for the tests of the REST protocols: real artifacts, engine, lanes and sockets."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import tempfile
import threading
import traceback
from pathlib import Path

import httpx
import numpy as np
from onnx import TensorProto, helper

import vitrify
from vitrify.core.signature import Signature
from vitrify.serve.clients import Clients
from vitrify.serve.lanes import Batching
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.models import Served
from vitrify.serve.models.engine import ServingEngine
from vitrify.serve.planes.dispatch import Dispatcher
from vitrify.serve.planes.http_python import HttpServer
from vitrify.serve.ports import ports
from vitrify.serve.protocols import mlflow, oip_rest, openapi, tensorflow_rest
from vitrify.serve.settings import ModelSettings, ServerSettings
from vitrify.serve.web import Call
from vitrify.stores.oci_layout import OciLayout

KINDS = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
}
"""Every datatype that ONNX Runtime and NumPy both hold."""


def everything():
    """A graph that gives back what it gets: an input ``in_KIND`` and an output ``out_KIND`` of each datatype."""
    nodes, inputs, outputs = [], [], []
    for name, kind in KINDS.items():
        nodes.append(helper.make_node("Identity", [f"in_{name}"], [f"out_{name}"]))
        inputs.append(helper.make_tensor_value_info(f"in_{name}", kind, ("N", 2)))
        outputs.append(helper.make_tensor_value_info(f"out_{name}", kind, ("N", 2)))
    graph = helper.make_graph(nodes, "everything", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def doubled():
    """A graph with one matrix: what it gets, twice."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "doubled",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("N", 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("N", 3))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def empty_values(kind):
    if kind == "BYTES":
        return np.array([["a", "b"], ["c", "d"]], object)
    return np.array([[0, 1], [1, 0]]).astype({"BOOL": "bool"}.get(kind, _dtype(kind)))


def _dtype(kind):
    return kind.lower().replace("fp", "float")


def passengers():
    """A table with every difficulty: text, missing text, missing numbers, and integers that no double holds."""
    import pandas as pd

    return pd.DataFrame(
        {
            "age": [22.0, None, 38.0, 4.0, 35.0, 54.0],
            "ticket": np.array([2**60 + 1, 7, 8, 9, 10, 11], np.int64),
            "class": ["third", "first", None, "second", "first", "third"],
        }
    )


@functools.cache
def artifacts():
    """Save the models, once a process; the folder goes when the process ends."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    folder = tempfile.TemporaryDirectory(prefix="vitrify-rest-")
    atexit.register(folder.cleanup)
    store = OciLayout(Path(folder.name))
    vitrify.save(everything(), "everything", example={f"in_{kind}": empty_values(kind) for kind in KINDS}, store=store)
    vitrify.save(doubled(), "doubled", example={"x": np.ones((2, 3), np.float32)}, store=store)
    table = passengers()
    model = make_pipeline(
        make_column_transformer(
            (SimpleImputer(), ["age"]),
            (OneHotEncoder(handle_unknown="ignore"), ["class"]),
        ),
        LogisticRegression(),
    ).fit(table, np.array(["lost", "saved", "saved", "saved", "lost", "lost"]))
    vitrify.save(model, "passengers", example=table, store=store)
    return store


_CLIENTS = {}


def triton_client(server):
    """Return Triton's client of a server. It is kept: its end must come in the thread that made it."""
    import tritonclient.http as triton

    if server.port not in _CLIENTS:
        _CLIENTS[server.port] = triton.InferenceServerClient(f"127.0.0.1:{server.port}", concurrency=2)
    return _CLIENTS[server.port]


class RestServer:
    """A server with its own event loop in its own thread."""

    def __init__(self, names=("everything", "doubled", "passengers")):
        self.faults = []
        self.labels = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.engine = ServingEngine(ThreadLane, store=artifacts())
        self.run(self.engine.start([ModelSettings(reference=name) for name in names]))
        routes = (
            *oip_rest.routes(self.engine, lambda _: self.admin),
            *tensorflow_rest.routes(self.engine, lambda model: self.labels.get(model, {})),
            *mlflow.routes(self.engine),
        )
        self.admin = True
        self.routes = (*routes, *openapi.routes(self.engine, routes))
        self.dispatcher = Dispatcher(self.routes, fault=self._fault)
        self._server = HttpServer(ServerSettings(port=0), self.dispatcher, Clients())
        self.port = self.run(self._server.start())
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=60)

    @contextlib.contextmanager
    def listening(self, routes):
        """Serve other routes on a port of their own while the block runs; yields the port."""
        server = HttpServer(ServerSettings(port=0), Dispatcher(routes, fault=self._fault), Clients())
        try:
            yield self.run(server.start())
        finally:
            self.run(server.stop(5))

    def run(self, coroutine):
        """Run a coroutine in the server's loop, and return what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(120)

    def call(self, method, path, body=b"", headers=None, **fields):
        """Answer a call without a socket."""
        return self.run(self.dispatcher(Call(method, path, headers=dict(headers or {}), body=body, **fields)))

    def post(self, path, body, **headers):
        """Post JSON, and return the answer's status and JSON."""
        content = body if isinstance(body, bytes | str) else None
        json = None if content is not None else body
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        if content is not None:
            names = {"content-type": "application/json", **names}
        answer = self.client.post(path, content=content, json=json, headers=names)
        return answer.status_code, answer.json() if answer.content else None

    def get(self, path):
        """Get JSON."""
        answer = self.client.get(path)
        return answer.status_code, answer.json() if answer.content else None

    def _fault(self, id_, error):
        self.faults.append("".join(traceback.format_exception(error)))

    def close(self):
        """End everything that was begun."""
        self.client.close()
        self.run(self._server.stop(5))
        self.run(self.engine.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def served_by(*inputs, outputs=(), container="dict"):
    """Return what an engine tells of a model with these fields; nothing is loaded."""
    signature = Signature(inputs=inputs, outputs=outputs, container=container)
    takes, gives = ports(signature)
    return Served(
        name="m",
        version="1",
        number=1,
        digest="sha256:" + "0" * 64,
        reference="m",
        platform="onnx_onnxruntime",
        state="READY",
        reason="",
        signature=signature,
        inputs=takes,
        outputs=gives,
        batching=Batching(),
        since=0.0,
        size=1,
    )
