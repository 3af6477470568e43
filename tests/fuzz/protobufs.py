"""Fuzzing of everything that reads Protocol Buffers: ONNX, SavedModel, GraphDef, checkpoints, Core ML.

``python tests/fuzz/protobufs.py SECONDS [SEED]`` changes honest files at random, looks at each with every format and
prints how many there were and every failure; it fails if there was one. Nothing but a VitrifyError may come out of
a format, and no file may take longer than a moment.
"""

from __future__ import annotations

import random
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from samples import protobufs as made

from vitrify.core.errors import VitrifyError
from vitrify.formats.coreml import CoreMl
from vitrify.formats.graph_def import GraphDef
from vitrify.formats.onnx import Onnx
from vitrify.formats.saved_model import SavedModel
from vitrify.formats.tf_checkpoint import TfCheckpoint
from vitrify.reading.files import HeldFiles
from vitrify.reading.protobuf import peek

SLOW = 2.0
FORMATS = {
    "onnx": Onnx(),
    "saved-model": SavedModel(),
    "graph-def": GraphDef(),
    "tf-checkpoint": TfCheckpoint(),
    "coreml": CoreMl(),
}


def seeds():
    """Return honest files, each with the format that it is of."""
    whole = made.package(*made.BASIC_PITCH, "nmp", "saved_model.pb").read_bytes()
    graph = peek(memoryview(peek(memoryview(whole))[2]))[2]
    yield from (("onnx", make().SerializeToString()) for make in (made.linear, made.nested, made.with_functions))
    yield "onnx", made.quantised().SerializeToString()
    yield "onnx", made.classifier().SerializeToString()
    yield "saved-model", whole
    yield "graph-def", bytes(graph)
    yield "tf-checkpoint", made.package(*made.BASIC_PITCH, "nmp", "variables", "variables.index").read_bytes()
    program = made.package(*made.BASIC_PITCH, "nmp.mlpackage", "Data", "com.apple.CoreML", "model.mlmodel")
    yield "coreml", program.read_bytes()


def changed(data, generator):
    """Return bytes with some of them changed, left out, doubled, or put elsewhere."""
    data = bytearray(data)
    for _ in range(generator.choice([1, 1, 2, 5, 20])):
        at = generator.randrange(len(data) or 1)
        size = generator.choice([1, 2, 8, 100])
        match generator.randrange(6):
            case 0:
                data[at : at + 1] = bytes([generator.randrange(256)])
            case 1:
                data[at : at + 1] = bytes([data[at] ^ 1 << generator.randrange(8)]) if data else b""
            case 2:
                del data[at : at + size]
            case 3:
                data[at:at] = data[at : at + size] * generator.choice([1, 2, 50])
            case 4:
                data[at:at] = generator.choice([b"\xff" * 10, b"\x00" * size, b"\x0a\x00" * size, b"\x80" * size])
            case _:
                del data[at if generator.random() < 0.1 else len(data) :]
    return bytes(data)


def look(name, data):
    """Look at a file with a format in every way there is; whatever VitrifyErrors that gives are what they should be."""
    form, files, entry = FORMATS[name], HeldFiles({"file": memoryview(data)}), {"file": "file"}
    for other in FORMATS.values():
        other.detect(files)
    for way in ("describe", "hazards", "graph"):
        try:
            found = getattr(form, way)(files, entry) if hasattr(form, way) else ()
            if way == "hazards":
                list(found)
        except VitrifyError:
            continue


def fuzz(seconds, seed):
    """Return how many files were looked at, and what went wrong."""
    generator, honest, failures, count = random.Random(seed), list(seeds()), [], 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        name, data = generator.choice(honest[:-4] + honest if generator.random() < 0.8 else honest)
        broken = changed(data, generator)
        start = time.monotonic()
        try:
            look(name, broken)
        except Exception:  # noqa: BLE001 (that none escapes is the question)
            failures.append((name, broken, traceback.format_exc()))
        if time.monotonic() - start > SLOW:
            failures.append((name, broken, f"took {time.monotonic() - start:.1f} s"))
        count += 1
    return count, failures


if __name__ == "__main__":
    given = sys.argv[2] if len(sys.argv) > 2 else random.randrange(2**32)
    done, wrong = fuzz(float(sys.argv[1]), int(given))
    print(f"seed {given}: {done} files, {len(wrong)} failures")  # noqa: T201 (a command)
    for kind, content, what in wrong[:10]:
        print(kind, len(content), what)  # noqa: T201
    sys.exit(bool(wrong))
