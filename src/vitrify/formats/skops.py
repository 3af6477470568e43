"""scikit-learn estimators and pipelines as data: the ``.skops`` file, without pickle.

The file is what skops 0.16 writes (protocol 2), and skops can load it; the writer and the reader are our own,
because ``import skops.io`` takes 4 to 8 seconds: it imports all of scikit-learn, and PyTorch where that is
installed, to build its list of trusted types. What this module adds: the same model gives the same bytes,
shared objects are written once and shared again, object arrays and keys of any type come back as they were,
everything that cannot be kept is listed at once, and indices inside trees and sparse matrices are checked.

Reading has three steps that never mix: parse (:mod:`._skops.node`), audit (:mod:`._skops.audit`), construct
(:mod:`._skops.build`). Only the last one imports what the file names, after every name was found trusted
(:mod:`vitrify.pickles.names`) or allowed by the user.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import LimitExceededError, MalformedError, UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats import _native_file
from vitrify.reading.files import HeldFiles, only
from vitrify.reading.zip import Zip, ends_like_zip, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.pickles.names import Name

FILE = "model.skops"
_SCHEMA = "schema.json"
_PACKAGES = {"sklearn": "scikit-learn"}


class Skops:
    """The ``.skops`` format."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is a zip whose ``schema.json`` names loaders, or is such that nobody can tell."""
        name = only(files)
        if name is None or not ends_like_zip(files.map(name)):
            return False
        try:
            archive = opened(files.map(name), where=name)
            return _SCHEMA in archive and _names_loaders(bytes(archive.read(_SCHEMA)))
        except LimitExceededError:
            return True
        except MalformedError:
            return False

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return class, parameters, steps, features and classes as the schema has them; nothing is constructed."""
        from vitrify.formats._skops import audit, node, summary
        from vitrify.pickles import names as trust

        archive, where = _open(files, entry)
        root = node.read(archive, where=where)
        untrusted = trust.untrusted(audit.names(root, where=where))
        told = summary.of(root, archive)
        written = {_PACKAGES.get(name, name): version for name, version in entry.get("versions", {}).items()}
        return {**told, "versions": {**written, **told.get("versions", {})}, "needs": list(untrusted)}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what is wrong with the zip file, and the names that nobody has trusted yet."""
        from vitrify.formats._skops import audit, node
        from vitrify.pickles import names as trust

        archive, where = _open(files, entry)
        yield from archive.findings()
        for name in trust.untrusted(audit.names(node.read(archive, where=where), where=where)):
            yield Finding(
                place=f"{where}: {_SCHEMA}",
                message=f"would import and use {name} when it is loaded",
                rule="untrusted-global",
                subject=name,
                remedy="read that code; if you trust it, allow it by its exact name",
            )

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield the members that the schema does not use: no reader of skops opens them, but somebody might."""
        from vitrify.formats._skops import node

        archive, where = _open(files, entry)
        used = {part.raw.get("file") for part in node.read(archive, where=where).walk()}
        for name in archive.members:
            if name not in used and name != _SCHEMA and not name.endswith("/"):
                yield f"{where}: {name}", HeldFiles({name: archive.read(name)})

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:  # noqa: ARG002 (the protocol's)
        """Write a model.

        Raises:
            UnsupportedModelError: Parts of it cannot be kept; each is listed by its path in the model.
        """
        from vitrify.formats._skops import audit, node
        from vitrify.formats._skops.capture import Capture
        from vitrify.pickles import names as trust
        from vitrify.reading.zip_writer import Packer

        capture = Capture()
        root = capture.node(model, "")
        if capture.problems:
            msg = f"this {type(model).__name__} holds what a .skops file cannot keep"
            remedy = "change these parts, or save with format='pickle', which is code and has to be allowed when loaded"
            raise UnsupportedModelError(msg, problems=capture.problems, remedy=remedy)
        with sink.open(FILE, "weight") as stream, Packer(stream) as packer:
            node.write(root, packer)
        names = audit.names(root, where=FILE)
        return Written(entry={"versions": _versions(names)}, names=trust.untrusted(names))

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Return the model.

        Raises:
            UntrustedCodeError: It uses a name that is neither trusted nor allowed; all are listed, nothing was run.
            MalformedError: The file is not what skops writes, or its content does not fit its classes.
        """
        from vitrify.formats._skops import audit, node
        from vitrify.formats._skops.build import Builder
        from vitrify.pickles import names as trust

        archive, where = _open(files, entry)
        archive.require_honest()
        root = node.read(archive, where=where)
        allow.require(trust.untrusted(audit.names(root, where=where)), what=f"loading {where}")

        return Builder(archive, where=where).build(root)


def _open(files: Files, entry: Mapping[str, Any]) -> tuple[Zip, str]:
    where = _native_file.find(files, entry, (".skops",))
    return opened(files.map(where), where=where), where


def _names_loaders(schema: bytes) -> bool:
    """Say whether the key of every node is in it; JSON can hide it in escapes."""
    return b"__loader__" in schema or b"\\u" in schema


def _versions(names: Iterable[Name]) -> dict[str, str]:
    """Return the versions of the packages whose classes the model uses."""
    packages = {name.module.partition(".")[0] for name in names}
    found = {package: getattr(sys.modules.get(package), "__version__", None) for package in sorted(packages)}
    return {package: version for package, version in found.items() if isinstance(version, str)}
