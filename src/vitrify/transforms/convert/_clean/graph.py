"""One graph of a model, cleaned up in place; the graphs inside its nodes first."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import AttributeProto, helper, numpy_helper

from vitrify.transforms.convert._clean.fold import folded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto

_STANDARD = frozenset({"", "ai.onnx", "ai.onnx.ml"})
_RANDOM = frozenset(
    {
        *("Bernoulli", "Dropout", "Multinomial"),
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    }
)
_MOST_ROUNDS = 8
_VALUES: dict[str, tuple[Callable[[AttributeProto], Any], Any]] = {
    "value_int": (lambda one: one.i, np.int64),
    "value_ints": (lambda one: list(one.ints), np.int64),
    "value_float": (lambda one: one.f, np.float32),
    "value_floats": (lambda one: list(one.floats), np.float32),
    "value_string": (lambda one: one.s.decode(), object),
    "value_strings": (lambda one: [text.decode() for text in one.strings], object),
}


def inner_graphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


class Cleaner:
    """The passes over a graph and the graphs inside it.

    Args:
        local: Functions that the model brings: what they compute is not known here.
        opset: The version of the standard's operators.
    """

    def __init__(self, local: Collection[tuple[str, str]], opset: int) -> None:
        """Remember the functions."""
        self._local = frozenset(local)
        self._opset = opset

    def graph(self, graph: GraphProto, outer: Mapping[str, ValueInfoProto] | None = None) -> None:
        """Clean a graph; ``outer`` is what is known of the values of the graphs around it."""
        values = {**(outer or {}), **_known(graph)}
        for node in graph.node:
            for inner in inner_graphs(node):
                self.graph(inner, values)
        lift_constants(graph)
        for _ in range(_MOST_ROUNDS):
            before = len(graph.node), len(graph.initializer)
            merge_constants(graph)
            fold_constants(graph, values, self._opset)
            drop_idle(graph, values)
            self.merge_nodes(graph)
            drop_dead(graph)
            if (len(graph.node), len(graph.initializer)) == before:
                break
        named = {name for node in graph.node for name in node.output}
        kept = [value for value in graph.value_info if value.name in named]
        del graph.value_info[:]
        graph.value_info.extend(kept)

    def merge_nodes(self, graph: GraphProto) -> None:
        """Compute once what is computed twice; a graph's output stays what it is."""
        outputs = {value.name for value in graph.output}
        known: dict[tuple[Any, ...], NodeProto] = {}
        alias: dict[str, str] = {}
        kept = []
        for node in graph.node:
            rename(node, alias)
            if not self._is_plain(node):
                kept.append(node)
                continue
            attributes = sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)
            shown = tuple(bool(name) for name in node.output)
            key = (node.domain, node.op_type, tuple(node.input), tuple(attributes), shown)
            first = known.setdefault(key, node)
            if first is node or outputs.intersection(node.output):
                kept.append(node)
                continue
            alias.update((new, old) for new, old in zip(node.output, first.output, strict=True) if new)
        _replace(graph.node, kept)

    def _is_plain(self, node: NodeProto) -> bool:
        """Say whether a node gives the same for the same, and has no graph that could see other values."""
        native = node.domain in _STANDARD and (node.domain, node.op_type) not in self._local
        return native and node.op_type not in _RANDOM and not any(True for _ in inner_graphs(node))


def lift_constants(graph: GraphProto) -> None:
    """Make initialisers of Constant nodes, but for one that is itself an output."""
    outputs = {value.name for value in graph.output}
    kept = []
    for node in graph.node:
        tensor = _constant(node) if node.op_type == "Constant" and node.output[0] not in outputs else None
        if tensor is None:
            kept.append(node)
        else:
            tensor.name = node.output[0]
            graph.initializer.append(tensor)
    _replace(graph.node, kept)


def merge_constants(graph: GraphProto) -> None:
    """Keep one of the initialisers that are equal to the bit."""
    ends = {value.name for value in (*graph.input, *graph.output)}
    kinds = Counter(_kind(tensor) for tensor in graph.initializer)
    first: dict[tuple[Any, ...], str] = {}
    alias, kept = {}, []
    for tensor in graph.initializer:
        if tensor.name in ends or kinds[_kind(tensor)] == 1 or tensor.external_data:
            kept.append(tensor)
            continue
        name = first.setdefault((_kind(tensor), _content(tensor)), tensor.name)
        if name == tensor.name:
            kept.append(tensor)
        else:
            alias[tensor.name] = name
    if alias:
        _replace(graph.initializer, kept)
        for node in graph.node:
            rename(node, alias)


def fold_constants(graph: GraphProto, values: Mapping[str, ValueInfoProto], opset: int) -> None:
    """Compute what depends on constants alone, where :mod:`._clean.fold` can do so exactly."""
    given = {value.name for value in graph.input}
    outputs = {value.name for value in graph.output}
    constants = {tensor.name: tensor for tensor in graph.initializer if tensor.name not in given}
    kept = []
    for node in graph.node:
        tensor = None if outputs.intersection(node.output) else folded(node, constants, values, opset)
        if tensor is None:
            kept.append(node)
            continue
        tensor.name = node.output[0]
        constants[tensor.name] = tensor
        graph.initializer.append(tensor)
    _replace(graph.node, kept)


def drop_idle(graph: GraphProto, values: Mapping[str, ValueInfoProto]) -> None:
    """Let the readers of what changes nothing read what it was made from."""
    made = {name for node in graph.node for name in node.output if name}
    outputs = {value.name for value in graph.output}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    alias: dict[str, str] = {}
    kept = []
    for node in graph.node:
        rename(node, alias)
        if not _is_idle(node, values, constants):
            kept.append(node)
            continue
        source, target = node.input[0], node.output[0]
        if target not in outputs:
            alias[target] = source
        elif source in made and source not in outputs:
            # The output keeps its name: what makes the value takes it, and all that read it read that.
            for other in (*kept, *graph.node):
                other.output[:] = [target if name == source else name for name in other.output]
                rename(other, {source: target})
            alias = {key: target if value == source else value for key, value in alias.items()} | {source: target}
        else:
            kept.append(node)
    kept = [node for node in kept if not (_is_copy(node) and list(node.input[:1]) == list(node.output))]
    for node in kept:
        rename(node, alias)
    _replace(graph.node, kept)


def drop_dead(graph: GraphProto) -> None:
    """Drop what no output depends on."""
    wanted = {value.name for value in graph.output}
    live = []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            wanted.update(read_by(node))
            live.append(node)
    _replace(graph.node, live[::-1])
    given = {value.name for value in graph.input}
    _replace(graph.initializer, [one for one in graph.initializer if one.name in wanted | given])
    _replace(graph.sparse_initializer, [one for one in graph.sparse_initializer if one.values.name in wanted | given])


def shadows(graph: GraphProto, outer: Collection[str] = ()) -> bool:
    """Say whether a graph inside names a value as one around it is named, which ONNX forbids and some tools do."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {name for node in graph.node for name in node.output if name}
    seen = own | set(outer)
    return bool(own.intersection(outer)) or any(
        shadows(inner, seen) for node in graph.node for inner in inner_graphs(node)
    )


def rename(node: NodeProto, alias: Mapping[str, str]) -> None:
    """Let a node, and the graphs inside it, read values by other names."""
    if not alias:
        return
    node.input[:] = [alias.get(name, name) for name in node.input]
    for graph in inner_graphs(node):
        own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        own |= {name for inner in graph.node for name in inner.output}
        seen = {key: value for key, value in alias.items() if key not in own}
        for inner in graph.node:
            rename(inner, seen)
        for value in graph.output:
            value.name = seen.get(value.name, value.name)


def read_by(node: NodeProto) -> set[str]:
    """Return the names that a node reads, those that graphs inside it read from around them too."""
    names = set(node.input)
    for graph in inner_graphs(node):
        names |= {name for inner in graph.node for name in read_by(inner)} | {value.name for value in graph.output}
    return names


def _is_copy(node: NodeProto) -> bool:
    return node.op_type in {"Identity", "Cast", "Transpose", "Reshape"} and node.domain in {"", "ai.onnx"}


def _is_idle(node: NodeProto, values: Mapping[str, ValueInfoProto], constants: Mapping[str, TensorProto]) -> bool:
    """Say whether a node gives back its first input."""
    if not _is_copy(node) or not node.input or not node.input[0]:
        return False
    if node.op_type == "Identity":
        return True
    value = values.get(node.input[0])
    if value is None or value.type.WhichOneof("value") != "tensor_type":
        return False
    kind, attributes = value.type.tensor_type, {one.name: one for one in node.attribute}
    rank = len(kind.shape.dim) if kind.HasField("shape") else None
    match node.op_type:
        case "Cast":
            return bool(kind.elem_type and attributes["to"].i == kind.elem_type)
        case "Transpose":
            turned = list(attributes["perm"].ints) if "perm" in attributes else list(range(rank or 9))[::-1]
            return rank is not None and turned == list(range(rank))
    return (
        rank is not None and node.input[1] in constants and _is_same_shape(kind, constants[node.input[1]], attributes)
    )


def _is_same_shape(kind: Any, shape: TensorProto, attributes: Mapping[str, AttributeProto]) -> bool:
    """Say whether a Reshape asks for the sizes that are there; one of them may be left to be found."""
    sizes = [one.dim_value if one.HasField("dim_value") else None for one in kind.shape.dim]
    wanted = numpy_helper.to_array(shape).tolist()
    copies = not ("allowzero" in attributes and attributes["allowzero"].i)
    same = [ask == size or (ask == 0 and copies) for ask, size in zip(wanted, sizes, strict=False)]
    return len(wanted) == len(sizes) and (all(same) or (same.count(False) == 1 and wanted[same.index(False)] == -1))


def _known(graph: GraphProto) -> dict[str, ValueInfoProto]:
    """Return what is known of the values of a graph: its inputs, outputs, constants and what was inferred."""
    known = {value.name: value for value in (*graph.value_info, *graph.output, *graph.input)}
    for tensor in graph.initializer:
        known[tensor.name] = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
    return known


def _constant(node: NodeProto) -> TensorProto | None:
    if len(node.attribute) != 1 or node.domain not in {"", "ai.onnx"}:
        return None
    (attribute,) = node.attribute
    if attribute.ref_attr_name:
        return None
    if attribute.name == "value":
        return attribute.t
    if attribute.name not in _VALUES:
        return None
    take, dtype = _VALUES[attribute.name]
    return numpy_helper.from_array(np.array(take(attribute), dtype))


def _kind(tensor: TensorProto) -> tuple[Any, ...]:
    return (tensor.data_type, *tensor.dims)


def _content(tensor: TensorProto) -> bytes:
    if tensor.string_data:
        return b"".join(len(text).to_bytes(8, "big") + text for text in tensor.string_data)
    return blake2b(tensor.raw_data or numpy_helper.to_array(tensor).tobytes()).digest()


def _replace(field: Any, kept: list[Any]) -> None:
    """Leave these in a repeated field."""
    if len(field) != len(kept):
        del field[:]
        field.extend(kept)
