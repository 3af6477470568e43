"""Samples of graphs that are no Protocol Buffers: TFLite, ORT, StableHLO, jax.export, OpenVINO, compiled ones.

What a library writes is written once a session, in a process of its own, so that its warnings and threads stay there.
"""

from __future__ import annotations

import importlib.util
import io
import json
import struct
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import flatbuffers
import onnx
from onnx import parser

ONNX = """
<ir_version: 8, opset_import: ["" : 17], producer_name: "hand", metadata_props: ["author": "someone"]>
main (float[N,4] x, bool c) => (float[N,3] y, float[N,3] z) <float[4,3] W = {1,2,3,4,5,6,7,8,9,10,11,12}> {
    a = MatMul (x, W)
    y = Relu (a)
    z = If (c) <
        then_branch = t () => (float[N,3] p) { p = Neg (a) },
        else_branch = e () => (float[N,3] q) { q = Abs (a) }
    >
}
"""

TFLITE = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np, tensorflow as tf

class Both(tf.Module):
    def __init__(self):
        self.kernel = tf.Variable(np.random.default_rng(0).normal(size=(16, 8)).astype("float32"))

    @tf.function(input_signature=[tf.TensorSpec([None, 16], tf.float32)])
    def score(self, x):
        return {"score": tf.nn.softmax(tf.matmul(x, self.kernel))}

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def count(self, n):
        return {"total": tf.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t + i), (0, 0))[1]}

    @tf.function(input_signature=[tf.TensorSpec([3, 3], tf.float32)])
    def flex(self, x):
        return {"y": tf.linalg.inv(x)}

model = Both()
signatures = [model.score.get_concrete_function(), model.count.get_concrete_function()]
converter = tf.lite.TFLiteConverter.from_concrete_functions(signatures[:1], model)
converter.optimizations = [tf.lite.Optimize.DEFAULT]
converter.representative_dataset = lambda: ([np.ones((2, 16), "float32") * i] for i in range(4))
converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
open(sys.argv[1] + "/quantised", "wb").write(converter.convert())
tf.saved_model.save(model, sys.argv[1] + "/saved", signatures={"score": model.score, "count": model.count})
converter = tf.lite.TFLiteConverter.from_saved_model(sys.argv[1] + "/saved", signature_keys=["score", "count"])
open(sys.argv[1] + "/signatures", "wb").write(converter.convert())
converter = tf.lite.TFLiteConverter.from_concrete_functions([model.flex.get_concrete_function()], model)
converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
open(sys.argv[1] + "/flex", "wb").write(converter.convert())
"""

JAX = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax import export
from jax._src.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

def f(x, w):
    return jnp.tanh(x @ w), jax.lax.fori_loop(0, 3, lambda i, a: a + x.sum(), 0.0)

def call_back(x):
    return jax.pure_callback(lambda a: np.asarray(a), jax.ShapeDtypeStruct((4,), "float32"), x)

folder = sys.argv[1]
(b,) = export.symbolic_shape("b")
exported = export.export(jax.jit(f))(jax.ShapeDtypeStruct((b, 4), "float32"), jax.ShapeDtypeStruct((4, 3), "float32"))
open(folder + "/exported", "wb").write(exported.serialize())
plain = export.export(jax.jit(lambda x: {"a": [jnp.sin(x)], "b": x.sum()}))(jax.ShapeDtypeStruct((3,), "bfloat16"))
open(folder + "/structured", "wb").write(plain.serialize())
sine = export.export(jax.jit(lambda x: jnp.sin(x)))(jax.ShapeDtypeStruct((3,), "float32"))
open(folder + "/gradient", "wb").write(sine.serialize(vjp_order=2))
text = str(exported.mlir_module())
open(folder + "/text", "w").write(text)
version = stablehlo.get_current_version()
open(folder + "/bytecode", "wb").write(stablehlo.serialize_portable_artifact_str(text, version))
open(folder + "/old", "wb").write(stablehlo.serialize_portable_artifact_str(text, stablehlo.get_minimum_version()))
lowered = jax.jit(call_back).lower(jnp.ones(4)).as_text()
open(folder + "/callback", "w").write(lowered)
with mlir.make_ir_context():
    module = ir.Module.parse(text)
    open(folder + "/generic", "w").write(module.operation.get_asm(print_generic_op_form=True))
    for name, source in {"plain": text, "callback-bytecode": lowered}.items():
        with open(folder + "/" + name, "wb") as stream:
            ir.Module.parse(source).operation.write_bytecode(stream)
"""

OPENVINO = """
import sys, warnings
warnings.simplefilter("ignore")
import openvino
openvino.save_model(openvino.convert_model(sys.argv[1] + "/model.onnx"), sys.argv[1] + "/model.xml")
"""


def model():
    """Return an ONNX model with a branch."""
    return parser.parse_model(ONNX)


@cache
def written(script):
    """Return the files that a script writes into the folder that it is called with, by name."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model(), f"{folder}/model.onnx")
        done = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def basic_pitch():
    """Return the TFLite file of the package of that name."""
    (folder,) = importlib.util.find_spec("basic_pitch").submodule_search_locations
    return Path(folder, "saved_models", "icassp_2022", "nmp.tflite").read_bytes()


def with_files(name="labels.txt", content=b"cat\ndog\n"):
    """Return a TFLite file with a zip behind it, as the writers of TFLite's metadata append one."""
    held = io.BytesIO(basic_pitch())
    with zipfile.ZipFile(held, "a") as archive:
        archive.writestr(name, content)
    return held.getvalue()


@cache
def ort():
    """Return an ORT file, written by ONNX Runtime."""
    import tempfile

    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = f"{folder}/model.ort"
        options.add_session_config_entry("session.save_model_format", "ORT")
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        onnxruntime.InferenceSession(model().SerializeToString(), options, providers=["CPUExecutionProvider"])
        return Path(folder, "model.ort").read_bytes()


def plan(version=(10, 3, 0, 26)):
    """Return the header of a TensorRT engine as it is documented, and bytes that stand for the rest."""
    return struct.pack("<4sIIIQ4B", b"ftrt", 0, 239, 0, 4096, *version) + bytes(4096)


def wrapped_plan():
    """Return a plan behind the metadata that Ultralytics writes before it."""
    metadata = json.dumps({"task": "detect", "imgsz": [640, 640]}).encode()
    return len(metadata).to_bytes(4, "little") + metadata + plan()


def dlc():
    """Return a Qualcomm container: its members as they are known, and bytes that stand for the rest."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("model", b"\xd5\x0a\x04\0\0\0\0\0" + bytes(64))
        archive.writestr("model.params", b"\xd5\x0a\x04\0\0\0\0\0" + bytes(256))
        archive.writestr("dlc.metadata", "converter-command=snpe-onnx-to-dlc net.onnx\nconverter-version=2.20.0\n")
    return stream.getvalue()


def elf():
    """Return the header of a shared library for Linux on x86-64."""
    return struct.pack("<4s5B7xHHIQQQI6H", b"\x7fELF", 2, 1, 1, 0, 0, 3, 62, 1, 0, 64, 0, 0, 64, 56, 0, 64, 0, 0)


def program(operators=("aten::add.out",), delegates=("XnnpackBackend",)):
    """Return an ExecuTorch program with a method of these operators and delegates."""
    builder = flatbuffers.Builder(1024)

    def tables(listed):
        made = []
        for name in listed:
            text = builder.CreateString(name)
            builder.StartObject(3)
            builder.PrependUOffsetTRelativeSlot(0, text, 0)
            made.append(builder.EndObject())
        return vector(made)

    def vector(made):
        builder.StartVector(4, len(made), 4)
        for one in reversed(made):
            builder.PrependUOffsetTRelative(one)
        return builder.EndVector()

    name, kinds, parts = builder.CreateString("forward"), tables(operators), tables(delegates)
    builder.StartObject(9)
    for field, value in ((0, name), (6, kinds), (7, parts)):
        builder.PrependUOffsetTRelativeSlot(field, value, 0)
    plans = vector([builder.EndObject()])
    builder.StartObject(7)
    builder.PrependUOffsetTRelativeSlot(1, plans, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"ET12")
    return bytes(builder.Output())


def openvino(folder):
    """Write both files of an OpenVINO model."""
    files = written(OPENVINO)
    for name in ("model.xml", "model.bin"):
        (folder / name).write_bytes(files[name])
    return folder


def _file(name, make):
    def written_into(folder):
        path = folder / name
        path.write_bytes(make())
        return path

    return written_into


SAMPLES = {
    "tflite/basic-pitch": _file("model.tflite", basic_pitch),
    "tflite/quantised": _file("model.tflite", lambda: written(TFLITE)["quantised"]),
    "tflite/signatures": _file("model.tflite", lambda: written(TFLITE)["signatures"]),
    "tflite/flex": _file("model.tflite", lambda: written(TFLITE)["flex"]),
    "tflite/with-files": _file("model.tflite", with_files),
    "ort/branch": _file("model.ort", ort),
    "stablehlo/bytecode": _file("model.mlirbc", lambda: written(JAX)["bytecode"]),
    "stablehlo/old": _file("model.mlirbc", lambda: written(JAX)["old"]),
    "stablehlo/plain": _file("model.mlirbc", lambda: written(JAX)["plain"]),
    "stablehlo/text": _file("model.mlir", lambda: written(JAX)["text"]),
    "stablehlo/generic": _file("model.mlir", lambda: written(JAX)["generic"]),
    "jax-export/symbolic": _file("model.jax", lambda: written(JAX)["exported"]),
    "jax-export/structured": _file("model.jax", lambda: written(JAX)["structured"]),
    "jax-export/gradient": _file("model.jax", lambda: written(JAX)["gradient"]),
    "openvino/directory": openvino,
    "openvino/alone": _file("model.xml", lambda: written(OPENVINO)["model.xml"]),
    "tensorrt/plan!": _file("model.plan", plan),
    "tensorrt/wrapped!": _file("model.engine", wrapped_plan),
    "dlc/container!": _file("model.dlc", dlc),
    "executorch/program!": _file("model.pte", program),
    "native-library/elf!": _file("model.so", elf),
}
