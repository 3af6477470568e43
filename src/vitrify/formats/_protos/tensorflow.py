"""The messages of TensorFlow: saved models, graphs, and the entries of a checkpoint's index.

A map is on the wire, and here, a repeated message of ``key`` and ``value``.

Source: https://github.com/tensorflow/tensorflow/tree/master/tensorflow/core/protobuf (saved_model.proto,
meta_graph.proto, saved_object_graph.proto, tensor_bundle.proto) and .../core/framework (graph, function, node_def,
attr_value, tensor).
"""

from __future__ import annotations

from vitrify.reading.protobuf import Schema

SCHEMA = Schema(
    "tensorflow",
    {
        "SavedModel": {"saved_model_schema_version": "1 int64", "meta_graphs": "2 *MetaGraph"},
        "MetaGraph": {
            "meta_info_def": "1 MetaInfo",
            "graph_def": "2 Graph",
            "saver_def": "3 Saver",
            "signature_def": "5 *SignatureEntry",
            "asset_file_def": "6 *Asset",
            "object_graph_def": "7 Objects",
        },
        "MetaInfo": {"tags": "4 *string", "tensorflow_version": "5 string", "tensorflow_git_version": "6 string"},
        "Saver": {"filename_tensor_name": "1 string", "save_tensor_name": "2 string", "restore_op_name": "3 string"},
        "SignatureEntry": {"key": "1 string", "value": "2 Signature"},
        "Signature": {"inputs": "1 *PortEntry", "outputs": "2 *PortEntry", "method_name": "3 string"},
        "PortEntry": {"key": "1 string", "value": "2 Port"},
        "Port": {"name": "1 string", "dtype": "2 int32", "tensor_shape": "3 Shape"},
        "Shape": {"dim": "2 *Dimension", "unknown_rank": "3 bool"},
        "Dimension": {"size": "1 int64", "name": "2 string"},
        "Asset": {"tensor_info": "1 Port", "filename": "2 string"},
        "Objects": {"nodes": "1 *Object"},
        "Object": {"user_object": "4 UserObject"},
        "UserObject": {"identifier": "1 string", "metadata": "3 string"},
        "Graph": {"node": "1 *Node", "library": "2 Library", "versions": "4 Versions"},
        "Versions": {"producer": "1 int32", "min_consumer": "2 int32"},
        "Library": {"function": "1 *Function"},
        "Function": {"signature": "1 Operation", "node_def": "3 *Node", "ret": "4 *TextEntry"},
        "TextEntry": {"key": "1 string", "value": "2 string"},
        "Operation": {"name": "1 string", "input_arg": "2 *Argument", "output_arg": "3 *Argument"},
        "Argument": {"name": "1 string", "type": "3 int32"},
        "Node": {"name": "1 string", "op": "2 string", "input": "3 *string", "attr": "5 *AttrEntry"},
        "AttrEntry": {"key": "1 string", "value": "2 Attr"},
        "Attr": {
            "list": "1 List",
            "s": "2 ?blob",
            "i": "3 ?int64",
            "f": "4 ?float",
            "b": "5 ?bool",
            "type": "6 ?int32",
            "shape": "7 Shape",
            "tensor": "8 Tensor",
            "placeholder": "9 string",
            "func": "10 Call",
        },
        "List": {"s": "2 *bytes", "i": "3 *int64", "type": "6 *int32", "func": "9 *Call"},
        "Call": {"name": "1 string"},
        "Tensor": {"dtype": "1 int32", "tensor_shape": "2 Shape", "tensor_content": "4 blob", "string_val": "8 *bytes"},
        "BundleHeader": {"num_shards": "1 int32", "endianness": "2 int32"},
        "BundleEntry": {
            "dtype": "1 int32",
            "shape": "2 Shape",
            "shard_id": "3 int32",
            "offset": "4 int64",
            "size": "5 int64",
            "slices": "7 *Slice",
        },
        "Slice": {},
        "Fingerprint": {"saved_model_checksum": "1 uint64", "uuid": "6 string"},
        "KerasMetadata": {"nodes": "1 *KerasNode"},
        "KerasNode": {"node_path": "3 string", "identifier": "4 string", "metadata": "5 string"},
    },
)

TYPES = (
    "invalid", "float32", "float64", "int32", "uint8", "int16", "int8", "string", "complex64", "int64", "bool",
    "qint8", "quint8", "qint32", "bfloat16", "qint16", "quint16", "uint16", "complex128", "float16", "resource",
    "variant", "uint32", "uint64", "float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz",
    "float8_e5m2fnuz", "int4", "uint4", "int2", "uint2",
)  # fmt: skip
REFERENCE = 100
"""Added to a type's number where a tensor may be changed in place."""

BYTES = {
    "float32": 4, "float64": 8, "int32": 4, "uint8": 1, "int16": 2, "int8": 1, "complex64": 8, "int64": 8, "bool": 1,
    "qint8": 1, "quint8": 1, "qint32": 4, "bfloat16": 2, "qint16": 2, "quint16": 2, "uint16": 2, "complex128": 16,
    "float16": 2, "uint32": 4, "uint64": 8, "float8_e5m2": 1, "float8_e4m3fn": 1, "float8_e4m3fnuz": 1,
    "float8_e4m3b11fnuz": 1, "float8_e5m2fnuz": 1, "int4": 1, "uint4": 1, "int2": 1, "uint2": 1,
}  # fmt: skip
"""Bytes of an element in memory; text, resources and variants have none that is fixed."""


def type_name(number: int) -> str:
    """Return the name of an element type; of one that is not known, its number."""
    plain = number - REFERENCE if number > REFERENCE else number
    return TYPES[plain] if 0 <= plain < len(TYPES) else str(number)
