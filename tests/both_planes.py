"""The whole server on both planes at once, asked the same over real sockets: bytes in, what was said out."""

from __future__ import annotations

import http.client
import json
import re
import struct
from contextlib import contextmanager

import grpc
import numpy as np
from onnx import TensorProto
from served_models import multiplier
from whole_server import PLANES, same, whole

from vitrify.serve.lanes import Batching
from vitrify.serve.ports import DATATYPES
from vitrify.serve.protocols._messages import messages
from vitrify.serve.settings import ModelSettings

INFER = "/inference.GRPCInferenceService/ModelInfer"
WIDTH = 2
KINDS = {
    "bool": TensorProto.BOOL,
    **{f"uint{bits}": getattr(TensorProto, f"UINT{bits}") for bits in (8, 16, 32, 64)},
    **{f"int{bits}": getattr(TensorProto, f"INT{bits}") for bits in (8, 16, 32, 64)},
    "float16": TensorProto.FLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "string": TensorProto.STRING,
}
"""Element types that ONNX Runtime and NumPy both have; the model of each gives back ``x`` as ``y``."""
DATATYPE = {dtype: DATATYPES.get(dtype, "BYTES") for dtype in KINDS}
_PLACE = re.compile(r"(inputs|outputs)\[\d+\]|raw_input_contents|\bparameters\b|\bid\b|\bheader\b")


class Asker:
    """One client of one server, over one connection of each protocol."""

    def __init__(self, running):
        self.plane = running.plane
        self._http = http.client.HTTPConnection(running.http, timeout=60)
        self._channel = grpc.insecure_channel(running.grpc, [("grpc.use_local_subchannel_pool", 1)])
        self._infer = self._channel.unary_unary(INFER)

    def rest(self, model, body, headers=None):
        """Return the status, the headers and the body."""
        headers = {"content-type": "application/json", **(headers or {})}
        self._http.request("POST", f"/v2/models/{model}/infer", body, headers)
        response = self._http.getresponse()
        return response.status, dict(response.getheaders()), response.read()

    def rpc(self, message):
        """Return the code, what was said of it, and the message."""
        try:
            return 0, "", self._infer(message, timeout=60)
        except grpc.RpcError as error:
            return error.code().value[0], error.details(), b""

    def close(self):
        self._http.close()
        self._channel.close()


@contextmanager
def both(store):
    """Serve a model for each element type, ``times``, on both planes; yields an asker of each."""
    for dtype, kind in KINDS.items():
        values = np.array([["a", "b"]], dtype=object) if dtype == "string" else np.array([[0, 1]]).astype(dtype)
        same(store, dtype, kind, dtype, values)
    multiplier(store, "times", 2.0)
    wanted = [ModelSettings(reference=name, batching=Batching(rows=8)) for name in (*KINDS, "times")]
    with whole(PLANES[0], store, wanted) as one, whole(PLANES[1], store, wanted) as other:
        askers = Asker(one), Asker(other)
        try:
            yield askers
        finally:
            for asker in askers:
                asker.close()


def places(said):
    """Return the fields that an error names by their place."""
    return {found[0] for found in _PLACE.finditer(said)}


def tensors(headers, body):
    """Return a REST answer as its JSON without the data, and each output's bytes."""
    length = int(
        headers.get("Inference-Header-Content-Length", headers.get("inference-header-content-length", len(body)))
    )
    said, tail = json.loads(body[:length]), body[length:]
    data = {}
    for output in said["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size")
        if size is None:
            data[output["name"]] = _bytes(output.pop("data"), output["datatype"])
        else:
            data[output["name"]], tail = tail[:size], tail[size:]
    assert not tail
    return said, data


def _bytes(data, datatype):
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(one.encode())) + one.encode() for one in data)
    dtype = next(dtype for dtype, one in DATATYPE.items() if one == datatype)
    values = [float(one) if isinstance(one, str) else one for one in data]
    if dtype.startswith("float"):
        assert all(isinstance(one, int | float) for one in values)
    return np.array(values, dtype).tobytes()


def response(message):
    """Return a gRPC answer as its text without the data, and the data."""
    said = messages("inference").ModelInferResponse.FromString(message)
    data = list(said.raw_output_contents)
    del said.raw_output_contents[:]
    return str(said), data
