"""How well a deadline is kept while the model is busy: how long after it the answer comes.

    python benchmarks/serve_deadline.py [--seconds 20] [--plane native]

One row takes the model longer than the 100 ms that 16 clients, half over REST and half over gRPC, give it. Whatever is
answered, it must be answered in time. A thread of the same clients asks all the while whether the server lives, which
takes it no work: what that takes is the machine's part, of the client as of the server.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from _measure import child, machine, scratch, show
from _serve import servers
from _serve.asking import GRPC
from _serve.client import Ask
from _serve.processes import Process, answer, free_port

DEADLINE, LATE, CLIENTS = 0.1, 0.05, 16  # seconds, seconds, threads
PAUSE = 0.02  # seconds between two requests for nothing
HEADER = "x-request-timeout-ms"
SLOW = """
import vitrify
from onnx import TensorProto, helper, numpy_helper
import numpy as np
weights = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32) / 30
names = ["X", *(f"x{number}" for number in range(499)), "Y"]
nodes = [helper.make_node("MatMul", [a, "W"], [b]) for a, b in zip(names, names[1:])]
shape = ["batch", 64, 512]
graph = helper.make_graph(
    nodes, "slow",
    [helper.make_tensor_value_info("X", TensorProto.FLOAT, shape)],
    [helper.make_tensor_value_info("Y", TensorProto.FLOAT, shape)],
    [numpy_helper.from_array(weights, "W")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
import onnxruntime as ort
options = ort.SessionOptions(); options.intra_op_num_threads = 1
session = ort.InferenceSession(model.SerializeToString(), options)
row = np.ones((1, 64, 512), np.float32)
session.run(None, {"X": row})
start = time.perf_counter(); session.run(None, {"X": row}); seconds = time.perf_counter() - start
vitrify.save(model, "slow", example={"X": row})
report(seconds=seconds)
"""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--plane", default="native", choices=["native", "python"])
    return parser.parse_args()


def over_rest(port: int, body: bytes, head: int):
    headers = (f"{HEADER}: {DEADLINE * 1000:.0f}", f"inference-header-content-length: {head}")
    ask = Ask(port, "/v2/models/slow/infer", body, headers=headers)
    return lambda: answer(ask, 60)[0]


def over_grpc(port: int, message: bytes):
    import grpc

    infer = grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)]).unary_unary(GRPC)

    def ask() -> object:
        try:
            infer(message, timeout=60, metadata=((HEADER, f"{DEADLINE * 1000:.0f}"),))
        except grpc.RpcError as error:
            return error.code().name
        return 200

    return ask


def requests() -> tuple[bytes, int, bytes]:
    """Return a request for REST with binary tensors, the bytes of its head, and the same for gRPC."""
    from tritonclient.grpc import service_pb2

    data = np.ones((1, 64, 512), np.float32).tobytes()
    given = {"name": "X", "shape": [1, 64, 512], "datatype": "FP32", "parameters": {"binary_data_size": len(data)}}
    head = json.dumps({"inputs": [given], "parameters": {"binary_data_output": True}}).encode()
    message = service_pb2.ModelInferRequest(model_name="slow", raw_input_contents=[data])
    message.inputs.add(name="X", datatype="FP32", shape=[1, 64, 512])
    return head + data, len(head), message.SerializeToString()


def ask_until(ends: float, ask, pause: float = 0.0) -> list[tuple[object, float]]:
    """Ask again and again; return what was said, and after how many seconds."""
    seen = []
    while time.perf_counter() < ends:
        began = time.perf_counter()
        seen.append((ask(), time.perf_counter() - began))
        time.sleep(pause)
    return seen


def p99(times: list[float]) -> float:
    """Return the 99th percentile, in milliseconds."""
    return times[int(len(times) * 0.99)] * 1e3


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    given = options()
    body, head, message = requests()
    with scratch() as name:
        folder = Path(name)
        alone = child(SLOW, folder=folder)["seconds"]
        http, grpc = free_port(), free_port()
        command, environment = servers.serve(folder / "home", "slow", given.plane, (http, grpc), "--batch", "4")
        process = Process(command, folder / "run", environment)
        try:
            ask = Ask(http, "/v2/models/slow/infer", body, headers=(f"inference-header-content-length: {head}",))
            process.first_answer(ask)
            asks = [over_grpc(grpc, message) if at % 2 else over_rest(http, body, head) for at in range(CLIENTS)]
            lives = Ask(http, "/v2/health/live", b"", method="GET")
            with ThreadPoolExecutor(CLIENTS + 1) as pool:
                ends = time.perf_counter() + given.seconds
                null = pool.submit(ask_until, ends, lambda: answer(lives, 60)[0], PAUSE)
                every = list(pool.map(lambda ask: ask_until(ends, ask), asks))
        finally:
            process.stop()
    nothing = sorted(seconds for _, seconds in null.result())
    rest, grpc_ = (sorted(seconds - DEADLINE for one in every[at::2] for _, seconds in one) for at in range(2))
    late = sorted(rest + grpc_)
    seen = [one for several in every for one in several]
    said = Counter(str(what) for what, _ in seen)
    print(machine())
    rows = [
        ("the model alone", f"{alone * 1e3:.0f} ms", "a row"),
        ("answers", f"{len(seen):,}", ", ".join(f"{count:,} x {what}" for what, count in sorted(said.items()))),
        ("after the deadline, p50", f"{late[len(late) // 2] * 1e3:.1f} ms", "below 0: before it"),
        ("after the deadline, p99", f"{p99(late):.1f} ms", f"REST {p99(rest):.1f} ms, gRPC {p99(grpc_):.1f} ms"),
        ("a request for nothing, p99", f"{p99(nothing):.1f} ms", "the machine's part"),
        ("after the deadline, most", f"{late[-1] * 1e3:.1f} ms", f"(target: at most {LATE * 1e3:.0f} ms)"),
    ]
    show(f"Deadlines of {DEADLINE * 1e3:.0f} ms, {CLIENTS} clients, {given.plane} plane", rows)
    return int(late[-1] > LATE or not set(said) <= {"200", "504", "DEADLINE_EXCEEDED"})


if __name__ == "__main__":
    sys.exit(main())
