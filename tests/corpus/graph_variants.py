"""86 to 94 by other hands: paths, operators and functions of ONNX and TensorFlow, elsewhere and under other names."""

from __future__ import annotations

from corpus import Case, data
from corpus.graphs import _field, _onnx

OPSETS = [("", 20), ("com.microsoft", 1), ("ai.onnx.ml", 5)]


def _location(location: str):
    return lambda folder, marker: _onnx(folder, location)


def _model(nodes, *, functions=(), opsets=(), **graph):
    """An ONNX model of these nodes."""

    def make(folder, marker):
        from onnx import helper

        value = helper.make_tensor_value_info
        made = helper.make_graph(nodes(), "g", [value("x", 1, [4])], [value("y", 1, [4])], **graph)
        listed = [helper.make_opsetid(*one) for one in (*OPSETS, *opsets)]
        model = helper.make_model(made, opset_imports=listed, functions=[one() for one in functions], ir_version=10)
        path = folder / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    return make


def _node(operator: str, domain: str = "", **attributes):
    def make():
        from onnx import helper

        return [helper.make_node(operator, ["x"], ["y"], domain=domain, **attributes)]

    return make


def _outside():
    from onnx import TensorProto

    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../../secret")
    return tensor


def _in_branch():
    from onnx import helper

    value = helper.make_tensor_value_info
    inner = helper.make_graph([helper.make_node("Identity", ["w"], ["z"])], "b", [], [value("z", 1, [4])], [_outside()])
    return [helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)]


def _in_constant():
    from onnx import helper

    return [helper.make_node("Constant", [], ["y"], value=_outside())]


def _function(domain: str, name: str, inner: str, inner_domain: str = "", overload: str = ""):
    def make():
        from onnx import helper

        opsets = [helper.make_opsetid("", 20), *([helper.make_opsetid(inner_domain, 1)] if inner_domain else [])]
        node = helper.make_node(inner, ["a"], ["b"], domain=inner_domain)
        found = helper.make_function(domain, name, ["a"], ["b"], [node], opsets)
        found.overload = overload
        return found

    return make


def _sparse(folder, marker):
    from onnx import SparseTensorProto, helper

    sparse = SparseTensorProto(values=_outside(), dims=[4])
    sparse.indices.CopyFrom(helper.make_tensor("i", 7, [4], [0, 1, 2, 3]))
    return _model(_node("Relu"), sparse_initializer=[sparse])(folder, marker)


def _training(folder, marker):
    import onnx

    path = _model(_node("Relu"))(folder, marker)
    model = onnx.load(path)
    info = model.training_info.add()
    info.algorithm.node.add(op_type="Evil", domain="evil.lib", input=["x"], output=["q"])
    path.write_bytes(model.SerializeToString())
    return path


def _linked_folder(folder, marker):
    secret = folder.parent / f"secret-{folder.name}"
    secret.mkdir()
    (secret / "w.bin").write_bytes(bytes(16))
    (folder / "data").symlink_to(secret)
    return _onnx(folder, "data/w.bin", data=None)


# TensorFlow, field by field (graph.proto, node_def.proto, attr_value.proto, function.proto).


def _attr(key: str, value: bytes) -> bytes:
    return _field(5, _field(1, key.encode()) + _field(2, value))


def _op(name: str, operator: str, *inputs: str, attributes: bytes = b"") -> bytes:
    named = _field(1, name.encode()) + _field(2, operator.encode())
    return named + b"".join(_field(3, one.encode()) for one in inputs) + attributes


def _text(name: str, value: str) -> bytes:
    return _op(name, "Const", attributes=_attr("value", _field(8, _field(1, 7) + _field(8, value.encode()))))


def _graph(*nodes: bytes, functions: tuple[bytes, ...] = ()) -> bytes:
    library = _field(2, b"".join(_field(1, one) for one in functions)) if functions else b""
    return b"".join(_field(1, one) for one in (_op("x", "Placeholder"), *nodes)) + library


def _body(name: str, *nodes: bytes) -> bytes:
    return _field(1, _field(1, name.encode())) + b"".join(_field(3, one) for one in nodes)


def _saved(*nodes: bytes, functions: tuple[bytes, ...] = (), assets: tuple[tuple[str, str], ...] = ()):
    """A SavedModel, its assets where they should be."""

    def make(folder, marker):
        path = folder / "saved"
        (path / "assets").mkdir(parents=True)
        meta = _field(1, _field(4, b"serve")) + _field(2, _graph(*nodes, functions=functions))
        for tensor, file in assets:
            meta += _field(6, _field(1, _field(1, f"{tensor}:0".encode())) + _field(2, file.encode()))
            (path / "assets" / file).write_text("a\nb\n")
        (path / "saved_model.pb").write_bytes(_field(1, 1) + _field(2, meta))
        return path

    return make


def _calls(name: str, function: str) -> bytes:
    return _op(name, "StatefulPartitionedCall", "x", attributes=_attr("f", _field(10, _field(1, function.encode()))))


def _table(path: str) -> tuple[bytes, ...]:
    return _op("t", "HashTableV2"), _text("p", path), _op("i", "InitializeTableFromTextFileV2", "t", "p")


def _packed_saver(folder, marker):
    """The default of the file name is packed as TensorFlow reads it too: the texts' sizes, then the texts."""
    path = b"/etc/x"
    tensor = _field(1, 7) + _field(2, b"") + _field(4, bytes([len(path)]) + path)
    default = _op("d", "Const", attributes=_attr("value", _field(8, tensor)))
    saved = _graph(default, _op("file", "PlaceholderWithDefault", "d"), _op("s", "SaveV2", "file", "n", "n", "x"))
    made = folder / "saved"
    made.mkdir()
    saver = _field(3, _field(1, b"file:0"))
    (made / "saved_model.pb").write_bytes(
        _field(1, 1) + _field(2, _field(1, _field(4, b"s")) + _field(2, saved) + saver)
    )
    return made


PBTXT = 'saved_model_schema_version: 1 meta_graphs { graph_def { node { name: "a" op: "PyFunc" } } }\n'
_PRINT = _attr("output_stream", _field(2, b"file:///tmp/x"))
_PASSED = _attr("output_stream", _field(9, b"where"))
HOSTILE = (
    *(
        Case(f"86{chr(98 + index)}", f"external data at {name}", _location(location))
        for index, (name, location) in enumerate(
            {
                "a Windows path": "..\\..\\secret",
                "a drive": "C:\\secret",
                "a share": "\\\\host\\secret",
                "a path that climbs late": "a/b/../../../secret",
                "a path with a dot": "./../secret",
                "an address": "file:///etc/passwd",
                "a NUL": "weights.bin\0/../../x",
                "a mixed path": "a\\../..\\/secret",
                "a drive without a root": "C:secret",
            }.items()
        )
    ),
    Case("88b", "external data behind a linked folder", _linked_folder),
    Case("90b", "external data in a branch", _model(_in_branch)),
    Case("90c", "external data in a constant", _model(_in_constant)),
    Case("90d", "external data of a sparse tensor", _sparse),
    Case("91b", "Python operator", _model(_node("PyOp", "ai.onnx.contrib"), opsets=[("ai.onnx.contrib", 1)])),
    Case("91c", "domain like Microsoft's", _model(_node("Gelu", "com.microsoft "), opsets=[("com.microsoft ", 1)])),
    Case("91d", "domain in other letters", _model(_node("Gelu", "com.Microsoft"), opsets=[("com.Microsoft", 1)])),
    Case("91e", "domain like the standard's", _model(_node("Scaler", "ai.onnx.m1"), opsets=[("ai.onnx.m1", 1)])),
    Case("91f", "operator like the standard's", _model(_node("ReLU"))),
    Case("91g", "compiled engine", _model(_node("EPContext", "com.microsoft", ep_cache_context=b"x"))),
    Case("91h", "compiled engine behind a function", _model(_node("EPContext", "com.microsoft"), functions=[_function("com.microsoft", "EPContext", "Relu")])),
    Case("91i", "operator of a library in a function", _model(_node("F", "own"), functions=[_function("own", "F", "Evil", "evil.lib")], opsets=[("own", 1), ("evil.lib", 1)])),
    Case("91j", "function of another overload", _model(_node("Evil", "own"), functions=[_function("own", "Evil", "Relu", overload="other")], opsets=[("own", 1)])),
    Case("91k", "operator of a library in the training", _training),
    Case("93d", "operator in a function that nothing calls", _saved(functions=(_body("f", _op("a", "PyFunc")),))),
    Case("93e", "operator behind two functions", _saved(_calls("a", "f"), functions=(_body("f", _calls("b", "g")), _body("g", _op("c", "WriteFile", "p", "q"))))),
    Case("93f", "operator as a control dependency", _saved(_op("a", "EagerPyFunc"), _op("b", "Identity", "x", "^a"))),
    Case("93g", "operator of a library", _saved(_op("a", "ReadFile2", "x"))),
    Case("93h", "operator like TensorFlow's", _saved(_op("a", "Matmul", "x", "x"))),
    Case("93i", "print into a file", _saved(_op("a", "PrintV2", "x", attributes=_PRINT))),
    Case("93j", "print into what the caller says", _saved(_calls("a", "f"), functions=(_body("f", _op("b", "PrintV2", "q", attributes=_PASSED)),))),
    Case("93k", "descriptors from a file", _saved(_op("a", "DecodeProtoV2", "x", attributes=_attr("descriptor_source", _field(2, b"/etc/descriptors"))))),
    Case("93l", "table from a file", _saved(*_table("/etc/passwd"))),
    Case("93m", "table from what is called an asset", _saved(*_table("/etc/passwd"), assets=(("p", "words.txt"),))),
    Case("93n", "table from above the assets", _saved(*_table("assets/../../x"), assets=(("p", "words.txt"),))),
    Case("93o", "frozen graph that reads", data(_graph(_op("a", "ReadFile", "x")), "frozen.pb")),
    Case("93p", "frozen graph that calls Python", data(_graph(_op("a", "PyFuncStateless", "x")), "frozen.pb")),
    Case("93q", "saved model as text", data(PBTXT.encode(), "saved_model.pbtxt")),
    Case("93r", "graph as text", data(b'node {\n  name: "a"\n  op: "WriteFile"\n}\n', "graph.pbtxt")),
    Case("93s", "graph as text in other quotes", data(b"# x\nnode: < name: 'a', op : 'Py' 'Fu\\156c' >\n", "graph.pbtxt")),
    Case("93v", "default path of a saver that is packed", _packed_saver),
    Case("93t", "network", _saved(_op("a", "RpcClient", "x"))),
    Case("93u", "cache in a file", _saved(_op("a", "CacheDatasetV2", "x", "x"))),
)  # fmt: skip
