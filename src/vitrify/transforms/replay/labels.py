"""Text that a graph looks up last, in a table of its own: the labels of a classifier.

Frameworks without text give the numbers instead, and the session looks them up (``labels`` in the entry).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
from onnx import numpy_helper

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

_SHAPERS = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose"})


def without_labels(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, list[str]]]:
    """Return a model whose text outputs are places in tables, and the tables by output.

    An output that is text in any other way stays as it is; a model without text is returned itself.
    """
    text = [value for value in model.graph.output if value.type.tensor_type.elem_type == onnx.TensorProto.STRING]
    if not text:
        return model, {}
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    constants = _constants(changed)
    tables = {}
    for value in (one for one in changed.graph.output if one.name in {old.name for old in text}):
        if (lookup := _lookup(changed, value.name, constants)) is not None:
            node, table = lookup
            tables[value.name] = table
            to = onnx.TensorProto.INT64
            node.CopyFrom(onnx.helper.make_node("Cast", [node.input[1]], list(node.output), node.name, to=to))
            value.type.tensor_type.elem_type = onnx.TensorProto.INT64
    return changed, tables


def labelled(
    outputs: Mapping[str, str], tables: Mapping[str, list[str]], entry: Mapping[str, Any]
) -> dict[str, dict[str, list[str]]]:
    """Return what the entry of the target says about labels: by signature output, with those that the source had."""
    found = {name: tables[graph] for name, graph in outputs.items() if graph in tables}
    found |= entry.get("labels", {})
    return {"labels": found} if found else {}


def _constants(model: onnx.ModelProto) -> dict[str, np.ndarray[Any, Any]]:
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            found[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return found


def _lookup(
    model: onnx.ModelProto, name: str, constants: Mapping[str, np.ndarray[Any, Any]]
) -> tuple[onnx.NodeProto, list[str]] | None:
    """Return the Gather at the end of which a text stands, seen through what only changes its shape."""
    producers = {output: node for node in model.graph.node for output in node.output}
    readers = [one for node in model.graph.node for one in node.input] + [one.name for one in model.graph.output]
    node = producers.get(name)
    while node is not None and readers.count(name) == 1:
        if node.op_type == "Gather" and (table := constants.get(node.input[0])) is not None and table.ndim == 1:
            return node, [text.decode() if isinstance(text, bytes) else str(text) for text in table.tolist()]
        if node.op_type not in _SHAPERS:
            return None
        name = node.input[0]
        node = producers.get(name)
    return None
