"""Triton's Python backend: one run of ONNX Runtime for all the requests that dynamic batching brought."""

from __future__ import annotations

import numpy as np
import triton_python_backend_utils as triton
from onnx_file import NAME, OUTPUTS, OnnxFile


class TritonPythonModel:
    def initialize(self, args) -> None:  # noqa: ARG002 (Triton gives it)
        self.model = OnnxFile()

    def execute(self, requests):
        inputs = [triton.get_input_tensor_by_name(request, NAME).as_numpy() for request in requests]
        outputs = self.model.run(inputs[0] if len(inputs) == 1 else np.concatenate(inputs))
        responses, start = [], 0
        for rows in inputs:
            end = start + len(rows)
            tensors = [triton.Tensor(name, output[start:end]) for name, output in zip(OUTPUTS, outputs, strict=True)]
            responses.append(triton.InferenceResponse(output_tensors=tensors))
            start = end
        return responses
