"""Fuzzing of weights, trees and directories, and of the readers of YAML and of templates.

``python tests/fuzz/weights.py SECONDS [SEED]`` changes honest files at random, looks at each with its format in every
way there is, prints how many there were and every failure, and fails if there was one. Nothing but a VitrifyError may
come out of a format, what it describes is JSON, and no file may take longer than a moment.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from samples import directories, weights

from vitrify.core.catalog import catalog
from vitrify.core.errors import VitrifyError
from vitrify.formats import _templates
from vitrify.inspection.identify import files_at
from vitrify.reading import yaml
from vitrify.reading.files import HeldFiles

SLOW = 2.0
LARGE = 1 << 20
SKIPPED = {"hugging-face/minilm", "modelpack/vitrify", "orbax/ocdbt"}
WORDS = [
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"'",
        b": ",
        b"- ",
        b"\n",
        b"\n  ",
        b" #",
        b"|",
        b">-\n",
        b"&a",
        b"null",
        b"-1",
        b"1e999",
    ),
    *(
        b"{{ ",
        b" }}",
        b"{% ",
        b" %}",
        b"~",
        b"(",
        b")",
        b".__class__",
        b"|attr('a')",
        b"99999999999999999999",
        b"<",
        b"/>",
    ),
    *(b'"auto_map": {"a": "b.c"},', b"../../x", b"\xff", b"\0\0\0\0\0\0\0\x80", b"NaN", b"\\ud800", b"Tree=0\n"),
]


def seeds():
    """Return honest files as (format, files by name, entry)."""
    found = []
    for sample, make in {**weights.SAMPLES, **directories.SAMPLES}.items():
        if sample in SKIPPED:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = make(Path(folder))
            files = files_at(path)
            held = {name: bytes(files.map(name)) for name in files.names()}
            found.append((sample.partition("/")[0], held, {} if path.is_dir() else {"file": path.name}))
    return found


def changed(data, generator):
    """Return bytes with some of them changed, left out, doubled, replaced by a number, a word or a part of them."""
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
                data[at:at] = data[at : at + size] * generator.choice([1, 2, 50, 5000])
            case 4:
                number = generator.choice([0, 1, 4, 2**31 - 1, 2**31, 2**32 - 1, 2**60, 2**63, len(data)])
                data[at : at + 8] = number.to_bytes(8, generator.choice(["little", "big"]))
            case 5:
                source = generator.randrange(len(data) or 1)
                data[at : at + size] = data[source : source + size]
            case 6:
                data[at:at] = generator.choice(WORDS) * generator.choice([1, 1, 1, 300, 10_000])
            case _:
                del data[at if generator.random() < 0.1 else len(data) :]
    return bytes(data)


def look(form, files, entry):
    """Look at files in every way there is; whatever VitrifyErrors that gives are what they should be."""
    form.detect(files)
    for way in ("describe", "hazards", "parts"):
        try:
            found = getattr(form, way)(files, entry) if hasattr(form, way) else ()
            if way == "describe":
                json.dumps(found, allow_nan=False).encode()
            else:
                list(found)
        except VitrifyError:
            continue


def read(data):
    """Read bytes as YAML, and as a template."""
    with contextlib.suppress(VitrifyError):
        yaml.parse(data, where="fuzz")
    list(_templates.findings(data.decode(errors="replace"), place="fuzz"))


TEXTS = [
    weights.CHATML.encode(),
    directories.MLMODEL.encode(),
    directories.KITFILE.encode(),
    b"{% set a = x['a' ~ b] %}",
]


def fuzz(seconds, seed):
    """Return how many files were looked at, and what went wrong."""
    generator, honest, failures, count = random.Random(seed), seeds(), [], 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        count += 1
        form, held, entry = generator.choice(honest)
        name = generator.choice(list(held))
        broken = changed(generator.choice(TEXTS) if count % 4 == 0 else held[name], generator)
        start = time.process_time()
        try:
            if count % 4 == 0:
                form = "text"
                read(broken)
            else:
                files = HeldFiles({each: memoryview(broken if each == name else data) for each, data in held.items()})
                look(catalog().row("format", form).look(), files, entry)
        except Exception:  # noqa: BLE001 (what else comes out is what is looked for)
            failures.append((form, broken, traceback.format_exc()))
        if time.process_time() - start > SLOW and len(broken) < LARGE:
            failures.append((form, broken, f"took {time.process_time() - start:.1f} s"))
    return count, failures


def main(seconds, seed):
    """Print what happened, and return the exit status."""
    count, failures = fuzz(seconds, seed)
    print(f"{count} files, seed {seed}: {len(failures)} failures")  # noqa: T201 (a program)
    for form, broken, trace in failures[:5]:
        print(form, broken[:300], trace, sep="\n")  # noqa: T201
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)))
