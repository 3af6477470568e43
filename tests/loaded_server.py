"""``vitrify serve`` as a process of its own, with a model that writes down what it ran, and clients that load it."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import numpy as np
from onnx import TensorProto, helper
from served_models import seal
from tritonclient.grpc import service_pb2

from vitrify.core.document import Code
from vitrify.core.signature import Field, Signature
from vitrify.stores.oci_layout import OciLayout

LIMIT = 120.0
"""Seconds that anything may take before a test gives up; nothing is expected to."""
INFER = "/inference.GRPCInferenceService/ModelInfer"
GOLDEN = np.array([[-1.0, 1.0], [-2.0, 5.0], [-3.0, 0.5]])
SOURCE = '''
"""Writes down the ids in its first column, waits while its gate is closed, and answers."""
import os, time

def predict(x):
    with open({folder!r} + "/ran", "a") as stream:
        stream.write("".join(f"{{int(one)}}\\n" for one in x[:, 0]))
    while os.path.exists({folder!r} + "/closed"):
        time.sleep(0.002)
    time.sleep({seconds})
    return x * {factor}
'''


def until(condition, what):
    """Wait until a condition holds."""
    ends = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < ends, f"in {LIMIT:.0f} s: not {what}"
        time.sleep(0.005)


@dataclass
class Recorder:
    """The model ``recorder``: ``[id, value]`` gives both times a factor; ids below zero are its golden samples.

    Attributes:
        folder: Where it writes, and where its gate is.
    """

    folder: Path

    def seal(self, store, factor=2.0, seconds=0.0):
        """Seal it; again with another factor, it is its next version."""
        source = SOURCE.format(folder=str(self.folder), seconds=seconds, factor=factor).encode()
        inputs, outputs = (Field(name=name, dtype="float64", shape=("batch", 2)) for name in ("x", "output"))
        return seal(
            store,
            "recorder",
            {"callable.json": b'{"object": "recorder:predict"}', "code/recorder.py": source},
            Signature(inputs=(inputs,), outputs=(outputs,), container="numpy"),
            ({"x": GOLDEN}, {"output": GOLDEN * factor}),
            kind="python",
            runtime="python",
            entry={"call_style": "argument", "call_batched": True},
            code=Code(modules={"recorder": "code/recorder.py"}, names=("recorder.predict",)),
        )

    def close(self):
        (self.folder / "closed").touch()

    def open(self):
        (self.folder / "closed").unlink()

    def ran(self):
        """Return how often each id was run."""
        text = (self.folder / "ran").read_text() if (self.folder / "ran").exists() else ""
        return Counter(number for number in map(int, text.split()) if number >= 0)


def seal_graph(store):
    """Seal a graph that does what the recorder does, but for writing: it runs in the server's own process."""
    infos = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["batch", 2]) for name in ("x", "output")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["output"])], "twice", infos[:1], infos[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    fields = [Field(name=name, dtype="float64", shape=("batch", 2)) for name in ("x", "output")]
    signature = Signature(inputs=(fields[0],), outputs=(fields[1],), container="dict")
    return seal(store, "recorder", model, signature, ({"x": GOLDEN}, {"output": GOLDEN * 2}))


@dataclass
class Loaded:
    """A server that runs.

    Attributes:
        process: It; told to end by ``terminate``.
        http: ``127.0.0.1:port`` of REST.
        grpc: The same of gRPC.
        said: File of what it says, one JSON a line.
    """

    process: subprocess.Popen
    http: str
    grpc: str
    said: Path

    def events(self):
        """Return what it said so far: the names of the events."""
        return [json.loads(line)["event"] for line in self.said.read_text().splitlines() if line.startswith("{")]

    def children(self):
        """Return the processes that it started, and those that they started."""
        parents = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(folder.name))
        found = list(parents.get(self.process.pid, ()))
        for one in found:
            found += parents.get(one, [])
        return found

    def memory(self):
        """Return the bytes that all its processes hold, shared pages divided."""
        total = 0
        for one in (self.process.pid, *self.children()):
            try:
                lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            except OSError:
                continue
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
        return total

    def post(self, path, body=None):
        """Ask for something over REST, beside the load; return status and JSON."""
        connection = http.client.HTTPConnection(self.http, timeout=LIMIT)
        try:
            connection.request("POST", path, json.dumps(body or {}), {"Content-Type": "application/json"})
            response = connection.getresponse()
            said = response.read()
            return response.status, json.loads(said) if said else None
        finally:
            connection.close()


@contextmanager
def loaded(folder, plane, *, models=None, batching=None, **server):
    """Run ``vitrify serve`` with the store at ``folder / "home"`` until the block ends."""
    model = {"reference": "recorder", "allow": ["recorder.predict"], **(models or {})}
    rows = [f"{name} = {json.dumps(value)}" for name, value in model.items()]
    held = [f"{name} = {json.dumps(value)}" for name, value in (batching or {}).items()]
    told = {"port": 0, "grpc_port": 0, "plane": plane, "drain_seconds": LIMIT, **server}
    lines = [f"{name} = {json.dumps(value)}" for name, value in told.items()]
    config = folder / "serve.toml"
    config.write_text("\n".join(["[server]", *lines, "[[models]]", *rows, "[models.batching]", *held]) + "\n")
    command = [str(Path(sys.executable).with_name("vitrify")), "serve", "--config", str(config), "--json"]
    said = folder / "said.jsonl"
    with said.open("w") as log:
        own = {**os.environ, "VITRIFY_HOME": str(folder / "home")}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=own, text=True)
    try:
        line = process.stdout.readline()
        assert line, said.read_text()
        where = json.loads(line)
        assert where["plane"] == plane
        yield Loaded(process, where["http"].partition("://")[2], where["grpc"], said)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(LIMIT)
        finally:
            process.kill()
            process.stdout.close()


def store(folder):
    """Return the store that :func:`loaded` serves from."""
    return OciLayout(folder / "home" / "store")


class Rest:
    """A client over REST: one connection, made anew after an error."""

    def __init__(self, address):
        self._connection = http.client.HTTPConnection(address, timeout=LIMIT)

    def __call__(self, number, headers=None):
        """Ask for one id; return the status, the answer's first number where there is one, and the headers."""
        tensor = {"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [number, 0.5]}
        headers = {"Content-Type": "application/json", **(headers or {})}
        try:
            self._connection.request("POST", "/v2/models/recorder/infer", json.dumps({"inputs": [tensor]}), headers)
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return "closed", repr(error), {}
        value = json.loads(body)["outputs"][0]["data"][0] if response.status == 200 else None
        return response.status, value, {name.lower(): one for name, one in response.getheaders()}

    def close(self):
        self._connection.close()


class Rpc:
    """A client over gRPC, with a connection of its own."""

    def __init__(self, address):
        self._channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self._infer = self._channel.unary_unary(INFER)

    def __call__(self, number, headers=None, timeout=LIMIT):
        """Ask for one id; return the status in words of HTTP, the answer's first number, and the details."""
        request = service_pb2.ModelInferRequest(model_name="recorder")
        tensor = request.inputs.add()
        tensor.name, tensor.datatype = "x", "FP64"
        tensor.shape.extend([1, 2])
        request.raw_input_contents.append(np.array([number, 0.5]).tobytes())
        try:
            body = self._infer(request.SerializeToString(), timeout=timeout, metadata=tuple((headers or {}).items()))
        except grpc.RpcError as error:
            return error.code().name, None, {"details": error.details()}
        answer = service_pb2.ModelInferResponse.FromString(body)
        return 200, float(np.frombuffer(answer.raw_output_contents[0])[0]), {}

    def close(self):
        self._channel.close()


@dataclass
class Crowd:
    """Clients that ask again and again, half over REST and half over gRPC, each id only once.

    Attributes:
        said: By id: what was answered.
        breaks: By client: how often it began to find nobody who answers.
    """

    server: Loaded
    count: int = 16
    said: dict = field(default_factory=dict)
    breaks: Counter = field(default_factory=Counter)

    def __post_init__(self):
        self._ids = itertools.count()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(at,)) for at in range(self.count)]

    def _ask(self, at):
        client, found = Rest(self.server.http) if at % 2 else Rpc(self.server.grpc), True
        try:
            while not self._ended.is_set():
                number = next(self._ids)
                self.said[number] = client(number)
                former, found = found, self.said[number][0] not in {"closed", "UNAVAILABLE"}
                self.breaks[at] += former and not found
                if not found:
                    time.sleep(0.02)
        finally:
            client.close()

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def statuses(self):
        return Counter(one[0] for one in self.said.copy().values())

    def answered(self):
        """Return the ids that were answered with 200."""
        return {number for number, one in self.said.copy().items() if one[0] == 200}

    def more(self, count, status=200):
        """Wait until so many more have been answered so."""
        before = self.statuses()[status]
        until(lambda: self.statuses()[status] >= before + count, f"{count} more answers {status}: {self.statuses()}")
