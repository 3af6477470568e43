"""86 to 97: graphs that read and write files, and skops files whose nodes do not say what they do."""

from __future__ import annotations

import io
import json
import os
import zipfile

from corpus import Case
from corpus.opcodes import plain


def _onnx(
    folder, location: str, *, extra: dict[str, str] | None = None, data: bytes | None = b"\0" * 16, size: int = 4
):
    import onnx
    from onnx import TensorProto, helper

    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[size], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **(extra or {})}.items():
        tensor.external_data.add(key=key, value=value)
    value = helper.make_tensor_value_info
    node = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [value("x", 1, [size])], [value("y", 1, [size])], [tensor])
    path = folder / "model.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString()
    )
    if data is not None:
        (folder / "weights.bin").write_bytes(data)
    assert onnx.__version__
    return path


def _linked(kind: str):
    def make(folder, marker):
        secret = folder.parent / f"secret-{folder.name}"
        secret.write_bytes(b"\0" * 16)
        path = _onnx(folder, "weights.bin", data=None)
        (os.symlink if kind == "symlink" else os.link)(secret, folder / "weights.bin")
        return path

    return make


def _recursive(folder, marker):
    from onnx import helper

    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function("own", one, ["x"], ["y"], [helper.make_node(other, ["x"], ["y"], domain="own")], opsets)
        for one, other in (("Ping", "Pong"), ("Pong", "Ping"))
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Ping", ["x"], ["y"], domain="own")], "g", [value("x", 1, [1])], [value("y", 1, [1])]
    )
    path = folder / "model.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10).SerializeToString()
    )
    return path


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _node(name: str, operator: str) -> bytes:
    return _field(1, name.encode()) + _field(2, operator.encode())


def _saved_model(operator: str):
    """A SavedModel of one operator (tensorflow/core/protobuf/saved_model.proto, meta_graph.proto, graph.proto)."""

    def make(folder, marker):
        path = folder / "saved"
        (path / "variables").mkdir(parents=True)
        nodes = [_node("x", "Placeholder"), _node("evil", operator)]
        graph = b"".join(_field(1, node) for node in nodes)
        info = _field(4, b"serve") + _field(5, b"2.21.0")
        (path / "saved_model.pb").write_bytes(_field(1, 1) + _field(2, _field(1, info) + _field(2, graph)))
        return path

    return make


def _linked_variables(folder, marker):
    path = _saved_model("Identity")(folder, marker)
    secret = folder / "secret"
    secret.write_bytes(b"secret")
    (path / "variables" / "variables.data-00000-of-00001").symlink_to(secret)
    return path


def _skops(schema: dict):
    def make(folder, marker):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("schema.json", json.dumps({**schema, "protocol": 2, "_skops_version": "0.16.0"}))
        path = folder / "model.skops"
        path.write_bytes(stream.getvalue())
        return path

    return make


_EMPTY = {
    "__class__": "dict",
    "__module__": "builtins",
    "__loader__": "DictNode",
    "content": {},
    "key_types": {},
    "__id__": 3,
}
_TEXT = {
    "__class__": "str",
    "__module__": "builtins",
    "__loader__": "JsonNode",
    "content": '"touch x"',
    "is_json": True,
    "__id__": 2,
}


def _operator(folder, marker):
    """OperatorFuncNode takes any name of the operator module; here the module is another."""
    schema = {"__class__": "system", "__module__": "os", "__loader__": "OperatorFuncNode", "attrs": _TEXT, "__id__": 1}
    return _skops(schema)(folder, marker)


def _method(folder, marker):
    """MethodNode audits the object and its class; the method's name reaches past both."""
    inner = {
        "__class__": "Bunch",
        "__module__": "sklearn.utils._bunch",
        "__loader__": "ObjectNode",
        "content": _EMPTY,
        "__id__": 4,
    }
    content = {"func": "__reduce_ex__", "obj": inner}
    schema = {"__class__": "system", "__module__": "os", "__loader__": "MethodNode", "content": content, "__id__": 1}
    return _skops(schema)(folder, marker)


def _renamed(folder, marker):
    path = folder / "model.skops"
    path.write_bytes(plain(str(marker)))
    return path


HOSTILE = (
    Case("86", "external data above", lambda f, m: _onnx(f, "../../../../etc/passwd")),
    Case("87", "external data absolute", lambda f, m: _onnx(f, "/etc/passwd")),
    Case("88", "external data symlink", _linked("symlink")),
    Case("89", "external data hardlink", _linked("hardlink")),
    Case("90", "external data past the end", lambda f, m: _onnx(f, "weights.bin", extra={"offset": "8", "length": "4096"})),
    Case("91", "unknown external key", lambda f, m: _onnx(f, "weights.bin", extra={"command": "touch x"})),
    Case("92", "recursive functions", _recursive, limit=True),
    Case("93", "ReadFile", _saved_model("ReadFile")),
    Case("93b", "WriteFile", _saved_model("WriteFile")),
    Case("93c", "PyFunc", _saved_model("PyFunc")),
    Case("94", "variables are a symlink", _linked_variables),
    Case("95", "OperatorFunc mismatch", _operator),
    Case("96", "Method mismatch", _method),
    Case("97", "pickle called skops", _renamed, "pickle"),
)  # fmt: skip
