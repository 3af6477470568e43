"""The float weights of a model, whatever holds them: read for the detector, replaced for the mark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.catalog import catalog
from vitrify.core.errors import UnsupportedModelError
from vitrify.formats import _onnx_external
from vitrify.transforms.protect._mark import MIN_ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import onnx

    from vitrify.core.protocols import Subject

    Array = np.ndarray[Any, Any]

_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


def arrays(subject: Subject) -> Iterator[Array]:
    """Yield the float tensors of a model that are large enough, each once.

    Raises:
        UnsupportedModelError: Nothing here knows where such a model keeps its weights.
    """
    if subject.document.format == "onnx":
        for tensor in onnx_tensors(read_onnx(subject)):
            yield to_array(tensor)
        return
    seen = set()
    for value in named(subject).values():
        array = as_array(value)
        if id(value) not in seen and array is not None:
            seen.add(id(value))
            yield array


def named(subject: Subject) -> dict[str, Any]:
    """Return the tensors of a model by name, as its library has them."""
    kind = subject.document.format
    if kind == "safetensors":
        from vitrify.formats._safetensors.read import read_tensors

        return read_tensors(subject.files, subject.document.entry)
    row = next((row for row in catalog().rows("transform") if row.name == f"{kind}-to-safetensors"), None)
    if row is None:
        msg = f"a {kind} model keeps its weights where nothing here can take them out"
        raise UnsupportedModelError(msg, remedy="convert it first: vitrify convert NAME --to onnx")
    found: dict[str, Any] = dict(row.load().tensors(subject))
    return found


def as_array(value: Any) -> Array | None:
    """Return a tensor as an array of floats, or None where it is none or too small; bfloat16 of PyTorch as float32."""
    kind = str(value.dtype).removeprefix("torch.")
    if kind not in _FLOATS or int(np.prod(value.shape)) < MIN_ELEMENTS:
        return None
    if isinstance(value, np.ndarray):
        return value
    plain = value.detach().cpu()
    found: Array = (plain.float() if kind == "bfloat16" else plain).numpy()
    return found


def replaced(value: Any, change: Callable[[Array], Array]) -> Any:
    """Return a tensor of the same kind with changed values, or itself where it is no large tensor of floats."""
    array = as_array(value)
    if array is None:
        return value
    if isinstance(value, np.ndarray):
        return change(array)
    import torch

    return torch.from_numpy(np.ascontiguousarray(change(array))).to(value.dtype)


def read_onnx(subject: Subject) -> onnx.ModelProto:
    """Return an ONNX model with all its tensors."""
    from vitrify.formats.onnx import Onnx

    return Onnx().read(subject.files, subject.document.entry, subject.allow)


def onnx_tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Return the float tensors of a model that are large enough: initialisers and constants, in every graph."""
    import onnx

    kinds = {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
    return [
        tensor
        for tensor in _onnx_external.tensors(model)
        if tensor.data_type in kinds and int(np.prod(tensor.dims, dtype=np.int64)) >= MIN_ELEMENTS
    ]


def to_array(tensor: onnx.TensorProto) -> Array:
    """Return a tensor's values."""
    from onnx import numpy_helper

    found: Array = numpy_helper.to_array(tensor)
    return found


def put(tensor: onnx.TensorProto, values: Array) -> None:
    """Replace a tensor's values, and nothing else of it."""
    for field in ("float_data", "double_data", "int32_data"):
        tensor.ClearField(field)
    little = values.astype(values.dtype.newbyteorder("<")) if values.dtype.kind == "f" else values
    tensor.raw_data = np.ascontiguousarray(little).tobytes()
