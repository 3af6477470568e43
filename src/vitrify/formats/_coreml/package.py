"""A Core ML package: a directory whose manifest names its items, and the file of weights beside the model.

Sources: https://github.com/apple/coremltools/tree/main/modelpackage and .../mlmodel/src/MILBlob/Blob/StorageFormat.hpp.
"""

from __future__ import annotations

import struct
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.reading.json import parse
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Files
    from vitrify.formats._coreml.model import Model, Stored

MANIFEST = "Manifest.json"
DATA = "Data"
HERE = "@model_path/"
"""What the path of a file of weights begins with: the directory that holds the model."""

MAX_MANIFEST = 1024 * 1024

_BLOB = struct.Struct("<IIQQ")
_SENTINEL = 0xDEADBEEF


def manifest(files: Files) -> dict[str, Any] | None:
    """Return the manifest; None where there is none that could be a package's.

    Raises:
        MalformedError: It is no JSON.
    """
    if MANIFEST not in files.names():
        return None
    found = parse(files.map(MANIFEST), where=MANIFEST, most=MAX_MANIFEST)
    items = found.get("itemInfoEntries") if isinstance(found, dict) else None
    if not isinstance(items, dict) or not all(isinstance(item, dict) for item in items.values()):
        return None
    return found if isinstance(found.get("rootModelIdentifier"), str) else None


def model_file(files: Files) -> str:
    """Return the name of the package's model.

    Raises:
        MalformedError: The manifest names none, or one that is not there.
    """
    found = manifest(files)
    item = None if found is None else found["itemInfoEntries"].get(found["rootModelIdentifier"])
    path = item.get("path") if item else None
    if not isinstance(path, str) or f"{DATA}/{path}" not in files.names():
        refuse(MANIFEST, f"names {path!r} as the model, which is not in the package")
    return f"{DATA}/{path}"


def items(files: Files) -> Iterator[Finding]:
    """Yield the items of the manifest that lie outside the package.

    Raises:
        MalformedError: It is no JSON.
    """
    found = manifest(files)
    for item in () if found is None else found["itemInfoEntries"].values():
        path = item.get("path")
        if not isinstance(path, str) or _leaves(path):
            yield Finding(
                place=MANIFEST,
                rule="package-path",
                subject=str(path),
                message=f"names {path!r}, outside the package: a reader would take that file for the model's",
            )


class Blobs:
    """The files of weights that a model refers to, looked at one weight at a time."""

    def __init__(self, model: Model, files: Files, name: str) -> None:
        """Take the model and the files that it came with."""
        self._model = model
        self._files = files
        self._folder = PurePosixPath(name).parent
        self._missing: set[str] = set()

    def hazards(self, stored: Stored) -> Iterator[Finding]:
        """Yield what is wrong with where a weight is said to lie."""
        place = f"{self._model.where}: {stored.place}"
        path = stored.file.removeprefix(HERE)
        if path == stored.file or _leaves(path):
            yield Finding(
                place=place,
                rule="weights-path",
                subject=stored.file,
                message=f"is said to lie in {stored.file!r}, outside the package: loading it would read that file",
            )
            return
        name = (self._folder / path).as_posix()
        if name not in self._files.names():
            if name not in self._missing:
                self._missing.add(name)
                yield Finding(
                    place=place,
                    rule="weights-missing",
                    subject=stored.file,
                    message=f"lies in {stored.file!r}, which is not here: the model cannot be looked at as a whole",
                    remedy="name the package that holds both",
                    verdict="not checked",
                )
            return
        view = self._files.map(name)
        if stored.offset + _BLOB.size > len(view):
            said = f"at byte {stored.offset} of {len(view)}"
        else:
            sentinel, _, size, start = _BLOB.unpack_from(view, stored.offset)
            if sentinel == _SENTINEL and start + size <= len(view) and size == stored.size:
                return
            said = f"bytes {start} to {start + size} of {len(view)}, for {stored.size} bytes of data"
        yield Finding(
            place=place,
            rule="weights-range",
            subject=stored.name,
            message=f"is said to be {said}: a reader that trusts it would read past the end",
        )


def _leaves(path: str) -> bool:
    plain = path.replace("\\", "/")
    return plain.startswith("/") or ".." in plain.split("/") or ":" in plain or "\0" in plain
