"""Pickle: only when the user asks. A pickle is code, and its artifact says so.

It is read with an allow-list of exact names, as :mod:`vitrify.pickles.names` has them, plus what the user allows.
Every name that is missing is listed before the first opcode runs; the list comes from :mod:`._opcodes`, and while the
pickle runs, a name that is not on it stops it. What is allowed, runs: the safest pickle is no pickle.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, BinaryIO

from vitrify.core.errors import MalformedError, UnsupportedModelError, UntrustedCodeError, VitrifyError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats import _native_file
from vitrify.formats._opcodes import global_names
from vitrify.pickles import names as trust
from vitrify.pickles.names import Name
from vitrify.reading.files import only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink

FILE = "model.pkl"
PROTOCOL = 5


class Pickle:
    """The pickle format, protocol 5 when written, any when read."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is one complete pickle, by its opcodes."""
        name = only(files)
        if name is None:
            return False
        with files.path(name).open("rb") as stream:
            try:
                global_names(stream, where=name)
            except MalformedError:
                return False
            return not stream.read(1)

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the names that the pickle uses, and those of them that have to be allowed."""
        where = _native_file.find(files, entry, (".pkl", ".pickle"))
        names = _names(files, where)
        return {
            "code": True,
            "uses": sorted(name.dotted for name in names),
            "needs": list(trust.untrusted(names)),
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield the names that nobody has trusted yet."""
        where = _native_file.find(files, entry, (".pkl", ".pickle"))
        for name in trust.untrusted(_names(files, where)):
            yield Finding(place=where, message=f"would use {name}", rule="untrusted-global", subject=name)

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:  # noqa: ARG002 (the protocol's)
        """Write a model.

        Raises:
            UnsupportedModelError: pickle cannot keep it, or would need a name that cannot be listed.
        """
        with sink.path(FILE, "weight") as path:
            with path.open("wb") as stream:
                _dump(model, stream)
            with path.open("rb") as stream:
                found = global_names(stream, where=FILE)
        if nested := _nested(found):
            problems = [Finding(place=name, message="is not at the top level of its module") for name in nested]
            msg = "this pickle would reach through one object to another, which cannot be allowed by name"
            raise UnsupportedModelError(msg, problems=problems, remedy="move them to the top level of a module")
        names = [Name(module, name, "pickle") for module, name in found]
        return Written(
            entry={"code": True},
            names=trust.untrusted(names),
            notes=("a pickle: loading it runs the code that it names",),
        )

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Run the pickle.

        Raises:
            UntrustedCodeError: It names code that is neither trusted nor allowed; all is listed, nothing was run.
            MalformedError: It is no pickle, names what is not here, or fails while it runs.
        """
        where = _native_file.find(files, entry, (".pkl", ".pickle"))
        names = _names(files, where)
        allow.require(trust.untrusted(names), what=f"loading {where}")
        try:
            with files.path(where).open("rb") as stream:
                return _Unpickler(stream, names, where).load()
        except VitrifyError:
            raise
        except Exception as error:
            msg = f"{where}: the pickle failed ({type(error).__name__}: {error})"
            raise MalformedError(
                msg, remedy="load it with the versions of the libraries that it was saved with"
            ) from error


class _Unpickler(pickle.Unpickler):
    """An unpickler that finds the names that were audited, and no other."""

    def __init__(self, stream: BinaryIO, names: frozenset[Name], where: str) -> None:
        super().__init__(stream)
        self._names = names
        self._where = where

    def find_class(self, module: str, name: str) -> Any:
        if Name(module, name, "pickle") not in self._names:
            msg = f"{self._where}: while it ran it asked for {module}.{name}, which its opcodes did not show"
            raise UntrustedCodeError(msg, names=[f"{module}.{name}"], remedy="do not use this file")
        return trust.resolve(module, name)


def _dump(model: Any, stream: BinaryIO) -> None:
    try:
        pickle.dump(model, stream, protocol=PROTOCOL)
    except OSError:
        raise
    except Exception as error:
        problem = Finding(place=type(model).__qualname__, message=f"{type(error).__name__}: {error}")
        remedy = "take it out of the model, or move the function or class it names to the top level of a module"
        raise UnsupportedModelError("pickle cannot keep this model", problems=[problem], remedy=remedy) from error


def _names(files: Files, where: str) -> frozenset[Name]:
    with files.path(where).open("rb") as stream:
        found = global_names(stream, where=where)
    if nested := _nested(found):
        remedy = "move nested classes and methods to the top level of a module, and save again"
        refuse(where, f"names that reach through one object to another: {', '.join(nested)}", remedy=remedy)
    return frozenset(Name(module, name, "pickle") for module, name in found)


def _nested(names: frozenset[tuple[str, str]]) -> list[str]:
    """Return those that are no plain name in a plain module."""
    parts = {(module, name): (*module.split("."), name) for module, name in names}
    return sorted(f"{module}.{name}" for (module, name), part in parts.items() if not all(map(str.isidentifier, part)))
