"""A saved model's main file without the state of optimisers, which training needs and serving does not.

Keras 2 saved them as objects of its own, which TensorFlow revives only where Keras 2 is installed.

Source: ``SavedObjectGraph.SavedObject.slot_variables`` in tensorflow/core/protobuf/saved_object_graph.proto.
"""

from __future__ import annotations

from vitrify.formats._tensorflow.loaded import saved_model_pb2


def without_slots(content: bytes) -> bytes:
    """Return a saved model's main file in which no optimiser has variables; without any, the same bytes."""
    model = saved_model_pb2.SavedModel.FromString(content)
    nodes = [node for meta in model.meta_graphs for node in meta.object_graph_def.nodes if node.slot_variables]
    for node in nodes:
        del node.slot_variables[:]
    return bytes(model.SerializeToString()) if nodes else content
