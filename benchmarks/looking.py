"""Looking at large files: scan and safe load of a forest's pickle, scan of a torch zip, inspect of weights of 1 GiB.

Scans, loads and inspections are calls in a process that has imported what it needs; memory is the process's peak during
the call above what it had before. Whole processes stand below.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from _measure import child, interleaved, scratch, show
from _peers import PEERS, QUIET, ready

ROUNDS = 7
BIN = Path(sys.executable).parent
PYTHON = PEERS / "bin" / "python"


def process(*command: object) -> dict[str, float]:
    """Run a command to its end; return seconds and its peak memory."""
    start = time.perf_counter()
    running = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, env={**os.environ, **QUIET})
    _, status, usage = os.wait4(running.pid, 0)
    if status:
        message = f"{command} ended with {status}"
        raise SystemExit(message)
    return {"seconds": time.perf_counter() - start, "peak": usage.ru_maxrss * 1024}


FOREST = """
import pickle, joblib
import numpy as np
from sklearn.ensemble import RandomForestClassifier
random = np.random.default_rng(0)
rows, labels = random.normal(size=(20_000, 20)), random.integers(0, 3, 20_000)
model = RandomForestClassifier(60, n_jobs=2, random_state=0).fit(rows, labels)
pickle.dump(model, open("forest.pkl", "wb"), protocol=4)
pickle.dump(RandomForestClassifier(2, max_depth=2).fit(rows, labels), open("small.pkl", "wb"), protocol=4)
report(seconds=0)
"""
TORCH = """
import torch
torch.save({f"layer{i}.weight": torch.rand(16, 1024, 1024) for i in range(16)}, "state.pt")
torch.save({"w": torch.ones(2)}, "small.pt")
report(seconds=0)
"""
WEIGHTS = """
import numpy as np, onnx
from onnx import helper, numpy_helper, TensorProto
from safetensors.numpy import save_file
import gguf
part = np.random.default_rng(0).random((16, 1024, 1024), np.float32)
tensors = {f"layer{i}.weight": part for i in range(16)}
save_file(tensors, "m.safetensors")
writer = gguf.GGUFWriter("m.gguf", "llama")
for name, tensor in tensors.items():
    writer.add_tensor(name, tensor)
writer.write_header_to_file(); writer.write_kv_data_to_file(); writer.write_tensors_to_file(); writer.close()
value = helper.make_tensor_value_info
nodes = [helper.make_node("Add", [f"x{i}", name], [f"x{i + 1}"]) for i, name in enumerate(tensors)]
weights = [numpy_helper.from_array(tensor, name) for name, tensor in tensors.items()]
shape = [16, 1024, 1024]
graph = helper.make_graph(nodes, "g", [value("x0", 1, shape)], [value("x16", 1, shape)], weights)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
onnx.save(model, "m.onnx", save_as_external_data=True, location="m.onnx.data")
report(seconds=0)
"""
LOAD = """
import pickle, sklearn.ensemble, gc
from vitrify.inspection.identify import files_at, identify_one
from vitrify.core.protocols import Allow
path = Path(sys.argv[2])
def safe():
    one = identify_one(files_at(path), where="it")
    return one.row.load().read(one.files, one.entry, Allow())
def plain():
    with path.open("rb") as stream:
        return pickle.load(stream)
load = {"safe": safe, "pickle": plain}[sys.argv[1]]
load()
gc.collect()
start = time.perf_counter()
model = load()
report(seconds=time.perf_counter() - start)
"""
SCAN = """
{imports}
from pathlib import Path
small = Path(sys.argv[2])
{scan}  # what is imported once is not the file's
reset_peak()
before = resident()
small = Path(sys.argv[1])
start = time.perf_counter()
{scan}
report(seconds=time.perf_counter() - start, memory=peak() - before)
"""
OURS = SCAN.format(imports="from vitrify.inspection.scan import scan", scan="assert scan(small).verdict == 'clean'")
THEIRS = SCAN.format(
    imports="from picklescan.scanner import scan_file_path", scan="assert not scan_file_path(str(small)).issues_count"
)
INSPECT = """
from vitrify.inspection.identify import describe
describe(Path(sys.argv[1]))
start = time.perf_counter()
facts = describe(Path(sys.argv[1]))
took = time.perf_counter() - start
assert facts["bytes"] >= 1 << 30 and len(facts["tensors"]) == 16
report(seconds=took)
"""


def scans(folder: Path) -> None:
    """Scan a forest's pickle and a torch zip, ours and picklescan's."""
    rows = []
    for name, file, small in (
        ("50 MB forest pickle", "forest.pkl", "small.pkl"),
        ("1 GiB torch zip", "state.pt", "small.pt"),
    ):
        ours, theirs, whole, their_whole, bare = interleaved(
            ROUNDS,
            lambda files=(folder / file, folder / small): child(OURS, *files, folder=folder),
            lambda files=(folder / file, folder / small): child(THEIRS, *files, folder=folder, python=PYTHON),
            lambda file=file: process(BIN / "vitrify", "scan", folder / file),
            lambda file=file: process(PEERS / "bin" / "picklescan", "--path", folder / file),
            lambda: process(sys.executable, "-c", "pass"),
        )
        ratio, memory = ours["seconds"] / theirs["seconds"], ours["memory"] / 2**20
        rows += [
            (name, f"{ours['seconds'] * 1000:.1f} ms", f"{ratio:.2f} x picklescan (target: at most 0.5)"),
            (
                "  picklescan",
                f"{theirs['seconds'] * 1000:.1f} ms",
                f"{theirs['memory'] / 2**20:.0f} MiB above its start",
            ),
            ("  memory above the start", f"{memory:.0f} MiB", "(target: at most 32)"),
            (
                "  as a process",
                f"{whole['seconds'] * 1000:.0f} ms",
                f"picklescan {their_whole['seconds'] * 1000:.0f} ms",
            ),
            ("  a bare interpreter", f"{bare['seconds'] * 1000:.0f} ms", "the floor of any Python scanner"),
        ]
    show(f"Scan (median of {ROUNDS}, interleaved)", rows)


def loads(folder: Path) -> None:
    """Load the forest, safely and not."""
    safe, plain = interleaved(
        ROUNDS,
        lambda: child(LOAD, "safe", folder / "forest.pkl", folder=folder),
        lambda: child(LOAD, "pickle", folder / "forest.pkl", folder=folder),
    )
    ratio = safe["seconds"] / plain["seconds"]
    rows = [
        ("safe load", f"{safe['seconds'] * 1000:.0f} ms", f"{ratio:.2f} x pickle.load (target: at most 1.5)"),
        ("pickle.load", f"{plain['seconds'] * 1000:.0f} ms", "which runs whatever the file says"),
    ]
    show(f"Safe load of the forest (median of {ROUNDS}, interleaved)", rows)


def inspections(folder: Path) -> None:
    """Describe files of 1 GiB."""
    rows = []
    for file in ("m.safetensors", "m.onnx", "m.gguf"):
        (figure,) = interleaved(ROUNDS, lambda file=file: child(INSPECT, folder / file, folder=folder))
        rows.append((file, f"{figure['seconds'] * 1000:.1f} ms", "(target: at most 50 ms)"))
        (whole,) = interleaved(ROUNDS, lambda file=file: process(BIN / "vitrify", "inspect", folder / file))
        rows.append(("  as a process", f"{whole['seconds'] * 1000:.0f} ms", ""))
    show(f"Inspect a file of 1 GiB (median of {ROUNDS})", rows)


def main() -> None:
    """Make the files, then measure."""
    ready()
    with scratch() as name:
        folder = Path(name)
        for code in (FOREST, TORCH, WEIGHTS):
            child(code, folder=folder)
        scans(folder)
        loads(folder)
        inspections(folder)


if __name__ == "__main__":
    main()
