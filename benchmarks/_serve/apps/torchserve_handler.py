"""TorchServe's handler: one run of ONNX Runtime for all the requests of its batch."""

from __future__ import annotations

import json

import numpy as np
from onnx_file import DTYPE, OUTPUTS, OnnxFile


class Handler:
    def __init__(self) -> None:
        self.initialized = False

    def initialize(self, context) -> None:  # noqa: ARG002 (TorchServe gives it)
        self.model = OnnxFile()
        self.initialized = True

    def handle(self, requests, context):  # noqa: ARG002
        given = [request.get("body") or request.get("data") for request in requests]
        rows = [(json.loads(one) if isinstance(one, bytes | bytearray) else one)["data"] for one in given]
        outputs = self.model.run(np.asarray(rows, DTYPE))
        return [
            {name: one.tolist() for name, one in zip(OUTPUTS, row, strict=True)} for row in zip(*outputs, strict=True)
        ]
