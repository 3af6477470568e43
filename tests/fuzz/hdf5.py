"""Fuzzes the readers of HDF5 and Keras with damaged files: ``python tests/fuzz/hdf5.py SECONDS [SEED]``.

Whatever the bytes, looking raises nothing but our own errors and takes at most two seconds. What h5py lists of a file
that is not damaged is what we list.
"""

from __future__ import annotations

import io
import json
import random
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from unittest.mock import patch

from vitrify.core.errors import VitrifyError
from vitrify.core.protocols import Drawn
from vitrify.formats.hdf5 import Hdf5
from vitrify.formats.keras import Keras
from vitrify.formats.keras_h5 import KerasH5
from vitrify.reading import hdf5
from vitrify.reading._hdf5.image import Image
from vitrify.reading.files import HeldFiles

SECONDS_A_FILE = 2
WORDS = (bytes(8), b"\xff" * 8, (1 << 62).to_bytes(8, "little"), (1).to_bytes(8, "little"))


def seeds():
    """Return files of many kinds, small ones."""
    from samples import keras_files

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        options = [{}, {"libver": "latest"}, {"userblock_size": 512}, {"libver": "latest", "track_order": True}]
        files = [keras_files.plain(place, **one).read_bytes() for one in options]
        files.append(keras_files.keras_2(place).read_bytes())
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("config.json", json.dumps(keras_files.KERAS_2))
            archive.writestr("metadata.json", '{"keras_version": "3.15.1"}')
            archive.writestr("model.weights.h5", files[0])
        return [*files, packed.getvalue()]


def damage(data, chance):
    """Return the bytes with some of them changed, copied, cut off or replaced by a number that hurts."""
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at, kind = chance.randrange(len(data)), chance.random()
        if kind < 0.5:
            data[at] = chance.randrange(256)
        elif kind < 0.8:
            data[at : at + 8] = chance.choice((*WORDS, chance.randrange(len(data)).to_bytes(8, "little")))
        elif kind < 0.95:
            start, size = chance.randrange(len(data)), chance.randrange(64)
            data[at : at + size] = data[start : start + size]
        else:
            del data[max(at, 1) :]
    return bytes(data)


def look(data):
    """Ask all that can be asked of a file, and every value in it."""
    files = HeldFiles({"file": memoryview(data)})
    for one in (Hdf5(), Keras(), KerasH5()):
        one.detect(files)
        _ours(lambda one=one: json.dumps(one.describe(files, {})))
        _ours(lambda one=one: [json.dumps(finding.message) for finding in one.hazards(files, {})])
        _ours(lambda one=one: list(one.parts(files, {})))
        if isinstance(one, Drawn):
            _ours(lambda one=one: one.graph(files, {}).to_json())
    _ours(lambda: read_all(hdf5.File(memoryview(data), where="file")))


def read_all(file):
    """Read every attribute and every dataset."""
    for _, node in file.walk():
        if isinstance(node, hdf5.Node):
            for attribute in node.attrs.values():
                _ours(attribute.value)
        if isinstance(node, hdf5.Dataset):
            _ours(node.values)


def _ours(call):
    try:
        call()
    except VitrifyError:
        return


def compare(data):
    """Compare the names that h5py lists with ours."""
    import h5py

    theirs = []
    with h5py.File(io.BytesIO(data)) as file:
        file.visit(theirs.append)
    ours = {path[1:] for path, node in hdf5.File(memoryview(data), where="file").walk() if isinstance(node, hdf5.Node)}
    assert set(theirs) <= ours, set(theirs) ^ ours


def main(seconds, seed=0):
    """Fuzz for so long; return how many files were looked at, and the longest time that one took."""
    chance, files, count, longest = random.Random(seed), seeds(), 0, 0.0
    for data in files[:-1]:
        compare(data)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = damage(chance.choice(files), chance)
        began = time.process_time()
        # Half of them pass for undamaged where there are checksums, or these would hide all that is behind them.
        with patch.object(Image, "verify", Image.verify if chance.random() < 0.5 else lambda *_: None):
            try:
                look(data)
            except BaseException as error:
                error.add_note(f"file {count} of seed {seed}")
                raise
        longest = max(longest, time.process_time() - began)
        count += 1
        assert longest <= SECONDS_A_FILE, f"file {count} of seed {seed} took {longest:.1f} s"
    return count, longest


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    print(*main(float(sys.argv[1]), *map(int, sys.argv[2:3])))  # noqa: T201 (a program)
