"""PyTorch modules as exported programs: the graph as JSON, the weights as safetensors.

The module's class is not needed to load it, and nothing is unpickled. The program is exported in eval mode, for any
size of the signature's named dimensions, and returns tensors, tuples and dicts only.

Entry: ``program`` (the graph's file), ``inputs`` and ``outputs`` (signature names in the program's order, which maps in
JSON do not have), ``shapes`` (of the outputs by name; a size that may change is text), ``kind`` and ``shards`` (the
weights, as safetensors keeps them).
A ``.pt2`` of ``torch.export.save`` is read as well (``file``), as long as nothing in it is pickled.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats._safetensors.read import read_tensors
from vitrify.formats._safetensors.write import write_tensors
from vitrify.formats._torch import program, trace
from vitrify.formats._torch.archive import is_archive, read_archive
from vitrify.formats._torch.audit import audit
from vitrify.reading.files import only

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch

    from vitrify.core.protocols import Allow, Example, Files, Sink

PROGRAM = "program.json"
_HEAD = 4096


class TorchExport:
    """The format of PyTorch modules."""

    def detect(self, files: Files) -> bool:
        """Say whether this is a directory with a program and its weights, a program's own file, or a ``.pt2``."""
        name = only(files) or PROGRAM
        if name not in files.names():
            return False
        start = bytes(files.map(name)[:_HEAD]).lstrip()
        return start.startswith(b'{"graph_module":') or (start.startswith(b"PK") and is_archive(files.path(name)))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return inputs, outputs, operators with their counts, and the weights; nothing is run."""
        name, text, weights = _parts(files, entry)
        graph, foreign = audit(text, where=name)
        specs = graph["graph_module"]["signature"]["input_specs"]
        arguments = [spec["user_input"]["arg"]["as_tensor"]["name"] for spec in specs if "user_input" in spec]
        unique = {id(tensor): tensor.nbytes for tensor in weights.values()}
        return {
            "inputs": list(entry.get("inputs", arguments)),
            "outputs": dict(entry.get("shapes", {})),
            "operators": dict(sorted(Counter(_targets(graph["graph_module"]["graph"])).items())),
            "foreign_operators": sorted(foreign),
            "torch": graph.get("torch_version"),
            "weights": {"count": len(unique), "bytes": sum(unique.values()), "tied": len(weights) - len(unique)},
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield the operators of other libraries that it calls."""
        name, text, _ = _parts(files, entry)
        for operator in sorted(audit(text, where=name)[1]):
            yield Finding(place=name, message=f"would call {operator}", rule="foreign-operator", subject=operator)

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Export a module and write it; the module itself is left as it was.

        Raises:
            UnsupportedModelError: PyTorch cannot export it, or a tensor of it cannot be kept.
            ModelError: The module rejects the example.
        """
        if example is None:
            msg = "exporting a PyTorch module takes an example of what it is called with"
            raise UsageError(msg, remedy="pass example=, or save model.state_dict() for the weights alone")
        if example.signature.container not in {"torch", "tuple", "dict", "numpy"}:
            msg = f"a PyTorch module called with {example.signature.container} data"
            raise UnsupportedModelError(msg, remedy="give tensors as the example: one, a tuple, or a dict by name")
        training = any(module.training for module in model.modules())
        traced = trace.trace(model, example)
        text = program.dump(traced.program)
        _, foreign = audit(text, where=PROGRAM)
        weights, notes = write_tensors(program.tensors(traced.program), sink)
        with sink.open(PROGRAM, "weight.config") as stream:
            stream.write(text)
        notes = (*traced.notes, *notes)
        if training:
            notes = ("exported in eval mode; the module was in training mode", *notes)
        order = {"inputs": list(traced.inputs), "outputs": list(traced.outputs)}
        entry = {**weights, **order, "program": PROGRAM, "shapes": traced.outputs}
        return Written(entry=entry, names=tuple(sorted(foreign)), notes=notes)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Return a module over memory-mapped weights; it is in eval mode for good.

        Raises:
            UntrustedCodeError: It calls operators of a library other than PyTorch that ``allow`` does not name.
            MalformedError: The files are no program, or hide something in it.
        """
        module = read_program(files, entry, allow).module(check_guards=False)
        for part in module.modules():
            part.training = False
        return module


def read_program(files: Files, entry: Mapping[str, Any], allow: Allow) -> torch.export.ExportedProgram:
    """Return the exported program itself, as converters need it; see :meth:`TorchExport.read`."""
    name, text, weights = _parts(files, entry)
    graph, foreign = audit(text, where=name)
    allow.require(foreign, what=name)
    return program.load(graph, weights, where=name)


def _parts(files: Files, entry: Mapping[str, Any]) -> tuple[str, bytes, dict[str, torch.Tensor]]:
    """Return the name and text of the graph, and the tensors: from our own layout, or from a ``.pt2``."""
    if "file" in entry:
        return entry["file"], *read_archive(files.path(entry["file"]), where=entry["file"])
    name = str(entry.get("program", PROGRAM))
    return name, files.read(name), read_tensors(files, {**entry, "kind": "torch"})


def _targets(value: Any) -> list[str]:
    """Return the call targets of a graph and of the graphs inside it."""
    if isinstance(value, list):
        return [target for item in value for target in _targets(item)]
    if not isinstance(value, dict):
        return []
    own = [value["target"].removeprefix("torch.ops.")] if "target" in value and "inputs" in value else []
    return own + [target for item in value.values() for target in _targets(item)]
