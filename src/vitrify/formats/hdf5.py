"""HDF5: a tree of named arrays, of which nothing more is known.

Specification: https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.formats._archives import one_file
from vitrify.formats._facts import weights
from vitrify.reading.files import HeldFiles, only
from vitrify.reading.hdf5_start import start

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding
    from vitrify.reading.hdf5 import File


class Hdf5:
    """The HDF5 format."""

    def detect(self, files: Files) -> bool:
        """Say whether a file has the signature of HDF5 where its superblock may be."""
        name = only(files)
        return name is not None and start(files.map(name)) is not None

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the datasets as tensors, the links that lead elsewhere, and the attributes of the root."""
        from vitrify.formats._hdf5 import facts

        file = _open(files, entry)
        tensors, links = facts.walk(file)
        return {
            "versions": {"superblock": str(file.version)},
            **weights(tensors),
            "links": links,
            "metadata": facts.metadata(file.root),
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what leads out of the file, loads native code or unpacks to too much."""
        from vitrify.formats._hdf5.hazards import hazards

        yield from hazards(_open(files, entry), plain=False)

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield what is before and after the file proper: it may be a file of its own."""
        yield from around(_open(files, entry))


def around(file: File) -> Iterable[tuple[str, Files]]:
    """Yield what is before and after an HDF5 file proper, each as a file of its own."""
    from vitrify.formats._hdf5.hazards import blank

    for what, view in (("before", file.before), ("after", file.after)):
        if not blank(view):
            yield f"{file.where}: {what}", HeldFiles({what: view})


def _open(files: Files, entry: Mapping[str, Any]) -> File:
    from vitrify.reading.hdf5 import File

    view, where = one_file(files, entry)
    return File(view, where=where)
