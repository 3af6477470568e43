"""A PyTorch state of 1 GiB: saved, opened and opened again; against the disk, the hash and other writers."""

from __future__ import annotations

import os
from pathlib import Path

from _measure import child, interleaved, scratch, show

ROUNDS = 5
CORES = os.cpu_count() or 1

STATE = """
import torch
generator = torch.Generator().manual_seed(0)
state = {f"layer.{i}.weight": torch.randn(4096, 4096, generator=generator) for i in range(16)}
size = sum(t.nbytes for t in state.values())
"""
PLAIN = """
settle()
with open("plain.bin", "wb", buffering=0) as stream:
    start = time.perf_counter()
    for tensor in state.values():
        data = memoryview(tensor.numpy()).cast("B")
        for offset in range(0, len(data), 4 << 20):
            stream.write(data[offset:offset + (4 << 20)])
    os.fsync(stream.fileno())
    seconds = time.perf_counter() - start
os.unlink("plain.bin")
report(seconds=seconds)
"""
PLAIN_AT_ONCE = """
from concurrent.futures import ThreadPoolExecutor
tensors = [memoryview(tensor.numpy()).cast("B") for tensor in state.values()]
def write(index):
    with open(f"plain-{index}.bin", "wb", buffering=0) as stream:
        for data in tensors[index::8]:
            for offset in range(0, len(data), 4 << 20):
                stream.write(data[offset:offset + (4 << 20)])
        os.fsync(stream.fileno())
settle()
start = time.perf_counter()
with ThreadPoolExecutor(8) as pool:
    list(pool.map(write, range(8)))
seconds = time.perf_counter() - start
for index in range(8):
    os.unlink(f"plain-{index}.bin")
report(seconds=seconds)
"""
OURS = """
import shutil, vitrify, vitrify.formats.safetensors, vitrify.artifacts.save
shutil.rmtree(os.environ["VITRIFY_HOME"], ignore_errors=True)
settle()
reset_peak(); before = resident()
start = time.perf_counter()
artifact = vitrify.save(state, "state")
total = time.perf_counter() - start
trial = next(a.predicate["seconds"] for a in artifact.attestations if ":trial:" in a.predicate_type)
report(seconds=total - trial, trial=trial, memory=peak() - before)
"""
TORCH = """
settle()
start = time.perf_counter()
torch.save(state, "state.pt"); os.fsync(os.open("state.pt", os.O_RDONLY))
report(seconds=time.perf_counter() - start)
"""
SAFETENSORS = """
from safetensors.torch import save_file
settle()
start = time.perf_counter()
save_file(state, "state.safetensors"); os.fsync(os.open("state.safetensors", os.O_RDONLY))
report(seconds=time.perf_counter() - start)
"""
MLFLOW = """
import shutil, mlflow.pytorch
class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ParameterList(list(state.values()))
    def forward(self, x):
        return x
shutil.rmtree("mlflow-model", ignore_errors=True)
model = Layers()
settle()
start = time.perf_counter()
mlflow.pytorch.save_model(model, "mlflow-model", serialization_format="pickle")
report(seconds=time.perf_counter() - start)
"""
HASH = """
import hashlib, mmap
from concurrent.futures import ThreadPoolExecutor
with open("hash.bin", "rb") as stream:
    data = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
cores = int(sys.argv[1]); part = len(data) // cores
sum(data[::4096])
start = time.perf_counter()
with ThreadPoolExecutor(cores) as pool:
    list(pool.map(lambda i: hashlib.sha256(data[i * part:(i + 1) * part]).hexdigest(), range(cores)))
report(seconds=time.perf_counter() - start)
"""
OPEN = """
import vitrify, vitrify.artifacts.artifact
from vitrify import stores
store = stores.default_store()
for blob in store.root.glob("blobs/*/*"):
    blob.read_bytes()
(store.root / ".vitrify" / "verified").unlink(missing_ok=True)
start = time.perf_counter()
artifact = vitrify.open("state")
report(seconds=time.perf_counter() - start)
"""
AGAIN = """
import vitrify, vitrify.artifacts.artifact, vitrify.formats.safetensors, torch
start = time.perf_counter()
artifact = vitrify.open("state")
opened = time.perf_counter() - start
reset_peak(); before = resident()
start = time.perf_counter()
model = artifact.model()
report(seconds=opened, tensors=time.perf_counter() - start, memory=peak() - before)
"""
TORCH_LOAD = """
import torch
start = time.perf_counter()
torch.load("state.pt", mmap=False)
report(seconds=time.perf_counter() - start)
"""

with scratch() as folder:
    here = Path(folder)
    plain, at_once, ours, torch, safetensors, mlflow = interleaved(
        ROUNDS,
        lambda: child(STATE + PLAIN, folder=here),
        lambda: child(STATE + PLAIN_AT_ONCE, folder=here),
        lambda: child(STATE + OURS, folder=here),
        lambda: child(STATE + TORCH, folder=here),
        lambda: child(STATE + SAFETENSORS, folder=here),
        lambda: child(STATE + MLFLOW, folder=here),
    )
    (here / "safetensors.bin").unlink(missing_ok=True)
    (here / "state.safetensors").rename(here / "hash.bin")
    hashed, opened, again, loaded = interleaved(
        ROUNDS,
        lambda: child(HASH, CORES, folder=here),
        lambda: child(OPEN, folder=here),
        lambda: child(AGAIN, folder=here),
        lambda: child(TORCH_LOAD, folder=here),
    )


def ratio(figures: dict[str, float], base: dict[str, float]) -> str:
    return f"{figures['seconds'] / base['seconds']:.2f} x"


show(
    f"A PyTorch state of 1 GiB (median of {ROUNDS} processes, interleaved)",
    [
        ("save: plain write + fsync", f"{plain['seconds']:.2f} s", f"the limit: the disk; best {plain['best']:.2f} s"),
        ("save: plain, 8 files at once", f"{at_once['seconds']:.2f} s", f"best {at_once['best']:.2f} s"),
        (
            "save: vitrify",
            f"{ours['seconds']:.2f} s",
            (
                f"{ratio(ours, plain)} the plain write; best against best {ours['best'] / plain['best']:.2f} x "
                f"(target: at most 1.15 x); {ours['memory'] / 2**20:.0f} MiB above "
                f"the model (target: at most 256); the trial, apart: {ours['trial']:.2f} s"
            ),
        ),
        ("save: torch.save + fsync", f"{torch['seconds']:.2f} s", f"{ratio(torch, plain)} the plain write; no hash"),
        ("save: safetensors + fsync", f"{safetensors['seconds']:.2f} s", f"{ratio(safetensors, plain)}; no hash"),
        ("save: mlflow", f"{mlflow['seconds']:.2f} s", f"{ratio(mlflow, plain)}; no hash, no fsync"),
        (f"open: SHA-256 on {CORES} cores", f"{hashed['seconds']:.2f} s", "the limit: the hash"),
        ("open: vitrify, verified", f"{opened['seconds']:.2f} s", f"{ratio(opened, hashed)} (target: at most 1.1 x)"),
        (
            "open again: vitrify",
            f"{again['seconds'] * 1000:.1f} ms",
            (
                f"(target: under 20 ms); the tensors, mapped, {again['tensors'] * 1000:.0f} ms and "
                f"{again['memory'] / 2**20:.0f} MiB"
            ),
        ),
        ("open: torch.load", f"{loaded['seconds']:.2f} s", "copies, verifies nothing"),
    ],
)
