"""Readers of ZIP and TAR, and of all that PyTorch and others keep in them.

What our readers accept as honest, Python's own ``zipfile`` and ``tarfile`` read to the same names and bytes; what our
loader of ``torch.save`` accepts, PyTorch's own reads to equal tensors.
"""

from __future__ import annotations

import functools
import io
import tarfile
import zipfile

from fuzz import _formats, _look
from fuzz._run import Case
from vitrify.core.protocols import Allow
from vitrify.formats.torch_file import TorchFile
from vitrify.reading.tar import Tar
from vitrify.reading.zip import Zip

FORMATS = ("zip", "tar", "torch", "torchscript", "torch-export", "aoti", "torchserve", "skops", "seven-zip")
WORDS = (
    b"PK\x05\x06",
    b"PK\x01\x02",
    b"PK\x03\x04",
    b"PK\x06\x06",
    b"PK\x06\x07",
    b"PK\x07\x08",
    b"ustar",
    b"../",
    b"\0",
)


@functools.cache
def seeds(*, quick=False):
    from samples import archives, torch_files

    more = [torch_files.zipped(archives.MEMBERS, zipfile.ZIP_DEFLATED), torch_files.zipped(torch_files.served())]
    return _formats.samples(*FORMATS, quick=quick) + [Case("zip", {"a.zip": one}) for one in more]


change = functools.partial(_formats.change, words=WORDS)


def check(case):
    known = False
    for name in FORMATS:  # each is asked whether a changed file is now its own
        known |= _look.ask(_look.form(name), case)
    return compare(case) or known


def compare(case):
    """Compare what is accepted with what others read; return whether one of the readers accepted it."""
    [data] = case.files.values()
    view = memoryview(data)
    zipped = _look.ours(lambda: _contents(Zip(view, where="file", strict=True)))
    if zipped is not None:
        with zipfile.ZipFile(io.BytesIO(data)) as theirs:
            assert zipped == {name: theirs.read(name) for name in theirs.namelist()}
    tarred = _look.ours(lambda: _contents(Tar(view, where="file", strict=True)))
    if tarred is not None:
        with tarfile.open(fileobj=io.BytesIO(data)) as theirs:
            names = {one.name.removeprefix("./"): one for one in theirs if not one.isdir()}
            assert tarred == {name: theirs.extractfile(one).read() for name, one in names.items()}
    loaded = _look.ours(lambda: TorchFile().read(_look.held(case), case.entry, Allow()))
    if isinstance(loaded, dict) and tarred is None:
        _compare_loaded(data, loaded)
    return any(one is not None for one in (zipped, tarred, loaded))


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
    """Return what makes two values equal; what rebuilds a tensor may stand as a value, and ours stands in for it."""
    import torch

    if callable(value) and not isinstance(value, type | torch.nn.Module):
        return "function"
    if isinstance(value, torch.Tensor):
        tensor = value.detach().contiguous()
        return str(value.dtype), tuple(value.shape), bytes(tensor.reshape(-1).view(torch.uint8).numpy())
    if isinstance(value, dict):
        return [(repr(key), _bytes(part)) for key, part in value.items()]
    return [_bytes(part) for part in value] if isinstance(value, list | tuple) else repr(value)
