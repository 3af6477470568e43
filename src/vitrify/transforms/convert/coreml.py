"""From PyTorch to Core ML: an ML program in single precision, by coremltools.

Core ML computes in float32 and counts in int32. A program that computes in float64 is refused unless
``precision="float32"`` asks for the cheaper one; int64 inputs become int32, and a note says so. Nothing here runs
the result: its structure is checked, its predictions are not.

Options: ``precision`` (``source`` or ``float32``).
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.core.without import without
from vitrify.formats._torch.caller import Caller, names, ports
from vitrify.formats._torch.quiet import quiet
from vitrify.formats.torch_export import read_program
from vitrify.transforms.convert import _coreml_package
from vitrify.transforms.convert._clean.cleaning import provenance
from vitrify.transforms.convert._once import Once
from vitrify.transforms.convert._script_call import ScriptCall
from vitrify.transforms.convert._torch_attention import written_out
from vitrify.transforms.convert.torch_onnx import precision_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject

with quiet(), without("tensorflow"):
    import coremltools as ct

Shapes = dict[str, tuple[int | str, ...]]

_WIDE = (torch.float64, torch.complex64, torch.complex128)
_TAKEN = frozenset({torch.float32, torch.float16, torch.int32, torch.int64, torch.int16, torch.int8})
_LARGEST = 2**31 - 1
_MAX_REASON = 400


class TorchToCoreMl:
    """The step from ``torch-export`` to ``coreml``."""

    def __init__(self) -> None:
        """Start with nothing made."""
        self._once = Once(lambda source: _converted(_decomposed(source)))

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List operators without a translation, and types that Core ML has not; else what coremltools says."""
        program = _decomposed(source)
        inputs = Caller(program.module(check_guards=False)).inputs
        types = Counter(value.dtype for value in _values(program))
        found = (
            *_type_problems(types, precision_of(step)),
            *_input_problems({name: value.dtype for name, value in inputs.items()}),
            *_operator_problems(program),
        )
        return found or self._once.problems(source)

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the package."""
        program = _decomposed(source)
        caller = Caller(program.module(check_guards=False))
        inputs, outputs = names(source.document.entry, program)
        made = self._once.model(source)
        shapes: Shapes = {
            name: tuple(caller.sizes(value)) for name, value in zip(inputs, caller.inputs.values(), strict=True)
        }
        entry = ports(source.document.entry)
        kinds = dict(zip(inputs, (value.dtype for value in caller.inputs.values()), strict=True))
        return _written(made, source, step, sink, shapes=shapes, outputs=outputs, entry=entry, kinds=kinds)


class ScriptToCoreMl:
    """The step from ``torchscript`` to ``coreml``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List what the module remembers, numbers that would be frozen, and types that Core ML has not."""
        call = ScriptCall.of(source)
        if found := call.problems("Core ML"):
            return found
        kinds = {name: value.dtype for name, value in zip(call.inputs, call.arguments, strict=True)}
        held = [*call.module.parameters(), *call.module.buffers()]
        types = Counter([*kinds.values(), *(value.dtype for value in held)])
        return (*_type_problems(types, precision_of(step)), *_input_problems(kinds))

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the package."""
        call = ScriptCall.of(source)
        inputs = [
            ct.TensorType(name=_plain(name), shape=_ranges(shape, value), dtype=_numpy(value.dtype))
            for (name, shape), value in zip(call.inputs.items(), call.arguments, strict=True)
        ]
        made = _converted(torch.jit.freeze(call.module), inputs=inputs)
        kinds = {name: value.dtype for name, value in zip(call.inputs, call.arguments, strict=True)}
        outputs = list(call.outputs)
        return _written(made, source, step, sink, shapes=call.inputs, outputs=outputs, entry=call.entry, kinds=kinds)


def _decomposed(source: Subject) -> torch.export.ExportedProgram:
    """Return a program in which what has no translation is written out, where PyTorch or we can."""
    program = written_out(read_program(source.files, source.document.entry, source.allow))
    known = torch.export.default_decompositions()
    table = {target: known[target] for target in _untranslated(program) if target in known}
    with quiet():
        return program.run_decompositions({**table, **_WRITTEN_OUT})


def _gathered(x: torch.Tensor, axis: int, index: torch.Tensor, *, sparse_grad: bool = False) -> Any:
    """Gather booleans as integers, which Core ML's own operator takes."""
    if x.dtype != torch.bool:
        return NotImplemented
    return torch.gather(x.to(torch.int32), axis, index, sparse_grad=sparse_grad).to(torch.bool)


def _either(left: torch.Tensor, right: torch.Tensor) -> Any:
    """Return which of two booleans is true, by their sum."""
    if left.dtype != torch.bool or right.dtype != torch.bool:
        return NotImplemented
    return torch.gt(left.to(torch.int32) + right.to(torch.int32), 0)


def _one(left: torch.Tensor, right: torch.Tensor) -> Any:
    """Return where exactly one of two booleans is true."""
    if left.dtype != torch.bool or right.dtype != torch.bool:
        return NotImplemented
    return torch.ne(left.to(torch.int32), right.to(torch.int32))


def _product(left: torch.Tensor, right: torch.Tensor) -> Any:
    """Multiply by a vector as by a matrix of one column: Core ML's own operator takes matrices."""
    if right.ndim != 1 or left.ndim == 1:
        return NotImplemented
    return torch.matmul(left, right.unsqueeze(-1)).squeeze(-1)


_ATEN = torch.ops.aten
_WRITTEN_OUT = {
    _ATEN.gather.default: _gathered,
    _ATEN.matmul.default: _product,
    _ATEN.__and__.Tensor: torch.bitwise_and,
    **dict.fromkeys((_ATEN.__or__.Tensor, _ATEN.bitwise_or.Tensor), _either),
    **dict.fromkeys((_ATEN.__xor__.Tensor, _ATEN.bitwise_xor.Tensor), _one),
}


def _converted(model: Any, **options: Any) -> Any:
    try:
        with quiet():
            return ct.convert(
                model,
                convert_to="mlprogram",
                compute_precision=ct.precision.FLOAT32,
                minimum_deployment_target=ct.target.iOS16,
                skip_model_load=True,
                **options,
            )
    except Exception as error:
        msg = f"coremltools cannot translate this program: {type(error).__name__}: {str(error)[:_MAX_REASON]}"
        finding = Finding(place="forward", message=msg, remedy="keep the PyTorch form, or simplify forward")
        raise UnsupportedModelError(msg, problems=(finding,)) from error


def _written(
    made: Any,
    source: Subject,
    step: Step,
    sink: Sink,
    *,
    shapes: Mapping[str, tuple[int | str, ...]],
    outputs: list[str],
    entry: dict[str, Any],
    kinds: Mapping[str, torch.dtype],
) -> Written:
    """Give inputs and outputs their names and sizes, and write the package."""
    description = made.get_spec().description
    renamed = _renames(description, list(shapes), outputs)
    spec = made._spec  # noqa: SLF001 (get_spec returns a copy)
    for old, new in renamed.items():
        if old != new:
            with quiet():
                ct.utils.rename_feature(spec, old, new)
    for name, shape in shapes.items():
        _set_ranges(next(one for one in spec.description.input if one.name == _plain(name)), shape)
    precision = precision_of(step)
    _coreml_package.write(made, provenance(source, precision, torch=torch.__version__), sink)
    mapped = {side: {name: _plain(inner) for name, inner in entry[side].items()} for side in ("inputs", "outputs")}
    return Written(entry={**entry, **mapped}, notes=tuple(_notes(kinds, precision)))


def _renames(description: Any, inputs: list[str], outputs: list[str]) -> dict[str, str]:
    pairs = [*zip(description.input, inputs, strict=True), *zip(description.output, outputs, strict=True)]
    return {feature.name: _plain(name) for feature, name in pairs}


def _plain(name: str) -> str:
    """Return a name that Core ML takes for a feature: an identifier."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return plain if not plain[:1].isdigit() and plain else f"_{plain}"


def _set_ranges(feature: Any, shape: tuple[int | str, ...]) -> None:
    """Let a size that may change be one or more; coremltools takes zero along, which no model is asked for."""
    array = feature.type.multiArrayType
    if array.WhichOneof("ShapeFlexibility") == "shapeRange":
        for place, (size, allowed) in enumerate(zip(shape, array.shapeRange.sizeRanges, strict=False)):
            if isinstance(size, str):
                allowed.lowerBound = max(allowed.lowerBound, 1)
                array.shape[place] = max(array.shape[place], 1)


def _ranges(shape: tuple[int | str, ...], value: torch.Tensor) -> Any:
    sizes = shape if len(shape) == value.ndim else tuple(value.shape)
    return ct.Shape([size if isinstance(size, int) else ct.RangeDim(1, _LARGEST, default=1) for size in sizes])


def _numpy(dtype: torch.dtype) -> Any:
    import numpy as np

    return np.int32 if not dtype.is_floating_point else np.float32


def _values(program: torch.export.ExportedProgram) -> Iterator[torch.Tensor]:
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            yield value


def _type_problems(types: Counter[torch.dtype], precision: str) -> Iterator[Finding]:
    wide = [dtype for dtype in _WIDE if types[dtype] and not (dtype == torch.float64 and precision == "float32")]
    for dtype in wide:
        yield Finding(
            place=str(dtype),
            message=f"{types[dtype]} value(s) of this type, and Core ML computes in float32",
            remedy="ask for the cheaper precision: precision float32"
            if dtype == torch.float64
            else "convert the module first, for example with module.float()",
        )


def _input_problems(kinds: Mapping[str, torch.dtype]) -> Iterator[Finding]:
    for name, dtype in kinds.items():
        if dtype not in _TAKEN | {torch.float64}:
            remedy = "take float32 or int32 and cast inside of forward"
            yield Finding(place=name, message=f"takes {dtype}, which no input of Core ML has", remedy=remedy)


def _operator_problems(program: torch.export.ExportedProgram) -> Iterator[Finding]:
    for target, count in sorted(_untranslated(program).items(), key=str):
        remedy = "replace it in forward by operators that Core ML has"
        yield Finding(place=str(target), message=f"no Core ML translation ({count} call(s))", remedy=remedy)


def _untranslated(program: torch.export.ExportedProgram) -> Counter[Any]:
    """Count the operators that coremltools' own registry has not, by the name that it looks for."""
    from coremltools.converters.mil.frontend.torch.ops import _TORCH_OPS_REGISTRY
    from coremltools.converters.mil.frontend.torch.utils import sanitize_op_kind

    return Counter(
        node.target
        for node in program.graph.nodes
        if node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)  # noqa: SLF001 (no public name)
        and sanitize_op_kind(node.target.name()) not in _TORCH_OPS_REGISTRY.name_to_func_mapping
    )


def _notes(kinds: Mapping[str, torch.dtype], precision: str) -> Iterator[str]:
    for name, dtype in kinds.items():
        if dtype == torch.int64:
            yield f"input {name!r} is int64 in the source and int32 in Core ML: larger numbers cannot be given"
        if dtype == torch.float64 and precision == "float32":
            yield f"input {name!r} is float64 in the source and float32 in Core ML"
