"""From StableHLO to ONNX, operation for operation: from a module, and from JAX's exported functions.

* ``_hlo_walk``: the walk, and values that are not broadcast before they have to be;
* ``_hlo_elementwise``, ``_hlo_shape``, ``_hlo_gather``, ``_hlo_order``, ``_hlo_reduce``: the operations by family.

What only XLA has is refused.

Options: ``opset``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import jaxlib

from vitrify.core.errors import UsageError
from vitrify.core.protocols import Written
from vitrify.formats._stablehlo.live import main, parsed
from vitrify.formats.onnx import Onnx
from vitrify.formats.stablehlo import StableHlo
from vitrify.transforms.convert._building.graph import Graph
from vitrify.transforms.convert._building.model import opset_of, to_model
from vitrify.transforms.convert._hlo.walk import Value, Walk, dtype_of, sizes_of
from vitrify.transforms.convert.stablehlo import CARRIED, exported_of, module_entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxlib.mlir import ir

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject
    from vitrify.core.report import Finding
    from vitrify.core.signature import Signature

for _family in ("elementwise", "shape", "gather", "order", "reduce"):
    importlib.import_module(f"vitrify.transforms.convert._hlo.{_family}")


class StableHloToOnnx:
    """The step from ``stablehlo`` to ``onnx``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List every operation that has no counterpart."""
        data, entry = self._module(source)
        graph, walk = _converted(data, entry, source, step)
        del graph
        return walk.findings()

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the ONNX model."""
        data, entry = self._module(source)
        graph, _ = _converted(data, entry, source, step)
        properties = {"vitrify.source": source.document.format, "vitrify.jaxlib": jaxlib.__version__}
        model = to_model(graph, name="model", properties=properties)
        written = Onnx().write(model, sink, None)
        kept = {value.name for value in model.graph.input}
        names = {
            "inputs": {name: name for name in entry["inputs"] if name in kept},
            "outputs": {name: name for name in entry["outputs"]},
            **{key: entry[key] for key in CARRIED if key in entry},
        }
        return Written(entry={**written.entry, **names}, notes=written.notes)

    def _module(self, source: Subject) -> tuple[bytes, dict[str, Any]]:
        """Return the module, and the entry that leads to its arguments and results."""
        entry = source.document.entry
        module = StableHlo().read(source.files, entry, source.allow)
        signature = _signature(source)
        places = {
            "inputs": {field.name: f"argument {at}" for at, field in enumerate(signature.inputs)},
            "outputs": {field.name: f"result {at}" for at, field in enumerate(signature.outputs)},
        }
        return module.data, {**places, **entry}


class JaxToOnnx(StableHloToOnnx):
    """The step from ``jax-export`` to ``onnx``."""

    def _module(self, source: Subject) -> tuple[bytes, dict[str, Any]]:
        exported = exported_of(source)
        return exported.mlir_module_serialized, module_entry(exported, source.document.entry)


def _signature(source: Subject) -> Signature:
    if source.document.signature is None:
        msg = "a module without a signature cannot be converted: nobody says what its arguments are"
        raise UsageError(msg, remedy="pack or save it with an example")
    return source.document.signature


def _converted(data: bytes, entry: Mapping[str, Any], source: Subject, step: Step) -> tuple[Graph, Walk]:
    if (precision := step.options.get("precision") or "source") != "source":
        msg = f"precision {precision!r} cannot be asked for: a module says in which types it computes"
        raise UsageError(msg, remedy="leave it out")
    graph, signature = Graph(opset_of(step.options)), _signature(source)
    with parsed(data) as module:
        walk = Walk(graph, module)
        function = main(module)
        arguments = _arguments(graph, function, entry, signature)
        results = walk.call(str(function.attributes["sym_name"].value), arguments)
        if not walk.problems:
            for field in signature.outputs:
                place = int(entry["outputs"][field.name].rpartition(" ")[2])
                graph.output(graph.reserve(field.name), walk.full(results[place]), field.shape)
        del function, results, arguments
        return graph, walk


def _arguments(graph: Graph, function: ir.Operation, entry: Mapping[str, Any], signature: Signature) -> list[Value]:
    names = {place: name for name, place in entry["inputs"].items()}
    arguments = []
    for at, argument in enumerate(function.regions[0].blocks[0].arguments):
        name = names[f"argument {at}"]
        sizes, shape = sizes_of(argument.type), signature.input(name).shape
        declared = shape if len(shape) == len(sizes) else tuple(f"{name}_{axis}" for axis in range(len(sizes)))
        named = tuple(size if size is not None else each for size, each in zip(sizes, declared, strict=True))
        arguments.append(Value(graph.input(name, dtype_of(argument.type), named), sizes))
    return arguments
