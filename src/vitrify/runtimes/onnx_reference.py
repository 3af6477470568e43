"""The evaluator of the ``onnx`` package: ONNX models with operators or element types that ONNX Runtime does not have.

It is used only where it is named: it is slow, and no two nodes run at once. The entry is that of
:mod:`.onnxruntime`; external tensors are read into memory.

An element type that NumPy lacks is held in one that has all its values: bfloat16 and floats of 8 and 4 bits in float32,
integers of 4 and 2 bits in int8 and uint8. A value that would change on its way into the graph is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from vitrify.core.errors import ModelError, SignatureError, UnsupportedModelError
from vitrify.formats import _onnx_external
from vitrify.formats.onnx import Onnx
from vitrify.runtimes._onnx_evaluator import Evaluator
from vitrify.runtimes._onnx_meaning import problems
from vitrify.runtimes._onnx_session import OnnxSession
from vitrify.runtimes._onnx_values import describe, ends, signature_of_ends

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session
    from vitrify.core.signature import Field, Signature
    from vitrify.runtimes._onnx_values import Value

    Array = np.ndarray[Any, Any]

_ELEMENT = re.compile(r"\w+(?=\)+$)")
_EIGHT_BITS = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0")
_WIDER = dict.fromkeys(("bfloat16", *_EIGHT_BITS, "float4e2m1"), "float")
_WIDER |= {f"{sign}int{bits}": f"{sign}int8" for sign in ("", "u") for bits in (2, 4)}
_REGISTERED = 2
"""How NumPy marks an element type that another library has added."""

_SHOWN = 300


class OnnxReference:
    """The runtime of ONNX models that asks the standard itself."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:
        """Open a model from verified bytes; external tensors come from the artifact's files and nowhere else."""
        return self.wrap(Onnx().read(files, document.entry, allow), document)

    def wrap(self, model: Any, document: Document) -> Session:
        """Return a session over a model in memory.

        Raises:
            UnsupportedModelError: It has operators that the evaluator has not; all are listed.
        """
        takes, gives = _ends(model)
        narrow = {value.name: dtype for value in model.graph.input if (dtype := _narrow(value))}
        return OnnxSession(_Call(evaluator(model), narrow, gives), takes, gives, document)

    def signature(self, model: Any) -> Signature:
        """Return the inputs and outputs that the graph declares; a first dimension that may change is the batch.

        Raises:
            UnsupportedModelError: One of them is nothing that an array can be.
        """
        found, declared = signature_of_ends(*_ends(model)), {value.name: value for value in ends(model)[0]}
        halves = {name for name, value in declared.items() if value.type == "tensor(bfloat16)"}
        return found.replace(
            inputs=tuple(one.replace(dtype="bfloat16") if one.name in halves else one for one in found.inputs)
        )

    def entry(self, model: Any, example: Example) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return nothing: the format has written the names."""
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return the output fields; which dimensions may change is what the graph says."""
        return describe(outputs, *_ends(model))


def evaluator(model: onnx.ModelProto) -> Evaluator:
    """Return what runs a model; nothing of it is run.

    Raises:
        UnsupportedModelError: It has operators that the evaluator has not; all are listed.
    """
    if absent := sorted(_onnx_external.locations(model)):
        msg = f"tensors of this model lie in files that were not loaded: {', '.join(absent)}"
        raise UnsupportedModelError(msg, remedy="load it with onnx.load(path), which reads them")
    if found := problems(model):
        msg = f"the evaluator of onnx {onnx.__version__} cannot run this graph"
        raise UnsupportedModelError(msg, problems=found)
    try:
        return Evaluator(model)
    except Exception as error:
        msg = f"the evaluator of onnx {onnx.__version__} cannot run this graph: {error!s:.{_SHOWN}}"
        raise UnsupportedModelError(msg, remedy="see what onnx.checker.check_model says about it") from error


class _Call:
    """A call of an evaluator with arrays of NumPy's own types."""

    def __init__(self, engine: Evaluator, narrow: Mapping[str, np.dtype[Any]], gives: list[Value]) -> None:
        self._engine = engine
        self._narrow = narrow
        self._gives = {value.name: value for value in gives}

    def __call__(self, names: list[str], feeds: Arrays) -> list[Any]:
        given = {name: _fed(array, self._narrow.get(name), name) for name, array in feeds.items()}
        return [self._plain(*one) for one in zip(names, self._engine.evaluate(names, given), strict=True)]

    def _plain(self, name: str, result: Any) -> Any:
        """Return an answer that shares no memory with the model, in the types that were declared.

        Raises:
            ModelError: An array is of another type.
        """
        value = self._gives[name]
        if value.kind != "tensor":
            return _wide(result)
        array = _wide(result)
        if array.dtype != value.dtype:
            msg = f"{name}: the evaluator of onnx {onnx.__version__} gave {array.dtype}, declared is {value.dtype}"
            raise ModelError(msg, remedy="see what onnx.checker.check_model says about the graph")
        return array


def _ends(model: onnx.ModelProto) -> tuple[list[Value], list[Value]]:
    """Return what a model takes and gives, in types that NumPy has."""
    takes, gives = ([value._replace(type=_ELEMENT.sub(_wider, value.type)) for value in side] for side in ends(model))
    return takes, gives


def _wider(element: re.Match[str]) -> str:
    return _WIDER.get(element[0], element[0])


def _narrow(value: onnx.ValueInfoProto) -> np.dtype[Any] | None:
    number = value.type.tensor_type.elem_type
    names = onnx.TensorProto.DataType
    narrow = number in names.values() and names.Name(number).lower() in _WIDER
    return onnx.helper.tensor_dtype_to_np_dtype(number) if narrow else None


def _fed(array: Array, narrow: np.dtype[Any] | None, name: str) -> Array:
    """Return an array as the graph takes it; no operator can write to it.

    Raises:
        SignatureError: A value would change.
    """
    fed = array.view()
    if narrow is not None:
        with np.errstate(all="ignore"):
            fed = array.astype(narrow)
            back = fed.astype(array.dtype)
        same = (back == array) | ((back != back) & (array != array))  # noqa: PLR0124 (NaN)
        if not same.all():
            msg = f"{name}: {array[~same].flat[0]!s} is {back[~same].flat[0]!s} as {narrow}, which the graph takes"
            raise SignatureError(msg, remedy=f"give values that {narrow} holds exactly")
    fed.flags.writeable = False
    return fed


def _wide(result: Any) -> Any:
    """Return a copy in types that NumPy has; text as objects."""
    if isinstance(result, list):
        return [_wide(one) for one in result]
    if result is None or isinstance(result, dict):
        return result
    array = np.array(result)
    if array.dtype.kind == "U":
        return array.astype(object)
    name = array.dtype.name
    if array.dtype.isbuiltin != _REGISTERED:
        return array
    return array.astype(name.rstrip("24") + "8" if "int" in name else "float32")
