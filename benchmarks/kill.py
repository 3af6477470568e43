"""``kill -9`` at random moments of saving over an existing name: nothing committed is lost, nothing partial shows.

    python benchmarks/kill.py [ROUNDS] [SEED]

A child process saves version after version over one name and reports each commit that returned. The parent
kills it, opens the store anew, and demands that the name leads to the last reported version or to the one that
was being committed, whole to the byte, and that an artifact beside it is untouched. Every 25 rounds garbage is
collected and the whole store is hashed. The exit code is 0 only if all of that held.
"""

from __future__ import annotations

import os
import random
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from vitrify.stores import ArtifactFiles, OciLayout, collect, fsck, read_manifest
from vitrify.testing.stores import save

NAME, BYSTANDER = "model:latest", "bystander:1"
_NUMBER = struct.Struct("<Q")


def version(number: int) -> dict[str, bytes]:
    """Return the files of one version; each of them tells which one it is."""
    stamp = _NUMBER.pack(number)
    return {"weights": stamp * (256 * 1024), "more/weights": stamp * 1000, "config.json": stamp}


def work(root: Path, first: int, pipe: int) -> None:
    """Save version after version, reporting each commit, until killed."""
    store = OciLayout(root)
    for number in range(first, sys.maxsize):
        save(store, version(number), NAME)
        os.write(pipe, _NUMBER.pack(number))


def killed_after(root: Path, first: int, delay: float) -> int:
    """Let a child work for a while, kill it, and return the last version that it reported."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            work(root, first, writing)
        finally:
            os._exit(1)
    os.close(writing)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"the child ended by itself: {status}"
    with os.fdopen(reading, "rb") as stream:
        reports = stream.read()
    return _NUMBER.unpack(reports[-_NUMBER.size :])[0] if reports else first - 1


def visible(root: Path, name: str) -> dict[str, bytes]:
    """Return the files that a name leads to, read by a process that knows nothing."""
    store = OciLayout(root)
    files = ArtifactFiles(store, read_manifest(store, store.names.get(name).content))
    return {path: files.read(path) for path in files.names()}


def leftovers(root: Path) -> set[Path]:
    """Return what dead children have left among the store's private files."""
    return {path for path in (root / ".vitrify").iterdir() if path.name.startswith(("tmp-", "stage-"))}


def phase(left: set[Path]) -> str:
    """Say where a child died, by what it left."""
    if any(path.name.startswith("tmp-") for path in left):
        return "while publishing"
    return "while writing" if left else "between saves"


def main(rounds: int, seed: int) -> int:
    """Kill that many times; print a line of figures."""
    randomness = random.Random(seed)
    moments: Counter[str] = Counter()
    collected = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "store"
        store = OciLayout(root)
        save(store, version(0), BYSTANDER)
        started = time.perf_counter()
        save(store, version(1), NAME)
        typical = time.perf_counter() - started
        committed = 1
        before: set[Path] = set()
        for count in range(1, rounds + 1):
            reported = killed_after(root, committed + 1, randomness.uniform(0, 5 * typical))
            found = visible(root, NAME)
            committed = _NUMBER.unpack(found["config.json"])[0]
            assert committed in {reported, reported + 1}, f"round {count}: {reported} reported, {committed} visible"
            assert found == version(committed), f"round {count}: version {committed} is not whole"
            assert visible(root, BYSTANDER) == version(0), f"round {count}: the bystander changed"
            now = leftovers(root)
            moments[phase(now - before)] += 1
            before = now
            if count % 25 == 0 or count == rounds:
                collected += len(collect(store).removed)
                assert fsck(store).passed, f"round {count}: {fsck(store)}"
                before = leftovers(root)
                assert not before, f"round {count}: not collected: {before}"
    where = ", ".join(f"{number} {moment}" for moment, number in moments.most_common())
    print(f"{rounds} kills in {committed} saves (seed {seed}): 0 lost, 0 partial; {where}; {collected} blobs collected")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500, int(sys.argv[2]) if len(sys.argv) > 2 else 0))
