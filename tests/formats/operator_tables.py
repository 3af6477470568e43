"""Makes the tables of known operators from the libraries that define them: ``python -m formats.operator_tables``."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

FORMATS = Path(__file__).parents[2] / "src/vitrify/formats"
ONNX = FORMATS / "_onnx/operators.txt"
TENSORFLOW = FORMATS / "_tensorflow/operators.txt"
CONTRIB = ("ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")


def onnx_table():
    """Return a line a domain: its name, the version of the standard (0 for others) and its operators."""
    from onnx import defs
    from onnxruntime.capi import onnxruntime_pybind11_state as runtime

    names, versions = defaultdict(set), defaultdict(int)
    for schema in defs.get_all_schemas_with_history():
        names[schema.domain or "ai.onnx"].add(schema.name)
        versions[schema.domain or "ai.onnx"] = max(versions[schema.domain or "ai.onnx"], schema.since_version)
    versions["ai.onnx"] = defs.onnx_opset_version()
    for schema in runtime.get_all_operator_schema():
        if schema.domain in CONTRIB or (not schema.domain and not schema.name.endswith("_TRT")):  # TensorRT's plugins
            names[schema.domain or "ai.onnx"].add(schema.name)
    return "".join(f"{domain} {versions[domain]} {' '.join(sorted(names[domain]))}\n" for domain in sorted(names))


def tensorflow_table():
    """Return a line an operator that TensorFlow itself registers."""
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session as session

    listed = op_def_pb2.OpList.FromString(session.TF_GetBuffer(session.TF_GetAllOpList()))
    return "".join(f"{name}\n" for name in sorted(operator.name for operator in listed.op))


if __name__ == "__main__":
    ONNX.write_text(onnx_table(), encoding="utf-8")
    TENSORFLOW.write_text(tensorflow_table(), encoding="utf-8")
