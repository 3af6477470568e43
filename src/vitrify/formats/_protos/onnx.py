"""The messages of ONNX.

Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

from vitrify.reading.protobuf import Schema

SCHEMA = Schema(
    "onnx",
    {
        "Model": {
            "ir_version": "1 int64",
            "producer_name": "2 string",
            "producer_version": "3 string",
            "domain": "4 string",
            "model_version": "5 int64",
            "doc_string": "6 string",
            "graph": "7 Graph",
            "opset_import": "8 *Opset",
            "metadata_props": "14 *Entry",
            "training_info": "20 *Training",
            "functions": "25 *Function",
        },
        "Opset": {"domain": "1 string", "version": "2 int64"},
        "Entry": {"key": "1 string", "value": "2 string"},
        "Training": {"initialization": "1 Graph", "algorithm": "2 Graph"},
        "Function": {
            "name": "1 string",
            "input": "4 *string",
            "output": "5 *string",
            "node": "7 *Node",
            "opset_import": "9 *Opset",
            "domain": "10 string",
            "attribute_proto": "11 *Attribute",
            "overload": "13 string",
        },
        "Graph": {
            "node": "1 *Node",
            "name": "2 string",
            "initializer": "5 *Tensor",
            "input": "11 *Value",
            "output": "12 *Value",
            "value_info": "13 *Value",
            "quantization_annotation": "14 *Annotation",
            "sparse_initializer": "15 *Sparse",
        },
        "Annotation": {"tensor_name": "1 string"},
        "Node": {
            "input": "1 *string",
            "output": "2 *string",
            "name": "3 string",
            "op_type": "4 string",
            "attribute": "5 *Attribute",
            "domain": "7 string",
            "overload": "8 string",
        },
        "Attribute": {
            "name": "1 string",
            "f": "2 ?float",
            "i": "3 ?int64",
            "s": "4 blob",
            "t": "5 Tensor",
            "g": "6 Graph",
            "floats": "7 *float",
            "ints": "8 *int64",
            "strings": "9 *bytes",
            "tensors": "10 *Tensor",
            "graphs": "11 *Graph",
            "sparse_tensor": "22 Sparse",
            "sparse_tensors": "23 *Sparse",
        },
        "Tensor": {
            "dims": "1 *int64",
            "data_type": "2 int32",
            "name": "8 string",
            "raw_data": "9 blob",
            "external_data": "13 *Entry",
            "data_location": "14 int32",
        },
        "Sparse": {"values": "1 Tensor", "indices": "2 Tensor", "dims": "3 *int64"},
        "Value": {"name": "1 string", "type": "2 Type"},
        "Type": {
            "tensor_type": "1 TensorType",
            "sequence_type": "4 Holder",
            "map_type": "5 Map",
            "opaque_type": "7 Opaque",
            "sparse_tensor_type": "8 TensorType",
            "optional_type": "9 Holder",
        },
        "TensorType": {"elem_type": "1 int32", "shape": "2 Shape"},
        "Holder": {"elem_type": "1 Type"},
        "Map": {"key_type": "1 int32", "value_type": "2 Type"},
        "Opaque": {"domain": "1 string", "name": "2 string"},
        "Shape": {"dim": "1 *Dimension"},
        "Dimension": {"dim_value": "1 ?int64", "dim_param": "2 ?string"},
    },
)
EXTERNAL = 1
"""``data_location`` of a tensor that lies in another file."""

TYPES = (
    "undefined", "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16",
    "double", "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz",
    "float8e5m2", "float8e5m2fnuz", "uint4", "int4", "float4e2m1", "float8e8m0", "uint2", "int2",
)  # fmt: skip
BITS = dict(
    zip(
        TYPES,
        (0, 32, 8, 8, 16, 16, 32, 64, 0, 8, 16, 64, 32, 64, 64, 128, 16, 8, 8, 8, 8, 4, 4, 4, 8, 2, 2),
        strict=True,
    )
)
"""Bits of an element; text has none that is fixed."""
