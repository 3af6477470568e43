"""joblib: pickles with the bytes of arrays between their opcodes, often compressed.

Files of ``joblib.dump``, plain and by all of its compressors, of every release since 0.10; those before are read where
they are one file. The pickle machine reads them (:mod:`vitrify.pickles.joblib_dialect`), joblib need not be installed.
Arrays of a file that is not compressed are mapped, copy-on-write: loading a large forest costs its objects only.

Specification: https://joblib.readthedocs.io/en/stable/persistence.html
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MissingDependencyError, UnsupportedModelError, VitrifyError
from vitrify.core.report import Finding
from vitrify.formats import _native_file
from vitrify.formats.compressed import unread
from vitrify.reading import compressed
from vitrify.reading.files import LocalFiles, only

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from vitrify.core.protocols import Allow, Example, Files, Sink, Written
    from vitrify.pickles.machine import Audit

FILE = "model.joblib"
PROTOCOL = 5
SUFFIXES = (".joblib",)

_HEAD = 4096


class Joblib:
    """The joblib format: written plain, read however it was compressed."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is a pickle with joblib's arrays in it, or any pickle that is compressed."""
        name = only(files)
        if name is None:
            return False
        from vitrify.formats._pickled import look

        view = files.map(name)
        try:
            if compressed.codec(view) is None:
                return look.is_joblib(view)
            start = compressed.begin(view, _HEAD)
            return start[:1] == b"\x80" and look.begins(memoryview(start))
        except (VitrifyError, OSError):
            return False

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a pickle says (class, parameters, versions, names), the arrays' total and the compression."""
        from vitrify.formats._pickled import summary

        where = _native_file.find(files, entry, SUFFIXES)
        found, arrays = _audit(_content(files, where), where)
        if found.error is not None:
            raise found.error
        codec = compressed.codec(files.map(where))
        told = {**summary.of(found), "arrays": len(arrays), "bytes": sum(arrays)}
        return {**told, "compression": codec} if codec else told

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield the names that nobody has trusted, and what no allow-list could make harmless."""
        where = _native_file.find(files, entry, SUFFIXES)
        try:
            content = _content(files, where)
        except MissingDependencyError as error:
            yield unread(where, error)
            return
        found, _ = _audit(content, where)
        yield from found.findings

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:  # noqa: ARG002 (the protocol's)
        """Write a model, its arrays uncompressed and aligned so that they can be mapped.

        Raises:
            UnsupportedModelError: joblib cannot keep it, or it could not be read without running what is in it.
            MissingDependencyError: joblib is not installed.
        """
        from vitrify.formats._pickled.written import written

        with sink.path(FILE, "weight") as path:
            _dump(model, path)
            found, _ = _audit(LocalFiles({FILE: path}).map(FILE), FILE)
        return written(found)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Build what the file holds.

        Raises:
            UntrustedCodeError: It names code that is neither trusted nor allowed; all is listed, nothing was run.
            MalformedError: It is no such file, names what is not here, or fails while it is built.
            MissingDependencyError: Its compression needs a package that is not installed.
        """
        from vitrify.pickles.machine import load

        where = _native_file.find(files, entry, SUFFIXES)
        view = files.map(where)
        if compressed.codec(view) is not None:
            content = compressed.expand(view, where=where, own=True)
        else:
            content = _mapped(files.path(where))
        return load(content, where=where, allow=allow, dialect=_dialect(where))


def _content(files: Files, where: str) -> memoryview:
    view = files.map(where)
    return view if compressed.codec(view) is None else compressed.expanded(view, where=where)


def _audit(content: memoryview, where: str) -> tuple[Audit, list[int]]:
    """Return what it would do, and the bytes of each array."""
    from vitrify.pickles.machine import audit

    dialect = _dialect(where)
    return audit(content, where=where, dialect=dialect), dialect.sizes


def _dialect(where: str) -> Any:
    from vitrify.formats._boosters.pickled import CHECKS
    from vitrify.pickles.joblib_dialect import Joblib as Dialect

    dialect = Dialect(where=where)
    dialect.checks = CHECKS  # boosters are checked before their libraries parse them
    return dialect


def _mapped(path: Path) -> memoryview:
    """Return a file's bytes, to be changed in memory only: arrays of a loaded model may be written to."""
    if not path.stat().st_size:
        return memoryview(b"")
    with path.open("rb") as stream:
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY))


def _dump(model: Any, path: Path) -> None:
    try:
        import joblib
    except ImportError as error:
        raise MissingDependencyError("joblib is not installed", remedy="pip install joblib") from error
    try:
        with path.open("wb") as stream:
            joblib.dump(model, stream, protocol=PROTOCOL)
    except OSError:
        raise
    except Exception as error:
        problem = Finding(place=type(model).__qualname__, message=f"{type(error).__name__}: {error}")
        remedy = "take it out of the model, or move the function or class it names to the top level of a module"
        raise UnsupportedModelError("joblib cannot keep this model", problems=[problem], remedy=remedy) from error
