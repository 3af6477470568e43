"""The Python object around a library's native model: its class and attributes, as data in ``state.json``.

Gradient boosters keep their trees in a file of their own kind. What scikit-learn's interface adds (classes,
parameters, the value that stands for missing, the best iteration) lives in the attributes of a Python object,
which those files do not hold.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.core.protocols import Allow
from vitrify.core.wire import Value
from vitrify.formats import _importable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.protocols import Files, Sink
    from vitrify.core.report import Finding

STATE = "state.json"
"""The file's path inside an artifact."""

_SCHEMA = 1


class State(Value, frozen=True, kw_only=True):
    """Everything about a model that its native file does not say.

    Attributes:
        schema: The version of this form.
        library: Module and version that made it, ``xgboost 3.2.0``.
        model: The object's class, ``module:qualname``.
        attributes: Its attributes, in the form of :mod:`vitrify.formats._plain_json`.
        native: The same for attributes of the native model inside it.
    """

    schema: int
    library: str
    model: str
    attributes: dict[str, Any] = {}
    native: dict[str, Any] = {}


@dataclass(frozen=True)
class Restored:
    """A state, read: the class to make an object of, and what to put into it."""

    library: str
    cls: str
    attributes: dict[str, Any]
    native: dict[str, Any]


@dataclass(frozen=True)
class Wrapper:
    """The objects of one library.

    Attributes:
        library: Its module.
        own: Its classes, ``module:qualname``; any other class is a user's subclass, and code.
        made: Attributes that are made again, from the native file or from others: never written, and refused when
            read, because among them are addresses of memory.
    """

    library: str
    own: frozenset[str]
    made: frozenset[str]

    def write(
        self, sink: Sink, cls: type, attributes: Mapping[str, Any], native: Mapping[str, Any] = MappingProxyType({})
    ) -> tuple[str, ...]:
        """Write ``state.json``.

        Args:
            sink: Where to.
            cls: The object's class.
            attributes: All its attributes.
            native: Those of the native model inside it that its file does not hold.

        Returns:
            Dotted names of code that reading will use: a user's class, or nothing.

        Raises:
            UnsupportedModelError: An attribute is no data, or the class cannot be found again; all are listed.
        """
        name = _importable.reference(cls)
        found = [] if name in self.own else _importable.problems(cls)
        state = State(
            schema=_SCHEMA,
            library=f"{self.library} {importlib.import_module(self.library).__version__}",
            model=name,
            attributes=_encode({key: attributes[key] for key in attributes if key not in self.made}, "", found),
            native=_encode(native, "booster.", found),
        )
        if found:
            msg = f"a {cls.__qualname__} with parts that cannot be kept as data"
            remedy = "predictions do not need callbacks, metrics and objectives: set them to None before saving"
            raise UnsupportedModelError(msg, problems=found, remedy=remedy)
        with sink.open(STATE, "weight.config") as stream:
            stream.write(state.to_json())
        return () if name in self.own else (_importable.dotted(name),)

    def read(self, files: Files) -> Restored | None:
        """Read ``state.json`` as data; None where there is none (a bare native file was packed).

        Raises:
            MalformedError: It is not what :meth:`write` writes.
        """
        if STATE not in files.names():
            return None
        from vitrify.formats import _plain_json  # it needs NumPy, which looking at other files should not

        state = State.from_json(files.read(STATE), where=STATE)
        if state.schema > _SCHEMA:
            msg = f"{STATE}: version {state.schema}, and this Vitrify reads up to {_SCHEMA}"
            raise MalformedError(msg, remedy="pip install --upgrade vitrify")
        if foreign := sorted({*self.made & state.attributes.keys(), *(key for key in state.native if key[:1] == "_")}):
            msg = f"{STATE}: attributes that no Vitrify writes: {foreign}"
            raise MalformedError(msg)
        attributes = {key: _plain_json.decode(item, where=f"{STATE}: {key}") for key, item in state.attributes.items()}
        native = {key: _plain_json.decode(item, where=f"{STATE}: {key}") for key, item in state.native.items()}
        return Restored(state.library, state.model, attributes, native)

    def find_class(self, restored: Restored, bases: tuple[type, ...], allow: Allow) -> Any:
        """Import the object's class.

        Raises:
            UntrustedCodeError: It is a user's, and not allowed.
            MalformedError: It is no subclass of ``bases``.
        """
        trusted = Allow.of([_importable.dotted(restored.cls)]) if restored.cls in self.own else allow
        cls = _importable.resolve(restored.cls, trusted, what=f"reading this {self.library} model")
        if not (isinstance(cls, type) and issubclass(cls, bases)):
            msg = f"{STATE}: {restored.cls} is no model class of {self.library}"
            raise MalformedError(msg)
        return cls


def _encode(values: Mapping[str, Any], prefix: str, found: list[Finding]) -> dict[str, Any]:
    from vitrify.formats import _plain_json

    return {key: _plain_json.encode(value, f"{prefix}{key}", found) for key, value in values.items()}
