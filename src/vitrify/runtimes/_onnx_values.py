"""What an ONNX graph takes and gives, whichever way the graph is at hand.

It takes tensors. What it gives beside tensors becomes an array like this:

* a sequence of maps, which is how classifiers of other tools give probabilities (ZipMap): a matrix, one row a map and
  one column a key, the keys in ascending order, which are the output's ``classes``; one map alone: one row of it;
* a sequence of tensors: a vector of objects, each an array;
* an optional value: one object without dimensions, the value or None.

Source: ONNX IR, https://onnx.ai/onnx/repo-docs/IR.html#optional-type.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vitrify import containers
from vitrify.core.errors import ModelError, UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.core.signature import BATCH, Field, Signature
from vitrify.formats.onnx import shape
from vitrify.runtimes._ports import Port

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import onnx

    from vitrify.core.protocols import Arrays

    Array = np.ndarray[Any, Any]
    Size = int | str | None

_NUMPY = {"float": "float32", "double": "float64", "float16": "float16", "bool": "bool", "string": "object"}
_NUMPY |= {name: name for name in (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
_FORMS = {
    "tensor": re.compile(r"tensor\((\w+)\)"),
    "map": re.compile(r"map\(\w+,tensor\((\w+)\)\)"),
    "maps": re.compile(r"seq\(map\(\w+,tensor\((\w+)\)\)\)"),
    "seq": re.compile(r"seq\(tensor\((\w+)\)\)"),
    "optional": re.compile(r"optional\((?:tensor|seq\(tensor)\((\w+)\)+"),
}
_REMEDY = "give tensors of types that NumPy has: cast bfloat16 and float8 to float inside the graph"
_WIDENED = f"{_REMEDY}, or name the runtime onnx-reference, which widens them"


class Value(NamedTuple):
    """An input or output of a graph.

    Attributes:
        name: Its name.
        type: As ONNX Runtime writes it, ``tensor(float)``.
        shape: The sizes of a tensor, where they are known.
        labels: The keys of its maps, where they are known.
    """

    name: str
    type: str
    shape: Sequence[Size] | None = None
    labels: tuple[Any, ...] | None = None

    @property
    def kind(self) -> str:
        """``tensor``, ``map``, ``maps``, ``seq``, ``optional``; empty for what no array can be."""
        return next((kind for kind in _FORMS if self._element(kind) in _NUMPY), "")

    @property
    def dtype(self) -> str:
        """The element type of its array, as NumPy calls it."""
        return "object" if self.kind in {"seq", "optional"} else _NUMPY[self._element(self.kind)]

    def port(self) -> Port:
        """Return it as a port."""
        return Port(self.name, self.dtype, None if self.shape is None else tuple(self.shape))

    def field(self, batch: Size) -> Field:
        """Return the field that it declares; ``batch`` is what the graph calls the size of the batch."""
        dtype = {"object": "object" if self.kind in {"seq", "optional"} else "string"}.get(self.dtype, self.dtype)
        match self.kind:
            case "seq":
                return Field(name=self.name, dtype=dtype, shape=(f"{self.name}_0",))
            case "optional":
                return Field(name=self.name, dtype=dtype, shape=())
            case "maps" | "map":
                width = f"{self.name}_1" if self.labels is None else len(self.labels)
                sizes = (BATCH, width) if self.kind == "maps" else (width,)
                return Field(name=self.name, dtype=dtype, shape=sizes, classes=self.labels)
        unknown = Field(name=self.name, dtype=dtype, shape=(BATCH,) * len([None] if self.shape is None else self.shape))
        return unknown.replace(shape=sizes_of(unknown, self.shape, batch))

    def seen(self, array: Array, batch: Size) -> Field:
        """Return the field of an array that was given; which dimensions may change is what the graph says."""
        declared = None if self.kind == "tensor" else self.field(batch)
        if declared and declared.dtype == "object":
            return declared
        (found,) = containers.output_fields({self.name: array}, None)
        sizes = declared.shape if declared else sizes_of(found, self.shape, batch)
        return found.replace(shape=sizes, classes=self.labels)

    def array(self, given: Any, classes: Sequence[Any] | None) -> Array:
        """Return what ONNX Runtime gave as an array."""
        match self.kind:
            case "maps" | "map":
                rows = [given] if self.kind == "map" else given
                matrix = _matrix(self.name, rows, classes).astype(self.dtype)
                return matrix[0] if self.kind == "map" else matrix
            case "seq":
                return _objects(given)
            case "optional":
                held = np.empty((), object)
                held[()] = _objects(given) if isinstance(given, list) else given
                return held
        return np.asarray(given)

    def _element(self, kind: str) -> str:
        found = _FORMS[kind].fullmatch(self.type) if kind else None
        return found[1] if found else ""


def declared(values: Iterable[onnx.ValueInfoProto], nodes: Iterable[onnx.NodeProto] = ()) -> list[Value]:
    """Return a graph's inputs or outputs; ``nodes`` tell the keys of maps."""
    labels = {node.output[0]: _labels(node) for node in nodes if node.op_type == "ZipMap"}
    return [
        Value(value.name, _type(value.type), shape(value) if _is_shaped(value) else None, labels.get(value.name))
        for value in values
    ]


def ends(model: onnx.ModelProto) -> tuple[list[Value], list[Value]]:
    """Return what a model takes and gives, as it says itself."""
    held = {tensor.name for tensor in model.graph.initializer}
    inputs = (value for value in model.graph.input if value.name not in held)
    return declared(inputs), declared(model.graph.output, model.graph.node)


def signature_of_ends(inputs: list[Value], outputs: list[Value]) -> Signature:
    """Return what a graph declares as a signature; a first dimension that may change is the batch.

    Raises:
        UnsupportedModelError: An input or output is nothing that an array can be.
    """
    require_arrays(inputs, outputs)
    batch = _batch(inputs)
    takes, gives = (tuple(value.field(batch) for value in side) for side in (inputs, outputs))
    return Signature(inputs=takes, outputs=gives, container="dict")


def describe(arrays: Arrays, inputs: list[Value], outputs: list[Value]) -> tuple[Field, ...]:
    """Return the fields of outputs; which dimensions may change is what the graph says."""
    batch, values = _batch(inputs), {value.name: value for value in outputs}
    return tuple(values[name].seen(array, batch) for name, array in arrays.items())


def require_arrays(inputs: Iterable[Value], outputs: Iterable[Value]) -> None:
    """Refuse a graph that takes something else than tensors, or gives what no array can be.

    Raises:
        UnsupportedModelError: It does; everything is listed.
    """
    takes = [(one, "a tensor of numbers or text") for one in inputs if one.kind != "tensor"]
    gives = [(one, "tensors, sequences or maps of numbers or text") for one in outputs if not one.kind]
    if problems := [
        Finding(
            place=one.name,
            message=f"{one.type}, expected {expected}",
            remedy=_WIDENED if one.type.startswith("tensor") else _REMEDY,
        )
        for one, expected in (*takes, *gives)
    ]:
        msg = f"{len(problems)} input(s) or output(s) of this graph are not what NumPy has"
        raise UnsupportedModelError(msg, problems=problems)


def sizes_of(field: Field, declared_sizes: Sequence[Size] | None, batch: Size) -> tuple[int | str, ...]:
    """Return an output's shape as the graph declares it; the graph's own name of the batch becomes ours."""
    if declared_sizes is None or len(declared_sizes) != len(field.shape):
        declared_sizes = [None, *field.shape[1:]] if field.shape else []
    sizes: list[int | str] = []
    for axis, size in enumerate(declared_sizes):
        if isinstance(size, int):
            sizes.append(size)
        elif not isinstance(batch, int) and (size == batch if size else axis == 0):
            sizes.append(BATCH)
        else:
            sizes.append(size or f"{field.name}_{axis}")
    return tuple(sizes)


def _batch(inputs: list[Value]) -> Size:
    return next(iter((inputs[0].shape if inputs else None) or [None]))


def _type(kind: onnx.TypeProto) -> str:
    """Return a type as ONNX Runtime writes it."""
    match kind.WhichOneof("value"):
        case "sequence_type":
            return f"seq({_type(kind.sequence_type.elem_type)})"
        case "optional_type":
            return f"optional({_type(kind.optional_type.elem_type)})"
        case "map_type":
            return f"map({_element_name(kind.map_type.key_type)},{_type(kind.map_type.value_type)})"
        case "sparse_tensor_type":
            return f"sparse_tensor({_element_name(kind.sparse_tensor_type.elem_type)})"
    return f"tensor({_element_name(kind.tensor_type.elem_type)})"


def _element_name(number: int) -> str:
    import onnx

    known = number in onnx.TensorProto.DataType.values()
    return str(onnx.TensorProto.DataType.Name(number)).lower() if known else str(number)


def _is_shaped(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.WhichOneof("value") == "tensor_type")


def _labels(node: onnx.NodeProto) -> tuple[Any, ...]:
    listed = {attribute.name: attribute for attribute in node.attribute}
    texts = [text.decode() for text in listed["classlabels_strings"].strings] if "classlabels_strings" in listed else []
    return tuple(sorted(texts or listed["classlabels_int64s"].ints))


def _matrix(name: str, rows: Sequence[dict[Any, Any]], classes: Sequence[Any] | None) -> Array:
    keys = list(classes) if classes else sorted(rows[0] if rows else ())
    for row in rows:
        if row.keys() != set(keys):
            msg = f"{name}: a map has the keys {sorted(row)[:10]}, expected {keys[:10]} as in the other rows"
            raise ModelError(msg)
    return np.array([[row[key] for key in keys] for row in rows], object).reshape(len(rows), len(keys))


def _objects(values: Sequence[Any]) -> Array:
    array = np.empty(len(values), object)
    for place, value in enumerate(values):
        array[place] = np.asarray(value)
    return array
