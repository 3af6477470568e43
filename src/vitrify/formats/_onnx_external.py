"""Tensors of an ONNX model that lie in a file of their own: split off, found, and put back.

protobuf cannot hold more than 2 GiB, so the initialisers of a larger model lie beside it. A file says where with
``location``, ``offset`` and ``length``; a location is a name inside the artifact and nothing else.

Source: https://github.com/onnx/onnx/blob/main/docs/ExternalData.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from vitrify.core.errors import MalformedError
from vitrify.formats._protos.onnx import EXTERNAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import onnx

LIMIT = 2**31 - 2**20
"""Bytes of initialisers that a model may hold itself; protobuf's limit less what names and nodes may need."""

_ALIGNMENT = 64
_SMALL = 1024


def size(model: onnx.ModelProto) -> int:
    """Return the bytes of raw data that the model's initialisers hold."""
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer)


def split(model: onnx.ModelProto, location: str, stream: BinaryIO) -> onnx.ModelProto:
    """Return a copy of a model whose larger initialisers are written to ``stream`` instead; none is copied."""
    import onnx

    skeleton = onnx.ModelProto()
    _merge(model, skeleton, leave_out="graph")
    _merge(model.graph, skeleton.graph, leave_out="initializer")
    position = 0
    for tensor in model.graph.initializer:
        kept = skeleton.graph.initializer.add()
        data = tensor.raw_data
        if len(data) < _SMALL:
            kept.CopyFrom(tensor)
            continue
        _merge(tensor, kept, leave_out="raw_data")
        padding = -position % _ALIGNMENT
        stream.write(bytes(padding))
        stream.write(data)
        _point(kept, location, position + padding, len(data))
        position += padding + len(data)
    return skeleton


def locations(model: onnx.ModelProto) -> frozenset[str]:
    """Return the files that the model's tensors lie in."""
    return frozenset(_facts(tensor)["location"] for tensor in tensors(model) if _is_external(tensor))


def embed(model: onnx.ModelProto, data: Callable[[str], memoryview], *, where: str) -> None:
    """Put external tensors back into the model.

    Raises:
        MalformedError: An offset or length is no number or leaves its file.
    """
    for tensor in tensors(model):
        if not _is_external(tensor):
            continue
        facts = _facts(tensor)
        whole = data(facts["location"])
        try:
            offset = int(facts.get("offset", 0))
            length = int(facts.get("length", len(whole) - offset))
        except ValueError as error:
            msg = f"{where}: tensor {tensor.name!r} has an offset or length that is no number"
            raise MalformedError(msg) from error
        if not 0 <= offset <= offset + length <= len(whole):
            msg = (
                f"{where}: tensor {tensor.name!r} is said to lie at {offset} to {offset + length} of {len(whole)} bytes"
            )
            raise MalformedError(msg)
        tensor.raw_data = bytes(whole[offset : offset + length])
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor: initialisers, constants in nodes, and those of graphs and functions inside."""
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)
        yield from _attribute_tensors(function.attribute_proto)


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    yield from _sparse_tensors(graph.sparse_initializer)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Any) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        yield from _attribute_tensors(node.attribute)


def _attribute_tensors(attributes: Any) -> Iterator[onnx.TensorProto]:
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("sparse_tensor"):
            yield from _sparse_tensors([attribute.sparse_tensor])
        yield from _sparse_tensors(attribute.sparse_tensors)
        if attribute.HasField("g"):
            yield from _graph_tensors(attribute.g)
        for graph in attribute.graphs:
            yield from _graph_tensors(graph)


def _sparse_tensors(tensors: Any) -> Iterator[onnx.TensorProto]:
    for sparse in tensors:
        yield from (sparse.values, sparse.indices)


def _is_external(tensor: onnx.TensorProto) -> bool:
    return bool(tensor.data_location == EXTERNAL)


def _facts(tensor: onnx.TensorProto) -> dict[str, str]:
    facts = {entry.key: entry.value for entry in tensor.external_data}
    return {"location": "", **facts}


def _point(tensor: onnx.TensorProto, location: str, offset: int, length: int) -> None:
    tensor.data_location = EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)


def _merge(source: Any, target: Any, *, leave_out: str) -> None:
    """Copy every field but one."""
    for field, value in source.ListFields():
        if field.name == leave_out:
            continue
        if hasattr(value, "MergeFrom"):
            getattr(target, field.name).MergeFrom(value)
        else:
            setattr(target, field.name, value)
