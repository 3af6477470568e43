"""Pickle: read as data, loaded by our own machine from trusted and allowed constructors only.

Source: CPython ``Lib/pickletools.py``, https://docs.python.org/3/library/pickletools.html. What the machine does is in
:mod:`vitrify.pickles`: it interprets every opcode twice, first on inert values, and builds nothing unless every name
is trusted (:mod:`vitrify.pickles.names`) or allowed by the user. It is written only when the user asks for it: most
other programs that read a pickle run what is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from vitrify.core.errors import UnsupportedModelError, VitrifyError
from vitrify.core.report import Finding
from vitrify.formats import _native_file
from vitrify.reading.files import LocalFiles, only

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink, Written
    from vitrify.pickles.machine import Audit

FILE = "model.pkl"
PROTOCOL = 5
SUFFIXES = (".pkl", ".pickle")


class Pickle:
    """The pickle format, protocol 5 when written, any when read."""

    def detect(self, files: Files) -> bool:
        """Say whether a file begins like a pickle, or would do something before it breaks."""
        from vitrify.formats._pickled import look

        name = only(files)
        try:
            return name is not None and look.is_plain(files.map(name))
        except (VitrifyError, OSError):
            return False

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return class, parameters and versions of what it holds, the names it uses and those that need permission."""
        from vitrify.formats._pickled import summary

        found = _audit(files, entry)
        if found.error is not None:
            raise found.error
        return summary.of(found)

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield the names that nobody has trusted, and what no allow-list could make harmless."""
        yield from _audit(files, entry).findings

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:  # noqa: ARG002 (the protocol's)
        """Write a model.

        Raises:
            UnsupportedModelError: pickle cannot keep it, or it could not be read without running what is in it.
        """
        from vitrify.formats._pickled.written import written

        with sink.path(FILE, "weight") as path:
            with path.open("wb") as stream:
                _dump(model, stream)
            found = _audit(LocalFiles({FILE: path}), {"file": FILE})
        return written(found)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Build what the pickle holds.

        Raises:
            UntrustedCodeError: It names code that is neither trusted nor allowed; all is listed, nothing was run.
            MalformedError: It is no pickle, names what is not here, or fails while it is built.
        """
        from vitrify.formats._pickled.dialect import Plain
        from vitrify.pickles.machine import load

        where = _native_file.find(files, entry, SUFFIXES)
        return load(files.map(where), where=where, allow=allow, dialect=Plain())


def _audit(files: Files, entry: Mapping[str, Any]) -> Audit:
    from vitrify.formats._pickled.dialect import Plain
    from vitrify.pickles.machine import audit

    where = _native_file.find(files, entry, SUFFIXES)
    return audit(files.map(where), where=where, dialect=Plain())


def _dump(model: Any, stream: BinaryIO) -> None:
    try:
        import pickle

        pickle.dump(model, stream, protocol=PROTOCOL)
    except OSError:
        raise
    except Exception as error:
        problem = Finding(place=type(model).__qualname__, message=f"{type(error).__name__}: {error}")
        remedy = "take it out of the model, or move the function or class it names to the top level of a module"
        raise UnsupportedModelError("pickle cannot keep this model", problems=[problem], remedy=remedy) from error
