"""The floor: ONNX Runtime in a loop, rows a second at each batch size of the command line; JSON to standard output."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from onnx_file import FOLDER, OnnxFile

SECONDS = float(sys.argv[1])


def rate(model: OnnxFile, rows) -> float:
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        for _ in range(20):
            model.run(rows)
        count += 20 * len(rows)
    return count / (time.perf_counter() - start)


one, served = np.load(FOLDER / "row.npy"), OnnxFile()
rate(served, one)
print(json.dumps({size: rate(served, np.repeat(one, int(size), 0)) for size in sys.argv[2:]}))
