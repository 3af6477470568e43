"""From a live module and an example to an exported program."""

from __future__ import annotations

import functools
import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from vitrify.core.errors import ModelError, UnsupportedModelError, VitrifyError
from vitrify.formats._torch.call import arguments, evaluated, outputs_by_name, plain
from vitrify.formats._torch.quiet import quiet

if TYPE_CHECKING:
    from collections.abc import Collection

    from vitrify.core.protocols import Example

_MAX_REASON = 600
_FIXES = re.compile(r"Suggested fixes:(?:\n  .+)+")
_BOUND = re.compile(r"  (\w+) = Dim\('\w+', (.*)\)")
_SPECIALISED = ("Not all values of", "specialized it to be a constant", "inferred to be a constant")


@dataclass(frozen=True)
class Traced:
    """A program and what its inputs and outputs are called.

    Attributes:
        program: With the module's own tensors, not copied.
        inputs: The signature's names in the order of the program's inputs.
        outputs: The shape of each output by name; a dimension that may change is text.
        notes: Dimensions that may change only within bounds of the module's own.
    """

    program: torch.export.ExportedProgram
    inputs: tuple[str, ...]
    outputs: dict[str, list[int | str]]
    notes: tuple[str, ...]


def trace(model: torch.nn.Module, example: Example) -> Traced:
    """Export a module in eval mode, with every named dimension of the signature free to change.

    Raises:
        UnsupportedModelError: PyTorch cannot export it, or only for the example's own sizes.
        ModelError: The module rejects the example.
    """
    args, kwargs = arguments(example.native, example.signature)
    names = tuple(field.name for field in example.signature.inputs)
    args = tuple(_widen(tensor, shape) for tensor, shape in zip(args, _shapes(example), strict=False))
    kwargs = {
        name: _widen(tensor, shape) for (name, tensor), shape in zip(kwargs.items(), _shapes(example), strict=False)
    }
    outputs: list[str] = []
    with evaluated(model), torch.no_grad():
        plain_model = _Plain(model, kwargs, outputs)
        dynamic = _dynamic_shapes(plain_model, args, kwargs, _shapes(example))
        try:
            program, notes = _export(plain_model, args, kwargs, dynamic)
        except VitrifyError:
            raise
        except Exception as error:
            raise _explain(model, args, kwargs, error) from error
    order = program.call_spec.in_spec.child(1).context if kwargs else names
    by_argument = dict(zip(kwargs, names, strict=True)) if kwargs else {}
    inputs = tuple(by_argument.get(name, name) for name in order)
    return Traced(program, inputs, _output_shapes(program, outputs, inputs, example), notes)


def _export(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: dict[str, Any]
) -> tuple[torch.export.ExportedProgram, tuple[str, ...]]:
    """Export; where the module bounds a size that may change (a table of positions does), take the bound and say so."""
    from torch.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes

    with quiet():
        try:
            return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic, strict=False), ()
        except torch._dynamo.exc.UserError as error:  # noqa: SLF001 (torch's own recipe names it)
            fixes = _FIXES.search(str(error))
            lines = fixes[0].splitlines()[1:] if fixes else []
            bounds = [bound for line in lines if (bound := _BOUND.fullmatch(line))]
            if fixes is None or len(bounds) < len(lines):  # a constant, or a size that depends on another
                raise
            narrower = refine_dynamic_shapes_from_suggested_fixes(fixes[0], dynamic)
            notes = tuple(f"dimension {bound[1]!r} has bounds of the module's own: {bound[2]}" for bound in bounds)
            return torch.export.export(model, args, kwargs, dynamic_shapes=narrower, strict=False), notes


def _shapes(example: Example) -> list[tuple[int | str, ...]]:
    return [field.shape for field in example.signature.inputs]


def _widen(tensor: torch.Tensor, shape: tuple[int | str, ...]) -> torch.Tensor:
    """Repeat what is 1 long and may change: PyTorch takes a size of 0 or 1 for a constant."""
    for axis, size in enumerate(shape):
        if isinstance(size, str) and tensor.shape[axis] == 1:
            tensor = torch.cat([tensor, tensor], axis)
    return tensor


_PARTS = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training")


class _Plain(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked
    """A module's own parts under their own names, and a ``forward`` that returns plain containers.

    Thus no class of the user's is needed to load the program, and the module itself is not touched. When it has run,
    ``outputs`` has the names of what it returned.
    """

    def __init__(self, model: torch.nn.Module, named: Collection[str], outputs: list[str]) -> None:
        super().__init__()
        # Hooks stay with the module, which is called below; its parts and its own constants are shared.
        shared = {key: value for key, value in model.__dict__.items() if key in _PARTS or key not in self.__dict__}

        @functools.wraps(model.forward)
        def forward(*args: Any, **kwargs: Any) -> Any:
            value = model(*args, **kwargs)
            outputs[:] = outputs_by_name(value)
            return plain(value)

        forward.__signature__ = _explicit(inspect.signature(model.forward), named)  # type: ignore[attr-defined]  # inspect reads it
        self.__dict__.update(shared, forward=forward)


def _explicit(signature: inspect.Signature, named: Collection[str]) -> inspect.Signature:
    """Name every argument: torch.export cannot give dynamic shapes to what ``**kwargs`` collects."""
    known = [parameter for parameter in signature.parameters.values() if parameter.kind != parameter.VAR_KEYWORD]
    if len(known) == len(signature.parameters):
        return signature
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in named if name not in signature.parameters
    ]
    return signature.replace(parameters=[*known, *more])


def _dynamic_shapes(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: list[tuple[int | str, ...]]
) -> dict[str, Any]:
    """Return ``dynamic_shapes`` in the layout of the bound arguments, as torch.export asks for it."""
    texts = dict.fromkeys(size for shape in shapes for size in shape if isinstance(size, str))
    dims = {text: torch.export.Dim(re.sub(r"\W", "_", text)) for text in texts}
    specs = [{axis: dims[size] for axis, size in enumerate(shape) if isinstance(size, str)} for shape in shapes]
    by_position, by_name = specs[: len(args)], dict(zip(kwargs, specs, strict=False))
    try:
        bound: dict[str, Any] = inspect.signature(model.forward).bind(*by_position, **by_name).arguments
    except TypeError as error:
        raise _rejected(error) from error
    return bound


def _explain(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> VitrifyError:
    """Tell a module that rejects the example from one that cannot be exported."""
    try:
        model(*args, **kwargs)
    except VitrifyError as refused:
        return refused
    except Exception as rejected:  # noqa: BLE001 (a module may raise anything)
        return _rejected(rejected)
    reason = _reason(error)
    if any(words in reason for words in _SPECIALISED):
        msg = f"the module works for the example's own sizes only: {reason}"
        remedy = "write it for any size of that dimension, or mark it as fixed: dynamic={input: {axis: size}}"
        return UnsupportedModelError(msg, remedy=remedy)
    msg = f"torch.export cannot follow this module: {reason}"
    remedy = "replace data-dependent Python (if, int(), .item()) in forward by tensor operations or torch.cond"
    return UnsupportedModelError(msg, remedy=remedy)


def _rejected(error: Exception) -> ModelError:
    msg = f"the module rejects the example: {type(error).__name__}: {error}"
    return ModelError(msg, remedy="give an example that the module itself can be called with")


def _reason(error: Exception) -> str:
    """Return torch's own words without advice, stack and graph."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line.startswith("- ")] or [line for line in lines if line][:3]
    text = " ".join(told)
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}..."


def _output_shapes(
    program: torch.export.ExportedProgram, names: list[str], inputs: tuple[str, ...], example: Example
) -> dict[str, list[int | str]]:
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    called: dict[Any, Any] = {}
    for name, argument in zip(inputs, program.graph_signature.user_inputs, strict=True):
        for text, symbol in zip(example.signature.input(name).shape, values[argument].shape, strict=True):
            if isinstance(text, str) and isinstance(symbol, torch.SymInt):
                called[symbol.node.expr] = type(symbol.node.expr)(text)

    def size(value: Any) -> int | str:
        return str(value.node.expr.xreplace(called)) if isinstance(value, torch.SymInt) else int(value)

    results = [values[argument] for argument in program.graph_signature.user_outputs]
    return {name: [size(value) for value in result.shape] for name, result in zip(names, results, strict=True)}
