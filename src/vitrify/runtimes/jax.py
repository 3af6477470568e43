"""JAX on the CPU: exported functions, and live functions and modules as they predict.

Types of 64 bits are kept, whatever the process is set to. bfloat16 comes out as float32, which holds it exactly: NumPy
has no bfloat16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import export

from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.signature import BATCH, Field, Signature
from vitrify.formats._jax import ports, trace
from vitrify.formats._jax.call import arguments, output_names, plain
from vitrify.formats.jax_export import JaxExport
from vitrify.runtimes._ports import Port, Ports
from vitrify.runtimes._sizes import output_fields
from vitrify.runtimes.session import BaseSession, signature_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session


class Jax:
    """The runtime of functions of JAX."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:
        """Open an exported function."""
        return self.wrap(JaxExport().read(files, document.entry, allow), document)

    def wrap(self, model: Any, document: Document) -> Session:
        """Return a session over an exported function, or over a live one, which is compiled as it is."""
        signature = signature_of(document, "a function")
        if isinstance(model, export.Exported):
            return _ExportedSession(model, signature, document.entry)
        return _LiveSession(model, signature)

    def signature(self, model: Any) -> Signature:
        """Return what an exported function takes and gives; a first dimension that may change is the batch.

        Raises:
            UsageError: It is not exported, so that only an example says what it takes.
        """
        if not isinstance(model, export.Exported):
            msg = "an example is needed: a function of JAX does not say what it takes"
            raise UsageError(msg, remedy="pass what it is called with: save(model, name, example=X[:100])")
        takes, gives = ports.takes(model), ports.gives(model)
        first = next(iter(takes.values()), None)
        size = first.shape[0] if first is not None and first.shape else None
        called = {} if size is None or isinstance(size, int) else {str(size): BATCH}
        return Signature(
            inputs=tuple(_field(name, aval, called) for name, aval in takes.items()),
            outputs=tuple(_field(name, aval, called) for name, aval in gives.items()),
            container="dict",
        )

    def entry(self, model: Any, example: Example) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return nothing: the format has written the names."""
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return the output fields; which dimensions may change is what the exported function says."""
        return output_fields(outputs, entry.get("shapes", {}))


class _ExportedSession(BaseSession):
    def __init__(self, model: export.Exported, signature: Signature, entry: Mapping[str, Any]) -> None:
        super().__init__(signature)
        if "cpu" not in model.platforms:
            msg = f"this function was exported for {', '.join(model.platforms)}, and runs here on the CPU"
            raise UnsupportedModelError(msg, remedy="export it with platforms=('cpu', ...)")
        takes, gives = ports.takes(model), ports.gives(model)
        self._ports = Ports(signature, entry, _ports(takes), _ports(gives))
        self._types = {name: aval.dtype for name, aval in takes.items()}
        self._model, self._names = model, list(gives)
        self._call = jax.jit(model.call)

    def _run(self, inputs: Arrays) -> Arrays:
        feeds = self._ports.feeds(inputs)
        leaves = [feeds[name].astype(dtype, copy=False) for name, dtype in self._types.items()]
        args, kwargs = jax.tree.unflatten(self._model.in_tree, leaves)
        with trace.wide_types():
            results = [_array(leaf) for leaf in jax.tree.leaves(self._call(*args, **kwargs))]
        return self._ports.answers(dict(zip(self._names, results, strict=True)))


class _LiveSession(BaseSession):
    def __init__(self, model: Any, signature: Signature) -> None:
        super().__init__(signature)
        function = trace.callable_of(model)
        self._call = jax.jit(lambda *args, **kwargs: plain(function(*args, **kwargs)))

    def _run(self, inputs: Arrays) -> Arrays:
        args, kwargs = arguments([inputs[field.name] for field in self.signature.inputs], self.signature)
        with trace.types_of(self.signature):
            leaves, tree = jax.tree.flatten(self._call(*args, **kwargs))
        return dict(zip(output_names(tree), map(_array, leaves), strict=True))


def _ports(avals: Mapping[str, Any]) -> Iterable[Port]:
    return [Port(name, _dtype(name, aval), tuple(aval.shape)) for name, aval in avals.items()]


def _dtype(name: str, aval: Any) -> str:
    """Return the type of an array as NumPy has it.

    Raises:
        UnsupportedModelError: It is none of numbers.
    """
    if jax.numpy.issubdtype(aval.dtype, jax.dtypes.extended) or aval.dtype.itemsize == 0:
        msg = f"{name!r} is a {aval.dtype}, and arrays hold numbers"
        raise UnsupportedModelError(msg, remedy="make keys of random numbers inside the function, from an integer")
    return "float32" if aval.dtype == jax.numpy.bfloat16 else str(aval.dtype)


def _field(name: str, aval: Any, called: dict[str, str]) -> Field:
    return Field(name=name, dtype=_dtype(name, aval), shape=tuple(ports.sizes(aval, called)))


def _array(value: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == jax.numpy.bfloat16 else array
