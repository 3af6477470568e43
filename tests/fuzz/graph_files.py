"""Fuzzing of graphs that are no Protocol Buffers: TFLite, ORT, StableHLO, jax.export, OpenVINO, compiled ones.

``python tests/fuzz/graph_files.py SECONDS [SEED]`` changes honest files at random, looks at each with its format in
every way there is, prints how many there were and every failure, and fails if there was one. Nothing but a VitrifyError
may come out of a format, what it describes is JSON, and no file may take longer than a moment.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from samples import graph_files as made

from vitrify.core.catalog import catalog
from vitrify.core.errors import VitrifyError
from vitrify.inspection.identify import files_at
from vitrify.reading.files import HeldFiles

SLOW = 2.0
WORDS = [
    b"<",
    b">",
    b"{",
    b"}",
    b"(",
    b"%0",
    b'"',
    b"stablehlo.custom_call",
    b"@f",
    b"-1",
    b"99999999999999999999",
    b"=",
]


def seeds():
    """Return honest files as (format, files by name, the one to change, entry)."""
    found = []
    for sample, make in made.SAMPLES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = make(Path(folder))
            files = files_at(path)
            held = {name: bytes(files.map(name)) for name in files.names()}
            entry = {} if path.is_dir() else {"file": path.name}
        name = "model.xml" if "model.xml" in held else next(iter(held))
        found.append((sample.partition("/")[0], held, name, entry))
    found.append(("tflite", {"f": made.with_files()}, "f", {"file": "f"}))
    return found


def changed(data, generator):
    """Return bytes with some of them changed, left out, doubled, replaced by a number, or put elsewhere."""
    data = bytearray(data)
    for _ in range(generator.choice([1, 1, 2, 5, 20])):
        near = generator.choice([64, 512, 4096, len(data) or 1])
        at = generator.randrange(min(near, len(data)) or 1)
        size = generator.choice([1, 2, 4, 8, 40])
        match generator.randrange(8):
            case 0:
                data[at : at + 1] = bytes([generator.randrange(256)])
            case 1:
                data[at : at + 1] = bytes([data[at] ^ 1 << generator.randrange(8)]) if data else b""
            case 2:
                del data[at : at + size]
            case 3:
                data[at:at] = data[at : at + size] * generator.choice([1, 2, 50])
            case 4:
                number = generator.choice([0, 1, 4, 2**31 - 1, 2**31, 2**32 - 1, len(data), generator.randrange(2**32)])
                at -= at % 4
                data[at : at + 4] = number.to_bytes(4, "little")
            case 5:
                source = generator.randrange(len(data) or 1)
                data[at : at + size] = data[source : source + size]
            case 6:
                data[at:at] = generator.choice(WORDS)
            case _:
                del data[at if generator.random() < 0.1 else len(data) :]
    return bytes(data)


def look(form, files, entry):
    """Look at files in every way there is; whatever VitrifyErrors that gives are what they should be."""
    form.detect(files)
    for way in ("describe", "hazards", "graph", "parts"):
        try:
            found = getattr(form, way)(files, entry) if hasattr(form, way) else ()
            if way == "describe":
                json.dumps(found).encode()
            elif way != "graph":
                list(found)
        except VitrifyError:
            continue


def fuzz(seconds, seed):
    """Return how many files were looked at, and what went wrong."""
    generator, honest, failures, count = random.Random(seed), seeds(), [], 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        form, held, name, entry = generator.choice(honest)
        broken = changed(held[name], generator)
        files = HeldFiles({each: memoryview(broken if each == name else data) for each, data in held.items()})
        start = time.process_time()
        try:
            look(catalog().row("format", form).look(), files, entry)
        except Exception:  # noqa: BLE001 (what else comes out is what is looked for)
            failures.append((form, broken, traceback.format_exc()))
        if time.process_time() - start > SLOW:
            failures.append((form, broken, f"took {time.process_time() - start:.1f} s"))
        count += 1
    return count, failures


if __name__ == "__main__":
    given = sys.argv[2] if len(sys.argv) > 2 else random.randrange(2**32)
    done, wrong = fuzz(float(sys.argv[1]), int(given))
    print(f"seed {given}: {done} files, {len(wrong)} failures")  # noqa: T201 (its answer)
    for kind, content, what in wrong[:10]:
        print(kind, len(content), what)  # noqa: T201 (its answer)
    sys.exit(bool(wrong))
