"""From ONNX to an exported PyTorch program: the graph replayed on PyTorch's operators.

Initialisers become buffers under their own names, inputs keep theirs as far as Python can call them so, and sizes that
may change in the graph may change in the program. Types are the graph's, so it rounds where the graph rounds.
"""

from __future__ import annotations

import inspect
import re
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

import torch

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats._torch.caller import Caller
from vitrify.formats._torch.quiet import quiet
from vitrify.formats.onnx import Onnx, element_type, shape
from vitrify.formats.torch_export import write_program
from vitrify.runtimes._ports import Port, Ports
from vitrify.transforms.replay._torch_values import DTYPES, from_numpy, holding, tensor
from vitrify.transforms.replay.labels import labelled, without_labels
from vitrify.transforms.replay.torch_ops import OPS
from vitrify.transforms.replay.walk import Replay

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Arrays, Sink, Subject

_CARRIED = ("casts", "missing_text")
_ROWS = 3
_SIZE = 8
_LONGEST = 200
_MAX_REASON = 400


class OnnxToTorch:
    """The step from ``onnx`` to ``torch-export``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:  # noqa: ARG002 (the protocol's)
        """List text, operators without a counterpart, and what the operators refuse when they run on the samples."""
        model, _ = without_labels(_model(source))
        if found := _text_problems(model):
            return found
        try:
            module = _Replayed(model)
            with torch.no_grad():
                module(**module.sample(source))
        except UnsupportedModelError as error:
            return error.problems or (Finding(place="graph", message=error.message, remedy=error.remedy),)
        return ()

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:  # noqa: ARG002 (the protocol's)
        """Write the program."""
        model, labels = without_labels(_model(source))
        module = _Replayed(model)
        program = _export(module, module.sample(source))
        _require_free(program, module, source)
        written = write_program(program, sink)
        caller = Caller(program.module(check_guards=False))
        renamed = dict(zip(module.names, caller.inputs, strict=True))
        names = _names(source, module.replay)
        entry = {
            **written.entry,
            "inputs": {name: renamed[graph] for name, graph in names["inputs"].items() if graph in renamed},
            "outputs": names["outputs"],
            **{key: source.document.entry[key] for key in _CARRIED if key in source.document.entry},
            **labelled(names["outputs"], labels, source.document.entry),
        }
        return Written(entry=entry, names=written.names, notes=written.notes)


class _Replayed(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked
    """A graph as a module, called with its inputs by name.

    Attributes:
        names: By the graph's names of its inputs, in order, what they are called in Python.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        self.replay = Replay(model, OPS)
        self.names = _identifiers([value.name for value in self.replay.inputs])
        self._outputs = [value.name for value in self.replay.model.graph.output]
        self._held: dict[str, str] = {}
        parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in self.names.values()]

        def forward(**feeds: torch.Tensor) -> dict[str, torch.Tensor]:
            constants = self.replay.constants
            tensors = {id(constants[name]): self.get_buffer(path) for name, path in self._held.items()}
            with holding(tensors):
                answers = self.replay({graph: feeds[name] for graph, name in self.names.items()})
                return {name: tensor(answer).clone() for name, answer in zip(self._outputs, answers, strict=True)}

        forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        self.forward = forward

    def hold(self, sample: Mapping[str, torch.Tensor]) -> None:
        """Keep as buffers the constants that a run needs as tensors; those that are shapes stay in the code."""
        constants = self.replay.constants
        used = _Used({id(value): from_numpy(value) for value in constants.values() if value.dtype.kind in "biuf"})
        with torch.no_grad(), holding(used):
            self.replay({graph: sample[name] for graph, name in self.names.items()})
        for name, value in constants.items():
            if id(value) in used.asked:
                self._held[name] = _placed(self, name, used[id(value)])

    def sample(self, source: Subject) -> dict[str, torch.Tensor]:
        """Return something that the graph can be called with: golden rows, or else zeros."""
        inputs = self.replay.inputs
        golden = _golden(source, self.replay)
        feeds = {}
        for value in inputs:
            sizes = shape(value) or []
            if value.name in golden:
                made = from_numpy(golden[value.name])
                for axis, size in enumerate(sizes):
                    if not isinstance(size, int) and made.shape[axis] == 1:  # an exporter takes 1 for a constant
                        made = torch.cat([made, made], axis)
            else:
                known = [size if isinstance(size, int) else _SIZE if axis else _ROWS for axis, size in enumerate(sizes)]
                made = torch.zeros(known, dtype=DTYPES[value.type.tensor_type.elem_type])
            feeds[self.names[value.name]] = made
        return feeds


class _Used(dict[int, torch.Tensor]):
    """Tensors, and which of them were asked for."""

    def __init__(self, tensors: Mapping[int, torch.Tensor]) -> None:
        super().__init__(tensors)
        self.asked: set[int] = set()

    def get(self, key: int, default: Any = None) -> Any:
        """Return a tensor, and remember that it was wanted."""
        if key in self:
            self.asked.add(key)
        return super().get(key, default)


def _placed(module: torch.nn.Module, name: str, value: torch.Tensor) -> str:
    """Register a buffer under the name of an initialiser, whose dots are modules; return where it is."""
    *parents, last = [re.sub(r"\W", "_", part) or "_" for part in name.split(".")]
    here, path = module, []
    for part in parents:
        while hasattr(here, part) and not isinstance(getattr(here, part), torch.nn.Module):
            part += "_"  # noqa: PLW2901 (a name that is free)
        if not hasattr(here, part):
            here.add_module(part, torch.nn.Module())
        here = getattr(here, part)
        path.append(part)
    while hasattr(here, last):
        last += "_"
    here.register_buffer(last, value)
    return ".".join([*path, last])


def _identifiers(names: list[str]) -> dict[str, str]:
    """Return a name for each that a program can call an argument, each once: short, and of ASCII letters."""
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"\W", "_", name[:_LONGEST], flags=re.ASCII)
        if not plain.isidentifier() or plain in {"self", "feeds"} or iskeyword(plain):
            plain = f"input_{plain}"
        while plain in found.values():
            plain += "_"
        found[name] = plain
    return found


def _model(source: Subject) -> onnx.ModelProto:
    return Onnx().read(source.files, source.document.entry, source.allow)


def _names(source: Subject, replay: Replay) -> dict[str, dict[str, str]]:
    """Return the graph's names by the signature's, as the runtime of ONNX matches them."""
    entry, signature = source.document.entry, source.document.signature
    graph = {
        "inputs": [value.name for value in replay.inputs],
        "outputs": [value.name for value in replay.model.graph.output],
    }
    found = {}
    for side, names in graph.items():
        fields = [field.name for field in getattr(signature, side)] if signature else names
        ours = fields if set(fields) == set(names) else names
        found[side] = dict(entry.get(side) or zip(fields, ours, strict=False))
    return found


def _golden(source: Subject, replay: Replay) -> Arrays:
    if not source.golden or source.document.signature is None:
        return {}
    takes, gives = (
        [Port(value.name, _numpy(value), tuple(shape(value) or ())) for value in side]
        for side in (replay.inputs, replay.model.graph.output)
    )
    entry = {**source.document.entry, **_names(source, replay)}
    return Ports(source.document.signature, entry, takes, gives).feeds(source.golden)


def _numpy(value: onnx.ValueInfoProto) -> str:
    from onnx import helper

    return str(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def _text_problems(model: onnx.ModelProto) -> tuple[Finding, ...]:
    held = {one.name for one in model.graph.initializer}
    values = [*(value for value in model.graph.input if value.name not in held), *model.graph.output]
    return tuple(
        Finding(
            place=value.name,
            message=f"is a {kind}, and PyTorch has tensors of numbers only",
            remedy="keep the ONNX form, or give the model numbers instead of text",
        )
        for value in values
        if (kind := element_type(value)) in {"string", "sequence", "map", "optional"}
        or value.type.tensor_type.elem_type not in DTYPES
    )


def _export(module: _Replayed, sample: dict[str, torch.Tensor]) -> torch.export.ExportedProgram:
    module.hold(sample)
    dynamic = {
        module.names[value.name]: {
            axis: torch.export.Dim.AUTO for axis, size in enumerate(shape(value) or []) if not isinstance(size, int)
        }
        for value in module.replay.inputs
    }
    try:
        with quiet(), torch.no_grad():
            return torch.export.export(module, (), sample, dynamic_shapes=dynamic, strict=False)
    except UnsupportedModelError:
        raise
    except Exception as error:
        msg = f"PyTorch cannot follow this graph: {type(error).__name__}: {str(error)[:_MAX_REASON]}"
        remedy = "fix the sizes that depend on data, or keep the ONNX form"
        raise UnsupportedModelError(msg, remedy=remedy) from error


def _require_free(program: torch.export.ExportedProgram, module: _Replayed, source: Subject) -> None:
    """Refuse a program that fixes a size which may change in the signature.

    Raises:
        UnsupportedModelError: It does; every such size is listed.
    """
    caller = Caller(program.module(check_guards=False))
    inner = dict(zip(module.names, caller.inputs.values(), strict=True))
    fields = source.document.signature.inputs if source.document.signature else ()
    names = _names(source, module.replay)["inputs"]
    problems = [
        Finding(
            place=field.name,
            message=f"axis {axis} may change ({size!r}), and the replayed program works for {fixed} only",
            remedy=f"write it for any size, or mark that one as fixed: dynamic={{{field.name!r}: {{{axis}: {fixed}}}}}",
        )
        for field in fields
        if names.get(field.name) in inner
        for axis, (size, fixed) in enumerate(zip(field.shape, inner[names[field.name]].shape, strict=False))
        if isinstance(size, str) and isinstance(fixed, int)
    ]
    if problems:
        msg = f"{len(problems)} size(s) of this graph were fixed while it was replayed"
        raise UnsupportedModelError(msg, problems=problems)
