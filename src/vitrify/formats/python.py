"""Python: the last resort for any function or class that has a name in a module."""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.core.wire import Value
from vitrify.formats import _importable
from vitrify.reading.files import head, only

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink

REFERENCE = "callable.json"


class Reference(Value, frozen=True, kw_only=True):
    """What ``callable.json`` holds: ``module:qualname``."""

    object: str


class Python:
    """A function or class by its name; its source is bundled by whoever saves, and is code: nothing runs unasked.

    The artifact holds the name only, and what the bundled modules say is what runs. Values that live in this
    process (closures, instances, changed module variables) are not in it; those are refused.
    """

    def detect(self, files: Files) -> bool:
        """Say whether a file is such a reference."""
        name = only(files)
        if name is None or not head(files).startswith(b"{"):
            return False
        try:
            _parse(files.read(name), where=name)
        except MalformedError:
            return False
        return True

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the name; nothing is imported."""
        name = str(entry.get("file", REFERENCE))
        return {"object": _parse(files.read(name), where=name)}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield the name: it is code."""
        name = self.describe(files, entry)["object"]
        yield Finding(place=REFERENCE, message=f"would run {name}", rule="untrusted-global", subject=name)

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Write the name.

        Raises:
            UnsupportedModelError: No other process could find it under its name: a lambda, a closure, something
                defined in the main script, an instance or a bound method.
        """
        del example
        named = hasattr(model, "__qualname__") and hasattr(model, "__module__") and not isinstance(model, MethodType)
        found = _importable.problems(model) if named else [_instance(model)]
        if found:
            msg = f"{getattr(model, '__qualname__', type(model).__qualname__)!r} cannot be saved by its name"
            raise UnsupportedModelError(msg, problems=found)
        reference = _importable.reference(model)
        with sink.open(REFERENCE, "weight.config") as stream:
            stream.write(Reference(object=reference).to_json())
        return Written(entry={"object": reference}, names=(_importable.dotted(reference),))

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Import it, if it is allowed.

        Raises:
            UntrustedCodeError: Its name is not allowed.
            MalformedError: The file holds no reference, or not to something that can be called.
            MissingDependencyError: Its module is neither bundled nor installed.
        """
        del entry
        reference = _parse(files.read(REFERENCE), where=REFERENCE)
        found = _importable.resolve(reference, allow, what="reading this Python callable")
        if not callable(found):
            msg = f"{REFERENCE}: {reference} is a {type(found).__qualname__}, not something that can be called"
            raise MalformedError(msg)
        return found


def _parse(data: bytes, *, where: str) -> str:
    return Reference.from_json(data, where=where).object


def _instance(model: Any) -> Finding:
    if isinstance(model, MethodType):
        place, message = (
            model.__qualname__,
            f"is bound to a {type(model.__self__).__qualname__}, whose state has no name",
        )
    else:
        place, message = type(model).__qualname__, "is an instance, whose state has no name"
    return Finding(place=place, message=message, remedy="save it with format='pickle', which is marked as code")
