"""Readers of HDF5 and Keras. Every attribute and dataset is read too; what h5py lists of an honest file, so do we."""

from __future__ import annotations

import functools
import io
import tempfile
from pathlib import Path
from unittest.mock import patch

from fuzz import _formats, _look
from fuzz._run import Case
from vitrify.reading import hdf5
from vitrify.reading._hdf5.image import Image

FORMATS = ("hdf5", "keras", "keras-h5")
UNVERIFIED = " as if its checksums were right"
"""Half of the files pass for undamaged where there are checksums, or these would hide all that is behind them."""
SIGNS = (
    b"TREE",
    b"SNOD",
    b"HEAP",
    b"OHDR",
    b"OCHK",
    b"FRHP",
    b"FHDB",
    b"FHIB",
    b"BTHD",
    b"BTIN",
    b"BTLF",
    b"GCOL",
    b"FADB",
)


@functools.cache
def seeds(*, quick=False):
    from samples import keras_files

    with tempfile.TemporaryDirectory() as folder:
        options = [{"userblock_size": 512}, {"libver": "latest", "track_order": True}]
        made = [_look.case_at(keras_files.plain(Path(folder), **one), "hdf5") for one in options]
    made = [*made, *_formats.samples(*FORMATS, quick=quick)]
    for case in made:
        if case.kind != "keras":
            compare(*case.files.values())
    return [Case(case.kind + mark, case.files) for case in made for mark in ("", UNVERIFIED)]


change = functools.partial(_formats.change, words=SIGNS)


def check(case):
    verify = (lambda *_: None) if case.kind.endswith(UNVERIFIED) else Image.verify
    known = False
    with patch.object(Image, "verify", verify):
        for name in FORMATS:
            known |= _look.ask(_look.form(name), case)
        [data] = case.files.values()
        _look.ours(lambda: read_all(hdf5.File(memoryview(data), where="file")))
    return known


def read_all(file):
    """Read every attribute and every dataset."""
    for _, node in file.walk():
        if isinstance(node, hdf5.Node):
            for attribute in node.attrs.values():
                _look.ours(attribute.value)
        if isinstance(node, hdf5.Dataset):
            _look.ours(node.values)


def compare(data):
    """Compare the names that h5py lists with ours."""
    import h5py

    theirs = []
    with h5py.File(io.BytesIO(data)) as file:
        file.visit(theirs.append)
    ours = {path[1:] for path, node in hdf5.File(memoryview(data), where="file").walk() if isinstance(node, hdf5.Node)}
    assert set(theirs) <= ours, set(theirs) ^ ours
