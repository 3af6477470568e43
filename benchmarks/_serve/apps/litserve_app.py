"""LitServe with its batching."""

from __future__ import annotations

import sys

import litserve
import numpy as np
from onnx_file import DTYPE, OUTPUTS, OnnxFile


class OnnxApi(litserve.LitAPI):
    def setup(self, device) -> None:  # noqa: ARG002 (LitServe gives it)
        self.model = OnnxFile()

    def decode_request(self, request):
        return np.asarray(request["data"], DTYPE)

    def batch(self, inputs):
        return np.stack(inputs)

    def predict(self, x):
        return self.model.run(x)

    def unbatch(self, output):
        return [list(row) for row in zip(*output, strict=True)]

    def encode_response(self, output):
        return {name: one.tolist() for name, one in zip(OUTPUTS, output, strict=True)}


if __name__ == "__main__":
    api = OnnxApi(max_batch_size=32, batch_timeout=0.001)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(port=int(sys.argv[1]), host="127.0.0.1", generate_client_file=False, log_level="warning")
