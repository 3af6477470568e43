"""Ray Serve with its batching: one replica behind its proxy."""

from __future__ import annotations

import signal
import sys
import threading

import numpy as np
import ray
from onnx_file import DTYPE, OUTPUTS, OnnxFile
from ray import serve


@serve.deployment(max_ongoing_requests=100)
class Served:
    def __init__(self) -> None:
        self.model = OnnxFile()

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.001)
    async def predict(self, rows):
        outputs = self.model.run(np.asarray(rows, DTYPE))
        return [
            {name: one.tolist() for name, one in zip(OUTPUTS, row, strict=True)} for row in zip(*outputs, strict=True)
        ]

    async def __call__(self, request):
        return await self.predict((await request.json())["data"])


if __name__ == "__main__":
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    serve.run(Served.bind(), route_prefix="/predict")
    ended.wait()
    serve.shutdown()
    ray.shutdown()
