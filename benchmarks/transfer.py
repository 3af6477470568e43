"""Moving 1 GiB: into the registry's blobs and out of them, and to and from an OCI registry, against the plain thing.

The plain thing for blobs is a copy that hashes and syncs; for an OCI registry, ``skopeo copy`` from and to an OCI
layout, with the same ``docker-registry``. Every round has files and a repository of its own. ``MIB=64`` makes it small.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from _measure import child, interleaved, scratch, show

ROUNDS = 3
MIB = int(os.environ.get("MIB", "1024"))
SIZE = MIB * 1024 * 1024

PLAIN = """
import hashlib
source, target = map(Path, sys.argv[1:])
settle()
start, state = time.perf_counter(), hashlib.sha256()
with source.open("rb", buffering=0) as reader, target.open("wb", buffering=0) as writer:
    while piece := reader.read(4 * 1024 * 1024):
        state.update(piece)
        writer.write(piece)
    os.fsync(writer.fileno())
report(seconds=time.perf_counter() - start)
"""
PUT = """
from vitrify.core.digest import Digest
from vitrify.registry.blobs import open_blobs
source, target, digest = Path(sys.argv[1]), sys.argv[2], Digest(sys.argv[3])
def pieces():
    with source.open("rb", buffering=0) as reader:
        while piece := reader.read(4 * 1024 * 1024):
            yield piece
blobs, size = open_blobs(target), source.stat().st_size
settle()
start = time.perf_counter()
blobs.put(digest, size, pieces())
report(seconds=time.perf_counter() - start)
"""
UPLOAD = """
from vitrify.core.digest import Digest
from vitrify.registry.blobs import open_blobs
from vitrify.registry.blobs.uploads import open_uploads
source, target, digest = Path(sys.argv[1]), sys.argv[2], Digest(sys.argv[3])
uploads, size = open_uploads(open_blobs(target)), source.stat().st_size
settle()
start = time.perf_counter()
upload = uploads.start(digest, size)
with source.open("rb", buffering=0) as reader:
    for offset in range(0, size, 64 * 1024 * 1024):
        uploads.append(upload, offset, (reader.read(4 * 1024 * 1024) for _ in range(min(16, (size - offset) >> 22))))
uploads.commit(upload)
report(seconds=time.perf_counter() - start)
"""
SAVE = """
from vitrify.stores import OciLayout
from vitrify.testing.stores import save
store = OciLayout(Path(sys.argv[1]))
print(save(store, {"weights.bin": Path(sys.argv[2]).read_bytes()}, "large:1"))
report(seconds=0)
"""
PUSH = """
from vitrify import stores
store = stores.OciLayout(Path(sys.argv[1]))
import urllib3
settle()
start = time.perf_counter()
stores.push(store, store.names.get("large:1").content, sys.argv[2])
report(seconds=time.perf_counter() - start)
"""
PULL = """
from vitrify import stores
store = stores.OciLayout(Path(sys.argv[1]))
import urllib3
settle()
start = time.perf_counter()
stores.pull(store, sys.argv[2])
report(seconds=time.perf_counter() - start)
"""


@contextmanager
def oci_registry(folder: Path):
    """Run Debian's docker-registry; yield its host."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "registry.yml"
    storage = f"storage: {{filesystem: {{rootdirectory: {folder / 'data'}}}}}"
    config.write_text(f"version: 0.1\n{storage}\nhttp: {{addr: 127.0.0.1:{port}}}\n")
    command = ["docker-registry", "serve", str(config)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(200):
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.05)
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()


def skopeo(source: str, target: str) -> dict[str, float]:
    """Copy, and return the seconds."""
    os.sync()
    time.sleep(0.5)
    start = time.perf_counter()
    off = ["--src-tls-verify=false", "--dest-tls-verify=false"]
    subprocess.run(["skopeo", "copy", "--quiet", *off, source, target], check=True)
    return {"seconds": time.perf_counter() - start}


def fresh(folder: Path, code: str, *arguments: object) -> dict[str, float]:
    """Run code whose target is a new place, which is deleted afterwards."""
    target = folder / "target"
    figures = child(code, *(target if part is Ellipsis else part for part in arguments), folder=folder)
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    return figures


def rate(figures: dict[str, float]) -> str:
    return f"{MIB / figures['seconds']:,.0f} MiB/s"


def main() -> None:
    """Measure and print."""
    with scratch() as made:
        folder = Path(made)
        source = folder / "source"
        with source.open("wb") as stream:
            for _ in range(MIB):
                stream.write(os.urandom(1024 * 1024))
        digest = subprocess.run(["sha256sum", source], capture_output=True, text=True, check=True).stdout[:64]
        plain, put, upload = interleaved(
            ROUNDS,
            lambda: fresh(folder, PLAIN, source, ...),
            lambda: fresh(folder, PUT, source, ..., digest),
            lambda: fresh(folder, UPLOAD, source, ..., digest),
        )
        rows = [("copy that hashes", rate(plain), "")]
        for name, figures in (("blobs: put", put), ("blobs: upload in 64 MiB requests", upload)):
            rows.append((name, rate(figures), f"{plain['seconds'] / figures['seconds']:.0%} of it"))
        show(f"{MIB} MiB on disk", rows)
        if not (shutil.which("docker-registry") and shutil.which("skopeo")):
            print("  docker-registry or skopeo is not here")
            return
        store = folder / "store"
        child(SAVE, store, source, folder=folder)
        source.unlink()
        push, theirs = interleaved(
            ROUNDS,
            lambda: emptied(folder, lambda host: child(PUSH, store, f"oci://{host}/churn:1", folder=folder)),
            lambda: emptied(folder, lambda host: skopeo(f"oci:{store}:large:1", f"docker://{host}/churn:1")),
        )
        with oci_registry(folder) as host:
            child(PUSH, store, f"oci://{host}/churn:1", folder=folder)
            pull, their_pull = interleaved(
                ROUNDS,
                lambda: fresh(folder, PULL, ..., f"oci://{host}/churn:1"),
                lambda: their(folder, host),
            )
        pairs = (("push", push, theirs), ("pull", pull, their_pull))
        rows = [(name, rate(ours), f"skopeo copy {rate(other)}") for name, ours, other in pairs]
        show(f"{MIB} MiB to and from docker-registry", rows)


def emptied(folder: Path, work) -> dict[str, float]:
    """Work with a registry that has nothing and whose port is new: skopeo remembers what is where, and mounts it."""
    with oci_registry(folder) as host:
        figures = work(host)
    shutil.rmtree(folder / "data")
    return figures


def their(folder: Path, host: str) -> dict[str, float]:
    """Fetch with skopeo into a new layout, which is deleted afterwards."""
    figures = skopeo(f"docker://{host}/churn:1", f"oci:{folder / 'theirs'}:1")
    shutil.rmtree(folder / "theirs")
    return figures


if __name__ == "__main__":
    main()
