"""NumPy's own files: one array as ``.npy``, named arrays as ``.npz``.

Numbers, times and text are data, and are read where they lie in the file. An array of Python objects is a pickle,
which the pickle machine reads. Written as ``.npz`` without compression and without pickles.

Specification: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, UnsupportedModelError, VitrifyError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats import _native_file
from vitrify.formats._facts import tensor, weights
from vitrify.reading import npy
from vitrify.reading.files import LocalFiles, only
from vitrify.reading.malformed import refuse
from vitrify.reading.zip import Zip, ends_like_zip, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink

FILE = "model.npz"
SUFFIXES = (".npz", ".npy")
_SUFFIX = ".npy"
_ONLY = "array"
"""What the array of a ``.npy`` file is called, which has no name of its own."""


class NumpyFile:
    """The ``.npy`` and ``.npz`` formats."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is an array, or a zip file of arrays and nothing else."""
        name = only(files)
        if name is None:
            return False
        view = files.map(name)
        if bytes(view[:6]) == npy.MAGIC:
            return True
        try:
            return ends_like_zip(view) and _is_npz(opened(view, where=name))
        except VitrifyError:
            return False

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays (element type, shape, bytes), and whether one holds a pickle; no element is read."""
        view, where = _find(files, entry)
        found = dict(_layouts(view, where))
        listed = [tensor(name, one.type, one.shape, size - one.start) for name, (one, size) in found.items()]
        pickled = [name for name, (one, _) in found.items() if one.objects]
        return {"container": "npz" if _holds_many(view) else "npy", **weights(listed), "pickles": pickled}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what is wrong with the zip file, and what the pickles of arrays of objects would do."""
        from vitrify.pickles.machine import audit
        from vitrify.pickles.older import Older

        view, where = _find(files, entry)
        if _holds_many(view):
            yield from Zip(view, where=where, paths=False).findings()
        for name, (one, _) in _layouts(view, where):
            if one.objects:
                place = f"{where}: {name}" if _holds_many(view) else where
                yield from audit(_member(view, where, name)[one.start :], where=place, dialect=Older()).findings

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:  # noqa: ARG002 (the protocol's)
        """Write a dict of arrays.

        Raises:
            UnsupportedModelError: It is none, or holds what only a pickle could keep; everything is listed.
        """
        from vitrify.reading.zip_writer import Packer

        problems = list(_problems(model))
        if problems:
            msg = "a .npz file keeps a dict of arrays of numbers, times or text"
            raise UnsupportedModelError(msg, problems=problems, remedy="save what else there is as skops or pickle")
        with sink.path(FILE, "weight") as path:
            with path.open("wb") as stream, Packer(stream) as packer:
                for name, array in model.items():
                    packer.add(f"{name}{_SUFFIX}", npy.encode(array))
            try:
                Zip(LocalFiles({FILE: path}).map(FILE), where=FILE, strict=True)
            except MalformedError as error:  # names that somebody who unpacks it could not have
                raise UnsupportedModelError(error.message, remedy="rename the arrays") from error
        return Written()

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Return the array of a ``.npy`` file, or the dict of arrays of a ``.npz`` file.

        Arrays are read-only views of the file where they are not compressed; copy what you want to write to.

        Raises:
            UntrustedCodeError: An array of objects needs a name that is neither trusted nor allowed.
            MalformedError: It is no such file.
        """
        view, where = _find(files, entry)
        if not _holds_many(view):
            return _array(view, where, allow)
        archive = Zip(view, where=where, strict=True, paths=False)
        return {
            name.removesuffix(_SUFFIX): _array(archive.read(name), f"{where}: {name}", allow)
            for name in archive.members
        }


def _find(files: Files, entry: Mapping[str, Any]) -> tuple[memoryview, str]:
    where = _native_file.find(files, entry, SUFFIXES)
    return files.map(where), where


def _holds_many(view: memoryview) -> bool:
    return bytes(view[:6]) != npy.MAGIC


def _is_npz(archive: Zip) -> bool:
    names = list(archive.members)
    return bool(names) and all(name.endswith(_SUFFIX) and archive.head(name, 6) == npy.MAGIC for name in names)


def _layouts(view: memoryview, where: str) -> Iterator[tuple[str, tuple[npy.Layout, int]]]:
    """Yield each array's name, its layout, and how many bytes it takes with its header."""
    if not _holds_many(view):
        yield _ONLY, (npy.layout(view, where=where), view.nbytes)
        return
    archive = opened(view, where=where)
    for name, member in archive.members.items():
        if not name.endswith(_SUFFIX):
            refuse(where, f"a member {name!r:.200} among arrays")
        start = memoryview(archive.head(name, npy.MAX_START))
        yield name.removesuffix(_SUFFIX), (npy.layout(start, where=f"{where}: {name}", size=member.size), member.size)


def _member(view: memoryview, where: str, name: str) -> memoryview:
    return opened(view, where=where).read(f"{name}{_SUFFIX}") if _holds_many(view) else view


def _array(view: memoryview, where: str, allow: Allow) -> Any:
    found = npy.layout(view, where=where)
    if not found.objects:
        return npy.array(view, where=where)
    import numpy as np

    from vitrify.pickles.machine import load
    from vitrify.pickles.older import Older

    value = load(view[found.start :], where=where, allow=allow, dialect=Older())
    if not isinstance(value, np.ndarray) or value.shape != found.shape:
        refuse(where, f"its pickle is no array of shape {found.shape}")
    return value


def _problems(model: Any) -> Iterator[Finding]:
    import numpy as np

    if not isinstance(model, dict) or not model:
        yield Finding(place="model", message=f"a {type(model).__name__}, not a dict of arrays")
        return
    for name, array in model.items():
        if type(name) is not str:
            yield Finding(place=repr(name), message="a name that is no text")
        elif not isinstance(array, np.ndarray | np.generic) or isinstance(array, np.ma.MaskedArray):
            yield Finding(place=name, message=f"a {type(array).__name__}, not a plain array")
        elif array.dtype.hasobject:
            yield Finding(place=name, message=f"an array of dtype {array.dtype}, which holds Python objects")
