"""ONNX, TensorFlow and Core ML: models that their own libraries write, and those that packages ship."""

from __future__ import annotations

import importlib.util
import logging
import shutil
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np


def package(name, *parts):
    """Return a file or directory inside an installed package, which is not imported."""
    (folder,) = importlib.util.find_spec(name).submodule_search_locations
    return Path(folder, *parts)


BASIC_PITCH = ("basic_pitch", "saved_models", "icassp_2022")


def copied(source, name=None):
    """Return a sample that is a copy of a package's file or directory."""

    def make(folder):
        path = folder / (name or source().name)
        (shutil.copytree if source().is_dir() else shutil.copyfile)(source(), path)
        return path

    return make


def linear(rows=3, columns=200, **facts):
    """Return ``x @ weight + bias`` as an ONNX model."""
    from onnx import TensorProto, helper, numpy_helper

    weight = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["product"], name="times"),
        helper.make_node("Add", ["product", "bias"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", columns])],
        [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(np.float32([1]), "bias")],
    )
    opset = facts.pop("opset", 20)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, producer_name="test", **facts
    )


def quantised():
    """Return a model whose weight is kept in eight bits."""
    from onnx import helper, numpy_helper

    model = linear()
    graph = model.graph
    graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((3, 200), np.int8), "small"))
    graph.initializer.append(numpy_helper.from_array(np.float32(0.5), "scale"))
    graph.node.insert(0, helper.make_node("DequantizeLinear", ["small", "scale"], ["weight"]))
    return model


def nested():
    """Return a model with a branch whose one side holds a loop."""
    from onnx import TensorProto, helper

    def info(name, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, [])

    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["again"]), helper.make_node("Add", ["sum", "sum"], ["twice"])],
        "body",
        [info("i", TensorProto.INT64), info("go", TensorProto.BOOL), info("sum")],
        [info("again", TensorProto.BOOL), info("twice")],
    )
    loop = helper.make_graph([helper.make_node("Loop", ["", "c", "x"], ["l"], body=body)], "then", [], [info("l")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "else", [], [info("n")])
    branch = helper.make_node("If", ["c"], ["y"], then_branch=loop, else_branch=other)
    graph = helper.make_graph([branch], "nested", [info("c", TensorProto.BOOL), info("x")], [info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def with_functions():
    """Return a model that calls a function of its own."""
    from onnx import helper

    model = linear()
    versions = [helper.make_opsetid("", 20)]
    nodes = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Add", ["b", "a"], ["c"])]
    model.functions.append(helper.make_function("ours", "ReluAdd", ["a"], ["c"], nodes, versions))
    model.opset_import.append(helper.make_opsetid("ours", 1))
    model.graph.node[1].output[0] = "z"
    model.graph.node.append(helper.make_node("ReluAdd", ["z"], ["y"], domain="ours"))
    return model


def classifier():
    """Return a model with operators of ``ai.onnx.ml``, an output that is no tensor, and metadata."""
    from onnx import TensorProto, helper

    sequence = helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    graph = helper.make_graph(
        [helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])],
        "classes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 2])],
        [helper.make_value_info("y", sequence)],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=10
    )
    helper.set_model_props(model, {"license": "Apache-2.0", "author": "somebody"})
    return model


def reordered(model):
    """Return a model's bytes with its fields in another order, as Protocol Buffers allow: the version comes last."""
    import onnx

    parts = []
    for field, value in model.ListFields():
        part = onnx.ModelProto()
        if hasattr(value, "MergeFrom"):
            getattr(part, field.name).MergeFrom(value)
        else:
            setattr(part, field.name, value)
        parts.append(part.SerializeToString())
    return b"".join(reversed(parts))


def written(make, name="model.onnx"):
    """Return a sample that is one file of bytes."""

    def to(folder):
        path = folder / name
        path.write_bytes(make())
        return path

    return to


def external(folder):
    """Make a directory with a model and its data beside it."""
    import onnx

    path = folder / "model.onnx"
    onnx.save(linear(), path, save_as_external_data=True, location="weights.data", size_threshold=100)
    return folder


def kept(make):
    """Return a sample that is made once a process, however often it is asked for."""

    @cache
    def files():
        with tempfile.TemporaryDirectory() as place:
            path = make(Path(place))
            found = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
            return path.name, {one.relative_to(place).as_posix(): one.read_bytes() for one in found}

    def to(folder):
        name, held = files()
        for inner, data in held.items():
            (folder / inner).parent.mkdir(parents=True, exist_ok=True)
            (folder / inner).write_bytes(data)
        return folder / name

    return to


def tensorflow():
    """Return TensorFlow, silently."""
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow as tf
    return tf


@kept
def keras(folder):
    """Make a SavedModel of a Keras model, as Keras 3 exports it."""
    tf = tensorflow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = tf.keras.Input((4,), name="x")
        model = tf.keras.Model(inputs, tf.keras.layers.Dense(2, activation="relu")(inputs))
        model.export(folder / "keras", verbose=False)
    return folder / "keras"


@kept
def with_assets(folder):
    """Make a SavedModel whose table is filled from an asset."""
    tf = tensorflow()
    (folder / "words.txt").write_text("one\ntwo\n")

    class Words(tf.Module):
        def __init__(self):
            super().__init__()
            source = tf.lookup.TextFileInitializer(
                str(folder / "words.txt"), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            )  # fmt: skip
            self.table = tf.lookup.StaticHashTable(source, -1)
            self.weight = tf.Variable([[1.0]])

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def __call__(self, x):
            return self.table.lookup(x)

    module = Words()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tf.saved_model.save(module, str(folder / "assets"), signatures=module.__call__)
    return folder / "assets"


@kept
def frozen(folder):
    """Make a frozen graph."""
    tf = tensorflow()
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="x")
        tf.nn.relu(tf.matmul(x, tf.constant(np.ones((3, 500), np.float32), name="weight")), name="y")
    path = folder / "frozen.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


@kept
def old_saver(folder):
    """Make a SavedModel as TensorFlow 1 did, its saver in the main graph."""
    tf = tensorflow()
    v1 = tf.compat.v1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [None, 3], name="x")
            weight = v1.Variable(np.ones((3, 2), np.float32), use_resource=False)
            y = tf.matmul(x, weight)
            session.run(v1.global_variables_initializer())
            builder = v1.saved_model.Builder(str(folder / "old"))
            info = {"x": v1.saved_model.build_tensor_info(x)}, {"y": v1.saved_model.build_tensor_info(y)}
            signature = v1.saved_model.build_signature_def(*info)
            builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
            builder.save()
    return folder / "old"


@kept
def checkpoint(folder):
    """Make a directory with two checkpoints."""
    tf = tensorflow()
    held = tf.train.Checkpoint(weight=tf.Variable(np.ones((3, 4), np.float32)), step=tf.Variable(1, dtype=tf.int64))
    manager = tf.train.CheckpointManager(held, str(folder / "run"), max_to_keep=2)
    manager.save()
    manager.save()
    return folder / "run"


def coremltools():
    """Return coremltools, silently."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import coremltools
            import coremltools.models.datatypes
            import coremltools.models.neural_network
    finally:
        logging.disable(level)
    return coremltools


def network(labels=False):
    """Return a Core ML neural network of two layers, as its builder."""
    ct = coremltools()
    array = ct.models.datatypes.Array
    builder = ct.models.neural_network.NeuralNetworkBuilder(
        [("x", array(8))],
        [("y", array(2))],
        mode="classifier" if labels else None,
        disable_rank5_shape_mapping=not labels,
    )
    weights = np.arange(1600, dtype=np.float32).reshape(200, 8)
    builder.add_inner_product("first", weights, np.ones(200, np.float32), 8, 200, True, "x", "h")
    builder.add_activation("relu", "RELU", "h", "r")
    builder.add_inner_product("second", np.ones((2, 200), np.float32), None, 200, 2, False, "r", "y")
    if labels:
        builder.set_class_labels(["cat", "dog"], predicted_feature_name="label", prediction_blob="y")
    builder.spec.description.metadata.author = "somebody"
    builder.spec.description.metadata.license = "MIT"
    builder.spec.description.metadata.userDefined["key"] = "value"
    return builder


@kept
def mlmodel(folder):
    """Make a Core ML network."""
    path = folder / "network.mlmodel"
    path.write_bytes(network().spec.SerializeToString())
    return path


@kept
def pipeline(folder):
    """Make a Core ML pipeline of a scaler and a network."""
    coremltools()
    from coremltools.proto import Model_pb2

    spec = Model_pb2.Model(specificationVersion=4)
    inner = network().spec
    spec.description.input.extend(inner.description.input)
    spec.description.output.extend(inner.description.output)
    scaler = spec.pipeline.models.add(specificationVersion=4)
    scaler.description.input.extend(inner.description.input)
    scaler.description.output.add(name="x").type.CopyFrom(inner.description.input[0].type)
    scaler.scaler.shiftValue.append(1)
    scaler.scaler.scaleValue.append(2)
    spec.pipeline.models.add().CopyFrom(inner)
    spec.pipeline.names.extend(["scale", "predict"])
    path = folder / "pipeline.mlmodel"
    path.write_bytes(spec.SerializeToString())
    return path


def silero(name):
    return copied(lambda: package("silero_vad", "data", name))


def basic_pitch(name):
    return copied(lambda: package(*BASIC_PITCH, *name.split("/")))


SAMPLES = {
    "onnx/inline": written(lambda: linear().SerializeToString()),
    "onnx/external": external,
    "onnx/quantised": written(lambda: quantised().SerializeToString()),
    "onnx/nested": written(lambda: nested().SerializeToString()),
    "onnx/functions": written(lambda: with_functions().SerializeToString()),
    "onnx/classifier": written(lambda: classifier().SerializeToString()),
    "onnx/reordered": written(lambda: reordered(linear())),
    "onnx/silero": silero("silero_vad.onnx"),
    "onnx/silero-half": silero("silero_vad_half.onnx"),
    "onnx/basic-pitch": basic_pitch("nmp.onnx"),
    "saved-model/basic-pitch": basic_pitch("nmp"),
    "saved-model/file": basic_pitch("nmp/saved_model.pb"),
    "saved-model/keras": keras,
    "saved-model/assets": with_assets,
    "saved-model/old": old_saver,
    "graph-def/frozen": frozen,
    "tf-checkpoint/variables": basic_pitch("nmp/variables"),
    "tf-checkpoint/run": checkpoint,
    "coreml/mlpackage": basic_pitch("nmp.mlpackage"),
    "coreml/program!": basic_pitch("nmp.mlpackage/Data/com.apple.CoreML/model.mlmodel"),
    "coreml/mlmodel": mlmodel,
    "coreml/pipeline": pipeline,
}
