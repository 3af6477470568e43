"""The Open Inference Protocol over gRPC, with tritonclient as the client."""

from __future__ import annotations

import asyncio
import hashlib
import math
import queue
import time

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from grpc_rig import DIGEST, SECONDS, LocalEngine, echo, same, serving
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from vitrify.core.signature import Field
from vitrify.serve.clients import Clients
from vitrify.serve.lanes import Batching, Figures, Histogram
from vitrify.serve.protocols import _oip_grpc_stream, oip_grpc
from vitrify.serve.settings import ClientSettings, ModelSettings

WIDE = Field(name="x", dtype="float64", shape=("batch", 3))
DATATYPES = {
    "bool": "BOOL",
    **{f"{sign}int{bits}": f"{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
}


@pytest.fixture(scope="module")
def shared_engine():
    engine = LocalEngine()
    echo(engine)
    scores = Field(name="scores", dtype="float32", shape=("batch", 3), classes=("cat", "dog", "cow"))
    engine.add("scored", (WIDE,), (WIDE, scores), lambda x: {"x": x["x"], "scores": x["x"].astype(np.float32)})
    for version, number in (("1", 1), ("2", 2)):
        engine.add("many", (WIDE,), (WIDE,), dict, version=version, number=number)
    engine.add("parts", (WIDE,), (WIDE,), dict, parts=3)
    engine.add("broken", (WIDE,), (WIDE,), lambda x: 1 / 0)
    engine.add("batched", (WIDE,), (WIDE,), dict, batching=Batching(rows=16, delay_us=500))
    engine.add("away", (WIDE,), (WIDE,), dict, state="UNAVAILABLE")
    text = Field(name="text", dtype="string", nullable=True)
    engine.add("text", (text,), (text,), dict)
    return engine


@pytest.fixture(scope="module")
def address(shared_engine):
    with serving(oip_grpc.methods(shared_engine, is_admin=lambda client: True)) as found:
        yield found


@pytest.fixture
def engine(shared_engine):
    shared_engine.asked.clear()
    shared_engine.ready = True
    return shared_engine


@pytest.fixture(scope="module")
def client(address):
    with triton.InferenceServerClient(address) as found:
        yield found


def tensor(array, datatype="FP64", name="x"):
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


ROW = np.array([[0.5, math.nan, -math.inf]])


@pytest.mark.parametrize("dtype", DATATYPES)
@settings(max_examples=15)
@given(data=st.data())
def test_every_number_comes_back_bit_for_bit(client, dtype, data):
    array = data.draw(arrays.arrays(dtype, arrays.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=4)))
    reply = client.infer(f"echo_{dtype}", [tensor(array, DATATYPES[dtype])])
    assert same(reply.as_numpy("x"), array)


@pytest.mark.parametrize(
    "values", [[b"", b"\x00\xff", "grün".encode(), b"x" * 1000], [b"a"] * 4], ids=["mixed", "plain"]
)
def test_bytes_come_back_as_they_are(client, values):
    array = np.array(values, dtype=object).reshape(2, 2)
    assert client.infer("echo_bytes", [tensor(array, "BYTES")]).as_numpy("x").tolist() == array.tolist()


def test_text_is_utf8_for_a_model_of_text(client, engine):
    array = np.array([["grün", "日本"]], dtype=object)
    reply = client.infer("echo_string", [tensor(array, "BYTES")])
    assert engine.asked[-1].inputs["x"].tolist() == [["grün", "日本"]]
    assert [one.decode() for one in reply.as_numpy("x").ravel()] == ["grün", "日本"]


def test_text_that_is_no_utf8_is_refused(client):
    with pytest.raises(InferenceServerException, match="UTF-8") as caught:
        client.infer("echo_string", [tensor(np.array([[b"\xff"]], dtype=object), "BYTES")])
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_bf16_is_float32_inside_and_comes_back(client, engine):
    bits = np.array([[0x3F80, 0x7FC0, 0xFF80, 0x0001]], np.uint16)
    request = service_pb2.ModelInferRequest(model_name="echo_bfloat16", raw_input_contents=[bits.tobytes()])
    request.inputs.add(name="x", datatype="BF16", shape=[1, 4])
    reply = client._client_stub.ModelInfer(request)
    assert engine.asked[-1].inputs["x"].dtype == np.float32
    assert reply.outputs[0].datatype == "BF16"
    assert np.frombuffer(reply.raw_output_contents[0], np.uint16).tolist() == bits[0].tolist()


def test_large_integers_are_exact(client):
    array = np.array([[2**53 + 1, -(2**63), 2**63 - 1]])
    assert client.infer("echo_int64", [tensor(array, "INT64")]).as_numpy("x").tolist() == array.tolist()


TYPED = {
    "BOOL": ("bool_contents", [True, False]),
    "INT8": ("int_contents", [-128, 127]),
    "INT16": ("int_contents", [-(2**15), 2**15 - 1]),
    "INT32": ("int_contents", [-(2**31), 2**31 - 1]),
    "INT64": ("int64_contents", [-(2**63), 2**53 + 1]),
    "UINT8": ("uint_contents", [0, 255]),
    "UINT16": ("uint_contents", [0, 2**16 - 1]),
    "UINT32": ("uint_contents", [0, 2**32 - 1]),
    "UINT64": ("uint64_contents", [0, 2**64 - 1]),
    "FP32": ("fp32_contents", [0.5, math.inf]),
    "FP64": ("fp64_contents", [0.1, -0.0]),
    "BYTES": ("bytes_contents", [b"", b"\xff"]),
}
NAMES = {**{datatype: dtype for dtype, datatype in DATATYPES.items()}, "BYTES": "bytes"}


@pytest.mark.parametrize("datatype", TYPED)
def test_typed_contents_are_the_same_as_raw_ones(client, engine, datatype):
    field, values = TYPED[datatype]
    request = service_pb2.ModelInferRequest(model_name=f"echo_{NAMES[datatype]}")
    one = request.inputs.add(name="x", datatype=datatype, shape=[1, 2])
    getattr(one.contents, field).extend(values)
    client._client_stub.ModelInfer(request)
    assert engine.asked[-1].inputs["x"].tolist() == [values]


@pytest.mark.parametrize("raw", [True, False])
def test_a_large_tensor_is_read_and_written_beside_the_event_loop(client, raw):
    array = np.arange(120_000, dtype=np.float64).reshape(40_000, 3)
    request = service_pb2.ModelInferRequest(model_name="scored")
    one = request.inputs.add(name="x", datatype="FP64", shape=array.shape)
    if raw:
        request.raw_input_contents.append(array.tobytes())
    else:
        one.contents.fp64_contents.extend(array.ravel().tolist())
    reply = client._client_stub.ModelInfer(request)
    assert reply.raw_output_contents[0] == array.tobytes()


def test_the_answer_names_who_made_it(client):
    reply = client.infer("many", [tensor(ROW)], model_version="1", request_id="mine").get_response()
    assert (reply.model_name, reply.model_version, reply.id) == ("many", "1", "mine")
    assert reply.parameters["digest"].string_param == DIGEST


def test_outputs_come_in_the_order_that_was_asked_for(client):
    wanted = [triton.InferRequestedOutput("scores"), triton.InferRequestedOutput("x")]
    reply = client.infer("scored", [tensor(ROW)], outputs=wanted).get_response()
    assert [one.name for one in reply.outputs] == ["scores", "x"]


def test_classification_gives_the_best_labels(client):
    wanted = [triton.InferRequestedOutput("scores", class_count=2)]
    reply = client.infer("scored", [tensor(np.array([[0.25, 0.5, 0.125], [3, math.nan, 1]]))], outputs=wanted)
    assert reply.as_numpy("scores").tolist() == [[b"0.5:1:dog", b"0.25:0:cat"], [b"3.0:0:cat", b"1.0:2:cow"]]


def test_parameters_reach_the_engine(client, engine):
    before = time.monotonic()
    client.infer(
        "scored",
        [tensor(ROW)],
        priority=2,
        timeout=10**9,
        sequence_id=7,
        sequence_start=True,
        parameters={"who": "me"},
        headers={"x-vitrify-key": "k"},
    )
    asked = engine.asked[-1]
    assert (asked.priority, asked.key, asked.parameters["who"], asked.parameters["sequence_id"]) == (2, "k", "me", 7)
    assert before + 999 < asked.deadline < before + 1000 + SECONDS


def test_the_calls_own_deadline_counts_too(client, engine):
    client.infer("scored", [tensor(ROW)], client_timeout=50)
    assert time.monotonic() < engine.asked[-1].deadline < time.monotonic() + 51


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({"model_name": "nope"}, "NOT_FOUND"),
        ({"model_name": "many", "model_version": "3"}, "NOT_FOUND"),
        ({"model_name": "scored", "outputs": [triton.InferRequestedOutput("nope")]}, "INVALID_ARGUMENT"),
        ({"model_name": "broken"}, "INTERNAL"),
    ],
)
def test_errors_have_their_status(client, arguments, status):
    with pytest.raises(InferenceServerException) as caught:
        client.infer(inputs=[tensor(ROW)], **arguments)
    assert caught.value.status() == f"StatusCode.{status}"
    assert "Traceback" not in str(caught.value)
    assert "division" not in str(caught.value)


def test_health_and_metadata(client, engine):
    assert client.is_server_live()
    assert client.is_server_ready()
    engine.ready = False
    assert not client.is_server_ready()
    assert [client.is_model_ready(name) for name in ("many", "away", "nope")] == [True, False, False]
    assert client.get_server_metadata().name == "vitrify"
    found = client.get_model_metadata("many")
    assert (list(found.versions), found.platform) == (["1", "2"], "onnx_onnxruntime")
    assert [(one.name, one.datatype, list(one.shape)) for one in found.inputs] == [("x", "FP64", [-1, 3])]


def test_the_configuration_says_how_requests_become_batches(client):
    config = client.get_model_config("batched").config
    assert config.max_batch_size == 16
    assert list(config.input[0].dims) == [3]
    assert config.dynamic_batching.max_queue_delay_microseconds == 500
    single = client.get_model_config("scored").config
    assert (single.max_batch_size, list(single.input[0].dims)) == (0, [-1, 3])
    assert single.input[0].data_type == 12


def test_statistics_are_the_lanes_figures(client, engine):
    engine.figured = Figures(
        ok=3,
        failed={"BusyError": 2},
        batches=2,
        rows=7,
        answered=Histogram([3], 0.5),
        queued=Histogram([3], 0.25),
        computed=Histogram([2], 0.125),
        last=12.5,
    )
    (found,) = client.get_inference_statistics("scored").model_stats
    stats = found.inference_stats
    assert (found.inference_count, found.execution_count, found.last_inference) == (7, 2, 12500)
    assert (stats.success.count, stats.success.ns, stats.fail.count) == (3, 500_000_000, 2)
    assert (stats.queue.ns, stats.compute_infer.count) == (250_000_000, 2)
    assert len(client.get_inference_statistics("many").model_stats) == 2
    assert len(client.get_inference_statistics().model_stats) == len(engine.index()) - 1
    with pytest.raises(InferenceServerException, match="nope"):
        client.get_inference_statistics("nope")


def test_the_repository_is_listed_loaded_and_unloaded():
    engine = LocalEngine()
    engine.add("one", (WIDE,), (WIDE,), dict)
    engine.known = (ModelSettings(reference="one:1", name="one"),)
    allowed = Clients()
    with (
        serving(oip_grpc.methods(engine, is_admin=lambda client: True), clients=allowed) as address,
        triton.InferenceServerClient(address) as client,
    ):
        client.unload_model("one")
        (found,) = client.get_model_repository_index().models
        assert (found.name, found.state, found.reason) == ("one", "UNAVAILABLE", "unloaded")
        client.load_model("one")
        assert engine.loaded[-1] == engine.known[0]
        client.load_model("one", config='{"reference": "one@production", "batching": {"rows": 8}}')
        assert engine.loaded[-1].reference == "one@production"
        assert engine.loaded[-1].batching.rows == 8
        kserves = service_pb2.RepositoryModelLoadRequest(repository_name="one")
        client._client_stub.RepositoryModelLoad(kserves)
        assert engine.loaded[-1] == engine.known[0]
        with pytest.raises(InferenceServerException, match="expected the name of a model"):
            client.load_model("")
        with pytest.raises(InferenceServerException, match="UNIMPLEMENTED"):
            client.load_model("one", config="{}", files={"file:1/model.onnx": b"x"})
        with pytest.raises(InferenceServerException, match="INVALID_ARGUMENT"):
            client.load_model("one", config="{")
        with pytest.raises(InferenceServerException, match="NOT_FOUND"):
            client.unload_model("nope")


def test_only_an_admin_loads():
    engine = LocalEngine()
    engine.add("one", (WIDE,), (WIDE,), dict)
    clients = Clients((ClientSettings(name="me", token_sha256="0" * 64),))
    with (
        serving(oip_grpc.methods(engine, is_admin=lambda client: False)) as address,
        triton.InferenceServerClient(address) as client,
    ):
        with pytest.raises(InferenceServerException, match="PERMISSION_DENIED"):
            client.load_model("one")
        with pytest.raises(InferenceServerException, match="PERMISSION_DENIED"):
            client.unload_model("one")
    assert not engine.loaded
    with (
        serving(oip_grpc.methods(engine, is_admin=lambda client: True), clients=clients) as address,
        triton.InferenceServerClient(address) as client,
    ):
        assert client.is_server_live()
        with pytest.raises(InferenceServerException, match="UNAUTHENTICATED"):
            client.get_server_metadata()


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.get_system_shared_memory_status(),
        lambda client: client.register_system_shared_memory("a", "/b", 8),
        lambda client: client.unregister_cuda_shared_memory(),
        lambda client: client.get_trace_settings(),
        lambda client: client.update_log_settings({"log_info": True}),
    ],
)
def test_what_is_not_offered_says_so(client, ask):
    with pytest.raises(InferenceServerException, match="this server has no"):
        ask(client)


def test_shared_memory_in_a_request_is_not_offered(client):
    shared = triton.InferInput("x", [1, 3], "FP64")
    shared.set_shared_memory("region", 24)
    with pytest.raises(InferenceServerException, match=r"inputs\[0\] 'x'.*shared memory"):
        client.infer("scored", [shared])


def streamed(client, *requests, **how):
    """Return what a stream says to requests, in order."""
    came = queue.Queue()
    client.start_stream(lambda result, error: came.put((result, error)), **how)
    for arguments in requests:
        client.async_stream_infer(inputs=[tensor(ROW)], **arguments)
    client.stop_stream()
    return [came.get(timeout=SECONDS) for _ in range(came.qsize())]


def final(result):
    return result.get_response().parameters["triton_final_response"].bool_param


def test_a_stream_answers_in_order_and_outlives_errors(client):
    said = streamed(
        client,
        {"model_name": "scored", "request_id": "a"},
        {"model_name": "nope", "request_id": "b"},
        {"model_name": "scored", "request_id": "c"},
    )
    assert [result.get_response().id if result else None for result, _ in said] == ["a", None, "c"]
    assert "nope" in str(said[1][1])
    assert final(said[0][0])


def test_each_message_of_a_stream_counts_and_one_too_many_fails_alone():
    engine = LocalEngine()
    engine.add("one", (WIDE,), (WIDE,), dict)
    token = hashlib.sha256(b"secret").hexdigest()
    clients = Clients((ClientSettings(name="me", token_sha256=token, rate=1e-6, burst=2),))
    methods = oip_grpc.methods(engine, is_admin=clients.is_admin, charge=clients.charge)
    with serving(methods, clients=clients) as address, triton.InferenceServerClient(address) as client:
        asked = [{"model_name": "one", "request_id": str(number)} for number in range(5)]
        said = streamed(client, *asked, headers={"authorization": "Bearer secret"})
    assert [result.get_response().id for result, error in said if error is None] == ["0", "1"]
    refused = [str(error) for _, error in said[2:]]
    assert ["asks more than 1e-06 times a second" in one for one in refused] == [True] * 3


@pytest.mark.parametrize("empty", [False, True])
def test_the_parts_of_an_answer_come_one_by_one(client, empty):
    said = streamed(client, {"model_name": "parts", "enable_empty_final_response": empty})
    assert [final(result) for result, _ in said] == [False, False, True]
    assert [result.get_response().parameters["part"].int64_param for result, _ in said] == [0, 1, 2]


def test_a_fault_of_ours_ends_the_stream_without_telling_it(client):
    ((result, error),) = streamed(client, {"model_name": "broken"})
    assert result is None
    assert "internal error" in str(error)
    assert "division" not in str(error)


def test_many_more_requests_than_are_worked_on_at_a_time(client):
    said = streamed(client, *({"model_name": "scored", "request_id": str(index)} for index in range(300)))
    assert [result.get_response().id for result, _ in said] == [str(index) for index in range(300)]


def test_requests_of_one_stream_wait_for_room(client, engine, monkeypatch):
    monkeypatch.setattr(_oip_grpc_stream, "BYTES_AHEAD", 1)
    said = streamed(client, *({"model_name": "parts", "request_id": str(index)} for index in range(20)))
    assert [result.get_response().id for result, _ in said] == [str(index) for index in range(20) for _ in range(3)]


def test_the_client_of_asyncio(address):
    async def ask():
        async with triton_aio.InferenceServerClient(address) as client:
            replies = await asyncio.gather(*(client.infer("scored", [tensor(ROW)]) for _ in range(20)))
            return [reply.as_numpy("x") for reply in replies]

    assert all(same(found, ROW) for found in asyncio.run(ask()))


def test_a_compressed_request_is_taken(client):
    assert same(client.infer("scored", [tensor(ROW)], compression_algorithm="gzip").as_numpy("x"), ROW)


def test_a_method_that_nobody_knows(address):
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/Nope")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=SECONDS)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
