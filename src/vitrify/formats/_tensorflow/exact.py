"""A function with what TensorFlow does and other engines do not, written out, so that it can be converted.

TensorFlow's maximum over a window leaves NaN out; where all are NaN it is the lowest number. Others give NaN.
"""

from __future__ import annotations

from typing import Any

from vitrify.formats._tensorflow.loaded import tf

_POOLS = frozenset({"MaxPool", "MaxPool3D", "MaxPoolV2"})


def written_out(function: Any) -> Any:
    """Return a traced function of the same named tensors; the same function where nothing needs writing out."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    if not any(operator in _POOLS for operator in _operators(function)):
        return function
    frozen = convert_variables_to_constants_v2(function)
    graph = frozen.graph.as_graph_def()
    _guard_pools(graph)
    feeds, fetches = [tensor.name for tensor in frozen.inputs], [tensor.name for tensor in frozen.outputs]
    wrapped = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph, name=""), [])
    pruned = wrapped.prune(
        [wrapped.graph.get_tensor_by_name(name) for name in feeds],
        [wrapped.graph.get_tensor_by_name(name) for name in fetches],
    )
    specs = function.structured_input_signature[1]
    takes = sorted(specs)  # a function's own order of named tensors
    gives = sorted(function.structured_outputs)

    def serve(**given: Any) -> dict[str, Any]:
        found = pruned(*(given[name] for name in takes))
        return dict(zip(gives, found if isinstance(found, (list, tuple)) else [found], strict=True))

    return tf.function(serve, autograph=False).get_concrete_function(
        **{name: tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in specs.items()}
    )


def _operators(function: Any) -> set[str]:
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(node for one in graph.library.function for node in one.node_def)]
    return {node.op for node in nodes}


def _guard_pools(graph: Any) -> None:
    """Put the lowest number for NaN in front of each pool."""
    for node in [node for node in graph.node if node.op in _POOLS]:
        kind = tf.as_dtype(node.attr["T"].type)
        if not kind.is_floating:
            continue
        lowest = graph.node.add(op="Const", name=f"{node.name}/lowest")
        lowest.attr["dtype"].type = kind.as_datatype_enum
        lowest.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(kind.min, kind))
        bottom = graph.node.add(op="Const", name=f"{node.name}/bottom")
        bottom.attr["dtype"].type = kind.as_datatype_enum
        bottom.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(-float("inf"), kind))
        # Only NaN is not at or above minus infinity; a comparison with itself would be optimised away.
        known = graph.node.add(op="GreaterEqual", name=f"{node.name}/known", input=[node.input[0], bottom.name])
        known.attr["T"].type = kind.as_datatype_enum
        chosen = graph.node.add(
            op="SelectV2", name=f"{node.name}/chosen", input=[known.name, node.input[0], lowest.name]
        )
        chosen.attr["T"].type = kind.as_datatype_enum
        node.input[0] = chosen.name
