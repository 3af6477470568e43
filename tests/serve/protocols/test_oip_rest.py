"""The Open Inference Protocol over REST: the clients that exist, unmodified, against a real server."""

from __future__ import annotations

import asyncio
import gzip
import json

import numpy as np
import pytest
from own_process import run
from rest_serving import KINDS, triton_client

pytest.importorskip("tritonclient.http")
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException

EDGES = {
    "BOOL": [[True, False], [False, True]],
    "FP16": [[np.nan, np.inf], [-np.inf, 65504.0]],
    "FP32": [[np.nan, np.inf], [-np.inf, 1.1754944e-38]],
    "FP64": [[np.nan, np.inf], [-np.inf, 5e-324]],
    "BYTES": [["", "日本"], ['"\\\n\x00', "e\u0301"]],
}


def edges(kind):
    """Return what a datatype holds at its ends."""
    if kind == "BYTES":
        return np.array(EDGES[kind], object)
    dtype = triton.InferInput("x", [1], kind)._datatype.lower().replace("fp", "float")
    if kind in EDGES:
        return np.array(EDGES[kind], dtype)
    limits = np.iinfo(dtype)
    return np.array([[limits.min, limits.max], [0, min(2**53 + 1, int(limits.max))]], dtype)


def inputs_of(arrays, *, binary):
    inputs = []
    for name, array in arrays.items():
        one = triton.InferInput(name, list(array.shape), name.removeprefix("in_"))
        one.set_data_from_numpy(array, binary_data=binary)
        inputs.append(one)
    return inputs


def same(found, array):
    if array.dtype == object:
        texts = [value.decode() if isinstance(value, bytes) else value for value in found.ravel()]
        return texts == array.ravel().tolist()
    return found.dtype == array.dtype and np.array_equal(found, array, equal_nan=array.dtype.kind == "f")


@pytest.fixture
def client(rest):
    return triton_client(rest)


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_triton_gets_back_what_it_gives_in_every_datatype(client, binary_in, binary_out):
    arrays = {f"in_{kind}": edges(kind) for kind in KINDS}
    outputs = [triton.InferRequestedOutput(f"out_{kind}", binary_data=binary_out) for kind in KINDS]
    result = client.infer("everything", inputs_of(arrays, binary=binary_in), outputs=outputs, request_id="r-1")
    response = result.get_response()
    assert (response["model_name"], response["model_version"], response["id"]) == ("everything", "1", "r-1")
    assert response["parameters"]["digest"].startswith("sha256:")
    for kind in KINDS:
        assert same(result.as_numpy(f"out_{kind}"), arrays[f"in_{kind}"]), kind


def test_triton_asks_for_everything_in_binary_when_it_asks_for_nothing(client):
    given = np.array([[1, 2, 3]], np.float32)
    result = client.infer("doubled", [_x(given)])
    assert result.get_response()["outputs"][0]["parameters"]["binary_data_size"] == 12
    assert result.as_numpy("y").tolist() == [[2, 4, 6]]


def _x(array, make=triton):
    one = make.InferInput("x", list(array.shape), "FP32")
    one.set_data_from_numpy(array)
    return one


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_triton_compresses(client, algorithm):
    given = np.ones((4, 3), np.float32)
    result = client.infer("doubled", [_x(given)], request_compression_algorithm=algorithm)
    assert result.as_numpy("y").tolist() == (2 * given).tolist()


def test_triton_asks_about_the_server_and_its_models(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("doubled")
    assert client.is_model_ready("doubled", "1")
    assert client.get_server_metadata()["name"] == "vitrify"
    metadata = client.get_model_metadata("doubled")
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}]
    assert metadata["versions"] == ["1"]
    config = client.get_model_config("doubled", "1")
    assert config["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [3]}]
    assert {one["name"] for one in client.get_model_repository_index()} >= {"doubled", "everything", "passengers"}


def test_triton_counts_what_was_done(client):
    before = client.get_inference_statistics("doubled")["model_stats"][0]
    client.infer("doubled", [_x(np.ones((2, 3), np.float32))])
    after = client.get_inference_statistics("doubled", "1")["model_stats"][0]
    assert after["inference_count"] == before["inference_count"] + 2
    assert after["inference_stats"]["success"]["count"] == before["inference_stats"]["success"]["count"] + 1
    assert after["last_inference"] > 0
    assert {one["name"] for one in client.get_inference_statistics()["model_stats"]} >= {"doubled", "passengers"}


def test_triton_gets_the_best_classes_with_their_labels(client):
    columns = {"age": ("FP64", [22.0, 38.0]), "ticket": ("INT64", [2**60 + 1, 1]), "class": ("BYTES", ["first", "x"])}
    inputs = []
    for name, (kind, values) in columns.items():
        dtype = object if kind == "BYTES" else kind.lower().replace("fp", "float")
        one = triton.InferInput(name, [2], kind)
        one.set_data_from_numpy(np.array(values, dtype))
        inputs.append(one)
    wanted = [triton.InferRequestedOutput("probability", class_count=2)]
    found = client.infer("passengers", inputs, outputs=wanted).as_numpy("probability")
    assert found.shape == (2, 2)
    values = [[one.decode().split(":") for one in row] for row in found]
    assert {label for row in values for _, _, label in row} == {"lost", "saved"}
    assert all(float(row[0][0]) >= float(row[1][0]) for row in values)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda client: client.infer("nope", [_x(np.ones((1, 3), np.float32))]), "no model is called 'nope'"),
        (lambda client: client.infer("doubled", [_x(np.ones((1, 4), np.float32))]), "axis 1 must be 3, not 4"),
        (lambda client: client.get_model_metadata("nope"), "no model is called 'nope'"),
        (lambda client: client.get_model_metadata("doubled", "7"), "7"),
        (lambda client: client.get_trace_settings(), "does not offer"),
        (lambda client: client.get_log_settings(), "does not offer"),
        (lambda client: client.get_system_shared_memory_status(), "does not offer"),
        (lambda client: client.register_system_shared_memory("a", "b", 1), "does not offer"),
        (lambda client: client.get_cuda_shared_memory_status(), "does not offer"),
    ],
)
def test_triton_is_told_what_is_wrong(client, what, message):
    with pytest.raises(InferenceServerException, match=message):
        what(client)


def test_triton_asks_from_an_event_loop(rest):
    async def ask():
        async with triton_aio.InferenceServerClient(f"127.0.0.1:{rest.port}") as client:
            assert await client.is_server_live()
            given = [np.full((1, 3), index, np.float32) for index in range(20)]
            results = await asyncio.gather(*(client.infer("doubled", [_x(one, triton_aio)]) for one in given))
            return [result.as_numpy("y").tolist() for result in results]

    assert asyncio.run(ask()) == [[[2.0 * index] * 3] for index in range(20)]


def test_kserves_client_speaks_both_of_its_protocols(rest):
    said = run(
        """
        import asyncio, sys
        import numpy as np
        from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig

        url, given = sys.argv[1], np.array([[1, 2, 3], [4, 5, 6.5]], np.float32)

        async def main():
            async with InferenceRESTClient(RESTConfig(protocol="v2", timeout=60)) as client:
                assert await client.is_server_ready(url) and await client.is_server_live(url)
                assert await client.is_model_ready(url, "doubled")
                for binary in (True, False):
                    tensor = InferInput("x", list(given.shape), "FP32")
                    tensor.set_data_from_numpy(given, binary_data=binary)
                    response = await client.infer(url, InferRequest("doubled", [tensor]), model_name="doubled")
                    assert response.outputs[0].as_numpy().tolist() == (2 * given).tolist()
                    assert response.parameters["digest"].startswith("sha256:")
            async with InferenceRESTClient(RESTConfig(protocol="v1", timeout=60)) as client:
                assert await client.is_model_ready(url, "doubled")
                found = await client.infer(url, {"instances": [[1, 2, 3]]}, model_name="doubled")
                assert found == {"predictions": [[2.0, 4.0, 6.0]]}

        asyncio.run(main())
        print("done")
        """,
        rest.url,
    )
    assert said.endswith("done\n")


def test_json_is_valid_json_whatever_the_numbers_are(rest):
    body = {"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": ["NaN", "Infinity", 1e-45]}]}
    answer = rest.client.post("/v2/models/doubled/infer", json=body)
    assert json.loads(answer.text, parse_constant=pytest.fail)["outputs"][0]["data"] == ["NaN", "Infinity", 3e-45]


def test_a_raw_request_is_the_tensor_itself(rest):
    given = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    answer = rest.client.post(
        "/v2/models/doubled/infer", content=given.tobytes(), headers={"inference-header-content-length": "0"}
    )
    length = int(answer.headers["inference-header-content-length"])
    assert answer.headers["content-type"] == "application/octet-stream"
    assert json.loads(answer.content[:length])["outputs"][0]["shape"] == [2, 3]
    assert np.frombuffer(answer.content[length:], "<f4").tolist() == (2 * given).ravel().tolist()


@pytest.mark.parametrize(("size", "message"), [(13, "13 bytes"), (16, "16 bytes")])
def test_a_raw_request_of_the_wrong_size_is_refused(rest, size, message):
    answer = rest.call("POST", "/v2/models/doubled/infer", b"\0" * size, {"inference-header-content-length": "0"})
    assert answer.status == 400
    assert message in json.loads(answer.body)["error"]


def test_missing_values_reach_the_model_and_come_back(rest):
    tensors = [
        {"name": "age", "shape": [2], "datatype": "FP64", "data": [None, "NaN"]},
        {"name": "ticket", "shape": [2], "datatype": "INT64", "data": [2**60 + 1, None]},
        {"name": "class", "shape": [2], "datatype": "BYTES", "data": [None, "first"]},
    ]
    status, body = rest.post("/v2/models/passengers/infer", {"inputs": tensors, "outputs": [{"name": "label"}]})
    assert status == 200, body
    assert set(body["outputs"][0]["data"]) <= {"lost", "saved"}


def test_an_expired_request_is_not_run(rest):
    tensor = {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}
    answer = rest.call("POST", "/v2/models/doubled/infer", json.dumps({"inputs": [tensor]}).encode(), deadline=0.0)
    assert answer.status == 504


def test_a_body_that_is_compressed_wrongly_is_refused(rest):
    answer = rest.client.post(
        "/v2/models/doubled/infer", content=gzip.compress(b"{}")[:-3], headers={"content-encoding": "gzip"}
    )
    assert answer.status_code == 400
    assert "cut off" in answer.json()["error"]
