"""Fuzzing of what reads arrays: ``.npy``, ``.npz``, joblib, compressed streams, pickles of older releases.

``python tests/fuzz/arrays.py SECONDS [SEED]`` changes honest files at random, looks at each with its format, reads it,
and prints how many there were and every failure; it fails if there was one. Nothing but a VitrifyError may come out of
a format, no file may take longer than a moment, and what is read may not be larger than a file of its size allows.
"""

from __future__ import annotations

import contextlib
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from samples import arrays, joblibs

from vitrify.core.errors import MalformedError, VitrifyError
from vitrify.core.protocols import Allow
from vitrify.formats.compressed import Compressed
from vitrify.formats.joblib import Joblib
from vitrify.formats.numpy_file import NumpyFile
from vitrify.pickles.machine import load
from vitrify.pickles.older import Older
from vitrify.reading.files import HeldFiles

SLOW = 2.0
MEMORY = 512 * 1024
"""KiB that a whole run may take above its start: every file by itself may take 64 MiB."""

OLD = Path(__file__).parents[1] / "pickles" / "old"
ENTRY = {"file": "x"}
FORMATS = {"numpy": NumpyFile(), "joblib": Joblib(), "compressed": Compressed()}


def seeds():
    """Return honest files, each with the format that it is of."""
    for name, make in {**arrays.SAMPLES, **joblibs.SAMPLES}.items():
        with tempfile.TemporaryDirectory() as folder:
            yield name.partition("/")[0], make(Path(folder)).read_bytes()
    for path in sorted(OLD.glob("*/*.pkl")):
        yield "older", path.read_bytes()


def changed(data, generator):
    """Return bytes with some of them changed, left out, doubled, or put elsewhere."""
    data = bytearray(data)
    for _ in range(generator.choice([1, 1, 2, 5])):
        at = generator.randrange(len(data) or 1)
        size = generator.choice([1, 2, 8, 100])
        match generator.randrange(6):
            case 0 if data:
                data[at] ^= 1 << generator.randrange(8)
            case 1:
                data[at : at + size] = generator.randbytes(size)
            case 2:
                del data[at : at + size]
            case 3:
                data[at:at] = data[at : at + size]
            case 4:
                data[at : at + 8] = generator.choice([b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7])
            case _:
                del data[at:]
    return bytes(data)


def look(kind, content):
    """Do everything that is done with a file."""
    view = memoryview(content)
    if kind == "older":
        load(view, where="x", allow=Allow(), dialect=Older())
        return
    files, chosen = HeldFiles({"x": view}), FORMATS[kind]
    chosen.detect(files)
    for step in (chosen.describe, chosen.hazards):
        try:
            list(step(files, ENTRY))
        except VitrifyError:
            continue
    if kind == "compressed":
        list(chosen.parts(files, ENTRY))
    else:
        chosen.read(files, ENTRY, Allow())


def fuzz(seconds, seed):
    """Return how many files were looked at, and what went wrong."""
    generator = random.Random(seed)
    honest = list(seeds())
    for kind, content in honest:  # which also imports all that will be needed
        with contextlib.suppress(MalformedError):  # some old models cannot be brought up to date
            look(kind, content)
    start, end = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic() + seconds
    count, failures = 0, []
    while time.monotonic() < end:
        kind, content = generator.choice(honest)
        content = changed(content, generator)
        count += 1
        began = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NumPy warns about what a changed file may well say
                look(kind, content)
        except VitrifyError:
            pass
        except Exception:  # noqa: BLE001 (that is what is looked for)
            failures.append(f"{kind} {content[:60]!r}: {traceback.format_exc()}")
        if (took := time.process_time() - began) > SLOW:
            failures.append(f"{kind} {content[:60]!r}: took {took:.1f} s")
    if (grown := resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) > MEMORY:
        failures.append(f"memory grew by {grown // 1024} MiB")
    return count, failures


def main():
    """Run, print, and say by the exit status whether anything went wrong."""
    seconds, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    count, failures = fuzz(seconds, seed)
    print(f"{count} files, {len(failures)} failures (seed {seed})", *failures, sep="\n")  # noqa: T201
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
