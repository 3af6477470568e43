"""Twenty times a large model is loaded, asked and unloaded: what of its memory comes back.

    python benchmarks/serve_memory.py [--times 20] [--megabytes 200] [--plane native]

Memory is that of all processes of the server, shared pages divided. A small model stays loaded and is asked throughout.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

import numpy as np
from _measure import child, machine, scratch, show
from _serve import client, models, servers
from _serve.processes import Process, answer

GROWTH = 0.1  # of the model's size, from the first time to the last
LARGE = """
import vitrify
from onnx import TensorProto, helper, numpy_helper
import numpy as np
rows = int(sys.argv[1]) * 2**20 // 4 // 1024
weights = np.random.default_rng(0).normal(size=(1024, rows)).astype(np.float32)
graph = helper.make_graph(
    [helper.make_node("MatMul", ["X", "weights"], ["all"]), helper.make_node("ReduceMax", ["all", "axis"], ["Y"])],
    "large",
    [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["batch", 1024])],
    [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["batch", 1])],
    [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(np.array([1]), "axis")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
vitrify.save(model, "large", example={"X": np.ones((2, 1024), np.float32)})
report(seconds=0)
"""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--plane", default="native", choices=["native", "python"])
    return parser.parse_args()


def expect(ask: client.Ask) -> None:
    """Ask once; anything but 200 ends it all."""
    status, said = answer(ask, 120)
    if status != 200:
        message = f"{ask.path}: {status} {said[:500]!r}"
        raise SystemExit(message)


def turns(process: Process, port: int, small: client.Ask, times: int) -> list[tuple[int, int]]:
    """Load, ask and unload the large model; return the memory with it and without it, each time."""
    given = {"name": "X", "shape": [1, 1024], "datatype": "FP32", "data": np.ones(1024).tolist()}
    large = client.Ask(port, "/v2/models/large/infer", json.dumps({"inputs": [given]}).encode())
    held = []
    for number in range(times):
        expect(client.Ask(port, "/v2/repository/models/large/load", b"{}"))
        expect(large)
        with_it = process.memory()
        expect(client.Ask(port, "/v2/repository/models/large/unload", b"{}"))
        expect(small)
        held.append((with_it, process.memory()))
        print(f"{number + 1}: {with_it / 1e6:.0f} MB, then {held[-1][1] / 1e6:.0f} MB", file=sys.stderr)
    return held


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    given = options()
    with scratch() as name:
        folder = Path(name)
        model = models.make("xgboost", folder)
        child(LARGE, given.megabytes, folder=folder)
        plan = servers.ours(given.plane)(model, folder)
        process = Process(plan.command, folder / "run", plan.environment)
        try:
            small = plan.asks["REST"]
            process.first_answer(small)
            before = process.memory()
            held = turns(process, small.port, small, given.times)
        finally:
            process.stop()
    print(machine())
    size, first, last = given.megabytes * 2**20, held[0][1], held[-1][1]
    rows = [
        ("before", f"{before / 1e6:.0f} MB", "a small model only"),
        ("with it", f"{max(one for one, _ in held) / 1e6:.0f} MB", f"at most; the model has {size / 1e6:.0f} MB"),
        ("without it, first", f"{first / 1e6:.0f} MB", ""),
        ("without it, last", f"{last / 1e6:.0f} MB", f"(target: at most {GROWTH:.0%} of the model more)"),
    ]
    show(f"{given.times} x load, ask, unload; {given.plane} plane", rows)
    return int(last - first > GROWTH * size)


if __name__ == "__main__":
    sys.exit(main())
