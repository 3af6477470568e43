"""An exported program as JSON without weights, and back.

The JSON is PyTorch's own, versioned by its schema (``torch/_export/serde/schema.py``); it is the graph of a ``.pt2``
file. What a ``.pt2`` file pickles (weights, constants, example inputs) is not here. Stack traces and module names
are left out: they hold paths of the machine and make no difference to a prediction.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
from torch._export.serde import serialize

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.formats._torch.audit import audit
from vitrify.formats._torch.quiet import quiet

if TYPE_CHECKING:
    from collections.abc import Mapping


def tensors(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    """Return the program's parameters, buffers and constants by name, not copied.

    Raises:
        UnsupportedModelError: It holds objects that are no tensors.
    """
    everything = {**program.state_dict, **program.constants}
    if strange := {name: value for name, value in everything.items() if not isinstance(value, torch.Tensor)}:
        problems = [Finding(place=name, message=f"a {type(value).__name__}") for name, value in strange.items()]
        msg = "the program holds constants that are no tensors"
        raise UnsupportedModelError(msg, problems=problems, remedy="keep such objects out of forward")
    return everything


def dump(program: torch.export.ExportedProgram) -> bytes:
    """Return the graph as canonical JSON: the same for the same module, whether or not it was being trained."""
    with quiet():
        artifact = serialize.serialize(
            program, serialize_state_dict=False, serialize_constants=False, serialize_example_inputs=False
        )
    graph, _ = audit(artifact.exported_program, where="the exported program")
    graph["graph_module"]["module_call_graph"] = graph["graph_module"]["module_call_graph"][:1]
    for tensor in graph["graph_module"]["graph"]["tensor_values"].values():
        tensor["requires_grad"] = False
    return json.dumps(graph, separators=(",", ":")).encode()


def load(graph: Mapping[str, Any], weights: Mapping[str, torch.Tensor], *, where: str) -> torch.export.ExportedProgram:
    """Return the program over these tensors, which are not copied. ``graph`` is what :func:`audit` returned.

    Raises:
        MalformedError: Graph and tensors do not fit, or this PyTorch cannot read that graph.
    """
    try:
        state, constants = _split(graph, weights)
        text = json.dumps(graph).encode()
        with quiet():
            return serialize.deserialize(serialize.SerializedArtifact(text, state, constants, b""))
    except Exception as error:
        version = graph.get("torch_version")
        msg = f"{where}: PyTorch {torch.__version__} cannot read this program, made by {version} ({error})"
        raise MalformedError(msg, remedy=f"install torch=={version}, or save the module again") from error


def _split(graph: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sort the tensors into state and constants, and make parameters of parameters; tied ones stay one object."""
    state: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    parameters: dict[int, torch.nn.Parameter] = {}
    for spec in graph["graph_module"]["signature"]["input_specs"]:
        [(kind, about)] = spec.items()
        if kind == "parameter":
            tensor = weights[about["parameter_name"]]
            parameter = parameters.setdefault(id(tensor), torch.nn.Parameter(tensor, requires_grad=False))
            state[about["parameter_name"]] = parameter
        elif kind == "buffer":
            (state if about["persistent"] else constants)[about["buffer_name"]] = weights[about["buffer_name"]]
        elif kind == "tensor_constant":
            constants[about["tensor_constant_name"]] = weights[about["tensor_constant_name"]]
    return state, constants
