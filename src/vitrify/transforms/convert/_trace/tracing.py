"""Tracing: a user's own function or class, written in NumPy, becomes a part of the graph.

It is called with stand-ins for its data, which note down what it does with them; calling it needs that its code was
allowed when the model was read. It is called twice, on copies: what comes out otherwise the second time is random, or
hangs on state outside the data, and is refused. So is what decides by the data in Python, or looks across the rows of
a call: each refusal names function, file, line and operation. Parity compares the result as any other.

The files: ``_trace_array`` and ``_trace_frame`` are the stand-ins; ``_trace_ufuncs``, ``_trace_functions``,
``_trace_reduce``, ``_trace_index``, ``_trace_shape`` what can be done with them; ``_trace_value`` the types.
"""

from __future__ import annotations

import contextlib
import copy
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper, numpy_helper

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.convert._building.data import Column, Data, Frame
from vitrify.transforms.convert._building.graph import ML, MS, TEXT, Graph, Tensor, onnx_type
from vitrify.transforms.convert._trace import frame as tables
from vitrify.transforms.convert._trace.array import Traced, is_traced, wrap
from vitrify.transforms.convert._trace.constructors import constructors
from vitrify.transforms.convert._trace.errors import watching
from vitrify.transforms.convert._trace.functions import take
from vitrify.transforms.convert._trace.value import ROWS, Rows, Shape, Value, constant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vitrify.core.signature import Field

_PLAIN = frozenset({"int64", "int32", "int16", "int8", "float64", "float32", "bool", "object", "str"})
"""What pandas calls the types that it computes with as NumPy does."""


@dataclass(frozen=True)
class Answer:
    """What a traced call gave: one array, or the columns of a frame."""

    values: tuple[Value, ...]
    keys: tuple[Any, ...] | None = None

    @property
    def data(self) -> Data:
        """The answer as data between steps."""
        if self.keys is None:
            return self.values[0].tensor
        pairs = zip(self.keys, self.values, strict=True)
        return Frame(tuple(Column(key, value.tensor) for key, value in pairs))


@dataclass(frozen=True)
class _Record:
    """One call: the graph that it wrote, and the answer there."""

    graph: Graph
    inputs: tuple[str, ...]
    answer: Answer

    def content(self) -> tuple[Any, ...]:
        """Return what two calls that do the same have in common."""
        nodes = [node.SerializeToString(deterministic=True) for node in self.graph.nodes]
        constants = {name: value.SerializeToString(deterministic=True) for name, value in self.graph.constants.items()}
        values = [(value.tensor, value.dtype, value.shape) for value in self.answer.values]
        return nodes, constants, values, self.answer.keys

    def into(self, graph: Graph, sources: list[Tensor]) -> Answer:
        """Put what was written into the model's own graph."""
        names = dict(zip(self.inputs, (source.name for source in sources), strict=True))
        for name, proto in self.graph.constants.items():
            names[name] = graph.constant(numpy_helper.to_array(proto), name).name
        for node in self.graph.nodes:
            graph.adopt(node, names)
        values = tuple(
            Value(graph, Tensor(names[value.tensor.name], value.tensor.dtype), value.dtype, value.shape)
            for value in self.answer.values
        )
        return Answer(values, self.answer.keys)


def trace(
    graph: Graph,
    call: Callable[[Any], Any],
    data: Data,
    *,
    width: int | None = None,
    names: Sequence[Any] | None = None,
) -> Answer:
    """Call a function with a stand-in for its data, and put what it does into the graph.

    Args:
        graph: The model's.
        call: What is called; it may be called several times.
        data: What reaches it.
        width: The number of columns of a matrix, where the graph itself does not say it.
        names: What the columns of a table are called that a step of the model made.

    Raises:
        UnsupportedModelError: It does something that no graph of operators can do.
    """
    sources = [data] if isinstance(data, Tensor) else [column.tensor for column in data.columns]
    shape = _shape(graph, data, width) if isinstance(data, Tensor) else (ROWS,)

    def given_as(arrays: list[Traced]) -> Any:
        return arrays[0] if isinstance(data, Tensor) else _table(data, arrays, names)

    with _quiet():
        first, second = (_record(graph, call, given_as, sources, shape) for _ in range(2))
    if first.content() != second.content():
        msg = "gives another answer when it is called a second time: it is random, or hangs on what it did before"
        raise UnsupportedModelError(msg, remedy="fix the random numbers in fit, and keep no state between calls")
    return first.into(graph, sources)


def _record(
    graph: Graph,
    call: Callable[[Any], Any],
    given_as: Callable[[list[Traced]], Any],
    sources: list[Tensor],
    shape: Shape,
) -> _Record:
    scratch = Graph(graph.opset, graph.precision)
    sizes = tuple("batch" if isinstance(size, Rows) else size for size in shape)
    inner = [scratch.input(f"input_{index}", source.dtype, sizes) for index, source in enumerate(sources)]
    arrays = [Traced(Value(scratch, tensor, tensor.dtype, shape)) for tensor in inner]
    given = given_as(arrays)
    with watching() as refused, constructors(scratch):
        try:
            result = call(given)
        except Exception:
            if refused:  # the user's code may have taken the refusal for another error
                raise refused[0] from None
            raise
    if refused:
        raise refused[0]
    return _Record(scratch, tuple(tensor.name for tensor in inner), _answer(result))


def _table(data: Frame, arrays: list[Traced], names: Sequence[Any] | None) -> tables.Frame:
    """Return a stand-in for a data frame; types that pandas computes with in its own way are refused."""
    for column in data.columns:
        if _has_own_rules(column.field):
            msg = (
                f"column {column.key!r} is no plain column of pandas: its library computes with it by rules of its own"
            )
            raise UnsupportedModelError(msg, remedy="give a pandas frame with columns of int64, float64, bool or str")
    if data.objects:
        msg = "gets an array of objects, text and numbers mixed"
        raise UnsupportedModelError(msg, remedy="send text and numbers to different steps")
    keys = names if data.made and names is not None else [column.key for column in data.columns]
    return tables.Frame(dict(zip(keys, arrays, strict=True)))


def _has_own_rules(field: Field | None) -> bool:
    if field is None:
        return False
    numbers = field.nullable and field.dtype not in {"float64", "float32", "string"}
    return numbers or field.categories is not None or field.container_dtype not in _PLAIN


def _answer(result: Any) -> Answer:
    if issubclass(type(result), tables.Frame):
        return Answer(tuple(array.value for array in result.arrays.values()), tuple(result.arrays))
    if issubclass(type(result), tables.Series):
        return Answer((result.to_numpy().value,))
    if is_traced(result):
        value = result.value
        if not value.shape or not isinstance(value.shape[0], Rows):
            msg = f"returns an array of shape {value.shape}, whose first axis is not the rows"
            raise UnsupportedModelError(msg, remedy="return one row for each row that comes in")
        if any(isinstance(size, Rows) for size in value.shape[1:]):
            msg = f"returns an array of shape {value.shape}: each row's answer has a value for every row of its call"
            raise UnsupportedModelError(msg, remedy="line up other axes: x[:, :1] instead of x[:, 0]")
        return Answer((value,))
    kind = type(result).__name__
    msg = f"returns a {kind} that does not hang on its data, or that holds it in a way that is not known here"
    raise UnsupportedModelError(msg, remedy="return an array or a data frame computed from the data")


def _shape(graph: Graph, tensor: Tensor, width: int | None) -> Shape:
    """Return the shape of a tensor of the graph, as ONNX infers it; the first axis is the batch's."""
    sizes = _inferred(graph, tensor)
    if sizes is None:
        sizes = [None, width] if width else [None]
    known = [width if size is None and index == 1 else size for index, size in enumerate(sizes)]
    if any(size is None for size in known[1:]):
        msg = "gets an array whose number of columns is not known before it runs"
        raise UnsupportedModelError(msg, remedy="set n_features_in_ in fit, or put a step of scikit-learn before it")
    return (ROWS, *(int(size) for size in known[1:] if size is not None))


def _inferred(graph: Graph, tensor: Tensor) -> list[int | None] | None:
    import onnx

    known = {value.name: value for value in graph.inputs}
    if tensor.name not in known:
        target = helper.make_tensor_value_info(tensor.name, onnx_type(tensor.dtype), None)
        constants = list(graph.constants.values())
        proto = helper.make_graph(graph.nodes, "shapes", graph.inputs, [target], constants, value_info=graph.declared)
        opsets = [helper.make_opsetid(domain, version) for domain, version in (("", graph.opset), (ML, 5), (MS, 1))]
        try:
            found = onnx.shape_inference.infer_shapes(helper.make_model(proto, opset_imports=opsets), data_prop=True)
        except onnx.shape_inference.InferenceError:
            return None
        known = {value.name: value for value in (*found.graph.output, *found.graph.value_info)}
    kind = known[tensor.name].type.tensor_type
    if not kind.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim]


@contextlib.contextmanager
def _quiet() -> Any:
    """Let constants overflow in silence, and scikit-learn not ask whether there are infinite numbers."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(np.errstate(all="ignore"))
        if "sklearn" in sys.modules:
            from sklearn import config_context

            stack.enter_context(config_context(assume_finite=True))
        yield


class Table(np.ndarray):
    """A fitted array of a traced object: it can be indexed by what is computed from the data."""

    def __getitem__(self, key: Any) -> Any:
        """Return elements, in the graph where their places are there."""
        if is_traced(key):
            places = key.value
            return wrap(take(constant(places.graph, np.asarray(self)), places, 0))
        return super().__getitem__(key)


def prepared(model: Any) -> Any:
    """Return a copy of an object whose methods are to be traced, so that the calls leave no mark on it."""
    try:
        twin = copy.deepcopy(model)
    except Exception:  # noqa: BLE001 (a user's class may forbid it in any way)
        return model
    for name, attribute in vars(twin).items() if hasattr(twin, "__dict__") else ():
        if type(attribute) is np.ndarray and (attribute.dtype.kind in "biufUS" or attribute.dtype == TEXT):
            object.__setattr__(twin, name, attribute.view(Table))
    return twin
