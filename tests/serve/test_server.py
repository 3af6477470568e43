"""The whole server, on either plane: other people's clients, and the cases that other servers got wrong."""

from __future__ import annotations

import asyncio
import http.client
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from whole_server import EXACT, PLANES, ROWS, models, whole

from vitrify.serve.lanes import Batching
from vitrify.serve.settings import ModelSettings
from vitrify.stores.oci_layout import OciLayout


@pytest.fixture(scope="module", params=PLANES)
def running(request, tmp_path_factory):
    store = OciLayout(tmp_path_factory.mktemp("store"))
    names = models(store)
    wanted = [ModelSettings(reference=name, batching=Batching(rows=32, delay_us=2000)) for name in names]
    with whole(request.param, store, wanted) as running:
        assert running.plane == request.param
        yield running


def post(address, path, body, headers=None):
    """Return status, headers and body; a dict is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("POST", path, data, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def tensor(module, name, array, kind):
    one = module.InferInput(name, list(array.shape), kind)
    one.set_data_from_numpy(array)
    return one


@pytest.fixture(params=["http", "grpc"])
def client(running, request):
    module = {"http": triton_http, "grpc": triton_grpc}[request.param]
    address = running.http if request.param == "http" else running.grpc
    client = module.InferenceServerClient(address, **({"concurrency": 8} if module is triton_http else {}))
    yield module, client
    client.close()


def test_tritonclient_asks_what_it_can_ask(client):
    module, asked = client
    assert asked.is_server_live()
    assert asked.is_server_ready()
    assert asked.is_model_ready("times")
    assert not asked.is_model_ready("nobody")
    metadata = asked.get_model_metadata("times")
    inputs = metadata["inputs"] if isinstance(metadata, dict) else metadata.inputs
    assert len(inputs) == 1
    index = asked.get_model_repository_index()
    assert len(index if isinstance(index, list) else index.models) == 4
    answer = asked.infer("times", [tensor(module, "X", ROWS, "FP32")], request_id="mine")
    assert np.array_equal(answer.as_numpy("Y"), ROWS * 2)
    assert np.array_equal(answer.as_numpy("L"), ROWS.argmax(1))
    said = answer.get_response()
    assert (said["id"] if module is triton_http else said.id) == "mine"


def test_the_answer_names_who_made_it(running):
    body = {"inputs": [{"name": "X", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
    _, headers, said = post(running.http, "/v2/models/times/infer", body)
    answer = json.loads(said)
    assert (answer["model_name"], answer["model_version"]) == ("times", "1")
    assert answer["parameters"]["digest"].startswith("sha256:")
    assert headers["x-request-id"]


@pytest.mark.parametrize("binary", [True, False])
def test_nan_and_infinities_travel_over_rest(running, binary):
    """F30a."""
    values = np.array([1.0, 0.0, -1.0, np.nan, np.inf], np.float32)
    with triton_http.InferenceServerClient(running.http) as asked:
        one = triton_http.InferInput("x", [5], "FP32")
        one.set_data_from_numpy(values, binary_data=True)
        wanted = [triton_http.InferRequestedOutput(name, binary_data=binary) for name in ("log", "inverse")]
        answer = asked.infer("odd", [one], outputs=wanted)
    with np.errstate(all="ignore"):
        assert np.array_equal(answer.as_numpy("log"), np.log(values), equal_nan=True)
        assert np.array_equal(answer.as_numpy("inverse"), np.float32(1) / values, equal_nan=True)


def test_the_json_of_nan_is_json(running):
    """F30a."""
    body = b'{"inputs": [{"name": "x", "shape": [3], "datatype": "FP32", "data": ["NaN", "Infinity", -1]}]}'
    _, _, said = post(running.http, "/v2/models/odd/infer", body)

    def refuse(constant):
        raise AssertionError(constant)

    outputs = {one["name"]: one["data"] for one in json.loads(said, parse_constant=refuse)["outputs"]}
    assert outputs["log"] == ["NaN", "Infinity", "NaN"]


def test_nan_and_infinities_travel_over_grpc(running):
    """F30a."""
    values = np.array([0.0, -1.0, np.nan, -np.inf], np.float32)
    with triton_grpc.InferenceServerClient(running.grpc) as asked:
        answer = asked.infer("odd", [tensor(triton_grpc, "x", values, "FP32")])
    with np.errstate(all="ignore"):
        assert np.array_equal(answer.as_numpy("log"), np.log(values), equal_nan=True)


def test_64_bit_integers_are_exact(client, running):
    """F30b."""
    module, asked = client
    values = np.array([[EXACT, -EXACT], [2**63 - 1, -(2**63)]], np.int64)
    assert np.array_equal(asked.infer("exact", [tensor(module, "x", values, "INT64")]).as_numpy("y"), values)
    body = {"inputs": [{"name": "x", "shape": [2, 2], "datatype": "INT64", "data": values.tolist()}]}
    _, _, said = post(running.http, "/v2/models/exact/infer", body)
    assert json.loads(said)["outputs"][0]["data"] == values.ravel().tolist()
    _, _, said = post(running.http, "/v1/models/exact:predict", {"inputs": values.tolist()})
    assert json.loads(said)["outputs"] == values.tolist()


def test_each_gets_the_outputs_that_it_asked_for(client):
    """F30c."""
    module, asked = client
    wanted = [("Y",), ("L",), ("L", "Y"), ("Y", "L")]

    def ask(at):
        names = wanted[at % 4]
        rows = ROWS[: 1 + at % 3] + np.float32(at)
        outputs = [module.InferRequestedOutput(name) for name in names]
        answer = asked.infer("times", [tensor(module, "X", rows, "FP32")], outputs=outputs)
        for name in ("Y", "L"):
            got = answer.as_numpy(name)
            assert (got is not None) == (name in names), (names, name)
        if "Y" in names:
            assert np.array_equal(answer.as_numpy("Y"), rows * 2)
        if "L" in names:
            assert np.array_equal(answer.as_numpy("L"), rows.argmax(1))

    if module is triton_http:  # its client belongs to one thread
        for at in range(40):
            ask(at)
        return
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(80)))


@pytest.mark.parametrize("rows", [0, 1, 31, 32, 33, 64, 100])
def test_a_request_of_any_size_is_answered_whole(client, rows):
    """F30d."""
    module, asked = client
    values = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
    answer = asked.infer("times", [tensor(module, "X", values, "FP32")])
    assert np.array_equal(answer.as_numpy("Y"), values * 2)


def test_text_travels(client):
    module, asked = client
    values = np.array([[b"a", "ä€😀".encode()], [b"", b'"\\\n']], dtype=object)
    assert np.array_equal(asked.infer("text", [tensor(module, "x", values, "BYTES")]).as_numpy("y"), values)


def test_asyncio_clients_ask_many_at_a_time(running):
    async def run():
        async with (
            triton_http_aio.InferenceServerClient(running.http) as rest,
            triton_grpc_aio.InferenceServerClient(running.grpc) as grpc,
        ):
            inputs = [
                (asked, tensor(module, "X", ROWS + np.float32(at), "FP32"), at)
                for at in range(20)
                for module, asked in ((triton_http, rest), (triton_grpc, grpc))
            ]
            answers = await asyncio.gather(*(asked.infer("times", [one]) for asked, one, _ in inputs))
            for (_, _, at), answer in zip(inputs, answers, strict=True):
                assert np.array_equal(answer.as_numpy("Y"), (ROWS + np.float32(at)) * 2)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"datatype": "FP64"}, None),
        ({"datatype": "BYTES", "data": ["a"] * 4}, "X"),
        ({"shape": [1, 5], "data": [1] * 5}, "X"),
        ({"shape": [4]}, "X"),
        ({"shape": [2, 4]}, "inputs[0]"),
        ({"shape": [-1, 4]}, "inputs[0]"),
        ({"shape": [2**62, 4]}, "inputs[0]"),
        ({"data": [1, 2, 3, "x"]}, "data[3]"),
        ({"data": [1, 2, 3, None]}, "inputs[0]"),
        ({"name": "Z"}, "Z"),
    ],
)
def test_what_does_not_fit_is_named(running, change, field):
    one = {"name": "X", "shape": [1, 4], "datatype": "FP32", "data": [1.0, 2.0, 3.0, 4.0], **change}
    status, _, said = post(running.http, "/v2/models/times/infer", {"inputs": [one]})
    if field is None:  # doubles that are floats lose nothing
        assert status == 200
        return
    assert status == 400
    assert field in json.loads(said)["error"]


def test_a_deadline_that_has_passed_is_said(running):
    body = {"inputs": [{"name": "X", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
    status, _, said = post(running.http, "/v2/models/times/infer", body, {"X-Request-Timeout-Ms": "0"})
    assert status == 504
    assert "deadline" in json.loads(said)["error"]


def test_many_languages_share_one_queue(running):
    asked = [
        ("/v1/models/times:predict", {"inputs": ROWS.tolist()}, "outputs"),
        ("/v1/models/times:predict", {"instances": ROWS.tolist()}, "predictions"),
        ("/invocations?model=times", {"inputs": {"X": ROWS.tolist()}}, "predictions"),
    ]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda one: (post(running.http, *one[:2]), one[2]), asked * 4))
    for (status, _, said), key in answers:
        assert status == 200, said
        assert key in json.loads(said)
