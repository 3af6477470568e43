"""One GiB to a registry's server and back, against a plain copy on the same disk that hashes what it copies.

All three end with the bytes durable (fsync) and their SHA-256 known. Server and client are on this machine, so that
they share its cores and its disk; a network is not measured.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from _measure import child, interleaved, scratch, show

SIZE, ROUNDS = 1 << 30, 3

COPY = """
import hashlib
settle()
start = time.perf_counter()
found = hashlib.sha256()
with open(sys.argv[1], "rb", buffering=0) as source, open("copy", "wb", buffering=0) as target:
    while piece := source.read(4 << 20):
        found.update(piece)
        target.write(piece)
    os.fsync(target.fileno())
seconds = time.perf_counter() - start
os.unlink("copy")
report(seconds=seconds)
"""

CHANGED = """
from vitrify.core.digest import Digest
from vitrify.registry.blobs import open_blobs
from vitrify.registry.remote import RemoteBackend
backend = RemoteBackend(sys.argv[2], sys.argv[3])
path = Path(sys.argv[1])
"""

UPLOAD = (
    CHANGED
    + """
with path.open("r+b") as file:
    file.write(os.urandom(64))  # what is there already would not be sent
digest = Digest.of_file(path)
settle()
start = time.perf_counter()
backend.upload(digest, path)
report(seconds=time.perf_counter() - start)
"""
)

DOWNLOAD = (
    CHANGED
    + """
import shutil
digest, size = Digest.of_file(path), path.stat().st_size
blobs = open_blobs("down")
settle()
start = time.perf_counter()
blobs.put(digest, size, backend.read(digest))
seconds = time.perf_counter() - start
shutil.rmtree("down")
report(seconds=seconds)
"""
)


def main(folder: Path) -> None:
    big = folder / "big"
    with big.open("wb") as file:
        for _ in range(SIZE >> 20):
            file.write(os.urandom(1 << 20))
    vitrify = [str(Path(sys.executable).with_name("vitrify")), "registry"]
    place = ["--registry", str(folder / "registry")]
    make = [*vitrify, "token", "create", "--who", "bench", "--role", "admin", *place]
    token = subprocess.run(make, capture_output=True, text=True, check=True).stdout.strip()
    log = (folder / "log").open("w")
    server = subprocess.Popen([*vitrify, "serve", "--port", "0", *place], stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        url = server.stdout.readline().split()[1]
        copy, up, down = interleaved(
            ROUNDS,
            lambda: child(COPY, big, folder=folder),
            lambda: child(UPLOAD, big, url, token, folder=folder),
            lambda: child(DOWNLOAD, big, url, token, folder=folder),
        )
        status = Path(f"/proc/{server.pid}/status").read_text().splitlines()
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    rows = [
        (name, f"{run['seconds']:.2f} s", f"{copy['seconds'] / run['seconds']:.0%} of a plain copy (target 80%)")
        for name, run in (("upload", up), ("download", down))
    ]
    rows.append(("plain copy that hashes", f"{copy['seconds']:.2f} s", ""))
    rows.append(("the server's peak", f"{peak / 1000:.0f} MB", "target 150 MB"))
    show(f"{SIZE >> 30} GiB to a registry's server and back", rows)


if __name__ == "__main__":
    with scratch() as name:
        main(Path(name))
