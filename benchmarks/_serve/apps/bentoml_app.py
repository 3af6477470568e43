"""BentoML with its adaptive batching."""

from __future__ import annotations

import bentoml
import numpy as np
from onnx_file import DTYPE, OUTPUTS, OnnxFile


@bentoml.service(workers=1, traffic={"timeout": 60})
class Model:
    def __init__(self) -> None:
        self.model = OnnxFile()

    @bentoml.api(batchable=True, batch_dim=0, max_batch_size=32, max_latency_ms=1000)
    def predict(self, data: list) -> list[dict]:
        outputs = self.model.run(np.asarray(data, DTYPE))
        return [
            {name: one.tolist() for name, one in zip(OUTPUTS, row, strict=True)} for row in zip(*outputs, strict=True)
        ]
