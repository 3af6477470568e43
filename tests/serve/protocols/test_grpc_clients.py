"""Other people's clients, unmodified, each in a process of its own: KServe's and TensorFlow Serving's.

They register names in the pool of their process that ours and each other's would clash with, and are slow to import.
The model is a real one, behind the real engine.
"""

from __future__ import annotations

import asyncio
import queue
import threading

import numpy as np
import onnx
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_rig import SECONDS, serving
from onnx import TensorProto, helper
from own_process import run

import vitrify
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.models.engine import ServingEngine
from vitrify.serve.protocols import health_grpc, oip_grpc, tensorflow_grpc
from vitrify.serve.protocols._messages import pool
from vitrify.serve.settings import ModelSettings

pytestmark = pytest.mark.slow


def doubled():
    """Return a model: ``twice`` is two times ``x``, and ``same`` is ``n``."""
    nodes = [helper.make_node("Add", ["x", "x"], ["twice"]), helper.make_node("Identity", ["n"], ["same"])]
    inputs, outputs = (
        [
            helper.make_tensor_value_info(first, TensorProto.FLOAT, ["batch", 3]),
            helper.make_tensor_value_info(second, TensorProto.INT64, ["batch"]),
        ]
        for first, second in (("x", "n"), ("twice", "same"))
    )
    graph = helper.make_graph(nodes, "doubled", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    return model


EXAMPLE = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array([2**53 + 1, -1])}


@pytest.fixture
def address(home):
    vitrify.save(doubled(), "doubled:3", example=EXAMPLE)
    engine = ServingEngine(ThreadLane)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(engine.load(ModelSettings(reference="doubled:3")), loop).result(SECONDS)
    methods = (
        *oip_grpc.methods(engine, is_admin=lambda client: True),
        *tensorflow_grpc.methods(engine, is_admin=lambda client: True, labels=lambda model: {"stable": "3"}),
        *health_grpc.methods(engine, services=[oip_grpc.SERVICE]),
    )
    with serving(methods) as found:
        yield found
    asyncio.run_coroutine_threadsafe(engine.close(), loop).result(SECONDS)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(SECONDS)
    loop.close()


def test_tritons_client_streams_from_the_real_engine(address):
    import tritonclient.grpc as triton

    came = queue.Queue()
    with triton.InferenceServerClient(address) as client:
        inputs = [triton.InferInput("x", [2, 3], "FP32"), triton.InferInput("n", [2], "INT64")]
        for one, array in zip(inputs, EXAMPLE.values(), strict=True):
            one.set_data_from_numpy(array)
        client.start_stream(lambda result, error: came.put((result, error)))
        for index in range(50):
            client.async_stream_infer("doubled", inputs, request_id=str(index))
        client.stop_stream()
    said = [came.get(timeout=SECONDS) for _ in range(50)]
    assert [result.get_response().id for result, _ in said] == [str(index) for index in range(50)]
    assert all(result.as_numpy("twice").tolist() == (EXAMPLE["x"] * 2).tolist() for result, _ in said)
    assert all(result.get_response().parameters["triton_final_response"].bool_param for result, _ in said)


def test_kserves_client(address):
    said = run(
        """
        import asyncio, sys
        import numpy as np
        from kserve import InferInput, InferRequest, InferenceGRPCClient

        async def main():
            client = InferenceGRPCClient(sys.argv[1])
            assert await client.is_server_live() and await client.is_server_ready()
            assert await client.is_model_ready("doubled")
            x, n = InferInput("x", [2, 3], "FP32"), InferInput("n", [2], "INT64")
            x.set_data_from_numpy(np.array([[1, np.nan, 3], [4, np.inf, 6]], np.float32))
            n.set_data_from_numpy(np.array([2**53 + 1, -1]))
            for raw in (True, False):
                if not raw:
                    x._raw_data = n._raw_data = None
                    x._data, n._data = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2**53 + 1, -1]
                reply = await client.infer(InferRequest("doubled", [x, n], request_id="r"))
                found = {one.name: one.as_numpy() for one in reply.outputs}
                assert found["twice"][0].tolist()[0] == 2.0
                assert found["same"].tolist() == [2**53 + 1, -1]
                assert (reply.id, reply.model_name, reply.model_version) == ("r", "doubled", "3")
            await client.close()

        asyncio.run(main())
        print("done")
        """,
        address,
    )
    assert said.endswith("done\n")


def test_tensorflow_servings_stubs(address):
    said = run(
        """
        import sys
        import grpc
        import numpy as np
        import tensorflow as tf
        from tensorflow.core.protobuf import meta_graph_pb2
        from tensorflow_serving.apis import (
            classification_pb2, get_model_metadata_pb2, get_model_status_pb2, model_service_pb2_grpc, predict_pb2,
            prediction_service_pb2_grpc,
        )

        channel = grpc.insecure_channel(sys.argv[1])
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        x = np.array([[1, np.nan, 3], [4, np.inf, 6]], np.float32)
        n = np.array([2**53 + 1, -1])
        for spec in ({}, {"version_label": "stable"}):
            request = predict_pb2.PredictRequest()
            request.model_spec.name = "doubled"
            if spec:
                request.model_spec.version_label = "stable"
            request.inputs["x"].CopyFrom(tf.make_tensor_proto(x))
            request.inputs["n"].CopyFrom(tf.make_tensor_proto(n))
            reply = stub.Predict(request, timeout=60)
            assert np.array_equal(tf.make_ndarray(reply.outputs["twice"]), x + x, equal_nan=True)
            assert tf.make_ndarray(reply.outputs["same"]).tolist() == n.tolist()
            assert reply.outputs["same"].int64_val[0] == 2**53 + 1
            assert reply.model_spec.version.value == 3
        same = tf.make_tensor_proto(0.5, dtype=tf.float32, shape=[2, 3])
        request.inputs["x"].CopyFrom(same)
        assert tf.make_ndarray(stub.Predict(request, timeout=60).outputs["twice"]).tolist() == [[1.0] * 3] * 2

        request = classification_pb2.ClassificationRequest()
        request.model_spec.name = "doubled"
        example = request.input.example_list.examples.add()
        example.features.feature["x"].float_list.value.extend([1, 2, 3])
        example.features.feature["n"].int64_list.value.append(2**53 + 1)
        (row,) = stub.Classify(request, timeout=60).result.classifications
        assert [one.score for one in row.classes] == [2.0, 4.0, 6.0]

        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        request.model_spec.name = "doubled"
        found = get_model_metadata_pb2.SignatureDefMap()
        assert stub.GetModelMetadata(request, timeout=60).metadata["signature_def"].Unpack(found)
        signature = found.signature_def["serving_default"]
        assert signature.inputs["n"].dtype == tf.int64.as_datatype_enum

        models = model_service_pb2_grpc.ModelServiceStub(channel)
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "doubled"
        (status,) = models.GetModelStatus(request, timeout=60).model_version_status
        assert (status.version, status.state) == (3, 30)
        request.model_spec.name = "nope"
        try:
            models.GetModelStatus(request, timeout=60)
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.NOT_FOUND
        print("done")
        """,
        address,
    )
    assert said.endswith("done\n")


def test_our_messages_are_tensorflows_own(tmp_path):
    files = FileDescriptorSet()
    for name in ("tensorflow.proto", "tensorflow_serving.proto"):
        pool().FindFileByName(name).CopyToProto(files.file.add())
    ours = tmp_path / "ours.bin"
    ours.write_bytes(files.SerializeToString())
    said = run(
        """
        import sys
        from google.protobuf import descriptor_pb2, descriptor_pool
        import tensorflow_serving.apis.prediction_service_pb2, tensorflow_serving.apis.model_service_pb2
        import tensorflow_serving.apis.get_model_metadata_pb2

        theirs = descriptor_pool.Default()
        ours = descriptor_pb2.FileDescriptorSet.FromString(open(sys.argv[1], "rb").read())
        differ = {("tensorflow.serving.StatusProto", "error_code")}  # an enumeration there
        seen = 0

        def check(prefix, message):
            global seen
            name = f"{prefix}.{message.name}"
            if message.options.map_entry or message.name == "Absent":
                return
            other = theirs.FindMessageTypeByName(name)
            for field in message.field:
                one = other.fields_by_name[field.name]
                assert one.number == field.number, (name, field.name)
                assert one.is_repeated == (field.label == 3), (name, field.name)
                assert one.type == field.type or (name, field.name) in differ, (name, field.name)
                inner = one.message_type or one.enum_type
                if inner is not None and (name, field.name) not in differ:
                    assert field.type_name == "." + inner.full_name, (name, field.name)
                seen += 1
            for inner in message.nested_type:
                check(name, inner)
            for inner in message.enum_type:
                values(f"{name}.{inner.name}", inner)

        def values(name, enum):
            other = theirs.FindEnumTypeByName(name).values_by_name
            assert all(other[one.name].number == one.number for one in enum.value), name

        for file in ours.file:
            for message in file.message_type:
                check(file.package, message)
            for enum in file.enum_type:
                values(f"{file.package}.{enum.name}", enum)
            for service in file.service:
                if service.name == "SessionService":
                    continue
                other = theirs.FindServiceByName(f"{file.package}.{service.name}")
                assert [one.name for one in other.methods] == [one.name for one in service.method]
        assert seen >= 80, seen
        print("done")
        """,
        str(ours),
    )
    assert said.endswith("done\n")
