"""Fuzzes the readers of ZIP, TAR and PyTorch's files: ``python tests/fuzz/archives.py SECONDS [SEED]``.

Whatever the bytes, looking and loading raise nothing but our own errors, in at most two seconds. What our readers
accept as honest, Python's own ``zipfile`` and ``tarfile`` read to the same names and bytes; what our loader of
``torch.save`` accepts, PyTorch's own reads to equal tensors.
"""

from __future__ import annotations

import io
import json
import random
import sys
import tarfile
import time
import warnings
import zipfile
from pathlib import Path

from vitrify.core.errors import VitrifyError
from vitrify.core.protocols import Allow, Drawn, Holds
from vitrify.formats.aoti import Aoti
from vitrify.formats.skops import Skops
from vitrify.formats.tar import Tar as TarFile
from vitrify.formats.torch_export import TorchExport
from vitrify.formats.torch_file import TorchFile
from vitrify.formats.torchscript import TorchScript
from vitrify.formats.torchserve import TorchServe
from vitrify.formats.zip import Zip as ZipFile
from vitrify.reading.files import HeldFiles
from vitrify.reading.tar import Tar
from vitrify.reading.zip import Zip

SECONDS_A_FILE = 2
ENTRY = {"file": "file"}
FORMATS = (ZipFile(), TarFile(), TorchFile(), TorchScript(), TorchExport(), Aoti(), TorchServe(), Skops())
WORDS = (
    bytes(4),
    b"\xff" * 4,
    b"\xff" * 8,
    (1 << 62).to_bytes(8, "little"),
    b"PK\x05\x06",
    b"PK\x01\x02",
    b"PK\x03\x04",
)


def seeds():
    """Return files of every kind, small ones."""
    from samples import archives, torch_files

    made = [torch_files.saved("checkpoint"), torch_files.saved("tied"), torch_files.saved("checkpoint", legacy=True)]
    made += [torch_files.saved("module"), torch_files.tar_era(), torch_files.scripted(), torch_files.compiled()]
    made += [archives.streamed(), archives.wide(), archives.linked(), archives.skops(), torch_files.exported()]
    made += [torch_files.zipped(archives.MEMBERS, zipfile.ZIP_DEFLATED), torch_files.tarred(torch_files.served())]
    return [*made, torch_files.tarred(torch_files.served(), "w:gz"), torch_files.zipped(torch_files.served())]


def damage(data, chance):
    """Return the bytes with some of them changed, copied, cut off, or replaced by a number that hurts."""
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 12))):
        at, kind = chance.randrange(len(data)), chance.random()
        if chance.random() < 0.4:  # where the directories are
            at = max(0, len(data) - 1 - chance.randrange(1 + min(len(data) - 1, 1500)))
        if kind < 0.5:
            data[at] = chance.randrange(256)
        elif kind < 0.75:
            word = chance.choice((*WORDS, chance.randrange(len(data)).to_bytes(4, "little")))
            data[at : at + len(word)] = word
        elif kind < 0.95:
            start, size = chance.randrange(len(data)), chance.randrange(1, 128)
            data[at : at + size * chance.randrange(2)] = data[start : start + size]
        else:
            del data[max(at, 1) :]
    return bytes(data)


def look(data):
    """Ask all that can be asked of a file."""
    files = HeldFiles({"file": memoryview(data)})
    for form in FORMATS:
        form.detect(files)
        _ours(lambda form=form: json.dumps(form.describe(files, ENTRY)))
        _ours(lambda form=form: [finding.to_json() for finding in form.hazards(files, ENTRY)])
        if isinstance(form, Holds):
            _ours(lambda form=form: list(form.parts(files, ENTRY)))
        if isinstance(form, Drawn):
            _ours(lambda form=form: form.graph(files, ENTRY))


def compare(data):
    """Compare what is accepted with what others read; return how many of the readers accepted it."""
    view = memoryview(data)
    zipped = _ours(lambda: _contents(Zip(view, where="file", strict=True)))
    if zipped is not None:
        with zipfile.ZipFile(io.BytesIO(data)) as theirs:
            assert zipped == {name: theirs.read(name) for name in theirs.namelist()}
    tarred = _ours(lambda: _contents(Tar(view, where="file", strict=True)))
    if tarred is not None:
        with tarfile.open(fileobj=io.BytesIO(data)) as theirs:
            names = {one.name.removeprefix("./"): one for one in theirs if not one.isdir()}
            assert tarred == {name: theirs.extractfile(one).read() for name, one in names.items()}
    loaded = _ours(lambda: TorchFile().read(HeldFiles({"file": view}), ENTRY, Allow()))
    if isinstance(loaded, dict) and tarred is None:
        _compare_loaded(data, loaded)
    return sum(one is not None for one in (zipped, tarred, loaded))


def _contents(archive):
    return {name: bytes(archive.read(name)) for name in archive.members}


def _compare_loaded(data, loaded):
    """Compare tensors with those that PyTorch's own restricted loader gives, where it takes the file."""
    import torch

    try:
        theirs = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception:  # noqa: BLE001 (it is stricter about names, and raises anything)
        return
    assert _bytes(loaded) == _bytes(theirs)


def _bytes(value):
    import torch

    if isinstance(value, torch.Tensor):
        tensor = value.detach().contiguous()
        return str(value.dtype), tuple(value.shape), bytes(tensor.reshape(-1).view(torch.uint8).numpy())
    if isinstance(value, dict):
        return [(repr(key), _bytes(part)) for key, part in value.items()]
    return [_bytes(part) for part in value] if isinstance(value, list | tuple) else repr(value)


def _ours(call):
    try:
        return call()
    except VitrifyError:
        return None


def main(seconds, seed=0):
    """Fuzz for so long; return how many files were looked at, how many accepted, and the longest time of one."""
    chance, files, count, accepted, longest = random.Random(seed), seeds(), 0, 0, 0.0
    warnings.simplefilter("ignore")
    for data in files:
        compare(data)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = damage(chance.choice(files), chance)
        began = time.process_time()
        try:
            look(data)
            longest = max(longest, time.process_time() - began)
            accepted += compare(data)
        except BaseException as error:
            error.add_note(f"file {count} of seed {seed}")
            raise
        count += 1
        assert longest <= SECONDS_A_FILE, f"file {count} of seed {seed} took {longest:.1f} s"
    return count, accepted, longest


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    print(*main(float(sys.argv[1]), *map(int, sys.argv[2:3])))  # noqa: T201 (a program)
