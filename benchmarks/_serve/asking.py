"""One row, as each server wants to be asked for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from _serve.client import Ask

if TYPE_CHECKING:
    from _serve.models import Model

JSON = ("content-type: application/json",)
GRPC = "/inference.GRPCInferenceService/ModelInfer"


def row(model: Model) -> np.ndarray:
    """Return a batch of one row, as the model's input wants it."""
    return np.load(model.folder / "row.npy")


def plain(model: Model, port: int, path: str, name: str | None = None, *, batch: bool = False) -> Ask:
    """Return a request whose JSON holds the row's numbers under one name: ``{name: [...]}``."""
    rows = row(model)
    body = {name or model.spec["input"]["name"]: (rows if batch else rows[0]).tolist()}
    return Ask(port, path, json.dumps(body).encode(), headers=JSON)


def rest(model: Model, port: int) -> Ask:
    """Return a request in the JSON of the Open Inference Protocol, the numbers flat."""
    given = {**model.spec["input"], "shape": list(row(model).shape), "data": row(model).ravel().tolist()}
    return Ask(port, f"/v2/models/{model.name}/infer", json.dumps({"inputs": [given]}).encode(), headers=JSON)


def binary(model: Model, port: int) -> Ask:
    """Return a request with the binary tensor extension, that wants all outputs in binary, too."""
    data = row(model).tobytes()
    given = {**model.spec["input"], "shape": list(row(model).shape), "parameters": {"binary_data_size": len(data)}}
    head = json.dumps({"inputs": [given], "parameters": {"binary_data_output": True}}).encode()
    headers = ("content-type: application/octet-stream", f"inference-header-content-length: {len(head)}")
    return Ask(port, f"/v2/models/{model.name}/infer", head + data, headers=headers)


def grpc(model: Model, port: int) -> Ask:
    """Return the Open Inference Protocol's gRPC request, with raw contents as ``tritonclient`` sends them."""
    from tritonclient.grpc import service_pb2

    request = service_pb2.ModelInferRequest(model_name=model.name)
    tensor = request.inputs.add()
    tensor.name, tensor.datatype = model.spec["input"]["name"], model.spec["input"]["datatype"]
    tensor.shape.extend(row(model).shape)
    request.raw_input_contents.append(row(model).tobytes())
    return Ask(port, GRPC, request.SerializeToString(), grpc=True)


def oip(model: Model, http: int, grpc_port: int) -> dict[str, Ask]:
    """Return the protocols of a server that speaks the Open Inference Protocol with its extensions."""
    return {"REST": rest(model, http), "binary": binary(model, http), "gRPC": grpc(model, grpc_port)}


def torchserve_grpc(model: Model, port: int, body: bytes) -> Ask:
    """Return TorchServe's own gRPC request: 1 is the model's name, 3 a map from names to bytes."""

    def field(number: int, content: bytes) -> bytes:
        size, prefix = len(content), bytearray([number << 3 | 2])
        while size > 127:
            prefix.append(size & 127 | 128)
            size >>= 7
        return bytes([*prefix, size]) + content

    message = field(1, model.name.encode()) + field(3, field(1, b"data") + field(2, body))
    return Ask(port, "/org.pytorch.serve.grpc.inference.InferenceAPIsService/Predictions", message, grpc=True)
