"""The bare application: granian, msgspec and ONNX Runtime; no batching, no limits, no checks, nothing else."""

from __future__ import annotations

import msgspec
import numpy as np
from onnx_file import DTYPE, OUTPUTS, SPEC, OnnxFile

MODEL = OnnxFile()
TYPES = [output["datatype"] for output in SPEC["outputs"]]


class Input(msgspec.Struct):
    name: str
    shape: list[int]
    datatype: str
    data: list[float]


class Request(msgspec.Struct):
    inputs: list[Input]


DECODER, ENCODER = msgspec.json.Decoder(Request), msgspec.json.Encoder()
HEADERS = [("content-type", "application/json")]


async def app(_scope, protocol) -> None:
    given = DECODER.decode(await protocol()).inputs[0]
    outputs = MODEL.run(np.array(given.data, DTYPE).reshape(given.shape))
    answer = [
        {"name": name, "datatype": kind, "shape": one.shape, "data": one.ravel().tolist()}
        for name, kind, one in zip(OUTPUTS, TYPES, outputs, strict=True)
    ]
    protocol.response_bytes(200, HEADERS, ENCODER.encode({"outputs": answer}))
