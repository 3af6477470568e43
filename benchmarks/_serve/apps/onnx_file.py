"""What every peer's application calls: ONNX Runtime on the same file, with the options that ours gives it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnxruntime

FOLDER = Path(os.environ["SERVED_MODEL"])
SPEC = json.loads((FOLDER / "model.json").read_text())
NAME = SPEC["input"]["name"]
OUTPUTS = [output["name"] for output in SPEC["outputs"]]
DTYPES = {"FP32": np.float32, "FP64": np.float64, "INT64": np.int64}
DTYPE = DTYPES[SPEC["input"]["datatype"]]


class OnnxFile:
    """A session; ``run`` takes rows and returns the outputs in their order."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            str(FOLDER / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )

    def run(self, rows):
        return self.session.run(None, {NAME: rows})
