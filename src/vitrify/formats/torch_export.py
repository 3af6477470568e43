"""PyTorch modules as exported programs: the graph as JSON, the weights as safetensors.

The module's class is not needed to load it, and nothing is unpickled. The program is exported in eval mode, for any
size of the signature's named dimensions, and returns tensors, tuples and dicts only.

Entry: ``program`` (the graph's file), ``inputs`` and ``outputs`` (signature names in the program's order, which maps in
JSON do not have), ``shapes`` (of the outputs by name; a size that may change is text), ``kind`` and ``shards`` (the
weights, as safetensors keeps them).
A program that was made elsewhere keeps the names of its own: there ``inputs`` and ``outputs`` map the signature's names
to the program's. A ``.pt2`` of ``torch.export.save`` is read as well (``file``), as long as nothing in it is pickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.reading.files import only

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.formats._torch.archive import Package
    from vitrify.formats._torch.export_graph import Program

PROGRAM = "program.json"
_HEAD = 4096
_NOTES = ("archive_format", "archive_version", "byteorder", ".data/version", ".data/serialization_id", "version")

_PROGRAMS: WeakKeyDictionary[torch.nn.Module, torch.export.ExportedProgram] = WeakKeyDictionary()
"""The program of each module that was read here: it says itself what it takes."""


class TorchExport:
    """The format of PyTorch modules."""

    def detect(self, files: Files) -> bool:
        """Say whether this is a directory with a program and its weights, a program's own file, or a ``.pt2``."""
        name = only(files) or PROGRAM
        if name not in files.names():
            return False
        start = bytes(files.map(name)[:_HEAD]).lstrip()
        if start.startswith(b'{"graph_module":'):
            return True
        package = _package(files, name) if start.startswith(b"PK") else None
        return package is not None and not package.compiled

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return inputs, outputs, operators with their counts, and the tensors; nothing is run."""
        program, foreign = _program(files, entry)
        inputs, outputs = program.inputs, program.outputs
        if len(names := entry.get("inputs", ())) == len(inputs):
            inputs = [{**port, "name": name} for port, name in zip(inputs, names, strict=True)]
        if len(shapes := entry.get("shapes", {})) == len(outputs):
            named = zip(outputs, shapes.items(), strict=True)
            outputs = [{**port, "name": name, "shape": shape} for port, (name, shape) in named]
        return {
            "producer": "PyTorch",
            "library": "torch",
            "versions": {name: version for name, version in program.versions.items() if version},
            "inputs": inputs,
            "outputs": outputs,
            "operators": program.operators(),
            "foreign_operators": sorted(foreign),
            "needs": sorted(foreign),
            **_tensors(files, entry),
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what the archive hides, and the operators of other libraries that it calls."""
        name = _name(files, entry)
        if (package := _package(files, name)) is not None:
            yield from package.archive.findings()
            package.tensors()
        for operator in sorted(_program(files, entry)[1]):
            yield Finding(place=name, message=f"would call {operator}", rule="foreign-operator", subject=operator)

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield what a ``.pt2`` pickles, which is not opened here: custom objects, sample inputs."""
        name = _name(files, entry)
        if (package := _package(files, name)) is None:
            return
        from vitrify.formats._archives import parts_of

        known = {package.root + note for note in _NOTES} | {one.storage.key for one in package.tensors()[0]}
        known |= {*package.graphs, *(one for one in package.archive.members if one.endswith("_config.json"))}
        rest = [one for one in package.archive.members if one not in known and not one.endswith("/")]
        yield from parts_of(package.archive, rest, where=name)

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the graph, of the program and of those inside it."""
        return _program(files, entry)[0].drawn()

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Export a module and write it; the module itself is left as it was.

        Raises:
            UnsupportedModelError: PyTorch cannot export it, or a tensor of it cannot be kept.
            ModelError: The module rejects the example.
        """
        if (program := _PROGRAMS.get(model)) is not None and not _is_called_so(program, example):
            return write_program(program, sink, example)
        if example is None:
            msg = "an example is needed: exporting a PyTorch module takes what it is called with"
            raise UsageError(msg, remedy="pass example=, or save model.state_dict() for the weights alone")
        if example.signature.container not in {"torch", "tuple", "dict", "numpy"}:
            msg = f"a PyTorch module called with {example.signature.container} data"
            raise UnsupportedModelError(msg, remedy="give tensors as the example: one, a tuple, or a dict by name")
        from vitrify.formats._torch import trace
        from vitrify.formats._torch.call import training

        trained = training(model)
        traced = trace.trace(model, example)
        written = _write(traced.program, sink)
        notes = (*traced.notes, *written.notes)
        if trained:
            notes = ("exported in eval mode; the module was in training mode", *notes)
        order = {"inputs": list(traced.inputs), "outputs": list(traced.outputs), "shapes": traced.outputs}
        return Written(entry={**written.entry, **order}, names=written.names, notes=notes)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Return a module over memory-mapped weights; it is in eval mode for good.

        Raises:
            UntrustedCodeError: It calls operators of a library other than PyTorch that ``allow`` does not name.
            MalformedError: The files are no program, or hide something in it.
        """
        program = read_program(files, entry, allow)
        module = program.module(check_guards=False)
        for part in module.modules():
            part.training = False
        _PROGRAMS[module] = program
        return module


def write_program(program: torch.export.ExportedProgram, sink: Sink, example: Example | None = None) -> Written:
    """Write a program as it is, under the names that it has itself; an example's are matched by name or position."""
    from vitrify.formats._torch.caller import Caller

    caller = Caller(program.module(check_guards=False))
    written = _write(program, sink)
    fields = [field.name for field in example.signature.inputs] if example else list(caller.inputs)
    if len(fields) != len(caller.inputs):
        msg = f"the example has the inputs {fields}, and the program takes {list(caller.inputs)}"
        raise UsageError(msg, remedy="give one value for each of them, by these names")
    own = (
        {name: name for name in fields}
        if set(fields) == set(caller.inputs)
        else zip(fields, caller.inputs, strict=True)
    )
    ports = {"inputs": dict(own), "outputs": {name: name for name in caller.outputs}}
    shapes = {name: caller.sizes(value) for name, value in caller.outputs.items()}
    return Written(entry={**written.entry, **ports, "shapes": shapes}, names=written.names, notes=written.notes)


def _is_called_so(program: torch.export.ExportedProgram, example: Example | None) -> bool:
    """Say whether a program is called with as many positions and the same names as an example shows."""
    if example is None:
        return False
    spec = program.call_spec.in_spec
    positions, names = spec.child(0), spec.child(1)
    given = [field.name for field in example.signature.inputs]
    if example.signature.container == "dict":
        return not positions.num_children and set(names.context or ()) == set(given)
    return bool(positions.num_children == len(given) and not names.num_children)


def _write(exported: torch.export.ExportedProgram, sink: Sink) -> Written:
    from vitrify.formats._safetensors.write import write_tensors
    from vitrify.formats._torch import program
    from vitrify.formats._torch.audit import audit

    text = program.dump(exported)
    _, foreign = audit(text, where=PROGRAM)
    weights, notes = write_tensors(program.tensors(exported), sink)
    with sink.open(PROGRAM, "weight.config") as stream:
        stream.write(text)
    return Written(entry={**weights, "program": PROGRAM}, names=tuple(sorted(foreign)), notes=notes)


def read_program(files: Files, entry: Mapping[str, Any], allow: Allow) -> torch.export.ExportedProgram:
    """Return the exported program itself, as converters need it; see :meth:`TorchExport.read`."""
    from vitrify.formats._torch import program
    from vitrify.formats._torch.archive import Package
    from vitrify.formats._torch.audit import audit
    from vitrify.formats._torch.mapping import private
    from vitrify.reading.zip import opened

    name = _name(files, entry)
    if _package(files, name) is not None:
        package = Package(opened(private(files.path(name)), where=name), where=name)
        package.archive.require_honest()
        text, weights = package.graph(), package.live()
    else:
        from vitrify.formats._safetensors.read import read_tensors

        text, weights = files.read(name), read_tensors(files, {**entry, "kind": "torch"})
    graph, foreign = audit(text, where=name)
    allow.require(foreign, what=name)
    return program.load(graph, weights, where=name)


def _name(files: Files, entry: Mapping[str, Any]) -> str:
    """Return the name of the graph's file, or of the archive that it is in."""
    return str(entry.get("file") or entry.get("program", PROGRAM)) if entry else only(files) or PROGRAM


def _package(files: Files, name: str) -> Package | None:
    from vitrify.formats._torch.archive import package

    return package(files.map(name), where=name)


def _program(files: Files, entry: Mapping[str, Any]) -> tuple[Program, frozenset[str]]:
    """Return the program as data, and the operators in it that are not PyTorch's own."""
    from vitrify.formats._torch.audit import audit
    from vitrify.formats._torch.export_graph import Program

    name = _name(files, entry)
    package = _package(files, name)
    graph, foreign = audit(files.read(name) if package is None else package.graph(), where=name)
    return Program(graph, where=name), foreign


def _tensors(files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors and their totals; what is pickled, by name."""
    package = _package(files, _name(files, entry))
    if package is None:
        from vitrify.formats._safetensors.shards import describe_tensors

        return describe_tensors(files, entry) if len(files.names()) > 1 else {}
    from vitrify.formats._torch.summary import listed

    raw, pickled = package.tensors()
    return {**listed(raw), "pickled": pickled}
