"""IREE: a StableHLO module, compiled for the CPU when it is called.

IREE needs every size: a module whose sizes may change is refined and compiled for each set of sizes that it is called
with, and kept in memory. Nothing is compiled for this machine's own instructions, so that every machine answers the
same.

Source: https://iree.dev/guides/deployment-configurations/cpu/ and https://openxla.org/stablehlo/dynamism
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.core.signature import BATCH, Field, Signature
from vitrify.formats._stablehlo.looks import read
from vitrify.formats.stablehlo import StableHlo
from vitrify.runtimes._ports import Port, Ports
from vitrify.runtimes._sizes import output_fields
from vitrify.runtimes.session import BaseSession, signature_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session
    from vitrify.formats._stablehlo.module import Type
    from vitrify.formats.stablehlo import StableHloModule

_KEPT = 16
"""Compiled forms that a session keeps, one a set of sizes; the one that was not used for longest goes."""

_MAX_REASON = 500
_FLAGS = ("--iree-llvmcpu-target-cpu=generic", "--iree-input-demote-f64-to-f32=false")
_TYPES = {
    "i1": "bool",
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}


class Iree:
    """The runtime of StableHLO modules."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:
        """Open a module."""
        return self.wrap(StableHlo().read(files, document.entry, allow), document)

    def wrap(self, model: StableHloModule, document: Document) -> Session:
        """Return a session over a module."""
        return _IreeSession(model, signature_of(document, "a module"), document.entry)

    def signature(self, model: StableHloModule) -> Signature:
        """Return what the main function takes and gives; a first size that may change is the batch."""
        takes, gives = ports(model)
        return Signature(inputs=tuple(map(_field, takes)), outputs=tuple(map(_field, gives)), container="dict")

    def entry(self, model: StableHloModule, example: Example) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return nothing: arguments go by name or position."""
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return the output fields; which sizes may change is what the module says."""
        return output_fields(outputs, {port.name: _field(port).shape for port in ports(model)[1]})


def ports(model: StableHloModule) -> tuple[list[Port], list[Port]]:
    """Return what the main function takes and gives.

    Raises:
        MalformedError: There is none.
        UnsupportedModelError: Something is no tensor of a type that NumPy has.
    """
    main = read(memoryview(model.data), where="module").main
    if main is None:
        msg = "the module has no function that can be called"
        raise MalformedError(msg, remedy="export it again")
    takes = [_port(f"argument {at}", one.type) for at, one in enumerate(main.body.arguments)]
    return takes, [_port(f"result {at}", kind) for at, kind in enumerate(main.outputs)]


class _IreeSession(BaseSession):
    def __init__(self, model: StableHloModule, signature: Signature, entry: Mapping[str, Any]) -> None:
        super().__init__(signature)
        takes, gives = ports(model)
        self._data = model.data
        self._takes, self._gives = [port.name for port in takes], [port.name for port in gives]
        self._ports = Ports(signature, entry, takes, gives)
        self._compiled: dict[tuple[tuple[int, ...], ...], Callable[..., Any]] = {}

    def _run(self, inputs: Arrays) -> Arrays:
        fed = self._ports.feeds(inputs)
        feeds = [np.ascontiguousarray(fed[name]).reshape(fed[name].shape) for name in self._takes]
        results = self._function(tuple(array.shape for array in feeds))(*feeds)
        every = results if isinstance(results, (tuple, list)) else (results,)
        return self._ports.answers(dict(zip(self._gives, map(np.asarray, every), strict=True)))

    def _function(self, shapes: tuple[tuple[int, ...], ...]) -> Callable[..., Any]:
        function = self._compiled.pop(shapes, None) or _compiled(self._data, shapes)
        self._compiled[shapes] = function
        if len(self._compiled) > _KEPT:
            del self._compiled[next(iter(self._compiled))]
        return function


def _compiled(data: bytes, shapes: tuple[tuple[int, ...], ...]) -> Callable[..., Any]:
    """Return the main function for inputs of these shapes.

    Raises:
        UnsupportedModelError: IREE cannot compile it.
    """
    from iree import compiler, runtime

    from vitrify.formats._stablehlo.live import refined

    try:
        built = compiler.compile_str(
            refined(data, shapes), input_type="stablehlo", target_backends=["llvm-cpu"], extra_args=list(_FLAGS)
        )
    except compiler.CompilerToolError as error:
        reason = next((line for line in str(error).splitlines() if "error:" in line), str(error))
        msg = f"IREE cannot compile this module: {reason.strip()[:_MAX_REASON]}"
        raise UnsupportedModelError(msg, remedy="use the model in its own format, or convert it to ONNX") from error
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    module = runtime.VmModule.copy_buffer(context.instance, built)
    context.add_vm_module(module)
    function: Callable[..., Any] = context.modules[module.name]["main"]
    return function


def _port(name: str, kind: Type) -> Port:
    if kind.shape is None or kind.name not in _TYPES:
        msg = f"{name} of the module is a {kind.name}, and NumPy has no such arrays"
        raise UnsupportedModelError(msg, remedy="cast it to float32 inside the module")
    return Port(name, _TYPES[kind.name], kind.shape)


def _field(port: Port) -> Field:
    assert port.shape is not None
    sizes = (
        size if isinstance(size, int) else BATCH if axis == 0 else f"{port.name}_{axis}"
        for axis, size in enumerate(port.shape)
    )
    return Field(name=port.name, dtype=port.dtype, shape=tuple(sizes))
